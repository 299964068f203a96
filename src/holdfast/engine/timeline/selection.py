"""Which entries are meant, of all that a namespace holds.

All of some planes; or the files that match some paths, and what is named; less what is excepted.
Names are looked up, never read as patterns. How long that takes follows what there is to look at,
however much is named: a path takes one lookup for each folder above it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from holdfast.engine.core.globs import Globs
from holdfast.engine.core.paths import (
    PathLike,
    ancestors,
    to_bytes,
    to_folder,
    to_key,
    to_text,
)
from holdfast.errors import InvalidValue, shorten
from holdfast.model.basics import Plane
from holdfast.model.names import Name, check_names, from_b64
from holdfast.storekeys import to_store_key

MAX_PATTERNS: Final = 1000
MAX_PATTERN_BYTES: Final = 1 << 16
"""Among the paths of one selection: every file is held against all of them."""

MAX_NAMES: Final = 10_000
MAX_NAME_BYTES: Final = 1 << 20
"""Of names, and as much of exceptions: each is looked for in two maps before anything is done."""

KEPT: Final = 100
"""Names that a snapshot keeps of what a restore was limited to, of each kind."""

_MAGIC: Final = re.compile(rb"[*?\[]")

Selects = Callable[[bytes], bool]
_Keys = dict[Plane, set[bytes]]


@dataclass(frozen=True, slots=True)
class Selection:
    """What is chosen of a namespace."""

    parts: Mapping[Plane, Selects | None]
    """By plane: which keys, or None for all of them. A plane that is missing is not chosen."""
    named: Mapping[Plane, set[bytes]] = field(default_factory=_Keys)
    """Keys that somebody meant: each has to be there, on one side or the other."""
    sought: frozenset[bytes] = frozenset()
    """Paths and patterns of files: one of them at least has to be there, or to match."""
    is_literal: bool = False
    """Whether nothing but what is chosen may change, also if it is in the way."""
    detail: Mapping[str, object] = field(default_factory=dict[str, object])
    """What is kept of it with a snapshot."""

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return len(self.parts) == len(Plane) and not any(self.parts.values())

    def of(self, plane: Plane) -> "Selection":
        """Returns what of it is of one plane."""
        return replace(
            self,
            parts={on: part for on, part in self.parts.items() if on is plane},
            named={on: keys for on, keys in self.named.items() if on is plane},
            sought=self.sought if plane is Plane.FILES else frozenset(),
        )

    def on(self, plane: Plane) -> Selects:
        """Returns a test for the keys of a plane."""
        if plane not in self.parts:
            return lambda _key: False
        return self.parts[plane] or (lambda _key: True)


EVERYTHING: Final = Selection(dict.fromkeys(Plane))


def only(*planes: Plane) -> Selection:
    """Returns what is chosen by whole planes."""
    return Selection(dict.fromkeys(planes), detail={"planes": [plane.value for plane in planes]})


def only_files(keys: Iterable[bytes]) -> Selection:
    """Returns what is chosen by the keys of files, however many; they may be gone by now."""
    wanted = set(keys)
    named = [_told(Name.file(key)) for key in sorted(wanted)[:KEPT]]
    detail = {"names": named, "names_count": len(wanted)}
    return Selection({Plane.FILES: _within(wanted)}, detail=detail)


def select(
    *,
    planes: Sequence[Plane | str] | None = None,
    paths: Sequence[PathLike] | None = None,
    names: Sequence[Name] | None = None,
    except_: Sequence[Name] | None = None,
) -> Selection:
    """Returns what is chosen; raises `InvalidValue` for a choice that contradicts itself."""
    if planes is None and paths is None and names is None and except_ is None:
        return EVERYTHING
    wanted = to_planes(planes)
    if isinstance(paths, str):
        raise InvalidValue("paths is a list of paths, not one: each letter would be a path")
    if (paths is not None and not paths) or (names is not None and not names):
        raise InvalidValue("nothing is selected: name at least one plane, path or name")
    named, spared = _keys("names", names or ()), _keys("except_", except_ or ())
    chosen = set(wanted or Plane)
    if paths is not None or names is not None:
        chosen = {*named, *([Plane.FILES] if paths is not None else [])}
        if wanted is not None and set(wanted) != chosen:
            raise InvalidValue(
                "paths select files, and names what is on their plane: "
                "leave planes out, or name the same ones"
            )
    if not spared.keys() <= chosen:
        stray = ", ".join(plane for plane in Plane if plane in spared.keys() - chosen)
        raise InvalidValue(f"nothing of {stray} is chosen: there is nothing to except")
    return Selection(
        {
            plane: _part(
                plane,
                paths if plane is Plane.FILES else None,
                named.get(plane),
                spared.get(plane),
            )
            for plane in Plane
            if plane in chosen
        },
        named,
        sought=frozenset(map(to_folder, paths or ())),
        is_literal=bool(names or except_),
        detail=_detail(wanted, paths, names, except_),
    )


def to_planes(planes: Sequence[Plane | str] | None) -> tuple[Plane, ...] | None:
    """Returns the planes that are named, in their order; None if none are."""
    if planes is None:
        return None
    if not planes:
        raise InvalidValue("nothing is selected: name at least one plane")
    try:
        chosen = {Plane(plane) for plane in planes}
        return tuple(plane for plane in Plane if plane in chosen)
    except ValueError as exc:
        named = ", ".join(shorten(str(plane)) for plane in planes[:3])
        message = f"{named} is not a choice of planes: there are {', '.join(Plane)}"
        raise InvalidValue(message) from exc


def path_filter(paths: Sequence[PathLike]) -> Selects:
    """Returns a test for keys: equal to a path, below it, or matching it as a glob.

    Raises `InvalidValue` for more patterns than are held against every file in bounded time; the
    test raises it when that took too much in all.
    """
    patterns, size = set[bytes](), 0
    for raw in map(to_bytes, paths):
        if is_pattern(raw) and raw not in patterns:
            patterns.add(raw)
            size += len(raw)
            if len(patterns) > MAX_PATTERNS or size > MAX_PATTERN_BYTES:
                # Before anything is asked of the others.
                most = f"{MAX_PATTERNS} with {MAX_PATTERN_BYTES} bytes at the most"
                raise InvalidValue(f"too many patterns to hold every file against: {most}")
    # Also where it looks like a pattern: `[id].tsx` is a file that somebody may mean.
    names = {to_folder(path) for path in paths}
    if b"" in names:
        return lambda _name: True
    within = _within(names)
    if not patterns:
        return within
    matches = Globs(sorted(filter(is_pattern, names)))
    return lambda key: within(key) or matches(key)


def is_pattern(name: bytes) -> bool:
    """Says whether a path may match others than itself, and what is below it."""
    return _MAGIC.search(name) is not None


def key_of(name: Name) -> tuple[Plane, bytes]:
    """Returns the plane and the key that a name means; raises for one that means nothing."""
    try:
        plane = Plane(name.plane)
    except ValueError as exc:
        message = f"{shorten(str(name.plane))} is not a plane: there are {', '.join(Plane)}"
        raise InvalidValue(message) from exc
    if plane is Plane.STORE:
        return plane, to_store_key(*_place(name))
    if name.namespace is not None or name.key is not None:
        raise InvalidValue(f"namespace and key are for the store, not for {plane}")
    if plane is Plane.FILES:
        path = _path(name)
        return plane, to_key(path[:-1] if path.endswith(b"/") else path)
    if not name.name or name.name_b64 is not None:
        kind = "a session" if plane is Plane.SESSIONS else "a memory"
        raise InvalidValue(f"{kind} is named by its id")
    return plane, to_bytes(name.name)


def _path(name: Name) -> bytes:
    return to_bytes(name.name or "" if name.name_b64 is None else from_b64(name.name_b64))


def _place(name: Name) -> tuple[str, str]:
    """Returns the namespace and the key of a value of the store."""
    if name.name_b64 is not None or (name.namespace is None) is not (name.key is None):
        raise InvalidValue("a value of the store is named by its namespace and its key")
    if name.namespace is not None and name.key is not None:
        if name.name not in (None, f"{name.namespace}/{name.key}"):
            raise InvalidValue("a value of the store has a name that is not its namespace and key")
        return name.namespace, name.key
    namespace, slash, key = (name.name or "").partition("/")
    if not slash or "/" in key:
        # Of several slashes, any may be the one between the two: it could be another value.
        message = f"{shorten(name.name or '')} does not say which value of the store is meant"
        raise InvalidValue(f"{message}: name its namespace and its key")
    return namespace, key


def _keys(kind: str, names: Sequence[Name]) -> _Keys:
    """Returns the keys of names, by plane; raises `InvalidValue` for more than are looked up."""
    found: _Keys = {}
    size = 0
    for number, name in enumerate(check_names(kind, names), start=1):
        plane, key = key_of(name)
        found.setdefault(plane, set()).add(key)
        size += len(key)
        if number > MAX_NAMES or size > MAX_NAME_BYTES:
            message = f"{kind} has more than {MAX_NAMES} names or {MAX_NAME_BYTES} bytes"
            raise InvalidValue(f"{message}: name the folders that they are in, or whole planes")
    return found


def _part(
    plane: Plane,
    paths: Sequence[PathLike] | None,
    named: set[bytes] | None,
    spared: set[bytes] | None,
) -> Selects | None:
    """Returns a test for what is chosen of a plane; None for all of it."""

    def test(keys: set[bytes]) -> Selects:
        return _within(keys) if plane is Plane.FILES else keys.__contains__

    tests = [path_filter(paths)] if paths is not None else []
    tests += [test(named)] if named is not None else []
    if spared is None:
        return _any(tests) if tests else None
    excepted, chosen = test(spared), _any(tests)
    return lambda key: not excepted(key) and (not tests or chosen(key))


def _any(tests: Sequence[Selects]) -> Selects:
    return tests[0] if len(tests) == 1 else lambda key: any(test(key) for test in tests)


def _within(names: set[bytes]) -> Selects:
    """Returns a test for paths: one of these, or below one."""
    lengths = sorted({len(name) for name in names})

    def selects(key: bytes) -> bool:
        if key in names:
            return True
        # A path may have thousands of folders above it, and there may be thousands of lengths.
        if len(lengths) < key.count(b"/"):
            return any(key[end : end + 1] == b"/" and key[:end] in names for end in lengths)
        return any(folder in names for folder in ancestors(key))

    return selects


def _detail(
    planes: Sequence[Plane] | None,
    paths: Sequence[PathLike] | None,
    names: Sequence[Name] | None,
    except_: Sequence[Name] | None,
) -> dict[str, object]:
    detail: dict[str, object] = {}
    if planes is not None:
        detail["planes"] = [plane.value for plane in planes]
    if paths is not None:
        detail["paths"] = [to_text(to_bytes(path)) for path in paths]
    for kind, given in (("names", names), ("except", except_)):
        if given:
            detail[kind] = [_told(name) for name in given[:KEPT]]
            detail[f"{kind}_count"] = len(given)
    return detail


def _told(name: Name) -> dict[str, str]:
    """Returns a name as it is kept: plain JSON."""
    told: dict[str, str] = msgspec.to_builtins(name)
    return told

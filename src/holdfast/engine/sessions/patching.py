"""What leads from one JSON value to another, as JSON Patch (RFC 6902) and as text.

Whoever wrote the values chooses how much differs: it is the work that is bounded. Where a list or
an object takes more operations than that, or the work comes to its bound, it is replaced as a
whole. Such a patch is coarse, and still leads from one value to the other; its text says so.
"""

import time
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, cast

import msgspec

Operation = dict[str, Any]
Patch = list[Operation]

MOST: Final = 10_000
"""Operations of one list or object, with all that is in it: half a megabyte of them."""

DEEPEST: Final = 24
"""How deep parts are compared: at each level, all that is below it is looked at once more."""

SECONDS: Final = 0.5
"""Of processor time: how long they are, where values that are made to be slow take longer."""

TEXT_BYTES: Final = 1 << 20
VALUE_BYTES: Final = 64 << 10
"""What the text shows of all changes, and of one value: it is for people."""

_TOO_DIFFERENT: Final = "Too different to compare part by part: some of it is replaced as a whole"


class Patched(NamedTuple):
    """The operations that turn one value into another, and whether some replace too much."""

    patch: Patch
    is_coarse: bool


def make_patch(old: Any, new: Any) -> Patched:
    """Returns the operations that turn one value into the other."""
    return _Comparison().patch(old, new)


def to_text(old: dict[str, Any], patched: Patched) -> str:
    """Returns a patch for people: a line for each thing that went, came or changed."""
    lines, size = [_TOO_DIFFERENT] if patched.is_coarse else [], 0
    for number, operation in enumerate(patched.patch):
        path, value = operation["path"], operation.get("value")
        if operation["op"] != "add":
            lines.append(f"- {path}: {_shown(_find(old, path))}")
            size += len(lines[-1])
        if operation["op"] != "remove":
            lines.append(f"+ {path}: {_shown(value)}")
            size += len(lines[-1])
        if size > TEXT_BYTES and number + 1 < len(patched.patch):
            lines.append(f"… and {len(patched.patch) - number - 1} more changes")
            break
    return "\n".join(lines)


class _Comparison:
    """Compares two values within a budget."""

    def __init__(self) -> None:
        self._stop = time.thread_time() + SECONDS
        self._is_coarse = False

    def patch(self, old: Any, new: Any) -> Patched:
        patch = [] if _is_equal(old, new) else self._between(old, new, "", 0)
        return Patched(patch, self._is_coarse)

    def _between(self, old: Any, new: Any, at: str, depth: int) -> Patch:
        """Returns what turns a value into another that is not equal to it."""
        whole: Patch = [{"op": "replace", "path": at, "value": new}]
        if isinstance(old, dict) and isinstance(new, dict):
            steps = self._in_object(cast("dict[str, Any]", old), cast("dict[str, Any]", new), at)
        elif isinstance(old, list) and isinstance(new, list):
            steps = self._in_list(cast("list[Any]", old), cast("list[Any]", new), at)
        else:
            return whole
        patch = list[Operation]()
        for step in steps:
            if len(patch) >= MOST or depth > DEEPEST or time.thread_time() > self._stop:
                self._is_coarse = True
                return whole
            patch += self._between(*step, depth + 1) if isinstance(step, tuple) else [step]
        return patch

    @staticmethod
    def _in_object(old: dict[str, Any], new: dict[str, Any], at: str) -> "_Steps":
        """Yields operations, and pairs of values with a place where they differ."""
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{at}/{_escape(key)}"}
        for key, value in new.items():
            where = f"{at}/{_escape(key)}"
            if key not in old:
                yield {"op": "add", "path": where, "value": value}
            elif not _is_equal(old[key], value):
                yield old[key], value, where

    @staticmethod
    def _in_list(old: list[Any], new: list[Any], at: str) -> "_Steps":
        """Compares from both ends: what lies between was replaced, and the rest came or went."""
        start, shorter = 0, min(len(old), len(new))
        while start < shorter and _is_equal(old[start], new[start]):
            start += 1
        end = 0
        while end < shorter - start and _is_equal(old[-1 - end], new[-1 - end]):
            end += 1
        old_stop, new_stop = len(old) - end, len(new) - end
        common = min(old_stop, new_stop)
        for index in range(start, common):
            if not _is_equal(old[index], new[index]):
                yield old[index], new[index], f"{at}/{index}"
        # From the back, so that the numbers of those before stay true.
        for index in range(old_stop - 1, common - 1, -1):
            yield {"op": "remove", "path": f"{at}/{index}"}
        for index in range(common, new_stop):
            yield {"op": "add", "path": f"{at}/{index}", "value": new[index]}


_Steps = Iterable[Operation | tuple[Any, Any, str]]


def _is_equal(old: Any, new: Any) -> bool:
    # Python takes True for 1 and 1 for 1.0, JSON does not.
    return old == new and msgspec.json.encode(old, order="sorted") == msgspec.json.encode(
        new, order="sorted"
    )


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _find(value: Any, path: str) -> Any:
    for step in path.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        value = _part(value, key)
    return value


def _part(value: Any, key: str) -> Any:
    return value[key if isinstance(value, dict) else int(key)]


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value)
    if len(text) <= VALUE_BYTES:
        return text.decode()
    return f"{text[:VALUE_BYTES].decode(errors='ignore')}… ({len(text)} bytes)"

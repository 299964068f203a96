"""Writes values of the store: some put, some deleted, in one transaction, if all is as expected.

What is expected is looked at with the head locked, in the transaction that writes: nobody comes
between. A value is expected by its tag, which names its bytes, so that whoever has read one and
changed it overwrites nothing that others have put meanwhile.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.engine.core.decoding import check_packed
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.alone import put_alone
from holdfast.engine.pending.inrow import has_room, most_in_row, most_in_rows
from holdfast.engine.pending.writing import Rows, change, change_rows
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.storevalues import called, entry_of, value_of
from holdfast.engine.planes.view import View
from holdfast.entries import Inline, encode_entry
from holdfast.errors import InvalidValue, NotAsExpected, TooLarge, shorten
from holdfast.model.basics import Plane, Size
from holdfast.model.values import ABSENT, StoreValue
from holdfast.operations.store import BatchValues, Writing
from holdfast.store.codec import checked
from holdfast.store.core import encode
from holdfast.storekeys import encode_text, namespace_start, range_of, to_store_key

DIGITS: Final = 16
"""Of the numbers that values are appended under: 10^16 is more than any list holds."""


@dataclass(slots=True)
class Draft:
    """What is to be written, by the keys of the map."""

    put: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Values as msgpack."""
    delete: Collection[bytes] = ()
    expected: Mapping[bytes, str] = field(default_factory=dict[bytes, str])
    keep: bool = False
    """Whether a value that is there stays as it is."""
    tags: Mapping[bytes, str] = field(default_factory=dict[bytes, str])
    """Of what is put, where somebody asks for them."""
    added: int = 0
    gone: int = 0
    """Once it is written: how many were put and stay, and how many were deleted."""

    @property
    def is_plain(self) -> bool:
        """Whether it does not matter what is there."""
        return not (self.delete or self.expected or self.keep)

    def tag(self, asked: Sequence[bytes]) -> bool:
        """Notes the tags of values that are put and asked for; says whether all of them are.

        They are what is there then: nobody has to look.
        """
        if self.keep or not all(
            key in self.put
            and len(self.put[key]) <= content.PENDING_BYTES
            and key not in self.delete
            for key in asked
        ):
            return False
        self.tags = {key: content.tag_of(Inline(self.put[key]), content.VALUES) for key in asked}
        return True

    def rows(self, view: View, entries: Mapping[bytes, bytes]) -> Rows:
        """Returns what is to be written over what is there; raises `NotAsExpected`."""
        if self.is_plain:
            self.added = len(entries)
            view.tags |= self.tags
            return entries
        asked = {*self.delete, *self.expected, *(entries if self.keep else ())}
        found = view.get_many(list(asked))
        check_expected(self.expected, found)
        rows: dict[bytes, bytes | None] = {
            key: entry for key, entry in entries.items() if not (self.keep and key in found)
        }
        self.added = len(rows)
        self.gone = sum(key in found or key in rows for key in self.delete)
        for key in self.delete:
            rows.pop(key, None)
            if key in found:
                rows[key] = None
        view.tags = {key: tag for key, tag in self.expected.items() if key not in rows}
        view.tags |= self.tags
        return rows


def check_expected(expected: Mapping[bytes, str], found: Mapping[bytes, bytes]) -> None:
    """Raises `NotAsExpected` for the first key under which is something else."""
    for key, tag in expected.items():
        actual = content.tag_of(entry_of(found[key]), content.VALUES) if key in found else ABSENT
        if actual != tag:
            raise NotAsExpected(called(key), expected=tag, actual=actual)


def drafted(
    handle: Handle,
    wanted: Writing | BatchValues,
    *,
    values: Iterable[tuple[str, str, Any]] = (),
    packed: Iterable[tuple[str, str, bytes | None]] = (),
) -> Draft:
    """Returns a draft of what somebody wants to be written; raises `Unencodable`."""
    put = {to_store_key(namespace, key): encode(value) for namespace, key, value in values}
    delete = {to_store_key(namespace, key) for namespace, key in wanted.delete or ()}
    for namespace, key, data in packed:
        name = to_store_key(namespace, key)
        if data is None:
            delete.add(name)
        else:
            put[name] = to_data(handle, data)
    expected = dict[bytes, str]()
    for namespace, key, tag in wanted.expected or ():
        if not isinstance(tag, str):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
            raise InvalidValue(f"expected is a tag, or {ABSENT!r}")
        expected[to_store_key(namespace, key)] = tag
    return Draft(put, delete, expected, wanted.keep)


def to_data(handle: Handle, data: object) -> bytes:
    """Returns the msgpack of a value as it was given; raises `Unencodable` for what is none."""
    if not isinstance(data, bytes):
        raise InvalidValue(f"a value that is put is msgpack, as bytes, not {type(data).__name__}")
    check_packed(handle.context.limits, data, what="the value")
    return checked(data)


def write(handle: Handle, draft: Draft) -> None:
    """Writes all of a draft, or nothing of it."""
    if not (draft.put or draft.delete or draft.expected):
        return
    if len(draft.put) == 1 and not draft.delete and _put_alone(handle, draft):
        draft.added = 1
        return
    keys, is_looked_at = list(draft.put), [False]

    def compute(view: View, entries: Sequence[bytes]) -> Rows:
        is_looked_at[0] = True
        return draft.rows(view, dict(zip(keys, entries, strict=True)))

    _put(handle, [*draft.put.values()], compute, over=keys if draft.is_plain else None)
    if not is_looked_at[0]:  # There is no such namespace, and nothing was to be put.
        check_expected(draft.expected, {})


def _put_alone(handle: Handle, draft: Draft) -> bool:
    """Puts a single value, where nobody else has written; says whether."""
    ((key, data),), limits = draft.put.items(), handle.context.limits
    size = len(data)
    if size > min(content.PENDING_BYTES, limits.inline_bytes, limits.value_bytes):
        return False

    def check(view: View) -> None:
        check_expected(draft.expected, view.get_many([*draft.expected]))

    return put_alone(
        handle,
        Plane.STORE,
        (key, encode_entry(Inline(data))),
        size=size,
        keep=draft.keep,
        most=most_in_rows(size),
        expected=draft.expected,
        check=check,
        tags=draft.tags,
    )


def append(handle: Handle, namespace: str, prefix: str, values: Iterable[Any]) -> list[str]:
    """Puts values under the numbers behind the greatest one; returns their keys."""
    packed, keys = [encode(value) for value in values], list[str]()
    to_store_key(namespace, f"{prefix}{0:0{DIGITS}}")  # One that is too long is refused.

    def compute(view: View, entries: Sequence[bytes]) -> Rows:
        first = _next_number(view, namespace, prefix)
        if first + len(entries) > 10**DIGITS:
            raise InvalidValue("no number is left in this list: append behind another prefix")
        keys[:] = [f"{prefix}{first + at:0{DIGITS}}" for at in range(len(entries))]
        return {to_store_key(namespace, key): each for key, each in zip(keys, entries, strict=True)}

    if packed:
        _put(handle, packed, compute, over=())
    return keys


def _next_number(view: View, namespace: str, prefix: str) -> int:
    """Returns the number behind the greatest one that a value has."""
    own = namespace_start(namespace)
    start = own + encode_text(prefix)
    # Of what begins with the prefix, what goes on with a digit: the byte after `9` is `:`.
    found = next(view.iterate_down(start + b"0", start + b":"), None)
    if found is None:
        return 0
    digits = found[0][len(start) :]
    if len(digits) != DIGITS or not digits.isdigit():
        name = shorten(found[0][len(own) :])
        raise InvalidValue(f"{name} is no key of a list: append behind another prefix")
    return int(digits) + 1


def pop(handle: Handle, namespace: str, prefix: str) -> StoreValue | None:
    """Takes out the value with the greatest key that begins with the prefix, if there is one."""
    own, popped = namespace_start(namespace), list[StoreValue]()
    start, stop = range_of(own, prefix)

    def compute(view: View) -> Rows:
        popped.clear()
        found = next(view.iterate_down(start, stop), None)
        if found is None:
            return {}
        value, name = value_of(view.objects, *found), found[0][len(own) :].decode()
        popped.append(StoreValue(namespace=namespace, key=name, value=value))
        return {found[0]: None}

    change_rows(handle, Plane.STORE, compute, creates=False)
    return popped[0] if popped else None


def delete_under(handle: Handle, namespace: str, prefix: str | None) -> int:
    """Deletes the keys that begin with a prefix; returns how many there were."""
    (start, stop), gone = range_of(namespace_start(namespace), prefix), [0]

    def compute(view: View) -> Rows:
        rows = dict.fromkeys(key for key, _ in view.iterate(start, stop))
        gone[0] = len(rows)
        return rows

    change_rows(handle, Plane.STORE, compute, creates=False)
    return gone[0]


def _put(
    handle: Handle,
    packed: Sequence[bytes],
    compute: Callable[[View, Sequence[bytes]], Rows],
    *,
    over: Collection[bytes] | None,
) -> None:
    """Stages values, and writes the rows that `compute` returns for their entries.

    All of them, over whatever is under the keys of `over`; None if it depends on what is there.
    """
    sizes, limits = [*map(len, packed)], handle.context.limits
    largest = max(sizes, default=0)
    held = None if over is None else Size(len(packed), sum(sizes))
    if largest > limits.value_bytes:
        message = f"a value may have {limits.value_bytes} bytes; this one has {largest}"
        raise TooLarge(message)
    if largest <= content.INLINE_BYTES:
        # No objects, so nothing to stage: 5 µs of 85, but for the disk.
        small, creates = [encode_entry(Inline(data)) for data in packed], bool(packed)
        change_rows(
            handle,
            Plane.STORE,
            lambda view: compute(view, small),
            held=held,
            over=over or (),
            creates=creates,
        )
        return
    most = most_in_row(handle, sizes)

    def prepare(stage: Stage) -> Callable[[View], Rows]:
        staged = [
            encode_entry(content.as_value(stage, data)) if len(data) > most else None
            for data in packed
        ]

        def run(view: View) -> Rows:
            entries = [
                entry
                or encode_entry(
                    Inline(data) if has_room(view, len(data)) else content.as_value(stage, data)
                )
                for entry, data in zip(staged, packed, strict=True)
            ]
            return compute(view, entries)

        return run

    change(handle, Plane.STORE, prepare, held=held, over=over or ())

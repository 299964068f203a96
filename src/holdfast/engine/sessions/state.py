"""A session's state: a JSON object, stored so that a version costs what is new in it.

While it is short, all of it is kept in one piece. A longer one is a map from its top-level keys
to their JSON text, and a change touches the keys that it names: two versions share the rest. Text
above a few KB is cut where its content says, so that a list that grows is stored by its end.
Small changes of a long state are laid over its map until there are enough of them: see
`planes/overlays.py`. In the plane, equal states have equal entries, whatever was done to get there.

Values are JSON text, which comes back as it was given: see `jsontext.py`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, cast

import msgspec
from msgspec import Raw

from holdfast.engine.core.decoding import check_texts
from holdfast.engine.core.limits import Limits
from holdfast.engine.objects import content
from holdfast.engine.objects.content import ChunkSource
from holdfast.engine.objects.packing import decode_state, packed
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.overlays import StateSource, lay, needs_below, texts
from holdfast.entries import (
    INLINE_TAG,
    PACKED_TAG,
    Blob,
    Inline,
    Overlay,
    Submap,
    decode_entry,
    encode_entry,
    tag_of,
    unpack_refs,
)
from holdfast.errors import Damaged, InvalidValue, TooLarge, Unencodable
from holdfast.ids import ObjectId
from holdfast.jsontext import to_json
from holdfast.tree import apply, build, decode_node, iterate

SHORT_BYTES: Final = 2048
"""Up to here a state is kept in one piece: a map of it would cost more than it saves."""

MAX_KEY_BYTES: Final = 4095

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_raw_parts: Final = msgspec.json.Decoder(dict[str, Raw]).decode

_LONG_BYTES: Final = 1 << 20
"""Text above this is made when it is asked for: until then it would be in memory twice."""

_KEY_BYTES: Final = 300
"""What a key of a known state takes in memory, beside its text and its value."""

_SHORT: Final = frozenset({INLINE_TAG, PACKED_TAG})
"""The tags of states in one piece."""

Parts = Mapping[str, bytes]
"""The JSON text of each top-level key."""


def to_parts(state: object) -> dict[str, bytes]:
    """Returns the text of each key; raises `InvalidValue` or `Unencodable`."""
    if not isinstance(state, dict):
        message = f"a session's state is an object with keys, not {type(state).__name__!r}"
        raise InvalidValue(message)
    given = cast("dict[object, object]", state)
    return {_checked_key(key): to_json(value, place=f"[{key!r}]") for key, value in given.items()}


def check_keys(parts: Parts) -> None:
    """Raises `InvalidValue` or `Unencodable` for a key that no state can have."""
    for key in parts:
        _checked_key(key)


def is_same(limits: Limits, one: Parts, other: Parts) -> bool:
    """Says whether two states are equal; raises `TooLarge` if that would take too long."""
    if one.keys() != other.keys():
        return False
    differing = [key for key in one if one[key] != other[key]]
    # Equal values have one text, but for the order of keys: the length is the same.
    if any(len(one[key]) != len(other[key]) for key in differing):
        return False
    for parts in (one, other):
        check_texts(limits, [parts[key] for key in differing], what="the session's state")
    return all(_canonical(one[key]) == _canonical(other[key]) for key in differing)


def _canonical(text: bytes) -> bytes:
    """Returns text that is equal for equal values: 1 is not 1.0."""
    return msgspec.json.encode(_decode(text), order="sorted")


class StoredState(msgspec.Struct, frozen=True):
    """A state's entry and the length of its text."""

    entry: bytes
    bytes: int


class CachedState(msgspec.Struct, frozen=True):
    """A state in memory, for whoever asks next: named by its entry, it can never be stale.

    Text, numbers, truth values and null cannot be changed by whoever gets them, and are handed
    out as they are: a thousand texts are copied in 10 µs, and take 500 to be decoded. Lists and
    objects are decoded anew for everybody.
    """

    parts: dict[str, bytes] = {}
    plain: dict[str, Any] = {}
    """The values by key, with None for those of `deep`."""
    deep: frozenset[str] = frozenset()
    """The keys of lists and objects, and of very long text."""
    text_bytes: int = 0
    """Of all parts."""

    @property
    def size(self) -> int:
        """About the bytes that it takes in memory."""
        return 2 * self.text_bytes + _KEY_BYTES * len(self.parts)

    def with_changes(self, changes: Parts) -> Self:
        """Returns the state with some keys replaced or added, and its keys in order."""
        parts, plain = {**self.parts, **changes}, dict(self.plain)
        deep, text_bytes = set(self.deep.difference(changes)), self.text_bytes
        for key, text in changes.items():
            text_bytes += len(text) - len(self.parts.get(key, b""))
            if text.startswith((b"{", b"[")) or len(text) > _LONG_BYTES:
                deep.add(key)
                plain[key] = None
            else:
                plain[key] = _decode(text)
        if len(parts) > len(self.parts):
            parts, plain = dict(sorted(parts.items())), dict(sorted(plain.items()))
        return type(self)(parts, plain, frozenset(deep), text_bytes)

    def to_state(self) -> dict[str, Any]:
        """Returns the state, for somebody who may change it."""
        state = self.plain.copy()
        for key in self.deep:
            state[key] = _decode(self.parts[key])
        return state

    def to_texts(self) -> dict[str, Any]:
        """Returns the state with the text of each key, for somebody who sends it on."""
        return {key: Raw(text) for key, text in self.parts.items()}


def stage_ahead(stage: Stage, parts: Parts, *, limits: Limits) -> None:
    """Puts the text of a large state on disk, before the transaction that will name it begins.

    In there it could only become a pack inside the catalog, and large ones are slow to read.
    """
    size = sum(map(len, parts.values()))
    _check_size(size, limits.state_bytes)
    if size > limits.inline_bytes:
        _rows(stage, parts)
        stage.seal()


def store(stage: Stage, parts: Parts, *, max_bytes: int) -> StoredState:
    """Stages a whole state."""
    text = joined(parts)
    _check_size(len(text), max_bytes)
    if len(text) <= SHORT_BYTES:
        return StoredState(encode_entry(Inline(text)), len(text))
    rows = sorted(_rows(stage, parts).items())
    built = build(rows)
    stage.add_nodes(built.nodes)
    return StoredState(encode_entry(Submap(built.root, len(rows))), len(text))


def merge(
    handle: Handle,
    stage: Stage,
    look: Callable[[], StagedObjects],
    old: StoredState,
    changes: Parts,
    *,
    max_bytes: int,
) -> StoredState:
    """Stages a state with some keys replaced or added.

    `look` returns the objects that there are; of a state that is in memory nobody asks for them.
    """
    if not changes:
        return old
    if tag_of(old.entry) in _SHORT:
        return _merge_short(handle, stage, look, old.entry, changes, max_bytes=max_bytes)
    entry = decode_state(old.entry)
    if isinstance(entry, Inline):
        raise Damaged("a session's state is of no known form")
    source = look()
    before, size = recall(handle, source, old.entry), old.bytes
    for key, text in changes.items():
        known = before.parts.get(key)
        # Quotes and colon of a key and the comma before it come with its first value.
        size += len(text) - (-len(_shown_key(key)) - 2 if known is None else len(known))
    _check_size(size, max_bytes)
    after = before.with_changes(changes)
    if size <= SHORT_BYTES:
        return store(stage, after.parts, max_bytes=max_bytes)
    below: Parts = {}
    if needs_below(changes):
        below = before.parts if isinstance(entry, Submap) else _below(handle, source, entry).parts
    over = lay(entry, changes, below=below, size=size)
    if over is None:
        changed = {*changes, *entry.changes} if isinstance(entry, Overlay) else {*changes}
        parts = {key: after.parts[key] for key in sorted(changed)}
        made = _apply(handle, stage, source, ObjectId(entry.root), parts)
    else:
        made = over
    stored = StoredState(encode_entry(made), size)
    _keep(handle, stored.entry, after)
    return stored


def _merge_short(
    handle: Handle,
    stage: Stage,
    look: Callable[[], StagedObjects],
    old: bytes,
    changes: Parts,
    *,
    max_bytes: int,
) -> StoredState:
    before = _known(handle, old) or recall(handle, look(), old)
    after = before.with_changes(changes)
    text = joined(after.parts)
    if len(text) > min(SHORT_BYTES, max_bytes):
        return store(stage, after.parts, max_bytes=max_bytes)
    stored = StoredState(packed(encode_entry(Inline(text))), len(text))
    if tag_of(stored.entry) == PACKED_TAG:
        _keep(handle, stored.entry, after)
    return stored


def _apply(
    handle: Handle, stage: Stage, source: StagedObjects, root: ObjectId, parts: Parts
) -> Submap:
    """Stages a map with some keys replaced or added."""
    applied = apply(source, root, _rows(stage, parts))
    stage.add_nodes(applied.nodes)
    # What was made is what the next change reads: from memory, if it comes soon.
    for object_id, data in applied.nodes.items():
        node = decode_node(data)
        handle.context.nodes.put((handle.tenant_id, object_id), node, size=3 * len(data))
    return Submap(applied.root, applied.count)


def keep(handle: Handle, stored: StoredState, parts: Parts) -> None:
    """Remembers a state that was stored, for whoever reads it next."""
    if tag_of(stored.entry) != INLINE_TAG:
        _keep(handle, stored.entry, CachedState().with_changes(parts))


def read(source: StateSource, entry: bytes) -> dict[str, Any]:
    """Returns the state that an entry stands for."""
    found = decode_state(entry)
    return _decode(found.data if isinstance(found, Inline) else joined(read_parts(source, entry)))


def show(handle: Handle, entry: bytes, source: StateSource | None = None) -> dict[str, Any]:
    """Returns the state that an entry stands for: from memory, if it was used lately."""
    known = _known(handle, entry)
    if known is None:
        if tag_of(entry) == INLINE_TAG and isinstance(found := decode_state(entry), Inline):
            return _decode(found.data)
        known = recall(handle, source or handle.objects, entry)
    return _handed(handle, known)()


def show_given(handle: Handle, text: Raw) -> dict[str, Any]:
    """Returns the state that a text says."""
    return dict(_raw_parts(text)) if handle.context.hands_texts else _decode(text)


def weigh(handle: Handle, entry: bytes) -> dict[str, Any]:
    """Returns the state that an entry stands for, to compute with; raises `TooLarge`."""
    known = recall(handle, handle.objects, entry)
    check_texts(handle.context.limits, known.parts.values(), what="the session's state")
    return known.to_state()


def later(handle: Handle, entry: bytes) -> Callable[[], dict[str, Any]]:
    """Returns what shows the state that an entry stands for; nothing is read before it does."""
    if tag_of(entry) == INLINE_TAG:
        return partial(show, handle, entry)
    known = _known(handle, entry)
    return partial(show, handle, entry) if known is None else _handed(handle, known)


def _handed(handle: Handle, known: CachedState) -> Callable[[], dict[str, Any]]:
    return known.to_texts if handle.context.hands_texts else known.to_state


def recall(handle: Handle, source: StateSource, entry: bytes) -> CachedState:
    """Returns what is kept of a state in memory, having read it if need be."""
    known = _known(handle, entry)
    if known is None:
        found = decode_state(entry)
        if isinstance(found, Inline):
            known = CachedState().with_changes(_short_parts(found))
            if tag_of(entry) == INLINE_TAG:
                return known  # taken apart sooner than found again
        elif isinstance(found, Overlay):
            below = _below(handle, source, found)
            known = below.with_changes(texts(found, below.parts))
        else:
            known = CachedState().with_changes(read_parts(source, entry))
        _keep(handle, entry, known)
    return known


def recall_parts(handle: Handle, source: StateSource, entry: bytes) -> Parts:
    """Returns the text of each key: from memory, if the state was used lately."""
    return recall(handle, source, entry).parts


def read_parts(source: StateSource, entry: bytes) -> dict[str, bytes]:
    """Returns the text of each key of the state that an entry stands for."""
    found = decode_state(entry)
    if isinstance(found, Inline):
        return _short_parts(found)
    values = {k.decode(): decode_entry(v) for k, v in iterate(source, ObjectId(found.root))}
    chunks = _Fetched(source, values.values())
    parts = {key: _text_of(chunks, value) for key, value in values.items()}
    return {**parts, **texts(found, parts)} if isinstance(found, Overlay) else parts


def _known(handle: Handle, entry: bytes) -> CachedState | None:
    return handle.context.states.find((handle.tenant_id, entry))


def _below(handle: Handle, source: StateSource, overlay: Overlay) -> CachedState:
    return recall(handle, source, encode_entry(overlay.below))


def _keep(handle: Handle, entry: bytes, known: CachedState) -> None:
    handle.context.states.put((handle.tenant_id, entry), known, size=known.size)


def _rows(stage: Stage, parts: Parts) -> dict[bytes, bytes]:
    return {key.encode(): encode_entry(content.as_value(stage, parts[key])) for key in parts}


class _Fetched:
    """Chunks that were read together: one by one, a thousand keys take ten times as long."""

    def __init__(self, source: StateSource, values: Iterable[object]) -> None:
        blobs = [value for value in values if isinstance(value, Blob) and not value.depth]
        ids = dict.fromkeys(ref[0] for blob in blobs for ref in unpack_refs(blob.refs))
        self._source = source
        self._found = source.get_many(list(ids)) if ids else dict[ObjectId, bytes]()

    def get_many(self, object_ids: Sequence[ObjectId]) -> Mapping[ObjectId, bytes]:
        if all(object_id in self._found for object_id in object_ids):
            return self._found
        return self._source.get_many(object_ids)


def _text_of(source: ChunkSource, value: object) -> bytes:
    if isinstance(value, Inline | Blob):
        return content.read(source, value)
    raise Damaged("a part of a session's state is not text")


def _short_parts(entry: Inline) -> dict[str, bytes]:
    return {key: bytes(text) for key, text in _raw_parts(entry.data).items()}


def joined(parts: Parts) -> bytes:
    """Returns the text of a whole state: its keys in order."""
    return _encode({key: Raw(parts[key]) for key in sorted(parts)})


def _shown_key(key: str) -> bytes:
    return msgspec.json.encode(key)


def _checked_key(key: object) -> str:
    if not isinstance(key, str):
        message = f"a key of a session's state is text, not {type(key).__name__!r}"
        raise Unencodable(message)
    try:
        encoded = key.encode()
    except UnicodeEncodeError as exc:
        raise Unencodable("a key of a session's state holds half a character") from exc
    if len(encoded) > MAX_KEY_BYTES:
        message = (
            f"a key of a session's state has {len(encoded)} bytes, {MAX_KEY_BYTES} is the most"
        )
        raise InvalidValue(message)
    return str.__str__(key)


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        message = f"a session's state may have {max_bytes} bytes; this one has {size}"
        raise TooLarge(message)

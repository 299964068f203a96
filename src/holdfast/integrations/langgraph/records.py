"""How checkpoints lie in the store: a thread is a namespace of it, and its keys sort by age.

    c NS ID SPACE                a checkpoint: metadata, small values, names of large ones
    c NS ID SPACE wTASK          what a task wrote on it
    c NS ID SPACE wTASK SPACE -3 a special write of a task, which may be replaced
    v NAME                       a large value, or a part of one, by the hash of its bytes
    pruning                      somebody is deleting, see `writing`
    putting SIGN                 somebody is putting more than goes in one transaction, see there

So a checkpoint and its writes lie side by side, the newest last: one read from the end finds both.
Parts are escaped, so that no name can reach into another one's place. A large value is stored once
however many checkpoints have it, and a checkpoint that stands there has all of its values.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import unquote

import msgspec
import zstandard
from blake3 import blake3
from langgraph.checkpoint.base import WRITES_IDX_MAP

from holdfast.errors import Damaged, shorten

FORMAT: Final = 1

MSGPACK: Final = "msgpack"
"""What a serializer calls what it has packed, and not pickled."""

LARGE_BYTES: Final = 12 << 10
"""A value of more bytes lies beside its checkpoint: what is left of that stays below the 16 KiB up
to which a value of the store is not cut."""

PRESSED_BYTES: Final = 96 << 10
"""A value of up to so many bytes is compressed first, and stays with its checkpoint if that makes
it small enough: a hundred messages are a row then, and need not be cut."""

PIECE_BYTES: Final = 8 << 20
"""What is larger is in several pieces: a server takes 32 MiB of a request, in base64."""

LONG: Final = 64
SEGMENT: Final = 32
"""A list of at least so many items is kept in segments, but for its end: that stays with its
checkpoint. A conversation grows there, and of what came before nothing is put again."""

SHORT: Final = 256
"""Characters of a text that is kept with the checkpoint itself, as numbers are."""

CHECKPOINTS: Final = "c "
VALUES: Final = "v "
PRUNING: Final = "pruning"
PUTTING: Final = "putting "

_WRITES: Final = "w"
_BEHIND: Final = "!"
"""Comes right behind the space that ends a part."""

_ESCAPES: Final = {code: f"%{code:02X}" for code in (*range(33), ord("%"))}

Typed = tuple[str, bytes]
"""A value as a serializer has made it: of which kind, and the bytes."""


class Serializer(Protocol):
    """What turns values into bytes, as LangGraph has it."""

    def dumps_typed(self, obj: Any) -> Typed:
        """Returns a value as bytes, and their kind."""
        ...

    def loads_typed(self, data: Typed) -> Any:
        """Returns the value of such bytes."""
        ...


class Part(NamedTuple):
    """Bytes that lie beside their checkpoint."""

    name: str
    size: int
    """Of what the serializer has made."""


class Large(NamedTuple):
    """A value that lies beside its checkpoint."""

    version: str | int | float | None
    """Which version of its channel it is."""
    is_list: bool
    """Whether its parts are segments of a list, each a value, and not pieces of one value."""
    parts: list[Part]
    end: tuple[str, bytes, bool] | None = None
    """What of a list comes behind them: of which kind, the bytes, and whether these are less."""


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint as it is stored."""

    format: int
    parent: str | None
    metadata: Typed
    body: Typed
    """All of it, but for the values that are apart; where it is small, none are."""
    small: dict[str, Typed]
    """Values by channel."""
    pressed: dict[str, Typed]
    """Others, compressed."""
    large: dict[str, Large]


class Writes(msgspec.Struct, array_like=True, frozen=True):
    """What a task wrote, as it is stored."""

    format: int
    task_id: str
    task_path: str
    writes: list[tuple[int, str, str, bytes]]
    """Each with its number, channel, kind and bytes."""


class Place(NamedTuple):
    """Where checkpoints lie: the namespace of the store, and how their keys begin."""

    thread: str
    start: str

    def key(self, checkpoint_id: str) -> str:
        """Returns the key of a checkpoint; with it begin those of its writes."""
        return f"{self.start}{_escaped(checkpoint_id)} "

    def behind(self, checkpoint_id: str) -> str:
        """Returns what comes right behind a checkpoint and its writes."""
        return f"{self.start}{_escaped(checkpoint_id)}{_BEHIND}"

    def writes_key(self, checkpoint_id: str, task_id: str, number: int) -> str:
        """Returns the key for writes of a task: a special one has one of its own."""
        own = f" {number}" if number < 0 else ""
        return f"{self.key(checkpoint_id)}{_WRITES}{_escaped(task_id)}{own}"


def place_of(thread: str, checkpoint_ns: str) -> Place:
    """Returns where the checkpoints of a thread lie that have one `checkpoint_ns`."""
    return Place(thread, f"{CHECKPOINTS}{_escaped(checkpoint_ns)} ")


def split_key(key: str) -> tuple[str, str, bool]:
    """Returns whose a key of a checkpoint is, its id, and whether it is its own."""
    match key.split(" ", 3):
        case [_, checkpoint_ns, checkpoint_id, rest]:
            return _unescaped(checkpoint_ns), _unescaped(checkpoint_id), not rest
        case _:
            raise Damaged(f"{shorten(key)} is no key of a checkpoint")


def behind_namespace(key: str) -> str:
    """Returns what comes right behind all checkpoints that share a `checkpoint_ns` with a key."""
    return f"{CHECKPOINTS}{key.split(' ', 2)[1]}{_BEHIND}"


def value_key(name: str) -> str:
    """Returns where a large value lies."""
    return f"{VALUES}{name}"


def _escaped(part: str) -> str:
    return part.translate(_ESCAPES)


def _unescaped(part: str) -> str:
    return unquote(part) if "%" in part else part


# Making them


class Packed(NamedTuple):
    """A checkpoint, ready to be put."""

    record: bytes
    large: dict[str, bytes]
    """Large values that are new, by their keys."""
    apart: Mapping[str, Large]
    """Values that are large, by channel."""
    is_small: bool = False
    """Whether it is in one piece."""

    def parts(self) -> Iterator[tuple[str, bytes]]:
        """Yields the large values that are new, by their names, as `plain` has them."""
        return ((key.removeprefix(VALUES), plain(data)) for key, data in self.large.items())


def packed(
    serde: Serializer,
    checkpoint: Mapping[str, Any],
    metadata: Mapping[str, Any],
    *,
    parent: str | None,
    shared: Mapping[str, Large],
    there: Collection[str],
    is_small: bool = False,
) -> Packed:
    """Returns a checkpoint as it is stored.

    `shared` are values of the parent that it has as well, `there` the names of parts that are. One
    that seems to be small is made in one piece, if it is.
    """
    told = serde.dumps_typed(metadata)
    values = checkpoint["channel_values"].values()
    # Inside of another value, a bytearray becomes bytes; and what is pickled is so by itself.
    is_small = is_small and not any(isinstance(value, bytearray) for value in values)
    whole = serde.dumps_typed(checkpoint) if is_small else ("", b"")
    if whole[0] == MSGPACK and len(whole[1]) <= LARGE_BYTES:
        record = Checkpoint(FORMAT, parent, told, whole, {}, {}, {})
        return Packed(msgspec.msgpack.encode(record), {}, {}, is_small=True)
    body, large, new = dict(checkpoint), dict(shared), dict[str, bytes]()
    small, pressed = dict[str, Typed](), dict[str, Typed]()
    body["channel_values"] = short = dict[str, Any]()
    versions: Mapping[str, Any] = checkpoint["channel_versions"]
    for channel, value in checkpoint["channel_values"].items():
        if channel in shared:
            continue
        if _is_short(value):
            short[channel] = value
            continue
        pieces, end = _segments(serde, value)
        if not (is_list := bool(pieces)):
            pieces = [(kind, data)] = [serde.dumps_typed(value)]
            if len(data) <= LARGE_BYTES:
                small[channel] = kind, data
                continue
            if len(data) <= PRESSED_BYTES and len(less := _less(data)) <= LARGE_BYTES:
                pressed[channel] = kind, less
                continue
            starts = range(0, len(data), PIECE_BYTES)
            pieces = [(kind, data[start : start + PIECE_BYTES]) for start in starts]
        parts = [Part(_name(*piece), len(piece[1])) for piece in pieces]
        large[channel] = Large(versions.get(channel), is_list, parts, end)
        new |= {
            value_key(part.name): _encode_value(*piece)
            for part, piece in zip(parts, pieces, strict=True)
            if part.name not in there
        }
    rest = serde.dumps_typed(body)
    record = Checkpoint(FORMAT, parent, told, rest, small, pressed, large)
    return Packed(msgspec.msgpack.encode(record), new, large)


def _segments(
    serde: Serializer, value: object
) -> tuple[list[Typed], tuple[str, bytes, bool] | None]:
    """Returns the segments of a long list, and its end if that is small enough to be none.

    None for anything else, for a list that is small, and for one whose segments are too large.
    """
    if type(value) is not list or len(cast("list[Any]", value)) < LONG:
        return [], None
    items = cast("list[Any]", value)
    made = [
        serde.dumps_typed(items[start : start + SEGMENT]) for start in range(0, len(items), SEGMENT)
    ]
    sizes = [len(data) for _, data in made]
    if sum(sizes) <= LARGE_BYTES or max(sizes) > PIECE_BYTES:
        return [], None
    if len(items) % SEGMENT == 0:
        return made, None
    kind, data = made[-1]
    if len(data) <= LARGE_BYTES:
        return made[:-1], (kind, data, False)
    if len(data) <= PRESSED_BYTES and len(less := _less(data)) <= LARGE_BYTES:
        return made[:-1], (kind, less, True)
    return made, None


def _name(kind: str, data: bytes) -> str:
    return blake3(data, derive_key_context=f"holdfast langgraph {kind}").hexdigest(16)


class _OnePerThread(threading.local):
    """What threads must not share: to make one for every value takes longer than its work."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor()


_local: Final = _OnePerThread()


def _less(data: bytes) -> bytes:
    return _local.compressor.compress(data)


def _encode_value(kind: str, data: bytes) -> bytes:
    # What is larger is cut where it is stored: there it shares what it has with others.
    if len(data) <= PRESSED_BYTES and len(less := _less(data)) < len(data):
        return msgspec.msgpack.encode((kind, less, True))
    return msgspec.msgpack.encode((kind, data, False))


def _is_short(value: object) -> bool:
    if value is None or isinstance(value, bool | int | float):
        return True
    return isinstance(value, str) and len(value) <= SHORT


def packed_writes(
    serde: Serializer, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
) -> dict[int, bytes]:
    """Returns what a task wrote: special writes by their numbers, all others together as 0."""
    special, others = dict[int, bytes](), list[tuple[int, str, str, bytes]]()
    for at, (channel, value) in enumerate(writes):
        number = WRITES_IDX_MAP.get(channel, at)
        each = (number, channel, *serde.dumps_typed(value))
        if number < 0:
            special[number] = _encode_writes(task_id, task_path, [each])
        else:
            others.append(each)
    return special | ({0: _encode_writes(task_id, task_path, others)} if others else {})


def joined_writes(there: bytes, more: bytes) -> bytes | None:
    """Returns what is there and those of more that are not; None if there are none."""
    old, new = decode_writes(there), decode_writes(more)
    numbers = {number for number, *_ in old.writes}
    added = [each for each in new.writes if each[0] not in numbers]
    return _encode_writes(old.task_id, old.task_path, [*old.writes, *added]) if added else None


def _encode_writes(
    task_id: str, task_path: str, writes: list[tuple[int, str, str, bytes]]
) -> bytes:
    return msgspec.msgpack.encode(Writes(FORMAT, task_id, task_path, writes))


# Reading them

_T = TypeVar("_T")
_R = TypeVar("_R", Checkpoint, Writes)
_checkpoints: Final = msgspec.msgpack.Decoder(Checkpoint)
_writes: Final = msgspec.msgpack.Decoder(Writes)
_values: Final = msgspec.msgpack.Decoder(tuple[str, bytes, bool])


def decode_checkpoint(data: bytes) -> Checkpoint:
    """Returns a checkpoint as it was stored; raises `Damaged` for anything else."""
    return _of_this_format(_decoded(_checkpoints, data))


def decode_writes(data: bytes) -> Writes:
    """Returns what a task wrote, as it was stored; raises `Damaged` for anything else."""
    return _of_this_format(_decoded(_writes, data))


def _of_this_format(record: _R) -> _R:
    if record.format != FORMAT:
        raise Damaged(f"a checkpoint has the format {record.format}, and {FORMAT} is known")
    return record


def plain(part: bytes) -> bytes:
    """Returns a part of a large value as it is stored, but for its compression."""
    kind, data, is_pressed = _decoded(_values, part)
    return msgspec.msgpack.encode((kind, _expanded(data), False)) if is_pressed else part


def value_of(serde: Serializer, large: Large, parts: Mapping[str, bytes]) -> Any:
    """Returns a large value of its parts, by their names; raises `Damaged` for anything else."""
    pieces = [_decoded(_values, parts[part.name]) for part in large.parts]
    pieces += [] if large.end is None else [large.end]
    whole = [(kind, _expanded(data) if less else data) for kind, data, less in pieces]
    if not large.is_list and len({kind for kind, _ in whole}) == 1:
        return serde.loads_typed((whole[0][0], b"".join(data for _, data in whole)))
    values = [serde.loads_typed(typed) for typed in whole]
    if large.is_list and all(isinstance(each, list) for each in values):
        return [*chain.from_iterable(values)]
    raise Damaged("the parts of a value of a checkpoint do not fit together")


def names_of(large: Iterable[Large]) -> set[str]:
    """Returns the names of the parts of large values."""
    return {part.name for each in large for part in each.parts}


def values_of(serde: Serializer, record: Checkpoint) -> dict[str, Any]:
    """Returns the body of a checkpoint with all of its values that are no large ones."""
    body: dict[str, Any] = serde.loads_typed(record.body)
    values: dict[str, Any] = body["channel_values"]
    for channel, typed in record.small.items():
        values[channel] = serde.loads_typed(typed)
    for channel, (kind, less) in record.pressed.items():
        values[channel] = serde.loads_typed((kind, _expanded(less)))
    return body


def channels_of(serde: Serializer, record: Checkpoint) -> set[str]:
    """Returns the channels of which a checkpoint has a value."""
    body: dict[str, Any] = serde.loads_typed(record.body)
    return {*body["channel_values"], *record.small, *record.pressed, *record.large}


def _expanded(less: bytes) -> bytes:
    try:
        # What is stored is anybody's: it may claim to be of any size.
        if not 0 <= zstandard.frame_content_size(less) <= PRESSED_BYTES:
            raise Damaged("a value of a checkpoint claims to be larger than it can be")
        return _local.decompressor.decompress(less)
    except zstandard.ZstdError as exc:
        raise Damaged(f"a value of a checkpoint cannot be expanded: {exc}") from exc


def _decoded(decoder: "msgspec.msgpack.Decoder[_T]", data: bytes) -> _T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as exc:
        message = f"{len(data)} bytes are no part of a checkpoint that this version knows: {exc}"
        raise Damaged(message) from exc


def pending_writes(
    serde: Serializer, stored: Sequence[bytes], channels: frozenset[str] | None = None
) -> list[tuple[str, str, Any]]:
    """Returns what tasks wrote, in the order in which it is applied; on some channels alone."""
    found = list[tuple[tuple[str, str, int], str, Typed]]()
    for data in stored:
        group = decode_writes(data)
        found += [
            ((group.task_path, group.task_id, number), channel, (kind, value))
            for number, channel, kind, value in group.writes
            if channels is None or channel in channels
        ]
    found.sort(key=lambda each: each[0])
    return [(order[1], channel, serde.loads_typed(typed)) for order, channel, typed in found]

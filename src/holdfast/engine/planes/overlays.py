"""What has changed in a session's state since it was last stored as a map, beside that map.

Storing a map anew takes nodes, a pack and rows that name them: many times the change itself. So
a version's row may hold its changes on top of a map, until they outgrow their room. Of a long
text, such as a list that grows, it holds what is between the beginning and the end that stayed.
That is a matter of rows. Whatever goes into the plane is settled first, in the transaction that
puts it there: equal states have equal entries in every map.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec.structs import replace

from holdfast.engine.objects import content
from holdfast.engine.objects.packing import decode_state
from holdfast.entries import (
    PACKED_TAG,
    Blob,
    Inline,
    Overlay,
    Session,
    Splice,
    Submap,
    decode_entry,
    encode_entry,
    tag_of,
)
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.tree import NodeSource, apply, get_many

LEAST_BYTES: Final = 2048
MOST_BYTES: Final = 64 << 10
TIMES: Final = 4
SHARE: Final = 4
"""All changes together may take so many times what the last one takes, but not more than a part of
the state; at least and at most so much. Each version repeats those before it: so its bytes follow
what is new in it, however long the state is."""

SPLICED_BYTES: Final = 512
"""Shorter texts are kept whole: to look for what stayed would take longer than to write them."""

_STEP: Final = 4096

_CHANGE_BYTES: Final = 4
"""What a change takes beside its key and its text."""


class StateSource(NodeSource, content.ChunkSource, Protocol):
    """Where nodes and chunks of a stored state are read from."""


class Sink(content.Sink, Protocol):
    """Where chunks and nodes go to: a `Stage`, or somebody who only wants to know their names."""

    def add_nodes(self, nodes: dict[ObjectId, bytes]) -> None:
        """Takes new map nodes in."""
        ...


def needs_below(changes: Mapping[str, bytes]) -> bool:
    """Says whether `lay` is to be told what the map below holds."""
    return any(len(text) > SPLICED_BYTES for text in changes.values())


def lay(
    old: Submap | Overlay,
    changes: Mapping[str, bytes],
    *,
    below: Mapping[str, bytes],
    size: int,
) -> Overlay | None:
    """Returns a state of so many bytes as an overlay; None if its changes outgrow their room.

    `below` are the texts of the map, as far as they are to be compared.
    """
    known = old.changes if isinstance(old, Overlay) else {}
    new = {key: _spliced(text, below.get(key)) for key, text in changes.items()}
    together = {**known, **new}
    last = _taken(new) - sum(_repeated(part, known.get(key)) for key, part in new.items())
    room = max(min(TIMES * last, size // SHARE, MOST_BYTES), LEAST_BYTES)
    if _taken(together) > room:
        return None
    return Overlay(old.root, old.count, dict(sorted(together.items())))


def texts(overlay: Overlay, below: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the texts that an overlay changes; `below` are those of its map."""
    return {
        key: change if isinstance(change, bytes) else _whole(change, below.get(key))
        for key, change in overlay.changes.items()
    }


def settle(sink: Sink, source: StateSource, state: bytes) -> bytes:
    """Returns a state's entry as maps have it; what it needs goes to the sink."""
    found = decode_state(state)
    if isinstance(found, Inline) and tag_of(state) == PACKED_TAG:
        return encode_entry(found)
    if not isinstance(found, Overlay):
        return state
    spliced = [key.encode() for key, part in found.changes.items() if isinstance(part, Splice)]
    stored = get_many(source, ObjectId(found.root), spliced) if spliced else {}
    below = {key.decode(): _text(source, value) for key, value in stored.items()}
    rows: dict[bytes, bytes | None] = {
        key.encode(): encode_entry(content.as_value(sink, text))
        for key, text in texts(found, below).items()
    }
    applied = apply(source, ObjectId(found.root), rows)
    sink.add_nodes(applied.nodes)
    return encode_entry(Submap(applied.root, applied.count))


def settle_session(sink: Sink, source: StateSource, entry: bytes) -> bytes:
    """Returns the entry of a session with its state as maps have it."""
    found = decode_entry(entry)
    if not isinstance(found, Session):
        return entry
    state = settle(sink, source, found.state)
    return entry if state is found.state else encode_entry(replace(found, state=state))


def _taken(changes: Mapping[str, bytes | Splice]) -> int:
    texts = (part.middle if isinstance(part, Splice) else part for part in changes.values())
    return sum(map(len, texts)) + sum(map(len, changes)) + _CHANGE_BYTES * len(changes)


def _repeated(new: bytes | Splice, old: bytes | Splice | None) -> int:
    """Returns how much of a change was changed before: a list that grows has all of its new end."""
    if isinstance(new, Splice) and isinstance(old, Splice):
        return min(len(new.middle), len(old.middle))
    return 0


def _spliced(text: bytes, below: bytes | None) -> bytes | Splice:
    """Returns a text, or what it has between the beginning and the end of the one below."""
    if below is None or len(text) <= SPLICED_BYTES:
        return text
    most = min(len(text), len(below))
    begin = _same_start(text, below, most)
    end = _same_end(text, below, most - begin)
    middle = text[begin : len(text) - end]
    return Splice(begin, end, middle) if len(middle) < len(text) // 2 else text


def _same_start(one: bytes, other: bytes, most: int) -> int:
    """Returns how many bytes two texts have in common at their beginning, of so many."""
    same, step = 0, _STEP
    while step:
        # Small pieces: long ones take longer to be copied than to be compared.
        while same + step <= most and one[same : same + step] == other[same : same + step]:
            same += step
        step //= 2
    return same


def _same_end(one: bytes, other: bytes, most: int) -> int:
    """Returns how many bytes two texts have in common at their end, of so many."""
    same, step, last, last_other = 0, _STEP, len(one), len(other)
    while step:
        while (
            same + step <= most and one[last - step : last] == other[last_other - step : last_other]
        ):
            same, last, last_other = same + step, last - step, last_other - step
        step //= 2
    return same


def _whole(splice: Splice, below: bytes | None) -> bytes:
    begin, end = splice.begin, splice.end
    if below is None or min(begin, end) < 0 or begin + end > len(below):
        raise Damaged("a session's state builds on text that is not there")
    return below[:begin] + splice.middle + below[len(below) - end :]


def _text(source: content.ChunkSource, value: bytes) -> bytes:
    entry = decode_entry(value)
    if isinstance(entry, Inline | Blob):
        return content.read(source, entry)
    raise Damaged("a part of a session's state is not text")

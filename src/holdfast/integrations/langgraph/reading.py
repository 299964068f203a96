"""What is read of checkpoints, step by step; `integrations.doors` carries it out."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.errors import Damaged
from holdfast.integrations.doors import Step, Steps
from holdfast.integrations.langgraph.caching import Parts
from holdfast.integrations.langgraph.records import (
    CHECKPOINTS,
    Checkpoint,
    Large,
    Place,
    Serializer,
    behind_namespace,
    decode_checkpoint,
    pending_writes,
    plain,
    split_key,
    value_key,
    value_of,
    values_of,
)
from holdfast.integrations.portions import portions

NEAR: Final = 3
"""Rows that are read to find the newest checkpoint: mostly it has the writes of one task or two."""

PAGE: Final = 100
"""Rows that are read together where all of them are wanted; each is of some KiB."""


class Missing(Damaged):
    """A value is not there that a checkpoint has; or it was, and both are deleted by now."""


class Stored(NamedTuple):
    """A checkpoint with its writes, as they are stored."""

    checkpoint_ns: str
    id: str
    record: Checkpoint
    writes: list[bytes]


def items(thread: str, prefix: str, **options: Any) -> Step:
    """Reads rows of a thread."""
    return lambda store: store.raw.items(thread, prefix, **options)


def keys(thread: str, prefix: str, **options: Any) -> Step:
    """Reads keys of a thread."""
    return lambda store: store.keys(thread, prefix, **options)


# Checkpoints


class Backwards:
    """Reads checkpoints from the newest to the oldest, and puts each together with its writes."""

    def __init__(self, place: Place, *, after: str | None = None, most: int = PAGE) -> None:
        self.place, self.after, self.most = place, after, most
        self.is_at_end = False
        self._writes = list[tuple[str, str, bytes]]()

    def page(self) -> Steps[list[Stored]]:
        """Returns the checkpoints that the next rows complete; they may be none."""
        thread, start = self.place
        rows = yield items(thread, start, after=self.after, limit=self.most, reverse=True)
        found = list[Stored]()
        for key, data in rows:
            whose, checkpoint_id, is_own = split_key(key)
            if not is_own:
                self._writes.append((whose, checkpoint_id, data))
                continue
            # Writes may be there before their checkpoint is: those are nobody's yet.
            own = [each for *of, each in self._writes if of == [whose, checkpoint_id]]
            self._writes.clear()
            found.append(Stored(whose, checkpoint_id, decode_checkpoint(data), own))
        self.is_at_end = len(rows) < self.most
        if rows:
            self.after = rows[-1][0]
        self.most = PAGE
        return found


def find_newest(place: Place) -> Steps[Stored | None]:
    """Returns the newest checkpoint, or None."""
    reading = Backwards(place, most=NEAR)
    while not reading.is_at_end:
        found = yield from reading.page()
        if found:
            return found[0]
    return None


def find(place: Place, checkpoint_id: str) -> Steps[Stored | None]:
    """Returns one checkpoint, or None."""
    own = place.key(checkpoint_id)
    rows = yield items(place.thread, own)
    if not rows or rows[0][0] != own:
        return None
    checkpoint_ns, _, _ = split_key(own)
    record = decode_checkpoint(rows[0][1])
    return Stored(checkpoint_ns, checkpoint_id, record, [data for _, data in rows[1:]])


def all_of(thread: str) -> Steps[list[Stored]]:
    """Returns all checkpoints of a thread, the newest of each `checkpoint_ns` first."""
    reading, found = Backwards(Place(thread, CHECKPOINTS)), list[Stored]()
    while not reading.is_at_end:
        found += yield from reading.page()
    return found


def namespaces_of(thread: str) -> Steps[list[str]]:
    """Returns every `checkpoint_ns` of a thread."""
    found, after = list[str](), None
    while True:
        listed = yield keys(thread, CHECKPOINTS, after=after, limit=1)
        if not listed:
            return found
        found.append(split_key(listed[0])[0])
        after = behind_namespace(listed[0])


def threads(prefix: str) -> Steps[list[str]]:
    """Returns the namespaces of the store that threads are."""
    return (yield lambda store: store.namespaces(prefix))


# Their values


def large_values(
    thread: str, wanted: Iterable[Large], cache: Parts | None = None
) -> Steps[dict[str, bytes]]:
    """Returns the parts of large values by their names; raises `Missing` where one is not there."""
    sizes = {part.name: part.size for each in wanted for part in each.parts}
    found = {} if cache is None else cache.find(thread, sizes)
    for some in portions(each for each in sizes.items() if each[0] not in found):
        pairs = [(thread, value_key(name)) for name in some]
        read = yield lambda store, pairs=pairs: store.raw.get_many(pairs)
        for name, data in zip(some, read, strict=True):
            if data is None:
                raise Missing(f"the value {name} of a checkpoint is not there")
            found[name] = data if cache is None else plain(data)
        if cache is not None:
            cache.keep(thread, ((name, found[name]) for name in some))
    return found


def with_values(
    place: Place, stored: Stored, wanted: Collection[str] | None = None, cache: Parts | None = None
) -> Steps[tuple[Stored, dict[str, bytes]] | None]:
    """Returns a checkpoint with its large values: of all channels, or of those that are wanted.

    Over HTTP it was read at another moment than they are: where one is not there, it is read anew.
    Returns None if it is deleted by now; raises `Missing` if it stands there as it stood.
    """
    before: Checkpoint | None = None
    while True:
        large = stored.record.large.items()
        meant = [each for name, each in large if wanted is None or name in wanted]
        try:
            return stored, (yield from large_values(place.thread, meant, cache))
        except Missing:
            if stored.record == before:
                raise
        before = stored.record
        again = yield from find(place, stored.id)
        if again is None:
            return None
        stored = again


# Channels whose values are their history


class Given(NamedTuple):
    """What channels were given: the writes of each, newest first, and what they began with."""

    writes: dict[str, list[tuple[str, str, Any]]]
    seeds: dict[str, Any]


class Ancestors:
    """Walks from a checkpoint to its parent, and on: mostly they lie side by side."""

    def __init__(self, place: Place, child: Stored | None) -> None:
        self._place = place
        self._next: str | None = None if child is None else child.record.parent
        self._near = dict[str, Stored]()
        self._met = set[str]()
        self._most = NEAR

    def step(self) -> Steps[Stored | None]:
        """Returns the next one; None where the walk ends."""
        wanted = self._next
        # Ids are somebody's: a walk in circles ends where it began.
        if wanted is None or wanted in self._met:
            return None
        self._met.add(wanted)
        if wanted not in self._near:
            reading = Backwards(self._place, after=self._place.behind(wanted), most=self._most)
            found: list[Stored] = yield from reading.page()
            while not found and not reading.is_at_end:
                found = yield from reading.page()
            self._near, self._most = {each.id: each for each in found}, PAGE
        stored = self._near.pop(wanted, None)
        self._next = None if stored is None else stored.record.parent
        return stored


def history(
    serde: Serializer, place: Place, checkpoint_id: str | None, channels: Sequence[str]
) -> Steps[Given]:
    """Walks from a checkpoint to its ancestors, until each channel has a value to begin with.

    What was written on the checkpoint itself is for the next one, and no part of it.
    """
    given, remaining = Given({channel: [] for channel in channels}, {}), set(channels)
    if checkpoint_id is None:
        child = yield from find_newest(place)
    else:
        child = yield from find(place, checkpoint_id)
    walk = Ancestors(place, child)
    while remaining:
        stored = yield from walk.step()
        read = None if stored is None else (yield from with_values(place, stored, remaining))
        if read is None:
            break
        stored, parts = read
        for write in reversed(pending_writes(serde, stored.writes, frozenset(remaining))):
            given.writes[write[1]].append(write)
        values = values_of(serde, stored.record)["channel_values"]
        large = {name: each for name, each in stored.record.large.items() if name in remaining}
        values |= {channel: value_of(serde, each, parts) for channel, each in large.items()}
        given.seeds.update({channel: values[channel] for channel in remaining & values.keys()})
        remaining -= values.keys()
    return given

"""What is written of checkpoints, step by step; `integrations.doors` carries it out.

Three promises:

1. A checkpoint that is there has all of its values: they come with it in one transaction, or are
   there and stay. Whoever uses large values of the parent again expects the parent unchanged.
   Whoever deletes puts up a sign first, and deletes only while it still hangs; whoever puts a
   checkpoint with large values meanwhile takes it down, and the deleting begins anew.
2. What a task wrote is put once: repeated, it changes nothing.
3. Checkpoints are deleted with their writes, and values after the checkpoints that have them.
"""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from holdfast import ABSENT
from holdfast.errors import NotAsExpected
from holdfast.integrations.doors import Step, Steps
from holdfast.integrations.langgraph.caching import Left, Lefts
from holdfast.integrations.langgraph.reading import (
    PORTION,
    Stored,
    all_of,
    items,
    keys,
    large_values,
)
from holdfast.integrations.langgraph.records import (
    CHECKPOINTS,
    PRUNING,
    VALUES,
    Large,
    Packed,
    Place,
    Serializer,
    channels_of,
    decode_checkpoint,
    joined_writes,
    names_of,
    split_key,
    value_key,
)

COPIED: Final = 20
"""Rows that are copied together: with each checkpoint go its values, however large."""

TRIES: Final = 8
"""How often something begins anew while others are quicker."""

Pack = Callable[[Mapping[str, Large], Collection[str]], Packed]
"""Makes a checkpoint, given values that it shares with its parent, and names of what is there."""

Choose = Callable[[Sequence[Stored]], set[tuple[str, str]]]
"""Says which checkpoints go, by `checkpoint_ns` and id."""


def _batch(**parts: Any) -> Step:
    return lambda store: store.batch(**parts)


def put(
    place: Place,
    checkpoint_id: str,
    pack: Pack,
    *,
    parent: str | None,
    unchanged: Mapping[str, Any],
    lefts: Lefts,
) -> Steps[Packed]:
    """Puts a checkpoint; returns what was put.

    Given a `parent`, what that has of them is not put again: all that has the same name, and the
    values of channels that are `unchanged`, by their versions. How it was left need not be read:
    it is expected to be so.
    """
    thread, key = place.thread, place.key(checkpoint_id)
    shared, there = dict[str, Large](), set[str]()
    expected = [(thread, PRUNING, ABSENT)]
    if parent is not None:
        left = lefts.find(place, parent) or (yield from _look(place, parent))
        if left is not None:
            shared, there = _shared(left.large, unchanged), names_of(left.large.values())
            expected.append((thread, place.key(parent), left.tag))
    made = pack(shared, there)
    if not made.apart:
        yield lambda store: store.put(thread, key, made.record)
        return made
    own = {"get": [(thread, key)], "raw": True}
    try:
        done = yield _batch(put=_rows(thread, key, made), expected=expected, **own)
    except NotAsExpected:
        # Somebody deletes, or has changed the parent: nothing of it is relied on.
        made = pack({}, ())
        rows = _rows(thread, key, made)
        done = yield _batch(put=rows, delete=[(thread, PRUNING)], **own)
    found = done.values[0]
    if found is not None and found.data == made.record:
        lefts.note(place, Left(checkpoint_id, found.tag, made.apart))
    return made


def _look(place: Place, checkpoint_id: str) -> Steps[Left | None]:
    found = yield lambda store: store.raw.find(place.thread, place.key(checkpoint_id))
    if found is None:
        return None
    return Left(checkpoint_id, found.tag, decode_checkpoint(found.data).large)


def _shared(there: Mapping[str, Large], unchanged: Mapping[str, Any]) -> dict[str, Large]:
    return {
        channel: there[channel]
        for channel, version in unchanged.items()
        if channel in there and there[channel].version == version
    }


def _rows(thread: str, key: str, made: Packed) -> list[tuple[str, str, bytes]]:
    large = [(thread, name, data) for name, data in made.large.items()]
    return [*large, (thread, key, made.record)]


def put_writes(
    place: Place, checkpoint_id: str, task_id: str, made: Mapping[int, bytes]
) -> Steps[None]:
    """Puts what a task wrote: a special write replaces what is there, the others leave it."""
    thread, usual = place.thread, made.get(0)
    special = [
        (thread, place.writes_key(checkpoint_id, task_id, number), data)
        for number, data in made.items()
        if number < 0
    ]
    if usual is None:
        yield lambda store: store.put_many(special)
        return
    key = place.writes_key(checkpoint_id, task_id, 0)
    if not special:
        done = yield _batch(put=[(thread, key, usual)], keep=True)
        if done.set:
            return
    for attempt in range(TRIES):
        found = yield lambda store: store.raw.find(thread, key)
        joined = usual if found is None else joined_writes(found.data, usual)
        rows = special if joined is None else [*special, (thread, key, joined)]
        if not rows:
            return
        tag = ABSENT if found is None else found.tag
        try:
            yield _batch(put=rows, expected=[(thread, key, tag)])
        except NotAsExpected:
            if attempt == TRIES - 1:
                raise
        else:
            return


# Deleting


def delete_thread(thread: str) -> Steps[None]:
    """Deletes everything of a thread, at once."""
    yield lambda store: store.delete_prefix(thread)


def delete(thread: str, choose: Choose) -> Steps[None]:
    """Deletes checkpoints of a thread, with what nobody needs then."""
    if not choose((yield from all_of(thread))):
        return
    for attempt in range(TRIES):
        try:
            yield from _delete_once(thread, choose)
        except NotAsExpected:
            if attempt == TRIES - 1:
                raise
        else:
            return


def _delete_once(thread: str, choose: Choose) -> Steps[None]:
    sign = secrets.token_hex(8)
    done = yield _batch(set=[(thread, PRUNING, sign)], get=[(thread, PRUNING)])
    hung = done.values[0]
    if hung is None:  # It is taken down already.
        raise NotAsExpected(PRUNING, expected=sign, actual=ABSENT)
    found = yield from all_of(thread)
    gone = choose(found)
    needed = {
        value_key(name)
        for stored in found
        if (stored.checkpoint_ns, stored.id) not in gone
        for name in names_of(stored.record.large.values())
    }
    listed = yield keys(thread, CHECKPOINTS)
    doomed = [key for key in listed if split_key(key)[:2] in gone]
    listed = yield keys(thread, VALUES)
    doomed += [key for key in listed if key not in needed]
    doomed.append(PRUNING)
    expected = [(thread, PRUNING, hung.tag)]
    for start in range(0, len(doomed), PORTION):
        pairs = [(thread, key) for key in doomed[start : start + PORTION]]
        yield _batch(delete=pairs, expected=expected)


def of_runs(serde: Serializer, run_ids: Sequence[str]) -> Choose:
    """Chooses what some runs have left."""
    wanted = frozenset(map(str, run_ids)) - {""}

    def choose(found: Sequence[Stored]) -> set[tuple[str, str]]:
        runs = {
            (stored.checkpoint_ns, stored.id): serde.loads_typed(stored.record.metadata)
            for stored in found
        }
        return {place for place, said in runs.items() if str(said.get("run_id", "")) in wanted}

    return choose


def but_latest(serde: Serializer) -> Choose:
    """Chooses all but the latest of each `checkpoint_ns`, and what that is made of.

    A channel may have its history for a value: its ancestors stay, back to one that has a value.
    """

    def choose(found: Sequence[Stored]) -> set[tuple[str, str]]:
        places = {(stored.checkpoint_ns, stored.id): stored for stored in found}
        latest = {stored.checkpoint_ns: stored for stored in reversed(found)}
        kept = set[tuple[str, str]]()
        for stored in latest.values():
            metadata = serde.loads_typed(stored.record.metadata)
            wanted = set(metadata.get("counters_since_delta_snapshot") or ())
            at: Stored | None = stored
            while at is not None and (at.checkpoint_ns, at.id) not in kept:
                kept.add((at.checkpoint_ns, at.id))
                wanted -= channels_of(serde, at.record) if wanted else set()
                parent = at.record.parent if wanted else None
                at = None if parent is None else places.get((at.checkpoint_ns, parent))
        return places.keys() - kept

    return choose


# Copying


def copy_thread(source: str, target: str) -> Steps[None]:
    """Copies a thread, some checkpoints at a time, each with its values.

    What is broken off leaves a part; done again, it is completed.
    """
    after = None
    while source != target:
        rows = yield items(source, CHECKPOINTS, after=after, limit=COPIED)
        if not rows:
            return
        records = [decode_checkpoint(data) for key, data in rows if split_key(key)[2]]
        wanted = [each for record in records for each in record.large.values()]
        values = yield from large_values(source, wanted)
        put = [(target, value_key(name), data) for name, data in values.items()]
        put += [(target, key, data) for key, data in rows]
        yield _batch(put=put, delete=[(target, PRUNING)])
        after = rows[-1][0]

"""What is written of checkpoints, step by step; `integrations.doors` carries it out.

Three promises:

1. A checkpoint that is there has all of its values: they come with it in one transaction, or are
   there and stay. Whoever uses large values of the parent again expects the parent unchanged.
   Whoever deletes puts up a sign first, and deletes only while it still hangs; whoever puts a
   checkpoint with large values meanwhile takes it down, and the deleting begins anew. Values that
   are too many for one transaction go ahead under a sign of their own, and the checkpoint comes
   only while that hangs: whoever deletes takes all of those down with the first that goes. So any
   number put at once and never meet, however large what they put is.
2. What a task wrote is put once: repeated, it changes nothing.
3. Checkpoints are deleted with their writes, and values after the checkpoints that have them.
"""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from holdfast import ABSENT
from holdfast.errors import NotAsExpected
from holdfast.integrations.doors import Step, Steps
from holdfast.integrations.langgraph.caching import Left, Lefts
from holdfast.integrations.langgraph.reading import (
    Missing,
    Stored,
    all_of,
    items,
    keys,
    large_values,
)
from holdfast.integrations.langgraph.records import (
    CHECKPOINTS,
    PRUNING,
    PUTTING,
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
from holdfast.integrations.portions import PORTION, portions

COPIED: Final = 20
"""Rows that are copied together: with each checkpoint go its values, however large."""

TRIES: Final = 8
"""How often something begins anew while others are quicker."""

Pack = Callable[[Mapping[str, Large], Collection[str]], Packed]
"""Makes a checkpoint, given values that it shares with its parent, and names of what is there."""

Expected = tuple[str, str, str]
"""A namespace of the store, a key, and the tag of what has to be there."""

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
        done = yield from _put_rows(thread, _rows(key, made), expected=expected, **own)
    except NotAsExpected:
        # Somebody deletes, or has changed the parent: nothing of it is relied on.
        made = pack({}, ())
        done = yield from _put_all(thread, _rows(key, made), **own)
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


def _rows(key: str, made: Packed) -> dict[str, bytes]:
    return {**made.large, key: made.record}


def _put_all(thread: str, rows: Mapping[str, bytes], **own: Any) -> Steps[Any]:
    """Puts rows, whatever others do; takes down the sign of who deletes."""
    for _ in range(TRIES - 1):
        try:
            return (yield from _put_rows(thread, rows, **own))
        except NotAsExpected:
            continue
    return (yield from _put_rows(thread, rows, **own))


def _put_rows(
    thread: str,
    rows: Mapping[str, bytes],
    *,
    expected: Sequence[Expected] | None = None,
    **own: Any,
) -> Steps[Any]:
    """Puts rows, values before what has them; without `expected`, takes down who deletes' sign.

    What is more than goes together goes ahead, and nobody sees it: whoever deletes meanwhile takes
    down the sign that hangs for it, and the last of it is not put. Raises `NotAsExpected` then.
    """
    sizes = ((key, len(data)) for key, data in rows.items())
    *ahead, last = ([(thread, key, rows[key]) for key in some] for some in portions(sizes))
    deleting = (thread, PRUNING)
    more: dict[str, Any] = {"delete": [deleting]} if expected is None else {"expected": expected}
    if not ahead:
        return (yield _batch(put=last, **more, **own))
    sign = (thread, f"{PUTTING}{secrets.token_hex(8)}")
    tag = yield from _hang(sign, **more)
    hangs = [(*sign, tag), *(each for each in expected or () if each[:2] != deleting)]
    try:
        for some in ahead:
            yield _batch(put=some, expected=hangs)
        # Who has begun to delete since may have looked already: it has to look again.
        return (yield _batch(put=last, delete=[sign, deleting], expected=hangs, **own))
    except NotAsExpected:
        yield _batch(delete=[sign])
        raise


def _hang(place: tuple[str, str], **parts: Any) -> Steps[str]:
    """Hangs up a sign; returns the tag by which it is known while it hangs."""
    sign = secrets.token_hex(8)
    done = yield _batch(set=[(*place, sign)], get=[place], **parts)
    hung = done.values[0]
    if hung is None or hung.value != sign:  # It is taken down already.
        raise NotAsExpected(place[1], expected=sign, actual=ABSENT)
    return hung.tag


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
    tag = yield from _hang((thread, PRUNING))
    # They go first: of what they are for, none comes after anything is deleted. Whoever hangs up
    # another from now on takes down the sign of this.
    doomed = yield keys(thread, PUTTING)
    found = yield from all_of(thread)
    gone = choose(found)
    needed = {
        value_key(name)
        for stored in found
        if (stored.checkpoint_ns, stored.id) not in gone
        for name in names_of(stored.record.large.values())
    }
    listed = yield keys(thread, CHECKPOINTS)
    doomed += [key for key in listed if split_key(key)[:2] in gone]
    listed = yield keys(thread, VALUES)
    doomed += [key for key in listed if key not in needed]
    doomed.append(PRUNING)
    expected = [(thread, PRUNING, tag)]
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
    """Copies a thread, some checkpoints at a time, each behind its values.

    What is broken off leaves a part; done again, it is completed.
    """
    after, before = None, None
    while source != target:
        rows = yield items(source, CHECKPOINTS, after=after, limit=COPIED)
        if not rows:
            return
        try:
            yield from _copy(source, target, dict(rows))
        except Missing:
            # What was read is deleted by now, or its values are lost.
            if rows == before:
                raise
            before = rows
        else:
            after = rows[-1][0]


def _copy(source: str, target: str, rows: Mapping[str, bytes]) -> Steps[None]:
    """Copies checkpoints and their writes, each behind the values that it is the first to have."""
    large = {
        key: decode_checkpoint(data).large.values()
        for key, data in rows.items()
        if split_key(key)[2]
    }
    values = yield from large_values(source, chain.from_iterable(large.values()))
    copied = dict[str, bytes]()
    for key, data in rows.items():
        copied |= {value_key(name): values[name] for name in names_of(large.get(key, ()))}
        copied[key] = data
    yield from _put_all(target, copied)

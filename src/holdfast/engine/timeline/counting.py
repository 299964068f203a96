"""How much differs between two states, in numbers: what a diff would say, and nothing else of it.

A snapshot is counted when it is taken, of the edits that made it, which are in hand then: its row
keeps the numbers, and they stay what they are when the state before it is gone. Where they were not
in hand, as of an import or in a row from before there was this, they are found by comparing the two
roots, and remembered for as long as this process lives: the names of both say what is in them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.pending.fold import Edited, Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.diff import word_of
from holdfast.entries import DIRECTORY_TAG
from holdfast.errors import Damaged, ObjectMissing, PackMissing
from holdfast.ids import ObjectId
from holdfast.model.basics import Plane, Root
from holdfast.model.changes import Changes, Tally, counts_text
from holdfast.tree import Edit, NodeSource, diff

BATCH: Final = 1024
"""Changes that are counted between two looks at the clock: a few milliseconds."""

_SIZE: Final = 400
"""About what the numbers of one pair take in memory."""

_DIRECTORY: Final = bytes([DIRECTORY_TAG])

Words = Iterator[tuple[Plane, bytes, str | None]]
"""Planes and keys, and what happened to each; None if nothing that counts."""


def count_folded(
    folded: Folded, *, then: Sequence[Edit] = (), files: ObjectId | None = None
) -> str | None:
    """Returns how much a head with what is pending differs from one without, as a row keeps it.

    With `then`, edits that lead on to other `files`. None where that takes more than a look at
    what is in hand: both may have changed the same.
    """
    if folded.edits is None:
        return None
    parts = [*folded.edits]
    if files is not None:
        if any(plane is Plane.FILES for plane, _, _ in parts):
            return None
        parts.append((Plane.FILES, (folded.root.plane(Plane.FILES), files), then))
    return _text(folded.source, parts)


def count_files(
    source: NodeSource, edits: Sequence[Edit], maps: tuple[ObjectId, ObjectId]
) -> str | None:
    """Returns how much edits of files change, as a row keeps it."""
    return _text(source, [(Plane.FILES, maps, edits)])


def count_changes(changes: Changes | None) -> str | None:
    """Returns how many changes there are, as a row keeps it; None if nobody counted them."""
    every = None if changes is None else changes.counts()
    return None if every is None else counts_text(every)


def _text(source: NodeSource, parts: Iterable[Edited]) -> str | None:
    every: dict[tuple[Plane, str], int] = {}
    try:
        for plane, maps, edits in parts:
            # Of a first snapshot all is new, which is seen in half the time it takes to ask.
            others = [e for e in edits if e.old is not None or (e.new or b"")[1:2] == _DIRECTORY]
            words = Counter(word_of(source, edit, maps) for edit in others)
            words["added"] += len(edits) - len(others)
            every.update({(plane, word): number for word, number in words.items() if word})
    except Damaged:
        return None  # Who takes a snapshot of what is whole is not refused for a number.
    return counts_text(every)


def words_between(source: NodeSource, old: Root, new: Root, planes: Iterable[Plane]) -> Words:
    """Yields what happened between two roots; nothing of a plane that one does not hold.

    None for what is no change stands there, too: nobody waits for the next one without end.
    """
    for plane in planes:
        if old.holds(plane) and new.holds(plane):
            maps = old.plane(plane), new.plane(plane)
            for edit in diff(source, *maps):
                yield plane, edit.key, word_of(source, edit, maps)


def count_between(
    handle: Handle,
    source: StagedObjects,
    old: ObjectId,
    new: ObjectId,
    *,
    is_over: Callable[[], bool],
) -> Tally | None:
    """Returns how much differs between two roots; None if it is over before all is counted."""
    cache, place = handle.context.counts, (handle.tenant_id, old, new)
    known = cache.find(place)
    if known is not None or is_over():
        return known
    every = Counter[tuple[Plane, str]]()
    try:
        words = words_between(source, source.get_root(old), source.get_root(new), Plane)
        while batch := [*islice(words, BATCH)]:
            every.update((plane, word) for plane, _, word in batch if word is not None)
            if len(batch) == BATCH and is_over():
                return None
    except (ObjectMissing, PackMissing):
        # The state before it was let go of meanwhile: nobody can say any more.
        return None
    cache.put(place, every, size=_SIZE)
    return every

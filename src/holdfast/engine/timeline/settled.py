"""Which timelines nothing leaves for now: who applies retention need not read them again.

Whether a snapshot goes follows from the head, its policy, the snapshots and the time. Whatever
changes one of the former is told in the namespace's chain, or moves the head; and when time alone
may change something, the timeline says. So a look that found nothing to go holds until then. Should
something have changed past all that, a snapshot goes later than it might: none goes that stays.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from holdfast.engine.core.context import Context
from holdfast.engine.planes.handle import term_of
from holdfast.engine.timeline.additions import is_added
from holdfast.ids import NamespaceId
from holdfast.instants import to_us
from holdfast.model.basics import Head, SnapshotInfo

MOST: Final = 1 << 16
"""Timelines of which a process remembers that they are settled: some 16 MB."""


class Settled(NamedTuple):
    """A timeline of which nothing was to go."""

    moment: int
    """Stands for the head, its policy, and all that was done in the namespace."""
    until_us: int | None
    """When time may change that; None for never."""


def note(context: Context, head: Head, timeline: Sequence[SnapshotInfo]) -> None:
    """Remembers that nothing of a timeline is to go now."""
    if len(context.settled) < MOST or head.namespace_id in context.settled:
        now = context.clock()
        until = min((each for each in _turns(context, head, timeline) if each > now), default=None)
        settled = Settled(_moment(head), None if until is None else to_us(until))
        context.settled[head.namespace_id] = settled


def is_settled(context: Context, head: Head) -> bool:
    """Says whether nothing can be to go, since a look that found nothing."""
    settled = context.settled.get(head.namespace_id)
    if settled is None or settled.moment != _moment(head):
        return False
    return settled.until_us is None or to_us(context.clock()) < settled.until_us


def forget(context: Context, namespace_id: NamespaceId) -> None:
    """Lets go of what is remembered of a namespace."""
    context.settled.pop(namespace_id, None)


def _turns(context: Context, head: Head, timeline: Sequence[SnapshotInfo]) -> Iterator[datetime]:
    """Yields the instants at which something begins or ceases to keep a snapshot."""
    for snapshot in timeline:
        if snapshot.deleted_at is not None:
            yield snapshot.deleted_at + context.limits.grace
        elif (term := term_of(context, head, snapshot)) is not None:
            yield term
        if is_added(snapshot):
            yield snapshot.created_at + context.limits.retention


def _moment(head: Head) -> int:
    moved = (head.generation, head.root, head.position, head.redo)
    return hash((*moved, head.retention, head.journal_number, head.journal_hash))

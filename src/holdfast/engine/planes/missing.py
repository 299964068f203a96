"""Says what is missing of what is pending.

A head has the sum of the marks of all keys that are pending (`catalog/pending.py`). Rows that are
what was written and do not add up to it lack one. Who asks for a key that has no row, for all of
them, or folds them, is told so, and never what the last snapshot has in its place.

To add them up takes all rows. So a process remembers for which sum it has done so, and whoever
writes here moves that on: rows are added up again where others have written.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.catalog.pending import ONE_MARK, PendingRow, mark_of, marks_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects.stage import Withdrawn
from holdfast.errors import Damaged, PendingDamaged
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, Plane

MOST_ADDED: Final = 2048
"""Rows of a namespace that are added up whenever others have written: of as many, it takes about
1 ms, as their keys are all that is read. Where there are more, a process adds them up once, and
goes on from there; what is missing once others have written is found by snapshots and `verify`."""

MOST_ADDED_ONCE: Final = 20_000
"""Where there are even more, what is missing is found by these alone."""

_MEAN_MARK: Final = ONE_MARK + ONE_MARK // 2
"""What marks are on average: the sum of as many as count here says well how many they are."""

MOST_REMEMBERED: Final = 10_000


Sum = tuple[NamespaceId, int | None]
"""A namespace, and the sum of the marks of what is pending there, as its head says it."""


def check_absent(
    context: Context, transaction: Transaction, of: Sum, *, plane: Plane, key: bytes
) -> None:
    """Raises `PendingDamaged` if a key without a pending row may be one that has to have one."""
    if _is_whole(context, of):
        return
    if (keys := _find_summed(context, transaction, of)) is not None:
        if (plane, key) in keys:
            raise PendingDamaged(plane, key=key)
        return
    sound = _add_up(context, transaction, of)
    missing = (of[1] or 0) - marks_of(sound)
    is_other = ONE_MARK <= missing < 2 * ONE_MARK and missing != mark_of(plane, key)
    is_hidden = any(each[:2] == (plane, key) for each in sound)
    if is_hidden or (missing and not is_other):
        raise PendingDamaged(plane, key=key)


def check_whole(
    context: Context, transaction: Transaction, of: Sum, *, plane: Plane
) -> list[PendingRow] | None:
    """Raises `Damaged` unless all rows are there that have to be.

    Where one is damaged, which need not be of this plane, the others may be found by nobody who
    looks for them: then it returns those of a plane, in order.
    """
    if _is_whole(context, of) or _find_summed(context, transaction, of) is not None:
        return None
    sound = _add_up(context, transaction, of)
    if _is_whole(context, of):
        return None
    if marks_of(sound) != of[1]:
        _, damaged = transaction.sort_pending(of[0])
        raise damaged[0] if damaged else lost()
    return sorted((key, entry) for each, key, entry in sound if each is plane)


def find_all(head: Head, pending: Iterable[tuple[Plane, bytes, bytes | None]]) -> int:
    """Returns by how much the marks of all rows of a head fall short of their sum."""
    return 0 if head.unfolded is None else head.unfolded - marks_of(pending)


def check_all(
    transaction: Transaction, head: Head, pending: Iterable[tuple[Plane, bytes, bytes | None]]
) -> None:
    """Raises `Damaged` unless all rows of a head are there.

    Of one that is not locked, a database may show each statement what is newest: `Withdrawn`.
    """
    if not (missing := find_all(head, pending)):
        return
    now = transaction.find_head_by_id(head.namespace_id)
    if now is None or (now.generation, now.sequence) != (head.generation, head.sequence):
        raise Withdrawn(f"others keep changing {head.name!r}")
    raise _named(transaction, head.namespace_id, missing) or lost()


def mend(transaction: Transaction, head: Head) -> tuple[int, list[str]]:
    """Has a head that is locked do without what is missing.

    Returns 1 if it was the sum itself in which a bit was flipped, and what is lost.
    """
    missing = find_all(head, transaction.sort_pending(head.namespace_id)[0])
    if not missing:
        return 0, []
    transaction.mark_anew(head.namespace_id)
    is_bit = abs(missing).bit_count() == 1
    return (1, []) if is_bit else (0, ["something that was pending"])


def lost() -> Damaged:
    """Returns the error of rows that are not there."""
    return Damaged("something that was written since the last snapshot is missing")


def note_added(
    context: Context, namespace_id: NamespaceId, was: int | None, more: int, *, is_sure: bool = True
) -> None:
    """Remembers that rows were all there before some were added, and are so still.

    Who has not looked whether they were pending already is not `is_sure` of what the sum is then.
    """
    if was == 0 or (was is not None and was in context.added.get(namespace_id, ())):
        context.added[namespace_id] = (was + more,) if is_sure else (was, was + more)


def _named(
    transaction: Transaction, namespace_id: NamespaceId, missing: int
) -> PendingDamaged | None:
    """Returns the error of the one row that is missing, if it is of a session or a memory.

    Of files and values nobody knows the key, and of several rows that are missing none.
    """
    for plane, find in (
        (Plane.SESSIONS, transaction.session_ids),
        (Plane.MEMORIES, transaction.memory_ids),
    ):
        for key in map(str.encode, find(namespace_id)):
            if mark_of(plane, key) == missing:
                return PendingDamaged(plane, key=key)
    return None


def _is_whole(context: Context, of: Sum) -> bool:
    """Says whether nothing has to be pending, nobody knows what has to be, or it was all there."""
    namespace_id, unfolded = of
    known = context.added.get(namespace_id, ())
    if not unfolded or unfolded in known:
        return True
    return unfolded // _MEAN_MARK > (MOST_ADDED if known else MOST_ADDED_ONCE)


def _find_summed(
    context: Context, transaction: Transaction, of: Sum
) -> list[tuple[Plane, bytes]] | None:
    """Returns the keys of all rows if these add up; what they hold, which may be much, is not read.

    One of another key, plane or namespace than it was would be missing in the sum.
    """
    namespace_id, unfolded = of
    keys = transaction.pending_keys(namespace_id)
    if unfolded is None or sum(mark_of(*each) for each in keys) != unfolded:
        return None
    _remember(context, namespace_id, unfolded)
    return keys


def _remember(context: Context, namespace_id: NamespaceId, unfolded: int) -> None:
    if len(context.added) >= MOST_REMEMBERED:
        context.added.clear()
    context.added[namespace_id] = (unfolded,)


def _add_up(
    context: Context, transaction: Transaction, of: Sum
) -> list[tuple[Plane, bytes, bytes | None]]:
    """Returns the rows that are what was written; remembers if these are all."""
    namespace_id, unfolded = of
    sound, damaged = transaction.sort_pending(namespace_id)
    # One that is out of its place may hide others that are in theirs.
    if unfolded is not None and marks_of(sound) == unfolded and not damaged:
        _remember(context, namespace_id, unfolded)
    return sound

"""Rounds through a vault: what is done now and then, by one worker of all that there are.

When it was last done is written down for everybody: more workers, or a server that is started
again and again, do not make for more rounds. A round that a crash has cut short counts as none.
What fails keeps nothing else from being done, and is raised in the end. Only who has lost the lock
stops: another does the round by then.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Final, Protocol

from msgspec.structs import replace

from holdfast.catalog.rows import Sorted
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.errors import Damaged, HoldfastError
from holdfast.model.basics import Tenant
from holdfast.model.upkeep import Lags, Measures

LOCK: Final = "upkeep"
RETENTION: Final = "retention"
COLLECTION: Final = "collection"

MOST_MEASURED: Final = 10_000
"""Deliveries that are counted: whoever has more of them due knows enough."""


def is_due(context: Context, chore: str, *, every: timedelta) -> bool:
    """Says whether something was last done longer ago than this, or never."""
    with context.catalog.read() as transaction:
        done_at = transaction.find_chore(chore)
    # One that is still to come is another machine's clock: it is not waited for.
    return done_at is None or not timedelta(0) <= context.clock() - done_at < every


def set_done(context: Context, *chores: str) -> None:
    """Writes down that these were done now."""
    with context.catalog.write() as transaction:
        for chore in chores:
            transaction.set_chore(chore, done_at=context.clock())


class Chores(Protocol):
    """What is to be done for tenants in one round."""

    def __call__(self, found: Sorted[Tenant], /, *, collects: bool) -> list[Callable[[], object]]:
        """Returns it; with `collects`, bytes are given back, too."""
        ...


def look_after(context: Context, chores: Chores, *, every: timedelta, collects: timedelta) -> bool:
    """Does one round, if none was done less than `every` ago; says whether.

    Raises `Busy` if another does one, also if that began while this one stood still.
    """
    with fenced(context, LOCK) as ours:
        if not is_due(context, RETENTION, every=every):
            return False
        with context.catalog.read() as transaction:
            found = transaction.sort_tenants()
        is_collecting = is_due(context, COLLECTION, every=collects)
        work = chores(found, collects=is_collecting)
        failed = do_all(work, before=ours.catalog.check_current) or next(iter(found.damaged), None)
        set_done(ours, RETENTION, *([COLLECTION] if is_collecting else []))
    if failed is not None:
        raise failed
    return True


@contextmanager
def set_aside() -> Generator[None]:
    """Goes on where something is damaged, for whoever works for many: it is told in the log."""
    try:
        yield
    except Damaged as exc:
        tell_damage(str(exc))


@lru_cache(maxsize=1024)
def tell_damage(what: str) -> None:
    """Tells the log of something that is damaged: once, however often it is met."""
    import logging  # noqa: PLC0415 - needed by few, and no small thing to load

    logging.getLogger("holdfast.work").error("Damaged, and set aside until a repair: %s", what)


def do_all(
    work: Iterable[Callable[[], object]], *, before: Callable[[], object] | None = None
) -> HoldfastError | None:
    """Does one thing after the other; returns what went wrong first.

    Nothing more is done where what is asked `before` each of them raises.
    """
    first: HoldfastError | None = None
    for act in work:
        if before is not None:
            before()
        try:
            act()
        except HoldfastError as exc:
            first = first or exc
    return first


def find_lags(context: Context) -> Lags:
    """Counts it, over all tenants; reads no more than rows that wait."""
    with context.catalog.read() as transaction:
        found = transaction.count_lags(now=context.clock())
        return Lags(
            **found,
            looked_after_at=transaction.find_chore(RETENTION),
            collected_at=transaction.find_chore(COLLECTION),
        )


def find_measures(context: Context) -> Measures:
    """Counts what operators look at."""
    with context.catalog.read() as transaction:
        found = transaction.measure(now=context.clock(), most=MOST_MEASURED)
        measures = Measures(
            **found,
            looked_after_at=transaction.find_chore(RETENTION),
            collected_at=transaction.find_chore(COLLECTION),
        )
    replicas, lag = 0, None
    # By itself: there are makers of databases who do not answer this.
    with suppress(HoldfastError), context.catalog.ask() as transaction:
        replicas, lag = transaction.find_replicas()
    return replace(measures, replicas=replicas, replica_lag_bytes=lag)

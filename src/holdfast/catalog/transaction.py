"""One transaction of a catalog: what the engine asks, in one class.

A part for each topic, which says what its methods promise; `port` says what all of them do. Each
method is plain data in, plain data out, over one or a few named queries. SQLite and PostgreSQL
differ in how a query is run, not in what is asked: a driver runs it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec

from holdfast.catalog.counting import CountQueries
from holdfast.catalog.driver import Asked, Driver
from holdfast.catalog.entities import EntityQueries
from holdfast.catalog.erasures import ErasureQueries
from holdfast.catalog.events import EventQueries
from holdfast.catalog.forgetting import ForgettingQueries
from holdfast.catalog.formers import FormerQueries
from holdfast.catalog.gitbackups import GitBackupQueries
from holdfast.catalog.keys import KeyQueries, LoginQueries, SignInQueries
from holdfast.catalog.leases import LeaseQueries
from holdfast.catalog.memories import MemoryQueries
from holdfast.catalog.mending import MendingQueries
from holdfast.catalog.namespaces import NamespaceQueries
from holdfast.catalog.orphans import OrphanQueries
from holdfast.catalog.overviews import OverviewQueries
from holdfast.catalog.packs import PackQueries, PackRowQueries
from holdfast.catalog.pending import PendingQueries
from holdfast.catalog.replies import ReceivedQueries, ReplyQueries
from holdfast.catalog.retired import RetiredQueries
from holdfast.catalog.sessions import SessionQueries
from holdfast.catalog.snapshots import SnapshotQueries
from holdfast.catalog.taskchanges import TaskChangeQueries
from holdfast.catalog.tasks import TaskQueries
from holdfast.catalog.traces import TraceQueries
from holdfast.catalog.upkeep import BackupQueries, UpkeepQueries
from holdfast.catalog.webhooks import WebhookQueries
from holdfast.model.traces import TraceEnd

P = ParamSpec("P")


class Transaction(
    NamespaceQueries,
    PendingQueries,
    SnapshotQueries,
    PackQueries,
    SessionQueries,
    FormerQueries,
    UpkeepQueries,
    TraceQueries,
    ForgettingQueries,
    MemoryQueries,
    KeyQueries,
    SignInQueries,
    LoginQueries,
    LeaseQueries,
    EventQueries,
    WebhookQueries,
    TaskQueries,
    TaskChangeQueries,
    GitBackupQueries,
    EntityQueries,
    ReplyQueries,
    ReceivedQueries,
    RetiredQueries,
    BackupQueries,
    MendingQueries,
    OrphanQueries,
    PackRowQueries,
    ErasureQueries,
    OverviewQueries,
    CountQueries,
):
    """A view of the rows, and in a write transaction the way to change them."""

    __slots__ = ("_db", "_ends", "_sequences")

    def __init__(self, driver: Driver) -> None:
        self._db = driver
        # Of heads that this transaction has locked: nobody else moves them on.
        self._ends: dict[int, TraceEnd] = {}
        self._sequences: dict[int, int] = {}

    def ahead(
        self,
        method: "Callable[Concatenate[Transaction, P], object]",
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Sends the first question of a method that will be called like this in a moment.

        The next wait brings its answer, too, and the call finds it there, as of now: so it is not
        for what the transaction changes in between.
        """
        asking = self._db.asking()
        if asking is not None:
            with suppress(Asked):
                method(Transaction(asking), *args, **kwargs)

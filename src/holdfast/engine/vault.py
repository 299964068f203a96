"""The vault: tenants, and what is done to all of them at once."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Self

from holdfast.catalog.rows import Sorted
from holdfast.engine.audit.alerts import watch
from holdfast.engine.audit.storage import note_storage
from holdfast.engine.backups.folders import open_folder
from holdfast.engine.backups.making import back_up
from holdfast.engine.core import rounds as upkeep
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import find_lags, find_measures
from holdfast.engine.core.tenants import DEFAULT_TENANT, get_or_add
from holdfast.engine.journal.anchors import anchor_all
from holdfast.engine.objects.retired import retire_unnamed
from holdfast.engine.objects.stores import check_store
from holdfast.engine.planes.handle import check_name
from holdfast.engine.sessions.lapsing import end_lapsed
from holdfast.engine.tasks.schedules import run_due
from holdfast.engine.tenancy import rates
from holdfast.engine.tenancy.keys import Bearers, record_uses
from holdfast.engine.tenancy.logins import DeviceLogins
from holdfast.engine.tenancy.outbox import RETRIES_S, Outbox
from holdfast.engine.tenancy.signins import SignIns
from holdfast.engine.tenant import TenantVault
from holdfast.engine.timeline.retention import apply_all
from holdfast.engine.upkeep.collect import collect
from holdfast.engine.upkeep.repacking import join_packs
from holdfast.errors import (
    HoldfastError,
)
from holdfast.ids import TenantId
from holdfast.model.basics import Tenant
from holdfast.model.keys import Key, KeyUse
from holdfast.model.upkeep import (
    BackedUp,
    Lags,
    Load,
    Loss,
    Measures,
)
from holdfast.operations.checks import checked
from holdfast.progress import Progress, no_progress


@checked
class Holdfast(TenantVault):
    """An open vault; by itself it is its default tenant."""

    def __init__(
        self,
        context: Context,
        *,
        store: str | None = None,
        is_apart: bool = False,
    ) -> None:
        """Opens it; `store` is what the place of its packs is called: see `check_store`."""
        try:
            tenant = get_or_add(context, DEFAULT_TENANT, is_first=True)
            # Drawn at random when the vault was made: no other vault has it.
            super().__init__(replace(context, vault=tenant.public_id.removeprefix("ws-")), tenant)
            self._bearers = Bearers(self._context, TenantVault)
            if store is not None:
                check_store(self._context, store, is_apart=is_apart)
        except HoldfastError:
            context.catalog.close()
            raise

    @cached_property
    def sign_ins(self) -> SignIns[TenantVault]:
        """Who is signed in to the console of a server of this vault."""
        return SignIns(self._context, self._tenant.id, self._bearers)

    @cached_property
    def device_logins(self) -> DeviceLogins:
        """Programs that wait for a person to sign them in."""
        return DeviceLogins(self._context)

    def tenant(self, name: str) -> TenantVault:
        """Returns a tenant's part of the vault; makes it on first use."""
        return TenantVault(self._context, get_or_add(self._context, check_name("tenant", name)))

    def tenants(self) -> list[str]:
        """Returns the names of the tenants."""
        with self._context.catalog.read() as transaction:
            return [tenant.name for tenant in transaction.iter_tenants()]

    def ping(self) -> None:
        """Asks the catalog for next to nothing; raises if it does not answer."""
        with self._context.catalog.ask() as transaction:
            transaction.find_tenant(self._tenant.name)

    def ping_packs(self) -> None:
        """Asks the place of packs for next to nothing; raises if it does not answer."""
        self._context.blobs.uncached().find_mark()

    def admit(self, secret: str) -> tuple[TenantVault, Key] | None:
        """Returns what an API key opens, with whoever holds it as the actor; None for none."""
        return self._bearers.admit(secret)

    def outbox(self, *, retries_s: Sequence[float] = RETRIES_S) -> Outbox:
        """Returns what is on its way to webhooks, of all tenants."""
        return Outbox(self._context, retries_s=retries_s)

    def end_lapsed_sessions(self) -> int:
        """Ends sessions whose time is over, some at a time; returns how many."""
        return end_lapsed(self._context)

    def run_schedules(self) -> int:
        """Takes the snapshots that schedules ask for by now; returns how many."""
        return run_due(self._context)

    def push_backups(self) -> int:
        """Pushes one git backup that is due; returns how many."""
        # What runs programs is loaded by those who do.
        from holdfast.engine.gitbackup.pushing import push_due  # noqa: PLC0415 - see above

        return push_due(self._context)

    def check_git(self) -> None:
        """Raises `GitMissing` or `GitTooOld` if no git backup can be pushed from this machine."""
        from holdfast.git.program import find_git  # noqa: PLC0415 - as above

        find_git()

    def sweep_backups(self) -> None:
        """Takes away what this machine has of git backups that are no more."""
        from holdfast.engine.gitbackup.places import sweep  # noqa: PLC0415 - as above

        sweep(self._context)

    def watch_rollbacks(self, *, every: timedelta = timedelta(0)) -> int:
        """Tells of rollback rates that have come to another level; returns how many.

        Not if anybody looked less than `every` ago, nor where nobody listens to events.
        """
        return watch(self._context, every=every)

    def look_after(
        self, *, every: timedelta = timedelta(0), collects: timedelta = timedelta(0)
    ) -> bool:
        """Applies retention to all tenants, and gives bytes back; raises `Busy` if another does.

        Not if anybody did so less than `every` ago: then returns False. Bytes are given back where
        that is longer ago than `collects`. What fails for one tenant is raised after all others.
        """
        return upkeep.look_after(self._context, self._chores, every=every, collects=collects)

    def _chores(self, found: Sorted[Tenant], *, collects: bool) -> list[Callable[[], object]]:
        chores: list[Callable[[], object]] = [
            partial(anchor_all, self._context),
            self.outbox().purge,
            self.replies.purge,
            self.sign_ins.purge,
            self.device_logins.purge,
            self.sweep_backups,
            partial(rates.purge, self._context),
        ]
        for each in found.sound:
            tenant = TenantVault(self._context, each)
            retain = partial(apply_all, self._context, each.id)
            # Apart from the rest: an erasure that cannot be finished keeps nothing else waiting.
            note = partial(note_storage, self._context, each.id)
            give_back = partial(_collect, self._context, each.id)
            chores += [give_back if collects else retain, tenant.erasures.finish, note]
            chores += [partial(join_packs, self._context, each.id), tenant.sweep_commands]
        if collects:
            # Once for all tenants: it lists all of the blob store.
            chores.append(partial(retire_unnamed, self._context))
        return chores

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where this process has the vault open.

        Whatever writes does so by itself; for who only reads, and stays.
        """
        self._context.catalog.check_current()

    def lags(self) -> Lags:
        """Counts what waits to be done by itself, over all tenants."""
        return find_lags(self._context)

    def measure(self) -> Measures:
        """Measures what an operator looks at, often: it takes no longer in a large vault."""
        return find_measures(self._context)

    def load(self) -> Load:
        """Says how busy this process is with its catalog, and asks nobody."""
        return self._context.catalog.load()

    def find_loss(self) -> Loss | None:
        """Returns the changes that were acknowledged and are missing; None if all are there."""
        return self._context.catalog.find_loss()

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing: it is not told any more.

        Packs that only the missing changes named may then be collected.
        """
        self._context.catalog.accept_loss()

    def backup(
        self,
        target: str | os.PathLike[str],
        *,
        key: str | None = None,
        replace: bool = False,
        progress: Progress = no_progress,
    ) -> BackedUp:
        """Makes a backup of the whole vault, or brings the one that is there up to date.

        In a directory, or a bucket (`s3://BUCKET/PREFIX`, `gs://…`, `az://…`). With a key of 32 or
        more characters, from here or the environment (`HOLDFAST_BACKUP_KEY`), it is encrypted.
        One that another copy of this vault has made since both were the same is not overwritten,
        unless with `replace`: `PathExists`.

        Beside writers and collections. Every object is hashed, and every head and snapshot
        followed to its last chunk; a vault that is damaged raises `Damaged`, and the backup
        before stays as it was. `holdfast.reinstate` makes a vault of it.
        """
        open_place = self._context.open_place or open_folder
        place = open_place(os.fspath(target), key=key)
        return back_up(self._context, place, replace=replace, progress=progress)

    def record_uses(self, uses: Iterable[KeyUse]) -> None:
        """Remembers when API keys were last used, and how often."""
        record_uses(self._context, uses)

    def take_requests(
        self, key_id: str, /, *, limit: int, wanted: int, unused: rates.Grant | None = None
    ) -> rates.Taken:
        """Takes some of the requests that a key may make, and gives back what was not made."""
        return rates.take(self._context, key_id, limit=limit, wanted=wanted, unused=unused)

    def tend_log(self) -> None:
        """Copies the catalog's log beside those who write, who leave it to this from now on."""
        self._context.catalog.tend_log()

    def close(self) -> None:
        """Closes the vault; everything that was acknowledged is on disk already."""
        self._context.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _collect(context: Context, tenant_id: TenantId) -> None:
    """Gives a tenant's bytes back, in a round through all tenants."""
    context.catalog.make_room()
    apply_all(context, tenant_id)
    collect(context, tenant_id, lists=False)

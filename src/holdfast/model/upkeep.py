"""Values of upkeep: what is kept, what a collection gave back, what a check found.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, ObjectId
from holdfast.model.marks import Inside, Named

MAX_KEPT: Final = 2**31

MAX_DAYS: Final = 36_500
"""A century: as good as for ever."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many snapshots to keep: the newest, and the newest of each day or week; and traces.

    A rule left at 0 keeps nothing. All rules at 0 is no policy: only age decides.
    """

    keep_last: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_traces_days: int = 0
    """How many days traces are kept that nothing needs; 0 for as long as the vault says."""

    def __post_init__(self) -> None:
        days = self.keep_traces_days
        for kept in (self.keep_last, self.keep_daily, self.keep_weekly, days):
            # Whoever passes 2.5 would find out when it is read back, and every time again.
            if type(kept) is not int or not 0 <= kept <= MAX_KEPT:
                raise InvalidValue("a policy keeps a whole number of each, 0 or more")
        if days > MAX_DAYS:
            raise InvalidValue(f"a policy keeps traces for {MAX_DAYS} days at the most")

    @property
    def is_set(self) -> bool:
        """Says whether there is any rule for snapshots."""
        return bool(self.keep_last or self.keep_daily or self.keep_weekly)


class Loss(msgspec.Struct, frozen=True):
    """Changes that were acknowledged, and that the catalog no longer holds."""

    missing: int
    """How many, as the catalog counts them: taking a snapshot is one or a few."""
    last_at: datetime | None
    """When the last of them was acknowledged; None if that is not known."""
    log: str | None = None
    """Where the log is kept as it was found; None if there was none to keep."""

    def __str__(self) -> str:
        when = "" if self.last_at is None else f", the last of {self.last_at:%Y-%m-%d %H:%M:%S} UTC"
        number = (
            "1 acknowledged change is"
            if self.missing == 1
            else (f"{self.missing:,} acknowledged changes are")
        )
        kept = "" if self.log is None else f" (as it was found, it is kept as {self.log})"
        return f"{number} missing from its end{when}: its log was damaged or cut{kept}"


class Collected(msgspec.Struct, frozen=True):
    """What a collection did. Packs that could not be read were left alone, and are named."""

    objects_deleted: int
    packs_deleted: int
    bytes_before: int
    bytes_after: int
    """What packs take, those that are in use and those that are retired."""
    damaged: tuple[str, ...] = ()
    bytes_retired: int = 0
    """How much of that nothing needs any more: it is given back when its period ends."""
    bytes_freed: int = 0
    """What it deleted, less what it wrote to copy what lives out of packs that are mostly dead.
    Counted, since others write while it runs: the two above are of other moments."""


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made."""

    path: str
    made_at: datetime
    namespaces: int
    snapshots: int
    packs: int
    packs_copied: int
    """How many of them were not there yet."""
    bytes: int
    is_first: bool
    """Whether there was none before in this place."""
    is_encrypted: bool = False
    is_beside: bool = False
    """Whether the packs of the vault are in the same bucket: who loses it loses both."""
    damage: tuple[str, ...] = ()
    """What is known to be lost, and is not in the backup either."""


class Reinstated(msgspec.Struct, frozen=True, kw_only=True):
    """A vault that was made of a backup, with every head and snapshot proven."""

    location: str
    made_at: datetime
    """When the backup was made: the moment that the vault is at."""
    tenants: int
    namespaces: int
    snapshots: int
    packs: int
    objects: int
    """Objects that were hashed again in the new place."""
    bytes: int
    damage: tuple[str, ...] = ()
    """What was known to be lost when the backup was made."""
    erased: tuple[str, ...] = ()
    """The certificates that were given and of which something was there: it is erased again."""
    erased_before: tuple[str, ...] = ()
    """Those that the backup has already, as it was made after them."""
    unmatched: tuple[str, ...] = ()
    """Those of which there was nothing: they may be another vault's."""


class Fault(msgspec.Struct, frozen=True):
    """Something that is not as it should be."""

    what: str
    """A pack's name, or the plane and path that needs something."""
    reason: str
    object_id: ObjectId | None = None
    snapshots: tuple[str, ...] = ()
    """Where it was met first: snapshots, or `head of <namespace>`."""
    is_noted: Annotated[bool, Inside(outside=False)] = False
    """Whether `repair` has named it, and noted that it stays."""
    hint: Annotated[str, Inside("")] = ""
    """What to do, where `repair` can do nothing."""


class Verified(msgspec.Struct, frozen=True):
    """What was looked at, and what was found."""

    packs: int
    objects: int
    bytes: int
    roots: int
    faults: list[Fault] = msgspec.field(default_factory=list[Fault])
    ON_WIRE = {"ok": "ok"}

    @property
    def ok(self) -> bool:
        """Says whether nothing is damaged."""
        return not self.faults

    @property
    def is_noted(self) -> bool:
        """Says whether something is damaged, and all of it was noted as lost by `repair`."""
        return bool(self.faults) and all(fault.is_noted for fault in self.faults)


class Lost(msgspec.Struct, frozen=True):
    """Something that is needed and nowhere to be had."""

    what: str
    """The plane and path that lacks it, a part of a map, or all of a snapshot."""
    object_id: ObjectId | None
    snapshots: tuple[str, ...]
    """Every snapshot that lacks it, and `head of <namespace>`."""


class Repaired(msgspec.Struct, frozen=True):
    """What a repair did, and what it could not do."""

    rebuilt: int
    """Objects that were stored anew, from wherever their bytes were to be had."""
    misplaced: int
    """Objects that were there, and the index said elsewhere."""
    replaced: tuple[str, ...] = ()
    """Damaged packs that nothing needs any more: all that is needed of them lies elsewhere."""
    lost: list[Lost] = msgspec.field(default_factory=list[Lost])
    damaged: tuple[str, ...] = ()
    """Packs that stay as they are, since they may still be put back from a copy."""
    mended: int = 0
    """Rows of the catalog in which a flipped bit was put back."""
    reindexed: int = 0
    """Places where indexes of the catalog did not agree with its rows: they were made anew."""

    @property
    def ok(self) -> bool:
        """Says whether all is whole."""
        return not self.lost and not self.damaged


class Lags(msgspec.Struct, frozen=True, kw_only=True):
    """What waits to be done by itself, in all of a vault."""

    deliveries: int
    """Deliveries to webhooks that are due."""
    deliveries_since: datetime | None
    """When the oldest of them was."""
    webhooks: int
    """Webhooks that have events to look at."""
    unnumbered: int
    """What was told as an event and has no number yet."""
    unnumbered_since: datetime | None
    pending: int
    """Changes that are in no snapshot yet."""
    namespaces: int
    """How many namespaces they are in."""
    anchors: int
    """Chains of traces that have gone on since an anchor was noted."""
    schedules: int
    """Schedules that are due."""
    git_backups: int
    """Copies in git repositories whose last push has failed."""
    forgotten: int
    """Traces that retention has let go."""
    looked_after_at: datetime | None
    """When upkeep was last done, by whomever; None for never."""
    collected_at: datetime | None
    """When all tenants' bytes were last given back by that."""


class Formats(msgspec.Struct, frozen=True, kw_only=True):
    """Of which format a catalog is, and what this version would do about it."""

    format: int
    """0 if there is no catalog yet."""
    newest: int
    """The newest that this version knows; the catalog's own may be newer, and still fit."""
    missing: list[str]
    """The migrations that are to be applied, in their order."""
    is_beside: bool
    """Whether versions that know the catalog as it is can go on when they were applied."""


class Unfinished(msgspec.Struct, frozen=True):
    """What marks a catalog in a database that is being made of a backup."""

    place: str
    """Where the packs go."""
    said: str
    """What that place says about itself when they are there: of no two the same."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """How busy a process is with its catalog: connections to a database, or SQLite's one writer."""

    used: int
    most: int
    waiting: int
    """Threads that wait for one."""
    waits: int
    """How often one was waited for, since the catalog was opened."""
    waited_s: float


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """What operators look at, of all of a vault: little enough to be looked at often."""

    deliveries: int
    """Deliveries to webhooks that are due, up to some bound."""
    deliveries_since: datetime | None
    inline_packs: int
    inline_bytes: int
    """What of packs is in the catalog."""
    looked_after_at: datetime | None
    collected_at: datetime | None
    replicas: int = 0
    """Those that receive the log of the database."""
    replica_lag_bytes: int | None = None
    """How much of the log the last of them has still to keep; None if there is none, or the
    database does not let us look."""


class AuditProblem(msgspec.Struct, frozen=True):
    """A place where a chain is not as it was written."""

    number: int
    """The number of the trace that is there, or should be."""
    reason: str
    namespace: str | None = None
    """In whose chain: that of a namespace, or the tenant's own."""
    hash_now: Annotated[str, Inside("")] = ""
    """What a row that was changed hashes to now, if it can be hashed."""
    is_noted: Annotated[bool, Inside(outside=False)] = False
    """Whether `repair` has noted that it stays."""


class AuditReport(msgspec.Struct, frozen=True):
    """What an audit found."""

    checked: int
    """How many rows were hashed again: traces, and anchors."""
    anchor: str
    """The number and the hash of the newest row of the tenant's own chain: it stands for all."""
    problems: list[AuditProblem]
    forgotten: int = 0
    """How many rows retention has let go, as the chains prove."""
    ON_WIRE = {"ok": "ok"}

    @property
    def ok(self) -> bool:
        """Says whether everything is as it was written."""
        return not self.problems

    @property
    def is_sound(self) -> bool:
        """The same as `ok`."""
        return self.ok


class DeletedNamespace(msgspec.Struct, frozen=True):
    """A namespace that was deleted and whose grace period has not ended."""

    number: NamespaceId
    name: Annotated[str, Named("namespace")]
    deleted_at: datetime


class NamespaceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace, as operators see it."""

    namespace: str
    entries: int
    size_bytes: int
    dirty: bool
    """Whether anything was written since the snapshot that the head stands on."""
    quota_bytes: int | None
    latest_snapshot_id: str | None


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes there may be, None for as many as fit, and how many there are."""

    quota_bytes: int | None
    used_bytes: int

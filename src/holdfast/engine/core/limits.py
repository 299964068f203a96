"""How much is too much, and the check that comes before anything is written."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from holdfast.blobs.port import BlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.errors import InvalidValue, QuotaExceeded, StorageFull, TooLarge
from holdfast.ids import TenantId
from holdfast.model.basics import Head, Size

MOST: Final = 2**31 - 1
"""Things in a list: more than anybody holds in memory."""

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

LOG_BYTES: Final = 64 * KIB
"""What the catalog's own log may take for a transaction, beside what is to be written."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine accepts and keeps; the defaults suit one machine."""

    file_bytes: int = 16 * GIB
    value_bytes: int = 256 * MIB
    state_bytes: int = 64 * MIB
    """The state of a session, as JSON: whoever asks for it gets it whole."""
    turn_bytes: int = 16 * MIB
    """A turn, as JSON: it is a row of the catalog."""
    snapshot_bytes: int | None = None
    """What a snapshot takes, compressed; a namespace with more gets none. None: as much as fits."""
    answer_bytes: int | None = None
    """The states, values, turns or metadata of sessions that one list may hold, as JSON, if it has
    more than one of them. None: whatever is asked for."""
    decoded_values: int | None = None
    """Values and keys of one value of the store, of one key of a state or of one side of a turn:
    with more it is not imported, and nothing is made of it if it is there. None: no bound."""
    decoded_bytes: int | None = None
    """The bytes of one of these, with more of which nothing is made of it. None: no bound."""
    workspace_files: int = 2_000_000
    workspace_bytes: int = 256 * GIB
    """A directory with more files, or more in them, is refused before it is read."""
    archive_members: int = 2_000_000
    archive_bytes: int = 64 * GIB
    """An archive with more members, or a larger one, is refused before it is read."""
    free_floor_bytes: int = 64 * MIB
    """Writing stops before the disk has less than this left."""
    inline_bytes: int = 256 * KIB
    """A batch of new objects up to this size is stored in the catalog: one fsync, no pack.

    Ten changed files among a million make 75 KB; as a pack they would cost three fsyncs.
    """
    retention: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(days=7)
    """How long a deleted snapshot or namespace can be brought back."""
    keep_deleted: timedelta | None = None
    """How long bytes stay that no row needs any more: so old may a catalog be that is brought
    back. None: a day with SQLite, a week with PostgreSQL."""
    keep_events: timedelta = timedelta(days=30)
    """How long events can be asked for; what has to stay is in the traces."""
    keep_traces: timedelta | None = None
    """How long traces stay that nothing needs which is still there. None: for ever."""
    node_cache_bytes: int = 64 * MIB
    block_cache_bytes: int = 16 * MIB


def check_room(
    transaction: Transaction,
    tenant_id: TenantId,
    *,
    needed_bytes: int,
    limits: Limits,
    places: tuple[Catalog | BlobStore, ...],
    counts: bool = True,
) -> int | None:
    """Raises `StorageFull` or `QuotaExceeded` if so many more bytes may not be written.

    What is about to replace bytes that are there already does not count against the quota. Returns
    the quota, if there is one that counts.
    """
    check_free(needed_bytes, limits=limits, places=places)
    quota = transaction.get_tenant_quota(tenant_id) if counts else None
    check_tenant(transaction, tenant_id, needed_bytes=needed_bytes, quota=quota)
    return quota


def check_tenant(
    transaction: Transaction, tenant_id: TenantId, *, needed_bytes: int, quota: int | None
) -> None:
    """Raises `QuotaExceeded` if a tenant with this quota may not have so many more bytes."""
    if quota is not None:
        used = used_bytes(transaction, tenant_id)
        if used + needed_bytes > quota:
            raise QuotaExceeded(
                "the tenant", used_bytes=used, needed_bytes=needed_bytes, quota_bytes=quota
            )


def used_bytes(transaction: Transaction, tenant_id: TenantId) -> int:
    """Returns what counts against a tenant's quota."""
    return (
        transaction.stored_bytes(tenant_id)
        + transaction.pending_bytes(tenant_id)
        + transaction.memory_bytes(tenant_id)
        + transaction.turn_bytes(tenant_id)
        + transaction.added_bytes(tenant_id)
        + transaction.row_bytes(tenant_id)
    )


def check_free(
    needed_bytes: int, *, limits: Limits, places: tuple[Catalog | BlobStore, ...]
) -> None:
    """Raises `StorageFull` if a place has no room for so many more bytes."""
    for place in places:
        free = place.free_bytes()
        if free is not None and free - needed_bytes - LOG_BYTES < limits.free_floor_bytes:
            wanted = f"{needed_bytes} bytes are to be written and " if needed_bytes else ""
            message = (
                f"{wanted}{free} bytes are free; {limits.free_floor_bytes} are always kept free"
            )
            raise StorageFull(message)


def check_answer(limits: Limits, sizes: Iterable[int]) -> None:
    """Raises `TooLarge` for a list that would hold more than one answer may."""
    if limits.answer_bytes is None:
        return
    total = sum(sizes)
    if total > limits.answer_bytes:
        message = (
            f"the answer would hold {total} bytes, and {limits.answer_bytes} are the most: "
            "ask for fewer at a time"
        )
        raise TooLarge(message)


def check_items(limits: Limits, sizes: Collection[int]) -> None:
    """Raises `TooLarge` for a list whose items are too large together.

    One by itself is shown however large it is: it has limits of its own, and nobody can ask for
    fewer. It is also what a write answers with, which is done by then.
    """
    if len(sizes) > 1:
        check_answer(limits, sizes)


def check_limit(limit: int | None, *, takes_none: bool = True) -> int:
    """Returns how many things to list; raises `InvalidValue` for a number that is below none."""
    if limit is None:
        return MOST
    if not 0 <= limit <= MOST:
        message = f"limit is a number from 0 to {MOST}{', or None for all' * takes_none}"
        raise InvalidValue(message)
    return limit


def check_quota(head: Head, more: Size) -> None:
    """Raises `QuotaExceeded` if the namespace may not grow by so much."""
    if head.quota_bytes is None or more.bytes <= 0:
        return
    if head.size.bytes + more.bytes > head.quota_bytes:
        raise QuotaExceeded(
            f"namespace {head.name!r}",
            used_bytes=head.size.bytes,
            needed_bytes=more.bytes,
            quota_bytes=head.quota_bytes,
        )

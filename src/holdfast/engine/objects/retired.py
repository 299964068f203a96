"""Bytes outlive the rows that named them, for a while.

A catalog may be set back: by a backup, a recovery to a point in time, a failover to a replica
that lagged. It then names packs that the newer one had already let go of. So a pack whose row
goes is *retired*: a row says since when, and only after the period (`Limits.keep_deleted`) do
its bytes go. Blobs that no row names, such as those that a newer catalog had named, are retired
by the collection that finds them.

Bytes go here and nowhere else, never those that a row of a pack names, and never while a
backup is being made.
"""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from itertools import islice
from typing import Final

import msgspec

from holdfast.catalog.packs import PackRow
from holdfast.catalog.port import Lease
from holdfast.catalog.retired import RetiredPack
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.core.limits import MOST
from holdfast.errors import Busy, Damaged
from holdfast.ids import PackName, TenantId

LOCK: Final = "retired"
"""Held by whoever deletes the bytes of retired packs, and by whoever needs them to stay."""

PATIENCE_S: Final = 30.0
PAUSE_S: Final = 0.05
"""How long, and in which steps, a backup waits for bytes that are being given back."""

BATCH: Final = 100
"""Packs whose bytes go before their rows do: so much is done again after a crash."""

PAGE: Final = 1000
"""Names of blobs that are looked up together."""

NEAR_BITS: Final = 2
"""So many bits may be flipped of a pack's id or name: names are random, and differ by many more."""


def retired(pack: PackRow, tenant_id: TenantId, *, now: datetime) -> RetiredPack:
    """Returns the row that takes the place of a pack's."""
    return RetiredPack(pack.name, tenant_id, pack.size_bytes, now)


def retire_unnamed(context: Context) -> None:
    """Retires blobs that no row names: a kill has left them, or a catalog that was set back."""
    unnamed, listed = dict[str, int](), context.blobs.iter_names()
    # A page at a time: of a large place, all names are more than should be in memory.
    while page := dict(islice(listed, PAGE)):
        # A directory may hold the packs of other vaults too: theirs are not ours to judge.
        own = {name: size for name, size in page.items() if context.owns_pack(name)}
        # Looked up after the listing: a pack is announced before its bytes are put.
        with context.catalog.read() as transaction:
            known = transaction.named_packs(own) | transaction.retired_packs(own)
        unnamed |= {name: size for name, size in own.items() if name not in known}
    if not unnamed:
        return
    with context.catalog.read() as transaction:
        if transaction.has_lost_packs():
            return
        lacking = transaction.pack_names()
    # One whose name was damaged in its row is nobody's garbage.
    lacking.difference_update(name for name, _ in context.blobs.iter_names())
    now = context.clock()
    garbage = [
        RetiredPack(PackName(name), None, size, now)
        for name, size in unnamed.items()
        if not any(is_nearly(each, name) for each in lacking)
    ]
    if garbage:
        with context.catalog.write() as transaction:
            transaction.retire(garbage)


def is_nearly(name: str, other: str) -> bool:
    """Says whether a name may be another one of which a bit or two were flipped."""
    one, two = (each.encode("utf-8", "surrogateescape") for each in (name, other))
    if len(one) != len(two):
        return False
    return (int.from_bytes(one) ^ int.from_bytes(two)).bit_count() <= NEAR_BITS


@contextmanager
def keeping(context: Context) -> Generator[Lease]:
    """Keeps the bytes of retired packs where they are; lends the lock.

    Waits while somebody gives some back, which takes a second for ten thousand packs; raises
    `Busy` if that does not end, as it does not while a backup is made elsewhere, and in place of
    `Damaged` if the lock was lost: what is not found may have been given back since.
    """
    tries_left = int(PATIENCE_S / PAUSE_S)
    with ExitStack() as held:
        while True:
            try:
                lease = held.enter_context(context.catalog.lock(LOCK))
                break
            except Busy as exc:
                if not tries_left:
                    message = "another backup is being made, or bytes are being given back"
                    raise Busy(message) from exc
            tries_left -= 1
            time.sleep(PAUSE_S)
        try:
            yield lease
        except Damaged:
            lease.check()
            raise


def clear(context: Context, tenant_id: TenantId, *, now: bool = False) -> int:
    """Deletes the bytes of packs that have been retired for long enough.

    Returns how many of them were the tenant's.

    With `now` those of all that a tenant has retired, too. Left for another time while somebody
    else does so, or a backup is being made; with `now` that is `Busy`. None go while acknowledged
    changes are missing: somebody may bring back a catalog that has them.
    """
    if context.catalog.find_loss() is not None:
        return 0
    hurried = tenant_id if now else None
    # Most of the time there is nothing to do, and a lock is a connection to the database.
    if not _find_due(context, hurried, most=1):
        return 0
    freed = 0
    with suppress(*() if now else (Busy,)), fenced(context, LOCK) as fence:
        due = _find_due(context, hurried, most=MOST)
        with context.catalog.read() as transaction:
            own = {pack.name for pack in transaction.own_retired(tenant_id)}
        for at in range(0, len(due), BATCH):
            gone = _delete(fence, due[at : at + BATCH])
            freed += sum(pack.size_bytes for pack in gone if pack.name in own)
    return freed


def _find_due(context: Context, hurried: TenantId | None, *, most: int) -> list[RetiredPack]:
    """Returns the retired packs whose time is over, and all of a tenant that cannot wait."""
    now, keep = context.clock(), context.keep_deleted
    with context.catalog.read() as transaction:
        ahead = transaction.retired_after(now)
        own = [] if hurried is None else transaction.own_retired(hurried)
        due = transaction.due_retired(now=now, keep=keep, most=most)
    # Retired by a clock that was ahead: their time begins now, or it might never end.
    if ahead:
        with context.catalog.write() as transaction:
            transaction.retire(msgspec.structs.replace(p, retired_at=now) for p in ahead)
    return [*{pack.name: pack for pack in (*own, *due)}.values()]


def _delete(context: Context, due: list[RetiredPack]) -> list[RetiredPack]:
    """Deletes bytes, then rows: on a full disk, the first makes room for the second.

    Returns those whose bytes went.
    """
    with context.catalog.read() as transaction:
        named = transaction.named_packs(pack.name for pack in due)
    # A row that names it again comes first: then it was brought back, and is not retired.
    gone = [pack for pack in due if pack.name not in named]
    # Bytes have no transaction: some at a time, and each time only while nobody else is at it.
    context.catalog.check_current()
    for pack in gone:
        context.blobs.delete(pack.name)
    with context.catalog.write() as transaction:
        transaction.forget_retired(pack.name for pack in due)
    return gone

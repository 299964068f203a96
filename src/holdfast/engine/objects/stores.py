"""Whether the place where packs are is the one of this vault.

Servers that share a catalog have to share its packs. One that looks elsewhere, on a disk of its
own or in another bucket, would start, write packs that nobody else finds, and miss theirs. So a
place that is not beside the catalog says whose it is (`vault.json`), and since when; the catalog
has the same moment. A vault whose place says something else, or nothing while the catalog names
packs, is not opened.

The place is marked first and the catalog after it: of two that begin at once in two places, the
second finds that the catalog names another moment.
"""

from contextlib import suppress
from datetime import datetime
from typing import Final

import msgspec

from holdfast.engine.core.context import Context
from holdfast.errors import Damaged, StorageReadOnly, StoreMismatch

CHORE: Final = "store"
"""Under this name the catalog has since when packs are where they are."""

SAMPLE: Final = 16
"""Packs that are looked for in a place that says nothing: those of one vault, or not."""


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """What is in `vault.json`."""

    vault: str
    """The part of the names of its packs that no other vault has."""
    since: datetime


def check_store(
    context: Context, store: str, *, is_apart: bool = True, begins: bool = False
) -> None:
    """Raises `StoreMismatch` unless packs are looked for where this vault has them.

    A place that is new to a vault is marked as its own; with `begins`, also if the vault had its
    packs elsewhere before. One that is not `is_apart`, but beside the catalog, need not say whose
    it is, unless the vault has had packs elsewhere.
    """
    with context.catalog.read() as transaction:
        since = transaction.find_chore(CHORE)
    if since is None and not is_apart:
        return
    found = _read(context, store)
    # What takes no writes can be read, and nobody else will write there either.
    with suppress(StorageReadOnly):
        if found is None:
            if not begins:
                _check_named(context, store, since)
            wanted = Mark(context.vault, since if since and not begins else context.clock())
            context.blobs.put_mark(msgspec.json.encode(wanted) + b"\n")
            found = _read(context, store) or wanted
        if found.vault != context.vault:
            raise StoreMismatch(store, reason="it holds those of another")
        if since is None or begins:
            with context.catalog.write() as transaction:
                since = transaction.find_chore(CHORE)
                if since is None or begins:
                    transaction.set_chore(CHORE, done_at=found.since)
                    since = found.since
        if since != found.since:
            reason = f"they have been in another place since {since.isoformat()}"
            raise StoreMismatch(store, reason=reason)


def _read(context: Context, store: str) -> Mark | None:
    data = context.blobs.find_mark()
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=Mark)
    except msgspec.DecodeError as exc:
        raise Damaged(f"{store}: vault.json is not what was written") from exc


def _check_named(context: Context, store: str, since: datetime | None) -> None:
    """Raises if a place that says nothing is not the one that the catalog means."""
    sample = dict[str, int]()
    with context.catalog.read() as transaction:
        for tenant in transaction.sort_tenants().sound:
            packs = transaction.iter_packs(tenant.id)
            outside = [pack.name for pack in packs if pack.is_stored and not pack.is_inline]
            sample |= dict.fromkeys(outside[: SAMPLE - len(sample)], 1)
    if sample:
        if len(context.blobs.find_short(sample)) < len(sample):
            return  # Whoever copied them has left `vault.json` behind, or it was never there.
        raise _lacking(context, store, since, "none of the packs that the catalog names is there")
    if since is not None:
        raise _lacking(context, store, since, "it is empty, and the vault has one already")


def _lacking(context: Context, store: str, since: datetime | None, reason: str) -> StoreMismatch:
    mark = Mark(context.vault, since or context.clock())
    return StoreMismatch(store, reason=reason).with_hint(
        "Name the place that the vault's other servers use: HOLDFAST_OBJECTS_URL, or `--objects`. "
        "Should the packs be lost for good, put a file vault.json there with the text "
        f"{msgspec.json.encode(mark).decode()}, and see what `holdfast repair` can bring back."
    )

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

from holdfast.blobs.port import BlobStore
from holdfast.catalog.port import Catalog
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


def check_store(context: Context, store: str, *, is_apart: bool = True) -> None:
    """Raises `StoreMismatch` unless packs are looked for where this vault has them.

    A place that is new to a vault is marked as its own. One that is not `is_apart`, but beside the
    catalog, need not say whose it is, unless the vault has had packs elsewhere.
    """
    with context.catalog.read() as transaction:
        since = transaction.find_chore(CHORE)
    if since is None and not is_apart:
        return
    found = _read(context.blobs, store)
    # What takes no writes can be read, and nobody else will write there either.
    with suppress(StorageReadOnly):
        if found is None:
            _check_named(context, store, since)
            found = _put(context.blobs, Mark(context.vault, since or context.clock()))
        # The moment says it as well: a vault whose own name was damaged is still this one.
        if found.vault != context.vault and since != found.since:
            raise StoreMismatch(store, reason="it holds those of another")
        if since is None:
            since = _note(context.catalog, found.since)
        if since != found.since:
            reason = f"they have been in another place since {since.isoformat()}"
            raise StoreMismatch(store, reason=reason)


def mark_store(
    catalog: Catalog, blobs: BlobStore, *, vault: str, now: datetime, is_apart: bool
) -> None:
    """Marks a place as a vault's, which may have had its packs elsewhere until now.

    One that is not `is_apart` only if it had.
    """
    with catalog.read() as transaction:
        if transaction.find_chore(CHORE) is None and not is_apart:
            return
    _note(catalog, mark_place(blobs, vault=vault, now=now), is_moved=True)


def mark_place(blobs: BlobStore, *, vault: str, now: datetime) -> datetime:
    """Marks a place as a vault's; returns since when it is."""
    return _put(blobs, Mark(vault, now)).since


def encode_mark(mark: Mark) -> bytes:
    """Returns what is in `vault.json`."""
    return msgspec.json.encode(mark) + b"\n"


def _note(catalog: Catalog, since: datetime, *, is_moved: bool = False) -> datetime:
    """Notes since when packs are where they are; returns what is noted."""
    with catalog.write() as transaction:
        noted = transaction.find_chore(CHORE)
        if noted is None or is_moved:
            transaction.set_chore(CHORE, done_at=since)
            return since
    return noted


def _put(blobs: BlobStore, mark: Mark) -> Mark:
    """Marks a place; returns what it says then, which may be what another has put there."""
    blobs.put_mark(encode_mark(mark))
    return _read(blobs, "the place of packs") or mark


def _read(blobs: BlobStore, store: str) -> Mark | None:
    data = blobs.find_mark()
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

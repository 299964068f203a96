"""Answers that a repeated request gets again, so that repeating one does nothing twice.

The same name with the same body gets the answer that there was; with another body it is refused.
The answer is kept in the transaction that does the work (`core/replying.py`), so that who asks
again after a crash finds it if and only if the thing was done. Of the same request twice at once,
both are worked on; one keeps its answer, and what the other did is undone.

What takes long, or does more than a transaction can undo, is claimed before it is worked on, with a
lease, and whoever asks meanwhile has to wait. A worker that dies leaves a lease that ends: then the
next attempt goes through.
"""

from datetime import datetime, timedelta
from functools import partial
from typing import Final

import zstandard
from msgspec.structs import replace

from holdfast.catalog.replies import LARGE_BYTES
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import used_bytes
from holdfast.engine.core.replying import Replying
from holdfast.errors import Damaged, RequestReused, RequestRunning
from holdfast.ids import TenantId
from holdfast.model.replies import Asked, Reply, ReplyPlace

KEPT: Final = timedelta(days=1)
LEASE: Final = timedelta(seconds=15)
"""How long a request is somebody's to answer; it can be prolonged.

So long has to wait who asks again, if a worker has died.
"""


NOT_KEPT: Final = 409
"""The status in place of an answer that is not kept."""

PACKED_BYTES: Final = 1024
"""From here on answers are compressed: a state stands in the answer of its change twice."""

MOST_BYTES: Final = 1 << 26
_FRAME: Final = b"\x28\xb5\x2f\xfd"


class Replies:
    """What was asked and answered, by the names that clients give their requests."""

    def __init__(self, context: Context, tenant_id: TenantId) -> None:
        self._context, self._tenant_id = context, tenant_id

    def look(self, place: ReplyPlace, fingerprint: bytes) -> Asked:
        """Returns what is known of a request, and the answer if there was one.

        Raises `RequestReused`, or `RequestRunning` if somebody has claimed it.
        """
        now = self._context.clock()
        with self._context.catalog.ask() as transaction:
            found = transaction.find_reply(place)
        mine = _mine(fingerprint, now)
        if found is None or _is_over(found, now):
            return Asked(place, mine, found)
        return Asked(place, mine, found, answer=_known(found, fingerprint))

    def find_new(self, place: ReplyPlace, fingerprint: bytes) -> Asked | None:
        """Returns a request that was not seen before; None for any other.

        No answer is read for it: it takes no longer than the row of a key.
        """
        with self._context.catalog.ask() as transaction:
            is_known = transaction.has_reply(place)
        return None if is_known else Asked(place, _mine(fingerprint, self._context.clock()))

    def claim(self, asked: Asked) -> Asked:
        """Makes a request that was looked for ours to answer; raises `RequestRunning`."""
        with self._context.catalog.write() as transaction:
            if not self._put(asked, transaction, asked.mine):
                raise RequestRunning
        return replace(asked, is_claimed=True)

    def begin(self, asked: Asked) -> Replying:
        """Returns the catalog to work on a request with: it keeps the answer with the work."""
        return Replying(self._context.catalog, partial(self._put, asked, is_sure=True))

    def renew(self, asked: Asked) -> bool:
        """Prolongs the lease of a request that takes its time; False if it is lost."""
        until, claimed_at = self._context.clock() + LEASE, asked.mine.created_at
        with self._context.catalog.write() as transaction:
            return transaction.renew_reply(asked.place, claimed_at=claimed_at, until=until)

    def keep(self, asked: Asked, done: Reply) -> None:
        """Keeps the answer of a request, unless there is one, or the claim is lost."""
        with self._context.catalog.write() as transaction:
            self._put(asked, transaction, done)

    def release(self, asked: Asked) -> None:
        """Forgets a request that was claimed and came to nothing: it may be tried again.

        Should it have been done all the same, its answer stays: of a commit during which the
        connection broke, nobody knows.
        """
        with self._context.catalog.write() as transaction:
            transaction.delete_reply(asked.place, claimed_at=asked.mine.created_at)

    def purge(self) -> int:
        """Removes what is older than a day; returns how many replies that were."""
        with self._context.catalog.write() as transaction:
            return transaction.purge_replies(before=self._context.clock() - KEPT)

    def _put(
        self, asked: Asked, transaction: Transaction, reply: Reply, *, is_sure: bool = False
    ) -> bool:
        """Writes what becomes of a request; False if it became something else meanwhile."""
        place, mine = asked.place, asked.mine
        if len(reply.body) > LARGE_BYTES and not self._has_room(transaction, len(reply.body)):
            reply = replace(reply, status=NOT_KEPT, media_type="", body=b"")
        if asked.is_claimed:
            known_at = mine.created_at
            return transaction.settle_reply(place, reply, claimed_at=known_at, is_sure=is_sure)
        if asked.old is None:
            return transaction.add_reply(place, reply, is_sure=is_sure)
        return transaction.take_reply(place, reply, seen=asked.old, is_sure=is_sure)

    def _has_room(self, transaction: Transaction, size: int) -> bool:
        """Says whether a large answer may be kept: else ever new names would pass every quota."""
        quota = transaction.get_tenant_quota(self._tenant_id)
        if quota is None:
            return True
        kept = transaction.large_reply_bytes(self._tenant_id)
        return used_bytes(transaction, self._tenant_id) + kept + size <= quota


def _mine(fingerprint: bytes, now: datetime) -> Reply:
    """Returns what a request will be known by."""
    return Reply(fingerprint=fingerprint, created_at=now, leased_until=now + LEASE)


def _is_over(reply: Reply, now: datetime) -> bool:
    """Says whether a reply counts no more: it is old, or whoever worked on it has died."""
    return reply.created_at + KEPT <= now or (reply.status is None and reply.leased_until <= now)


def _known(found: Reply, fingerprint: bytes) -> Reply:
    if found.fingerprint != fingerprint:
        raise RequestReused
    if found.status is None:
        raise RequestRunning
    return replace(found, body=_unpacked(found.body))


def reply_of(mine: Reply, *, status: int, media_type: str, body: bytes) -> Reply:
    """Returns an answer as it is kept: most are never asked for again, and take room for a day."""
    if len(body) >= PACKED_BYTES:
        body = zstandard.ZstdCompressor(level=1).compress(body)
    return replace(mine, status=status, media_type=media_type, body=body)


def _unpacked(kept: bytes) -> bytes:
    """Returns an answer that was kept: no JSON begins as a frame does."""
    if not kept.startswith(_FRAME):
        return kept
    try:
        return zstandard.ZstdDecompressor().decompress(kept, max_output_size=MOST_BYTES)
    except zstandard.ZstdError as exc:
        raise Damaged("an answer that was kept cannot be read") from exc

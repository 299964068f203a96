"""Answers that a repeated request gets again, so that repeating one does nothing twice.

A request that bears a name is written down before it is worked on, with a lease. The same name
with the same body gets the answer that there was, or has to wait; with another body it is
refused. A worker that dies leaves a lease that ends: then the next attempt goes through. What it
had done by then is done: the answer is kept after the work, not with it.
"""

from datetime import datetime, timedelta
from typing import Final

import zstandard
from msgspec.structs import replace

from holdfast.engine.context import Context
from holdfast.errors import Damaged, RequestReused, RequestRunning
from holdfast.model_replies import Reply, ReplyPlace

KEPT: Final = timedelta(days=1)
LEASE: Final = timedelta(seconds=60)
"""How long a request is somebody's to answer; it can be prolonged."""


PACKED_BYTES: Final = 1024
"""From here on answers are compressed: a state stands in the answer of its change twice."""

MOST_BYTES: Final = 1 << 26
_FRAME: Final = b"\x28\xb5\x2f\xfd"


class Replies:
    """What was asked and answered, by the names that clients give their requests."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def claim(self, place: ReplyPlace, fingerprint: bytes) -> Reply:
        """Returns the answer that there was, or a reply without a status: then it is ours to do.

        Raises `RequestReused` or `RequestRunning`.
        """
        now = self._context.clock()
        # Looked at first: whoever waits for an answer asks again and again, and is in nobody's way.
        with self._context.catalog.read() as transaction:
            found = transaction.find_reply(place)
        if found is not None and not _is_over(found, now):
            return _known(found, fingerprint)
        mine = Reply(fingerprint=fingerprint, created_at=now, leased_until=now + LEASE)
        with self._context.catalog.write() as transaction:
            is_ours = (
                transaction.add_reply(place, mine)
                if found is None
                else transaction.set_reply(place, mine, seen=found.leased_until)
            )
        if not is_ours:
            raise RequestRunning
        return mine

    def renew(self, place: ReplyPlace, mine: Reply) -> Reply:
        """Prolongs the lease of a request that takes its time; as it was, if it is lost."""
        longer = replace(mine, leased_until=self._context.clock() + LEASE)
        with self._context.catalog.write() as transaction:
            return longer if transaction.set_reply(place, longer, seen=mine.leased_until) else mine

    def keep(
        self, place: ReplyPlace, mine: Reply, *, status: int, media_type: str, body: bytes
    ) -> None:
        """Keeps the answer of a request that was claimed, unless the claim is lost."""
        done = replace(mine, status=status, media_type=media_type, body=_packed(body))
        with self._context.catalog.write() as transaction:
            transaction.set_reply(place, done, seen=mine.leased_until)

    def release(self, place: ReplyPlace, mine: Reply) -> None:
        """Forgets a request that was claimed and came to nothing: it may be tried again."""
        with self._context.catalog.write() as transaction:
            transaction.delete_reply(place, seen=mine.leased_until)

    def purge(self) -> int:
        """Removes what is older than a day; returns how many replies that were."""
        with self._context.catalog.write() as transaction:
            return transaction.purge_replies(before=self._context.clock() - KEPT)


def _is_over(reply: Reply, now: datetime) -> bool:
    """Says whether a reply counts no more: it is old, or whoever worked on it has died."""
    return reply.created_at + KEPT <= now or (reply.status is None and reply.leased_until <= now)


def _known(found: Reply, fingerprint: bytes) -> Reply:
    if found.fingerprint != fingerprint:
        raise RequestReused
    if found.status is None:
        raise RequestRunning
    return replace(found, body=_unpacked(found.body))


def _packed(body: bytes) -> bytes:
    """Returns an answer as it is kept: most are never asked for again, and take room for a day."""
    if len(body) < PACKED_BYTES:
        return body
    return zstandard.ZstdCompressor(level=1).compress(body)


def _unpacked(kept: bytes) -> bytes:
    """Returns an answer that was kept: no JSON begins as a frame does."""
    if not kept.startswith(_FRAME):
        return kept
    try:
        return zstandard.ZstdDecompressor().decompress(kept, max_output_size=MOST_BYTES)
    except zstandard.ZstdError as exc:
        raise Damaged("an answer that was kept cannot be read") from exc

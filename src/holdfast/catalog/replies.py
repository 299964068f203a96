"""The part of a transaction that is about answers that a repeated request gets again."""

from datetime import datetime

from msgspec.structs import asdict

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import REPLY
from holdfast.instants import to_us
from holdfast.model.replies import Reply, ReplyPlace


class ReplyQueries:
    """Rows of replies."""

    __slots__ = ()

    _db: Driver

    def add_reply(self, place: ReplyPlace, reply: Reply) -> bool:
        """Adds a request that is seen for the first time; False if it was seen before."""
        return self._db.run("add_reply", **asdict(place), **REPLY.write(reply)) > 0

    def find_reply(self, place: ReplyPlace) -> Reply | None:
        return REPLY.find(self._db.one("find_reply", **asdict(place)))

    def take_reply(self, place: ReplyPlace, reply: Reply, *, seen: Reply) -> bool:
        """Takes a request over that is somebody else's; False if it is not as it was seen."""
        known = asdict(place) | REPLY.write(reply)
        was = {
            "seen_at": to_us(seen.created_at),
            "seen_until": to_us(seen.leased_until),
            "seen_status": seen.status or 0,
        }
        return self._db.run("take_reply", **was, **known) > 0

    def renew_reply(self, place: ReplyPlace, *, claimed_at: datetime, until: datetime) -> bool:
        """Prolongs the lease of a request; False if it is not that of who claimed it then."""
        leased = {"claimed_at": to_us(claimed_at), "leased_until": to_us(until)}
        return self._db.run("renew_reply", **leased, **asdict(place)) > 0

    def settle_reply(self, place: ReplyPlace, done: Reply, *, claimed_at: datetime) -> bool:
        """Keeps an answer; False if the request is not that of who claimed it then.

        Of two who work on the same request, one waits here for the other, and is told.
        """
        answer = {"status": done.status, "media_type": done.media_type, "body": done.body}
        known = {"claimed_at": to_us(claimed_at), **asdict(place)}
        return self._db.run("settle_reply", **answer, **known) > 0

    def delete_reply(self, place: ReplyPlace, *, claimed_at: datetime) -> bool:
        """Forgets a request without an answer; False if it is not that of who claimed it then."""
        return self._db.run("delete_reply", claimed_at=to_us(claimed_at), **asdict(place)) > 0

    def purge_replies(self, *, before: datetime) -> int:
        """Removes what is older for good; returns how many replies that were."""
        return self._db.run("purge_replies", before=to_us(before))

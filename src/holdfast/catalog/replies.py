"""The part of a transaction that is about answers that a repeated request gets again."""

from datetime import datetime

from msgspec.structs import asdict

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import REPLY
from holdfast.instants import to_us
from holdfast.model_replies import Reply, ReplyPlace


class ReplyQueries:
    """Rows of replies."""

    __slots__ = ()

    _db: Driver

    def add_reply(self, place: ReplyPlace, reply: Reply) -> bool:
        """Adds a request that is seen for the first time; False if it was seen before."""
        return self._db.run("add_reply", **asdict(place), **REPLY.write(reply)) > 0

    def find_reply(self, place: ReplyPlace) -> Reply | None:
        return REPLY.find(self._db.one("find_reply", **asdict(place)))

    def set_reply(self, place: ReplyPlace, reply: Reply, *, seen: datetime) -> bool:
        """Replaces a reply; False if its lease is not the one that was seen."""
        known = asdict(place) | REPLY.write(reply)
        return self._db.run("set_reply", seen=to_us(seen), **known) > 0

    def delete_reply(self, place: ReplyPlace, *, seen: datetime) -> bool:
        """Removes a reply; False if its lease is not the one that was seen."""
        return self._db.run("delete_reply", seen=to_us(seen), **asdict(place)) > 0

    def purge_replies(self, *, before: datetime) -> int:
        """Removes what is older for good; returns how many replies that were."""
        return self._db.run("purge_replies", before=to_us(before))

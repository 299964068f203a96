"""The part of a transaction that is about answers that a repeated request gets again."""

from datetime import datetime
from typing import Any

from msgspec.structs import asdict

from holdfast.catalog.driver import Driver
from holdfast.instants import from_us, to_us
from holdfast.model_replies import Reply, ReplyPlace


class ReplyQueries:
    """Rows of replies."""

    __slots__ = ()

    _db: Driver

    def add_reply(self, place: ReplyPlace, reply: Reply) -> bool:
        """Adds a request that is seen for the first time; False if it was seen before."""
        return self._db.run("add_reply", **asdict(place), **_fields(reply)) > 0

    def find_reply(self, place: ReplyPlace) -> Reply | None:
        row = self._db.one("find_reply", **asdict(place))
        if row is None:
            return None
        return Reply(
            fingerprint=row[0],
            created_at=from_us(row[1]),
            leased_until=from_us(row[2]),
            status=row[3],
            media_type=row[4],
            body=row[5],
        )

    def set_reply(self, place: ReplyPlace, reply: Reply, *, seen: datetime) -> bool:
        """Replaces a reply; False if its lease is not the one that was seen."""
        return self._db.run("set_reply", seen=to_us(seen), **asdict(place), **_fields(reply)) > 0

    def delete_reply(self, place: ReplyPlace, *, seen: datetime) -> bool:
        """Removes a reply; False if its lease is not the one that was seen."""
        return self._db.run("delete_reply", seen=to_us(seen), **asdict(place)) > 0

    def purge_replies(self, *, before: datetime) -> int:
        """Removes what is older for good; returns how many replies that were."""
        return self._db.run("purge_replies", before=to_us(before))


def _fields(reply: Reply) -> dict[str, Any]:
    return {
        "fingerprint": reply.fingerprint,
        "created_at": to_us(reply.created_at),
        "leased_until": to_us(reply.leased_until),
        "status": reply.status,
        "media_type": reply.media_type,
        "body": reply.body,
    }

"""The parts of a transaction about what is kept for a while.

Answers, which a repeated request gets again; and objects that arrive before what names them.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import asdict

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import REPLY, get_row
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.instants import to_us
from holdfast.model.replies import Reply, ReplyPlace

LARGE_BYTES: Final = 4096
"""Answers from here on are counted; `large_reply_bytes` and its index say the same."""


class ReplyQueries:
    """Rows of replies.

    What says whether it was done can be told that its caller `is_sure`: then nobody waits for it,
    and if it is not so, that is `Busy`, here or with the next answer.
    """

    __slots__ = ()

    _db: Driver

    def add_reply(self, place: ReplyPlace, reply: Reply, *, is_sure: bool = False) -> bool:
        """Adds a request that is seen for the first time; False if it was seen before."""
        return self._change_reply("add_reply", asdict(place) | REPLY.write(reply), is_sure=is_sure)

    def find_reply(self, place: ReplyPlace) -> Reply | None:
        return REPLY.find(self._db.one("find_reply", **asdict(place)))

    def has_reply(self, place: ReplyPlace) -> bool:
        """Says whether a request was seen before, whatever became of it."""
        return self._db.one("has_reply", **asdict(place)) is not None

    def take_reply(
        self, place: ReplyPlace, reply: Reply, *, seen: Reply, is_sure: bool = False
    ) -> bool:
        """Takes a request over that is somebody else's; False if it is not as it was seen."""
        known = asdict(place) | REPLY.write(reply)
        was = {
            "seen_at": to_us(seen.created_at),
            "seen_until": to_us(seen.leased_until),
            "seen_status": seen.status or 0,
        }
        return self._change_reply("take_reply", was | known, is_sure=is_sure)

    def renew_reply(self, place: ReplyPlace, *, claimed_at: datetime, until: datetime) -> bool:
        """Prolongs the lease of a request; False if it is not that of who claimed it then."""
        leased = {"claimed_at": to_us(claimed_at), "leased_until": to_us(until)}
        return self._db.run("renew_reply", **leased, **asdict(place)) > 0

    def settle_reply(
        self, place: ReplyPlace, done: Reply, *, claimed_at: datetime, is_sure: bool = False
    ) -> bool:
        """Keeps an answer; False if the request is not that of who claimed it then.

        Of two who work on the same request, one waits here for the other, and is told.
        """
        answer = {"status": done.status, "media_type": done.media_type, "body": done.body}
        known = {"claimed_at": to_us(claimed_at), **asdict(place)}
        return self._change_reply("settle_reply", answer | known, is_sure=is_sure)

    def delete_reply(self, place: ReplyPlace, *, claimed_at: datetime) -> bool:
        """Forgets a request without an answer; False if it is not that of who claimed it then."""
        return self._db.run("delete_reply", claimed_at=to_us(claimed_at), **asdict(place)) > 0

    def large_reply_bytes(self, tenant_id: TenantId) -> int:
        """Returns what the large answers take that are kept for a tenant's keys."""
        return int(get_row(self._db.one("large_reply_bytes", tenant_id=tenant_id), "sum")[0])

    def purge_replies(self, *, before: datetime) -> int:
        """Removes what is older for good; returns how many replies that were."""
        return self._db.run("purge_replies", before=to_us(before))

    def _change_reply(self, query: str, known: Mapping[str, Any], *, is_sure: bool) -> bool:
        if is_sure:
            self._db.insist(query, **known)
            return True
        return self._db.one(query, **known) is not None


class ReceivedQueries:
    """Rows of objects that were sent for a namespace, and that no snapshot names yet."""

    __slots__ = ()

    _db: Driver

    def add_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId], *, now: datetime
    ) -> None:
        """Says that these were sent for a namespace; those that were before, are so anew."""
        at = to_us(now)
        # In order: two writers that add the same wait for each other, and never in a ring.
        rows = [
            {"namespace_id": namespace_id, "id": object_id, "received_at": at}
            for object_id in sorted(object_ids)
        ]
        self._db.run_many("add_received", rows)

    def find_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]
    ) -> set[ObjectId]:
        """Returns which of these were sent for a namespace."""
        found = self._db.by_keys("find_received", object_ids, namespace_id=namespace_id)
        return {ObjectId(row[0]) for row in found}

    def iter_received(self, tenant_id: TenantId) -> set[ObjectId]:
        """Returns what was sent for any namespace of a tenant."""
        return {ObjectId(row[0]) for row in self._db.all("iter_received", tenant_id=tenant_id)}

    def drop_received(self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]) -> None:
        """Forgets that these were sent: something names them from now on."""
        rows = [{"namespace_id": namespace_id, "id": object_id} for object_id in sorted(object_ids)]
        self._db.run_many("drop_received", rows)

    def expire_received(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Forgets what was sent earlier than that; returns how many objects that were."""
        return self._db.run("expire_received", tenant_id=tenant_id, before=to_us(before))

    def measure_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, int]:
        """Returns the sizes of those of a tenant's objects that are there."""
        found = self._db.by_keys("measure_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]): row[1] for row in found}

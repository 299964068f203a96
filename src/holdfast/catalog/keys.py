"""The part of a transaction that is about API keys.

A key is found by the hash of its secret alone, and whoever finds one looks at the row as it is, so
that a revoked key is refused at once everywhere. What a row says is made once for as long as it
stays as it is.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from holdfast.catalog import rows
from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import in_order
from holdfast.catalog.driver import Driver
from holdfast.ids import TenantId
from holdfast.model.basics import Tenant
from holdfast.model.keys import Key, KeyUse

PLACES: Final = 64
"""So many seconds have a row each, one after the other: more than are ever asked for."""

_MICRO: Final = 1_000_000


class RateRow(NamedTuple):
    """What is left of a key's requests, in millionths, as of when; None if that is not known."""

    now: int
    """What the database's clock says."""
    left: int | None
    at: int | None


class KeyQueries(AbsenceQueries):
    """Rows of API keys."""

    __slots__ = ()

    _db: Driver

    def add_key(self, key: Key, *, secret_hash: bytes) -> None:
        self._db.say("add_key", **rows.KEY.write(key), secret_hash=secret_hash)
        self.count_in_tenant(key.tenant_id, keys=1)

    def find_key(self, secret_hash: bytes) -> tuple[Key, Tenant] | None:
        """Returns the key with this secret and its tenant, revoked and expired ones too."""
        row = self._db.one("find_key", secret_hash=secret_hash)
        if row is None:
            return None
        return _bearer(tuple(row))

    def find_key_by_id(self, tenant_id: TenantId, key_id: str) -> Key | None:
        """Returns a key of a tenant, revoked and expired ones too."""
        query, asked = "find_key_by_id", {"tenant_id": tenant_id, "id": key_id}
        row = self._db.one(query, **asked) or self.look_again(rows.KEY, query, asked)
        return rows.KEY.find(row)

    def find_keys(self, tenant_id: TenantId, key_ids: Sequence[str]) -> list[Key]:
        """Returns those of some ids that are keys of a tenant, revoked and expired ones too."""
        ids = json.dumps([*key_ids])
        return [*map(rows.KEY.read, self._db.all("find_keys", tenant_id=tenant_id, ids=ids))]

    def list_keys(self, tenant_id: TenantId) -> list[Key]:
        """Returns the keys that are not revoked, oldest first.

        Raises `Damaged` if one is missing.
        """
        compare = self.comparing_tenants(tenant_id, "keys")
        found = self._db.all("list_keys", tenant_id=tenant_id)
        compare(len(found))
        keys = in_order(map(rows.KEY.read, found), attrgetter("created_at", "id"), rising=True)
        return [key for key in keys if key.revoked_at is None]

    def revoke_key(self, tenant_id: TenantId, key_id: str, *, now: datetime) -> Key | None:
        """Revokes a key and returns it; None if there is none, or it was revoked before."""
        key = rows.KEY.find(self._db.one("lock_key", id=key_id))
        if key is None or key.tenant_id != tenant_id or key.revoked_at is not None:
            return None
        revoked = replace(key, revoked_at=now)
        self._db.say("set_key", **rows.KEY.write(revoked))
        return revoked

    def keep_secret(self, key: Key, secret: str) -> None:
        """Keeps the secret of a key that nobody may have been told."""
        self._db.say("keep_secret", key_id=key.id, tenant_id=key.tenant_id, secret=secret)

    def kept_secrets(self, tenant_id: TenantId) -> dict[str, str]:
        """Returns the secrets that are kept, by the ids of their keys."""
        return {row[0]: row[1] for row in self._db.all("kept_secrets", tenant_id=tenant_id)}

    def forget_secrets(self, key_ids: Iterable[str]) -> None:
        """Keeps no secret of a tenant any more of whose keys one is among these."""
        self._db.say_many("forget_secrets", ({"key_id": each} for each in sorted(key_ids)))

    def lock_rate(self, key_id: str) -> RateRow:
        """Returns what is left of a key's requests; whoever else asks waits."""
        return RateRow(*rows.get_row(self._db.one("lock_rate", key_id=key_id), "rate"))

    def set_rate(self, key_id: str, *, left: int) -> None:
        """Says what is left of a key's requests now."""
        self._db.say("set_rate", key_id=key_id, left=left)

    def requests_between(self, key_id: str, first: int, last: int) -> dict[int, int]:
        """Returns how many requests of a key were taken in each second from one to another."""
        places = {"lowest": _place(key_id, 0), "highest": _place(key_id, PLACES - 1)}
        found = self._db.all("find_requests", **places, first=first * _MICRO, last=last * _MICRO)
        return {int(row[0]) // _MICRO: int(row[1]) for row in found}

    def add_requests(self, key_id: str, second: int, count: int) -> None:
        """Counts requests of a key that were taken in a second; what was in its place is over."""
        place, at = _place(key_id, second), second * _MICRO
        self._db.say("add_requests", place=place, at=at, count=count)

    def purge_rates(self, *, idle_us: int) -> None:
        """Forgets keys of which nobody has asked for so many microseconds."""
        self._db.run("purge_rates", idle_us=idle_us)

    def touch_keys(self, uses: Iterable[KeyUse]) -> None:
        """Adds requests, and remembers the latest of all uses, in whatever order they come."""
        # In one order everywhere: two workers that wait for each other's rows would wait for ever.
        for use in sorted(uses, key=attrgetter("key_id")):
            row = self._db.one("lock_key", id=use.key_id)
            # One that is damaged opens nothing, and keeps nobody else's from being counted.
            found = rows.KEY.sort([] if row is None else [row]).sound
            if not found:
                continue
            key = found[0]
            last = use.last_used_at
            if key.last_used_at is not None:
                last = max(last, key.last_used_at)
            used = replace(key, last_used_at=last, requests=key.requests + use.requests)
            self._db.run("set_key", **rows.KEY.write(used))


def _place(key_id: str, second: int) -> str:
    return f"{key_id}/{second % PLACES:02}"


@lru_cache(maxsize=1000)
def _bearer(row: tuple[Any, ...]) -> tuple[Key, Tenant]:
    """Returns what a row says, which nothing but itself decides: the next request has the same."""
    return rows.KEY.read(row[: rows.KEY.width]), rows.TENANT.read(row[rows.KEY.width :])

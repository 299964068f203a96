"""The parts of a transaction about API keys, who is signed in with them, and who waits for one.

A key is found by the hash of its secret alone, and whoever finds one looks at the row as it is, so
that a revoked key is refused at once everywhere. What a row says is made once for as long as it
stays as it is. Who is signed in to the console is found by the hash of a token alone, with the rows
of its keys as they are. A program that waits to be signed in is found by the hash of what it asks
by, or of what a person types; it is decided once, and taken once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
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
from holdfast.instants import to_us
from holdfast.model.basics import Tenant
from holdfast.model.keys import Key, KeyUse, Login, SignIn

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


class SignInQueries:
    """Rows of sign-ins, and of links."""

    __slots__ = ()

    _db: Driver

    def add_sign_in(self, sign_in: SignIn) -> None:
        self._db.say("add_sign_in", **rows.SIGN_IN.write(sign_in))

    def find_sign_in(self, token_hash: bytes) -> tuple[SignIn, Tenant, Sequence[Key]] | None:
        """Returns a sign-in with its tenant and its keys, whatever became of these; no link."""
        found = self._db.all("find_sign_in", token_hash=token_hash)
        return _signed_in(tuple(map(tuple, found))) if found else None

    def take_sign_in(self, token_hash: bytes, *, is_link: bool) -> SignIn | None:
        """Removes a sign-in, or a link, and returns it; None if somebody else was first."""
        return rows.SIGN_IN.find(
            self._db.one("take_sign_in", token_hash=token_hash, is_link=int(is_link))
        )

    def end_sign_ins(
        self, tenant_id: TenantId, *, runtime_key: str | None, admin_key: str | None
    ) -> int:
        """Removes every sign-in and link that holds one of these keys; returns how many."""
        keys = {"runtime_key": runtime_key or "", "admin_key": admin_key or ""}
        return self._db.run("end_sign_ins", tenant_id=tenant_id, **keys)

    def note_sign_ins(self, seen: Mapping[bytes, datetime]) -> None:
        """Remembers when sign-ins were last used."""
        # In one order everywhere: two workers that wait for each other's rows would wait for ever.
        for token_hash, at in sorted(seen.items()):
            self._db.run("note_sign_in", token_hash=token_hash, seen_at=to_us(at))

    def purge_sign_ins(self, *, created: datetime, seen: datetime, linked: datetime) -> int:
        """Removes what is no newer than that, or was not seen since; returns how many."""
        before = {"created_before": created, "seen_before": seen, "linked_before": linked}
        instants = {name: to_us(instant) for name, instant in before.items()}
        return self._db.run("purge_sign_ins", **instants)


@lru_cache(maxsize=1000)
def _signed_in(found: tuple[tuple[Any, ...], ...]) -> tuple[SignIn, Tenant, Sequence[Key]]:
    """Returns what rows say, which nothing but themselves decides."""
    first, second = rows.SIGN_IN.width, rows.SIGN_IN.width + rows.TENANT.width
    sign_in, tenant = found[0][:first], found[0][first:second]
    keys = [rows.KEY.read(row[second:]) for row in found]
    return rows.SIGN_IN.read(sign_in), rows.TENANT.read(tenant), keys


class LoginQueries:
    """Rows of programs that wait."""

    __slots__ = ()

    _db: Driver

    def add_login(self, login: Login) -> bool:
        """Adds one; says whether its code was nobody else's."""
        return self._db.run("add_login", **rows.LOGIN.write(login)) > 0

    def count_logins(self, *, address: str) -> tuple[int, int]:
        """Returns how many there are, decided or not, and how many of an address."""
        row = self._db.one("count_logins", address=address)
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def find_login(self, device_hash: bytes) -> Login | None:
        """Returns one by what the program asks by."""
        return rows.LOGIN.find(self._db.one("find_login", device_hash=device_hash))

    def find_login_by_code(self, user_hash: bytes) -> Login | None:
        """Returns one by what a person types."""
        return rows.LOGIN.find(self._db.one("find_login_by_code", user_hash=user_hash))

    def decide_login(self, decided: Login) -> bool:
        """Writes down what was decided; says whether nobody had before."""
        written = rows.LOGIN.write(decided)
        for name in ("user_hash", "client", "address", "created_at"):
            del written[name]
        return self._db.run("decide_login", **written) > 0

    def take_login(self, device_hash: bytes) -> Login | None:
        """Removes one that was decided, and returns it; None if somebody else was first."""
        return rows.LOGIN.find(self._db.one("take_login", device_hash=device_hash))

    def purge_logins(self, *, before: datetime) -> int:
        """Removes those that are no newer than that; returns how many."""
        return self._db.run("purge_logins", before=to_us(before))

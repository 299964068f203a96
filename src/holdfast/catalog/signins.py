"""The part of a transaction that is about who is signed in to the console.

Found by the hash of a token alone, with the rows of its keys as they are: what became of a key is
known with the next request, everywhere.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.ids import TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Tenant
from holdfast.model.keys import Key, SignIn


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

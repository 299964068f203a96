"""Signing in to the console: a key, or a link that is taken once, becomes a token for a browser.

A sign-in holds an agent's key, an operator's key, or both, of one tenant. Of tokens and links, as
of keys, the SHA-256 is kept. Whether one is good is read anew for each request, with the rows of
its keys: what ends a key ends every sign-in that holds it. Who signs in again gets another token,
so that nobody who planted one has what it opens later.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from msgspec.structs import replace

from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.tenancy.keys import Bearers, find_bearer, hash_of
from holdfast.errors import InvalidValue
from holdfast.ids import TenantId
from holdfast.model.keys import IDLE, LINK, LONGEST, Key, Scope, SignIn

V = TypeVar("V")

SEEN_EVERY: Final = timedelta(minutes=1)
"""How exactly it is known when a sign-in was last used: not every request writes a row."""


@dataclass(frozen=True, slots=True)
class SignedIn(Generic[V]):
    """Whoever is signed in, and what each of the keys opens."""

    sign_in: SignIn
    runtime: tuple[V, Key] | None
    admin: tuple[V, Key] | None


class SignIns(Part, Generic[V]):
    """Who is signed in to the console of a vault."""

    def __init__(self, context: Context, tenant_id: TenantId, bearers: Bearers[V]) -> None:
        self._context, self._tenant_id, self._bearers = context, tenant_id, bearers

    def create_link(self) -> str:
        """Makes a link for whoever may open the vault: it signs in once, within ten minutes.

        It stands for the oldest operator's key and the oldest agent's key that reaches every
        namespace; raises `InvalidValue` where there is neither.
        """
        now = self._context.clock()
        with self._context.catalog.read() as transaction:
            keys = [key for key in transaction.list_keys(self._tenant_id) if key.is_valid(now)]
        runtime = [k.id for k in keys if k.scope is Scope.RUNTIME and k.namespace is None]
        admin = [k.id for k in keys if k.scope is Scope.ADMIN]
        if not runtime and not admin:
            raise InvalidValue("there is no key that a link could stand for: make one first")
        link = self._context.ids.secret("link")
        made = SignIn(
            token_hash=hash_of(link),
            tenant_id=self._tenant_id,
            is_link=True,
            runtime_key=next(iter(runtime), None),
            admin_key=next(iter(admin), None),
            created_at=now,
            seen_at=now,
        )
        with self._context.catalog.write() as transaction:
            transaction.add_sign_in(made)
        return link

    def by_key(self, secret: str, *, beside: str | None = None) -> str | None:
        """Signs in with a key; returns a token, or None for a key that opens nothing.

        Where `beside` is the token of a sign-in to the same tenant, that one ends, and the new one
        has its other key, too; it ends no later for that.
        """
        found = find_bearer(self._context, secret)
        if found is None:
            return None
        key, now = found[0], self._context.clock()
        is_admin = key.scope is Scope.ADMIN
        token = self._context.ids.secret("console")
        made = SignIn(
            token_hash=hash_of(token),
            tenant_id=key.tenant_id,
            is_link=False,
            runtime_key=None if is_admin else key.id,
            admin_key=key.id if is_admin else None,
            created_at=now,
            seen_at=now,
        )
        before = None if beside is None else self.find(beside)
        with self._context.catalog.write() as transaction:
            if before is not None:
                ended = transaction.take_sign_in(before.sign_in.token_hash, is_link=False)
                if ended is not None and ended.tenant_id == made.tenant_id:
                    made = replace(
                        made,
                        runtime_key=made.runtime_key or ended.runtime_key,
                        admin_key=made.admin_key or ended.admin_key,
                        created_at=ended.created_at,
                    )
            transaction.add_sign_in(made)
        return token

    def by_link(self, link: str, *, instead: str | None = None) -> str | None:
        """Exchanges a link for a token; None for one that is none, is over, or was taken.

        The sign-in whose token is `instead` ends.
        """
        now, token = self._context.clock(), self._context.ids.secret("console")
        with self._context.catalog.write() as transaction:
            taken = transaction.take_sign_in(hash_of(link), is_link=True)
            if taken is None or taken.ends_at <= now:
                return None
            made = replace(
                taken, token_hash=hash_of(token), is_link=False, created_at=now, seen_at=now
            )
            transaction.add_sign_in(made)
            if instead is not None:
                transaction.take_sign_in(hash_of(instead), is_link=False)
        return token

    def find(self, token: str) -> SignedIn[V] | None:
        """Returns whoever is signed in with a token; None if it opens nothing, or no longer.

        One key that is revoked or past its time ends it as a whole.
        """
        with self._context.catalog.ask() as transaction:
            found = transaction.find_sign_in(hash_of(token))
        if found is None:
            return None
        (sign_in, tenant, keys), now = found, self._context.clock()
        held = {key.id: key for key in keys if key.is_valid(now) and key.tenant_id == tenant.id}
        named = {sign_in.runtime_key, sign_in.admin_key} - {None}
        if sign_in.ends_at <= now or held.keys() != named:
            return None
        runtime, admin = (held.get(each or "") for each in (sign_in.runtime_key, sign_in.admin_key))
        return SignedIn(
            sign_in,
            None if runtime is None else (self._bearers.open(runtime, tenant), runtime),
            None if admin is None else (self._bearers.open(admin, tenant), admin),
        )

    def when_due(self, sign_in: SignIn) -> datetime | None:
        """Returns the current instant, if it is to be noted that a sign-in is used; else None."""
        now = self._context.clock()
        return now if sign_in.seen_at + SEEN_EVERY <= now else None

    def note(self, seen: Mapping[bytes, datetime]) -> None:
        """Remembers when sign-ins were used, by the hashes of their tokens."""
        with self._context.catalog.write() as transaction:
            transaction.note_sign_ins(seen)

    def end(self, token: str, *, everywhere: bool = False) -> None:
        """Signs out; `everywhere` also whoever else is signed in with one of the same keys."""
        with self._context.catalog.write() as transaction:
            ended = transaction.take_sign_in(hash_of(token), is_link=False)
            if everywhere and ended is not None:
                transaction.end_sign_ins(
                    ended.tenant_id, runtime_key=ended.runtime_key, admin_key=ended.admin_key
                )

    def purge(self) -> int:
        """Removes what is over; returns how many that were."""
        now = self._context.clock()
        with self._context.catalog.write() as transaction:
            return transaction.purge_sign_ins(
                created=now - LONGEST, seen=now - IDLE, linked=now - LINK
            )

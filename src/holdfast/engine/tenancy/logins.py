"""Signing a program in without a key: it shows a code, a person approves it, and a key is made.

A program asks by a code of 256 random bits, of which the SHA-256 is kept, and shows a short one
that a person types, or sees in the address that is opened. Whoever approves is an operator, who
could make a key as well, and says what the key is for. It is made when the program asks again, in
the transaction that takes the code away: no secret is ever stored, and a code gives one key at the
most. What ends the operator's key before that ends the approval.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec
from msgspec import structs

from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.tenancy.keys import Keys, hash_of, scope_of
from holdfast.errors import Busy, Damaged, InvalidValue, LoginNotFound
from holdfast.model.basics import Tenant
from holdfast.model.keys import WAITS, Login, Scope, WaitingLogin
from holdfast.operations.keys import ApproveLogin, CreateKey, DenyLogin, FindLogin
from holdfast.operations.operation import does

MOST_WAITING: Final = 1000
"""Programs that wait at a time, in all of a vault: anybody may ask for a code."""

MOST_OF_ADDRESS: Final = 20
"""The same from one address: a stranger at ten addresses does not keep everybody else out."""

MAX_CLIENT_CHARS: Final = 200
DRAWS: Final = 5
"""How often a code is drawn that is nobody else's: one of 25 billion seldom is."""


class StartedLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What a program is told that shall be signed in."""

    device_code: str
    """What it asks by: a secret of its own."""
    user_code: str
    """What it shows to the person."""


class PolledLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of it."""

    status: str
    """`pending`, `approved`, `denied` or `expired`."""
    api_key: str | None = None
    workspace_id: str | None = None
    namespace: str | None = None
    """The key, once, if it was approved."""

    def __repr__(self) -> str:
        # Without the key: what is printed ends up in logs.
        return f"PolledLogin(status={self.status!r})"


class DeviceLogins(Part):
    """Programs that wait to be signed in to a vault, whoever of it will do so."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def start(self, *, client: str, address: str) -> StartedLogin:
        """Lets a program wait; raises `Busy` if too many do."""
        context, now = self._context, self._context.clock()
        device_code = context.ids.secret("device")
        for _ in range(DRAWS):
            user_code = context.ids.user_code()
            login = Login(
                device_hash=hash_of(device_code),
                user_hash=_hash_of_code(user_code),
                client=_one_line(client),
                address=_one_line(address),
                created_at=now,
            )
            with context.catalog.write() as transaction:
                transaction.purge_logins(before=now - WAITS)
                waiting, of_address = transaction.count_logins(address=login.address)
                if waiting >= MOST_WAITING or of_address >= MOST_OF_ADDRESS:
                    raise Busy("too many programs wait to be signed in")
                if transaction.add_login(login):
                    return StartedLogin(device_code=device_code, user_code=user_code)
        raise Busy("no code is free")

    def poll(self, device_code: str) -> PolledLogin:
        """Returns what has become of it; a key that was approved is made now, and told once."""
        context, device_hash = self._context, hash_of(device_code)
        with context.catalog.ask() as transaction:
            found = transaction.find_login(device_hash)
        if found is None or found.ends_at <= context.clock():
            return PolledLogin(status="expired")
        if found.decided_by is None:
            return PolledLogin(status="pending")
        if found.is_denied:
            with context.catalog.write() as transaction:
                transaction.take_login(device_hash)
            return PolledLogin(status="denied")
        return self._issue(found)

    def purge(self) -> int:
        """Removes what is over; returns how many that were."""
        with self._context.catalog.write() as transaction:
            return transaction.purge_logins(before=self._context.clock() - WAITS)

    def _issue(self, login: Login) -> PolledLogin:
        tenant_id, decider = login.tenant_id, login.decided_by
        if tenant_id is None or decider is None or login.name is None or login.scope is None:
            raise Damaged("a login was approved, and does not say what for")
        context = replace(self._context, actor=decider)
        keys = Keys(context, tenant_id)
        span = None if login.expires_in is None else timedelta(seconds=login.expires_in)
        wanted = CreateKey(
            login.name,
            namespace=login.namespace,
            admin=login.scope is Scope.ADMIN,
            add_only=login.scope is Scope.ADD_ONLY,
            expires_in=span,
        )
        made = keys.prepare(wanted, keys.new_secret(login.scope))
        with context.work() as transaction:
            taken = transaction.take_login(login.device_hash)
            if taken is None:
                return PolledLogin(status="expired")  # The same code was asked by twice at once.
            key = transaction.find_key_by_id(tenant_id, decider)
            if key is None or not key.is_valid(context.clock()) or key.scope is not Scope.ADMIN:
                return PolledLogin(status="denied")
            keys.add(transaction, made)
            tenant = transaction.get_tenant(tenant_id)
        return PolledLogin(
            status="approved",
            api_key=made.api_key,
            workspace_id=tenant.public_id,
            namespace=made.namespace,
        )


class Logins(Part):
    """Programs that wait to be signed in, as the operators of one tenant see and decide them."""

    def __init__(self, context: Context, tenant: Tenant) -> None:
        self._context, self._tenant_id = context, tenant.id

    @does(FindLogin)
    def find(self, wanted: FindLogin) -> WaitingLogin:
        return _told(wanted.user_code, self._get(wanted.user_code))

    @does(ApproveLogin)
    def approve(self, wanted: ApproveLogin) -> WaitingLogin:
        found = self._get(wanted.user_code)
        key = CreateKey(
            wanted.name,
            namespace=wanted.namespace,
            admin=wanted.admin,
            add_only=wanted.add_only,
            expires_in=wanted.expires_in,
        )
        # What cannot be is refused to the person, and not to the program later.
        Keys(self._context, self._tenant_id).prepare(key, self._context.ids.secret("sk"))
        span = wanted.expires_in
        self._decide(
            structs.replace(
                found,
                name=wanted.name,
                scope=scope_of(key),
                namespace=wanted.namespace,
                expires_in=None if span is None else int(span.total_seconds()),
            ),
            wanted.user_code,
        )
        return _told(wanted.user_code, found)

    @does(DenyLogin)
    def deny(self, wanted: DenyLogin) -> None:
        found = self._get(wanted.user_code)
        self._decide(structs.replace(found, is_denied=True), wanted.user_code)

    def _get(self, user_code: str) -> Login:
        with self._context.catalog.ask() as transaction:
            found = transaction.find_login_by_code(_hash_of_code(user_code))
        is_over = found is None or found.ends_at <= self._context.clock()
        if found is None or is_over or found.decided_by is not None:
            raise LoginNotFound(user_code)
        return found

    def _decide(self, login: Login, user_code: str) -> None:
        actor = self._context.actor
        if actor is None:
            message = "a login is decided with an operator's key: `acting_as` says with which"
            raise InvalidValue(message)
        decided = structs.replace(login, tenant_id=self._tenant_id, decided_by=actor)
        with self._context.catalog.write() as transaction:
            if not transaction.decide_login(decided):
                raise LoginNotFound(user_code)  # Somebody else was first.


def normal(user_code: str) -> str:
    """Returns a code as it is shown, however somebody types it."""
    letters = "".join(each for each in user_code.upper() if each.isalnum())
    return f"{letters[:4]}-{letters[4:]}"


def _hash_of_code(user_code: str) -> bytes:
    return hash_of(normal(user_code))


def _told(user_code: str, login: Login) -> WaitingLogin:
    return WaitingLogin(
        user_code=normal(user_code),
        client=login.client,
        address=login.address,
        started_at=login.created_at,
        expires_at=login.ends_at,
    )


def _one_line(text: str) -> str:
    """Returns what a stranger says of itself, as far as somebody may have to read it."""
    return "".join(each for each in text if each.isprintable())[:MAX_CLIENT_CHARS]

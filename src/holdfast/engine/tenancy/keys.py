"""API keys: made, listed, revoked, and recognised again.

A secret has 256 random bits and is shown once; what is kept is its SHA-256, which is also what it
is found by. A revoked or expired key is refused from the next request on, by every process: its row
is read anew for each, and what is made of a row is kept for as long as the row stays as it is.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Iterable
from threading import Lock
from typing import Final, Generic, TypeVar

from msgspec.structs import asdict, replace

from holdfast.catalog.counting import ROW_BYTES
from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import check_namespace, check_title
from holdfast.errors import InvalidValue, KeyNotFound, LastAdminKey
from holdfast.ids import TenantId
from holdfast.model.basics import Tenant
from holdfast.model.keys import SCOPES, Key, KeyUse, NewKey, Scope
from holdfast.model.traces import OWN, Trace
from holdfast.operations.checks import checked
from holdfast.operations.keys import CreateKey, ListKeys, RevokeKey
from holdfast.operations.operation import does

KeyList = list[Key]
NewKeyList = list[NewKey]
"""`list` is the name of a method below."""

PREFIX_CHARS: Final = 22
"""What of a secret is shown again later: `holdfast-admin-` and a little."""

MIN_SECRET_CHARS: Final = 16
MAX_SECRET_CHARS: Final = 512
MAX_NAME_CHARS: Final = 128


@checked
class Keys(Part):
    """The API keys of a tenant."""

    def __init__(self, context: Context, tenant_id: TenantId) -> None:
        self._context = context
        self._tenant_id = tenant_id

    @does(CreateKey)
    def create(self, wanted: CreateKey) -> NewKey:
        return self._create(wanted, self.new_secret(scope_of(wanted)))

    def adopt(self, name: str, secret: str, *, admin: bool = False) -> NewKey:
        """Makes a key of a secret of your own, which is taken as it is."""
        return self._create(CreateKey(name, admin=admin), secret)

    def _create(self, wanted: CreateKey, secret: str) -> NewKey:
        made = self.prepare(wanted, secret)
        with self._context.work() as transaction:
            self.add(transaction, made)
        return made

    def prepare(self, wanted: CreateKey, secret: str) -> NewKey:
        """Returns a key as it would be made; raises where it cannot be."""
        self._context.check_takes_away("make a key")
        scope, namespace = scope_of(wanted), wanted.namespace
        expires_in = wanted.expires_in
        if namespace is not None:
            check_namespace(self._context, self._tenant_id, namespace)
            if scope is Scope.ADMIN:
                raise InvalidValue("an admin key is not for one namespace")
        key = self._new(wanted.name, scope, secret)
        key = replace(
            key,
            namespace=namespace,
            rate_limit=wanted.rate_limit,
            expires_at=None if expires_in is None else key.created_at + expires_in,
        )
        return NewKey(**asdict(key), api_key=secret)

    def add(self, transaction: Transaction, made: NewKey) -> None:
        """Makes a key that was prepared, in a transaction."""
        key = Key(**{name: getattr(made, name) for name in Key.__struct_fields__})
        self._context.check_room(transaction, self._tenant_id, ROW_BYTES)
        self._add(transaction, key, made.api_key)

    def create_first(self, *, admin: str, runtime: str, shows_later: Collection[str] = ()) -> bool:
        """Makes the first two keys, with these secrets; False, and none, if there are some.

        `first` has those that it `shows_later` until one of the keys is used: whoever makes them
        may end before anybody was told.
        """
        first = [
            (self._new("admin", Scope.ADMIN, admin), admin),
            (self._new("first", Scope.RUNTIME, runtime), runtime),
        ]
        with self._context.catalog.write() as transaction:
            # Whoever else does this at the same moment waits here, and finds ours.
            transaction.lock_end(self._tenant_id, OWN)
            if transaction.list_keys(self._tenant_id):
                return False
            for key, secret in first:
                self._add(transaction, key, secret)
                if secret in shows_later:
                    transaction.keep_secret(key, secret)
        return True

    def first(self) -> NewKeyList:
        """Returns the first keys, with their secrets, while nobody has used either."""
        with self._context.catalog.read() as transaction:
            secrets = transaction.kept_secrets(self._tenant_id)
            keys = transaction.find_keys(self._tenant_id, [*secrets])
        return [NewKey(**asdict(key), api_key=secrets[key.id]) for key in keys]

    def new_secret(self, scope: Scope) -> str:
        """Returns a secret that nobody has yet."""
        return self._context.ids.secret("admin" if scope is Scope.ADMIN else "sk")

    @does(ListKeys)
    def list(self, _: ListKeys) -> KeyList:
        with self._context.catalog.read() as transaction:
            return transaction.list_keys(self._tenant_id)

    def is_valid(self, key_id: str) -> bool:
        """Says whether a key would be let in now."""
        with self._context.catalog.ask() as transaction:
            key = transaction.find_key_by_id(self._tenant_id, key_id)
        return key is not None and key.is_valid(self._context.clock())

    @does(RevokeKey)
    def revoke(self, wanted: RevokeKey) -> None:
        key_id = wanted.key_id
        self._context.check_takes_away("revoke a key")
        now = self._context.clock()
        with self._context.work() as transaction:
            # Of two who revoke each other, the second waits here, and finds itself the last.
            transaction.lock_end(self._tenant_id, OWN)
            admins = [
                each.id
                for each in transaction.list_keys(self._tenant_id)
                if each.scope is Scope.ADMIN and each.is_valid(now)
            ]
            if admins == [key_id]:
                raise LastAdminKey(key_id)
            key = transaction.revoke_key(self._tenant_id, key_id, now=now)
            if key is None:
                raise KeyNotFound(key_id)
            transaction.forget_secrets([key_id])
            append(transaction, self._context, self._tenant_id, _told("key.revoked", key))

    def _new(self, name: str, scope: Scope, secret: str) -> Key:
        check_title("name", name, max_chars=MAX_NAME_CHARS)
        return Key(
            id=self._context.ids.key(),
            tenant_id=self._tenant_id,
            name=name,
            prefix=_prefix_of(check_secret(secret)),
            scope=scope,
            created_at=self._context.clock(),
        )

    def _add(self, transaction: Transaction, key: Key, secret: str) -> None:
        transaction.add_key(key, secret_hash=hash_of(secret))
        append(transaction, self._context, self._tenant_id, _told("key.created", key))


def find_bearer(context: Context, secret: str) -> tuple[Key, Tenant] | None:
    """Returns the key of a secret with its tenant; None for one that opens nothing.

    Whoever guesses learns nothing from how long it takes: what is compared is a hash.
    """
    if len(secret) > MAX_SECRET_CHARS:
        return None
    with context.catalog.ask() as transaction:
        found = transaction.find_key(hash_of(secret))
    return found if found is not None and found[0].is_valid(context.clock()) else None


def record_uses(context: Context, uses: Iterable[KeyUse]) -> None:
    """Remembers when keys were last used, and how often."""
    noted = [*uses]
    with context.catalog.write() as transaction:
        transaction.touch_keys(noted)
        transaction.forget_secrets(use.key_id for use in noted)


def hash_of(secret: str) -> bytes:
    """Returns what is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _prefix_of(secret: str) -> str:
    """Returns how a secret begins; of a short one of somebody's own, little."""
    return secret[: min(PREFIX_CHARS, len(secret) // 3)]


def check_secret(secret: str) -> str:
    """Returns what may be a key; raises `InvalidValue` otherwise."""
    if not (MIN_SECRET_CHARS <= len(secret) <= MAX_SECRET_CHARS and secret.isascii()):
        message = f"a key has {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} ASCII characters"
        raise InvalidValue(message)
    if not secret.isprintable() or " " in secret:
        raise InvalidValue("a key has neither spaces nor control characters: it is a header")
    return secret


def scope_of(wanted: CreateKey) -> Scope:
    """Returns what a key may do that somebody wants; raises where that contradicts itself."""
    if wanted.admin and wanted.add_only:
        raise InvalidValue("a key is an admin's or adds only, not both")
    if wanted.admin:
        return Scope.ADMIN
    return Scope.ADD_ONLY if wanted.add_only else Scope.RUNTIME


def _told(action: str, key: Key) -> Trace:
    details = {"name": key.name, "scope": SCOPES[key.scope], "namespace": key.namespace}
    return Trace(action=action, resource_type="key", resource_id=key.id, details=details)


V = TypeVar("V")

MOST_KEPT: Final = 1000


class Bearers(Generic[V]):
    """Those who came lately with a key, and what `make` made of a tenant for each."""

    def __init__(self, context: Context, make: Callable[[Context, Tenant], V]) -> None:
        self._context, self._make = context, make
        self._kept = dict[str, tuple[tuple[Key, Tenant], V]]()
        self._guard = Lock()

    def admit(self, secret: str) -> tuple[V, Key] | None:
        """Returns what a key opens, with whoever holds it as the actor; None for none."""
        found = find_bearer(self._context, secret)
        if found is None:
            return None
        key, tenant = found
        return self.open(key, tenant), key

    def open(self, key: Key, tenant: Tenant) -> V:
        """Returns what a key opens that is known to be valid."""
        found, kept = (key, tenant), self._kept.get(key.id)
        if kept is None or kept[0] != found:
            adds_only = key.scope is Scope.ADD_ONLY
            context = dataclasses.replace(self._context, actor=key.id, adds_only=adds_only)
            kept = found, self._make(context, tenant)
            with self._guard:
                self._kept[key.id] = kept
                if len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        return kept[1]

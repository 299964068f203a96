"""Who calls: every request but the public ones comes with a key, and reaches what that key opens.

Routes have no other way to an engine than through the caller, so that none can forget to ask. A
key is looked up anew for each request: one that was revoked a moment ago is refused. What belongs
to another tenant is answered like what is not there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.handlers import BaseRouteHandler
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, Receive, Scope, Send

from holdfast.engine.keys import hash_of
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast, TenantVault
from holdfast.engine.writers import MOST_WITHIN
from holdfast.errors import InvalidName
from holdfast.model_keys import KeyInfo
from holdfast.model_keys import Scope as KeyScope
from holdfast.running import Door
from holdfast.server.problems import Forbidden, MissingNamespace, Unauthorized, UnknownWorkspace
from holdfast.server.sharing import STRANGERS
from holdfast.server.threads import SEAT, Seat, Threads, Work
from holdfast.server.verdicts import check_adds

PUBLIC: Final = {"public": True}
"""`opt` of a route that needs no key."""

NAMESPACE_HEADER: Final = "x-namespace"
TASK_HEADER: Final = b"x-task"
NEW_TASK: Final = "new"
"""The tasks that a request is made in, outermost first; last, whether it begins one that will be
named so."""

MOST_KNOWN: Final = 10_000
MAX_TASK_CHARS: Final = 2048
MINE: Final = "me"
"""The workspace of the key, for clients that were not told which it is."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A key, and the part of the vault that it opens."""

    key: KeyInfo
    vault: TenantVault

    @property
    def is_admin(self) -> bool:
        """Whether it is an operator's key, not an agent's."""
        return self.key.scope is KeyScope.ADMIN

    def namespace(self, name: str, *, door: Door | None = None) -> Namespace:
        """Returns a namespace that this key reaches; raises `Forbidden`."""
        self.check_namespace(name)
        return self.vault.namespace(name, door=door)

    def check_namespace(self, name: str) -> None:
        """Raises `Forbidden` for a namespace that the key is not for."""
        if self.key.namespace is not None and self.key.namespace != name:
            raise Forbidden("this key is for another namespace")


class Admission(ASGIMiddleware):
    """Looks the key of every request up, before anything of it is read."""

    scopes = (ScopeType.HTTP,)

    def __init__(
        self, vault: Holdfast, count: Callable[[Caller], None], threads: Threads, *, waits: bool
    ) -> None:
        self._vault, self._count, self._waits = vault, count, waits
        self._threads, self._strangers = threads, Seat(STRANGERS, threads)
        self._known = dict[bytes, str]()
        """The tenants of keys that were valid when they were last looked up."""

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Admits a request, or raises `Unauthorized`."""
        if scope["route_handler"].opt.get("public"):
            SEAT.set(self._strangers)
        else:
            caller = scope["state"]["caller"] = await self._admit(scope)
            self._count(caller)
            if caller.key.scope is KeyScope.ADD_ONLY:
                check_adds(scope)
            SEAT.set(Seat(caller.vault.tenant_id, self._threads))
        await next_app(scope, receive, send)

    async def _admit(self, scope: Scope) -> Caller:
        secret = secret_of(scope)
        if secret is None:
            raise Unauthorized("there is no API key: send it as a bearer token, or as X-API-Key")
        if self._waits:
            admitted = await self._ask(secret)
        else:
            # A row of SQLite is there in less time than a thread takes to wake up, and who reads
            # waits for no writer.
            admitted = self._vault.admit(secret)
        if admitted is None:
            raise Unauthorized("this API key is not valid, or no longer")
        vault, key = admitted
        return Caller(key, vault.asked_by(scope["state"]["request_id"]))

    async def _ask(self, secret: str) -> tuple[TenantVault, KeyInfo] | None:
        """Looks a key up in a thread: of its tenant, if it was valid before.

        Whoever comes with a key that was made up queues with all others who do, and before nobody
        who was known. What is known decides where a key queues, never whether it is valid.
        """
        name = hash_of(secret)
        tenant = self._known.get(name, STRANGERS)
        look = partial(self._vault.admit, secret)
        admitted = await self._threads.run(tenant, Work.ADMISSION, look)
        self._known.pop(name, None)  # To the end of those that are known, or away.
        if admitted is not None:
            self._known[name] = admitted[0].tenant_id
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return admitted


def provide_caller(scope: Scope) -> Caller:
    """Returns who makes a request that was admitted."""
    return cast("Caller", scope["state"]["caller"])


def provide_agent(scope: Scope) -> Namespace:
    """Returns the namespace of a request: that of the key, or that of the header."""
    caller, named = provide_caller(scope), _named(scope)
    if named is None:
        if caller.key.namespace is None:
            raise MissingNamespace
        named = caller.key.namespace
    return caller.namespace(named, door=_door(scope))


class AgentOrDefault:
    """The namespace of a request; where neither key nor header names one, the usual one."""

    def __init__(self, default: str) -> None:
        self._default = default

    def __call__(self, scope: Scope) -> Namespace:
        """Returns it."""
        caller = provide_caller(scope)
        named = _named(scope) or caller.key.namespace or self._default
        return caller.namespace(named, door=_door(scope))


# Guards wait for nothing, and are coroutines all the same: Litestar gives any other a thread.


async def runtime_only(
    connection: "ASGIConnection[Any, Any, Any, Any]", _: BaseRouteHandler
) -> None:
    """Lets agents' keys in alone: an operator's opens no agent's data."""
    if provide_caller(connection.scope).is_admin:
        raise Forbidden("an admin key opens no agent's data: use a runtime key")


async def admin_only(connection: "ASGIConnection[Any, Any, Any, Any]", _: BaseRouteHandler) -> None:
    """Lets operators' keys in alone, and into their own workspace."""
    caller = provide_caller(connection.scope)
    if not caller.is_admin:
        raise Forbidden("this needs an admin key")
    await own_workspace(connection, _)


async def own_workspace(
    connection: "ASGIConnection[Any, Any, Any, Any]", _: BaseRouteHandler
) -> None:
    """Lets no key into a workspace that is not its own, which is also called `me`."""
    named = connection.path_params.get("workspace_id")
    if named not in (None, MINE, provide_caller(connection.scope).vault.tenant_id):
        raise UnknownWorkspace(str(named))


def secret_of(scope: Scope) -> str | None:
    """Returns the key that a request comes with, whatever it is worth; None if there is none."""
    other = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                return token.strip()
        elif name == b"x-api-key":
            other = value.decode("latin-1").strip() or None
    return other


def _named(scope: Scope) -> str | None:
    """Returns the namespace that the header names; None if there is no such header."""
    name = NAMESPACE_HEADER.encode()
    values = [value for key, value in scope["headers"] if key == name]
    if not values:
        return None
    if len(set(values)) > 1:
        raise InvalidName("namespace", "X-Namespace", reason="the header is there twice")
    return name_in(values[0].decode("latin-1"))


def _door(scope: Scope) -> Door | None:
    """Returns which tasks a request says it is made in; None if it says nothing of it."""
    for name, value in scope["headers"]:
        if name == TASK_HEADER:
            *within, last = value[:MAX_TASK_CHARS].decode("latin-1").split(" ")
            names = dict.fromkeys(each for each in (*within, last) if each.startswith("task-"))
            return Door([*names][:MOST_WITHIN], names_tasks=last == NEW_TASK)
    return None


def name_in(header: str) -> str:
    """Returns the name that a header holds: UTF-8, unless it was not meant so."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header

"""Who calls: every request but the public ones comes with a key, and reaches what that key opens.

Routes have no other way to an engine than through the caller, so that none can forget to ask. A
key is looked up anew for each request: one that was revoked a moment ago is refused. What belongs
to another tenant is answered like what is not there.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from holdfast.behalf import REQUEST, VIA
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.writers import MOST_WITHIN
from holdfast.engine.tenancy.keys import hash_of
from holdfast.engine.tenancy.signins import SignedIn
from holdfast.engine.tenant import TenantVault
from holdfast.engine.vault import Holdfast
from holdfast.errors import AddOnly, HoldfastError, InvalidName, InvalidValue
from holdfast.ids import is_made_id
from holdfast.model.keys import Key
from holdfast.model.keys import Scope as KeyScope
from holdfast.running import Door
from holdfast.server.asgi import Header
from holdfast.server.browsers import Browsers
from holdfast.server.directories import Directories
from holdfast.server.problems import (
    Forbidden,
    MissingKey,
    MissingNamespace,
    Unauthorized,
    UnknownWorkspace,
)
from holdfast.server.requests import Caller, Request
from holdfast.server.routing import Who
from holdfast.server.sharing import STRANGERS
from holdfast.server.table import Entry
from holdfast.server.threads import SEAT, Seat, Threads, Work

NAMESPACE_HEADER: Final = b"x-namespace"
IN_QUERY: Final = "in"
"""The namespace that a request reads, by its header, or in its query."""

TASK_HEADER: Final = b"x-task"
NEW_TASK: Final = "new"
"""The tasks that a request is made in, outermost first; last, whether it begins one that will be
named so."""

T = TypeVar("T")

CONSOLE: Final = "console"
"""How what people do there is marked, in traces and in the log."""

MOST_KNOWN: Final = 10_000

MAX_TASK_CHARS: Final = 2048
MINE: Final = "me"
"""The workspace of the key, for clients that were not told which it is."""


class Admission:
    """Looks the key of every request up, before anything of it is read."""

    def __init__(
        self,
        vault: Holdfast,
        count: Callable[[Caller], Awaitable[None]],
        threads: Threads,
        *,
        browsers: Browsers | None = None,
        directories: Directories | None = None,
        waits: bool,
    ) -> None:
        self._vault, self._count, self._waits = vault, count, waits
        self._browsers, self._directories = browsers, directories
        self._threads, self._strangers = threads, Seat(STRANGERS, threads)
        self._known = dict[bytes, str]()
        """The tenants of keys that were valid when they were last looked up."""

    async def admit(self, entry: Entry, request: Request) -> None:
        """Admits a request, or raises `Unauthorized`, or that the key is not for this."""
        if entry.route.who is Who.ANYBODY:
            SEAT.set(self._strangers)
            return
        request.caller = caller = await self._admit(entry, request)
        await self._count(caller)
        check_may(caller, entry, request)
        SEAT.set(Seat(caller.vault.tenant_id, self._threads))
        REQUEST.set(request.id)
        # Always: a request that came right behind another begins in the context of that one.
        VIA.set(None if caller.is_signed_in is None else CONSOLE)
        self._threads.pace.asked()

    async def _admit(self, entry: Entry, request: Request) -> Caller:
        secret = secret_of(request.scope["headers"])
        if secret is None:
            token = None if self._browsers is None else self._browsers.token_of(request)
            if token is not None:
                return await self._admit_person(entry, token)
            raise Unauthorized("there is no API key: send it as a bearer token, or as X-API-Key")
        admitted = await self._look(self._vault.admit, secret, lambda found: found[0])
        if admitted is None:
            raise Unauthorized("this API key is not valid, or no longer")
        vault, key = admitted
        return Caller(key, vault)

    async def _admit_person(self, entry: Entry, token: str) -> Caller:
        """Returns who is signed in, with the key that a route asks for."""
        find = self._vault.sign_ins.find
        found = await self._look(find, token, lambda each: _opened(each)[0])
        if found is None:
            raise signed_out("you are not signed in any more")
        vault, key = _chosen(found, entry.route.who)
        assert self._browsers is not None  # noqa: S101 - it has found the token
        self._browsers.note(found.sign_in)
        return Caller(key, vault, lambda: find(token) is not None, self._directories)

    async def _look(
        self, find: Callable[[str], T | None], secret: str, whose: Callable[[T], TenantVault]
    ) -> T | None:
        """Looks a key, or a token, up: in a thread of its tenant, if it was valid before.

        Whoever comes with one that was made up queues with all others who do, and before nobody
        who was known. What is known decides where it queues, never whether it is valid.
        """
        if not self._waits:
            # A row of SQLite is there in less time than a thread takes to wake up, and who reads
            # waits for no writer.
            return find(secret)
        name = hash_of(secret)
        tenant = self._known.get(name, STRANGERS)
        found = await self._threads.run(tenant, Work.ADMISSION, partial(find, secret))
        self._known.pop(name, None)  # To the end of those that are known, or away.
        if found is not None:
            self._known[name] = whose(found).tenant_id
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        return found


def signed_out(message: str) -> HoldfastError:
    """Returns what a person is told who is not signed in, or not any more."""
    return Unauthorized(message).with_hint("Sign in with a key, or with a new link.")


Opened = tuple[TenantVault, Key]


def _opened(found: SignedIn[TenantVault]) -> Opened:
    """Returns what one of the keys of somebody who is signed in opens; the widest, if both do."""
    opened = found.admin or found.runtime
    assert opened is not None  # noqa: S101 - there is no sign-in without a key
    return opened


def _chosen(found: SignedIn[TenantVault], who: Who) -> Opened:
    """Returns what the key opens that a route is for; raises `MissingKey`."""
    if who is Who.AGENT:
        if found.runtime is None:
            raise MissingKey("workspace")
        return found.runtime
    if who is Who.OPERATOR and found.admin is None:
        raise MissingKey("admin")
    return _opened(found)


def check_may(caller: Caller, entry: Entry, request: Request) -> None:
    """Raises unless a key is for what it is used for."""
    who, scope = entry.route.who, caller.key.scope
    if scope is KeyScope.ADD_ONLY and entry.verdict is not None:
        raise AddOnly(entry.verdict)
    if who is Who.AGENT and scope is KeyScope.ADMIN:
        raise Forbidden("an admin key opens no agent's data: use a runtime key")
    if who is Who.OPERATOR and scope is not KeyScope.ADMIN:
        raise Forbidden("this needs an admin key")
    if entry.names_workspace:
        named = request.places["workspace_id"]
        if named not in (MINE, caller.vault.tenant_id):
            raise UnknownWorkspace(named)


def agent_of(request: Request, default: str | None, *, is_ours: bool = False) -> Namespace:
    """Returns the namespace of a request: that which it names or the key's, else the default.

    On routes that are ours, one that reads may name it in its query.
    """
    caller = request.admitted
    named = _named(request)
    if is_ours and b"in=" in request.scope["query_string"]:
        named = _named_within(request, named)
    if default is not None:
        named = named or caller.key.namespace or default
    elif named is None:
        named = caller.key.namespace
        if named is None:
            raise MissingNamespace
    return caller.namespace(named, door=_door(request))


def secret_of(headers: Iterable[Header]) -> str | None:
    """Returns the key that a request comes with, whatever it is worth; None if there is none."""
    other = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.decode("latin-1").partition(" ")
            if scheme.lower() == "bearer" and token.strip():
                return token.strip()
        elif name == b"x-api-key":
            other = value.decode("latin-1").strip() or None
    return other


def shows_nothing(request: Request) -> bool:
    """Says whether a request bears nothing that anybody could be known by."""
    return b"cookie" not in request.headers and secret_of(request.scope["headers"]) is None


def _named(request: Request) -> str | None:
    """Returns the namespace that the header names; None if there is no such header."""
    value = request.headers.get(NAMESPACE_HEADER)
    if value is None:
        return None
    headers: list[Header] = request.scope["headers"]
    if len(headers) != len(request.headers) and any(
        name == NAMESPACE_HEADER and other != value for name, other in headers
    ):
        raise InvalidName("namespace", "X-Namespace", reason="the header is there twice")
    return name_in(value.decode("latin-1"))


def _named_within(request: Request, header: str | None) -> str | None:
    """Returns the namespace that a query names, too: a link or an image can send no header."""
    names = {value for name, value in request.query if name == IN_QUERY}
    if not names:
        return header
    if request.method != "GET":
        raise InvalidValue("a request that changes something names its namespace in X-Namespace")
    if header is not None:
        names.add(header)
    if len(names) > 1:
        raise InvalidName("namespace", IN_QUERY, reason="the request names two of them")
    return names.pop()


def _door(request: Request) -> Door | None:
    """Returns which tasks a request says it is made in; None if it says nothing of it.

    What has not the form of a task's id is none: traces repeat these for good.
    """
    value = request.headers.get(TASK_HEADER)
    if value is None:
        return None
    *within, last = value[:MAX_TASK_CHARS].decode("latin-1").split(" ")
    names = dict.fromkeys(each for each in (*within, last) if _is_task(each))
    return Door([*names][:MOST_WITHIN], names_tasks=last == NEW_TASK)


def _is_task(name: str) -> bool:
    return name.startswith("task-") and is_made_id(name)


def name_in(header: str) -> str:
    """Returns the name that a header holds: UTF-8, unless it was not meant so."""
    try:
        return header.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return header

"""A request: what was sent, who sends it, and what the server has for whoever answers it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from holdfast.engine.namespace import Namespace
from holdfast.engine.tenant import TenantVault
from holdfast.model.keys import Key
from holdfast.model.keys import Scope as KeyScope
from holdfast.running import Door
from holdfast.server.asgi import Receive, Scope
from holdfast.server.config import Config
from holdfast.server.directories import Directories
from holdfast.server.outbound import Sender
from holdfast.server.problems import BodyTooLarge, Forbidden, Unfit
from holdfast.server.readiness import Packs, Readiness
from holdfast.server.room import Room, Taken
from holdfast.server.streams import Streams
from holdfast.server.threads import Turns, tenant_here
from holdfast.server.work.delivery import Sign

Pairs = list[tuple[str, str]]

CUT_OFF: Final = "the body ended before it was complete"


@dataclass(frozen=True, slots=True)
class Caller:
    """A key, and the part of the vault that it opens."""

    key: Key
    vault: TenantVault
    is_signed_in: Callable[[], bool] | None = None
    """Of a person in the console: says whether they still are."""
    directories: Directories | None = None
    """The same, where they see attached directories as those are."""

    @property
    def is_admin(self) -> bool:
        """Whether it is an operator's key, not an agent's."""
        return self.key.scope is KeyScope.ADMIN

    def is_valid(self) -> bool:
        """Says whether it would be let in now."""
        is_known = self.is_signed_in is None or self.is_signed_in()
        return is_known and self.vault.keys.is_valid(self.key.id)

    def namespace(self, name: str, *, door: Door | None = None) -> Namespace:
        """Returns a namespace that this key reaches; raises `Forbidden`."""
        self.check_namespace(name)
        agent = self.vault.namespace(name, door=door)
        if self.directories is None:
            return agent
        return self.directories.over(self.vault.tenant_id, agent)

    def check_namespace(self, name: str) -> None:
        """Raises `Forbidden` for a namespace that the key is not for."""
        if self.key.namespace is not None and self.key.namespace != name:
            raise Forbidden("this key is for another namespace")


@dataclass(frozen=True, slots=True)
class Services:
    """What a server has beside vaults, for the routes that say so."""

    config: Config
    readiness: Readiness
    packs: Packs | None
    """How the place of packs is, where that is elsewhere."""
    streams: Streams
    sender: Sender
    sign: Sign
    """How what it sends is signed."""
    is_stopping: Callable[[], bool]
    room: Room
    turns: Turns
    document: Callable[[], bytes]
    """Returns the description of every route."""


class Request:
    """One request. Nothing of it is read, and nothing made of it, before somebody asks."""

    __slots__ = (
        "_pairs", "_taken", "caller", "has_waited", "headers", "id", "method", "path", "places",
        "receive", "scope", "services", "template",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, services: Services, request_id: str) -> None:
        self.scope, self.receive, self.services, self.id = scope, receive, services, request_id
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        """By name; of one that is there twice, the first."""
        self.places: dict[str, str] = {}
        """What stands in the path where its template has a name."""
        self.template: str | None = None
        """The path of the route that answers, if one does."""
        self.caller: Caller | None = None
        self.has_waited = False
        """Whether it had its turn among those of strangers."""
        self._pairs: Pairs | None = None
        self._taken: Taken | None = None

    @property
    def admitted(self) -> Caller:
        """Who makes a request that was admitted."""
        assert self.caller is not None  # noqa: S101 - routes for anybody do not ask
        return self.caller

    @property
    def taken(self) -> Taken:
        """What it has taken of what all share; given back when it has been answered."""
        if self._taken is None:
            key_id = "" if self.caller is None else self.caller.key.id
            self._taken = Taken(self.services.room, tenant_here(), key_id)
        return self._taken

    @property
    def query(self) -> Pairs:
        """The names and values of its query, in their order."""
        if self._pairs is None:
            self._pairs = _read_query(self.scope["query_string"])
        return self._pairs

    def header(self, name: bytes) -> str | None:
        """Returns the value of a header; None if there is none."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def stream(self, most: int | None = None) -> "Pieces":
        """Returns the body as it comes; raises `BodyTooLarge`, or `Unfit` if it is cut off."""
        if most is not None and int(self.headers.get(b"content-length", b"0")) > most:
            raise BodyTooLarge
        return Pieces(self.receive, most)

    def give_back(self) -> None:
        """Gives back what it has taken."""
        if self._taken is not None:
            self._taken.give_back()


class Pieces:
    """A body as it comes; raises `BodyTooLarge`, or `Unfit` if it is cut off.

    A class, where a generator would say it in fewer lines: the loop keeps a book of those.
    """

    __slots__ = ("_has_more", "_most", "_receive", "_size")

    def __init__(self, receive: Receive, most: int | None) -> None:
        self._receive, self._most = receive, most
        self._size, self._has_more = 0, True

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> bytes:
        while self._has_more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Unfit(CUT_OFF)
            piece, self._has_more = message.get("body", b""), message.get("more_body", False)
            self._size += len(piece)
            if self._most is not None and self._size > self._most:
                raise BodyTooLarge
            if piece:
                return piece
        raise StopAsyncIteration


def _read_query(query: bytes) -> Pairs:
    """Returns what a query says; what is no UTF-8 in it is replaced."""
    if not query:
        return []
    pairs = Pairs()
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append((_unquoted(name), _unquoted(value)))
    return pairs


def _unquoted(text: str) -> str:
    return unquote_plus(text) if "%" in text or "+" in text else text

"""The server, as a directory sees it: what it is asked, patiently.

Every question of an exchange can be repeated: asking what is missing changes nothing, objects
that are sent twice are stored once, and a commit bears a name. So a connection that breaks in the
middle, or a server that is away for a moment, is tried again here, a few times, with growing
pauses.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.errors import Unavailable, Unreachable
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Sync
from holdfast.sdk.groups.exchange import Exchange, Pushed
from holdfast.wire.exchange import ChangesTold, CommitRequest, StandingAnswer

T = TypeVar("T")

ATTEMPTS: Final = 4
FIRST_PAUSE_S: Final = 0.25
PASSING: Final = (502, 503, 504)
"""What is said of a server that is being started anew, by itself or by who stands before it."""


class Server:
    """One namespace of a server."""

    def __init__(self, agent: Agent[Sync], *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.agent, self._sleep = agent, sleep
        self._exchange = Exchange[Sync](agent.sender)

    def standing(self) -> StandingAnswer:
        """Returns where the namespace stands."""
        return self._patiently(self._exchange.standing)

    def missing(self, names: bytes) -> bytes:
        """Returns which objects would have to be sent."""
        return self._patiently(lambda: self._exchange.missing(names))

    def send(self, pack: bytes) -> None:
        """Stores the objects of a pack."""
        self._patiently(lambda: self._exchange.send(pack))

    def commit(self, told: CommitRequest) -> Pushed:
        """Makes a snapshot of a directory."""
        return self._patiently(lambda: self._exchange.commit(told))

    def changes(self, old: str | None, new: str, *, after: bytes = b"") -> ChangesTold:
        """Returns what leads from the files of one snapshot to those of another."""
        return self._patiently(lambda: self._exchange.changes(old, new, after=after))

    def content(self, snapshot: str, wants: dict[bytes, list[bytes]]) -> bytes:
        """Returns a pack of objects that files of a snapshot need."""
        return self._patiently(lambda: self._exchange.content(snapshot, wants))

    def _patiently(self, ask: Callable[[], T]) -> T:
        for attempt in range(ATTEMPTS - 1):
            try:
                return ask()
            except Unavailable as exc:
                if not isinstance(exc, Unreachable) and exc.http_status not in PASSING:
                    raise
                self._sleep(FIRST_PAUSE_S * 2**attempt)
        return ask()

"""Whether a server is ready: told within a second, whatever it is that keeps it.

What a server stands on is asked in a thread of its own, one question at a time, so that neither
requests nor others who ask keep it waiting. Who asks while a question is under way waits for its
answer, too; one that has not come in time is told to have not come.

Where packs are elsewhere that place is asked beside this, again and again, and who asks the server
hears how it was: a bucket is slow at times, and costs money. One that is away makes no server
unready. What is small goes on without it, and it is away for all servers at once: a proxy would be
left with none.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.errors import HoldfastError, Unavailable
from holdfast.server.problems import AboutToStop

PATIENCE_S: Final = 0.9

ASKS_S: Final = 10.0
AGAIN_S: Final = 5.0
"""How often the place of packs is asked, and how soon again where it did not answer."""

AWAY_S: Final = 30.0
"""After so long without an answer it is away: a request that it refuses now and then is no news."""


class Readiness:
    """Asks what a server stands on."""

    def __init__(
        self,
        ping: Callable[[], object],
        *,
        patience_s: float = PATIENCE_S,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ping, self._patience_s, self._is_leaving = ping, patience_s, is_leaving
        self._asked: asyncio.Future[float] | None = None

    async def look(self) -> float:
        """Returns how many seconds an answer took; raises `Unavailable` if there is none.

        And `AboutToStop` where nobody else should be sent here.
        """
        if self._is_leaving():
            raise AboutToStop
        asked = self._asked
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked = loop.create_future()
            # One that never comes back keeps no process from ending.
            threading.Thread(
                target=self._ask, args=(loop, asked), name="holdfast-readiness", daemon=True
            ).start()
        done, _ = await asyncio.wait([asked], timeout=self._patience_s)
        if not done:
            raise Unavailable("the database does not answer")
        return asked.result()

    def _ask(self, loop: asyncio.AbstractEventLoop, asked: asyncio.Future[float]) -> None:
        begun, failure = time.monotonic(), None
        try:
            self._ping()
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            failure = exc
        with suppress(RuntimeError):  # The loop has ended, and nobody waits there.
            loop.call_soon_threadsafe(self._tell, asked, time.monotonic() - begun, failure)

    def _tell(
        self, asked: asyncio.Future[float], taken_s: float, failure: Exception | None
    ) -> None:
        self._asked = None
        if failure is None:
            asked.set_result(taken_s)
        else:
            asked.set_exception(failure)
            asked.exception()  # Those who wait have it; perhaps nobody does any more.


class Packs:
    """Asks the place of packs now and then, and knows when it last answered."""

    def __init__(
        self,
        ask: Callable[[], object],
        *,
        note: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`note` is called with each answer. Whoever begins has just heard from it."""
        self._ask, self._note, self._clock = ask, note, clock
        self._answered_at, self.taken_s = clock(), 0.0

    @property
    def is_away(self) -> bool:
        """Whether nothing was heard of it for long, also where it still has to answer."""
        return self._clock() - self._answered_at > AWAY_S

    def look(self) -> float:
        """Asks; returns the seconds until the next time."""
        begun = self._clock()
        try:
            self._ask()
        except HoldfastError:
            return AGAIN_S  # Who reads or writes there says what is wrong.
        self._answered_at = self._clock()
        self.taken_s = self._answered_at - begun
        self._note()
        return ASKS_S

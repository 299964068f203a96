"""Whether a server is ready: told within a second, whatever it is that keeps it.

What a server stands on is asked in a thread of its own, one question at a time, so that neither
requests nor others who ask keep it waiting. Who asks while a question is under way waits for its
answer, too; one that has not come in time is told to have not come.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.errors import Unavailable
from holdfast.server.problems import AboutToStop

PATIENCE_S: Final = 0.9


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

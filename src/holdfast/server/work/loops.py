"""Runs background jobs, each in a thread, until the server stops.

A job is a function that does one round and returns how many seconds it may rest. One that fails
is told in the log, and comes again a little later each time: a database that is away for a while
stops nothing for good.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from holdfast.errors import Unavailable
from holdfast.server.stopping import Stopping

logger = logging.getLogger("holdfast.work")

Job = Callable[[], float]
"""Does one round; returns the seconds until the next."""

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_PATIENCE_S: Final = 15.0
"""How long a stop waits for a round that is under way."""


class Loops:
    """Some jobs, and the threads that do them."""

    def __init__(self, jobs: Mapping[str, Job], stopping: Stopping) -> None:
        self._jobs, self._stopping = jobs, stopping

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Runs the jobs for as long as the block lasts."""
        threads = [
            threading.Thread(target=self._repeat, args=(name, job), name=name, daemon=True)
            for name, job in self._jobs.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in threads:
                await asyncio.to_thread(thread.join, _PATIENCE_S)

    def _repeat(self, name: str, job: Job) -> None:
        pause = _FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                rest = job()
                pause = _FIRST_PAUSE_S
            except Unavailable as exc:
                # Where it was raised says no more than that.
                text = "%s failed; it is tried again in %.0f s: %s"
                logger.error(text, name, pause, exc)  # noqa: TRY400 - see above
                rest, pause = pause, min(pause * 2, _LONGEST_PAUSE_S)
            except Exception:
                logger.exception("%s failed; it is tried again in %.0f s", name, pause)
                rest, pause = pause, min(pause * 2, _LONGEST_PAUSE_S)
            self._stopping.wait(rest)

"""Tells work that its end has come: the server is about to stop, or nobody waits for the answer.

The server waits for requests that are under way, and only then tells the application that it is
over. A live stream never ends by itself: it asks here. Background work asks here, too. Before that
it may go on for a while, and say that it is leaving, so that a balancer hears of it. A thread
that asks nobody, and is not done when its time is up, goes down with the process: what it had not
committed never happened.

A client that has gone, or a server that is about to stop, has no use for an answer. A route runs in
a thread, which nobody can end: it is handed a question that it asks now and then.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import Final

from holdfast.server.asgi import Receive
from holdfast.server.responses import wait_until_gone

logger = logging.getLogger("holdfast.server")

_CLOSING_S: Final = 3.0
"""What closing takes, once the time of the requests is up."""


def stop_with_parent() -> None:
    """Asks this process to stop when the one whose worker it is has died.

    Nobody else would: it would go on for ever, and the next server would find the port taken.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        logger.warning("stopping: the process that started this worker is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="holdfast-parent", daemon=True).start()


class Stopping:
    """A flag that is raised once, from any thread, and can be waited for."""

    def __init__(self, *, grace_s: float = 30, pause_s: float = 0) -> None:
        self._grace_s, self._pause_s = grace_s, pause_s
        # No more than that: whoever is interrupted by a signal holds no lock of it.
        self._is_leaving = False
        self._flag = threading.Event()
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_set(self) -> bool:
        """Says whether the server is about to stop."""
        return self._flag.is_set()

    def is_leaving(self) -> bool:
        """Says whether the server is about to stop, or will be after its pause."""
        return self._is_leaving

    def set(self) -> None:
        """Raises the flag."""
        self._is_leaving = True
        self._flag.set()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def wait(self, seconds: float) -> bool:
        """Blocks a thread for so long, or until the flag is raised; says whether it is."""
        return self._flag.wait(seconds)

    async def sleep(self, seconds: float) -> bool:
        """Lets a coroutine wait for so long, or until the flag is raised; says whether it is."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), seconds)
        return self.is_set()

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Raises the flag when the process is asked to stop, before the server waits."""
        self._loop = asyncio.get_running_loop()
        kept = dict[signal.Signals, object]()
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                kept[number] = before = signal.getsignal(number)

                def stop(got: int, frame: FrameType | None, before: object = before) -> None:
                    if self._pauses(got):
                        return
                    if not self.is_set():
                        self._end_in_time()
                    self.set()
                    if callable(before):
                        before(got, frame)

                signal.signal(number, stop)
        try:
            yield
        finally:
            self.set()
            for number, before in kept.items():
                signal.signal(number, before)  # pyright: ignore[reportArgumentType] - what was there

    def _pauses(self, number: int) -> bool:
        """Goes on for a while, if whoever sends requests has yet to hear that it is leaving.

        Not for a person who waits at a terminal, nor for who asks a second time.
        """
        if number != signal.SIGTERM or not self._pause_s or self.is_leaving():
            return False
        self._is_leaving = True
        again = threading.Timer(self._pause_s, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
        return True

    def _end_in_time(self) -> None:
        def end() -> None:
            logger.warning("stopping: something is still running, and is given up")
            os._exit(0)

        watching = threading.Timer(self._grace_s + _CLOSING_S, end)
        watching.daemon = True
        watching.start()


IsGone = Callable[[], bool]
"""Says whether nobody waits any more; asked from any thread. For routes that read no body."""


@asynccontextmanager
async def watching(receive: Receive, is_stopping: IsGone) -> AsyncGenerator[IsGone]:
    """Lends the question, and looks for the answer until the block ends."""
    gone = threading.Event()

    async def look() -> None:
        await wait_until_gone(receive)
        gone.set()

    looking = asyncio.create_task(look())
    try:
        yield lambda: gone.is_set() or is_stopping()
    finally:
        looking.cancel()

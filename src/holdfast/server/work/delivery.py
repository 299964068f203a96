"""Delivers webhooks: turns new events into deliveries, and tries those that are due.

Some at a time, each in a thread; of one webhook at most two, so that an address that is slow
keeps nobody else waiting. What was begun when the server is stopped is finished first.
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from holdfast import signing
from holdfast.engine.tenancy.outbox import Outbox
from holdfast.engine.tenancy.webhooks import Outcome, Parcel
from holdfast.server.outbound import Sender, Unreachable
from holdfast.server.work.loops import Job

AT_ONCE: Final = 16
"""Threads that wait for answers, most of the time."""

OF_ONE: Final = 2
IDLE_S: Final = 0.3
_SUCCESS: Final = range(200, 300)

Sign = Callable[[Parcel, int], dict[str, str]]
"""Returns the headers by which a receiver knows who sent a parcel at an instant."""


def sign(parcel: Parcel, now: int) -> dict[str, str]:
    """Signs as libraries for Standard Webhooks verify it."""
    event_id = parcel.delivery.event_id
    return signing.sign(parcel.webhook.secret, parcel.body, event_id=event_id, now=now)


def never() -> bool:
    """Says that nobody asks to stop."""
    return False


class Courier:
    """Tries deliveries."""

    def __init__(
        self,
        outbox: Outbox,
        sender: Sender,
        *,
        sign: Sign = sign,
        is_stopping: Callable[[], bool] = never,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbox, self._sender, self._sign = outbox, sender, sign
        self._is_stopping, self._clock = is_stopping, clock
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="holdfast-courier")
        self._running: dict[Future[None], str] = {}

    def deliver(self) -> float:
        """Delivers until nothing is due, or the server stops; returns how long to rest."""
        while not self._is_stopping():
            has_new = self._outbox.expand()
            self._start()
            if self._running:
                self._reap(IDLE_S)
            elif not has_new:
                return IDLE_S
        self._reap(None)
        return IDLE_S

    def _start(self) -> None:
        """Begins as many attempts as there is room for."""
        room = AT_ONCE - len(self._running)
        if room:
            busy = Counter(self._running.values())
            for parcel in self._outbox.claim(room, of_one=OF_ONE, busy=busy):
                self._running[self._pool.submit(self._try, parcel)] = parcel.webhook.id

    def _reap(self, seconds: float | None) -> None:
        """Waits for one attempt for so long; for all of them, if for ever."""
        if seconds is None:
            done = wait(self._running).done
        else:
            done = wait(self._running, seconds, return_when=FIRST_COMPLETED).done
        for future in done:
            del self._running[future]
        for future in done:
            # Of what could not be written down: it was claimed, and is tried again.
            future.result()

    def _try(self, parcel: Parcel) -> None:
        outcome = send(self._sender, parcel, now=int(self._clock()), sign=self._sign)
        self._outbox.record(parcel, outcome)


def send(sender: Sender, parcel: Parcel, *, now: int, sign: Sign = sign) -> Outcome:
    """Sends a parcel, signed as of now, and says what came of it."""
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "holdfast-webhooks/1",
        **sign(parcel, now),
    }
    try:
        status = sender.post(parcel.webhook.url, parcel.body, headers)
    except Unreachable as exc:
        return Outcome(ok=False, error=str(exc))
    except Exception as exc:  # noqa: BLE001 - an answer that we fail at is one that failed
        return Outcome(ok=False, error=f"the answer could not be read: {type(exc).__name__}")
    is_ok = status in _SUCCESS
    return Outcome(ok=is_ok, status=status, error=None if is_ok else f"it answered {status}")


def make_job(
    outbox: Outbox, sender: Sender, *, sign: Sign = sign, is_stopping: Callable[[], bool] = never
) -> Job:
    """Returns the job."""
    return Courier(outbox, sender, sign=sign, is_stopping=is_stopping).deliver

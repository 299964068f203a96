"""Looks after a vault, each job as often as its work comes up.

Retention every hour, collection once a day, for every tenant: one worker of all does it at a time;
the others find it taken, or done, and come again later. Schedules and sessions whose time is over
are looked for every second, and every quarter of a minute rollback rates that have become another;
when keys were last used is written down now and then, not with every request. Every worker tends
the catalog's log, so that nobody who writes waits while it is copied, and takes away what this
machine has of copies in git that are no more, whoever has erased them.
"""

import logging
import random
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from holdfast.engine.vault import Holdfast
from holdfast.errors import Busy
from holdfast.server.work.loops import Job

logger = logging.getLogger("holdfast.work")

FIRST_S: Final = 60.0
"""Not at once: whoever starts a server wants to be answered first."""

AGAIN_S: Final = 60.0
"""After so long a lock of one that was killed has ended: a round does not wait for the next."""

EVERY: Final = timedelta(hours=1)
COLLECTS: Final = timedelta(days=1)
WATCHES: Final = timedelta(seconds=15)
DUE_S: Final = 1.0
USES_S: Final = 5.0
GIVES_S: Final = 1.0
LOG_S: Final = 0.5
"""At 100 commits a second the log has 1,500 pages by then."""


class Caretaker:
    """Does the rounds."""

    def __init__(
        self,
        vault: Holdfast,
        *,
        every: timedelta = EVERY,
        collects: timedelta = COLLECTS,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._vault, self._every, self._collects, self._draw = vault, every, collects, draw
        self._begun = False

    def look_after(self) -> float:
        """Does one round, if none was done lately; returns the seconds until the next."""
        seconds = self._every.total_seconds()
        if not self._begun:
            self._begun = True
            return min(FIRST_S, seconds) * (0.5 + self._draw())
        try:
            self._vault.look_after(every=self._every, collects=self._collects)
        except Busy:
            logger.info("another worker is looking after the vault, or was killed while it did")
            seconds = min(AGAIN_S, seconds)
        # A little more than a round each, and no two workers at the same moment.
        return seconds * (1.0 + self._draw() / 10)


def looking_after(vault: Holdfast, *, every: timedelta = EVERY) -> Job:
    """Returns the job that keeps to retention, and collects."""
    return Caretaker(vault, every=every).look_after


def sweeping_repositories(vault: Holdfast, *, every: timedelta = EVERY) -> Job:
    """Returns the job that takes away repositories of git backups that are no more."""
    pauses = iter([min(FIRST_S, every.total_seconds())])

    def sweep() -> float:
        pause = next(pauses, None)
        if pause is None:
            vault.sweep_backups()
        return every.total_seconds() if pause is None else pause

    return sweep


def doing_what_is_due(run: Callable[[], object]) -> Job:
    """Returns the job that does what is due, and again at once where there was something."""
    return lambda: 0.0 if run() else DUE_S


def watching_rollbacks(vault: Holdfast, *, every: timedelta = WATCHES) -> Job:
    """Returns the job that tells of rollback rates that have come to another level."""

    def look() -> float:
        began = time.monotonic()
        vault.watch_rollbacks(every=every)
        # Where there are very many traces it takes a twentieth of the time, and no more.
        return max(every.total_seconds(), 20 * (time.monotonic() - began))

    return look


def noting_uses(record: Callable[[], None]) -> Job:
    """Returns the job that writes down when keys were used."""

    def note() -> float:
        record()
        return USES_S

    return note


def giving_back(give_back: Callable[[], None]) -> Job:
    """Returns the job that gives back what of keys' requests was taken ahead, and not made."""

    def give() -> float:
        give_back()
        return GIVES_S

    return give


def tending_log(vault: Holdfast) -> Job:
    """Returns the job that copies the catalog's log beside writers."""

    def tend() -> float:
        vault.tend_log()
        return LOG_S

    return tend

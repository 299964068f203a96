"""A clock for tests of what happens when time passes."""

from datetime import UTC, datetime, timedelta


class Watch:
    """A clock that a test sets."""

    def __init__(
        self, now: datetime = datetime(2031, 5, 1, tzinfo=UTC), *, step: timedelta = timedelta()
    ) -> None:
        self.now = now
        self._step = step

    def __call__(self) -> datetime:
        """Returns the instant that it shows; with a step, a later one each time."""
        self.now += self._step
        return self.now

    def wait(self, span: timedelta) -> None:
        """Moves it on."""
        self.now += span

"""A clock for tests of what happens when time passes."""

from datetime import UTC, datetime, timedelta


class Watch:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2031, 5, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Returns the instant that it shows."""
        return self.now

    def wait(self, span: timedelta) -> None:
        """Moves it on."""
        self.now += span

"""Somebody else at a step: fuses that kill nobody, and let another act in the middle of things."""

from collections.abc import Callable

from holdfast.testing.faults import Fuse


class Interloper(Fuse):
    """Lets somebody else act before the step of a number, of those outside of a transaction."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        super().__init__(0)
        self.has_acted = False
        self._steps_left, self._act = number, act

    def step(self, name: str, /) -> None:
        """Counts a step, and acts if it is the one."""
        if name not in ("read", "write", "commit unacknowledged"):
            return
        self._steps_left -= 1
        if self._steps_left == -1:
            self.has_acted = True
            self._act()

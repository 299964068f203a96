"""A progress bar of a few lines: one line on stderr, drawn over, gone when the work is done."""

import time
from typing import Final, TextIO

PERIOD_S: Final = 0.1
"""Ten times a second is as often as anybody can read."""

BAR_CELLS: Final = 24


class Bar:
    """One line that says how far a piece of work has come."""

    def __init__(self, stream: TextIO, *, width: int) -> None:
        self._stream = stream
        self._width = width
        # The first tenth of a second is not worth a bar: most commands are done by then.
        self._drawn_at = time.monotonic()
        self._is_drawn = False

    def update(self, stage: str, done: int, total: int, /) -> None:
        """Draws how much of a stage is done; a total of 0 is one that nobody knows."""
        now = time.monotonic()
        if now - self._drawn_at < PERIOD_S:
            return
        self._drawn_at, self._is_drawn = now, True
        self._draw(_line(stage, done, total))

    def close(self) -> None:
        """Takes the line away."""
        if self._is_drawn:
            self._draw("")
            self._is_drawn = False

    def _draw(self, text: str) -> None:
        # One column short of the edge: in the last one some terminals wrap.
        self._stream.write(f"\r\033[K{text[: self._width - 1]}")
        self._stream.flush()


def _line(stage: str, done: int, total: int) -> str:
    if total <= 0:
        return f"{stage} {done:,}"
    share = min(1.0, done / total)
    cells = int(share * BAR_CELLS)
    bar = "#" * cells + "." * (BAR_CELLS - cells)
    return f"{stage} [{bar}] {share:4.0%}  {done:,} of {total:,}"

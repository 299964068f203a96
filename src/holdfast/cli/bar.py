"""A progress bar of a few lines: one line on stderr, drawn over, gone when the work is done.

What is read, written or checked is counted in bytes, and the line says how fast that goes and
how long it will take; one large file would stop a count of files for minutes.
"""

import time
from typing import Final, TextIO

from holdfast.cli.words import size

PERIOD_S: Final = 0.1
"""Ten times a second is as often as anybody can read."""

BAR_CELLS: Final = 24

IN_BYTES: Final = frozenset(("reading", "writing", "check"))
"""Stages whose progress is told in bytes."""

_SOONEST_S: Final = 0.5
"""A rate of less than this is a guess."""

_MINUTE_S: Final = 60


class Bar:
    """One line that says how far a piece of work has come."""

    def __init__(self, stream: TextIO, *, width: int) -> None:
        self._stream = stream
        self._width = width
        # The first tenth of a second is not worth a bar: most commands are done by then.
        self._drawn_at = time.monotonic()
        self._is_drawn = False
        self._stage, self._begun, self._first = "", 0.0, 0

    def update(self, stage: str, done: int, total: int, /) -> None:
        """Draws how much of a stage is done; a total of 0 is one that nobody knows."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._begun, self._first = stage, now, done
        if now - self._drawn_at < PERIOD_S:
            return
        self._drawn_at, self._is_drawn = now, True
        self._draw(_line(stage, done, total) + self._speed(done, total, now - self._begun))

    def close(self) -> None:
        """Takes the line away."""
        if self._is_drawn:
            self._draw("")
            self._is_drawn = False

    def _speed(self, done: int, total: int, elapsed: float) -> str:
        """Returns how fast it goes, and how long it takes if it goes on so."""
        if self._stage not in IN_BYTES or elapsed < _SOONEST_S or done <= self._first:
            return ""
        rate = (done - self._first) / elapsed
        left = max(total - done, 0) / rate if total > 0 else None
        return f"  {size(int(rate))}/s" + ("" if left is None else f"  {_span(left)} left")

    def _draw(self, text: str) -> None:
        # One column short of the edge: in the last one some terminals wrap.
        self._stream.write(f"\r\033[K{text[: self._width - 1]}")
        self._stream.flush()


def _line(stage: str, done: int, total: int) -> str:
    def amount(number: int) -> str:
        return size(number) if stage in IN_BYTES else f"{number:,}"

    if total <= 0:
        return f"{stage} {amount(done)}"
    share = min(1.0, done / total)
    cells = int(share * BAR_CELLS)
    bar = "#" * cells + "." * (BAR_CELLS - cells)
    return f"{stage} [{bar}] {share:4.0%}  {amount(done)} of {amount(total)}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), _MINUTE_S)
    hours, minutes = divmod(minutes, _MINUTE_S)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"

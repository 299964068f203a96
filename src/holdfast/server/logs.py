"""Where the log goes, and what of it: a line for each thing, on stderr.

Requests are JSON in a line of their own (`observing`), for programs to read; the rest is for
people. Nothing logs a key, a body or a query.
"""

import asyncio
import logging
import time
from typing import Final, TextIO

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

TOGETHER_S: Final = 0.1
"""Lines of requests are written together, so often. Each by itself would let go of the
interpreter's lock, for which the loop then waits behind whoever computes: a fifth of all that it
did beside a busy tenant."""


class _Lines(logging.Formatter):
    """Writes a line of the log; the date and the second once for all lines of that second."""

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._second, self._shown = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - as its base has it
        """Returns when it was said."""
        if int(record.created) != self._second:
            self._second = int(record.created)
            self._shown = time.strftime(self.default_time_format, time.localtime(self._second))
        return f"{self._shown},{int(record.msecs):03}"


class Together(logging.StreamHandler[TextIO]):
    """Writes what is said in a while together; warnings, and where no loop runs, at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines = list[str]()
        self._is_coming = False

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line for a moment, or writes it with those that were kept before it."""
        try:
            self._lines.append(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING or not self._comes_later():
                self.flush()
        except Exception:  # noqa: BLE001 - as all handlers do: what is logged must not fail for it
            self.handleError(record)

    def flush(self) -> None:
        """Writes what was kept."""
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()

    def _comes_later(self) -> bool:
        """Sees to it that the loop writes soon; says whether there is one to do so."""
        if self._is_coming:
            return True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        loop.call_later(TOGETHER_S, self._come)
        self._is_coming = True
        return True

    def _come(self) -> None:
        self._is_coming = False
        self.flush()


def log_to(stream: TextIO) -> None:
    """Lets the log of this process be written to a stream."""
    handler = Together(stream)
    handler.setFormatter(_Lines())
    # Nothing of that stands in a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(logging.INFO)

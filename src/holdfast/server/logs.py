"""Where the log goes, and what of it: a line for each thing, on stderr.

Requests are JSON in a line of their own, for programs to read; the rest is for people, unless all
lines are asked for as JSON (`HOLDFAST_LOG_FORMAT=json`): then each is one object, with `time`,
`level`, `logger`, and either what is said of a request or a `message`. Nothing logs a key, a body
or a query.
"""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final, TextIO

import msgspec

_to_json: Final = msgspec.json.Encoder().encode

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

TOGETHER_S: Final = 0.1
"""Lines of requests are written together, so often. Each by itself would let go of the
interpreter's lock, for which the loop then waits behind whoever computes: a fifth of all that it
did beside a busy tenant."""


class LogLines(logging.Formatter):
    """Writes a line for people; the date and the second once for all lines of that second."""

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._second, self._shown = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - as its base has it
        """Returns when it was said."""
        return self.moment(record.created)

    def moment(self, now: float) -> str:
        """Returns an instant as it stands in a line."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._shown = self._show(second)
        return f"{self._shown},{int((now - second) * 1000):03}"

    def request(self, name: str, text: str, now: float) -> str:
        """Returns the line of a request, of which `text` is an object in JSON."""
        return f"{self.moment(now)} INFO {name} {text}"

    def _show(self, second: int) -> str:
        return time.strftime(self.default_time_format, time.localtime(second))


class JsonLines(LogLines):
    """Writes a line as an object, for programs."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        told = {
            "time": self.moment(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        # What is no Unicode comes of names of files.
        return _to_json({key: _plain(text) for key, text in told.items()}).decode()

    def moment(self, now: float) -> str:
        """Returns an instant, in UTC."""
        return f"{super().moment(now).replace(',', '.')}Z"

    def request(self, name: str, text: str, now: float) -> str:
        """Returns the line of a request, of which `text` is an object in JSON."""
        return f'{{"time":"{self.moment(now)}","level":"info","logger":"{name}",{text[1:]}'

    def _show(self, second: int) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def _plain(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


class Together(logging.StreamHandler[TextIO]):
    """Writes what is said in a while together; warnings, and where no loop runs, at once."""

    def __init__(self, stream: TextIO, form: LogLines | None = None) -> None:
        super().__init__(stream)
        self.form = form or LogLines()
        self._lines = list[str]()
        self._is_coming = False

    def tell(self, name: str, text: str) -> None:
        """Keeps a line of a request for a moment, as `emit` would that of a record."""
        self.acquire()
        try:
            self._lines.append(self.form.request(name, text, time.time()) + self.terminator)
        finally:
            self.release()
        if not self._comes_later():
            with suppress(OSError, ValueError):  # As with `emit`: a request does not fail for it.
                self.flush()

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


def tell(logger: logging.Logger, text: str) -> None:
    """Says an object in JSON, as `info` does; where only we listen, without making a record."""
    handlers = logging.root.handlers
    first = handlers[0] if len(handlers) == 1 else None
    above = logger.parent or logging.root
    is_ours = not (logger.handlers or logger.filters or (above.handlers and above.parent))
    if is_ours and isinstance(first, Together) and not first.filters:
        first.tell(logger.name, text)
    else:
        # As `info` does, but for looking up from where it was called.
        logger.handle(logging.LogRecord(logger.name, logging.INFO, "", 0, text, (), None))


def _is_news(record: logging.LogRecord) -> bool:
    """Says whether a line tells something: not where a request ended that a stop has given up.

    How many those are stands in a line of its own.
    """
    failure = None if record.exc_info is None else record.exc_info[1]
    return not isinstance(failure, asyncio.CancelledError)


def log_to(
    stream: TextIO, *, level: str = "info", is_json: bool = False, logs_requests: bool = True
) -> None:
    """Lets the log of this process be written to a stream, from a level on.

    Without requests, only what went wrong. Of what others log, warnings at the most.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    # Nothing of that stands in a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    handler = Together(stream, JsonLines() if is_json else LogLines())
    handler.setFormatter(handler.form)
    root.handlers[:] = [handler]
    root.setLevel(max(least, logging.WARNING))
    logging.captureWarnings(is_json)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    ours = least if logs_requests else max(least, logging.WARNING)
    logging.getLogger("holdfast").setLevel(ours)

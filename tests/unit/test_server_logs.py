"""The log as JSON: every line is one object, whatever is said."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from holdfast.server.logs import log_to, tell

LOGGERS = ("", "holdfast", "uvicorn.error", "py.warnings")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Gives back what the log of this process was like."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each, each.level, [*each.handlers], [*each.filters]) for each in loggers]
    yield io.StringIO()
    logging.captureWarnings(False)
    for each, level, handlers, filters in before:
        each.setLevel(level)
        each.handlers[:], each.filters[:] = handlers, filters


def lines_of(log: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


def test_every_line_is_an_object(log) -> None:
    log_to(log, is_json=True)
    tell(logging.getLogger("holdfast.access"), '{"status":200}')
    logging.getLogger("holdfast.server").info('a %s\n"b" \x1b[0m \udcff', "name")
    failure = ValueError("of a\nfault")
    logging.getLogger("uvicorn.error").error("it failed", exc_info=failure)
    request, said, failed = lines_of(log)
    assert request.keys() == {"time", "level", "logger", "status"}
    assert (request["logger"], request["status"]) == ("holdfast.access", 200)
    assert (said["level"], said["message"]) == ("info", 'a name\n"b" \x1b[0m \\udcff')
    assert str(failed["exception"]).endswith("ValueError: of a\nfault")
    for line in (request, said, failed):
        assert str(line["time"]).endswith("Z")


@pytest.mark.parametrize(
    ("level", "logs_requests", "expected"),
    [
        ("debug", True, ["debug", "info", "warning", "error"]),
        ("info", True, ["info", "warning", "error"]),
        ("info", False, ["warning", "error"]),
        ("debug", False, ["warning", "error"]),
        ("error", True, ["error"]),
    ],
)
def test_a_level_leaves_out_what_is_below_it(log, level, logs_requests, expected) -> None:
    log_to(log, is_json=True, level=level, logs_requests=logs_requests)
    for name in ("debug", "info", "warning", "error"):
        getattr(logging.getLogger("holdfast.work"), name)("said")
        getattr(logging.getLogger("other"), name)("said")
    found = lines_of(log)
    assert [each["level"] for each in found if each["logger"] == "holdfast.work"] == expected
    others = [each["level"] for each in found if each["logger"] == "other"]
    assert others == [each for each in expected if each in ("warning", "error")]

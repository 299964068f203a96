"""`client.exec`: a command on the server, heard while it runs."""

from typing import BinaryIO, Final, cast

import msgspec
from msgspec.structs import replace

from holdfast.errors import Incompatible, Unreachable
from holdfast.model.commands import Executed, Hear
from holdfast.operations.commands import Exec, RunCommand
from holdfast.operations.forms import form_of
from holdfast.sdk.calls import Call, Download
from holdfast.sdk.problems import UNREADABLE, error_of
from holdfast.sdk.reading import value_of, whole

PATIENCE_S: Final = 120.0
"""A server says something every 15 seconds once a command runs; before, it may wait for others."""

MOST_BYTES: Final = 256 << 20
"""More than any command may say: what never ends is no server of ours."""

_FAULT: Final = 500

_NOTHING: Final = msgspec.Raw()

_executed = value_of(Executed)


def running(wanted: RunCommand) -> Download[Executed]:
    """Returns what asks for a command, and listens to it."""
    told = {name: value for name, value in vars(wanted).items() if name != "output"}
    sent = form_of(Exec).send(Exec(**told))
    ask = Call(
        method=Exec.http.method,
        path=Exec.http.path,
        body=sent.body,
        read=whole,
        is_slow=True,
        patience_s=PATIENCE_S,
        is_single=True,
    )
    heard = _Heard(wanted.output)
    return Download(ask, cast("BinaryIO", heard), heard.result)


class _Line(msgspec.Struct):
    """One line of what a server says of a command."""

    stream: str | None = None
    text: str = ""
    result: msgspec.Raw = _NOTHING
    error: msgspec.Raw = _NOTHING


class _Heard:
    """What a command said so far: takes the bytes of an answer as a file does."""

    def __init__(self, output: Hear) -> None:
        self._output = output
        self._texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._rest, self._count = b"", 0
        self._done: Executed | None = None

    def write(self, piece: bytes) -> int:
        """Takes the next piece."""
        self._count += len(piece)
        if self._count > MOST_BYTES:
            raise Incompatible("the server's answer has no end")
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in filter(None, lines):
            try:
                told = self._take(line)
            except UNREADABLE as exc:
                message = f"the server says something else of a command: {exc}"
                raise Incompatible(message) from exc
            if told is not None:
                self._output(*told)  # What that raises is its own, and goes on.
        return len(piece)

    def result(self, _count: int) -> Executed:
        """Returns how it ended, with all that it said."""
        if self._done is None:
            raise Unreachable("the connection ended before the command did")
        said = {name: "".join(texts) for name, texts in self._texts.items()}
        return replace(self._done, **said)

    def _take(self, line: bytes) -> tuple[str, str] | None:
        """Takes a line; returns what was said in it, and where."""
        told = msgspec.json.decode(line, type=_Line)
        if told.error:
            raise error_of(_FAULT, line)
        if told.result:
            self._done = _executed(bytes(told.result))
        elif told.stream in self._texts:
            self._texts[told.stream].append(told.text)
            return told.stream, told.text
        return None

"""Somebody who is told of events by webhooks, keeps what comes, and answers as a test says.

with receiver(say(500)) as there:
    ...
    [got] = there.wait_for(1)
"""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

PATIENCE_S: Final = 30.0

Answer = Callable[[BaseHTTPRequestHandler, int], None]
"""Answers a request, the so-manieth."""


@dataclass(frozen=True)
class Got:
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """What it tells of."""
        return json.loads(self.body)


def say(status: int, **headers: str) -> Answer:
    """Returns an answer without a body."""

    def answer(handler: BaseHTTPRequestHandler, _number: int) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


@dataclass
class Receiver:
    """Where it listens, what it answers, and what it got."""

    port: int
    answer: Answer
    got: list[Got] = field(default_factory=list[Got])
    came: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        """An address of it."""
        return f"http://127.0.0.1:{self.port}/hook"

    def ids(self) -> list[str]:
        """Returns the ids of the events that it got."""
        return [each.event["id"] for each in self.got]

    def take(self, got: Got) -> int:
        """Keeps a request; says the so-manieth it is."""
        with self.came:
            self.got.append(got)
            self.came.notify_all()
            return len(self.got)

    def wait_until(self, has_come: Callable[[list[Got]], bool]) -> list[Got]:
        """Returns what it got, once that is so."""
        with self.came:
            assert self.came.wait_for(lambda: has_come(self.got), PATIENCE_S), self.got
            return self.got[:]

    def wait_for(self, number: int) -> list[Got]:
        """Returns what it got, once it is so many."""
        return self.wait_until(lambda got: len(got) >= number)


@contextmanager
def receiver(answer: Answer | None = None, *, port: int = 0) -> Generator[Receiver]:
    """Listens for as long as the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            number = state.take(Got(self.path, dict(self.headers.items()), body))
            try:
                state.answer(self, number)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
            """Says nothing: the test does."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler, bind_and_activate=False) as up:
        up.allow_reuse_address = up.daemon_threads = True
        up.server_bind()
        up.server_activate()
        state = Receiver(up.server_address[1], answer or say(200))
        thread = threading.Thread(target=up.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield state
        finally:
            up.shutdown()
            thread.join()

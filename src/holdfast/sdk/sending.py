"""Sends calls and waits for their answers."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, nullcontext
from typing import Any, TypeVar

import httpx2

from holdfast.sdk.attempts import Pause, answer_of, conversation, refusal_of
from holdfast.sdk.calls import Call, Download, Feed, Pages, Steps
from holdfast.sdk.lines import Line
from holdfast.sdk.reception import FeedReader, Reception, opened, taking_back, waits_for

T = TypeVar("T")


class SyncSender:
    """One pool of connections to one server; any number of threads may use it."""

    def __init__(
        self,
        line: Line,
        *,
        http: httpx2.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.line, self._sleep = line, sleep
        # What checks certificates takes as long to make as all the rest: only where there are some.
        self._http = http or httpx2.Client(follow_redirects=False, verify=line.is_encrypted)

    def speaking(self, line: Line) -> "SyncSender":
        """Returns one that speaks otherwise, over the same connections."""
        return SyncSender(line, http=self._http, sleep=self._sleep)

    def close(self) -> None:
        """Lets go of the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Sends one call; returns its answer."""
        with nullcontext() if call.content is None else call.content.made():
            return answer_of(call, self._exchange(call, streams=False))

    def run(self, steps: Steps[T]) -> T:
        """Sends one call after the other; returns what comes of them."""
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                call = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as done:
                return done.value
            answer, error = None, None
            try:
                answer = self.send(call)
            except Exception as exc:  # noqa: BLE001 - the steps say whether it matters
                error = exc

    def pages(self, pages: Pages[T]) -> Iterator[T]:
        """Yields what is on one page after the other, each asked for when it is needed."""
        cursor, seen = None, 0
        while pages.limit is None or seen < pages.limit:
            page = self.send(pages.call(cursor, pages.size(seen)))
            for item in page.items:
                if seen == pages.limit:
                    return
                yield item
                seen += 1
            cursor = pages.next_cursor(page, cursor)
            if cursor is None:
                return

    def stream(self, call: Call[bytes]) -> Iterator[bytes]:
        """Yields an answer piece by piece; goes on where it broke off, if the server lets it."""
        return self._received(Reception(call, self.line))

    def _received(self, reception: Reception) -> Generator[bytes]:
        while True:
            response = self._opened(reception.rest())
            try:
                reception.go_on(response)
                for piece in response.iter_bytes():
                    yield from reception.take(piece)
                return reception.check_complete()
            except httpx2.RequestError as exc:
                pause = reception.after(exc)
            finally:
                response.close()
            self._sleep(pause)

    def save(self, download: Download[T]) -> T:
        """Writes an answer to a file, which is there whole or not at all."""
        with opened(download.target) as file:
            take_back = taking_back(file) if download.begins_again else None
            reception = Reception(download.call, self.line, take_back=take_back)
            # Closed whatever happens, as in `awaiting.py`: an error that is kept keeps no
            # connection.
            with closing(self._received(reception)) as pieces:
                for piece in pieces:
                    file.write(piece)
                    count = reception.received
                    download.progress("receiving", count, reception.size or count)
        return download.result(reception.received)

    def listen(self, feed: Feed[T]) -> Iterator[T]:
        """Yields what is told, and connects again where the connection breaks."""
        reader, failures = FeedReader(feed), 0
        while True:
            try:
                response = self._opened(reader.call())
                try:
                    for piece in response.iter_bytes():
                        failures = 0
                        yield from reader.take(piece)
                finally:
                    response.close()
            except httpx2.RequestError as exc:
                failures += 1
                waits_for(failures, self.line, exc)
            self._sleep(reader.pause(failures))

    def _opened(self, call: Call[Any]) -> httpx2.Response:
        """Returns an answer whose body is still to come; raises what went wrong."""
        response = self._exchange(call, streams=True)
        if not response.is_success:
            response.close()
            raise refusal_of(response)
        return response

    def _exchange(self, call: Call[Any], *, streams: bool) -> httpx2.Response:
        steps = conversation(self._http, self.line, call, body_of=iter)
        step = next(steps)
        while True:
            try:
                if isinstance(step, Pause):
                    self._sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    response = self._http.send(step, stream=streams)
                    if streams and not response.is_success:
                        response.read()
                except httpx2.RequestError as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(response)
            except StopIteration as done:
                return done.value

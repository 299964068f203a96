"""Commands, heard while they run: lines of JSON, the last of which says how it ended.

`{"stream": "stdout", "text": "…"}` for what it says, an empty line where nothing is said for a
while, and in the end `{"result": {…}}`, without the texts that were sent before, or
`{"error": {…}}`. A client that goes away takes its command with it; one that goes before
it was its turn has none begun.

While it runs, a command has its tenant's share of threads, and its client time. Until it is its
turn in the namespace it has neither thread nor directory. What was said and not taken when it has
ended is an answer as any other: it has to have room, and to be taken.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.engine.commands.running import run_as
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.commanding import NOT_BEGUN, Manner
from holdfast.errors import Busy
from holdfast.model.commands import Executed
from holdfast.operations.commands import Exec
from holdfast.operations.forms import form_of
from holdfast.server import idempotency
from holdfast.server.asgi import LIVE
from holdfast.server.doors import written
from holdfast.server.failures import answer_to
from holdfast.server.problems import AnswersNotTaken, Unfit
from holdfast.server.requests import Request
from holdfast.server.responses import LARGE_BYTES, Stream, unless_gone
from holdfast.server.routing import Route, post
from holdfast.server.threads import Work, in_thread

LINES: Final = "application/x-ndjson"

SILENT_S: Final = 15.0
"""After so long without a word something is sent: whoever is between us takes nobody for dead."""

_FORM: Final[Any] = form_of(Exec)
CommandRequest = _FORM.body


@post(Exec.http.path, media_type=LINES, claims=False)
async def run(request: Request, agent: Namespace, data: CommandRequest) -> Stream:
    """Runs a command of bash in the sandbox, where the files are; what it leaves is kept.

    What it says comes line by line, as JSON, and in the end how it ended.
    """
    if idempotency.name_of(request) is not None:
        message = "a command that is heard while it runs bears no name: it is run each time"
        raise Unfit(message, param="Idempotency-Key")
    told = ((name, getattr(data, name)) for name in data.__struct_fields__)
    asked = _FORM.read({name: value for name, value in told if value is not msgspec.UNSET})
    running = _Running(request, agent, asked)
    await running.begun()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(running.lines(), media_type=LINES, headers=headers)


_Piece = tuple[str, str]
"""What a command said, and on which of its streams."""


class _Running:
    """A command in a thread, and what is heard of it in the loop."""

    def __init__(self, request: Request, agent: Namespace, asked: Exec) -> None:
        self._request, self._agent = request, agent
        self._loop, self._said = asyncio.get_running_loop(), asyncio.Queue[_Piece | None]()
        self._held = 0
        self._begun, self._is_gone = asyncio.Event(), threading.Event()
        manner = Manner(is_wanted=self._is_wanted, begins=partial(self._tell, self._begun.set))
        work = partial(run_as, agent, asked, manner, hear=self._hear)
        self._task = asyncio.ensure_future(self._run(work))
        self._task.add_done_callback(self._end)

    async def _run(self, work: Callable[[], Executed]) -> Executed:
        self._request.scope[LIVE] = True
        try:
            done = await in_thread(work, work=Work.COMMANDS, line=self._agent.name)
        finally:
            del self._request.scope[LIVE]
        # What it said waits here already, and need not be there twice.
        done = msgspec.structs.replace(done, stdout="", stderr="")
        if self._held > LARGE_BYTES:
            try:
                await self._request.taken.take_answer(self._held)
            except AnswersNotTaken:
                while not self._said.empty():
                    self._said.get_nowait()
                raise
        return done

    async def begun(self) -> None:
        """Waits until the command runs; raises what kept it from that.

        A client that leaves before then has its command begun by nobody: raises `Busy`.
        """
        try:
            await unless_gone(self._begun.wait(), self._request.receive)
        finally:
            if not self._begun.is_set():
                self._is_gone.set()
                self._task.cancel()  # It may wait in line: nobody wants it to come first any more.
        if self._is_gone.is_set():
            raise Busy(NOT_BEGUN)
        if self._task.done():
            self._task.result()

    async def lines(self) -> AsyncIterator[bytes]:
        """Yields what it says, and how it ended; who stops listening ends it."""
        try:
            while True:
                try:
                    said = await asyncio.wait_for(self._said.get(), SILENT_S)
                except TimeoutError:
                    yield b"\n"
                    continue
                if said is None:
                    break
                self._held -= len(said[1])
                yield _line({"stream": said[0], "text": said[1]})
            yield self._last()
        finally:
            self._is_gone.set()

    def _last(self) -> bytes:
        error = self._task.exception()
        if isinstance(error, Exception):
            failed = msgspec.json.decode(answer_to(self._request, error).body)
            return _line({"error": failed["error"]})
        return _line({"result": written(self._agent, self._task.result())})

    def _is_wanted(self) -> bool:
        return not self._is_gone.is_set()

    def _hear(self, stream: str, text: str) -> None:
        self._tell(self._hold, (stream, text))

    def _hold(self, said: "_Piece") -> None:
        self._held += len(said[1])
        self._said.put_nowait(said)

    def _tell(self, act: Any, *told: object) -> None:  # noqa: ANN401 - whatever is called
        self._loop.call_soon_threadsafe(act, *told)

    def _end(self, task: "asyncio.Future[Executed]") -> None:
        if not task.cancelled():
            task.exception()  # Looked at, also where nobody waits for it any more.
        self._said.put_nowait(None)
        self._begun.set()


def _line(told: object) -> bytes:
    return msgspec.json.encode(told) + b"\n"


ROUTES: Final[list[Route]] = [run]

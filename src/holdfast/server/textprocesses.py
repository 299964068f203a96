"""Compares texts in processes of their own.

Comparing takes the interpreter for up to two seconds, and whoever chose the texts wants it to: in
a thread, every answer of the server would wait for its turn again and again. A process has an
interpreter to itself, and a low priority. It ends when nobody waits for its answer any more, and
when the server has ended, however that did: nothing comes in then.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Final, cast

from holdfast.engine.core.linediff import TEXT_S, Unified, unify

PRIORITY: Final = 10
"""How much nicer than the server: what answers goes first."""

_LATE_S: Final = TEXT_S + 0.3
"""After which a process that has not answered gets too little of the machine to do so."""

_LOOK_S: Final = 0.05
"""Between two looks at whether anybody still waits."""

Question = tuple[str, str, tuple[str, str], int]
"""Two texts, their names, and how many lines to show around what differs."""

_PROGRAM: Final = "from holdfast.server.textprocesses import serve; serve()"


class TextProcesses:
    """As many as compare at once; they are kept, and started when there are too few."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []
        self._lock = threading.Lock()

    def unify(
        self,
        old: str,
        new: str,
        *,
        names: tuple[str, str],
        context_lines: int,
        is_over: Callable[[], bool],
    ) -> Unified:
        """Returns a unified diff of two texts; a coarse one if it came too late."""
        try:
            process = self._take()
            found = process.ask((old, new, names, context_lines), is_over=is_over)
        except OSError:
            # No process is to be had, or somebody has ended it.
            return unify(old, new, names=names, context_lines=context_lines, is_over=is_over)
        if found is None:
            return unify(
                old, new, names=names, context_lines=context_lines, is_over=is_over, steps=0
            )
        with self._lock:
            self._idle.append(process)
        return found

    def close(self) -> None:
        """Ends those that wait for questions; whoever is asked one at this time ends by itself."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()

    def _take(self) -> "_Process":
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        return idle or _Process()


class _Process:
    def __init__(self) -> None:
        self._running = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
            # Nothing is loaded from where the server was started: agents may write there.
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        # Both are there, as they were asked for.
        self._questions = cast("IO[bytes]", self._running.stdin)
        self._answers = cast("IO[bytes]", self._running.stdout)
        os.set_blocking(self._questions.fileno(), False)

    def ask(self, question: Question, *, is_over: Callable[[], bool]) -> Unified | None:
        """Returns the answer; None, and there is no process any more, if it would be too late.

        Raises `OSError`, and there is none either, if it has died.
        """
        stop, left = time.monotonic() + _LATE_S, memoryview(_line(question))
        try:
            while True:
                ready = self._wait(is_sending=bool(left))
                if self._answers.fileno() in ready:
                    return Unified(*json.loads(self._answers.readline()))
                if ready:
                    left = left[os.write(self._questions.fileno(), left) :]
                if is_over() or time.monotonic() > stop:
                    self.end()
                    return None
        except (OSError, ValueError, TypeError) as exc:
            self.end()
            raise ChildProcessError("a process that compares texts has died") from exc

    def _wait(self, *, is_sending: bool) -> set[int]:
        """Waits for an answer, and while it is being asked for room; returns where to go on."""
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        if is_sending:
            poll.register(self._questions, select.POLLOUT)
        return {fd for fd, _ in poll.poll(_LOOK_S * 1e3)}

    def end(self) -> None:
        """Ends it, whatever it is doing."""
        self._running.kill()
        self._questions.close()
        self._answers.close()
        self._running.wait()


def serve() -> None:
    """Answers what comes in until nothing does: what such a process runs."""
    os.nice(PRIORITY)
    for question in sys.stdin.buffer:
        old, new, names, context_lines = json.loads(question)
        found = unify(old, new, names=names, context_lines=context_lines, is_over=lambda: False)
        sys.stdout.buffer.write(_line(found))
        sys.stdout.flush()


def _line(words: Question | Unified) -> bytes:
    """Returns words as they are sent: half a character is one, too."""
    return json.dumps(words).encode() + b"\n"

"""A hook's own process: what an agent starts, and must never be held up or stopped by.

- It exits with 0, whatever happens: agents take other codes as errors, and 2 as a refusal of what
  they are about to do.
- What the agent wants to read is written first of all, and nothing after it.
- It ends in bounded time: what it is told is read for a few seconds at the most, and of that no
  more than the beginning is kept; after `LONGEST_S` it ends where it stands, as if the power had
  gone. What a vault holds is whole at every such moment, and the process that stays goes on.

Whether the process that stays or this one does the work, the command is the same: what came on
stdin is an argument of it. Like `thin`, this imports nothing that costs time.
"""

import os
from _signal import (  # pyright: ignore[reportMissingImports] - C's own: `signal` takes 3 ms
    ITIMER_REAL,  # pyright: ignore[reportUnknownVariableType] - as above
    SIGALRM,  # pyright: ignore[reportUnknownVariableType] - as above
    setitimer,  # pyright: ignore[reportUnknownVariableType] - as above
    signal,  # pyright: ignore[reportUnknownVariableType] - as above
)

from holdfast.cli import thin
from holdfast.cli.hooks import problems

HOOK, RUN = thin.HOOK, "run"
INPUT = "--input="

LONGEST_S = 20.0
"""Less than agents wait, and more than a snapshot takes."""

INPUT_S = 3.0
"""How long is waited for the end of what an agent says. It has all of it when it starts us."""

LONGEST_INPUT = 1 << 19
"""Bytes of it that are looked at: what matters stands at its beginning."""

ANSWERS = {"gemini": b"{}\n"}
"""What agents want to read: `agents` says the same, and a test compares."""

_CHUNK = 1 << 16


def is_hook(argv: list[str]) -> bool:
    """Says whether a command line is `holdfast hook run`."""
    return _words(argv)[:2] == [HOOK, RUN]


def run_hook(argv: list[str]) -> bool:
    """Does what an agent's event asks for; says whether this process has done the work."""
    words = _words(argv)
    agent = words[2] if len(words) > len((HOOK, RUN)) else ""
    try:
        if agent in ANSWERS:
            _answer(ANSWERS[agent])
        location = _location(argv)
        _limit(location, agent)
        code, is_ours = _do([*argv, INPUT + os.fsdecode(_read_input())])
    except (Exception, KeyboardInterrupt, SystemExit) as exc:  # noqa: BLE001 - whatever it is, the agent goes on
        problems.note(_location(argv), agent, "unexpected:", type(exc).__name__, str(exc))
        return False
    if code:
        problems.note(location, agent, f"exit code {code}: `holdfast hook run` was refused")
    return is_ours


def _answer(text: bytes) -> None:
    try:  # noqa: SIM105 - `contextlib` is not loaded yet, and takes longer than all of this
        os.write(1, text)
    except OSError:
        pass  # Nobody reads it; what there is to keep is kept all the same.


def _do(argv: list[str]) -> tuple[int, bool]:
    code = thin.try_resident(argv, hot=frozenset((HOOK,)))
    if code is not None:
        return code, False
    from holdfast.cli.app import run  # noqa: PLC0415 - costs more than all the rest of a start
    from holdfast.cli.console import system_console  # noqa: PLC0415 - as above

    return run(argv, system_console()), True


def _words(argv: list[str]) -> list[str]:
    """Returns the words of a command line that are neither options nor their values."""
    found: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ("-C", "--data", "--objects", "--event"):
            next(words, "")
        elif not word.startswith("-"):
            found.append(word)
    return found


def _location(argv: list[str]) -> str:
    _, directory, data = thin.read_command_line(argv)
    try:
        here = os.path.join(os.getcwd(), os.path.expanduser(directory))
    except OSError:
        here = "/"
    return thin.find_location(dict(os.environ), here, data)


def _limit(location: str, agent: str) -> None:
    """Ends this process after a while, whatever it is doing."""

    def end(_number: int, _frame: object) -> None:
        problems.note(location, agent, f"timeout: nothing was done within {LONGEST_S:.0f} s")
        # At once: there may be no way out of what it is in the middle of.
        os._exit(0)

    signal(SIGALRM, end)
    setitimer(ITIMER_REAL, LONGEST_S)


def _read_input() -> bytes:
    """Returns the beginning of what came on stdin, and reads the rest as far as it comes in time.

    An agent whose pipe breaks may think that we have failed.
    """
    import select  # noqa: PLC0415 - no other command has to wait for its input
    import time  # noqa: PLC0415 - as above

    kept, until = b"", time.monotonic() + INPUT_S
    poll = select.poll()
    poll.register(0, select.POLLIN)
    try:
        while not os.isatty(0) and poll.poll(max(0.0, until - time.monotonic()) * 1000):
            part = os.read(0, _CHUNK)
            if not part or time.monotonic() > until:
                break
            kept += part[: LONGEST_INPUT - len(kept)]
    except OSError:
        pass  # There is none, or it has gone.
    # A message between the two processes holds none, and neither does JSON.
    return kept.replace(b"\0", b" ")

"""Lets a pager show a long text: it is started when there is a first line, and waited for.

Whoever leaves it early has read enough, which is no error.
"""

import shlex
import signal
import subprocess
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Final, TextIO

LESS: Final = "FRX"
"""What `less` does unless somebody says otherwise: a short text stays, colours are shown."""


def page(command: str, lines: Iterable[str], out: TextIO, environ: Mapping[str, str]) -> None:
    """Shows lines through a pager; as they are if it cannot be started."""
    rest = iter(lines)
    first = next(rest, None)
    if first is None:
        return
    every = (f"{line}\n" for line in chain([first], rest))
    try:
        # A shell's words, without a shell.
        pager = subprocess.Popen(  # noqa: S603 - what the user's own environment names
            shlex.split(command),
            stdin=subprocess.PIPE,
            stdout=out.fileno(),
            env={"LESS": LESS, **environ},
        )
    except (OSError, ValueError):
        out.writelines(every)
        return
    with _left_to_the_pager():
        if pager.stdin is not None:
            with suppress(BrokenPipeError), pager.stdin as text:
                for line in every:
                    text.write(line.encode(out.encoding or "utf-8", "backslashreplace"))
        pager.wait()


@contextmanager
def _left_to_the_pager() -> Generator[None]:
    """Lets Ctrl-C mean what the pager makes of it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Where the process starts: `holdfast` on somebody's shell.

Imports nothing but `os` and `sys` until it knows that it has to: a process that stays may
answer for us (`thin`), and then nothing of holdfast is ever loaded. Otherwise `app` does the
work. What is left here is what only a process can do: leave, quietly, with a code.
"""

import os
import sys

INTERRUPTED = 130
"""128 + SIGINT: what shells say of a program that Ctrl-C ended."""

HOOK = "hook"
"""What a coding agent's command line has in it, and few others."""

CLOSED_PIPE = 141
"""128 + SIGPIPE: whoever read what we write has gone, as in `holdfast log | head -1`."""


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if HOOK in arguments:
        from holdfast.cli.hooks import process  # noqa: PLC0415 - nothing else needs it

        if process.is_hook(arguments):
            # Before all else: no way out of here but with 0.
            return process.run_hook(arguments)
    try:
        code = _run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = CLOSED_PIPE
    if code == CLOSED_PIPE:
        # The interpreter flushes once more when it ends, and would complain of the same.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    return code


def _run(arguments: list[str]) -> int:
    try:
        from holdfast.cli import thin  # noqa: PLC0415 - nothing is loaded before it is asked
    except ImportError:
        pass
    else:
        code = thin.try_resident(arguments)
        if code is not None:
            return code
    from holdfast.cli.app import run  # noqa: PLC0415 - costs more than all the rest of a start
    from holdfast.cli.console import system_console  # noqa: PLC0415 - as above

    return run(arguments, system_console())


if __name__ == "__main__":
    sys.exit(main())

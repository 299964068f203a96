"""Where the process starts: `holdfast` on somebody's shell.

Imports nothing but `gc`, `os` and `sys` until it knows that it has to: a process that stays may
answer for us (`thin`), and then nothing of holdfast is ever loaded. Otherwise `app` does the
work. What is left here is what only a process can do: leave, quietly, with a code.
"""

import gc
import os
import sys

INTERRUPTED = 130
"""128 + SIGINT: what shells say of a program that Ctrl-C ended."""

HOOK = "hook"
"""What a coding agent's command line has in it, and few others."""

FAILED = 1

CLOSED_PIPE = 141
"""128 + SIGPIPE: whoever read what we write has gone, as in `holdfast log | head -1`."""


GARBAGE = 100_000
"""Objects that are made until the next look for cycles. What is loaded at a start makes a hundred
times as many as Python waits for, and none of it is garbage: a fifth of a start was such looks."""


def start() -> None:
    """Runs the command that was typed, and ends the process."""
    gc.set_threshold(GARBAGE)
    code = main()
    if code != INTERRUPTED and _is_done():
        # What is left is to free, one by one, what the system frees at once.
        os._exit(code)
    sys.exit(code)


def _is_done() -> bool:
    """Says whether a command leaves nothing that waits for the end of its process."""
    thin = sys.modules.get("holdfast.cli.thin")
    threading = sys.modules.get("threading")
    is_lone = threading is None or threading.active_count() == 1
    return thin is not None and is_lone and thin.read_command_line(sys.argv[1:])[0] in thin.HOT


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if HOOK in arguments:
        from holdfast.cli.hooks import process  # noqa: PLC0415 - nothing else needs it

        if process.is_hook(arguments):
            # Before all else: no way out of here but with 0.
            if process.run_hook(arguments) and argv is None:
                _leave_behind(arguments)
            return 0
    try:
        code, is_ours = _run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        if is_ours and argv is None:  # A program that calls us goes on, and is not to be copied.
            _leave_behind(arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = CLOSED_PIPE
    except OSError as problem:
        _say_unwritable(problem)
        return FAILED
    if code == CLOSED_PIPE:
        # The interpreter flushes once more when it ends, and would complain of the same.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
    return code


def _say_unwritable(problem: OSError) -> None:
    """Says that a full disk, or whatever else, has taken nothing of what there was to say."""
    said = f"holdfast: what it has to say cannot be written: {problem.strerror}\n"
    try:  # noqa: SIM105 - `contextlib` may not be loaded, and takes longer than all of this
        os.write(2, said.encode())
    except OSError:
        pass
    # What is still waiting to be written would be tried, and complained of, once more.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _run(arguments: list[str]) -> tuple[int, bool]:
    """Returns the exit code, and whether this process has done the work."""
    try:
        from holdfast.cli import thin  # noqa: PLC0415 - nothing is loaded before it is asked
    except ImportError:
        pass
    else:
        code = thin.try_resident(arguments)
        if code is not None:
            return code, False
    from holdfast.cli.app import run  # noqa: PLC0415 - costs more than all the rest of a start
    from holdfast.cli.console import system_console  # noqa: PLC0415 - as above

    return run(arguments, system_console()), True


def _leave_behind(arguments: list[str]) -> None:
    from holdfast.cli.leaving import leave_behind  # noqa: PLC0415 - once everything is said
    from holdfast.settings import process_environ  # noqa: PLC0415 - as above

    try:
        leave_behind(arguments, process_environ())
    except Exception:  # noqa: BLE001 - the command is done, and what comes after it changes nothing
        return


if __name__ == "__main__":
    start()

"""The file in which hooks say what went wrong: nobody reads what they print.

One line for each, in the vault's folder for what runs: `run/hooks.log`. It is its owner's alone,
and bounded: once it is long, it becomes `hooks.log.1`, in place of the one before. To write there
never fails, and never makes a vault of a folder that is none. Imports next to nothing: a hook's
own process writes here, too.
"""

import os
import time

NAME = "hooks.log"
LONGEST_FILE = 1 << 18
LONGEST_LINE = 1000
MANY = 10_000
STAMP = "%Y-%m-%dT%H:%M:%SZ"
"""How lines begin: so that they sort by their time."""


def note(location: str, *words: str) -> None:
    """Adds a line: when, and what."""
    folder = os.path.join(location, "run")
    if "://" in location or not os.path.isdir(location):
        return
    # On one line, in ASCII: what an agent says is somebody's attack on whoever reads this.
    text = ascii(" ".join(words))[1:-1][:LONGEST_LINE]
    stamp = time.strftime(STAMP, time.gmtime())
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder, 0o700)
        path = os.path.join(folder, NAME)
        descriptor = os.open(path, flags, 0o600)
        try:
            # One call: lines of two that write at once do not mix.
            os.write(descriptor, f"{stamp} {text}\n".encode("ascii"))
            if os.fstat(descriptor).st_size > LONGEST_FILE:
                os.replace(path, f"{path}.1")
        finally:
            os.close(descriptor)
    except OSError:
        return  # There is nowhere else to say it.


def last(location: str, *, most: int) -> list[str]:
    """Returns the last lines, oldest first."""
    lines: list[str] = []
    for name in (f"{NAME}.1", NAME):
        try:
            with open(os.path.join(location, "run", name), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST_FILE))
                lines += file.read(2 * LONGEST_FILE).decode("ascii", "replace").splitlines()
        except OSError:
            continue
    return lines[-most:]

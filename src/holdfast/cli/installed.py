"""What was installed with this code: the command, and the client in C, if any.

Settings of agents name the command by its whole path, or Python in a way that imports nothing from
the directory that the agent is in.

A process that stays answers the client in C that belongs to it alone.
A client in Python compares the code that it would run with that of the server (`thin.STAMP`). One
in C has none, so the server says which client belongs to its own code: the file `holdfast` of the
same installation, by its place on the disk. One of another installation, or of the release before,
finds another file named, and lets Python do the work.
"""

import os
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from holdfast.cli import thin
from holdfast.cli.exits import usage

NAME = "holdfast"
IN_PYTHON = "holdfast-python"


def program() -> list[str]:
    """Returns how this very program is started, from wherever that is done."""
    folder, started = os.path.split(os.path.abspath(sys.argv[0]))
    if started in (NAME, IN_PYTHON):
        for name in (NAME, started):
            beside = os.path.join(folder, name)
            if os.path.isfile(beside) and os.access(beside, os.X_OK):
                return [beside]
    # -P: nothing in the directory that an agent happens to be in is ever imported.
    return [sys.executable, "-P", "-m", "holdfast.cli.main"]


def check_settled(words: Iterable[str]) -> None:
    """Refuses a command that no settings can hold."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError as exc:
            hint = "Use a directory, and a vault, whose paths are UTF-8."
            raise usage(f"{word} is not UTF-8, as settings of agents are", hint=hint) from exc


def client_stamp() -> bytes:
    """Returns what the client that was installed with this code knows itself by; else nothing."""
    try:
        installed = distribution(NAME)
        if not _holds(installed, Path(thin.__file__)):
            return b""
        for each in installed.files or ():
            if each.name == NAME and each.parent.name == "bin":
                found = os.stat(each.locate())
                return f"{found.st_dev} {found.st_ino} {found.st_mtime_ns} {found.st_size}".encode()
    except (PackageNotFoundError, OSError, ValueError):
        pass
    return b""


def _holds(installed: Distribution, module: Path) -> bool:
    """Says whether a module of ours is of an installation, be it one that is edited in place."""
    within = f"{NAME}/cli/{module.name}"
    root = module.parents[2]
    for each in installed.files or ():
        if each.as_posix() == within:
            return os.path.samefile(each.locate(), module)
        if each.suffix == ".pth" and str(root) in Path(each.locate()).read_text().splitlines():
            return True
    return False

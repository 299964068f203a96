"""Whether the code that a process has loaded is still what is installed.

Whoever upgrades it, or edits it, is not answered by what was there before: each file of ours that
was loaded has the time and the size that it had. Before each command all are looked at, some 400,
with one call of `_statcheck.c`: 0.3 to 0.6 ms. Where that is not built, the loop here takes twice
as long. Nobody waits for that who has something else to do meanwhile.
"""

import os
import sys
import threading
from array import array
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Final

from holdfast.workspace.library import is_near, load_function

_PACKAGE: Final = "holdfast"
_ROOT: Final = os.path.dirname(os.path.dirname(__file__))
_OPEN_ROOT: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC

State = tuple[int, int]
"""When a file was last modified, and its size."""

_ABSENT: Final = (0, -1)
"""Of a file that is not there, or cannot be looked at."""


class OwnCode:
    """The files of ours that this process has loaded, as they were then."""

    def __init__(self, root: str = _ROOT, modules: dict[str, ModuleType] = sys.modules) -> None:
        """Notes those of these modules; most are below a root."""
        self._root, self._modules = root, modules
        self._files: dict[str, State] = {}
        self._noted: tuple[int, str] | None = None
        self.note()

    def note(self) -> None:
        """Notes those that were loaded since."""
        # What is loaded comes last.
        loaded = len(self._modules), next(reversed(self._modules))
        if loaded == self._noted:
            return
        self._noted = loaded
        for name, module in list(self._modules.items()):
            path = getattr(module, "__file__", None)
            if path and path not in self._files and name.partition(".")[0] == _PACKAGE:
                self._files[path] = _state_of(path)
        # As C wants them: most are in one folder, and found from there in two thirds of the time.
        inside = [path.removeprefix(f"{self._root}/") for path in self._files]
        self._paths = b"".join(os.fsencode(path) + b"\0" for path in inside)
        states = self._files.values()
        self._is_plain = all(is_near(mtime_ns) for mtime_ns, _ in states)
        self._states = array("q", [n for each in states for n in each] if self._is_plain else [])

    def looking(self) -> Callable[[], bool]:
        """Begins to look at all of them, in a thread; returns what waits for it, as `is_current`.

        To be called by who is about to be asked for something: what it says is of a moment since.
        """
        found = list[bool]()
        look = threading.Thread(target=lambda: found.append(self.is_current()))
        try:
            look.start()
        except RuntimeError:
            return self.is_current  # There may be no thread to be had.

        def is_current() -> bool:
            look.join()
            return found == [True]

        return is_current

    def is_current(self) -> bool:
        """Says whether all of them are as they were."""
        look = _look() if self._is_plain else None
        if look is None:
            return all(_state_of(path) == state for path, state in self._files.items())
        try:
            root = os.open(self._root, _OPEN_ROOT)
        except OSError:
            return False
        try:
            return look(root, self._paths, self._states.buffer_info()[0], len(self._files)) == 1
        finally:
            os.close(root)


@cache
def _look() -> Callable[..., int] | None:
    """Returns what looks at all of them, where it was compiled."""
    return load_function("statcheck", "holdfast_are_as_they_were", "iPPI")


def _state_of(path: str) -> State:
    try:
        found = os.stat(path)
    except OSError:
        return _ABSENT
    return found.st_mtime_ns, found.st_size

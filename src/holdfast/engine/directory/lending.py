"""Where directories of our own lie, that namespaces are lent for a while, and when they go.

Each has a folder under the vault, named by its tenant, the namespace's number and the hash of its
name: one that is deleted and made again has another. It is a copy, and may go at any time: when
nobody has used it for a while, when its namespace is gone, and when the machine was restarted,
since files that were not on disk yet would be taken for what somebody has made of them.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.engine.core.context import Context
from holdfast.errors import Busy, InvalidValue
from holdfast.errors.system import from_system
from holdfast.ids import NamespaceId, TenantId
from holdfast.workspace.clearing import open_all, remove
from holdfast.workspace.journal import boot_id

PATIENCE_S: Final = 60.0
"""How long is waited for whoever has a directory: as long as most clients wait for an answer."""

OTHERS_RUN: Final = "other commands run in this namespace"
IDLE_S: Final = 3600.0
_ASK_AGAIN_S: Final = 0.02
_PRIVATE: Final = 0o700


def _patient() -> None:
    pass


class Place:
    """Where one directory is, and what is known of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.state = folder / "state"
        self._in_use, self._boot, self._owner = (folder / n for n in ("in-use", "boot", "owner"))

    @contextmanager
    def hold(
        self, *, patience_s: float | None = None, waiting: Callable[[], None] = _patient
    ) -> Generator[None]:
        """Holds it, until whoever does ends; raises `Busy` if others hold it for too long.

        `waiting` is called now and then until it is held, and what it raises ends the wait.
        """
        until = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.folder / "lock", flags, 0o600)
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() >= until:
                    raise Busy(OTHERS_RUN)
                waiting()
                time.sleep(_ASK_AGAIN_S)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def in_use(self) -> Generator[None]:
        """Notes that something is done in it, until that is over and kept."""
        self._in_use.touch()
        yield
        self._in_use.unlink(missing_ok=True)

    @property
    def was_interrupted(self) -> bool:
        """Whether something was done in it whose end nobody has seen."""
        return self._in_use.exists()

    def note_owner(self, user: int) -> None:
        """Notes that all that is in it belongs to a user."""
        self._owner.write_text(str(user))

    def take_owner(self) -> int | None:
        """Returns to whom all of it belongs, if that was noted, until it is noted again."""
        owner = None
        with suppress(FileNotFoundError, ValueError):
            owner = int(self._owner.read_text("ascii"))
        self._owner.unlink(missing_ok=True)
        return owner

    def prepare(self) -> None:
        """Lets it be used: what was there before the machine was restarted goes."""
        if not self._is_current():
            self.clear()
            self._boot.write_text(boot_id())
        if not self.files.exists():
            self._owner.unlink(missing_ok=True)
            self.files.mkdir(mode=_PRIVATE)

    def open_up(self) -> None:
        """Lets it be looked into, whatever somebody has made of its mode."""
        self.files.chmod(_PRIVATE)

    def open_all(self) -> None:
        """Lets all that is in it be read, whatever somebody has made of the modes."""
        open_all(self.files)

    def clear(self) -> None:
        """Lets go of all that is in it."""
        for each in (self.files, self.state):
            if each.exists():
                remove(each)
        for noted in (self._in_use, self._owner):
            noted.unlink(missing_ok=True)

    def remove(self, *, patience_s: float | None = None) -> None:
        """Removes it, once nobody holds it; raises `Busy`."""
        with self.hold(patience_s=patience_s):
            remove(self.folder)

    def is_idle(self, idle_s: float) -> bool:
        """Says whether nobody has used it for so long, and nothing in it is to be kept."""
        is_kept = self.was_interrupted and self._is_current()
        return not is_kept and time.time() - self.folder.stat().st_mtime > idle_s

    def _is_current(self) -> bool:
        with suppress(OSError):
            return self._boot.read_text() == boot_id() != ""
        return False


def place_for(context: Context, tenant_id: TenantId, namespace_id: NamespaceId, name: str) -> Place:
    """Returns where the directory of a namespace is; makes the folder for it."""
    if context.state is None:
        raise InvalidValue("this vault keeps no state on this machine: open it with a place")
    folder = _home(context.state.absolute()) / _name_of(context, tenant_id, namespace_id, name)
    folder.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
    return Place(folder)


def sweep(
    context: Context,
    tenant_id: TenantId,
    known: Collection[tuple[NamespaceId, str]],
    *,
    idle_s: float = IDLE_S,
) -> int:
    """Removes directories that nobody uses, or whose namespaces are gone; returns how many.

    `known` are the namespaces that the tenant has.
    """
    names = {_name_of(context, tenant_id, number, name) for number, name in known}
    gone = 0
    for place in _all(context, tenant_id):
        with suppress(OSError, Busy):
            if place.folder.name not in names or place.is_idle(idle_s):
                place.remove(patience_s=0)
                gone += 1
    return gone


def let_go_of(context: Context, tenant_id: TenantId, name: str, *, but: NamespaceId | None) -> None:
    """Removes what namespaces of a name were lent, `but` for one: what is erased is nowhere."""
    kept = None if but is None else _name_of(context, tenant_id, but, name)
    for place in _all(context, tenant_id):
        found = place.folder.name
        if found.endswith(f"-{_digest(name)}") and found != kept:
            try:
                place.remove()
            except FileNotFoundError:
                continue
            except OSError as exc:
                raise from_system(exc, "what commands were lent cannot be removed") from exc


def _all(context: Context, tenant_id: TenantId) -> Iterator[Place]:
    if context.state is None:
        return
    begin = f"{context.vault}-{tenant_id}-"
    with suppress(FileNotFoundError):
        for folder in _home(context.state).iterdir():
            if folder.name.startswith(begin):
                yield Place(folder)


def _home(state: Path) -> Path:
    return state.parent / "commands"


def _name_of(context: Context, tenant_id: TenantId, number: NamespaceId, name: str) -> str:
    return f"{context.vault}-{tenant_id}-{number}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

"""Which directories are attached to which namespaces of a vault, on this machine.

Each has a folder of its own under the vault, named by the hash of its path: what it is attached
to (`attachment.json`), what is known of it (`index`), what is under way (`journal.json`), and
the lock that lets one process at a time look at it or change it. A directory that was moved is
another one here: attach it again, by the name of its namespace.
"""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from holdfast.engine.context import Context
from holdfast.engine.handle import MAX_NAME_CHARS, PATH_CHARS, check_namespace
from holdfast.errors import (
    HoldfastError,
    InvalidValue,
    NamespaceExists,
    StorageFull,
    StorageReadOnly,
    Unavailable,
)
from holdfast.ids import TenantId

_NAME = "attachment.json"

_KINDS: Final[dict[int, type[HoldfastError]]] = {
    errno.EROFS: StorageReadOnly,
    errno.ENOSPC: StorageFull,
    errno.EDQUOT: StorageFull,
}


class Attachment(msgspec.Struct, frozen=True):
    """A directory and the namespace it is attached to."""

    path: Path
    namespace: str
    attached_at: datetime
    state: Path
    """Where what is known of the directory is kept."""

    @contextmanager
    def locked(self) -> Generator[None]:
        """Holds the directory's lock, waiting until it is free. It ends with its holder."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self.state / "lock", flags | os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            if exc.errno != errno.EROFS or not (self.state / "lock").exists():
                message = f"the lock of {self.path} cannot be opened: {exc.strerror}"
                raise _KINDS.get(exc.errno or 0, Unavailable)(message) from exc
            # Who reads from a disk that takes no writes can still keep to the order.
            fd = os.open(self.state / "lock", flags | os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


class Attachments:
    """The directories that are attached to namespaces of one tenant."""

    def __init__(self, context: Context, tenant_id: TenantId) -> None:
        self._context, self._tenant_id = context, tenant_id
        self._folder = context.state
        # For vaults in databases, this machine has one place for all of them.
        self._begin = f"{context.vault}-{tenant_id}-"
        self._clock = context.clock

    def list(self) -> list[Attachment]:
        """Returns all of them, by path."""
        if self._folder is None or not self._folder.is_dir():
            return []
        mine = [folder for folder in self._folder.iterdir() if folder.name.startswith(self._begin)]
        found = [attachment for folder in mine if (attachment := _read(folder)) is not None]
        return sorted(found, key=lambda attachment: attachment.path)

    def find(self, path: Path) -> Attachment | None:
        """Returns the attachment of a directory, or of the nearest one that holds it."""
        real = Path(os.path.realpath(path))
        for candidate in (real, *real.parents):
            found = self._at(candidate)
            if found is not None:
                return found
        return None

    def get_or_add(self, path: Path, *, namespace: str | None) -> Attachment:
        """Returns the attachment of exactly this directory; makes it if it is not there.

        Raises `NamespaceExists` if the namespace belongs to another directory, or this
        directory to another namespace.
        """
        real = Path(os.path.realpath(path))
        found = self._at(real)
        if found is not None:
            if namespace is not None and namespace != found.namespace:
                raise NamespaceExists(found.namespace)
            return found
        name = self._choose(real, namespace)
        state = self._state(real)
        attachment = Attachment(real, name, self._clock(), state)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write(attachment)
        except OSError as exc:
            message = f"{real} cannot be attached: {exc.strerror or exc}"
            kind = _KINDS.get(exc.errno or 0, Unavailable)
            raise kind(message) from exc
        return attachment

    def _choose(self, real: Path, namespace: str | None) -> str:
        taken = {a.namespace: a for a in self.list()}
        if namespace is not None:
            owner = taken.get(check_namespace(self._context, self._tenant_id, namespace))
            # One whose directory is gone was moved: the name goes with it.
            if owner is not None and owner.path.is_dir():
                raise NamespaceExists(namespace)
            return namespace
        text = os.fsencode(real.name).decode("utf-8", "replace")
        usable = (c if c.isprintable() and c not in PATH_CHARS else "_" for c in text)
        base = "".join(usable).strip()[: MAX_NAME_CHARS - 7]
        base = base if base not in ("", ".", "..") else "workspace"
        # The same name in two places: the second carries a piece of its path's hash.
        return base if base not in taken else f"{base}-{_digest(real)[:6]}"

    def _at(self, real: Path) -> Attachment | None:
        if self._folder is None:
            return None
        found = _read(self._state(real))
        return found if found is not None and found.path == real else None

    def _state(self, real: Path) -> Path:
        if self._folder is None:
            raise InvalidValue("this vault keeps no state on this machine: open it with a place")
        return self._folder / f"{self._begin}{_digest(real)}"


def _digest(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()


def _read(folder: Path) -> Attachment | None:
    try:
        fields = json.loads((folder / _NAME).read_bytes())
        return Attachment(
            Path(os.fsdecode(bytes.fromhex(fields["path"]))),
            fields["namespace"],
            datetime.fromisoformat(fields["attached_at"]),
            folder,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(attachment: Attachment) -> None:
    fields = {
        # As bytes: a path need not be text.
        "path": os.fsencode(attachment.path).hex(),
        "shown": os.fsencode(attachment.path).decode("utf-8", "backslashreplace"),
        "namespace": attachment.namespace,
        "attached_at": attachment.attached_at.isoformat(),
    }
    temporary = attachment.state / f"{_NAME}.tmp"
    with temporary.open("wb") as file:
        file.write(json.dumps(fields, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(attachment.state / _NAME)

"""Which directories are attached to which namespaces of a vault, on this machine.

Each has a folder of its own under the vault, named by the hash of its path: what it is attached
to (`attachment.json`), what is known of it (`index`), what is under way (`journal.json`), and
the lock that lets one process at a time look at it or change it.

A directory that was moved is known again (`workspace/identity.py`), and what is kept of it goes
to its new name here. One that was detached is remembered as such: attached again, it goes on with
its history, and no other directory takes its namespace by having the same name.
"""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Container, Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from holdfast.catalog.namespaces import Attaching
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.context import Context
from holdfast.engine.directory.likeness import find_likeness
from holdfast.engine.planes.handle import MAX_NAME_CHARS, PATH_CHARS, Handle, check_namespace
from holdfast.errors import (
    AlreadyAttached,
    DirectoryMissing,
    DirectoryReplaced,
    InvalidValue,
    NamespaceNotFound,
    Unavailable,
)
from holdfast.errors.system import from_system, translated
from holdfast.ids import TenantId
from holdfast.ownfiles import create, read_small
from holdfast.workspace.descent import make_root
from holdfast.workspace.identity import Identity, find_identity, find_near

_NAME = "attachment.json"
INDEX_NAME = "index"
JOURNAL_NAME = "journal"


class Attachment(msgspec.Struct, frozen=True):
    """A directory and the namespace it is attached to."""

    path: Path
    namespace: str
    attached_at: datetime
    state: Path
    """Where what is known of the directory is kept."""
    identity: Identity | None = None
    """Which directory it was when it was last looked at."""
    is_detached: bool = False
    moved_from: Path | None = None
    """Where it was until just now, if it was moved."""
    attaching: Attaching | None = None
    """As what it is known to the catalog, by which whoever is next knows what both agreed on."""

    @contextmanager
    def locked(self) -> Generator[None]:
        """Holds the directory's lock, waiting until it is free. It ends with its holder."""
        flags = os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            fd = os.open(self.state / "lock", flags | os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError as exc:
            raise _let_go_of(self) from exc
        except OSError as exc:
            if exc.errno != errno.EROFS or not (self.state / "lock").exists():
                raise from_system(exc, f"the lock of {self.path} cannot be opened") from exc
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
        return [each for each in self._all() if not each.is_detached]

    def find(self, path: Path) -> Attachment | None:
        """Returns the attachment of a directory, or of the nearest one that holds it.

        One that was moved is attached in its new place.
        """
        real = Path(os.path.realpath(path))
        # As it is named first: a link may stand where the directory was.
        for candidate in (path.absolute(), real, *real.parents):
            found = self._at(candidate)
            if found is not None and not found.is_detached:
                return self._find_swapped(found) or found
        return self._find_moved(real)

    def find_at(self, path: Path) -> Attachment | None:
        """Returns the attachment of exactly this path, whatever is there now."""
        found = self._at(Path(os.path.realpath(path)))
        return None if found is None or found.is_detached else found

    def find_origins(self, path: Path, *, is_sure: bool = True) -> "list[Attachment]":
        """Returns directories that are missing and that this one may have been: it holds theirs.

        What has to be the same for that says `likeness.py`; unless `is_sure`, little is enough.
        """
        real = Path(os.path.realpath(path))
        missing = [each for each in self.list() if not each.path.is_dir()]
        found = ((each, find_likeness(self._handle(each), real)) for each in missing)
        return [
            each
            for each, likeness in found
            if likeness is not None and (likeness.is_strong or (likeness.is_some and not is_sure))
        ]

    def get_or_add(
        self,
        path: Path,
        *,
        namespace: str | None,
        known: Container[str] = (),
        stands_on: LastLook | None = None,
    ) -> Attachment:
        """Returns the attachment of exactly this directory; makes it if it is not there.

        Raises `AlreadyAttached` if the namespace belongs to another directory, or this
        directory to another namespace; from one namespace to another that is `known`, and no
        other directory's, it goes. A directory that is another one than was attached is taken
        for it if the namespace is named. `stands_on` is what is believed of one that is attached
        anew; it is there before the attachment is, so that nobody finds the one without the other.
        """
        real = Path(os.path.realpath(path))
        found = self._at(real)
        if found is not None and not found.is_detached and namespace in (None, found.namespace):
            if namespace is None:
                return check(found, self._handle(found))
            there = find_identity(real)
            return found if there is None else _keeping(found, there)
        is_free = found is None or found.is_detached
        if (
            is_free
            and namespace is None
            and (moved := self._recognise(real, self._all())) is not None
        ):
            return self._move(moved, real)
        name = self._choose(real, namespace, found)
        is_other = found is not None and not found.is_detached
        if found is not None and is_other and name not in known:
            raise AlreadyAttached(str(real), namespace=found.namespace)
        state = self._state(real)
        for owner in self._all():
            if owner.namespace == name and owner.state != state:
                return self._move(owner, real, stands_on)
        attachment = Attachment(
            real,
            name,
            self._clock(),
            state,
            find_identity(real),
            attaching=_anew(self._context, None if found is None else found.attaching),
        )
        with translated(f"{real} cannot be attached"):
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Of what was agreed on with another namespace, nothing holds for this one.
            _forget(state)
            _believe(state, stands_on)
            _write(attachment)
        return attachment

    def detach(self, attachment: Attachment) -> None:
        """Lets go of a directory, and touches nothing in it; its lock is held."""
        with translated(f"{attachment.path} cannot be detached"):
            _write(msgspec.structs.replace(attachment, is_detached=True))
            _forget(attachment.state)

    def get(self, *, path: Path | None = None, namespace: str | None = None) -> Attachment:
        """Returns the attachment of exactly this directory, or of this namespace."""
        real = None if path is None else Path(os.path.realpath(path))
        for each in self.list():
            if real in (None, each.path) and namespace in (None, each.namespace):
                return each
        if real is not None:
            raise InvalidValue(f"{real} is not attached")
        raise NamespaceNotFound(namespace or "")

    def _all(self) -> "list[Attachment]":
        if self._folder is None or not self._folder.is_dir():
            return []
        mine = [folder for folder in self._folder.iterdir() if folder.name.startswith(self._begin)]
        found = [attachment for folder in mine if (attachment := _read(folder)) is not None]
        return sorted(found, key=lambda attachment: attachment.path)

    def _choose(self, real: Path, namespace: str | None, before: Attachment | None) -> str:
        taken = {each.namespace: each for each in self._all()}
        if namespace is not None:
            owner = taken.get(check_namespace(self._context, self._tenant_id, namespace))
            # One whose directory is gone was moved: the name goes with it.
            if owner is not None and not owner.is_detached and owner.path.is_dir():
                raise AlreadyAttached(str(owner.path), namespace=namespace)
            return namespace
        if before is not None:
            owner = taken[before.namespace]
            if owner.is_detached or owner.path == real:
                return before.namespace
        text = os.fsencode(real.name).decode("utf-8", "replace")
        usable = (c if c.isprintable() and c not in PATH_CHARS else "_" for c in text)
        base = "".join(usable).strip()[: MAX_NAME_CHARS - 7]
        base = base if base not in ("", ".", "..") else "workspace"
        # The same name in two places: the second carries a piece of its path's hash.
        return base if base not in taken else f"{base}-{_digest(real)[:6]}"

    def _find_moved(self, real: Path) -> Attachment | None:
        """Attaches the directory around a path in its new place, if it was moved there."""
        lost = [each for each in self.list() if each.identity and not _is_there(each)]
        for candidate in (real, *real.parents) if lost else ():
            moved = self._recognise(candidate, lost)
            if moved is not None:
                return self._move(moved, candidate)
        return None

    def _find_swapped(self, found: Attachment) -> Attachment | None:
        """Attaches what is at a path in its new place, if both it and what was there were moved."""
        if _is_there(found) or _now_at(found) is None:
            return None
        moved = self._recognise(found.path, [each for each in self.list() if each.identity])
        return None if moved is None else self._move(moved, found.path)

    def _recognise(self, real: Path, among: "list[Attachment]") -> Attachment | None:
        """Returns which of some directories was moved to this path, if that is certain."""
        here = find_identity(real)
        if here is None:
            return None
        for each in among:
            was = each.identity
            if was is None or not here.is_same(was) or _is_there(each):
                continue
            if here.is_certain(was):
                return each
            likeness = find_likeness(self._handle(each), real)
            if likeness is not None and likeness.is_some and not likeness.is_another:
                return each
        return None

    def _handle(self, attachment: Attachment) -> Handle:
        return Handle(self._context, self._tenant_id, attachment.namespace)

    def _move(
        self, attachment: Attachment, real: Path, stands_on: LastLook | None = None
    ) -> Attachment:
        """Gives what is known of a directory to the path at which it is now.

        Done again from the start if it is interrupted: until the last step it is what it was.
        """
        state, here, was = self._state(real), find_identity(real), attachment.identity
        attaching = attachment.attaching
        with attachment.locked(), translated(f"{real} cannot be attached"):
            if here is None or was is None or not here.is_same(was):
                # Another directory: what is not in it was not removed from it.
                _forget(attachment.state)
                attaching = _anew(self._context, attaching)
            if attachment.is_detached or stands_on is not None:
                attaching = _anew(self._context, attaching)
            if state != attachment.state:
                _make_way(state)
                attachment.state.rename(state)
            _believe(state, stands_on)
            moved = msgspec.structs.replace(
                attachment,
                path=real,
                state=state,
                identity=here,
                is_detached=False,
                attaching=attaching,
            )
            _write(moved)
        return msgspec.structs.replace(moved, moved_from=attachment.path)

    def _at(self, real: Path) -> Attachment | None:
        if self._folder is None:
            return None
        found = _read(self._state(real))
        return found if found is not None and found.path == real else None

    def _state(self, real: Path) -> Path:
        if self._folder is None:
            raise InvalidValue("this vault keeps no state on this machine: open it with a place")
        return self._folder / f"{self._begin}{_digest(real)}"


def check(attachment: Attachment, handle: Handle) -> Attachment:
    """Returns it as it is now; raises if the directory is missing, or is another one.

    One that is empty, or holds what its namespace does, was made anew by somebody.
    """
    now = _read(attachment.state)
    mine = (attachment.path, attachment.namespace)
    if now is None or now.is_detached or (now.path, now.namespace) != mine:
        raise _let_go_of(attachment)
    there = find_identity(attachment.path)
    if there is None:
        raise _absent(attachment)
    if now.attaching is None:
        # It was attached before directories had names.
        now = _named(now, handle.context)
    if now.identity is not None and there.is_same(now.identity):
        return now if there == now.identity else _keeping(now, there)
    likeness = None if now.identity is None else find_likeness(handle, attachment.path)
    if likeness is not None and likeness.is_another:
        raise DirectoryReplaced(
            str(attachment.path),
            namespace=attachment.namespace,
            found="another directory",
            now_at=_now_at(now),
        )
    return _keeping(now, there)


def make_anew(attachment: Attachment) -> bool:
    """Makes the directory if it is missing; says whether it was. Its lock is held.

    One that was only moved, and is near, is not made a second time.
    """
    if find_identity(attachment.path) is not None:
        return False
    if _now_at(attachment) is not None:
        raise _absent(attachment)
    mode = None if attachment.identity is None else attachment.identity.mode
    try:
        make_root(str(attachment.path), mode=mode)
    except NotADirectoryError as exc:
        raise _absent(attachment) from exc
    except OSError as exc:
        message = f"the directory {attachment.path} cannot be made anew: {exc.strerror}"
        raise Unavailable(message) from exc
    return True


def take_over(attachment: Attachment) -> None:
    """Takes another directory in its place for it, unless it was only moved. Its lock is held."""
    now, there = _read(attachment.state), find_identity(attachment.path)
    if now is not None and there is not None and _now_at(now) is None:
        _keeping(now, there)


def unmake(attachment: Attachment) -> None:
    """Removes a directory that was made anew, and that nothing was brought back into."""
    with suppress(OSError):
        attachment.path.rmdir()


def _forget(state: Path) -> None:
    """Lets go of what is known of a directory, and of what was under way in it."""
    for name in (INDEX_NAME, JOURNAL_NAME):
        (state / name).unlink(missing_ok=True)


def _believe(state: Path, last: LastLook | None) -> None:
    if last is not None:
        last.index.save(state / INDEX_NAME)


def _make_way(state: Path) -> None:
    """Sets aside what is kept of a directory that was moved, where another's is to be.

    Of one that is nowhere, or was let go of, nothing stays; with it goes what a crash has left.
    """
    there = _read(state)
    if there is not None and not there.is_detached and _now_at(there) is not None:
        # It is found by which directory it is: nobody asks for it by its path any more.
        state.rename(state.with_name(f"{state.name}-{_digest(Path(there.namespace))[:12]}"))
        return
    with suppress(FileNotFoundError):
        for left in state.iterdir():
            left.unlink()
        state.rmdir()


def _anew(context: Context, before: Attaching | None) -> Attaching:
    """Returns as what a directory is known from now on: nothing that was agreed on before holds."""
    if before is None:
        return Attaching(context.ids.directory(), 1)
    return Attaching(before.directory, before.attached + 1)


def _named(attachment: Attachment, context: Context) -> Attachment:
    """Returns it with a name for the catalog, if that can be kept."""
    with suppress(OSError):  # The next look tries again.
        _write(named := msgspec.structs.replace(attachment, attaching=_anew(context, None)))
        return named
    return attachment


def _keeping(attachment: Attachment, identity: Identity) -> Attachment:
    """Returns it with what the directory is now, which is kept."""
    kept = msgspec.structs.replace(attachment, identity=identity)
    with suppress(OSError):  # The next look finds the same, and tries again.
        _write(kept)
    return kept


def _is_there(attachment: Attachment) -> bool:
    """Says whether the directory that was attached is where it was."""
    there = find_identity(attachment.path)
    return there is not None and (attachment.identity is None or there.is_same(attachment.identity))


def _absent(attachment: Attachment) -> DirectoryMissing | DirectoryReplaced:
    """Returns the error for a path at which there is no directory."""
    on_the_way = next(
        (p for p in (attachment.path, *attachment.path.parents) if os.path.lexists(p)), None
    )
    if on_the_way is None or (on_the_way.is_dir() and not on_the_way.is_symlink()):
        return DirectoryMissing(str(attachment.path), now_at=_now_at(attachment))
    found = "a link" if on_the_way.is_symlink() else "a file"
    where = found if on_the_way == attachment.path else f"below {found} ({on_the_way})"
    return DirectoryReplaced(
        str(attachment.path),
        namespace=attachment.namespace,
        found=where,
        now_at=_now_at(attachment),
    )


def _now_at(attachment: Attachment) -> str | None:
    """Returns where a directory is that was moved, if that is easily found."""
    was = attachment.identity
    found = None if was is None else find_near(attachment.path, was)
    return None if found is None else str(found)


def _let_go_of(attachment: Attachment) -> Unavailable:
    return Unavailable(
        f"{attachment.path} is no longer attached as namespace {attachment.namespace}"
    )


def _digest(path: Path) -> str:
    return hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()


def _read(folder: Path) -> Attachment | None:
    try:
        fields = json.loads(read_small(folder / _NAME))
        identity, directory = fields.get("identity"), fields.get("directory")
        return Attachment(
            Path(os.fsdecode(bytes.fromhex(fields["path"]))),
            fields["namespace"],
            datetime.fromisoformat(fields["attached_at"]),
            folder,
            None if identity is None else Identity(**identity),
            is_detached=fields.get("detached", False),
            attaching=None if directory is None else Attaching(directory, fields["attached"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(attachment: Attachment) -> None:
    identity = attachment.identity
    fields = {
        # As bytes: a path need not be text.
        "path": os.fsencode(attachment.path).hex(),
        "shown": os.fsencode(attachment.path).decode("utf-8", "backslashreplace"),
        "namespace": attachment.namespace,
        "attached_at": attachment.attached_at.isoformat(),
        "identity": None if identity is None else identity._asdict(),
        "detached": attachment.is_detached,
    }
    if attachment.attaching is not None:
        fields |= msgspec.to_builtins(attachment.attaching)
    temporary = attachment.state / f"{_NAME}.tmp"
    with create(temporary) as file:
        file.write(json.dumps(fields, indent=1).encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(attachment.state / _NAME)

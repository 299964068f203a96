"""Every error holdfast raises on purpose.

    HoldfastError
    ├── Invalid             the request itself is wrong: change it
    │   ├── InvalidPath         a path that could leave the namespace, or that no file system holds
    │   ├── InvalidName         a namespace, tenant or label that cannot be used
    │   ├── InvalidValue        an argument out of its range
    │   │   └── Unencodable         a value that cannot be stored (also a `TypeError`)
    │   ├── NotAFile            a directory or link stands where a file was asked for
    │   ├── NotADirectory       a file stands where a directory is needed
    │   └── UnsafeArchive       an archive that tries to do harm, or is not ours
    ├── NotFound            the caller asked for something that is not there
    │   ├── PathNotFound
    │   ├── NamespaceNotFound
    │   ├── SnapshotNotFound
    │   ├── SnapshotExpired
    │   ├── SessionNotFound
    │   ├── VersionNotFound
    │   ├── TurnNotFound
    │   ├── TraceNotFound
    │   ├── MemoryNotFound
    │   └── NothingToUndo
    ├── Conflict            the world moved or disagrees: read again, then decide
    │   ├── HeadMoved
    │   ├── StateMoved          a session has another version than expected
    │   ├── SessionExists
    │   ├── MergeConflict
    │   ├── NamespaceExists
    │   ├── PathExists
    │   ├── DriftFound          a directory holds changes that no snapshot does
    │   ├── DirectoryRefused    a directory that should not be captured
    │   └── Busy
    ├── LimitExceeded       refused before anything was written: make room
    │   ├── QuotaExceeded
    │   ├── StorageFull
    │   └── TooLarge
    ├── Damaged             stored bytes break a promise: stop, keep the evidence
    │   ├── ObjectDamaged
    │   ├── ObjectMissing
    │   ├── PackDamaged
    │   └── PackMissing
    ├── Unavailable         a dependency is down: retry with backoff
    └── Incompatible        this program and this vault do not fit: upgrade
        └── VaultTooNew

Families are what a caller can do next. Errors carry values, the class writes the
sentence. `code` is wire format and never changes; `hint` is the next thing to try.
"""

from typing import ClassVar, Final

_NAMED: Final = 5
"""Conflicts that a message names; the error carries them all."""

_LONGEST: Final = 80
"""Characters of an attacker's text that a message repeats."""


class HoldfastError(Exception):
    """The root of every error that holdfast raises on purpose."""

    code: ClassVar[str] = "error"
    hint: ClassVar[str] = ""


class Invalid(HoldfastError):
    """The request itself is wrong; sending it again will not help."""

    code = "invalid"
    hint = "Change the request: the message says what is wrong with it."


class InvalidPath(Invalid):
    """A path that could leave the namespace, or that no file system could hold."""

    code = "invalid_path"
    hint = "Use a relative path such as notes/todo.md, with no '..', no leading '/' and no NUL."

    def __init__(self, path: bytes | str, *, reason: str) -> None:
        super().__init__(f"{shorten(path)} is not a usable path: {reason}")
        self.path, self.reason = path, reason


class InvalidName(Invalid):
    """A tenant, namespace, label or other name that cannot be used."""

    code = "invalid_name"
    hint = "Use 1 to 128 printable characters."

    def __init__(self, kind: str, name: str, *, reason: str) -> None:
        super().__init__(f"{shorten(name)} is not a usable {kind}: {reason}")
        self.kind, self.name, self.reason = kind, name, reason


class InvalidValue(Invalid):
    """An argument out of its range."""

    code = "invalid_value"
    hint = "Pass a value of the documented type and range."


class Unencodable(InvalidValue, TypeError):
    """A value that cannot be stored as it is."""

    code = "unencodable"
    hint = "Store plain data; the message names the place, the reference has the types."


class NotAFile(Invalid):
    """A directory or a link stands where a file was asked for."""

    code = "not_a_file"
    hint = "List the path to see what it holds, or name a file inside it."

    def __init__(self, path: bytes, *, found: str) -> None:
        super().__init__(f"{shorten(path)} is a {found}, not a file")
        self.path, self.found = path, found


class NotADirectory(Invalid):
    """A file stands where a directory is needed."""

    code = "not_a_directory"
    hint = "Delete or move the file first, or choose another path."

    def __init__(self, path: bytes, *, blocked_by: bytes) -> None:
        super().__init__(
            f"{shorten(path)} cannot be used: {shorten(blocked_by)} is not a directory"
        )
        self.path, self.blocked_by = path, blocked_by


class UnsafeArchive(Invalid):
    """An archive that tries to leave the namespace, hides something, or is not ours."""

    code = "unsafe_archive"
    hint = "Import only archives made by `export`; nothing of this one was used."

    def __init__(self, reason: str, *, member: bytes | str | None = None) -> None:
        where = "" if member is None else f" (member {shorten(member)})"
        super().__init__(f"the archive was refused: {reason}{where}")
        self.reason, self.member = reason, member


class NotFound(HoldfastError):
    """The caller asked for something that is not there."""

    code = "not_found"
    hint = "List what there is, then ask again."


class PathNotFound(NotFound):
    """No file, link or directory at this path."""

    code = "path_not_found"
    hint = "List the parent directory; names are case-sensitive."

    def __init__(self, path: bytes) -> None:
        super().__init__(f"there is nothing at {shorten(path) if path else 'the root'}")
        self.path = path


class NamespaceNotFound(NotFound):
    """No namespace of this name in this tenant."""

    code = "namespace_not_found"
    hint = "A namespace begins to exist with its first write; list the namespaces."

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no namespace {shorten(name)}")
        self.name = name


class SnapshotNotFound(NotFound):
    """No snapshot with this id on this namespace's timeline."""

    code = "snapshot_not_found"
    hint = "Look the id up on the namespace's timeline; ids of other namespaces do not count."

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"there is no snapshot {shorten(snapshot_id)} on this timeline")
        self.snapshot_id = snapshot_id


class SnapshotExpired(NotFound):
    """The snapshot was there and its time is over."""

    code = "snapshot_expired"
    hint = "Choose a newer snapshot; pin what has to be kept."

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"snapshot {shorten(snapshot_id)} has expired")
        self.snapshot_id = snapshot_id


class SessionNotFound(NotFound):
    """No session with this id in this namespace, or its time is over."""

    code = "session_not_found"
    hint = "List the sessions of the namespace; one past its time to live counts as gone."

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {shorten(session_id)}")
        self.session_id = session_id


class VersionNotFound(NotFound):
    """A session has no version of this number."""

    code = "version_not_found"
    hint = "Look at the session's history; versions count from 0."

    def __init__(self, session_id: str, version: int) -> None:
        super().__init__(f"session {shorten(session_id)} has no version {version}")
        self.session_id, self.version = session_id, version


class TurnNotFound(NotFound):
    """No turn with this id in the conversation as it stands."""

    code = "turn_not_found"
    hint = "List the turns of the session; one that went back shows those up to there."

    def __init__(self, turn_id: str) -> None:
        super().__init__(f"there is no turn {shorten(turn_id)} in this conversation")
        self.turn_id = turn_id


class TraceNotFound(NotFound):
    """No trace with this id."""

    code = "trace_not_found"
    hint = "List the traces; a namespace shows its own, the vault those of all namespaces."

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"there is no trace {shorten(trace_id)}")
        self.trace_id = trace_id


class MemoryNotFound(NotFound):
    """No memory with this id in this namespace."""

    code = "memory_not_found"
    hint = "List the memories of the namespace; a deleted one can be recovered for a while."

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"there is no memory {shorten(memory_id)}")
        self.memory_id = memory_id


class NothingToUndo(NotFound):
    """There is no earlier (or later) state to go to."""

    code = "nothing_to_undo"
    hint = "Look at the timeline: `restore` brings back any snapshot on it."


class Conflict(HoldfastError):
    """The world moved, or disagrees: read again, then decide."""

    code = "conflict"
    hint = "Read the current state again and retry."


class HeadMoved(Conflict):
    """Another writer advanced the namespace first."""

    code = "head_moved"
    hint = "Read the timeline again, look at what changed, and retry on top of it."

    def __init__(self, namespace: str, *, expected: str | None, actual: str | None) -> None:
        super().__init__(f"{shorten(namespace)} is at {actual}, not at {expected}")
        self.namespace, self.expected, self.actual = namespace, expected, actual


class StateMoved(Conflict):
    """A session's state has another version than the writer expected; nothing was written."""

    code = "state_moved"
    hint = "Read the state again, and decide on what it is now."

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"session {shorten(session_id)} is at version {actual}, not {expected}")
        self.session_id, self.expected, self.actual = session_id, expected, actual


class SessionExists(Conflict):
    """There is a session with this id already."""

    code = "session_exists"
    hint = "Leave the id out to get a new one, or go on with the session that is there."

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is a session {shorten(session_id)} already")
        self.session_id = session_id


class MergeConflict(Conflict):
    """Both sides changed the same thing differently; nothing was applied."""

    code = "merge_conflict"
    hint = "Resolve the listed keys on one side, or say which side wins with prefer=."

    def __init__(self, conflicts: list[tuple[str, bytes]]) -> None:
        shown = ", ".join(f"{plane}:{shorten(key)}" for plane, key in conflicts[:_NAMED])
        more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
        super().__init__(f"both sides changed {shown}{more}")
        self.conflicts = conflicts


class NamespaceExists(Conflict):
    """A namespace of this name is already there."""

    code = "namespace_exists"
    hint = "Choose another name."

    def __init__(self, name: str) -> None:
        super().__init__(f"there is already a namespace {shorten(name)}")
        self.name = name


class PathExists(Conflict):
    """Something stands at the path that was to be made."""

    code = "path_exists"
    hint = "Delete it first, choose another path, or pass overwrite=True."

    def __init__(self, path: bytes) -> None:
        super().__init__(f"there is already something at {shorten(path)}")
        self.path = path


class DriftFound(Conflict):
    """A directory holds changes that no snapshot does, and they would be lost."""

    code = "drift_found"
    hint = "Take a snapshot first, or let the restore capture them; --force gives them up."

    def __init__(self, paths: list[str], *, reason: str) -> None:
        named = ", ".join(shorten(path) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        super().__init__(f"{reason}: {named}{more}")
        self.paths, self.reason = paths, reason


class DirectoryRefused(Conflict):
    """A directory that should not be captured: too much, not ours, or not here."""

    code = "directory_refused"
    hint = "Choose the directory that the agent works in; --force insists."

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"{shorten(path)} is not captured: {reason}")
        self.path, self.reason = path, reason


class Busy(Conflict):
    """Somebody else holds what this needs; it will be free again."""

    code = "busy"
    hint = "Wait for the other operation to end, then retry."


class LimitExceeded(HoldfastError):
    """Refused before anything was written: it would exceed a limit."""

    code = "limit_exceeded"
    hint = "Make room or raise the limit."


class QuotaExceeded(LimitExceeded):
    """The tenant's or namespace's quota has no room for this."""

    code = "quota_exceeded"
    hint = "Delete snapshots and run `collect`, or raise the quota."

    def __init__(self, owner: str, *, used_bytes: int, needed_bytes: int, quota_bytes: int) -> None:
        super().__init__(
            f"{owner} uses {used_bytes} of {quota_bytes} bytes; {needed_bytes} more do not fit"
        )
        self.owner = owner
        self.used_bytes, self.needed_bytes = used_bytes, needed_bytes
        self.quota_bytes = quota_bytes


class StorageFull(LimitExceeded):
    """The disk has no room, or would fall below the floor that is kept free."""

    code = "storage_full"
    hint = "Free disk space, or run `collect` after deleting snapshots."


class TooLarge(LimitExceeded):
    """One thing is larger than what is accepted."""

    code = "too_large"
    hint = "Split it, or raise the limit."


class Damaged(HoldfastError):
    """Stored bytes break a promise: stop, keep the evidence."""

    code = "damaged"
    hint = "Run `verify` to see all that is damaged, and restore the vault from a copy."


class ObjectDamaged(Damaged):
    """The bytes found do not hash to the object's name."""

    code = "object_damaged"

    def __init__(self, object_id: bytes, *, where: str) -> None:
        super().__init__(f"object {object_id.hex()[:16]} in {where} does not hash to its name")
        self.object_id, self.where = object_id, where


class ObjectMissing(Damaged):
    """A map names an object that no pack holds."""

    code = "object_missing"

    def __init__(self, object_id: bytes) -> None:
        super().__init__(f"object {object_id.hex()[:16]} is named but not stored")
        self.object_id = object_id


class PackDamaged(Damaged):
    """A pack's own index, or one of its blocks, cannot be read."""

    code = "pack_damaged"

    def __init__(self, pack: str, *, reason: str) -> None:
        super().__init__(f"pack {pack} is damaged: {reason}")
        self.pack, self.reason = pack, reason


class PackMissing(Damaged):
    """The catalog names a pack that is not in the blob store."""

    code = "pack_missing"

    def __init__(self, pack: str) -> None:
        super().__init__(f"pack {pack} is named in the catalog but not in the blob store")
        self.pack = pack


class Unavailable(HoldfastError):
    """A dependency does not answer: retry with backoff."""

    code = "unavailable"
    hint = "Check that the database and the object store answer, then retry."


class Incompatible(HoldfastError):
    """This program and this vault do not fit together."""

    code = "incompatible"
    hint = "Upgrade holdfast."


class VaultTooNew(Incompatible):
    """The vault was written by a newer holdfast than this one."""

    code = "vault_too_new"
    hint = "Upgrade holdfast to the version that wrote this vault; nothing was changed."

    def __init__(self, what: str, *, found: int, known: int) -> None:
        super().__init__(f"{what} has format {found}; this holdfast knows up to {known}")
        self.found, self.known = found, known


def shorten(text: bytes | str) -> str:
    """Returns a quoted, printable, bounded form of text that an attacker may have chosen."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    quoted = repr(text)
    return quoted if len(quoted) <= _LONGEST else f"{quoted[:60]}…{quoted[-12:]}"

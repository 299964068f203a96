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
    │   ├── EntityNotFound
    │   ├── TaskNotFound
    │   ├── ScheduleNotFound
    │   ├── KeyNotFound
    │   ├── WebhookNotFound
    │   └── NothingToUndo
    ├── Conflict            the world moved or disagrees: read again, then decide
    │   ├── HeadMoved
    │   ├── StateMoved          a session has another version than expected
    │   ├── SessionExists
    │   ├── EntityExists
    │   ├── TaskEnded           a task that has ended otherwise already
    │   ├── RequestReused       an Idempotency-Key that came with another request
    │   ├── RequestRunning      the same request is still being answered
    │   ├── ReplyNotKept        a repeated request whose answer is not there to be given again
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

from holdfast.errors.conflicts import (
    Busy,
    DirectoryRefused,
    DriftFound,
    EntityExists,
    HeadMoved,
    MergeConflict,
    NamespaceExists,
    PathExists,
    ReplyNotKept,
    RequestReused,
    RequestRunning,
    SessionExists,
    StateMoved,
    TaskEnded,
)
from holdfast.errors.damage import (
    ObjectDamaged,
    ObjectMissing,
    PackDamaged,
    PackMissing,
)
from holdfast.errors.families import (
    Conflict,
    Damaged,
    HoldfastError,
    Incompatible,
    Invalid,
    LimitExceeded,
    NotFound,
    Unavailable,
    VaultTooNew,
    shorten,
)
from holdfast.errors.invalid import (
    InvalidName,
    InvalidPath,
    InvalidValue,
    NotADirectory,
    NotAFile,
    Unencodable,
    UnsafeArchive,
)
from holdfast.errors.limits import (
    QuotaExceeded,
    StorageFull,
    TooLarge,
)
from holdfast.errors.missing import (
    EntityNotFound,
    KeyNotFound,
    MemoryNotFound,
    NamespaceNotFound,
    NothingToUndo,
    PathNotFound,
    ScheduleNotFound,
    SessionNotFound,
    SnapshotExpired,
    SnapshotNotFound,
    TaskNotFound,
    TraceNotFound,
    TurnNotFound,
    VersionNotFound,
    WebhookNotFound,
)

__all__ = [
    "Busy",
    "Conflict",
    "Damaged",
    "DirectoryRefused",
    "DriftFound",
    "EntityExists",
    "EntityNotFound",
    "HeadMoved",
    "HoldfastError",
    "Incompatible",
    "Invalid",
    "InvalidName",
    "InvalidPath",
    "InvalidValue",
    "KeyNotFound",
    "LimitExceeded",
    "MemoryNotFound",
    "MergeConflict",
    "NamespaceExists",
    "NamespaceNotFound",
    "NotADirectory",
    "NotAFile",
    "NotFound",
    "NothingToUndo",
    "ObjectDamaged",
    "ObjectMissing",
    "PackDamaged",
    "PackMissing",
    "PathExists",
    "PathNotFound",
    "QuotaExceeded",
    "ReplyNotKept",
    "RequestReused",
    "RequestRunning",
    "ScheduleNotFound",
    "SessionExists",
    "SessionNotFound",
    "SnapshotExpired",
    "SnapshotNotFound",
    "StateMoved",
    "StorageFull",
    "TaskEnded",
    "TaskNotFound",
    "TooLarge",
    "TraceNotFound",
    "TurnNotFound",
    "Unavailable",
    "Unencodable",
    "UnsafeArchive",
    "VaultTooNew",
    "VersionNotFound",
    "WebhookNotFound",
    "shorten",
]

# In a traceback they are what callers import: which file a class is in is nobody's business.
for _error in (name for name in __all__ if name != "shorten"):
    globals()[_error].__module__ = __name__

"""Every error holdfast raises on purpose.

    HoldfastError
    ├── Invalid             the request itself is wrong: change it
    │   ├── InvalidPath         a path that could leave the namespace, or that no file system holds
    │   ├── InvalidName         a namespace, tenant or label that cannot be used
    │   ├── InvalidValue        an argument of another type, or out of its range
    │   │                       (also a `ValueError` and a `TypeError`)
    │   │   └── Unencodable         a value that cannot be stored
    │   ├── NotAFile            a directory or link stands where a file was asked for
    │   ├── NotADirectory       a file stands where a directory is needed
    │   ├── UnsafeArchive       an archive that tries to do harm, or is not ours
    │   ├── InvalidSettings     somebody's settings file that is no JSON, or of another form
    │   └── InvalidSignature    a webhook's delivery that is not genuine
    ├── NotFound            the caller asked for something that is not there
    │   ├── PathNotFound
    │   ├── NameNotFound        what was to be restored is neither there nor in the snapshot
    │   ├── NamespaceNotFound
    │   ├── SnapshotNotFound
    │   ├── SnapshotExpired
    │   ├── SessionNotFound
    │   ├── VersionNotFound
    │   ├── TurnNotFound
    │   ├── TraceNotFound
    │   ├── NoLongerKept        older than what retention keeps
    │   ├── MemoryNotFound
    │   ├── EntityNotFound
    │   ├── TaskNotFound
    │   ├── ScheduleNotFound
    │   ├── KeyNotFound
    │   ├── LoginNotFound
    │   ├── WebhookNotFound
    │   ├── GitBackupNotFound
    │   └── NothingToUndo
    ├── Conflict            the world moved or disagrees: read again, then decide
    │   ├── HeadMoved
    │   ├── OthersChanged       a task is not taken back: others changed the same since
    │   ├── StateMoved          a session has another version than expected
    │   ├── NotAsExpected       a value or file is not what the writer expected
    │   ├── ConversationMoved   a session has another number of turns than expected
    │   ├── SessionExists
    │   ├── EntityExists
    │   ├── TaskEnded           a task that has ended otherwise already
    │   ├── TaskRunning         a task whose end has to be known first
    │   ├── RequestReused       an Idempotency-Key that came with another request
    │   ├── RequestRunning      the same request is still being answered
    │   ├── ReplyNotKept        a repeated request whose answer is not there to be given again
    │   ├── LastAdminKey        a key without which nobody could make another
    │   ├── MergeConflict
    │   ├── ContentMissing      what was to be kept refers to content that is not there
    │   ├── NamespaceExists
    │   │   └── AlreadyAttached     a directory has another namespace, or the reverse
    │   ├── PathExists
    │   ├── InTheWay            what was not chosen stands where something is to be restored
    │   ├── DriftFound          a directory holds changes that no snapshot does
    │   ├── DirectoryRefused    a directory that should not be captured
    │   ├── DirectoryReplaced   something else stands where an attached directory was
    │   ├── GitFailed           git, or a git remote, refused
    │   ├── BackupLocked        a backup whose key was not given
    │   ├── SecretsLocked       there is no key to read or keep secrets with
    │   ├── RemoteDiverged      a git remote has commits that are not ours
    │   ├── GitBackupPaused     a push of a copy that is paused
    │   ├── HostKeyChanged      a git remote has another host key than the confirmed one
    │   ├── HostKeyUnconfirmed  nobody has said that a git remote's host key is the right one
    │   └── Busy
    ├── Denied              the key does not open this: use another
    │   ├── Unauthorized        there is no key, or it opens nothing
    │   ├── Forbidden
    │   └── AddOnly             would take away what an add-only key only adds to
    ├── LimitExceeded       refused before anything was written: make room
    │   ├── QuotaExceeded
    │   ├── StorageFull
    │   ├── TooLarge
    │   └── RateLimited         a key that made more requests than it may
    ├── Damaged             stored bytes break a promise: stop, keep the evidence
    │   ├── BackupDamaged       one that is not whole, or not as it was written
    │   ├── CatalogLost         its file is gone, and it was not new
    │   ├── ObjectDamaged
    │   ├── ObjectMissing
    │   ├── PackDamaged
    │   ├── PackMissing
    │   └── RowDamaged          a row of the catalog that is not what was written
    │       └── PendingDamaged      one of a change that is in no snapshot yet
    ├── Unavailable         a dependency is down: retry with backoff
    │   ├── OutcomeUnknown      it may have happened: the connection broke during the commit
    │   ├── DirectoryMissing    an attached directory was deleted or moved
    │   ├── CatalogReplaced     other files lie where the catalog was opened
    │   ├── StorageReadOnly     the disk takes no writes
    │   ├── VaultUnfinished     a backup is still being brought back
    │   ├── StorageDenied       a bucket does not let us in
    │   ├── SandboxUnavailable  commands cannot be run here
    │   ├── Unreachable         a server does not answer
    │   ├── GitMissing          git, or ssh, is not installed
    │   ├── GitTooOld           a git that is not run
    │   └── ServerFault         a server failed
    └── Incompatible        this program and this vault do not fit: upgrade
        ├── VaultTooNew
        ├── VaultTooOld         export with the version that wrote it
        ├── StoreMismatch       the packs are not where this process looks
        └── NotBuilt            a server that does not do this

Families are what a caller can do next. Errors carry values, the class writes the
sentence. `code` is wire format and never changes; `hint` is the next thing to try.
"""

from holdfast.errors.backups import (
    BackupLocked,
    GitBackupNotFound,
    GitBackupPaused,
    GitFailed,
    GitMissing,
    GitTooOld,
    HostKeyChanged,
    HostKeyUnconfirmed,
    RemoteDiverged,
    SecretsLocked,
)
from holdfast.errors.conflicts import (
    AlreadyAttached,
    Busy,
    ContentMissing,
    ConversationMoved,
    DirectoryRefused,
    DirectoryReplaced,
    DriftFound,
    EntityExists,
    HeadMoved,
    InTheWay,
    LastAdminKey,
    MergeConflict,
    NamespaceExists,
    NotAsExpected,
    OthersChanged,
    PathExists,
    ReplyNotKept,
    RequestReused,
    RequestRunning,
    SessionExists,
    StateMoved,
    TaskEnded,
    TaskRunning,
)
from holdfast.errors.damage import (
    BackupDamaged,
    CatalogLost,
    ObjectDamaged,
    ObjectMissing,
    PackDamaged,
    PackMissing,
    PendingDamaged,
    RowDamaged,
)
from holdfast.errors.families import (
    Conflict,
    Damaged,
    DirectoryMissing,
    HoldfastError,
    Incompatible,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StoreMismatch,
    Unavailable,
    VaultTooNew,
    VaultTooOld,
    shorten,
)
from holdfast.errors.invalid import (
    AddOnly,
    Denied,
    Forbidden,
    InvalidName,
    InvalidPath,
    InvalidSettings,
    InvalidSignature,
    InvalidValue,
    NotADirectory,
    NotAFile,
    NotBuilt,
    RateLimited,
    ServerFault,
    Unauthorized,
    Unencodable,
    Unreachable,
    UnsafeArchive,
)
from holdfast.errors.missing import (
    EntityNotFound,
    KeyNotFound,
    LoginNotFound,
    MemoryNotFound,
    NameNotFound,
    NamespaceNotFound,
    NoLongerKept,
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
from holdfast.errors.system import (
    CatalogReplaced,
    QuotaExceeded,
    SandboxUnavailable,
    StorageDenied,
    StorageFull,
    StorageReadOnly,
    TooLarge,
    VaultUnfinished,
)

__all__ = [
    "AddOnly",
    "AlreadyAttached",
    "BackupDamaged",
    "BackupLocked",
    "Busy",
    "CatalogLost",
    "CatalogReplaced",
    "Conflict",
    "ContentMissing",
    "ConversationMoved",
    "Damaged",
    "Denied",
    "DirectoryMissing",
    "DirectoryRefused",
    "DirectoryReplaced",
    "DriftFound",
    "EntityExists",
    "EntityNotFound",
    "Forbidden",
    "GitBackupNotFound",
    "GitBackupPaused",
    "GitFailed",
    "GitMissing",
    "GitTooOld",
    "HeadMoved",
    "HoldfastError",
    "HostKeyChanged",
    "HostKeyUnconfirmed",
    "InTheWay",
    "Incompatible",
    "Invalid",
    "InvalidName",
    "InvalidPath",
    "InvalidSettings",
    "InvalidSignature",
    "InvalidValue",
    "KeyNotFound",
    "LastAdminKey",
    "LimitExceeded",
    "LoginNotFound",
    "MemoryNotFound",
    "MergeConflict",
    "NameNotFound",
    "NamespaceExists",
    "NamespaceNotFound",
    "NoLongerKept",
    "NotADirectory",
    "NotAFile",
    "NotAsExpected",
    "NotBuilt",
    "NotFound",
    "NothingToUndo",
    "ObjectDamaged",
    "ObjectMissing",
    "OthersChanged",
    "OutcomeUnknown",
    "PackDamaged",
    "PackMissing",
    "PathExists",
    "PathNotFound",
    "PendingDamaged",
    "QuotaExceeded",
    "RateLimited",
    "RemoteDiverged",
    "ReplyNotKept",
    "RequestReused",
    "RequestRunning",
    "RowDamaged",
    "SandboxUnavailable",
    "ScheduleNotFound",
    "SecretsLocked",
    "ServerFault",
    "SessionExists",
    "SessionNotFound",
    "SnapshotExpired",
    "SnapshotNotFound",
    "StateMoved",
    "StorageDenied",
    "StorageFull",
    "StorageReadOnly",
    "StoreMismatch",
    "TaskEnded",
    "TaskNotFound",
    "TaskRunning",
    "TooLarge",
    "TraceNotFound",
    "TurnNotFound",
    "Unauthorized",
    "Unavailable",
    "Unencodable",
    "Unreachable",
    "UnsafeArchive",
    "VaultTooNew",
    "VaultTooOld",
    "VaultUnfinished",
    "VersionNotFound",
    "WebhookNotFound",
    "shorten",
]

# In a traceback they are what callers import: which file a class is in is nobody's business.
for _error in (name for name in __all__ if name != "shorten"):
    globals()[_error].__module__ = __name__

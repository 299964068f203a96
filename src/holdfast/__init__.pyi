# What type checkers see: `__init__.py` looks the same names up when they are first used.
from holdfast import errors as errors
from holdfast.durable import DurableStore
from holdfast.engine.audit.export import verify_audit_file
from holdfast.engine.core.coverage import Coverage, Omission
from holdfast.engine.core.embedding import Embedder
from holdfast.engine.core.limits import Limits
from holdfast.engine.directory.agreeing import Agreed
from holdfast.engine.directory.attachments import Attachment
from holdfast.engine.directory.present import Status
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.tasks.contexts import Task
from holdfast.engine.tenant import TenantVault
from holdfast.engine.vault import Holdfast
from holdfast.engine.workspace import Workspace
from holdfast.errors import HoldfastError
from holdfast.mirror import AsyncRemoteWorkspace, RemoteWorkspace
from holdfast.model.archives import Imported, ImportedFiles
from holdfast.model.basics import Kind, Plane, Size, SnapshotInfo, Timeline
from holdfast.model.changes import (
    Change,
    Changes,
    History,
    Merged,
    MergeResult,
    Patch,
    Restored,
    Step,
)
from holdfast.model.commands import Executed
from holdfast.model.entities import Entity, Totals
from holdfast.model.erasures import Certificate
from holdfast.model.events import Event
from holdfast.model.files import FileInfo, Finding, Findings
from holdfast.model.gitbackups import GitBackup, GitHostKey, GitImported
from holdfast.model.keys import Key, NewKey
from holdfast.model.memories import Memory, MemoryMatch
from holdfast.model.names import Name
from holdfast.model.overviews import (
    LatestSnapshot,
    NamespaceOverview,
    RollbackBucket,
    RollbackSeries,
    RunningTask,
    StorageDay,
)
from holdfast.model.sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    Version,
    VersionKind,
)
from holdfast.model.tasks import Schedule, TaskRun
from holdfast.model.traces import Health, Level, Loop, Thresholds, TraceInfo
from holdfast.model.upkeep import (
    AuditProblem,
    AuditReport,
    BackedUp,
    Collected,
    Lost,
    NamespaceInfo,
    Policy,
    Quota,
    Reinstated,
    Repaired,
    Verified,
)
from holdfast.model.values import ABSENT, StoreValue
from holdfast.model.webhooks import Delivery, NewWebhook, SentDelivery, Webhook
from holdfast.reinstating import reinstate
from holdfast.sdk.admin import AdminClient, AsyncAdminClient
from holdfast.sdk.client import AsyncClient, Client
from holdfast.signing import verify_webhook
from holdfast.store import Snapshot, Store, dumps, loads
from holdfast.wiring import open_vault as open  # noqa: A004 - holdfast.open reads like open

__version__: str

__all__ = [
    "ABSENT",
    "AdminClient",
    "Agreed",
    "AsyncAdminClient",
    "AsyncClient",
    "AsyncRemoteWorkspace",
    "Attachment",
    "AuditProblem",
    "AuditReport",
    "BackedUp",
    "Certificate",
    "Change",
    "Changes",
    "Client",
    "Collected",
    "Coverage",
    "Delivery",
    "DurableStore",
    "Embedder",
    "Entity",
    "Event",
    "Executed",
    "FileInfo",
    "Finding",
    "Findings",
    "GitBackup",
    "GitHostKey",
    "GitImported",
    "Health",
    "History",
    "Holdfast",
    "HoldfastError",
    "Imported",
    "ImportedFiles",
    "Key",
    "Kind",
    "LatestSnapshot",
    "Level",
    "Limits",
    "Lineage",
    "Loop",
    "Lost",
    "Memory",
    "MemoryMatch",
    "MergeResult",
    "Merged",
    "Moment",
    "Name",
    "Namespace",
    "NamespaceInfo",
    "NamespaceOverview",
    "NewKey",
    "NewWebhook",
    "Omission",
    "Patch",
    "Plane",
    "Policy",
    "Quota",
    "Reinstated",
    "RemoteWorkspace",
    "Repaired",
    "Restored",
    "RollbackBucket",
    "RollbackSeries",
    "RunningTask",
    "Schedule",
    "SentDelivery",
    "SessionContext",
    "SessionInfo",
    "Sessions",
    "Size",
    "Snapshot",
    "SnapshotInfo",
    "State",
    "StateDiff",
    "Status",
    "Step",
    "StorageDay",
    "Store",
    "StoreValue",
    "Task",
    "TaskRun",
    "TenantVault",
    "Thresholds",
    "Timeline",
    "Totals",
    "TraceInfo",
    "Turn",
    "Verified",
    "Version",
    "VersionKind",
    "Webhook",
    "Workspace",
    "dumps",
    "loads",
    "open",
    "reinstate",
    "verify_audit_file",
    "verify_webhook",
]

# What type checkers see: `__init__.py` looks the same names up when they are first used.
from holdfast import errors as errors
from holdfast.durable import DurableStore
from holdfast.engine.archives.imported import Imported
from holdfast.engine.attachments import Attachment
from holdfast.engine.audit import AuditProblem, AuditReport, verify_audit_file
from holdfast.engine.collect import Collected
from holdfast.engine.coverage import Coverage, Omission
from holdfast.engine.diff import Change, Changes
from holdfast.engine.embedding import Embedder
from holdfast.engine.files import FileInfo
from holdfast.engine.health import Health, Level, Loop, Thresholds
from holdfast.engine.limits import Limits
from holdfast.engine.merge import MergeResult
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.restore import Restored
from holdfast.engine.retention import Policy
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.tasks import Task
from holdfast.engine.vault import Holdfast, TenantVault
from holdfast.engine.verify import Verified
from holdfast.engine.workspace import Status, Workspace
from holdfast.errors import HoldfastError
from holdfast.model import Kind, Plane, SnapshotInfo
from holdfast.model_memories import FoundMemory, Memory
from holdfast.model_sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    Version,
    VersionKind,
)
from holdfast.model_traces import TraceInfo
from holdfast.store import Snapshot, Store, dumps, loads
from holdfast.wiring import open_vault as open  # noqa: A004 - holdfast.open reads like open

__all__ = [
    "Attachment",
    "AuditProblem",
    "AuditReport",
    "Change",
    "Changes",
    "Collected",
    "Coverage",
    "DurableStore",
    "Embedder",
    "FileInfo",
    "FoundMemory",
    "Health",
    "Holdfast",
    "HoldfastError",
    "Imported",
    "Kind",
    "Level",
    "Limits",
    "Lineage",
    "Loop",
    "Memory",
    "MergeResult",
    "Moment",
    "Namespace",
    "Omission",
    "Plane",
    "Policy",
    "Restored",
    "SessionContext",
    "SessionInfo",
    "Sessions",
    "Snapshot",
    "SnapshotInfo",
    "State",
    "StateDiff",
    "Status",
    "Store",
    "Task",
    "TenantVault",
    "Thresholds",
    "TraceInfo",
    "Turn",
    "Verified",
    "Version",
    "VersionKind",
    "Workspace",
    "dumps",
    "loads",
    "open",
    "verify_audit_file",
]

# What type checkers see: `__init__.py` looks the same names up when they are first used.
from holdfast import errors as errors
from holdfast.engine.archives.imported import Imported
from holdfast.engine.attachments import Attachment
from holdfast.engine.collect import Collected
from holdfast.engine.coverage import Coverage, Omission
from holdfast.engine.diff import Change, Changes
from holdfast.engine.files import FileInfo
from holdfast.engine.limits import Limits
from holdfast.engine.merge import MergeResult
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.restore import Restored
from holdfast.engine.retention import Policy
from holdfast.engine.vault import Holdfast, TenantVault
from holdfast.engine.verify import Verified
from holdfast.engine.workspace import Status, Workspace
from holdfast.errors import HoldfastError
from holdfast.model import Kind, Plane, SnapshotInfo
from holdfast.wiring import open_vault as open  # noqa: A004 - holdfast.open reads like open

__all__ = [
    "Attachment",
    "Change",
    "Changes",
    "Collected",
    "Coverage",
    "FileInfo",
    "Holdfast",
    "HoldfastError",
    "Imported",
    "Kind",
    "Limits",
    "MergeResult",
    "Moment",
    "Namespace",
    "Omission",
    "Plane",
    "Policy",
    "Restored",
    "SnapshotInfo",
    "Status",
    "TenantVault",
    "Verified",
    "Workspace",
    "open",
]

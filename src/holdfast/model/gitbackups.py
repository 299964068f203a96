"""Values of git backups: where a namespace has its copy, how far that is, what came back of one.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Annotated

import msgspec

from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import EPOCH
from holdfast.model.basics import SnapshotInfo
from holdfast.model.marks import HERE, Inside, Named


class GitBackup(msgspec.Struct, frozen=True, kw_only=True):
    """The copy of a namespace in a git repository: where it is, and how far."""

    id: Annotated[str, Named("git_backup_id")]
    namespace_id: Annotated[NamespaceId, Inside(0)]
    namespace: Annotated[str | None, HERE] = None
    remote: str
    branch: str
    public_key: str | None = None
    """What the host has to be given as a deploy key; None for https."""
    login: Annotated[str | None, Named("user")] = None
    """Who we are over https; the password is shown nowhere."""
    secret: Annotated[bytes, Inside(b"")]
    """The private half of the key, or the password, encrypted."""
    host_key: Annotated[str | None, Inside()] = None
    host_fingerprint: str | None = None
    """The host key that was confirmed, as people compare it; None if none was, or for https."""
    patterns: list[str]
    """Names of files that stay here."""
    file_bytes: int
    """Larger files stay here, too."""
    scan_secrets: bool = True
    """Whether files stay here in which something looks like a secret."""
    on_tasks: bool = True
    """Whether it is pushed when a task has ended."""
    every_s: Annotated[int | None, Named("every_seconds")] = None
    """After how many seconds it is pushed if there is something new; None for never."""
    paused: bool = False
    created_at: datetime
    asked_at: datetime | None = None
    """Since when a push is asked for that has not ended well yet."""
    next_at: Annotated[datetime, Inside(EPOCH)]
    """Before which it is not tried."""
    tried_at: datetime | None = None
    claimed_until: Annotated[datetime, Inside(EPOCH)]
    failures: int = 0
    """How often it has failed since it last went well."""
    last_error: str | None = None
    pushed_at: datetime | None = None
    pushed_number: int = 0
    """Up to this number, every snapshot that could be used is there."""
    pushed_commit: str | None = None
    withheld: int = 0
    """Files that stay here, by the rules: `.holdfast/withheld.json` in the copy names them."""
    planes: list[str] = []
    """What is in it beside files, as JSON: some of `store`, `sessions` and `memories`."""
    had_planes: Annotated[list[str], Inside([])] = []
    """Those, and what was in it before at the same place: its history keeps them."""
    era: Annotated[int, Inside(0)] = 0
    """How often something was erased that it held: each time it is begun anew."""

    def __repr__(self) -> str:
        # Without the secret, encrypted or not: what is printed ends up in logs.
        return f"GitBackup({self.id!r}, remote={self.remote!r}, branch={self.branch!r})"


class DueGitBackup(msgspec.Struct, frozen=True):
    """A git backup with where it belongs."""

    backup: GitBackup
    tenant_id: TenantId
    namespace: str


class GitHostKey(msgspec.Struct, frozen=True):
    """A key that a git remote shows; nobody has confirmed it by that."""

    kind: str
    fingerprint: str


class GitImported(msgspec.Struct, frozen=True, kw_only=True):
    """What was made of a git repository."""

    snapshot: SnapshotInfo
    """The last one of the new timeline."""
    commits: int
    """How many snapshots it has: one for each commit."""
    entries: int
    """How many there are now: files, links, empty directories, and those of other planes."""
    content_bytes: int
    left_out: list[str]
    """Paths that stand for commits of other repositories, the first hundred of them."""
    is_cut: bool
    """Whether there were more commits than a timeline is made of: the first snapshot has all."""

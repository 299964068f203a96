"""The part of a transaction that is about copies of namespaces in git repositories.

What is due is found by comparing how far a copy is with how far its namespace is: nothing is
written when a snapshot is taken. A worker claims a copy for a while before it is at it, so that no
two are at the same one, and what one that died had claimed is claimed again.
"""

from datetime import datetime

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import GIT_BACKUP, Sorted
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.gitbackups import DueGitBackup, GitBackup


class GitBackupQueries:
    """Rows of git backups."""

    __slots__ = ()

    _db: Driver

    def add_git_backup(self, backup: GitBackup) -> None:
        self._db.say("add_git_backup", **GIT_BACKUP.write(backup))

    def find_git_backup(self, namespace_id: NamespaceId) -> GitBackup | None:
        return GIT_BACKUP.find(self._db.one("find_git_backup", namespace_id=namespace_id))

    def lock_git_backup(self, namespace_id: NamespaceId) -> GitBackup | None:
        """Returns a copy that nobody else changes until the transaction ends."""
        # To write a row is what locks it, on both databases.
        self._db.say("lock_git_backup", namespace_id=namespace_id)
        return self.find_git_backup(namespace_id)

    def set_git_backup(self, backup: GitBackup) -> None:
        """Writes what becomes of a copy that is locked."""
        self._db.say("set_git_backup", **GIT_BACKUP.write(backup))

    def delete_git_backup(self, namespace_id: NamespaceId) -> None:
        self._db.say("delete_git_backup", namespace_id=namespace_id)

    def due_git_backups(self, *, now: datetime, most: int) -> Sorted[DueGitBackup]:
        """Returns copies that are to be pushed, of namespaces that are not deleted."""
        found = Sorted(list[DueGitBackup](), list[Damaged]())
        for row in self._db.all("due_git_backups", now=to_us(now), most=most):
            each = GIT_BACKUP.sort([row[:-2]])
            found.damaged.extend(each.damaged)
            found.sound.extend(DueGitBackup(one, TenantId(row[-2]), row[-1]) for one in each.sound)
        return found

    def claim_git_backup(self, backup: GitBackup, *, until: datetime) -> bool:
        """Takes a copy in hand; False if somebody else has."""
        times = {"seen": to_us(backup.claimed_until), "until": to_us(until)}
        return self._db.run("claim_git_backup", id=backup.id, **times) > 0

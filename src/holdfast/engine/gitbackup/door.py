"""The copy of a namespace, as whoever has the namespace sees to it.

Who may change where a copy goes decides who reads the namespace: so it is for the keys that open
it, and not for operators. What is secret comes in, and never goes out.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.gitbackup import secrets
from holdfast.engine.gitbackup.rules import USUAL_PATTERNS, check_patterns
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle
from holdfast.errors import (
    Busy,
    GitBackupNotFound,
    GitBackupPaused,
    HostKeyUnconfirmed,
    InvalidValue,
)
from holdfast.git.urls import HostKey, Remote, check_branch, to_remote
from holdfast.model.basics import Head, Plane
from holdfast.model.gitbackups import GitBackup, GitHostKey, GitImported
from holdfast.model.traces import Trace
from holdfast.operations.checks import checked
from holdfast.operations.gitbackups import (
    PLANES,
    ConfigureGit,
    ConfirmGitHost,
    DeleteGit,
    GetGit,
    ListGitHostKeys,
    PushGit,
    UpdateGit,
)
from holdfast.operations.operation import does
from holdfast.progress import Progress, no_progress

SHORTEST: Final = timedelta(seconds=60)
LONGEST: Final = timedelta(days=366)
MOST_FILE_BYTES: Final = 2 << 30
MAX_LOGIN_CHARS: Final = 512


@checked
class GitBackups(Part):
    """The copy of a namespace in a git repository."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @does(ConfigureGit)
    def configure(self, wanted: ConfigureGit) -> GitBackup:
        context = self._handle.context
        context.check_takes_away("change where a copy goes")
        remote, branch = to_remote(wanted.remote), check_branch(wanted.branch)
        # What runs programs is loaded by those who do.
        from holdfast.git.program import find_git  # noqa: PLC0415 - see above

        # Whoever sets it up is told at once if nothing can be pushed from here.
        find_git(over_https=not remote.is_ssh)
        patterns = USUAL_PATTERNS if wanted.patterns is None else check_patterns(wanted.patterns)
        if not 0 <= wanted.file_bytes <= MOST_FILE_BYTES:
            raise InvalidValue(f"file_bytes is 0 to {MOST_FILE_BYTES}")
        every_s, planes = _seconds(wanted.every), _planes(wanted.planes)
        now = context.clock()
        with context.work() as transaction:
            head = self._handle.lock_or_create(transaction)
            old = transaction.lock_git_backup(head.namespace_id)
            new = GitBackup(
                id=context.ids.git_backup(),
                namespace_id=head.namespace_id,
                namespace=self._handle.name,
                remote=wanted.remote,
                branch=branch,
                secret=b"",
                patterns=[*patterns],
                file_bytes=wanted.file_bytes,
                scan_secrets=wanted.scan_secrets,
                on_tasks=wanted.on_tasks,
                every_s=every_s,
                planes=planes,
                had_planes=planes,
                created_at=now,
                next_at=now,
                claimed_until=now,
            )
            new = self._secured(_continued(new, old), old, remote, wanted)
            if old is None:
                transaction.add_git_backup(new)
            else:
                transaction.set_git_backup(new)
            told = trace_of("backup.configured", new)
            append(transaction, context, head, told, door=self._handle.door)
        return new

    @does(GetGit)
    def get(self, _: GetGit) -> GitBackup:
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            found = None if head is None else transaction.find_git_backup(head.namespace_id)
        return self._there(found)

    @does(UpdateGit)
    def update(self, wanted: UpdateGit) -> GitBackup:
        self._handle.context.check_takes_away("change when a copy is pushed")
        every_s = _seconds(wanted.every)

        def change(old: GitBackup) -> GitBackup:
            return replace(
                old,
                paused=old.paused if wanted.paused is None else wanted.paused,
                on_tasks=old.on_tasks if wanted.on_tasks is None else wanted.on_tasks,
                every_s=old.every_s if every_s is None else every_s,
            )

        return self._change(change)

    @does(DeleteGit)
    def delete(self, _: DeleteGit) -> None:
        context = self._handle.context
        context.check_takes_away("forget where a copy is")
        with context.work() as transaction:
            head, old = self._locked(transaction)
            transaction.delete_git_backup(head.namespace_id)
            told = trace_of("backup.deleted", old)
            append(transaction, context, head, told, door=self._handle.door)
        from holdfast.engine.gitbackup.places import drop_repository  # noqa: PLC0415 - as below

        with suppress(Busy):  # Whoever pushes takes it away after that.
            drop_repository(context, head.namespace_id)

    @does(ListGitHostKeys)
    def host_keys(self, _: ListGitHostKeys) -> list[GitHostKey]:
        return [GitHostKey(each.kind, each.fingerprint) for each in self._scan(self.get())]

    @does(ConfirmGitHost)
    def confirm_host(self, wanted: ConfirmGitHost) -> GitBackup:
        self._handle.context.check_takes_away("confirm a host key")
        seen = self.get()
        for each in self._scan(seen):
            if each.fingerprint == wanted.fingerprint.strip():
                return self._change(partial(_confirmed, remote=seen.remote, key=each))
        message = f"{to_remote(seen.remote).host} shows no host key with this fingerprint"
        raise HostKeyUnconfirmed(message)

    @does(PushGit)
    def push(self, _: PushGit) -> GitBackup:
        now = self._handle.context.clock()
        with self._handle.context.work() as transaction:
            head, new = self._locked(transaction)
            if new.paused:  # Somebody wants nothing to go out: whoever goes on says so.
                raise GitBackupPaused(self._handle.name)
            if head.generation:  # Before the first snapshot there is nothing to push.
                # Not left to a worker that may have died: one that lives has the repository's lock.
                asked_at = new.asked_at or now
                new = replace(new, asked_at=asked_at, next_at=now, claimed_until=now)
                transaction.set_git_backup(new)
        return self._there(new)

    def import_(
        self,
        source: str,
        *,
        branch: str | None = None,
        private_key: str | None = None,
        fingerprint: str | None = None,
        user: str | None = None,
        password: str | None = None,
        progress: Progress = no_progress,
    ) -> GitImported:
        """Makes the namespace of a git repository, in a directory or at a remote: the way back.

        Each commit becomes a snapshot. Over ssh, `private_key` is shown to a host that has the key
        with this `fingerprint`; over https, `user` and `password` are, if they are given. Raises
        `NamespaceExists` if the namespace is there.
        """
        from holdfast.engine.gitbackup.importing import import_from  # noqa: PLC0415 - as below

        return import_from(
            self._handle,
            source,
            branch=branch,
            private_key=private_key,
            fingerprint=fingerprint,
            login=None if password is None else f"{_login(user)}:{password}",
            progress=progress,
        )

    def _scan(self, backup: GitBackup) -> list[HostKey]:
        remote = to_remote(backup.remote)
        if not remote.is_ssh:
            raise InvalidValue("an https remote has no host key: its certificate is checked")
        from holdfast.git.remotes import HOST_KEYS, address_of, scan  # noqa: PLC0415 - as above

        allowed = self._handle.context.private_remotes
        return scan(remote, address_of(remote, HOST_KEYS, allows_private=allowed))

    def _change(self, change: Callable[[GitBackup], GitBackup]) -> GitBackup:
        with self._handle.context.work() as transaction:
            _, old = self._locked(transaction)
            new = change(old)
            if new != old:
                transaction.set_git_backup(new)
        return self._there(new)

    def _locked(self, transaction: Transaction) -> tuple[Head, GitBackup]:
        head = self._handle.find_and_lock(transaction)
        found = None if head is None else transaction.lock_git_backup(head.namespace_id)
        if head is None or found is None:
            raise GitBackupNotFound(self._handle.name)
        return head, found

    def _there(self, found: GitBackup | None) -> GitBackup:
        if found is None:
            raise GitBackupNotFound(self._handle.name)
        return replace(found, namespace=self._handle.name)

    def _secured(
        self, new: GitBackup, old: GitBackup | None, remote: Remote, wanted: ConfigureGit
    ) -> GitBackup:
        """Returns a backup with what its remote is shown, encrypted."""
        context = self._handle.context
        if not remote.is_ssh:
            if wanted.private_key is not None:
                raise InvalidValue("private_key is for ssh: give user and password")
            login, password = _login(wanted.user), wanted.password
            # What one host was given is shown to no other.
            is_same = old is not None and old.login == login and _has_same_host(new, old)
            if password is None and old is not None and is_same:
                return replace(new, login=login, secret=old.secret)
            if password is None or not 0 < len(password) <= MAX_LOGIN_CHARS:
                raise InvalidValue("an https remote needs user and password, or a token as one")
            sealed = secrets.encrypt(context, password.encode(), purpose=new.id)
            return replace(new, login=login, secret=sealed)
        if wanted.user is not None or wanted.password is not None:
            raise InvalidValue("user and password are for https: ssh has a key")
        if wanted.private_key is None and old is not None and old.public_key is not None:
            return replace(new, public_key=old.public_key, secret=old.secret)
        if wanted.private_key is None:
            data, line = secrets.make_key_pair()
        else:
            data, line = secrets.read_key(wanted.private_key)
        return replace(new, public_key=line, secret=secrets.encrypt(context, data, purpose=new.id))


def _continued(new: GitBackup, old: GitBackup | None) -> GitBackup:
    """Returns a backup that goes on where the one before it was, if that is the same place."""
    if old is None:
        return new
    had = [each for each in PLANES if each in {*old.had_planes, *new.planes}]
    # Wherever it goes: it may come back to where something of it lies still.
    new = replace(
        new, id=old.id, created_at=old.created_at, paused=old.paused, had_planes=had, era=old.era
    )
    if _has_same_host(new, old):
        new = replace(new, host_key=old.host_key, host_fingerprint=old.host_fingerprint)
    if (old.remote, old.branch) == (new.remote, new.branch):
        new = replace(
            new,
            pushed_at=old.pushed_at,
            pushed_number=old.pushed_number,
            pushed_commit=old.pushed_commit,
            withheld=old.withheld,
        )
    return new


def _has_same_host(new: GitBackup, old: GitBackup) -> bool:
    before, after = to_remote(old.remote), to_remote(new.remote)
    return (before.host, before.port, before.is_ssh) == (after.host, after.port, after.is_ssh)


def _confirmed(old: GitBackup, remote: str, key: HostKey) -> GitBackup:
    if old.remote != remote:
        raise HostKeyUnconfirmed("the remote was changed meanwhile")
    # What waited for this is tried at once.
    return replace(old, host_key=key.line, host_fingerprint=key.fingerprint, next_at=old.created_at)


def _seconds(every: timedelta | None) -> int | None:
    if every is None:
        return None
    if not SHORTEST <= every <= LONGEST:
        raise InvalidValue("a copy is pushed once a minute at the most, and once a year at least")
    return int(every.total_seconds())


def _planes(wanted: Sequence[Plane | str]) -> list[str]:
    """Returns planes, each once and in their order; raises `InvalidValue` for what is none."""
    if not {*wanted} <= {*PLANES}:
        raise InvalidValue("planes are some of store, sessions and memories: files always go")
    return [plane.value for plane in PLANES if plane in wanted]


def _login(user: str | None) -> str:
    login = user or "git"
    if len(login) > MAX_LOGIN_CHARS or not login.isprintable() or ":" in login:
        raise InvalidValue("a user has no colon, and 512 printable characters at the most")
    return login


def trace_of(action: str, backup: GitBackup, **more: object) -> Trace:
    """Returns the trace of what became of a copy; of its address the host alone."""
    details = {"host": to_remote(backup.remote).host, **more}
    return Trace(action=action, resource_type="git_backup", resource_id=backup.id, details=details)

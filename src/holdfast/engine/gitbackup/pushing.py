"""Pushes copies: what is due is brought to its remote, and what came of it is written down.

What waits is rows of the catalog, so it outlives whoever works; many snapshots are one push. A
remote that fails is tried again, a little later each time, and nobody who takes a snapshot ever
waits for one. Nothing is forced: where the remote has something else, the push fails and says so.
"""

from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from subprocess import SubprocessError
from typing import Final

from msgspec.structs import replace

from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import tell_damage
from holdfast.engine.gitbackup.door import trace_of
from holdfast.engine.gitbackup.exporting import Exported, export
from holdfast.engine.gitbackup.messages import read_message
from holdfast.engine.gitbackup.places import opened_repository, sweep
from holdfast.engine.gitbackup.rules import Rules
from holdfast.engine.gitbackup.secrets import decrypt
from holdfast.engine.gitbackup.tokens import without_tokens
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle
from holdfast.errors import Busy, GitFailed, HoldfastError, HostKeyUnconfirmed
from holdfast.errors.system import from_system
from holdfast.git.program import find_git
from holdfast.git.remotes import Credentials, address_of, fetch, push
from holdfast.git.repository import Repository
from holdfast.git.urls import Remote, to_host_key, to_remote
from holdfast.model.basics import Plane
from holdfast.model.gitbackups import DueGitBackup, GitBackup

RETRIES: Final = (30, 60, 300, 900, 3600, 7200)
"""Seconds until the next attempt; the last one for all that follow."""

LEASE: Final = timedelta(minutes=20)
"""After which another worker takes a push over. One that lasts longer has the repository's lock."""

MAX_ERROR_CHARS: Final = 500
_AT_ONCE: Final = 20
_FETCHED: Final = "refs/fetched/tip"


def push_due(context: Context) -> int:
    """Pushes one copy that is due, of any tenant; returns how many."""
    with context.catalog.read() as transaction:
        due = transaction.due_git_backups(now=context.clock(), most=_AT_ONCE)
    for damaged in due.damaged:
        tell_damage(str(damaged))
    for each in due.sound:
        claimed = _claim(context, each)
        if claimed is not None:
            _push(context, claimed)
            return 1
    return 0


def _claim(context: Context, due: DueGitBackup) -> DueGitBackup | None:
    until = context.clock() + LEASE
    with context.catalog.write() as transaction:
        if not transaction.claim_git_backup(due.backup, until=until):
            return None
    return DueGitBackup(replace(due.backup, claimed_until=until), due.tenant_id, due.namespace)


def _push(context: Context, due: DueGitBackup) -> None:
    """Does it, and writes down what came of it, whatever that is."""
    backup, began = due.backup, context.clock()
    handle = Handle(context, due.tenant_id, due.namespace).acting_as(backup.id)
    done, error = None, None
    try:
        done = bring(handle, backup)
    except HoldfastError as exc:
        error = exc
    except OSError as exc:
        error = from_system(exc, "the repository of the copy")
    except SubprocessError as exc:
        error = GitFailed("push", said=type(exc).__name__)
    if not _record(handle, backup, began, done=done, error=error):
        # Nobody else could take the repository away while it was in use.
        sweep(context)


def bring(handle: Handle, backup: GitBackup) -> Exported:
    """Brings a copy to its remote; raises what keeps it from that."""
    context, remote = handle.context, to_remote(backup.remote)
    if remote.is_ssh and backup.host_key is None:
        raise HostKeyUnconfirmed(f"nobody has confirmed the host key of {remote.host}")
    find_git(over_https=not remote.is_ssh)
    shown = _credentials(context, backup)
    rules = Rules(
        patterns=tuple(backup.patterns),
        file_bytes=backup.file_bytes,
        finds_tokens=backup.scan_secrets,
        planes=tuple(map(Plane, backup.planes)),
    )
    with opened_repository(context, backup) as repository:
        address = address_of(remote, "push", allows_private=context.private_remotes)
        most = context.limits.archive_bytes
        _go_on(repository, remote, shown, backup, address=address, rules=rules, most_bytes=most)
        done = export(handle, repository, branch=backup.branch, rules=rules)
        if done.tip is None:
            raise GitFailed("push", said="there is no snapshot to push")
        push(repository, remote, shown, branch=backup.branch, address=address)
        with suppress(GitFailed):  # What is there is there; the next push tries again.
            repository.tidy()
    return done


def _go_on(
    repository: Repository,
    remote: Remote,
    shown: Credentials,
    backup: GitBackup,
    *,
    address: str,
    rules: Rules,
    most_bytes: int,
) -> None:
    """Sees to it that what was pushed is here, and nothing else that other rules have let through.

    What was lost comes back from the remote, by its name, which no other commit has. Where the
    remote has lost it, too, there is nothing that could diverge, and the copy is made of the
    timeline as it is now.
    """
    pushed, ref = backup.pushed_commit, f"refs/heads/{backup.branch}"
    here = repository.find(ref)
    said = None if here is None else read_message(here)
    is_outdated = said is not None and said.rules != rules.digest
    if not is_outdated and (here is not None or pushed is None):
        return
    try:
        fetch(
            repository,
            remote,
            shown,
            source=f"+{ref}",
            target=_FETCHED,
            address=address,
            most_bytes=most_bytes,
        )
    except GitFailed as exc:
        if "couldn't find remote ref" not in exc.said:
            raise
        there = None
    else:
        there = repository.find(_FETCHED)
    # It may have been pushed, and nobody could write that down: the remote knows.
    if is_outdated and there is not None and repository.has(there.id, below=ref):
        repository.run("update-ref", ref, there.id)
    elif there is not None and pushed is not None and repository.has(pushed, below=_FETCHED):
        repository.run("update-ref", ref, pushed)
    elif is_outdated:
        repository.run("update-ref", "-d", ref)


def _credentials(context: Context, backup: GitBackup) -> Credentials:
    secret = decrypt(context, backup.secret, purpose=backup.id)
    if backup.public_key is None:
        login = f"{backup.login}:{secret.decode()}"
        return Credentials(login=login, certificates=context.git_certificates)
    key = None if backup.host_key is None else to_host_key(backup.host_key)
    return Credentials(private_key=secret, host_key=key)


def _record(
    handle: Handle,
    seen: GitBackup,
    began: datetime,
    *,
    done: Exported | None = None,
    error: HoldfastError | None = None,
) -> bool:
    """Writes down what came of a push, unless the copy goes elsewhere by now.

    Returns whether its repository here is still that of the copy.
    """
    context = handle.context
    now = context.clock()
    with context.catalog.write() as transaction:
        head = handle.find_and_lock(transaction)
        row = None if head is None else transaction.lock_git_backup(head.namespace_id)
        if head is None or row is None or row.id != seen.id:
            return False
        row = replace(row, claimed_until=now, tried_at=began)
        is_elsewhere = (row.remote, row.branch, row.era) != (seen.remote, seen.branch, seen.era)
        if is_elsewhere or isinstance(error, Busy):
            # Of a worker that is still at it, it will be known what came of it.
            later = now + timedelta(seconds=0 if is_elsewhere else RETRIES[0])
            transaction.set_git_backup(replace(row, next_at=later))
            return not is_elsewhere  # Nobody goes on with its repository: who pushed sweeps.
        if done is not None:
            new = _well(row, done, began, now)
            told = trace_of(
                "backup.pushed", new, commit=done.tip, number=done.number, withheld=done.withheld
            )
        else:
            new = _ill(row, error, now, place=context.state)
            told = trace_of("backup.failed", new, failures=new.failures, reason=_code_of(new))
        transaction.set_git_backup(new)
        if done is not None or _code_of(new) != _code_of(row):
            # Each failure once: a remote that is away for a day is one piece of news.
            append(transaction, context, head, told)
    return True


def _well(row: GitBackup, done: Exported, began: datetime, now: datetime) -> GitBackup:
    is_answered = row.asked_at is not None and row.asked_at <= began
    return replace(
        row,
        asked_at=None if is_answered else row.asked_at,
        next_at=now,
        failures=0,
        last_error=None,
        pushed_at=now,
        pushed_number=done.number,
        pushed_commit=done.tip,
        withheld=done.withheld,
    )


def _ill(
    row: GitBackup, error: HoldfastError | None, now: datetime, *, place: Path | None
) -> GitBackup:
    pause = RETRIES[min(row.failures, len(RETRIES) - 1)]
    code = "error" if error is None else error.code
    user = to_remote(row.remote).user
    said = str(error)
    for url in (row.remote, row.remote.replace(f"{user}@", "", 1)):  # Git leaves the user out.
        said = said.replace(url, "[remote]")
    if place is not None:  # Where things are on this machine is not for those who read it.
        said = said.replace(str(place.parent), "[vault]")
    text = without_tokens(f"{code}: {said}").replace("\0", " ")[:MAX_ERROR_CHARS]
    return replace(
        row,
        failures=row.failures + 1,
        last_error=text,
        next_at=now + timedelta(seconds=pause),
    )


def _code_of(row: GitBackup) -> str | None:
    """Returns the code of what went wrong last: what a remote said is for its owner alone."""
    return None if row.last_error is None else row.last_error.partition(":")[0]

"""What keeps a vault from its backup, and a namespace from its copy in a git repository."""

from collections.abc import Sequence

from holdfast.errors.families import Conflict, NotFound, Unavailable, shorten


class BackupLocked(Conflict):
    """A backup is encrypted, and its key was not given; or it is not, and a key was."""

    code = "backup_locked"
    hint = "Set HOLDFAST_BACKUP_KEY, or key=, as it was when the backup was made."


class GitBackupNotFound(NotFound):
    """The namespace has no copy in a git repository."""

    code = "git_backup_not_found"
    hint = "`git.configure` says where the copy shall be."

    def __init__(self, namespace: str) -> None:
        super().__init__(f"namespace {shorten(namespace)} has no git backup")
        self.namespace = namespace


class GitBackupPaused(Conflict):
    """The copy is paused: nothing is pushed until it goes on."""

    code = "git_backup_paused"
    hint = "`git.update(paused=False)` or `holdfast git resume` lets it go on, then push."

    def __init__(self, namespace: str) -> None:
        super().__init__(f"the git backup of namespace {shorten(namespace)} is paused")
        self.namespace = namespace


class GitMissing(Unavailable):
    """A program that is needed is not installed."""

    code = "git_missing"
    hint = "Install git (2.37 or later) and an OpenSSH client on the machine that does this."

    def __init__(self, program: str) -> None:
        super().__init__(f"{program} is not installed: a git backup needs git and OpenSSH")
        self.program = program


class GitTooOld(Unavailable):
    """The git that is installed does not do all that is asked of it."""

    code = "git_too_old"
    hint = "Install a later git on the machine that does this: 2.37 does all of it."

    def __init__(self, version: str, *, oldest: tuple[int, int]) -> None:
        needed = ".".join(map(str, oldest))
        super().__init__(f"git {version} is too old: {needed} or later is needed")
        self.version = version


class GitFailed(Conflict):
    """Git, or the remote that it spoke to, refused."""

    code = "git_failed"
    hint = "The message has what it said: see to that, then try again."

    def __init__(self, command: str, *, said: str) -> None:
        super().__init__(f"git {command} failed: {said or 'it said nothing'}")
        self.command, self.said = command, said


class RemoteDiverged(Conflict):
    """The branch of the remote has commits that are not ours: nothing is forced over them."""

    code = "remote_diverged"
    hint = "Choose another branch, or take what is there away yourself, then push again."

    def __init__(self, branch: str) -> None:
        super().__init__(f"the remote's branch {shorten(branch)} has commits of somebody else's")
        self.branch = branch


class HostKeyUnconfirmed(Conflict):
    """Nobody has said yet that the remote's host key is the right one."""

    code = "host_key_unconfirmed"
    hint = "Compare the fingerprint with what the host publishes, then confirm it."


class HostKeyChanged(Conflict):
    """The remote has another host key than the one that was confirmed: it may be somebody else."""

    code = "host_key_changed"
    hint = "Ask whoever runs the host whether its key is new, before you confirm another."

    def __init__(self, host: str, *, expected: str, shown: Sequence[str] = ()) -> None:
        now = f", and it shows {', '.join(shown)}" if shown else ""
        super().__init__(f"{host} has another host key: {expected} was confirmed{now}")
        self.host, self.expected, self.shown = host, expected, [*shown]


class SecretsLocked(Conflict):
    """There is no key to encrypt secrets with, or not the one that they were encrypted with."""

    code = "secrets_locked"
    hint = "Set HOLDFAST_SECRETS_KEY, as it was when the secret was given."

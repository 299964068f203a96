"""The copy of a namespace in a git repository: where it is, what stays here, when it is pushed."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Final

from holdfast.model.basics import Plane
from holdfast.model.gitbackups import GitBackup, GitHostKey
from holdfast.operations.choices import Period, Planes
from holdfast.operations.operation import Operation, Work

_PATH: Final = "/v1/git"
USUAL_FILE_BYTES: Final = 100 << 20
"""What the common hosts take."""

PLANES: Final = (Plane.STORE, Plane.SESSIONS, Plane.MEMORIES)
"""What a copy can have beside files."""


class ConfigureGit(Operation[GitBackup], put=_PATH):
    """Says where the copy of the namespace is, and what of it stays here.

    Over ssh, a key is made whose public half the host has to be given, unless `private_key` is
    brought; it stays when this is said again. Over https, `user` and `password` are what the host
    is shown. Files that match `patterns`, are larger than `file_bytes`, or hold what looks like a
    secret stay here. With `planes`, some of `store`, `sessions` and `memories`, these are there as
    JSON to read, too. It is pushed when a task has ended, `every` so often if something is new, and
    when it is asked for.
    """

    remote: str
    _: KW_ONLY
    branch: str = "main"
    private_key: str | None = None
    user: str | None = None
    password: str | None = None
    patterns: Sequence[str] | None = None
    file_bytes: int = USUAL_FILE_BYTES
    scan_secrets: bool = True
    on_tasks: bool = True
    every: Period | None = None
    planes: Planes = ()

    def __repr__(self) -> str:
        # Without what is secret: what is printed ends up in logs.
        return f"ConfigureGit({self.remote!r}, branch={self.branch!r})"


class GetGit(Operation[GitBackup], get=_PATH):
    """Returns where the copy is, and how far; raises `GitBackupNotFound` if there is none."""


class UpdateGit(Operation[GitBackup], patch=_PATH):
    """Pauses the copy, lets it go on, or changes when it is pushed."""

    _: KW_ONLY
    paused: bool | None = None
    on_tasks: bool | None = None
    every: Period | None = None


class DeleteGit(Operation[None], delete=_PATH, status=204):
    """Forgets where the copy is, with its secrets; what is there stays there."""


class ListGitHostKeys(
    Operation[list[GitHostKey]], get=f"{_PATH}/host-keys", under="host_keys", work=Work.SLOW
):
    """Asks the remote which keys it shows; compare one with what the host publishes."""


class ConfirmGitHost(Operation[GitBackup], post=f"{_PATH}/host-key", work=Work.SLOW):
    """Takes the key with this fingerprint for the remote's own: from now on it has to have it.

    Raises `HostKeyUnconfirmed` if it does not show it.
    """

    fingerprint: str


class PushGit(Operation[GitBackup], post=f"{_PATH}/push", status=202, needs_body=False):
    """Asks for a push as soon as may be; `pushed_at` and `last_error` tell what came of it.

    Before the first snapshot nothing is asked for: there is nothing to push. Raises
    `GitBackupPaused` if the copy is paused.
    """

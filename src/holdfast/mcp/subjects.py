"""What the tools act on: one directory or one namespace, chosen when the server is started.

Both have the same methods, so that a tool does not know which it is. Nothing here takes the name of
another namespace, but for that of a fork, which must not be there yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.engine.core.coverage import Coverage
from holdfast.engine.namespace import Namespace
from holdfast.engine.tenant import TenantVault
from holdfast.engine.workspace import Workspace
from holdfast.errors import NamespaceExists
from holdfast.model.basics import Metadata, SnapshotInfo, Timeline
from holdfast.model.changes import Change, Changes, Restored
from holdfast.model.commands import Executed
from holdfast.model.files import FileInfo
from holdfast.model.names import Name

HEAD: Final = "@"
"""The snapshot that the timeline stands on."""


@dataclass(frozen=True, kw_only=True)
class Situation:
    """How things stand."""

    head: SnapshotInfo | None
    changes: Changes
    """What leads from the head to what is there now."""
    coverage: Coverage | None = None
    """Of a directory: what a snapshot taken now would hold."""
    recovered: str | None = None
    """Of a directory: what was put right, if a restore had been interrupted."""


class Reader(Protocol):
    """Files at one moment."""

    def read(self, path: str, /, *, start: int, length: int) -> bytes:
        """Returns so many bytes of a file from an offset on, or as many as there are."""
        ...

    def stat(self, path: str, /) -> FileInfo:
        """Returns what is known about a path."""
        ...

    def list(
        self, path: str, /, *, recursive: bool, after: str | None, limit: int
    ) -> Sequence[FileInfo]:
        """Returns what lies in a directory."""
        ...


class Subject(Protocol):
    """A directory or a namespace, with its timeline."""

    @property
    def title(self) -> str:
        """What it is called, for people; somebody else may have chosen it."""
        ...

    def status(self, *, limit: int) -> Situation:
        """Says how things stand; stores nothing."""
        ...

    def timeline(self, *, limit: int, before: int | None) -> Timeline:
        """Returns snapshots, newest first."""
        ...

    def position(self) -> str | None:
        """Returns the id of the snapshot that the timeline stands on."""
        ...

    def files(self, at: str | None, /) -> tuple[Reader, SnapshotInfo | None]:
        """Returns the files of a moment, and the snapshot that it is; None for now."""
        ...

    def diff(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str] | None, limit: int
    ) -> Changes:
        """Returns what leads from one moment to another."""
        ...

    def texts(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str]
    ) -> Sequence[tuple[Change, str]]:
        """Returns changes with their unified diffs."""
        ...

    def snapshot(
        self, label: str | None, /, *, reason: str | None, metadata: Metadata | None
    ) -> SnapshotInfo:
        """Captures everything as it is now."""
        ...

    def restore(
        self,
        snapshot: str,
        /,
        *,
        paths: Sequence[str] | None,
        names: Sequence[str] | None,
        dry_run: bool,
        limit: int,
    ) -> Restored:
        """Brings a snapshot back, or says what that would change."""
        ...

    def undo(self, operation: str | None, /, *, task: str | None, limit: int) -> Restored:
        """Takes the last change back, or what an operation or a task changed."""
        ...

    def redo(self, *, limit: int) -> Restored:
        """Takes the last undo back."""
        ...

    def fork(self, name: str, /, *, at: str | None) -> None:
        """Makes a new namespace with the same content."""
        ...

    def exec(
        self, command: str, /, *, timeout_s: float | None, rollback_on_failure: bool
    ) -> Executed:
        """Runs a command in the sandbox, and keeps what it has left."""
        ...


class OfNamespace:
    """A namespace: of a vault, or of a server, whose client has the same names."""

    def __init__(self, agent: Namespace, *, title: str) -> None:
        self._agent = agent
        self.title = title

    def status(self, *, limit: int) -> Situation:
        """Says how things stand; stores nothing."""
        standing = self._agent.status()
        place = standing.position
        head = None if place is None else self._agent.get_snapshot(place)
        return Situation(head=head, changes=self._agent.diff(limit=limit))

    def timeline(self, *, limit: int, before: int | None) -> Timeline:
        """Returns snapshots, newest first."""
        return self._agent.timeline(limit=limit, before=before)

    def position(self) -> str | None:
        """Returns the id of the snapshot that the timeline stands on."""
        return self._agent.status().position

    def files(self, at: str | None, /) -> tuple[Reader, SnapshotInfo | None]:
        """Returns the files of a moment; without one, as they are now."""
        if at is None:
            return self._agent.files, None
        chosen = self._agent.get_snapshot(at)
        return self._agent.at(chosen).files, chosen

    def diff(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str] | None, limit: int
    ) -> Changes:
        """Returns what leads from one moment to another."""
        return self._agent.diff(old, new, paths=paths, limit=limit)

    def texts(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str]
    ) -> Sequence[tuple[Change, str]]:
        """Returns changes with their unified diffs."""
        return self._agent.text_diffs(old, new, paths=paths)

    def snapshot(
        self, label: str | None, /, *, reason: str | None, metadata: Metadata | None
    ) -> SnapshotInfo:
        """Captures everything as it is now."""
        return self._agent.snapshot(label, reason=reason, metadata=metadata)

    def restore(
        self,
        snapshot: str,
        /,
        *,
        paths: Sequence[str] | None,
        names: Sequence[str] | None,
        dry_run: bool,
        limit: int,
    ) -> Restored:
        """Brings a snapshot back, or says what that would change."""
        return self._agent.restore(
            snapshot, paths=paths, names=_files(names), dry_run=dry_run, limit=limit
        )

    def undo(self, operation: str | None, /, *, task: str | None, limit: int) -> Restored:
        """Takes the last change back, or what an operation or a task changed."""
        return self._agent.undo(operation, task=task, limit=limit)

    def redo(self, *, limit: int) -> Restored:
        """Takes the last undo back."""
        return self._agent.redo(limit=limit)

    def fork(self, name: str, /, *, at: str | None) -> None:
        """Makes a new namespace with the same content."""
        self._agent.fork(name, at=at)

    def exec(
        self, command: str, /, *, timeout_s: float | None, rollback_on_failure: bool
    ) -> Executed:
        """Runs a command in the sandbox, and keeps what it has left."""
        return self._agent.exec(
            command, timeout_s=timeout_s, rollback_on_failure=rollback_on_failure
        )


class OfDirectory(OfNamespace):
    """An attached directory: what is in it counts, captured or not."""

    def __init__(self, workspace: Workspace, *, vault: TenantVault, title: str) -> None:
        super().__init__(workspace.namespace, title=title)
        self._workspace, self._vault = workspace, vault

    def status(self, *, limit: int) -> Situation:
        """Says how things stand; stores nothing."""
        found = self._workspace.status(limit=limit)
        return Situation(
            head=found.head,
            changes=found.changes,
            coverage=found.coverage,
            recovered=found.recovered,
        )

    def files(self, at: str | None, /) -> tuple[Reader, SnapshotInfo | None]:
        """Returns the files of a moment; without one, of the snapshot that it stands on.

        What is in the directory now is there to be read without us, by whoever may.
        """
        return super().files(at or HEAD)

    def diff(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str] | None, limit: int
    ) -> Changes:
        """Returns what leads from one moment to another, or to the directory as it is now."""
        return self._workspace.diff(old, new, paths=paths, limit=limit)

    def texts(
        self, old: str | None, new: str | None, /, *, paths: Sequence[str]
    ) -> Sequence[tuple[Change, str]]:
        """Returns changes with their unified diffs; the directory is looked at once."""
        return self._workspace.text_diffs(old, new, paths=paths)

    def snapshot(
        self, label: str | None, /, *, reason: str | None, metadata: Metadata | None
    ) -> SnapshotInfo:
        """Captures the directory as it is now, and the namespace's other planes with it."""
        return self._workspace.snapshot(label, reason=reason, metadata=metadata)

    def restore(
        self,
        snapshot: str,
        /,
        *,
        paths: Sequence[str] | None,
        names: Sequence[str] | None,
        dry_run: bool,
        limit: int,
    ) -> Restored:
        """Brings a snapshot back into the directory, or says what that would change."""
        return self._workspace.restore(
            snapshot, paths=paths, names=_files(names), dry_run=dry_run, limit=limit
        )

    def undo(self, operation: str | None, /, *, task: str | None, limit: int) -> Restored:
        """Takes the last change of the directory back, or what an operation or a task changed."""
        return self._workspace.undo(operation, task=task, limit=limit)

    def redo(self, *, limit: int) -> Restored:
        """Takes the last undo back."""
        return self._workspace.redo(limit=limit)

    def fork(self, name: str, /, *, at: str | None) -> None:
        """Makes a new namespace with the same content.

        What is in the directory and in no snapshot becomes one first: else it would be missing.
        """
        if at is None:
            if self._vault.namespace(name).name in self._vault.namespaces(prefix=name):
                raise NamespaceExists(name)
            self._workspace.snapshot_if_changed(reason="before a fork")
        super().fork(name, at=at)

    def exec(
        self, command: str, /, *, timeout_s: float | None, rollback_on_failure: bool
    ) -> Executed:
        """Runs a command on a copy of the directory; what it changed comes into that after."""
        self._workspace.snapshot_if_changed(reason="before a command in the sandbox")
        done = super().exec(command, timeout_s=timeout_s, rollback_on_failure=rollback_on_failure)
        self._workspace.agree()
        return done


def _files(names: Sequence[str] | None) -> list[Name] | None:
    return None if names is None else [Name.file(name) for name in names]

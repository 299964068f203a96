"""Workspaces of the SDK's sandboxes, as the files of a namespace.

When a sandbox stops, its workspace becomes the files of the namespace, exactly that set, in one
step that can be undone; when it is resumed, they are what it begins with. Between the two they are
files like any others: to read, to compare, to restore in part, together with the conversation.

A sandbox is found again by its id. What it left is a snapshot, and the id names that in the store:
bytes first, name last. While no other sandbox has put its workspace into the namespace since, a
sandbox gets the files as they are now, whoever changed them; otherwise exactly what it left.
"""

import asyncio
import io
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile, SpooledTemporaryFile
from typing import Final, Literal

from agents.sandbox.errors import SnapshotPersistError, SnapshotRestoreError
from agents.sandbox.session import Dependencies
from agents.sandbox.snapshot import SnapshotBase, SnapshotSpec

import holdfast
from holdfast.errors import HoldfastError, NotFound
from holdfast.integrations.calling import AnyAgent, ask, carry_through

PLACE: Final = "openai.sandbox"
"""The store's namespace that says which snapshot each sandbox left."""

ORIGIN: Final = "openai.sandbox"
"""In the metadata of a snapshot: the one that brought the files in."""

IN_MEMORY_BYTES: Final = 8 << 20
"""How much of a workspace that is read is in memory; what is more, in a temporary file."""


class HoldfastSnapshots:
    """Keeps the workspaces of sandboxes in a namespace: the client of a `RemoteSnapshotSpec`.

    Two sandboxes that are used at the same time want a namespace each.
    """

    def __init__(self, agent: AnyAgent) -> None:
        self._agent = agent

    async def upload(self, snapshot_id: str, data: io.IOBase) -> None:
        """Makes the files those of a plain tar file, and remembers whose they are."""
        with NamedTemporaryFile(suffix=".tar") as file:
            await asyncio.to_thread(copyfileobj, data, file)
            file.flush()
            await carry_through(self._bring_in(snapshot_id, file.name))

    async def download(self, snapshot_id: str) -> io.IOBase:
        """Returns a plain tar file with what a sandbox left; raises `NotFound` for another one."""
        origin = await ask(self._agent, self._agent.store.get, PLACE, snapshot_id)
        if origin is None:
            message = f"no workspace of the sandbox {snapshot_id!r} is kept here"
            raise NotFound(message)
        target = SpooledTemporaryFile[bytes](max_size=IN_MEMORY_BYTES)
        try:
            snapshot = None if await self._is_latest(snapshot_id) else origin
            await ask(self._agent, self._agent.export_files, target, snapshot=snapshot)
            target.seek(0)
        except BaseException:
            target.close()
            raise
        return target

    async def exists(self, snapshot_id: str) -> bool:
        """Says whether a sandbox has left something."""
        return await ask(self._agent, self._agent.store.contains, PLACE, snapshot_id)

    async def _bring_in(self, snapshot_id: str, path: str) -> None:
        agent = self._agent
        brought = await ask(agent, agent.import_files, path)
        origin: str = brought.snapshot.id
        await ask(agent, agent.store.set, PLACE, snapshot_id, origin)
        await ask(agent, agent.snapshot, "sandbox", trace_id=snapshot_id, metadata={ORIGIN: origin})

    async def _is_latest(self, snapshot_id: str) -> bool:
        """Says whether nobody else has replaced the files since: then edits count, too."""
        agent = self._agent
        own = await ask(agent, agent.timeline, trace_id=snapshot_id, limit=1)
        imports = await ask(agent, agent.timeline, kind="import", limit=1)
        if not own or not imports:
            return False
        metadata: dict[str, str] = own[0].metadata or {}
        return metadata.get(ORIGIN) == imports[0].id


class HoldfastSnapshot(SnapshotBase):
    """What a sandbox left, found again by whoever reads the state of its session.

    That state may come from anybody: it names no server, for that would be sent the key. Both are
    read from the environment.
    """

    type: Literal["holdfast"] = "holdfast"  # pyright: ignore[reportIncompatibleVariableOverride] - as theirs
    namespace: str
    vault: str | None = None

    async def persist(self, data: io.IOBase, *, dependencies: Dependencies | None = None) -> None:
        """Keeps the workspace that a plain tar file has."""
        del dependencies
        try:
            async with self._opened() as snapshots:
                await snapshots.upload(self.id, data)
        except (HoldfastError, OSError) as error:
            raise SnapshotPersistError(
                snapshot_id=self.id, path=self._place(), cause=error
            ) from error

    async def restore(self, *, dependencies: Dependencies | None = None) -> io.IOBase:
        """Returns the workspace as a plain tar file."""
        del dependencies
        try:
            async with self._opened() as snapshots:
                return await snapshots.download(self.id)
        except (HoldfastError, OSError) as error:
            raise SnapshotRestoreError(
                snapshot_id=self.id, path=self._place(), cause=error
            ) from error

    async def restorable(self, *, dependencies: Dependencies | None = None) -> bool:
        """Says whether there is one."""
        del dependencies
        async with self._opened() as snapshots:
            return await snapshots.exists(self.id)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[HoldfastSnapshots]:
        if self.vault is None:
            async with holdfast.AsyncClient(namespace=self.namespace) as client:
                yield HoldfastSnapshots(client)
            return
        vault = await asyncio.to_thread(holdfast.open, self.vault)
        try:
            yield HoldfastSnapshots(vault.namespace(self.namespace))
        finally:
            await asyncio.to_thread(vault.close)

    def _place(self) -> Path:
        return Path(f"<holdfast:{self.namespace}>")


class HoldfastSnapshotSpec(SnapshotSpec):
    """Where sandboxes keep what they leave: a namespace of the vault at `vault`.

    Without one, of the server that `HOLDFAST_URL` names.
    """

    type: Literal["holdfast"] = "holdfast"  # pyright: ignore[reportIncompatibleVariableOverride] - as theirs
    namespace: str
    vault: str | None = None

    def build(self, snapshot_id: str) -> HoldfastSnapshot:
        """Returns what one sandbox leaves."""
        return HoldfastSnapshot(id=snapshot_id, namespace=self.namespace, vault=self.vault)

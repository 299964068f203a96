"""The clients that people hold in their hands: `Client` and `AsyncClient`.

    with holdfast.Client(api_key="…", namespace="alice") as client:
        client.files.write("notes.md", "first thoughts")
        before = client.snapshot("before the risky step")

What is not given is read from the environment: `HOLDFAST_URL`, `HOLDFAST_API_KEY`,
`HOLDFAST_NAMESPACE`. A client keeps its connections, and any number of threads (of an
asynchronous one: tasks of one event loop) may share it.

What every client of a form has in common: it is opened, used in a block, and closed.
"""

import os
from typing import TYPE_CHECKING

from holdfast.ids import is_snapshot_id
from holdfast.model.basics import SnapshotLike
from holdfast.operations.checks import checked
from holdfast.operations.operation import takes
from holdfast.operations.timeline import ForkNamespace
from holdfast.sdk.agent import Agent, Moment
from holdfast.sdk.calls import Async, Sender, Sync, asking
from holdfast.sdk.lines import ReachNamespace, line_to, naming
from holdfast.sdk.tasks import AsyncCheckpointed, AsyncTasks, Checkpointed, SyncTasks

if TYPE_CHECKING:
    # Directories bring a whole engine along: it is loaded by `workspace`, and only there.
    from holdfast.mirror import AsyncRemoteWorkspace, RemoteWorkspace
from typing import Self

from holdfast.sdk.calls import Group


class Waiting(Group[Sync]):
    """A client whose methods wait for the answer."""

    @classmethod
    def from_env(cls) -> Self:
        """Makes a client of what the environment says."""
        return cls()  # pyright: ignore[reportCallIssue] - of a client, which needs nothing more

    def close(self) -> None:
        """Lets go of the connections, also of clients for other namespaces that share them."""
        self.sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Awaiting(Group[Async]):
    """A client whose methods are coroutines."""

    _is_awaited = True

    @classmethod
    def from_env(cls) -> Self:
        """Makes a client of what the environment says."""
        return cls()  # pyright: ignore[reportCallIssue] - of a client, which needs nothing more

    async def close(self) -> None:
        """Lets go of the connections, also of clients for other namespaces that share them."""
        await self.sender.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@checked
class Client(Agent[Sync], Waiting):
    """One namespace on a server; its methods wait for the answer."""

    @takes(ReachNamespace)
    def __init__(self, given: ReachNamespace) -> None:
        """Makes a client; nothing is sent before the first call.

        Without `namespace`, that of the key. `timeout_s` is how long is waited for each part of
        an answer. Where that is safe a call is repeated, so that a client outlives a restart of
        its server: `retries` says how often at the most, `patience_s` for how long.
        """
        from holdfast.sdk.sending import SyncSender  # noqa: PLC0415 - loads the HTTP library

        self._begin(SyncSender(line_to(given)))

    def _begin(self, sender: Sender) -> None:
        super().__init__(sender)
        self.checkpointed = Checkpointed(self)
        """Makes every call of a function a task: `@client.checkpointed`."""

    def namespace(self, name: str) -> "Client":
        """Returns a client for another namespace, over the same connections."""
        other = Client.__new__(Client)
        other._begin(self.sender.speaking(naming(self.sender.line, name)))  # noqa: SLF001 - of this class
        return other

    def at(self, snapshot: SnapshotLike) -> Moment[Sync]:
        """Returns the namespace as a snapshot shows it, to read."""
        is_part = isinstance(snapshot, str) and not is_snapshot_id(snapshot)
        # It stays the same one, and one that there is not is not looked for with every read.
        return super().at(self.get_snapshot(snapshot) if is_part else snapshot)

    def fork(self, name: str, *, at: SnapshotLike | None = None) -> "Client":
        """Makes a new namespace with the same content, as it is now or was at a snapshot."""
        self.sender.send(asking(ForkNamespace(name, at=at)))
        return self.namespace(name)

    def task(self, name: str, *, rollback_on_failure: bool = False) -> SyncTasks:
        """Returns a task: a context, or a decorator of functions.

        When it ends, well or not, a snapshot is taken. With `rollback_on_failure`, an exception
        brings back what was there before it.
        """
        return SyncTasks(self, name, rollback_on_failure=rollback_on_failure)

    def workspace(
        self,
        directory: str | os.PathLike[str],
        *,
        cache: str | os.PathLike[str] | None = None,
        force: bool = False,
    ) -> "RemoteWorkspace":
        """Attaches a local directory to this namespace on the server.

        What is known of it is kept in `cache`, by default below the user's own vault. Raises
        `DirectoryRefused` for `/`, the home directory and network mounts, unless `force`.
        """
        from holdfast.mirror import open_workspace  # noqa: PLC0415 - loads a whole engine

        return open_workspace(self, directory, cache=cache, force=force)


@checked
class AsyncClient(Agent[Async], Awaiting):
    """One namespace on a server; its methods are coroutines."""

    @takes(ReachNamespace)
    def __init__(self, given: ReachNamespace) -> None:
        """Makes a client; nothing is sent before the first call.

        Without `namespace`, that of the key. `timeout_s` is how long is waited for each part of
        an answer. Where that is safe a call is repeated, so that a client outlives a restart of
        its server: `retries` says how often at the most, `patience_s` for how long.
        """
        from holdfast.sdk.awaiting import AsyncSender  # noqa: PLC0415 - loads the HTTP library

        self._begin(AsyncSender(line_to(given)))

    def _begin(self, sender: Sender) -> None:
        super().__init__(sender)
        self.checkpointed = AsyncCheckpointed(self)
        """Makes every call of a coroutine function a task: `@client.checkpointed`."""

    def namespace(self, name: str) -> "AsyncClient":
        """Returns a client for another namespace, over the same connections."""
        other = AsyncClient.__new__(AsyncClient)
        other._begin(self.sender.speaking(naming(self.sender.line, name)))  # noqa: SLF001 - of this class
        return other

    async def fork(self, name: str, *, at: SnapshotLike | None = None) -> "AsyncClient":
        """Makes a new namespace with the same content, as it is now or was at a snapshot."""
        await self.sender.send(asking(ForkNamespace(name, at=at)))
        return self.namespace(name)

    def task(self, name: str, *, rollback_on_failure: bool = False) -> AsyncTasks:
        """Returns a task: an asynchronous context, or a decorator of coroutine functions.

        When it ends, well or not, a snapshot is taken. With `rollback_on_failure`, an exception
        brings back what was there before it.
        """
        return AsyncTasks(self, name, rollback_on_failure=rollback_on_failure)

    def workspace(
        self,
        directory: str | os.PathLike[str],
        *,
        cache: str | os.PathLike[str] | None = None,
        force: bool = False,
    ) -> "AsyncRemoteWorkspace":
        """Attaches a local directory to this namespace on the server.

        What is known of it is kept in `cache`, by default below the user's own vault. Raises
        `DirectoryRefused` for `/`, the home directory and network mounts, unless `force`.
        """
        from holdfast.mirror import open_async_workspace  # noqa: PLC0415 - loads a whole engine

        return open_async_workspace(self, directory, cache=cache, force=force)

"""Local directories whose timeline is on a server: what `client.workspace` returns.

Loads a whole engine, which a client alone does not need: `holdfast.sdk` imports it when somebody
asks for a directory.
"""

import os

from holdfast.mirror.aio import AsyncRemoteWorkspace
from holdfast.mirror.local import Local, cache_of, open_cache
from holdfast.mirror.workspace import RemoteWorkspace
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Async, Sync
from holdfast.sdk.sending import SyncSender

__all__ = ["AsyncRemoteWorkspace", "RemoteWorkspace", "open_async_workspace", "open_workspace"]


def open_workspace(
    client: Agent[Sync],
    directory: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> RemoteWorkspace:
    """Attaches a directory to the namespace of a client.

    What is known of it is kept in `cache`, by default below the user's own vault, apart for each
    server, workspace and namespace. Raises `DirectoryRefused` as `Holdfast.workspace` does.
    """
    me = client.me()
    line = client.sender.line
    name = line.namespace or me.namespace or ""
    vault = open_cache(cache or cache_of(line.url, me.workspace_id, name))
    local = Local.over(vault.workspace(directory, force=force))
    return RemoteWorkspace(client, name, vault, local)


def open_async_workspace(
    client: Agent[Async],
    directory: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> AsyncRemoteWorkspace:
    """Attaches a directory to the namespace of an asynchronous client, with its first use."""
    sender = SyncSender(client.sender.line)

    def open_() -> RemoteWorkspace:
        return open_workspace(Agent[Sync](sender), directory, cache=cache, force=force)

    return AsyncRemoteWorkspace(open_, directory, let_go=sender.close)

"""Holdfast in the OpenAI Agents SDK: conversations, sandbox workspaces and traces of a namespace.

    session = HoldfastSession("support-7", agent)
    result = await Runner.run(assistant, "Tidy up the reports.", session=session)

`agent` is a namespace: of a vault in this process, or a `Client` of a server; a session and the
snapshots of a sandbox take an `AsyncClient` as well. All that is kept here is in its store, its
files and its journal, so that one `restore` takes files, state and conversation back together. It
needs `holdfast[openai-agents]`. Reasons are in
`docs/adr/0103-a-conversation-is-a-list-and-a-workspace-the-files.md`, how to use it in
`docs/howto/openai-agents.md`.
"""

from holdfast.integrations.openai_agents.sandboxes import (
    HoldfastSnapshot,
    HoldfastSnapshots,
    HoldfastSnapshotSpec,
)
from holdfast.integrations.openai_agents.sessions import HoldfastSession
from holdfast.integrations.openai_agents.tracing import HoldfastTracing

__all__ = [
    "HoldfastSession",
    "HoldfastSnapshot",
    "HoldfastSnapshotSpec",
    "HoldfastSnapshots",
    "HoldfastTracing",
]

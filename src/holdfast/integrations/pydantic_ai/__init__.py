"""Conversations and workspaces of pydantic-ai, in a namespace.

    agent = Agent(model, tools=tools)
    store = HoldfastConversationStore(namespace)
    result = await agent.run(prompt, workspace=HoldfastWorkspace(namespace))
    await store.save(result)

Both are in the same snapshots: `namespace.restore(snapshot)` brings files and conversations back
together. It needs `holdfast[pydantic-ai]`; `docs/howto/pydantic-ai.md` shows all of it.
"""

from holdfast.integrations.pydantic_ai.commands import HoldfastCommandWorkspace
from holdfast.integrations.pydantic_ai.conversations import HoldfastConversationStore
from holdfast.integrations.pydantic_ai.workspaces import HoldfastWorkspace

__all__ = ["HoldfastCommandWorkspace", "HoldfastConversationStore", "HoldfastWorkspace"]

"""Session, artifact and memory services of Google's Agent Development Kit, in a namespace.

    runner = Runner(
        app_name="helpdesk",
        agent=agent,
        session_service=HoldfastSessionService(namespace),
        artifact_service=HoldfastArtifactService(namespace),
        memory_service=HoldfastMemoryService(namespace),
    )

All three are in the same snapshots: `namespace.restore(snapshot)` brings conversations, states,
artifacts and memories back together. It needs `holdfast[adk]`; `docs/howto/adk.md` shows all of it.
"""

from holdfast.integrations.adk.artifacts import HoldfastArtifactService
from holdfast.integrations.adk.memories import HoldfastMemoryService
from holdfast.integrations.adk.sessions import HoldfastSessionService

__all__ = ["HoldfastArtifactService", "HoldfastMemoryService", "HoldfastSessionService"]

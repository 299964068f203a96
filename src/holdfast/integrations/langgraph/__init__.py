"""LangGraph on Holdfast: checkpoints and long-term memory beside the files, on one timeline.

    from holdfast.integrations.langgraph import HoldfastSaver, HoldfastStore

    agent = holdfast.open("vault").namespace("alice")
    graph = builder.compile(checkpointer=HoldfastSaver(agent), store=HoldfastStore(agent))

`records` says how checkpoints lie in the store, `reading` and `writing` what is read and written
in which order, `listing` how they are listed; `saver` and `store` are what graphs are given.
"""

from holdfast.integrations.langgraph.configs import CheckpointWithoutSnapshot
from holdfast.integrations.langgraph.saver import HoldfastSaver
from holdfast.integrations.langgraph.store import HoldfastStore

__all__ = ["CheckpointWithoutSnapshot", "HoldfastSaver", "HoldfastStore"]

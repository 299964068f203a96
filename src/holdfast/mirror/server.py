"""The server, as a directory sees it: one namespace, and what it is asked.

A connection that breaks in the middle, or a server that is away for a moment, is the client's own
business: every question of an exchange can be repeated.
"""

from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Sync
from holdfast.sdk.groups.exchange import Exchange


class Server(Exchange[Sync]):
    """One namespace of a server."""

    def __init__(self, agent: Agent[Sync]) -> None:
        super().__init__(agent.sender)
        self.agent = agent

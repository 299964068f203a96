"""Numbers, in the form that a dashboard asks for.

An agent's key sees those of its own namespace, an admin's those of the whole workspace.
"""

from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, get
from holdfast.server.times import shown
from holdfast.wire.dashboard import Activity, Stats, StatsAnswer


@get("/v1/dashboard/stats", who=Who.KEY)
def stats(caller: Caller, agent: Namespace) -> StatsAnswer:
    """Returns how much there is, and how much happened lately."""
    totals = caller.vault.totals() if caller.is_admin else agent.totals()
    return StatsAnswer(
        stats=Stats(
            total_sessions=totals.sessions,
            total_turns=totals.turns,
            total_memories=totals.memories,
            total_entities=totals.entities,
            active_sessions_24h=totals.active_sessions,
            storage_usage_bytes=totals.storage_bytes,
        ),
        recent_activity=[
            Activity(timestamp=shown(hour), count=count) for hour, count in totals.by_hour
        ],
    )


ROUTES: Final[list[Route]] = [stats]

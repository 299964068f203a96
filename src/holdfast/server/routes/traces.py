"""Traces, where a server says more than a vault: what nobody may tell in its place."""

from holdfast.engine.audit.traces import Traces, WorkspaceTraces
from holdfast.engine.journal.actions import ACTIONS, normalise
from holdfast.engine.namespace import Namespace
from holdfast.model.traces import TraceInfo
from holdfast.operations.traces import AddTrace
from holdfast.server.dialects import Dialect
from holdfast.server.doors import answers, routes_of
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route


def routes(dialect: Dialect) -> list[Route]:
    """Returns the routes of agents and of operators, who see no agent's content."""
    return [
        *routes_of(Traces, lambda agent: agent.traces, dialect=dialect, without=[AddTrace]),
        answers(AddTrace, dialect)(_add),
        *routes_of(
            WorkspaceTraces, lambda caller: caller.vault.traces.for_operators(), dialect=dialect
        ),
    ]


def _add(agent: Namespace, wanted: AddTrace) -> TraceInfo:
    if normalise(wanted.action) in ACTIONS:
        # Whoever could tell it would make the log say what never happened.
        message = f"{normalise(wanted.action)} is told by the server itself, when it happens"
        raise Unfit(message, param="action")
    return agent.traces.add(**vars(wanted))

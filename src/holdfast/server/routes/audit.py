"""The chain of traces, by operators.

Traces, where a server says more than a vault: what nobody may tell in its place.
"""

from functools import partial
from typing import Final

from holdfast.engine.audit.traces import Traces, WorkspaceTraces
from holdfast.engine.journal.actions import ACTIONS, normalise
from holdfast.engine.namespace import Namespace
from holdfast.model.traces import TraceInfo
from holdfast.model.upkeep import AuditReport
from holdfast.operations.audit import VerifyAudit
from holdfast.operations.traces import AddTrace
from holdfast.server.dialects import Dialect
from holdfast.server.doors import answers, routes_of
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, Who, get
from holdfast.server.transfer import exported

_LINES: Final = "application/jsonl"


@answers(VerifyAudit)
def verify(caller: Caller, wanted: VerifyAudit) -> AuditReport:
    """Checks that no trace was edited, removed, inserted or moved since it was written."""
    return caller.vault.verify_audit(anchor=wanted.anchor)


@get("/v1/workspaces/{workspace_id}/audit/export", who=Who.OPERATOR, media_type=_LINES)
async def export(request: Request, caller: Caller, workspace_id: str) -> Stream:
    """Returns all traces as a file that is checked without this server."""
    # Operators see no agent's content; what is left out is redacted, and the chain still holds.
    write = partial(caller.vault.export_audit, for_operators=True)
    pieces, _ = await exported(request, write, size=0)
    return Stream(pieces, media_type=_LINES)


ROUTES: Final[list[Route]] = [verify, export]


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

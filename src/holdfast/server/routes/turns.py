"""The conversation of a session."""

from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.errors import TurnNotFound
from holdfast.model.sessions import Turn
from holdfast.server.moments import At, seen
from holdfast.server.paging import page_size, paged
from holdfast.server.routing import Route, get, post
from holdfast.server.times import shown
from holdfast.wire.turns import Order, TurnAnswer, TurnList, TurnRequest

LISTED, MOST_LISTED = 20, 100
PREVIEW_CHARS: Final = 100
_TURNS: Final = "/v1/sessions/{session_id}/turns"


@post(_TURNS, status=201)
def add(agent: Namespace, session_id: str, data: TurnRequest) -> TurnAnswer:
    """Adds an exchange; it makes a version only if `state_after` is given and differs."""
    made = agent.sessions.add_turn(
        session_id,
        data.input,
        data.output,
        metadata=data.metadata,
        reasoning=data.reasoning,
        state_before=data.state_before,
        state_after=data.state_after,
    )
    return to_answer(agent.sessions.get_turn(session_id, made.id, include_state=True))


@get(_TURNS)
def list_(
    agent: Namespace,
    session_id: str,
    limit: int | None = None,
    starting_after: str | None = None,
    order: Order = "desc",
    include_state: bool = True,
    at: At = None,
) -> TurnList:
    """Lists turns, newest first, or with `order=asc` oldest first.

    At a snapshot, they come without states.
    """
    sessions = seen(agent, at).sessions
    # What a snapshot keeps of a conversation is what was said.
    more = {"include_state": include_state} if at is None else {}

    def fetch(most: int) -> list[Turn]:
        return sessions.list_turns(
            session_id, limit=most, starting_after=starting_after or None, order=order, **more
        )

    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    found, has_more = paged(fetch, size, cursor=starting_after, unknown=TurnNotFound)
    return TurnList(data=[to_answer(turn) for turn in found], has_more=has_more)


@get(f"{_TURNS}/{{turn_id}}")
def show(agent: Namespace, session_id: str, turn_id: str, include_state: bool = True) -> TurnAnswer:
    """Returns one turn of the conversation as it stands."""
    return to_answer(agent.sessions.get_turn(session_id, turn_id, include_state=include_state))


def to_answer(turn: Turn) -> TurnAnswer:
    """Returns a turn as it stands on the wire."""
    return TurnAnswer(
        id=turn.id,
        session_id=turn.session_id,
        turn_number=turn.number,
        input=turn.input,
        output=turn.output,
        input_preview=turn.input["content"][:PREVIEW_CHARS],
        output_preview=turn.output["content"][:PREVIEW_CHARS],
        metadata=turn.metadata,
        reasoning=turn.reasoning,
        state_before=turn.state_before,
        state_after=turn.state_after,
        version_before=turn.version_before,
        version_after=turn.version_after,
        created_at=shown(turn.created_at),
    )


ROUTES: Final[list[Route]] = [add, list_, show]

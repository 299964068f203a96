"""What an agent needs to go on: its state, what it remembers of the matter, what was said last."""

from typing import Annotated, Any, Final, cast

from msgspec.structs import asdict

from holdfast.engine.namespace import Namespace
from holdfast.model.memories import FoundMemory
from holdfast.model.sessions import Turn
from holdfast.operations.shapes import shape_of
from holdfast.server.parameters import Query
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route, get, post
from holdfast.server.times import shown
from holdfast.wire.turns import (
    ContextAnswer,
    ContextMemory,
    ContextRequest,
    Message,
    Order,
    TurnAnswer,
)

USUAL, MOST_MEMORIES, MOST_TURNS = 5, 200, 100
PREVIEW_CHARS: Final = 100
_CONTEXT: Final = "/v1/sessions/{session_id}/context"


@post(_CONTEXT)
def ask(agent: Namespace, session_id: str, data: ContextRequest | None = None) -> ContextAnswer:
    """Returns the state, relevant memories and recent turns in one answer."""
    return _context(agent, session_id, data or ContextRequest())


@get(_CONTEXT)
def read(
    agent: Namespace,
    session_id: str,
    question: Annotated[str | None, Query("query")] = None,
    include_memories: bool = True,
    include_turns: bool = True,
    memory_limit: int | None = None,
    turn_limit: int | None = None,
    max_turns: int | None = None,
    turn_order: Order | None = None,
) -> ContextAnswer:
    """Returns the same by GET; `max_turns` is another name of `turn_limit`."""
    turns = max_turns if turn_limit is None else turn_limit
    wanted = ContextRequest(
        query=question,
        memory_limit=memory_limit if include_memories else 0,
        turn_limit=turns if include_turns else 0,
        turn_order=turn_order,
    )
    return _context(agent, session_id, wanted)


def _context(agent: Namespace, session_id: str, wanted: ContextRequest) -> ContextAnswer:
    memory_limit = _limit("memory_limit", wanted.memory_limit, MOST_MEMORIES)
    turn_limit = _limit("turn_limit", wanted.turn_limit, MOST_TURNS)
    # Asked for first: a writer in between makes it too low, and whoever expects it is told so.
    version = agent.sessions.get_state(session_id).version
    found = agent.sessions.get_context(
        session_id, wanted.query, memory_limit=memory_limit, turn_limit=turn_limit
    )
    newest_first = [to_answer(turn) for turn in found.recent_turns]
    turns = newest_first[::-1] if wanted.turn_order == "asc" else newest_first
    return ContextAnswer(
        session_id=session_id,
        version=version,
        state=found.state,
        memories=[_memory(each) for each in found.memories],
        recent_turns=turns,
        turns=turns,
        messages=[part for turn in reversed(newest_first) for part in _messages(turn)],
        average_relevance=found.average_relevance,
        drift_warning=found.drift_warning,
    )


def _memory(found: FoundMemory) -> ContextMemory:
    write, memory = cast("Any", shape_of(FoundMemory).send), found.memory
    return ContextMemory(
        **asdict(write(found)),
        memory_type=memory.type,
        embedding_id=memory.embedding_id,
        vector_available=memory.vector_available,
    )


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


def _messages(turn: TurnAnswer) -> list[Message]:
    return [
        Message(role="user", content=turn.input["content"]),
        Message(role="assistant", content=turn.output["content"]),
    ]


def _limit(name: str, given: int | None, most: int) -> int:
    if given is None:
        return USUAL
    if given < 0:
        message = f"{name} is 0 or more"
        raise Unfit(message, param=name)
    return min(given, most)


ROUTES: Final[list[Route]] = [ask, read]

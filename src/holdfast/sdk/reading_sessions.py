"""Answers about the context of sessions, as the values that the embedded door returns."""

from holdfast.model.sessions import Message, SessionContext, Turn
from holdfast.sdk.reading import instant, to_found
from holdfast.wire.turns import ContextAnswer, TurnAnswer


def to_turn(answer: TurnAnswer) -> Turn:
    """Returns one exchange."""
    return Turn(
        id=answer.id,
        session_id=answer.session_id,
        number=answer.turn_number,
        input=Message(answer.input),
        output=Message(answer.output),
        created_at=instant(answer.created_at),
        metadata=answer.metadata or {},
        reasoning=answer.reasoning,
        version_before=answer.version_before,
        version_after=answer.version_after,
        state_before=answer.state_before,
        state_after=answer.state_after,
    )


def to_context(answer: ContextAnswer) -> SessionContext:
    """Returns what an agent needs to go on."""
    return SessionContext(
        state=answer.state,
        memories=[to_found(each) for each in answer.memories],
        recent_turns=[to_turn(turn) for turn in answer.recent_turns],
        average_relevance=answer.average_relevance,
        drift_warning=answer.drift_warning,
    )

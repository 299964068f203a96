"""Answers about sessions, as the values that the embedded door returns."""

from holdfast.model.sessions import (
    Lineage,
    Message,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    Version,
    VersionKind,
)
from holdfast.sdk.reading import instant, instant_or_none, to_found
from holdfast.wire.sessions import (
    DiffAnswer,
    LineageAnswer,
    RollbackAnswer,
    SessionAnswer,
    StateAnswer,
    VersionAnswer,
)
from holdfast.wire.turns import ContextAnswer, TurnAnswer


def to_session(answer: SessionAnswer) -> SessionInfo:
    """Returns a session; where it was forked from is in its metadata, too."""
    return SessionInfo(
        id=answer.id,
        agent_id=answer.agent_id,
        user_id=answer.user_id,
        metadata=answer.metadata or {},
        state=answer.state,
        version=answer.version,
        turn_count=answer.turn_count,
        memory_count=answer.memory_count,
        created_at=instant(answer.created_at),
        updated_at=instant(answer.updated_at),
        expires_at=instant_or_none(answer.ttl_expires_at),
        forked_from=answer.forked_from,
        forked_version=answer.forked_version,
    )


def to_state(answer: StateAnswer | RollbackAnswer) -> State:
    """Returns a state."""
    return State(
        session_id=answer.session_id,
        version=answer.version,
        state=answer.state,
        created_at=instant(answer.created_at),
        updated_at=instant(answer.updated_at),
        trace_id=answer.trace_id,
    )


def to_version(answer: VersionAnswer) -> Version:
    """Returns one version of a state."""
    return Version(
        number=answer.version,
        kind=VersionKind(answer.kind),
        state=answer.state,
        created_at=instant(answer.created_at),
        turn_count=answer.turn_count,
        target=answer.restored_from_version,
        reasoning=answer.reasoning,
        actor=answer.updated_by,
        trace_id=answer.trace_id,
    )


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


def to_diff(answer: DiffAnswer) -> StateDiff:
    """Returns what leads from one version to another."""
    return StateDiff(patch=answer.patch, text=answer.text)


def to_lineage(answer: LineageAnswer) -> Lineage:
    """Returns where a session comes from."""
    return Lineage(
        answer.session_id,
        answer.forked_from,
        answer.forked_version,
        answer.ancestors,
        [to_lineage(fork) for fork in answer.forks],
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

"""Sessions: conversations with state, every change of which can be taken back."""

from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from holdfast.errors import SessionNotFound, TurnNotFound
from holdfast.jsontext import to_text
from holdfast.model.marks import AtMost, Instead, Named
from holdfast.model.sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    Version,
)
from holdfast.operations.operation import Arguments, Operation, Paged, Work

MAX_TTL_SECONDS: Final = 30 * 24 * 3600

Order = Literal["asc", "desc"]
"""Oldest first, or newest first."""

_ONE: Final = "/v1/sessions/{session_id}"
_STATE: Final = f"{_ONE}/state"
_TURNS: Final = f"{_ONE}/turns"

_Term = Annotated[int, Meta(gt=0, le=MAX_TTL_SECONDS)]


class CreateSession(Operation[SessionInfo], post="/v1/sessions", status=201):
    """Makes a session, with version 0 of its state; the namespace too, if need be.

    With `ttl_seconds` it is gone after that time, at most 30 days; without, it stays until
    somebody ends it. An id of your own makes creating it twice an error.
    """

    agent_id: str
    _: KW_ONLY
    initial_state: dict[str, Any] | None = None
    user_id: str | None = None
    metadata: dict[str, Any] | None = None
    # A server may have a usual term, for those who say nothing.
    ttl_seconds: Annotated[_Term | None, Instead("never_expires")] = None
    session_id: str | None = None


class GetSession(Operation[SessionInfo], get=_ONE, of_moments=True):
    """Returns a session; raises `SessionNotFound`, also if its time is over."""

    session_id: str


class SessionChoice(Arguments):
    """Which sessions are meant: those that have all of this."""

    _: KW_ONLY
    agent_id: str | None = None
    user_id: str | None = None
    metadata: dict[str, Any] | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


class ListSessions(
    SessionChoice,
    Operation[list[SessionInfo]],
    get="/v1/sessions",
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(SessionNotFound,)),
    of_moments=True,
):
    """Returns sessions, newest first; `starting_after` is the id of the last one seen.

    `metadata` has to hold these values. Without `include_state`, the `state` of each is empty: it
    is neither read nor sent.
    """

    _: KW_ONLY
    starting_after: str | None = None
    limit: int | None = 20
    include_state: bool = True


class UpdateSession(Operation[SessionInfo], patch=_ONE):
    """Merges metadata at the top level, or starts a new term; the state stays as it is."""

    session_id: str
    _: KW_ONLY
    metadata: dict[str, Any] | None = None
    ttl_seconds: _Term | None = None


class DeleteSession(Operation[None], delete=_ONE, status=204):
    """Takes a session away; a restore of a snapshot that holds it brings it back."""

    session_id: str
    _: KW_ONLY
    reason: str | None = None


class ForkSession(Operation[SessionInfo], post=f"{_ONE}/fork", status=201, needs_body=False):
    """Makes a session that goes on from a version of this one, which stays as it is."""

    session_id: str
    version: int | None = None
    _: KW_ONLY
    agent_id: str | None = None
    include_turns: bool = False
    metadata: dict[str, Any] | None = None
    ttl_seconds: _Term | None = None


class GetLineage(Operation[Lineage], get=f"{_ONE}/lineage"):
    """Returns a session with what it was forked from, and what was forked from it."""

    session_id: str


class GetState(Operation[State], get=_STATE, of_moments=True):
    """Returns the state: the newest, or that of a version (a negative one counts back)."""

    session_id: str
    _: KW_ONLY
    version: int | None = None


class UpdateState(Operation[State], patch=_STATE):
    """Makes a version in which these keys have these values; other keys stay.

    With `expected_version`, only if that is still the newest; else raises `StateMoved`.
    """

    session_id: str
    state: dict[str, Any]
    _: KW_ONLY
    reasoning: str | None = None
    expected_version: int | None = None


class ReplaceState(Operation[State], put=_STATE):
    """Makes a version with this state and nothing else.

    With `expected_version`, only if that is still the newest; else raises `StateMoved`.
    """

    session_id: str
    state: dict[str, Any]
    _: KW_ONLY
    reasoning: str | None = None
    expected_version: int | None = None


class ListVersions(
    Operation[list[Version]],
    get=f"{_STATE}/history",
    under="data",
    paged=Paged("since_version", "number", usual=50, most=1000),
):
    """Returns the versions above `since_version`, oldest first; with None, all of them."""

    session_id: str
    _: KW_ONLY
    since_version: int = -1
    limit: int | None = 50
    include_state: bool = True


class CompareVersions(Operation[StateDiff], get=f"{_ONE}/diff", work=Work.COSTLY):
    """Returns what leads from one version to another, or to the newest.

    A negative number counts from the newest. A list or an object of which more than 10,000 parts
    differ is replaced as a whole, and the text says so.
    """

    session_id: str
    old: Annotated[int, Named("from")]
    new: Annotated[int | None, Named("to")] = None


class RollbackState(Operation[State], post=f"{_STATE}/rollback"):
    """Makes a version with the state of an earlier one; those between stay in the history.

    A negative version counts from the newest. With `conversation`, the turns go back to where they
    were then. With `expected_version` and `expected_turns`, only if that is still the newest and
    there are still so many turns; else raises `StateMoved` or `ConversationMoved`.
    """

    session_id: str
    version: int
    _: KW_ONLY
    reason: str | None = None
    conversation: bool = False
    expected_version: int | None = None
    expected_turns: int | None = None


class AddTurn(Operation[Turn], post=_TURNS, status=201):
    """Adds an exchange to the conversation: text, objects with a `type` and `content`, or anything.

    It makes a version only if `state_after` is given and differs from the state now, and from
    `state_before` if that is given. The turn keeps both as they are given.
    """

    session_id: str
    input: Any
    output: Any
    _: KW_ONLY
    metadata: dict[str, Any] | None = None
    reasoning: str | None = None
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None


class ToolCall(Arguments):
    """A call of a tool, with what it returned: what a turn is made of."""

    session_id: str
    name: str
    _: KW_ONLY
    arguments: dict[str, Any] | None = None
    output: Any = None
    call_id: str | None = None
    reasoning: str | None = None

    def turn(self) -> AddTurn:
        """Returns the operation that adds it."""
        about = {"name": self.name, "arguments": self.arguments or {}, "id": self.call_id}
        return AddTurn(
            self.session_id,
            {"type": "tool_call", "content": self.name, "tool_metadata": about},
            {"type": "tool_response", "content": to_text(self.output), "output": self.output},
            reasoning=self.reasoning,
        )


class GetTurn(Operation[Turn], get=f"{_TURNS}/{{turn_id}}"):
    """Returns a turn of the conversation as it stands; raises `TurnNotFound`."""

    session_id: str
    turn_id: str
    _: KW_ONLY
    include_state: bool = False


class GetContext(
    Operation[SessionContext], post=f"{_ONE}/context", needs_body=False, is_reading=True
):
    """Returns the state, the memories that have to do with a question, and the last turns.

    Without a question, the newest memories. Turns come newest first.
    """

    session_id: str
    query: str | None = None
    _: KW_ONLY
    memory_limit: Annotated[int, Meta(ge=0), AtMost(200)] = 5
    turn_limit: Annotated[int, Meta(ge=0), AtMost(100)] = 5


class ListTurns(
    Operation[list[Turn]],
    get=_TURNS,
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(TurnNotFound,)),
    of_moments=True,
):
    """Returns turns, newest first, or with `order="asc"` oldest first.

    With `include_state`, each with the states before and after it; a snapshot shows none.
    """

    session_id: str
    _: KW_ONLY
    limit: int | None = 20
    starting_after: str | None = None
    order: Order = "desc"
    include_state: bool = False

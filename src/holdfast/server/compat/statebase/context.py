"""The context of a session as StateBase's clients ask for it: by GET, too, and with messages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, structs

from holdfast.model.sessions import SessionContext, Turn
from holdfast.operations.operation import Operation
from holdfast.operations.sessions import GetContext, Order
from holdfast.server.compat.statebase.sessions import VALUES
from holdfast.server.dialects import Answered, Dialect, Exchange, Speech


class ChatMessage(Struct, kw_only=True):
    """One side of a turn, as chat models take it."""

    role: str
    content: str


def _hear_context(exchange: Exchange) -> None:
    said = exchange.said
    if said.get("turn_limit") is None:
        said["turn_limit"] = said.get("max_turns")
    if said.get("include_memories") is False:
        said["memory_limit"] = 0
    if said.get("include_turns") is False:
        said["turn_limit"] = 0


def _in_order(exchange: Exchange) -> SessionContext:
    made: SessionContext = exchange.made
    if exchange.said.get("turn_order") != "asc":
        return made
    return structs.replace(made, recent_turns=made.recent_turns[::-1])


def _messages(exchange: Exchange) -> list[ChatMessage]:
    """Returns the turns for a model, oldest first."""
    return [
        ChatMessage(role=role, content=side["content"])
        for turn in sorted(exchange.sent.recent_turns, key=lambda turn: turn.turn_number)
        for role, side in (("user", turn.input), ("assistant", turn.output))
    ]


_CONTEXT: Final = Speech(
    takes={"turn_order": Order},
    shows=_in_order,
    tells={
        "turns": Answered(list[Dialect(VALUES).shape_of(Turn).wire], lambda x: x.sent.recent_turns),
        "messages": Answered(list[ChatMessage], _messages),
    },
)

OPERATIONS: Final[Mapping[type[Operation[Any]], list[Speech]]] = {
    GetContext: [
        _CONTEXT,
        replace(
            _CONTEXT,
            method="GET",
            name="get_context_by_get",
            takes={
                **_CONTEXT.takes,
                "include_memories": bool,
                "include_turns": bool,
                "max_turns": Annotated[int, Meta(ge=0)],
            },
            hears=_hear_context,
        ),
    ],
}

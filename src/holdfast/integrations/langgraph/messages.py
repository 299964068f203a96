"""Reads messages quicker than LangGraph's serializer, and has that read all else.

For each message it imports a module by name, and looks whether it may: an eighth of what a
checkpoint takes to be read. Its rules allow these classes always, and they are known here. A
serializer that is not exactly LangGraph's own reads by itself.
"""

from collections.abc import Callable
from typing import Any, Final

import ormsgpack  # What LangGraph's serializer is made of, and comes with it.
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import EXT_PYDANTIC_V2, JsonPlusSerializer

from holdfast.integrations.langgraph.records import MSGPACK, Serializer, Typed

CLASSES: Final[dict[tuple[str, str], Callable[..., Any]]] = {
    (each.__module__, each.__name__): each
    for each in (AIMessage, HumanMessage, SystemMessage, ToolMessage)
}
"""Messages, by what they are stored as."""

_OPTION: Final = ormsgpack.OPT_NON_STR_KEYS


def reader_of(serde: Serializer) -> Serializer:
    """Returns a serializer that reads what another one has made, and makes the same."""
    usual = getattr(serde, "_unpack_ext_hook", None)
    is_other = getattr(serde, "_custom_unpack_ext_hook", True)
    if type(serde) is not JsonPlusSerializer or usual is None or is_other:
        return serde
    return _Reader(serde, usual)


class _Reader:
    def __init__(self, serde: Serializer, usual: Callable[[int, bytes], Any]) -> None:
        self.dumps_typed = serde.dumps_typed
        self._loads_typed, self._usual = serde.loads_typed, usual

    def loads_typed(self, data: Typed) -> Any:
        """Returns the value of such bytes."""
        kind, packed = data
        if kind != MSGPACK:
            return self._loads_typed(data)
        return ormsgpack.unpackb(packed, ext_hook=self._object_of, option=_OPTION)

    def _object_of(self, code: int, packed: bytes) -> Any:
        if code == EXT_PYDANTIC_V2:
            try:
                module, name, fields, _ = ormsgpack.unpackb(
                    packed, ext_hook=self._object_of, option=_OPTION
                )
                return CLASSES[module, name](**fields)
            except Exception:  # noqa: BLE001 - whatever it is, LangGraph says what comes of it
                return self._usual(code, packed)
        return self._usual(code, packed)

"""Entities, as StateBase's clients know them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from holdfast.model.entities import Entity
from holdfast.operations.memories import ListEntities
from holdfast.operations.operation import Operation
from holdfast.server.dialects import Answered, Speech, always

OPERATIONS: Final[Mapping[type[Operation[Any]], Sequence[Speech]]] = {
    ListEntities: [Speech(tells={"object": always("list")})]
}
VALUES: Final[Mapping[type, Mapping[str, Answered]]] = {Entity: {"object": always("entity")}}

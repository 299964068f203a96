"""Entities: what a session knows of things."""

from dataclasses import KW_ONLY
from typing import Any

from holdfast.errors import EntityNotFound
from holdfast.model.entities import Entity
from holdfast.operations.operation import Operation, Paged


class CreateEntity(Operation[Entity], post="/v1/entities", status=201):
    """Notes a thing; raises `EntityExists` if the session knows it already."""

    session_id: str
    _: KW_ONLY
    entity_type: str
    entity_id: str
    """What its own system calls it."""
    attributes: dict[str, Any] | None = None


class GetEntity(Operation[Entity], get="/v1/entities/{row_id}"):
    """Returns an entity by the id that `create` gave it; raises `EntityNotFound`."""

    row_id: str


class ListEntities(
    Operation[list[Entity]],
    get="/v1/entities",
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(EntityNotFound,)),
):
    """Returns entities, newest first; `starting_after` continues below one, by its id."""

    _: KW_ONLY
    session_id: str | None = None
    entity_type: str | None = None
    limit: int = 20
    starting_after: str | None = None


class UpdateEntity(Operation[Entity], put="/v1/entities/{row_id}"):
    """Replaces all that is known of a thing."""

    row_id: str
    attributes: dict[str, Any]


class DeleteEntity(Operation[None], delete="/v1/entities/{row_id}", status=204):
    """Forgets a thing; `recover` brings it back for a while."""

    row_id: str

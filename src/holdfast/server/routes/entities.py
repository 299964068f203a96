"""Entities: what a session knows of things."""

from typing import Final

from holdfast.engine.namespace import Namespace
from holdfast.errors import EntityNotFound
from holdfast.model.entities import Entity
from holdfast.server.paging import page_size, paged
from holdfast.server.routing import Route, delete, get, post, put
from holdfast.server.times import shown
from holdfast.wire.entities import EntityAnswer, EntityList, EntityPatch, EntityRequest

LISTED, MOST_LISTED = 20, 100
_ONE: Final = "/v1/entities/{row_id}"


@post("/v1/entities", status=201)
def create(agent: Namespace, data: EntityRequest) -> EntityAnswer:
    """Notes a thing; one of its type and id in a session."""
    made = agent.entities.create(
        data.session_id,
        entity_type=data.entity_type,
        entity_id=data.entity_id,
        attributes=data.attributes,
    )
    return to_answer(made)


@get("/v1/entities")
def list_(
    agent: Namespace,
    session_id: str | None = None,
    entity_type: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> EntityList:
    """Lists entities, newest first."""

    def fetch(most: int) -> list[Entity]:
        return agent.entities.list(
            session_id=session_id,
            entity_type=entity_type,
            limit=most,
            starting_after=starting_after or None,
        )

    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    found, has_more = paged(fetch, size, cursor=starting_after, unknown=EntityNotFound)
    return EntityList(data=[to_answer(entity) for entity in found], has_more=has_more)


@get(_ONE)
def show(agent: Namespace, row_id: str) -> EntityAnswer:
    """Returns one entity."""
    return to_answer(agent.entities.get(row_id))


@put(_ONE)
def update(agent: Namespace, row_id: str, data: EntityPatch) -> EntityAnswer:
    """Replaces all that is known of a thing."""
    return to_answer(agent.entities.update(row_id, data.attributes))


@delete(_ONE, status=204)
def forget(agent: Namespace, row_id: str) -> None:
    """Forgets a thing."""
    agent.entities.delete(row_id)


def to_answer(entity: Entity) -> EntityAnswer:
    """Returns an entity as it stands on the wire."""
    return EntityAnswer(
        id=entity.id,
        session_id=entity.session_id,
        entity_type=entity.entity_type,
        entity_id=entity.entity_id,
        attributes=entity.attributes,
        version=entity.version,
        created_at=shown(entity.created_at),
        updated_at=shown(entity.updated_at),
    )


ROUTES: Final[list[Route]] = [create, list_, show, update, forget]

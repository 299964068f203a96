"""Requests and answers about entities."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class EntityRequest(msgspec.Struct, kw_only=True):
    """A thing that a session is to know of."""

    session_id: str
    entity_type: str
    entity_id: str
    """What its own system calls it."""
    attributes: dict[str, Any] | None = None


class EntityPatch(msgspec.Struct, kw_only=True):
    """All that is known of a thing from now on."""

    attributes: dict[str, Any]


class EntityAnswer(msgspec.Struct, kw_only=True):
    """A thing that a session knows of."""

    object: str = "entity"
    id: str
    session_id: str
    entity_type: str
    entity_id: str
    attributes: dict[str, Any]
    version: int
    created_at: Instant
    updated_at: Instant


class EntityList(msgspec.Struct, kw_only=True):
    """Entities, newest first."""

    object: str = "list"
    data: list[EntityAnswer]
    has_more: bool

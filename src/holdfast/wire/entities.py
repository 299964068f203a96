"""Answers about entities, where they stand in those of other topics."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class EntityAnswer(msgspec.Struct, kw_only=True):
    """A thing that a session knows of."""

    id: str
    session_id: str
    entity_type: str
    entity_id: str
    attributes: dict[str, Any]
    version: int
    created_at: Instant
    updated_at: Instant

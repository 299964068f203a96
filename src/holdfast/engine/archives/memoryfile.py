"""Memories in an archive: one member for each, as JSON.

Read, everything is an enemy's until it is the very text that we would have written.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from holdfast.engine.archives.archivefile import Source
from holdfast.engine.archives.jsontext import check_json
from holdfast.engine.archives.tarread import Member
from holdfast.engine.core.embedding import MAX_VECTOR_BYTES, check_vector
from holdfast.engine.core.limits import Limits
from holdfast.engine.memory.fields import (
    check_content,
    check_metadata,
    check_name_of,
    check_tags,
    terms_of,
)
from holdfast.engine.memory.plane import row_of
from holdfast.engine.objects.content import ChunkSource
from holdfast.engine.objects.content import Source as PlaneSource
from holdfast.engine.planes.forms import memory_of
from holdfast.engine.sessions.lifecycle import check_session_id
from holdfast.errors import Invalid, TooLarge, UnsafeArchive
from holdfast.ids import NamespaceId, ObjectId
from holdfast.instants import LAST_US, from_us, to_us
from holdfast.model.basics import Size
from holdfast.model.memories import MemoryRow
from holdfast.tree import iterate

MEMORY_NAME: Final = b"memories/%d.json"

_MOST_BYTES: Final = 4 * MAX_VECTOR_BYTES
"""Of one member: a vector takes a third more as text, and the rest is less than one vector."""

_Instant = Annotated[int, msgspec.Meta(ge=0, le=LAST_US)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=2**53)]

_NOWHERE: Final = NamespaceId(0)


class MemoryMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the member of a memory holds."""

    id: str
    content: str
    type: str
    tags: list[str]
    metadata: msgspec.Raw
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    is_searchable: bool
    version: _Number
    created_us: _Instant
    updated_us: _Instant
    embedding: bytes | None


def memory_members(source: PlaneSource, root: ObjectId) -> Iterator[bytes]:
    """Yields the content of the member of each memory, by id."""
    for key, data in iterate(source, root):
        yield write_memory(source, key, data)


def write_memory(
    source: ChunkSource, key: bytes, data: bytes, *, has_embedding: bool = True
) -> bytes:
    """Returns the content of the member of the memory that an entry is."""
    row = row_of(source, _NOWHERE, key, memory_of(data))
    return msgspec.json.encode(
        MemoryMember(
            id=row.id,
            content=row.content,
            type=row.type,
            tags=msgspec.json.decode(row.tags),
            metadata=msgspec.Raw(row.metadata.encode()),
            session_id=row.session_id,
            user_id=row.user_id,
            agent_id=row.agent_id,
            is_searchable=row.is_searchable,
            version=row.version,
            created_us=to_us(row.created_at),
            updated_us=to_us(row.updated_at),
            embedding=row.embedding if has_embedding else None,
        )
    )


def read_memory(source: Source, member: Member, limits: Limits) -> MemoryRow:
    """Returns a memory of an archive; raises unless it is one, to the last byte."""
    if member.size > _MOST_BYTES:
        raise TooLarge(f"a memory takes {_MOST_BYTES} bytes at the most; one in the archive more")
    return parse_memory(source.read(member.at, member.size), limits, name=member.name)


def parse_memory(data: bytes, limits: Limits, *, name: bytes) -> MemoryRow:
    """Returns the memory of a member's content; raises unless it is one, to the last byte."""
    try:
        told = msgspec.json.decode(data, type=MemoryMember)
        if msgspec.json.encode(told) != data:
            raise UnsafeArchive("it is not written as we write it", member=name)
        return _checked(told, limits)
    except (ValueError, RecursionError, Invalid) as exc:
        raise UnsafeArchive(f"it holds no memory: {exc}", member=name) from exc


def _checked(told: MemoryMember, limits: Limits) -> MemoryRow:
    check_session_id(told.id)
    check_content(told.content)
    check_json(bytes(told.metadata), most=limits.decoded_values)
    metadata = check_metadata(msgspec.json.decode(told.metadata, type=dict[str, object]))
    if metadata.encode() != bytes(told.metadata) or len({*told.tags}) != len(told.tags):
        raise UnsafeArchive("it holds JSON that is not written as we write it")
    if told.embedding is not None:
        check_vector(told.embedding)
    row = MemoryRow(
        namespace_id=_NOWHERE,
        id=told.id,
        session_id=check_name_of("session", told.session_id),
        user_id=check_name_of("user", told.user_id),
        agent_id=check_name_of("agent", told.agent_id),
        type=check_name_of("type", told.type) or "",
        tags=check_tags(told.tags),
        metadata=metadata,
        is_searchable=told.is_searchable,
        version=told.version,
        created_at=from_us(told.created_us),
        updated_at=from_us(told.updated_us),
        terms="",
        content=told.content,
        embedding=told.embedding,
    )
    return msgspec.structs.replace(row, terms=terms_of(row))


class SurveyedMemories:
    """The memories of an archive, as they are met."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._ids: set[str] = set()
        self.found: list[Member] = []
        self.size = Size()

    def take(self, member: Member) -> bool:
        """Takes the next memory in; False for what is none."""
        if member.name != MEMORY_NAME % len(self.found):
            return False
        memory = read_memory(self._source, member, self._limits)
        if memory.id in self._ids:
            raise UnsafeArchive("it holds the same memory twice", member=member.name)
        self._ids.add(memory.id)
        self.found.append(member)
        self.size += Size(1, len(memory.content.encode()))
        return True

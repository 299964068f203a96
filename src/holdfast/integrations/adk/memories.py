"""Memories of ADK as memories of a namespace: what was said, found again by its words.

Each text of an event is one memory, or several if it is longer than a memory may be; what is no
text is not remembered. An event is remembered once, however often its session is added. Should two
who add the same at the same time both remember it, a search tells it once.

A memory belongs to its user. Its app and its session are tags, hashed: as words they would be found
by whoever asks for one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions import Session
from google.genai import types
from pydantic_core import to_jsonable_python

from holdfast import Memory
from holdfast.errors import MemoryNotFound
from holdfast.integrations.adk.names import joined
from holdfast.integrations.calling import Place, aside, within

LONGEST: Final = 10_000
"""Characters of one memory."""

THRESHOLD: Final = 0.2
"""The least score of what is found: about one of four words. Models sort out what is of no use."""


class _Said(NamedTuple):
    """Something to remember."""

    text: str
    event_id: str
    part: int
    """Which part of the event it is: of a long one there are several."""
    about: dict[str, Any]


class HoldfastMemoryService(BaseMemoryService):
    """Memories in a namespace, whose snapshots hold them beside its files."""

    def __init__(self, agent: Place, *, threshold: float = THRESHOLD, limit: int = 10) -> None:
        self._memory, self._store = within(agent).memory, within(agent).store
        self._threshold, self._limit = threshold, limit

    async def add_session_to_memory(self, session: Session) -> None:
        """Remembers what was said in a session, and was not remembered yet."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers what was said in some events, and was not remembered yet."""
        about = {"custom_metadata": dict(custom_metadata)} if custom_metadata else {}
        said = [each for event in events for each in _said_in(event, about)]
        await aside(self._add, app_name, user_id, session_id or "", said)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remembers what is given; one with an `id` once."""
        said = [each for entry in memories for each in _said_by(entry, custom_metadata or {})]
        await aside(self._add, app_name, user_id, "", said)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """Returns what a user's memories say to a question, best first."""
        found = await aside(
            self._memory.search,
            query,
            user_id=user_id,
            tags=[_tag("app", app_name)],
            threshold=self._threshold,
            limit=2 * self._limit,
        )
        once: dict[tuple[str, int], Memory] = {}
        for match in found:
            once.setdefault(_identity(match.memory), match.memory)
        best = list(once.values())[: self._limit]
        return SearchMemoryResponse(memories=[_to_entry(memory) for memory in best])

    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forgets one memory of a user, and does not remember its event again."""
        if memory_id:
            await aside(self._delete, app_name, user_id, memory_id)

    # The rest is done in threads.

    def _add(self, app_name: str, user_id: str, session_id: str, said: list[_Said]) -> None:
        if not said:
            return
        tags = [_tag("app", app_name), _tag("session", app_name, session_id)]
        listed = self._memory.list(user_id=user_id, tags=tags[1:], limit=None)
        there = {_identity(memory) for memory in listed}
        pairs = [(_forgotten(app_name), joined(user_id, each.event_id)) for each in said]
        for each, is_forgotten in zip(said, self._store.get_many(pairs), strict=True):
            if is_forgotten or (each.event_id, each.part) in there:
                continue
            there.add((each.event_id, each.part))
            about = {**each.about, "event_id": each.event_id, "part": each.part}
            about |= {"app_name": app_name, "session_id": session_id}
            self._memory.add(each.text, user_id=user_id, tags=tags, metadata=about)

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        with suppress(MemoryNotFound):
            memory = self._memory.get(memory_id)
            if memory.user_id != user_id or _tag("app", app_name) not in memory.tags:
                return
            event_id = memory.metadata.get("event_id")
            if event_id:
                # First: what is forgotten must not come back, whatever happens in between.
                self._store.set(_forgotten(app_name), joined(user_id, event_id), value=True)
            self._memory.delete(memory_id)


def _forgotten(app_name: str) -> str:
    return f"adk/{joined(app_name)}/forgotten"


def _tag(*names: str) -> str:
    return blake2b(joined(*names).encode(), digest_size=12).hexdigest()


def _said_in(event: Event, about: Mapping[str, Any]) -> Iterator[_Said]:
    text = _text_of(event.content)
    role = event.content.role if event.content is not None else None
    known = {**about, "author": event.author, "role": role, "timestamp": event.timestamp}
    yield from _cut(text, event.id, known)


def _said_by(entry: MemoryEntry, custom_metadata: Mapping[str, object]) -> Iterator[_Said]:
    known: dict[str, Any] = {
        "author": entry.author,
        "role": entry.content.role,
        "told_at": entry.timestamp,
        "custom_metadata": {**custom_metadata, **entry.custom_metadata},
    }
    yield from _cut(_text_of(entry.content), entry.id or "", known)


def _cut(text: str, event_id: str, about: dict[str, Any]) -> Iterator[_Said]:
    """Yields the parts of a text; what has no id is known by what it says."""
    told = to_jsonable_python(about, serialize_unknown=True)
    known_by = event_id or _tag("text", text)
    for part, start in enumerate(range(0, len(text), LONGEST)):
        piece = text[start : start + LONGEST]
        if piece.strip():
            yield _Said(piece, known_by, part, told)


def _text_of(content: types.Content | None) -> str:
    parts = (content.parts if content is not None else None) or []
    # A memory holds no NUL, which is no part of anything that is said.
    return " ".join(part.text for part in parts if part.text).replace("\0", " ")


def _identity(memory: Memory) -> tuple[str, int]:
    return memory.metadata.get("event_id") or memory.id, memory.metadata.get("part", 0)


def _to_entry(memory: Memory) -> MemoryEntry:
    known = memory.metadata
    at, told_at = known.get("timestamp"), known.get("told_at")
    if at is not None:
        told_at = datetime.fromtimestamp(at, UTC).isoformat()
    return MemoryEntry(
        id=memory.id,
        author=known.get("author"),
        timestamp=told_at or memory.created_at.isoformat(),
        content=types.Content(role=known.get("role"), parts=[types.Part(text=memory.content)]),
        custom_metadata=known.get("custom_metadata", {}),
    )

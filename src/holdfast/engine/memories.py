"""What an agent remembers: added, found again, changed and taken back.

A memory is a sentence or two, with a type, tags and metadata. It is found as soon as the call
that added it returns. Memories are a plane of the snapshot, beside the rows that are searched
(`memory/plane.py`); rolling a session back leaves them alone, and a session that expires does not
take its memories along. Every change leaves a trace in its own transaction. How they are found is
in `memory/recall.py`, how they are ranked in `memory/ranking.py`.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.embedding import OBVIOUS
from holdfast.engine.core.limits import check_limit, check_room
from holdfast.engine.journal.chain import append
from holdfast.engine.memory import recall
from holdfast.engine.memory.fields import (
    check_content,
    check_metadata,
    check_name_of,
    check_tags,
    check_threshold,
    terms_of,
)
from holdfast.engine.memory.plane import looking, note, ready
from holdfast.engine.memory.recall import seen_by
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import lifecycle
from holdfast.engine.sessions.finding import get_row
from holdfast.errors import InvalidValue, MemoryNotFound, shorten
from holdfast.model.basics import Head, Size
from holdfast.model.memories import FoundMemory, Memory, MemoryFilter, MemoryRow
from holdfast.model.traces import Trace

MemoryList = list[Memory]
FoundList = list[FoundMemory]
"""`list` is the name of a method below."""


class Memories(Part):
    """The memories of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def add(
        self,
        content: str,
        *,
        type: str = "general",  # noqa: A002 - the word that clients know it by
        session_id: str | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
        embed: bool = True,
        user_id: str | None = None,
        agent_id: str | None = None,
        actor: str | None = None,
    ) -> Memory:
        """Remembers something; without a session, for all of them.

        What belongs to a session belongs to its user and agent. With `embed=False`, `search`
        does not find it.
        """
        context, now = self._handle.context, self._handle.context.clock()
        check_content(content)
        memory = MemoryRow(
            namespace_id=self._handle.empty_head().namespace_id,
            id=context.ids.memory(),
            session_id=check_name_of("session", session_id),
            user_id=check_name_of("user", user_id),
            agent_id=check_name_of("agent", agent_id),
            type=check_name_of("type", type) or "general",
            tags=check_tags(tags),
            metadata=check_metadata(metadata),
            is_searchable=embed,
            version=1,
            created_at=now,
            updated_at=now,
            terms="",
            content=content,
            embedding=self._embed(content) if embed else None,
        )
        memory = replace(memory, terms=terms_of(memory))
        if session_id is not None:
            # Outside: a fork whose sessions have no rows yet writes them in its own transaction.
            lifecycle.get(self._handle, session_id)
        with context.work() as transaction:
            head = self._handle.lock_or_create(transaction)
            memory = replace(memory, namespace_id=head.namespace_id)
            memory = owned(self._handle, transaction, memory)
            self._check_room(transaction, memory.size_bytes)
            transaction.add_memory(memory)
            self._note(transaction, head, None, memory)
            self._trace(transaction, head, "memory.created", memory, _told(memory), actor=actor)
        return recall.to_memory(memory)

    def get(self, memory_id: str) -> Memory:
        """Returns a memory by its id; raises `MemoryNotFound`."""
        return recall.to_memory(self._find(memory_id))

    def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        type: str | None = None,  # noqa: A002 - as in `add`
        tags: Iterable[str] | None = None,
        metadata: dict[str, Any] | None = None,
        actor: str | None = None,
    ) -> Memory:
        """Changes what is given: tags replace the old ones, metadata is merged key by key."""
        # Between two snapshots nothing keeps what it said before.
        self._handle.context.check_takes_away("change a memory")
        if content is not None:
            check_content(content)
        more = msgspec.json.decode(check_metadata(metadata))
        new_tags = None if tags is None else check_tags(tags)
        new_type = check_name_of("type", type)
        old = self._find(memory_id)
        embedding = self._embed(content) if content and old.is_searchable else None
        with self._handle.context.work() as transaction:
            head, old = self._lock(transaction, memory_id)
            known = msgspec.json.decode(old.metadata)
            memory = replace(
                old,
                content=old.content if content is None else content,
                # The vector of what it said before would find it for what it says no more.
                embedding=old.embedding if content is None else embedding,
                type=new_type or old.type,
                tags=old.tags if new_tags is None else new_tags,
                metadata=check_metadata({**known, **more}),
                version=old.version + 1,
                updated_at=self._handle.context.clock(),
            )
            memory = replace(memory, terms=terms_of(memory))
            self._check_room(transaction, memory.size_bytes - old.size_bytes)
            transaction.set_memory(memory)
            self._note(transaction, head, old, memory)
            details = {"version": memory.version, "content_changed": memory.content != old.content}
            self._trace(transaction, head, "memory.updated", memory, details, actor=actor)
        return recall.to_memory(memory)

    def delete(self, memory_id: str, *, actor: str | None = None) -> None:
        """Forgets a memory; `recover` brings it back for a while."""
        self._handle.context.check_takes_away("forget a memory")
        with self._handle.context.work() as transaction:
            head, memory = self._lock(transaction, memory_id)
            now = self._handle.context.clock()
            transaction.delete_memory(head.namespace_id, memory.number, now=now)
            self._note(transaction, head, memory, None)
            self._trace(transaction, head, "memory.deleted", memory, {}, actor=actor)

    def recover(self, memory_id: str, *, actor: str | None = None) -> Memory:
        """Brings a deleted memory back during the grace period."""
        with self._handle.context.work() as transaction:
            head = self._handle.lock(transaction)
            if not transaction.recover_memory(head.namespace_id, memory_id):
                raise MemoryNotFound(memory_id)
            head, memory = self._lock(transaction, memory_id)
            self._note(transaction, head, None, memory)
            self._trace(transaction, head, "memory.recovered", memory, {}, actor=actor)
        return recall.to_memory(memory)

    def list(
        self,
        *,
        session_id: str | None = None,
        scope: str | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        limit: int = 20,
        starting_after: str | None = None,
    ) -> MemoryList:
        """Returns memories, newest first; `starting_after` continues below one, by its id.

        Which ones a session sees is said at `search`.
        """
        check_limit(limit)
        chosen = choose(
            self._handle,
            session_id=session_id,
            scope=scope,
            types=types,
            tags=tags,
            user_id=user_id,
            agent_id=agent_id,
        )
        before = None if starting_after is None else self._find(starting_after)
        return recall.newest_of(self._handle, chosen, most=limit, before=before)

    def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        scope: str | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        threshold: float = OBVIOUS,
        limit: int = 10,
        user_id: str | None = None,
    ) -> FoundList:
        """Returns what answers a question, best first: obvious matches, unless `threshold` is less.

        With a session: its own memories, those of its user, and what belongs to nobody; with
        `scope`, one of the three: `session`, `user`, `global`. `tags` and `types` ask for any of
        them, `user_id` for one user's alone.
        """
        check_limit(limit)
        check_threshold(threshold)
        chosen = choose(
            self._handle,
            session_id=session_id,
            scope=scope,
            types=types,
            tags=tags,
            user_id=user_id,
        )
        return recall.search(self._handle, query, chosen, threshold=threshold, most=limit)

    def _find(self, memory_id: str) -> MemoryRow:
        with looking(self._handle) as (transaction, head):
            found = head and transaction.find_memory(head.namespace_id, memory_id)
        if found is None:
            raise MemoryNotFound(memory_id)
        return found

    def _lock(self, transaction: Transaction, memory_id: str) -> tuple[Head, MemoryRow]:
        head = self._handle.find_and_lock(transaction)
        if head is not None:
            ready(transaction, self._handle, head)
        found = head and transaction.find_memory(head.namespace_id, memory_id)
        if head is None or found is None:
            raise MemoryNotFound(memory_id)
        return head, found

    def _embed(self, content: str) -> bytes | None:
        embedder = self._handle.context.embedder
        return None if embedder is None else embedder.embed(content)

    def _check_room(self, transaction: Transaction, needed_bytes: int) -> None:
        context = self._handle.context
        if needed_bytes > 0:
            check_room(
                transaction,
                self._handle.tenant_id,
                needed_bytes=needed_bytes,
                limits=context.limits,
                places=(context.catalog,),
            )

    def _note(
        self,
        transaction: Transaction,
        head: Head,
        old: MemoryRow | None,
        new: MemoryRow | None,
    ) -> None:
        """Says in the transaction of the change what the next snapshot has to look at."""
        was = {} if old is None else {old.id: old}
        changes = {**dict.fromkeys(was), **({} if new is None else {new.id: new})}
        gone, come = _size(old), _size(new)
        more = Size(come.entries - gone.entries, come.bytes - gone.bytes)
        note(transaction, self._handle, head, changes, old=was, more=more)

    def _trace(
        self,
        transaction: Transaction,
        head: Head,
        action: str,
        memory: MemoryRow,
        details: dict[str, Any],
        *,
        actor: str | None,
    ) -> None:
        """Says in the transaction of the change what was done, and by whom."""
        trace = Trace(
            action=action,
            session_id=memory.session_id,
            user_id=memory.user_id,
            agent_id=memory.agent_id,
            resource_type="memory",
            resource_id=memory.id,
            actor=actor,
            details=details,
        )
        append(transaction, self._handle.context, head, trace)


def _size(memory: MemoryRow | None) -> Size:
    return Size() if memory is None else Size(1, len(memory.content.encode()))


def _told(memory: MemoryRow) -> dict[str, Any]:
    """Returns what the trace of a new memory says about it, and not what it says itself.

    No trace is ever deleted: what it repeated would outlive the memory.
    """
    return {
        "type": memory.type,
        "tags": msgspec.json.decode(memory.tags),
        "embedded": memory.is_searchable,
    }


SCOPES: Final = ("session", "user", "global")


def choose(
    handle: Handle,
    *,
    session_id: str | None,
    scope: str | None,
    types: Iterable[str] | None,
    tags: Iterable[str] | None,
    user_id: str | None,
    agent_id: str | None = None,
) -> MemoryFilter:
    """Returns which memories are asked for; raises `SessionNotFound` for an unknown session."""
    if scope is not None and scope not in SCOPES:
        message = f"{shorten(scope)} is no scope: there are {', '.join(SCOPES)}"
        raise InvalidValue(message)
    chosen = MemoryFilter(scope=scope or "all", owner_id=user_id)
    if session_id is not None:
        session, _ = lifecycle.get(handle, session_id)
        chosen = seen_by(session.id, session.user_id, scope=scope or "visible")
    elif scope == "session":
        raise InvalidValue("the scope 'session' needs the session's id")
    elif scope == "user" and user_id is None:
        raise InvalidValue("the scope 'user' needs the id of a session or a user")
    return replace(
        chosen,
        user_id=user_id,
        agent_id=agent_id,
        types=_listed("types", types),
        tags=_listed("tags", tags),
    )


def owned(handle: Handle, transaction: Transaction, memory: MemoryRow) -> MemoryRow:
    """Returns a memory that belongs to whom its session belongs to."""
    if memory.session_id is None:
        return memory
    session, _ = get_row(transaction, handle, memory.session_id, now=handle.context.clock())
    if session.user_id is not None and memory.user_id not in (None, session.user_id):
        # It would be seen by the session's user, who is somebody else.
        raise InvalidValue("the session belongs to another user")
    return replace(
        memory,
        user_id=memory.user_id or session.user_id,
        agent_id=memory.agent_id or session.agent_id,
    )


def _listed(kind: str, given: Iterable[str] | None) -> tuple[str, ...] | None:
    if isinstance(given, str):
        message = f"{kind} are a list of text, not one text"
        raise InvalidValue(message)
    return None if given is None else tuple(given)

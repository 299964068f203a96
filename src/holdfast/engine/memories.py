"""What an agent remembers: added, found again, changed and taken back.

A memory is a sentence or two, with a type, tags and metadata. It is found as soon as the call
that added it returns. Memories are a plane of the snapshot, beside the rows that are searched
(`memory/plane.py`); rolling a session back leaves them alone, and a session that expires does not
take its memories along. Every change leaves a trace in its own transaction. They are found and
ranked in `memory/recall.py`.
"""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.journal.chain import append
from holdfast.engine.memory import recall
from holdfast.engine.memory.fields import (
    check_content,
    check_metadata,
    check_name_of,
    check_tags,
    terms_of,
)
from holdfast.engine.memory.plane import looking, note, ready
from holdfast.engine.memory.recall import seen_by
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import lifecycle
from holdfast.engine.sessions.bearers import find_times_of_others
from holdfast.engine.sessions.finding import get_row
from holdfast.errors import InvalidValue, MemoryNotFound, shorten
from holdfast.model.basics import Head, Size
from holdfast.model.memories import Memory, MemoryFilter, MemoryMatch, MemoryRow
from holdfast.model.traces import Trace
from holdfast.operations.checks import checked
from holdfast.operations.memories import (
    AddMemory,
    DeleteMemory,
    GetMemory,
    ListMemories,
    SearchMemories,
    UpdateMemory,
)
from holdfast.operations.operation import does

MemoryList = list[Memory]
MatchList = list[MemoryMatch]
"""`list` is the name of a method below."""


@checked
class Memories(Part):
    """The memories of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @does(AddMemory)
    def add(self, wanted: AddMemory) -> Memory:
        context, now = self._handle.context, self._handle.context.clock()
        content, session_id = wanted.content, wanted.session_id
        check_content(content)
        memory = MemoryRow(
            namespace_id=self._handle.empty_head().namespace_id,
            id=context.ids.memory(),
            session_id=check_name_of("session", session_id),
            user_id=check_name_of("user", wanted.user_id),
            agent_id=check_name_of("agent", wanted.agent_id),
            type=check_name_of("type", wanted.type) or "general",
            tags=check_tags(wanted.tags),
            metadata=check_metadata(wanted.metadata),
            is_searchable=wanted.embed,
            version=1,
            created_at=now,
            updated_at=now,
            terms="",
            content=content,
            embedding=self._embed(content) if wanted.embed else None,
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
            self._trace(transaction, head, "memory.created", memory, _told(memory))
        return recall.to_memory(memory)

    @does(GetMemory)
    def get(self, wanted: GetMemory) -> Memory:
        return recall.to_memory(self._find(wanted.memory_id))

    @does(UpdateMemory)
    def update(self, wanted: UpdateMemory) -> Memory:
        # Between two snapshots nothing keeps what it said before.
        self._handle.context.check_takes_away("change a memory")
        content = wanted.content
        if content is not None:
            check_content(content)
        more = msgspec.json.decode(check_metadata(wanted.metadata))
        new_tags = None if wanted.tags is None else check_tags(wanted.tags)
        new_type = check_name_of("type", wanted.type)
        old = self._find(wanted.memory_id)
        embedding = self._embed(content) if content and old.is_searchable else None
        with self._handle.context.work() as transaction:
            head, old = self._lock(transaction, wanted.memory_id)
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
            self._trace(transaction, head, "memory.updated", memory, details)
        return recall.to_memory(memory)

    @does(DeleteMemory)
    def delete(self, wanted: DeleteMemory) -> None:
        self._handle.context.check_takes_away("forget a memory")
        with self._handle.context.work() as transaction:
            head, memory = self._lock(transaction, wanted.memory_id)
            now = self._handle.context.clock()
            transaction.delete_memory(head.namespace_id, memory.number, now=now)
            self._note(transaction, head, memory, None)
            self._trace(transaction, head, "memory.deleted", memory, {})

    def recover(self, memory_id: str) -> Memory:
        """Brings a deleted memory back during the grace period."""
        with self._handle.context.work() as transaction:
            head = self._handle.lock(transaction)
            if not transaction.recover_memory(head.namespace_id, memory_id):
                raise MemoryNotFound(memory_id)
            head, memory = self._lock(transaction, memory_id)
            self._note(transaction, head, None, memory)
            self._trace(transaction, head, "memory.recovered", memory, {})
        return recall.to_memory(memory)

    @does(ListMemories)
    def list(self, wanted: ListMemories) -> MemoryList:
        most = check_limit(wanted.limit)
        chosen = choose(self._handle, wanted, agent_id=wanted.agent_id)
        last = wanted.starting_after
        before = None if last is None else self._seen(last)
        return recall.newest_of(self._handle, chosen, most=most, before=before)

    @does(SearchMemories)
    def search(self, wanted: SearchMemories) -> MatchList:
        check_limit(wanted.limit, takes_none=False)
        chosen = choose(self._handle, wanted)
        return recall.search(
            self._handle, wanted.query, chosen, threshold=wanted.threshold, most=wanted.limit
        )

    def _find(self, memory_id: str) -> MemoryRow:
        with looking(self._handle) as (transaction, head):
            found = head and transaction.find_memory(head.namespace_id, memory_id)
        if found is None:
            raise MemoryNotFound(memory_id)
        return found

    def _seen(self, memory_id: str) -> MemoryRow:
        """Returns where a list goes on; the memory may be gone since it was seen."""
        with looking(self._handle) as (transaction, head):
            if head is not None:
                found = transaction.find_memory_as_seen(head.namespace_id, memory_id)
                if found is not None:
                    return found
        return self._find(memory_id)

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
        if needed_bytes > 0:
            self._handle.context.check_room(transaction, self._handle.tenant_id, needed_bytes)

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
    ) -> None:
        """Says in the transaction of the change what was done, and by whom."""
        trace = Trace(
            action=action,
            session_id=memory.session_id,
            user_id=memory.user_id,
            agent_id=memory.agent_id,
            resource_type="memory",
            resource_id=memory.id,
            details=details,
        )
        append(transaction, self._handle.context, head, trace, door=self._handle.door)


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
    handle: Handle, wanted: ListMemories | SearchMemories, *, agent_id: str | None = None
) -> MemoryFilter:
    """Returns which memories are asked for; raises `SessionNotFound` for an unknown session."""
    scope, user_id = wanted.scope, wanted.user_id
    if scope is not None and scope not in SCOPES:
        message = f"{shorten(scope)} is no scope: there are {', '.join(SCOPES)}"
        raise InvalidValue(message)
    chosen = MemoryFilter(scope=scope or "all", owner_id=user_id)
    if wanted.session_id is not None:
        session, _ = lifecycle.get(handle, wanted.session_id)
        others = find_times_of_others(handle, session)
        chosen = seen_by(session, others, scope=scope or "visible")
    elif scope == "session":
        raise InvalidValue("the scope 'session' needs the session's id")
    elif scope == "user" and user_id is None:
        raise InvalidValue("the scope 'user' needs the id of a session or a user")
    return replace(
        chosen,
        user_id=user_id,
        agent_id=agent_id,
        types=None if wanted.types is None else tuple(wanted.types),
        tags=None if wanted.tags is None else tuple(wanted.tags),
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
        # Also if the clock was set back meanwhile: what is older is another's.
        created_at=max(memory.created_at, session.created_at),
    )

"""The part of a transaction that is about memories.

A memory is found by its words. An index knows which memories hold a word; it changes in the
transaction in which the memory does, and a namespace shares no word with another: what one of
them holds can be told neither from what another finds nor from how it ranks.

The index of words lies with the database: FTS5 here, a GIN index over a tsvector there. Both are
given words that are cut and folded already and that begin with their namespace, and neither
decides how well a memory fits. So the two find the same, and rank it the same.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import all_of
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import MEMORY, NO_LIMIT, Row, get_row
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.memories import MemoryFilter, MemoryPlace, MemoryRow, Time

T = TypeVar("T")


class MemoryQueries(AbsenceQueries):
    """Rows of memories and the index of their words."""

    __slots__ = ()

    _db: Driver

    def add_memory(self, memory: MemoryRow) -> None:
        row = self._db.one("add_memory", **_stored(memory))
        self._db.say("index_memory", number=get_row(row, "memory")[0])
        self.count_in(memory.namespace_id, memories=1)

    def find_memory(self, namespace_id: NamespaceId, memory_id: str) -> MemoryRow | None:
        """Returns a memory that is not deleted; its embedding too."""
        query, asked = "find_memory", {"namespace_id": namespace_id, "id": memory_id}
        row = self._db.one(query, **asked) or self.look_again(MEMORY, query, asked)
        return None if row is None else _to_memory(row)

    def find_memory_as_seen(self, namespace_id: NamespaceId, memory_id: str) -> MemoryRow | None:
        """Returns a memory, be it deleted since somebody has seen it."""
        where = {"namespace_id": namespace_id, "id": memory_id}
        row = self._db.one("find_memory_as_seen", **where)
        return None if row is None else _to_memory(row)

    def memories_by_id(self, namespace_id: NamespaceId, ids: Sequence[str]) -> list[MemoryRow]:
        """Returns those of these memories that are not deleted, in any order, with embeddings."""
        found = self._db.all("memories_by_id", namespace_id=namespace_id, ids=json.dumps(ids))
        return [_to_memory(row) for row in found]

    def all_memories(self, namespace_id: NamespaceId, *, after: str, most: int) -> list[MemoryRow]:
        """Returns memories that are not deleted, by id, from behind one on, with embeddings."""
        found = self._db.all("all_memories", namespace_id=namespace_id, after=after, most=most)
        return [_to_memory(row) for row in found]

    def memory_ids(self, namespace_id: NamespaceId) -> list[str]:
        """Returns the ids of all memories, deleted ones too, in any order."""
        return [row[0] for row in self._db.all("memory_ids", namespace_id=namespace_id)]

    def set_memory(self, memory: MemoryRow) -> None:
        """Replaces what can change in a memory that is there."""
        self._db.say("unindex_memory", number=memory.number)
        self._db.say("set_memory", **_stored(memory))
        self._db.say("index_memory", number=memory.number)

    def delete_memory(self, namespace_id: NamespaceId, number: int, *, now: datetime) -> None:
        self._db.say("unindex_memory", number=number)
        self._db.say("delete_memory", namespace_id=namespace_id, number=number, now=to_us(now))
        self.count_in(namespace_id, memories=-1)

    def recover_memory(self, namespace_id: NamespaceId, memory_id: str) -> bool:
        """Takes a deletion back; False if there is no such memory, or it is not deleted."""
        row = self._db.one("recover_memory", namespace_id=namespace_id, id=memory_id)
        if row is None:
            return False
        self._db.say("index_memory", number=row[0])
        self.count_in(namespace_id, memories=1)
        return True

    def list_memories_of(
        self,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        since: datetime | None = None,
        others: tuple[Time, ...] = (),
    ) -> list[MemoryRow]:
        """Returns what belongs to a session, which began then, and is not deleted.

        Without what is of the times when others had its id; with embeddings.
        """
        where = {"namespace_id": namespace_id, "session_id": session_id}
        found = self._db.all("list_memories_of", **where, **_times(since, others))
        return [_to_memory(row) for row in found]

    def put_memories(
        self,
        namespace_id: NamespaceId,
        memories: Sequence[MemoryRow],
        *,
        gone: Sequence[str] = (),
        now: datetime,
    ) -> None:
        """Makes the rows of some memories these, and deletes those of the ones that are gone."""
        ids = json.dumps([memory.id for memory in memories])
        names = [*gone, *(memory.id for memory in memories)]
        every = json.dumps(names)
        row = self._db.one("count_memories_by_id", namespace_id=namespace_id, ids=every)
        before = get_row(row, "count")[0]
        self._db.say("unindex_memories_by_id", namespace_id=namespace_id, ids=every)
        if gone:
            self._db.run(
                "delete_memories_by_id",
                namespace_id=namespace_id,
                ids=json.dumps(list(gone)),
                now=to_us(now),
            )
        self._db.run_many("put_memory", [_stored(memory) for memory in memories])
        self._db.say("index_memories_by_id", namespace_id=namespace_id, ids=ids)
        self.count_in(namespace_id, memories=len({memory.id for memory in memories}) - before)

    def index_words_anew(self) -> None:
        """Makes the index of words anew from the rows, where it does not go by itself with them."""
        self._db.run("index_words_anew")

    # Forks whose memories have no rows yet

    def add_lagging_memories(self, namespace_id: NamespaceId) -> None:
        self._db.say("add_lagging_memories", namespace_id=namespace_id)

    def is_lagging_memories(self, namespace_id: NamespaceId) -> bool:
        return self._db.one("is_lagging_memories", namespace_id=namespace_id) is not None

    def drop_lagging_memories(self, namespace_id: NamespaceId) -> None:
        self._db.say("drop_lagging_memories", namespace_id=namespace_id)

    def purge_memories(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Removes what was deleted by then for good; returns how many memories that were."""
        # What was deleted is in no index any more.
        return self._db.run("purge_deleted_memories", tenant_id=tenant_id, before=to_us(before))

    def list_memories(
        self,
        namespace_id: NamespaceId,
        chosen: MemoryFilter,
        *,
        before: MemoryRow | None,
        most: int,
    ) -> list[MemoryRow]:
        """Returns memories, the newest or what comes behind one, without their embeddings.

        Raises `Damaged` if one of the namespace is missing.
        """
        compare = self.comparing(namespace_id, "memories")
        # With the one that they come behind, and one more: where it is of another instant than
        # the last of them, all of that instant are there.
        asked = most + 1 + (before is not None)
        while True:
            found = self._db.all(
                "list_memories",
                namespace_id=namespace_id,
                before_at=NO_LIMIT if before is None else to_us(before.created_at),
                most=asked,
                searchable=int(chosen.is_searchable),
                **_from_filter(chosen),
            )
            rows = _in_order(namespace_id, map(_to_memory, found))
            if before is not None:
                place = before.created_at, before.id
                rows = [row for row in rows if (row.created_at, row.id) < place]
            if len(found) < asked or not most:
                break
            if len(rows) > most and rows[-1].created_at < rows[most - 1].created_at:
                break
            asked *= 4
        is_all = chosen == MemoryFilter() and before is None and len(found) < asked
        compare(len(found) if is_all else None)
        return rows[:most]

    def get_memories(self, namespace_id: NamespaceId, numbers: Sequence[int]) -> list[MemoryRow]:
        """Returns memories that are there, in any order, without their embeddings."""
        found = self._db.all(
            "get_memories", namespace_id=namespace_id, numbers=json.dumps(list(numbers))
        )
        return [_to_memory(row) for row in found]

    def count_memories(
        self,
        namespace_id: NamespaceId,
        session_id: str,
        *,
        since: datetime | None = None,
        others: tuple[Time, ...] = (),
    ) -> int | None:
        """Returns how many memories belong to a session, which began then.

        Without those of the times when others had its id. None if they have no rows yet.
        """
        where = {"namespace_id": namespace_id, "session_id": session_id}
        row = self._db.one("count_memories", **where, **_times(since, others))
        count, lagging = get_row(row, "count")
        return None if lagging else count

    def memory_bytes(self, tenant_id: TenantId) -> int:
        """Returns what a tenant's memories take, deleted ones too."""
        return int(get_row(self._db.one("memory_bytes", tenant_id=tenant_id), "sum")[0])

    def count_searchable(self, namespace_id: NamespaceId) -> int:
        return get_row(self._db.one("count_searchable", namespace_id=namespace_id), "count")[0]

    def count_holders(self, namespace_id: NamespaceId, words: Sequence[str]) -> dict[str, int]:
        """Returns how many memories hold a word, for each that at least one holds."""
        prefix = _prefix(namespace_id)
        given = json.dumps([prefix + word for word in words])
        found = self._db.all("count_holders", words=given)
        return {row[0].removeprefix(prefix): row[1] for row in found if row[1]}

    def match_memories(
        self, namespace_id: NamespaceId, words: Sequence[str], chosen: MemoryFilter
    ) -> list[tuple[MemoryPlace, str]]:
        """Returns places and terms of memories that hold one of these words.

        A word that ends with `*` stands for all that begin so.
        """
        if not words:
            return []
        prefix = _prefix(namespace_id)
        found = self._db.all(
            "match_memories",
            namespace_id=namespace_id,
            words=json.dumps([prefix + word for word in words]),
            **_from_filter(chosen),
        )
        return [(tuple(row[:3]), _checked(row[3], str)) for row in found]

    def page_embeddings(
        self, namespace_id: NamespaceId, chosen: MemoryFilter, *, after: int, most: int
    ) -> list[tuple[MemoryPlace, bytes]]:
        """Returns places and embeddings of memories numbered above `after`, by number."""
        found = self._db.all(
            "page_embeddings",
            namespace_id=namespace_id,
            after=after,
            most=most,
            **_from_filter(chosen),
        )
        return [(tuple(row[:3]), _checked(row[3], bytes)) for row in found]


def _prefix(namespace_id: NamespaceId) -> str:
    """Returns what the words of a namespace begin with; the SQL files say the same."""
    return f"n{namespace_id}x"


def _in_order(namespace_id: NamespaceId, found: Iterable[MemoryRow]) -> list[MemoryRow]:
    """Returns the rows of a list, those of one instant by their ids; raises `Damaged`."""
    rows = [*found]
    instants = [row.created_at for row in rows]
    if not any(newer == older for newer, older in pairwise(instants)):
        return all_of(namespace_id, rows, attrgetter("created_at"))
    rows.sort(key=attrgetter("created_at", "id"), reverse=True)
    if [row.created_at for row in rows] != instants:
        raise Damaged("a list has a row that is not in its place")
    return all_of(namespace_id, rows, attrgetter("created_at", "id"))


def _to_memory(row: Row) -> MemoryRow:
    """Returns the memory of a row that has its embedding last, which no checksum is over."""
    memory = MEMORY.read(row[:-1])
    return memory if row[-1] is None else replace(memory, embedding=_checked(row[-1], bytes))


def _checked(value: object, kind: type[T]) -> T:
    """Returns a part of a row that is read without the rest; raises `Damaged` for another kind."""
    if isinstance(value, kind):
        return value
    message = f"the row of a memory has {type(value).__name__}, not {kind.__name__}"
    raise Damaged(message)


def _stored(memory: MemoryRow) -> dict[str, object]:
    known = MEMORY.write(memory)
    return {**known, "bytes": memory.size_bytes, "embedding": memory.embedding}


def _from_filter(chosen: MemoryFilter) -> dict[str, object]:
    return {
        "scope": chosen.scope,
        "session_id": chosen.session_id,
        **_times(chosen.since, chosen.others),
        "owner_id": chosen.owner_id,
        "user_id": chosen.user_id,
        "agent_id": chosen.agent_id,
        "types": None if chosen.types is None else json.dumps(chosen.types),
        "tags": None if chosen.tags is None else json.dumps(chosen.tags),
    }


def _times(since: datetime | None, others: tuple[Time, ...]) -> dict[str, object]:
    return {
        "since": -(2**62) if since is None else to_us(since),
        "others": json.dumps(others) if others else None,
    }

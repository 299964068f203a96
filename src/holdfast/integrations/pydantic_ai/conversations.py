"""Conversations of pydantic-ai as values of the store: each message once, forks share them.

What is kept, under four names of the store:

- `records`: of each conversation where its history ends, and what it carries;
- `entries`: each message, with the one before it, under its family and its id;
- `places`: of each message its family;
- `families`: of each family its conversations, those that were forked from one another.

A save is one transaction that checks what it found, so that a conflict leaves nothing behind:

1. A record is replaced only while it is the one that was read.
2. A family is joined, or left, only while its members are those that were read. To fork and to
   delete are the two steps that could take messages from under each other: whoever comes second
   begins anew, and finds what the first has left.
3. The entries of a family are those that its members reach. A conversation that is deleted takes
   along what nobody else reaches; snapshots still hold it.

What is too much for one transaction, which a server takes 32 MiB and 10,000 values of, goes in
several: of a save, messages go ahead, where nobody reaches them before the record comes; of a
delete, the record goes first, then messages that nobody reaches, each after those that follow it.
Whoever deletes some of a family leaves a mark beside it, each time another; whoever saves so much
expects it to be as it was, so that what was put ahead is still there. One that is broken off leaves
messages that nobody reaches, and that the next delete in the family takes along. A conversation
that is new, and so large, has a family that is named by its first message, and leaves such a mark
itself: when it is saved again, it comes to the same place. Where it never is, what went ahead of it
stays.

Messages are the JSON that pydantic makes of them: what it reads back is what it wrote, whatever
numbers and bytes are in there.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import Any, Final, TypeVar
from uuid import uuid4

from blake3 import blake3
from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.messages import ModelMessagesTypeAdapter

from holdfast import ABSENT, StoreValue
from holdfast.errors import NotAsExpected
from holdfast.integrations.calling import Place, aside, within
from holdfast.integrations.portions import portions

RECORDS: Final = "pydantic-ai/records"
ENTRIES: Final = "pydantic-ai/entries"
PLACES: Final = "pydantic-ai/places"
FAMILIES: Final = "pydantic-ai/families"

PAGE: Final = 256
"""Messages that are read together. Ids of messages rise with time, so that what stands below one is
mostly what came before it."""

TOGETHER: Final = 4096
"""Messages that are put or deleted together, each two values."""

ATTEMPTS: Final = 64
"""How often a step is tried that others got ahead of. Each failure is another's success."""

_RECORDS: Final = TypeAdapter(
    list[ConversationRecord], config=ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
)

T = TypeVar("T")


class HoldfastConversationStore(ConversationStore):
    """Conversations in a namespace, whose snapshots hold them beside its files.

    To delete one takes its messages along that no fork needs, and leaves snapshots as they are.
    """

    def __init__(self, agent: Place) -> None:
        self._store = within(agent).store

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Returns the record of a conversation; None if there is none."""
        found = await aside(self._store.find, RECORDS, conversation_id)
        return None if found is None else _to_record(found.value)

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Returns the records, of all or of one scope, newest first; each of them is looked at."""
        values = [value for _, value in await aside(self._store.items, RECORDS)]
        meant = [value for value in values if scope is None or value["scope"] == scope]
        meant.sort(key=lambda value: value["updated_at"], reverse=True)
        return [_to_record(value) for value in meant[:limit]]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Stores a record and its new entries, all or none; raises `ConversationConflict`."""
        await aside(
            self._until_done,
            record.conversation_id,
            lambda: self._write(record, new_entries, expected_revision),
        )

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Deletes a record, and the entries that no other conversation reaches."""
        await aside(self._delete_all, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Returns one entry; raises `LookupError`."""
        (entry,) = await aside(self._history, entry_id, 1)
        return entry

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Returns the entries up to one, in order, or only the last of them."""
        return [] if head_id is None else await aside(self._history, head_id, limit)

    def _until_done(self, conversation_id: str, step: Callable[[], T]) -> T:
        for _ in range(ATTEMPTS):
            try:
                return step()
            except NotAsExpected:
                continue  # What it had read is no longer so: it looks again, and decides anew.
        raise ConversationConflict(conversation_id)

    def _write(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        expected_revision: str | None,
    ) -> None:
        name, store = record.conversation_id, self._store
        found = self._get_record(name, expected_revision)
        base = _base_of(record, new_entries)
        *ahead, last = _in_portions(new_entries)
        expected = [(RECORDS, name, ABSENT if found is None else found.tag or ABSENT)]
        items: list[tuple[str, str, Any]] = []
        if found is not None:
            family: str = found.value["family"]
        elif base is None and not ahead:
            family = uuid4().hex
            items.append((FAMILIES, family, [name]))
        else:
            begun = self._begin(new_entries[0]) if base is None else store.get(PLACES, base)
            members = None if begun is None else store.find(FAMILIES, begun)
            if begun is None or (base is not None and members is None):
                raise ConversationConflict(name)
            family = begun
            items.append((FAMILIES, family, [*(members.value if members else ()), name]))
            expected.append((FAMILIES, family, members.tag or ABSENT if members else ABSENT))
        # Looked at last: what goes after this goes by a change of the family, or of the record.
        # What a record ends with is there for as long as the record is.
        is_known = found is not None and base == found.value["head_id"]
        if base is not None and not is_known and store.get(PLACES, base) != family:
            raise ConversationConflict(name)
        if ahead:
            # Those that are expected already were read before.
            expected = [*self._marks_of(family), *expected]
        for some in ahead:
            store.set_many(_entries_in(family, some))
        items += [*_entries_in(family, last), (RECORDS, name, _from_record(record, family))]
        store.set_many(items, expected=expected)

    def _begin(self, first: ConversationEntry) -> str:
        """Returns the family of what is new and goes in portions, with a mark of its own there."""
        family = _named_by(first)
        self._store.set_many([_marked(family)])
        return family

    def _marks_of(self, family: str) -> list[tuple[str, str, str]]:
        """Returns what a family's members are, and its mark, to be expected."""
        places = [(FAMILIES, family), (FAMILIES, _to_mark(family))]
        there = self._store.find_many(places)
        if not any(there):  # Deleted meanwhile. Were that expected, it could happen again unseen.
            raise NotAsExpected(family, expected="a family", actual=ABSENT)
        found = zip(places, there, strict=True)
        return [(*place, ABSENT if each is None else each.tag or ABSENT) for place, each in found]

    def _delete_all(self, name: str, revision: str) -> None:
        family, rest = self._until_done(name, lambda: self._delete(name, revision))
        if rest:
            self._until_done(name, lambda: self._sweep(family, rest))

    def _delete(self, name: str, expected_revision: str) -> tuple[str, list[str]]:
        """Deletes a record with messages; returns its family, and messages that are left to go."""
        found, store = self._get_record(name, expected_revision), self._store
        if found is None:
            raise ConversationConflict(name)
        family = found.value["family"]
        members = store.find(FAMILIES, family)
        others = [each for each in (members.value if members else ()) if each != name]
        doomed = self._reached_by_none(family, others)
        gone = [(RECORDS, name), *_rows_of(family, doomed[:TOGETHER])]
        if not others:
            gone += [(FAMILIES, family), (FAMILIES, _to_mark(family))]
        store.set_many(
            [(FAMILIES, family, others), _marked(family)] if others else [],
            delete=gone,
            expected=[
                (RECORDS, name, found.tag or ABSENT),
                (FAMILIES, family, members.tag or ABSENT if members else ABSENT),
            ],
        )
        return family, doomed[TOGETHER:]

    def _sweep(self, family: str, doomed: Sequence[str]) -> None:
        """Deletes what was left to go of a family, but for what is reached by who joined since."""
        store = self._store
        members = store.find(FAMILIES, family)
        still = set(self._reached_by_none(family, members.value if members else ()))
        left = [each for each in doomed if each in still]
        # Without members somebody may begin here: what that has put ahead is gone then.
        gone = [] if members else [(FAMILIES, _to_mark(family))]
        for start in range(0, len(left), TOGETHER):
            store.set_many(
                [_marked(family)] if members else [],
                delete=[*gone, *_rows_of(family, left[start : start + TOGETHER])],
                expected=[(FAMILIES, family, members.tag or ABSENT if members else ABSENT)],
            )

    def _get_record(self, name: str, revision: str | None) -> StoreValue | None:
        """Returns the record that has to have a revision; None if there has to be none."""
        found = self._store.find(RECORDS, name)
        if (None if found is None else found.value["revision"]) != revision:
            raise ConversationConflict(name)
        return found

    def _reached_by_none(self, family: str, names: Iterable[str]) -> list[str]:
        """Returns the ids of a family's entries that none of some conversations reaches.

        Each comes after those that follow it: where some of them are gone, what is left is whole.
        """
        found = self._store.items(ENTRIES, f"{family}/")
        above = {_from_key(key): value["parent_id"] for key, value in found}
        records = self._store.get_many([(RECORDS, name) for name in names])
        reached = set[str | None]()
        for record in (_to_record(value) for value in records if value is not None):
            for tip in (record.head_id, *record.branches):
                entry_id = tip
                while entry_id in above and entry_id not in reached:
                    reached.add(entry_id)
                    entry_id = above[entry_id]
        chains = list[list[str]]()
        for tip in above.keys() - reached:
            chain, entry_id = list[str](), tip
            while entry_id in above and entry_id not in reached:
                reached.add(entry_id)
                chain.append(entry_id)
                entry_id = above[entry_id]
            chains.append(chain)
        # A later chain may hang on an earlier one, and not the other way round.
        return [entry_id for chain in reversed(chains) for entry_id in chain]

    def _history(self, head_id: str, limit: int | None) -> list[ConversationEntry]:
        family = self._store.get(PLACES, head_id)
        if family is None:
            raise _missing(head_id)
        entries: list[ConversationEntry] = []
        read: dict[str, Any] = {}
        entry_id: str | None = head_id
        while entry_id is not None and (limit is None or len(entries) < limit):
            if entry_id not in read:
                most = PAGE if limit is None else min(PAGE, limit - len(entries))
                read = self._read_down(family, entry_id, most)
            value = read[entry_id]
            entries.append(_to_entry(entry_id, value))
            entry_id = value["parent_id"]
        entries.reverse()
        return entries

    def _read_down(self, family: str, entry_id: str, most: int) -> dict[str, Any]:
        """Returns an entry and those that stand below it; raises `LookupError` without it."""
        # Below an id with "!" stands the id itself, and then what is less.
        after = f"{_to_key(family, entry_id)}!"
        found = self._store.items(ENTRIES, f"{family}/", after=after, limit=most, reverse=True)
        read = {_from_key(key): value for key, value in found}
        if entry_id not in read:
            raise _missing(entry_id)
        return read


def _missing(entry_id: str) -> LookupError:
    return LookupError(f"there is no entry {entry_id!r}")


def _base_of(record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> str | None:
    """Returns the stored entry that a history hangs on: its end, or what its new part follows."""
    if record.head_id in {entry.id for entry in new_entries}:
        return new_entries[0].parent_id
    return record.head_id


def _to_key(family: str, entry_id: str) -> str:
    return f"{family}/{entry_id}"


def _named_by(first: ConversationEntry) -> str:
    """Returns a name for the family that begins with a message: each time the same."""
    data = first.id.encode("utf-8", "surrogatepass")
    return blake3(data, derive_key_context="holdfast pydantic-ai family").hexdigest(16)


def _to_mark(family: str) -> str:
    return f"{family}/mark"


def _marked(family: str) -> tuple[str, str, Any]:
    return FAMILIES, _to_mark(family), uuid4().hex


def _rows_of(family: str, entry_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Returns where messages are kept."""
    return [
        row
        for entry_id in entry_ids
        for row in ((ENTRIES, _to_key(family, entry_id)), (PLACES, entry_id))
    ]


def _in_portions(entries: Sequence[ConversationEntry]) -> list[dict[str, Any]]:
    """Returns what is put of messages, by their ids, in portions; one, if there are none."""
    values = {entry.id: _from_entry(entry) for entry in entries}
    sizes = ((entry_id, len(value["message"].encode())) for entry_id, value in values.items())
    found = [{each: values[each] for each in some} for some in portions(sizes, most=TOGETHER)]
    return found or [{}]


def _entries_in(family: str, values: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Returns what is put of a portion of messages: each message, and its family."""
    rows = [(ENTRIES, _to_key(family, each), value) for each, value in values.items()]
    return [*rows, *((PLACES, each, family) for each in values)]


def _from_key(key: str) -> str:
    return key.partition("/")[2]


def _from_record(record: ConversationRecord, family: str) -> dict[str, Any]:
    return {
        "revision": record.revision,
        "family": family,
        "head_id": record.head_id,
        "scope": record.scope,
        # Of one length and zone, so that they sort as the instants do.
        "updated_at": record.updated_at.astimezone(UTC).isoformat(timespec="microseconds"),
        "record": _RECORDS.dump_json([record]).decode(),
    }


def _to_record(value: dict[str, Any]) -> ConversationRecord:
    return _RECORDS.validate_json(value["record"])[0]


def _from_entry(entry: ConversationEntry) -> dict[str, Any]:
    return {
        "parent_id": entry.parent_id,
        "kind": entry.kind,
        "message": ModelMessagesTypeAdapter.dump_json([entry.message]).decode(),
    }


def _to_entry(entry_id: str, value: dict[str, Any]) -> ConversationEntry:
    (message,) = ModelMessagesTypeAdapter.validate_json(value["message"])
    return ConversationEntry(
        id=entry_id, parent_id=value["parent_id"], message=message, kind=value["kind"]
    )

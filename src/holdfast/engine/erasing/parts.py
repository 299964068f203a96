"""Takes a session, or all that is known of a user, out of a namespace.

In one transaction, which has the head locked: rows of sessions with their versions and entities,
rows of memories and what the index has of them, what is pending of them, what tasks noted of them,
what was told of them; and all roots of the namespace's rows are made anew without them. Turns go
with the branches that nothing else shows, when bytes are given back.

A session is taken whole, whoever it belongs to now: if it was the user's at any time that a row or
a snapshot still knows of, it is the user's. Another one that has the same id by now, or had it
before, stays as it is (`choosing.py`). Memories go with their session and with their user.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.erasing.choosing import Chosen, choose_session, choose_user
from holdfast.engine.erasing.rewriting import ALL, Timeline
from holdfast.engine.erasing.telling import erase_events, redact_part, redact_session
from holdfast.engine.journal.occurrences import shortened
from holdfast.engine.journal.roots import tell_anew
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.forms import memory_of
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.bearers import let_go, let_go_of_all
from holdfast.entries import IN_ROW, decode_entry
from holdfast.model.basics import Head, Plane, Size
from holdfast.model.events import EventRow


class Wanted(msgspec.Struct, frozen=True):
    """What is to go: a session of one namespace, or a user wherever there is something of hers."""

    session_id: str | None = None
    user_id: str | None = None
    sessions: tuple[str, ...] = ()
    """Sessions of the namespace that were the user's, as far as others know."""


class Counts(msgspec.Struct, frozen=True):
    """What went."""

    removed: dict[str, int] = {}
    rewritten_snapshots: int = 0
    redacted_rows: int = 0
    named_elsewhere: int = 0
    """Events that said something of it, and snapshots that named it."""

    def __add__(self, other: "Counts") -> "Counts":
        kinds = [*self.removed, *(kind for kind in other.removed if kind not in self.removed)]
        return Counts(
            {kind: self.removed.get(kind, 0) + other.removed.get(kind, 0) for kind in kinds},
            self.rewritten_snapshots + other.rewritten_snapshots,
            self.redacted_rows + other.redacted_rows,
            self.named_elsewhere + other.named_elsewhere,
        )

    @property
    def is_nothing(self) -> bool:
        """Says whether nothing was found."""
        told = self.redacted_rows or self.named_elsewhere
        return not (any(self.removed.values()) or self.rewritten_snapshots or told)


def take_out(
    transaction: Transaction, context: Context, stage: Stage, head: Head, wanted: Wanted
) -> Counts:
    """Takes it out of a namespace, live or deleted, whose head is locked; returns what went."""
    return _Taking(transaction, context, stage, head, wanted).run()


class _Taking:
    def __init__(
        self,
        transaction: Transaction,
        context: Context,
        stage: Stage,
        head: Head,
        wanted: Wanted,
    ) -> None:
        self._transaction, self._context, self._stage = transaction, context, stage
        self._head, self._wanted = head, wanted
        self._objects = Objects(context, head.tenant_id, transaction)
        self._source: StagedObjects = stage.source(self._objects)
        self._timeline = Timeline(transaction, head)
        self._beside = _entries_of_rows(transaction, head)
        self._chosen = self._choose()
        self._memories = self._find_memories()
        self._told_sessions = _as_told(self._chosen.names)
        self._told_memories = _as_told(key.decode() for key in self._memories)

    def run(self) -> Counts:
        """Does it."""
        transaction, head, namespace_id = self._transaction, self._head, self._head.namespace_id
        names, gone = self._chosen.names, self._gone
        redacted = self._redact()
        told = 0
        if names or self._memories:
            told = erase_events(transaction, self._context, head.tenant_id, self._is_about)
            told += self._timeline.erase_names(
                {Plane.SESSIONS: names, Plane.MEMORIES: {*map(bytes.decode, self._memories)}}
            )
        if not any(gone.values()):
            return Counts(redacted_rows=redacted, named_elsewhere=told)
        more = self._weigh()
        removed = self._remove_rows()
        shared = self._chosen.shared
        for plane, keys in gone.items():
            transaction.erase_keys(namespace_id, plane, keys - shared)
        self._erase_shared(shared)
        rewritten = self._timeline.rewrite(
            self._source, self._stage, gone, takes=self._takes, more=more
        )
        left = transaction.timeline(namespace_id, before=None, most=ALL)
        tell_anew(transaction, self._context, head, left)
        self._begin_copy_anew()
        return Counts(removed, rewritten, redacted, told)

    def _begin_copy_anew(self) -> None:
        """Lets a copy in git forget what it was made of, if that may be something that goes.

        What is at its remote stays there, for its owner to take away: it is not gone on from.
        """
        transaction, namespace_id = self._transaction, self._head.namespace_id
        copy = transaction.lock_git_backup(namespace_id)
        gone = {plane.value for plane, keys in self._gone.items() if keys}
        if copy is not None and not gone.isdisjoint(copy.had_planes):
            new = {"era": copy.era + 1, "had_planes": copy.planes}
            none = {"pushed_at": None, "pushed_number": 0, "pushed_commit": None}
            transaction.set_git_backup(msgspec.structs.replace(copy, **new, **none))

    @property
    def _gone(self) -> dict[Plane, set[bytes]]:
        """The keys of which something goes."""
        return {Plane.SESSIONS: {*self._chosen.gone}, Plane.MEMORIES: self._memories}

    def _takes(self, plane: Plane, key: bytes, entry: bytes) -> bool:
        return plane is not Plane.SESSIONS or self._chosen.takes(key, entry)

    def _choose(self) -> Chosen:
        transaction, wanted, head = self._transaction, self._wanted, self._head

        def entries() -> Iterator[tuple[bytes, bytes]]:
            yield from self._timeline.iterate(self._source, Plane.SESSIONS)
            yield from self._beside[Plane.SESSIONS]

        if wanted.user_id is None:
            return choose_session(transaction, head, wanted.session_id or "", entries)
        return choose_user(transaction, head, wanted.user_id, wanted.sessions, entries)

    def _redact(self) -> int:
        """Takes out what the journal says of those that go; returns of how many rows."""
        transaction, head = self._transaction, self._head
        place, user_id = head.namespace_id, self._wanted.user_id
        count = 0
        for each in self._chosen.names:
            # Where no row says whose it was, the journal does.
            of = None if each.encode() in self._chosen.gone else user_id
            count += redact_session(transaction, head.tenant_id, place, each, user_id=of)
        for session_id, mentions in self._chosen.mentions.items():
            for numbers in mentions:
                count += redact_part(
                    transaction, place, session_id, user_id=user_id, numbers=numbers
                )
        return count

    def _erase_shared(self, shared: set[bytes]) -> None:
        """Removes what is pending, and what tasks noted, of those that go and share their id."""
        transaction, place, plane = self._transaction, self._head.namespace_id, Plane.SESSIONS
        entries = [each for each in self._beside[plane] if each[0] in shared]
        transaction.erase_noted(place, plane, [e for e in entries if self._chosen.takes(*e)])
        # What lies below it may be another's, which is gone: it must not show.
        gone = [
            (key, None)
            for at, key, entry in transaction.all_pending(place)
            if at is plane and key in shared and entry is not None and self._takes(at, key, entry)
        ]
        if gone:
            transaction.put_pending(place, plane, gone, sequence=self._head.sequence)

    def _find_memories(self) -> set[bytes]:
        transaction, namespace_id = self._transaction, self._head.namespace_id
        # Of an id that others have, too, a memory says whose it is.
        user_id, sessions = self._wanted.user_id, self._chosen.names

        def is_wanted(_: bytes, entry: bytes) -> bool:
            memory = memory_of(entry)
            return memory.session_id in sessions or _is_same(memory.user_id, user_id)

        rows = [] if user_id is None else transaction.memories_about(namespace_id, user_id=user_id)
        for session_id in sessions:
            rows += transaction.memories_about(namespace_id, session_id=session_id)
        entries = self._timeline.iterate(self._source, Plane.MEMORIES)
        found = {key for key, entry in entries if is_wanted(key, entry)}
        beside = self._beside[Plane.MEMORIES]
        found |= {key for key, entry in beside if entry != IN_ROW and is_wanted(key, entry)}
        return found | {each.encode() for each in rows}

    def _weigh(self) -> Size:
        """Returns by how much less the head shows, as a negative size."""
        head, transaction, entries, total = self._head, self._transaction, 0, 0
        for plane, keys in self._gone.items():
            view = View.of_head(self._objects, transaction, head, plane)
            held = view.get_many(sorted(keys))
            shown = {key: entry for key, entry in held.items() if self._takes(plane, key, entry)}
            in_rows = [key.decode() for key, entry in shown.items() if entry == IN_ROW]
            rows = transaction.memories_by_id(head.namespace_id, in_rows) if in_rows else []
            entries += len(shown)
            total += sum(len(row.content.encode()) for row in rows)
            total += sum(decode_entry(entry).size for entry in shown.values() if entry != IN_ROW)
        return Size(-entries, -total)

    def _remove_rows(self) -> dict[str, int]:
        """Removes the rows of sessions and memories; returns how many of each kind."""
        transaction, namespace_id = self._transaction, self._head.namespace_id
        sessions = versions = entities = 0
        for key, began in sorted(self._chosen.gone.items()):
            place = namespace_id, key.decode()
            if place[1] in self._chosen.names:
                gone = [let_go_of_all(transaction, *place)]
            else:
                gone = [let_go(transaction, *place, each) for each in sorted(began)]
            sessions += len(began)
            versions += sum(each[0] for each in gone)
            entities += sum(each[1] for each in gone)
        transaction.erase_memories(namespace_id, [key.decode() for key in self._memories])
        return {
            "sessions": sessions,
            "versions": versions,
            "entities": entities,
            "memories": len(self._memories),
        }

    def _is_about(self, event: EventRow, data: dict[str, Any]) -> bool:
        if event.namespace_id != self._head.namespace_id:
            return False
        resource = data.get("resource_type"), data.get("resource_id")
        ids = (
            (data.get("session_id"), self._told_sessions),
            (data.get("source_session"), self._told_sessions),
            (data.get("memory_id"), self._told_memories),
            (resource[1] if resource[0] == "session" else None, self._told_sessions),
            (resource[1] if resource[0] == "memory" else None, self._told_memories),
        )
        return any(isinstance(each, str) and each in known for each, known in ids)


def _as_told(ids: Iterable[str]) -> frozenset[str]:
    """Returns ids as events may say them."""
    return frozenset(told for each in ids for told in (each, shortened(each)))


def _entries_of_rows(
    transaction: Transaction, head: Head
) -> dict[Plane, list[tuple[bytes, bytes]]]:
    """Returns what is pending, and what tasks noted, of sessions and memories."""
    found: dict[Plane, list[tuple[bytes, bytes]]] = {Plane.SESSIONS: [], Plane.MEMORIES: []}
    for plane, key, entry in transaction.all_pending(head.namespace_id):
        if plane in found and entry is not None:
            found[plane].append((key, entry))
    for change in transaction.all_task_changes(head.namespace_id):
        if change.plane in found:
            entries = (change.old_entry, change.new_entry)
            found[change.plane] += [(change.key, entry) for entry in entries if entry is not None]
    return found


def _is_same(found: str | None, wanted: str | None) -> bool:
    return wanted is not None and found == wanted

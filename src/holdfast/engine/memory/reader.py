"""`namespace.at(snapshot).memory`: memories as a snapshot shows them, to read.

What was remembered then, also where it was changed or forgotten since. The plane has no index of
words and knows no session as it is now: `namespace.memory` searches, and says what a session sees.
"""

import builtins
from collections.abc import Callable, Iterator
from itertools import dropwhile, islice
from typing import TypeVar

from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.memory.plane import row_of
from holdfast.engine.memory.recall import to_memory
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.forms import memory_of
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.planes.view import View
from holdfast.entries import Memory as Entry
from holdfast.errors import InvalidValue, MemoryNotFound
from holdfast.fetching import fetched
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.memories import Memory
from holdfast.operations.memories import GetMemory, ListMemories
from holdfast.operations.operation import does

T = TypeVar("T")


class MemoriesReader(Part):
    """The memories of a namespace as one snapshot shows them."""

    def __init__(self, handle: Handle, snapshot: SnapshotInfo) -> None:
        self._handle, self._snapshot = handle, snapshot

    @does(GetMemory)
    @fetched
    def get(self, wanted: GetMemory) -> Memory:
        memory_id = wanted.memory_id

        def ask(source: Objects, view: View) -> Memory:
            # As a key of the map: half a character has no bytes, and no memory has such an id.
            data = view.get(memory_id.encode("utf-8", "replace"))
            if data is None:
                raise MemoryNotFound(memory_id)
            return self._read(source, memory_id.encode(), memory_of(data))

        return self._look(ask)

    @does(ListMemories)
    @fetched
    def list(self, wanted: ListMemories) -> list[Memory]:
        most = check_limit(wanted.limit)
        if wanted.session_id is not None or wanted.scope is not None:
            raise InvalidValue("at a snapshot, memories are not listed as a session sees them")

        types = None if wanted.types is None else {*wanted.types}
        tags = None if wanted.tags is None else {*wanted.tags}

        def may_fit(entry: Entry) -> bool:
            return (
                wanted.user_id in (None, entry.user_id)
                and wanted.agent_id in (None, entry.agent_id)
                and (types is None or entry.kind in types)
            )

        def ask(source: Objects, view: View) -> builtins.list[Memory]:
            entries = ((key, memory_of(data)) for key, data in view.iterate())
            newest = sorted(entries, key=lambda each: (each[1].created_us, each[0]), reverse=True)
            after = _after(newest, wanted.starting_after)
            # What is in a body is read of those that may be shown, and of no other.
            found = (self._read(source, *each) for each in after if may_fit(each[1]))
            fitting = (each for each in found if tags is None or not tags.isdisjoint(each.tags))
            return [*islice(fitting, most)]

        return self._look(ask)

    def _look(self, ask: Callable[[Objects, View], T]) -> T:
        handle, snapshot = self._handle, self._snapshot
        with looking_at(handle, snapshot), handle.context.catalog.read() as transaction:
            objects = handle.objects_in(transaction)
            root = objects.get_root(snapshot.root).plane(Plane.MEMORIES)
            return ask(objects, View(objects, root))

    def _read(self, source: Objects, key: bytes, entry: Entry) -> Memory:
        return to_memory(row_of(source, self._snapshot.namespace_id, key, entry))


def _after(
    newest: builtins.list[tuple[bytes, Entry]], seen: str | None
) -> Iterator[tuple[bytes, Entry]]:
    """Returns what comes behind the memory that was seen last; raises `MemoryNotFound`."""
    if seen is None:
        return iter(newest)
    key = seen.encode("utf-8", "replace")
    left = dropwhile(lambda each: each[0] != key, newest)
    if next(left, None) is None:
        raise MemoryNotFound(seen)
    return left

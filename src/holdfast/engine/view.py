"""What a plane holds at one moment: a map, and over it the pending changes.

Everything that reads a namespace reads it through this: the head (base root and pending rows
of one transaction) and any snapshot (a root alone) look the same from outside.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from holdfast.catalog.port import Transaction
from holdfast.engine.objects import Objects
from holdfast.ids import ObjectId
from holdfast.model import Head, Plane
from holdfast.tree import count, get_many, iterate, prefix_stop

FIRST_PAGE: Final = 4
LAST_PAGE: Final = 4096
"""Pending rows fetched together: few while a caller may stop, many once it goes on."""


class View:
    """One plane of a namespace, to read. Keys and entries are bytes."""

    def __init__(
        self,
        objects: Objects,
        root: ObjectId,
        *,
        transaction: Transaction | None = None,
        head: Head | None = None,
        plane: Plane = Plane.FILES,
    ) -> None:
        self._objects = objects
        self._root = root
        self._transaction = transaction
        self._head = head
        self._plane = plane

    @classmethod
    def of_head(
        cls, objects: Objects, transaction: Transaction, head: Head, plane: Plane
    ) -> "View":
        """Returns a plane as its head shows it, within one transaction."""
        bound = objects.bound(transaction)
        root = bound.get_root(head.root).plane(plane)
        return cls(bound, root, transaction=transaction, head=head, plane=plane)

    @property
    def objects(self) -> Objects:
        """The objects that entries of this view refer to."""
        return self._objects

    def get(self, key: bytes) -> bytes | None:
        """Returns the entry for a key, or None."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the entries of those keys that are there."""
        pending = self._find_pending(keys)
        stored = get_many(self._objects, self._root, [k for k in keys if k not in pending])
        return stored | {key: entry for key, entry in pending.items() if entry is not None}

    def iterate(
        self, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields entries in key order, `start` included, `stop` not."""
        stored = iterate(self._objects, self._root, start=start, stop=stop)
        below = next(stored, None)
        for key, entry in self._iter_pending(start, stop):
            while below is not None and below[0] < key:
                yield below
                below = next(stored, None)
            if below is not None and below[0] == key:
                below = next(stored, None)
            if entry is not None:
                yield key, entry
        if below is not None:
            yield below
            yield from stored

    def under(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries whose keys begin with the prefix."""
        return self.iterate(prefix, prefix_stop(prefix))

    def first_under(self, prefix: bytes) -> tuple[bytes, bytes] | None:
        """Returns the first entry whose key begins with the prefix, or None."""
        return next(self.under(prefix), None)

    def count(self) -> int:
        """Returns the number of entries; cheap but for what is pending."""
        total = count(self._objects, self._root)
        pending = dict(self._iter_pending(b"", None))
        stored = get_many(self._objects, self._root, list(pending))
        live = sum(entry is not None for entry in pending.values())
        return total + live - len(stored)

    def _find_pending(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        if self._transaction is None or self._head is None:
            return {}
        return self._transaction.find_pending(self._head.namespace_id, self._plane, keys)

    def _iter_pending(
        self, start: bytes, stop: bytes | None
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields pending rows, a few at first: most callers want only the next one."""
        if self._transaction is None or self._head is None:
            return
        most = FIRST_PAGE
        while True:
            rows = self._transaction.range_pending(
                self._head.namespace_id, self._plane, start=start, stop=stop, most=most
            )
            yield from rows
            if len(rows) < most:
                return
            start, most = rows[-1][0] + b"\0", min(most * 8, LAST_PAGE)

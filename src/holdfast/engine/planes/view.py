"""What a plane holds at one moment: a map, and over it the pending changes.

Everything that reads a namespace reads it through this: the head (base root and pending rows
of one transaction) and any snapshot (a root alone) look the same from outside.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import gt, lt
from typing import Final

from holdfast.catalog.pending import ONE_MARK
from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import Sum, check_absent, check_whole
from holdfast.entries import DIRECTORY_TAG, tag_of
from holdfast.ids import NamespaceId, ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Plane
from holdfast.tree import count, get, get_many, iterate, prefix_stop

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
        begun: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._begun = begun
        self._objects = objects
        self._root = root
        self._transaction = transaction
        self._namespace_id = None if head is None else head.namespace_id
        self._plane = plane
        self._head = head
        self.pending: dict[bytes, bytes | None] = {}
        """What was asked for, and is pending: whoever computes with it asks once."""
        self.tags: dict[bytes, str] = {}
        """Tags that hold once what was computed with it is written, as far as anybody asked."""
        self._asked: set[bytes] = set()

    @classmethod
    def of_head(
        cls, objects: Objects, transaction: Transaction, head: Head, plane: Plane
    ) -> "View":
        """Returns a plane as its head shows it, within one transaction."""
        bound = objects.bound(transaction)
        root = bound.get_root(head.root).plane(plane)
        return View(bound, root, transaction=transaction, head=head, plane=plane)

    @property
    def unfolded(self) -> int:
        """How many keys are pending at the head that this is of, if one is."""
        return 0 if self._head is None else (self._head.unfolded or 0) // ONE_MARK

    def begun(self) -> datetime | None:
        """Returns when the namespace was made: nothing in it is older than that here."""
        return self._begun()

    @property
    def objects(self) -> Objects:
        """The objects that entries of this view refer to."""
        return self._objects

    def get(self, key: bytes) -> bytes | None:
        """Returns the entry for a key, or None."""
        root, pending = self._base(), self._find_pending([key])
        return pending[key] if key in pending else get(self._objects, root, key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the entries of those keys that are there."""
        root, pending = self._base(), self._find_pending(keys)
        found = {key: entry for key, entry in pending.items() if entry is not None}
        if root != EMPTY_MAP and len(pending) < len(keys):
            found |= get_many(self._objects, root, [k for k in keys if k not in pending])
        return found

    def iterate(
        self, start: bytes = b"", stop: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields entries in key order, `start` included, `stop` not."""
        stored = iterate(self._objects, self._base(), start=start, stop=stop)
        return _overlaid(stored, self._iter_pending(start, stop), comes_first=lt)

    def iterate_down(
        self, start: bytes, stop: bytes, *, most: int = FIRST_PAGE
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields the same from below `stop` down to `start`, the greatest key first.

        Whoever knows how many of them are wanted says so: these are asked for at once.
        """
        root, pending = self._base(), self._iter_pending_down(start, stop, most)
        if root == EMPTY_MAP:  # Nothing lies below: a tenth of what a few rows take to be read.
            return ((key, entry) for key, entry in pending if entry is not None)
        stored = iterate(self._objects, root, start=start, stop=stop, down=True)
        return _overlaid(stored, pending, comes_first=gt)

    def under(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields the entries whose keys begin with the prefix."""
        return self.iterate(prefix, prefix_stop(prefix))

    def ask_under(self, prefix: bytes) -> None:
        """Asks for what `under` will ask first, together with the next question."""
        if self._transaction is not None and self._namespace_id is not None:
            self._transaction.ahead(
                Transaction.range_pending,
                self._namespace_id,
                self._plane,
                start=prefix,
                stop=prefix_stop(prefix),
                most=FIRST_PAGE,
            )

    def first_under(self, prefix: bytes) -> tuple[bytes, bytes] | None:
        """Returns the first entry whose key begins with the prefix, or None."""
        return next(self.under(prefix), None)

    def count(self) -> int:
        """Returns the number of entries; cheap but for what is pending."""
        root = self._base()
        pending = dict(self._iter_pending(b"", None))
        stored = get_many(self._objects, root, list(pending))
        live = sum(entry is not None for entry in pending.values())
        return count(self._objects, root) + live - len(stored)

    def count_files(self) -> int:
        """Returns the number of files and links: of entries that are no directories."""
        root, pending = self._base(), dict(self._iter_pending(b"", None))
        stored = get_many(self._objects, root, list(pending))
        more = sum(_is_file(entry) for entry in pending.values() if entry is not None)
        return self._objects.count_files(root) + more - sum(map(_is_file, stored.values()))

    def _base(self) -> ObjectId:
        """Returns the root of the map below the pending rows."""
        return self._root

    def _find_pending(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        if self._transaction is None or self._namespace_id is None:
            return {}
        new = [key for key in keys if key not in self._asked]
        if new:
            self.pending |= self._transaction.find_pending(self._namespace_id, self._plane, new)
            self._asked.update(new)
        return {key: self.pending[key] for key in keys if key in self.pending}

    def _iter_pending(
        self, start: bytes, stop: bytes | None
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields pending rows, a few at first: most callers want only the next one."""
        if self._transaction is None or self._namespace_id is None:
            return
        most = FIRST_PAGE
        while True:
            rows = self._transaction.range_pending(
                self._namespace_id, self._plane, start=start, stop=stop, most=most
            )
            yield from rows
            if len(rows) < most:
                return
            start, most = rows[-1][0] + b"\0", min(most * 8, LAST_PAGE)

    def _iter_pending_down(
        self, start: bytes, stop: bytes, most: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Yields pending rows from the greatest key downwards, so many at first."""
        if self._transaction is None or self._namespace_id is None:
            return
        later = FIRST_PAGE
        while True:
            rows = self._transaction.last_pending(
                self._namespace_id, self._plane, start=start, stop=stop, most=most
            )
            yield from rows
            if len(rows) < most:
                return
            later = min(later * 8, LAST_PAGE)
            stop, most = rows[-1][0], later


def _overlaid(
    stored: Iterator[tuple[bytes, bytes]],
    pending: Iterator[tuple[bytes, bytes | None]],
    *,
    comes_first: Callable[[bytes, bytes], bool],
) -> Iterator[tuple[bytes, bytes]]:
    """Yields what is stored with what is pending in its place, both in one order."""
    below = next(stored, None)
    for key, entry in pending:
        while below is not None and comes_first(below[0], key):
            yield below
            below = next(stored, None)
        if below is not None and below[0] == key:
            below = next(stored, None)
        if entry is not None:
            yield key, entry
    if below is not None:
        yield below
        yield from stored


def _is_file(entry: bytes) -> bool:
    return tag_of(entry) != DIRECTORY_TAG


class HeadView(View):
    """A plane as a head shows it that is read when it is first needed.

    One key is looked up together with the head, by one query: most readers want nothing else. What
    is not pending is believed not to be if nothing is missing that has to be.
    """

    def __init__(self, handle: Handle, transaction: Transaction, plane: Plane) -> None:
        objects = handle.objects_in(transaction)
        super().__init__(objects, EMPTY_MAP, transaction=transaction, plane=plane)
        self._reading = transaction
        self._handle = handle
        self._is_read = False
        self._sum: Sum | None = None

    def begun(self) -> datetime | None:
        """Returns when the namespace was made."""
        head = self._handle.find_head(self._reading)
        return None if head is None else head.created_at

    def get(self, key: bytes) -> bytes | None:
        """Returns the entry for a key, or None."""
        handle = self._handle
        found = self._reading.find_at_head(handle.tenant_id, handle.name, self._plane, key)
        if found is None:
            return None
        (namespace_id, root, unfolded), row = found
        if row is not None:
            return row[1]
        if unfolded:
            self._check_absent((namespace_id, unfolded), key)
        return get(self._objects, self._objects.get_root(root).plane(self._plane), key)

    def _base(self) -> ObjectId:
        if not self._is_read:
            handle = self._handle
            base = self._reading.find_base(handle.tenant_id, handle.name)
            if base is not None:
                namespace_id, root, unfolded = base
                self._namespace_id: NamespaceId | None = namespace_id
                self._root = self._objects.get_root(root).plane(self._plane)
                self._sum = namespace_id, unfolded
            self._is_read = True
        return self._root

    def _find_pending(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes | None]:
        found = super()._find_pending(keys)
        if self._sum is not None and self._sum[1]:
            for key in keys:
                if key not in found:
                    self._check_absent(self._sum, key)
        return found

    def _iter_pending(
        self, start: bytes, stop: bytes | None
    ) -> Iterator[tuple[bytes, bytes | None]]:
        rows = self._check_whole()
        if rows is None:
            return super()._iter_pending(start, stop)
        return (row for row in rows if start <= row[0] and (stop is None or row[0] < stop))

    def _iter_pending_down(
        self, start: bytes, stop: bytes, most: int
    ) -> Iterator[tuple[bytes, bytes | None]]:
        rows = self._check_whole()
        if rows is None:
            return super()._iter_pending_down(start, stop, most)
        return (row for row in reversed(rows) if start <= row[0] < stop)

    def _check_absent(self, of: Sum, key: bytes) -> None:
        context = self._handle.context
        check_absent(context, self._reading, of, plane=self._plane, key=key)

    def _check_whole(self) -> list[tuple[bytes, bytes | None]] | None:
        if self._sum is None:
            return None
        return check_whole(self._handle.context, self._reading, self._sum, plane=self._plane)

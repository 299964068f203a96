"""Which objects somebody may name, and whether all that their entries need is there.

Objects belong to a tenant, and whoever names one by its hash could come to read it. A key that
opens all of a tenant may name any of its objects. One that is for a single namespace must not
reach, nor learn of, what lies in the others: it may name what was sent for its own namespace, and
what that one holds already. For it, everything else is missing, whether it is there or not.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.content import FILES
from holdfast.engine.objects.reachable import mark_entries, mark_maps
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.entries import REF_BYTES, Blob, unpack_refs
from holdfast.errors import ContentMissing, InvalidValue, TooLarge
from holdfast.ids import NamespaceId, ObjectId
from holdfast.tree import get_many

MAX_LISTED_REFS: Final = 4_000_000
"""References in the lists of all files of one exchange: 256 GB, and some seconds to follow. Lists
can share what they refer to, so that a small body could ask for the work of years."""

_SPARE_REFS: Final = 8
"""References beyond what a file's size accounts for: its last chunk is smaller than others."""

_BATCH: Final = 32
"""Pieces of a list that are read together."""


def longest_list(size: int) -> int:
    """Returns how many bytes the references of a file of this size have at the most."""
    return REF_BYTES * (size // FILES.min_bytes + _SPARE_REFS)


class Reach:
    """The objects that one caller may name, as of one transaction."""

    def __init__(
        self,
        handle: Handle,
        transaction: Transaction,
        namespace_id: NamespaceId,
        *,
        source: StagedObjects,
        files: ObjectId,
        is_shared: bool,
    ) -> None:
        """`files` is what the namespace holds; who `is_shared` may name all of the tenant's."""
        self._handle, self._transaction = handle, transaction
        self._namespace_id = namespace_id
        self._source, self._files = source, files
        self._is_shared = is_shared
        self._near: set[ObjectId] = set()
        self._held: set[ObjectId] | None = None

    def look_near(self, keys: Iterable[bytes]) -> None:
        """Looks first at what these paths hold now: most of what changes stays as it was."""
        if not self._is_shared:
            entries = get_many(self._source, self._files, keys).values()
            mark_entries(self._source, entries, self._near)

    def find(self, object_ids: Collection[ObjectId]) -> dict[ObjectId, int]:
        """Returns which of these may be named and are there, with their sizes."""
        wanted = {*object_ids}
        if not self._is_shared:
            # Decided without a look at what others hold: how long it takes would tell of them.
            named = self._transaction.find_received(self._namespace_id, list(wanted))
            named |= wanted & self._near
            if len(named) < len(wanted):
                named |= wanted & self._all()
            wanted = named
        return self._transaction.measure_objects(self._handle.tenant_id, list(wanted))

    def _all(self) -> set[ObjectId]:
        """Returns every chunk that the namespace's files need; walks all of them, once."""
        if self._held is None:
            self._held = set()
            mark_maps(self._source, [self._files], set(), self._held)
        return self._held


class Survey:
    """Follows what entries refer to, and sees to it that all of it is there and fits."""

    def __init__(self, reach: Reach, source: StagedObjects, fresh: Mapping[ObjectId, int]) -> None:
        """`fresh` is what comes with the entries: its objects, with their sizes."""
        self._reach, self._source, self._fresh = reach, source, fresh
        self._left = MAX_LISTED_REFS
        self.needed: set[ObjectId] = set()
        """All that the entries refer to and that did not come with them."""

    def check(self, blobs: Collection[Blob]) -> None:
        """Raises `ContentMissing`, or an `Invalid` for a list that is not what it says."""
        self._require([ref for blob in blobs for ref in unpack_refs(blob.refs)])
        for lists in {(blob.size, blob.depth, blob.refs) for blob in blobs if blob.depth}:
            self._follow(*lists)

    def _follow(self, size: int, depth: int, refs: bytes) -> None:
        """Reads the lists of one file, level by level, down to its content."""
        found = unpack_refs(refs)
        most = longest_list(size)
        for _ in range(depth):
            length = sum(each for _, each in found)
            if length > most or length % REF_BYTES:
                raise InvalidValue("a list of chunks is longer than its file, or not whole")
            self._left -= length // REF_BYTES
            if self._left < 0:
                message = f"files have more than {MAX_LISTED_REFS} chunks together"
                raise TooLarge(message)
            found = unpack_refs(self._read([object_id for object_id, _ in found]))
            if not all(0 < each <= FILES.max_bytes for _, each in found):
                raise InvalidValue("a list of chunks names one of an impossible size")
            self._require(found)
        if sum(each for _, each in found) != size:
            raise InvalidValue("the chunks of a file are not as much as it says")

    def _read(self, object_ids: list[ObjectId]) -> bytes:
        parts: list[bytes] = []
        for at in range(0, len(object_ids), _BATCH):
            batch = object_ids[at : at + _BATCH]
            found = self._source.get_many(list(dict.fromkeys(batch)))
            parts += [found[object_id] for object_id in batch]
        return b"".join(parts)

    def _require(self, refs: list[tuple[ObjectId, int]]) -> None:
        told = dict(refs)
        elsewhere = [object_id for object_id in told if object_id not in self._fresh]
        found = self._reach.find(elsewhere)
        if len(found) < len(elsewhere):
            raise ContentMissing(len(elsewhere) - len(found))
        self.needed.update(found)
        sizes = {**self._fresh, **found}
        if any(sizes[object_id] != size for object_id, size in refs):
            raise InvalidValue("a chunk does not have the size that its file says")

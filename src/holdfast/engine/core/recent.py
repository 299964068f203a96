"""What this process wrote to namespaces lately: the next write may begin there, without a look.

A look is a wait for the database, and a writer that has the namespace to itself learns nothing by
it: what it finds is what it left. So it locks the head, has the database compare the head and the
session with what it believes (`Transaction.trust`), and goes on unanswered: what it writes and the
end of the transaction are on their way already. If somebody else was there, none of it happens, and
the writer looks. Nobody is refused anything for what was only believed.

Whoever reads looks, and what it finds is often what it found before: then it need not be checked
and decoded again (`Lately.checked`).

Whoever meets others looks first: until a look has found the head as it was left, nothing is
believed. A head that a thread takes, others do not find; they look, too.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from holdfast.catalog.driver import Moment
from holdfast.catalog.pending import ONE_MARK
from holdfast.catalog.rows import HEAD, Row
from holdfast.engine.core.caches import ByteCache
from holdfast.errors import Busy
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import Head, Size
from holdfast.model.sessions import LeftHead, LeftSession, OpenedSession

T = TypeVar("T")

LATELY_BYTES: Final = 4 << 20
"""For heads, and once more for sessions, and for rows of sessions and versions."""

_ROW_BYTES: Final = 2000
"""What a head or a session takes in memory, beside its state and metadata."""


MOST_TAGS: Final = 16
"""Tags that are remembered of a head: who expects something, expects two or three."""


_TAG_BYTES: Final = 200
"""What a tag takes in memory, beside its key: two objects of Python's, and a place for them."""


class Mistaken(Busy):
    """What was believed is not so: the writer has to look."""


class Written(msgspec.Struct, frozen=True):
    """A head as a write of pending rows left it: for the next writer, if there was none between."""

    head: Head
    is_bounded: bool
    """Whether the tenant has a quota."""
    commit: Moment
    era: int
    """The transaction's: what is believed in another one may be of a database that is no more."""
    key: bytes | None = None
    """The last that was put, while nobody else wrote: what sorts behind it is new, most likely."""
    tags: Mapping[bytes, str] = {}
    """Tags of values of the store, by their keys, that were looked at or put: where the head is as
    it was left, these are so."""

    @property
    def pending(self) -> int:
        """How many keys are pending."""
        return (self.head.unfolded or 0) // ONE_MARK

    def after(
        self,
        *,
        sequence: int,
        more: Size,
        writer: str,
        unfolded: int | None,
        commit: Moment,
        key: bytes | None = None,
        tags: Mapping[bytes, str] | None = None,
    ) -> "Written":
        """Returns the same after one more write; without `tags`, none are known then."""
        size, was = self.head.size, self.head.unfolded
        head = msgspec.structs.replace(
            self.head,
            sequence=sequence,
            size=Size(size.entries + more.entries, size.bytes + more.bytes),
            writer=writer,
            unfolded=None if was is None or unfolded is None else was + unfolded,
        )
        return Written(head, self.is_bounded, commit, self.era, key, tags or {})

    def tags_after(
        self, key: bytes, *, found: Mapping[bytes, str], put: Mapping[bytes, str]
    ) -> Mapping[bytes, str]:
        """Returns the tags that are known once a key is put: those that were `found`, then `put`.

        Those that were asked for last stay.
        """
        if not (found or put or key in self.tags):
            return self.tags
        known = {name: tag for name, tag in self.tags.items() if name not in found and name != key}
        known |= {name: tag for name, tag in found.items() if name != key}
        known |= put
        return dict(islice(known.items(), max(len(known) - MOST_TAGS, 0), None))


class Lately:
    """Heads and sessions as they were left; safe from many threads."""

    def __init__(self, max_bytes: int = LATELY_BYTES) -> None:
        self._heads = ByteCache[tuple[TenantId, str], LeftHead](max_bytes)
        self._sessions = ByteCache[tuple[NamespaceId, str], LeftSession](max_bytes)
        self._rows = ByteCache[tuple[object, ...], tuple[Row, Any]](max_bytes)
        self._written = ByteCache[tuple[TenantId, str], Written](max_bytes)

    def take(self, tenant_id: TenantId, name: str) -> LeftHead | None:
        """Returns how a head was left; until it is left again, nobody else finds it."""
        return self._heads.take((tenant_id, name))

    def find_written(self, tenant_id: TenantId, name: str) -> Written | None:
        """Returns how a head was left by the last write of pending rows, if that is known."""
        return self._written.find((tenant_id, name))

    def note_written(self, written: Written) -> None:
        """Notes how a write of pending rows has left a head, once it is committed."""
        head = written.head
        size = _ROW_BYTES
        if written.tags:
            size += sum(_TAG_BYTES + len(key) for key in written.tags)
        self._written.put((head.tenant_id, head.name), written, size=size)

    def note_moved(self, tenant_id: TenantId, name: str, *, generation: int) -> None:
        """Notes that a head stands elsewhere: unless it is known how, who writes looks."""
        left = self.find_written(tenant_id, name)
        if left is not None and left.key is not None and left.head.generation != generation:
            self.note_written(msgspec.structs.replace(left, key=None))

    def find(self, left: LeftHead | None, session_id: str) -> LeftSession | None:
        """Returns how a session was left, if it and its head can be believed."""
        if left is None or not left.is_alone:
            return None
        return self._sessions.find((left.head.namespace_id, session_id))

    def leave(
        self, opened: OpenedSession, head: Head, found: LeftSession, *, before: LeftHead | None
    ) -> None:
        """Notes how a write leaves a head and a session.

        `opened` is as it found them, `before` how the head was last left.
        """
        if before is not None and before.head is opened.head:
            checksum, is_alone = before.checksum, True
        else:
            checksum = HEAD.checksum_of(head)
            found_head = msgspec.structs.replace(opened.head, unfolded=None)
            is_alone = before is not None and before.head == found_head
        left = LeftHead(
            head, opened.quota_bytes, checksum, is_alone, found.commit, opened.is_unheard
        )
        self._heads.put((head.tenant_id, head.name), left, size=_ROW_BYTES)
        key, session = (head.namespace_id, found.session.id), found.session
        size = _ROW_BYTES + len(session.metadata) + len(found.version.state)
        self._sessions.put(key, found, size=size)
        self._rows.put(key, (found.row, (session, found.version)), size=2 * size)

    def checked(self, key: tuple[object, ...], row: Row, read: Callable[[Row], T]) -> T:
        """Returns what a row says, which nothing but its key and itself decides.

        If it is the very row that was read under this key the last time, it was checked then.
        """
        known = self._rows.find(key)
        if known is not None and known[0] == row:
            return known[1]
        found = read(row)
        texts = sum(len(value) for value in row if isinstance(value, str | bytes))
        self._rows.put(key, (row, found), size=2 * (_ROW_BYTES + texts))
        return found

    def clear(self) -> None:
        """Forgets all of them."""
        self._heads.clear()
        self._sessions.clear()
        self._rows.clear()
        self._written.clear()

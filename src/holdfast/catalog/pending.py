"""The part of a transaction that is about what is pending: written, and in no snapshot yet.

Nothing hashes to the name of such a row, as content of a snapshot does. So each has a checksum over
all of it, which is checked wherever a row is read: one that is not what was written is named, and
is neither shown nor folded into a snapshot, where it would get a good name for ever.

A row that is not there has no checksum. So the head, which its writers write anyway, has the sum of
the *marks* of all keys that are pending: a number for each, of which the upper half counts, and the
lower is a checksum of the key. What the rows lack of the sum is the mark of the one that is
missing; so who asks for another key is not stopped by it. Who writes files and values has looked
which keys are new; of sessions and memories nobody looks, and the database does (`note_pending`).
"""

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from holdfast.catalog import rows
from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.driver import Driver, Several
from holdfast.catalog.mending import mended
from holdfast.errors import PendingDamaged
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.model.basics import Head, Plane, Size

PendingRow = tuple[bytes, bytes | None]
"""A key and its encoded entry; None says that the key is gone."""

_PLANES: Final = {plane.value: plane for plane in Plane}

_STARTS: Final = {plane: crc32(plane.value.encode()) for plane in Plane}
"""Where the checksum of the keys of each plane begins."""

ONE_MARK: Final = 1 << 32
"""What every mark is at least; each is below its double."""

_ROOT: Final = rows.HEAD.columns.index("root")
_UNFOLDED: Final = rows.HEAD.columns.index("unfolded")

_ADDING: Final = Several(
    ("add_new_pending", "advance_head"),
    (
        "namespace_id",
        "plane",
        "key",
        "entry",
        "checksum",
        "sequence",
        "writer",
        "more_entries",
        "more_bytes",
        "unfolded",
    ),
)

Base = tuple[NamespaceId, ObjectId, int | None]
"""A namespace, what its head stands on, and the sum of the marks of what is pending there."""


class PendingQueries(AbsenceQueries):
    """Rows of pending changes."""

    __slots__ = ()

    _db: Driver
    _sequences: dict[int, int]

    def find_at_head(
        self, tenant_id: TenantId, name: str, plane: Plane, key: bytes
    ) -> tuple[Base, PendingRow | None] | None:
        """Returns what a namespace stands on, and its pending row for one key if there is one.

        None if there is no such namespace.
        """
        query = "find_at_head"
        asked = {"tenant_id": tenant_id, "name": name, "plane": plane.value, "key": key}
        row = self._db.one(query, **asked) or self.look_again(rows.HEAD, query, asked)
        if row is None:
            return None
        head, found = row[: rows.HEAD.width], row[rows.HEAD.width :]
        # Of another namespace's id nothing is pending, another root holds something else, and under
        # another name all of it is somebody else's.
        rows.HEAD.check(head[:-1], head[-1])
        base = head[0], ObjectId(head[_ROOT]), head[_UNFOLDED]
        if found[0] is None:
            return base, None
        # A damaged page may lead to a row that is sound, and another's.
        if found[0] != key:
            raise PendingDamaged(plane, key=key)
        return base, _checked(head[0], plane, found)

    def find_base(self, tenant_id: TenantId, name: str) -> Base | None:
        """Returns what a namespace stands on; None if there is no such namespace."""
        query, asked = "find_head", {"tenant_id": tenant_id, "name": name}
        row = self._db.one(query, **asked) or self.look_again(rows.HEAD, query, asked)
        if row is None:
            return None
        rows.HEAD.check(row[:-1], row[-1])
        return row[0], ObjectId(row[_ROOT]), row[_UNFOLDED]

    def find_pending(
        self, namespace_id: NamespaceId, plane: Plane, keys: Sequence[bytes]
    ) -> dict[bytes, bytes | None]:
        found = self._db.by_keys(
            "find_pending", keys, near=True, namespace_id=namespace_id, plane=plane.value
        )
        return dict([_checked(namespace_id, plane, row) for row in found])

    def range_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        *,
        start: bytes,
        stop: bytes | None,
        most: int | None = None,
    ) -> list[PendingRow]:
        where: dict[str, object] = {"namespace_id": namespace_id, "plane": plane.value}
        where |= {"start": start, "most": rows.NO_LIMIT if most is None else most}
        if stop is None:
            found = self._db.all("range_pending", **where)
        else:
            found = self._db.all("range_pending_until", stop=stop, **where)
        return [_checked(namespace_id, plane, row) for row in found]

    def last_pending(
        self, namespace_id: NamespaceId, plane: Plane, *, start: bytes, stop: bytes, most: int
    ) -> list[PendingRow]:
        """Returns rows from below `stop` down to `start`, the greatest key first."""
        found = self._db.all(
            "last_pending",
            namespace_id=namespace_id,
            plane=plane.value,
            start=start,
            stop=stop,
            most=most,
        )
        return [_checked(namespace_id, plane, row) for row in found]

    def all_pending(self, namespace_id: NamespaceId) -> list[tuple[Plane, bytes, bytes | None]]:
        """Returns every row; raises `PendingDamaged` if one of them is not what was written."""
        sound, damaged = self.sort_pending(namespace_id)
        if damaged:
            raise damaged[0]
        return sound

    def sort_pending(
        self, namespace_id: NamespaceId
    ) -> tuple[list[tuple[Plane, bytes, bytes | None]], list[PendingDamaged]]:
        """Returns the rows that are what was written, and an error for each that is not."""
        sound: list[tuple[Plane, bytes, bytes | None]] = []
        damaged: list[PendingDamaged] = []
        for plane, *row in self._db.all("all_pending", namespace_id=namespace_id):
            if plane not in _PLANES:
                damaged.append(PendingDamaged(plane, key=row[0]))
                continue
            try:
                sound.append((_PLANES[plane], *_checked(namespace_id, plane, row)))
            except PendingDamaged as exc:
                damaged.append(exc)
        return sound, damaged

    def pending_keys(self, namespace_id: NamespaceId) -> list[tuple[Plane, bytes]]:
        """Returns the keys of all rows, whatever they hold: that is neither read nor checked."""
        found = self._db.all("all_pending_keys", namespace_id=namespace_id)
        return [(_PLANES[plane], key) for plane, key in found if plane in _PLANES]

    def count_pending(self, namespace_id: NamespaceId) -> int:
        return rows.get_row(self._db.one("count_pending", namespace_id=namespace_id), "count")[0]

    def put_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        changes: Iterable[PendingRow],
        *,
        sequence: int,
    ) -> None:
        self._db.put_rows(
            "put_pending",
            (seal(namespace_id, plane, *change, sequence=sequence) for change in changes),
            namespace_id=namespace_id,
            plane=plane.value,
            sequence=sequence,
        )

    def note_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        changes: Sequence[PendingRow],
        *,
        sequence: int,
        more: Size,
        writer: str,
    ) -> None:
        """Puts rows, and moves a head on that is locked; nobody has looked at what is pending.

        The marks of those that are not are added by the database, before it puts them.
        """
        place = {"namespace_id": namespace_id, "plane": plane.value}
        first, *others = ({**place, "key": key, "mark": mark_of(plane, key)} for key, _ in changes)
        self._db.say(
            "set_sequence",
            sequence=sequence,
            more_entries=more.entries,
            more_bytes=more.bytes,
            writer=writer,
            **first,
        )
        if others:
            self._db.say_many("mark_pending", others)
        self._sequences[namespace_id] = sequence
        self.put_pending(namespace_id, plane, changes, sequence=sequence)

    def add_pending(
        self, namespace_id: NamespaceId, plane: Plane, change: PendingRow, *, sequence: int
    ) -> bool:
        """Adds a row; False, and nothing is done, if its key is pending already."""
        key, entry, checksum = seal(namespace_id, plane, *change, sequence=sequence)
        added = self._db.run(
            "add_pending",
            namespace_id=namespace_id,
            plane=plane.value,
            key=key,
            entry=entry,
            checksum=checksum,
            sequence=sequence,
        )
        return added == 1

    def add_trusted(
        self,
        head: Head,
        checksum: int,
        plane: Plane,
        change: PendingRow,
        *,
        more: Size,
        writer: str,
    ) -> None:
        """Adds a row for a new key, and moves a head on, unlooked at; asks nothing.

        If the head is not so, with this checksum, or its tenant has a quota, that is `Busy` with
        the next answer; if the key is pending already, it is `Conflict`.
        """
        namespace_id, sequence = head.namespace_id, head.sequence + 1
        self._db.insist(
            "trust_namespace",
            locked=True,
            namespace_id=namespace_id,
            tenant_id=head.tenant_id,
            sequence=head.sequence,
            writer=head.writer,
            checksum=checksum,
        )
        sealed = seal(namespace_id, plane, *change, sequence=sequence)
        mark, size = mark_of(plane, change[0]), (more.entries, more.bytes)
        self._db.say_all(
            _ADDING, [namespace_id, plane.value, *sealed, sequence, writer, *size, mark]
        )
        self._sequences[namespace_id] = sequence

    def drop_pending(self, namespace_id: NamespaceId, *, upto: int) -> None:
        """Drops what was written up to that sequence, and not what was overwritten since.

        The head is locked, and was moved: for all that it says, nothing is pending any more.
        """
        self._db.say("drop_pending", namespace_id=namespace_id, sequence=upto)
        if self._sequences.get(namespace_id) != upto:
            self.mark_anew(namespace_id)

    def mark_anew(self, namespace_id: NamespaceId) -> None:
        """Has the head, which is locked, say that what is pending and sound is all there is."""
        sound, damaged = self.sort_pending(namespace_id)
        # Of what is damaged nobody knows the key: it may be put right, and counts then.
        unfolded = None if damaged else marks_of(sound)
        self._db.say("set_unfolded", namespace_id=namespace_id, unfolded=unfolded)

    def mend_pending(self, namespace_id: NamespaceId, damaged: PendingDamaged) -> bool:
        """Puts a flipped bit of a damaged row back, if it is that; says whether."""
        found = self._db.by_keys(
            "find_pending", [damaged.key], namespace_id=namespace_id, plane=damaged.plane
        )
        if not found:
            return False
        key, entry, sequence, checksum = found[0]
        values = mended((namespace_id, damaged.plane, key, entry, sequence), checksum)
        if values is None or values[0] != namespace_id or values[1] not in _PLANES:
            return False
        self.discard_pending(namespace_id, damaged)
        plane, changes = _PLANES[values[1]], [(values[2], values[3])]
        # While its key was another, somebody may have written there anew: that stays.
        if not self._db.by_keys(
            "find_pending", [values[2]], namespace_id=namespace_id, plane=plane.value
        ):
            self.put_pending(namespace_id, plane, changes, sequence=values[4])
        else:
            mark = mark_of(plane, values[2])
            self._db.say("take_unfolded", namespace_id=namespace_id, mark=mark)
        return True

    def discard_pending(self, namespace_id: NamespaceId, damaged: PendingDamaged) -> None:
        """Drops a row that is not what was written."""
        self._db.say(
            "discard_pending", namespace_id=namespace_id, plane=damaged.plane, key=damaged.key
        )


def mark_of(plane: Plane, key: bytes) -> int:
    """Returns what a key adds to the sum in its head."""
    return ONE_MARK + crc32(key, _STARTS[plane])


def marks_of(pending: Iterable[tuple[Plane, bytes, bytes | None]]) -> int:
    """Returns the sum of the marks of pending rows."""
    return sum(mark_of(plane, key) for plane, key, _ in pending)


def seal(
    namespace_id: NamespaceId, plane: Plane, key: bytes, entry: bytes | None, *, sequence: int
) -> tuple[bytes, bytes | None, int]:
    """Returns a key and an entry with their checksum."""
    return key, entry, rows.sum_of((namespace_id, plane, key, entry, sequence))


def _checked(namespace_id: NamespaceId, plane: str, row: rows.Row) -> PendingRow:
    """Returns a key and its entry, if the row of both is what was written."""
    key, entry, sequence, checksum = row
    # None: of a row that is older than checksums.
    if checksum is not None and checksum != rows.sum_of(
        (namespace_id, plane, key, entry, sequence)
    ):
        raise PendingDamaged(plane, key=key)
    return key, entry

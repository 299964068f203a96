"""Finds rows that are not what was written, and puts a flipped bit back.

One bit is what goes wrong most often, and a checksum says which it was: only one of all rows that
differ from the one that is there by a single bit has it. What is not told so stays as it is.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.catalog.driver import Driver
from holdfast.catalog.hashing import to_seal
from holdfast.catalog.rows import (
    CHECKSUM,
    EVENT,
    HEAD,
    RECORDS,
    SESSION,
    TENANT,
    TRACE,
    VERSION,
    Record,
    Row,
    get_row,
    sum_of,
)
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import Head
from holdfast.model.events import LOST
from holdfast.model.sessions import SessionRow, VersionRow
from holdfast.model.traces import TraceRow

MOST_BYTES: Final = 4096
"""Rows above are left as they are: every bit is tried, each with a checksum of the whole row."""

_NUMBER_BITS: Final = 63

_PAGE: Final = 500
"""Rows that are looked at together: those of memories may have 100 KB each, most have 200 bytes."""

_BY_NUMBER: Final = frozenset({"tenant", "namespace", "event", "telling", "memory"})
"""Records whose rows are found by a number; all others by the text of an id."""

_WITH: Final = {"webhook": "drop_deliveries_to", "task": "drop_changes_of_task"}
"""What goes before a row that is dropped."""


class DamagedRow(msgspec.Struct, frozen=True):
    """A row that is not what was written."""

    record: Record[Any]
    key: Any
    """What it is found by."""
    whose: TenantId
    row: Sequence[Any]
    error: Damaged

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.record.name_of(self.row).encode("utf-8", "backslashreplace").decode()

    @property
    def place(self) -> dict[str, Any]:
        """What says which row it is, and that it has not changed since."""
        found = -1 if self.row[-1] is None else self.row[-1]
        return {"was": self.key, "whose": self.whose, "found": found}

    @property
    def what(self) -> str:
        """What it is the row of."""
        return f"{self.record.name}: {self.name}"


class DamagedSession(msgspec.Struct, frozen=True):
    """A row of a session that is not what was written."""

    namespace_id: NamespaceId
    id: str
    row: Sequence[Any]


class MendingQueries:
    """Rows of all sealed records."""

    __slots__ = ()

    _db: Driver

    def iter_damaged_rows(self, tenant_id: TenantId) -> Iterator[DamagedRow]:
        """Yields every row of a tenant that has a checksum and is not what was written."""
        for record in sealed_records():
            after: object = first_key(record)
            while after is not None:
                found, after = self.page_damaged_rows(record, tenant_id, after=after)
                yield from found

    def page_damaged_rows(
        self, record: Record[Any], tenant_id: TenantId, *, after: object
    ) -> tuple[list[DamagedRow], object]:
        """Returns what is damaged on one page of a record's rows, and where the next begins."""
        page = self._db.all_as_stored(
            f"page_{record.name}_rows", tenant_id=tenant_id, after=after, most=_PAGE
        )
        damaged = list[DamagedRow]()
        for key, *row in page:
            try:
                record.read(row)
            except Damaged as exc:
                damaged.append(DamagedRow(record, bound(key), tenant_id, row, exc))
        # In an index that is damaged, too, the last need not be the greatest.
        is_more = len(page) == _PAGE and bound(page[-1][0]) != after
        return damaged, bound(page[-1][0]) if is_more else None

    def mend_row(self, damaged: DamagedRow) -> bool:
        """Puts a flipped bit of a row back, if it is that; says whether."""
        record, row = damaged.record, [*damaged.row]
        values = mended([*record.firm(row)], row[-1], record.sum_of)
        # An id that the database gave out cannot be changed back.
        if values is None or (record in (HEAD, TENANT) and values[0] != row[0]):
            return False
        rest = iter(values)
        columns = record.columns[:-1]
        known = {
            column: value if column in record.loose else next(rest)
            for column, value in zip(columns, row[:-1], strict=True)
        }
        known[CHECKSUM] = record.sum_of(values)
        return self._db.run(f"mend_{record.name}_row", **damaged.place, **known) > 0

    def has_moved(self, tenant_id: TenantId) -> bool:
        """Says whether a tenant, or a namespace of its, has a damaged row with another number.

        What refers to the one that it had is its own, and not lost.
        """
        for record in (TENANT, HEAD):
            after: object = first_key(record)
            while after is not None:
                found, after = self.page_damaged_rows(record, tenant_id, after=after)
                for each in found:
                    values = mended([*record.firm(each.row)], each.row[-1], record.sum_of)
                    if values is not None and values[0] != each.row[0]:
                        return True
        return False

    def set_tenant(
        self, damaged: DamagedRow, *, public_id: str | None, quota_bytes: int | None
    ) -> None:
        """Writes the row of a tenant anew; what is not given is taken from what is there."""
        known = dict(zip(TENANT.columns, damaged.row, strict=True))
        if public_id is not None:
            known |= {"public_id": public_id, "quota_bytes": quota_bytes}
        values = [known[column] for column in TENANT.columns[:-1]]
        known[CHECKSUM] = sum_of(TENANT.firm(values))
        self._db.run("mend_tenant_row", **damaged.place, **known)

    def blank_event(self, damaged: DamagedRow) -> None:
        """Writes in the place of a damaged event that there was one: numbers have no gaps."""
        known = dict(zip(EVENT.columns, damaged.row, strict=True))
        known |= {"type": LOST, "namespace_id": None, "namespace": None, "data": "{}"}
        known |= {"tenant_id": damaged.whose, "number": damaged.key}
        values = [known[column] for column in EVENT.columns[:-1]]
        known[CHECKSUM] = sum_of(EVENT.firm(values))
        self._db.run("mend_event_row", **damaged.place, **known)

    def drop_row(self, damaged: DamagedRow) -> None:
        """Lets go of a row that is not what was written, and of what goes with it."""
        name = damaged.record.name
        if name in _WITH:
            self._db.run(_WITH[name], was=damaged.key)
        self._db.run(f"drop_{name}_row", **damaged.place)

    # Sessions, whose rows have a hash

    def damaged_sessions(self, namespace_id: NamespaceId) -> list[DamagedSession]:
        """Returns the rows of sessions that are not what was written."""
        found, after = list[DamagedSession](), ""
        while True:
            page = self._db.all("page_sessions", namespace_id=namespace_id, after=after, most=_PAGE)
            for row in page:
                if row[-1] != to_seal(SESSION.hash_row(row)):
                    found.append(DamagedSession(namespace_id, str(row[1]), row))
            if len(page) < _PAGE or page[-1][1] == after:
                return found
            after = page[-1][1]

    def mend_session(self, damaged: DamagedSession) -> bool:
        """Puts a flipped bit of a session's row back, if it is that; says whether.

        One that was found in the place of another goes to its own, unless there is one by now.
        """
        *values, seal = damaged.row
        found = unflipped(values, lambda tried: _has_seal(tried, seal))
        if found is None and _is_bit(to_seal(SESSION.hash_row(values)), seal):
            found = values
        if found is None:
            return False
        known = dict(zip(SESSION.columns, [*found, to_seal(SESSION.hash_row(found))], strict=True))
        # In its place: what belongs to a session goes with its row.
        if found[:2] == values[:2]:
            self._db.run("set_session", **known)
        else:
            self._db.run("add_session", **known)
            self.drop_session(damaged)
        return True

    def drop_session(self, damaged: DamagedSession) -> None:
        """Lets go of a session's row that is not what was written."""
        where = {"namespace_id": damaged.namespace_id, "id": damaged.id}
        self._db.run("drop_session", **where, seal=damaged.row[-1])

    def mend_formers(self, namespace_id: NamespaceId) -> tuple[int, list[str]]:
        """Puts flipped bits back in rows of sessions whose id another has by now.

        Returns in how many, and the ids of those that are damaged beyond that.
        """
        count, lost = 0, list[str]()
        for row in self._db.all("all_former", namespace_id=namespace_id):
            *values, seal = row
            if _has_seal(values, seal):
                continue
            found = unflipped(values, lambda tried, seal=seal: _has_seal(tried, seal))
            if found is None:
                lost.append(str(row[1]))
                continue
            self._drop_former(row)
            self._db.run("add_former", **dict(zip(SESSION.columns, [*found, seal], strict=True)))
            count += 1
        return count, lost

    def sound_formers(self, namespace_id: NamespaceId, session_id: str) -> list[SessionRow]:
        """Returns the rows of those that had an id before, without damaged ones."""
        rows = self._db.all("former_sessions", namespace_id=namespace_id, id=session_id)
        return [SESSION.read(row) for row in rows if _has_seal(row[:-1], row[-1])]

    def drop_damaged_formers(self, namespace_id: NamespaceId, session_id: str) -> None:
        """Lets go of such rows that are not what was written."""
        for row in self._db.all("former_sessions", namespace_id=namespace_id, id=session_id):
            if not _has_seal(row[:-1], row[-1]):
                self._drop_former(row)

    def _drop_former(self, row: Sequence[Any]) -> None:
        known = dict(zip(SESSION.columns, row, strict=True))
        where = {name: known[name] for name in ("namespace_id", "id", "version")}
        self._db.run("drop_former", **where)

    def drop_entities_but(
        self, namespace_id: NamespaceId, session_id: str, began: Collection[int]
    ) -> None:
        """Lets go of what those knew that had an id, but for those that began then."""
        where = {"namespace_id": namespace_id, "session_id": session_id}
        for (began_at,) in self._db.all("beginnings_of_entities", **where):
            if began_at not in began:
                self._db.run("drop_former_entities", **where, began_at=began_at)

    def next_number(self, namespace_id: NamespaceId, session_id: str, *, after: int) -> int | None:
        """Returns the lowest number above one that a version of an id has, if one has."""
        where = {"namespace_id": namespace_id, "session_id": session_id, "after": after}
        return get_row(self._db.one("next_number", **where), "number")[0]

    def replace_session(self, session: SessionRow) -> None:
        """Writes the row of a session, whatever is there of it."""
        known = SESSION.write(session)
        self._db.run("drop_stray_session", id=session.id)
        if self._db.run("add_session", **known) == 0:
            self._db.run("set_session", **known)

    def mend_session_count(self, namespace_id: NamespaceId) -> bool:
        """Counts anew how many sessions are present; says whether there were as many."""
        return self._db.run("mend_session_count", namespace_id=namespace_id) > 0

    def has_versions(self, namespace_id: NamespaceId, session_id: str) -> bool:
        """Says whether a session has a version, sound or not."""
        where = {"namespace_id": namespace_id, "session_id": session_id}
        return self._db.one("newest_version", **where) is not None

    def newest_version(self, namespace_id: NamespaceId, session_id: str) -> VersionRow | None:
        """Returns the version of a session with the greatest number."""
        row = self._db.one("newest_version", namespace_id=namespace_id, session_id=session_id)
        return VERSION.find(row, namespace_id, session_id)

    def traces_of(self, head: Head, session_id: str, *, oldest_first: bool) -> TraceRow | None:
        """Returns what the journal says that was done to a session itself, first or last."""
        where = {"tenant_id": head.tenant_id, "stream": head.namespace_id}
        name = "first_traces_of" if oldest_first else "last_traces_of"
        return TRACE.find(self._db.one(name, **where, session_id=session_id, most=1))


def _has_seal(values: Sequence[Any], seal: object) -> bool:
    return to_seal(SESSION.hash_row(values)) == seal


def bound(key: object) -> object:
    """Returns a key as a query takes it: text that is none as its bytes."""
    if not isinstance(key, str):
        return key
    try:
        key.encode()
    except UnicodeEncodeError:
        return key.encode("utf-8", "surrogateescape")
    return key


def first_key(record: Record[Any]) -> int | str:
    """Returns what stands before every key of a record's rows."""
    return -1 if record.name in _BY_NUMBER else ""


def sealed_records() -> list[Record[Any]]:
    """Returns the records whose rows have a checksum."""
    return [record for record in RECORDS.values() if record.is_sealed]


def mended(
    values: Sequence[Any], checksum: int | None, sum_up: Callable[[Row], int] = sum_of
) -> list[Any] | None:
    """Returns what values were before one bit of them, or of their checksum, was flipped."""
    if checksum is None:
        return None
    if (sum_up(values) ^ checksum).bit_count() <= 1:
        return [*values]
    return unflipped(values, lambda tried: sum_up(tried) == checksum)


def unflipped(values: Sequence[Any], is_it: Callable[[list[Any]], bool]) -> list[Any] | None:
    """Returns values that differ by one bit and are what is looked for."""
    if sum(len(v) for v in values if isinstance(v, str | bytes)) > MOST_BYTES:
        return None
    tried = [*values]
    for place, value in enumerate(values):
        for other in flipped(value):
            tried[place] = other
            if is_it(tried):
                return tried
        tried[place] = value
    return None


def _is_bit(one: bytes, other: bytes) -> bool:
    """Says whether two runs of bytes differ by one bit."""
    if len(one) != len(other):
        return False
    return (int.from_bytes(one) ^ int.from_bytes(other)).bit_count() == 1


def flipped(value: object) -> Iterator[object]:
    """Yields what a value is with one bit of it flipped."""
    if isinstance(value, int):
        yield from (value ^ 1 << bit for bit in range(_NUMBER_BITS))
        yield value ^ -1 << _NUMBER_BITS
    elif isinstance(value, str) and value.isascii():
        # The eighth bit of a single byte makes no text.
        for at, char in enumerate(value):
            before, after = value[:at], value[at + 1 :]
            yield from (before + chr(ord(char) ^ 1 << bit) + after for bit in range(7))
    elif isinstance(value, str | bytes):
        data = bytearray(
            value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        )
        for bit in range(8 * len(data)):
            data[bit >> 3] ^= 1 << (bit & 7)
            if isinstance(value, bytes):
                yield bytes(data)
            else:
                # An exception for each that is no text takes longer than all else.
                other = data.decode("utf-8", "ignore")
                if len(other.encode()) == len(data):
                    yield other
            data[bit >> 3] ^= 1 << (bit & 7)

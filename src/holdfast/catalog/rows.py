"""Rows to values and back, the same for both databases.

A value's fields are columns of the same names, in the same order: a `Record` knows them, queries
name them all at once (`{session}`), and what comes out of a row is made by their order. So a new
column is a field here and a column there. Instants are stored as whole microseconds since 1970 in
UTC, a yes or no as 1 or 0, a member of an enumeration as its value, lists and details as JSON
text: what comes out is exactly what went in. A row that stands for no value is `Damaged`.

A row of a `sealed` record has a checksum over what it stores. It is made where a row is written and
checked where one is read, both here: who changes a column writes the whole value, so that no query
can leave the checksum behind. Rows that are older than checksums have none, until they are written.
"""

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from types import NoneType, UnionType
from typing import Any, Final, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec

from holdfast.catalog.hashing import digest_of, to_seal
from holdfast.errors import Damaged, RowDamaged, shorten
from holdfast.instants import from_us, to_us
from holdfast.model.basics import BESIDE, Head, Size, SnapshotInfo, Tenant
from holdfast.model.entities import EntityRow
from holdfast.model.erasures import ErasureRow
from holdfast.model.events import EventRow, UnnumberedRow
from holdfast.model.gitbackups import GitBackup
from holdfast.model.keys import Key, Login, SignIn
from holdfast.model.memories import MemoryRow
from holdfast.model.replies import Reply
from holdfast.model.sessions import BranchRow, SessionRow, TurnRow, VersionRow
from holdfast.model.tasks import Schedule, TaskRun
from holdfast.model.traces import TraceRow
from holdfast.model.webhooks import Delivery, Webhook

Row = Sequence[Any]
"""What a driver returns for one row."""

Convert = Callable[[Any], Any]

V = TypeVar("V")

CHECKSUM: Final = "checksum"
"""The column that seals a row, the last of its record."""

_encode: Final = msgspec.msgpack.Encoder().encode


def sum_of(values: Sequence[object]) -> int:
    """Returns the checksum of stored values: of their msgpack, as one array."""
    try:
        return crc32(_encode(values))
    except (UnicodeEncodeError, OverflowError, TypeError):
        # What no row can hold: it is the database's driver that refuses it.
        return 0


NO_LIMIT: Final = 2**62
"""Above any number and instant, and more rows than any table has: 'all of them' in a query."""


def get_row(row: Row | None, what: str) -> Row:
    """Returns a row that has to be there; raises `Damaged` if it is not."""
    if row is None:
        message = f"the catalog has lost a row: {what}"
        raise Damaged(message)
    return row


class Sorted(msgspec.Struct, Generic[V], frozen=True):
    """What rows stand for, as far as they are what was written."""

    sound: list[V]
    damaged: list[Damaged]

    def __len__(self) -> int:
        return len(self.sound) + len(self.damaged)


class Record(Generic[V]):
    """How a value is a row.

    `renamed` says which columns are not called as their fields are; `without` names fields that
    are no columns, or that some queries alone ask for, last. `prefix` stands before the names of
    parameters, where one query takes two values. Of a `sealed` one all columns are under a
    checksum, but for those that are `loose`: they count, and queries change them in place.

    Columns that stand after the one it `grows_after` came later than rows that are there: one that
    holds nothing is NULL, for the field's default, and no part of the checksum.
    """

    def __init__(
        self,
        name: str,
        make: type[V],
        *,
        renamed: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
        prefix: str = "",
        sealed: bool = False,
        loose: Sequence[str] = (),
        grows_after: str | None = None,
    ) -> None:
        self.name, self._make, self.is_sealed = name, make, sealed
        self._fields = [field for field in make.__annotations__ if field not in without]
        columns = [prefix + (renamed or {}).get(field, field) for field in self._fields]
        self._paths = [*self._fields]
        self._size = columns.index("size") if "size" in columns else None
        if self._size is not None:
            columns[self._size : self._size + 1] = ["entries", "bytes"]
            self._paths[self._size : self._size + 1] = ["size.entries", "size.bytes"]
        self._columns = tuple(columns)
        self.columns: tuple[str, ...] = (*columns, prefix + CHECKSUM) if sealed else self._columns
        self.width: int = len(self.columns)
        self.loose = frozenset(loose)
        firm = [place for place, column in enumerate(columns) if column not in self.loose]
        self.firm: Callable[[Row], tuple[Any, ...]] = itemgetter(*firm)
        """Returns what is under the checksum, of a row's values in their order."""
        first = len(columns) if grows_after is None else columns.index(grows_after) + 1
        self._later = range(first, len(columns))
        self._first = len(firm) - len(self._later)
        self._get = attrgetter(*self._paths)
        # Where a value takes its fields in their order, that is half the time.
        taken = getattr(make, "__match_args__", ())
        self._is_by_order = [*taken[: len(self._fields)]] == self._fields

    def read(self, row: Row) -> V:
        """Returns the value of a row; raises `Damaged`."""
        values = [*row]
        if self.is_sealed:
            self.check(values, values.pop())
        try:
            for place, convert, may_lack in self._reading:
                stored = values[place]
                if stored is not None or not may_lack:
                    values[place] = convert(stored)
            if self._size is not None:
                values[self._size : self._size + 2] = [Size(*values[self._size : self._size + 2])]
            if self._is_by_order:
                return self._make(*values)
            parts = dict(zip(self._fields, values, strict=True))
            for place in self._later:
                if row[place] is None:
                    del parts[self._columns[place]]
            return self._make(**parts)
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            message = f"the row of a {self.name} cannot be read: {exc!r}"
            raise Damaged(message) from exc

    def sort(self, rows: Iterable[Row]) -> "Sorted[V]":
        """Returns the values of rows that are what was written, and an error for each other one.

        For whoever works for many, and is not kept from that by what is damaged of one.
        """
        sound, damaged = list[V](), list[Damaged]()
        for row in rows:
            try:
                sound.append(self.read(row))
            except Damaged as exc:
                damaged.append(exc)
        return Sorted(sound, damaged)

    def check(self, values: Row, checksum: int | None) -> None:
        """Raises `RowDamaged` unless stored values are those that a checksum was made of.

        Rows from before there were any have none, and so has one that has lost it.
        """
        if checksum is None:
            is_sound = self._is_of_its_kind(values)
        else:
            is_sound = self.sum_of(self.firm(values)) == checksum
        if not is_sound:
            raise RowDamaged(f"the {self.name}", name=self.name_of(values))

    def _is_of_its_kind(self, values: Row) -> bool:
        """Says whether values are of the types that their columns have."""
        return all(
            isinstance(value, _stored_as(kind))
            or (value is None and (may_lack or place in self._later))
            for place, (value, (kind, may_lack)) in enumerate(
                zip(values, self._kinds(), strict=True)
            )
        )

    def sum_of(self, firm: Row) -> int:
        """Returns the checksum of what is under it."""
        last = len(firm)
        while last > self._first and firm[last - 1] is None:
            last -= 1
        return sum_of(firm[:last])

    def name_of(self, values: Row) -> str:
        """Returns what people know a row by: its id, if it has one."""
        return str(values[self._columns.index("id") if "id" in self._columns else 0])

    def find(self, row: Row | None) -> V | None:
        """Returns the value of a row, if there is one."""
        return None if row is None else self.read(row)

    def write(self, value: V) -> dict[str, Any]:
        """Returns the parameters that store a value, by the names of its columns."""
        return dict(zip(self.columns, self.row(value), strict=True))

    def row(self, value: V) -> list[Any]:
        """Returns what is stored of a value, in the order of its columns."""
        values = self.values(value)
        if self.is_sealed:
            values.append(self.sum_of(self.firm(values)))
        return values

    def checksum_of(self, value: V) -> int:
        """Returns the checksum that the row of a value has."""
        return self.sum_of(self.firm(self.values(value)))

    def values(self, value: V) -> list[Any]:
        """Returns the same without what seals it."""
        values: list[Any] = [*self._get(value)]
        for place in self._later:
            values[place] = values[place] or None
        for place, convert in self._writing:
            if (given := values[place]) is not None:
                values[place] = convert(given)
        return values

    @cached_property
    def _reading(self) -> list[tuple[int, Convert, bool]]:
        """What is stored in another form: where, how it is read, and whether it may be NULL."""
        return [
            (place, _forms(kind)[0], may_lack or place in self._later)
            for place, (kind, may_lack) in enumerate(self._kinds())
            if _forms(kind) is not _AS_IT_IS
        ]

    @cached_property
    def _writing(self) -> list[tuple[int, Convert]]:
        return [
            (place, _forms(kind)[1])
            for place, (kind, _) in enumerate(self._kinds())
            if _forms(kind) is not _AS_IT_IS
        ]

    def _kinds(self) -> Iterator[tuple[object, bool]]:
        """Yields the type of each column's field, and whether there may be none."""
        hints = get_type_hints(self._make)
        for path in self._paths:
            hint = hints.get(path, int)
            if get_origin(hint) not in (UnionType, Union):
                yield hint, False
            else:
                (kind,) = (each for each in get_args(hint) if each is not NoneType)
                yield kind, True


class Sealed(msgspec.Struct, Generic[V], frozen=True):
    """A value as its row has it."""

    value: V
    values: Sequence[Any]
    """In the order of the columns, its seal the last."""
    digest: bytes
    """The hash that the seal is of."""


class HashedRecord(Record[V]):
    """How a value is a row that has its seal beside it, in a column of its own, the last.

    That is the beginning of a hash over the first columns, so many as are `hashed`, and over what
    the reader knows before he finds the row: where it is. A `salt` that the row has goes first.
    The first columns, as many as are `named`, say which row it is.
    """

    def __init__(
        self,
        name: str,
        make: type[V],
        *,
        hashed: int,
        named: int,
        prefix: str = "",
        grows_after: str | None = None,
    ) -> None:
        super().__init__(name, make, prefix=prefix, grows_after=grows_after)
        self._hashed, self._named = hashed, named
        self._salt = self._fields.index("salt") if "salt" in self._fields else None
        self.columns = (*self._columns, f"{prefix}seal")
        self.width += 1

    def read(self, row: Row, *where: object) -> V:
        """Returns the value of a row that was found there; raises `Damaged`."""
        if row[-1] != to_seal(self.hash_row(row, *where)):
            named = shorten(repr((*where, *row[: self._named])))
            message = f"the row of {self.name} {named} is not what was written: its hash is another"
            raise Damaged(message)
        return self.peek(row)

    def find(self, row: Row | None, *where: object) -> V | None:
        """Returns the value of a row that was found there, if there is one; raises `Damaged`."""
        return None if row is None else self.read(row, *where)

    def peek(self, row: Row) -> V:
        """Returns the value of a row, whatever its seal says; raises `Damaged`."""
        return super().read(row[:-1])

    def is_whole(self, row: Row, *where: object, digest: bytes | None) -> bool:
        """Says whether a row is what its seal and a hash say that it is."""
        found = self.hash_row(row, *where)
        return row[-1] == to_seal(found) and digest == found

    def write(self, value: V, *where: object) -> dict[str, Any]:
        """Returns the parameters that store a value there."""
        return dict(zip(self.columns, self.seal(value, *where).values, strict=True))

    def seal(self, value: V, *where: object) -> "Sealed[V]":
        """Returns a value as it is stored there."""
        values = self.values(value)
        digest = self.hash_row(values, *where)
        values.append(to_seal(digest))
        return Sealed(value, values, digest)

    def hash_row(self, row: Row, *where: object) -> bytes:
        """Returns the hash of a row that is stored there; raises `Damaged`."""
        salt, last = None if self._salt is None else row[self._salt], self._hashed
        while last > self._later.start and row[last - 1] is None:
            last -= 1
        try:
            return digest_of((*where, *row[:last]), salt)
        except (TypeError, ValueError, OverflowError) as exc:
            message = f"the row of a {self.name} cannot be read: {exc!r}"
            raise Damaged(message) from exc


def _same(value: object) -> object:
    return value


_AS_IT_IS: Final = (_same, _same)


def _forms(hint: object) -> tuple[Convert, Convert]:
    """Returns how a field of this type is read, and how it is written."""
    kind = get_origin(hint) or hint
    if kind is datetime:
        return from_us, to_us
    if kind is bool:
        return bool, int
    if kind in _JSON:
        return _JSON[kind]
    if isinstance(kind, enum.EnumType):
        members = cast("Iterable[enum.Enum]", kind)
        # A dictionary, and past the property: to ask the enumeration takes 1 µs of every write.
        return {member.value: member for member in members}.__getitem__, attrgetter("_value_")
    return _AS_IT_IS


def _stored_as(hint: object) -> type:
    """Returns what the database gives for a field of this type."""
    kind = get_origin(hint) or getattr(hint, "__supertype__", hint)
    if kind in (int, bool, datetime):
        return int
    return bytes if kind is bytes else str


# What nearly every head has to redo, and nearly every snapshot for its detail, is nothing: neither
# parsed nor put into words, it saves 1 µs each time.


def _to_tuple(text: str) -> tuple[Any, ...]:
    return () if text == "[]" else tuple(json.loads(text))


def _from_items(items: Sequence[Any]) -> str:
    return json.dumps(items) if items else "[]"


def _to_dict(text: str) -> dict[str, Any]:
    return {} if text == "{}" else json.loads(text)


def _from_dict(items: dict[str, Any]) -> str:
    return json.dumps(items) if items else "{}"


_JSON: Final[dict[object, tuple[Convert, Convert]]] = {
    tuple: (_to_tuple, _from_items),
    list: (json.loads, _from_items),
    dict: (_to_dict, _from_dict),
}


TENANT: Final = Record("tenant", Tenant, sealed=True)
HEAD: Final = Record(
    "namespace",
    Head,
    renamed={"namespace_id": "id"},
    sealed=True,
    # What every write moves.
    loose=[
        "sequence",
        "entries",
        "bytes",
        "writer",
        "journal_number",
        "journal_hash",
        "unfolded",
    ],
)
SNAPSHOT: Final = Record(
    "snapshot", SnapshotInfo, without=BESIDE, sealed=True, grows_after="detail"
)
_ALL_OF_SESSION: Final = len(SessionRow.__struct_fields__)
SESSION: Final = HashedRecord(
    "session", SessionRow, hashed=_ALL_OF_SESSION, named=2, grows_after="deleted_at"
)
VERSION: Final = HashedRecord("version", VersionRow, hashed=9, named=1)
"""Found by its namespace and session. All but where it stands in the journal, and the salt."""
TURN: Final = HashedRecord("turn", TurnRow, hashed=5, named=2)
"""All but where it stands in the journal, and the salt."""
MADE: Final = HashedRecord("made", VersionRow, hashed=9, named=1, prefix="made_")
SAID: Final = HashedRecord("said", TurnRow, hashed=5, named=2, prefix="said_")
"""A version and a turn, with names that those of their session leave free."""
BRANCH: Final = HashedRecord("branch", BranchRow, hashed=3, named=1)
"""Found by its tenant. What it goes on from: how many turns there are is counted as they come."""
TRACE: Final = Record("trace", TraceRow, renamed={"created_us": "created_at"})
TOLD: Final = Record("told", TraceRow, renamed={"created_us": "created_at"}, prefix="told_")
"""The trace of a version, with names that the version's own values leave free."""
EVENT: Final = Record("event", EventRow, sealed=True)
TELLING: Final = Record("telling", UnnumberedRow, sealed=True)
HEARD: Final = Record("heard", UnnumberedRow, sealed=True, prefix="heard_")
"""What is told, with names that the change of a session leaves free."""
MEMORY: Final = Record(
    "memory",
    MemoryRow,
    without=["embedding"],
    sealed=True,
    # The database gives it out when the row is written.
    loose=["number"],
)
ENTITY: Final = Record("entity", EntityRow, sealed=True)
KEY: Final = Record("key", Key, sealed=True)
SIGN_IN: Final = Record("sign_in", SignIn)
LOGIN: Final = Record("login", Login)
WEBHOOK: Final = Record("webhook", Webhook, sealed=True)
# Who has a delivery in hand changes without a look at the rest.
DELIVERY: Final = Record("delivery", Delivery, sealed=True, loose=["claimed_until"])
TASK: Final = Record(
    "task",
    TaskRun,
    without=["namespace"],
    renamed={"before": "before_id", "after": "after_id", "restored": "restored_id"},
    sealed=True,
)
SCHEDULE: Final = Record("schedule", Schedule, without=["namespace"], sealed=True)
GIT_BACKUP: Final = Record(
    "gitbackup",
    GitBackup,
    without=["namespace"],
    sealed=True,
    loose=["claimed_until"],
    grows_after="withheld",
)
REPLY: Final = Record("reply", Reply)
ERASURE: Final = Record("erasure", ErasureRow, sealed=True)

RECORDS: Final[Mapping[str, Record[Any]]] = {
    record.name: record
    for record in (
        TENANT,
        HEAD,
        SNAPSHOT,
        SESSION,
        VERSION,
        MADE,
        SAID,
        BRANCH,
        TURN,
        TRACE,
        TOLD,
        EVENT,
        TELLING,
        MEMORY,
        ENTITY,
        KEY,
        SIGN_IN,
        LOGIN,
        WEBHOOK,
        DELIVERY,
        TASK,
        SCHEDULE,
        GIT_BACKUP,
        REPLY,
        ERASURE,
    )
}
"""By the names that queries call their columns by."""

"""The part of a transaction that looks twice before it says that there is no such row.

A row whose own key was damaged is found by nobody who asks for it, and so is one that the index of
its key has lost. So where a key has no row, all keys are asked for that differ from it by one bit,
past that index, and where there are few rows all of these: the checksum of a row says whether it is
the one, with this key in it. Who finds what he asks for pays nothing for it. And since anybody can
ask for what is not there, a miss has a bound: what cannot be an id is not looked for, and one among
very many rows not all over.
"""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from holdfast.catalog.counting import MOST_COUNTED, CountQueries
from holdfast.catalog.mending import flipped
from holdfast.catalog.rows import HEAD, Record, Row
from holdfast.errors import RowDamaged
from holdfast.ids import is_made_id

_OWNERS: Final = ("tenant_id", "namespace_id")
"""Columns that say whose a row is."""

_MOST_BYTES: Final = 64
"""Of a name of which every bit is tried: it has 512 of them."""

_PREFIX_BYTES: Final = 32
"""Of a longer name, where every bit is tried: of what follows, names are read that begin so."""

FEW: Final = 50
"""Rows that are all read, however much of their key is damaged: that takes less than to try."""

_LAST: Final = "\U0010ffff"
"""Behind every name that begins as what stands before it."""

_COUNTED: Final = {"memory": "memories", "entity": "entities"}
"""Records whose deleted rows stay for a while: what is counted is what is looked through."""


class AbsenceQueries(CountQueries):
    """Rows that are asked for by their keys."""

    __slots__ = ()

    def look_again(self, record: Record[Any], query: str, asked: Mapping[str, Any]) -> Row | None:
        """Raises `RowDamaged` if what a query has not found is there all the same.

        Returns it if somebody has written it meanwhile.
        """
        if not self._is_lost(record, asked):
            return None
        row = self._db.one(query, **asked)
        if row is None:
            raise RowDamaged(f"the {record.name}", name=str(asked[_key_of(record)]))
        return row

    def _is_lost(self, record: Record[Any], asked: Mapping[str, Any]) -> bool:
        key: str = asked[_key_of(record)]
        if record is not HEAD and not is_made_id(key):
            return False
        counted = _COUNTED.get(record.name)
        if counted is not None and self.comparing(asked["namespace_id"], counted)() > MOST_COUNTED:
            return False
        shared, keys = _near(key)
        near = {**asked, "keys": json.dumps(keys), "most": MOST_COUNTED, "few": FEW}
        if record is HEAD:
            near["tenants"] = json.dumps([*flipped(asked["tenant_id"])])
            near |= {"start": shared, "stop": shared and shared + _LAST}
        found = self._db.all_as_stored(f"near_{record.name}", **near)
        return any(map(_Looking(record, asked, {key, *keys}), found))


def _key_of(record: Record[Any]) -> str:
    return "name" if record is HEAD else "id"


def _near(key: str) -> tuple[str, list[str]]:
    """Returns the keys that differ from one by a bit; of a long one, in the part that is returned.

    Else that is empty.
    """
    data = key.encode()
    if len(data) <= _MOST_BYTES:
        return "", _flipped(key)
    shared = data[:_PREFIX_BYTES].decode("utf-8", "ignore")
    rest = key[len(shared) :]
    return shared, [each + rest for each in _flipped(shared)]


def _flipped(text: str) -> list[str]:
    return [each for each in map(str, flipped(text)) if "\0" not in each]


class _Looking:
    """Says of rows whether one is what is asked for, or was so before its key was damaged."""

    def __init__(
        self, record: Record[Any], asked: Mapping[str, Any], near: AbstractSet[str]
    ) -> None:
        self._firm, self._sum_of, self._near = record.firm, record.sum_of, near
        names = [each for each in record.columns[:-1] if each not in record.loose]
        self._key = names.index(_key_of(record))
        wanted = {*_OWNERS, _key_of(record)}
        self._wanted = [(at, asked[of]) for at, of in enumerate(names) if of in wanted & {*asked}]
        self._deleted = names.index("deleted_at") if "deleted_at" in names else None

    def __call__(self, row: Row) -> bool:
        known, checksum = [*self._firm(row)], row[-1]
        if checksum is None and known[self._key] not in self._near:
            return False  # It may be any other.
        tried = [*known]
        for at, value in self._wanted:
            tried[at] = value
        if checksum is not None and self._sum_of(tried) != checksum:
            return tried == known
        # What was deleted is not missed.
        return self._deleted is None or tried[self._deleted] is None

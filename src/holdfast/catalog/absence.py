"""The part of a transaction that looks twice before it says that there is no such row.

A row whose own key was damaged is found by nobody who asks for it, and so is one that the index of
its key has lost. So where a key has no row, all keys are asked for that differ from it by one bit,
past that index: the checksum of a row that has one of these says whether it is the one. Who finds
what he asks for pays nothing for it. And since anybody can ask for what is not there, a miss has a
bound: what cannot be an id, a long name, and one among very many rows is not looked for all over.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from holdfast.catalog.counting import MOST_COUNTED, CountQueries
from holdfast.catalog.mending import flipped
from holdfast.catalog.rows import HEAD, Record, Row
from holdfast.errors import RowDamaged
from holdfast.ids import is_made_id

_OWNERS: Final = ("tenant_id", "namespace_id")
"""Columns that say whose a row is."""

_MOST_BYTES: Final = 64
"""Of a name that is looked for twice: it has 512 bits, and each is a key to try."""

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
        if not (_is_short(key) if record is HEAD else is_made_id(key)):
            return False
        counted = _COUNTED.get(record.name)
        if counted is not None and self.comparing(asked["namespace_id"], counted)() > MOST_COUNTED:
            return False
        near = {**asked, "keys": json.dumps(_near(key)), "most": MOST_COUNTED}
        if record is HEAD:
            near["tenants"] = json.dumps([*flipped(asked["tenant_id"])])
        columns = (*_OWNERS, _key_of(record))
        wanted = {column: asked[column] for column in columns if column in asked}
        found = self._db.all_as_stored(f"near_{record.name}", **near)
        return any(_is_row_of(record, row, wanted) for row in found)


def _key_of(record: Record[Any]) -> str:
    return "name" if record is HEAD else "id"


def _is_short(name: str) -> bool:
    return len(name) <= _MOST_BYTES and len(name.encode()) <= _MOST_BYTES


def _near(key: str) -> list[object]:
    """Returns all keys that differ from one by a bit."""
    return [each for each in flipped(key) if "\0" not in str(each)]


def _is_row_of(record: Record[Any], row: Row, wanted: dict[str, object]) -> bool:
    """Says whether a row is the one that is asked for, or was so before its key was damaged."""
    firm = record.firm(row)
    names = [each for each in record.columns[:-1] if each not in record.loose]
    known = dict(zip(names, firm, strict=True))
    tried = known | wanted
    if row[-1] is not None and record.sum_of([*tried.values()]) != row[-1]:
        return tried == known
    # What was deleted is not missed.
    return tried.get("deleted_at") is None

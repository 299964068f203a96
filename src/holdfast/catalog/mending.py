"""Finds rows that are not what was written, and puts a flipped bit back.

One bit is what goes wrong most often, and a checksum says which it was: only one of all rows that
differ from the one that is there by a single bit has it. What is not told so stays as it is.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import CHECKSUM, HEAD, RECORDS, TENANT, Record, sum_of
from holdfast.errors import Damaged
from holdfast.ids import TenantId

MOST_BYTES: Final = 4096
"""Rows above are left as they are: every bit is tried, each with a checksum of the whole row."""

_NUMBER_BITS: Final = 63

_QUERIES: Final = {
    "tenant": ("all_tenant_rows", "mend_tenant_row"),
    "namespace": ("all_namespace_rows", "mend_namespace_row"),
    "snapshot": ("all_snapshot_rows", "mend_snapshot_row"),
    "event": ("all_event_rows", "mend_event_row"),
    "telling": ("all_telling_rows", "mend_telling_row"),
    "memory": ("all_memory_rows", "mend_memory_row"),
    "entity": ("all_entity_rows", "mend_entity_row"),
    "key": ("all_key_rows", "mend_key_row"),
    "webhook": ("all_webhook_rows", "mend_webhook_row"),
    "delivery": ("all_delivery_rows", "mend_delivery_row"),
    "task": ("all_task_rows", "mend_task_row"),
    "schedule": ("all_schedule_rows", "mend_schedule_row"),
}
"""By record: what reads all of its rows, and what puts one right."""


class DamagedRow(msgspec.Struct, frozen=True):
    """A row that is not what was written."""

    record: Record[Any]
    row: Sequence[Any]
    error: Damaged

    @property
    def what(self) -> str:
        """What it is the row of."""
        return f"{self.record.name}: {self.record.name_of(self.row)}"


class MendingQueries:
    """Rows of all sealed records."""

    __slots__ = ()

    _db: Driver

    def find_damaged_rows(self, tenant_id: TenantId) -> list[DamagedRow]:
        """Returns every row of a tenant that has a checksum and is not what was written."""
        found = list[DamagedRow]()
        for record in sealed_records():
            for row in self._db.all(_QUERIES[record.name][0], tenant_id=tenant_id):
                try:
                    record.read(row)
                except Damaged as exc:
                    found.append(DamagedRow(record, row, exc))
        return found

    def mend_row(self, damaged: DamagedRow) -> bool:
        """Puts a flipped bit of a row back, if it is that; says whether."""
        record, row = damaged.record, [*damaged.row]
        values = mended([*record.firm(row)], row[-1])
        # An id that the database gave out cannot be changed back.
        if values is None or (record in (HEAD, TENANT) and values[0] != row[0]):
            return False
        rest = iter(values)
        columns = record.columns[:-1]
        known = {
            column: value if column in record.loose else next(rest)
            for column, value in zip(columns, row[:-1], strict=True)
        }
        known[CHECKSUM] = sum_of(values)
        was = record.name_of(row) if record not in (HEAD, TENANT) else row[0]
        _, query = _QUERIES[record.name]
        return self._db.run(query, was=was, found=row[-1], **known) > 0


def sealed_records() -> list[Record[Any]]:
    """Returns the records whose rows have a checksum."""
    return [record for record in RECORDS.values() if record.is_sealed]


def mended(values: Sequence[Any], checksum: int | None) -> list[Any] | None:
    """Returns what values were before one bit of them, or of their checksum, was flipped."""
    if checksum is None or sum(len(v) for v in values if isinstance(v, str | bytes)) > MOST_BYTES:
        return None
    if (sum_of(values) ^ checksum).bit_count() == 1:
        return [*values]
    tried = [*values]
    for place, value in enumerate(values):
        for other in _flipped(value):
            tried[place] = other
            if sum_of(tried) == checksum:
                return tried
        tried[place] = value
    return None


def _flipped(value: object) -> Iterator[object]:
    """Yields what a value is with one bit of it flipped."""
    if isinstance(value, int):
        yield from (value ^ 1 << bit for bit in range(_NUMBER_BITS))
        yield value ^ -1 << _NUMBER_BITS
    elif isinstance(value, str | bytes):
        data = bytearray(value.encode() if isinstance(value, str) else value)
        for bit in range(8 * len(data)):
            data[bit >> 3] ^= 1 << (bit & 7)
            if isinstance(value, bytes):
                yield bytes(data)
            else:
                with suppress(UnicodeDecodeError):
                    yield data.decode()
            data[bit >> 3] ^= 1 << (bit & 7)

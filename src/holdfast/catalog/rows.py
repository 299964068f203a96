"""Rows to values and back, the same for both databases.

Instants are stored as whole microseconds since 1970 in UTC, lists and details as JSON text:
what comes out is exactly what went in. A row that stands for no value is `Damaged`. The order
of a row's columns is that of the queries in `sql/queries.sql`.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.instants import from_us
from holdfast.model import Head, Size, Tenant

Row = Sequence[Any]
"""What a driver returns for one row."""

_NO_REDO: Final = "[]"
"""What nearly every head has: not parsed, it saves 1 µs of each write."""

NO_LIMIT: Final = 2**62
"""More rows than any table has: 'all of them' in a query that takes a limit."""


def get_row(row: Row | None, what: str) -> Row:
    """Returns a row that has to be there; raises `Damaged` if it is not."""
    if row is None:
        message = f"the catalog has lost a row: {what}"
        raise Damaged(message)
    return row


def to_tenant(row: Row) -> Tenant:
    """Returns the tenant of a row."""
    return Tenant(id=TenantId(row[0]), name=row[1], public_id=row[2], quota_bytes=row[3])


def to_head(row: Row) -> Head:
    """Returns the head of a row."""
    try:
        return Head(
            namespace_id=NamespaceId(row[0]),
            tenant_id=TenantId(row[1]),
            name=row[2],
            generation=row[3],
            sequence=row[4],
            root=ObjectId(row[5]),
            position=row[6],
            redo=() if row[7] == _NO_REDO else tuple(json.loads(row[7])),
            size=Size(row[8], row[9]),
            created_at=from_us(row[10]),
            deleted_at=None if row[11] is None else from_us(row[11]),
            quota_bytes=row[12],
            retention=row[13],
            fork_of=row[14],
            fork_root=row[15],
            writer=row[16],
        )
    except (TypeError, ValueError, OverflowError) as exc:
        raise damaged("namespace", exc) from exc


def damaged(what: str, exc: Exception) -> Damaged:
    """Returns the error of a row that stands for no value."""
    return Damaged(f"the row of a {what} cannot be read: {exc}")

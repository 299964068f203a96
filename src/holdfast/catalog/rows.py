"""Rows to values and back, the same for both databases.

Instants are stored as whole microseconds since 1970 in UTC, lists and details as JSON text:
what comes out is exactly what went in. A row that stands for no value is `Damaged`. The order
of a row's columns is that of the queries in `sql/queries.sql`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.catalog.port import Located, LogPosition, ObjectRow, PackRow
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, PackId, PackName, SnapshotId, TenantId
from holdfast.model import Head, Kind, Placement, Plane, Size, SnapshotInfo, Tenant

Row = Sequence[Any]
"""What a driver returns for one row."""

_NO_REDO: Final = "[]"
"""What nearly every head has: not parsed, it saves 1 µs of each write."""

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def to_us(instant: datetime) -> int:
    """Returns whole microseconds since 1970 for an aware instant."""
    return (instant - _START) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Returns the aware UTC instant of so many microseconds since 1970."""
    return _START + microseconds * _MICROSECOND


def get_row(row: Row | None, what: str) -> Row:
    """Returns a row that has to be there; raises `Damaged` if it is not."""
    if row is None:
        message = f"the catalog has lost a row: {what}"
        raise Damaged(message)
    return row


def to_tenant(row: Row) -> Tenant:
    """Returns the tenant of a row."""
    return Tenant(id=TenantId(row[0]), name=row[1], public_id=row[2], quota_bytes=row[3])


def to_pending(row: Row) -> tuple[Plane, bytes, bytes | None]:
    """Returns the plane, key and entry of a row."""
    try:
        return Plane(row[0]), row[1], row[2]
    except ValueError as exc:
        raise _damaged("pending change", exc) from exc


def to_log(row: Row) -> LogPosition:
    """Returns the place in a log that a row names."""
    return LogPosition(row[0], row[1])


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
        raise _damaged("namespace", exc) from exc


def from_head(head: Head) -> dict[str, object]:
    """Returns the parameters that store a new head."""
    return {
        "tenant_id": head.tenant_id,
        "name": head.name,
        "generation": head.generation,
        "sequence": head.sequence,
        "root": head.root,
        "position": head.position,
        "redo": to_redo(head.redo),
        "entries": head.size.entries,
        "bytes": head.size.bytes,
        "now": to_us(head.created_at),
        "quota_bytes": head.quota_bytes,
        "retention": head.retention,
        "fork_of": head.fork_of,
        "fork_root": head.fork_root,
    }


def to_redo(redo: Sequence[SnapshotId]) -> str:
    """Returns the stored form of the snapshots that `redo` would go to."""
    return json.dumps(list(redo))


def to_snapshot(row: Row) -> SnapshotInfo:
    """Returns the snapshot of a row."""
    try:
        return SnapshotInfo(
            id=SnapshotId(row[0]),
            namespace_id=NamespaceId(row[1]),
            number=row[2],
            kind=Kind(row[3]),
            root=ObjectId(row[4]),
            parent=row[5],
            target=row[6],
            label=row[7],
            reason=row[8],
            actor=row[9],
            task_id=row[10],
            trace_id=row[11],
            pinned=bool(row[12]),
            created_at=from_us(row[13]),
            expires_at=None if row[14] is None else from_us(row[14]),
            deleted_at=None if row[15] is None else from_us(row[15]),
            size=Size(row[16], row[17]),
            detail=json.loads(row[18]),
        )
    except (TypeError, ValueError, OverflowError) as exc:
        raise _damaged("snapshot", exc) from exc


def from_snapshot(snapshot: SnapshotInfo) -> dict[str, object]:
    """Returns the parameters that store a new snapshot."""
    return {
        "id": snapshot.id,
        "namespace_id": snapshot.namespace_id,
        "number": snapshot.number,
        "kind": snapshot.kind.value,
        "root": snapshot.root,
        "parent": snapshot.parent,
        "target": snapshot.target,
        "label": snapshot.label,
        "reason": snapshot.reason,
        "actor": snapshot.actor,
        "task_id": snapshot.task_id,
        "trace_id": snapshot.trace_id,
        "pinned": int(snapshot.pinned),
        "created_at": to_us(snapshot.created_at),
        "expires_at": None if snapshot.expires_at is None else to_us(snapshot.expires_at),
        "entries": snapshot.size.entries,
        "bytes": snapshot.size.bytes,
        "detail": json.dumps(snapshot.detail),
    }


def to_pack(row: Row) -> PackRow:
    """Returns the pack of a row."""
    return PackRow(
        id=PackId(row[0]),
        name=PackName(row[1]),
        is_stored=row[2] == "stored",
        is_inline=bool(row[3]),
        writer=row[4],
        size_bytes=row[5],
    )


def to_located(row: Row) -> Located:
    """Returns where the object of a row lies."""
    return Located(
        placement=Placement(ObjectId(row[0]), row[3], row[4], row[5], row[6]),
        pack_id=PackId(row[1]),
        pack=PackName(row[2]),
        block=row[7],
    )


def to_object(row: Row) -> ObjectRow:
    """Returns the object of a row, as the collector sees it."""
    return ObjectRow(ObjectId(row[0]), PackId(row[1]), row[2], row[3])


def from_placements(
    placements: Iterable[Placement], **more: object
) -> Iterator[Mapping[str, object]]:
    """Yields the parameters that store placements, in the order of their objects.

    Two transactions that store the same objects in one order wait for each other; in two
    orders they could wait for each other for ever.
    """
    for placement in sorted(placements, key=lambda placement: placement.object_id):
        yield {
            "id": placement.object_id,
            "block_offset": placement.block_offset,
            "block_size": placement.block_size,
            "place": placement.offset,
            "size": placement.size,
            **more,
        }


def _damaged(what: str, exc: Exception) -> Damaged:
    return Damaged(f"the row of a {what} cannot be read: {exc}")

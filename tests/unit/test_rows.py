"""Rows and values: what goes in comes out, and what stands for no value is damage."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.catalog.queries import load_queries
from holdfast.catalog.rows import (
    HEAD,
    KEY,
    RECORDS,
    SESSION,
    SNAPSHOT,
    TOLD,
    TRACE,
    WEBHOOK,
    Record,
)
from holdfast.errors import Damaged, RowDamaged
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, TenantId
from holdfast.model.basics import Head, Kind, Size, SnapshotInfo
from holdfast.model.keys import Key, Scope
from holdfast.model.sessions import SessionRow
from holdfast.model.webhooks import Webhook

NOW = datetime(2025, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
ROOT = ObjectId(b"r" * 32)

HEADS = [
    Head(NamespaceId(1), TenantId(2), "a", 3, 4, ROOT, None, (), Size(5, 6), NOW),
    Head(
        namespace_id=NamespaceId(1),
        tenant_id=TenantId(2),
        name="a",
        generation=3,
        sequence=4,
        root=ROOT,
        position=SnapshotId("snap-1"),
        redo=(SnapshotId("snap-2"), SnapshotId("snap-3")),
        size=Size(5, 6),
        created_at=NOW,
        deleted_at=NOW,
        quota_bytes=7,
        retention="{}",
        fork_of=NamespaceId(8),
        fork_root=ROOT,
        writer="w",
    ),
]
SNAPSHOTS = [
    SnapshotInfo(
        id=SnapshotId("snap-1"),
        namespace_id=NamespaceId(1),
        number=2,
        kind=kind,
        root=ROOT,
        parent=None,
        created_at=NOW,
        size=Size(3, 4),
        pinned=kind is Kind.RESTORE,
        expires_at=NOW,
        detail={"paths": ["a", "b"]},
    )
    for kind in Kind
]
SESSIONS = [
    SessionRow(NamespaceId(1), "s", "agent", None, "{}", NOW, NOW, None, 2, "b", 3),
    SessionRow(
        NamespaceId(1), "s", "agent", "u", "{}", NOW, NOW, NOW, 2, "b", 3, "t", 1, False, NOW
    ),
]
KEYS = [
    Key(
        id="key-1",
        tenant_id=TenantId(1),
        name="ops",
        prefix="hf",
        scope=Scope.RUNTIME,
        created_at=NOW,
        last_used_at=NOW,
        requests=3,
    )
]
WEBHOOKS = [
    Webhook(
        id="wh-1",
        tenant_id=TenantId(1),
        url="u",
        events=["a", "b"],
        secret="s",
        created_at=NOW,
        last_delivery_ok=ok,
    )
    for ok in (None, True, False)
]
VALUES: list[tuple[Any, Any]] = [
    *((HEAD, head) for head in HEADS),
    *((SNAPSHOT, snapshot) for snapshot in SNAPSHOTS),
    *((SESSION, session) for session in SESSIONS),
    *((KEY, key) for key in KEYS),
    *((WEBHOOK, webhook) for webhook in WEBHOOKS),
]


@pytest.mark.parametrize(("record", "value"), VALUES)
def test_what_is_written_is_read_again(record: Any, value: Any) -> None:
    written = record.write(value)
    assert tuple(written) == record.columns
    assert len(written) == record.width
    assert all(type(each) in (int, str, bytes, type(None)) for each in written.values())
    assert record.read(tuple(written.values())) == value


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        ("created_at", "yesterday"),
        ("created_at", 2**62),
        ("created_at", None),
        ("deleted_at", "never"),
        ("redo", "[1"),
        ("redo", "7"),
        ("redo", None),
    ],
)
def test_a_row_that_stands_for_no_value_is_damage(column: str, stored: object) -> None:
    row = HEAD.write(HEADS[0]) | {column: stored, "checksum": None}
    with pytest.raises(Damaged):
        HEAD.read(tuple(row.values()))


SEALED = [(HEAD, HEADS), (SNAPSHOT, SNAPSHOTS), (KEY, KEYS), (WEBHOOK, WEBHOOKS)]


@pytest.mark.parametrize(
    ("record", "value"), [(r, each) for r, values in SEALED for each in values]
)
def test_any_value_of_a_sealed_row_that_is_not_what_was_written_is_damage(
    record: Record[Any], value: object
) -> None:
    row = [record.write(value)[column] for column in record.columns]
    assert record.read(row) == value
    for place, stored in enumerate(row[:-1]):
        if record.columns[place] in record.loose or stored is None:
            continue
        other = stored + 1 if isinstance(stored, int) else stored[:-1] + stored[-1:] * 2
        with pytest.raises(RowDamaged):
            record.read([*row[:place], other, *row[place + 1 :]])
    # One that is older than checksums.
    assert record.read([*row[:-1], None]) == value


def test_a_member_that_an_enumeration_does_not_have_is_damage() -> None:
    row = SNAPSHOT.write(SNAPSHOTS[0]) | {"kind": "dream", "checksum": None}
    with pytest.raises(Damaged, match=r"the row of a snapshot cannot be read: KeyError.*dream"):
        SNAPSHOT.read(tuple(row.values()))


def test_no_row_is_no_value() -> None:
    assert HEAD.find(None) is None


def test_a_value_beside_another_has_names_of_its_own() -> None:
    assert TOLD.columns == tuple(f"told_{column}" for column in TRACE.columns)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_queries_name_the_columns_that_records_have(dialect: str) -> None:
    queries = load_queries(dialect)
    assert not any("{" in query or "}" in query for query in queries.values())
    session = ", ".join(SESSION.columns)
    assert f"sessions ({session}) VALUES" in queries["add_session"]
    assert ", ".join(f"s.{column}" for column in SESSION.columns) in queries["find_session"]
    assert len(RECORDS) > 10

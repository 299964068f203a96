"""What a catalog says about sessions and conversations that may go: the same on both databases."""

from datetime import UTC, datetime, timedelta

from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import Head
from holdfast.model.sessions import BranchRow, SessionRow, TurnRow, VersionKind, VersionRow

NOW = datetime(2025, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def add_tenant(transaction: Transaction, name: str) -> TenantId:
    return transaction.add_tenant(name, public_id=f"ws-{name}", now=NOW).id


def add_namespace(transaction: Transaction, tenant_id: TenantId, name: str) -> NamespaceId:
    head = Head.of_nothing(tenant_id, name, now=NOW)
    added = transaction.add_namespace(head)
    assert added is not None
    return added.namespace_id


def add_session(
    transaction: Transaction,
    namespace_id: NamespaceId,
    name: str,
    *,
    branch: str = "",
    turns: int = 0,
    expires_at: datetime | None = None,
    deleted_at: datetime | None = None,
    states: tuple[bytes, ...] = (b"state",),
) -> None:
    session = SessionRow(
        namespace_id=namespace_id,
        id=name,
        agent_id="agent",
        user_id=None,
        metadata="{}",
        created_at=NOW,
        updated_at=NOW,
        expires_at=expires_at,
        version=len(states) - 1,
        branch=branch,
        turns=turns,
        is_present=deleted_at is None,
        deleted_at=deleted_at,
    )
    assert transaction.add_session(session)
    for number, state in enumerate(states):
        version = VersionRow(
            number=number,
            kind=VersionKind.UPDATED,
            state=state,
            bytes=len(state),
            branch=branch,
            turns=turns,
            created_at=NOW + number * DAY,
        )
        transaction.add_version(namespace_id, name, version)


def add_branch(
    transaction: Transaction, tenant_id: TenantId, name: str, parent: str | None = None
) -> None:
    transaction.add_branch(tenant_id, BranchRow(name, parent, 0 if parent is None else 1, 2, 7))
    turn = TurnRow(branch=name, number=2, id=f"turn-{name}", data=b"said", created_at=NOW)
    transaction.add_turn(turn)


def test_what_has_ended_by_a_moment_is_what_was_deleted_or_past_its_time(
    catalog: Catalog,
) -> None:
    with catalog.write() as transaction:
        tenant, other = add_tenant(transaction, "one"), add_tenant(transaction, "two")
        here, gone = (add_namespace(transaction, tenant, name) for name in ("here", "gone"))
        there = add_namespace(transaction, other, "here")
        add_session(transaction, here, "living")
        add_session(transaction, here, "deleted", deleted_at=NOW)
        add_session(transaction, here, "deleted-later", deleted_at=NOW + 2 * DAY)
        add_session(transaction, here, "expired", expires_at=NOW)
        add_session(transaction, here, "expires-later", expires_at=NOW + 2 * DAY)
        add_session(transaction, gone, "of-a-deleted-namespace", deleted_at=NOW)
        add_session(transaction, there, "of-another-tenant", deleted_at=NOW)
        transaction.delete_namespace(gone, now=NOW)
    with catalog.read() as transaction:
        ended = transaction.ended_sessions(tenant, before=NOW + DAY)
    assert [each[:2] for each in ended] == [(here, "deleted"), (here, "expired")]


def test_a_purged_session_takes_its_history_and_nobody_else_s(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant = add_tenant(transaction, "one")
        here, there = (add_namespace(transaction, tenant, name) for name in ("here", "there"))
        for namespace_id in (here, there):
            add_session(transaction, namespace_id, "same", states=(b"a", b"b"))
        transaction.purge_session(here, "same")
    with catalog.read() as transaction:
        assert transaction.find_session(tenant, "here", "same") is None
        assert transaction.list_versions(here, "same", after=-1, most=9) == []
        assert transaction.find_session(tenant, "there", "same") is not None
        assert len(transaction.list_versions(there, "same", after=-1, most=9)) == 2
        assert len([*transaction.iter_version_states(tenant)]) == 2


def test_spare_branches_are_those_that_no_row_leads_to(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant, other = add_tenant(transaction, "one"), add_tenant(transaction, "two")
        here, deleted = (add_namespace(transaction, tenant, name) for name in ("here", "gone"))
        add_branch(transaction, tenant, "grandparent")
        add_branch(transaction, tenant, "parent", "grandparent")
        add_branch(transaction, tenant, "child", "parent")
        add_branch(transaction, tenant, "of-a-version")
        add_branch(transaction, tenant, "of-a-deleted-namespace")
        add_branch(transaction, tenant, "spare")
        add_branch(transaction, tenant, "spare-too", "spare")
        add_branch(transaction, tenant, "spare-of-a-living-one", "parent")
        add_branch(transaction, other, "of-another-tenant")
        add_session(transaction, here, "s", branch="of-a-version", turns=2, states=(b"a",))
        found = transaction.find_session(tenant, "here", "s")
        assert found is not None
        add_session(transaction, here, "t", branch="child", turns=2)
        add_session(transaction, deleted, "u", branch="of-a-deleted-namespace", turns=2)
        transaction.delete_namespace(deleted, now=NOW)
    with catalog.read() as transaction:
        spare = {branch.id for branch in transaction.spare_branches(tenant)}
        named = transaction.named_branches(tenant)
    assert spare == {"spare", "spare-too", "spare-of-a-living-one"}
    assert named == {"of-a-version": 2, "child": 2, "of-a-deleted-namespace": 2}


def test_deleted_branches_take_their_turns_and_their_bytes(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant, other = add_tenant(transaction, "one"), add_tenant(transaction, "two")
        for name in ("a", "b"):
            add_branch(transaction, tenant, name)
        add_branch(transaction, other, "c")
        assert transaction.turn_bytes(tenant) == 14
        assert transaction.extend_branch(tenant, "b", turns=2, more=5)
        assert not transaction.extend_branch(other, "b", turns=3, more=5)
        assert transaction.turn_bytes(tenant) == 19
        transaction.delete_branches(tenant, ["a"])
    with catalog.read() as transaction:
        assert [branch.id for branch in transaction.iter_branches(tenant)] == ["b"]
        assert transaction.turn_bytes(tenant) == 12
        assert transaction.turn_bytes(other) == 7
        assert transaction.find_turn("turn-a") is None
        assert transaction.find_turn("turn-b") is not None


def test_a_history_with_a_gap_is_found(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant = add_tenant(transaction, "one")
        here = add_namespace(transaction, tenant, "here")
        add_session(transaction, here, "whole", states=(b"a", b"b"))
        add_session(transaction, here, "broken", states=(b"a", b"b"))
        found = transaction.find_session(tenant, "here", "broken")
        assert found is not None
        extra = VersionRow(
            number=5,
            kind=VersionKind.UPDATED,
            state=b"c",
            bytes=1,
            branch="",
            turns=0,
            created_at=NOW,
        )
        transaction.add_version(here, "broken", extra)
    with catalog.read() as transaction:
        assert transaction.broken_histories(here) == ["broken"]
        assert [session.id for session, _ in transaction.iter_present(here)] == ["broken", "whole"]


def test_the_version_at_a_moment_is_the_newest_equal_one_of_then(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant = add_tenant(transaction, "one")
        here = add_namespace(transaction, tenant, "here")
        add_session(transaction, here, "s", states=(b"a", b"b", b"a", b"a"))
    with catalog.read() as transaction:
        for days, state, number in [(0, b"a", 0), (2, b"a", 2), (9, b"a", 3), (-1, b"b", 1)]:
            then = NOW + days * DAY
            found = transaction.find_version_at(here, "s", range(4), state=state, at=then)
            assert found is not None
            assert found.number == number, (days, state)
        assert transaction.find_version_at(here, "s", range(4), state=b"never", at=NOW) is None

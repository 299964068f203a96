"""What sessions ask of a catalog, kept by every adapter."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.catalog.port import Catalog
from holdfast.catalog.rows import VERSION
from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.chain import end_of
from holdfast.errors import Conflict
from holdfast.ids import NamespaceId, TenantId, TraceId
from holdfast.instants import to_us
from holdfast.model.basics import EMPTY_ROOT, Head, Plane, Size
from holdfast.model.sessions import BranchRow, SessionRow, TurnRow, VersionKind, VersionRow
from holdfast.model.traces import TraceEnd, TraceRow

NOW = datetime(2025, 3, 1, 12, 30, 15, 123457, tzinfo=UTC)
TEXT = 'Grüße, 你好 🙂 "quoted" \\ back\nline'


@pytest.fixture
def tenant(catalog: Catalog) -> TenantId:
    with catalog.write() as transaction:
        return transaction.add_tenant("default", public_id="ws-1", now=NOW).id


@pytest.fixture
def alice(catalog: Catalog, tenant: TenantId) -> NamespaceId:
    return add_namespace(catalog, tenant, "alice")


@pytest.fixture
def bob(catalog: Catalog, tenant: TenantId, alice: NamespaceId) -> NamespaceId:
    assert alice
    return add_namespace(catalog, tenant, "bob")


def add_namespace(catalog: Catalog, tenant: TenantId, name: str) -> NamespaceId:
    new = Head(NamespaceId(0), tenant, name, 0, 0, EMPTY_ROOT, None, (), Size(), NOW)
    with catalog.write() as transaction:
        added = transaction.add_namespace(new)
    assert added is not None
    return added.namespace_id


def session_row(namespace_id: NamespaceId, session_id: str = "s", **fields: Any) -> SessionRow:
    row = SessionRow(
        namespace_id=namespace_id,
        id=session_id,
        agent_id="agent",
        user_id=None,
        metadata="{}",
        created_at=NOW,
        updated_at=NOW,
        expires_at=None,
        version=0,
        branch="",
        turns=0,
    )
    return replace(row, **fields)


def version_row(number: int = 0, **fields: Any) -> VersionRow:
    row = VersionRow(
        number=number,
        kind=VersionKind.UPDATED,
        state=b"state %d" % number,
        bytes=number,
        branch="",
        turns=0,
        created_at=NOW + timedelta(seconds=number),
    )
    return replace(row, **fields)


def add(catalog: Catalog, *sessions: SessionRow) -> None:
    with catalog.write() as transaction:
        for session in sessions:
            assert transaction.add_session(session)
            version = version_row(session.version)
            transaction.add_version(session.namespace_id, session.id, version)


def listed(catalog: Catalog, namespace_id: NamespaceId, **options: Any) -> list[str]:
    given: dict[str, Any] = {"most": 100, **options}
    if given.get("before") is not None:
        given["before"] = (to_us(given["before"][0]), given["before"][1])
    with catalog.read() as transaction:
        found = transaction.list_sessions(namespace_id, **given)
    assert found.damaged == {}
    return [session.id for session, _ in found.sound]


# Sessions


def test_a_session_comes_back_as_it_was_added(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    session = session_row(
        alice,
        user_id=TEXT,
        metadata='{"\\u0000": 1}',
        updated_at=NOW + timedelta(microseconds=1),
        expires_at=NOW + timedelta(days=30),
        version=3,
        branch="branch-a",
        turns=2**40,
        forked_from="origin",
        forked_version=2**33,
        is_present=False,
        deleted_at=NOW,
    )
    version = version_row(
        3,
        kind=VersionKind.ROLLBACK,
        state=bytes(range(256)),
        bytes=2**40,
        branch="branch-a",
        turns=7,
        target=1,
        trace_id=TEXT,
        journal=2**40,
        salt=bytes(range(16)),
    )
    with catalog.write() as transaction:
        assert transaction.add_session(session)
        transaction.add_version(alice, "s", version)
    with catalog.read() as transaction:
        assert transaction.find_session(tenant, "alice", "s") == (session, version)
        assert transaction.find_version(alice, "s", 3) == version


def test_a_second_session_of_an_id_is_not_added_and_changes_nothing(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, bob: NamespaceId
) -> None:
    add(catalog, session_row(alice, agent_id="first"), session_row(bob, agent_id="bob's"))
    with catalog.write() as transaction:
        assert not transaction.add_session(session_row(alice, agent_id="second"))
    with catalog.read() as transaction:
        for name, agent_id in (("alice", "first"), ("bob", "bob's")):
            found = transaction.find_session(tenant, name, "s")
            assert found is not None
            assert found[0].agent_id == agent_id


def test_what_can_change_in_a_session_is_replaced_and_no_other(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, bob: NamespaceId
) -> None:
    add(catalog, session_row(alice), session_row(alice, "other"), session_row(bob))
    changed = session_row(
        alice,
        agent_id="another",
        user_id="somebody",
        created_at=NOW - timedelta(hours=1),
        metadata='{"a":1}',
        updated_at=NOW + timedelta(hours=1),
        expires_at=NOW + timedelta(hours=2),
        version=1,
        branch="branch-a",
        turns=4,
        forked_from="x",
        forked_version=1,
        is_present=False,
        deleted_at=NOW,
    )
    with catalog.write() as transaction:
        transaction.add_version(alice, "s", version_row(1))
        transaction.set_session(changed)
    with catalog.read() as transaction:
        assert transaction.find_session(tenant, "alice", "s") == (changed, version_row(1))
        for name, other in (("alice", session_row(alice, "other")), ("bob", session_row(bob))):
            assert transaction.find_session(tenant, name, other.id) == (other, version_row())


def test_a_session_is_found_by_its_tenant_its_namespace_and_its_whole_id(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, bob: NamespaceId
) -> None:
    assert bob
    add(catalog, session_row(alice, "sess_1"))
    with catalog.write() as transaction:
        other = transaction.add_tenant("other", public_id="ws-2", now=NOW).id

        def is_leftover(tenant_id: TenantId, name: str, session_id: str) -> bool:
            return transaction.find_session(tenant_id, name, session_id) is not None

        assert is_leftover(tenant, "alice", "sess_1")
        assert not is_leftover(other, "alice", "sess_1")
        assert not is_leftover(tenant, "bob", "sess_1")
        assert not is_leftover(tenant, "carol", "sess_1")
        for session_id in ("", "sess_", "sess_11", "SESS_1", "sess%", "sess_1 "):
            assert not is_leftover(tenant, "alice", session_id)
        transaction.delete_namespace(alice, now=NOW)
        assert not is_leftover(tenant, "alice", "sess_1")


# Lists


def test_sessions_are_listed_newest_first_and_by_id_within_an_instant(
    catalog: Catalog, alice: NamespaceId, bob: NamespaceId
) -> None:
    later = NOW + timedelta(microseconds=1)
    add(
        catalog,
        session_row(alice, "b"),
        session_row(alice, "c", created_at=later),
        session_row(alice, "a"),
        session_row(alice, "B"),
        session_row(alice, "_"),
        session_row(bob, "z"),
    )
    assert listed(catalog, alice) == ["c", "b", "a", "_", "B"], "byte by byte, in any locale"
    assert listed(catalog, alice, most=2) == ["c", "b"]
    assert listed(catalog, alice, most=0) == []
    assert listed(catalog, alice, before=(later, "c")) == ["b", "a", "_", "B"]
    assert listed(catalog, alice, before=(NOW, "a"), most=1) == ["_"]
    assert listed(catalog, alice, before=(NOW, "")) == []
    assert listed(catalog, alice, after=later) == ["c"]
    assert listed(catalog, alice, after=NOW, before=(later, "")) == ["b", "a", "_", "B"]


def test_any_page_goes_on_where_the_last_one_ended(catalog: Catalog, alice: NamespaceId) -> None:
    made = [
        session_row(alice, f"s{n % 7}{n}", created_at=NOW + timedelta(microseconds=n // 5))
        for n in range(30)
    ]
    add(catalog, *made)
    by_id = {session.id: session for session in made}
    wanted = sorted(by_id, key=lambda name: (by_id[name].created_at, name), reverse=True)
    for most in (1, 4, 30):
        found, before = list[str](), None
        while page := listed(catalog, alice, before=before, most=most):
            found += page
            before = (by_id[page[-1]].created_at, page[-1])
        assert found == wanted


def test_what_is_gone_is_neither_listed_nor_counted(catalog: Catalog, alice: NamespaceId) -> None:
    there = session_row(alice, "there")
    add(catalog, there, session_row(alice, "gone", is_present=False), session_row(alice, "more"))
    assert listed(catalog, alice) == ["there", "more"]

    def counted() -> tuple[int, int | None]:
        with catalog.read() as transaction:
            return transaction.count_present(alice, most=10)

    assert counted() == (2, 2)
    with catalog.write() as transaction:
        transaction.set_session(replace(there, is_present=False))
        transaction.set_session(replace(there, is_present=False, agent_id="other"))
        assert not transaction.add_session(session_row(alice, "more"))
    assert counted() == (1, 1)
    with catalog.write() as transaction:
        transaction.set_session(there)
        transaction.purge_session(alice, "more")
        transaction.purge_session(alice, "gone")
        assert transaction.count_present(alice, most=0) == (1, None)
    assert counted() == (1, 1)


def test_a_list_is_filtered_by_agent_and_user(catalog: Catalog, alice: NamespaceId) -> None:
    add(
        catalog,
        session_row(alice, "1", agent_id="a", user_id="u"),
        session_row(alice, "2", agent_id="a"),
        session_row(alice, "3", agent_id="b", user_id="u"),
        session_row(alice, "4", agent_id="b", user_id=""),
    )
    assert listed(catalog, alice, agent_id="a") == ["2", "1"]
    assert listed(catalog, alice, user_id="u") == ["3", "1"]
    assert listed(catalog, alice, agent_id="b", user_id="u") == ["3"]
    assert listed(catalog, alice, user_id="") == ["4"]
    assert listed(catalog, alice, agent_id="%") == []


def test_forks_are_listed_oldest_first_unless_they_are_deleted(
    catalog: Catalog, alice: NamespaceId, bob: NamespaceId
) -> None:
    add(
        catalog,
        session_row(alice, "origin"),
        session_row(alice, "late", forked_from="origin", created_at=NOW + timedelta(1)),
        session_row(alice, "b", forked_from="origin"),
        session_row(alice, "a", forked_from="origin", is_present=False),
        session_row(alice, "deleted", forked_from="origin", deleted_at=NOW),
        session_row(alice, "of a fork", forked_from="a"),
        session_row(bob, "elsewhere", forked_from="origin"),
    )
    with catalog.read() as transaction:
        assert transaction.forks_of(alice, "origin") == ["a", "b", "late"]
        assert transaction.forks_of(alice, "late") == []


# Versions


def test_versions_are_listed_oldest_first_between_two_numbers(
    catalog: Catalog, alice: NamespaceId, bob: NamespaceId
) -> None:
    rows = [version_row(number) for number in range(12)]
    with catalog.write() as transaction:
        for row in reversed(rows):
            transaction.add_version(alice, "s", row)
        transaction.add_version(alice, "t", version_row(5))
        transaction.add_version(bob, "s", version_row(6))
    with catalog.read() as transaction:
        assert transaction.list_versions(alice, "s", after=-1, most=100) == rows
        assert transaction.list_versions(alice, "s", after=3, most=2) == rows[4:6]
        assert transaction.list_versions(alice, "s", after=3, before=6, most=9) == rows[4:6]
        assert transaction.list_versions(alice, "s", after=11, most=9) == []
        assert transaction.list_versions(alice, "none", after=-1, most=9) == []
        assert transaction.find_version(alice, "s", 12) is None
        assert transaction.find_version(bob, "s", 5) is None


def test_a_version_is_never_written_over(catalog: Catalog, alice: NamespaceId) -> None:
    with catalog.write() as transaction:
        transaction.add_version(alice, "s", version_row(1))
    with pytest.raises(Conflict), catalog.write() as transaction:
        transaction.add_version(alice, "s", version_row(1, state=b"another"))
    with catalog.read() as transaction:
        assert transaction.find_version(alice, "s", 1) == version_row(1)


@pytest.mark.parametrize("kind", VersionKind)
def test_every_kind_of_version_comes_back(
    catalog: Catalog, alice: NamespaceId, kind: VersionKind
) -> None:
    with catalog.write() as transaction:
        transaction.add_version(alice, "s", version_row(kind=kind))
        assert transaction.find_version(alice, "s", 0) == version_row(kind=kind)


def test_the_states_of_all_versions_of_a_tenant_are_found_and_of_no_other(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, bob: NamespaceId
) -> None:
    with catalog.write() as transaction:
        other = transaction.add_tenant("other", public_id="ws-2", now=NOW).id
    eve = add_namespace(catalog, other, "eve")
    with catalog.write() as transaction:
        for number in range(3):
            transaction.add_version(alice, "s", version_row(number))
        transaction.add_version(bob, "s", version_row(state=b"bob's"))
        transaction.add_version(eve, "s", version_row(state=b"eve's"))
        # It can be recovered for a while, and so can its history.
        transaction.delete_namespace(bob, now=NOW)
    with catalog.read() as transaction:
        found = sorted(transaction.iter_version_states(tenant))
        assert found == [b"bob's", b"state 0", b"state 1", b"state 2"]
        assert list(transaction.iter_version_states(other)) == [b"eve's"]


# Turns and branches


def turn_row(branch: str, number: int, **fields: Any) -> TurnRow:
    row = TurnRow(
        branch=branch,
        number=number,
        id=f"turn_{branch}_{number}",
        data=b"{}%d" % number,
        created_at=NOW + timedelta(microseconds=number),
    )
    return replace(row, **fields)


def test_a_branch_belongs_to_its_tenant(catalog: Catalog, tenant: TenantId) -> None:
    child = BranchRow("child", "parent", 3, 7, 10)
    with catalog.write() as transaction:
        other = transaction.add_tenant("other", public_id="ws-2", now=NOW).id
        transaction.add_branch(tenant, BranchRow("parent", None, 0, 5, 10))
        transaction.add_branch(tenant, child)
    with catalog.read() as transaction:
        assert transaction.find_branch(tenant, "parent") == BranchRow("parent", None, 0, 5, 10)
        assert transaction.find_branch(tenant, "child") == child
        assert transaction.find_branch(other, "child") is None
        assert transaction.find_branch(tenant, "") is None


def test_a_branch_is_extended_by_who_knows_its_end(catalog: Catalog, tenant: TenantId) -> None:
    with catalog.write() as transaction:
        other = transaction.add_tenant("other", public_id="ws-2", now=NOW).id
        for name in ("b", "c"):
            transaction.add_branch(tenant, BranchRow(name, None, 0, 2, 10))
        assert not transaction.extend_branch(tenant, "b", turns=1, more=5)
        assert not transaction.extend_branch(tenant, "b", turns=3, more=5)
        assert not transaction.extend_branch(other, "b", turns=2, more=5)
        assert not transaction.extend_branch(tenant, "none", turns=2, more=5)
        assert transaction.extend_branch(tenant, "b", turns=2, more=5)
        assert not transaction.extend_branch(tenant, "b", turns=2, more=5), "that was the end"
    with catalog.read() as transaction:
        assert transaction.find_branch(tenant, "b") == BranchRow("b", None, 0, 3, 15)
        assert transaction.find_branch(tenant, "c") == BranchRow("c", None, 0, 2, 10)


def test_of_two_who_extend_a_branch_at_once_one_does(catalog: Catalog, tenant: TenantId) -> None:
    with catalog.write() as transaction:
        transaction.add_branch(tenant, BranchRow("b", None, 0, 0, 0))

    def extend(_: int) -> list[int]:
        done = list[int]()
        for turns in range(20):
            with catalog.write() as transaction:
                if transaction.extend_branch(tenant, "b", turns=turns, more=1):
                    done.append(turns)
        return done

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(extend, range(2))
    assert sorted(one + other) == list(range(20))


def test_turns_are_listed_in_either_direction_between_two_numbers(
    catalog: Catalog, tenant: TenantId
) -> None:
    rows = [turn_row("b", number) for number in range(1, 13)]
    with catalog.write() as transaction:
        for name in ("b", "c"):
            transaction.add_branch(tenant, BranchRow(name, None, 0, 12, 10))
        for row in (*rows[6:], *rows[:6], turn_row("c", 3)):
            transaction.add_turn(row)
    with catalog.read() as transaction:

        def turns(after: int, before: int, most: int = 99, *, down: bool = False) -> list[TurnRow]:
            return transaction.list_turns(
                "b", after=after, before=before, most=most, descending=down
            )

        assert turns(0, 13) == rows
        assert turns(0, 13, down=True) == rows[::-1]
        assert turns(2, 6) == rows[2:5]
        assert turns(2, 6, 2) == rows[2:4]
        assert turns(2, 6, 2, down=True) == rows[4:2:-1]
        assert turns(12, 13) == turns(5, 6) == []


def test_turns_between_two_numbers_are_weighed_without_being_read(
    catalog: Catalog, tenant: TenantId
) -> None:
    rows = [turn_row("b", number, data=b"\0" * 10**number) for number in range(1, 5)]
    with catalog.write() as transaction:
        for name in ("b", "c"):
            transaction.add_branch(tenant, BranchRow(name, None, 0, 4, 10))
        for row in (*rows, turn_row("c", 3, data=b"other")):
            transaction.add_turn(row)
    with catalog.read() as transaction:
        weigh = transaction.bytes_of_turns
        assert weigh("b", after=0, before=5) == 11110
        assert weigh("b", after=1, before=4) == 1100
        assert weigh("b", after=3, before=4) == weigh("none", after=0, before=5) == 0


def test_a_turn_is_found_by_its_id_and_never_written_over(
    catalog: Catalog, tenant: TenantId
) -> None:
    row = turn_row("b", 1, id="turn_x", data=bytes(range(256)))
    with catalog.write() as transaction:
        transaction.add_branch(tenant, BranchRow("b", None, 0, 2, 10))
        transaction.add_turn(row)
    for clash in (turn_row("b", 1), turn_row("b", 2, id="turn_x")):
        with pytest.raises(Conflict), catalog.write() as transaction:
            transaction.add_turn(clash)
    with catalog.read() as transaction:
        assert transaction.find_turn("turn_x") == row
        assert transaction.find_turn("turn_b_2") is None
        assert transaction.find_turn("turn_") is None


# Namespaces whose sessions have no rows yet


def test_a_namespace_lags_until_somebody_says_that_it_does_not(
    catalog: Catalog, alice: NamespaceId, bob: NamespaceId
) -> None:
    with catalog.write() as transaction:
        assert not transaction.is_lagging(alice)
        transaction.add_lagging(alice)
        transaction.add_lagging(alice)
        transaction.add_lagging(bob)
        transaction.drop_lagging(bob)
        transaction.drop_lagging(bob)
    with catalog.read() as transaction:
        assert transaction.is_lagging(alice)
        assert not transaction.is_lagging(bob)


# Wholly or not at all


def test_rows_of_a_transaction_that_fails_are_not_there(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    add(catalog, session_row(alice))

    def fail() -> None:
        with catalog.write() as transaction:
            transaction.add_session(session_row(alice, "t"))
            transaction.add_version(alice, "s", version_row(1))
            transaction.set_session(session_row(alice, version=1, turns=1))
            transaction.add_branch(tenant, BranchRow("b", None, 0, 1, 10))
            transaction.add_turn(turn_row("b", 1))
            transaction.add_lagging(alice)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    with catalog.read() as transaction:
        assert transaction.find_session(tenant, "alice", "s") == (session_row(alice), version_row())
        assert transaction.find_session(tenant, "alice", "t") is None
        assert transaction.find_version(alice, "s", 1) is None
        assert transaction.find_branch(tenant, "b") is None
        assert transaction.find_turn("turn_b_1") is None
        assert not transaction.is_lagging(alice)


# What a writer asks for and says at once


def test_a_session_is_opened_with_its_head_its_tenant_and_a_version(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    session = session_row(alice, version=2)
    add(catalog, session)
    with catalog.write() as transaction:
        transaction.set_tenant_quota(tenant, 2**40)
        for number in (0, 1):
            transaction.add_version(alice, "s", version_row(number))
    with catalog.write() as transaction:
        opened = transaction.open_session(tenant, "alice", "s")
        assert opened is not None
        assert opened.head == transaction.lock_live_head(tenant, "alice")
        assert opened.quota_bytes == 2**40
        assert opened.rows == (session, version_row(2))
        assert opened.wanted is None


@pytest.mark.parametrize(
    ("wanted", "number"),
    [(0, 0), (1, 1), (2, 2), (-1, 1), (-2, 0), (3, None), (-3, None), (2**63, None)],
)
def test_a_wanted_version_is_found_by_its_number_or_counted_back(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, wanted: int, number: int | None
) -> None:
    add(catalog, session_row(alice, version=2), session_row(alice, "other", version=3))
    with catalog.write() as transaction:
        for each in (0, 1):
            transaction.add_version(alice, "s", version_row(each))
        opened = transaction.open_session(tenant, "alice", "s", wanted=wanted)
    assert opened is not None
    assert opened.wanted == (None if number is None else version_row(number))


def test_a_session_that_is_not_there_leaves_its_head_and_no_head_leaves_nothing(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId, bob: NamespaceId
) -> None:
    add(catalog, session_row(bob))
    with catalog.write() as transaction:
        for wanted in (None, 0, -1):
            opened = transaction.open_session(tenant, "alice", "s", wanted=wanted)
            assert opened is not None
            assert opened.head.namespace_id == alice
            assert opened.rows is None
            assert opened.wanted is None
            assert transaction.open_session(tenant, "nobody", "s", wanted=wanted) is None


def test_a_version_is_put_with_its_session_the_sequence_and_the_entry_of_the_plane(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    first = session_row(alice, user_id=TEXT, forked_from="origin", forked_version=7)
    later = NOW + timedelta(seconds=1)
    moved = replace(first, version=1, branch="b", turns=4, updated_at=later)
    versions = [version_row(0), version_row(1, branch="b", turns=4)]
    trace = trace_row(tenant, alice, TraceEnd())
    with catalog.write() as transaction:
        made = VERSION.seal(versions[0], alice, "s")
        transaction.put_change(
            first, trace, version=made, entry=b"one", sequence=1, more=Size(1, 10)
        )
    with catalog.write() as transaction:
        trace = trace_row(tenant, alice, TraceEnd(trace.number, trace.hash))
        made = VERSION.seal(versions[1], alice, "s")
        transaction.put_change(
            moved, trace, version=made, entry=b"two", sequence=2, more=Size(0, 5)
        )
    with catalog.read() as transaction:
        assert transaction.find_session(tenant, "alice", "s") == (moved, versions[1])
        assert transaction.list_versions(alice, "s", after=-1, most=9) == versions
        assert transaction.all_pending(alice) == [(Plane.SESSIONS, b"s", b"two")]
        head = transaction.find_head_by_id(alice)
    assert head is not None
    assert (head.sequence, head.size) == (2, Size(1, 15))


def test_a_version_is_put_with_its_trace_at_the_end_of_its_namespace(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    session, end = session_row(alice), TraceEnd()
    add(catalog, session)
    for number in (1, 2):
        trace = trace_row(tenant, alice, end)
        with catalog.write() as transaction:
            put_with_trace(transaction, session, number, trace)
        with catalog.write() as transaction:
            opened = transaction.open_session(tenant, "alice", "s", wanted=-1)
            assert opened is not None
            end = TraceEnd(number, trace.hash)
            assert end_of(opened.head) == end == transaction.lock_end(tenant, alice)
            assert opened.wanted is not None
            assert transaction.find_own_end(tenant) == TraceEnd()

    def put(trace: TraceRow) -> None:
        with catalog.write() as transaction:
            put_with_trace(transaction, session, 3, trace)

    with pytest.raises(Conflict):
        put(trace_row(tenant, alice, TraceEnd()))
    with catalog.read() as transaction:
        rows = transaction.page_traces(tenant, stream=alice, after=0, most=9)
        assert [row.number for row in rows] == [1, 2]
        assert transaction.find_version(alice, "s", 3) is None
        assert [each.end for each in transaction.list_ends(tenant)] == [end]


def trace_row(tenant: TenantId, namespace_id: NamespaceId, end: TraceEnd) -> TraceRow:
    number = end.number + 1
    return TraceRow(
        format=1,
        previous=end.hash,
        tenant_id=tenant,
        stream=namespace_id,
        number=number,
        kind="done",
        id=TraceId(f"trace_{number:030x}"),
        namespace_id=namespace_id,
        session_id="s",
        user_id=None,
        agent_id="agent",
        action="state.updated",
        resource_type=None,
        resource_id=None,
        version=number,
        task_id=None,
        actor=None,
        created_us=number,
        details="{}",
        salt=b"salt",
        hash=bytes([number]) * 32,
    )


def put_with_trace(
    transaction: Transaction, session: SessionRow, number: int, trace: TraceRow
) -> None:
    moved, more = replace(session, version=number), Size(0, 0)
    made = VERSION.seal(version_row(number), session.namespace_id, session.id)
    transaction.put_change(moved, trace, version=made, entry=b"e", sequence=number, more=more)


def test_what_was_only_said_fails_the_transaction(
    catalog: Catalog, tenant: TenantId, alice: NamespaceId
) -> None:
    """Nobody waited for the answer: the next one, or the commit, has to tell."""
    add(catalog, session_row(alice))

    def say_twice(*, asks: bool) -> None:
        with catalog.write() as transaction:
            transaction.set_tenant_quota(tenant, 7)
            transaction.add_version(alice, "s", version_row(0))
            if asks:
                transaction.get_tenant_quota(tenant)

    for asks in (False, True):
        with pytest.raises(Conflict):
            say_twice(asks=asks)
    with catalog.ask() as transaction:
        assert transaction.get_tenant_quota(tenant) is None

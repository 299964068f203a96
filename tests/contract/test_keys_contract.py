"""What API keys ask of a catalog, kept by every adapter."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast.catalog.keys import PLACES
from holdfast.catalog.port import Catalog
from holdfast.errors import HoldfastError
from holdfast.ids import TenantId
from holdfast.model.keys import Key, KeyUse, Scope

NOW = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def tenants(catalog: Catalog) -> tuple[TenantId, TenantId]:
    with catalog.write() as transaction:
        one = transaction.add_tenant("one", public_id="ws-1", now=NOW).id
        return one, transaction.add_tenant("two", public_id="ws-2", now=NOW).id


def add(catalog: Catalog, tenant_id: TenantId, key_id: str, **more: Any) -> Key:
    given = {"name": key_id, "prefix": "hf", "scope": Scope.RUNTIME, "created_at": NOW, **more}
    key = Key(id=key_id, tenant_id=tenant_id, **given)
    with catalog.write() as transaction:
        transaction.add_key(key, secret_hash=hash_of(key_id))
    return key


def hash_of(key_id: str) -> bytes:
    return key_id.encode().ljust(32, b"\0")


def find(catalog: Catalog, key_id: str) -> Key | None:
    with catalog.read() as transaction:
        found = transaction.find_key(hash_of(key_id))
    return None if found is None else found[0]


def listed(catalog: Catalog, tenant_id: TenantId) -> list[str]:
    with catalog.read() as transaction:
        return [key.id for key in transaction.list_keys(tenant_id)]


def touch(catalog: Catalog, *uses: KeyUse) -> None:
    with catalog.write() as transaction:
        transaction.touch_keys(uses)


def test_a_key_is_found_by_its_hash_as_it_was_added(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    full = add(
        catalog,
        tenants[0],
        "key-1",
        scope=Scope.ADMIN,
        name="n ü",
        rate_limit=5,
        expires_at=NOW + timedelta(microseconds=1),
    )
    bare = add(catalog, tenants[1], "key-2", namespace="alice")
    assert find(catalog, "key-1") == full
    assert find(catalog, "key-2") == bare
    assert find(catalog, "key-3") is None
    with catalog.read() as transaction:
        found = transaction.find_key(hash_of("key-2"))
    assert found is not None
    assert (found[1].id, found[1].public_id) == (tenants[1], "ws-2")


def test_the_beginning_of_a_hash_finds_nothing(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    add(catalog, tenants[0], "key-1")
    with catalog.read() as transaction:
        for wrong in (b"", hash_of("key-1")[:31], hash_of("key-1") + b"\0"):
            assert transaction.find_key(wrong) is None


def test_two_keys_never_have_one_secret(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    key = add(catalog, tenants[0], "key-1")
    other = msgspec.structs.replace(key, id="key-2", tenant_id=tenants[1], scope=Scope.ADMIN)
    with pytest.raises(HoldfastError), catalog.write() as transaction:
        transaction.add_key(other, secret_hash=hash_of("key-1"))
    assert find(catalog, "key-1") == key


def test_a_tenant_lists_its_own_oldest_first_without_the_revoked(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    add(catalog, tenants[0], "key-b", created_at=NOW + timedelta(seconds=1))
    for name in ("key-d", "key-c", "key-a"):
        add(catalog, tenants[0], name)
    add(catalog, tenants[1], "key-z")
    with catalog.write() as transaction:
        transaction.revoke_key(tenants[0], "key-c", now=NOW)
    assert listed(catalog, tenants[0]) == ["key-a", "key-d", "key-b"]
    assert listed(catalog, tenants[1]) == ["key-z"]


def test_a_key_is_revoked_once_and_by_its_own_tenant(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    add(catalog, tenants[0], "key-1")
    later = NOW + timedelta(minutes=1)
    with catalog.write() as transaction:
        assert transaction.revoke_key(tenants[1], "key-1", now=NOW) is None
        revoked = transaction.revoke_key(tenants[0], "key-1", now=NOW)
        assert revoked is not None
        assert revoked.revoked_at == NOW
        assert transaction.revoke_key(tenants[0], "key-1", now=later) is None
    # Who asks whether it opens anything sees that it does not.
    found = find(catalog, "key-1")
    assert found is not None
    assert found.revoked_at == NOW


def test_uses_add_up_and_the_latest_counts_in_whatever_order_they_come(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    add(catalog, tenants[0], "key-1")
    late = NOW + timedelta(seconds=9)
    touch(catalog, KeyUse("key-1", late, 3), KeyUse("key-gone", late, 1))
    touch(catalog, KeyUse("key-1", NOW, 4))
    touch(catalog)
    found = find(catalog, "key-1")
    assert found is not None
    assert (found.last_used_at, found.requests) == (late, 7)


def test_workers_that_report_the_same_keys_do_not_wait_for_each_other_for_ever(
    catalog: Catalog, tenants: tuple[TenantId, TenantId]
) -> None:
    names = [f"key-{number}" for number in range(20)]
    for name in names:
        add(catalog, tenants[0], name)
    failed: list[Exception] = []

    def report(order: list[str]) -> None:
        try:
            for _ in range(10):
                touch(catalog, *(KeyUse(name, NOW, 1) for name in order))
        except HoldfastError as exc:
            failed.append(exc)

    threads = [threading.Thread(target=report, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with catalog.read() as transaction:
        assert {key.requests for key in transaction.list_keys(tenants[0])} == {20}


# Requests of a minute


def test_requests_are_counted_by_key_and_second_in_as_many_rows_as_seconds_count(
    catalog: Catalog,
) -> None:
    with catalog.write() as transaction:
        for key_id, second, count in [
            ("key-1", 100, 3),
            ("key-1", 100, 2),
            ("key-1", 100, -1),
            ("key-1", 161, 7),
            ("key-10", 161, 70),
            ("key-1", 900, 90),
        ]:
            transaction.add_requests(key_id, second, count)
        assert transaction.requests_between("key-1", 100, 161) == {100: 4, 161: 7}
        assert transaction.requests_between("key-1", 101, 899) == {161: 7}
        assert transaction.requests_between("key-10", 0, 1000) == {161: 70}
        # The one that comes round to a row has it for itself.
        transaction.add_requests("key-1", 100 + PLACES, 1)
        assert transaction.requests_between("key-1", 0, 899) == {161: 7, 100 + PLACES: 1}
    with catalog.write() as transaction:
        transaction.purge_rates(idle_us=0)
        assert transaction.requests_between("key-1", 0, 1000) == {}

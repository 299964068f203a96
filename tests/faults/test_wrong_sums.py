"""Numbers that follow from other rows: a wrong one is seen, and put right."""

from datetime import timedelta

import pytest

from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory


def fill(kept: Kept) -> None:
    kept.vault.webhooks.create("https://example.com/hook")
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "one")
    agent.snapshot("first")
    kept.vault.namespace("gone").files.write("b.txt", "gone")
    kept.vault.erasures.namespace("gone")
    kept.vault.events.list()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("event_ends", "number"),
        ("event_ends", "purged"),
        ("erasures", "tenant_id"),
        ("pack_sums", "bytes"),
        ("pack_sums", "inline_packs"),
        ("pack_sums", "inline_bytes"),
    ],
)
def test_what_follows_from_other_rows_is_looked_at_and_put_right(
    kept: Kept, table: str, column: str
) -> None:
    fill(kept)
    assert kept.vault.verify().ok
    erased = kept.vault.erasures.list()
    assert erased
    kept.sql(f"UPDATE {table} SET {column} = {column} + 1024")
    assert not kept.vault.verify().ok
    assert kept.vault.repair().ok
    assert kept.vault.verify().ok
    assert kept.vault.erasures.list() == erased
    assert kept.vault.events.list()[0]


def test_what_texts_take_is_counted_anew_by_repair(kept: Kept) -> None:
    fill(kept)
    query = "SELECT row_bytes FROM namespaces WHERE name = 'alice'"
    before = kept.sql(query)
    kept.sql(f"UPDATE namespaces SET row_bytes = row_bytes + {1 << 40}")
    assert kept.vault.repair().ok
    assert kept.sql(query) == before


def test_a_vault_that_was_set_back_is_well(kept: Kept) -> None:
    fill(kept)
    kept.vault.events.begin_era()
    kept.vault.look_after(every=timedelta(0), collects=timedelta(0))
    assert kept.vault.verify().ok

"""What memories ask of a catalog, kept by every adapter."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.catalog.port import Catalog
from holdfast.engine.memory.recall import place_of
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import EMPTY_ROOT, Head, Size
from holdfast.model.memories import MemoryFilter, MemoryRow

NOW = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
ALL = MemoryFilter()


@dataclass
class World:
    """A tenant with two namespaces."""

    catalog: Catalog
    tenant: TenantId
    one: NamespaceId
    other: NamespaceId

    def add(self, memory_id: str, terms: str, **more: Any) -> None:
        with self.catalog.write() as transaction:
            transaction.add_memory(memory(self.one, memory_id, terms, **more))

    def find(self, memory_id: str) -> MemoryRow:
        with self.catalog.read() as transaction:
            found = transaction.find_memory(self.one, memory_id)
        assert found is not None
        return found

    def matching(self, *words: str, chosen: MemoryFilter = ALL) -> list[str]:
        with self.catalog.read() as transaction:
            found = transaction.match_memories(self.one, words, chosen)
            rows = transaction.get_memories(self.one, [number for (*_, number), _ in found])
        assert {(place_of(row), row.terms) for row in rows} == set(found)
        assert len(found) == len(set(found))
        return sorted(row.id for row in rows)

    def holders(self, *words: str) -> dict[str, int]:
        with self.catalog.read() as transaction:
            return transaction.count_holders(self.one, words)

    def listed(self, chosen: MemoryFilter = ALL, **more: Any) -> list[str]:
        with self.catalog.read() as transaction:
            found = transaction.list_memories(
                self.one, chosen, **{"before": None, "most": 99, **more}
            )
        return [row.id for row in found]


@pytest.fixture
def world(catalog: Catalog) -> World:
    with catalog.write() as transaction:
        tenant = transaction.add_tenant("default", public_id="ws-1", now=NOW).id
        heads = [
            transaction.add_namespace(
                Head(NamespaceId(0), tenant, name, 0, 0, EMPTY_ROOT, None, (), Size(), NOW)
            )
            for name in ("alice", "bob")
        ]
    one, other = (head.namespace_id for head in heads if head is not None)
    return World(catalog, tenant, one, other)


def memory(namespace_id: NamespaceId, memory_id: str, terms: str, **more: Any) -> MemoryRow:
    given = {
        "session_id": None,
        "user_id": None,
        "agent_id": None,
        "type": "general",
        "tags": "[]",
        "metadata": "{}",
        "is_searchable": True,
        "version": 1,
        "created_at": NOW,
        "updated_at": NOW,
        "content": f"says {terms}",
    }
    return MemoryRow(namespace_id=namespace_id, id=memory_id, terms=terms, **{**given, **more})


def test_a_memory_comes_back_as_it_was_added(world: World) -> None:
    given = memory(
        world.one,
        "mem_a",
        "blue sky",
        session_id="sess_1",
        user_id="ann",
        agent_id="bot",
        type="fact",
        tags='["x","y"]',
        metadata='{"n":12345678901234567890}',
        is_searchable=False,
        version=3,
        updated_at=NOW + timedelta(seconds=1),
        content="Größe 😀 'quoted' \"twice\"",
        embedding=bytes(range(256)),
    )
    with world.catalog.write() as transaction:
        transaction.add_memory(given)
    found = world.find("mem_a")
    assert replace(found, number=0) == given
    with world.catalog.read() as transaction:
        assert transaction.find_memory(world.other, "mem_a") is None
        assert transaction.find_memory(world.one, "mem_b") is None
        assert transaction.get_memories(world.other, [found.number]) == []
        (listed,) = transaction.get_memories(world.one, [found.number])
        assert replace(listed, number=0) == replace(given, embedding=b"")
        assert transaction.get_memories(world.one, []) == []


def test_a_memory_is_found_by_any_of_its_words(world: World) -> None:
    world.add("mem_a", "blue sky over berlin")
    world.add("mem_b", "blue blue eyes")
    world.add("mem_c", "")
    assert world.matching("blue") == ["mem_a", "mem_b"]
    assert world.matching("sky", "eyes") == ["mem_a", "mem_b"]
    assert world.matching("blu") == world.matching("blueish") == world.matching() == []
    assert world.matching("be*") == ["mem_a"]
    assert world.matching("e*", "sk*") == ["mem_a", "mem_b"]
    assert world.holders("blue", "sky", "nothing") == {"blue": 2, "sky": 1}
    assert world.holders() == {}


@pytest.mark.parametrize("word", ["東京", "привет", "हिन्दी", "or", "and", "near", "not", "x", "7"])
def test_every_word_is_a_word_and_nothing_else(world: World, word: str) -> None:
    world.add("mem_a", f"one {word} two")
    world.add("mem_b", "one two")
    assert world.matching(word) == ["mem_a"]
    assert world.matching(f"{word}*") == ["mem_a"]
    assert world.holders(word) == {word: 1}


def test_a_namespace_shares_no_word_with_another(world: World) -> None:
    world.add("mem_a", "secret blue")
    with world.catalog.write() as transaction:
        transaction.add_memory(memory(world.other, "mem_b", "blue"))
        assert transaction.count_holders(world.other, ["blue", "secret"]) == {"blue": 1}
        assert transaction.match_memories(world.other, ["secret*"], ALL) == []
        assert len(transaction.match_memories(world.other, ["blue"], ALL)) == 1
        assert transaction.count_searchable(world.other) == 1


def test_what_is_changed_is_found_by_what_it_says_now(world: World) -> None:
    world.add("mem_a", "blue sky")
    old = world.find("mem_a")
    new = replace(old, terms="red sea sea", content="new", version=2, embedding=b"\0\0\0\0")
    with world.catalog.write() as transaction:
        transaction.set_memory(new)
    assert world.find("mem_a") == new
    assert world.matching("blue", "sky") == []
    assert world.matching("sea") == ["mem_a"]
    assert world.holders("blue", "sky", "red", "sea") == {"red": 1, "sea": 1}


def test_what_is_deleted_is_gone_until_it_is_recovered(world: World) -> None:
    world.add("mem_a", "blue sky")
    world.add("mem_b", "blue sea")
    number = world.find("mem_a").number
    with world.catalog.write() as transaction:
        assert not transaction.recover_memory(world.one, "mem_a")
        transaction.delete_memory(world.one, number, now=NOW)
        assert transaction.find_memory(world.one, "mem_a") is None
        assert transaction.get_memories(world.one, [number]) == []
        assert transaction.count_searchable(world.one) == 1
    assert world.matching("blue") == world.listed() == ["mem_b"]
    assert world.holders("blue", "sky") == {"blue": 1}
    with world.catalog.write() as transaction:
        assert not transaction.recover_memory(world.other, "mem_a")
        assert transaction.recover_memory(world.one, "mem_a")
        assert not transaction.recover_memory(world.one, "mem_a")
    assert world.matching("blue") == ["mem_a", "mem_b"]
    assert world.holders("blue", "sky") == {"blue": 2, "sky": 1}


def test_the_memories_of_a_session_go_with_it(world: World) -> None:
    for number in range(3):
        world.add(f"mem_{number}", "blue", session_id="sess_1" if number else "sess_2")
    with world.catalog.write() as transaction:
        assert transaction.count_memories(world.one, "sess_1") == 2
        assert transaction.list_memories_of(world.other, "sess_1") == []
        found = [row.id for row in transaction.list_memories_of(world.one, "sess_1")]
        transaction.put_memories(world.one, [], gone=found, now=NOW)
        assert transaction.list_memories_of(world.one, "sess_1") == []
        assert transaction.count_memories(world.one, "sess_1") == 0
    assert world.matching("blue") == ["mem_0"]
    assert world.holders("blue") == {"blue": 1}


def test_what_was_deleted_long_ago_is_let_go_of(world: World) -> None:
    for number in range(4):
        world.add(f"mem_{number}", "blue")
    with world.catalog.write() as transaction:
        for number in range(3):
            found = transaction.find_memory(world.one, f"mem_{number}")
            assert found is not None
            transaction.delete_memory(world.one, found.number, now=NOW + timedelta(days=number))
        assert transaction.purge_memories(TenantId(world.tenant + 1), before=NOW) == 0
        assert transaction.purge_memories(world.tenant, before=NOW + timedelta(days=1)) == 2
        assert not transaction.recover_memory(world.one, "mem_1")
        assert transaction.recover_memory(world.one, "mem_2")
    assert world.matching("blue") == ["mem_2", "mem_3"]


def test_a_purged_namespace_takes_its_memories_and_their_words_along(world: World) -> None:
    world.add("mem_a", "blue")
    with world.catalog.write() as transaction:
        transaction.add_memory(memory(world.other, "mem_b", "blue"))
        transaction.delete_namespace(world.one, now=NOW)
        assert transaction.purge_namespace(world.one)
    assert world.holders("blue") == {}
    assert world.matching("blue") == []
    with world.catalog.write() as transaction:
        assert transaction.count_holders(world.other, ["blue"]) == {"blue": 1}
        assert transaction.memory_bytes(world.tenant) == len("says blue" + "blue" + "[]" + "{}")


def test_a_failed_transaction_leaves_the_index_as_it_was(world: World) -> None:
    world.add("mem_a", "blue")
    number = world.find("mem_a").number

    def fail() -> None:
        with world.catalog.write() as transaction:
            transaction.add_memory(memory(world.one, "mem_b", "blue red"))
            transaction.delete_memory(world.one, number, now=NOW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert world.holders("blue", "red") == {"blue": 1}
    assert world.matching("blue", "red") == ["mem_a"]


def test_what_is_not_searchable_is_listed_only(world: World) -> None:
    world.add("mem_a", "blue", is_searchable=False, embedding=b"\0\0\0\0")
    assert world.matching("blue") == []
    assert world.holders("blue") == {}
    assert world.listed() == ["mem_a"]
    with world.catalog.write() as transaction:
        assert transaction.count_searchable(world.one) == 0
        assert transaction.page_embeddings(world.one, ALL, after=0, most=9) == []
        found = transaction.find_memory(world.one, "mem_a")
        assert found is not None
        transaction.set_memory(replace(found, terms="red"))
    assert world.matching("red") == []


FILTERS = [
    (MemoryFilter(), "abcdef"),
    (MemoryFilter(scope="session", session_id="s1"), "ab"),
    (MemoryFilter(scope="session", session_id="s1", others=((5, 6), (0, 2**62))), ""),
    (MemoryFilter(scope="user", owner_id="ann"), "bcd"),
    (MemoryFilter(scope="user", owner_id=None), ""),
    (MemoryFilter(scope="global"), "f"),
    (MemoryFilter(scope="visible", session_id="s1", owner_id=None), "abf"),
    (MemoryFilter(scope="visible", session_id="s1", owner_id="ann"), "abcdf"),
    (MemoryFilter(scope="visible", session_id="s3", owner_id="eve"), "ef"),
    (MemoryFilter(user_id="ann"), "bcd"),
    (MemoryFilter(agent_id="bot"), "ac"),
    (MemoryFilter(user_id="ann", agent_id="bot"), "c"),
    (MemoryFilter(types=("fact",)), "bd"),
    (MemoryFilter(types=("fact", "event", "nothing")), "bde"),
    (MemoryFilter(types=()), ""),
    (MemoryFilter(tags=("x",)), "ad"),
    (MemoryFilter(tags=("x", "y z")), "ade"),
    (MemoryFilter(tags=("'\"", "%")), ""),
    (MemoryFilter(tags=()), ""),
    (MemoryFilter(types=("fact",), tags=("x",), user_id="ann"), "d"),
]


@pytest.fixture
def people(world: World) -> World:
    world.add("a", "blue", session_id="s1", agent_id="bot", tags='["x"]')
    world.add("b", "blue", session_id="s1", user_id="ann", type="fact", embedding=b"bbbb")
    world.add("c", "blue", session_id="s2", user_id="ann", agent_id="bot")
    world.add("d", "blue", user_id="ann", type="fact", tags='["w","x"]', embedding=b"dddd")
    world.add("e", "blue", session_id="s3", user_id="eve", type="event", tags='["y z"]')
    world.add("f", "blue")
    return world


@pytest.mark.parametrize(("chosen", "wanted"), FILTERS)
def test_a_filter_chooses_the_same_for_lists_words_and_vectors(
    people: World, chosen: MemoryFilter, wanted: str
) -> None:
    assert people.listed(chosen) == sorted(wanted, reverse=True)
    assert people.matching("blue", chosen=chosen) == list(wanted)
    with people.catalog.read() as transaction:
        vectors = transaction.page_embeddings(people.one, chosen, after=0, most=9)
    assert [vector[:1].decode() for _, vector in vectors] == [w for w in wanted if w in "bd"]


def test_lists_and_vectors_come_in_pages(people: World) -> None:
    assert people.listed(most=2) == ["f", "e"]
    assert people.listed(most=2, before=people.find("e")) == ["d", "c"]
    assert people.listed(most=0) == []
    with people.catalog.read() as transaction:
        (((*_, first), _),) = transaction.page_embeddings(people.one, ALL, after=0, most=1)
        assert first == people.find("b").number
        (((*_, second), _),) = transaction.page_embeddings(people.one, ALL, after=first, most=1)
        assert second == people.find("d").number
        assert transaction.page_embeddings(people.one, ALL, after=second, most=1) == []

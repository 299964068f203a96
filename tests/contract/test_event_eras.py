"""Where the database is set on another timeline, events go on behind all that anybody has seen."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.catalog import postgres
from holdfast.ids import IdMaker
from holdfast.instants import to_us
from holdfast.model.events import ERA, REINSTATED, EventRow
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.postgres

Opener = Callable[..., holdfast.Holdfast]

LATER = 7
"""A timeline that no test database is on."""


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def vault(postgres_url: str, packs: str, clock: Watch) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(postgres_url, objects=packs, clock=clock) as vault:
        vault.events.listen()
        yield vault


def run(url: str, query: str) -> list[tuple[object, ...]]:
    # It may go through a pooler.
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def timeline(url: str) -> object:
    return run(url, "SELECT timeline FROM holdfast.event_ends")[0][0]


def write(vault: holdfast.Holdfast, *names: str) -> None:
    for name in names:
        vault.namespace("alice").files.write(name, name)


def paths(events: list[EventRow]) -> list[str]:
    found = [msgspec.json.decode(each.data) for each in events if each.type == "file.written"]
    return [each["path"].removeprefix("workspace/") for each in found]


def lose(url: str, *, above: int) -> None:
    """Does what it is to promote a replica that has not received the last events."""
    run(url, f"DELETE FROM holdfast.events WHERE number > {above}")
    end = "(SELECT MAX(created_us) FROM holdfast.events)"
    promote(url, f"number = {above}, created_us = {end}")


def promote(url: str, also: str = "number = number") -> None:
    run(url, f"UPDATE holdfast.event_ends SET timeline = {LATER}, {also}")


def test_the_timeline_on_which_numbers_are_given_out_is_kept(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    write(vault, "a")
    assert vault.events.last() == 1
    assert timeline(postgres_url) == 1


def test_who_has_seen_what_a_replica_lacked_misses_nothing_of_what_comes(
    vault: holdfast.Holdfast, postgres_url: str, clock: Watch
) -> None:
    write(vault, "a", "b", "c", "d")
    seen = vault.events.page(after=0)
    lose(postgres_url, above=2)
    assert vault.events.page(after=seen[-1].number) == []
    clock.wait(timedelta(seconds=5))
    write(vault, "e", "f", "g")
    ahead, behind = vault.events.page(after=seen[-1].number), vault.events.page(after=1)
    assert paths(ahead) == ["e", "f", "g"]
    assert paths(behind) == ["b", "e", "f", "g"]
    first = ahead[0]
    assert (first.number, first.type) == (ERA, REINSTATED)
    assert msgspec.json.decode(first.data) == {"after": 2}
    assert [each.number for each in ahead] == [*range(ERA, ERA + 4)]
    assert timeline(postgres_url) == 1
    assert vault.verify().ok


def test_who_goes_on_by_the_instant_misses_nothing_either(
    vault: holdfast.Holdfast, postgres_url: str, clock: Watch
) -> None:
    write(vault, "a", "b", "c")
    seen = vault.events.page(after=0)[-1].created_us
    lose(postgres_url, above=1)
    write(vault, "told on the way")
    clock.wait(timedelta(seconds=5))
    write(vault, "after")
    later = [each for each in vault.events.page(after=0) if each.created_us > seen]
    assert paths(later) == ["told on the way", "after"]


def test_who_names_an_event_that_was_lost_goes_on_with_what_came_after_it(
    vault: holdfast.Holdfast, postgres_url: str, clock: Watch
) -> None:
    write(vault, "a", "b", "c")
    seen = vault.events.page(after=0)
    lost = seen[-1].id
    assert vault.events.find_place(lost) is None
    lose(postgres_url, above=2)
    clock.wait(timedelta(seconds=5))
    # Also before anything was told since.
    place = vault.events.find_place(lost)
    assert place == 2
    write(vault, "d")
    assert paths(vault.events.page(after=place)) == ["d"]
    after = IdMaker().event(to_us(clock()) + 10**6)
    assert [vault.events.find_place(each) for each in (after, "evt-x")] == [None, None]


def test_an_era_begins_once_for_each_promotion(vault: holdfast.Holdfast, postgres_url: str) -> None:
    write(vault, "a")
    vault.events.last()
    for number in range(1, 4):
        promote(postgres_url)
        write(vault, f"b{number}")
        assert vault.events.last() == number * ERA + 1
        write(vault, f"c{number}")
        assert vault.events.last() == number * ERA + 2
    found = vault.events.page(after=0)
    assert [each.type for each in found].count(REINSTATED) == 3
    assert vault.verify().ok


def test_nothing_is_told_of_a_promotion_while_nothing_else_is(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    write(vault, "a")
    assert vault.events.last() == 1
    promote(postgres_url)
    assert vault.events.last() == 1
    assert [each.number for each in vault.events.page(after=0)] == [1]


def test_a_vault_of_before_timelines_were_kept_goes_on_as_it_was(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    write(vault, "a")
    vault.events.last()
    run(postgres_url, "UPDATE holdfast.event_ends SET timeline = NULL")
    write(vault, "b")
    assert vault.events.last() == 2
    assert timeline(postgres_url) == 1


def test_a_database_that_does_not_say_its_timeline_is_used_as_it_was(
    vault: holdfast.Holdfast, postgres_url: str, packs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vault, "a")
    vault.events.last()
    promote(postgres_url)
    monkeypatch.setattr(postgres, "TIMELINE", "pg_walfile_name('none')")
    with holdfast.open(postgres_url, objects=packs) as other:
        write(other, "b")
        assert other.events.last() == 2
    assert timeline(postgres_url) == LATER


def test_in_sqlite_there_are_no_timelines(tmp_path_factory: pytest.TempPathFactory) -> None:
    with holdfast.open(tmp_path_factory.mktemp("vault")) as vault:
        vault.events.listen()
        write(vault, "a", "b")
        assert [each.number for each in vault.events.page(after=0)] == [1, 2]

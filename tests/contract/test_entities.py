"""What sessions know of things, and how much there is, on both catalogs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions import entities
from holdfast.errors import (
    EntityExists,
    EntityNotFound,
    InvalidName,
    InvalidValue,
    LimitExceeded,
    SessionNotFound,
    TooLarge,
    Unencodable,
)
from holdfast.model.entities import Entity, Totals
from holdfast.testing.clocks import Watch

START = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> Watch:
    return Watch(START)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def vault(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Watch
) -> Iterator[holdfast.Holdfast]:
    where = tmp_path / "vault"
    place = where if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with holdfast.open(place, objects=tmp_path / "packs", clock=clock) as opened:
        yield opened


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> Namespace:
    return vault.namespace("alice")


@pytest.fixture
def session(agent: Namespace) -> str:
    return agent.sessions.create("travel-agent", user_id="ada", session_id="s").id


def order(agent: Namespace, session: str, number: int = 1, **attributes: Any) -> Entity:
    return agent.entities.create(
        session, entity_type="order", entity_id=f"A-{number}", attributes=attributes
    )


def actions(agent: Namespace) -> list[str]:
    return [trace.action for trace in agent.traces.list(resource_type="entity")]


def test_an_entity_comes_back_as_it_was_noted(agent: Namespace, session: str) -> None:
    made = order(agent, session, total=12.5, big=2**80, nothing=None, text="ü")
    assert made.attributes == {"total": 12.5, "big": 2**80, "nothing": None, "text": "ü"}
    assert (made.version, made.created_at, made.updated_at) == (1, START, START)
    assert agent.entities.get(made.id) == made
    assert agent.entities.list() == [made]


def test_a_change_replaces_all_and_counts(agent: Namespace, session: str, clock: Watch) -> None:
    made = order(agent, session, a=1, b=2)
    clock.now += timedelta(hours=1)
    changed = agent.entities.update(made.id, {"c": 3})
    assert (changed.attributes, changed.version) == ({"c": 3}, 2)
    assert (changed.created_at, changed.updated_at) == (START, clock.now)
    assert agent.entities.get(made.id) == changed
    assert actions(agent) == ["entity.updated", "entity.created"]


def test_a_session_knows_a_thing_once_and_again_after_it_was_forgotten(
    agent: Namespace, session: str
) -> None:
    made = order(agent, session)
    with pytest.raises(EntityExists):
        order(agent, session)
    other = agent.sessions.create("a").id
    assert order(agent, other).id != made.id
    agent.entities.delete(made.id)
    assert order(agent, session).version == 1
    assert actions(agent) == ["entity.created", "entity.deleted"] + ["entity.created"] * 2


def test_of_those_who_note_the_same_at_once_one_does(agent: Namespace, session: str) -> None:
    def note(_: int) -> bool:
        try:
            return bool(order(agent, session))
        except EntityExists:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(note, range(8))) == [False] * 7 + [True]
    assert actions(agent) == ["entity.created"], "who was late has told nothing"


def test_changes_at_once_are_counted_one_by_one(agent: Namespace, session: str) -> None:
    made = order(agent, session)

    def change(n: int) -> int:
        return agent.entities.update(made.id, {"n": n}).version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(change, range(8))) == list(range(2, 10))


def test_pages_are_newest_first(agent: Namespace, session: str, clock: Watch) -> None:
    made = list[Entity]()
    for n in range(5):
        clock.now += timedelta(seconds=n % 2)
        made.append(order(agent, session, n))
    agent.entities.create(session, entity_type="customer", entity_id="A-1")
    listed = agent.entities.list(entity_type="order")
    assert sorted(listed, key=lambda each: (each.created_at, each.id), reverse=True) == listed
    assert {each.id for each in listed} == {each.id for each in made}
    seen, cursor = list[Entity](), None
    while page := agent.entities.list(entity_type="order", limit=2, starting_after=cursor):
        seen, cursor = [*seen, *page], page[-1].id
    assert seen == listed
    assert agent.entities.list(session_id="nobody") == []
    with pytest.raises(InvalidValue, match="starting_after"):
        agent.entities.list(starting_after="ent_none")


def test_what_a_session_knows_goes_and_comes_back_with_it(agent: Namespace, session: str) -> None:
    made = order(agent, session)
    snapshot = agent.snapshot()
    agent.sessions.delete(session)
    assert agent.entities.list() == []
    for lost in (agent.entities.get, agent.entities.delete):
        with pytest.raises(EntityNotFound):
            lost(made.id)
    with pytest.raises(SessionNotFound):
        order(agent, session, 2)
    agent.restore(snapshot)
    assert agent.entities.list() == [made]


def test_a_session_past_its_time_knows_nothing(agent: Namespace, clock: Watch) -> None:
    short = agent.sessions.create("a", ttl_seconds=60).id
    made = order(agent, short)
    clock.now += timedelta(seconds=61)
    with pytest.raises(EntityNotFound):
        agent.entities.get(made.id)
    with pytest.raises(SessionNotFound):
        order(agent, short, 2)


def test_what_was_deleted_goes_for_good_after_the_grace_period(
    vault: holdfast.Holdfast, agent: Namespace, session: str, clock: Watch
) -> None:
    agent.entities.delete(order(agent, session).id)
    kept = order(agent, session)
    vault.forget()
    assert "entity.purged" not in [trace.action for trace in vault.traces.list(limit=100)]
    clock.now += timedelta(days=8)
    vault.forget()
    purged = next(t for t in vault.traces.list(limit=100) if t.action == "entity.purged")
    assert purged.details == {"count": 1}
    assert agent.entities.list() == [kept]


def test_what_was_deleted_comes_back_unless_its_place_is_taken(
    agent: Namespace, session: str
) -> None:
    made = order(agent, session, a=1)
    with pytest.raises(EntityNotFound):
        agent.entities.recover(made.id)
    agent.entities.delete(made.id)
    assert agent.entities.recover(made.id) == made == agent.entities.get(made.id)
    agent.entities.delete(made.id)
    new = order(agent, session)
    with pytest.raises(EntityNotFound):
        agent.entities.recover(made.id)
    assert agent.entities.list() == [new]
    assert actions(agent).count("entity.recovered") == 1


def test_entities_go_with_the_rows_of_their_session_and_namespace(
    vault: holdfast.Holdfast, agent: Namespace, session: str, clock: Watch
) -> None:
    order(agent, session)
    agent.sessions.delete(session)
    clock.now += timedelta(days=40)
    vault.collect()
    again = agent.sessions.create("a", session_id=session).id
    assert agent.entities.list() == []
    order(agent, again)
    vault.delete_namespace("alice")
    clock.now += timedelta(days=8)
    vault.collect()
    assert vault.namespace("alice").entities.list() == []
    assert vault.totals().entities == 0


def test_a_fork_of_a_namespace_takes_no_entities_along_and_can_note_its_own(
    agent: Namespace, session: str
) -> None:
    order(agent, session)
    fork = agent.fork("bob")
    assert fork.entities.list() == []
    own = order(fork, session)
    assert fork.entities.list() == [own]
    assert len(agent.entities.list()) == 1


def test_nothing_is_seen_from_another_namespace_or_tenant(
    vault: holdfast.Holdfast, agent: Namespace, session: str
) -> None:
    made = order(agent, session)
    for other in (vault.namespace("bob"), vault.tenant("acme").namespace("alice")):
        other.sessions.create("a", session_id=session)
        assert other.entities.list() == []
        assert other.entities.list(session_id=session) == []
        for act in (other.entities.get, other.entities.delete, other.entities.recover):
            with pytest.raises(EntityNotFound):
                act(made.id)
        with pytest.raises(EntityNotFound):
            other.entities.update(made.id, {})
        with pytest.raises(InvalidValue, match="starting_after"):
            other.entities.list(starting_after=made.id)
    assert agent.entities.get(made.id) == made


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"entity_type": ""}, InvalidName),
        ({"entity_id": ""}, InvalidName),
        ({"entity_id": "x" * 257}, InvalidName),
        ({"entity_type": "a\0b"}, InvalidName),
        ({"attributes": {"x": "y" * 70_000}}, TooLarge),
        ({"attributes": {"x": float("nan")}}, Unencodable),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    agent: Namespace, session: str, change: dict[str, Any], error: type[Exception]
) -> None:
    given: dict[str, Any] = {"entity_type": "order", "entity_id": "1", **change}
    with pytest.raises(error):
        agent.entities.create(session, **given)
    assert agent.entities.list() == []
    assert actions(agent) == []


def test_a_session_knows_only_so_many(
    agent: Namespace, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entities, "MOST_OF_SESSION", 2)
    first = order(agent, session, 1)
    order(agent, session, 2)
    with pytest.raises(LimitExceeded):
        order(agent, session, 3)
    agent.entities.delete(first.id)
    order(agent, session, 3)


# Totals


def totals_of(thing: Namespace | holdfast.Holdfast) -> tuple[int, ...]:
    found = thing.totals()
    return (found.sessions, found.turns, found.memories, found.entities, found.active_sessions)


def test_totals_count_what_can_be_seen(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    assert totals_of(agent) == (0, 0, 0, 0, 0)
    keep = agent.sessions.create("a").id
    gone = agent.sessions.create("a").id
    agent.sessions.create("a", ttl_seconds=60)
    for session in (keep, gone):
        agent.sessions.add_turn(session, "q", "a")
        agent.memory.add("x", session_id=session)
        order(agent, session)
    agent.memory.add("for all")
    agent.sessions.delete(gone)
    clock.now += timedelta(minutes=2)
    assert totals_of(agent) == (1, 1, 2, 1, 3)
    other = vault.namespace("bob")
    other.sessions.create("b")
    assert totals_of(other) == (1, 0, 0, 0, 1)
    assert totals_of(vault) == (2, 1, 2, 1, 4)
    assert totals_of(vault.tenant("acme").namespace("alice")) == (0, 0, 0, 0, 0)
    vault.delete_namespace("alice")
    assert totals_of(vault)[:4] == (1, 0, 0, 0)


def by_hour(totals: Totals) -> list[tuple[int, int]]:
    return [(hour.hour, count) for hour, count in totals.by_hour]


def test_activity_is_told_by_the_hour_for_a_day(agent: Namespace, clock: Watch) -> None:
    session = agent.sessions.create("a").id
    clock.now += timedelta(hours=3)
    for n in range(2):
        agent.sessions.update_state(session, {"n": n})
    assert by_hour(agent.totals()) == [(12, 1), (15, 2)]
    assert agent.totals().storage_bytes > 0
    clock.now += timedelta(hours=22)
    assert by_hour(agent.totals()) == [(15, 2)]
    assert agent.totals().active_sessions == 1
    clock.now += timedelta(hours=22)
    assert (by_hour(agent.totals()), agent.totals().active_sessions) == ([], 0)


def test_a_list_goes_on_behind_what_was_deleted_since(agent: Namespace, clock: Watch) -> None:
    agent.sessions.create("helper", session_id="s")
    agent.sessions.create("helper", session_id="over")
    made = list[str]()
    for number in range(4):
        clock.wait(timedelta(seconds=1))
        session_id = "over" if number == 2 else "s"
        made.append(agent.entities.create(session_id, entity_type="t", entity_id=str(number)).id)
    agent.entities.delete(made[1])
    agent.sessions.delete("over")
    for seen in (made[1], made[2]):
        assert [each.id for each in agent.entities.list(starting_after=seen)] == made[:1]
    with pytest.raises(InvalidValue):
        agent.entities.list(starting_after="ent_none")
    with pytest.raises(InvalidValue):
        agent.fork("fork").entities.list(starting_after=made[1])

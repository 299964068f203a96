"""Which sessions and turns are listed, page by page, and when a session's time is over."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.door import Sessions
from holdfast.errors import InvalidName, InvalidValue, SessionNotFound, TurnNotFound
from holdfast.operations.sessions import MAX_TTL_SECONDS
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> Watch:
    return Watch(START)


@pytest.fixture
def agent(tmp_path: Path, clock: Watch) -> Iterator[Namespace]:
    with holdfast.open(tmp_path, clock=clock) as vault:
        yield vault.namespace("agent")


@pytest.fixture
def sessions(agent: Namespace) -> Sessions:
    return agent.sessions


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("version", [0, 1])
def test_turns_go_on_behind_one_that_was_taken_back(
    sessions: Sessions, order: Literal["asc", "desc"], version: int
) -> None:
    for session_id in ("s", "other"):
        sessions.create("helper", session_id=session_id)
    turns = [sessions.add_turn("s", input="i", output=str(n)) for n in (1, 2)]
    sessions.update_state("s", {"a": 1})
    turns += [sessions.add_turn("s", input="i", output=str(n)) for n in (3, 4)]
    stranger = sessions.add_turn("other", input="i", output="o")
    sessions.rollback("s", version=version, conversation=True)
    left = [2, 1] if version == 1 and order == "desc" else []
    for _ in range(2):
        page = sessions.list_turns("s", starting_after=turns[2].id, order=order)
        assert [turn.number for turn in page] == left
        added = sessions.add_turn("s", input="i", output="new")
        left = [added.number, *left] if order == "desc" and added.number < 3 else left
    for never in (stranger.id, "turn_none"):
        with pytest.raises(InvalidValue):
            sessions.list_turns("s", starting_after=never, order=order)


def names(found: list[Any]) -> list[str]:
    return [each.id for each in found]


# Lists of sessions


def test_sessions_are_listed_newest_first_page_by_page(sessions: Sessions, clock: Watch) -> None:
    made = list[str]()
    for number in range(25):
        clock.wait(number % 3 * SECOND)  # Some are of the same instant.
        made.append(sessions.create("agent").id)
    by_id = {session.id: session for session in sessions.list(limit=None)}
    wanted = sorted(made, key=lambda name: (by_id[name].created_at, name), reverse=True)
    assert names(sessions.list()) == wanted[:20]
    assert names(sessions.list(limit=0)) == []
    for limit in (1, 7, 25):
        found, last = list[str](), None
        while page := names(sessions.list(limit=limit, starting_after=last)):
            found += page
            last = page[-1]
        assert found == wanted


def test_sessions_are_listed_without_their_states(agent: Namespace, sessions: Sessions) -> None:
    made = sessions.create("agent", initial_state={"step": 1}, metadata={"a": 1})
    (found,) = sessions.list(include_state=False)
    assert (found.id, found.version, found.metadata, found.state) == (made.id, 0, {"a": 1}, {})
    (then,) = agent.at(agent.snapshot()).sessions.list(include_state=False)
    assert (then.id, then.state) == (made.id, {})
    assert sessions.list()[0].state == {"step": 1}


def test_more_sessions_than_a_page_of_rows_are_filtered_one_by_one(sessions: Sessions) -> None:
    for number in range(130):
        sessions.create("agent", metadata={"number": number, "is_even": number % 2 == 0})
    assert len(sessions.list(metadata={"is_even": True}, limit=None)) == 65
    [found] = sessions.list(metadata={"number": 3, "is_even": False})
    assert found.metadata["number"] == 3
    assert sessions.list(metadata={"number": 3, "is_even": True}) == []
    assert sessions.list(metadata={"other": None}) == []
    assert len(sessions.list(metadata={}, limit=None)) == 130


def test_sessions_are_filtered_by_agent_user_and_time(sessions: Sessions, clock: Watch) -> None:
    times = list[datetime]()
    for number in range(6):
        times.append(clock.now)
        user_id = "ada" if number < 4 else None
        sessions.create("ab"[number % 2], session_id=str(number), user_id=user_id)
        clock.wait(SECOND)
    assert names(sessions.list(agent_id="a")) == ["4", "2", "0"]
    assert names(sessions.list(user_id="ada")) == ["3", "2", "1", "0"]
    assert names(sessions.list(agent_id="b", user_id="ada")) == ["3", "1"]
    assert names(sessions.list(agent_id="c")) == []
    assert names(sessions.list(created_after=times[4])) == ["5", "4"]
    assert names(sessions.list(created_before=times[2])) == ["1", "0"]
    assert names(sessions.list(created_after=times[1], created_before=times[3])) == ["2", "1"]
    assert names(sessions.list(created_before=times[2], starting_after="5")) == ["1", "0"]
    assert names(sessions.list(created_before=times[4], starting_after="2")) == ["1", "0"]


def test_a_list_goes_on_where_a_session_was_that_is_gone(sessions: Sessions, clock: Watch) -> None:
    for number in range(4):
        sessions.create("agent", session_id=str(number))
        clock.wait(SECOND)
    sessions.delete("2")
    assert names(sessions.list()) == ["3", "1", "0"]
    assert names(sessions.list(starting_after="2")) == ["1", "0"]


@pytest.mark.parametrize(
    "asked",
    [
        {"limit": -1},
        {"starting_after": "none"},
        {"created_after": START.replace(tzinfo=None)},
        {"created_before": START.replace(tzinfo=None)},
    ],
)
def test_a_list_that_cannot_be_is_refused(sessions: Sessions, asked: dict[str, Any]) -> None:
    sessions.create("agent")
    with pytest.raises(InvalidValue):
        sessions.list(**asked)


def test_a_limit_beyond_all_numbers_is_refused_or_means_all(sessions: Sessions) -> None:
    name = sessions.create("agent").id
    for act in (sessions.list, lambda **o: sessions.history(name, **o)):
        try:
            assert len(act(limit=2**70)) == 1
        except InvalidValue:
            continue


@pytest.mark.parametrize(
    "given",
    [
        {"agent_id": ""},
        {"agent_id": 5},
        {"agent_id": None},
        {"agent_id": "a", "session_id": 5},
        {"agent_id": "a", "user_id": 5},
        {"agent_id": "a", "metadata": []},
        {"agent_id": "a", "ttl_seconds": "5"},
        {"agent_id": "a", "ttl_seconds": 0.5},
        {"agent_id": "a", "ttl_seconds": True},
        {"agent_id": "a", "ttl_seconds": 0},
        {"agent_id": "a", "ttl_seconds": -1},
        {"agent_id": "a", "ttl_seconds": MAX_TTL_SECONDS + 1},
    ],
)
def test_a_session_that_cannot_be_is_refused(sessions: Sessions, given: dict[str, Any]) -> None:
    with pytest.raises((InvalidName, InvalidValue)):
        sessions.create(**given)
    assert sessions.list() == []


# Lists of turns


def test_turns_are_listed_in_either_direction_page_by_page(sessions: Sessions) -> None:
    sessions.create("agent", session_id="s")
    for number in range(1, 131):
        sessions.add_turn(
            "s", str(number), "o", state_after={"v": number} if number == 50 else None
        )
        if number == 60:
            # From here on there are two branches.
            sessions.rollback("s", 1, conversation=True)
    # 1 to 50, and what was said after the way back.
    spoken = [str(number) for number in (*range(1, 51), *range(61, 131))]
    for order, wanted in (("asc", spoken), ("desc", spoken[::-1])):
        for limit in (1, 33, 120, 500):
            found, last = list[str](), None
            while page := sessions.list_turns("s", order=order, limit=limit, starting_after=last):
                found += [turn.input["content"] for turn in page]
                last = page[-1].id
            assert found == wanted
    everything = sessions.list_turns("s", limit=None, order="asc")
    assert [turn.number for turn in everything] == list(range(1, 121))
    assert len(sessions.list_turns("s")) == 20
    assert sessions.list_turns("s", limit=0) == []


def test_a_turn_of_another_session_is_not_found_here(sessions: Sessions) -> None:
    for name in ("s", "t"):
        sessions.create("agent", session_id=name)
    turn = sessions.add_turn("s", "i", "o")
    sessions.add_turn("t", "i", "o")
    for name in (turn.id + "x", "", "turn_none"):
        with pytest.raises(TurnNotFound):
            sessions.get_turn("s", name)
    with pytest.raises(TurnNotFound):
        sessions.get_turn("t", turn.id)
    with pytest.raises(InvalidValue, match="starting_after"):
        sessions.list_turns("t", starting_after=turn.id)
    for wrong in ("up", "", "DESC", None):
        with pytest.raises(InvalidValue):
            sessions.list_turns("s", order=wrong)  # pyright: ignore[reportArgumentType] - as a user may


def test_the_turns_of_another_tenant_are_not_found(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        mine = vault.namespace("agent").sessions
        theirs = vault.tenant("other").namespace("agent").sessions
        for sessions in (mine, theirs):
            sessions.create("agent", session_id="s")
            sessions.add_turn("s", "i", "o")
        [turn] = theirs.list_turns("s")
        with pytest.raises(TurnNotFound):
            mine.get_turn("s", turn.id)
        with pytest.raises(SessionNotFound):
            vault.tenant("third").namespace("agent").sessions.get("s")


# Time


def test_a_session_is_there_until_its_time_is_over(sessions: Sessions, clock: Watch) -> None:
    made = sessions.create("agent", session_id="s", ttl_seconds=60)
    sessions.create("agent", session_id="stays")
    assert made.expires_at == START + 60 * SECOND
    clock.wait(59.999999 * SECOND)
    assert sessions.get("s").id == "s"
    sessions.update_state("s", {"a": 1})
    clock.wait(0.000001 * SECOND)
    with pytest.raises(SessionNotFound):
        sessions.get("s")
    acts = [
        lambda: sessions.update_state("s", {}),
        lambda: sessions.rollback("s", 0),
        lambda: sessions.fork("s"),
        lambda: sessions.add_turn("s", "i", "o"),
        lambda: sessions.update("s", ttl_seconds=5),
        lambda: sessions.history("s"),
        lambda: sessions.list_turns("s"),
    ]
    for act in acts:
        with pytest.raises(SessionNotFound):
            act()
    assert names(sessions.list()) == ["stays"]


def test_a_term_is_fixed_until_a_new_one_is_given(sessions: Sessions, clock: Watch) -> None:
    sessions.create("agent", session_id="s", ttl_seconds=60)
    clock.wait(30 * SECOND)
    for _ in range(3):
        sessions.add_turn("s", "i", "o", state_after={"at": str(clock.now)})
    assert sessions.update("s", metadata={"m": 1}).expires_at == START + 60 * SECOND
    renewed = sessions.update("s", ttl_seconds=MAX_TTL_SECONDS)
    assert renewed.expires_at == clock.now + timedelta(days=30)
    assert sessions.get("s").version == 1, "a term is no state"


def test_a_fork_has_a_term_of_its_own(sessions: Sessions, clock: Watch) -> None:
    sessions.create("agent", session_id="s", ttl_seconds=60)
    clock.wait(50 * SECOND)
    same = sessions.fork("s")
    own = sessions.fork("s", ttl_seconds=5)
    assert same.expires_at == clock.now + 60 * SECOND
    assert own.expires_at == clock.now + 5 * SECOND
    assert sessions.create("agent").expires_at is None
    clock.wait(20 * SECOND)
    assert sessions.get(same.id).metadata["forked_from"] == "s"
    with pytest.raises(SessionNotFound):
        sessions.get("s")

"""State, metadata and turns come back exactly as they were given, or are refused by place."""

import enum
import json
import math
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import holdfast
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.planes.overlays import settle
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.sessions.state import MAX_KEY_BYTES, SHORT_BYTES
from holdfast.errors import InvalidValue, QuotaExceeded, TooLarge, Unencodable
from holdfast.model.sessions import VersionKind

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path) as vault:
        yield vault.namespace("agent")


@pytest.fixture
def sessions(agent: holdfast.Namespace) -> Sessions:
    agent.sessions.create("agent", session_id="s", initial_state={"known": 1})
    return agent.sessions


def exact(value: Any) -> str:
    """Tells 1 from 1.0 and True, 0.0 from -0.0, and one order of keys from another."""
    return json.dumps(value)


EXACT = {
    "numbers": [0, -1, 2**53 + 1, 2**63, 2**64, -(2**64), 10**400 + 1, 10**4000],
    "floats": [0.0, -0.0, 1.0, 0.1, 5e-324, 1.7976931348623157e308, 1e16, 1e22, 123456789.125],
    "truth": [True, False, 1, 0, None],
    "text": [
        "",
        "\0",
        "\x1f",
        "\x7f",
        '"\\/',
        "\u2028",
        "é",
        "e\u0301",
        "🙂",
        "\U0010ffff",
        "\ufffe",
    ],
    "order": {"b": 1, "a": {"z": 1, "y": 2}, "": 3},
    "empty": [{}, [], "", [[]], [{}]],
    "deep": [[[[[[[[[[{"a": [[[[[1]]]]]}]]]]]]]]]],
    "long": "x" * 100_000,
    "": {"": ""},
    'k"\\\0é🙂': "a key like any other",
}


@pytest.mark.parametrize("key", EXACT)
def test_a_value_comes_back_as_it_was_given(sessions: Sessions, key: str) -> None:
    value = EXACT[key]
    for made in (
        sessions.create("agent", initial_state={key: value}),
        sessions.update_state("s", {key: value}),
        sessions.replace_state("s", {key: value}),
        sessions.get_state("s"),
        sessions.get("s"),
    ):
        assert exact(made.state[key]) == exact(value)
    metadata = sessions.update("s", metadata={key: value}).metadata
    assert exact(metadata) == exact({key: value})
    turn = sessions.add_turn("s", {"content": "i", key: value}, "o", metadata={key: value})
    [found] = sessions.list_turns("s")
    assert found == turn
    assert exact(found.input[key]) == exact(found.metadata[key]) == exact(value)
    assert sessions.add_turn("s", "i", "o", state_after={key: value}).version_after == 2


@pytest.mark.parametrize("size", [256, 1024, SHORT_BYTES, 16 * 1024, 300_000])
@pytest.mark.parametrize("off_by", [-12, -2, -1, 0, 1, 2])
def test_a_state_of_any_length_comes_back_and_is_changed_in_place(
    sessions: Sessions, size: int, off_by: int
) -> None:
    state = {"a": "x" * (size + off_by), "b": {"k": [1, 2.0]}}
    assert sessions.replace_state("s", state).state == state
    assert sessions.update_state("s", {"c": "y"}).state == {**state, "c": "y"}
    assert sessions.update_state("s", {"a": "short"}).state == {
        "a": "short",
        "b": state["b"],
        "c": "y",
    }
    assert sessions.get_state("s", version=1).state == state


def test_none_is_a_value_and_takes_nothing_away(sessions: Sessions) -> None:
    assert sessions.update_state("s", {"known": None}).state == {"known": None}
    assert sessions.update_state("s", {}).state == {"known": None}
    assert sessions.replace_state("s", {}).state == {}


def test_an_update_is_shallow(sessions: Sessions) -> None:
    sessions.update_state("s", {"nested": {"a": 1, "b": [1, 2]}})
    assert sessions.update_state("s", {"nested": {"c": 3}}).state["nested"] == {"c": 3}


@pytest.mark.parametrize("long", ["", "x" * 5000])
def test_what_the_caller_does_with_a_value_afterwards_changes_nothing(
    sessions: Sessions, long: str
) -> None:
    given = {"list": [1], "long": long}
    found = sessions.update_state("s", given)
    for state in (given, found.state, sessions.get("s").state, sessions.get_state("s").state):
        state["list"].append(2)
        state["more"] = 1
    assert sessions.get_state("s").state == {"known": 1, "list": [1], "long": long}
    assert sessions.history("s")[1].state == {"known": 1, "list": [1], "long": long}


def test_an_update_that_failed_is_stored_when_it_is_tried_again(tmp_path: Path) -> None:
    """Nothing of the first attempt may be taken for stored."""
    parts = {f"k{number}": f"{number}" * 700 for number in range(20)}
    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("agent")
        agent.sessions.create("agent", session_id="s", initial_state={"text": "y" * 5000})
        agent.set_quota(8_000)
        for _ in range(2):
            with pytest.raises(QuotaExceeded):
                agent.sessions.update_state("s", parts)
        assert agent.sessions.get("s").version == 0
        agent.set_quota(None)
        wanted = agent.sessions.update_state("s", parts).state
        assert vault.verify().faults == []
    with holdfast.open(tmp_path) as vault:
        found = vault.namespace("agent").sessions.get_state("s")
        assert (found.version, found.state) == (1, wanted)
        assert found.state == {"text": "y" * 5000, **parts}


def test_tuples_and_other_dicts_come_back_as_lists_and_dicts(sessions: Sessions) -> None:
    given = {"t": (1, ("a", [()])), "o": OrderedDict(b=1, a=2), "d": defaultdict(int, a=1)}
    assert sessions.replace_state("s", given).state == {
        "t": [1, ["a", [[]]]],
        "o": {"b": 1, "a": 2},
        "d": {"a": 1},
    }


class Colour(enum.Enum):
    RED = "red"


REFUSED: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "minus inf": -math.inf,
    "bytes": b"bytes",
    "set": {1},
    "time": datetime(2030, 1, 1, tzinfo=UTC),
    "decimal": Decimal("0.1"),
    "uuid": UUID(int=1),
    "enum": Colour.RED,
    "object": object(),
    "function": print,
    "half a character": "\ud800",
    "complex": 1j,
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_json_has_not_is_refused_with_its_place(sessions: Sessions, kind: str) -> None:
    bad = REFUSED[kind]
    acts: list[tuple[str, Callable[[Any], object]]] = [
        ("", lambda value: sessions.update_state("s", {"a": value})),
        ("", lambda value: sessions.replace_state("s", {"a": value})),
        ("", lambda value: sessions.create("agent", initial_state={"a": value})),
        ("", lambda value: sessions.add_turn("s", "i", "o", state_after={"a": value})),
        ("metadata", lambda value: sessions.update("s", metadata={"a": value})),
        ("metadata", lambda value: sessions.create("agent", metadata={"a": value})),
        ("input", lambda value: sessions.add_turn("s", {"a": value}, "o")),
        ("output", lambda value: sessions.add_turn("s", "i", {"a": value})),
    ]
    for of, act in acts:
        with pytest.raises(Unencodable) as caught:
            act([1, {"b": (bad,)}])
        assert f"{of}['a'][1]['b'][0]" in str(caught.value)
    assert sessions.get_state("s").version == 0
    assert sessions.get("s").turn_count == 0
    assert len(sessions.list()) == 1


@pytest.mark.parametrize("key", [1, None, True, 1.5, ("a",), "\ud800"])
def test_a_key_that_is_no_text_is_refused(sessions: Sessions, key: Any) -> None:
    kind = "half a character" if isinstance(key, str) else f"not '{type(key).__name__}'"
    with pytest.raises(Unencodable, match=f"key of a session's state .*{kind}"):
        sessions.update_state("s", {key: 1})
    with pytest.raises(Unencodable, match=r"\['a'\]\['b'\]"):
        sessions.update_state("s", {"a": {"b": {key: 1}}})


@pytest.mark.parametrize("state", [None, [], "text", 1, [("a", 1)]])
def test_a_state_is_an_object(sessions: Sessions, state: Any) -> None:
    for act in (sessions.update_state, sessions.replace_state):
        with pytest.raises(InvalidValue, match="state is an object"):
            act("s", state)


def test_a_place_deep_inside_is_named_at_once(sessions: Sessions) -> None:
    value: Any = math.nan
    for _ in range(60):
        value = [0, {"k": value}]
    start = time.monotonic()
    with pytest.raises(Unencodable):
        sessions.update_state("s", {"a": value})
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("depth", [2_000, 100_000])
def test_what_is_nested_too_deeply_is_refused(sessions: Sessions, depth: int) -> None:
    value: Any = []
    for _ in range(depth):
        value = [value]
    with pytest.raises(Unencodable, match=r"\['a'\]"):
        sessions.update_state("s", {"a": value})
    while value:  # Taken apart here: to let go of it at once is too deep as well.
        value = value.pop()


def test_what_contains_itself_is_refused(sessions: Sessions) -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Unencodable, match=r"\['a'\]"):
        sessions.update_state("s", {"a": value})


def test_a_key_may_be_long_but_not_endless(sessions: Sessions) -> None:
    longest = "é" * (MAX_KEY_BYTES // 2)
    assert sessions.update_state("s", {longest: 1}).state[longest] == 1
    with pytest.raises(InvalidValue, match="4095"):
        sessions.update_state("s", {longest + "é": 1})


def test_a_state_that_grows_beyond_all_bounds_is_refused(sessions: Sessions) -> None:
    part = "x" * (20 << 20)
    sessions.replace_state("s", {"0": part, "1": part, "2": part})
    with pytest.raises(TooLarge):
        sessions.update_state("s", {"3": part})
    with pytest.raises(TooLarge):
        sessions.replace_state("s", {str(n): part for n in range(4)})
    assert sessions.get("s").version == 1
    assert sessions.update_state("s", {"0": 0}).version == 2


def test_equal_states_have_equal_entries_whatever_the_way_there(tmp_path: Path) -> None:
    long = {"a": "x" * 5000, "b": list(range(1000)), "c": 1}
    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("agent")
        sessions = agent.sessions
        sessions.create("agent", session_id="s", initial_state=dict(reversed(long.items())))
        sessions.replace_state("s", {})
        for key in ("b", "c", "a"):
            sessions.update_state("s", {key: "something else", "more": 1})
            sessions.update_state("s", {key: long[key]})
        sessions.replace_state("s", long)
        sessions.update_state("s", {"c": 2})
        sessions.rollback("s", -1)
        sessions.update_state("s", {"c": 1})
        context = agent._handle.context
        with context.catalog.read() as transaction:
            head = agent._handle.get_head(transaction)
            rows = transaction.list_versions(head.namespace_id, "s", after=-1, most=100)
        entries = {
            row.number: settle(NamesOnly(), agent._handle.objects, row.state)
            for row in rows
            if sessions.get_state("s", version=row.number).state == long
        }
        assert len(entries) == 4
        assert len(set(entries.values())) == 1


# Turns


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("text", {"type": "text", "content": "text"}),
        ("", {"type": "text", "content": ""}),
        ({"content": "text"}, {"content": "text", "type": "text"}),
        (
            {"type": "image", "content": "a cat", "url": "x"},
            {"type": "image", "content": "a cat", "url": "x"},
        ),
        (
            {"type": "json", "content": {"a": 1}},
            {
                "type": "json",
                "content": '{"type":"json","content":{"a":1}}',
                "raw": {"type": "json", "content": {"a": 1}},
            },
        ),
        ([1, 2], {"raw": [1, 2], "type": "text", "content": "[1,2]"}),
    ],
)
def test_each_side_of_a_turn_has_a_type_and_a_content(
    sessions: Sessions, given: Any, kept: dict[str, Any]
) -> None:
    turn = sessions.add_turn("s", given, given)
    assert turn.input == turn.output == kept


def test_a_call_of_a_tool_is_a_turn(sessions: Sessions) -> None:
    turn = sessions.add_tool_call(
        "s", "search", arguments={"q": "x"}, output={"hits": [1]}, call_id="c1", reasoning="needed"
    )
    assert (turn.number, turn.reasoning, turn.version_after) == (1, "needed", 0)
    assert turn.input["type"] == "tool_call"
    about = {"name": "search", "arguments": {"q": "x"}, "id": "c1"}
    assert turn.input["tool_metadata"] == about
    assert turn.output["type"] == "tool_response"
    assert turn.output["output"] == {"hits": [1]}
    assert sessions.get_turn("s", turn.id) == turn


def test_of_a_turn_with_a_state_the_state_is_all_there_is(
    agent: holdfast.Namespace, sessions: Sessions
) -> None:
    theirs = agent.acting_as("ada").sessions
    turn = theirs.add_turn("s", "i", "o", state_after={"new": 1}, reasoning="why")
    newest = sessions.history("s")[-1]
    assert (newest.kind, newest.state) == (VersionKind.TURN, {"new": 1}), "not merged"
    assert (newest.reasoning, newest.actor, newest.turn_count) == ("why", "ada", 1)
    assert (turn.version_before, turn.version_after) == (0, 1)


@pytest.mark.parametrize("after", [{"known": 1.0}, {"known": True}, {"known": [1]}, {}])
def test_a_state_after_that_only_python_takes_for_the_same_is_another(
    sessions: Sessions, after: dict[str, Any]
) -> None:
    sessions.add_turn("s", "i", "o", state_after=after)
    assert exact(sessions.get_state("s", version=1).state) == exact(after)


def test_the_states_around_a_turn_are_shown_to_who_asks(sessions: Sessions) -> None:
    for number in range(3):
        sessions.add_turn("s", "i", "o", state_after={"v": number})
        sessions.add_turn("s", "i", "o")
    assert {turn.state_after is None for turn in sessions.list_turns("s")} == {True}
    found = sessions.list_turns("s", order="asc", include_state=True)
    assert [turn.state_before for turn in found[::2]] == [{"known": 1}, {"v": 0}, {"v": 1}]
    assert [turn.state_after for turn in found[::2]] == [{"v": 0}, {"v": 1}, {"v": 2}]
    assert all(turn.state_before == turn.state_after for turn in found[1::2])
    last = sessions.get_turn("s", found[-1].id, include_state=True)
    assert last.state_after == {"v": 2}

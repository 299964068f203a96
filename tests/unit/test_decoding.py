"""What is too much to be made of what is stored, where a vault has a bound for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import Limits
from holdfast.engine.core import decoding
from holdfast.engine.core.decoding import Scale
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.state import is_same
from holdfast.errors import TooLarge

pytestmark = pytest.mark.in_memory

MOST = 70_000
BOUNDED = Limits(decoded_values=MOST, decoded_bytes=1 << 20)
"""Up to 64 KiB an archive's values are decoded whatever they hold, so the bound is beyond."""

MANY, ENOUGH = [[7]] * (MOST // 2), [7] * (MOST - 19)


def fill(agent: Namespace, *, many: str, value: object = MANY) -> None:
    """Puts a value of too many parts into one place."""
    if many == "store":
        agent.store.set("n", "k", value)
    state = {"k": value if many == "state" else 1}
    session = agent.sessions.create("a", initial_state=state, session_id="s")
    agent.sessions.update_state(session.id, {"l": 2})
    said = {"content": "", "said": value if many == "turn" else 1}
    agent.sessions.add_turn(session.id, said, "", metadata={"m": value} if many == "about" else {})


@pytest.mark.parametrize("many", ["store", "state", "turn", "about"])
def test_an_archive_that_holds_too_many_values_at_one_place_is_refused_and_leaves_nothing(
    tmp_path: Path, many: str
) -> None:
    with holdfast.open(tmp_path / "one") as vault:
        fill(vault.namespace("a"), many=many)
        vault.namespace("a").export(tmp_path / "a.tar")
        fill(vault.namespace("b"), many=many, value=ENOUGH)
        vault.namespace("b").export(tmp_path / "b.tar")
    with holdfast.open(tmp_path / "two", limits=BOUNDED) as vault:
        with pytest.raises(TooLarge, match=str(MOST)):
            vault.namespace("a").import_(tmp_path / "a.tar")
        assert list(vault.namespaces()) == []
        assert vault.namespace("b").import_(tmp_path / "b.tar").verified
    with holdfast.open(tmp_path / "three") as vault:
        assert vault.namespace("a").import_(tmp_path / "a.tar").verified


def test_numbers_that_are_slow_to_convert_count_for_what_they_cost(tmp_path: Path) -> None:
    slow = [2.5e-320] * (2 * MOST // decoding.HARDER + 9_999)
    with holdfast.open(tmp_path / "one") as vault:
        fill(vault.namespace("a"), many="state", value=slow)
        vault.namespace("a").export(tmp_path / "a.tar")
    with (
        holdfast.open(tmp_path / "two", limits=BOUNDED) as vault,
        pytest.raises(TooLarge, match=str(MOST)),
    ):
        vault.namespace("a").import_(tmp_path / "a.tar")
    with (
        holdfast.open(tmp_path / "one", limits=BOUNDED) as vault,
        pytest.raises(TooLarge, match="export it"),
    ):
        vault.namespace("a").sessions.diff("s", 0, 1)


Reading = Callable[[Namespace], Any]
READINGS: dict[str, Reading] = {
    "a value": lambda agent: agent.store.get("n", "k"),
    "values": lambda agent: agent.store.get_many([("n", "k")]),
    "items": lambda agent: agent.store.items("n"),
    "all items": lambda agent: agent.store.items(),
    "a comparison": lambda agent: agent.sessions.diff("s", 0, 1),
}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("value", [MANY, "x" * (2 << 20)], ids=["many", "long"])
def test_what_is_too_much_is_refused_and_stays_as_it_is(
    tmp_path: Path, reading: str, value: object
) -> None:
    with holdfast.open(tmp_path) as vault:
        vault.namespace("a").store.set("n", "k", value)
        fill(vault.namespace("a"), many="state", value=value)
        told = READINGS[reading](vault.namespace("a"))
    with (
        holdfast.open(tmp_path, limits=BOUNDED) as vault,
        pytest.raises(TooLarge, match="export it"),
    ):
        READINGS[reading](vault.namespace("a"))
    with holdfast.open(tmp_path) as vault:
        assert READINGS[reading](vault.namespace("a")) == told


def parts(value: object) -> dict[str, bytes]:
    return {"k": msgspec.json.encode(value)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 1.0], [1.0, 1], False),
        ([True, 1], [1, True], False),
        ([1], [2], False),
        ([1], [1, 1], False),
    ],
)
def test_states_are_the_same_whatever_the_order_of_their_keys(
    one: object, other: object, *, same: bool
) -> None:
    assert is_same(Limits(), parts(one), parts(other)) is same
    assert is_same(Limits(), parts(one), {**parts(one), "l": b"1"}) is False


def test_states_that_are_too_much_to_be_made_are_compared_by_their_text_alone() -> None:
    assert is_same(BOUNDED, parts(MANY), parts(MANY))
    assert not is_same(BOUNDED, parts(MANY), parts([*MANY, 1]))
    with pytest.raises(TooLarge):
        is_same(BOUNDED, parts(MANY), parts([[8], *MANY[1:]]))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet='"\\,:[]{}a'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_values_are_counted_without_being_made(value: object) -> None:
    def nodes(value: object) -> int:
        if isinstance(value, dict):
            return 1 + len(value) + (sum(map(nodes, value.values())) or 1)
        return 1 + (sum(map(nodes, value)) or 1) if isinstance(value, list) else 1

    scale = Scale()
    scale.add(msgspec.json.encode(value))
    assert scale.values == nodes(value)


def test_where_texts_are_handed_out_states_and_turns_are_the_text_that_is_stored(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path, hands_texts=True) as vault:
        sessions = vault.namespace("a").sessions
        sessions.create("a", initial_state={"k": [1.0] * 999, "l": "é" * 999}, session_id="s")
        made = sessions.update_state("s", {"m": None})
        turn = sessions.add_turn("s", {"content": "x", "n": [1]}, "y", state_after={"o": MANY})
        shown = [
            made.state,
            sessions.get_state("s", version=1).state,
            sessions.history("s", since_version=0, limit=1)[0].state,
            sessions.get_turn("s", turn.id, include_state=True).state_before,
        ]
        assert len({msgspec.json.encode(each) for each in shown}) == 1
        assert msgspec.json.encode(shown[0]["m"] if shown[0] else 0) == b"null"
        assert (turn.input.content, turn.input["n"]) == ("x", msgspec.Raw(b"[1]"))
        assert msgspec.json.encode(sessions.get_context("s").state) == msgspec.json.encode(
            {"o": MANY}
        )
        assert sessions.diff("s", 0, 1).patch == [{"op": "add", "path": "/m", "value": None}]

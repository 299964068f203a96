"""Sessions in archives: they come in as they went out, and hostile ones not at all."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast import Limits
from holdfast.engine.archives.jsontext import check_json, walk
from holdfast.errors import QuotaExceeded, TooLarge, UnsafeArchive
from holdfast.testing.archives import Members, read_members, write_members

pytestmark = pytest.mark.in_memory

STATE = {
    "big number": 12345678901234567890123,
    "float": 0.1,
    "ümlaut\0": ["é", None, True, {"b": 1, "a": -0.0}],
    "long": [f"message {number}" for number in range(400)],
}
WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault


@pytest.fixture
def other(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "other") as vault:
        yield vault


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    """A namespace with sessions of every kind, and a file and a value beside them."""
    agent = vault.namespace("agent")
    agent.files.write("a.txt", "one", modified_at=WRITTEN)
    agent.store.set("plan", "step", 1)
    agent.sessions.create(
        "travel", session_id="a", user_id="u", metadata={"k": [1]}, initial_state=STATE
    )
    for number in range(130):
        agent.sessions.add_turn("a", f"question {number}", {"type": "x", "content": "y", "n": 1})
    agent.sessions.update_state("a", {"step": 2}, reasoning="because")
    agent.sessions.rollback("a", 0, conversation=True)
    agent.sessions.add_turn("a", "anew", "yes", metadata={"m": 1}, reasoning="hm")
    agent.sessions.create("travel", session_id="b", ttl_seconds=3600)
    agent.sessions.create("other", session_id="c", initial_state={"n": 1})
    agent.sessions.add_turn("c", "one", "1", state_after={"n": 2})
    agent.sessions.add_turn("c", "two", "2", state_after={"n": 3})
    return agent


def content(agent: holdfast.Namespace) -> object:
    found = []
    for session in sorted(agent.sessions.list(), key=lambda each: each.id):
        turns = agent.sessions.list_turns(session.id, limit=1000, order="asc")
        about = (session.id, session.agent_id, session.user_id, session.metadata, session.state)
        when = (session.created_at, session.expires_at)
        told = [(t.number, t.input, t.output, t.metadata, t.reasoning, t.created_at) for t in turns]
        found.append((about, when, told))
    return found


# There and back


def test_sessions_come_in_as_they_went_out(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    entries = agent.export(tmp_path / "a.tar")
    copy = other.namespace("copy")
    done = copy.import_(tmp_path / "a.tar")
    assert entries == 5
    assert done.verified
    assert copy.size() == done.snapshot.size == agent.size()
    assert content(copy) == content(agent)
    assert [version.number for version in copy.sessions.history("a")] == [0]
    assert copy.sessions.list_turns("c", include_state=True)[0].state_after is None
    assert other.verify().faults == []


def test_the_same_sessions_make_the_same_bytes_in_every_vault(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    copy = other.namespace("copy")
    copy.import_(tmp_path / "a.tar")
    copy.import_(tmp_path / "a.tar")
    copy.export(tmp_path / "b.tar")
    one, two = read_members(tmp_path / "a.tar"), read_members(tmp_path / "b.tar")
    assert one[1:] == two[1:]
    assert json.loads(one[0][1])["root"] == json.loads(two[0][1])["root"]


def test_an_archive_is_plain_json_for_other_tools(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    members = dict(read_members(tmp_path / "a.tar"))
    names = [name for name in members if name.startswith("sessions/")]
    assert names == [
        "sessions/0.json",
        "sessions/0.turns.jsonl",
        "sessions/1.json",
        "sessions/2.json",
        "sessions/2.turns.jsonl",
    ]
    session = json.loads(members["sessions/0.json"])
    assert (session["id"], session["agent_id"], session["turns"]) == ("a", "travel", 1)
    assert session["state"] == STATE
    (turn,) = map(json.loads, members["sessions/0.turns.jsonl"].splitlines())
    assert turn["input"] == {"type": "text", "content": "anew"}
    assert turn["reasoning"] == "hm"
    assert "namespace_id" not in turn


def test_a_snapshot_is_exported_with_the_conversation_that_it_shows(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    then = agent.snapshot()
    agent.sessions.add_turn("a", "later", "yes")
    agent.sessions.delete("c")
    agent.export(tmp_path / "a.tar", snapshot=then)
    copy = other.namespace("copy")
    copy.import_(tmp_path / "a.tar")
    assert [turn.input["content"] for turn in copy.sessions.list_turns("a")] == ["anew"]
    assert copy.sessions.get("c").state == {"n": 3}


def test_an_import_can_be_undone_and_done_again(
    agent: holdfast.Namespace, tmp_path: Path, vault: holdfast.Holdfast
) -> None:
    agent.export(tmp_path / "a.tar")
    before = content(agent)
    agent.sessions.update_state("c", {"n": 99})
    agent.sessions.delete("b")
    changed = content(agent)
    agent.import_(tmp_path / "a.tar")
    assert content(agent) == before
    agent.undo()
    assert content(agent) == changed
    agent.redo()
    assert content(agent) == before
    assert vault.verify().faults == []


def test_an_import_into_another_tenant_shares_nothing(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    copy = vault.tenant("else").namespace("copy")
    copy.import_(tmp_path / "a.tar")
    mine = {turn.id for turn in agent.sessions.list_turns("c")}
    theirs = {turn.id for turn in copy.sessions.list_turns("c")}
    assert mine.isdisjoint(theirs)
    copy.sessions.add_turn("c", "more", "3")
    assert len(agent.sessions.list_turns("c")) == 2
    assert vault.verify().faults == vault.tenant("else").verify().faults == []


def test_a_session_under_a_chosen_id_becomes_the_one_of_the_archive(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    copy = other.namespace("copy")
    copy.sessions.create("somebody else", session_id="a", initial_state={"mine": 1})
    copy.import_(tmp_path / "a.tar")
    assert copy.sessions.get("a").agent_id == "travel"
    assert [each.number for each in copy.sessions.history("a")] == [1], "what was is another's"
    assert other.verify().faults == []
    copy.undo()
    assert copy.sessions.get("a").agent_id == "somebody else"
    assert [each.state for each in copy.sessions.history("a")] == [{"mine": 1}] * 2


# Hostile ones


def replaced(name: str, change: Callable[[bytes], bytes]) -> Callable[[Members], Members]:
    return lambda members: [(n, change(data) if n == name else data) for n, data in members]


def without(name: str) -> Callable[[Members], Members]:
    return lambda members: [member for member in members if member[0] != name]


def swapped(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def swap(data: bytes) -> bytes:
        assert old in data
        return data.replace(old, new, 1)

    return swap


SESSION, TURNS = "sessions/2.json", "sessions/2.turns.jsonl"
ATTACKS: dict[str, Callable[[Members], Members]] = {
    "a turn is changed": replaced(TURNS, swapped(b'"two"', b'"too"')),
    "a turn is missing": replaced(TURNS, lambda data: data.splitlines(keepends=True)[0]),
    "a turn twice": replaced(TURNS, lambda data: data + data.splitlines(keepends=True)[1]),
    "no end of the last line": replaced(TURNS, lambda data: data[:-1]),
    "turns are swapped": replaced(
        TURNS, lambda data: b"".join(reversed(data.splitlines(keepends=True)))
    ),
    "the conversation is missing": without(TURNS),
    "a conversation of nobody": lambda members: [*members, ("sessions/3.turns.jsonl", b"{}\n")],
    "a session is missing": without("sessions/1.json"),
    "a session twice": lambda members: [*members, ("sessions/3.json", dict(members)[SESSION])],
    "the state is another": replaced(SESSION, swapped(b'"n":3', b'"n":4')),
    "the agent is another": replaced(SESSION, swapped(b'"other"', b'"admin"')),
    "no agent": replaced(SESSION, swapped(b'"other"', b'""')),
    "spaces": replaced(SESSION, swapped(b'"n":3', b'"n": 3')),
    "another text of a number": replaced(SESSION, swapped(b'"n":3', b'"n":3e0')),
    "a number of no size": replaced(SESSION, swapped(b'"n":3', b'"n":1e999')),
    "half a character": replaced(SESSION, swapped(b'"n":3', b'"n":"\\ud800"')),
    "a key twice": replaced(SESSION, swapped(b'"n":3', b'"n":3,"n":3')),
    "a state that is a list": replaced(SESSION, swapped(b'{"n":3}', b"[3]")),
    "metadata that is a list": replaced(SESSION, swapped(b'"metadata":{}', b'"metadata":[]')),
    "nesting without end": replaced(SESSION, swapped(b'"n":3', b'"n":' + b"[" * 99_999)),
    "a field too many": replaced(SESSION, swapped(b'"turns":2', b'"turns":2,"branch":"x"')),
    "an id that is a path": replaced(SESSION, swapped(b'"id":"c"', b'"id":"../c"')),
    "an empty id": replaced(SESSION, swapped(b'"id":"c"', b'"id":""')),
    "a negative time": replaced(SESSION, swapped(b'"created_us":', b'"created_us":-')),
    "a time beyond calendars": replaced(
        SESSION, swapped(b'"expires_us":null', b'"expires_us":%d' % 2**60)
    ),
    "more turns than there can be": replaced(SESSION, swapped(b'"turns":2', b'"turns":%d' % 2**62)),
    "somebody else's namespace": replaced(
        TURNS, swapped(b'"session_id"', b'"namespace_id":1,"session_id"')
    ),
    "a turn without content": replaced(TURNS, swapped(b'"content":"one"', b'"contents":"one"')),
    "a turn that is text": replaced(TURNS, swapped(b'{"type":"text","content":"one"}', b'"one"')),
    "an empty line": replaced(TURNS, lambda data: data + b"\n"),
    "not JSON at all": replaced(SESSION, lambda _: b"\xff\x00"),
    "nothing at all": replaced(SESSION, lambda _: b""),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_archive_is_refused_and_nothing_changes(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path, name: str
) -> None:
    agent.export(tmp_path / "a.tar")
    members = read_members(tmp_path / "a.tar")
    changed = ATTACKS[name](members)
    assert changed != members
    with pytest.raises(UnsafeArchive):
        other.namespace("copy").import_(write_members(tmp_path / "b.tar", changed))
    assert other.namespaces() in ([], ["copy"])
    assert other.namespace("copy").sessions.list() == []
    with other._context.catalog.read() as transaction:
        assert transaction.iter_branches(other._tenant.id) == []


def test_the_honest_archive_of_the_attacks_is_accepted(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    members = read_members(tmp_path / "a.tar")
    same = write_members(tmp_path / "b.tar", members, modified_s=int(WRITTEN.timestamp()))
    assert other.namespace("copy").import_(same).verified


def test_what_is_larger_than_the_limits_is_refused(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    for limits in (Limits(state_bytes=100), Limits(turn_bytes=50)):
        with holdfast.open(tmp_path / f"small-{limits.turn_bytes}", limits=limits) as small:
            with pytest.raises(TooLarge):
                small.namespace("copy").import_(tmp_path / "a.tar")
            assert small.namespaces() == []


def test_turns_count_against_the_quota_of_an_importing_tenant(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.sessions.add_turn("c", "x" * 50_000, "y")
    agent.export(tmp_path / "a.tar")
    other.set_quota(40_000)
    with pytest.raises(QuotaExceeded):
        other.namespace("copy").import_(tmp_path / "a.tar")
    assert other.namespace("copy").sessions.list() == []


GOOD = [
    b"null",
    b"-0.0",
    b'"a\\"b\\\\"',
    b"[]",
    b"{}",
    b'[[],{},[1,2.5,"x"],{"a":{"b":[true,false,null]}}]',
    b"123456789012345678901234567890",
]
BAD = [
    b"",
    b" 1",
    b"1 ",
    b"[1,]",
    b"[,1]",
    b'{"a":}',
    b'{"a"}',
    b'{"a":1,}',
    b"{1:2}",
    b"[1}",
    b"[",
    b"]",
    b'"',
    b'"\x01"',
    b"nul",
    b"NaN",
    b"01",
    b"1.",
    b"1e5",
    b'"\\u0041"',
    b'"\\ud800"',
    b'"\xff"',
    b"[1][2]",
    b"[" * 2000 + b"]" * 2000,
]


@pytest.mark.parametrize("check", [check_json, walk])
@pytest.mark.parametrize("text", GOOD)
def test_json_as_we_write_it_is_accepted(check: Callable[[bytes], None], text: bytes) -> None:
    check(text)


@pytest.mark.parametrize("check", [check_json, walk])
@pytest.mark.parametrize("text", BAD)
def test_json_that_we_do_not_write_is_refused(check: Callable[[bytes], None], text: bytes) -> None:
    with pytest.raises(UnsafeArchive):
        check(text)

"""The store, sessions and memories in a copy: JSON that people read, and that comes back."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.gitbackup.exporting import WITHHELD, export
from holdfast.engine.gitbackup.importing import import_history
from holdfast.engine.gitbackup.rules import Rules
from holdfast.errors import InvalidValue, UnsafeArchive
from holdfast.git.repository import FILE, Repository
from holdfast.model.basics import Plane
from holdfast.operations.gitbackups import PLANES
from holdfast.testing.gitcopies import make_repository
from holdfast.testing.tokens import TOKENS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

ALL = Rules(patterns=(), finds_tokens=False, planes=PLANES)
USUAL = Rules(planes=PLANES)
HEAD = "refs/heads/main"

VALUES = {
    ("users", "alice"): {"name": "Alice", "b": 1, "a": [1.5, None, True, "ü\n\u2028"]},
    ("users", "Alice"): "another: case counts",
    ("a/b", "../../.git/config"): ["hostile"],
    ("", "\0\n-option"): 2**63 - 1,
    ("bytes", "x"): b"\x00\xff",
    ("times", "x"): {"at": datetime(2026, 1, 2, tzinfo=UTC)},
    ("keys", "numbers"): {1: "one", 2: "two"},
    ("long", "k" * 3000): "x" * 300_000,
    ("deep", "x"): [[[[[[[[[[[[[[[[[[[[["at the bottom"]]]]]]]]]]]]]]]]]]]]],
    ("wide", "x"): [[n % 10] * 3 for n in range(20_000)],
}


@pytest.fixture
def agent(place_in_memory: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(place_in_memory / "vault") as vault:
        yield vault.namespace("agent")


@pytest.fixture
def copy(place_in_memory: Path) -> Repository:
    return make_repository(place_in_memory, "copy.git")


def bring(agent: holdfast.Namespace, copy: Repository, rules: Rules = ALL):
    return export(agent._handle, copy, branch="main", rules=rules)


def texts_of(copy: Repository, commit: str = HEAD) -> dict[str, str]:
    names = copy.run("ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")[:-1]
    return {
        name: copy.read(commit, name.encode(), most_bytes=1 << 30).decode()
        for name in names
        if name.startswith(".holdfast/")
    }


def root_of(agent: holdfast.Namespace, snapshot):
    return agent._handle.objects.get_root(snapshot.root)


def play(agent: holdfast.Namespace) -> str:
    """Some of all that can happen; returns the id of a session."""
    agent.files.write("a.txt", "1")
    for (namespace, key), value in VALUES.items():
        agent.store.set(namespace, key, value)
    session = agent.sessions.create("bot", initial_state={"step": 1}, session_id="Talk.1").id
    for number in range(3):
        agent.sessions.add_turn(session, f"question {number}", f"answer {number}")
    agent.memory.add("likes tea", tags=["drink"], metadata={"sure": 0.9}, user_id="u")
    first = agent.snapshot("first")
    agent.store.set("users", "alice", "gone soon")
    agent.sessions.replace_state(session, {"step": 2, "list": [1, {"x": "y"}]})
    agent.sessions.add_turn(session, "question 3", {"type": "tool", "content": "4", "more": 1})
    agent.snapshot("second")
    agent.restore(first)
    agent.sessions.add_turn(session, "another question", "another answer")
    agent.store.delete("users", "alice")
    agent.memory.add("x" * 5000)
    agent.snapshot("third")
    return session


def test_all_of_it_comes_back_with_its_timeline(agent, copy, place_in_memory):
    session = play(agent)
    bring(agent, copy)
    with holdfast.open(place_in_memory / "other") as vault:
        back = vault.namespace("back")
        import_history(back._handle, copy, HEAD, origin="test")
        pairs = list(zip(agent.timeline(), back.timeline(), strict=True))
        for ours, theirs in pairs:
            # Equal roots are equal contents, to the last bit; git holds no times of files.
            for plane in (Plane.STORE, Plane.MEMORIES):
                assert root_of(agent, ours).plane(plane) == root_of(back, theirs).plane(plane)
            here, there = (each.sessions for each in (agent.at(ours), back.at(theirs)))
            if not here.list():
                assert not there.list()
                continue
            assert here.get_state(session).state == there.get_state(session).state
            said = [
                [(turn.input, turn.output, turn.created_at) for turn in each.list_turns(session)]
                for each in (here, there)
            ]
            assert said[0] == said[1]
        assert [each.memory.content for each in back.memory.search("tea")] == ["likes tea"]
        back.undo()
        back.sessions.add_turn(session, "and", "on")
        assert vault.verify().faults == []
        assert vault.verify_audit().ok
        # What came back makes the same files.
        again = make_repository(place_in_memory, "again.git")
        bring(back, again)
        tip = back.timeline()[0]
        commits = {each.message.split('"')[1]: each.id for each in again.commits(HEAD, most=100)}
        assert texts_of(again, commits[pairs[0][1].id]) == texts_of(copy)
        assert tip.id in commits


def test_files_are_called_as_what_they_are_of_and_read_well(agent, copy):
    play(agent)
    bring(agent, copy)
    found = texts_of(copy)
    (turn,) = [name for name in found if name.endswith("/turns/00000004.json")]
    assert turn.startswith(".holdfast/sessions/talk-1+")
    assert json.loads(found[turn])["input"]["content"] == "another question"
    second = texts_of(copy, f"{HEAD}~2")
    assert second[".holdfast/store/users/alice.json"] == (
        '{\n  "namespace": "users",\n  "key": "alice",\n  "value": "gone soon"\n}\n'
    )
    assert all(len(part) <= 120 for name in found for part in name.split("/"))
    lowered = [name.lower() for name in found]
    assert len({*lowered}) == len(lowered)
    assert copy.check() == ""


def test_only_what_changed_is_written(agent, copy):
    for number in range(300):
        agent.store.set("many", f"key-{number}", number)
    session = agent.sessions.create("bot").id
    for number in range(50):
        agent.sessions.add_turn(session, str(number), "x")
    agent.snapshot()
    bring(agent, copy)
    agent.store.set("many", "key-7", "seven")
    agent.sessions.add_turn(session, "one more", "x")
    agent.snapshot()
    bring(agent, copy)
    # Two values, a turn, the session; the folders above them; and the commit.
    changed = copy.run("diff-tree", "-r", "--name-only", f"{HEAD}~1", HEAD).split()
    assert len(changed) == 3
    loose = int(copy.run("count-objects").split()[0])
    assert loose == 3 + 7 + 1


def test_step_by_step_and_all_at_once_the_commits_are_the_same(agent, copy, place_in_memory):
    agent.store.set("a", "b", 1)
    agent.snapshot()
    bring(agent, copy)
    play(agent)
    one = bring(agent, copy)
    assert one.tip == bring(agent, make_repository(place_in_memory, "again.git")).tip


def test_what_looks_like_a_secret_stays_here(agent, copy):
    key, name = TOKENS[0], ".env"
    agent.store.set("x", name, "by its name")
    agent.store.set("x", key, "a name can be one")
    agent.store.set("x", "text", f"first line\n{key}")
    agent.store.set("x", "bytes", b"\x01" + key.encode())
    agent.store.set(
        "x", "deep", {"aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
    )
    agent.store.set("x", "fine", "nothing")
    agent.snapshot()
    done = bring(agent, copy, USUAL)
    found = texts_of(copy)
    assert found.keys() == {".holdfast/store/x/fine.json", WITHHELD.decode()}
    listed = json.loads(found[WITHHELD.decode()])
    assert done.withheld == len(listed) == 5
    assert listed["/.holdfast/store/x/text.json"] == "secret"
    assert "pattern" in listed.values()
    assert key.lower() not in "".join(found.values()).lower()
    agent.store.delete("x", key)
    agent.store.set("x", "text", "nothing more")
    agent.snapshot()
    assert bring(agent, copy, USUAL).withheld == 3
    assert ".holdfast/store/x/text.json" in texts_of(copy)


def test_who_does_not_want_it_has_files_alone_and_the_same_commits_as_ever(agent, copy):
    play(agent)
    bring(agent, copy, Rules(patterns=(), finds_tokens=False))
    assert texts_of(copy) == {}
    assert Rules().digest == "1085f9ebb30e446b"


def test_planes_are_some_of_three(agent):
    for wrong in (["files"], ["nonsense"]):
        with pytest.raises(InvalidValue):
            agent.git.configure("ssh://git@host.example/x", planes=wrong)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("store/x/y.json", "no JSON"),
        ("store/x/y.json", '{"namespace": "x", "key": "other", "value": 1}'),
        ("store/x/y.json", '{"namespace": "x", "key": "y"}'),
        ("store/x/y.json", '{"namespace": "x", "key": "y", "value": 1, "packed": "AQ=="}'),
        ("store/x/y.json", '{"namespace": "x", "key": "y", "packed": "wQ=="}'),
        ("sessions/s/session.json", '{"id": "s"}'),
        ("sessions/s/turns/00000001.json", "{}"),
        ("memories/m.json", '{"id": "m"}'),
    ],
)
def test_what_we_would_not_have_written_is_refused_and_leaves_nothing(agent, copy, path, text):
    said = {"Format": 1, "Snapshot": "s", "Number": 1, "Kind": "snapshot", "Root": "00"}
    said["Planes"] = ["store", "sessions", "memories"]
    message = "x\n\n" + "".join(f"Holdfast-{k}: {json.dumps(v)}\n" for k, v in said.items())
    with copy.writing("main") as writer:
        writer.begin(message, author="x", seconds=1)
        writer.put(f".holdfast/{path}".encode(), FILE, len(text), [text.encode()])
    with pytest.raises(UnsafeArchive):
        import_history(agent._handle, copy, HEAD, origin="test")
    assert not agent.status().exists


def test_a_folder_of_somebody_elses_means_nothing(agent, copy):
    with copy.writing("main") as writer:
        writer.begin("theirs", author="x", seconds=1)
        writer.put(b".holdfast/store/x/y.json", FILE, 3, [b"any"])
        writer.put(b"a", FILE, 1, [b"1"])
    import_history(agent._handle, copy, HEAD, origin="test")
    assert agent.store.count() == 0
    assert [each.path for each in agent.files.list()] == ["a"]

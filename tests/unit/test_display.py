"""What people see at a prompt and in a notebook: short, true, and harmless."""

import inspect
import pydoc
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    Client,
    Event,
    Holdfast,
    Kind,
    Name,
    Namespace,
    Size,
    SnapshotInfo,
    Timeline,
)
from holdfast.display import LINE_CHARS, LONGEST, MOST_ROWS
from holdfast.ids import NamespaceId, ObjectId, SnapshotId

MARKUP = "<script>alert('x')</script>"


def a_snapshot(number: int = 1, label: str | None = None) -> SnapshotInfo:
    return SnapshotInfo(
        id=SnapshotId(f"snap-{number:016}"),
        namespace_id=NamespaceId(1),
        number=number,
        kind=Kind.SNAPSHOT,
        root=ObjectId(b"\0" * 32),
        parent=None,
        created_at=datetime(2026, 1, 2, tzinfo=UTC) + timedelta(minutes=number),
        size=Size(2, 10),
        label=label,
    )


@pytest.fixture
def vault(tmp_path: Path) -> Holdfast:
    return holdfast.open(tmp_path / "vault")


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    return vault.namespace("alice")


def test_a_snapshot_is_a_line_that_says_which_it_is() -> None:
    shown = repr(a_snapshot(7, "before the risky step"))
    assert "snap-0000000000000007" in shown
    assert "'before the risky step'" in shown
    assert "2026-01-02" in shown
    assert "2 entries, 10 bytes" in shown
    assert "\\x00" not in shown
    assert len(repr(a_snapshot(7, "x" * 1000))) < 150 + LONGEST


def test_what_is_known_of_a_session_is_a_line_however_much_it_holds(agent: Namespace) -> None:
    session = agent.sessions.create("a", initial_state={"big": "x" * 100_000})
    state = agent.sessions.update_state(session.id, {"more": "y" * 100_000})
    turn = agent.sessions.add_turn(session.id, "z" * 100_000, ["o"] * 100_000)
    history = agent.sessions.history(session.id)
    shown = {
        "State": [state, agent.sessions.get_state(session.id)],
        "Turn": [turn, *agent.sessions.list_turns(session.id)],
        "Version": history,
        "StateDiff": [agent.sessions.diff(session.id, 0, 1)],
        "SessionContext": [agent.sessions.get_context(session.id)],
    }
    for name, values in shown.items():
        for value in values:
            assert repr(value).startswith(f"<{name} ")
            assert len(repr(value)) < 300
    assert f"{session.id} version 1," in repr(state)
    assert repr(history[1]).startswith("<Version 1 updated, 0 turns, ")
    assert "version 0 to 1, 1 change:" in repr(shown["StateDiff"][0])


def test_what_is_listed_is_a_line_each_whatever_it_holds(
    vault: Holdfast, agent: Namespace, tmp_path: Path
) -> None:
    long = "\n" + "x" * 2000
    vault.events.listen()
    agent.memory.add(f"likes tea {long}", metadata={"a": long})
    with agent.task("t" * 120) as task:
        agent.store.set("x" * 2000, "k", long)
    agent.traces.add("a" * 128, details={"a": long})
    agent.export(tmp_path / "a.tar")
    copy = vault.namespace("y" * 128)
    vault.keys.create("k" * 128, namespace="n" * 128)
    event = Event(
        id="e", event_id="evt-1", type="snapshot.created", api_version="1", workspace_id="ws-1",
        namespace="x" * 128, created_at=datetime(2026, 1, 2, tzinfo=UTC), data={"a": long},
    )  # fmt: skip
    shown = {
        "Memory": agent.memory.list()[0],
        "MemoryMatch": agent.memory.search("tea", threshold=0)[0],
        "Task": task,
        "TaskRun": agent.tasks.list()[0],
        "TraceInfo": agent.traces.list()[0],
        "History": agent.history(Name.value("x" * 2000, "k")),
        "Imported": copy.import_(tmp_path / "a.tar"),
        "Event": event,
        "Certificate": vault.erasures.user("u" * 128),
        "FileInfo": agent.files.write("d/" + "\x1b" * 200, b"1"),
        "Standing": agent.status(),
        "Totals": agent.totals(),
        "Key": vault.keys.list()[0],
    }
    for name, value in shown.items():
        assert repr(value).startswith(f"<{name} ")
        assert repr(value).endswith(">")
        assert len(repr(value)) <= LINE_CHARS
        assert repr(value).isprintable()


def test_a_line_says_what_one_looks_for_first(vault: Holdfast, agent: Namespace) -> None:
    noted = agent.files.write("notes.md", b"12", modified_at=datetime(2026, 1, 2, tzinfo=UTC))
    assert repr(noted) == "<FileInfo 'notes.md' file 0644 2 bytes 2026-01-02 00:00:00Z>"
    assert repr(vault.namespace("b").status()) == "<Standing 'b' nothing yet (0 entries, 0 bytes)>"
    taken = agent.snapshot()
    assert repr(agent.status()) == f"<Standing 'alice' {taken.id} (1 entry, 2 bytes)>"
    assert repr(agent.totals()).startswith("<Totals 0 sessions, 0 turns, 0 memories, 0 entities, ")
    key = vault.keys.create("bot", namespace="alice")
    assert repr(vault.keys.list()[0]) == f"<Key {key.id} 'bot' runtime for 'alice'>"


def test_snapshots_can_be_put_into_sets() -> None:
    assert len({a_snapshot(1), a_snapshot(1), a_snapshot(2)}) == 2


def test_a_timeline_is_a_list_and_a_table(agent: Namespace) -> None:
    agent.files.write("x", b"1")
    agent.snapshot(MARKUP, metadata={"run": "7", "by": MARKUP})
    timeline = agent.timeline()
    assert isinstance(timeline, list)
    assert timeline == [agent.get_snapshot("latest")]
    html = timeline._repr_html_()
    assert timeline[0].id in html
    assert "<td>run=7 by=&lt;" in html
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert timeline[0]._repr_html_() == html


def test_a_long_timeline_says_how_much_more_there_is() -> None:
    html = Timeline(a_snapshot(n) for n in range(MOST_ROWS + 5))._repr_html_()
    assert html.count("<tr>") == MOST_ROWS + 1
    assert "and 5 more" in html


def test_changes_and_restores_are_counted_in_words(agent: Namespace) -> None:
    for name in ("a", "b", "c", "d"):
        agent.files.write(name, b"1")
    before = agent.snapshot("one")
    agent.files.delete("a")
    agent.files.write("b", b"22")
    agent.files.write(MARKUP, b"3")
    changes = agent.diff(before)
    assert changes.summary() == "1 added, 1 removed, 1 changed"
    assert "- a" in repr(changes)
    assert "<script" not in changes._repr_html_()
    restored = agent.restore(before)
    assert f"{before.id}: 1 added, 1 removed, 1 changed, verified" in repr(restored)
    assert str(restored.safety_id) in repr(restored)
    assert restored._repr_html_() == restored.changes._repr_html_()
    assert "nothing" in repr(agent.diff(before))
    assert "verified" not in repr(agent.restore(before, dry_run=True))


def test_a_name_that_is_no_utf_8_can_be_shown(agent: Namespace) -> None:
    agent.files.write(b"\xe9t\xe9", b"1")
    agent.diff()._repr_html_().encode()


def test_groups_and_vaults_say_whose_they_are(vault: Holdfast, agent: Namespace) -> None:
    for group in (agent.files, agent.store, agent.sessions, agent.memory, agent.tasks):
        assert repr(group) == f"<{type(group).__name__} of 'alice'>"
    assert "'tidy up'" in repr(agent.task("tidy up"))
    assert "vault'" in repr(vault)
    agent.files.write("x", b"1")
    snapshot = agent.snapshot()
    assert repr(agent.at(snapshot)) == f"<Moment of 'alice' at {snapshot.id}>"


def test_groups_of_a_client_say_where_they_are_and_no_key() -> None:
    with Client("hf-secret", namespace="alice", url="http://127.0.0.1:1") as client:
        assert repr(client.files) == "<Files of 'alice' at http://127.0.0.1:1>"
        assert "secret" not in repr(client) + repr(client.snapshots)


def test_a_session_shows_its_state_in_short(agent: Namespace) -> None:
    session = agent.sessions.create("writer", initial_state={"text": "x" * 1000})
    assert repr(session).startswith(
        f"<SessionInfo {session.id} 'writer' version 0, 0 turns, {{'text'"
    )
    assert len(repr(session)) < 200


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_help_shows_what_a_client_takes_and_returns(kind: type[Client | AsyncClient]) -> None:
    text = pydoc.plain(pydoc.render_doc(kind.snapshot))
    assert "snapshot(self, label: str | None = None, *, reason: str | None = None" in text
    assert "Captures everything as it is now" in text
    assert inspect.signature(kind.snapshot).return_annotation is SnapshotInfo
    assert inspect.signature(kind.timeline).return_annotation is Timeline
    for method in (kind.snapshot, kind.timeline, kind.exec):
        assert inspect.iscoroutinefunction(method) is (kind is AsyncClient)
    assert ("async snapshot(" in text) is (kind is AsyncClient)

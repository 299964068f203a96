"""A file of up to 16 KiB lies in its row until a snapshot: who notices that, and where it ends."""

import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.engine.directory.likeness import find_likeness
from holdfast.engine.objects.content import INLINE_BYTES, PENDING_BYTES
from holdfast.engine.pending.inrow import IN_ROWS_BYTES
from holdfast.entries import Inline, decode_entry
from holdfast.errors import NotAsExpected, OthersChanged, QuotaExceeded
from holdfast.model.basics import Plane
from holdfast.tree import iterate

LONG = "what an agent writes\n" * 100


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def counted(folder: Path) -> int:
    """Returns how many objects there are."""
    with closing(sqlite3.connect(folder / "vault" / "catalog.sqlite")) as connection:
        return connection.execute("SELECT COUNT(*) FROM objects").fetchone()[0]


def in_rows(folder: Path) -> set[str]:
    """Returns the paths of files whose content lies in a row, and no map would hold."""
    query = "SELECT key, entry FROM pending WHERE plane = 'files' AND entry IS NOT NULL"
    with closing(sqlite3.connect(folder / "vault" / "catalog.sqlite")) as connection:
        found = [(key.decode(), decode_entry(entry)) for key, entry in connection.execute(query)]
    return {key for key, entry in found if isinstance(entry, Inline) and entry.size > INLINE_BYTES}


def in_map(agent: holdfast.Namespace) -> list[bytes]:
    """Returns the paths at which the newest snapshot holds what no map may hold."""
    objects = agent._handle.objects
    files = objects.get_root(agent.timeline()[0].root).plane(Plane.FILES)
    entries = ((key, decode_entry(data)) for key, data in iterate(objects, files))
    return [
        key for key, entry in entries if isinstance(entry, Inline) and entry.size > INLINE_BYTES
    ]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("size", [INLINE_BYTES + 1, PENDING_BYTES])
def test_a_write_makes_no_objects_and_the_next_snapshot_does(
    agent: holdfast.Namespace, tmp_path: Path, size: int, *, is_stream: bool
) -> None:
    for body in (bytes(size), b"x" * size):
        agent.files.write("notes", io.BytesIO(body) if is_stream else body)
    assert counted(tmp_path) == 0
    assert in_rows(tmp_path) == {"notes"}
    pending = agent.files.stat("notes")
    taken = agent.snapshot()
    assert counted(tmp_path) > 0
    assert agent.files.stat("notes") == pending
    assert agent.at(taken).files.read("notes") == b"x" * size


def test_what_is_larger_is_cut_at_once(agent: holdfast.Namespace, tmp_path: Path) -> None:
    agent.files.write("large", bytes(PENDING_BYTES + 1))
    assert in_rows(tmp_path) == set()
    assert counted(tmp_path) == 1


def test_rows_have_room_for_so_much_of_one_call(agent: holdfast.Namespace, tmp_path: Path) -> None:
    agent.files.write_many([(f"a/{number}", bytes(10_000)) for number in range(20)])
    assert len(in_rows(tmp_path)) == 20
    agent.files.write_many([(f"b/{number}", bytes(10_000)) for number in range(30)])
    assert len(in_rows(tmp_path)) == 20
    assert counted(tmp_path) == 1


def test_where_very_much_is_pending_files_are_cut_at_once(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.files.write("before", bytes(PENDING_BYTES))
    keys = IN_ROWS_BYTES // PENDING_BYTES
    agent.store.set_many([("n", f"{number}", number) for number in range(keys)])
    agent.files.write("behind", bytes(PENDING_BYTES))
    agent.files.write_many([("several", bytes(PENDING_BYTES)), ("short", bytes(4000))])
    assert in_rows(tmp_path) == {"before", "short"}
    assert {agent.files.read(path) for path in ("before", "behind", "several")} == {
        bytes(PENDING_BYTES)
    }


def test_files_that_are_moved_or_get_another_mode_stay_in_their_rows(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.files.write("d/notes", LONG)
    agent.files.move("d", "e")
    agent.files.chmod("e/notes", 0o600)
    assert in_rows(tmp_path) == {"e/notes"}
    assert counted(tmp_path) == 0
    agent.snapshot()
    assert agent.files.read_text("e/notes") == LONG
    assert agent.files.stat("e/notes").mode == 0o600


def test_in_tasks_all_that_is_changed_is_cut_at_once(
    vault: holdfast.Holdfast, agent: holdfast.Namespace, tmp_path: Path
) -> None:
    others = vault.namespace("alice")
    with agent.task("all of it") as task:
        for path in ("notes", "others", "third"):
            others.files.write(path, f"{LONG} {path}")
        assert len(in_rows(tmp_path)) == 3
        agent.files.move("notes", "moved")
        agent.files.chmod("others", 0o600)
        agent.files.write("third", LONG)
        agent.files.write_many([("fourth", LONG)])
        assert in_rows(tmp_path) == set()
    agent.undo(task=task.id)
    assert agent.files.read_text("notes") == f"{LONG} notes"
    assert agent.files.stat("others").mode == 0o644
    assert agent.files.read_text("third") == f"{LONG} third"
    assert not agent.files.exists("moved")
    assert not agent.files.exists("fourth")
    assert not in_map(agent)


def test_what_others_wrote_into_a_row_is_not_taken_back_with_a_task(
    agent: holdfast.Namespace,
) -> None:
    with agent.task("first") as first:
        agent.files.write("notes", LONG)
    agent.files.write("notes", LONG + "by others")
    with pytest.raises(OthersChanged):
        agent.undo(task=first.id)
    assert agent.files.read_text("notes") == LONG + "by others"


def test_what_is_expected_is_found_wherever_it_lies(agent: holdfast.Namespace) -> None:
    noise = Random(7).randbytes(9000)  # As a value it would be several chunks.
    tag = agent.files.write("notes", noise).tag
    assert tag is not None
    agent.snapshot()
    assert agent.files.stat("notes").tag == tag
    agent.files.write("notes", LONG * 5, expected=tag)
    with pytest.raises(NotAsExpected):
        agent.files.write("notes", LONG, expected=tag)
    agent.files.write("notes", noise)
    agent.files.write("notes", "", expected=tag)


def test_what_is_pending_counts_as_it_is_until_a_snapshot(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    agent.files.write("first", bytes(10_000))
    vault.set_quota(25_000)
    agent.files.write("second", bytes(10_000))
    with pytest.raises(QuotaExceeded):
        agent.files.write("third", bytes(10_000))
    agent.snapshot()
    agent.files.write("third", bytes(10_000))
    assert agent.size().bytes == 30_000


def test_a_directory_is_known_by_files_that_lie_in_rows(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for number in range(4):
        agent.files.write(f"{number}.txt", f"{LONG} {number}")
        (folder / f"{number}.txt").write_text(f"{LONG} {number}")
    found = find_likeness(agent._handle, folder)
    assert found is not None
    assert (found.equal, found.differing) == (4, 0)
    assert found.is_strong


@pytest.mark.parametrize("is_collected", [False, True])
def test_a_directory_takes_in_what_lies_in_rows_and_the_vault_has_it_from_then_on(
    vault: holdfast.Holdfast, tmp_path: Path, *, is_collected: bool
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    workspace, agent = vault.workspace(folder, namespace="project"), vault.namespace("project")
    workspace.snapshot()
    agent.files.write("theirs", LONG)
    agent.files.write("both", LONG + "as well")
    workspace.agree()
    assert (folder / "theirs").read_text() == LONG
    (folder / "both").write_text(LONG + "here")
    if is_collected:  # Nothing counts as agreed on then: what is in the directory stays.
        vault.collect(now=True)
    assert {change.name for change in workspace.diff()} == {"theirs", "both"}
    agent.files.write("theirs", LONG + "again")
    workspace.snapshot()
    assert (folder / "theirs").read_text() == (LONG if is_collected else LONG + "again")
    assert agent.files.read_text("both") == LONG + "here"
    taken = [agent.at(each).files for each in agent.timeline()]
    there = {files.read_text("theirs") for files in taken if files.exists("theirs")}
    assert LONG + "again" in there
    assert vault.verify().ok


def test_a_snapshot_holds_the_same_wherever_files_were_before(vault: holdfast.Holdfast) -> None:
    sizes = [200, 256, 257, 4096, 5000, 16_384, 16_385]
    items = [(f"{size:06}", b"x" * size) for size in sizes]
    one, other = vault.namespace("one"), vault.namespace("other")
    at = one.files.write("first", "").modified_at
    for path, body in items:
        one.files.write(path, body, modified_at=at)
    with other.task("cut at once"):
        other.files.write("first", "", modified_at=at)
        for path, body in items:
            other.files.write(path, body, modified_at=at)
    assert one.snapshot().root == other.snapshot().root
    assert not in_map(one)

"""A namespace and its directory agree: in process, over HTTP, and as commands tell it."""

import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.views import agreed_view
from holdfast.cli.words import agreed_lines
from holdfast.engine.core.limits import Limits
from holdfast.engine.directory import move
from holdfast.engine.directory.writer import Follower
from holdfast.errors import Busy, NamespaceExists, PathExists, TooLarge, Unavailable
from holdfast.testing.servers import Begin, running_server


class Place:
    """A directory with two files, attached; and its namespace."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.tree.mkdir()
        self.vault = holdfast.open(folder / "vault", limits=limits or Limits())
        self.namespace = self.vault.namespace("ns")
        self.workspace = self.vault.workspace(self.tree, namespace="ns")
        (self.tree / "a.txt").write_text("a")
        (self.tree / "b.txt").write_text("b")
        self.first = self.workspace.snapshot("first")

    def names(self) -> set[str]:
        return {str(p.relative_to(self.tree)) for p in self.tree.rglob("*") if p.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Generator[Place]:
    made = Place(tmp_path)
    with made.vault:
        yield made


def test_what_is_written_through_the_namespace_is_there_when_somebody_looks(place: Place) -> None:
    place.namespace.files.write("new/c.sh", "echo", mode=0o755)
    place.namespace.files.delete("b.txt")
    status = place.workspace.status()
    assert [change.name for change in status.changes] == ["b.txt", "new/c.sh"]
    assert status.agreed is not None
    assert len(status.agreed.brought) == 2
    assert place.names() == {"a.txt", "new/c.sh"}
    assert os.stat(place.tree / "new/c.sh").st_mode & 0o777 == 0o755
    # What is pending stays pending: looking takes no snapshot.
    assert place.namespace.is_dirty()
    assert len(place.namespace.timeline()) == 1
    assert place.workspace.agree() is None
    taken = place.workspace.snapshot("second")
    assert [file.path for file in place.namespace.at(taken).files.list("new")] == ["new/c.sh"]


def test_a_fork_whose_name_is_taken_leaves_no_snapshot(place: Place) -> None:
    place.vault.namespace("taken").files.write("x", "x")
    (place.tree / "a.txt").write_text("in no snapshot")
    attended = place.vault.attended("ns")
    assert attended is not None
    agent = attended.through(place.namespace)
    with pytest.raises(NamespaceExists):
        agent.fork("taken")
    assert len(place.namespace.timeline()) == 1
    assert agent.fork("free").files.read_text("a.txt") == "in no snapshot"


def test_more_than_is_listed_is_counted(place: Place) -> None:
    place.namespace.files.write_many([(f"many/{number:04}", "x") for number in range(1_203)])
    told = list[holdfast.Agreed]()
    place.workspace.on_agreement = told.append
    place.workspace.status()
    (agreed,) = told
    assert agreed_view(agreed)["brought_count"] == 1_203
    (line,) = agreed_lines(agreed)
    assert "took in 1,203 changes" in line
    assert line.endswith("many/0004 and 1,198 more")


def test_whatever_moves_the_namespace_moves_the_directory(place: Place) -> None:
    (place.tree / "a.txt").write_text("A")
    place.workspace.snapshot("second")
    place.namespace.restore(place.first)
    assert place.workspace.agree() is not None
    assert (place.tree / "a.txt").read_text() == "a"
    place.namespace.undo()
    place.workspace.status()
    assert (place.tree / "a.txt").read_text() == "A"


def test_of_two_versions_the_directorys_stays_and_the_other_is_named(place: Place) -> None:
    place.namespace.files.write("a.txt", "by a call")
    (place.tree / "a.txt").write_text("by hand")
    agreed = place.workspace.agree()
    assert agreed is not None
    assert agreed.gave_way == ["a.txt"]
    # Until a snapshot is taken, each side has its own.
    assert place.namespace.files.read_text("a.txt") == "by a call"
    taken = place.workspace.snapshot()
    assert taken.detail["gave_way"] == ["a.txt"]
    assert place.namespace.files.read_text("a.txt") == "by hand"
    kept = place.namespace.at(taken.detail["gave_way_in"])
    assert kept.files.read_text("a.txt") == "by a call"
    assert place.vault.verify().faults == []


def test_what_one_side_removed_and_the_other_wrote_is_there(place: Place) -> None:
    place.namespace.files.write("a.txt", "by a call")
    (place.tree / "a.txt").unlink()
    place.namespace.files.delete("b.txt")
    (place.tree / "b.txt").write_text("by hand")
    place.workspace.snapshot()
    assert (place.tree / "a.txt").read_text() == "by a call"
    assert place.namespace.files.read_text("b.txt") == "by hand"


def test_a_directory_that_is_attached_to_files_takes_them_in(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        files = vault.namespace("full").files
        files.write_many([(f"d/{number}", f"{number}") for number in range(20)])
        files.write("both", "namespace")
        tree = tmp_path / "tree"
        tree.mkdir()
        (tree / "own").write_text("own")
        (tree / "both").write_text("directory")
        workspace = vault.workspace(tree, namespace="full")
        status = workspace.status()
        assert not [change for change in status.changes if change.change == "removed"]
        taken = workspace.snapshot()
        assert len([*tree.rglob("d/*")]) == 20
        assert files.read_text("own") == "own"
        assert files.read_text("both") == "directory"
        assert taken.detail["gave_way"] == ["both"]


def test_after_a_look_that_read_everything_the_namespaces_changes_still_count(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        files = vault.namespace("ns").files
        files.write_many([("x", "old"), ("gone", "old"), ("both", "namespace"), ("y", "y")])
        vault.namespace("ns").snapshot("one")
        tree = tmp_path / "tree"
        tree.mkdir()
        for name, text in {"x": "old", "gone": "old", "both": "directory", "own": "own"}.items():
            (tree / name).write_text(text)
        workspace = vault.workspace(tree, namespace="ns")
        assert workspace.status().agreed is not None
        files.write_many([("x", "new"), ("both", "newer"), ("own", "of a call")])
        files.delete("gone")
        agreed = workspace.status().agreed
        assert agreed is not None
        # What is in no snapshot is not written over: only what both had is anybody's to change.
        assert agreed.gave_way == ["both", "own"]
        assert {path.name: path.read_text() for path in tree.iterdir()} == {
            "x": "new",
            "y": "y",
            "both": "directory",
            "own": "own",
        }
        workspace.snapshot("two")
        assert files.read_text("x") == "new"
        assert not files.exists("gone")
        assert vault.verify().faults == []


def test_an_index_that_was_lost_takes_no_change_of_the_namespace_back(place: Place) -> None:
    place.workspace.close()
    for index in place.folder.rglob("index"):
        index.unlink()
    place.workspace = place.vault.workspace(place.tree, namespace="ns")
    place.workspace.status()
    place.namespace.files.write("a.txt", "by a call")
    place.namespace.files.delete("b.txt")
    place.workspace.status()
    assert place.names() == {"a.txt"}
    assert (place.tree / "a.txt").read_text() == "by a call"


def test_another_directory_in_place_of_one_that_is_gone_takes_all_in(place: Place) -> None:
    for path in [*place.tree.iterdir()]:
        path.unlink()
    place.tree.rmdir()
    other = place.folder / "other"
    other.mkdir()
    workspace = place.vault.workspace(other, namespace="ns")
    assert not workspace.status().changes
    assert {path.name for path in other.iterdir()} == {"a.txt", "b.txt"}


def test_a_namespace_that_was_deleted_takes_nothing_from_the_directory(place: Place) -> None:
    place.vault.delete_namespace("ns")
    assert place.workspace.status().head is None
    assert place.names() == {"a.txt", "b.txt"}
    place.vault.namespace("ns").files.write("c.txt", "of another")
    taken = place.workspace.snapshot()
    assert place.names() == {"a.txt", "b.txt", "c.txt"}
    assert "gave_way" not in taken.detail


def test_what_the_rules_leave_out_is_not_brought_in_and_named(place: Place) -> None:
    (place.tree / ".holdfastignore").write_text("build/\n")
    place.workspace.snapshot()
    (place.tree / "build").mkdir()
    (place.tree / "build/out").write_text("mine")
    place.namespace.files.write("build/out", "theirs")
    agreed = place.workspace.agree()
    assert agreed is not None
    assert agreed.gave_way == ["build/out"]
    taken = place.workspace.snapshot()
    assert (place.tree / "build/out").read_text() == "mine"
    assert taken.detail["gave_way"] == ["build/out"]
    assert place.namespace.at(taken.detail["gave_way_in"]).files.exists("build/out")
    assert place.workspace.restore(place.first).verified


def test_what_is_in_the_way_and_cannot_be_captured_stays(place: Place) -> None:
    os.mkfifo(place.tree / "pipe")
    place.namespace.files.write("pipe", "a file")
    place.namespace.files.write("beside", "another")
    taken = place.workspace.snapshot()
    assert (place.tree / "pipe").is_fifo()
    assert (place.tree / "beside").read_text() == "another"
    assert taken.detail["gave_way"] == ["pipe"]


def test_who_looks_is_shown_both_sides_where_nothing_can_be_written(tmp_path: Path) -> None:
    place = Place(tmp_path, Limits(workspace_files=3))
    with place.vault:
        for number in range(5):
            place.namespace.files.write(f"more/{number}", "x")
        status = place.workspace.status()
        assert status.agreed is not None
        assert "budget" in (status.agreed.failed or "")
        assert status.changes.count("added") == 5
        with pytest.raises(Unavailable):
            place.workspace.agree()
        with pytest.raises(TooLarge):
            place.workspace.undo()
        place.namespace.files.delete("more", recursive=True)
        assert place.workspace.agree() is None
        assert place.names() == {"a.txt", "b.txt"}


def test_a_file_in_the_place_of_another_is_no_more_files(tmp_path: Path) -> None:
    place = Place(tmp_path, Limits(workspace_files=3, workspace_bytes=12))
    with place.vault:
        place.namespace.files.write_many([("a.txt", "1234"), ("b.txt", "5678"), ("c.txt", "90ab")])
        place.workspace.agree()
        assert place.names() == {"a.txt", "b.txt", "c.txt"}
        place.namespace.files.write("a.txt", "12345")
        with pytest.raises(Unavailable):
            place.workspace.agree()


def test_all_files_go_to_a_new_directory_as_they_are_or_were(place: Place) -> None:
    place.namespace.files.write("c/d.txt", "pending", mode=0o600)
    now = place.namespace.checkout(place.folder / "now")
    assert now.verified
    assert (place.folder / "now/c/d.txt").read_text() == "pending"
    assert os.stat(place.folder / "now/c/d.txt").st_mode & 0o777 == 0o600
    then = place.namespace.checkout(place.folder / "then", at=place.first)
    assert then.target == place.first.id
    assert {path.name for path in (place.folder / "then").iterdir()} == {"a.txt", "b.txt"}
    with pytest.raises(PathExists):
        place.namespace.checkout(place.folder / "then")
    # Nothing was attached, and nothing changed hands.
    assert [str(each.path) for each in place.vault.workspaces()] == [str(place.tree)]


def writing_meanwhile(
    monkeypatch: pytest.MonkeyPatch, place: Place, name: str, *, times: int
) -> None:
    """Writes a file through the namespace after each of the first calls of a follower's step."""
    step, numbers = getattr(Follower, name), iter(range(times))

    def played(follower: Follower, *args: object, **kwargs: object) -> object:
        done = step(follower, *args, **kwargs)
        for number in numbers:
            place.namespace.files.write(f"call{number}", "by a call")
            break
        return done

    monkeypatch.setattr(Follower, name, played)


def kept_meanwhile(monkeypatch: pytest.MonkeyPatch, place: Place, *, times: int) -> None:
    """Writes a file through the namespace each time that what is in the directory was kept."""
    keep, numbers = move.keep, iter(range(times))

    def played(*args: Any, **kwargs: Any) -> object:
        done = keep(*args, **kwargs)
        for number in numbers:
            place.namespace.files.write(f"call{number}", "by a call")
            break
        return done

    monkeypatch.setattr(move, "keep", played)


def test_calls_that_write_meanwhile_are_taken_in_and_the_move_begins_anew(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.tree / "a.txt").write_text("A")
    place.workspace.snapshot("second")
    kept_meanwhile(monkeypatch, place, times=3)
    done = place.workspace.restore(place.first, paths=["a.txt"])
    assert done.verified
    assert place.names() == {"a.txt", "b.txt", "call0", "call1", "call2"}
    assert (place.tree / "a.txt").read_text() == "a"


def test_who_moves_is_told_that_the_namespace_is_written_to_all_the_time(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.tree / "a.txt").write_text("A")
    place.workspace.snapshot("second")
    kept_meanwhile(monkeypatch, place, times=1000)
    with pytest.raises(Busy):
        place.workspace.undo()
    assert (place.tree / "a.txt").read_text() == "A"
    monkeypatch.undo()
    place.workspace.restore(place.first)
    assert (place.tree / "a.txt").read_text() == "a"


def test_a_call_that_writes_when_the_directory_went_already_spoils_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.tree / "a.txt").write_text("A")
    (place.tree / "c.txt").write_text("c")
    place.workspace.snapshot("second")
    # What it goes to is a new map each time, which is stored with the move alone.
    writing_meanwhile(monkeypatch, place, "_prove", times=2)
    done = place.workspace.restore(place.first, paths=["a.txt"])
    assert done.verified
    place.workspace.status()
    assert place.names() == {"a.txt", "b.txt", "c.txt", "call0", "call1"}
    assert (place.tree / "a.txt").read_text() == "a"
    assert place.vault.verify().faults == []


def test_who_cannot_take_all_in_is_told_the_way_back(tmp_path: Path) -> None:
    place = Place(tmp_path, Limits(workspace_files=5))
    with place.vault:
        (place.tree / "a.txt").write_text("A")
        place.workspace.snapshot("second")
        place.namespace.files.write_many([(f"call{number}", "x") for number in range(8)])
        for way in (place.workspace.undo, lambda: place.workspace.restore(place.first)):
            with pytest.raises(TooLarge) as caught:
                way()
            assert "restore the namespace itself" in caught.value.hint
        place.namespace.restore(place.first)
        place.workspace.agree()
        assert place.names() == {"a.txt", "b.txt"}
        assert (place.tree / "a.txt").read_text() == "a"


def test_over_http_and_on_the_command_line(
    tmp_path: Path, warm: tuple[str, ...], at_once: Begin
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("a")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*warm, "--data", str(server.data), *arguments]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)

    with running_server(tmp_path / "served", begin=at_once) as server:
        run("init", "--namespace", "alice")
        with holdfast.Client(server.api_key, url=server.url, namespace="alice") as agent:
            agent.files.write("b.txt", "over http")
            agent.files.write("a.txt", "over http")
            (tree / "a.txt").write_text("by hand")
            shown = run("status")
            assert "b.txt" in shown.stdout
            assert "took in 1 change made through the namespace: b.txt" in shown.stderr
            assert (tree / "b.txt").read_text() == "over http"
            assert json.loads(run("status", "--json").stdout)["agreed"] is None
            told = json.loads(run("snapshot", "--json").stdout)
            assert told["gave_way"] == ["a.txt"]
            assert agent.files.read_text("a.txt") == "by hand"
            kept = agent.at(told["gave_way_in"]).files.read_text("a.txt")
            assert kept == "over http"
            agent.files.write("a.txt", "again")
            (tree / "a.txt").write_text("once more by hand")
            # A warning, which is there for those who want no more than that.
            assert "the namespace's own gives way: a.txt" in run("status", "-q").stderr
            assert "is in snap-" in run("snapshot").stdout

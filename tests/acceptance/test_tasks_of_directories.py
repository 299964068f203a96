"""A task of a directory takes back what changed while it ran, but for what other tasks noted."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import OthersChanged, TaskRunning
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory


class Failure(Exception):
    """What goes wrong in a task."""


class Place:
    """A directory, and others who work in its namespace."""

    def __init__(self, vault: Any, tree: Path) -> None:
        tree.mkdir()
        (tree / "a").write_text("before")
        self.tree, self.project = tree, vault.workspace(tree, namespace="shared")
        self.others = vault.namespace("shared")
        self.others.store.set("n", "o", 0)
        self.session = self.others.sessions.create("agent", initial_state={"v": 0}).id
        self.memory = self.others.memory.add("tea at four").id

    def fail(self, act: Callable[[], object]) -> Any:
        """Does something in a task of the directory that fails; returns the task."""
        began: list[Any] = []

        def work() -> None:
            with self.project.task("risky", rollback_on_failure=True) as task:
                began.append(task)
                (self.tree / "a").write_text("broken")
                (self.tree / "made").write_text("broken")
                act()
                raise Failure

        with pytest.raises(Failure):
            work()
        return began[0]

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.tree.iterdir()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield Place(vault, tmp_path / "tree")


def in_another_task(place: Place, act: Callable[[], object]) -> Callable[[], None]:
    def work() -> None:
        with place.others.task("other"):
            act()

    return work


def test_what_another_task_did_stays_when_one_of_the_directory_fails(place: Place) -> None:
    others = place.others

    def work() -> None:
        others.store.set("n", "o", 1)
        others.store.set("n", "new", 1)
        others.sessions.add_turn(place.session, "i", "o", state_after={"v": 1})
        others.memory.update(place.memory, content="coffee at nine")
        others.files.write("theirs", "theirs")

    added: list[str] = []
    task = place.fail(
        in_another_task(place, lambda: (work(), added.append(others.memory.add("milk").id)))
    )
    assert place.files() == {"a": "before", "theirs": "theirs"}
    assert (others.store.get("n", "o"), others.store.get("n", "new")) == (1, 1)
    assert others.sessions.get(place.session).state == {"v": 1}
    assert len(others.sessions.list_turns(place.session)) == 1
    assert others.memory.get(place.memory).content == "coffee at nine"
    assert [others.memory.get(each).content for each in added] == ["milk"]
    assert task.rolled_back.by_snapshots
    assert {change.name for change in task.rolled_back.changes} == {"a", "made"}
    row = others.tasks.get(task.id)
    assert (row.status, row.restored) == ("failed", task.rolled_back.snapshot.id)
    assert task.rolled_back.snapshot.kind == "restore"
    place.project.undo()
    assert place.files() == {"a": "broken", "made": "broken", "theirs": "theirs"}


def test_what_nobody_notes_counts_as_the_directorys(place: Place) -> None:
    task = place.fail(lambda: place.others.store.set("n", "o", 1))
    assert place.others.store.get("n", "o") == 0
    assert task.rolled_back.by_snapshots


def test_what_both_changed_is_a_conflict_that_is_told(place: Place) -> None:
    def work() -> None:
        in_another_task(place, lambda: place.others.store.set("n", "o", 1))()
        place.others.store.set("n", "o", 2)

    with pytest.raises(OthersChanged) as caught:
        place.fail(work)
    assert caught.value.names == ["store:n/o"]
    assert place.others.store.get("n", "o") == 2
    assert place.files() == {"a": "broken", "made": "broken"}
    task = caught.value.task_id
    with pytest.raises(OthersChanged):
        place.project.undo(task=task)
    done = place.project.undo(task=task, keep_mine=True)
    assert (done.left, done.by_snapshots) == (["store:n/o"], True)
    assert (place.files(), place.others.store.get("n", "o")) == ({"a": "before"}, 2)


def test_an_undo_of_a_task_of_a_directory_leaves_what_others_noted(place: Place) -> None:
    with place.project.task("works") as task:
        (place.tree / "a").write_text("after")
        with place.others.task("first"):
            place.others.store.set("n", "o", 1)
        with place.others.task("second"):
            place.others.store.set("n", "o", 2)
            place.others.files.write("theirs", "theirs")
    place.others.store.set("n", "later", 1)
    for dry_run in (True, False):
        done = place.project.undo(task=task.id, dry_run=dry_run)
        assert done.by_snapshots
        assert [change.name for change in done.changes] == ["a"]
    assert place.files() == {"a": "before", "theirs": "theirs"}
    assert place.others.store.get("n", "o") == 2


def test_what_a_task_noted_before_and_after_is_no_matter(place: Place) -> None:
    with place.others.task("around") as around:
        place.others.store.set("n", "o", 1)
        place.others.store.set("n", "early", 1)
        with place.project.task("works") as task:
            # Without a task: as far as anybody knows it is the directory's.
            place.project.namespace.store.set("n", "early", 2)
            (place.tree / "a").write_text("after")
        place.others.store.set("n", "late", 1)
    place.project.undo(task=task.id)
    found = [place.others.store.get("n", key) for key in ("o", "early", "late")]
    assert found == [1, 1, 1]
    place.others.undo(task=around.id)
    assert place.others.store.get("n", "o") == 0


def test_a_task_of_a_directory_within_another_is_taken_back(place: Place) -> None:
    """What is captured in it is noted for the one around it, too: that is no other's."""
    with place.project.namespace.task("around"):
        place.fail(lambda: place.project.namespace.store.set("n", "o", 1))
    assert place.files() == {"a": "before"}
    assert place.others.store.get("n", "o") == 0


def test_a_directory_that_went_comes_back_beside_others(place: Place) -> None:
    def work() -> None:
        in_another_task(place, lambda: place.others.store.set("n", "o", 1))()
        for path in place.tree.iterdir():
            path.unlink()
        place.tree.rmdir()

    task = place.fail(work)
    assert (place.files(), task.after) == ({"a": "before"}, None)
    assert place.others.store.get("n", "o") == 1
    assert task.rolled_back.was_missing


def test_what_a_task_within_another_changed_goes_back_with_it(place: Place) -> None:
    before, file = place.project.snapshot("before"), place.tree / "a"
    with place.project.task("around"):
        file.write_text("around it")
        with place.project.task("within"):
            file.write_text("within")
        file.write_text("after it")
    done = place.project.restore(before, keep="mine")
    assert (done.left, file.read_text()) == ([], "before")


class Shell:
    """Somebody who types commands in a directory."""

    def __init__(self, folder: Path, warm: tuple[str, ...]) -> None:
        self.tree, self.vault, self._warm = folder / "tree", folder / "vault", warm
        self.tree.mkdir()
        (self.tree / "a").write_text("before")
        assert self("init").returncode == 0

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self._warm, *arguments],
            cwd=self.tree,
            env={**os.environ, "HOLDFAST_DATA": str(self.vault)},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Shell:
    return Shell(tmp_path, warm)


def test_a_command_that_fails_takes_nothing_of_others_away(tmp_path: Path, shell: Shell) -> None:
    tree, vault = shell.tree, shell.vault
    program = tmp_path / "other.py"
    program.write_text(
        "import sys, holdfast\n"
        "with holdfast.open(sys.argv[1]) as vault:\n"
        "    other = vault.namespace('tree')\n"
        "    with other.task('other'):\n"
        "        other.store.set('n', 'o', 1)\n"
        "        other.memory.add('milk at two')\n"
    )

    script = f"echo broken > a; {sys.executable} {program} {vault}; exit 3"
    done = shell("--json", "run", "--rollback-on-failure", "--", "sh", "-c", script)
    assert done.returncode == 3, done.stderr
    back = json.loads(done.stdout)["rolled_back"]
    assert back["by_snapshots"]
    assert [(each["plane"], each["change"]) for each in back["changes"]] == [("files", "changed")]
    assert (tree / "a").read_text() == "before"
    with holdfast.open(vault) as opened:
        other = opened.namespace("tree")
        assert other.store.get("n", "o") == 1
        assert [each.content for each in other.memory.list()] == ["milk at two"]
        assert other.tasks.list()[-1].restored is not None


def test_a_command_that_was_killed_stands_in_nobodys_way(shell: Shell) -> None:
    tree = shell.tree
    with holdfast.open(shell.vault) as vault, vault.namespace("tree").task("earlier"):
        pass
    before = shell("snapshot", "-q").stdout.strip()
    assert shell("run", "--", "sh", "-c", "echo 1 > killed; kill -9 $PPID").returncode != 0
    assert shell("run", "--", "sh", "-c", "echo 1 > went-well").returncode == 0
    done = shell("restore", before, "--keep-mine")
    assert done.returncode == 0, done.stderr
    assert "files:killed stays" in done.stdout
    assert sorted(path.name for path in tree.iterdir()) == ["a", "killed"]
    with holdfast.open(shell.vault) as vault:
        (task,) = vault.namespace("tree").tasks.list(status="running")
    refused = shell("undo", "--task", task.id)
    assert (refused.returncode, "--end" in refused.stderr) == (4, True)
    assert shell("undo", "--task", task.id, "--end", "--dry-run").returncode == 2
    assert shell("undo", "--end").returncode == 2
    ended = shell("undo", "--task", task.id, "--end")
    assert ended.returncode == 0, ended.stderr
    assert "between its two snapshots" in ended.stdout
    assert [path.name for path in tree.iterdir()] == ["a"]
    with holdfast.open(shell.vault) as vault:
        assert vault.namespace("tree").tasks.get(task.id).status == "failed"


def test_a_task_of_a_directory_that_is_ended_by_hand_goes_back(place: Place) -> None:
    with place.others.task("earlier"):
        place.others.store.set("n", "o", 1)
    project = place.project
    before = project.snapshot("before")
    project.runs.note_begun("dies", id="task-that-died", before=before)
    (place.tree / "a").write_text("by the task")
    project.snapshot("somebody looks")
    with pytest.raises(TaskRunning):
        project.undo(task="task-that-died")
    place.others.tasks.fail("task-that-died")
    assert project.undo(task="task-that-died").by_snapshots
    assert (place.files(), place.others.store.get("n", "o")) == ({"a": "before"}, 1)


def test_a_task_of_a_remote_directory_leaves_what_others_did(
    tmp_path: Path, server: Server
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("before")
    with (
        holdfast.Client(server.api_key, url=server.url, namespace="remote") as other,
        holdfast.Client(server.api_key, url=server.url, namespace="remote") as client,
        client.workspace(tree, cache=tmp_path / "cache") as project,
    ):
        other.store.set("n", "o", 0)

        def work() -> None:
            with project.task("risky", rollback_on_failure=True):
                (tree / "a").write_text("broken")
                other.store.set("n", "o", 1)
                other.memory.add("milk at two")
                raise Failure

        with pytest.raises(Failure):
            work()
        assert (tree / "a").read_text() == "before"
        assert other.files.read_text("a") == "before"
        assert other.store.get("n", "o") == 1
        assert [each.content for each in other.memory.list()] == ["milk at two"]

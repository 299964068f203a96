"""What tasks did goes back, what others did stays: over HTTP, in a directory, on a command line."""

import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import InvalidValue, NothingToUndo
from holdfast.testing.clocks import Watch
from holdfast.testing.servers import Begin, running_server

pytestmark = pytest.mark.in_memory


def test_over_http(tmp_path: Path, at_once: Begin) -> None:
    with (
        running_server(tmp_path / "served", begin=at_once) as server,
        holdfast.Client(server.api_key, url=server.url, namespace="alice") as agent,
        holdfast.Client(server.api_key, url=server.url, namespace="alice") as person,
    ):
        person.files.write("both.txt", "before")
        before = agent.snapshot("before")
        with agent.task("first"):
            agent.files.write("both.txt", "by the agent")
            agent.files.write("made.txt", "by the agent")
        with agent.task("second"):
            agent.files.write("made.txt", "once more")
        person.files.write("both.txt", "by a person")
        person.files.write("mine.txt", "by a person")
        seen = agent.restore(before, keep="mine", dry_run=True)
        assert seen.left == ["files:both.txt"]
        done = agent.restore(before, keep="mine")
        assert done.verified
        assert [change.name for change in done.changes] == ["made.txt"]
        assert agent.files.read_text("both.txt") == "by a person"
        assert agent.files.read_text("mine.txt") == "by a person"
        assert agent.at(before).files.read_text("both.txt") == "before"
        length = len(agent.timeline())
        for _ in range(2):
            with pytest.raises(NothingToUndo, match=r"files:both\.txt' changed since"):
                agent.restore(before, keep="mine")
        with pytest.raises(NothingToUndo, match=r"files:both\.txt' changed since"):
            agent.restore(before, keep="mine", dry_run=True)
        assert len(agent.timeline()) == length
        with pytest.raises(InvalidValue):
            agent.restore(before, keep="mine", paths=["a"])
        agent.undo()
        assert agent.files.read_text("made.txt") == "once more"


def test_a_task_that_began_after_an_undo_is_one_since_then(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("alice")
        agent.files.write("a.txt", "1")
        agent.snapshot("first")
        with agent.task("before the target"):
            agent.files.write("kept.txt", "by a task, before")
        agent.files.write("a.txt", "2")
        target = agent.snapshot("target")
        agent.files.write("a.txt", "3")
        agent.snapshot("later")
        for _ in range(2):
            agent.undo()
        with agent.task("after the undo"):
            agent.files.write("made.txt", "by a task")
        agent.files.write("mine.txt", "by a person")
        done = agent.restore(target, keep="mine")
        assert [change.name for change in done.changes] == ["made.txt"]
        assert agent.files.read_text("mine.txt") == "by a person"
        assert agent.files.read_text("kept.txt") == "by a task, before"


@pytest.mark.parametrize("is_ended", [False, True])
def test_a_task_that_died_long_ago_stands_in_nobodys_way(
    tmp_path: Path, watch: Watch, is_ended: bool
) -> None:
    with holdfast.open(tmp_path / "vault", clock=watch) as vault:
        agent, dead = vault.namespace("alice"), vault.namespace("alice")
        agent.files.write("a.txt", "1")
        run = dead.task("is killed").__enter__()
        for text in ("2", "3", "4"):
            agent.files.write("a.txt", text)
            agent.snapshot()
        watch.wait(timedelta(days=400))
        agent.set_retention(keep_last=1)
        assert agent.forget()
        before = agent.snapshot("today")
        with agent.task("works"):
            agent.files.write("made.txt", "by a task")
        agent.files.write("mine.txt", "by a person")
        if is_ended:
            dead.tasks.fail(run.id)
        done = agent.restore(before, keep="mine")
        assert [change.name for change in done.changes] == ["made.txt"]
        # It may have been at work all the time.
        assert done.left == ["files:/what is no longer known"]
        assert agent.files.read_text("mine.txt") == "by a person"
        with pytest.raises(NothingToUndo, match="nothing is known"):
            agent.restore(before, keep="mine")


def test_in_a_directory(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("a")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(tree) as project:
        before = project.snapshot("before")
        with pytest.raises(NothingToUndo):
            project.restore(before, keep="mine")
        for number in range(2):
            with project.task(f"task {number}"):
                (tree / f"made-{number}").write_text("by a task")
                (tree / "a.txt").write_text(f"a{number}")
            (tree / f"mine-{number}").write_text("by hand")
        project.snapshot()
        done = project.restore(before, keep="mine")
        assert done.verified
        assert done.by_snapshots
        assert {path.name for path in tree.iterdir()} == {"a.txt", "mine-0", "mine-1"}
        assert (tree / "a.txt").read_text() == "a"


def test_on_the_command_line(tmp_path: Path, warm: tuple[str, ...]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("a")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*warm, "--data", str(tmp_path / "vault"), *arguments]
        return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)

    run("init", "-q")
    before = run("snapshot", "-q").stdout.strip()
    run("run", "--", "sh", "-c", "echo agent > a.txt; echo agent > made.txt")
    (tree / "a.txt").write_text("by hand")
    shown = run("restore", before, "--keep-mine")
    assert "files:a.txt stays: it was changed since" in shown.stdout
    assert {path.name for path in tree.iterdir()} == {"a.txt"}
    assert (tree / "a.txt").read_text() == "by hand"

"""A directory here, its timeline on a real server: everything that the local form promises.

The cases of `test_workspace_fidelity.py` go the whole way once more, over HTTP: snapshot, wreck,
preview, restore, undo, redo. Then what only the remote form knows: how little is sent, two machines
with one namespace, servers that moved on, and a cache that may be lost.
"""

import asyncio
import importlib.util
import inspect
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Name, errors
from holdfast.engine.capturing import capture
from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.namespace import Namespace
from holdfast.mirror import AsyncRemoteWorkspace, RemoteWorkspace, following
from holdfast.mirror.local import CROWDED, KEPT
from holdfast.model.basics import Kind, Plane
from holdfast.testing.servers import Server
from holdfast.workspace.reading import Unreadable

_SPEC = importlib.util.spec_from_file_location(
    "local_form", Path(__file__).with_name("test_workspace_fidelity.py")
)
assert _SPEC is not None
assert _SPEC.loader is not None
local_form = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(local_form)

CASES: dict[str, Any] = {
    f"{group.lower()}: {name}": case
    for group in ("KINDS", "LINKS", "MODES", "TIMES", "TWINS", "SIZES")
    for name, case in getattr(local_form, group).items()
}


class Project(local_form.Project):
    """A directory with a server behind it."""

    def __init__(self, folder: Path, server: Server, namespace: str) -> None:
        self.folder, self.server, self.name = folder, server, namespace
        self.tree = folder / "tree"
        self.tree.mkdir(exist_ok=True)
        self.client = holdfast.Client(server.api_key, namespace=namespace, url=server.url)
        self.workspace = self.client.workspace(self.tree, cache=folder / "cache")

    def read(self, snapshot: holdfast.SnapshotInfo | str, path: str) -> bytes:
        return self.client.at(snapshot).files.read(path)

    def machine(self, name: str) -> "Project":
        """Returns another machine with the same namespace."""
        folder = self.folder / name
        folder.mkdir()
        return Project(folder, self.server, self.name)

    def close(self) -> None:
        self.workspace.close()
        self.client.close()


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Iterator[Project]:
    made = Project(tmp_path, server, tmp_path.name)
    yield made
    made.close()


@pytest.fixture
def other(project: Project) -> Iterator[Project]:
    made = project.machine("other-machine")
    yield made
    made.close()


def names(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*")}


# As the local form


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_directory_comes_back_exactly_over_http(project: Project, case: Any) -> None:
    project.put("beside", b"not touched")
    case[0](project)
    local_form.go_round(project, case[1])


def test_names_that_are_no_text_come_back(project: Project) -> None:
    odd = os.fsencode(project.tree) + b"/\xff\xfe \n\t"
    Path(os.fsdecode(odd)).write_bytes(b"odd")
    local_form.go_round(project, lambda _: os.unlink(odd))


LOCAL_ONLY = {
    "acting_as": "on a server, whoever holds the key acts",
    "agree": "there, `pull` brings what others did",
    "enter": "a remote directory has one namespace",
    "give_up": "the server knows of no task that is the directory's",
    "merge": "namespaces are merged on the server",
    "patches": "a patch has the content of what was there, which lies on the server",
}


def test_the_remote_form_has_the_names_and_arguments_of_the_local_one() -> None:
    for name, member in inspect.getmembers(holdfast.Workspace):
        if name.startswith("_") or not callable(member) or name in LOCAL_ONLY:
            continue
        wanted = set(inspect.signature(member).parameters)
        assert wanted <= set(inspect.signature(getattr(RemoteWorkspace, name)).parameters), name


def test_the_asynchronous_form_has_the_names_of_the_waiting_one() -> None:
    public = {name for name in dir(RemoteWorkspace) if not name.startswith("_")}
    assert public - {"path"} <= set(dir(AsyncRemoteWorkspace))


def test_a_snapshot_is_the_servers_with_all_that_was_said(project: Project) -> None:
    project.put("a.txt", "one")
    project.client.store.set("notes", "key", {"value": 1})
    taken = project.workspace.snapshot(
        "mine", reason="because", pin=True, task_id="task-1", metadata={"run": "7"}
    )
    (found,) = project.client.timeline(metadata={"run": "7"})
    assert found.metadata == {"run": "7"}
    assert found == taken
    assert (found.label, found.reason, found.pinned, found.task_id) == (
        "mine",
        "because",
        True,
        "task-1",
    )
    assert project.read(taken, "a.txt") == b"one"
    assert project.client.at(taken).store.get("notes", "key") == {"value": 1}
    assert project.workspace.find_current() == taken


def test_a_task_that_the_server_keeps_is_taken_back_here_too(project: Project) -> None:
    project.put("a.txt", "one")
    project.workspace.snapshot()
    with project.client.task("tidy") as task:
        project.client.files.write("made.txt", "by the task")
        project.client.store.set("notes", "key", 1)
    project.workspace.restore("@")
    project.put("a.txt", "two")
    assert names(project.tree) == {"a.txt", "made.txt"}
    seen = project.workspace.undo(task=task.id, dry_run=True)
    assert names(project.tree) == {"a.txt", "made.txt"}
    done = project.workspace.undo(task=task.id)
    told = [{(c.plane, c.key, c.change) for c in each.changes} for each in (seen, done)]
    assert told[0] == told[1] != set()
    assert {path.name: path.read_text() for path in project.tree.iterdir()} == {"a.txt": "two"}
    assert project.client.store.keys("notes") == []
    with pytest.raises(errors.InvalidValue):
        project.workspace.undo(keep_mine=True)


def test_each_call_takes_a_snapshot_and_the_careful_one_does_not(project: Project) -> None:
    project.put("a.txt", "one")
    first, second = project.workspace.snapshot(), project.workspace.snapshot()
    assert first.id != second.id
    assert project.workspace.snapshot_if_changed() is None
    project.put("a.txt", "two")
    assert project.workspace.snapshot_if_changed() is not None


def test_what_could_not_be_captured_is_said_and_left_alone(project: Project) -> None:
    project.put("a.txt", "one")
    with socket.socket(socket.AF_UNIX) as plug:
        here = os.getcwd()
        os.chdir(project.tree)
        try:
            plug.bind("plug")
        finally:
            os.chdir(here)
    taken = project.workspace.snapshot()
    assert taken.detail["coverage"]["skipped"] == [["plug", "a socket"]]
    project.put("a.txt", "two")
    assert project.workspace.restore(taken).verified
    assert names(project.tree) == {"a.txt", "plug"}


def test_what_is_in_motion_is_told_to_the_server_and_by_it(project: Project) -> None:
    project.put("log", "one")
    project.workspace.snapshot()
    with open(project.tree / "log", "r+b") as file:
        file.write(b"o")
        file.flush()
        taken = project.workspace.snapshot()
        status = project.workspace.status()
        assert [each.path for each in status.coverage.in_motion] == ["log"]
        file.write(b"ff")
    rows = [["log", "it was open for writing"]]
    assert project.client.get_snapshot(taken.id).detail["coverage"]["in_motion"] == rows
    assert not taken.is_partial
    assert project.workspace.snapshot().detail["coverage"]["in_motion"] == []
    assert list(project.workspace.restore(taken, dry_run=True).in_motion) == ["log"]
    assert list(project.workspace.restore(taken).in_motion) == ["log"]
    assert (project.tree / "log").read_text() == "one"
    assert list(project.workspace.undo().in_motion) == []
    assert (project.tree / "log").read_text() == "off"
    assert list(project.client.restore(taken).in_motion) == ["log"]


def test_what_failed_makes_a_snapshot_partial_and_is_left_alone_by_a_restore(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put("a.txt", "one")
    project.put("broken", "cannot be read")
    read = capture.read_still

    def failing(name: bytes, *rest: Any, **more: Any) -> Any:
        if name == b"broken":
            raise Unreadable("it is broken")
        return read(name, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(capture, "read_still", failing)
        taken = project.workspace.snapshot()
    assert taken.is_partial
    assert project.client.get_snapshot(taken.id).is_partial
    project.put("a.txt", "two")
    project.workspace.snapshot()
    assert list(project.workspace.restore(taken, dry_run=True).uncaptured) == ["broken"]
    assert list(project.workspace.restore(taken).uncaptured) == ["broken"]
    assert (project.tree / "a.txt").read_text() == "one"
    assert (project.tree / "broken").read_text() == "cannot be read"
    (project.tree / "broken").unlink()
    project.put("a.txt", "two")
    done = project.workspace.restore(taken)
    assert (done.is_partial, list(done.uncaptured)) == (True, ["broken"])
    # What the directory became is on its own timeline, too.
    followed = Namespace(project.workspace._local.handle).get_snapshot("latest")
    assert followed.is_partial
    assert list(lacking_in(followed).uncaptured) == ["broken"]


def test_files_that_the_rules_leave_out_are_never_sent(project: Project) -> None:
    project.put(".holdfastignore", "secret\n")
    project.put("secret", "hush")
    project.put("a.txt", "one")
    taken = project.workspace.snapshot()
    assert {info.path for info in project.client.at(taken).files.list()} == {
        ".holdfastignore",
        "a.txt",
    }


def test_what_is_in_the_way_and_left_out_is_never_sent(project: Project) -> None:
    project.put("a.txt", "one")
    before = project.workspace.snapshot()
    (project.tree / "a.txt").unlink()
    project.put(".holdfastignore", "a.txt\n")
    project.workspace.snapshot()
    project.put("a.txt", "never captured")
    shown = project.client.get_snapshot("@").root
    with pytest.raises(errors.DriftFound, match="leaves out"):
        project.workspace.restore(before)
    assert (project.tree / "a.txt").read_text() == "never captured"
    assert project.client.get_snapshot("@").root == shown
    project.workspace.restore(before, force=True)
    assert (project.tree / "a.txt").read_text() == "one"
    for snapshot in project.client.timeline():
        files = project.client.at(snapshot).files
        assert not files.exists("a.txt") or files.read("a.txt") == b"one"


def test_some_paths_come_back_and_others_stay(project: Project) -> None:
    project.put("a/one", "1")
    project.put("b/two", "2")
    before = project.workspace.snapshot()
    project.put("a/one", "x")
    project.put("b/two", "y")
    done = project.workspace.restore(before, paths=["a"])
    assert [change.name for change in done.changes] == ["a/one"]
    assert (project.tree / "a/one").read_text() == "1"
    assert (project.tree / "b/two").read_text() == "y"


def test_a_history_is_the_servers_and_before_it_the_directorys(project: Project) -> None:
    odd = project.tree / os.fsdecode(b"\xff")
    odd.write_text("1")
    first = project.workspace.snapshot("first")
    odd.write_text("22")
    second = project.workspace.snapshot("second")
    assert [step.change for step in project.workspace.history(b"\xff")] == ["changed", "added"]
    odd.unlink()
    found = project.workspace.history(b"\xff")
    assert [(s.change, s.snapshot and s.snapshot.id) for s in found] == [
        ("removed", None),
        ("changed", second.id),
        ("added", first.id),
    ]
    assert (found.steps[0].previous, found.steps[0].old_bytes) == (second.id, 2)
    some = project.workspace.history(b"\xff", limit=2)
    assert list(some) == list(found.steps[:2])
    assert list(project.workspace.history(b"\xff", before=some.before)) == [found.steps[2]]
    assert list(project.workspace.history(holdfast.Name.session("nobody"))) == []


def test_names_of_every_plane_come_back_and_others_stay(project: Project) -> None:
    tree, agent = os.fsencode(project.tree), project.client
    odd = [b"x[1].txt", b"x1.txt", b"\xff", b"[\xff]"]

    def put(content: bytes, value: int) -> None:
        for name in odd:
            Path(os.fsdecode(os.path.join(tree, name))).write_bytes(content)
        agent.store.set_many([("n", "k", value), ("n", "other", value)])
        agent.sessions.update_state("s", {"n": value})

    def found() -> list[bytes]:
        return [Path(os.fsdecode(os.path.join(tree, name))).read_bytes() for name in odd]

    agent.sessions.create("helper", session_id="s")
    put(b"1", 1)
    before = project.workspace.snapshot()
    put(b"2", 2)
    names = [Name.file(b"[\xff]"), Name.file("x[1].txt"), Name.value("n", "k")]
    seen = project.workspace.restore(before, names=names, dry_run=True)
    done = project.workspace.restore(before, names=names)
    assert done.verified
    told = [(change.plane, change.key, change.name, change.change) for change in done.changes]
    assert told == [
        (change.plane, change.key, change.name, change.change) for change in seen.changes
    ]
    assert {key for _, key, _, _ in told} == {b"[\xff]", b"x[1].txt", b"n\0k"}
    assert found() == [b"1", b"2", b"2", b"1"]
    assert (agent.store.get("n", "k"), agent.store.get("n", "other")) == (1, 2)
    # What a server tells of a name that is no text can be sent back to it.
    listed = agent.restore(before, dry_run=True).changes
    assert [change.key for change in listed] == [b"x1.txt", b"\xff", b"n\0other", b"s"]
    done = project.workspace.restore(before, names=[listed.items[1].named, listed.items[3].named])
    assert found() == [b"1", b"2", b"1", b"1"]
    assert agent.sessions.get_state("s").state == {"n": 1}
    for dry_run in (True, False):
        with pytest.raises(errors.NameNotFound):
            project.workspace.restore(before, names=[Name.file("x*")], dry_run=dry_run)
        with pytest.raises(errors.NameNotFound):
            project.workspace.restore(before, names=[Name.value("n", "*")], dry_run=dry_run)
    done = project.workspace.restore(before, except_=[Name.file("x1.txt")])
    assert [change.name for change in done.changes] == ["n/other"]
    project.workspace.undo()
    project.workspace.undo()
    project.workspace.undo()
    assert found() == [b"2"] * 4


def test_a_preview_shows_what_changes_on_every_plane(project: Project) -> None:
    project.put("a", "1")
    project.client.store.set("n", "k", 1)
    before = project.workspace.snapshot()
    project.put("a", "2")
    project.client.store.set("n", "k", 2)
    seen = project.workspace.restore(before, dry_run=True)
    done = project.workspace.restore(before)
    assert [change.name for change in seen.changes] == ["a", "n/k"]
    assert [change.name for change in done.changes] == ["a", "n/k"]


def test_what_is_not_listed_is_counted_over_all_planes(project: Project) -> None:
    project.put("a", "1")
    project.put("b", "1")
    project.workspace.namespace.store.set("n", "k", 1)
    before = project.workspace.snapshot()
    project.put("a", "2")
    (project.tree / "b").unlink()
    project.workspace.namespace.store.set("n", "k", 2)

    def counts(done: holdfast.Restored) -> list[int | None]:
        found = done.changes
        words = [found.count(word) for word in ("added", "removed", "changed")]
        return [len(found), *words, found.count(plane=Plane.STORE)]

    assert counts(project.workspace.restore(before, limit=0)) == [0, 1, 0, 2, 1]
    assert counts(project.workspace.undo(limit=1)) == [1, 0, 1, 2, 1]
    assert counts(project.workspace.redo(limit=None)) == [3, 1, 0, 2, 1]


def test_an_undo_takes_a_redo_back_that_ran_over_what_was_in_no_snapshot(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    project.put("a", "2")
    project.workspace.snapshot()
    project.workspace.undo()
    project.put("mine", "in no snapshot")
    for step, there in (("redo", {"a"}), ("undo", {"a", "mine"}), ("redo", {"a"})):
        getattr(project.workspace, step)()
        assert names(project.tree) == there
        assert (project.tree / "a").read_text() == ("1" if step == "undo" else "2")


def test_a_directory_that_was_moved_goes_on_in_its_new_place(project: Project) -> None:
    project.put("a", "1")
    taken = project.workspace.snapshot()
    assert project.workspace.moved_from is None
    project.workspace.close()
    elsewhere = project.tree.rename(project.folder / "elsewhere")
    cache = project.folder / "cache"
    with project.client.workspace(elsewhere, cache=cache) as moved:
        assert moved.moved_from == project.tree
        assert moved.find_current() == taken
        assert moved.recover() is None


def test_drift_can_be_refused(project: Project) -> None:
    project.put("a", "1")
    before = project.workspace.snapshot()
    project.put("a", "2")
    with pytest.raises(errors.DriftFound):
        project.workspace.restore(before, drift="refuse")
    assert (project.tree / "a").read_text() == "2"


def test_snapshots_are_compared_with_each_other_and_with_the_directory(project: Project) -> None:
    project.put("a", "1\n")
    first = project.workspace.snapshot()
    project.put("b", "2\n")
    second = project.workspace.snapshot()
    project.put("a", "3\n")
    assert [c.name for c in project.workspace.diff(first, second)] == ["b"]
    assert [c.name for c in project.workspace.diff()] == ["a"]
    assert [c.name for c in project.workspace.diff(first)] == ["a", "b"]
    assert "+3" in project.workspace.text_diff("a", first)
    assert "+2" in project.workspace.text_diff("b", first, second)
    assert project.workspace.status().head == second


def test_a_snapshot_can_be_put_elsewhere(project: Project) -> None:
    project.put("a/b", "1")
    taken = project.workspace.snapshot()
    project.put("a/b", "2")
    done = project.workspace.checkout(taken, project.folder / "elsewhere")
    assert (done.target, done.verified) == (taken.id, True)
    assert (project.folder / "elsewhere/a/b").read_text() == "1"


def test_an_archive_becomes_the_directory(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    project.client.export(project.folder / "file.tar")
    project.put("a", "2")
    done = project.workspace.import_(project.folder / "file.tar")
    assert (project.tree / "a").read_text() == "1"
    assert done.verified
    assert done.safety_id is not None
    assert project.read(done.safety_id, "a") == b"2"


def test_a_set_of_files_becomes_the_directory(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    project.put("a", "2")
    folder = project.folder / "set"
    folder.mkdir()
    (folder / "b").write_text("brought")
    done = project.workspace.import_files(folder)
    assert [path.name for path in project.tree.iterdir()] == ["b"]
    assert done.verified
    assert done.safety_id is not None
    assert project.read(done.safety_id, "a") == b"2"
    project.workspace.undo()
    assert (project.tree / "a").read_text() == "2"


@pytest.mark.parametrize("way", ["import_", "import_files"])
def test_an_import_that_fails_here_lets_nobody_overwrite_the_directory(
    project: Project, way: str
) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    with pytest.raises(errors.NotFound):
        getattr(project.workspace, way)(project.folder / "missing.tar")
    project.put("a", "an hour's work")
    project.client.files.write("b", "somebody else's")
    with pytest.raises(errors.HeadMoved):
        project.workspace.snapshot()
    assert (project.tree / "a").read_text() == "an hour's work"


def test_a_task_that_fails_takes_the_directory_back(project: Project) -> None:
    project.put("a", "1")

    @project.workspace.task("risky", rollback_on_failure=True)
    def work() -> None:
        project.put("a", "broken")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    assert (project.tree / "a").read_text() == "1"
    failed = next(each for each in project.client.timeline() if each.label == "risky")
    assert project.read(failed, "a") == b"broken"


def test_a_task_of_a_directory_is_one_that_the_server_keeps(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    with project.workspace.task("tidy") as task:
        project.put("a", "2")
        project.put("made", "by the task")
        project.client.store.set("notes", "by the task", 1)
    project.put("mine", "by hand")
    (kept,) = project.client.tasks.list()
    assert task.after is not None
    assert (kept.id, kept.status, kept.after) == (task.id, "completed", task.after.id)
    assert (kept.before, task.after.label) == (task.before.id, "tidy")
    snapshots = project.client.timeline()
    assert [each.id for each in snapshots] == [task.after.id, task.before.id]
    actions = [each.action for each in project.client.traces.list()]
    assert {"task.started", "task.completed"} <= {*actions}
    done = project.workspace.undo(task=task.id)
    assert done.verified
    assert not done.by_snapshots
    assert {p.name: p.read_text() for p in project.tree.iterdir()} == {"a": "1", "mine": "by hand"}
    assert project.client.store.keys("notes") == []


def test_what_others_did_stays_where_a_task_of_a_directory_goes_back(
    project: Project, other: Project
) -> None:
    project.put("a", "1")
    project.workspace.snapshot()

    def work() -> None:
        with project.workspace.task("risky", rollback_on_failure=True) as task:
            tasks.append(task)
            project.put("a", "broken")
            project.client.store.set("notes", "mine", "broken")
            other.client.store.set("notes", "theirs", "kept")
            other.client.files.write("theirs", "kept")
            raise RuntimeError("wrong")

    tasks = list[Any]()
    with pytest.raises(RuntimeError):
        work()
    assert {p.name: p.read_text() for p in project.tree.iterdir()} == {"a": "1", "theirs": "kept"}
    assert project.client.store.keys("notes") == ["theirs"]
    (kept,) = project.client.tasks.list()
    (task,) = tasks
    assert task.rolled_back.snapshot.id == kept.restored
    assert (kept.status, kept.restored is not None) == ("failed", True)
    assert "wrong" in (kept.reason or "")
    attempt = next(each for each in project.client.timeline() if each.id == kept.after)
    assert project.read(attempt, "a") == b"broken"
    project.put("a", "2")
    project.workspace.snapshot()


def test_a_task_that_cannot_be_sent_does_not_run_for_ever(project: Project, other: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()

    def work() -> None:
        with project.workspace.task("late"):
            project.put("a", "2")
            other.client.files.write("b", "theirs")

    with pytest.raises(errors.HeadMoved):
        work()
    assert [each.status for each in project.client.tasks.list()] == ["failed"]
    assert (project.tree / "a").read_text() == "2"


def test_what_tasks_did_goes_and_what_others_did_stays(project: Project, other: Project) -> None:
    project.put("a", "1")
    before = project.workspace.snapshot()
    for number in range(2):
        with project.workspace.task(f"task {number}"):
            project.put("a", f"by task {number}")
            project.put(f"made-{number}", "by a task")
        project.put(f"mine-{number}", "by hand")
    seen = project.workspace.restore(before, keep="mine", dry_run=True)
    assert seen.dry_run
    done = project.workspace.restore(before, keep="mine")
    assert done.verified
    assert names(project.tree) == {"a", "mine-0", "mine-1"}
    assert (project.tree / "a").read_text() == "1"
    with project.workspace.task("last"):
        project.put("a", "by the last")
    other.client.files.write("theirs", "kept")
    project.put("mine-0", "again")
    with pytest.raises(errors.HeadMoved):
        project.workspace.restore(before, keep="mine")


def test_a_task_ends_with_a_snapshot_of_its_own_alone(project: Project) -> None:
    project.put("a", "1")
    theirs = project.workspace.snapshot()
    run = project.client.tasks.start("by hand")
    with pytest.raises(errors.InvalidValue):
        project.client.tasks.complete(run.id, snapshot=theirs)
    with pytest.raises(errors.SnapshotNotFound):
        project.client.tasks.complete(run.id, snapshot="snap-none")
    own = project.workspace.snapshot(task_id=run.id)
    assert project.client.tasks.fail(run.id, snapshot=own).after == own.id
    assert len(project.client.timeline()) == 2


def test_a_directory_that_is_gone_can_be_let_go_of(project: Project) -> None:
    (project.tree / "a").write_text("1")
    project.workspace.snapshot()
    shutil.rmtree(project.tree)
    with pytest.raises(errors.Unavailable):
        project.workspace.snapshot()
    project.workspace.close()


def test_who_acts_is_the_key_and_nobody_else(project: Project) -> None:
    assert not hasattr(project.workspace, "acting_as")
    assert (project.workspace.snapshot().actor or "").startswith("key-")


async def _all_of_it(project: Project) -> None:
    async with (
        holdfast.AsyncClient(
            project.server.api_key, namespace=project.name, url=project.server.url
        ) as client,
        client.workspace(project.tree, cache=project.folder / "cache-2") as workspace,
    ):
        project.put("a", "1")
        first = await workspace.snapshot("first")
        assert first.label == "first"
        project.put("a", "2")
        assert await workspace.is_dirty()
        done = await workspace.restore(first)
        assert done.verified
        assert (project.tree / "a").read_text() == "1"
        await workspace.undo()
        assert (project.tree / "a").read_text() == "2"
        async with workspace.task("job") as job:
            project.put("b", "3")
        assert job.after is not None
        assert await client.at(job.after).files.read("b") == b"3"
        assert [each.id for each in await client.tasks.list()] == [job.id]
        await workspace.undo(task=job.id)
        assert not (project.tree / "b").exists()
        with suppress(RuntimeError):
            async with workspace.task("risky", rollback_on_failure=True):
                project.put("a", "broken")
                await client.store.set("notes", "mine", "broken")
                raise RuntimeError
        assert (project.tree / "a").read_text() == "2"
        assert await client.store.keys("notes") == []


def test_an_event_loop_has_the_same(project: Project) -> None:
    asyncio.run(_all_of_it(project))


# What is sent


def test_many_changes_are_sent_as_content(
    project: Project, other: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "TOLD_BYTES", 2000)
    for number in range(200):
        project.put(f"{number % 7}/{number}", str(number))
    project.workspace.snapshot()
    other.workspace.pull()
    want = local_form.look(project.tree)
    assert local_form.differing(local_form.look(other.tree), want) == {}


def test_what_the_server_lost_since_it_was_asked_is_sent_all_the_same(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "ALONG_BYTES", 0)
    project.put("a", os.urandom(5000))
    server, answers = project.workspace._pair.server, list[bytes]()
    missing = server.missing

    def forgetful(names: bytes) -> bytes:
        answers.append(missing(names))
        return b"" if len(answers) == 1 else answers[-1]

    monkeypatch.setattr(server, "missing", forgetful)
    taken = project.workspace.snapshot()
    assert project.read(taken, "a") == (project.tree / "a").read_bytes()
    assert len(answers) == 2


# Two sides


def test_a_second_machine_is_filled_from_the_server(project: Project, other: Project) -> None:
    project.put("a/large", os.urandom(3_000_000))
    project.put("a/small", "1", 0o755)
    project.link("link", "a/small")
    project.folder_at("empty", 0o700)
    taken = project.workspace.snapshot()
    assert other.workspace.pull() == taken
    want = local_form.look(project.tree)
    assert local_form.differing(local_form.look(other.tree), want) == {}
    assert not other.workspace.is_dirty()


def test_a_server_without_files_leaves_a_directory_alone(project: Project) -> None:
    project.put("a", "1")
    assert project.workspace.pull() is None
    assert (project.tree / "a").read_text() == "1"


def test_a_server_that_moved_on_is_not_overwritten_unseen(project: Project, other: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    other.workspace.pull()
    other.put("b", "theirs")
    other.workspace.snapshot()
    project.put("c", "mine")
    with pytest.raises(errors.HeadMoved) as refused:
        project.workspace.snapshot()
    assert "pull()" in refused.value.hint
    assert "overwrite=True" in refused.value.hint
    assert names(project.tree) == {"a", "c"}
    pulled = project.workspace.pull()
    assert pulled is not None
    assert names(project.tree) == {"a", "b"}
    aside = next(s for s in project.client.timeline() if s.kind is Kind.SAFETY)
    assert project.read(aside, "c") == b"mine"
    assert project.workspace.restore(aside).verified
    assert names(project.tree) == {"a", "c"}


def test_a_directory_may_win_and_what_was_there_is_a_snapshot(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    project.client.files.write("b", "written through the server, in no snapshot")
    project.put("c", "mine")
    with pytest.raises(errors.HeadMoved, match="changed since"):
        project.workspace.snapshot()
    won = project.workspace.snapshot(overwrite=True)
    assert {info.path for info in project.client.files.list()} == {"a", "c"}
    assert won.parent is not None
    assert project.read(won.parent, "b").startswith(b"written")


def test_a_first_snapshot_into_a_namespace_with_files_is_a_conflict(
    project: Project, other: Project
) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    other.put("b", "2")
    with pytest.raises(errors.HeadMoved):
        other.workspace.snapshot()
    other.workspace.snapshot(overwrite=True)
    assert {info.path for info in project.client.files.list()} == {"b"}


def test_the_same_directory_on_two_machines_is_no_conflict(
    project: Project, other: Project
) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    shutil.copy2(project.tree / "a", other.tree / "a")
    held = project.workspace.find_current()
    assert held is not None
    assert other.workspace.snapshot().root == held.root


def test_what_happens_to_other_planes_is_no_conflict(project: Project) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    project.client.store.set("notes", "k", 1)
    project.client.snapshot("of the store")
    project.put("a", "2")
    taken = project.workspace.snapshot()
    assert project.client.at(taken).store.get("notes", "k") == 1


def test_a_restore_by_somebody_else_arrives_with_a_pull(project: Project) -> None:
    project.put("a", "1")
    first = project.workspace.snapshot()
    project.put("a", "2")
    project.workspace.snapshot()
    project.client.restore(first)
    project.workspace.pull()
    assert (project.tree / "a").read_text() == "1"


def test_of_two_who_push_at_once_one_is_told_to_look_again(
    project: Project, other: Project
) -> None:
    project.put("a", "1")
    project.workspace.snapshot()
    other.workspace.pull()
    won, refused, gate = list[str](), list[errors.HeadMoved](), threading.Barrier(2)

    def push(who: Project) -> None:
        who.put("a", who.tree.as_posix())
        gate.wait()
        try:
            won.append(who.workspace.snapshot().id)
        except errors.HeadMoved as exc:
            refused.append(exc)

    threads = [threading.Thread(target=push, args=(who,)) for who in (project, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, 1)


# The cache


def test_a_lost_cache_costs_time_and_nothing_else(project: Project) -> None:
    project.put("a", "1")
    before = project.workspace.snapshot()
    project.close()
    shutil.rmtree(project.folder / "cache")
    again = Project(project.folder, project.server, project.name)
    again.put("a", "2")
    with pytest.raises(errors.HeadMoved):
        again.workspace.snapshot()
    again.workspace.snapshot(overwrite=True)
    assert again.workspace.restore(before).verified
    assert (again.tree / "a").read_text() == "1"
    project.__dict__.update(again.__dict__)


def test_a_snapshot_that_the_server_has_forgotten_is_no_obstacle(project: Project) -> None:
    project.put("a", "1")
    first = project.workspace.snapshot()
    project.put("b", "2")
    project.workspace.snapshot()
    project.client.files.write("c", "3")
    third = project.client.snapshot()
    for each in project.client.timeline():
        if each.id != third.id:
            project.client.delete_snapshot(each)
    project.workspace.pull()
    assert names(project.tree) == {"a", "b", "c"}
    assert first.id not in {each.id for each in project.client.timeline()}


def test_the_cache_does_not_grow_for_ever(project: Project) -> None:
    for number in range(CROWDED + 2):
        project.put("a", os.urandom(1000))
        project.put("n", str(number))
        project.workspace.snapshot()
    project.close()
    with holdfast.open(project.folder / "cache") as cache:
        (name,) = [name for name in cache.namespaces() if name == "tree"]
        assert len(cache.namespace(name).timeline()) <= KEPT + 1
    again = Project(project.folder, project.server, project.name)
    assert not again.workspace.is_dirty()
    project.__dict__.update(again.__dict__)

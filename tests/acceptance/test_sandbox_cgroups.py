"""Commands in control groups: what the kernel bounds there, and that no group is left."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import SandboxUnavailable
from holdfast.model.commands import Stopped
from holdfast.sandbox import cgroups, running
from holdfast.sandbox.cgroups import Group, Groups
from holdfast.sandbox.confining import HOME, SHARED_MEMORY_BYTES
from holdfast.sandbox.limits import Allowance, find_user
from holdfast.sandbox.probing import Sandbox
from holdfast.sandbox.running import End, Order
from holdfast.testing.sandboxes import why_none

MIB = 1 << 20


def find_place() -> Path:
    """Makes a group below that of all processes; skips where the kernel bounds nothing there."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    found = next((Path(each[1]) for each in mounts if each[2] == "cgroup2"), None)
    if found is None:
        pytest.skip("cgroup v2 is not mounted here")
    if not {"memory", "pids"} <= {*(found / "cgroup.subtree_control").read_text().split()}:
        pytest.skip("cgroup v2 hands on no control of memory and processes here")
    made = found / f"holdfast-test-{os.getpid()}"
    try:
        made.mkdir()
        Groups(made).prepare()
    except (OSError, SandboxUnavailable) as exc:
        with suppress(OSError):
            made.rmdir()
        pytest.skip(f"no control group can be made here: {exc}")
    return made


@pytest.fixture
def place() -> Iterator[Path]:
    if why_none() is not None:
        pytest.skip(why_none() or "")
    made = find_place()
    yield made
    assert [each for each in made.iterdir() if each.is_dir()] == []
    made.rmdir()


def run(folder: Path, place: Path, command: str, **allowed: int) -> tuple[End, str]:
    said: list[bytes] = []
    user = find_user(0)
    if user is not None:
        os.chown(folder, user, user)
    order = Order(
        command=["/bin/bash", "-c", command],
        folder=str(folder),
        cwd=HOME,
        allowance=Allowance(scratch_bytes=MIB, **allowed),
    )
    sandbox = Sandbox(cgroup=str(place))
    end = sandbox.run(order, lambda _, text: said.append(text))
    return end, b"".join(said).decode()


def test_the_kernel_bounds_the_memory_of_all_processes_together(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody else looks.
    monkeypatch.setattr(running, "LOOK_S", 60.0)
    hold = "for i in {1..16}; do (x=$(head -c 8M /dev/zero | tr '\\0' x); sleep 20; :) & done; wait"
    end, _ = run(tmp_path, place, hold, memory_bytes=40 * MIB)
    assert (end.stopped, end.exit_code) == (Stopped.MEMORY, 137)
    assert run(tmp_path, place, "echo well", memory_bytes=40 * MIB)[1] == "well\n"


def test_the_kernel_bounds_the_processes(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LOOK_S", 60.0)
    # As where the kernel counts no processes of a user's: `pids.max` alone is left.
    monkeypatch.setattr(running, "_limits", lambda _: (MIB, MIB, 1024, 10_000))
    command = "for i in {1..40}; do sleep 5 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l"
    _, said = run(tmp_path, place, command, processes=20)
    assert not said or int(said.split()[-1]) <= 20


def test_a_group_says_what_it_is_bounded_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A folder with the kernel's files in it, where there are no groups.
    monkeypatch.setattr(cgroups, "_remove", shutil.rmtree)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    (tmp_path / f"command-{2**22 + 1}-7").mkdir()
    (tmp_path / f"command-{os.getpid()}-7").mkdir()
    groups = Groups(tmp_path)
    groups.prepare()
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    # What a process that was killed has left goes; what one that runs has made stays.
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == [
        f"command-{os.getpid()}-7"
    ]
    allowance = Allowance(memory_bytes=100, scratch_bytes=10, processes=20)
    with groups.lend(allowance) as group:
        group.add(123)
        (folder,) = (each for each in tmp_path.iterdir() if (each / "pids.max").exists())
        written = {each.name: each.read_text() for each in folder.iterdir()}
    assert written == {
        "memory.max": str(100 + 2 * 10 + SHARED_MEMORY_BYTES),
        "memory.oom.group": "1",
        "pids.max": "24",
        "cgroup.procs": "123",
    }
    assert not folder.exists()


@pytest.mark.parametrize(
    ("told", "has_run_out"),
    [("low 0\nmax 3\noom 1\noom_kill 2\n", True), ("max 3\noom_kill 0\n", False), (None, False)],
)
def test_what_the_kernel_ended_for_its_memory_is_heard_of(
    tmp_path: Path, told: str | None, *, has_run_out: bool
) -> None:
    if told is not None:
        (tmp_path / "memory.events").write_text(told)
    assert Group(tmp_path).ran_out_of_memory is has_run_out


@pytest.mark.skipif(why_none() is not None, reason=why_none() or "")
def test_a_place_that_bounds_nothing_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path / "missing", tmp_path):
        with pytest.raises(SandboxUnavailable, match="No such file"):
            Sandbox(cgroup=str(place)).check()
    (tmp_path / "cgroup.controllers").write_text("cpu pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(SandboxUnavailable, match="does not control memory"):
        Sandbox(cgroup=str(tmp_path)).check()

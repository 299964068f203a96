"""Writers of whom `holdfast watch` hears nothing: through a mapping, or a name from elsewhere.

The kernel tells who watches of calls that write, and of names. A program that has mapped a file
writes to memory, without a call; one that has another name of the file, outside of the directory,
writes where nobody listens. Here such programs write beside a real `holdfast watch`, and each of
its snapshots holds what was in the file at that moment, or names it; and none holds anything but
the last of it once they have ended.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import COMMAND

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")

SIZE = 1 << 16

WRITER = """
    import mmap, os, sys

    path, size, shared = sys.argv[1], int(sys.argv[2]), None
    for line in sys.stdin:
        word, _, byte = line.strip().partition(" ")
        if word == "map":
            # The descriptor is closed at once: from here on there is the mapping alone.
            fd = os.open(path, os.O_RDWR)
            shared = mmap.mmap(fd, 0)
            os.close(fd)
        elif word == "look":
            # Where files are memory, pages that were read before move no time when written.
            assert len(set(shared[:])) == 1
        elif word == "fill":
            shared[:] = byte.encode() * size
        elif word == "unmap":
            shared.close()
        elif word == "put":
            fd = os.open(path, os.O_WRONLY)
            assert os.pwrite(fd, byte.encode() * size, 0) == size
            os.close(fd)
        print(line, end="", flush=True)
"""


class Writer:
    """A program that writes to a file when it is told to, and says when it has."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(SIZE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, *lines: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for line in lines:
            self.process.stdin.write(f"{line}\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == f"{line}\n"

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


class Project:
    """A directory that is watched, and its vault."""

    def __init__(self, folder: Path, vault: Path) -> None:
        self.directory = folder / "project"
        self.vault = vault
        self.environ = {**os.environ, "HOME": str(folder), "HOLDFAST_DATA": str(vault)}
        (self.directory / "deep").mkdir(parents=True)
        self.file = self.directory / "deep/file"
        self.file.write_bytes(b"0" * SIZE)
        (self.directory / "other").write_text("not written to")
        self.run("init")
        self.opened = holdfast.open(vault)
        found = self.opened.find_workspace(self.directory)
        assert found is not None
        self.namespace = found.namespace

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def watch(self) -> None:
        """Lets another process answer from here on, one that has looked at everything once."""
        self.run("watch", "--background", "--no-snapshots")
        self.run("status")

    def snapshot(self) -> "Taken":
        return Taken(self, json.loads(self.run("snapshot", "--json")))

    def assert_believed(self, byte: str) -> None:
        """The next snapshot holds what is there and vouches for it; a restore brings it back."""
        taken = self.snapshot()
        assert taken.held() == byte
        assert taken.in_motion == []
        self.file.write_bytes(b"?" * SIZE)
        restored = json.loads(self.run("restore", taken.id, "--json"))
        assert restored["verified"]
        assert self.file.read_bytes() == byte.encode() * SIZE


class Taken:
    """A snapshot, as the command says."""

    def __init__(self, project: Project, document: dict[str, Any]) -> None:
        self._project = project
        self.id: str = document["snapshot_id"]
        self.in_motion = [each["path"] for each in document["coverage"]["in_motion"]]

    def held(self) -> str:
        """Returns the byte that the file is full of, in this snapshot."""
        data = self._project.namespace.at(self.id).files.read("deep/file")
        assert data == data[:1] * SIZE, "a mixture, although nobody wrote meanwhile"
        return data[:1].decode()


@pytest.fixture(params=["disk", "memory"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    memory = "/dev/shm"
    if request.param == "memory" and not os.path.isdir(memory):
        pytest.skip("there is no file system in memory")
    place = memory if request.param == "memory" else str(tmp_path)
    with tempfile.TemporaryDirectory(prefix="holdfast-", dir=place) as folder:
        project = Project(Path(folder), tmp_path / "vault")
        yield project
        project.opened.close()
        subprocess.run(
            [*COMMAND, "watch", "--stop"],
            cwd=project.directory,
            env=project.environ,
            capture_output=True,
            check=False,
        )


@pytest.fixture
def writer(project: Project) -> Iterator[Writer]:
    writer = Writer(project.file)
    yield writer
    writer.process.kill()
    writer.process.communicate()


def test_a_mapping_that_is_made_beside_a_watch_is_captured_and_named(
    project: Project, writer: Writer
) -> None:
    project.watch()
    writer.tell("map", "look")
    assert project.snapshot().held() == "0"
    for byte in "123":
        writer.tell(f"fill {byte}")
        taken = project.snapshot()
        assert taken.held() == byte
        assert taken.in_motion == ["deep/file"]
    writer.tell("fill 4")
    writer.end()
    project.assert_believed("4")


def test_a_mapping_that_is_older_than_the_watch_is_captured_and_named(
    project: Project, writer: Writer
) -> None:
    writer.tell("map", "look")
    project.watch()
    assert project.snapshot().held() == "0"
    for byte in "12":
        writer.tell(f"fill {byte}")
        taken = project.snapshot()
        assert taken.held() == byte
        assert taken.in_motion == ["deep/file"]
    writer.tell("fill 3", "unmap")
    project.assert_believed("3")


def test_a_mapping_that_came_and_went_between_two_snapshots_is_captured(
    project: Project, writer: Writer
) -> None:
    project.watch()
    for byte in "12":
        writer.tell("map", "look", f"fill {byte}", "unmap")
        taken = project.snapshot()
        assert taken.held() == byte
        assert taken.in_motion == []
    project.assert_believed("2")


def test_a_mapping_is_seen_wherever_its_folder_went_and_came_from(
    project: Project, writer: Writer
) -> None:
    project.watch()
    away = project.directory / "away"
    (project.directory / "deep").rename(away)
    away.rename(project.directory / "deep")
    writer.tell("map", "look")
    assert project.snapshot().held() == "0"
    writer.tell("fill 1")
    assert project.snapshot().held() == "1"
    writer.end()
    project.assert_believed("1")


def test_what_is_written_through_a_name_outside_of_the_directory_is_captured(
    project: Project,
) -> None:
    outside = project.directory.parent / "outside"
    outside.hardlink_to(project.file)
    project.run("snapshot")
    project.watch()
    writer = Writer(outside)
    for byte in "12":
        writer.tell(f"put {byte}")
        taken = project.snapshot()
        assert taken.held() == byte
        assert taken.in_motion == []
    writer.tell("map", "fill 3")
    taken = project.snapshot()
    assert taken.held() == "3"
    assert taken.in_motion == ["deep/file"]
    writer.tell("fill 4")
    assert project.snapshot().held() == "4"
    writer.tell("fill 5")
    writer.end()
    project.assert_believed("5")


def test_somebody_who_only_reads_is_not_named(project: Project) -> None:
    project.watch()
    with open(project.file, "rb") as file:
        assert file.read(1) == b"0"
        assert project.snapshot().in_motion == []
        shutil.copy(project.file, project.vault.parent / "copied")
        assert project.snapshot().in_motion == []

"""A vault whose catalog is gone while its packs are there: every door calls it lost.

To take it for a vault that was never there would be to make a new one in its place.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.errors import CatalogLost
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

DAMAGED = 5
NOISE = Random(1).randbytes(400_000)


class Project:
    """A directory with a vault of its own, in which commands are typed."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.folder = folder / "project"
        self.vault = self.folder / ".holdfast"
        self.folder.mkdir()
        (self.folder / "model.bin").write_bytes(NOISE)
        self.environ = environment(folder)

    def __call__(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *argv],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def project(tmp_path: Path, warm: tuple[str, ...]) -> Project:
    project = Project(tmp_path, warm)
    assert project("init", "--local").returncode == 0
    assert list(project.vault.rglob("*.pack"))
    return project


def remove(vault: Path) -> None:
    (vault / "catalog.sqlite").unlink()


def empty(vault: Path) -> None:
    (vault / "catalog.sqlite").write_bytes(b"")


def remove_with_locks(vault: Path) -> None:
    """As a copy that took the packs alone."""
    remove(vault)
    for lock in (vault / "locks").iterdir():
        lock.unlink()


def everything_in(vault: Path) -> dict[str, bytes]:
    return {
        path.relative_to(vault).as_posix(): path.read_bytes()
        for path in sorted(vault.rglob("*"))
        if path.is_file()
    }


COMMANDS = (
    ("verify",),
    ("status",),
    ("log",),
    ("snapshot",),
    ("undo",),
    ("gc",),
    ("du",),
    ("workspaces",),
    ("init", "--local"),
    ("init",),
    ("watch", "--background"),
    ("keys", "--data", ".holdfast"),
    ("serve", "--data", ".holdfast", "--port", "0"),
)


def test_every_command_calls_a_lost_catalog_lost(project: Project) -> None:
    remove(project.vault)
    before = everything_in(project.vault)
    for argv in COMMANDS:
        done = project(*argv, "--json")
        assert done.returncode == DAMAGED, (argv, done)
        error = json.loads(done.stderr)["error"]
        assert error["code"] == "catalog_lost", argv
        assert "copy of the vault" in error["hint"], argv
        assert "`holdfast reinstate BACKUP NEWDIR`" in error["hint"], argv
        assert everything_in(project.vault) == before, (argv, "it is evidence")


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda data: Random(6).randbytes(len(data)),
    "cut": lambda data: data[:-1],
    "no database": lambda data: b"x" + data[1:],
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_catalog_that_cannot_be_read_is_not_sent_in_a_circle(
    project: Project, harm: Callable[[bytes], bytes]
) -> None:
    catalog = project.vault / "catalog.sqlite"
    catalog.write_bytes(harm(catalog.read_bytes()))
    for name in ("verify", "log"):
        done = project(name, "--json")
        assert done.returncode == DAMAGED, done
        error = json.loads(done.stderr)["error"]
        assert error["code"] == "damaged"
        assert "`holdfast reinstate BACKUP NEWDIR`" in error["hint"]
        assert "holdfast verify" not in error["hint"]


@pytest.mark.parametrize("lose", [remove, empty, remove_with_locks])
def test_however_it_was_lost_it_is_called_lost(
    project: Project, lose: Callable[[Path], None]
) -> None:
    lose(project.vault)
    for argv in (("verify",), ("log",)):
        done = project(*argv)
        assert (done.returncode, "is lost" in done.stderr) == (DAMAGED, True), done
    for _ in range(2):
        with pytest.raises(CatalogLost, match="is lost"):
            holdfast.open(project.vault)
    with pytest.raises(CatalogLost):
        holdfast.Store.open(project.vault)
    if lose is not empty:
        assert not (project.vault / "catalog.sqlite").exists()


def test_doctor_fails_for_a_lost_catalog_and_says_what_helps(project: Project) -> None:
    remove(project.vault)
    done = project("doctor", "--json")
    assert done.returncode == 1
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["catalog"]["state"] == "fail"
    assert "is lost" in checks["catalog"]["message"]
    assert "copy of the vault" in checks["catalog"]["to_do"]


def test_nothing_is_said_to_be_left_where_there_are_no_packs(tmp_path: Path) -> None:
    """What is small lies in the catalog itself, and is lost with it."""
    vault = tmp_path / "vault"
    with holdfast.open(vault) as opened:
        opened.namespace("alice").snapshot("small")
    remove(vault)
    with pytest.raises(CatalogLost) as caught:
        holdfast.open(vault)
    assert "no packs lie beside it" in str(caught.value)
    assert "still there" not in str(caught.value)
    assert "if there are any" in caught.value.hint


def test_a_vault_that_never_was_is_not_lost(tmp_path: Path) -> None:
    for name in ("packs", "locks"):
        (tmp_path / "vault" / name).mkdir(parents=True)
    (tmp_path / "vault/locks/open").touch()
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.verify().ok

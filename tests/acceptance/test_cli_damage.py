"""Damage, as people meet it on a command line: nothing is a dead end, and nothing is claimed."""

import json
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.testing.flips import flip_in_file
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory


class User:
    """Somebody with a vault, and two directories that hold the same."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.folder = folder
        self.environ = environment(folder, HOLDFAST_DATA=str(folder / "vault"))
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "model.bin").write_bytes(Random(1).randbytes(400_000))
            (folder / name / "notes.txt").write_text("dear\n")

    def run(self, where: str, *argv: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [*self.command, *argv],
            cwd=self.folder / where,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def ok(self, where: str, *argv: str) -> str:
        code, out, err = self.run(where, *argv)
        assert code == 0, (argv, out, err)
        return out

    def document(self, where: str, *argv: str) -> tuple[int, Any]:
        code, out, _ = self.run(where, *argv, "--json")
        return code, json.loads(out)

    def packs(self) -> list[Path]:
        return sorted((self.folder / "vault" / "packs").rglob("*.pack"))


@pytest.fixture
def user(tmp_path: Path, warm: tuple[str, ...]) -> User:
    return User(tmp_path, warm)


def flip(path: Path) -> None:
    flip_in_file(path, path.stat().st_size // 2)


def test_the_same_bytes_in_another_directory_are_kept_although_a_bit_flipped(user: User) -> None:
    user.ok("one", "init")
    [pack] = user.packs()
    flip(pack)
    user.ok("two", "init")
    (user.folder / "two" / "model.bin").unlink()
    user.ok("two", "undo")
    assert (user.folder / "two" / "model.bin").read_bytes() == Random(1).randbytes(400_000)


def test_what_is_stored_anew_is_told_as_a_sentence(user: User) -> None:
    user.ok("one", "init")
    [pack] = user.packs()
    flip(pack)
    code, _, err = user.run("two", "init")
    assert code == 0
    assert err == (
        "1 object whose stored copy was damaged was stored anew; "
        "`holdfast verify` says what else is damaged.\n"
    )


def test_a_namespace_whose_packs_are_gone_goes_on(user: User) -> None:
    """Its map is too large for the catalog: with its packs, all of its nodes are gone."""
    for number in range(2000):
        (user.folder / "one" / f"{number}-{'x' * 200}").write_bytes(Random(number).randbytes(200))
    user.ok("one", "init")
    for pack in user.packs():
        pack.unlink()
    wanted = {path.name: path.read_bytes() for path in (user.folder / "one").iterdir()}

    for command in (["export", "head.tar"], ["restore", "@", "--to", "elsewhere"], ["gc"]):
        code, _, err = user.run("one", *command)
        assert code == 5, command
        assert "holdfast repair" in err
    shutil.rmtree(user.folder / "one" / "elsewhere", ignore_errors=True)
    (user.folder / "one" / "head.tar").unlink(missing_ok=True)
    code, told = user.document("one", "doctor")
    assert [check["state"] for check in told["checks"] if check["name"] == "packs"] == ["fail"]

    user.ok("one", "snapshot", "-m", "all of it is here")
    for name in wanted:
        (user.folder / "one" / name).unlink()
    user.ok("one", "undo")
    assert {path.name: path.read_bytes() for path in (user.folder / "one").iterdir()} == wanted
    user.ok("one", "restore", "@", "--to", "../elsewhere")
    user.ok("one", "export", "../head.tar")
    user.ok("one", "repair")
    user.ok("one", "verify")
    user.ok("one", "gc")


def test_repair_says_what_is_lost_and_a_copy_brings_it_back(user: User) -> None:
    first = json.loads(user.ok("one", "init", "--json"))
    shutil.copytree(user.folder / "vault", user.folder / "copy")
    (user.folder / "one" / "model.bin").write_bytes(b"now another")
    user.ok("one", "snapshot")
    [pack] = user.packs()
    flip(pack)

    code, told = user.document("one", "repair")
    assert code == 5
    assert not told["ok"]
    assert {lost["what"] for lost in told["lost"]} == {"files: model.bin"}
    assert {snapshot for lost in told["lost"] for snapshot in lost["snapshots"]} == {
        first["snapshot_id"]
    }
    assert pack.exists()
    code, out, _ = user.run("one", "repair")
    assert code == 5
    assert "files: model.bin: lacking in" in out

    code, told = user.document("one", "repair", "--from", "../copy")
    assert (code, told["ok"], told["lost"]) == (0, True, [])
    assert pack.name.removesuffix(".pack") in told["replaced"]
    user.ok("one", "verify")
    user.ok("one", "restore", first["snapshot_id"])
    assert (user.folder / "one" / "model.bin").read_bytes() == Random(1).randbytes(400_000)


def test_repair_refuses_a_place_that_is_not_there(user: User) -> None:
    user.ok("one", "init")
    flip(user.packs()[0])
    (user.folder / "one" / "model.bin").unlink()
    code, _, err = user.run("one", "repair", "--from", "nowhere")
    assert code == 3
    assert "nowhere" in err

"""Directories that are recreated, swapped, linked or closed to everybody, as somebody types it."""

import json
import re
import shlex
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.flips import flip_in_file

from .test_cli import Session, without_rights
from .test_cli_lost_directory import Shell

pytestmark = pytest.mark.in_memory


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Shell:
    made = Shell(tmp_path, warm)
    made.ok("cd work/shop; holdfast init -q")
    return made


@pytest.fixture
def user(tmp_path: Path, warm: tuple[str, ...]) -> Session:
    made = Session(tmp_path, warm)
    made.ok("init", "-q")
    return made


def test_a_guarded_command_that_makes_the_directory_anew_is_rolled_back(shell: Shell) -> None:
    ruins = "rm -rf ../shop; mkdir ../shop; echo new > ../shop/new; exit 3"
    done = shell(f"cd work/shop; holdfast run --rollback-on-failure --json -- sh -c '{ruins}'")
    assert done.code == 3
    told = json.loads(done.out)
    assert told["rolled_back"]["verified"]
    assert shell.is_whole()
    kept = told["after"]["snapshot_id"]
    shell.ok(f"cd work/shop; holdfast restore {kept} --to ~/did -q")
    assert (shell.home / "did/new").read_text() == "new\n"


def test_a_directory_that_a_command_has_moved_is_not_given_up(shell: Shell) -> None:
    moves = "mv ../shop ../old; mkdir ../shop; echo new > ../shop/new; exit 3"
    done = shell(f"cd work/shop; holdfast run --rollback-on-failure -- sh -c '{moves}'")
    assert done.code == 3
    assert str(shell.home / "work/old") in done.err
    assert shell.is_whole(shell.home / "work/old")
    assert (shell.shop / "new").exists()


def test_directories_that_swap_names_are_followed(shell: Shell) -> None:
    shell.ok("mkdir s1 s2; echo 1 > s1/a; echo 2 > s2/b; holdfast init -q s1; holdfast init -q s2")
    shell.ok("mv s1 t; mv s2 s1; mv t s2; rm s1/b; echo 3 > s2/a")
    assert "s1 was" in shell.ok("cd s1; holdfast undo").err
    assert "s2 was" in shell.ok("cd s2; holdfast undo").err
    assert (shell.home / "s1/b").read_text() == "2\n"
    assert (shell.home / "s2/a").read_text() == "1\n"
    found = json.loads(shell.ok("holdfast workspaces --json").out)["workspaces"]
    assert {(Path(each["path"]).name, each["namespace"]) for each in found} == {
        ("shop", "shop"),
        ("s1", "s2"),
        ("s2", "s1"),
    }


@pytest.mark.parametrize("typed", ["cd ~/work/shop; holdfast undo", "holdfast -C work/shop undo"])
def test_a_link_in_the_place_of_the_directory_is_called_one(shell: Shell, typed: str) -> None:
    shell.ok("mkdir tgt; rm -rf work/shop; ln -s ~/tgt work/shop")
    done = shell(typed)
    assert done.code == 4
    assert "is a link, not the directory that is attached" in done.err
    assert not [*(shell.home / "tgt").iterdir()]


def test_what_goes_on_with_a_history_names_the_directory(shell: Shell) -> None:
    """Typed where the command was typed, the hint does not attach what is around."""
    shell.ok("cp -r work/shop copy; rm -rf work/shop")
    for typed in ("holdfast init copy", "holdfast -C copy status"):
        done = shell(typed)
        assert done.code in (3, 4)
        hints = re.findall(r"`(holdfast init [^`]*)`", done.err)
        assert hints, done
        for hint in hints:
            assert shlex.split(hint)[-1] == str(shell.home / "copy")
    shell.ok(hints[0])
    assert shell.is_whole(shell.home / "copy")
    assert "copy" in shell.ok("cd copy; holdfast status").out


def test_an_undo_that_fails_leaves_no_empty_directory(shell: Shell) -> None:
    (shell.shop / "model.bin").write_bytes(Random(1).randbytes(400_000))
    shell.ok("cd work/shop; holdfast snapshot -q")
    for pack in (shell.home / ".local/share/holdfast").rglob("*.pack"):
        flip_in_file(pack, pack.stat().st_size // 2)
    done = shell("rm -rf work/shop; holdfast -C work/shop undo")
    assert done.code == 5
    assert "model.bin" in done.err
    assert not shell.shop.exists()
    # The hint brings back all but that.
    hint = re.findall(r"`(holdfast restore [^`]*)`", done.err)[0]
    shell.ok(hint.replace("holdfast", "holdfast -C work/shop", 1))
    assert shell.is_whole()


def test_a_folder_that_may_not_be_read_is_called_that(user: Session) -> None:
    user.write("f1", "one\n")
    user.ok("snapshot", "-q")
    (user.project / "f1").unlink()
    user.write("f1/u", "u\n")
    (user.project / "f1").chmod(0)
    done = user("undo", preexec_fn=without_rights)
    assert done.code == 4
    assert "changed while" not in done.err
    assert "chmod -R u+rwX" in done.err
    done = user("undo", "--force", preexec_fn=without_rights)
    assert (done.code, (user.project / "f1").read_text()) == (0, "one\n")
    assert "verified" in done.out


def test_force_opens_a_folder_that_is_closed(user: Session) -> None:
    user.write("x/y", "1\n")
    user.ok("snapshot", "-q")
    (user.project / "x").chmod(0)
    assert user("undo", preexec_fn=without_rights).code == 4
    done = user("undo", "--force", preexec_fn=without_rights)
    assert done.code == 0, done
    assert (user.project / "x/y").read_text() == "1\n"

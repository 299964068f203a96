"""A directory that was deleted, moved, renamed, replaced or let go of, as somebody types it.

Everything runs in a shell: it is the shell's idea of where it is that outlives a deleted
directory.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.shells import environment

from .test_cli import Done

pytestmark = pytest.mark.in_memory

FILES = {"readme.md": "hello\n", "src/app.py": "x = 1\n", "src/deep/a.txt": "a\n"}


class Shell:
    """A user with a home, a vault of their own and a project at ~/work/shop."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.home = folder / "home"
        self.shop = self.home / "work" / "shop"
        for name, text in FILES.items():
            path = self.shop / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        places = (str(Path(command[0]).parent), os.environ["PATH"])
        self.environ = environment(self.home, PATH=os.pathsep.join(places))

    def __call__(self, script: str) -> Done:
        done = subprocess.run(
            ["sh", "-c", script],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
            cwd=self.home,
            env=self.environ,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, script: str) -> Done:
        done = self(script)
        assert done.code == 0, (script, done)
        return done

    def is_whole(self, place: Path | None = None) -> bool:
        top = place or self.shop
        found = {
            path.relative_to(top).as_posix(): path.read_text()
            for path in top.rglob("*")
            if path.is_file()
        }
        return found == FILES


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Shell:
    made = Shell(tmp_path, warm)
    made.ok("cd work/shop; holdfast init -q")
    return made


# Deleted


@pytest.mark.parametrize(
    "typed",
    [
        "cd ~/work/shop; rm -rf ~/work/shop; holdfast undo",
        "cd ~/work/shop; rm -rf ~/work/shop; holdfast -C ~/work/shop undo",
        "cd ~/work/shop/src; rm -rf ~/work/shop; holdfast undo",
        "cd ~/work/shop/src; rm -rf ../src; holdfast undo",
        "rm -rf ~/work/shop; holdfast -C ~/work/shop undo",
        "rm -rf ~/work/shop; holdfast -C ~/work/shop/src undo",
        "cd ~/work; rm -rf shop; holdfast undo",
        "rm -rf ~/work; holdfast -C ~/work/shop undo",
        "cd ~/work/shop; rm -rf ~/work; holdfast undo",
        "cd ~/work/shop; rm -rf ~/work/shop; holdfast restore @",
        "rm -rf ~/work/shop; mkdir ~/work/shop; cd ~/work/shop; holdfast undo",
    ],
)
def test_a_deleted_directory_comes_back(shell: Shell, typed: str) -> None:
    done = shell.ok(typed)
    assert "verified" in done.out
    assert shell.is_whole()
    if "mkdir" not in typed and "../src" not in typed:
        assert "missing" in done.out
        assert "made anew" in done.out
        assert str(shell.shop) in done.out
    assert "Nothing has changed." in shell.ok("cd work/shop; holdfast status").out


def test_a_private_directory_comes_back_private(shell: Shell) -> None:
    shell.shop.chmod(0o700)
    shell.ok("cd work/shop; holdfast status; cd ..; rm -rf shop; umask 000; holdfast undo")
    assert shell.shop.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("command", ["status", "diff", "snapshot", "run -- true", "watch"])
def test_what_needs_the_directory_says_that_it_is_missing(shell: Shell, command: str) -> None:
    done = shell(f"cd work/shop; rm -rf ~/work/shop; holdfast {command}")
    assert done.code == 1, done
    assert f"the directory {shell.shop} is missing" in done.err
    assert "`holdfast undo` brings it back" in done.err
    assert "Traceback" not in done.err
    shell.ok("cd work; holdfast undo")
    assert shell.is_whole()


def test_what_does_not_need_the_directory_works_without_it(shell: Shell) -> None:
    shutil.rmtree(shell.shop)
    log = shell.ok("holdfast -C work/shop log")
    assert "first snapshot" in log.out
    assert f"the directory {shell.shop} is missing" in log.err
    assert f"`holdfast -C {shell.shop} undo` brings it back" in log.err
    doctor = shell("holdfast -C work/shop doctor")
    assert doctor.code == 1
    assert f"the directory {shell.shop} is missing" in doctor.out
    assert "undo` brings it back" in doctor.out
    assert "(not there)" in shell.ok("holdfast workspaces").out
    shell.ok(f"holdfast -C {shell.shop} undo")
    assert shell.is_whole()


def test_a_place_that_no_vault_knows_is_refused_in_a_sentence(shell: Shell) -> None:
    done = shell("mkdir other; cd other; rmdir ../other; holdfast undo")
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert f"the directory that you are in is gone ({shell.home}/other)" in done.err
    done = shell("mkdir other; cd other; rmdir ../other; unset PWD; PWD=x holdfast undo")
    assert done.code == 2
    assert "the directory that you are in is gone" in done.err
    assert shell("holdfast -C nowhere undo").code == 2


def test_the_command_that_run_guards_removes_the_directory(shell: Shell) -> None:
    done = shell(
        "cd work/shop; holdfast run --rollback-on-failure -- sh -c 'rm -rf ~/work/shop; exit 7'"
    )
    assert done.code == 7
    assert shell.is_whole()
    assert f"{shell.shop} was missing and was made anew" in done.err
    without = shell("cd work/shop; holdfast run -- sh -c 'rm -rf ~/work/shop; exit 8'")
    assert without.code == 8
    assert f"the directory {shell.shop} is missing; `holdfast undo` brings it back" in without.err
    shell.ok("cd work; holdfast undo")
    assert shell.is_whole()


def test_what_run_cannot_roll_back_is_said_beside_the_exit_code_of_its_command(
    shell: Shell,
) -> None:
    script = "rm -rf ~/work/shop; ln -s /etc ~/work/shop; exit 7"
    done = shell(f"cd work/shop; holdfast run --rollback-on-failure -- sh -c '{script}'")
    assert done.code == 7, done
    assert f"{shell.shop} is a link" in done.err
    assert "failed with 7, and what it did is not kept" in done.err
    shell.ok(f"rm work/shop; holdfast -C {shell.shop} undo")
    assert shell.is_whole()


@pytest.mark.parametrize("is_readable", [True, False])
def test_a_run_that_was_rolled_back_is_noted_as_one(shell: Shell, is_readable: bool) -> None:
    left = "true" if is_readable else "head -c 3000000 /dev/zero > .holdfastignore"
    script = f"echo x > made.txt; {left}; exit 7"
    done = shell(f"cd work/shop; holdfast run --rollback-on-failure -- sh -c '{script}'")
    assert done.code == 7, done
    with holdfast.open(shell.home / ".local/share/holdfast") as vault:
        (task,) = vault.namespace("shop").tasks.list()
    assert (task.status, task.restored is not None) == ("failed", True)
    # What it did is kept by the rules that it found, whatever it made of them.
    assert task.after is not None


@pytest.mark.parametrize("put", ["ln -s ~/elsewhere ~/work/shop", "echo x > ~/work/shop"])
def test_nothing_is_written_through_what_stands_in_its_place(shell: Shell, put: str) -> None:
    shell.ok("mkdir elsewhere; rm -rf work/shop")
    shell.ok(put)
    done = shell("cd work; holdfast undo")
    assert done.code == 4, done
    assert f"{shell.shop} is a" in done.err
    assert "Move it away, and `holdfast undo` brings it back" in done.err
    assert os.listdir(shell.home / "elsewhere") == []
    shell.ok("cd work; mv shop away; holdfast undo")
    assert shell.is_whole()


def test_a_link_in_the_place_of_its_parent_is_not_followed(shell: Shell) -> None:
    shell.ok("mkdir elsewhere; rm -rf work; ln -s ~/elsewhere work")
    assert shell(f"holdfast -C {shell.home}/work/shop undo").code in (2, 3)
    assert os.listdir(shell.home / "elsewhere") == []


def test_another_directory_at_the_old_path_is_not_taken_for_the_project(shell: Shell) -> None:
    shell.ok("mv work/shop kept; mkdir work/shop; echo mine > work/shop/theirs.txt")
    shell.ok("rm -rf kept")
    for command in ("undo", "status", "snapshot", "restore @", "init"):
        done = shell(f"cd work/shop; holdfast {command}")
        assert done.code == 4, (command, done)
        assert "is another directory, not the directory that is attached" in done.err
        assert "`holdfast init --namespace shop`" in done.err
    assert os.listdir(shell.shop) == ["theirs.txt"]

    taken = shell.ok("cd work/shop; holdfast init --namespace shop")
    assert "attached" in taken.out.lower()
    shell.ok("cd work/shop; holdfast undo")
    assert shell.is_whole()
    shell.ok("cd work/shop; holdfast redo")
    assert os.listdir(shell.shop) == ["theirs.txt"]


def test_the_project_put_back_by_somebody_is_the_project(shell: Shell) -> None:
    shell.ok("cp -r work/shop copy; rm -rf work/shop; mv copy work/shop")
    assert "Nothing has changed." in shell.ok("cd work/shop; holdfast status").out


# Meant from elsewhere


@pytest.mark.parametrize("command", ["undo", "status"])
def test_a_directory_that_is_gone_with_its_parents_is_not_the_one_above(
    shell: Shell, command: str
) -> None:
    shell.ok("mkdir -p work/shop/par/proj other; echo deep > work/shop/par/proj/x")
    shell.ok("holdfast detach shop; rm -rf work/shop/src; echo words > work/shop/thesis.txt")
    shell.ok("cd work/shop/par/proj; holdfast init -q; rm -rf ~/work/shop/par")
    proj = shell.shop / "par" / "proj"
    for place in ("work/shop", "work", "."):
        done = shell(f"cd {place}; holdfast {command}")
        assert done.code == 3, done
        assert f"`holdfast -C {proj} undo` brings it back" in done.err
        assert "Moved?" not in done.err
        assert "init --namespace" not in done.err
    other = shell(f"cd other; holdfast {command}")
    assert other.code == 3
    assert "Moved?" not in other.err
    shell.ok(f"cd work/shop; holdfast -C {proj} undo")
    assert (proj / "x").read_text() == "deep\n"
    assert (shell.shop / "thesis.txt").read_text() == "words\n"


def test_of_several_that_are_gone_each_is_named(shell: Shell) -> None:
    for name in ("one", "two"):
        shell.ok(f"mkdir -p deep/{name}/p; cd deep/{name}/p; echo {name} > f; holdfast init -q")
    shell.ok("rm -rf deep/one deep/two")
    done = shell("cd deep; holdfast undo")
    assert done.code == 3
    assert f"{shell.home}/deep/one/p, {shell.home}/deep/two/p are missing" in done.err
    shell.ok(f"cd deep; holdfast -C {shell.home}/deep/two/p undo")
    done = shell("cd deep; holdfast undo")
    assert f"`holdfast -C {shell.home}/deep/one/p undo` brings it back" in done.err


def test_a_place_that_looks_a_little_like_the_project_is_asked_about(shell: Shell) -> None:
    shell.ok("rm -rf work/shop; mkdir alike; echo hello > alike/readme.md")
    done = shell("cd alike; holdfast undo")
    assert done.code == 3
    assert "Moved? `holdfast init --namespace shop` goes on with the history of" in done.err


@pytest.mark.parametrize("deep", ["", "/sub"])
def test_what_stands_in_its_place_is_moved_away_by_a_shell_that_is_in_it(
    shell: Shell, deep: str
) -> None:
    shell.ok("rm -rf work/shop; mkdir -p work/shop/sub; echo mine > work/shop/sub/theirs.txt")
    refused = shell(f"cd work/shop{deep}; holdfast undo")
    assert refused.code == 4
    assert f"Move it away, and `holdfast -C {shell.shop} undo` brings it back" in refused.err

    done = shell.ok(f"cd work/shop{deep}; mv ~/work/shop ~/work/aside; holdfast undo")
    assert f"{shell.shop}, which is attached, missing, and meant" in done.err
    assert f"`cd {shell.shop}` again" in done.out
    assert shell.is_whole()
    assert os.listdir(shell.home / "work/aside/sub") == ["theirs.txt"]


def test_what_was_moved_away_is_not_the_directory_around_it_either(shell: Shell) -> None:
    shell.ok("cd work; echo notes > notes.txt; holdfast init -q")
    shell.ok("rm -rf work/shop; mkdir work/shop; echo mine > work/shop/theirs.txt")
    shell.ok("cd work/shop; mv ~/work/shop ~/work/aside; holdfast undo")
    assert shell.is_whole()
    assert (shell.home / "work/aside/theirs.txt").exists()
    assert (shell.home / "work/notes.txt").exists()


@pytest.mark.parametrize("put", ["", "mkdir work/shop; echo mine > work/shop/theirs.txt"])
@pytest.mark.parametrize("place", ["work/store", "store", "old/store"])
def test_a_directory_that_was_only_moved_is_not_made_twice(
    shell: Shell, place: str, put: str
) -> None:
    shell.ok(f"mkdir old; mv work/shop {place}; {put}")
    done = shell(f"holdfast -C {shell.shop} undo")
    assert done.code == (4 if put else 1), done
    assert f"{shell.home / place} now" in done.err
    assert f"`cd {shell.home / place}`, or `holdfast -C {shell.home / place} …`" in done.err
    assert os.path.lexists(shell.shop) is bool(put)
    shell.ok(f"holdfast -C {shell.home / place} status")
    assert "(not there)" not in shell.ok("holdfast workspaces").out


def test_a_shell_in_a_directory_that_was_moved_goes_on_with_it(shell: Shell) -> None:
    done = shell.ok("cd work/shop; echo more > new.txt; mv ~/work/shop ~/store; holdfast undo")
    assert "missing" not in done.err
    assert shell.is_whole(shell.home / "store")


def test_who_is_in_a_directory_that_was_deleted_is_told_to_enter_it_again(shell: Shell) -> None:
    done = shell.ok("cd work/shop/src; rm -rf ~/work/shop; holdfast undo")
    assert f"was missing, and was made anew. `cd {shell.shop}` again" in done.out
    assert "again" not in shell.ok("cd work; rm -rf shop; holdfast undo").out


# Alike


@pytest.mark.parametrize(
    ("was", "files"),
    [
        ({"__init__.py": "", ".gitignore": "*.pyc\n", "a.py": "a"}, {"b.py": "bb"}),
        ({"f": "1\n", "g": "two\n"}, {"h": "three\n"}),
    ],
)
def test_a_project_that_shares_little_with_a_missing_one_is_attached(
    shell: Shell, was: dict[str, str], files: dict[str, str]
) -> None:
    shared = {name: text for name, text in was.items() if name not in ("a.py", "g")}
    for place, held in (("old", was), ("new", shared | files)):
        (shell.home / place).mkdir()
        for name, text in held.items():
            (shell.home / place / name).write_text(text)
    shell.ok("cd old; holdfast init -q; rm -rf ~/old")
    begun = shell.ok("cd new; holdfast init")
    assert "as namespace new" in begun.out
    assert f"some files like those of {shell.home}/old, which is missing" in begun.err
    assert "`holdfast detach new`, then `holdfast init --namespace old`" in begun.err
    shell.ok("cd new; holdfast detach new; holdfast init --namespace old")
    assert "namespace old" in shell.ok("cd new; holdfast status").out


# Watched


def test_a_directory_that_is_watched_comes_back_and_is_watched_again(shell: Shell) -> None:
    shell.ok("cd work/shop; holdfast watch --background --quiet-for 0.1")
    try:
        assert "made anew" in shell.ok("cd work/shop; rm -rf ~/work/shop; holdfast undo").out
        assert shell.is_whole()
        assert "Nothing has changed." in shell.ok("cd work/shop; holdfast status").out
        shutil.rmtree(shell.shop)
        assert "made anew" in shell.ok(f"holdfast -C {shell.shop} undo").out
        assert shell.is_whole()
        shutil.rmtree(shell.shop)
    finally:
        shell.ok(f"holdfast -C {shell.shop} watch --stop")


# Moved


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("mkdir work2; mv work/shop work2/shop", "work2/shop"),
        ("mv work/shop work/store", "work/store"),
        ("mv work work3", "work3/shop"),
        ("mv work/shop kept; mkdir work/shop; touch work/shop/other; mv kept moved", "moved"),
    ],
)
def test_a_moved_directory_keeps_its_history(shell: Shell, typed: str, place: str) -> None:
    shell.ok(typed)
    shell.ok(f"echo more > {place}/more.txt")
    status = shell.ok(f"cd {place}/src; holdfast status")
    assert "+ ../more.txt" in status.out
    assert f"was {shell.shop} before" in status.err
    assert "first snapshot" in shell.ok(f"cd {place}; holdfast log").out
    assert "is attached already" in shell.ok(f"cd {place}; holdfast init").out
    shell.ok(f"cd {place}; holdfast undo")
    assert shell.is_whole(shell.home / place)
    listed = shell.ok("holdfast workspaces").out
    assert str(shell.home / place) in listed
    assert "(not there)" not in listed


def test_init_in_a_moved_directory_goes_on_with_its_history(shell: Shell) -> None:
    shell.ok("mkdir work2; mv work/shop work2/shop")
    begun = shell.ok("cd work2/shop; holdfast init")
    assert "as namespace shop, and its history goes on" in begun.out
    assert f"It was {shell.shop} before." in begun.out
    assert "first snapshot" in shell.ok("cd work2/shop; holdfast log").out


def test_a_directory_that_came_from_another_file_system_is_pointed_to_its_history(
    shell: Shell,
) -> None:
    # Copied and removed: what `mv` does across file systems.
    shell.ok("mkdir work2; cp -r work/shop work2/; rm -rf work/shop")
    for command in ("status", "log", "undo", "diff"):
        refused = shell(f"cd work2/shop; holdfast {command}")
        assert refused.code == 3
        assert "`holdfast init --namespace shop` goes on with the history of" in refused.err
        assert str(shell.shop) in refused.err
    init = shell("cd work2/shop; holdfast init")
    assert init.code == 4
    assert "`holdfast init --namespace shop` goes on" in init.err
    begun = shell.ok("cd work2/shop; holdfast init --namespace shop")
    assert "and its history goes on" in begun.out
    assert "attached already" not in begun.out
    assert "first snapshot" in shell.ok("cd work2/shop; holdfast log").out
    assert "Nothing has changed." in shell.ok("cd work2/shop; holdfast status").out
    assert "attached already" in shell.ok("cd work2/shop; holdfast init --namespace shop").out


def test_after_a_wrong_init_the_right_one_works(shell: Shell) -> None:
    shell.ok("mkdir work2; cp -r work/shop work2/; rm -rf work/shop")
    shell.ok("cd work2/shop; holdfast init -q --namespace wrong")
    shell.ok("cd work2/shop; holdfast init --namespace shop")
    assert "namespace shop" in shell.ok("cd work2/shop; holdfast status").out
    assert "(not there)" not in shell.ok("holdfast workspaces").out


# Let go of


def test_a_directory_is_let_go_of_and_attached_again(shell: Shell) -> None:
    done = shell.ok("cd work/shop/src; holdfast detach")
    assert f"Detached {shell.shop}; its history stays in the vault." in done.out
    assert shell.is_whole()
    assert shell("cd work/shop; holdfast status").code == 3
    assert str(shell.shop) not in shell.ok("holdfast workspaces").out
    assert "its history goes on" in shell.ok("cd work/shop; holdfast init").out
    assert "first snapshot" in shell.ok("cd work/shop; holdfast log").out


def test_another_directory_of_that_name_does_not_take_the_history(shell: Shell) -> None:
    shell.ok("cd work/shop; holdfast detach")
    shell.ok("mkdir -p other/shop; echo x > other/shop/x; cd other/shop; holdfast init -q")
    assert "namespace shop-" in shell.ok("cd other/shop; holdfast status").out


@pytest.mark.parametrize("which", ["shop", "~/work/shop"])
def test_a_directory_that_is_gone_is_taken_off_the_list(shell: Shell, which: str) -> None:
    shutil.rmtree(shell.shop)
    assert "(not there)" in shell.ok("holdfast workspaces").out
    shell.ok(f"holdfast detach {which}")
    assert "(not there)" not in shell.ok("holdfast workspaces").out
    refused = shell(f"holdfast detach {which}")
    assert refused.code == 3
    assert "`holdfast workspaces` lists them." in refused.err
    shell.ok("mkdir back; cd back; holdfast init -q --namespace shop; holdfast status")
    assert shell.is_whole(shell.home / "back")


def test_a_watched_directory_can_be_let_go_of(shell: Shell) -> None:
    shell.ok("cd work/shop; holdfast watch --background")
    shell.ok("cd work/shop; holdfast detach")
    assert shell("cd work/shop; holdfast watch --stop").code == 3


def test_another_namespace_is_refused_with_a_way_out_that_works(shell: Shell) -> None:
    refused = shell("cd work/shop; holdfast init --namespace fresh")
    assert refused.code == 4
    assert f"{shell.shop} is attached as namespace 'shop'" in refused.err
    assert "`holdfast detach shop`" in refused.err
    shell.ok("holdfast detach shop")
    assert "as namespace fresh" in shell.ok("cd work/shop; holdfast init --namespace fresh").out

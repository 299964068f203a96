"""What `holdfast diff` writes is taken by `git apply` and `patch`: the tree comes out the same."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from .test_cli import Session

pytestmark = pytest.mark.in_memory

Tree = dict[str, tuple[str, bytes, bool]]
"""By path: a kind, its content, whether it can be executed."""

BINARY = Random(1).randbytes(3_000)


@pytest.fixture
def user(tmp_path: Path, warm: tuple[str, ...]) -> Session:
    return Session(tmp_path, warm)


def tree_of(folder: Path) -> Tree:
    found: Tree = {}
    for here, folders, names in os.walk(os.fsencode(folder)):
        paths = [os.path.join(here, name) for name in (*names, *folders)]
        for path in paths:
            if os.path.isdir(path) and not os.path.islink(path):
                continue
            at = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if os.path.islink(path):
                found[at] = ("link", os.readlink(path), False)
            else:
                with open(path, "rb") as file:
                    found[at] = ("file", file.read(), bool(os.stat(path).st_mode & 0o100))
    return found


def put(folder: Path, tree: Tree) -> None:
    """Makes a directory hold exactly this."""
    folder.mkdir(exist_ok=True)
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
    for name, (kind, data, runs) in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            os.symlink(data, os.fsencode(path))
        else:
            path.write_bytes(data)
            path.chmod(0o755 if runs else 0o644)


def patch_of(user: Session, *argv: str) -> bytes:
    return subprocess.run(
        [*user.command, "diff", *argv],
        cwd=user.project,
        env=user.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    ).stdout


def applied(folder: Path, patch: bytes, command: list[str]) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CEILING_DIRECTORIES": "/"}
    done = subprocess.run(
        command, cwd=folder, input=patch, env=environ, capture_output=True, check=False
    )
    assert done.returncode == 0, (done.stderr.decode("utf-8", "replace"), patch[:3000])


def check(user: Session, before: Tree, after: Tree, command: list[str], copy: Path) -> bytes:
    """Lets another program lead from one tree to the other, and back."""
    put(user.project, before)
    user.ok("init", "-q")
    user.ok("snapshot", "-q")
    put(user.project, after)
    patch = patch_of(user)
    put(copy, before)
    applied(copy, patch, command)
    assert tree_of(copy) == after == tree_of(user.project)
    user.ok("snapshot", "-q")
    applied(copy, patch_of(user, "@", "@-1"), command)
    assert tree_of(copy) == before
    return patch


def file(data: bytes | str, *, runs: bool = False) -> tuple[str, bytes, bool]:
    return "file", data if isinstance(data, bytes) else data.encode(), runs


def link(target: str) -> tuple[str, bytes, bool]:
    return "link", os.fsencode(target), False


ODD = ("new file.txt", 'quo"te', "back\\slash", "tab\there", "line\nend", "é.txt", "\udcff.bin")
LINES = "".join(f"line {number}\n" for number in range(3))

BEFORE: Tree = {
    "plain.txt": file(LINES),
    "no end.txt": file("one\ntwo"),
    "gets end.txt": file("one\ntwo"),
    "blob.bin": file(BINARY),
    "gone.bin": file(b"\0" + BINARY),
    "gone.txt": file("gone\n"),
    "emptied.txt": file("was something\n"),
    "empty gone.txt": file(""),
    "tool.sh": file("#!/bin/sh\n"),
    "quiet.sh": file("#!/bin/sh\nexit\n", runs=True),
    "link": link("plain.txt"),
    "was link": link("nowhere"),
    "link of lines": link("two\nlines"),
    "link with an end": link("end\n"),
    "link to bytes": link("ol\udce9.txt"),
    "link to no bytes": link("olé"),
    "was file": file("I am a file\n"),
    "old place/moved.txt": file("moved, unchanged\n"),
    "old place/moved.bin": file(BINARY[::-1]),
    "run me.sh": file("moved, and runs now\n"),
    "windows.txt": file("one\r\ntwo\r\n"),
    "latin.txt": file("é\n".encode("latin-1")),
    "folder/inside": file("a folder becomes a file\n"),
    "a file": file("a file becomes a folder\n"),
    **{f"changed/{name}": file(f"old {number}\n") for number, name in enumerate(ODD)},
    **{f"gone/{name}": file(f"{name!r} goes\n") for name in ODD},
    **{f"moves/{name}": file(f"{number} moves\n") for number, name in enumerate(ODD)},
}
AFTER: Tree = {
    "plain.txt": file(LINES.replace("line 3\n", "line three\n").replace("line 39\n", "")),
    "no end.txt": file("one\n2"),
    "gets end.txt": file("one\ntwo\n"),
    "blob.bin": file(BINARY[:1_000] + b"other" + BINARY[1_000:]),
    "new.bin": file(b"\0\1\2" * 100),
    "one.bin": file(b"\0"),
    "emptied.txt": file(""),
    "empty new.txt": file(""),
    "tool.sh": file("#!/bin/sh\n", runs=True),
    "quiet.sh": file("#!/bin/sh\nexit\n"),
    "link": link("latin.txt"),
    "link of lines": link("other\n\nlines\n"),
    "new link": link("\n"),
    "new link to bytes": link("\udcff\udc9b/é"),
    "link to no bytes": link("è\udcc3"),
    "was link": file("I am a file now\n"),
    "was file": link("plain.txt"),
    "new place/moved.txt": file("moved, unchanged\n"),
    "new place/moved.bin": file(BINARY[::-1]),
    "runs now.sh": file("moved, and runs now\n", runs=True),
    "windows.txt": file("one\r\n2\r\n"),
    "latin.txt": file("è\n".encode("latin-1")),
    "folder": file("a folder becomes a file\n"),
    "a file/inside": file("a file becomes a folder\n"),
    **{f"changed/{name}": file(f"new {number}\n") for number, name in enumerate(ODD)},
    **{f"new/{name}": file(f"{name!r} comes") for name in ODD},
    **{f"moved/{name} 2": file(f"{number} moves\n") for number, name in enumerate(ODD)},
}


def test_git_takes_binary_renamed_linked_and_oddly_named_files(
    user: Session, tmp_path: Path
) -> None:
    patch = check(user, BEFORE, AFTER, ["git", "apply", "-"], tmp_path / "copy")
    assert b"rename from old place/moved.bin\nrename to new place/moved.bin\n" in patch
    assert b"GIT binary patch\n" in patch
    assert b"+++ b/no end.txt\t\n" in patch


def test_patch_takes_texts_with_odd_names(user: Session, tmp_path: Path) -> None:
    names = {"one.txt", "new file.txt", 'quo"te', "back\\slash", "é.txt"}
    before = {name: file(f"{name}\nold\n") for name in names} | {"no end": file("a\nb")}
    before["moves.txt"] = file("the same\n")
    after = {name: file(f"{name}\nnew\n") for name in names} | {"no end": file("a\nc\nd")}
    after |= {"added here": file("x\n"), "moved.txt": file("the same\n")}
    command = ["patch", "-p1", "--batch", "--no-backup-if-mismatch"]
    check(user, before, after, command, tmp_path / "copy")


@pytest.mark.parametrize("seed", range(3))
def test_git_takes_any_change_of_a_tree(user: Session, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    contents = [b"", b"x", b"x\n", LINES.encode(), BINARY, b"\0", "é\n".encode(), b"a\r\nb"]

    def some() -> tuple[str, bytes, bool]:
        if random.random() < 0.15:
            return link(random.choice(["nowhere", "../no where", "é é"]))
        data = random.choice(contents)
        return file(
            data + (b"more\n" if random.random() < 0.3 else b""), runs=random.random() < 0.2
        )

    def tree() -> Tree:
        found: Tree = {}
        for _ in range(30):
            name = "/".join(random.choices(["a", "b", "c d", "é", *ODD], k=random.randint(1, 3)))
            parts = name.split("/")
            above = {"/".join(parts[:n]) for n in range(1, len(parts))}
            if not above & found.keys() and not any(k.startswith(f"{name}/") for k in found):
                found[name] = some()
        return found

    check(user, tree(), tree(), ["git", "apply", "-"], tmp_path / "copy")


def test_what_is_too_large_for_a_patch_makes_git_refuse_all_of_it(
    user: Session, tmp_path: Path
) -> None:
    put(user.project, {"small.txt": file("old\n")})
    user.ok("init", "-q")
    (user.project / "small.txt").write_text("new\n")
    (user.project / "large.bin").write_bytes(b"\0" * (17 << 20))
    done = user.ok("diff")
    assert "Binary files /dev/null and b/large.bin differ\n" in done.out
    assert "1 file too large for a patch, such as large.bin" in done.err
    copy = tmp_path / "copy"
    put(copy, {"small.txt": file("old\n")})
    refused = subprocess.run(
        ["git", "apply", "-"], cwd=copy, input=done.out.encode(), capture_output=True, check=False
    )
    assert refused.returncode != 0
    assert tree_of(copy) == {"small.txt": file("old\n")}


OF_GIT = (
    ".git/config",
    "sub/.GIT/hooks/x",
    "git~1",
    ".git. /x",
    ".git:s",
    "a\\.git",
    ".g\u200cit/x",
)


def test_what_git_refuses_is_left_out_of_a_patch_and_nothing_else(
    user: Session, tmp_path: Path
) -> None:
    kept = {"moved in": file("one\n"), "readme.md": file("old\n")}
    before = {**kept, ".git/moved out": file("two\n"), ".git/config": file("[core]\n")}
    put(user.project, before)
    user.ok("init", "-q")
    after = {
        "moved out": file("two\n"),
        "readme.md": file("new\n"),
        ".gitignore": file("*.o\n"),
        ".gitmodules": file("[a]\n"),
        ".git/moved in": file("one\n"),
        "sub/.gitmodules": link("../x"),
        **{name: file(f"{name}\n") for name in OF_GIT},
    }
    put(user.project, after)
    done = user.ok("diff")
    names = {*OF_GIT, ".git/moved in", ".git/moved out", "sub/.gitmodules"}
    assert f"left out {len(names)} paths that git refuses in a patch" in done.err
    copy = tmp_path / "copy"
    put(copy, kept)
    subprocess.run(["git", "init", "-q"], cwd=copy, env=user.environ, check=True)
    applied(copy, done.out.encode(), ["git", "apply", "-"])
    shutil.rmtree(copy / ".git")
    assert tree_of(copy) == {name: what for name, what in after.items() if name not in names}
    listed = {each["path"] for each in user.ok("diff", "--json").document["changes"]}
    assert names <= listed
    assert ".git/config" in user.ok("diff", "--stat", "-v").out


def test_modes_that_git_does_not_know_are_said_beside_the_patch(user: Session) -> None:
    user.ok("init", "-q")
    (user.project / "readme.md").chmod(0o600)
    assert user.ok("diff").out == "Mode of readme.md: 644 -> 600\n"

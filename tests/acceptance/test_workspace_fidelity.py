"""A directory comes back exactly: each byte, mode, link, time and group of names.

Every case goes the whole way: snapshot, wreck, look at what a restore would do, restore, undo,
redo. After each step the directory is compared with what it was, and what nobody wrecked has to
be the very same file as before: same inode, same times.
"""

import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast
from holdfast import Name, errors
from holdfast.engine.core.coverage import Coverage, coverage_of
from holdfast.engine.workspace import Workspace
from holdfast.model.basics import SnapshotInfo
from holdfast.model.changes import Changes
from holdfast.workspace import writing

IS_ROOT = os.geteuid() == 0
SECOND = 1_000_000_000


class Seen(NamedTuple):
    """What somebody sees who looks at one path."""

    kind: str
    mode: int
    content: bytes = b""
    mtime_ns: int = 0
    names: tuple[bytes, ...] = ()
    """All names in the directory that this file has."""


Look = dict[bytes, Seen]


def walk(root: Path) -> Iterator[tuple[bytes, int, bytes, os.stat_result]]:
    """Yields all that is in a directory: path, folder, name, state. Paths may be very long."""

    def inside(fd: int, above: bytes) -> Iterator[tuple[bytes, int, bytes, os.stat_result]]:
        for name in sorted(map(os.fsencode, os.listdir(fd))):
            state = os.stat(name, dir_fd=fd, follow_symlinks=False)
            yield above + name, fd, name, state
            if stat.S_ISDIR(state.st_mode):
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                try:
                    yield from inside(below, above + name + b"/")
                finally:
                    os.close(below)

    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield from inside(top, b"")
    finally:
        os.close(top)


def look(root: Path) -> Look:
    found: Look = {}
    groups: dict[int, list[bytes]] = {}
    for path, folder, name, state in walk(root):
        mode = stat.S_IMODE(state.st_mode)
        if stat.S_ISDIR(state.st_mode):
            found[path] = Seen("folder", mode)
        elif stat.S_ISLNK(state.st_mode):
            target = os.readlink(name, dir_fd=folder)
            found[path] = Seen("link", 0, target, state.st_mtime_ns)
        elif stat.S_ISREG(state.st_mode):
            with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder), "rb") as file:
                found[path] = Seen("file", mode, file.read(), state.st_mtime_ns)
            groups.setdefault(state.st_ino, []).append(path)
        else:
            found[path] = Seen("special", stat.S_IFMT(state.st_mode))
    for names in groups.values():
        for path in names:
            found[path] = found[path]._replace(names=tuple(names))
    return found


def states(root: Path) -> dict[bytes, tuple[int, ...]]:
    """Returns everything that `lstat` says but the time of reading."""
    return {
        path: (s.st_ino, s.st_mode, s.st_nlink, s.st_size, s.st_mtime_ns, s.st_ctime_ns)
        for path, _, _, s in walk(root)
    }


def differing(have: Look, want: Look) -> dict[bytes, tuple[str, str]]:
    """Returns what is not as it should be, short enough to read."""
    return {
        path: (repr(have.get(path))[:200], repr(want.get(path))[:200])
        for path in sorted(have.keys() | want.keys())
        if have.get(path) != want.get(path)
    }


def listed(changes: Changes) -> list[tuple[str, str]]:
    return [(change.name, change.change) for change in changes]


class Project:
    """A directory with a vault beside it."""

    def __init__(self, folder: Path, vault: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.vault_folder = vault
        self.vault = holdfast.open(vault)
        self.workspace: Workspace = self.vault.workspace(self.tree)

    def put(self, path: str, data: bytes | str = b"", mode: int = 0o644) -> Path:
        place = self.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        place.chmod(mode)
        return place

    def link(self, path: str, target: str | bytes) -> None:
        place = self.tree / path
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, os.fsencode(place) if isinstance(target, bytes) else place)

    def folder_at(self, path: str, mode: int = 0o755) -> None:
        (self.tree / path).mkdir(parents=True)
        (self.tree / path).chmod(mode)

    def drop(self, path: str) -> None:
        place = self.tree / path
        if stat.S_ISDIR(place.lstat().st_mode):
            shutil.rmtree(place)
        else:
            place.unlink()

    def twin(self, first: str, *others: str) -> None:
        for other in others:
            (self.tree / other).parent.mkdir(parents=True, exist_ok=True)
            os.link(self.tree / first, self.tree / other)

    def read(self, snapshot: SnapshotInfo, path: str) -> bytes:
        return self.workspace.namespace.at(snapshot).files.read(path)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with memory_folder() as vault:
        made = Project(tmp_path, vault)
        yield made
        made.workspace.close()
        made.vault.close()


@contextmanager
def memory_folder() -> Generator[Path]:
    """Makes a folder in memory if there is room: these tests wait for no disk to sync."""
    memory = "/dev/shm"
    is_roomy = os.path.isdir(memory) and shutil.disk_usage(memory).free > 1 << 30
    with tempfile.TemporaryDirectory(
        prefix="holdfast-", dir=memory if is_roomy else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def go_round(project: Project, wreck: Callable[[Project], object]) -> None:
    """Snapshot, wreck, preview, restore, undo, redo; each time the directory is as it should be."""
    workspace, tree = project.workspace, project.tree
    snapshot = workspace.snapshot("before")
    assert not snapshot.is_partial
    assert workspace.snapshot("again").root == snapshot.root
    want, states_then = look(tree), states(tree)
    wreck(project)
    wrecked, states_wrecked = look(tree), states(tree)

    preview = workspace.restore(snapshot, dry_run=True, limit=None)
    assert states(tree) == states_wrecked, "a dry run touched something"

    done = workspace.restore(snapshot, limit=None)
    assert differing(look(tree), want) == {}
    assert done.verified
    assert listed(preview.changes) == listed(done.changes)
    assert not workspace.is_dirty()
    states_now = states(tree)
    for path, then in states_then.items():
        is_moved = want[path].names != wrecked.get(path, Seen("", 0)).names
        if then == states_wrecked.get(path) and not is_moved:
            size = 2 if want[path].kind == "folder" else 6
            assert states_now[path][:size] == then[:size], f"{path!r} was not touched by anybody"

    undone = workspace.undo()
    assert differing(look(tree), wrecked) == {}
    assert undone.verified
    redone = workspace.redo()
    assert differing(look(tree), want) == {}
    assert redone.verified


# One thing at a time: how it was, and what happens to it

Case = tuple[Callable[[Project], object], Callable[[Project], object]]


def then(*acts: Callable[[Project], object]) -> Callable[[Project], object]:
    def all_of_it(project: Project) -> None:
        for act in acts:
            act(project)

    return all_of_it


def put(path: str, data: bytes = b"1", mode: int = 0o644) -> Callable[[Project], object]:
    return lambda project: project.put(path, data, mode)


def link(path: str, target: str | bytes) -> Callable[[Project], object]:
    return lambda project: project.link(path, target)


def make(path: str, mode: int = 0o755) -> Callable[[Project], object]:
    return lambda project: project.folder_at(path, mode)


def drop(path: str) -> Callable[[Project], object]:
    return lambda project: project.drop(path)


def twin(first: str, *others: str) -> Callable[[Project], object]:
    return lambda project: project.twin(first, *others)


def chmod(path: str, mode: int) -> Callable[[Project], object]:
    return lambda project: (project.tree / path).chmod(mode)


def touch(path: str, mtime_ns: int) -> Callable[[Project], object]:
    return lambda project: os.utime(
        project.tree / path, ns=(mtime_ns, mtime_ns), follow_symlinks=False
    )


def move(path: str, to: str) -> Callable[[Project], object]:
    return lambda project: os.rename(project.tree / path, project.tree / to)


KINDS: dict[str, Case] = {
    "a file becomes a folder": (put("a"), then(drop("a"), put("a/b/c"))),
    "a file becomes an empty folder": (put("a"), then(drop("a"), make("a"))),
    "a file becomes a link": (put("a"), then(drop("a"), link("a", "/etc"))),
    "a folder becomes a file": (put("a/b/c"), then(drop("a"), put("a"))),
    "a folder becomes a link": (put("a/b/c"), then(drop("a"), link("a", "/etc"))),
    "an empty folder becomes a file": (make("a"), then(drop("a"), put("a"))),
    "an empty folder becomes a link": (make("a"), then(drop("a"), link("a", "b"))),
    "a link becomes a folder": (link("a", "b"), then(drop("a"), put("a/b/c"))),
    "a link becomes an empty folder": (link("a", "b"), then(drop("a"), make("a", 0o700))),
    "a link becomes a file": (link("a", "b"), then(drop("a"), put("a"))),
    "a private folder becomes a file": (
        then(make("a", 0o700), put("a/b")),
        then(drop("a"), put("a")),
    ),
    "a folder is emptied": (put("a/b/c"), drop("a/b/c")),
    "a folder is filled": (make("a/b"), put("a/b/c")),
    "a folder goes": (then(make("a/b"), put("c/d/e")), then(drop("a"), drop("c"))),
    "folders come": (put("x"), then(make("a/b/c", 0o700), put("d/e/f/g"))),
    "a folder is moved": (then(put("a/b/c"), put("a/d")), move("a", "z")),
    "two files change places": (
        then(put("a", b"one"), put("b", b"two")),
        then(move("a", "t"), move("b", "a"), move("t", "b")),
    ),
}

LINKS: dict[str, Case] = {
    name: (link("l", target), then(drop("l"), link("l", "elsewhere")))
    for name, target in {
        "to a file": "file",
        "to a folder": "folder/",
        "nowhere": "no/such/thing",
        "to an absolute path": "/etc/passwd",
        "upwards": "../../../../..",
        "to itself": "l",
        "to bytes": b"\xff\xfe\x80",
        "of the greatest length": "x" * 4095,
    }.items()
}

MODES: dict[str, Case] = {
    f"{old:04o} to {new:04o}": (put("f", b"same", old), chmod("f", new))
    for old, new in [(0o600, 0o644), (0o755, 0o644), (0o444, 0o666), (0o644, 0o1644)]
} | {
    "a sticky folder": (then(make("d", 0o1777), put("d/f")), chmod("d", 0o755)),
    "a private folder": (then(make("d", 0o700), put("d/f")), chmod("d", 0o755)),
    "a folder that is read-only": (
        then(put("d/f"), put("d/e/g"), chmod("d/e", 0o555), chmod("d", 0o555)),
        then(chmod("d", 0o755), chmod("d/e", 0o755), drop("d/e"), put("d/f", b"2"), put("d/n")),
    ),
    "a usual folder": (put("d/f"), chmod("d", 0o750)),
    "an empty folder": (make("d", 0o700), chmod("d", 0o750)),
}

TIMES: dict[str, Case] = {
    name: (then(put("f"), touch("f", mtime_ns)), then(put("f", b"2"), touch("f", mtime_ns + 1)))
    for name, mtime_ns in {
        "with nanoseconds": 1_700_000_000_123_456_789,
        "at the beginning": 0,
        "before 1970": -1_500_000_001,
        "as early as there are": -(2**31) * SECOND,
        "in 2100": 4_102_444_800 * SECOND + 1,
        "after 2262": 10_413_792_000 * SECOND + 7,
        "as late as there are": 15_032_385_534 * SECOND,
    }.items()
} | {
    "alone": (then(put("f"), touch("f", SECOND)), touch("f", 2 * SECOND)),
    "after 2262, and longer since": (
        then(put("f"), touch("f", 10_413_792_000 * SECOND + 7)),
        put("f", b"1 and more"),
    ),
    "of a link": (
        then(link("l", "x"), touch("l", -SECOND + 5)),
        then(drop("l"), link("l", "x")),
    ),
    "of a link after 2262": (then(link("l", "x"), touch("l", 10_413_792_000 * SECOND)), drop("l")),
    "of one name of two": (then(put("a"), twin("a", "b")), touch("a", 7)),
}

TWINS: dict[str, Case] = {
    "one name goes": (then(put("a"), twin("a", "b")), drop("b")),
    "the first name goes": (then(put("a"), twin("a", "b", "c")), drop("a")),
    "one more name": (then(put("b"), twin("b", "c")), twin("b", "a")),
    "another folder": (then(put("a/x"), twin("a/x", "b/y", "z")), drop("b/y")),
    "another folder goes": (then(put("a/x"), twin("a/x", "b/y", "c/z")), drop("b")),
    "written through one name": (then(put("a"), twin("a", "b")), put("b", b"changed")),
    "large, written through": (
        then(put("a/x", b"x" * 70_000), twin("a/x", "b/y")),
        put("b/y", b"y" * 80_000),
    ),
    "cut, same content": (
        then(put("a/x", b"x" * 400), twin("a/x", "b/y", "z")),
        then(drop("b/y"), put("b/y", b"x" * 400)),
    ),
    "cut, other content": (then(put("a"), twin("a", "b")), then(drop("b"), put("b", b"2"))),
    "joined": (then(put("a"), put("d/b")), then(drop("d/b"), twin("a", "d/b"))),
    "cut, and joined again to another": (
        then(put("a"), twin("a", "b", "c")),
        then(drop("a"), put("a", b"2"), drop("b"), twin("c", "b"), twin("a", "d")),
    ),
    "joined otherwise": (
        then(put("a"), twin("a", "b"), put("c", b"2"), twin("c", "d")),
        then(drop("b"), drop("d"), twin("c", "b"), twin("a", "d")),
    ),
    "mode": (then(put("a"), twin("a", "b/c")), chmod("a", 0o600)),
    "all of them go": (
        then(put("a"), twin("a", "b/c", "d")),
        then(drop("a"), drop("b"), drop("d")),
    ),
    "one becomes a link to another": (
        then(put("a"), twin("a", "b")),
        then(drop("b"), link("b", "a")),
    ),
    "one becomes a folder": (then(put("a"), twin("a", "b")), then(drop("a"), put("a/b"))),
}

SIZES: dict[str, Case] = {
    f"{size} bytes": (put("f", b"a" * size), put("f", b"b" * other))
    for size, other in [
        (0, 1),
        (1, 0),
        (256, 256),
        (257, 256),
        (256, 257),
        ((64 << 10) - 1, 64 << 10),
        (64 << 10, (64 << 10) + 1),
        ((64 << 10) + 1, (64 << 10) + 1),
        ((256 << 10) + 1, 0),
        (4 << 20, (4 << 20) + 1),
    ]
}


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)
def test_what_becomes_something_else_comes_back(project: Project, case: Case) -> None:
    project.put("beside", b"not touched")
    case[0](project)
    go_round(project, case[1])


@pytest.mark.parametrize("case", LINKS.values(), ids=LINKS)
def test_a_link_comes_back_with_its_target(project: Project, case: Case) -> None:
    case[0](project)
    go_round(project, case[1])


@pytest.mark.parametrize("case", MODES.values(), ids=MODES)
def test_modes_come_back(project: Project, case: Case) -> None:
    case[0](project)
    go_round(project, case[1])


@pytest.mark.parametrize("case", TIMES.values(), ids=TIMES)
def test_times_come_back_to_the_nanosecond(project: Project, case: Case) -> None:
    case[0](project)
    go_round(project, case[1])


@pytest.mark.parametrize("time_ns", [2**64 + 5, -(2**63) - 5])
def test_a_time_that_no_entry_can_hold_is_kept_as_the_nearest(time_ns: int) -> None:
    with memory_folder() as folder:
        project = Project(folder, folder / "vault")
        file = project.put("f", "as it was")
        os.utime(file, ns=(0, time_ns))
        kept = min(max(os.stat(file).st_mtime_ns, -(2**63)), 2**64 - 1)
        snapshot = project.workspace.snapshot()
        assert not snapshot.is_partial
        file.write_text("changed")
        assert project.workspace.restore(snapshot).verified
        assert os.stat(file).st_mtime_ns == kept
        project.workspace.namespace.export(folder / "archive.tar")
        other = project.vault.namespace("other")
        assert other.import_(folder / "archive.tar").snapshot.root == snapshot.root
        project.workspace.close()
        project.vault.close()


@pytest.mark.parametrize("case", TWINS.values(), ids=TWINS)
def test_names_of_one_file_are_names_of_one_file_again(project: Project, case: Case) -> None:
    case[0](project)
    go_round(project, case[1])


@pytest.mark.parametrize("case", SIZES.values(), ids=SIZES)
def test_content_comes_back_at_every_edge_of_its_storage(project: Project, case: Case) -> None:
    case[0](project)
    go_round(project, case[1])


@pytest.mark.skipif(not IS_ROOT, reason="nobody else can read what nobody may read")
def test_what_nobody_may_read_is_captured_by_who_can(project: Project) -> None:
    project.put("f", b"secret", 0o000)
    project.put("d/g", b"more")
    (project.tree / "d").chmod(0o000)
    go_round(project, then(drop("f"), drop("d")))


# Names

NAMES: list[bytes] = [
    b"\xff\xfe\x80",
    b"new\nline",
    b"carriage\rreturn",
    b"\x1b[31mred\x1b[0m\x07",
    "\u202egpj.exe".encode(),
    b"-rf",
    b"--",
    b"~",
    b" ",
    b"...",
    b"a\\b",
    b"*",
    b"[x]",
    b"?",
    b"'\"`$(id)",
    b"\x01\x7f",
    "e\u0301".encode(),
    "\u00e9".encode(),
    b"CASE",
    b"case",
    b"n" * 255,
    b".holdfast-notes",
]


def test_names_are_bytes_and_come_back_as_they_are(project: Project) -> None:
    top = os.fsencode(project.tree)
    for number, name in enumerate(NAMES):
        folder = top + b"/d/" + name
        os.makedirs(folder)
        with open(folder + b"/" + name, "wb") as file:
            file.write(b"%d" % number)
        os.symlink(name, folder + b"/link")
        os.mkdir(folder + b"/empty")

    def wreck(_: Project) -> None:
        for name in NAMES[::2]:
            shutil.rmtree(top + b"/d/" + name)
        for name in NAMES[1::2]:
            with open(top + b"/d/" + name + b"/" + name, "ab") as file:
                file.write(b"!")

    go_round(project, wreck)


@pytest.mark.parametrize("name", NAMES, ids=repr)
def test_a_path_with_any_name_can_be_restored_alone(project: Project, name: bytes) -> None:
    # As it stands, not as a pattern: `*` and `[x]` are names too, and mean themselves at least.
    top = os.fsencode(project.tree)
    with open(top + b"/" + name, "wb") as file:
        file.write(b"before")
    project.put("other", b"before")
    snapshot = project.workspace.snapshot()
    want = look(project.tree)
    with open(top + b"/" + name, "wb") as file:
        file.write(b"after")
    done = project.workspace.restore(snapshot, paths=[name])
    assert done.verified
    assert look(project.tree) == want
    assert [change.key for change in done.changes] == [name]


def test_paths_of_the_greatest_length_come_back(project: Project) -> None:
    fd = os.open(project.tree, os.O_RDONLY)
    length = 0
    # 15 names of 255 bytes, each with its slash, and one that fills 4095 bytes to the last.
    for size in [255] * 15:
        os.mkdir(b"d" * size, dir_fd=fd)
        below = os.open(b"d" * size, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd, length = below, length + size + 1
    for letter in (b"f", b"g"):
        file = os.open(letter * (4095 - length), os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
        os.write(file, letter)
        os.close(file)
    os.close(fd)
    assert max(map(len, look(project.tree))) == 4095
    go_round(project, drop("d" * 255))


def test_a_path_that_is_longer_than_any_is_named_as_failed(project: Project) -> None:
    fd = os.open(project.tree, os.O_RDONLY)
    for _ in range(17):
        os.mkdir(b"d" * 255, dir_fd=fd)
        below = os.open(b"d" * 255, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    project.put("f", b"1")
    snapshot = project.workspace.snapshot()
    assert snapshot.is_partial
    (failed,) = coverage(snapshot).failed
    assert "too long" in failed.reason
    assert project.read(snapshot, "f") == b"1"
    shutil.rmtree(project.tree / ("d" * 255))


# Large files, and files with holes


def rewrite(path: Path, data: bytes, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


BIG = 5 << 20
AMENDED: dict[str, tuple[Callable[[Path], object], bool | None]] = {
    "a few bytes": (lambda path: rewrite(path, b"changed", 3 << 20), True),
    "at both ends": (lambda path: (rewrite(path, b"x", 0), rewrite(path, b"x", BIG - 1)), True),
    "grown": (lambda path: rewrite(path, b"more" * 5000, BIG), True),
    "shrunk": (lambda path: os.truncate(path, BIG - (1 << 20)), True),
    "shrunk a lot": (lambda path: os.truncate(path, 1000), None),
    "emptied": (lambda path: os.truncate(path, 0), None),
    "a byte in front": (lambda path: path.write_bytes(b"!" + path.read_bytes()), None),
    "all of it": (lambda path: path.write_bytes(os.urandom(BIG)), None),
}


@pytest.mark.parametrize(("change", "is_same"), AMENDED.values(), ids=AMENDED)
def test_a_large_file_comes_back_and_is_patched_where_little_differs(
    project: Project, change: Callable[[Path], object], is_same: bool | None
) -> None:
    big = project.put("big", os.urandom(BIG), 0o640)
    os.utime(big, ns=(5, 5))
    inode = os.stat(big).st_ino
    go_round(project, lambda _: change(big))
    if is_same is not None:
        assert (os.stat(big).st_ino == inode) == is_same


def test_a_large_file_that_cannot_be_written_to_is_patched_all_the_same(project: Project) -> None:
    big = project.put("big", os.urandom(BIG), 0o444)

    def wreck(_: Project) -> None:
        big.chmod(0o644)
        rewrite(big, b"changed", 1 << 20)
        big.chmod(0o444)

    go_round(project, wreck)


def blocks(path: Path) -> int:
    return os.stat(path).st_blocks * 512


def test_holes_stay_holes(project: Project) -> None:
    sparse = project.put("sparse", b"")
    rewrite(sparse, b"begins", 0)
    rewrite(sparse, b"in the middle", 8 << 20)
    os.truncate(sparse, 32 << 20)
    before = blocks(sparse)
    slack = 1 << 20  # a chunk with a byte in it is written whole
    assert before < slack
    snapshot = project.workspace.snapshot()
    want = look(project.tree)

    sparse.unlink()
    project.workspace.restore(snapshot)
    assert look(project.tree) == want
    assert blocks(sparse) < before + slack

    rewrite(sparse, os.urandom(4 << 20), 16 << 20)
    project.workspace.restore(snapshot)
    assert look(project.tree) == want
    assert blocks(sparse) < before + slack, "what was a hole was filled with zeros"

    project.workspace.checkout(snapshot, project.folder / "copy")
    assert blocks(project.folder / "copy" / "sparse") < before + slack


# All of it at once


def populate(project: Project) -> None:
    """Makes a tree with something of everything."""
    put, link, folder = project.put, project.link, project.folder_at
    for number in range(40):
        put(f"src/module_{number % 4}/part_{number}.py", f"print({number})\n" * (number * 7))
    put(".gitignore", "ignored/\n*.log\n")
    put("ignored/cache.bin", os.urandom(3000))
    put("trace.log", "untracked")
    put("run.sh", "#!/bin/sh\n", 0o755)
    put("secret", "s", 0o600)
    put("read-only", "r", 0o444)
    put("same/1", b"equal" * 100)
    put("same/2", b"equal" * 100)
    put("empty-file")
    put("big", os.urandom(BIG))
    folder("empty/in/empty")
    folder("private", 0o700)
    put("shut/inside", "x")
    (project.tree / "shut").chmod(0o555)
    for name, target in {"file": "run.sh", "dir": "src", "loop": "loop", "gone": "x/y"}.items():
        link(f"links/to-{name}", target)
    link("links/absolute", "/etc/passwd")
    link("links/bytes", b"\xff\xfe")
    put("twins/a", b"twin" * 200)
    project.twin("twins/a", "twins/b", "elsewhere/c")
    put("old", "o")
    os.utime(project.tree / "old", ns=(-5_000_000_001, -5_000_000_001))
    make_repositories(project)


def make_repositories(project: Project) -> None:
    """Makes what git would: born, un-born, a worktree, a submodule. Without git."""
    put = project.put
    for name in ("repo", "repo/nested"):
        put(f"{name}/.git/HEAD", "ref: refs/heads/main\n")
        put(f"{name}/.git/config", "[core]\n\tfsmonitor = touch /tmp/pwned\n")
        put(f"{name}/.git/refs/heads/main", "0" * 40 + "\n")
        put(f"{name}/.git/objects/ab/cdef", os.urandom(300), 0o444)
        put(f"{name}/.git/hooks/pre-commit", "#!/bin/sh\n", 0o755)
        put(f"{name}/.git/index", os.urandom(500))
        put(f"{name}/file", "tracked")
    put("unborn/.git/HEAD", "ref: refs/heads/main\n")
    for empty in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        project.folder_at(f"unborn/.git/{empty}")
    put("worktree/.git", "gitdir: ../repo/.git/worktrees/worktree\n")
    put("repo/.git/worktrees/worktree/HEAD", "ref: refs/heads/other\n")
    put("repo/.git/modules/sub/HEAD", "0" * 40 + "\n")
    put("repo/sub/.git", "gitdir: ../.git/modules/sub\n")
    put("repo/.gitmodules", '[submodule "sub"]\n\tpath = sub\n')


def delete_all(project: Project) -> None:
    for path in project.tree.iterdir():
        project.drop(path.name)


def rewrite_all(project: Project) -> None:
    for path in sorted(project.tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            path.write_bytes(path.read_bytes() + b"!")


def touch_all(project: Project) -> None:
    for number, path in enumerate(sorted(project.tree.rglob("*"))):
        os.utime(path, ns=(number, number), follow_symlinks=False)


def chmod_all(project: Project) -> None:
    for path in sorted(project.tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o711 if path.is_dir() else 0o640)


def swap_kinds(project: Project) -> None:
    for path in sorted(project.tree.iterdir()):
        is_folder = path.is_dir() and not path.is_symlink()
        project.drop(path.name)
        if is_folder:
            path.write_bytes(b"was a folder")
        else:
            (path / "was" / "no" / "folder").mkdir(parents=True)


def shuffle(project: Project) -> None:
    names = sorted(path.name for path in project.tree.iterdir())
    for number, name in enumerate(names):
        os.rename(project.tree / name, project.tree / f"moved-{number}")
    for number, name in enumerate(reversed(names)):
        os.rename(project.tree / f"moved-{number}", project.tree / name)


def copy_all(project: Project) -> None:
    """The same content in other files: new inodes, names of one file become files."""
    shutil.copytree(project.tree, project.folder / "copy", symlinks=True)
    delete_all(project)
    for path in (project.folder / "copy").iterdir():
        os.rename(path, project.tree / path.name)


def edit_a_little(project: Project) -> None:
    project.put("src/module_1/part_5.py", "changed")
    project.put("src/module_1/new.py", "new")
    project.drop("src/module_2/part_6.py")
    project.drop("repo/.git/refs/heads/main")
    project.put("twins/b", "through one name")
    rewrite(project.tree / "big", b"here", 1 << 20)


WRECKS = [
    *(delete_all, rewrite_all, touch_all, chmod_all),
    *(swap_kinds, shuffle, copy_all, edit_a_little),
]


@pytest.mark.parametrize("wreck", WRECKS, ids=lambda wreck: wreck.__name__)
def test_a_tree_with_something_of_everything_comes_back(
    project: Project, wreck: Callable[[Project], None]
) -> None:
    populate(project)
    go_round(project, wreck)


def test_a_checkout_is_the_tree(project: Project) -> None:
    populate(project)
    snapshot = project.workspace.snapshot()
    done = project.workspace.checkout(snapshot, project.folder / "copy")
    assert done.verified
    assert differing(look(project.folder / "copy"), look(project.tree)) == {}
    with pytest.raises(errors.PathExists):
        project.workspace.checkout(snapshot, project.folder / "copy")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_checkout_of_many_files_is_the_tree(
    project: Project, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(writing, "load_creator", lambda: None)
    populate(project)
    far_ns = 20_000_000_000 * 10**9 + 7  # in the year 2603, in which 64 bits of nanoseconds end
    for number in range(700):
        path = project.tree / f"many/{number % 90}/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * (number % 50) + bytes(number % 7 * 8 << 10))
        path.chmod(0o600 + number % 0o77)
        os.utime(path, ns=(0, far_ns if number == 1 else number * 10**9 + number))
    snapshot = project.workspace.snapshot()
    done = project.workspace.checkout(snapshot, project.folder / "copy")
    assert done.verified
    assert differing(look(project.folder / "copy"), look(project.tree)) == {}
    # In the place where they were: all of them are new there, too.
    want = look(project.tree)
    shutil.rmtree(project.tree / "many")
    restored = project.workspace.restore(snapshot)
    assert restored.verified
    assert differing(look(project.tree), want) == {}


def test_equal_directories_have_equal_roots(project: Project, tmp_path: Path) -> None:
    populate(project)
    project.workspace.snapshot()
    other = tmp_path / "other"
    done = project.workspace.checkout("@", other)
    assert done.verified
    with project.vault.workspace(other) as copy:
        assert copy.snapshot().root == project.workspace.snapshot().root


def test_the_same_index_serves_another_process(project: Project) -> None:
    populate(project)
    first = project.workspace.snapshot()
    with holdfast.open(project.vault_folder) as vault, vault.workspace(project.tree) as other:
        assert other.snapshot().root == first.root
        project.put("new", "n")
        second = other.snapshot()
    assert not project.workspace.is_dirty()
    assert project.workspace.snapshot().root == second.root


# Parts of a tree


def test_some_paths_come_back_and_nothing_else(project: Project) -> None:
    populate(project)
    snapshot = project.workspace.snapshot()
    want = look(project.tree)
    rewrite_all(project)
    project.put("src/module_0/new.py", "new")
    project.put("new", "new")
    wrecked = look(project.tree)
    chosen_by: list[tuple[list[str], Callable[[bytes], bool]]] = [
        (["src/module_0"], lambda path: path.startswith(b"src/module_0/")),
        (["*.py"], lambda path: path.endswith(b".py")),
        (["src/module_?/part_1*"], lambda path: b"/part_1" in path),
        (["run.sh", "old"], lambda path: path in (b"run.sh", b"old")),
        (["same/", "nothing/here"], lambda path: path.startswith(b"same/")),
        (["new"], lambda path: path == b"new"),
    ]
    for paths, chosen in chosen_by:
        preview = project.workspace.restore(snapshot, paths=paths, dry_run=True, limit=None)
        done = project.workspace.restore(snapshot, paths=paths, limit=None)
        expected = {path: seen for path, seen in wrecked.items() if not chosen(path)} | {
            path: seen for path, seen in want.items() if chosen(path)
        }
        assert differing(look(project.tree), expected) == {}, paths
        assert done.verified
        assert listed(preview.changes) == listed(done.changes)
        project.workspace.undo()
        assert differing(look(project.tree), wrecked) == {}, paths


@pytest.mark.parametrize("chosen", ["a", "b", "d/c", "a b", "b d/c", "a d/c", "a b d/c"])
def test_some_names_of_one_file_come_back_and_leave_the_others(
    project: Project, chosen: str
) -> None:
    project.put("a", b"before")
    project.twin("a", "b", "d/c")
    snapshot = project.workspace.snapshot()
    project.put("a", b"after")
    wrecked = look(project.tree)
    paths = chosen.split()
    done = project.workspace.restore(snapshot, paths=paths)
    for name in ("a", "b", "d/c"):
        content = b"before" if name in paths else b"after"
        assert (project.tree / name).read_bytes() == content
    assert done.verified
    assert not project.workspace.is_dirty()
    project.workspace.undo()
    assert differing(look(project.tree), wrecked) == {}


@pytest.mark.parametrize("kept", ["a", "b", "d/c", "a b", "b d/c"])
def test_excepted_names_of_one_file_stay_and_the_others_come_back(
    project: Project, kept: str
) -> None:
    project.put("a", b"before")
    project.twin("a", "b", "d/c")
    snapshot = project.workspace.snapshot()
    project.put("a", b"after")
    wrecked = look(project.tree)
    done = project.workspace.restore(snapshot, except_=[Name.file(name) for name in kept.split()])
    for name in ("a", "b", "d/c"):
        content = b"after" if name in kept.split() else b"before"
        assert (project.tree / name).read_bytes() == content
    assert done.verified
    assert not project.workspace.is_dirty()
    project.workspace.undo()
    assert differing(look(project.tree), wrecked) == {}


def test_names_choose_on_every_plane_of_an_attached_namespace(project: Project) -> None:
    agent = project.workspace.namespace

    def put(value: int) -> None:
        for name in ("x[1].txt", "x1.txt"):
            project.put(name, str(value))
        agent.store.set_many([("n", "k", value), ("n", "other", value)])
        agent.sessions.update_state("s", {"n": value})

    agent.sessions.create("helper", session_id="s")
    put(1)
    snapshot = project.workspace.snapshot()
    put(2)
    names = [Name.file("x[1].txt"), Name.value("n", "k"), Name.session("s")]
    seen = project.workspace.restore(snapshot, names=names, dry_run=True)
    done = project.workspace.restore(snapshot, names=names)
    assert [change.name for change in done.changes] == ["x[1].txt", "n/k", "s"]
    assert seen.changes == done.changes
    assert (project.tree / "x1.txt").read_text() == "2"
    assert (agent.store.get("n", "k"), agent.store.get("n", "other")) == (1, 2)
    assert agent.sessions.get_state("s").state == {"n": 1}
    done = project.workspace.restore(snapshot, except_=[Name.value("n", "other")])
    assert [change.name for change in done.changes] == ["x1.txt"]


def test_a_choice_that_cannot_be_leaves_no_snapshot(project: Project) -> None:
    project.put("d/e", b"wanted")
    snapshot = project.workspace.snapshot()
    project.drop("d")
    project.put("d", b"in the way")
    wrecked = look(project.tree)
    for dry_run in (True, False):
        with pytest.raises(errors.InTheWay):
            project.workspace.restore(snapshot, names=[Name.file("d/e")], dry_run=dry_run)
        with pytest.raises(errors.NameNotFound):
            project.workspace.restore(snapshot, names=[Name.file("d/*")], dry_run=dry_run)
    assert look(project.tree) == wrecked
    assert len(project.workspace.namespace.timeline()) == 1
    project.workspace.restore(snapshot, names=[Name.file("d")])
    assert [*look(project.tree)] == [b"d", b"d/e"]


def test_a_path_in_a_folder_that_is_something_else_now(project: Project) -> None:
    project.put("d/e/f", b"wanted")
    project.put("d/g", b"other")
    snapshot = project.workspace.snapshot()
    project.drop("d")
    project.put("d", b"in the way")
    wrecked = look(project.tree)
    done = project.workspace.restore(snapshot, paths=["d/e/f"])
    assert done.verified
    assert [*look(project.tree)] == [b"d", b"d/e", b"d/e/f"]
    project.workspace.undo()
    assert look(project.tree) == wrecked


# What is not captured


def coverage(snapshot: SnapshotInfo) -> Coverage:
    found = coverage_of(snapshot)
    assert found is not None
    return found


def make_specials(folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        # The path of a socket is at most 108 bytes long.
        os.chdir(folder)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    made = ["fifo", "socket"]
    if IS_ROOT:
        os.mknod(folder / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        made.append("device")
    return sorted(made)


def test_sockets_fifos_and_devices_are_skipped_by_name_and_outlive_a_restore(
    project: Project,
) -> None:
    project.put("f", b"1")
    made = make_specials(project.tree / "run")
    snapshot = project.workspace.snapshot()
    assert not snapshot.is_partial
    skipped = {omission.path: omission.reason for omission in coverage(snapshot).skipped}
    assert sorted(skipped) == [f"run/{name}" for name in made]
    assert "fifo" in skipped["run/fifo"]
    assert "socket" in skipped["run/socket"]
    project.put("f", b"2")
    project.put("run/log", b"3")
    assert project.workspace.restore(snapshot).verified
    assert sorted(os.listdir(project.tree / "run")) == made
    assert (project.tree / "f").read_bytes() == b"1"


def test_a_folder_stays_where_something_lies_that_is_not_captured(project: Project) -> None:
    project.put("f", b"1")
    snapshot = project.workspace.snapshot()
    make_specials(project.tree / "deep" / "run")
    project.put("deep/log", b"3")
    project.put("f", b"2")
    wrecked = look(project.tree)
    done = project.workspace.restore(snapshot)
    assert done.verified
    assert sorted(done.kept) == ["deep", "deep/run"]
    assert "deep/log" not in os.listdir(project.tree / "deep")
    assert (project.tree / "deep" / "run" / "fifo").is_fifo()
    project.workspace.undo()
    assert differing(look(project.tree), wrecked) == {}


def test_a_fifo_in_the_place_of_a_file_is_not_given_up_unasked(project: Project) -> None:
    project.put("f", b"1")
    snapshot = project.workspace.snapshot()
    project.drop("f")
    os.mkfifo(project.tree / "f")
    before = states(project.tree)
    with pytest.raises(errors.DriftFound) as caught:
        project.workspace.restore(snapshot)
    assert caught.value.paths == ["f"]
    assert states(project.tree) == before
    assert project.workspace.restore(snapshot, force=True).verified
    assert (project.tree / "f").read_bytes() == b"1"


def test_bits_of_privilege_are_never_stored_and_never_come_back(project: Project) -> None:
    project.put("setuid", b"1", 0o4755)
    project.put("setgid", b"1", 0o2755)
    project.folder_at("shared", 0o2775)
    project.put("shared/f", b"1")
    project.put("untouched", b"1", 0o6755)
    snapshot = project.workspace.snapshot()
    at = project.workspace.namespace.at(snapshot).files
    assert {at.stat(name).mode & 0o6000 for name in ("setuid", "setgid", "shared")} == {0}
    before = states(project.tree)[b"untouched"]
    for name in ("setuid", "setgid", "shared"):
        project.drop(name)
    assert project.workspace.restore(snapshot).verified
    modes = {path: seen.mode for path, seen in look(project.tree).items()}
    assert (modes[b"setuid"], modes[b"setgid"], modes[b"shared"]) == (0o755, 0o755, 0o775)
    assert states(project.tree)[b"untouched"] == before


# What the rules leave out


def test_rules_leave_out_what_they_say_and_the_coverage_names_it(project: Project) -> None:
    project.put(".holdfastignore", "*.log\n!keep.log\n/top\nbuild/\n# a comment\n\\#hash\n")
    for path in ("a.log", "keep.log", "top", "d/top", "d/b.log", "build/x", "d/build/y", "#hash"):
        project.put(path, b"1")
    os.mkdir(os.fsencode(project.tree) + b"/d/\xff.log")
    snapshot = project.workspace.snapshot()
    assert not snapshot.is_partial
    files = project.workspace.namespace.at(snapshot).files.list(recursive=True)
    assert [file.path for file in files] == [".holdfastignore", "d/top", "keep.log"]
    excluded = {omission.path: omission.reason for omission in coverage(snapshot).excluded}
    names = ["#hash", "a.log", "build", "d/b.log", "d/build", "d/\udcff.log", "top"]
    assert sorted(excluded) == sorted(names)
    assert set(excluded.values()) == {".holdfastignore"}


def test_what_is_left_out_outlives_a_restore(project: Project) -> None:
    project.put(".holdfastignore", "*.log\n")
    project.put("d/f", b"1")
    project.put("d/a.log", b"1")
    snapshot = project.workspace.snapshot()
    project.put("d/f", b"2")
    project.put("d/a.log", b"2")
    project.put("e/f", b"3")
    project.put("e/b.log", b"3")
    before = states(project.tree)
    done = project.workspace.restore(snapshot)
    assert done.verified
    assert done.kept == ["e"]
    after = states(project.tree)
    assert (after[b"d/a.log"], after[b"e/b.log"]) == (before[b"d/a.log"], before[b"e/b.log"])
    assert b"e/f" not in after


def test_rules_that_change_count_from_the_next_look_on(project: Project) -> None:
    project.put("a.log", b"1")
    project.put("b", b"1")

    def names() -> list[str]:
        snapshot = project.workspace.snapshot()
        at = project.workspace.namespace.at(snapshot).files
        return [file.path for file in at.list(recursive=True)]

    assert names() == ["a.log", "b"]
    project.put(".holdfastignore", "*.log\n")
    assert names() == [".holdfastignore", "b"]
    project.put(".holdfastignore", "b\n")
    assert names() == [".holdfastignore", "a.log"]
    project.drop(".holdfastignore")
    assert names() == ["a.log", "b"]


@pytest.mark.parametrize("paths", [None, ["build/x"]], ids=["whole", "one path"])
def test_what_is_left_out_and_in_the_way_is_kept_before_it_is_replaced(
    project: Project, paths: list[str] | None
) -> None:
    project.put("build/x", b"old")
    project.put("src", b"1")
    snapshot = project.workspace.snapshot()
    project.put(".holdfastignore", "build/\n")
    project.put("build/x", b"new")
    project.put("build/y", b"in no snapshot at all")
    project.workspace.snapshot()
    wrecked = look(project.tree)
    preview = project.workspace.restore(snapshot, paths=paths, dry_run=True)
    done = project.workspace.restore(snapshot, paths=paths)
    assert (project.tree / "build/x").read_bytes() == b"old"
    assert (project.tree / "build/y").read_bytes() == b"in no snapshot at all"
    assert done.safety_id is not None
    assert project.workspace.namespace.at(done.safety_id).files.read("build/x") == b"new"
    assert done.verified
    project.workspace.undo()
    assert differing(look(project.tree), wrecked) == {}
    assert listed(preview.changes) == listed(done.changes)


def test_rules_that_were_deleted_come_back_with_the_snapshot(project: Project) -> None:
    project.put(".holdfastignore", "*.log\n")
    project.put("a.log", b"1")
    project.put("b", b"1")
    snapshot = project.workspace.snapshot()
    project.drop(".holdfastignore")
    project.put("b", b"2")
    wrecked = look(project.tree)
    assert project.workspace.restore(snapshot).verified
    assert (project.tree / ".holdfastignore").read_bytes() == b"*.log\n"
    assert (project.tree / "b").read_bytes() == b"1"
    project.workspace.undo()
    assert differing(look(project.tree), wrecked) == {}


@pytest.mark.parametrize("kind", ["folder", "link", "fifo"])
def test_rules_that_are_no_file_are_no_rules(project: Project, kind: str) -> None:
    project.put("a.log", b"1")
    project.put("rules", b"*.log\n")
    place = project.tree / ".holdfastignore"
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to("rules")
    else:
        os.mkfifo(place)
    assert project.read(project.workspace.snapshot(), "a.log") == b"1"


# Drift


def test_drift_can_be_refused_and_then_nothing_is_touched(project: Project) -> None:
    project.put("a", b"1")
    snapshot = project.workspace.snapshot()
    project.put("a", b"2")
    project.put("b", b"3")
    before, timeline = states(project.tree), project.workspace.namespace.timeline()
    with pytest.raises(errors.DriftFound) as caught:
        project.workspace.restore(snapshot, drift="refuse")
    assert caught.value.paths == ["a", "b"]
    assert states(project.tree) == before
    assert project.workspace.namespace.timeline() == timeline
    assert project.workspace.restore(snapshot).safety_id is not None


def test_looking_stores_nothing_and_touches_nothing(project: Project) -> None:
    populate(project)
    first = project.workspace.snapshot()
    rewrite_all(project)
    before, timeline = states(project.tree), project.workspace.namespace.timeline()
    status = project.workspace.status()
    assert status.head == first
    assert len(status.changes) > 40
    assert project.workspace.is_dirty()
    assert listed(project.workspace.diff()) == listed(status.changes)
    assert "+" in project.workspace.text_diff("run.sh")
    assert states(project.tree) == before
    assert project.workspace.namespace.timeline() == timeline


@pytest.mark.parametrize("is_made", [True, False], ids=["made by its user", "made by the restore"])
def test_a_directory_that_is_gone_is_an_error_to_look_at_and_comes_back_whole(
    project: Project, is_made: bool
) -> None:
    populate(project)
    snapshot = project.workspace.snapshot()
    want = look(project.tree)
    shutil.rmtree(project.tree)
    timeline = project.workspace.namespace.timeline()
    for act in (project.workspace.snapshot, project.workspace.status, project.workspace.diff):
        with pytest.raises(errors.DirectoryMissing):
            act()
    assert not project.tree.exists()
    assert project.workspace.namespace.timeline() == timeline
    if is_made:
        project.tree.mkdir()
    done = project.workspace.restore(snapshot)
    assert done.verified
    assert done.was_missing is not is_made
    assert differing(look(project.tree), want) == {}


def test_an_undo_makes_a_directory_anew_that_is_gone(project: Project) -> None:
    populate(project)
    project.workspace.snapshot()
    want = look(project.tree)
    shutil.rmtree(project.tree)
    done = project.workspace.undo()
    assert (done.verified, done.was_missing) == (True, True)
    assert differing(look(project.tree), want) == {}


def test_a_workspace_can_be_closed_twice(project: Project) -> None:
    project.put("a", b"1")
    project.workspace.snapshot()
    project.workspace.close()
    # Numbers of descriptors are given out again: closing one twice would close this one.
    with open(os.devnull, "rb") as innocent:
        project.workspace.close()
        assert os.fstat(innocent.fileno())

"""Laws of the stat index: it is a dict of folders, and a check names exactly what differs.

Directories are real. A few names, used at every level, make the interesting collisions common: a
file where a directory was, a link to where a directory went, an inode that is used again.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.workspace import statcheck
from holdfast.workspace.statformat import HEAD_BYTES
from holdfast.workspace.statindex import UNSURE, Checked, Folder, Row, StatIndex

# Bytes that sort around the slash, that end a line, that are no UTF-8.
NAMES = [b"a", b"b", b"a-b", b"a\x01", b"\xff\n"]
WAYS = [False, True] if statcheck.load_library() else [False]

# Contents: the index as a dict

numbers = st.integers(min_value=0, max_value=2**63 - 1)
times = st.integers(min_value=-(2**63), max_value=2**63 - 1) | st.just(UNSURE)
paths = st.lists(st.sampled_from(NAMES), max_size=3).map(b"/".join)
stats = st.tuples(
    st.sampled_from([stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFSOCK]),
    st.integers(min_value=0, max_value=2**32 - 1),
    numbers,
    times,
    times,
    st.integers(min_value=0, max_value=2**64 - 1),
    st.sampled_from([1, 2, -3]),
)
contents = st.dictionaries(
    paths,
    st.builds(
        lambda own, rows, folders: (*own, tuple(Row(*row) for row in rows), tuple(folders)),
        st.tuples(st.just(stat.S_IFDIR), times, times, numbers, st.sampled_from([1, 2])),
        st.dictionaries(st.sampled_from(NAMES), stats).map(
            lambda found: sorted((name, *row) for name, row in found.items())
        ),
        st.sets(st.sampled_from(NAMES)).map(sorted),
    ),
    max_size=8,
).map(lambda found: {path: Folder(path, *rest) for path, rest in found.items()})


def in_order(model: dict[bytes, Folder]) -> list[Folder]:
    return sorted(model.values(), key=lambda folder: folder.path.split(b"/") if folder.path else [])


def is_under(path: bytes, folder: bytes) -> bool:
    return not folder or path == folder or path.startswith(folder + b"/")


@given(contents, contents, st.lists(paths, max_size=3), st.binary(max_size=9))
def test_an_index_is_a_dict_of_folders_however_it_came_to_be(
    old: dict[bytes, Folder], new: dict[bytes, Folder], gone: list[bytes], meta: bytes
) -> None:
    index = StatIndex.empty().replacing(old, meta=b"")
    changed: dict[bytes, Folder | None] = {**dict.fromkeys(gone), **new}
    model = {
        path: each
        for path, each in old.items()
        if not any(is_under(path, g) for g in gone if g not in new)
    }
    model |= new
    after = index.replacing(changed, meta=meta)
    assert list(after.iter_folders()) == in_order(model)
    assert after.meta == meta
    rows = [row for each in model.values() for row in each.rows]
    files = [row.size for row in rows if stat.S_ISREG(row.mode)]
    links = [row for row in rows if stat.S_ISLNK(row.mode)]
    assert len(after) == len(model) + len(rows)
    assert after.totals() == (len(files) + len(links), sum(files))
    for path in {*old, *new, *gone, b"b/b/b"}:
        assert after.find(path) == model.get(path)
        below = [each for each in in_order(model) if is_under(each.path, path)]
        assert list(after.iter_folders(path)) == below
    # Equal contents have equal bytes, whatever was copied and whatever made anew.
    assert after._known.data == StatIndex.empty().replacing(model, meta=meta)._known.data


@given(contents, st.data())
def test_a_saved_index_loads_whole_or_not_at_all(
    model: dict[bytes, Folder], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "index")
        StatIndex.empty().replacing(model, meta=b"meta").save(path)
        loaded = StatIndex.load(path)
        assert loaded is not None
        assert list(loaded.iter_folders()) == in_order(model)
        saved = path.read_bytes()
        damaged = bytearray(saved)
        for bit in data.draw(st.sets(st.integers(0, 8 * len(saved) - 1)), label="flipped"):
            damaged[bit // 8] ^= 1 << bit % 8
        if data.draw(st.booleans(), label="torn"):
            del damaged[data.draw(st.integers(0, len(saved)), label="length") :]
        path.write_bytes(damaged)
        assert (StatIndex.load(path) is not None) == (damaged == saved)


# Directories: a check against a walk


class Mutation(NamedTuple):
    name: str
    path: bytes
    other: bytes


def change(root: bytes, mutation: Mutation) -> None:
    """Does it, or nothing if it cannot be done to what is there."""
    path, other = os.path.join(root, mutation.path), os.path.join(root, mutation.other)
    with suppress(OSError, shutil.Error):
        CHANGES[mutation.name](path, other)


def write(path: bytes, content: bytes, flags: int = os.O_TRUNC) -> None:
    # Without waiting: a fifo that nobody reads would never open.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o644)
    os.write(fd, content)
    os.close(fd)


def write_in_secret(path: bytes, _other: bytes) -> None:
    before = os.lstat(path)
    write(path, b"x" * before.st_size, 0)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by(make: Callable[[bytes, bytes], object]) -> Callable[[bytes, bytes], None]:
    def replace(path: bytes, other: bytes) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        make(path, other)

    return replace


def move_and_link_back(path: bytes, other: bytes) -> None:
    os.rename(path, other)
    os.symlink(os.path.relpath(other, os.path.dirname(path)), path)


CHANGES: dict[str, Callable[[bytes, bytes], object]] = {
    "write": lambda path, _: write(path, b"new"),
    "append": lambda path, _: write(path, b"more", os.O_APPEND),
    "write in secret": write_in_secret,
    "chmod": lambda path, _: os.path.islink(path) or os.chmod(path, 0o700),
    "rename over": os.rename,
    "to a file": replace_by(lambda path, _: write(path, b"file")),
    "to a directory": replace_by(lambda path, _: os.mkdir(path)),
    "to a link": replace_by(lambda path, other: os.symlink(other, path)),
    "to a fifo": replace_by(lambda path, _: os.mkfifo(path)),
    "move and link back": move_and_link_back,
    "delete": replace_by(lambda _path, _other: None),
    "mkdir": lambda path, _: os.makedirs(path),
    "hard link": os.link,
    "touch nothing": lambda path, _: os.lstat(path),
}

below_root = st.lists(st.sampled_from(NAMES[:3]), min_size=1, max_size=3).map(b"/".join)
mutations = st.builds(Mutation, st.sampled_from(sorted(CHANGES)), below_root, below_root)
# Most of what changes is there: directories in a directory, files, a hard link, links.
BASE = [
    Mutation("mkdir", b"a/b/a", b""),
    Mutation("mkdir", b"a-b/a", b""),
    *(Mutation("write", path, b"") for path in (b"b", b"a/a", b"a/a-b", b"a/b/b", b"a-b/a/a")),
    Mutation("hard link", b"a/a", b"a-b/b"),
    Mutation("to a link", b"a-b/a-b", b"../a"),
]


def walk(root: bytes, path: bytes = b"") -> Iterator[tuple[bytes, os.stat_result]]:
    """Yields everything below the root and the root itself, following nothing."""
    here = os.path.join(root, path) if path else root
    yield path, os.lstat(here)
    for entry in os.scandir(here):
        inner = os.path.join(path, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield from walk(root, inner)
        else:
            yield inner, os.lstat(os.path.join(root, inner))


def index_of(root: bytes, *, unsure: set[bytes]) -> StatIndex:
    found = dict(walk(root))
    folders: dict[bytes, Folder] = {}
    for path, own in found.items():
        if not stat.S_ISDIR(own.st_mode):
            continue
        inside = {
            p.rpartition(b"/")[2]: (p, s)
            for p, s in found.items()
            if p and p.rpartition(b"/")[0] == path
        }
        rows = tuple(
            Row(
                name,
                s.st_mode,
                s.st_nlink,
                s.st_size,
                s.st_mtime_ns,
                -1 - s.st_ctime_ns if p in unsure else s.st_ctime_ns,
                s.st_ino,
                s.st_dev,
            )
            for name, (p, s) in sorted(inside.items())
            if not stat.S_ISDIR(s.st_mode)
        )
        ctime = UNSURE if path in unsure else own.st_ctime_ns
        names = sorted(name for name, (_, s) in inside.items() if stat.S_ISDIR(s.st_mode))
        folders[path] = Folder(
            path, own.st_mode, own.st_mtime_ns, ctime, own.st_ino, own.st_dev, rows, tuple(names)
        )
    return StatIndex.empty().replacing(folders, meta=b"")


def compare_with_a_walk(index: StatIndex, root: bytes) -> Checked:
    """What a check has to name, from its definition and a full walk."""
    found = dict(walk(root))
    folders: list[bytes] = []
    rows: list[tuple[bytes, bytes]] = []
    lost: set[bytes] = set()
    for known in index.iter_folders():
        now = found.get(known.path)
        if now is None or not same(known, now) or now.st_dev != known.dev:
            folders.append(known.path)
        # A new file may have the number of the directory that it replaced.
        is_folder = now is not None and stat.S_ISDIR(now.st_mode)
        if now is None or not is_folder or (now.st_ino, now.st_dev) != (known.ino, known.dev):
            lost.add(known.path)
            continue
        for row in known.rows:
            there = found.get(os.path.join(known.path, row.name))
            if there is None or not same(row, there) or there.st_size != row.size:
                rows.append((known.path, row.name))
    return Checked(sorted(folders), sorted(rows), frozenset(lost))


def same(known: Row | Folder, now: os.stat_result) -> bool:
    return known.ctime_ns >= 0 and (known.mode, known.mtime_ns, known.ctime_ns, known.ino) == (
        now.st_mode,
        now.st_mtime_ns,
        now.st_ctime_ns,
        now.st_ino,
    )


@given(
    st.lists(mutations, max_size=3),
    st.lists(mutations, min_size=1, max_size=6),
    st.sets(below_root, max_size=2),
    st.sets(below_root, max_size=3),
)
def test_a_check_names_what_a_walk_finds(
    before: list[Mutation], after: list[Mutation], unsure: set[bytes], asked: set[bytes]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = os.path.join(os.fsencode(scratch), b"tree")
        os.mkdir(root)
        for mutation in [*BASE, *before]:
            change(root, mutation)
        index = index_of(root, unsure=unsure)
        for mutation in after:
            change(root, mutation)
        expected = compare_with_a_walk(index, root)
        # With the folders above, as a link in the place of one of them would hide what is lost.
        only = {b"/".join(path.split(b"/")[:depth]) for path in asked for depth in range(4)}
        fd = os.open(root, os.O_RDONLY)
        try:
            for use_c in WAYS:
                assert index.check(fd, use_c=use_c) == expected
                assert index.check(fd, only=only, use_c=use_c) == Checked(
                    [path for path in expected.folders if path in only],
                    [(path, name) for path, name in expected.rows if path in only],
                    expected.lost & only,
                )
        finally:
            os.close(fd)


@pytest.mark.skipif(True not in WAYS, reason="the check was not compiled: no compiler at hand")
@given(contents.filter(bool), st.data())
def test_no_bytes_make_the_compiled_check_leave_them(
    model: dict[bytes, Folder], data: st.DataObject
) -> None:
    wrong = bytearray(StatIndex.empty().replacing(model, meta=b"")._known.data)
    places = st.integers(HEAD_BYTES, len(wrong) - 1)
    for place, byte in data.draw(st.dictionaries(places, st.integers(0, 255), max_size=4)).items():
        wrong[place] = byte
    with suppress(ValueError):  # its parts do not even add up
        index = StatIndex(bytes(wrong))
        with tempfile.TemporaryDirectory() as scratch:
            fd = os.open(scratch, os.O_RDONLY)
            try:
                flags = statcheck.flag_differences(index._known, fd, use_c=True)
            finally:
                os.close(fd)
            assert len(flags) == len(index)
            assert all(flags[: index._known.folder_count]), "none of the folders is there"

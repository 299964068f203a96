"""The stat index: what it keeps, what it refuses to load, and what a check of it names."""

import ctypes
import os
import shutil
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import time_ns

import pytest

from holdfast.workspace import library, statcheck
from holdfast.workspace.library import library_name
from holdfast.workspace.statformat import HEAD_BYTES, MAGIC
from holdfast.workspace.statindex import (
    UNSURE,
    Checked,
    Folder,
    Row,
    StatIndex,
    is_unsure,
    remove_temporaries,
    settled,
    unsure,
)

NOTHING = Checked(folders=[], rows=[])

needs_library = pytest.mark.skipif(
    statcheck.load_library() is None, reason="the check was not compiled: no compiler at hand"
)
both_ways = pytest.mark.parametrize(
    "use_c", [pytest.param(False, id="python"), pytest.param(True, id="c", marks=needs_library)]
)


def row(name: bytes, **fields: int) -> Row:
    values = {"mode": stat.S_IFREG | 0o644, "nlink": 1, "size": 3, "mtime_ns": 5, "ctime_ns": 7}
    return Row(name, **({**values, "ino": 11, "dev": 13} | fields))


def folder(path: bytes, *rows: Row, folders: tuple[bytes, ...] = (), **fields: int) -> Folder:
    values = {"mode": stat.S_IFDIR | 0o755, "mtime_ns": 17, "ctime_ns": 19, "ino": 23, "dev": 13}
    return Folder(path, **(values | fields), rows=rows, folders=folders)


def index_of(*folders: Folder, meta: bytes = b"") -> StatIndex:
    return StatIndex.empty().replacing({each.path: each for each in folders}, meta=meta)


def look_at(root: Path) -> StatIndex:
    """Returns an index of all that is there now, as if it had not changed for long."""
    found: dict[bytes, Folder] = {}
    for base, names, others in os.walk(os.fsencode(root)):
        path = os.path.relpath(base, os.fsencode(root)).removeprefix(b".").removeprefix(b"/")
        real = [name for name in names if not os.path.islink(os.path.join(base, name))]
        rest = sorted({*others, *names} - set(real))
        own = os.lstat(base)
        found[path] = Folder(
            path=path,
            **stat_fields(own),
            rows=tuple(row_of(os.path.join(base, name)) for name in rest),
            folders=tuple(sorted(real)),
        )
    return StatIndex.empty().replacing(found, meta=b"")


def stat_fields(found: os.stat_result) -> dict[str, int]:
    names = ("mode", "mtime_ns", "ctime_ns", "ino", "dev")
    return {name: getattr(found, f"st_{name}") for name in names}


def row_of(path: bytes) -> Row:
    found = os.lstat(path)
    return Row(
        os.path.basename(path), **stat_fields(found), nlink=found.st_nlink, size=found.st_size
    )


def with_folder(index: StatIndex, path: bytes, **fields: object) -> StatIndex:
    known = index.find(path)
    assert known is not None
    return index.replacing({path: known._replace(**fields)}, meta=index.meta)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docs").mkdir()
    for name in ("top", "src/one", "src/two", "src/deep/three", "docs/page"):
        (root / name).write_text(name)
    (root / "link").symlink_to("top")
    return root


@pytest.fixture
def root_fd(tree: Path) -> Iterator[int]:
    fd = os.open(tree, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


# What is kept


def test_an_empty_index_knows_nothing() -> None:
    index = StatIndex.empty()
    assert (len(index), index.totals(), index.meta) == (0, (0, 0), b"")
    assert index.find(b"") is None
    assert list(index.iter_folders()) == []


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    folders = [
        folder(b"", row(b"a"), row(b"b\xff\n", ctime_ns=UNSURE), folders=(b"sub",)),
        folder(b"sub", row(b"l", mode=stat.S_IFLNK | 0o777), row(b"p", mode=stat.S_IFIFO)),
    ]
    path = tmp_path / "index"
    index_of(*folders, meta=b"root of the snapshot").save(path)
    loaded = StatIndex.load(path)
    assert loaded is not None
    assert list(loaded.iter_folders()) == folders
    assert loaded.meta == b"root of the snapshot"
    assert len(loaded) == 6
    assert loaded.totals() == (3, 6)


def test_only_the_owner_reads_an_index_and_nothing_else_is_left(tmp_path: Path) -> None:
    index_of(folder(b"")).save(tmp_path / "index")
    assert os.listdir(tmp_path) == ["index"]
    assert stat.S_IMODE((tmp_path / "index").stat().st_mode) == 0o600


def test_a_loaded_index_does_not_care_what_happens_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index_of(folder(b"", row(b"old"))).save(path)
    loaded = StatIndex.load(path)
    assert loaded is not None
    index_of(folder(b"", row(b"new"))).save(path)
    os.truncate(path, 0)
    assert loaded.find(b"") == folder(b"", row(b"old"))


def test_an_index_that_cannot_be_saved_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    with pytest.raises(OSError, match="directory"):
        index_of(folder(b"")).save(tmp_path / "index")
    assert os.listdir(tmp_path) == ["index"]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("index", "index.0123456789abcdef.tmp", "other.0123456789abcdef.tmp"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path / "index")
    assert sorted(os.listdir(tmp_path)) == ["index", "other.0123456789abcdef.tmp"]


# What is not loaded


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "index"
    index_of(folder(b"", row(b"a"), folders=(b"b",)), folder(b"b"), meta=b"m").save(path)
    return path.read_bytes()


def test_no_index_is_loaded_from_where_none_is(tmp_path: Path) -> None:
    assert StatIndex.load(tmp_path / "missing") is None
    assert StatIndex.load(tmp_path) is None


def test_an_index_with_one_wrong_bit_is_not_loaded(tmp_path: Path, saved: bytes) -> None:
    path = tmp_path / "index"
    path.write_bytes(saved)
    with path.open("r+b", buffering=0) as file:
        for position in range(8 * len(saved)):
            byte = saved[position // 8]
            os.pwrite(file.fileno(), bytes([byte ^ 1 << position % 8]), position // 8)
            assert StatIndex.load(path) is None, position
            os.pwrite(file.fileno(), bytes([byte]), position // 8)
    assert StatIndex.load(path) is not None


def test_an_index_of_another_length_is_not_loaded(tmp_path: Path, saved: bytes) -> None:
    path = tmp_path / "index"
    path.write_bytes(saved + b"\0")
    for length in range(len(saved) + 1, -1, -1):
        os.truncate(path, length)
        assert (StatIndex.load(path) is not None) == (length == len(saved)), length


def test_parts_that_do_not_add_up_are_refused_even_with_a_good_checksum(saved: bytes) -> None:
    assert saved.startswith(MAGIC)
    for wrong in (saved[:HEAD_BYTES], saved[:-1], saved + b"\0", b"\xff" * len(saved)):
        with pytest.raises(ValueError, match=r"index"):
            StatIndex(wrong)


# Finding and replacing


def test_a_folder_is_found_among_names_that_sort_around_the_slash() -> None:
    paths = [b"", b"a", b"a-b", b"a/b", b"a/b/c", b"a\x01", b"a\x01/b", b"ab", b"\xff"]
    index = index_of(*(folder(path, ino=number) for number, path in enumerate(paths)))
    for number, path in enumerate(paths):
        assert index.find(path) == folder(path, ino=number)
    assert index.find(b"a/c") is None
    assert index.find(b"zz") is None
    assert [each.path for each in index.iter_folders(b"a")] == [b"a", b"a/b", b"a/b/c"]
    assert [each.path for each in index.iter_folders()][:5] == [
        b"",
        *paths[1:2],
        *paths[3:5],
        b"a\x01",
    ]


def test_taking_a_folder_out_takes_all_below_it_and_no_neighbour() -> None:
    index = index_of(*(folder(path, row(b"f")) for path in (b"", b"a", b"a/b", b"a-b", b"a\x01")))
    smaller = index.replacing({b"a": None}, meta=b"")
    assert [each.path for each in smaller.iter_folders()] == [b"", b"a\x01", b"a-b"]
    assert smaller.totals() == (3, 9)
    assert len(index) == 10, "the old one stays as it was"
    assert len(index.replacing({b"": None}, meta=b"")) == 0


def test_a_folder_put_below_one_taken_out_is_there() -> None:
    index = index_of(folder(b"a"), folder(b"a/b"), folder(b"a/c"))
    changed = index.replacing({b"a": None, b"a/b": folder(b"a/b", row(b"new"))}, meta=b"")
    assert list(changed.iter_folders()) == [folder(b"a/b", row(b"new"))]


def test_more_bytes_than_a_number_holds_are_still_counted() -> None:
    rows = [row(bytes([letter]), size=2**63 - 1) for letter in b"abc"]
    assert index_of(folder(b"", *rows)).totals() == (3, 3 * (2**63 - 1))


def test_rows_keep_a_device_that_is_not_their_folders() -> None:
    mounted = folder(b"", row(b"a"), row(b"b", dev=99), dev=13)
    assert index_of(mounted).find(b"") == mounted


@pytest.mark.parametrize(
    "times", [{"mtime_ns": 2**63}, {"mtime_ns": -(2**70)}, {"ctime_ns": 2**64}]
)
def test_a_time_that_does_not_fit_is_never_taken_for_proof(times: dict[str, int]) -> None:
    known = index_of(folder(b"", row(b"a", **times), row(b"b"))).find(b"")
    assert known is not None
    assert [each.ctime_ns for each in known.rows] == [UNSURE, 7]
    known = index_of(folder(b"", **times)).find(b"")
    assert known is not None
    assert known.ctime_ns == UNSURE


@pytest.mark.parametrize(
    "wrong",
    [
        folder(b"", row(b"")),
        folder(b"", row(b"a/b")),
        folder(b"", row(b"a\0b")),
        folder(b"", row(b"b"), row(b"a")),
        folder(b"", row(b"a"), row(b"a")),
        folder(b"", folders=(b"b", b"a")),
        folder(b"/a"),
        folder(b"a/"),
        folder(b"a//b"),
        folder(b"a/../b"),
        folder(b"a\0"),
    ],
)
def test_what_no_directory_can_be_is_refused(wrong: Folder) -> None:
    with pytest.raises(ValueError, match=r"name|path"):
        index_of(wrong)


def test_a_folder_under_the_path_of_another_is_refused() -> None:
    with pytest.raises(ValueError, match="says that it is"):
        StatIndex.empty().replacing({b"a": folder(b"b")}, meta=b"")


# Checking


@both_ways
def test_nothing_is_named_in_a_tree_that_did_not_change(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    assert look_at(tree).check(root_fd, use_c=use_c) == NOTHING
    assert StatIndex.empty().check(root_fd, use_c=use_c) == NOTHING


@both_ways
def test_a_file_that_was_written_chmodded_or_replaced_is_named(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    index = look_at(tree)
    (tree / "src/one").write_text("longer than it was")
    (tree / "docs/page").chmod(0o600)
    (tree / "link").unlink()
    (tree / "link").symlink_to("elsewhere")
    found = index.check(root_fd, use_c=use_c)
    assert found.rows == [(b"", b"link"), (b"docs", b"page"), (b"src", b"one")]
    assert found.folders == [b""]


@both_ways
def test_a_file_that_is_gone_or_a_directory_now_is_named_with_its_folder(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    index = look_at(tree)
    (tree / "src/one").unlink()
    (tree / "docs/page").unlink()
    (tree / "docs/page").mkdir()
    found = index.check(root_fd, use_c=use_c)
    assert found == Checked([b"docs", b"src"], [(b"docs", b"page"), (b"src", b"one")])


@both_ways
def test_a_new_name_shows_in_its_folder_alone(tree: Path, root_fd: int, use_c: bool) -> None:
    index = look_at(tree)
    (tree / "src/deep/new").touch()
    assert index.check(root_fd, use_c=use_c) == Checked([b"src/deep"], [])


@both_ways
@pytest.mark.parametrize("field", ["mode", "size", "mtime_ns", "ctime_ns", "ino"])
def test_every_field_of_a_row_counts(tree: Path, root_fd: int, use_c: bool, field: str) -> None:
    index = look_at(tree)
    known = index.find(b"src")
    assert known is not None
    one, two = known.rows
    index = with_folder(index, b"src", rows=(one, two._replace(**{field: getattr(two, field) + 1})))
    assert index.check(root_fd, use_c=use_c) == Checked([], [(b"src", b"two")])


@both_ways
@pytest.mark.parametrize("field", ["mode", "mtime_ns", "ctime_ns", "ino", "dev"])
def test_every_field_of_a_folder_counts(tree: Path, root_fd: int, use_c: bool, field: str) -> None:
    index = look_at(tree)
    known = index.find(b"src")
    assert known is not None
    index = with_folder(index, b"src", **{field: getattr(known, field) + 1})
    lost = frozenset({b"src"} if field in ("ino", "dev") else ())
    assert index.check(root_fd, use_c=use_c) == Checked([b"src"], [], lost)


@both_ways
def test_the_number_of_links_alone_does_not_count(tree: Path, root_fd: int, use_c: bool) -> None:
    index = look_at(tree)
    known = index.find(b"docs")
    assert known is not None
    index = with_folder(index, b"docs", rows=(known.rows[0]._replace(nlink=7),))
    assert index.check(root_fd, use_c=use_c) == NOTHING


@both_ways
def test_what_is_unsure_is_always_named(tree: Path, root_fd: int, use_c: bool) -> None:
    index = with_folder(look_at(tree), b"src", ctime_ns=UNSURE)
    known = index.find(b"docs")
    assert known is not None
    doubted = known.rows[0]._replace(ctime_ns=unsure(known.rows[0].ctime_ns))
    index = with_folder(index, b"docs", rows=(doubted,))
    assert index.check(root_fd, use_c=use_c) == Checked([b"src"], [(b"docs", b"page")])


def test_unsure_is_named_even_where_a_ctime_is_really_that(
    tree: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = look_at(tree)
    known = index.find(b"docs")
    assert known is not None
    index = with_folder(index, b"docs", rows=(known.rows[0]._replace(ctime_ns=UNSURE),))
    # No system call sets a ctime, so the answer of one stands in for it.
    real = statcheck._fields
    monkeypatch.setattr(
        statcheck, "_fields", lambda found: (*real(found)[:3], UNSURE, real(found)[4])
    )
    found = index.check(root_fd, only=[b"docs"], use_c=False)
    assert found == Checked([], [(b"docs", b"page")])


@both_ways
def test_a_replaced_folder_is_named_and_its_rows_are_not(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    index = look_at(tree)
    shutil.copytree(tree / "src", tree / "copy", symlinks=True)
    (tree / "src").rename(tree / "old")
    (tree / "copy").rename(tree / "src")
    assert index.check(root_fd, use_c=use_c) == Checked(
        [b"", b"src", b"src/deep"], [], frozenset({b"src", b"src/deep"})
    )


@both_ways
def test_what_is_reached_only_through_a_link_is_lost(tree: Path, root_fd: int, use_c: bool) -> None:
    index = look_at(tree)
    (tree / "src").rename(tree / "moved")
    (tree / "src").symlink_to("moved")
    (tree / "src/deep/three").write_text("changed, and not ours any more")
    assert index.check(root_fd, use_c=use_c) == Checked(
        [b"", b"src", b"src/deep"], [], frozenset({b"src", b"src/deep"})
    )


@both_ways
def test_a_fifo_in_the_place_of_a_folder_stops_nobody(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    index = look_at(tree)
    shutil.rmtree(tree / "docs")
    os.mkfifo(tree / "docs")
    assert index.check(root_fd, use_c=use_c) == Checked([b"", b"docs"], [], frozenset({b"docs"}))


@both_ways
def test_what_differs_is_named_in_the_order_of_bytes(tree: Path, root_fd: int, use_c: bool) -> None:
    for name in ("src/deep", "src-2", "src-2/deep"):
        (tree / name).mkdir(exist_ok=True)
        (tree / name / "file").touch()
    index = look_at(tree)
    paths = [b"src", b"src-2", b"src-2/deep", b"src/deep"]
    for path in paths:
        (tree / os.fsdecode(path) / "new").touch()
    for path in paths[1:]:
        (tree / os.fsdecode(path) / "file").chmod(0o600)
    found = index.check(root_fd, use_c=use_c)
    assert found == Checked(paths, [(path, b"file") for path in paths[1:]])


@both_ways
def test_only_the_folders_asked_for_are_looked_at(tree: Path, root_fd: int, use_c: bool) -> None:
    index = look_at(tree)
    for name in ("top", "src/one", "docs/page", "src/deep/three"):
        (tree / name).write_text("something else")
    found = index.check(root_fd, only=[b"src/deep", b"unknown", b"docs", b"docs"], use_c=use_c)
    assert found == Checked([], [(b"docs", b"page"), (b"src/deep", b"three")])
    assert index.check(root_fd, only=[], use_c=use_c) == NOTHING


@both_ways
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not look")
def test_a_folder_that_is_shut_to_us_is_named(tree: Path, root_fd: int, use_c: bool) -> None:
    (tree / "src").chmod(0o700)
    index = look_at(tree)
    os.seteuid(65534)
    try:
        found = index.check(root_fd, use_c=use_c)
    finally:
        os.seteuid(0)
    # What lies in it cannot be seen: all of it may have changed.
    rows = [(b"src", b"one"), (b"src", b"two")]
    assert found == Checked([b"src", b"src/deep"], rows, frozenset({b"src/deep"}))


@both_ways
def test_a_date_beyond_64_bits_is_named_and_breaks_nothing(
    tree: Path, root_fd: int, use_c: bool
) -> None:
    before = look_at(tree)
    os.utime(tree / "top", ns=(2**63, 2**63 + 5))
    assert before.check(root_fd, use_c=use_c).rows == [(b"", b"top")]
    if os.lstat(tree / "top").st_mtime_ns == 2**63 + 5:  # not every file system knows the year 2262
        assert look_at(tree).check(root_fd, use_c=use_c).rows == [(b"", b"top")]
    os.utime(tree / "top", ns=(-5, -5))
    assert look_at(tree).check(root_fd, use_c=use_c) == NOTHING


@both_ways
@pytest.mark.parametrize("threads", [1, 4])
def test_any_number_of_differences_is_named_whoever_finds_them(
    tree: Path, root_fd: int, use_c: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a share of one thread, all in one folder, between folders with hardly anything.
    for number in range(1500):
        os.link(tree / "top", tree / "src" / f"hard-{number:04}")
    index = look_at(tree)
    monkeypatch.setattr(statcheck, "_threads_for", lambda _: threads)
    assert index.check(root_fd, use_c=use_c) == NOTHING
    (tree / "top").write_text("another content")
    names = [f"hard-{number:04}".encode() for number in range(1500)]
    found = index.check(root_fd, use_c=use_c)
    assert found == Checked([], [(b"", b"top"), *((b"src", name) for name in names)])


# The compiled check


@needs_library
def test_the_library_was_built_from_the_source_that_is_here() -> None:
    folder = Path(statcheck.__file__).parent
    built = ctypes.CDLL(str(folder / library_name("statcheck")))
    digest = sha256((folder / "_statcheck.c").read_bytes()).hexdigest()
    built_from = (ctypes.c_char * 65).in_dll(built, "holdfast_statcheck_source").value.decode()
    assert built_from == digest, "stale: `pip install --editable .` builds it again"


def test_python_takes_over_where_no_library_fits(
    tree: Path, root_fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    monkeypatch.setattr(statcheck, "load_library", statcheck.load_library.__wrapped__)
    index = look_at(tree)
    (tree / "src/one").chmod(0o600)
    for content in (None, b"not a library"):
        if content is not None:
            (tmp_path / library_name("statcheck")).write_bytes(content)
        assert index.check(root_fd) == Checked([], [(b"src", b"one")])
        with pytest.raises(RuntimeError, match="there is no _statcheck"):
            index.check(root_fd, use_c=True)


# Racily clean


def test_a_ctime_well_before_the_reading_is_proof() -> None:
    assert settled(1_000_000_001, read_at_ns=1_050_000_002) == 1_000_000_001


def test_a_ctime_close_to_the_reading_or_after_it_is_none() -> None:
    assert settled(1_000_000_001, read_at_ns=1_050_000_001) == unsure(1_000_000_001)
    assert settled(1_000_000_001, read_at_ns=1_000_000_001) == unsure(1_000_000_001)
    assert is_unsure(settled(9_000_000_001, read_at_ns=1_000_000_001))


def test_whole_seconds_need_two_of_them() -> None:
    assert is_unsure(settled(3_000_000_000, read_at_ns=5_000_000_000))
    assert settled(3_000_000_000, read_at_ns=5_000_000_001) == 3_000_000_000


def test_who_knows_the_clock_needs_no_margin_and_who_sees_no_writers_a_longer_one() -> None:
    assert settled(1_000_000_001, read_at_ns=1_000_000_002, margin_ns=0) == 1_000_000_001
    assert is_unsure(settled(1_000_000_001, read_at_ns=1_000_000_001, margin_ns=0))
    assert is_unsure(settled(3_000_000_000, read_at_ns=5_000_000_000, margin_ns=0))
    assert is_unsure(settled(1_000_000_001, read_at_ns=2_000_000_000, margin_ns=10**9))


@pytest.mark.parametrize("ctime_ns", [0, 1, 2**63 - 1, -1, -5])
def test_what_is_unsure_says_so_and_what_it_was(ctime_ns: int) -> None:
    assert is_unsure(unsure(ctime_ns))
    assert unsure(unsure(ctime_ns)) == unsure(ctime_ns)
    assert ctime_ns < 0 or -1 - unsure(ctime_ns) == ctime_ns


def test_a_change_after_a_settled_stat_never_has_the_same_ctime(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    while True:
        read_at_ns = time_ns()
        before = os.lstat(path)
        if not is_unsure(settled(before.st_ctime_ns, read_at_ns=read_at_ns)):
            break
    path.write_text("new")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = os.lstat(path)
    assert after.st_mtime_ns == before.st_mtime_ns
    assert after.st_size == before.st_size
    assert after.st_ctime_ns != before.st_ctime_ns

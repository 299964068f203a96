"""Many files created at once: the same as one by one, nothing overwritten, all read back."""

import ctypes
import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.engine.files.retrieval import ahead
from holdfast.workspace import creating, library
from holdfast.workspace.creating import (
    BROKEN,
    DIFFERS,
    LEFT,
    MADE,
    Created,
    NewFile,
    load_creator,
    open_together,
    stamp_of,
)
from holdfast.workspace.library import library_name
from holdfast.workspace.placing import umask

needs_library = pytest.mark.skipif(
    load_creator() is None, reason="it was not compiled: no compiler at hand"
)

LATEST_NS = 2**63 - 1
BEFORE_1970_NS = -1_500_000_000


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


def create(root: Path, *files: NewFile, reads_back: bool = True) -> Created:
    def open_folder(path: bytes) -> int:
        nonlocal last
        if last is not None:
            os.close(last)
        last = os.open(root / os.fsdecode(path), os.O_RDONLY | os.O_DIRECTORY)
        return last

    last: int | None = None
    creator = load_creator()
    assert creator is not None
    try:
        with open_together(files, open_folder) as fds:
            return creator(files, fds, umask=umask(), reads_back=reads_back)
    finally:
        if last is not None:
            os.close(last)


@needs_library
def test_files_have_the_content_mode_and_time_that_was_asked_for(folders: Path) -> None:
    sizes = (0, 1, 16 << 10, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20)
    modes = (0o600, 0o644, 0o755, 0o666, 0o777, 0o400, 0o1644)
    times = (0, 5, 10**18, LATEST_NS, BEFORE_1970_NS, -1, 1)
    files = [
        NewFile(folder, b"f\xff%d" % number, os.urandom(size), mode, mtime_ns)
        for folder in (b"a", b"b")
        for number, (size, mode, mtime_ns) in enumerate(zip(sizes, modes, times, strict=True))
    ]
    done = create(folders, *files)
    assert (list(done.outcomes), done.problem) == ([MADE] * len(files), 0)
    for file, known in zip(files, done.stamps, strict=True):
        path = os.fsencode(folders) + b"/" + file.folder + b"/" + file.name
        state = os.stat(path)
        assert Path(os.fsdecode(path)).read_bytes() == file.data
        assert stat.S_IMODE(state.st_mode) == file.mode
        assert state.st_mtime_ns == file.mtime_ns
        assert stamp_of(state) == known


@needs_library
def test_what_is_there_is_left_alone_and_no_link_is_followed(folders: Path) -> None:
    (folders / "a/there").write_bytes(b"precious")
    (folders / "a/link").symlink_to(folders / "outside")
    (folders / "a/folder").mkdir()
    names = (b"there", b"link", b"folder", b"gone/x", b"new")
    done = create(folders, *(NewFile(b"a", name, b"data", 0o644, 5) for name in names))
    assert list(done.outcomes) == [LEFT, LEFT, LEFT, LEFT, MADE]
    assert (folders / "a/there").read_bytes() == b"precious"
    assert not (folders / "outside").exists()
    assert not list((folders / "a/folder").iterdir())


@needs_library
def test_a_file_with_a_hole_is_left_to_who_can_make_one(folders: Path) -> None:
    hole = bytes(16 << 10)
    contents = (hole, b"x" * (16 << 10) + hole, b"x" + hole + b"x", hole[1:])
    files = [NewFile(b"a", b"%d" % n, data, 0o644, 5) for n, data in enumerate(contents)]
    # Only where a multiple of so many bytes begins: elsewhere no hole would come of it.
    assert list(create(folders, *files).outcomes) == [LEFT, LEFT, MADE, MADE]


@needs_library
def test_a_file_that_cannot_be_filled_is_told_and_those_after_it_are_left(folders: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    files = [NewFile(b"a", b"%d" % n, b"x" * size, 0o644, 5) for n, size in enumerate((9, 9000, 9))]
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        done = create(folders, *files)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (list(done.outcomes), done.problem) == ([MADE, BROKEN, LEFT], errno.EFBIG)
    assert not (folders / "a/2").exists()


@needs_library
def test_a_file_that_is_not_what_was_written_is_not_made(folders: Path) -> None:
    # The process gives fewer bits than it says it does: what comes of it has another mode.
    creator = load_creator()
    assert creator is not None
    files = [NewFile(b"a", b"f", b"data", 0o666, 5)]
    previous = os.umask(0o077)
    try:
        fd = os.open(folders / "a", os.O_RDONLY)
        done = creator(files, {b"a": fd}, umask=0, reads_back=True)
        unread = creator([files[0]._replace(name=b"g")], {b"a": fd}, umask=0, reads_back=False)
        os.close(fd)
    finally:
        os.umask(previous)
    assert list(done.outcomes) == [DIFFERS]
    assert (list(unread.outcomes), unread.stamps) == ([MADE], [])


@needs_library
def test_no_descriptor_is_left_open(folders: Path) -> None:
    files = [NewFile(b"a", b"%d" % n, b"data", 0o644, 5) for n in range(50)]
    before = os.listdir("/dev/fd")
    create(folders, *files)
    create(folders, *files)
    assert len(os.listdir("/dev/fd")) == len(before)


@needs_library
def test_the_library_was_built_from_the_source_that_is_here() -> None:
    folder = Path(creating.__file__).parent
    built = ctypes.CDLL(str(folder / library_name("creating")))
    digest = sha256((folder / "_creating.c").read_bytes()).hexdigest()
    built_from = (ctypes.c_char * 65).in_dll(built, "holdfast_creating_source").value.decode()
    assert built_from == digest, "stale: `pip install --editable .` builds it again"


def test_there_is_no_creator_where_no_library_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert load_creator.__wrapped__() is None
    (tmp_path / library_name("creating")).write_bytes(b"not a library")
    assert load_creator.__wrapped__() is None


# What a thread makes ahead of its use


def test_items_come_in_order_and_from_another_thread() -> None:
    def items() -> Iterator[tuple[int, int]]:
        for number in range(5):
            yield number, threading.get_ident()

    found = list(ahead(items()))
    assert [number for number, _ in found] == list(range(5))
    assert threading.get_ident() not in {ident for _, ident in found}


def test_a_failure_comes_in_its_turn() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    coming = ahead(items())
    assert next(coming) == 1
    with pytest.raises(KeyboardInterrupt):
        next(coming)


def test_where_no_thread_can_be_had_items_are_made_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def items() -> Iterator[int]:
        yield from (1, 2)
        raise RuntimeError("of its own")

    monkeypatch.setattr(threading.Thread, "start", start)
    coming = ahead(items())
    assert [next(coming), next(coming)] == [1, 2]
    with pytest.raises(RuntimeError, match="of its own"):
        next(coming)


def test_items_are_made_while_the_process_ends() -> None:
    script = "import atexit\nfrom holdfast.engine.files.retrieval import ahead\n"
    script += "atexit.register(lambda: print(list(ahead(iter('abc')))))"
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"['a', 'b', 'c']\n"


def test_who_stops_early_leaves_no_thread_and_at_most_one_item_made_in_vain() -> None:
    made = list[int]()

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    coming = ahead(items())
    assert next(coming) == 0
    coming.close()
    assert len(made) <= 2
    assert not [t for t in threading.enumerate() if t.name.startswith("holdfast-ahead")]

"""The parts that touch a user's directory, each for itself."""

import json
import os
import stat
import threading
from collections.abc import Generator, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.core.coverage import LISTED, Coverage, coverage_of, summarise
from holdfast.entries import Directory, Entry, Inline, InlineTwin, Link
from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model.basics import Kind, Size, SnapshotInfo
from holdfast.workspace import guard
from holdfast.workspace import scan as scanning
from holdfast.workspace.descent import Descent, open_folder, open_root
from holdfast.workspace.drafts import Draft, Omitted
from holdfast.workspace.ignoring import Rules
from holdfast.workspace.journal import Journal, is_settled, litter_pattern, was_restarted
from holdfast.workspace.reading import TORN, Unreadable, Vanished, read_all, read_link, read_still
from holdfast.workspace.resting import Resting
from holdfast.workspace.scan import Scanner
from holdfast.workspace.statindex import Checked, Folder, StatIndex, is_unsure
from holdfast.workspace.writing import Drifted, Step, Writer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def put(path: Path, data: bytes = b"1", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# Descending


def test_a_descent_opens_folders_and_closes_what_it_opened(root: Path, root_fd: int) -> None:
    put(root / "a/b/c/f")
    put(root / "a/d/f")
    before = open_files()
    with Descent(root_fd) as descent:
        for path in (b"a/b/c", b"a/d", b"", b"a", b"a/b", b"a/b/c"):
            fd = descent.open(path)
            assert os.path.samestat(os.fstat(fd), os.stat(root / path.decode()))
    assert open_files() == before


def test_a_descent_goes_through_no_link_and_says_where_it_stopped(root: Path, root_fd: int) -> None:
    put(root / "real/b/f")
    (root / "link").symlink_to("real")
    with Descent(root_fd) as descent:
        for path, reached in [
            (b"link/b", b"link"),
            (b"real/b/f", b"real/b/f"),
            (b"real/b/f/g", b"real/b/f"),
        ]:
            with pytest.raises(NotADirectoryError):
                descent.open(path)
            assert descent.reached == reached
        with pytest.raises(FileNotFoundError):
            descent.open(b"real/none/b")
        assert descent.reached == b"real/none"
        assert os.path.samestat(os.fstat(descent.open(b"real/b")), os.stat(root / "real/b"))


def test_a_descent_holds_the_folder_whatever_becomes_of_its_name(
    root: Path, root_fd: int, tmp_path: Path
) -> None:
    put(root / "a/b/f")
    outside = put(tmp_path / "outside/b/f").parent.parent
    with Descent(root_fd) as descent:
        held = os.stat(root / "a/b")
        descent.open(b"a/b")
        os.rename(root / "a", root / "moved")
        (root / "a").symlink_to(outside)
        assert os.path.samestat(os.fstat(descent.open(b"a/b")), held)
        descent.forget()
        with pytest.raises(NotADirectoryError):
            descent.open(b"a/b")


@pytest.mark.parametrize("name", [b"..", b".", b"", b"a/b", b"a\0"])
def test_what_is_no_name_of_one_folder_is_not_opened(root: Path, root_fd: int, name: bytes) -> None:
    put(root / "a/b/f")
    with pytest.raises(NotADirectoryError):
        open_folder(name, root_fd)


def test_the_root_is_opened_through_no_link(root: Path, tmp_path: Path) -> None:
    put(root / "a/f")
    (tmp_path / "link").symlink_to(root)
    fd = open_root(str(root / "a"))
    assert os.path.samestat(os.fstat(fd), os.stat(root / "a"))
    os.close(fd)
    before = open_files()
    for path in (tmp_path / "link", tmp_path / "link" / "a", root / "a" / "f"):
        with pytest.raises(NotADirectoryError):
            open_root(str(path))
    assert open_files() == before


# Reading


def everything(fd: int, state: os.stat_result) -> bytes:
    return read_all(fd, state.st_size)


def test_a_file_is_read_with_the_state_that_it_had(root: Path, root_fd: int) -> None:
    for size in (0, 1, 70_000, 3 << 20):
        file = put(root / "f", b"x" * size)
        data, state, *_ = read_still(b"f", root_fd, everything, resting=Resting())
        assert data == b"x" * size
        assert (state.st_size, state.st_mtime_ns) == (size, os.stat(file).st_mtime_ns)


@pytest.mark.parametrize("change", ["longer", "shorter", "rewritten", "mode"])
def test_a_file_that_changes_under_the_reader_is_read_again(
    root: Path, root_fd: int, change: str
) -> None:
    file = put(root / "f", b"before")
    reads: list[bytes] = []

    def read(fd: int, state: os.stat_result) -> bytes:
        data = read_all(fd, state.st_size)
        reads.append(data)
        if len(reads) == 1:
            match change:
                case "longer":
                    file.write_bytes(b"before and after")
                case "shorter":
                    os.truncate(file, 2)
                case "rewritten":
                    file.write_bytes(b"behind")
                case _:
                    file.chmod(0o600)
        return data

    data, state, *_ = read_still(b"f", root_fd, read, resting=Resting())
    assert len(reads) > 1
    assert data == file.read_bytes()
    assert state.st_mode == os.stat(file).st_mode


def test_a_file_that_is_replaced_is_read_under_its_name(root: Path, root_fd: int) -> None:
    put(root / "f", b"old")

    def read(fd: int, state: os.stat_result) -> bytes:
        data = read_all(fd, state.st_size)
        if data == b"old":
            os.rename(put(root / "g", b"new"), root / "f")
        return data

    data, state, *_ = read_still(b"f", root_fd, read, resting=Resting())
    # One whole version or the other; the state is of the one that was read.
    assert (data, state.st_size) in [(b"old", 3), (b"new", 3)]
    if data == b"new":
        assert state.st_ino == os.stat(root / "f").st_ino


def test_a_file_that_never_holds_still_is_in_motion(root: Path, root_fd: int) -> None:
    file = put(root / "f", b"0")

    def read(_: int, state: os.stat_result) -> bytes:
        file.write_bytes(b"x" * (state.st_size + 1))
        return b""

    found = read_still(b"f", root_fd, read, resting=Resting())
    assert found.motion == TORN
    assert is_unsure(found.ctime_ns)


def test_what_is_no_file_is_not_read_and_not_waited_for(root: Path, root_fd: int) -> None:
    put(root / "file")
    (root / "link").symlink_to("file")
    (root / "folder").mkdir()
    # Nobody writes to it: an open that waits for somebody would wait for ever.
    os.mkfifo(root / "fifo")
    for name in (b"link", b"folder", b"fifo", b"missing"):
        with pytest.raises(Vanished):
            read_still(name, root_fd, everything, resting=Resting())


def test_an_error_of_the_disk_is_a_file_that_cannot_be_read(root: Path, root_fd: int) -> None:
    put(root / "f")

    def read(_: int, __: os.stat_result) -> bytes:
        raise OSError(5, "Input/output error")

    with pytest.raises(Unreadable, match="Input/output"):
        read_still(b"f", root_fd, read, resting=Resting())


def test_a_link_is_read_and_nothing_else_is_one(root: Path, root_fd: int) -> None:
    os.symlink(b"\xff/there", os.fsencode(root) + b"/link")
    put(root / "file")
    target, state = read_link(b"link", root_fd)
    assert target == b"\xff/there"
    assert state.st_mtime_ns == os.lstat(root / "link").st_mtime_ns
    for name in (b"file", b"missing"):
        with pytest.raises(Vanished):
            read_link(name, root_fd)


# Rules


def test_rules_match_as_gitignore_does() -> None:
    rules = Rules(b"*.log\n!keep.log\n/top\nbuild/\ndoc/*.txt\n**/deep\n\xff*\n")
    excluded = [b"a.log", b"x/a.log", b"top", b"doc/a.txt", b"x/y/deep", b"\xff\xfe"]
    kept = [b"keep.log", b"x/keep.log", b"x/top", b"x/doc/a.txt", b"build", b"doc/x/a.txt", b"a"]
    assert [path for path in excluded if not rules.excludes(path, is_folder=False)] == []
    assert [path for path in kept if rules.excludes(path, is_folder=False)] == []
    assert rules.excludes(b"build", is_folder=True)
    assert rules.excludes(b"x/build", is_folder=True)


def test_rules_are_the_same_if_their_text_is() -> None:
    assert Rules(b"a\n").digest == Rules(b"a\n").digest
    assert Rules(b"a\n").digest != Rules(b"b\n").digest
    assert Rules(b"a\n").digest != Rules().digest
    some = Rules(b"a\n", including=frozenset({b"a/b"}))
    assert some.digest != Rules(b"a\n").digest


def test_a_path_can_be_included_against_the_rules_with_its_way_and_its_content() -> None:
    rules = Rules(b"build\n*.log\n", including=frozenset({b"build/x"}))
    for path, is_folder in [(b"build", True), (b"build/x", True), (b"build/x/y.log", False)]:
        assert not rules.excludes(path, is_folder=is_folder)
    for path in (b"build/y.log", b"build/xy.log", b"a.log", b"x/build"):
        assert rules.excludes(path, is_folder=False)


@pytest.mark.parametrize("rule", [b"build/\n", b"build\n", b"/build\n", b"b*/\n"])
def test_what_lies_beside_an_included_path_stays_left_out(rule: bytes) -> None:
    rules = Rules(rule, including=frozenset({b"build/deep/x"}))
    for folder in (b"build", b"build/deep"):
        assert not rules.excludes(folder, is_folder=True)
    assert not rules.excludes(b"build/deep/x", is_folder=False)
    for path in (b"build/y", b"build/deep/y"):
        assert rules.excludes(path, is_folder=False)
        assert rules.excludes_within(path)
    assert rules.excludes(b"build/other", is_folder=True)
    assert not rules.excludes(b"src", is_folder=True)


# What is refused


def test_directories_that_hold_too_much_are_refused(tmp_path: Path) -> None:
    home, vault = tmp_path / "home", tmp_path / "vault"
    for folder in (home / "project", vault / "inside", tmp_path / "homes"):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    refused = ["/", home, tmp_path, tmp_path / "link", vault, vault / "inside", home / "x" / ".."]
    for path in refused:
        with pytest.raises(errors.DirectoryRefused):
            guard.check_directory(Path(path), home=home, vault=[vault])
    for path in (home / "project", tmp_path / "homes"):
        guard.check_directory(path, home=home, vault=[vault])
    guard.check_directory(home, home=None)


def test_file_systems_without_files_are_skipped_and_others_are_not(tmp_path: Path) -> None:
    reason = guard.describe_mount(os.stat("/proc").st_dev)
    assert reason is not None
    assert "proc" in reason
    assert guard.describe_mount(os.stat(tmp_path).st_dev) is None


# Coverage


def snapshot_with(coverage: Coverage) -> SnapshotInfo:
    detail = json.loads(json.dumps(coverage.to_detail()))
    return SnapshotInfo(
        id=SnapshotId("snap-1"),
        namespace_id=NamespaceId(1),
        number=1,
        kind=Kind.SNAPSHOT,
        root=ObjectId(bytes(32)),
        parent=None,
        target=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        size=Size(0, 0),
        detail=detail,
    )


def test_coverage_survives_being_stored_with_any_name() -> None:
    omitted = {
        b"": [Omitted(b"socket", "skipped", "a socket"), Omitted(b"\xff", "failed", "no")],
        b"d": [Omitted(b"", "failed", "Permission denied"), Omitted(b"x.log", "excluded", "rule")],
        b"\xfe/e": [Omitted(b"\\xff", "failed", "no")],
    }
    moving = {b"d/log": "it was open for writing", b"\xfd": "it changed each time it was read"}
    coverage = summarise(omitted, moving, captured=3, captured_bytes=30)
    found = coverage_of(snapshot_with(coverage))
    assert found == coverage
    assert [o.path for o in coverage.failed] == ["\udcff", "d", "\udcfe/e/\\xff"]
    assert [o.path for o in coverage.in_motion] == ["d/log", "\udcfd"]
    assert coverage.is_partial
    empty = summarise({}, {}, captured=0, captured_bytes=0)
    assert coverage_of(snapshot_with(empty)) == empty
    in_motion = summarise({}, moving, captured=0, captured_bytes=0)
    assert not in_motion.is_partial
    assert not snapshot_with(in_motion).is_partial


def test_coverage_lists_some_of_what_is_left_out_and_all_that_failed_or_was_in_motion() -> None:
    many = LISTED + 5
    omitted = {
        b"d": [
            Omitted(b"%d" % number, kind, "because")
            for number in range(many)
            for kind in ("skipped", "excluded", "failed")
        ]
    }
    moving = {b"%d" % number: "because" for number in range(many)}
    coverage = summarise(omitted, moving, captured=0, captured_bytes=0)
    assert (len(coverage.skipped), len(coverage.excluded)) == (LISTED, LISTED)
    assert (coverage.skipped_count, coverage.excluded_count) == (many, many)
    assert len(coverage.failed) == len(coverage.in_motion) == many


# The journal


def test_a_journal_says_what_is_under_way_until_it_is_cleared(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.json")
    assert journal.find() is None
    journal.begin(litter=".holdfast-1", back="snap-1", mark="snap-2")
    record = Journal(tmp_path / "journal.json").find()
    assert record is not None
    assert (record.state, record.back, record.mark) == ("applying", "snap-1", "snap-2")
    assert not was_restarted(record)
    journal.applied()
    record = journal.find()
    assert record is not None
    assert record.state == "applied"
    assert not is_settled(record)
    journal.clear()
    assert journal.find() is None


@pytest.mark.parametrize("junk", [b"{", b"[]", b'{"state": 1}', b"\xff\xfe", b"null"])
def test_a_journal_that_cannot_be_read_means_look_again_and_touch_nobodys_files(
    tmp_path: Path, junk: bytes
) -> None:
    (tmp_path / "journal.json").write_bytes(junk)
    record = Journal(tmp_path / "journal.json").find()
    assert record is not None
    assert record.state == "applying"
    assert was_restarted(record)
    pattern = litter_pattern(record)
    assert not pattern.fullmatch(b".holdfast-notes")
    assert not pattern.fullmatch(b".holdfastignore")


# Writing


class Bytes:
    """Contents that are in the entries themselves."""

    def load(self, batches: Sequence[Sequence[Entry]]) -> Generator[list[bytes | None]]:
        for entries in batches:
            yield [entry.data if isinstance(entry, Inline) else b"" for entry in entries]

    def stream(self, entry: Entry) -> Iterator[bytes]:
        assert isinstance(entry, Inline)
        yield entry.data

    def patches(self, old: Entry, new: Entry) -> None:
        """Nothing is large here."""


class Map:
    """A state to come."""

    def __init__(self, entries: dict[bytes, Entry]) -> None:
        self._entries = entries

    def find(self, key: bytes) -> Entry | None:
        return self._entries.get(key)

    def is_folder(self, path: bytes) -> bool:
        below = any(key.startswith(path + b"/") for key in self._entries)
        return below or isinstance(self._entries.get(path), Directory)


def known_of(root_fd: int) -> StatIndex:
    """Returns an index that knows what is there now."""
    scan = Scanner(root_fd, StatIndex.empty(), Rules()).scan()
    folders: dict[bytes, Folder | None] = {
        path: draft.finish() for path, draft in scan.drafts.items()
    }
    return StatIndex.empty().replacing(folders, meta=b"")


def test_of_a_folder_that_moved_only_what_differs_is_looked_at_again(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        put(root / f"src/{number}")
    sleep(0.1)  # So that what was there is sure.
    index = known_of(root_fd)
    put(root / "new").rename(root / "src/7")
    put(root / "src/8", b"22")
    put(root / "src/more/deep")
    put(root / "src/added")
    (root / "src/9").unlink()
    looked, take = list[bytes](), Scanner._take

    def taking(self: Scanner, draft: Draft, name: bytes, *more: Any) -> None:
        looked.append(draft.key(name))
        take(self, draft, name, *more)

    monkeypatch.setattr(Scanner, "_take", taking)
    scan = Scanner(root_fd, index, Rules()).scan(only=[b"src"])
    assert sorted(looked) == [b"src/7", b"src/8", b"src/added", b"src/more", b"src/more/deep"]
    assert scan.drafts[b"src"].wanted == {b"7", b"8", b"added"}
    listed = Scanner(root_fd, StatIndex.empty(), Rules()).scan().drafts[b"src"]
    assert (scan.drafts[b"src"].rows, scan.drafts[b"src"].folders) == (listed.rows, listed.folders)


def test_what_is_renamed_between_the_check_and_the_listing_is_looked_at(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "x", b"of x")
    put(root / "y", b"of y")
    sleep(0.1)  # So that what was there is sure.
    index = known_of(root_fd)
    put(root / "new")
    check = StatIndex.check

    def checking(self: StatIndex, fd: int, **options: Any) -> Checked:
        checked = check(self, fd, **options)
        (root / "x").rename(root / "y")
        return checked

    monkeypatch.setattr(StatIndex, "check", checking)
    draft = Scanner(root_fd, index, Rules()).scan().drafts[b""]
    assert draft.rows.keys() == {b"new", b"y"}
    assert draft.wanted == {b"new", b"y"}


def test_a_change_of_just_before_disturbs_a_look_that_lacks_something(
    root: Path, root_fd: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(root / "a/x/f")
    put(root / "b/g")
    index = known_of(root_fd)
    moved = [(root / name).stat() for name in ("a/x", "a/x/f")]
    # As if the look had begun in the tick of all that was done here.
    monkeypatch.setattr(scanning, "floor_ns", lambda: (root / "a").stat().st_ctime_ns - 1)
    (root / "a/x").rename(root / "b/x")
    scan = Scanner(root_fd, index, Rules()).scan()
    assert (scan.missed, scan.is_disturbed) == ({}, False), "it is there"
    assert Scanner(root_fd, index, Rules(), is_wary=True).scan().is_disturbed
    (root / "b/x").rename(root.parent / "elsewhere")
    # The folder that it was known in is older, as if it had gone from there long ago.
    monkeypatch.setattr(scanning, "floor_ns", lambda: (root / "b").stat().st_ctime_ns - 1)
    scan = Scanner(root_fd, index, Rules()).scan()
    assert scan.is_disturbed
    assert scan.missed.keys() == {(state.st_dev, state.st_ino) for state in moved}


def writer_to(root_fd: int, goal: dict[bytes, Entry], index: StatIndex | None = None) -> Writer:
    return Writer(
        root_fd,
        known_of(root_fd) if index is None else index,
        Bytes(),  # pyright: ignore[reportArgumentType] - of these entries alone
        litter=b".holdfast-test",
        goal=Map(goal),
    )


def file(data: bytes, mode: int = 0o644) -> Inline:
    return Inline(data, mode, 5)


def test_a_writer_makes_what_it_is_told_and_no_bit_of_privilege(root: Path, root_fd: int) -> None:
    goal: dict[bytes, Entry] = {
        b"d/e/f": file(b"content", 0o6755),
        b"d/l": Link(b"\xff", 7),
        b"empty": Directory(0o7700),
        b"t": InlineTwin(b"twin", 0o600, 5, b"t"),
        b"u": InlineTwin(b"twin", 0o600, 5, b"t"),
    }
    writer = writer_to(root_fd, goal)
    writer.carry_out([Step(key, None, entry) for key, entry in goal.items()])
    assert (root / "d/e/f").read_bytes() == b"content"
    assert stat.S_IMODE(os.stat(root / "d/e/f").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(root / "empty").st_mode) == 0o1700
    assert stat.S_IMODE(os.stat(root / "d/e").st_mode) == 0o755
    assert os.readlink(os.fsencode(root) + b"/d/l") == b"\xff"
    assert os.lstat(root / "d/l").st_mtime_ns == 7
    assert os.path.samefile(root / "t", root / "u")
    assert b"d/e" in writer.touched
    assert not list(root.rglob(".holdfast-*"))


@pytest.mark.parametrize("drift", ["rewritten", "replaced", "removed", "became a link", "appeared"])
def test_a_writer_stops_at_what_it_does_not_know(
    root: Path, root_fd: int, drift: str, tmp_path: Path
) -> None:
    put(root / "f", b"known")
    outside = put(tmp_path / "outside", b"outside")
    index = known_of(root_fd)
    if drift == "appeared":
        put(root / "g", b"precious")
    elif drift == "rewritten":
        (root / "f").write_bytes(b"precious")
    else:
        (root / "f").unlink()
        if drift == "replaced":
            put(root / "f", b"precious")
        elif drift == "became a link":
            (root / "f").symlink_to(outside)
    key = b"g" if drift == "appeared" else b"f"
    old = None if drift == "appeared" else file(b"known")
    before = {path: os.lstat(path) for path in root.iterdir()}
    for new in (file(b"new"), Link(b"x", 5), None):
        goal: dict[bytes, Entry] = {} if new is None else {key: new}
        if drift == "appeared" and new is None:
            continue
        with pytest.raises(Drifted):
            writer_to(root_fd, goal, index).carry_out([Step(key, old, new)])
    assert {path: os.lstat(path) for path in root.iterdir()} == before
    assert outside.read_bytes() == b"outside"


def test_a_writer_makes_no_folder_anew_in_which_a_file_was(root: Path, root_fd: int) -> None:
    put(root / "d/f", b"known")
    index = known_of(root_fd)
    (root / "d/f").unlink()
    (root / "d").rmdir()
    for new in (file(b"new"), Link(b"x", 5)):
        with pytest.raises(Drifted):
            writer_to(root_fd, {b"d/f": new}, index).carry_out([Step(b"d/f", file(b"known"), new)])
    assert not (root / "d").exists()


def test_a_further_name_of_a_file_is_put_into_no_folder_that_has_gone(
    root: Path, root_fd: int
) -> None:
    put(root / "d/f", b"known")
    index = known_of(root_fd)
    (root / "d/f").unlink()
    (root / "d").rmdir()
    first = InlineTwin(b"new", 0o644, 5, b"a")
    goal: dict[bytes, Entry] = {b"a": first, b"d/f": first}
    steps = [Step(b"a", None, first), Step(b"d/f", file(b"known"), first)]
    with pytest.raises(Drifted):
        writer_to(root_fd, goal, index).carry_out(steps)
    assert not (root / "d").exists()


def test_a_writer_keeps_a_folder_in_which_something_lies(root: Path, root_fd: int) -> None:
    put(root / "d/e/f", b"1")
    os.mkfifo(root / "d/e/fifo")
    writer = writer_to(root_fd, {})
    writer.carry_out([Step(b"d/e/f", file(b"1"), None)])
    assert sorted(writer.kept) == [b"d", b"d/e"]
    assert os.listdir(root / "d/e") == ["fifo"]


def test_a_writer_leaves_no_temporary_file_when_it_fails(root: Path, root_fd: int) -> None:
    writer = writer_to(root_fd, {b"l": Link(b"x" * 5000, 5), b"a": file(b"1")})
    with pytest.raises(OSError, match="too long"):
        writer.carry_out([Step(b"l", None, Link(b"x" * 5000, 5)), Step(b"a", None, file(b"1"))])
    assert [path.name for path in root.iterdir() if path.name.startswith(".holdfast-")] == []


# Attachments


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


def test_a_directory_is_attached_once_and_found_from_below(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    put(tmp_path / "here/project/src/f")
    (tmp_path / "link").symlink_to("here")
    first = vault.workspace(tmp_path / "here/project")
    again = vault.workspace(tmp_path / "link/project")
    assert (again.path, again.namespace.name) == (first.path, "project")
    below = vault.find_workspace(tmp_path / "here/project/src")
    assert below is not None
    assert below.path == first.path
    assert vault.find_workspace(tmp_path / "here") is None
    assert [(a.path, a.namespace) for a in vault.workspaces()] == [(first.path, "project")]


def test_the_nearest_directory_is_found(vault: holdfast.Holdfast, tmp_path: Path) -> None:
    inner = put(tmp_path / "outer/inner/f").parent
    vault.workspace(inner.parent)
    vault.workspace(inner)
    found = vault.find_workspace(inner)
    assert found is not None
    assert found.path == inner.resolve()


def test_two_directories_of_one_name_get_namespaces_of_their_own(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    put(tmp_path / "a/project/f", b"a")
    put(tmp_path / "b/project/f", b"b")
    one, other = vault.workspace(tmp_path / "a/project"), vault.workspace(tmp_path / "b/project")
    assert one.namespace.name != other.namespace.name
    assert one.namespace.at(one.snapshot()).files.read("f") == b"a"
    assert other.namespace.at(other.snapshot()).files.read("f") == b"b"


def test_a_namespace_that_has_a_directory_is_not_given_to_another(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    put(tmp_path / "a/f")
    put(tmp_path / "b/f")
    vault.workspace(tmp_path / "a", namespace="agent")
    with pytest.raises(errors.NamespaceExists):
        vault.workspace(tmp_path / "b", namespace="agent")
    with pytest.raises(errors.NamespaceExists):
        vault.workspace(tmp_path / "a", namespace="other")


def test_a_directory_that_was_moved_takes_its_namespace_with_it(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    put(tmp_path / "a/f", b"1")
    snapshot = vault.workspace(tmp_path / "a", namespace="agent").snapshot()
    os.rename(tmp_path / "a", tmp_path / "b")
    moved = vault.workspace(tmp_path / "b", namespace="agent")
    put(tmp_path / "b/f", b"2")
    assert moved.restore(snapshot).verified
    assert (tmp_path / "b/f").read_bytes() == b"1"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"...", b" ", b"n" * 255, b"\x1b[31m"])
def test_a_directory_of_any_name_can_be_attached(
    vault: holdfast.Holdfast, tmp_path: Path, name: bytes
) -> None:
    folder = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(folder)
    workspace = vault.workspace(os.fsdecode(folder))
    with open(folder + b"/f", "wb") as opened:
        opened.write(b"1")
    snapshot = workspace.snapshot()
    assert workspace.namespace.at(snapshot).files.read("f") == b"1"
    assert workspace.namespace.name.isprintable()
    assert [a.path for a in vault.workspaces()] == [Path(os.fsdecode(folder))]


def test_whoever_holds_the_lock_is_alone(vault: holdfast.Holdfast, tmp_path: Path) -> None:
    put(tmp_path / "a/f")
    vault.workspace(tmp_path / "a")
    (attachment,) = vault.workspaces()
    order: list[str] = []
    has_begun = threading.Event()

    def second() -> None:
        has_begun.set()
        with attachment.locked():
            order.append("second")

    with attachment.locked():
        thread = threading.Thread(target=second)
        thread.start()
        has_begun.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_folder_that_is_no_attachment_is_passed_over(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    put(tmp_path / "a/f")
    attached = vault.workspace(tmp_path / "a")
    (tmp_path / "vault/workspaces/junk").mkdir()
    put(tmp_path / "vault/workspaces/torn/attachment.json", b'{"path": "zz"')
    put(tmp_path / "vault/workspaces/wrong/attachment.json", b'{"path": "zz"}')
    assert [a.path for a in vault.workspaces()] == [attached.path]

"""The watcher against the file system itself: whatever changed between two looks was announced."""

import ctypes
import errno
import os
import stat
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from holdfast.errors import Unavailable
from holdfast.workspace import watching
from holdfast.workspace.watching import Inotify, Watcher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")

Look = dict[bytes, dict[bytes, os.stat_result]]


def skips_nothing(path: bytes) -> bool:
    return path == b"never"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    for each in ("a/deep", "a/deep/deeper", "b", "c/d"):
        (folder / each).mkdir(parents=True)
        (folder / each / "file").write_text("x")
    return folder


@pytest.fixture
def watcher(tree: Path) -> Iterator[Watcher]:
    watcher = Watcher(str(tree), skips=skips_nothing)
    assert watcher.take() is None
    yield watcher
    watcher.close()


def test_nothing_happened(watcher: Watcher) -> None:
    assert watcher.take() == frozenset()
    assert not watcher.wait(0)


def test_reading_is_nothing(watcher: Watcher, tree: Path) -> None:
    assert (tree / "a/deep/file").read_text() == "x"
    assert sorted(os.listdir(tree / "c")) == ["d"]
    assert watcher.take() == frozenset()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda t: (t / "a/deep/file").write_text("yy"), {b"a/deep"}),
        (lambda t: (t / "new").write_text(""), {b""}),
        (lambda t: (t / "b/file").chmod(0o600), {b"b"}),
        (lambda t: (t / "b").chmod(0o700), {b"", b"b"}),
        (lambda t: os.utime(t / "b/file", (1, 1)), {b"b"}),
        (lambda t: (t / "b/file").unlink(), {b"b"}),
        (lambda t: (t / "b/link").symlink_to("nowhere"), {b"b"}),
        (lambda t: os.link(t / "a/deep/deeper/file", t / "b/other"), {b"b"}),
        (lambda t: (t / "b/file").rename(t / "c/d/moved"), {b"b", b"c/d"}),
        (lambda t: (t / "c").rename(t / "b/c"), {b"", b"b", b"b/c", b"b/c/d"}),
        (lambda t: (t / "b/x/y/z").mkdir(parents=True), {b"b", b"b/x", b"b/x/y", b"b/x/y/z"}),
        (lambda t: (t / "a").rename(t.parent / "outside"), {b""}),
    ],
)
def test_a_change_names_its_folder(
    watcher: Watcher, tree: Path, change: object, expected: set[bytes]
) -> None:
    assert callable(change)
    change(tree)
    assert watcher.wait(0)
    assert watcher.take() == expected
    assert watcher.take() == frozenset()


def test_removed_folders_are_told_by_their_parents(watcher: Watcher, tree: Path) -> None:
    (tree / "c/d/file").unlink()
    (tree / "c/d").rmdir()
    (tree / "c/file").unlink(missing_ok=True)
    (tree / "c").rmdir()
    taken = watcher.take()
    assert taken is not None
    assert taken >= {b"", b"c", b"c/d"}
    assert watcher.take() == frozenset()
    assert len(watcher._paths) == len(watcher._watches) == 5


def test_a_file_in_a_folder_that_is_new_is_not_missed(watcher: Watcher, tree: Path) -> None:
    for number in range(50):
        (tree / f"new{number}/inner").mkdir(parents=True)
        (tree / f"new{number}/inner/file").write_text("x")
    taken = watcher.take()
    assert taken is not None
    assert taken == {b""} | {
        f"new{number}{below}".encode() for number in range(50) for below in ("", "/inner")
    }
    (tree / "new7/inner/file").write_text("later")
    assert watcher.take() == {b"new7/inner"}


def test_what_moved_in_is_watched_to_the_bottom(
    watcher: Watcher, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside/x/y").mkdir(parents=True)
    (tmp_path / "outside").rename(tree / "inside")
    assert watcher.take() == {b"", b"inside", b"inside/x", b"inside/x/y"}
    (tree / "inside/x/y/file").write_text("")
    assert watcher.take() == {b"inside/x/y"}


def test_what_moved_out_is_not_reported_under_its_old_path(
    watcher: Watcher, tree: Path, tmp_path: Path
) -> None:
    (tree / "a").rename(tmp_path / "outside")
    assert watcher.take() == {b""}
    (tmp_path / "outside/deep/file").write_text("changed out there")
    assert not watcher.wait(0)
    assert watcher.take() == frozenset()


def test_what_moved_within_is_reported_under_its_new_path(watcher: Watcher, tree: Path) -> None:
    (tree / "a").rename(tree / "c/a")
    (tree / "c/a/deep/file").write_text("changed before anybody asked")
    watcher.take()
    (tree / "c/a/deep/deeper/file").write_text("changed after")
    assert watcher.take() == {b"c/a/deep/deeper"}


def test_folders_that_change_places_keep_being_watched(watcher: Watcher, tree: Path) -> None:
    (tree / "a").rename(tree / "tmp")
    (tree / "b").rename(tree / "a")
    (tree / "tmp").rename(tree / "b")
    watcher.take()
    (tree / "b/deep/deeper/file").write_text("changed")
    assert watcher.take() == {b"b/deep/deeper"}
    (tree / "a/file").write_text("changed")
    assert watcher.take() == {b"a"}


def test_an_atomic_exchange_keeps_both_watched(watcher: Watcher, tree: Path) -> None:
    exchange(tree / "a", tree / "b")
    watcher.take()
    (tree / "b/deep/deeper/file").write_text("changed")
    assert watcher.take() == {b"b/deep/deeper"}
    (tree / "a/file").write_text("changed")
    assert watcher.take() == {b"a"}


def test_a_link_to_a_folder_is_not_followed(watcher: Watcher, tree: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "link").symlink_to(tmp_path / "outside")
    assert watcher.take() == {b""}
    (tmp_path / "outside/file").write_text("x")
    assert watcher.take() == frozenset()


def test_a_folder_that_a_link_has_replaced_is_not_followed(
    watcher: Watcher, tree: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tree / "new").mkdir()
    (tree / "new").rmdir()
    (tree / "new").symlink_to(tmp_path / "outside")
    assert watcher.take() == {b""}
    (tmp_path / "outside/file").write_text("x")
    assert watcher.take() == frozenset()


def test_names_need_not_be_text(watcher: Watcher, tree: Path) -> None:
    os.mkdir(os.fsencode(tree) + b"/\xff\n")
    assert watcher.take() == {b"", b"\xff\n"}


def test_what_is_skipped_is_not_watched(tree: Path) -> None:
    asked: list[bytes] = []

    def skips(path: bytes) -> bool:
        asked.append(path)
        return path in {b"a/deep", b"later"}

    watcher = Watcher(str(tree), skips=skips)
    watcher.take()
    assert b"" not in asked
    assert b"a/deep/deeper" not in asked
    (tree / "a/deep/file").write_text("changed")
    assert watcher.take() == frozenset()
    (tree / "later/below").mkdir(parents=True)
    assert watcher.take() == {b""}
    (tree / "later/below/file").write_text("changed")
    assert watcher.take() == frozenset()
    watcher.close()


def test_an_overflow_is_admitted_and_overcome(
    watcher: Watcher, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = list(watcher._inotify.drain())
    assert events == []
    (tree / "unseen/below").mkdir(parents=True)
    lost = [watching.Event(-1, watching.Q_OVERFLOW, b"")]
    with monkeypatch.context() as patch:
        patch.setattr(Inotify, "drain", lambda _: iter(lost))
        assert watcher.take() is None
    (tree / "unseen/below/file").write_text("x")
    assert watcher.take() == {b"unseen/below"}


def test_a_real_overflow_is_admitted(watcher: Watcher, tree: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("too many events to make")
    first, second = tree / "a/one", tree / "b/two"
    first.write_text("")
    # Two events alternate, as the kernel merges equal neighbours.
    for _ in range(limit // 2 + 2):
        os.rename(first, second)
        os.rename(second, first)
    assert watcher.take() is None
    assert watcher.take() == frozenset()
    (tree / "c/d/file").write_text("y")
    assert watcher.take() == {b"c/d"}


def test_another_directory_at_the_same_path_is_noticed(
    tmp_path: Path, watcher: Watcher, tree: Path
) -> None:
    tree.rename(tmp_path / "before")
    (tree / "other").mkdir(parents=True)
    assert watcher.wait(0)
    assert watcher.take() is None
    (tree / "other/file").write_text("x")
    assert watcher.take() == {b"other"}
    (tmp_path / "before/a/file").write_text("x")
    assert watcher.take() == frozenset()


def test_a_renamed_ancestor_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "above/tree").mkdir(parents=True)
    watcher = Watcher(str(tmp_path / "above/tree"), skips=skips_nothing)
    watcher.take()
    (tmp_path / "above").rename(tmp_path / "elsewhere")
    assert watcher.take() is None
    assert watcher.take() is None, "there is nothing to watch"
    (tmp_path / "above/tree").mkdir(parents=True)
    assert watcher.take() is None
    assert watcher.take() == frozenset()
    (tmp_path / "above/tree/file").write_text("x")
    assert watcher.take() == {b""}
    watcher.close()


def test_without_room_for_a_watch_it_refuses(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_out_of_watches(monkeypatch, after=3)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unavailable, match="max_user_watches") as refused:
        Watcher(str(tree), skips=skips_nothing)
    assert len(os.listdir("/proc/self/fd")) == before
    assert "`sysctl fs.inotify.max_user_watches=" in refused.value.hint


def test_running_out_of_watches_later_is_admitted_until_there_are_some(
    watcher: Watcher, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "one/more").mkdir(parents=True)
    with monkeypatch.context() as patch:
        run_out_of_watches(patch, after=0)
        assert watcher.take() is None
        assert watcher.take() is None
    assert watcher.take() is None
    assert watcher.take() == frozenset()
    (tree / "one/more/file").write_text("x")
    assert watcher.take() == {b"one/more"}


def test_a_folder_that_may_not_be_watched_is_in_every_answer(
    watcher: Watcher, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Inotify.add

    def refuse(self: Inotify, path: bytes, mask: int) -> int:
        if path.endswith(b"/closed"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return add(self, path, mask)

    with monkeypatch.context() as patch:
        patch.setattr(Inotify, "add", refuse)
        (tree / "closed").mkdir()
        assert watcher.take() == {b"", b"closed"}
        assert watcher.take() == {b"closed"}
    assert watcher.take() == {b"closed"}
    assert watcher.take() == frozenset()
    (tree / "closed/file").write_text("x")
    assert watcher.take() == {b"closed"}


def test_where_there_is_no_inotify_it_says_so(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    with pytest.raises(Unavailable, match="no inotify"):
        Watcher(str(tree), skips=skips_nothing)


def test_waiting_ends_when_something_happens(watcher: Watcher, tree: Path) -> None:
    woken: list[bool] = []
    thread = threading.Thread(target=lambda: woken.append(watcher.wait(30)))
    thread.start()
    (tree / "file").write_text("x")
    thread.join(20)
    assert woken == [True]


def test_two_threads_take_every_folder_exactly_once_or_more(watcher: Watcher, tree: Path) -> None:
    taken: list[frozenset[bytes]] = []
    stop = threading.Event()

    def keep_taking() -> None:
        while not stop.is_set():
            taken.append(watcher.take() or frozenset())

    threads = [threading.Thread(target=keep_taking) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(200):
        (tree / f"n{number}").mkdir()
    stop.set()
    for thread in threads:
        thread.join()
    taken.append(watcher.take() or frozenset())
    assert {f"n{number}".encode() for number in range(200)} <= frozenset().union(*taken)


@pytest.mark.parametrize("seed", range(16))
def test_whatever_changed_was_announced(seed: int, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.mkdir()
    random = Random(seed)
    chaos = Chaos(random, tree, outside)
    chaos.run(30)
    watcher = Watcher(str(tree), skips=skips_nothing)
    assert watcher.take() is None
    for _ in range(12):
        before = look(tree)
        chaos.linked.clear()
        chaos.run(random.choice([1, 3, 12]))
        taken = watcher.take()
        assert taken is not None
        assert unannounced(before, look(tree), taken, linked=chaos.linked) == []
        assert set(watcher._watches) == set(look(tree)), "watches are not those of the tree"
    watcher.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_changed_while_taking_was_announced(seed: int, tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    tree.mkdir()
    outside.mkdir()
    chaos = Chaos(Random(seed), tree, outside)
    chaos.run(50)
    watcher = Watcher(str(tree), skips=skips_nothing)
    watcher.take()
    before = look(tree)
    thread = threading.Thread(target=chaos.run, args=(500,))
    thread.start()
    taken: set[bytes] = set()
    while thread.is_alive():
        watcher.wait(0.01)
        answer = watcher.take()
        assert answer is not None
        taken |= answer
    taken |= watcher.take() or set()
    after = look(tree)
    assert unannounced(before, after, taken, linked=chaos.linked) == []
    assert set(watcher._watches) == set(after)
    watcher.close()


def test_the_comparison_can_fail(tree: Path) -> None:
    before = look(tree)
    (tree / "b/file").write_text("changed")
    assert unannounced(before, look(tree), {b"a"}, linked=set()) == [b"b"]


class Chaos:
    """Changes a tree at random, as a build, a checkout or an agent would."""

    EVEN = 0.5

    def __init__(self, random: Random, tree: Path, outside: Path) -> None:
        self.random, self.tree, self.outside = random, tree, outside
        self.linked: set[int] = set()
        self.count = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(
                [self.nest, self.nest, self.write, self.write, self.move, self.move_out]
                if self.random.random() < self.EVEN
                else [self.move_in, self.delete, self.chmod, self.link, self.swap]
            )()

    def folder(self, base: Path | None = None) -> Path:
        found = [Path(at) for at, _, _ in os.walk(base or self.tree)]
        return self.random.choice(sorted(found))

    def entry(self, base: Path | None = None) -> Path | None:
        base = base or self.tree
        found = [Path(at, name) for at, folders, files in os.walk(base) for name in folders + files]
        return self.random.choice(sorted(found)) if found else None

    def fresh(self, folder: Path) -> Path:
        self.count += 1
        # Few names, so that they are used again.
        path = folder / f"n{self.random.randrange(6)}"
        return path if not os.path.lexists(path) else folder / f"m{self.count}"

    def nest(self) -> None:
        path = self.fresh(self.folder())
        for _ in range(self.random.randrange(1, 4)):
            path.mkdir()
            (path / "file").write_text("x")
            path = path / "in"

    def write(self) -> None:
        path = self.entry()
        if path is None or path.is_dir() or path.is_symlink():
            path = self.fresh(self.folder())
        path.write_text("x" * self.random.randrange(9))

    def move(self) -> None:
        path, to = self.entry(), self.fresh(self.folder())
        if path is not None and path not in [to, *to.parents]:
            path.rename(to)

    def move_out(self) -> None:
        path = self.entry()
        if path is not None:
            path.rename(self.fresh(self.outside))

    def move_in(self) -> None:
        path = self.entry(self.outside)
        if path is not None:
            path.rename(self.fresh(self.folder()))

    def delete(self) -> None:
        path = self.entry()
        if path is None:
            return
        if not path.is_dir() or path.is_symlink():
            path.unlink()
            return
        for at, folders, files in os.walk(path, topdown=False):
            for name in files:
                os.unlink(os.path.join(at, name))
            for name in folders:
                os.rmdir(os.path.join(at, name))
        path.rmdir()

    def chmod(self) -> None:
        path = self.entry()
        if path is not None and not path.is_symlink():
            path.chmod(self.random.choice([0o700, 0o755, 0o750]))

    def link(self) -> None:
        path = self.entry()
        if path is not None and path.is_file():
            self.linked.add(path.stat().st_ino)
            os.link(path, self.fresh(self.folder()))

    def swap(self) -> None:
        one, other = self.entry(), self.entry()
        if one is None or other is None or one in [other, *other.parents] or other in one.parents:
            return
        exchange(one, other)


def exchange(one: Path, other: Path) -> None:
    """renameat2 with RENAME_EXCHANGE: both names change places in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = -100
    if libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), 2) != 0:
        number = ctypes.get_errno()
        if number in {errno.EINVAL, errno.ENOSYS}:
            pytest.skip("this file system exchanges no names")
        raise OSError(number, os.strerror(number))


def look(root: Path) -> Look:
    """The naive way: every folder, with lstat of every entry."""
    found: Look = {}
    top = os.fsencode(root)
    for at, folders, files in os.walk(top):
        entries = {name: os.lstat(os.path.join(at, name)) for name in folders + files}
        found[at[len(top) + 1 :]] = entries
    return found


def unannounced(
    before: Look, after: Look, taken: set[bytes] | frozenset[bytes], *, linked: set[int]
) -> list[bytes]:
    """Returns the folders in which something changed that was not announced.

    A file with several names is announced by one of them at least.
    """
    homes: dict[int, set[bytes]] = defaultdict(set)
    for folder, entries in [*before.items(), *after.items()]:
        for found in entries.values():
            homes[found.st_ino].add(folder)
    missed: list[bytes] = []
    for folder, entries in after.items():
        old = before.get(folder, {})
        changed = [n for n in {*old, *entries} if not same(old.get(n), entries.get(n))]
        for name in changed:
            found = entries.get(name) or old[name]
            has_names = found.st_ino in linked or any(
                each is not None and not stat.S_ISDIR(each.st_mode) and each.st_nlink > 1
                for each in (old.get(name), entries.get(name))
            )
            announced = folder in taken or (has_names and bool(homes[found.st_ino] & taken))
            if not announced and found.st_ino not in linked:
                missed.append(folder)
    return missed


def same(old: os.stat_result | None, new: os.stat_result | None) -> bool:
    if old is None or new is None:
        return False
    fields = ["st_ino", "st_mode", "st_uid", "st_gid"]
    # A folder's times and size move with the names in it, which it announces itself.
    if not stat.S_ISDIR(new.st_mode):
        fields += ["st_size", "st_mtime_ns", "st_ctime_ns"]
    return all(getattr(old, field) == getattr(new, field) for field in fields)


def run_out_of_watches(patch: pytest.MonkeyPatch, *, after: int) -> None:
    add, given = Inotify.add, [0]

    def add_until(self: Inotify, path: bytes, mask: int) -> int:
        given[0] += 1
        if given[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return add(self, path, mask)

    patch.setattr(Inotify, "add", add_until)


class Binding:
    """Mounts folders over others, as root may, and takes all of them away at the end."""

    def __init__(self) -> None:
        self.there: list[Path] = []

    def mount(self, source: Path, place: Path) -> None:
        command = ["mount", "--bind", str(source), str(place)]
        if os.geteuid() or subprocess.run(command, check=False).returncode:
            pytest.skip("needs root, who may mount")
        self.there.append(place)

    def unmount(self) -> None:
        while self.there:
            subprocess.run(["umount", str(self.there.pop())], check=True)


@pytest.fixture
def binding() -> Iterator[Binding]:
    made = Binding()
    yield made
    made.unmount()


def test_what_is_mounted_and_unmounted_below_makes_everything_suspect(
    tree: Path, tmp_path: Path, binding: Binding
) -> None:
    source, place = tmp_path / "source", tree / "a b"
    source.mkdir()
    place.mkdir()
    with closing(Watcher(str(tree), skips=skips_nothing)) as watcher:
        assert watcher.take() is None
        binding.mount(source, place)
        assert watcher.wait(0)
        assert watcher.take() is None
        (source / "file").write_text("x")
        assert watcher.take() == {b"a b"}
        binding.unmount()
        # Whether or not somebody waited for it.
        assert watcher.take() is None
        (place / "precious").write_text("x")
        assert watcher.wait(0)
        assert watcher.take() == {b"a b"}


def test_what_is_mounted_is_heard_of_through_a_link_as_well(
    tree: Path, tmp_path: Path, binding: Binding
) -> None:
    for name in ("source", "tree/place"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    with closing(Watcher(str(tmp_path / "link" / tree.name), skips=skips_nothing)) as watcher:
        watcher.take()
        binding.mount(tmp_path / "source", tree / "place")
        assert watcher.wait(0)
        assert watcher.take() is None


def test_what_is_mounted_elsewhere_is_nothing(
    watcher: Watcher, tmp_path: Path, binding: Binding
) -> None:
    for name in ("source", "tree-beside"):
        (tmp_path / name).mkdir()
    binding.mount(tmp_path / "source", tmp_path / "tree-beside")
    assert not watcher.wait(0)
    assert watcher.take() == frozenset()

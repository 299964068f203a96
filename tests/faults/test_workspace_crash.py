"""Kills a restore of a real directory at every system call, a snapshot at every port call.

After each death the vault is opened anew. The directory must then be exactly what it was or
exactly what it was to become, and the catalog must say the same; what was in it before must be
on the timeline, all of it must be sound, and nothing may be left lying about. Errors of the
disk, in the place of deaths, leave the directory as it was. So do people who write meanwhile.
"""

import errno
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects import stage
from holdfast.engine.workspace import Workspace
from holdfast.entries import Blob, Directory, Inline, Link, twin_of
from holdfast.errors import Damaged, DriftFound, StorageFull, Unavailable
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.testing.faults import (
    Fuse,
    FusedCatalog,
    PowerCut,
    Trouble,
    contents,
    find_litter,
    fuses,
    leaves_traces,
)
from holdfast.testing.places import (
    Attached,
    Place,
    PostgresPlace,
    SqlitePlace,
    attached,
    copy,
    tar_file,
    touches_files,
)
from holdfast.workspace import amending, journal, resting
from holdfast.workspace.statindex import StatIndex

Picture = dict[str, tuple[object, ...]]
"""A tree, as plain values: kind, mode, time and content of everything in it."""

KEPT = {"attachment.json", "index", "journal", "lock"}
"""What may be in the folder of an attached directory."""


def noise(size: int, seed: int) -> bytes:
    """Bytes that do not compress, so that a few of them fill a pack."""
    return Random(seed).randbytes(size)


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amending, "PATCH_BYTES", 128 << 10)


class ReluctantCatalog(FusedCatalog):
    """A catalog that, once told so, takes no more snapshots in."""

    refuses = False

    @contextmanager
    def write(self) -> Generator[Transaction]:
        with super().write() as transaction:
            if self.refuses:
                vars(transaction)["add_snapshot"] = self._refuse
            yield transaction

    def _refuse(self, _snapshot: SnapshotInfo) -> None:
        raise Unavailable("not today")


@contextmanager
def opened(place: Place, *, fuse: Fuse | None = None, seed: int = 0) -> Generator[Attached]:
    with attached(place, fuse=fuse, seed=seed, fused=ReluctantCatalog) as it:
        yield it


# What is there


def picture(tree: Path) -> Picture:
    """Returns all that a directory holds."""
    found: Picture = {}
    twins: dict[tuple[int, int], list[str]] = {}
    for top, folders, files in os.walk(tree):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            state, key = os.lstat(path), os.path.relpath(path, tree)
            if stat.S_ISLNK(state.st_mode):
                found[key] = ("link", state.st_mtime_ns, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(state.st_mode):
                found[key] = ("folder", stat.S_IMODE(state.st_mode))
            else:
                with open(path, "rb") as file:
                    data = file.read()
                found[key] = ("file", stat.S_IMODE(state.st_mode), state.st_mtime_ns, data)
                if state.st_nlink > 1:
                    twins.setdefault((state.st_dev, state.st_ino), []).append(key)
    for names in twins.values():
        for key in names:
            found[key] = (*found[key], *sorted(names))
    return found


_SHOWN: dict[bytes, Picture] = {}


def shown(context: Context, at: SnapshotInfo | None = None) -> Picture:
    """Returns all that the catalog says of the directory: now, or at a snapshot."""
    if at is None:
        return _show(context, None)
    if at.root not in _SHOWN:
        # Equal roots are equal contents; that they are there still is what `verify` is for.
        _SHOWN[at.root] = _show(context, at)
    return _SHOWN[at.root]


def _show(context: Context, at: SnapshotInfo | None) -> Picture:
    with context.catalog.read() as transaction:
        tenant = transaction.find_tenant("default")
        assert tenant is not None
        head = transaction.find_head(tenant.id, "tree")
        assert head is not None
    found: Picture = {}
    twins: dict[bytes, list[str]] = {}
    for (plane, raw), (entry, data) in contents(context, head, at=at).items():
        assert plane is Plane.FILES
        key = os.fsdecode(raw)
        for above in Path(key).parents[:-1]:
            found.setdefault(str(above), ("folder", 0o755))
        if isinstance(entry, Link):
            found[key] = ("link", entry.mtime_ns, entry.target)
        elif isinstance(entry, Directory):
            found[key] = ("folder", entry.mode)
        else:
            assert isinstance(entry, Inline | Blob)
            found[key] = ("file", entry.mode, entry.mtime_ns, data)
            if twin_of(entry):
                twins.setdefault(twin_of(entry), []).append(key)
    for names in twins.values():
        for key in names:
            found[key] = (*found[key], *sorted(names))
    return found


def state_folder(place: Place) -> Path:
    [found] = (place.folder / "vault" / "workspaces").iterdir()
    return found


def journal_of(place: Place) -> journal.Journal:
    return journal.Journal(state_folder(place) / "journal")


# What is done


def put(path: Path, data: str | bytes, *, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(mode)


def make_first(tree: Path) -> None:
    """Makes a tree that holds some of everything."""
    put(tree / "stays.txt", "never touched")
    put(tree / "notes.md", "first thoughts", mode=0o600)
    put(tree / "large.bin", noise(300_000, 1))
    put(tree / "medium.bin", noise(9_000, 2))
    put(tree / "src/old/gone.py", "gone")
    put(tree / "src/main.py", "one")
    put(tree / "cut.txt", "what was short")
    put(tree / "shape", "a file")
    (tree / "empty").mkdir(mode=0o700)
    (tree / "link").symlink_to("../anywhere")
    put(tree / "twin", "one file")
    os.link(tree / "twin", tree / "src/twin")


def make_second(tree: Path) -> None:
    """Changes each thing in another way."""
    put(tree / "notes.md", "second thoughts", mode=0o644)
    data = bytearray(noise(300_000, 1))
    data[150_000:150_010] = b"0123456789"
    with open(tree / "large.bin", "r+b") as file:
        file.write(data)
    put(tree / "medium.bin", noise(9_000, 3))
    shutil.rmtree(tree / "src/old")
    os.chmod(tree / "src/main.py", 0o755)
    put(tree / "cut.txt", "and then got longer")
    (tree / "shape").unlink()
    put(tree / "shape/inside", "a folder now")
    (tree / "empty").rmdir()
    (tree / "link").unlink()
    (tree / "link").symlink_to("elsewhere")
    put(tree / "twin", "no longer one")
    put(tree / "new/made.txt", "new")


def make_drift(tree: Path) -> None:
    """Changes what no snapshot holds yet."""
    put(tree / "notes.md", "not in any snapshot", mode=0o640)
    put(tree / "draft.txt", "nor is this")
    put(tree / "src/main.py", "nor this")
    put(tree / "new/large.bin", noise(9_000, 4))


def build(it: Attached) -> None:
    make_first(it.tree)
    it.work.snapshot("one")
    make_second(it.tree)
    it.work.snapshot("two")


@dataclass(frozen=True)
class Scenario:
    """One operation on the directory, and what is done before it."""

    act: Callable[[Workspace], object]
    arrange: Callable[[Attached], object] = lambda _it: None
    every: int = 1
    """At which calls it dies: the writing is the same for all."""


def restore_one(work: Workspace) -> object:
    return work.restore(labelled(work, "one"))


def import_files(work: Workspace) -> object:
    with tar_file() as source:
        return work.import_files(source)


def labelled(work: Workspace, label: str) -> SnapshotInfo:
    return next(s for s in work.namespace.timeline() if s.label == label)


SCENARIOS = {
    "restore": Scenario(restore_one),
    "restore over drift": Scenario(restore_one, lambda it: make_drift(it.tree)),
    "restore paths": Scenario(
        lambda work: work.restore(labelled(work, "one"), paths=["src", "link", "*.bin"]), every=2
    ),
    "import files over drift": Scenario(import_files, lambda it: make_drift(it.tree), every=3),
    "undo": Scenario(lambda work: work.undo(), every=3),
    "undo drift": Scenario(lambda work: work.undo(), lambda it: make_drift(it.tree), every=2),
    "redo": Scenario(lambda work: work.redo(), lambda it: it.work.undo(), every=2),
}

ON_POSTGRES = ("restore over drift", "undo")
"""The directory is the same there, and so is every call; the catalog is not."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_call_leaves_the_old_directory_or_the_new(
    place: SqlitePlace, name: str
) -> None:
    die_everywhere(place, SCENARIOS[name])


@pytest.mark.parametrize("name", ON_POSTGRES)
def test_a_crash_at_any_call_on_postgres_leaves_the_old_directory_or_the_new(
    postgres_place: PostgresPlace, name: str
) -> None:
    die_everywhere(postgres_place, replace(SCENARIOS[name], every=7))


def die_everywhere(place: Place, scenario: Scenario) -> None:
    old, new = run_to_the_end(place, scenario)
    assert old != new
    deaths = 0
    for fuse in fuses(counts=touches_files):
        if fuse.steps % scenario.every:
            fuse.died_at = "not played"
            continue
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as it:
            scenario.act(it.work)
        deaths += fuse.blown
        if not fuse.blown:
            assert picture(place.folder / "tree") == new
        check_recovered(place, old, new, fuse)
    assert deaths > 30 // scenario.every


def run_to_the_end(place: Place, scenario: Scenario) -> tuple[Picture, Picture]:
    """Returns the directory before and after, and saves what was before."""
    with opened(place, seed=1) as it:
        build(it)
        scenario.arrange(it)
        old = picture(it.tree)
    place.save()
    with opened(place, seed=2) as it:
        scenario.act(it.work)
        new = picture(it.tree)
    return old, new


def check_recovered(place: Place, old: Picture, new: Picture, fuse: Fuse) -> None:
    """Opens what the dead have left; whoever looks first puts it right."""
    with opened(place, seed=4) as it:
        status = it.work.status()
        found = picture(it.tree)
        assert found in (old, new), (fuse, differences(found, old), differences(found, new))
        if status.changes:
            # It died before what was there had become a snapshot.
            assert found == old, fuse
            assert it.work.snapshot_if_changed() is not None, fuse
        assert shown(it.context) == found, fuse
        assert it.vault.verify().faults == [], fuse
        held = all_shown(it)
        assert not [key for seen in held.values() for key in seen if ".holdfast-" in key], fuse
        before = [snapshot_id for snapshot_id, seen in held.items() if seen == old]
        assert before or found == old, (fuse, "what was there is lost")
        if before and found == new:
            it.work.restore(before[0])
            assert picture(it.tree) == old, fuse
    assert {path.name for path in state_folder(place).iterdir()} <= KEPT, fuse
    if fuse.steps % 8:
        return
    with opened(place, seed=5) as it:
        it.vault.collect(now=True)
        assert find_litter(it.context) == set(), fuse
        assert it.vault.verify().faults == [], fuse


def differences(found: Picture, wanted: Picture) -> dict[str, object]:
    keys = {key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)}
    return {key: (found.get(key), wanted.get(key)) for key in sorted(keys)}


def test_a_death_before_a_file_was_cut_is_put_right(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(fd: int, data: bytes, *_: int) -> int:
        os.pwrite(fd, data, 0)
        raise PowerCut

    old, _ = run_to_the_end(place, SCENARIOS["restore"])
    place.reset()
    with monkeypatch.context() as patch:
        patch.setattr(resting, "load_shortener", lambda: die)
        with pytest.raises(PowerCut), opened(place, seed=3) as it:
            restore_one(it.work)
    half = (it.tree / "cut.txt").read_bytes()
    assert half == b"what was shortonger"
    with opened(place, seed=4) as it:
        it.work.status()
        assert picture(it.tree) == old
        assert half in [seen["cut.txt"][-1] for seen in all_shown(it).values()]


# Dying again, while what a death has left is put right


@pytest.mark.parametrize("steps", [25, 38])  # in the middle of what goes, and of what comes
def test_a_crash_while_a_crash_is_put_right_changes_nothing(place: SqlitePlace, steps: int) -> None:
    scenario = SCENARIOS["restore over drift"]
    old, new = run_to_the_end(place, scenario)
    place.reset()
    first = Fuse(steps, counts=touches_files)
    with first, opened(place, fuse=first, seed=3) as it:
        scenario.act(it.work)
    assert first.blown
    assert picture(it.tree) not in (old, new)
    place.save()
    for fuse in fuses(counts=touches_files):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=6) as it:
            it.work.status()
        check_recovered(place, old, new, fuse)


def test_a_crash_while_going_back_leaves_the_old_directory(place: SqlitePlace) -> None:
    old, new = run_to_the_end(place, SCENARIOS["restore"])
    deaths = 0
    for fuse in fuses(counts=is_call):
        if fuse.steps % 3:
            fuse.died_at = "not played"
            continue
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as it:
            catalog = it.context.catalog
            assert isinstance(catalog, ReluctantCatalog)
            catalog.refuses = True
            with pytest.raises(Unavailable, match="not today"):
                restore_one(it.work)
        if fuse.blown:
            deaths += 1
        else:
            assert picture(it.tree) == old
        check_recovered(place, old, new, fuse)
    assert deaths > 100 // 3


# Errors in the middle: everything as it was


def is_call(name: str) -> bool:
    return name.startswith("os.")


@pytest.mark.parametrize(("code", "every"), [(errno.ENOSPC, 1), (errno.EIO, 4), (errno.EACCES, 3)])
def test_an_error_of_the_disk_leaves_the_directory_as_it_was(
    place: SqlitePlace, code: int, every: int
) -> None:
    scenario = SCENARIOS["restore over drift"]
    old, new = run_to_the_end(place, scenario)
    expected = StorageFull if code == errno.ENOSPC else Unavailable
    failures = 0
    for steps in count(step=every):
        place.reset()
        trouble = Trouble(steps, code, counts=is_call)
        with opened(place, fuse=trouble, seed=3) as it:
            before = it.work.namespace.timeline()
            try:
                scenario.act(it.work)
            except expected:
                failures += 1
                assert picture(it.tree) == old, (trouble, differences(picture(it.tree), old))
                assert journal_of(place).find() is None, trouble
                after = it.work.namespace.timeline()
                assert after[-len(before) :] == before, trouble
                assert {snapshot.kind for snapshot in after[: -len(before)]} <= {"safety"}, trouble
            else:
                # What only makes the next time quicker may fail unsaid.
                assert picture(it.tree) == new, trouble
            assert bool(it.work.status().changes) <= (picture(it.tree) == old), trouble
            scenario.act(it.work)
            assert picture(it.tree) == new, trouble
        assert {path.name for path in state_folder(place).iterdir()} <= KEPT, trouble
        if not trouble.blown:
            break
    assert failures > 40 // every


def test_a_disk_that_stays_full_is_told_and_put_right_when_there_is_room(
    place: SqlitePlace,
) -> None:
    scenario = SCENARIOS["restore over drift"]
    old, new = run_to_the_end(place, scenario)

    def needs_room(name: str) -> bool:
        return name in ("os.open", "os.pwrite", "os.pwrite torn", "os.write", "os.mkdir")

    for steps in count(step=2):
        place.reset()
        trouble = Trouble(steps, errno.ENOSPC, counts=needs_room, lasts=True)
        with opened(place, fuse=trouble, seed=3) as it:
            with suppress(StorageFull, Unavailable):
                scenario.act(it.work)
            if picture(it.tree) not in (old, new):
                # Who only looks can, and is told.
                told = it.work.status().recovered
                assert told is not None, trouble
                assert "An interrupted restore is not taken back yet" in told, trouble
                with pytest.raises((StorageFull, Unavailable)):
                    it.work.snapshot()
        if not trouble.blown:
            break
        check_recovered(place, old, new, trouble)


def test_damage_that_is_met_in_the_middle_leaves_the_directory_as_it_was(
    place: SqlitePlace,
) -> None:
    old, _ = run_to_the_end(place, SCENARIOS["restore"])
    place.reset()
    packs = list((place.folder / "vault/packs").rglob("*.pack"))
    assert packs
    is_hurt = False
    for pack in packs:
        place.reset()
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.chmod(0o600)
        pack.write_bytes(data)
        with opened(place, seed=3) as it:
            try:
                restore_one(it.work)
            except Damaged:
                is_hurt = True
                assert picture(it.tree) == old
                assert not it.work.status().changes
                assert shown_names(it) == {"one", "two"}
    assert is_hurt


def shown_names(it: Attached) -> set[str | None]:
    return {snapshot.label for snapshot in it.work.namespace.timeline()}


# Somebody else writes meanwhile


class Visit(Fuse):
    """Lets somebody else in before one step (`lasts`: before each from then on), and goes on."""

    def __init__(self, steps: int, visit: Callable[[], None], *, lasts: bool = False) -> None:
        super().__init__(steps, counts=is_call)
        self._visit = visit
        self._lasts = lasts
        self.is_closed = False
        """Whether nobody is let in: while somebody is, and when the test says so."""

    def step(self, name: str, /) -> None:
        if self.is_closed or not self._counts(name) or (self.blown and not self._lasts):
            return
        if self._left:
            self._left -= 1
            return
        self.died_at = self.died_at or name
        self.is_closed = True
        self._visit()
        self.is_closed = False


class Recorder(Fuse):
    """Lets every step pass, and remembers the calls."""

    def __init__(self) -> None:
        super().__init__(0)
        self.calls: list[str] = []

    def step(self, name: str, /) -> None:
        self.calls += [name] if is_call(name) else []


def count_calls(place: Place) -> tuple[int, int]:
    """Returns how many calls a restore makes, and how many until the directory is done."""
    place.reset()
    recorder = Recorder()
    with opened(place, fuse=recorder, seed=3) as it:
        restore_one(it.work)
        calls = list(recorder.calls)
    # The mode of a folder is the last thing that is set; then come the notes.
    return len(calls), len(calls) - calls[::-1].index("os.fchmod")


THEIRS = b"what somebody wrote while a restore was under way"


@pytest.mark.parametrize(
    ("name", "every"), [("notes.md", 1), ("large.bin", 2), ("src/main.py", 3), ("new/made.txt", 2)]
)
def test_what_somebody_writes_during_a_restore_is_not_overwritten_unseen(
    place: SqlitePlace, name: str, every: int
) -> None:
    run_to_the_end(place, SCENARIOS["restore"])
    calls, in_the_tree = count_calls(place)
    path = place.folder / "tree" / name
    lost: list[str | None] = []
    kept = unseen = 0
    wrote = False

    def write() -> None:
        nonlocal wrote
        wrote = path.is_file()
        if wrote:
            put(path, THEIRS)

    for steps in count(step=every):
        place.reset()
        visit = Visit(steps, write)
        with opened(place, fuse=visit, seed=3) as it:
            restored = restore_one(it.work)
            visit.is_closed = True
            is_there = path.is_file() and path.read_bytes() == THEIRS
            is_kept = any(
                name in found and found[name][3] == THEIRS for found in all_shown(it).values()
            )
            # What came in time is in a snapshot, what came too late is where it was put.
            assert bool(it.work.status().changes) == is_there, visit
            assert restored.verified or is_there, visit
            unseen += restored.verified and is_there
            kept += is_kept
            if visit.blown and wrote and not is_there and not is_kept:
                lost.append(visit.died_at)
        if not visit.blown:
            break
    assert kept
    assert unseen <= calls - in_the_tree, "only after the last look, while notes are taken"
    # Between a look at a file and the call that replaces it there is always a moment.
    assert len(lost) <= 1, lost
    assert set(lost) <= {"os.rename", "os.unlink", "os.pwrite"}


def test_somebody_who_never_stops_writing_is_named_and_loses_nothing(place: SqlitePlace) -> None:
    old, _ = run_to_the_end(place, SCENARIOS["restore"])
    path = place.folder / "tree/notes.md"
    versions = count()

    def write() -> None:
        put(path, THEIRS + f"{next(versions)}".encode())

    for steps in range(3):
        place.reset()
        visit = Visit(steps, write, lasts=True)
        with opened(place, fuse=visit, seed=3) as it:
            with pytest.raises(DriftFound) as raised:
                restore_one(it.work)
            visit.is_closed = True
            assert raised.value.paths == ["notes.md"]
            assert path.read_bytes().startswith(THEIRS)
            found = picture(it.tree)
            assert found == old | {"notes.md": found["notes.md"]}
            assert [change.name for change in it.work.status().changes] == ["notes.md"]


def test_whoever_comes_during_a_restore_waits_for_its_end(place: SqlitePlace) -> None:
    _, new = run_to_the_end(place, SCENARIOS["restore"])
    place.reset()
    taken: list[Picture] = []

    def come_too() -> None:
        with opened(place, seed=4) as it:
            taken.append(shown(it.context, it.work.snapshot()))

    other = threading.Thread(target=come_too)

    def let_in() -> None:
        other.start()
        # It would have been done by then, many times over.
        other.join(0.3)
        assert other.is_alive()

    visit = Visit(30, let_in)
    with opened(place, fuse=visit, seed=3) as it:
        restore_one(it.work)
    assert visit.blown
    other.join()
    assert taken == [new]


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    with suppress(FileExistsError, FileNotFoundError):
        path.unlink()
        path.mkdir()


def make_link(path: Path) -> None:
    with suppress(FileExistsError, FileNotFoundError):
        path.unlink()
        path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("change", [remove, make_folder, make_link])
def test_whatever_somebody_does_during_a_restore_is_seen(
    place: SqlitePlace, change: Callable[[Path], None]
) -> None:
    run_to_the_end(place, SCENARIOS["restore"])
    is_seen = False
    for steps in count(step=3):
        place.reset()
        visit = Visit(steps, partial(change, place.folder / "tree/notes.md"))
        with opened(place, fuse=visit, seed=3) as it:
            with suppress(DriftFound):
                restore_one(it.work)
            visit.is_closed = True
            changes = it.work.status().changes
            assert bool(changes) == (picture(it.tree) != shown(it.context)), visit
            is_seen = is_seen or [found.name for found in changes] == ["notes.md"]
            it.work.snapshot()
            assert picture(it.tree) == shown(it.context), visit
        if not visit.blown:
            break
    assert is_seen


class VisitBeforeTrouble(Visit):
    """Lets somebody in before one step, and makes a later one fail."""

    def __init__(self, steps: int, visit: Callable[[], None], trouble: Trouble) -> None:
        super().__init__(steps, visit)
        self._trouble = trouble

    def step(self, name: str, /) -> None:
        super().step(name)
        if not self.is_closed:
            self._trouble.step(name)


def test_the_way_back_does_not_overwrite_what_somebody_wrote(place: SqlitePlace) -> None:
    old, _ = run_to_the_end(place, SCENARIOS["restore"])
    path = place.folder / "tree/notes.md"
    lost: list[str | None] = []
    _, in_the_tree = count_calls(place)
    for steps in range(0, in_the_tree - 1, 2):
        place.reset()
        trouble = Trouble(in_the_tree - 1, errno.EIO, counts=is_call)
        visit = VisitBeforeTrouble(steps, lambda: put(path, THEIRS), trouble)
        with opened(place, fuse=visit, seed=3) as it:
            with suppress(Unavailable, DriftFound):
                restore_one(it.work)
            # It may have been the way back that failed: then this puts it right.
            it.work.status()
            held = [found["notes.md"][3] for found in all_shown(it).values()]
            if path.read_bytes() != THEIRS and THEIRS not in held:
                lost.append(visit.died_at)
            if path.read_bytes() == THEIRS:
                found = picture(it.tree)
                assert found == old | {"notes.md": found["notes.md"]}, visit
            assert bool(it.work.status().changes) == (picture(it.tree) != shown(it.context)), visit
        assert trouble.blown
    assert len(lost) <= 1, lost


# Snapshots of a directory: dying at every port call


SNAPSHOTS: dict[str, Callable[[Attached], None]] = {
    "first": lambda it: make_first(it.tree),
    "later": lambda it: (build(it), make_drift(it.tree))[0],
    "unchanged": build,
}


def is_port(name: str) -> bool:
    return not is_call(name)


@pytest.mark.parametrize("pack_bytes", [stage.PACK_TARGET_BYTES, 64 << 10], ids=["one", "spilled"])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_crash_at_any_step_of_a_snapshot_loses_nothing(
    place: SqlitePlace, name: str, pack_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = is_port if pack_bytes == stage.PACK_TARGET_BYTES else leaves_traces
    monkeypatch.setattr(stage, "PACK_TARGET_BYTES", pack_bytes)
    with opened(place, seed=1) as it:
        SNAPSHOTS[name](it)
        tree = picture(it.tree)
        held = {} if name == "first" else all_shown(it)
    place.save()
    for fuse in fuses(counts=counts):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as it:
            taken = it.work.snapshot("three")
        with opened(place, seed=4) as it:
            assert picture(it.tree) == tree, fuse
            it.work.status()
            found = {} if fuse.blown and name == "first" else all_shown(it)
            assert held.items() <= found.items(), fuse
            if not fuse.blown:
                assert found[taken.id] == tree, fuse
            it.vault.collect(now=True)
            assert find_litter(it.context) == set(), fuse
            again = it.work.snapshot("after all")
            assert shown(it.context, again) == tree, fuse
            assert not it.work.status().changes, fuse
            assert it.vault.verify().faults == [], fuse
        check_files(place, fuse)


def all_shown(it: Attached) -> dict[str, Picture]:
    return {s.id: shown(it.context, s) for s in it.work.namespace.timeline()}


def check_files(place: Place, fuse: Fuse) -> None:
    """Checks that a vault has the files that its catalog names, and those that are expected."""
    root = place.folder / "vault"
    with closing(sqlite3.connect(root / "catalog.sqlite")) as connection:
        rows = connection.execute("SELECT name FROM packs WHERE NOT is_inline")
        packs = {f"{name}.pack" for (name,) in rows}
    assert {path.name for path in (root / "packs").rglob("*") if path.is_file()} == packs, fuse
    assert {path.name for path in state_folder(place).iterdir()} <= KEPT, fuse
    names = {path.name for path in root.iterdir()}
    ours = {"catalog.sqlite", "catalog.mark", "locks", "packs", "reserve", "workspaces"}
    assert names <= ours, fuse


# Power cuts that take the kernel's memory with them


@pytest.mark.parametrize("state", ["applied", "applying"])
def test_a_page_that_a_power_cut_took_is_put_right(
    place: SqlitePlace, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if state == "applying":
        # As if it had died right after the commit.
        monkeypatch.setattr(journal.Journal, "applied", lambda _self: None)
    with opened(place, seed=1) as it:
        build(it)
        restore_one(it.work)
        new = picture(it.tree)
        record = journal_of(place).find()
        assert record is not None
        assert record.state == state
    lose_a_page(place, "medium.bin")
    lose_a_page(place, "large.bin")
    with opened(place, seed=2) as it:
        assert picture(it.tree) != new
        assert not it.work.status().changes, "times alone do not tell"
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    with opened(place, seed=3) as it:
        status = it.work.status()
        assert status.recovered
        assert not status.changes
        assert picture(it.tree) == new
        assert shown(it.context) == new
        assert it.vault.verify().ok
    with opened(place, seed=4) as it:
        assert it.work.status().recovered is None


@pytest.mark.parametrize(
    ("state", "cuts"),
    # Where the journal was lost as well: in files that are patched, rewritten and made.
    [("applied", [*range(12, 24), *range(24, 60, 5)]), ("applying", [13, 20, 27, 29])],
)
def test_a_restore_whose_last_calls_a_power_cut_took_is_done_again(
    place: SqlitePlace, state: str, cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    if state == "applying":
        # That it is done was in the kernel's memory alone.
        monkeypatch.setattr(journal.Journal, "applied", lambda _self: None)
    old, new = run_to_the_end(place, SCENARIOS["restore"])
    after = place.folder.parent / "after"
    for steps in cuts:
        # The catalog says that it is done: it was synced. Of the directory some calls are left.
        place.reset()
        monkeypatch.setattr(journal, "boot_id", lambda: "before the power cut")
        with opened(place, seed=3) as it:
            restore_one(it.work)
        copy(place.folder / "vault", after)
        place.reset()
        fuse = Fuse(steps, counts=is_call)
        with fuse, opened(place, fuse=fuse, seed=3) as it:
            restore_one(it.work)
        copy(after, place.folder / "vault")
        journal_of(place).applied()  # just now: that both were one restore, only the test knows
        is_mixed = picture(it.tree) not in (old, new)
        monkeypatch.setattr(journal, "boot_id", lambda: "after it")
        with opened(place, seed=4) as it:
            status = it.work.status()
            assert picture(it.tree) == new, (fuse, differences(picture(it.tree), new))
            assert bool(status.recovered) >= is_mixed, fuse
            assert not status.changes, fuse
            assert it.vault.verify().ok, fuse


def test_work_done_after_a_restore_stays_where_it_is_after_a_power_cut(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place, seed=1) as it:
        build(it)
        restore_one(it.work)
        make_drift(it.tree)
        record = journal_of(place).find()
        assert record is not None
        while os.stat(it.tree / "cut.txt").st_ctime <= record.at:
            os.utime(it.tree / "cut.txt", ns=(0, 0))  # also who sets a time back has done so
        tree = picture(it.tree)
    lose_a_page(place, "medium.bin")
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    with opened(place, seed=3) as it:
        changed = {change.name for change in it.work.status().changes}
        assert picture(it.tree) == tree
        assert changed <= {"notes.md", "draft.txt", "src/main.py", "new/large.bin"}
        it.work.snapshot()
        assert shown(it.context) == tree


def test_a_file_that_a_power_cut_damaged_is_put_right_and_none_that_its_name_matches(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place, seed=1) as it:
        for name in ("x[1].bin", "x1.bin"):
            (it.tree / name).write_bytes(noise(9000, 1))
        it.work.snapshot("one")
        for name in ("x[1].bin", "x1.bin"):
            (it.tree / name).write_bytes(noise(9000, 2))
        it.work.snapshot("two")
        restore_one(it.work)
        (it.tree / "x1.bin").write_bytes(b"work done since")
    lose_a_page(place, "x[1].bin")
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    with opened(place, seed=3) as it:
        assert it.work.status().recovered
        assert (it.tree / "x[1].bin").read_bytes() == noise(9000, 1)
        assert (it.tree / "x1.bin").read_bytes() == b"work done since"


def test_a_crash_while_a_lost_page_is_put_right_is_put_right(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place, seed=1) as it:
        build(it)
        restore_one(it.work)
        new = picture(it.tree)
    lose_a_page(place, "medium.bin")
    lose_a_page(place, "large.bin")
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    place.save()
    deaths = 0
    for fuse in fuses(counts=touches_files):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as it:
            it.work.status()
        deaths += fuse.blown
        with opened(place, seed=4) as it:
            assert not it.work.status().changes, fuse
            assert picture(it.tree) == new, fuse
            assert shown(it.context) == new, fuse
            assert it.vault.verify().ok, fuse
    assert deaths > 10


def test_a_journal_of_a_restore_that_was_taken_back_leads_nowhere(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale: list[bytes] = []

    def remember() -> None:
        stale.append((state_folder(place) / "journal").read_bytes())

    run_to_the_end(place, SCENARIOS["restore"])
    place.reset()
    visit = VisitBeforeTrouble(30, remember, Trouble(31, errno.EIO, counts=is_call))
    with opened(place, fuse=visit, seed=3) as it:
        with pytest.raises(Unavailable):
            restore_one(it.work)
        put(it.tree / "notes.md", "went on working")
        it.work.snapshot("later")
        put(it.tree / "notes.md", "and on")
        tree = picture(it.tree)
    # That it was over is lost: the kernel had not written it yet.
    assert b"applying" in stale[0]
    (state_folder(place) / "journal").write_bytes(stale[0])
    monkeypatch.setattr(journal, "boot_id", lambda: "another boot")
    with opened(place, seed=4) as it:
        assert [change.name for change in it.work.status().changes] == ["notes.md"]
        assert picture(it.tree) == tree


@pytest.mark.parametrize("data", [b"not a journal", b"{}", b"\0" * 4096, b'{"state": "app'])
def test_a_journal_that_cannot_be_read_costs_no_file(place: SqlitePlace, data: bytes) -> None:
    with opened(place, seed=1) as it:
        build(it)
        put(it.tree / ".holdfast-notes", "the user's own")
        put(it.tree / ".holdfast-1.tmp", "as well")
        tree = picture(it.tree)
    (state_folder(place) / "journal").write_bytes(data)
    with opened(place, seed=2) as it:
        it.work.status()
        kept = [tree == found for found in (picture(it.tree), *all_shown(it).values())]
        assert any(kept)
        assert it.work.snapshot().id
        assert it.vault.verify().ok


def lose_a_page(place: Place, name: str) -> None:
    """Zeroes the middle of a file, and makes the index believe that nothing has happened.

    The kernel gives what is written a new time of change; a page that it lost leaves no trace.
    """
    path = place.folder / "tree" / name
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(before.st_size // 2)
        file.write(bytes(100))
    os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    index = StatIndex.load(state_folder(place) / "index")
    assert index is not None
    root = index.find(b"")
    assert root is not None
    ctime_ns = os.stat(path).st_ctime_ns
    rows = tuple(
        row._replace(ctime_ns=ctime_ns) if row.name == name.encode() else row for row in root.rows
    )
    index = index.replacing({b"": root._replace(rows=rows)}, meta=index.meta)
    index.save(state_folder(place) / "index")


INDEXES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "torn": lambda data, _: data[: len(data) // 2],
    "half zeros": lambda data, _: data[: len(data) // 2].ljust(len(data), b"\0"),
    "zeros": lambda data, _: bytes(len(data)),
    "empty": lambda _, __: b"",
    "text": lambda _, __: b"not an index at all",
    "of another vault": lambda _, other: other,
}


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("is_changed", [False, True], ids=["as it was", "changed"])
def test_an_index_that_is_not_ours_never_gives_a_wrong_answer(
    place: SqlitePlace, name: str, is_changed: bool
) -> None:
    with opened(place, seed=1) as it:
        build(it)
        if is_changed:
            make_drift(it.tree)
    elsewhere = SqlitePlace(Path(tempfile.mkdtemp(dir=place.folder.parent)))
    with opened(elsewhere, seed=2) as it:
        make_first(it.tree)
        put(it.tree / "only-there.txt", "theirs")
        it.work.snapshot()
    other_index = (state_folder(elsewhere) / "index").read_bytes()
    tree = picture(place.folder / "tree")
    index = state_folder(place) / "index"
    index.write_bytes(INDEXES[name](index.read_bytes(), other_index))
    place.save()
    with opened(place, seed=3) as it:
        assert bool(it.work.status().changes) is is_changed
        assert bool(it.work.diff()) is is_changed
        restore_one(it.work)
        it.work.undo()
        assert picture(it.tree) == tree
    place.reset()
    with opened(place, seed=4) as it:
        assert shown(it.context, it.work.snapshot()) == tree


def test_the_index_of_another_directory_of_the_vault_never_gives_a_wrong_answer(
    place: SqlitePlace,
) -> None:
    with opened(place, seed=1) as it:
        build(it)
        copy(it.tree, place.folder / "other")
        put(place.folder / "other/only-there.txt", "theirs")
        with it.vault.workspace(place.folder / "other") as other:
            other.snapshot()
            state = other._attachment.state
        tree = picture(it.tree)
        os.replace(state / "index", it.work._attachment.state / "index")
    with opened(place, seed=2) as it:
        assert not it.work.status().changes
        put(it.tree / "notes.md", "changed")
        assert [change.name for change in it.work.status().changes] == ["notes.md"]
        it.work.undo()
        assert picture(it.tree) == tree
        assert it.vault.verify().ok

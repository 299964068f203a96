"""`repair` brings back all whose bytes exist anywhere, names the rest, and may die at any step."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast import Holdfast, Limits
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.errors import Damaged, NotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.testing.faults import FusedBlobStore, FusedCatalog, fuses, leaves_traces
from holdfast.testing.postgres import PostgresServer
from holdfast.wiring import find_packs

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=2048, free_floor_bytes=0)
NAMES = ("one", "two")


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def open_vault(place: Path) -> Holdfast:
    return holdfast.open(place / "vault", limits=LIMITS)


def packs_of(place: Path) -> list[Path]:
    return sorted((place / "vault" / "packs").rglob("*.pack"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def contents(hf: Holdfast, name: str, snapshot: SnapshotInfo) -> dict[str, bytes]:
    files = hf.namespace(name).at(snapshot).files
    return {info.path: files.read(info.path) for info in files.list(recursive=True)}


class Place:
    """A vault with two directories and ten snapshots, its copy, and what each snapshot holds."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.copy = root.with_name(f"{root.name}-copy")
        self.held: dict[str, tuple[str, dict[str, bytes]]] = {}
        with open_vault(root) as hf:
            for name in NAMES:
                (root / name).mkdir()
                for number in range(40):
                    (root / name / f"{name}{number}").write_bytes(noise(300, number))
            for number in range(5):
                for name in NAMES:
                    # Gone from the directory at the next snapshot; `stays` is there until the end.
                    (root / name / "changes.bin").write_bytes(noise(5000, 100 * number + len(name)))
                    (root / name / f"stays{number}").write_bytes(noise(3000, 200 + number))
                    taken = hf.workspace(root / name).snapshot(f"{name} {number}")
                    self.held[taken.id] = name, files_in(root / name)
        shutil.copytree(root, self.copy, symlinks=True)

    def mend(self) -> None:
        """Puts all back, at the same place: what was attached stays attached."""
        shutil.rmtree(self.root)
        shutil.copytree(self.copy, self.root, symlinks=True)

    def check(self, hf: Holdfast, lost: set[str]) -> None:
        """Every snapshot that is not said to lack something reads, byte for byte."""
        for snapshot_id, (name, wanted) in self.held.items():
            namespace = hf.namespace(name)
            if snapshot_id in lost:
                with pytest.raises(Damaged):
                    contents(hf, name, namespace.get_snapshot(snapshot_id))
            else:
                assert contents(hf, name, namespace.get_snapshot(snapshot_id)) == wanted


@pytest.fixture(scope="module")
def built(home: Path) -> Place:
    return Place(home / "place")


@pytest.fixture
def place(built: Place) -> Iterator[Place]:
    yield built
    built.mend()


@pytest.mark.parametrize("damage", [flip, remove])
def test_what_is_nowhere_is_named_with_all_who_lack_it(
    place: Place, damage: Callable[[Path], None]
) -> None:
    total = 0
    for at in range(len(packs_of(place.root))):
        damage(packs_of(place.root)[at])
        with open_vault(place.root) as hf:
            done = hf.repair()
            lost = {snapshot for each in done.lost for snapshot in each.snapshots}
            place.check(hf, lost)
            assert hf.verify().ok == done.ok == (not lost)
            total += len(lost & place.held.keys())
        place.mend()
    # What only an older version of a file held is nowhere else.
    assert total


def test_a_place_that_is_not_there_is_not_found(place: Place, tmp_path: Path) -> None:
    for pack in packs_of(place.root):
        remove(pack)
    with open_vault(place.root) as hf, pytest.raises(NotFound, match="no such place"):
        hf.repair(places=[tmp_path / "nothing"])


@pytest.mark.parametrize("damage", [flip, remove])
def test_a_copy_brings_everything_back(place: Place, damage: Callable[[Path], None]) -> None:
    for pack in packs_of(place.root):
        damage(pack)
    with open_vault(place.root) as hf:
        assert not hf.repair().ok
        done = hf.repair(places=[place.copy / "vault"])
        assert done.ok
        assert done.rebuilt
        assert hf.verify().ok
        place.check(hf, set())


def test_packs_in_the_catalog_of_a_copy_serve_as_well(place: Place) -> None:
    late = noise(20_000, 999)  # More than lies in a row.
    with open_vault(place.root) as hf:
        hf.namespace("later").files.write("late", late)
    with holdfast.open(place.copy / "vault", limits=Limits(inline_bytes=1 << 30)) as hf:
        # There it lies inside of the catalog, and nowhere else.
        hf.namespace("later").files.write("late", late)
    shutil.rmtree(place.root / "vault" / "packs")
    (place.root / "vault" / "packs").mkdir()
    for name in NAMES:
        shutil.rmtree(place.root / name)
    with open_vault(place.root) as hf:
        found = dict(find_packs(place.copy / "vault"))
        assert any(".sqlite" in where for where in found)
        assert hf.repair(places=[place.copy]).ok
        place.check(hf, set())
        assert hf.namespace("later").files.read("late") == late


def test_the_directories_give_what_they_hold(place: Place) -> None:
    """All packs are gone: what the last snapshots hold lies in the directories, all of it."""
    for pack in packs_of(place.root):
        pack.unlink()
    with open_vault(place.root) as hf:
        done = hf.repair()
        lost = {snapshot for each in done.lost for snapshot in each.snapshots}
        assert lost
        newest = [*place.held][-2:]
        assert not lost & {*newest, "head of one", "head of two"}
        place.check(hf, lost)


def test_a_wrong_index_is_written_anew(place: Place) -> None:
    connection = sqlite3.connect(place.root / "vault" / "catalog.sqlite")
    connection.execute("DELETE FROM objects WHERE size % 2 = 0")
    connection.execute("UPDATE objects SET block_offset = block_offset + 1")
    connection.commit()
    connection.close()
    with open_vault(place.root) as hf:
        done = hf.repair()
        assert done.ok
        assert done.misplaced
        assert not done.rebuilt
        assert hf.verify().ok
        place.check(hf, set())


def test_packs_of_others_are_not_believed(place: Place, tmp_path: Path) -> None:
    """What does not hash to its name is not taken, whatever a pack says of itself."""
    for pack in packs_of(place.root):
        pack.unlink()
    for name in NAMES:
        shutil.rmtree(place.root / name)
    for number, pack in enumerate(packs_of(place.copy)):
        data = bytearray(pack.read_bytes())
        for at in range(8, len(data) // 2, 50):
            data[at] ^= 0xFF
        (tmp_path / f"{number}.pack").write_bytes(data)
    (tmp_path / "empty.pack").write_bytes(b"")
    (tmp_path / "no.sqlite").write_bytes(b"SQLite format 3\0 or so")
    with open_vault(place.root) as hf:
        done = hf.repair(places=[tmp_path])
        lost = {snapshot for each in done.lost for snapshot in each.snapshots}
        assert not done.ok
        place.check(hf, lost)


def test_a_vault_in_postgres_heals_and_is_repaired(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.dsn(postgres.create_database())
    packs, copy = tmp_path / "vault" / "packs", tmp_path / "copy"
    data = {f"{number}": noise(5000, number) for number in range(6)}
    with holdfast.open(url, objects=packs, limits=LIMITS) as hf:
        for path, content in data.items():
            hf.namespace("agent").files.write(path, content)
        before = hf.namespace("agent").snapshot()
        shutil.copytree(packs, copy)
        flip(packs_of(tmp_path)[0])
        packs_of(tmp_path)[1].unlink()
    with holdfast.open(url, objects=packs, limits=LIMITS) as hf:
        # Bytes that come by again are stored anew, for all who need them.
        hf.namespace("other").files.write_many(data.items())
        assert contents(hf, "agent", before) == data
        flip(packs_of(tmp_path)[-1])
        packs_of(tmp_path)[-2].unlink()
    with holdfast.open(url, objects=packs, limits=LIMITS) as hf:
        assert not hf.verify().ok
        assert hf.repair(places=[copy]).ok
        assert hf.verify().ok
        assert contents(hf, "agent", before) == data
        assert hf.collect().damaged == ()
        assert hf.verify().ok


def test_a_power_cut_at_any_step_leaves_what_the_next_run_ends(place: Place) -> None:
    steps = 0
    for fuse in fuses(counts=leaves_traces):
        place.mend()
        for pack in packs_of(place.root)[::2]:
            flip(pack)
        vault = place.root / "vault"
        catalog = SqliteCatalog(vault)
        context = Context.of(
            FusedCatalog(catalog, fuse),
            FusedBlobStore(DiskBlobStore(vault / "packs"), fuse),
            limits=LIMITS,
            state=vault / "workspaces",
            salvage=find_packs,
        )
        with fuse:
            Holdfast(context).repair(places=[place.copy / "vault"])
        catalog.close()
        steps += 1
        with open_vault(place.root) as hf:
            assert hf.repair(places=[place.copy / "vault"]).ok
            assert hf.verify().ok
            place.check(hf, set())
    assert steps > 5

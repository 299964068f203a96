"""Bytes on disk go bad: every kind of damage is named, and none is made worse.

For each kind: what is read is right or a `Damaged` error, and never anything else; files that
the damage does not touch stay readable; `verify` names the pack and what needs it, and never
raises; `collect` deletes neither evidence nor what is still good; a restore to what is not
there raises before anything changes.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import Holdfast, Limits
from holdfast.engine.timeline.restore import SHOWN
from holdfast.engine.upkeep import collect as collecting
from holdfast.engine.upkeep import repacking
from holdfast.errors import (
    Damaged,
    HoldfastError,
    ObjectMissing,
    PackDamaged,
    PackMissing,
    VaultTooNew,
)
from holdfast.model.upkeep import Fault
from holdfast.packs import parse_index
from holdfast.testing.damaged import run_in
from holdfast.testing.flips import flip_in_file

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)
FOOTER_BYTES = 48
ROUNDS = int(os.environ.get("HOLDFAST_FLIP_ROUNDS", "30"))
NOTHING: frozenset[str] = frozenset()


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


@dataclass
class Vault:
    """A vault, what it shall hold, and which pack holds which part of it."""

    root: Path
    holds: dict[str, dict[str, bytes]] = field(default_factory=dict[str, dict[str, bytes]])
    """The files at each snapshot, by label; `now` is the head."""
    packs: dict[str, str] = field(default_factory=dict[str, str])
    """The names of some packs, by what is in them."""
    originals: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    """The ids of the objects that were put into each of these packs."""

    def open(self) -> Holdfast:
        return holdfast.open(self.root, limits=LIMITS, clock=lambda: NOW)

    def file(self, what: str) -> Path:
        name = self.packs[what]
        return self.root / "packs" / name[-2:] / f"{name}.pack"

    def sql(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        return run_in(self.root, statement, *parameters)

    def rows(self) -> list[list[tuple[Any, ...]]]:
        tables = ("namespaces", "pending", "snapshots", "packs", "pack_data", "objects")
        return [self.sql(f"SELECT * FROM {table}") for table in tables]

    def objects_in(self, what: str) -> list[bytes]:
        """The ids of all objects in a pack, as the pack itself says."""
        data = self.find_bytes(what)
        assert data is not None
        return [place.object_id for place in parse_index(data, pack=what)]

    def find_bytes(self, what: str) -> bytes | None:
        """The bytes of a pack, wherever it lies."""
        if self.file(what).exists():
            return self.file(what).read_bytes()
        query = "SELECT data FROM pack_data JOIN packs ON id = pack_id WHERE name = ?"
        return next((data for (data,) in self.sql(query, self.packs[what])), None)


@pytest.fixture(scope="module")
def original() -> Iterator[Vault]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        vault = Vault(Path(name) / "vault")
        build(vault)
        yield vault


@pytest.fixture
def vault(original: Vault) -> Iterator[Vault]:
    copy = replace(original, root=original.root.with_name("copy"))
    shutil.copytree(original.root, copy.root)
    yield copy
    shutil.rmtree(copy.root)


def build(vault: Vault) -> None:
    with vault.open() as hf:
        alice = hf.namespace("alice")
        now: dict[str, bytes] = {}

        def write(path: str, data: bytes, what: str) -> None:
            before = set(names_of(vault))
            alice.files.write(path, data)
            now[path] = data
            [vault.packs[what]] = set(names_of(vault)) - before

        def snapshot(label: str) -> None:
            before = set(names_of(vault))
            alice.snapshot(label)
            vault.holds[label] = dict(now)
            [vault.packs[f"map {label}"]] = set(names_of(vault)) - before

        write("old.bin", noise(9000, 1), "old")
        write("same.bin", noise(9000, 2), "same")
        # More than a row has room for, and less than a pack takes, once it is compressed.
        write("inline.bin", noise(1500, 3) * 3, "inline")
        snapshot("one")
        write("old.bin", noise(9000, 4), "new")
        items = {f"many/{number}": noise(250, number) for number in range(40)}
        alice.files.write_many(items.items())
        now |= items
        snapshot("two")
        write("pending.bin", noise(9000, 5), "pending")
        vault.holds["now"] = dict(now)
    vault.originals |= {what: vault.objects_in(what) for what in vault.packs}


def names_of(vault: Vault) -> list[str]:
    return [name for (name,) in vault.sql("SELECT name FROM packs")]


# Ways to damage a vault


def in_file(what: str, at: int) -> Callable[[Vault], None]:
    return lambda vault: flip_in_file(vault.file(what), at)


def in_index(vault: Vault) -> None:
    path = vault.file("old")
    index_size = int.from_bytes(path.read_bytes()[-40:-36], "big")
    flip_in_file(path, -FOOTER_BYTES - index_size // 2)


def newer_header(vault: Vault) -> None:
    data = bytearray(vault.file("old").read_bytes())
    data[4] = 9
    vault.file("old").write_bytes(data)


def cut_to(size: int) -> Callable[[Vault], None]:
    """Cuts a pack; a negative size says how much is taken away."""

    def damage(vault: Vault) -> None:
        path = vault.file("old")
        os.truncate(path, size if size >= 0 else path.stat().st_size + size)

    return damage


def append(vault: Vault) -> None:
    with vault.file("old").open("ab") as file:
        file.write(b"more")


def remove(what: str) -> Callable[[Vault], None]:
    return lambda vault: vault.file(what).unlink()


def replace_by(what: str) -> Callable[[Vault], object]:
    return lambda vault: shutil.copy(vault.file(what), vault.file("old"))


def in_inline(what: str, at: int) -> Callable[[Vault], None]:
    def damage(vault: Vault) -> None:
        name = vault.packs[what]
        query = "SELECT pack_id, data FROM pack_data JOIN packs ON id = pack_id WHERE name = ?"
        [(pack_id, data)] = vault.sql(query, name)
        changed = bytearray(data)
        changed[at] ^= 0x10
        vault.sql("UPDATE pack_data SET data = ? WHERE pack_id = ?", bytes(changed), pack_id)

    return damage


def remove_inline(what: str) -> Callable[[Vault], object]:
    query = "DELETE FROM pack_data WHERE pack_id = (SELECT id FROM packs WHERE name = ?)"
    return lambda vault: vault.sql(query, vault.packs[what])


def remove_rows(what: str) -> Callable[[Vault], None]:
    def damage(vault: Vault) -> None:
        for object_id in vault.objects_in(what):
            vault.sql("DELETE FROM objects WHERE id = ?", object_id)

    return damage


def misplace(column: str, value: str) -> Callable[[Vault], None]:
    def damage(vault: Vault) -> None:
        [object_id] = vault.objects_in("old")
        vault.sql(f"UPDATE objects SET {column} = {value} WHERE id = ?", object_id)

    return damage


def misplace_into_another_pack(vault: Vault) -> None:
    [object_id] = vault.objects_in("old")
    vault.sql(
        "UPDATE objects SET pack_id = (SELECT id FROM packs WHERE name = ?) WHERE id = ?",
        vault.packs["same"],
        object_id,
    )


def remove_pack_row(vault: Vault) -> None:
    vault.sql("DELETE FROM packs WHERE name = ?", vault.packs["old"])


@dataclass(frozen=True)
class Damage:
    """One way to damage a vault, and what follows from it."""

    make: Callable[[Vault], object]
    what: str = "old"
    """The pack that is damaged, or whose objects are."""
    lost: frozenset[str] = frozenset({"one old.bin"})
    """What cannot be read afterwards: label and path, or a label for all of it."""
    error: type[HoldfastError] = Damaged
    names_the_pack: bool = True
    is_partial: bool = False
    """Whether some of `lost` may still be readable."""


DAMAGES = {
    "bit in a block": Damage(in_file("old", 200)),
    "bit in a frame's header": Damage(in_file("old", 9)),
    "bit in the index": Damage(in_index, lost=NOTHING),
    "bit in the footer's hash": Damage(in_file("old", -20), lost=NOTHING),
    "bit in the footer's magic": Damage(in_file("old", -2), lost=NOTHING),
    "bit in the footer's offset": Damage(in_file("old", -44), lost=NOTHING),
    "bit in the header": Damage(in_file("old", 1), lost=NOTHING),
    "newer header": Damage(newer_header, lost=NOTHING),
    "cut to nothing": Damage(cut_to(0), error=PackDamaged),
    "cut to half a header": Damage(cut_to(5), error=PackDamaged),
    "cut in a block": Damage(cut_to(4000), error=PackDamaged),
    "cut before the footer": Damage(cut_to(-FOOTER_BYTES), lost=NOTHING),
    "cut by a byte": Damage(cut_to(-1), lost=NOTHING),
    "longer": Damage(append, lost=NOTHING),
    "missing": Damage(remove("old"), error=PackMissing),
    "replaced by another of its size": Damage(replace_by("same")),
    "replaced by a larger one": Damage(replace_by("map two")),
    "bit in an inline pack": Damage(
        in_inline("inline", 300), "inline", frozenset({"one inline.bin", "two inline.bin"})
    ),
    "inline pack without bytes": Damage(
        remove_inline("inline"), "inline", frozenset({"one inline.bin", "two inline.bin"})
    ),
    "object's row missing": Damage(remove_rows("old"), error=ObjectMissing, names_the_pack=False),
    "pack's row missing": Damage(remove_pack_row, error=ObjectMissing, names_the_pack=False),
    "object in the wrong pack": Damage(misplace_into_another_pack, names_the_pack=False),
    "object at the wrong block": Damage(misplace("block_offset", "20"), names_the_pack=False),
    "object before the file": Damage(misplace("block_offset", "-20"), names_the_pack=False),
    "object far behind": Damage(misplace("block_offset", "1 << 40"), names_the_pack=False),
    "object of the wrong length": Damage(misplace("size", "size - 1"), names_the_pack=False),
    "object at the wrong place": Damage(misplace("place", "-3"), names_the_pack=False),
    "block of the wrong size": Damage(misplace("block_size", "17"), names_the_pack=False),
    "bit in a map's block": Damage(in_file("map two", 9), "map two", frozenset({"two"})),
    "bit in a map's node": Damage(
        in_file("map two", 500), "map two", frozenset({"two"}), is_partial=True
    ),
    "map missing": Damage(remove("map two"), "map two", frozenset({"two"}), PackMissing),
    "bit in an inline map": Damage(in_inline("map one", 100), "map one", frozenset({"one"})),
    "map's rows missing": Damage(
        remove_rows("map one"), "map one", frozenset({"one"}), ObjectMissing, names_the_pack=False
    ),
}


@pytest.fixture(params=DAMAGES)
def damage(request: pytest.FixtureRequest, vault: Vault) -> Damage:
    found = DAMAGES[request.param]
    found.make(vault)
    return found


def lost_in(vault: Vault, hf: Holdfast, error: type[HoldfastError] = Damaged) -> set[str]:
    """Reads everything; returns what cannot be read, having checked all that can."""
    lost: set[str] = set()
    alice = hf.namespace("alice")
    moments = {"now": alice.files}
    moments |= {str(s.label): alice.at(s).files for s in alice.timeline()}
    for label, files in vault.holds.items():
        for path, data in files.items():
            try:
                found = moments[label].read(path)
            except error:
                lost.add(f"{label} {path}")
            else:
                assert found == data, f"wrong bytes: {label} {path}"
    return lost


def expected(vault: Vault, damage: Damage) -> set[str]:
    """What is lost at a snapshot is lost now, unless it has changed since."""
    lost: set[str] = set()
    for item in damage.lost:
        label, _, path = item.partition(" ")
        files = vault.holds[label] if not path else [path]
        lost |= {f"{label} {name}" for name in files}
        if label == "two":
            lost |= {f"now {name}" for name in files}
    return lost


def test_what_is_read_is_right_or_a_damaged_error(vault: Vault, damage: Damage) -> None:
    with vault.open() as hf:
        lost = lost_in(vault, hf, damage.error) - {"now pending.bin"}
    wanted = expected(vault, damage)
    if damage.is_partial:
        assert lost
        assert lost < wanted
    else:
        assert lost == wanted


def test_verify_names_what_is_damaged_and_what_needs_it(vault: Vault, damage: Damage) -> None:
    with vault.open() as hf:
        found = hf.verify()
        ids = {snapshot.label: snapshot.id for snapshot in hf.namespace("alice").timeline()}
    assert not found.ok
    if damage.names_the_pack:
        name = vault.packs[damage.what]
        assert any(name in (fault.what, fault.reason.split()[-1]) for fault in found.faults)
    for item in damage.lost:
        label, _, path = item.partition(" ")
        needy = [fault for fault in found.faults if says(fault, path)]
        assert needy, found.faults
        places = {place for fault in needy for place in fault.snapshots}
        assert places & {ids[label], "head of alice"}
        objects = {fault.object_id for fault in needy}
        assert objects <= {*vault.originals[damage.what]}


def says(fault: Fault, path: str) -> bool:
    if path:
        return fault.what == f"files: {path}"
    return fault.what == "root" or fault.what.endswith("part of its map")


@pytest.mark.usefixtures("damage")
def test_collect_deletes_neither_evidence_nor_what_is_good(vault: Vault) -> None:
    before = {path: path.read_bytes() for path in (vault.root / "packs").rglob("*.pack")}
    rows = vault.sql("SELECT id, pack_id FROM objects ORDER BY id")
    data = vault.sql("SELECT pack_id FROM pack_data ORDER BY pack_id")
    with vault.open() as hf:
        lost = lost_in(vault, hf)
        faults = {fault.what for fault in hf.verify().faults}
        with suppress(Damaged, VaultTooNew):
            hf.collect(now=True)
            # What packs take is added up anew by each collection: no evidence of anything else.
            faults -= {"rows of the tenant"}
        assert lost_in(vault, hf) == lost
        assert {fault.what for fault in hf.verify().faults} >= faults
    assert {path: path.read_bytes() for path in (vault.root / "packs").rglob("*.pack")} == before
    assert vault.sql("SELECT id, pack_id FROM objects ORDER BY id") == rows
    assert vault.sql("SELECT pack_id FROM pack_data ORDER BY pack_id") == data


def test_collect_copies_nothing_out_of_what_is_damaged(
    vault: Vault, damage: Damage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same when every pack is worth copying."""
    monkeypatch.setattr(collecting, "WASTE", -1)
    monkeypatch.setattr(repacking, "INLINE_PACKS", 1)
    before = vault.find_bytes(damage.what)
    with vault.open() as hf:
        lost = lost_in(vault, hf)
        try:
            done = hf.collect(now=True)
        except (Damaged, VaultTooNew):
            pass
        else:
            assert done.damaged
        assert lost_in(vault, hf) == lost
        assert not hf.verify().ok
    assert vault.find_bytes(damage.what) == before


@pytest.mark.parametrize(
    "name", ["missing", "cut in a block", "object's row missing", "map missing"]
)
def test_a_restore_to_what_is_not_there_changes_nothing(vault: Vault, name: str) -> None:
    damage = DAMAGES[name]
    damage.make(vault)
    [label] = {item.partition(" ")[0] for item in damage.lost}
    with vault.open() as hf:
        alice = hf.namespace("alice")
        ids = {snapshot.label: snapshot.id for snapshot in alice.timeline()}
        before = vault.rows()
        with pytest.raises(Damaged):
            alice.restore(ids[label])
        with pytest.raises(Damaged):
            alice.restore(ids[label], limit=0)
        with pytest.raises(Damaged):
            alice.restore(ids[label], dry_run=True)
        assert vault.rows() == before


def test_the_index_is_rebuilt_from_the_packs(vault: Vault) -> None:
    vault.sql("DELETE FROM objects")
    with vault.open() as hf:
        assert not hf.verify().ok
        collected = hf.collect()
        assert collected.damaged
        assert (collected.objects_deleted, collected.packs_deleted) == (0, 0)
        hf.rebuild_index()
        assert hf.verify().ok
        assert lost_in(vault, hf) == set()
        hf.collect(now=True)
        assert hf.verify().ok
        assert lost_in(vault, hf) == set()


# The catalog itself


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(noise(path.stat().st_size, 6))


CATALOGS: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": empty,
    "garbage": garbage,
    "cut to a byte": lambda path: os.truncate(path, 1),
    "cut to half a page": lambda path: os.truncate(path, 2048),
    "cut to a page": lambda path: os.truncate(path, 4096),
    "cut to three pages": lambda path: os.truncate(path, 3 * 4096),
    "cut to a half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut by a page": lambda path: os.truncate(path, path.stat().st_size - 4096),
    "cut by a byte": lambda path: os.truncate(path, path.stat().st_size - 1),
}


@pytest.mark.parametrize("name", CATALOGS)
def test_a_damaged_catalog_is_named_and_never_taken_for_an_empty_vault(
    vault: Vault, name: str
) -> None:
    CATALOGS[name](vault.root / "catalog.sqlite")
    packs = sorted((vault.root / "packs").rglob("*.pack"))
    try:
        hf = vault.open()
    except Damaged:
        assert sorted((vault.root / "packs").rglob("*.pack")) == packs
        return
    with hf:
        assert not hf.verify().ok
        with pytest.raises(Damaged):
            lost_in(vault, hf)
        with suppress(Damaged):
            hf.collect(now=True)
        assert sorted((vault.root / "packs").rglob("*.pack")) == packs


def test_packs_beside_an_empty_database_are_not_taken_for_litter(
    vault: Vault, postgres_url: str
) -> None:
    packs = sorted((vault.root / "packs").rglob("*.pack"))
    with pytest.raises(Damaged):
        holdfast.open(postgres_url, objects=vault.root / "packs")
    assert sorted((vault.root / "packs").rglob("*.pack")) == packs


def test_bits_that_flip_in_the_catalog_never_make_wrong_bytes(vault: Vault) -> None:
    """SQLite has no checksums, so much goes unnoticed; what is read is still proven."""
    path = vault.root / "catalog.sqlite"
    whole, random = path.read_bytes(), Random(7)
    for _ in range(ROUNDS):
        data = bytearray(whole)
        for _ in range(8):
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        try:
            hf = vault.open()
        except Damaged:
            continue
        with hf:
            for name, wanted in vault.holds["now"].items():
                with suppress(HoldfastError):
                    assert hf.namespace("alice").files.read(name) == wanted
            hf.verify()
            with suppress(HoldfastError):
                hf.collect(now=True)


@pytest.mark.parametrize("go", ["restore", "restore in part", "undo"])
def test_what_is_lost_of_the_last_of_many_changes_keeps_a_restore_from_beginning(
    tmp_path: Path, go: str
) -> None:
    with holdfast.open(tmp_path / "vault") as hf:
        alice = hf.namespace("alice")
        for version in (b"1", b"2"):
            alice.files.write_many([(f"many/{n:04}", version) for n in range(SHOWN + 100)])
            alice.files.write("zz.bin", Random(version).randbytes(400_000))
            last = alice.snapshot(version.decode())
            if version == b"1":
                first = last
                (pack,) = (tmp_path / "vault" / "packs").rglob("*.pack")
        pack.unlink()
        before = [each.id for each in alice.timeline()]
        ways: dict[str, Callable[[], object]] = {
            "restore": lambda: alice.restore(first, limit=3),
            "restore in part": lambda: alice.restore(first, paths=["*"], limit=3),
            "undo": lambda: alice.undo(limit=3),
        }
        with pytest.raises(Damaged):
            ways[go]()
        assert [each.id for each in alice.timeline()] == before
        assert alice.files.read("many/0000") == b"2"

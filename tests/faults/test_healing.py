"""Damage does not spread: what is acknowledged after it can be had back, byte for byte.

One bit is flipped in each pack in turn, each pack is removed in turn, of a vault with two
directories and ten snapshots. A snapshot whose bytes were in hand is restorable, whatever copy of
them went bad before.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast import Holdfast, Limits
from holdfast.errors import Damaged, PackMissing

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=2048, free_floor_bytes=0)


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def open_vault(place: Path) -> Holdfast:
    return holdfast.open(place / "vault", limits=LIMITS)


def packs_of(place: Path) -> list[Path]:
    return sorted((place / "vault" / "packs").rglob("*.pack"))


def flip(path: Path, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def cut_to_little(path: Path) -> None:
    os.truncate(path, 100)


DAMAGES: list[Callable[[Path], None]] = [flip, remove, cut_short]


def files_in(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def original(home: Path) -> Path:
    """Two directories that share some bytes, and ten snapshots of them."""
    place = home / "original"
    with open_vault(place) as hf:
        for name in ("one", "two"):
            (place / name / "src").mkdir(parents=True)
            (place / name / "same.bin").write_bytes(noise(9000, 1))
            for number in range(60):
                (place / name / "src" / f"{name}{number}").write_bytes(noise(300, number))
        for number in range(5):
            for name in ("one", "two"):
                (place / name / "grows.bin").write_bytes(noise(5000, 100 + number + len(name)))
                (place / name / f"{name}-{number}.txt").write_bytes(noise(3000, 200 + number))
                hf.workspace(place / name).snapshot(f"{name} {number}")
    assert len(packs_of(place)) >= 5
    return place


@pytest.fixture
def place(original: Path) -> Iterator[Path]:
    """The same at the same place, to be damaged; what was attached stays attached."""
    kept = original.with_name(f"{original.name}-kept")
    shutil.copytree(original, kept, symlinks=True)
    yield original
    shutil.rmtree(original)
    kept.rename(original)


def damages(place: Path) -> Iterator[Callable[[], None]]:
    """Yields ways to damage the vault: each kind for each pack, one at a time.

    The directories are copied each time, so that a snapshot reads their files again: in files that
    rest, a flip that nobody has read is found by `verify` alone.
    """
    sound = place.with_name(f"{place.name}-sound")
    shutil.copytree(place, sound, symlinks=True)
    try:
        for at in range(len(packs_of(place))):
            for damage in DAMAGES:
                shutil.rmtree(place)
                shutil.copytree(sound, place, symlinks=True)
                yield lambda damage=damage, at=at: damage(packs_of(place)[at])
    finally:
        shutil.rmtree(sound)


def test_bytes_that_were_in_hand_come_back_whatever_copy_of_them_went_bad(place: Path) -> None:
    for damage in damages(place):
        damage()
        third = place / "third"
        shutil.copytree(place / "one", third)
        wanted = files_in(third)
        with open_vault(place) as hf:
            taken = hf.workspace(third).snapshot("the bytes are in hand")
        shutil.rmtree(third)
        third.mkdir()
        with open_vault(place) as hf:
            done = hf.workspace(third).restore(taken)
            assert done.verified
        assert files_in(third) == wanted


def test_a_write_is_not_left_out_for_a_copy_that_went_bad(place: Path) -> None:
    for damage in damages(place):
        damage()
        data = noise(9000, 1)
        with open_vault(place) as hf:
            hf.namespace("plain").files.write("same.bin", data)
        with open_vault(place) as hf:
            assert hf.namespace("plain").files.read("same.bin") == data


def test_a_snapshot_taken_once_damage_is_known_comes_back(place: Path) -> None:
    for damage in damages(place):
        damage()
        with open_vault(place) as hf:
            assert not hf.verify().ok
            taken = {name: hf.workspace(place / name).snapshot("known") for name in ("one", "two")}
        for name, snapshot in taken.items():
            wanted = files_in(place / name)
            shutil.rmtree(place / name)
            (place / name).mkdir()
            with open_vault(place) as hf:
                assert hf.workspace(place / name).restore(snapshot).verified
            assert files_in(place / name) == wanted


@pytest.mark.parametrize("damage", [remove, cut_short])
def test_a_pack_that_is_lost_is_known_without_a_word(
    place: Path, damage: Callable[[Path], None]
) -> None:
    """Nothing has changed and nobody looked: the snapshot does, and the next one need not."""
    for pack in packs_of(place):
        damage(pack)
    wanted = files_in(place / "one")
    with open_vault(place) as hf:
        hf.workspace(place / "one").snapshot("goes on")
    shutil.rmtree(place / "one")
    (place / "one").mkdir()
    with open_vault(place) as hf:
        assert hf.workspace(place / "one").undo().verified
    assert files_in(place / "one") == wanted


def test_undo_goes_on_where_only_the_head_was_lost(place: Path) -> None:
    for damage in damages(place):
        damage()
        wanted = files_in(place / "one")
        with open_vault(place) as hf:
            one = hf.workspace(place / "one")
            (place / "one" / "later.txt").write_bytes(noise(3000, 900))
            one.snapshot("what is there, and more")
        with open_vault(place) as hf, suppress(Damaged):
            hf.workspace(place / "one").undo()
            # Where it can be had, it is what was there.
            assert files_in(place / "one") == wanted
        with open_vault(place) as hf:
            # In any case the next snapshot holds what is there.
            one = hf.workspace(place / "one")
            now, taken = files_in(place / "one"), one.snapshot("after it")
            shutil.rmtree(place / "one")
            (place / "one").mkdir()
            assert one.restore(taken).verified
        assert files_in(place / "one") == now


def test_planes_that_nobody_can_prove_are_named_as_lost(tmp_path: Path) -> None:
    """Packs and index are gone and the directory has changed: its files go on, and it is said."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.bin").write_bytes(noise(3000, 1))
    limits = Limits(inline_bytes=0, free_floor_bytes=0)
    with holdfast.open(tmp_path / "vault", limits=limits) as hf:
        one = hf.workspace(tmp_path / "one")
        one.namespace.store.set("all", "key", "value" * 1000)
        one.snapshot("with a store")
    for path in (*packs_of(tmp_path), *(tmp_path / "vault" / "workspaces").rglob("index")):
        path.unlink()
    (tmp_path / "one" / "b.bin").write_bytes(noise(3000, 2))
    wanted = files_in(tmp_path / "one")
    with holdfast.open(tmp_path / "vault", limits=limits) as hf:
        taken = hf.workspace(tmp_path / "one").snapshot("goes on")
        assert taken.detail["lost"] == ["store", "sessions"]
        assert taken.size.entries == 2
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "one").mkdir()
    with holdfast.open(tmp_path / "vault", limits=limits) as hf:
        assert hf.workspace(tmp_path / "one").undo().verified
    assert files_in(tmp_path / "one") == wanted


def test_a_lost_root_is_proven_by_its_name(tmp_path: Path) -> None:
    """The store is untouched by what the directory lost: another snapshot names its map."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.bin").write_bytes(noise(3000, 1))
    limits = Limits(inline_bytes=0, free_floor_bytes=0)
    with holdfast.open(tmp_path / "vault", limits=limits) as hf:
        one = hf.workspace(tmp_path / "one")
        one.namespace.store.set("all", "key", "value" * 1000)
        one.snapshot("with a store")
        before = {*packs_of(tmp_path)}
        (tmp_path / "one" / "b.bin").write_bytes(noise(3000, 2))
        one.snapshot("its root is lost")
    for pack in {*packs_of(tmp_path)} - before:
        pack.unlink()
    (tmp_path / "one" / "c.bin").write_bytes(noise(3000, 3))
    with holdfast.open(tmp_path / "vault", limits=limits) as hf:
        taken = hf.workspace(tmp_path / "one").snapshot("goes on")
        assert "lost" not in taken.detail
        assert hf.namespace("one").store.get("all", "key") == "value" * 1000
        assert taken.size.entries == 4


def test_going_to_what_is_lost_reads_the_directory_once(place: Path) -> None:
    with open_vault(place) as hf:
        one = hf.workspace(place / "one")
        first = one.namespace.timeline()[-1]
        (place / "one" / "one-0.txt").unlink()
        one.snapshot("without it")
    for pack in packs_of(place):
        remove(pack)
    stages: list[str] = []
    with open_vault(place) as hf:
        one = hf.workspace(place / "one")
        with pytest.raises(Damaged):
            one.restore(first)
        one.snapshot("goes on", progress=lambda stage, *_: stages.append(stage))
    assert "reading" not in stages


@pytest.mark.parametrize("damage", [remove, cut_to_little])
def test_a_snapshot_of_what_is_lost_is_not_acknowledged(
    place: Path, damage: Callable[[Path], None]
) -> None:
    """Without a directory there is nobody to read it from: a namespace's snapshot says so."""
    with open_vault(place) as hf:
        for name in ("whole", "lacks"):
            hf.namespace(name).files.write("a.bin", noise(3000, 700 + len(name)))
            hf.namespace(name).snapshot()
        before = {*packs_of(place)}
        hf.namespace("lacks").files.write("b.bin", noise(3000, 800))
        [pack] = {*packs_of(place)} - before
        hf.namespace("lacks").snapshot()
    damage(pack)
    with open_vault(place) as hf:
        hf.namespace("lacks").files.write("c.bin", noise(3000, 801))
        with pytest.raises(Damaged):
            hf.namespace("lacks").snapshot("cannot be whole")
        assert hf.namespace("whole").snapshot("is whole")
        # The bytes come by again: from then on it can.
        hf.namespace("lacks").files.write("again.bin", noise(3000, 800))
        taken = hf.namespace("lacks").snapshot("is whole again")
    with open_vault(place) as hf:
        assert hf.namespace("lacks").at(taken).files.read("b.bin") == noise(3000, 800)


@pytest.mark.parametrize("is_read", [True, False])
def test_what_was_seen_to_be_lost_is_promised_by_no_snapshot(
    tmp_path: Path, *, is_read: bool
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)  # Packs were looked at a moment ago, and for ever.
    with holdfast.open(tmp_path / "vault", limits=LIMITS, clock=lambda: now) as vault:
        agent = vault.namespace("alice")
        agent.files.write("big.bin", noise(50_000, 1))
        agent.snapshot("one")
        agent.files.write("a.txt", "1")
        agent.snapshot("two")
        for pack in packs_of(tmp_path):
            pack.unlink()
        if is_read:
            with pytest.raises(PackMissing):
                agent.files.read("big.bin")
        else:
            assert not vault.verify().ok
        with pytest.raises(PackMissing):
            agent.snapshot("three")

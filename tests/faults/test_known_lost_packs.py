"""A vault that has lost bytes for good is backed up, and what is made of that says the same."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from holdfast import Holdfast
from holdfast.errors import Damaged
from holdfast.testing.damaged import Kept, Reinstate

pytestmark = pytest.mark.in_memory

OF_ALICE = "number = 2 AND stream = (SELECT id FROM namespaces WHERE name = 'alice')"


def in_the_middle(data: bytes) -> bytes:
    return flipped(data, len(data) // 2)


def at_the_beginning(data: bytes) -> bytes:
    return flipped(data, 2)


def in_the_footer(data: bytes) -> bytes:
    return flipped(data, len(data) - 10)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def emptied(_data: bytes) -> bytes:
    return b""


def gone(_data: bytes) -> None:
    return None


EVERY = pytest.mark.parametrize(
    "damage", [in_the_middle, at_the_beginning, in_the_footer, cut, emptied, gone]
)
Damage = Callable[[bytes], bytes | None]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place outside of every vault."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture
def without_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has backups go without packs that are damaged."""

    def leave(*_: object) -> None:
        pass

    monkeypatch.setattr("holdfast.engine.backups.making._Making._copy_damaged", leave)


def fill(vault: Holdfast) -> list[str]:
    agent = vault.namespace("alice")
    made = list[str]()
    for size in (400_000, 300_000):
        agent.files.write("big.bin", Random(size).randbytes(size))
        made.append(agent.snapshot(f"of {size}").id)
    vault.namespace("bob").files.write("b.txt", "fine")
    vault.namespace("bob").snapshot("bob")
    return made


def hurt(folder: Path, damage: Damage) -> tuple[Path, bytes]:
    """Damages the pack that the first snapshot has put its file into; returns it, and its bytes."""
    (path,) = (each for each in folder.rglob("*.pack") if each.stat().st_size > 350_000)
    data = path.read_bytes()
    new = damage(data)
    path.unlink()
    if new is not None:
        path.write_bytes(new)
    return path, data


def read(vault: Holdfast, snapshots: list[str]) -> list[bytes | None]:
    """Returns what each snapshot has of the file: None where it is said to be damaged."""
    found = list[bytes | None]()
    for each in snapshots:
        try:
            found.append(vault.namespace("alice").at(each).files.read("big.bin"))
        except Damaged:
            found.append(None)
    return found


def faults(vault: Holdfast) -> list[tuple[str, str, object]]:
    return sorted((each.what, each.reason, each.object_id) for each in vault.verify().faults)


@EVERY
def test_a_backup_with_known_damage_makes_a_vault_that_knows_it(
    kept: Kept, tmp_path: Path, elsewhere: Path, bring_back: Reinstate, damage: Damage
) -> None:
    made = fill(kept.vault)
    path, good = hurt(tmp_path, damage)
    with pytest.raises(Damaged, match="was not backed up"):
        kept.vault.backup(elsewhere / "backup")
    assert kept.vault.repair().lost
    known = faults(kept.vault)
    assert kept.vault.verify().is_noted
    done = kept.vault.backup(elsewhere / "backup")
    assert len(done.damage) == len(known) > 0
    (first, second) = read(kept.vault, made)
    assert second is not None
    with bring_back(elsewhere / "backup", "again") as again:
        assert again.verify().is_noted
        assert faults(again) == known
        assert read(again, made) == [first, second]
        assert again.namespace("bob").files.read_text("b.txt") == "fine"
        again.namespace("alice").files.write("new.txt", "goes on")
        again.namespace("alice").snapshot("goes on")
        # What it makes is one that comes back, too; and good bytes still mend it.
        again.backup(elsewhere / "later")
        with bring_back(elsewhere / "later", "once more") as more:
            assert more.verify().is_noted
        (elsewhere / "found").mkdir()
        (elsewhere / "found" / path.name).write_bytes(good)
        assert again.repair(places=[elsewhere / "found"]).ok
        assert again.verify().ok
        assert None not in read(again, made)


@EVERY
@pytest.mark.usefixtures("without_damaged")
def test_a_backup_that_lacks_a_damaged_pack_comes_back(
    kept: Kept, tmp_path: Path, elsewhere: Path, bring_back: Reinstate, damage: Damage
) -> None:
    """As the first versions made them; and where a pack can no longer be read at all."""
    made = fill(kept.vault)
    hurt(tmp_path, damage)
    kept.vault.repair()
    kept.vault.backup(elsewhere / "backup")
    with bring_back(elsewhere / "backup", "again") as again:
        found = again.verify()
        assert found.is_noted
        assert [each is None for each in read(again, made)] == [True, False]


def test_the_next_backup_carries_the_same(
    kept: Kept, tmp_path: Path, elsewhere: Path, bring_back: Reinstate
) -> None:
    fill(kept.vault)
    hurt(tmp_path, in_the_middle)
    kept.vault.repair()
    kept.vault.backup(elsewhere / "backup")
    kept.vault.namespace("bob").snapshot("later")
    assert kept.vault.backup(elsewhere / "backup").packs_copied <= 1
    with bring_back(elsewhere / "backup", "again") as again:
        assert again.verify().is_noted


def test_a_damaged_pack_takes_the_place_of_no_good_one(
    kept: Kept, tmp_path: Path, elsewhere: Path, bring_back: Reinstate
) -> None:
    made = fill(kept.vault)
    kept.break_row("journal", "details", where=OF_ALICE)
    kept.vault.repair()
    kept.vault.backup(elsewhere / "backup")  # Which carries damage, of the journal alone.
    path, good = hurt(tmp_path, in_the_middle)
    before = {each: each.read_bytes() for each in (elsewhere / "backup").rglob("*.pack")}
    with pytest.raises(Damaged, match="was not backed up"):
        kept.vault.backup(elsewhere / "backup")
    assert {each: each.read_bytes() for each in (elsewhere / "backup").rglob("*.pack")} == before
    kept.vault.repair()
    kept.vault.backup(elsewhere / "backup")
    (there,) = (elsewhere / "backup").rglob(path.name)
    assert there.read_bytes() == good
    with bring_back(elsewhere / "backup", "again") as again:
        assert again.verify().is_noted
        assert None not in read(again, made)

"""Objects of a batch can be read wherever they went: memory, packs under way, a scratch file."""

import os
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.engine.objects import stage as stages
from holdfast.engine.objects.stage import Stage
from holdfast.ids import ObjectId
from holdfast.packs import ObjectKind

SPILLS_AT = 64 << 10


@pytest.fixture(autouse=True)
def _small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "PACK_TARGET_BYTES", SPILLS_AT)


@pytest.fixture
def vault(tmp_path: Path) -> holdfast.Holdfast:
    return holdfast.open(tmp_path / "vault")


def staged(vault: holdfast.Holdfast, *, only_shown: bool) -> Stage:
    return Stage(vault._context, vault._tenant.id, only_shown=only_shown)


def fill(stage: Stage, *, count: int, size: int = 10_000, seed: int = 1) -> dict[ObjectId, bytes]:
    random, made = Random(seed), dict[ObjectId, bytes]()
    for _ in range(count):
        data = random.randbytes(size)
        made[stage.add(data, ObjectKind.CHUNK)] = data
        stage.spill()
    return made


def numbered(number: int) -> str:
    return "".join(f"{number} {line}\n" for line in range(2_000))


@pytest.mark.parametrize("only_shown", [False, True])
def test_every_object_of_a_batch_that_spilled_can_be_read(
    vault: holdfast.Holdfast, *, only_shown: bool
) -> None:
    with staged(vault, only_shown=only_shown) as stage:
        source = stage.source(vault.namespace("any")._handle.objects)
        made = fill(stage, count=60)
        late = stage.add(b"after the spill", ObjectKind.CHUNK)

        assert source.get_many(list(made)) == made
        assert source.get_many([late]) == {late: b"after the spill"}
        assert source.with_nodes({ObjectId(b"n"): b"node"}).get_many([*made][:7]) == dict(
            [*made.items()][:7]
        )
        if not only_shown:
            stage.seal()
            assert source.get_many([*made, late]) == made | {late: b"after the spill"}


@pytest.mark.parametrize("only_shown", [False, True])
def test_memory_is_let_go_of_what_has_spilled(
    vault: holdfast.Holdfast, *, only_shown: bool
) -> None:
    with staged(vault, only_shown=only_shown) as stage:
        fill(stage, count=60)
        held = sum(len(data) for data, _ in stage._held.values())
        # What is being added, and the packs in the hands of those who write them.
        assert held <= (1 + stages.SPILLERS) * (SPILLS_AT + 10_000)


def test_what_is_only_shown_leaves_nothing_in_the_vault(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    before = sorted(os.listdir(tmp_path / "vault" / "packs"))
    with staged(vault, only_shown=True) as stage:
        fill(stage, count=60)
    assert sorted(os.listdir(tmp_path / "vault" / "packs")) == before
    assert vault.stored_bytes() == 0


def test_a_diff_of_much_that_is_in_no_snapshot_shows_every_text(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    project, random = tmp_path / "project", Random(2)
    project.mkdir()
    workspace = vault.workspace(project)
    (project / "big.bin").write_bytes(random.randbytes(5 * SPILLS_AT))
    for number in range(30):
        (project / f"{number:02}.txt").write_text(numbered(number))
    workspace.snapshot()
    os.utime(project / "big.bin")
    (project / "new.bin").write_bytes(random.randbytes(5 * SPILLS_AT))
    for number in range(30):
        (project / f"{number:02}.txt").write_text(numbered(number) + f"{random.random()}\n")

    texts = {change.name: text for change, text in workspace.text_diffs()}
    assert len(texts) == 31
    assert all("+0." in texts[f"{number:02}.txt"] for number in range(30))
    assert workspace.text_diff("29.txt") == texts["29.txt"]
    assert len(workspace.status().changes) == 31

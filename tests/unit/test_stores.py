"""Packs elsewhere: a vault is opened only where they are its own."""

import json
import shutil
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.errors import CatalogLost, Damaged, StoreMismatch

NOISE = Random(3).randbytes(400_000)
"""More than what is kept inside the catalog."""

pytestmark = [pytest.mark.in_memory, pytest.mark.usefixtures("made_anew")]


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the rows of a vault are that has its packs elsewhere."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "vault")


def write(catalog: str, packs: Path, data: bytes | str = NOISE) -> None:
    with holdfast.open(catalog, objects=packs) as vault:
        vault.namespace("alice").files.write("file", data)


def test_a_place_says_whose_it_is(catalog: str, tmp_path: Path) -> None:
    write(catalog, tmp_path / "packs")
    said = json.loads((tmp_path / "packs" / "vault.json").read_text())
    (pack,) = (tmp_path / "packs").rglob("*.pack")
    assert pack.name.startswith(f"pack-{said['vault']}-")
    write(catalog, tmp_path / "packs", NOISE[::-1])
    assert json.loads((tmp_path / "packs" / "vault.json").read_text()) == said


def test_a_second_place_is_refused_even_before_there_are_packs(
    catalog: str, tmp_path: Path
) -> None:
    write(catalog, tmp_path / "packs", "small")
    with pytest.raises(StoreMismatch, match="the vault has one already"):
        holdfast.open(catalog, objects=tmp_path / "other")
    write(catalog, tmp_path / "packs")
    with pytest.raises(StoreMismatch, match="none of the packs"):
        holdfast.open(catalog, objects=tmp_path / "other")
    assert not (tmp_path / "other" / "vault.json").exists()


def test_another_vaults_place_is_refused(catalog: str, tmp_path: Path) -> None:
    write(str(tmp_path / "another"), tmp_path / "theirs")
    with holdfast.open(catalog, objects=tmp_path / "packs"):
        pass
    with pytest.raises(StoreMismatch, match="those of another"):
        holdfast.open(catalog, objects=tmp_path / "theirs")


def test_a_new_catalog_takes_over_nobodys_packs(catalog: str, tmp_path: Path) -> None:
    write(str(tmp_path / "another"), tmp_path / "theirs")
    with pytest.raises(CatalogLost):
        holdfast.open(catalog, objects=tmp_path / "theirs")
    write(str(tmp_path / "third"), tmp_path / "small", "small")
    with pytest.raises(StoreMismatch, match="those of another"):
        holdfast.open(catalog, objects=tmp_path / "small")


def test_two_that_begin_at_once_in_two_places_do_not_both(
    catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.blobs.disk import DiskBlobStore  # noqa: PLC0415 - the one that is slowed down

    put = DiskBlobStore.put_mark

    def put_late(self: DiskBlobStore, data: bytes, /) -> None:
        # The other one begins while this one is about to say whose its place is.
        monkeypatch.setattr(DiskBlobStore, "put_mark", put)
        write(catalog, tmp_path / "first")
        put(self, data)

    monkeypatch.setattr(DiskBlobStore, "put_mark", put_late)
    with pytest.raises(StoreMismatch, match="in another place since"):
        holdfast.open(catalog, objects=tmp_path / "second")
    write(catalog, tmp_path / "first", NOISE[::-1])


def test_packs_that_were_moved_are_found_where_they_are_now(catalog: str, tmp_path: Path) -> None:
    write(catalog, tmp_path / "packs")
    shutil.copytree(tmp_path / "packs", tmp_path / "whole")
    shutil.copytree(tmp_path / "packs", tmp_path / "bare", ignore=lambda *_: ["vault.json"])
    for place in ("whole", "bare"):
        with holdfast.open(catalog, objects=tmp_path / place) as vault:
            assert vault.namespace("alice").files.read("file") == NOISE
    assert (tmp_path / "bare" / "vault.json").read_bytes() == (
        tmp_path / "whole" / "vault.json"
    ).read_bytes()


def test_a_vault_that_had_no_mark_gets_one(tmp_path: Path) -> None:
    """One of a version before."""
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("alice").files.write("file", NOISE)
    shutil.move(tmp_path / "vault" / "packs", tmp_path / "packs")
    with pytest.raises(StoreMismatch, match="none of the packs"):
        holdfast.open(tmp_path / "vault", objects=tmp_path / "other")
    with holdfast.open(tmp_path / "vault", objects=tmp_path / "packs") as vault:
        assert vault.namespace("alice").files.read("file") == NOISE
    with pytest.raises(StoreMismatch):
        holdfast.open(tmp_path / "vault")
    shutil.rmtree(tmp_path / "vault" / "packs")
    shutil.move(tmp_path / "packs", tmp_path / "vault" / "packs")
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.namespace("alice").files.read("file") == NOISE


def test_what_is_lost_for_good_can_be_given_up(catalog: str, tmp_path: Path) -> None:
    write(catalog, tmp_path / "packs")
    shutil.rmtree(tmp_path / "packs")
    with pytest.raises(StoreMismatch) as caught:
        holdfast.open(catalog, objects=tmp_path / "packs")
    text = "{" + caught.value.hint.partition("{")[2].partition("}")[0] + "}"
    (tmp_path / "packs" / "vault.json").write_text(text)
    with holdfast.open(catalog, objects=tmp_path / "packs") as vault:
        assert not vault.verify().ok


def test_a_damaged_mark_is_told(catalog: str, tmp_path: Path) -> None:
    write(catalog, tmp_path / "packs")
    (tmp_path / "packs" / "vault.json").write_text("{")
    with pytest.raises(Damaged, match=r"vault\.json"):
        holdfast.open(catalog, objects=tmp_path / "packs")


def test_a_backup_of_a_vault_becomes_one_elsewhere(tmp_path: Path) -> None:
    catalog = str(tmp_path / "vault")
    write(catalog, tmp_path / "packs")
    with holdfast.open(catalog, objects=tmp_path / "packs") as vault:
        vault.backup(tmp_path / "backup")
    holdfast.reinstate(tmp_path / "backup", tmp_path / "new", objects=tmp_path / "newpacks")
    with holdfast.open(tmp_path / "new", objects=tmp_path / "newpacks") as vault:
        assert vault.namespace("alice").files.read("file") == NOISE
    with holdfast.open(catalog, objects=tmp_path / "packs") as vault:
        assert vault.namespace("alice").files.read("file") == NOISE

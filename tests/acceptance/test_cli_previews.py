"""What a command says before it does something, or instead of it."""

from pathlib import Path

import pytest

from .test_cli import Session

pytestmark = pytest.mark.in_memory


def test_an_undo_is_shown_before_it_is_done(tmp_path: Path, warm: tuple[str, ...]) -> None:
    user = Session(tmp_path, warm)
    user.ok("init", "-q")
    user.write("readme.md", "changed\n")
    shown = user.ok("undo", "--dry-run").out
    assert "would change: 1 changed" in shown
    assert user.files()["readme.md"] == b"changed\n"
    assert len(user.ok("log", "--json").document["snapshots"]) == 1
    assert user.ok("undo", "--json").document["changes"][0]["path"] == "readme.md"
    refused = user("undo", "--keep-mine")
    assert (refused.code, "--keep-mine" in refused.err) == (2, True)
    assert user("undo", "@", "--dry-run").code == 2


def test_nothing_is_written_into_the_vaults_own_folders(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    user = Session(tmp_path, warm)
    user.ok("init", "-q")
    done = user("restore", "@", "--to", str(user.vault / "packs" / "copy"))
    assert (done.code, "it lies in the vault" in done.err) == (4, True)
    assert not (user.vault / "packs" / "copy").exists()


def test_a_vault_beside_the_files_of_one_that_is_attached_is_remarked_on(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    user = Session(tmp_path, warm)
    user.environ.pop("HOLDFAST_DATA")
    user.ok("init", "-q")
    assert "is attached in" in user.ok("init", "--local").err

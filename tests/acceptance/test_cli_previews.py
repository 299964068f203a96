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


def test_advice_is_about_what_was_typed(tmp_path: Path, warm: tuple[str, ...]) -> None:
    user = Session(tmp_path, warm)
    user.ok("init", "-q")
    (user.project / "lnk").symlink_to("readme.md")
    user.ok("snapshot", "-q")
    refused = user("grep", "one", "lnk")
    assert (refused.code, "'lnk' is not a directory" in refused.err) == (2, True)
    assert "Delete" not in refused.err
    for narrowed in ("--path", "--name", "--except"):
        refused = user("restore", "@", "--keep-mine", narrowed, "readme.md")
        assert (refused.code, narrowed in refused.err) == (2, True)
        assert "except_" not in refused.err


def test_a_directory_that_settings_cannot_name_is_what_is_refused(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    user = Session(tmp_path, warm)
    user.project = user.project.rename(user.project.with_name("ol\udce9"))
    user.ok("init", "-q")
    for kind in ("hook", "mcp"):
        refused = user(kind, "install", "cursor")
        assert refused.code == 2
        assert "ol\\xe9 is not UTF-8" in refused.err
    assert not (user.project / ".cursor").exists()

"""What is read where everybody waits: a short file, and nothing that takes a walk."""

from pathlib import Path

import pytest

import holdfast
from holdfast.engine.files.browsing import find_short
from holdfast.engine.planes.view import View


def test_only_a_short_file_is_read_and_nobody_looks_for_what_else_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def walk(*_: object) -> None:
        raise AssertionError

    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("alice")
        agent.files.write("short", b"1")
        agent.files.write("folder/long", b"2" * 1000)
        agent.files.symlink("link", "short")
        monkeypatch.setattr(View, "first_under", walk)
        found = find_short(agent.files, "short", most=100)
        assert found is not None
        assert found[1] == b"1"
        for path in ("folder", "folder/long", "link", "nothing"):
            assert find_short(agent.files, path, most=100) is None

"""What a restore is about to replace is really kept, and what it refuses is left as it is."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.timeline import head
from holdfast.errors import StorageFull

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WRITER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA synchronous=OFF")
db.execute("CREATE TABLE IF NOT EXISTS t (a, b)")
print("ready", flush=True)
committed = 0
while not sys.stdin.closed and committed < 3000:
    db.execute("INSERT INTO t VALUES (?, ?)", (committed, "x" * 100))
    committed += 1
    if committed % 50 == 0:
        print(committed, flush=True)
print("done", committed, flush=True)
"""


@pytest.fixture
def run(warm: tuple[str, ...], tmp_path: Path) -> Run:
    environ = {**os.environ, "HOME": str(tmp_path), "HOLDFAST_DATA": str(tmp_path / "v")}

    def run_it(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*warm, *arguments],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )

    return run_it


def test_a_directory_goes_back_if_the_timeline_does_not_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    seen = list[str]()

    def refuse(*_: object, **__: object) -> None:
        seen.append((tree / "a").read_text())
        raise StorageFull("no room for one more row")

    with holdfast.open(tmp_path / "vault") as vault:
        work = vault.workspace(tree, namespace="ns")
        (tree / "a").write_text("first")
        first = work.snapshot("first")
        (tree / "a").write_text("second")
        (tree / "more").mkdir()
        second = work.snapshot("second")
        with monkeypatch.context() as patch:
            patch.setattr(head, "check_marks", refuse)
            with pytest.raises(StorageFull):
                work.restore(first)
        assert seen == ["first"]
        assert ((tree / "a").read_text(), (tree / "more").is_dir()) == ("second", True)
        assert work.namespace.timeline()[0].id == second.id
        assert list(work.status().changes) == []


def test_a_restore_keeps_what_it_replaces_although_the_stored_copy_went_bad_unseen(
    run: Run, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "f").write_bytes(os.urandom(300_000))
    assert run(tree, "init", "-q").returncode == 0
    first = run(tree, "snapshot", "-q").stdout.strip()
    good = os.urandom(300_000)
    (tree / "f").write_bytes(good)
    for _ in range(2):
        assert run(tree, "snapshot", "-q").returncode == 0
    newest = max((tmp_path / "v" / "packs").rglob("*.pack"), key=lambda path: path.stat().st_mtime)
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.chmod(0o600)
    newest.write_bytes(data)
    assert run(tree, "restore", first).returncode == 0
    assert (tree / "f").read_bytes() != good
    undone = run(tree, "undo")
    assert undone.returncode == 0, undone.stderr
    assert (tree / "f").read_bytes() == good


def test_a_file_that_somebody_has_open_for_writing_is_replaced_and_not_written_into(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    path = tree / "f"
    path.write_bytes(b"A" * 5000)
    with holdfast.open(tmp_path / "v") as vault:
        work = vault.workspace(tree)
        before = work.snapshot()
        path.write_bytes(b"B" * 5000)
        with path.open("ab", buffering=0) as held:
            inode = path.stat().st_ino
            work.restore(before)
            assert path.read_bytes() == b"A" * 5000
            assert path.stat().st_ino != inode
            held.write(b"more")  # It goes on with the old one.
            assert os.fstat(held.fileno()).st_size == 5004

        assert path.read_bytes() == b"A" * 5000


def test_an_undo_that_is_refused_beside_a_database_in_use_loses_no_commit(
    run: Run, tmp_path: Path
) -> None:
    for number in range(2):
        tree = tmp_path / f"tree{number}"
        tree.mkdir()
        base = tree / "app.db"
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(base)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            assert run(tree, "init", "-q").returncode == 0
            writer.stdout.readline()
            undone = run(tree, "undo")
            *_, last = writer.stdout.read().split()
        if undone.returncode == 4:
            with sqlite3.connect(base) as database:
                assert database.execute("SELECT count(*) FROM t").fetchone() == (int(last),)
                assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)

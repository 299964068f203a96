"""Every file of a vault is its owner's alone, in a folder that is open to all, without a umask.

Whatever makes files in or for a vault is done once: a server, the command line, a watcher, a
mirror, a durable store, backups and exports. Then all of them are looked at.
"""

import os
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.servers import running_server

pytestmark = pytest.mark.usefixtures("made_anew")

MARK = "a-secret-that-nobody-else-reads"


@pytest.fixture(autouse=True)
def without_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_folder(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    return path


def wide(folder: Path) -> list[str]:
    """Returns the files, of whatever kind, that others than their owner may use."""
    found = [path for path in folder.rglob("*") if not path.is_dir() and not path.is_symlink()]
    assert found
    return [
        f"{stat.filemode(path.stat().st_mode)} {path.relative_to(folder)}"
        for path in found
        if path.stat().st_mode & 0o077
    ]


@pytest.fixture
def run(warm: tuple[str, ...]) -> Callable[..., None]:
    def run_it(*words: str, cwd: Path, vault: Path) -> None:
        command = [*warm, "--data", str(vault), *words]
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)

    return run_it


def test_what_a_server_and_its_clients_make(tmp_path: Path) -> None:
    open_folder(tmp_path / "vault")
    cache, tree = open_folder(tmp_path / "cache"), open_folder(tmp_path / "tree")
    (tree / "shared.txt").write_text("for all")
    (tree / "shared.txt").chmod(0o666)
    with running_server(tmp_path) as server:
        with holdfast.AdminClient(server.admin_key, url=server.url) as admin:
            admin.create_webhook("https://example.com/hook", ["snapshot.created"])
            with holdfast.Client(server.api_key, namespace="alice", url=server.url) as agent:
                agent.files.write("a", os.urandom(2_000_000))
                agent.memory.add(MARK)
                taken = agent.snapshot("first")
                agent.files.write("a", os.urandom(2_000_000))
                agent.snapshot("second")
                agent.restore(taken)
                agent.export(tmp_path / "out.tar")
                with tarfile.open(tmp_path / "out.tar"):
                    agent.import_(tmp_path / "out.tar")
                agent.namespace("tree").workspace(tree, cache=cache).snapshot("tree")
            admin.collect()
            admin.collect(now=True)
            assert wide(server.data) == []
            assert wide(cache) == []
        assert "others may look into" in server.read_log()
        if os.geteuid() == 0:
            check_nobody_reads(server.data)
    assert stat.S_IMODE((tree / "shared.txt").stat().st_mode) == 0o666


def check_nobody_reads(folder: Path) -> None:
    """Fails if another user reads a byte of a file in a folder that they may enter."""
    for path in (folder, *folder.parents):
        if path.stat().st_mode & 0o005 == 0 and "pytest" in str(path):
            path.chmod(path.stat().st_mode | 0o055)
    program = (
        "import os, sys; os.setgid(65534); os.setuid(65534)\n"
        "for name in sys.argv[1:]:\n"
        "    try: open(name, 'rb').read(1); print(name)\n"
        "    except PermissionError: pass\n"
    )
    names = [str(path) for path in folder.rglob("*") if path.is_file()]
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, *names], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""


def test_what_the_command_line_makes(run: Callable[..., None], tmp_path: Path) -> None:
    vault, tree = open_folder(tmp_path / "vault"), open_folder(tmp_path / "tree")
    backup = open_folder(tmp_path / "backup")
    (tree / "a.txt").write_text("1")
    run("init", cwd=tree, vault=vault)
    run("snapshot", "-m", "first", cwd=tree, vault=vault)
    run("watch", "--background", cwd=tree, vault=vault)
    try:
        (tree / "a.txt").write_text("2")
        run("snapshot", "-m", "second", cwd=tree, vault=vault)
        run("undo", cwd=tree, vault=vault)
        assert wide(vault) == []
    finally:
        run("watch", "--stop", cwd=tree, vault=vault)
    run("export", str(tmp_path / "out.tar"), cwd=tree, vault=vault)
    run("gc", "--now", cwd=tree, vault=vault)
    run("backup", str(backup / "here"), cwd=tree, vault=vault)
    run("verify", cwd=tree, vault=vault)
    for folder in (vault, backup):
        assert wide(folder) == []
    assert (tmp_path / "out.tar").stat().st_mode & 0o077 == 0
    run("reinstate", str(backup / "here"), str(tmp_path / "again"), cwd=tree, vault=vault)
    assert wide(tmp_path / "again") == []


def test_what_a_durable_store_makes(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "vault")
    with holdfast.Store.open(folder) as store:
        store.set("n", "k", MARK)
        store.snapshot("first")
        store.set("n", "k", "other")
        assert wide(folder) == []
    assert wide(folder) == []


def test_a_catalog_that_was_open_to_others_is_closed_when_it_is_opened(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "vault")
    holder = holdfast.open(folder)
    holder.namespace("alice").files.write("a", MARK)
    names = [folder / f"catalog.sqlite{end}" for end in ("", "-wal", "-shm")]
    for name in names:
        name.chmod(0o644)
    with holdfast.open(folder) as vault:
        assert wide(folder) == []
        assert vault.namespace("alice").files.read_text("a") == MARK
    holder.close()


def test_backups_of_a_database_are_their_owners(tmp_path: Path, postgres_url: str) -> None:
    objects = open_folder(tmp_path / "objects")
    with holdfast.open(postgres_url, objects=objects) as vault:
        vault.namespace("alice").files.write("a", os.urandom(2_000_000))
        vault.namespace("alice").snapshot("first")
        vault.backup(tmp_path / "backup")
    assert wide(tmp_path / "backup") == []
    assert wide(objects) == []

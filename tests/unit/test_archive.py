"""Export and import: what is in the file, what an import leaves on the timeline."""

import io
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import Kind, Plane
from holdfast.engine.archives.archivefile import writing_to
from holdfast.engine.archives.tarwrite import TarWriter
from holdfast.engine.pending.writing import change_rows
from holdfast.entries import Inline, encode_entry
from holdfast.errors import (
    Damaged,
    InvalidValue,
    NamespaceNotFound,
    NotFound,
    NothingToUndo,
    QuotaExceeded,
    SnapshotNotFound,
    StorageFull,
)
from holdfast.ids import IdMaker, SnapshotId

pytestmark = pytest.mark.in_memory

LONG = "deep/" * 30 + "name"
LARGE = bytes(range(256)) * 1200
FUTURE, PAST = datetime(2250, 1, 1, tzinfo=UTC), datetime(1931, 5, 6, 7, 8, 9, 123, tzinfo=UTC)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    """A namespace with one of everything, all of it pending."""
    agent = vault.namespace("agent")
    agent.files.write("notes.md", "first thoughts", mode=0o640)
    agent.files.write("run.sh", "#!/bin/sh\n", mode=0o755, modified_at=FUTURE)
    agent.files.write("old", "", modified_at=PAST)
    agent.files.write("whole", "", modified_at=datetime(2026, 1, 1, tzinfo=UTC))
    agent.files.write("large.bin", LARGE)
    agent.files.write(LONG, "far down")
    agent.files.write(b"\xc3\xa9t\xc3\xa9/\xff\xfe", "not UTF-8")
    agent.files.mkdir("empty")
    agent.files.mkdir("sticky", mode=0o1777)
    agent.files.write("sticky/inside", "")
    agent.files.symlink("latest", "/etc/passwd")
    agent.files.symlink(b"odd\xff", b"../\xff" + b"x" * 150)
    agent.store.set("plan", "step", {"list": [1, None, 2.5], "when": FUTURE})
    agent.store.set("plan\0b", "../../etc/passwd", "x" * 70_000)
    agent.store.set("", "", b"\0" * 300)
    return agent


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getnames()


def manifest_of(path: Path) -> dict[str, object]:
    with tarfile.open(path) as tar:
        file = tar.extractfile("holdfast.json")
        assert file is not None
        return msgspec.json.decode(file.read())


def after_manifest(path: Path) -> bytes:
    with tarfile.open(path) as tar:
        second = tar.getmembers()[1]
    return path.read_bytes()[second.offset :]


def content(agent: holdfast.Namespace) -> dict[str, object]:
    """What a namespace holds; a directory without files is as old as the namespace."""
    infos = [
        msgspec.structs.replace(info, modified_at=None)
        if info.kind == "directory"
        and all(i.kind == "directory" for i in agent.files.list(info.path, recursive=True))
        else info
        for info in agent.files.list(recursive=True)
    ]
    return {
        "files": infos,
        "content": [agent.files.read(info.path) for info in infos if info.kind == "file"],
        "links": [agent.files.readlink(info.path) for info in infos if info.kind == "link"],
        "store": [(name, agent.store.items(name)) for name in agent.store.namespaces()],
    }


# Taking out


def test_ordinary_tools_find_every_entry_under_its_name(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    entries = agent.export(tmp_path / "a.tar")
    found = names((tmp_path / "a.tar").read_bytes())
    assert found[0] == "holdfast.json"
    files = [f"files/{info.path}" for info in agent.files.list(recursive=True)]
    assert found[1:-3] == files
    assert found[-3:] == ["store/0.msgpack", "store/1.msgpack", "store/2.msgpack"]
    assert entries == len(found) - 1 == agent.size().entries


def test_ordinary_tools_find_content_mode_time_and_target(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        for info in agent.files.list(recursive=True):
            found = tar.getmember(f"files/{info.path}")
            assert (found.uid, found.gid, found.uname, found.gname) == (0, 0, "", "")
            assert (found.isreg(), found.isdir(), found.issym()) == (
                info.kind == "file",
                info.kind == "directory",
                info.kind == "link",
            )
            assert found.mode == info.mode
            if info.kind == "directory":
                assert found.mtime == 0  # It has no time of its own.
            else:
                assert info.modified_at is not None
                assert found.mtime == pytest.approx(info.modified_at.timestamp(), abs=1e-6)
            if info.kind == "file":
                file = tar.extractfile(found)
                assert file is not None
                assert file.read() == agent.files.read(info.path)
            if info.kind == "link":
                assert found.linkname == agent.files.readlink(info.path)


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar program")
def test_the_system_s_own_tar_unpacks_it_exactly(agent: holdfast.Namespace, tmp_path: Path) -> None:
    agent.export(tmp_path / "a.tar")
    (tmp_path / "out").mkdir()
    command = ["tar", "-xpf", tmp_path / "a.tar", "-C", tmp_path / "out", "--no-same-owner"]
    subprocess.run(command, check=True, capture_output=True, env={"LC_ALL": "C", **os.environ})
    for info in agent.files.list(recursive=True):
        path = os.fsencode(tmp_path / "out" / "files") + b"/" + os.fsencode(info.path)
        found = os.lstat(path)
        if info.kind == "link":
            assert os.readlink(path) == os.fsencode(agent.files.readlink(info.path))
            continue
        assert stat.S_IMODE(found.st_mode) == info.mode
        if info.kind == "file":
            assert Path(os.fsdecode(path)).read_bytes() == agent.files.read(info.path)
            assert info.modified_at is not None
            elapsed = info.modified_at - datetime(1970, 1, 1, tzinfo=UTC)
            assert found.st_mtime_ns == elapsed // (elapsed.resolution) * 1000


def test_names_that_are_not_utf_8_are_marked_as_such(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as tar:
        marked = [info.name for info in tar if info.pax_headers.get("hdrcharset") == "BINARY"]
    assert marked == ["files/odd\udcff", "files/été/\udcff\udcfe"]


def test_the_manifest_says_what_the_archive_is(agent: holdfast.Namespace, tmp_path: Path) -> None:
    snapshot = agent.snapshot("the label")
    agent.export(tmp_path / "a.tar", snapshot=snapshot)
    assert manifest_of(tmp_path / "a.tar") == {
        "format": 2,
        "namespace": "agent",
        "snapshot": snapshot.id,
        "label": "the label",
        "created_at": snapshot.created_at.isoformat().replace("+00:00", "Z"),
        "root": snapshot.root.hex(),
        "entries": snapshot.size.entries,
        "content_bytes": snapshot.size.bytes,
    }


def test_the_same_snapshot_makes_the_same_bytes(agent: holdfast.Namespace, tmp_path: Path) -> None:
    snapshot = agent.snapshot()
    agent.export(tmp_path / "a.tar", snapshot=snapshot)
    agent.files.write("later", "x")
    agent.export(tmp_path / "b.tar", snapshot=snapshot.id)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_the_head_is_exported_with_what_is_pending_and_no_snapshot_is_left(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    before = agent.snapshot()
    agent.files.write("pending", "not in any snapshot")
    agent.files.delete("old")
    agent.export(tmp_path / "a.tar")
    found = names((tmp_path / "a.tar").read_bytes())
    assert "files/pending" in found
    assert "files/old" not in found
    assert manifest_of(tmp_path / "a.tar")["snapshot"] is None
    assert agent.timeline() == [before]
    assert agent.is_dirty()


def test_an_export_that_fails_leaves_the_old_file_and_no_other(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "a.tar").write_text("the old one")

    def fail(_stage: str, done: int, _total: int) -> None:
        if done == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        agent.export(folder / "a.tar", progress=fail)
    assert [path.name for path in folder.iterdir()] == ["a.tar"]
    assert (folder / "a.tar").read_text() == "the old one"
    agent.export(folder / "a.tar")
    assert [path.name for path in folder.iterdir()] == ["a.tar"]
    assert stat.S_IMODE((folder / "a.tar").stat().st_mode) == 0o600


KILLED = """
import os, sys, signal
from holdfast.engine.archives.archivefile import writing_to
with writing_to(sys.argv[1]) as file:
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_export_leaves_goes_with_the_next(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    place = tmp_path / "exports"
    place.mkdir()
    killed = subprocess.run([sys.executable, "-c", KILLED, place / "a.tar"], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = place.iterdir()
    others = [place / f"{left.name}.bak", place / ".holdfast-notes.tmp"]
    for path in others:
        path.write_text("somebody's own")
    link = place / ".holdfast-export-0123456789abcdef.tmp"
    link.symlink_to(others[0])
    with writing_to(place / "slow.tar") as slow:
        slow.write(b"takes its time")
        agent.export(place / "b.tar")
        assert not left.exists()
    assert (place / "slow.tar").read_bytes() == b"takes its time"
    assert {*place.iterdir()} == {place / "b.tar", place / "slow.tar", *others, link}
    assert others[0].read_text() == "somebody's own"


def test_an_export_that_is_interrupted_leaves_nothing(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    place = tmp_path / "exports"
    place.mkdir()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.export(place / "a.tar", progress=interrupt)
    assert list(place.iterdir()) == []


def test_a_link_at_the_target_stays_and_what_it_leads_to_is_replaced_whole(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    (tmp_path / "there").mkdir()
    old = tmp_path / "there" / "old.tar"
    old.write_text("the old one")
    (tmp_path / "a.tar").symlink_to("there/old.tar")

    def fail(*_: object) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        agent.export(tmp_path / "a.tar", progress=fail)
    assert old.read_text() == "the old one"
    agent.export(tmp_path / "a.tar")
    assert (tmp_path / "a.tar").is_symlink()
    assert tarfile.is_tarfile(old)
    assert os.listdir(tmp_path / "there") == ["old.tar"]


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        make_socket,
        lambda path: path.symlink_to("/dev/null"),
        lambda p: p.symlink_to("no"),
    ],
    ids=["a pipe", "a socket", "a link to a device", "a link to nothing"],
)
def test_what_is_no_regular_file_is_never_replaced(
    agent: holdfast.Namespace, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    target = place / "a.tar"
    make(target)
    before = target.lstat()
    for write in (agent.export, agent.export_files):
        with pytest.raises(InvalidValue) as raised:
            write(target)
        assert "export -" in raised.value.hint
    assert os.path.samestat(target.lstat(), before)
    assert os.listdir(place) == ["a.tar"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_never_replaced(agent: holdfast.Namespace, tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "full", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("no devices can be made here")
    with pytest.raises(InvalidValue):
        agent.export(tmp_path / "full")
    assert stat.S_ISCHR((tmp_path / "full").stat().st_mode)


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("", InvalidValue),
        ("no/such/folder/a.tar", NotFound),
        ("a-file/a.tar", InvalidValue),
        ("a\0b", InvalidValue),
        ("/", InvalidValue),
        ("/proc/a.tar", holdfast.HoldfastError),
    ],
)
def test_a_target_that_cannot_be_written_is_said_so(
    agent: holdfast.Namespace, tmp_path: Path, target: str, error: type[Exception]
) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(error):
        agent.export(tmp_path / target)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device")
def test_a_disk_without_room_is_said_so() -> None:
    with Path("/dev/full").open("wb", 0) as full, pytest.raises(StorageFull):
        TarWriter(full, path="/dev/full").finish()


def test_what_is_not_there_is_not_exported(vault: holdfast.Holdfast, tmp_path: Path) -> None:
    with pytest.raises(NamespaceNotFound):
        vault.namespace("nobody").export(tmp_path / "a.tar")
    foreign = vault.namespace("other").snapshot()
    with pytest.raises(SnapshotNotFound):
        vault.namespace("agent").export(tmp_path / "a.tar", snapshot=foreign)
    assert not (tmp_path / "a.tar").exists()


@pytest.mark.parametrize(
    ("plane", "entry", "error"),
    [
        (Plane.SESSIONS, Inline(b"turn"), Damaged),
        (Plane.STORE, Inline(b"\xc0", mode=0o644), Damaged),
        (Plane.FILES, Inline(b"sh", mode=0o4755), Damaged),
    ],
)
def test_nothing_is_left_out_in_silence(
    agent: holdfast.Namespace,
    tmp_path: Path,
    plane: Plane,
    entry: Inline,
    error: type[Exception],
) -> None:
    change_rows(agent._handle, plane, lambda _view: {b"a\0b": encode_entry(entry)})
    with pytest.raises(error):
        agent.export(tmp_path / "a.tar")
    assert not (tmp_path / "a.tar").exists()


def test_a_file_too_large_for_a_header_says_its_size_in_a_record() -> None:
    file = io.BytesIO()
    writer = TarWriter(file, path="a.tar")
    writer.add_file(b"files/large", [], size=9 << 30, mode=0o644)
    with tarfile.open(fileobj=io.BytesIO(file.getvalue())) as tar:
        found = tar.next()
    assert found is not None
    assert found.size == 9 << 30


# Bringing in


def test_an_import_into_another_vault_has_the_same_root_and_content(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    snapshot = agent.snapshot("here")
    agent.export(tmp_path / "a.tar", snapshot=snapshot)
    with holdfast.open(tmp_path / "elsewhere") as vault:
        copy = vault.namespace("copy")
        imported = copy.import_(tmp_path / "a.tar")
        assert imported.verified
        assert imported.snapshot.root == snapshot.root
        assert imported.snapshot.size == snapshot.size == copy.size()
        assert imported.manifest.namespace == "agent"
        assert content(copy) == content(agent)
        copy.export(tmp_path / "b.tar", snapshot=imported.snapshot)
        assert after_manifest(tmp_path / "a.tar") == after_manifest(tmp_path / "b.tar")
        names = {"namespace", "snapshot", "label", "created_at"}
        there, here = manifest_of(tmp_path / "a.tar"), manifest_of(tmp_path / "b.tar")
        assert {name for name in there if there[name] != here[name]} == names
        assert vault.verify().ok


def test_an_import_into_another_catalog_has_the_same_root(
    agent: holdfast.Namespace, tmp_path: Path, postgres_url: str
) -> None:
    snapshot = agent.snapshot()
    agent.export(tmp_path / "a.tar")
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        imported = vault.namespace("copy").import_(tmp_path / "a.tar")
        assert imported.verified
        assert imported.snapshot.root == snapshot.root
        vault.namespace("copy").export(tmp_path / "b.tar")
    assert after_manifest(tmp_path / "a.tar") == after_manifest(tmp_path / "b.tar")


def test_an_import_is_one_step_on_the_timeline_after_what_was_pending(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    other = vault.namespace("other")
    first = other.snapshot()
    other.files.write("pending", "work")
    imported = other.import_(tmp_path / "a.tar")
    step, kept, _ = timeline = other.timeline()
    assert [snapshot.kind for snapshot in timeline] == [Kind.IMPORT, Kind.SAFETY, Kind.SNAPSHOT]
    assert (step, kept.id) == (imported.snapshot, imported.safety_id)
    assert (step.parent, kept.parent) == (kept.id, first.id)
    assert step.detail["imported_from"] == "agent"
    assert not other.is_dirty()
    assert content(other) == content(agent)


def test_an_import_can_be_undone_and_redone(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    other = vault.namespace("other")
    other.files.write("pending", "work")
    before = content(other)
    other.import_(tmp_path / "a.tar")
    other.undo()
    assert content(other) == before
    other.redo()
    assert content(other) == content(agent)


def test_an_import_makes_a_namespace_that_is_not_there(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    imported = vault.namespace("new").import_(tmp_path / "a.tar")
    assert vault.namespaces() == ["agent", "new"]
    assert vault.namespace("new").timeline() == [imported.snapshot]
    assert imported.safety_id is None
    with pytest.raises(NothingToUndo):
        vault.namespace("new").undo()


def test_an_archive_of_nothing_empties_a_namespace(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    vault.namespace("empty").snapshot()
    assert vault.namespace("empty").export(tmp_path / "a.tar") == 0
    assert agent.import_(tmp_path / "a.tar").verified
    assert agent.files.list() == []
    assert agent.size().entries == 0
    agent.undo()
    assert agent.files.read("notes.md") == b"first thoughts"


def test_an_import_beyond_the_quota_changes_nothing(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    other = vault.namespace("other")
    other.files.write("small", "fits")
    other.set_quota(agent.size().bytes - 1)
    with pytest.raises(QuotaExceeded):
        other.import_(tmp_path / "a.tar")
    assert other.timeline() == []
    assert other.files.read("small") == b"fits"
    other.set_quota(agent.size().bytes)
    assert other.import_(tmp_path / "a.tar").verified


def test_a_quota_that_comes_during_an_import_is_kept(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    other = vault.namespace("other")

    def meanwhile(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("import", 1):
            other.set_quota(10)

    with pytest.raises(QuotaExceeded):
        other.import_(tmp_path / "a.tar", progress=meanwhile)
    assert other.timeline() == []


def test_what_is_written_during_an_import_is_kept_by_its_safety_snapshot(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    other = vault.namespace("other")

    def meanwhile(stage: str, done: int, total: int) -> None:
        if stage == "import" and done == total:
            other.files.write("meanwhile", "work")

    imported = other.import_(tmp_path / "a.tar", progress=meanwhile)
    assert imported.safety_id is not None
    assert other.at(imported.safety_id).files.read("meanwhile") == b"work"
    assert not other.files.exists("meanwhile")


class Meddling(IdMaker):
    """Calls somebody whenever a snapshot is about to be named."""

    meddle: Callable[[], object] = staticmethod(lambda: None)

    def snapshot(self) -> SnapshotId:
        self.meddle()
        return super().snapshot()


def test_what_is_written_at_the_last_moment_is_kept_and_not_mixed_in(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    ids = Meddling()
    with holdfast.open(tmp_path / "elsewhere", ids=ids) as vault:
        other = vault.namespace("other")

        def write() -> None:
            ids.meddle = lambda: None
            other.files.write("last-moment", "work")

        ids.meddle = write
        imported = other.import_(tmp_path / "a.tar")
        assert content(other) == content(agent)
        assert imported.safety_id is not None
        assert other.at(imported.safety_id).files.read("last-moment") == b"work"


def test_a_collection_during_an_import_takes_nothing_that_it_needs(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    ids = Meddling()
    with holdfast.open(tmp_path / "elsewhere", ids=ids) as vault:
        # Dead objects that the import would use again, and that go while it does.
        vault.namespace("other").files.write("large.bin", LARGE)
        vault.namespace("other").files.delete("large.bin")
        collected: list[int] = []

        def collect() -> None:
            ids.meddle = lambda: None
            collected.append(vault.collect().objects_deleted)

        ids.meddle = collect
        imported = vault.namespace("copy").import_(tmp_path / "a.tar")
        assert collected[0] > 0
        assert imported.verified
        assert vault.namespace("copy").files.read("large.bin") == LARGE
        assert vault.verify().ok


def test_progress_is_told_from_the_first_to_the_last(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    told: list[tuple[str, int, int]] = []
    entries = agent.export(tmp_path / "a.tar", progress=lambda *word: told.append(word))
    assert told == [("export", done, entries) for done in range(1, entries + 1)]
    told.clear()
    vault.namespace("b").import_(tmp_path / "a.tar", progress=lambda *word: told.append(word))
    assert told[0][0] == "check"
    assert told[1:] == [("import", done, entries) for done in range(1, entries + 1)]


def test_the_archive_may_be_given_by_a_link(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    (tmp_path / "link.tar").symlink_to("a.tar")
    assert vault.namespace("b").import_(str(tmp_path / "link.tar")).verified


def test_an_archive_that_another_tool_has_written_again_is_read(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    with tarfile.open(tmp_path / "a.tar") as old, tarfile.open(tmp_path / "b.tar", "w") as new:
        for info in old:
            new.addfile(info, old.extractfile(info) if info.isreg() else None)
    assert (tmp_path / "b.tar").stat().st_size % 10240 == 0
    assert vault.namespace("b").import_(tmp_path / "b.tar").verified


def test_an_attached_directory_follows_an_archive_of_another_vault(tmp_path: Path) -> None:
    large = os.urandom(900_000)  # What becomes a pack, and is in none when the directory follows.
    with holdfast.open(tmp_path / "elsewhere") as other:
        other.namespace("a").files.write_many([("large", large), ("folder/short", "text")])
        other.namespace("a").export(tmp_path / "a.tar")
    directory = tmp_path / "directory"
    directory.mkdir()
    (directory / "mine").write_text("in no snapshot yet")
    with holdfast.open(tmp_path / "vault") as vault:
        workspace = vault.workspace(directory)
        assert workspace.import_(tmp_path / "a.tar").verified
        assert (directory / "large").read_bytes() == large
        assert sorted(os.listdir(directory)) == ["folder", "large"]
        workspace.undo()
        assert os.listdir(directory) == ["mine"]


def rewritten(data: bytes, name: bytes, fields: dict[int, bytes]) -> bytes:
    """Changes fields of the header with this name, and its checksum."""
    at = data.index(name.ljust(100, b"\0"))
    block = bytearray(data[at : at + 512])
    for start, text in fields.items():
        block[start : start + len(text)] = text
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return data[:at] + block + data[at + 512 :]


@pytest.mark.parametrize(
    "fields",
    [
        {156: b"\0"},
        {0: b"inside".ljust(100, b"\0"), 345: b"files/sticky"},
        {108: b"0001750\0" * 2, 265: b"somebody"},
    ],
    ids=["the oldest type of a file", "a name in two parts", "an owner"],
)
def test_headers_that_mean_the_same_are_read_the_same(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path, fields: dict[int, bytes]
) -> None:
    agent.files.write("sticky/inside", "x", modified_at=datetime(2026, 1, 1, tzinfo=UTC))
    agent.export(tmp_path / "a.tar")
    data = rewritten((tmp_path / "a.tar").read_bytes(), b"files/sticky/inside", fields)
    (tmp_path / "b.tar").write_bytes(data)
    assert vault.namespace("b").import_(tmp_path / "b.tar").verified


class PowerCut(BaseException):
    """The process died here. Not an `Exception`: no handler may save the day."""


def test_a_process_that_dies_during_an_import_leaves_the_old_state(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "rich") as rich:
        for number in range(3):
            rich.namespace("a").files.write(f"{number}.bin", os.urandom(20 << 20))
        rich.namespace("a").export(tmp_path / "a.tar")
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        agent.files.write("notes.md", "pending")
        before, stored = content(agent), vault.stored_bytes()

        def die(stage: str, done: int, _total: int) -> None:
            if (stage, done) == ("import", 3):
                raise PowerCut

        with pytest.raises(PowerCut):
            agent.import_(tmp_path / "a.tar", progress=die)
    packs = tmp_path / "vault" / "packs"
    assert [path for path in packs.rglob("*") if path.is_file()] != []
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        assert (content(agent), agent.timeline()) == (before, [])
        vault.collect(now=True)
        assert vault.stored_bytes() <= stored
        assert [path for path in packs.rglob("*") if path.is_file()] == []


def test_a_large_blob_comes_back_as_the_same_chunks(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent = vault.namespace("agent")
    data = os.urandom(3_000_000)
    agent.files.write("by-stream", io.BytesIO(data))
    agent.files.write("by-bytes", data)
    agent.store.set("large", "value", data)
    snapshot = agent.snapshot()
    agent.export(tmp_path / "a.tar")
    with holdfast.open(tmp_path / "elsewhere") as other:
        imported = other.namespace("b").import_(tmp_path / "a.tar")
    assert imported.snapshot.root == snapshot.root

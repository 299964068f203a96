"""Files exactly as a tar file of any program, or a folder, has them: or an error and no change."""

import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import Kind
from holdfast.errors import (
    DirectoryRefused,
    InvalidValue,
    NotFound,
    QuotaExceeded,
    TooLarge,
    Unavailable,
    UnsafeArchive,
)

pytestmark = pytest.mark.in_memory

LARGE = os.urandom(300_000)
THEN_NS = 1_700_000_000 * 10**9
"""Whole seconds: some formats have no others."""


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    """A namespace with something of every plane, all of it pending."""
    agent = vault.namespace("agent")
    agent.files.write("mine", "in no snapshot")
    agent.store.set("plan", "step", 3)
    agent.sessions.create("writer", session_id="talk", initial_state={"step": 1})
    agent.memory.add("it rains", user_id="u")
    return agent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of everything that is kept, by names that every format can hold."""
    folder = tmp_path / "folder"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "odd").mkdir(mode=0o700)
    (folder / "odd" / "x").write_text("")
    (folder / "run").write_text("#!/bin/sh\n")
    (folder / "run").chmod(0o4755)
    (folder / "sub" / "deep" / "large").write_bytes(LARGE)
    (folder / "sub" / "twin").hardlink_to(folder / "run")
    (folder / "link").symlink_to("/etc/passwd")
    for each in sorted(folder.rglob("*")):
        os.utime(each, ns=(THEN_NS, THEN_NS), follow_symlinks=False)
    return folder


@pytest.fixture
def far(folder: Path) -> Path:
    """The same, with names that take more than a header has room for."""
    name = folder / ("d" * 90) / ("e" * 90) / "f" / "é"
    name.parent.mkdir(parents=True)
    name.write_text("far down")
    (folder / ("n" * 130)).hardlink_to(name)
    (folder / "away").symlink_to("t" * 150)
    (folder / os.fsdecode(b"\xff")).write_text("not UTF-8")
    (folder / "before").write_text("")
    for each in (name, folder / "away", folder / os.fsdecode(b"\xff"), folder / "before"):
        os.utime(each, ns=(-THEN_NS, -THEN_NS), follow_symlinks=False)
    return folder


def packed(target: Path, folder: Path, form: str) -> Path:
    """What the installed tar, or Python's, makes of a folder."""
    program, name = form.split()
    if program == "tar":
        command = ["tar", "-C", str(folder), f"--format={name}", "-cf", str(target), "."]
        subprocess.run(command, check=True, capture_output=True)
        return target
    with tarfile.open(target, "w", format=getattr(tarfile, f"{name.upper()}_FORMAT")) as tar:
        tar.add(folder, arcname="")
    return target


SHORT = ["tar v7", "tar ustar", "python ustar"]
LONG = ["tar gnu", "tar oldgnu", "tar pax", "python gnu", "python pax"]


@pytest.mark.parametrize("form", [*SHORT, *LONG])
def test_a_tar_file_of_any_format_is_what_its_folder_is(
    vault: holdfast.Holdfast, folder: Path, tmp_path: Path, form: str
) -> None:
    meant = vault.namespace("meant").import_files(folder)
    done = vault.namespace("agent").import_files(packed(tmp_path / "a.tar", folder, form))
    assert (done.verified, done.snapshot.root) == (True, meant.snapshot.root)
    assert (done.entries, done.content_bytes) == (meant.entries, meant.content_bytes)
    assert done.entries == 7


@pytest.mark.parametrize("form", LONG)
def test_so_is_one_with_long_and_odd_names_and_times(
    vault: holdfast.Holdfast, far: Path, tmp_path: Path, form: str
) -> None:
    meant = vault.namespace("meant").import_files(far)
    done = vault.namespace("agent").import_files(packed(tmp_path / "a.tar", far, form))
    assert (done.verified, done.snapshot.root) == (True, meant.snapshot.root)


def test_what_export_writes_of_files_comes_back(
    vault: holdfast.Holdfast, far: Path, tmp_path: Path
) -> None:
    os.utime(far / "run", ns=(THEN_NS, THEN_NS + 123_456_789))
    meant = vault.namespace("meant").import_files(far)
    assert vault.namespace("meant").export_files(tmp_path / "a.tar") == meant.entries
    with holdfast.open(tmp_path / "other") as other:
        done = other.namespace("agent").import_files(tmp_path / "a.tar")
    assert (done.verified, done.snapshot.root) == (True, meant.snapshot.root)


def test_what_git_archives_is_taken(vault: holdfast.Holdfast, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a.txt").write_text("tracked")
    for command in (["init", "-q"], ["add", "a.txt"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    with (tmp_path / "a.tar").open("wb") as file:
        subprocess.run([*git, "archive", "HEAD"], check=True, stdout=file)
    vault.namespace("agent").import_files(tmp_path / "a.tar")
    assert vault.namespace("agent").files.read("a.txt") == b"tracked"


# One step


def test_files_are_replaced_and_all_else_stays(agent: holdfast.Namespace, folder: Path) -> None:
    size = agent.size().bytes - len("in no snapshot")
    done = agent.import_files(folder)
    assert (done.snapshot.kind, done.verified) == (Kind.IMPORT, True)
    assert not agent.files.exists("mine")
    assert agent.store.get("plan", "step") == 3
    assert agent.sessions.get("talk").state == {"step": 1}
    assert len(agent.memory.list()) == 1
    assert agent.size().bytes == done.snapshot.size.bytes == size + done.content_bytes
    assert [each.kind for each in agent.timeline()] == [Kind.IMPORT, Kind.SAFETY]
    assert done.safety_id == agent.timeline()[1].id
    agent.undo()
    assert [info.path for info in agent.files.list()] == ["mine"]


def test_an_attached_directory_follows(
    vault: holdfast.Holdfast, folder: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "directory"
    directory.mkdir()
    (directory / "mine").write_text("in no snapshot")
    workspace = vault.workspace(directory)
    done = workspace.import_files(folder)
    assert done.verified
    assert not (directory / "mine").exists()
    assert (directory / "sub" / "deep" / "large").read_bytes() == LARGE
    assert (directory / "run").samefile(directory / "sub" / "twin")
    assert (directory / "run").stat().st_mtime_ns == THEN_NS
    assert not workspace.is_dirty()
    workspace.undo()
    assert os.listdir(directory) == ["mine"]
    assert (directory / "mine").read_text() == "in no snapshot"


# Folders


def test_a_folder_is_taken_as_it_is_and_says_what_is_never_captured(
    vault: holdfast.Holdfast, folder: Path
) -> None:
    (folder / ".holdfastignore").write_text("run\n")
    os.mkfifo(folder / "pipe")
    with holdfast.open(folder / "inner"):
        done = vault.namespace("agent").import_files(folder)
    covered = done.snapshot.detail["coverage"]
    assert [row[0] for row in covered["skipped"]] == ["pipe"]
    assert [row[0] for row in covered["excluded"]] == ["inner"]
    assert vault.namespace("agent").files.exists("run")


def test_what_is_in_motion_is_named_and_goes_with_the_tar_file(
    vault: holdfast.Holdfast, folder: Path, tmp_path: Path
) -> None:
    with (folder / "log").open("w") as log:
        log.write("half of")
        log.flush()
        vault.namespace("a").import_files(folder)
    assert vault.namespace("a").restore("@", dry_run=True).in_motion == ["log"]
    vault.namespace("a").export_files(tmp_path / "a.tar")
    vault.namespace("b").import_files(tmp_path / "a.tar")
    assert vault.namespace("b").restore("@", dry_run=True).in_motion == ["log"]


def test_a_folder_that_cannot_be_read_changes_nothing(
    agent: holdfast.Namespace, folder: Path, tmp_path: Path
) -> None:
    with holdfast.open(tmp_path / "small", limits=holdfast.Limits(file_bytes=1000)) as small:
        with pytest.raises(Unavailable, match="sub/deep/large"):
            small.namespace("agent").import_files(folder)
        assert small.namespaces() == []
    with pytest.raises(DirectoryRefused):
        agent.import_files(tmp_path / "vault")
    for name, error in {"none": NotFound, "\0": InvalidValue}.items():
        with pytest.raises(error):
            agent.import_files(tmp_path / name)
    assert agent.timeline() == []


# What is refused


class Tar(list[bytes]):
    """Members in the making."""

    def add(self, name: str, kind: bytes = b"0", data: bytes = b"", **more: bytes | str) -> "Tar":
        """Adds one; what is not usual is given by the name of its field."""
        fields = {"magic": b"ustar\x0000", "size": b"%011o\0" % len(data), "mtime": b"%011o\0" % 0}
        told = {each: v.encode() if isinstance(v, str) else v for each, v in more.items()}
        fields |= {"mode": b"0000644\0", "target": b"", "check": b"", "prefix": b""} | told
        before = name.encode().ljust(100, b"\0") + fields["mode"] + b"0000000\0" * 2
        before += fields["size"] + fields["mtime"]
        behind = kind + fields["target"].ljust(100, b"\0") + fields["magic"]
        behind = (behind.ljust(189, b"\0") + fields["prefix"]).ljust(356, b"\0")
        check = fields["check"] or b"%06o\0 " % (sum(before) + sum(behind) + 8 * 32)
        self.append(before + check + behind + data + bytes(-len(data) % 512))
        return self

    def extended(self, kind: bytes = b"x", **records: str) -> "Tar":
        """Adds records ahead of the next member, or of all."""
        text = b""
        for keyword, value in records.items():
            body = f" {keyword.replace('__', '.')}={value}\n".encode()
            length = next(n for n in range(len(body), 9999) if n == len(str(n)) + len(body))
            text += str(length).encode() + body
        return self.add("././@PaxHeader", kind, text)

    def end(self, padding: int = 1024) -> bytes:
        """Returns it whole."""
        return b"".join(self) + bytes(padding)


def of(*members: tuple[str, bytes, str]) -> bytes:
    tar = Tar()
    for name, kind, target in members:
        tar.add(name, kind, target=target)
    return tar.end()


REFUSED = {
    "nothing": b"",
    "no closing blocks": Tar().add("a").end(0),
    "one closing block": Tar().add("a").end(512),
    "something behind the end": Tar().add("a").end() + b"x".ljust(512, b"\0"),
    "too much padding": Tar().add("a").end(17 << 20),
    "noise": b"noise" * 300,
    "half a header": Tar().add("a").end()[:300],
    "an absolute name": of(("/etc/passwd", b"0", "")),
    "a name that leads up": of(("a/../../b", b"0", "")),
    "up from here": of(("./../b", b"0", "")),
    "a NUL in a name": Tar().extended(path="a\0b").add("a").end(),
    "bytes behind a name": of(("a\0b", b"0", "")),
    "no name": of(("", b"0", "")),
    "the root as a file": of(("./", b"2", "x")),
    "a name with an empty part": of(("a//b", b"0", "")),
    "a name that is too long": Tar().extended(path="n" * 256).add("a").end(),
    "a path that is too long": Tar().add("L", b"L", b"n/" * 2100 + b"a\0").add("a").end(),
    "below a file": of(("a", b"0", ""), ("a/b", b"0", "")),
    "below a link": of(("a/b", b"0", ""), ("a", b"2", "/tmp")),
    "a character device": of(("a", b"3", "")),
    "a block device": of(("a", b"4", "")),
    "a fifo": of(("a", b"6", "")),
    "a contiguous file": of(("a", b"7", "")),
    "a sparse file": of(("a", b"S", "")),
    "a sparse file in words of pax": Tar().extended(GNU__sparse__major="1").add("a").end(),
    "part of another archive": of(("a", b"M", "")),
    "an unknown kind": of(("a", b"Z", "")),
    "a hard link to nothing": of(("a", b"1", "b")),
    "a hard link to what comes later": of(("a", b"1", "b"), ("b", b"0", "")),
    "a hard link to a directory": of(("b/", b"5", ""), ("a", b"1", "b")),
    "a hard link that leads up": of(("b", b"0", ""), ("a", b"1", "../vault/b")),
    "a hard link with content": Tar().add("b").add("a", b"1", b"x", target="b").end(),
    "a link to nowhere": of(("a", b"2", "")),
    "a link with content": Tar().add("a", b"2", b"x", target="b").end(),
    "a file with a target": of(("a", b"0", "b")),
    "a size beyond the end": Tar().add("a", size=b"00000077777\0").end(),
    "a size beyond everything": Tar().add("a", size=b"\x80" + b"\xff" * 11).end(),
    "a size below nothing": Tar().add("a", size=b"\xff" * 12).end(),
    "a size that is no number": Tar().add("a", size=b"0x000000010\0").end(),
    "another size in words of pax": Tar().extended(size="99999").add("a").end(),
    "a mode below nothing": Tar().add("a", mode=b"\xff" * 8).end(),
    "a time beyond all times": Tar().add("a", mtime=b"\x80" + b"\x7f" * 11).end(),
    "a time in octal beyond them": Tar().add("a", mtime=b"7" * 12).end(),
    "a time that is no number": Tar().extended(mtime="soon").add("a").end(),
    "a wrong checksum": Tar().add("a", check=b"000001\0 ").end(),
    "an unknown format": Tar().add("a", magic=b"ustar\x0099").end(),
    "headers without members": Tar(Tar().extended(b"g", comment="0" * 9_000) * 1_900)
    .add("a")
    .end(),
    "a path for all": Tar().extended(b"g", path="a").add("b").end(),
    "two pax headers": Tar().extended(path="a").extended(path="a").add("b").end(),
    "two names": Tar().extended(path="a").add("L", b"L", b"c\0").add("b").end(),
    "a pax header at the end": Tar().extended(path="a").end(),
    "a long name at the end": Tar().add("L", b"L", b"a\0").end(),
    "an empty long name": Tar().add("L", b"L").add("a").end(),
    "an endless long name": Tar().add("L", b"L", bytes(1 << 20) + b"a").add("a").end(),
    "a record of a wrong length": Tar().add("x", b"x", b"99 path=a\n").add("a").end(),
    "another character set": Tar().extended(hdrcharset="EBCDIC").add("a").end(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_do_harm_is_refused_and_nothing_changes(
    agent: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path, name: str
) -> None:
    before, stored = agent.snapshot(), vault.stored_bytes()
    (tmp_path / "a.tar").write_bytes(REFUSED[name])
    with pytest.raises(UnsafeArchive) as refused:
        agent.import_files(tmp_path / "a.tar")
    assert "export" not in str(refused.value.hint)
    assert (agent.find_current(), vault.stored_bytes()) == (before, stored)


TAKEN: dict[str, tuple[bytes, dict[str, bytes]]] = {
    "nothing but its end": (Tar().end(10240), {}),
    "the last of one name": (Tar().add("a", data=b"1").add("a", data=b"2").end(), {"a": b"2"}),
    "a directory that became a file": (of(("a/", b"5", ""), ("a", b"0", "")), {"a": b""}),
    "a name of what was replaced": (
        Tar().add("a", data=b"1").add("b", b"1", target="./a").add("a", data=b"2").end(),
        {"a": b"2", "b": b"1"},
    ),
    "a name of itself": (Tar().add("a", data=b"1").add("a", b"1", target="a").end(), {"a": b"1"}),
    "a name in two parts": (Tar().add("b", prefix="a").end(), {"a/b": b""}),
    "records that say nothing here": (
        Tar().extended(b"g", comment="0").extended(SCHILY__xattr__user="x").add("a").end(),
        {"a": b""},
    ),
    "a false word about names": (Tar().extended(HOLDFAST__twin="b").add("a").end(), {"a": b""}),
    "numbers behind spaces": (Tar().add("a", mode=b"   644 \0").end(), {"a": b""}),
    "much padding": (Tar().add("./a").end(1 << 20), {"a": b""}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_tar_itself_would_make_of_it(
    vault: holdfast.Holdfast, tmp_path: Path, name: str
) -> None:
    data, meant = TAKEN[name]
    (tmp_path / "a.tar").write_bytes(data)
    agent = vault.namespace("agent")
    assert agent.import_files(tmp_path / "a.tar").verified
    files = [info for info in agent.files.list(recursive=True) if info.kind == "file"]
    assert {info.path: agent.files.read(info.path) for info in files} == meant
    # No name says that it is another's, but for those of one file.
    agent.export_files(tmp_path / "b.tar")
    assert b"HOLDFAST.twin" not in (tmp_path / "b.tar").read_bytes()


COMPRESSED = {
    "gzip": b"\x1f\x8b\x08",
    "bzip2": b"BZh9",
    "xz": b"\xfd7zXZ\0",
    "zstd": b"(\xb5/\xfd",
}


@pytest.mark.parametrize("command", COMPRESSED)
def test_what_is_compressed_is_told_how_to_be_unpacked(
    agent: holdfast.Namespace, tmp_path: Path, command: str
) -> None:
    (tmp_path / "a.tar").write_bytes(COMPRESSED[command] + b"short")
    with pytest.raises(UnsafeArchive, match=command) as refused:
        agent.import_files(tmp_path / "a.tar")
    assert "| holdfast import --files -" in str(refused.value.hint)


def test_a_tar_file_beyond_the_limits_is_refused_before_it_is_stored(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.snapshot()
    source = tmp_path / "a.tar"
    source.write_bytes(Tar().add("a", data=bytes(5000)).end())
    agent.set_quota(agent.size().bytes + 4000)
    with pytest.raises(QuotaExceeded):
        agent.import_files(source)
    # What is there gives way: it counts no more.
    agent.files.write("mine", bytes(3900))
    agent.set_quota(agent.size().bytes + 1500)
    assert agent.import_files(source).verified
    names = Tar().add("a", data=bytes(1000))
    for number in range(20):
        names.add(f"b{number}", b"1", target="a")
    source.write_bytes(names.end())
    for limits in (
        holdfast.Limits(archive_members=10),
        holdfast.Limits(archive_bytes=source.stat().st_size),
        holdfast.Limits(file_bytes=999),
    ):
        with (
            holdfast.open(tmp_path / "limited", limits=limits) as limited,
            pytest.raises(TooLarge),
        ):
            limited.namespace("agent").import_files(source)


def test_a_file_that_changes_while_it_is_read_is_refused(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    source = tmp_path / "a.tar"
    source.write_bytes(Tar().add("a", data=b"1").end())

    def meddle(stage: str, _done: int, _total: int) -> None:
        if stage == "import":
            source.write_bytes(source.read_bytes() + bytes(512))

    with pytest.raises(UnsafeArchive, match="changed"):
        agent.import_files(source, progress=meddle)
    assert agent.timeline() == []

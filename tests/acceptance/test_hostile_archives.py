"""Archives made to do harm: each is refused for what it is, and nothing at all changes.

Every row takes an honest archive and adds one thing to it, with Python's `tarfile` or by hand
where that is too well-behaved. What is refused is refused twice: by a namespace that has
content, and by one that does not exist and must not come about.
"""

import gzip
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.errors import (
    HoldfastError,
    InvalidValue,
    NotFound,
    TooLarge,
    UnsafeArchive,
    VaultTooNew,
)

pytestmark = pytest.mark.in_memory

END = bytes(1024)
HUGE = 1 << 60
Attack = Callable[[bytes], bytes]


# Honest parts


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def member(name: str, content: bytes = b"", **fields: object) -> bytes:
    """The bytes of one member as `tarfile` writes them."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape") + padded(content)


def header(
    name: bytes,
    kind: bytes = b"0",
    *,
    mode: bytes = b"0000644\0",
    size: bytes = b"%011o\0" % 0,
    magic: bytes = b"ustar\x0000",
    target: bytes = b"",
    prefix: bytes = b"",
) -> bytes:
    """One header block, as wrong as its fields, with a right checksum."""
    block = bytearray(512)
    block[0:100] = name.ljust(100, b"\0")
    block[100:108] = mode
    block[108:124] = b"0000000\0" * 2
    block[124:136] = size
    block[136:148] = b"%011o\0" % 0
    block[148:156] = b" " * 8
    block[156:157] = kind
    block[157:257] = target.ljust(100, b"\0")
    block[257:265] = magic
    block[345:500] = prefix.ljust(155, b"\0")
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def extended(data: bytes, *, kind: bytes = b"x") -> bytes:
    """A pax header of these bytes, whatever they are."""
    return header(b"././@PaxHeader", kind, size=b"%011o\0" % len(data)) + padded(data)


def record(keyword: bytes, value: bytes) -> bytes:
    body = b" " + keyword + b"=" + value + b"\n"
    length = len(body) + 1
    while len(b"%d" % length + body) != length:
        length += 1
    return b"%d" % length + body


def value(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


# Ways to spoil an archive


def adding(*parts: bytes) -> Attack:
    """Puts members behind the honest ones."""
    return lambda honest: honest.removesuffix(END) + b"".join(parts) + END


def ending(end: bytes) -> Attack:
    return lambda honest: honest.removesuffix(END) + end


def split(honest: bytes) -> tuple[bytes, bytes]:
    """The manifest's text, and all that follows after it."""
    with tarfile.open(fileobj=io.BytesIO(honest)) as tar:
        first, second = tar.getmembers()[:2]
    return honest[first.offset_data : first.offset_data + first.size], honest[second.offset :]


def telling(change: Callable[[bytes], bytes], **fields: object) -> Attack:
    """Changes the manifest's text."""

    def attack(honest: bytes) -> bytes:
        text, rest = split(honest)
        return member("holdfast.json", change(text), **fields) + rest

    return attack


def claiming(**fields: object) -> Attack:
    """Changes what the manifest says."""
    return telling(lambda text: msgspec.json.encode(msgspec.json.decode(text) | fields))


def late_manifest(honest: bytes) -> bytes:
    text, rest = split(honest)
    return rest.removesuffix(END) + member("holdfast.json", text) + END


def spoiled(at: int, new: bytes) -> Attack:
    return lambda honest: honest[:at] + new + honest[at + len(new) :]


def other_store(body: bytes) -> Attack:
    """Puts something else in the place of the first value."""

    def attack(honest: bytes) -> bytes:
        with tarfile.open(fileobj=io.BytesIO(honest)) as tar:
            first = tar.getmember("store/0.msgpack")
        return honest[: first.offset] + member("store/0.msgpack", body) + END

    return attack


SHELL = b"#!/bin/sh\n"
SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(HUGE)}

# The five members that once took over a machine, each on its own; then all that is like them.
TAKEOVER: dict[str, tuple[Attack, str]] = {
    "another /etc/passwd": (adding(member("/etc/passwd", b"root::0:0::/:/bin/sh\n")), "belong"),
    "a set-uid shell": (adding(member("files/bin/sh", SHELL, mode=0o4755)), "set-user-id"),
    "a fifo": (adding(member("files/pipe", type=tarfile.FIFOTYPE)), "a fifo"),
    "a hard link": (
        adding(member("files/hard", type=tarfile.LNKTYPE, linkname="/etc/shadow")),
        "a hard link",
    ),
    "chmod 777 of /usr": (adding(member("/usr", type=tarfile.DIRTYPE, mode=0o777)), "belong"),
    "a set-gid shell": (adding(member("files/bin/sh", SHELL, mode=0o2755)), "set-group-id"),
    "a set-gid directory": (
        adding(member("files/bin", type=tarfile.DIRTYPE, mode=0o2755)),
        "set-group-id",
    ),
    "a set-uid link": (
        adding(member("files/su", type=tarfile.SYMTYPE, linkname="sh", mode=0o4777)),
        "set-user-id",
    ),
    "bits of the file type in a mode": (
        adding(header(b"files/a", mode=b"0100644\0")),
        "unknown bit",
    ),
    "a hard link to a file inside": (
        adding(member("files/hard", type=tarfile.LNKTYPE, linkname="files/notes.md")),
        "a hard link",
    ),
    "a link, then a file through it": (
        adding(
            member("files/door", type=tarfile.SYMTYPE, linkname="/etc"),
            member("files/door/passwd", b"root::0:0"),
        ),
        "below a file or link",
    ),
    "a file, then the link it goes through": (
        adding(
            member("files/door/passwd", b"root::0:0"),
            member("files/door.txt", b""),
            member("files/door", type=tarfile.SYMTYPE, linkname="/etc"),
        ),
        "below a file or link",
    ),
    "a file below a file": (
        adding(member("files/a"), member("files/a-b"), member("files/a/b/c")),
        "below a file or link",
    ),
    "a directory and a file of one name": (
        adding(member("files/same", type=tarfile.DIRTYPE), member("files/same", b"1")),
        "the same name",
    ),
    "a file twice": (
        adding(member("files/same", b"1"), member("files/other"), member("files/same", b"2")),
        "the same name",
    ),
}

NAMES: dict[str, tuple[Attack, str]] = {
    "upwards": (adding(member("files/../../etc/passwd")), "upwards"),
    "upwards at the end": (adding(member("files/a/..")), "upwards"),
    "absolute inside": (adding(member("files//etc/passwd")), "absolute"),
    "an empty part": (adding(member("files/a//b")), "empty"),
    "a dot": (adding(member("files/./a")), "'.' part"),
    "no name": (adding(member("files/")), "is empty"),
    "the root itself": (adding(member("files", type=tarfile.DIRTYPE, mode=0o700)), "belong"),
    "the root with a slash": (adding(header(b"files//", b"5")), "is empty"),
    "a file with a slash behind": (adding(header(b"files/a/")), "empty"),
    "a NUL in a pax path": (
        adding(extended(record(b"path", b"files/a\0b")), header(b"files/a")),
        "NUL",
    ),
    "something behind a name's NUL": (adding(header(b"files/a\0../b")), "hidden"),
    "a name of 256 bytes": (adding(member("files/" + "a" * 256)), "longer than 255"),
    "a path of 5000 bytes": (adding(member("files" + "/abcd" * 1000)), "longer than 4095"),
    "upwards by prefix": (adding(header(b"x", prefix=b"files/..")), "upwards"),
    "an empty pax path": (adding(extended(record(b"path", b"")), header(b"files/a")), "belong"),
    "outside": (adding(member("elsewhere/a")), "belong"),
    "beside": (adding(member("filesystem/a")), "belong"),
    "a link to nowhere": (adding(header(b"files/l", b"2")), "its target is empty"),
    "a link with a NUL": (
        adding(extended(record(b"linkpath", b"a\0b")), header(b"files/l", b"2", target=b"a")),
        "NUL",
    ),
    "a link too far": (
        adding(member("files/l", type=tarfile.SYMTYPE, linkname="a" * 4096)),
        "too long",
    ),
    "a file with a target": (adding(header(b"files/a", target=b"/etc/passwd")), "target of a link"),
}

KINDS: dict[str, tuple[Attack, str]] = {
    f"type {kind!r}": (adding(header(b"files/a", kind)), reason)
    for kind, reason in [
        (b"1", "a hard link"),
        (b"3", "a character device"),
        (b"4", "a block device"),
        (b"6", "a fifo"),
        (b"7", "a contiguous file"),
        (b"L", "a GNU long name"),
        (b"K", "a GNU long link"),
        (b"S", "a sparse file"),
        (b"D", "unknown"),
        (b"M", "unknown"),
        (b"V", "unknown"),
        (b"X", "unknown"),
        (b"\xff", "unknown"),
    ]
}

SIZES: dict[str, tuple[Attack, str]] = {
    # CVE-2025-8194: read as a number, this is negative, and leads back to its own header.
    "negative, in binary": (adding(header(b"files/a", size=b"\xff" * 10 + b"\xfe\x00")), "octal"),
    "huge, in binary": (adding(header(b"files/a", size=b"\x80" + b"\x7f" * 11)), "octal"),
    "negative, in digits": (adding(header(b"files/a", size=b"-0000000512\0")), "octal"),
    "no digits": (adding(header(b"files/a", size=bytes(12))), "octal"),
    "not octal": (adding(header(b"files/a", size=b"00000000009\0")), "octal"),
    "as hexadecimal": (adding(header(b"files/a", size=b"0x000000200\0")), "octal"),
    "something behind the digits": (adding(header(b"files/a", size=b"0000001\0zzzz")), "octal"),
    "8 GiB that are not there": (adding(header(b"files/a", size=b"7" * 12)), "ends before"),
    "one byte too many": (
        lambda honest: honest.removesuffix(END) + header(b"files/a", size=b"%011o\0" % 1),
        "ends before",
    ),
    "negative, in a record": (
        adding(extended(record(b"size", b"-512")), header(b"files/a")),
        "size is not a number",
    ),
    "huge, in a record": (
        adding(extended(record(b"size", b"%d" % HUGE)), header(b"files/a")),
        "ends before",
    ),
    "more digits than a number has": (
        adding(extended(record(b"size", b"9" * 5000)), header(b"files/a")),
        "size is not a number",
    ),
    "a directory with content": (
        adding(header(b"files/a", b"5", size=b"%011o\0" % 512), bytes(512)),
        "claims to have content",
    ),
    "a link with content": (
        adding(extended(record(b"size", b"512")), header(b"files/a", b"2", target=b"b")),
        "claims to have content",
    ),
}

RECORDS: dict[str, tuple[Attack, str]] = {
    "a bomb: sparse by records": (
        adding(member("files/a", b"1\n0\n512\n" + bytes(504), pax_headers=SPARSE)),
        "GNU.sparse",
    ),
    "a bomb: sparse by type": (
        adding(header(b"files/a", b"S", size=b"%011o\0" % 512), bytes(512)),
        "sparse",
    ),
    "for all members": (adding(extended(record(b"path", b"/etc/passwd"), kind=b"g")), "for all"),
    "of another's making": (
        adding(member("files/a", pax_headers={"SCHILY.xattr.user.x": "1"})),
        "not known here",
    ),
    "of a later holdfast": (
        adding(member("files/a", pax_headers={"HOLDFAST.secret": "1"})),
        "not known here",
    ),
    "of an owner": (adding(member("files/a", pax_headers={"uid": "0"})), "not known here"),
    "a gigabyte of them": (
        adding(header(b"x", b"x", size=b"%011o\0" % (1 << 30))),
        "empty, too large",
    ),
    "a header that is not there": (
        adding(header(b"x", b"x", size=b"%011o\0" % (1 << 15))),
        "ends before",
    ),
    "none": (adding(extended(b""), header(b"files/a")), "empty, too large"),
    "two headers": (
        adding(extended(record(b"path", b"files/a")) * 2, header(b"files/a")),
        "doubled",
    ),
    "for nobody": (adding(extended(record(b"path", b"files/a"))), "describes no member"),
    "that contradict each other": (
        adding(extended(record(b"path", b"files/a") + record(b"path", b"b")), header(b"files/a")),
        "contradicts itself",
    ),
    "of length 0": (adding(extended(b"0 path=a\n"), header(b"files/a")), "length is wrong"),
    "of length 2": (adding(extended(b"2 path=a\n"), header(b"files/a")), "length is wrong"),
    "of a negative length": (adding(extended(b"-9 path=a\n"), header(b"a")), "length is wrong"),
    "longer than their header": (adding(extended(b"99 path=a\n"), header(b"a")), "length is wrong"),
    "of a length without end": (adding(extended(b"9" * 6000), header(b"a")), "length is wrong"),
    "without a newline": (adding(extended(b"9 path=ab"), header(b"a")), "length is wrong"),
    "without a value": (adding(extended(b"7 path\n"), header(b"files/a")), "not known here"),
    "in a third character set": (
        adding(extended(record(b"hdrcharset", b"EBCDIC")), header(b"files/a")),
        "character set",
    ),
    "a time that is no number": (
        adding(extended(record(b"mtime", b"nan")), header(b"files/a")),
        "time of modification",
    ),
    "a time beyond all time": (
        adding(extended(record(b"mtime", b"9" * 12)), header(b"files/a")),
        "out of range",
    ),
}

FRAMES: dict[str, tuple[Attack, str]] = {
    "nothing": (lambda _: b"", "ends before"),
    "zeros": (lambda _: bytes(10240), "begin with a manifest"),
    "text": (lambda _: b"hello " * 1000, "not a tar file"),
    "compressed": (gzip.compress, "not a tar file"),
    "a wrong checksum": (spoiled(3, b"X"), "checksum"),
    "the magic of GNU": (adding(header(b"files/a", magic=b"ustar  \0")), "POSIX"),
    "no magic": (adding(header(b"files/a", magic=bytes(8))), "POSIX"),
    "cut in its first header": (lambda honest: honest[:511], "ends before"),
    "cut in a header": (lambda honest: honest[: 1024 + 300], "ends before"),
    "cut in the content": (lambda honest: honest[: honest.index(b"first thoughts") + 5], "ends"),
    "no end": (ending(b""), "ends before"),
    "half an end": (ending(bytes(512)), "without its two closing blocks"),
    "one block and garbage": (ending(bytes(512) + b"x" * 512), "after its end"),
    "garbage behind the end": (ending(END + b"\0" * 511 + b"x"), "after its end"),
    "a member behind the end": (ending(END + member("files/a") + END), "after its end"),
    "an archive behind the end": (lambda honest: honest + honest, "after its end"),
    "zeros without end": (lambda honest: honest + bytes(1 << 20), "after its end"),
}

MANIFESTS: dict[str, tuple[Attack, str]] = {
    "missing": (lambda honest: split(honest)[1], "begin with a manifest"),
    "late": (late_manifest, "begin with a manifest"),
    "twice": (lambda honest: adding(member("holdfast.json", split(honest)[0]))(honest), "belong"),
    "a link": (
        lambda honest: (
            member("holdfast.json", type=tarfile.SYMTYPE, linkname="/etc/passwd") + split(honest)[1]
        ),
        "begin with a manifest",
    ),
    "empty": (telling(lambda _: b""), "cannot be read"),
    "not JSON": (telling(lambda _: b"\xff\xfe{}"), "cannot be read"),
    "a list": (telling(lambda _: b"[1]"), "cannot be read"),
    "nested without end": (
        telling(lambda text: text.rstrip()[:-1] + b',"x":' + b"[" * 15_000),
        "cannot be read",
    ),
    "nested in a field": (
        telling(lambda _: b'{"format":1,"label":' + b'{"a":' * 3000),
        "cannot be read",
    ),
    "far too long": (telling(lambda text: text + b" " * (4 << 20)), "too large"),
    "of no format": (telling(lambda text: text.replace(b'"format": 2,', b"")), "field `format`"),
    "of format 0": (claiming(format=0), "begin with a format"),
    "of two formats": (
        telling(lambda text: text.rstrip()[:-1] + b',"format":7}'),
        "begin with a format",
    ),
    "with a field of its own": (claiming(extra=1), "cannot be read"),
    "without a root": (
        telling(lambda text: text.replace(b'"root"', b'"tree"')),
        "cannot be read",
    ),
    "with a short root": (claiming(root="00"), "cannot be read"),
    "with another root": (claiming(root="00" * 32), "root in its manifest"),
    "with more entries": (claiming(entries=7_000), "as much as"),
    "with fewer bytes": (claiming(content_bytes=0), "as much as"),
    "with negative bytes": (claiming(content_bytes=-1), "cannot be read"),
    "with a NUL in a name": (claiming(namespace="a\0b"), "cannot be read"),
    "with a name without end": (claiming(namespace="a" * 10_000), "cannot be read"),
    "with half a character": (
        telling(lambda text: text.replace(b'"victim"', b'"\\ud800"')),
        "cannot be read",
    ),
}

VALUES: dict[str, tuple[Attack, str]] = {
    "empty": (other_store(b""), "no value of the store"),
    "not msgpack": (other_store(b"\xc1\xc1"), "no value of the store"),
    "a map": (other_store(msgspec.msgpack.encode({"a": 1})), "no value of the store"),
    "too few fields": (other_store(value("a", "b")), "no value of the store"),
    "too many fields": (other_store(value("a", "b", b"\xc0", 1)), "no value of the store"),
    "more behind": (other_store(value("a", "b", b"\xc0") + b"\xc0"), "no value of the store"),
    "nested without end": (other_store(b"\x93" + b"\x91" * 1_000_000), "no value of the store"),
    "nested in a surplus field": (
        other_store(b"\x94" + value("a", "b", b"\xc0")[1:] + b"\x91" * 1_000_000),
        "no value of the store",
    ),
    "a list as long as memory": (other_store(b"\xdd\xff\xff\xff\xff"), "no value of the store"),
    "a key that is not text": (other_store(b"\x93\xa1\xff\xa1b\xc4\x01\xc0"), "no value"),
    "a key without end": (other_store(value("a", "b" * 5000, b"\xc0")), "no value of the store"),
    "content that is not msgpack": (other_store(value("a", "b", b"\xc1")), "cannot be read"),
    "content that ends too early": (other_store(value("a", "b", b"\x92\xc0")), "cannot be read"),
    "content with more behind": (other_store(value("a", "b", b"\xc0\xc0")), "cannot be read"),
    "no content": (other_store(value("a", "b", b"")), "cannot be read"),
    "large content that ends too early": (
        other_store(value("a", "b", b"\xdd\x00\xff\xff\xff" + b"\x90" * 100_000)),
        "too early",
    ),
    "large content with more behind": (
        other_store(value("a", "b", b"\xc0" * 100_000)),
        "behind its end",
    ),
    "content that is not UTF-8": (other_store(value("a", "b", b"\xa1\xff")), "cannot be read"),
    "content nested without end": (
        other_store(value("a", "b", b"\x91" * 1_000_000 + b"\xc0")),
        "cannot be read",
    ),
    "content as long as memory": (
        other_store(value("a", "b", b"\xdd\xff\xff\xff\xff" * 500)),
        "cannot be read",
    ),
    "a map as a key of a map": (
        other_store(value("a", "b", b"\x81\x81\x01\x02\x03")),
        "cannot be read",
    ),
    "an instant in no calendar": (
        other_store(value("a", "b", b"\xd7\xff" + b"\xff" * 8)),
        "cannot be read",
    ),
    "a number left out": (adding(member("store/7.msgpack", value("a", "b", b"\xc0"))), "belong"),
    "a number used twice": (adding(member("store/0.msgpack", value("a", "b", b"\xc0"))), "belong"),
    "another name": (adding(member("store/x.msgpack", value("a", "b", b"\xc0"))), "belong"),
    "a link": (
        adding(member("store/2.msgpack", type=tarfile.SYMTYPE, linkname="/etc/passwd")),
        "belong",
    ),
    "a directory": (adding(member("store", type=tarfile.DIRTYPE)), "belong"),
    "a key twice": (
        adding(member("store/2.msgpack", value("plan", "step", b"\xc0"))),
        "the same key",
    ),
}

GROUPS = {
    "takeover": TAKEOVER,
    "name": NAMES,
    "kind": KINDS,
    "size": SIZES,
    "record": RECORDS,
    "frame": FRAMES,
    "manifest": MANIFESTS,
    "value": VALUES,
}
ATTACKS = [
    pytest.param(attack, reason, id=f"{group}: {name}")
    for group, rows in GROUPS.items()
    for name, (attack, reason) in rows.items()
]


# The vault, before and after


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    """A vault with a namespace that has a past, content and pending changes."""
    with holdfast.open(tmp_path / "vault") as vault:
        victim = vault.namespace("victim")
        victim.files.write("notes.md", "first thoughts")
        victim.files.mkdir("empty")
        victim.files.symlink("latest", "/etc/passwd")
        victim.files.write("large.bin", bytes(range(256)) * 1000)
        victim.store.set("plan", "step", [1, 2, 3])
        victim.store.set("plan", "text", "long " * 2000)
        victim.snapshot("before")
        victim.files.write("pending.txt", "not in any snapshot yet")
        yield vault


@pytest.fixture
def honest(vault: holdfast.Holdfast, tmp_path: Path) -> bytes:
    vault.namespace("victim").export(tmp_path / "honest.tar", snapshot="latest")
    return (tmp_path / "honest.tar").read_bytes()


def state(vault: holdfast.Holdfast, folder: Path) -> dict[str, object]:
    """All that an import could change: what the vault says, and every pack on disk."""
    victim = vault.namespace("victim")
    files = [info for info in victim.files.list(recursive=True) if info.kind == "file"]
    return {
        "namespaces": vault.namespaces(),
        "timeline": victim.timeline(),
        "pending": victim.is_dirty(),
        "changes": [*victim.diff()],
        "size": victim.size(),
        "files": victim.files.list(recursive=True),
        "content": [victim.files.read(info.path) for info in files],
        "store": victim.store.items("plan"),
        "bytes": vault.stored_bytes(),
        "packs": sorted(p for p in (folder / "vault" / "packs").rglob("*") if p.is_file()),
    }


def refused(
    vault: holdfast.Holdfast,
    source: Path,
    error: type[HoldfastError] = UnsafeArchive,
    reason: str | None = None,
) -> None:
    """Proves that an archive is refused, twice, and that nothing changes."""
    folder = source.parent
    before = state(vault, folder)
    for name in ("victim", "newcomer"):
        with pytest.raises(error, match=reason):
            vault.namespace(name).import_(source)
        assert state(vault, folder) == before
    assert vault.verify().ok


def written(folder: Path, data: bytes) -> Path:
    path = folder / "hostile.tar"
    path.write_bytes(data)
    return path


def test_what_is_spoiled_below_is_accepted_as_it_is(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    imported = vault.namespace("newcomer").import_(written(tmp_path, honest))
    assert imported.verified
    assert imported.snapshot.root == vault.namespace("victim").get_snapshot("latest").root


@pytest.mark.parametrize(("attack", "reason"), ATTACKS)
def test_a_hostile_archive_is_refused_and_nothing_changes(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path, attack: Attack, reason: str
) -> None:
    refused(vault, written(tmp_path, attack(honest)), UnsafeArchive, reason)


def test_all_five_members_of_a_takeover_at_once_leave_no_trace_on_the_machine(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    passwd = Path("/etc/passwd").read_bytes()
    usr = os.stat("/usr")
    hostile = adding(
        member("/etc/passwd", b"root::0:0::/:/bin/sh\n"),
        member("files/bin/sh", SHELL, mode=0o4755),
        member("files/pipe", type=tarfile.FIFOTYPE),
        member("files/hard", type=tarfile.LNKTYPE, linkname="/etc/shadow"),
        member("/usr", type=tarfile.DIRTYPE, mode=0o777),
    )(honest)
    refused(vault, written(tmp_path, hostile))
    assert Path("/etc/passwd").read_bytes() == passwd
    assert os.stat("/usr") == usr


def test_an_archive_of_a_later_format_asks_for_a_later_holdfast(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    text = b'{"format": 3, "anything": ' + b"[" * 10_000
    refused(vault, written(tmp_path, telling(lambda _: text)(honest)), VaultTooNew, "format 3")


@pytest.mark.usefixtures("vault")
@pytest.mark.parametrize(
    "limits",
    [
        holdfast.Limits(archive_members=4),
        holdfast.Limits(archive_bytes=10_000),
        holdfast.Limits(file_bytes=100_000),
        holdfast.Limits(value_bytes=9_990),
    ],
    ids=["members", "bytes", "file", "value"],
)
def test_an_archive_beyond_a_limit_is_refused(
    honest: bytes, tmp_path: Path, limits: holdfast.Limits
) -> None:
    source = written(tmp_path, honest)
    with holdfast.open(tmp_path / "vault", limits=limits) as small:
        refused(small, source, TooLarge, "may have")


def test_a_value_far_too_large_is_refused_without_reading_it(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    hole = header(b"store/2.msgpack", size=b"%011o\0" % (7 << 30))
    source = written(tmp_path, honest.removesuffix(END) + hole)
    os.truncate(source, source.stat().st_size + (7 << 30) + len(END))
    refused(vault, source, TooLarge, "a value may have")


def test_a_bomb_of_holes_is_refused_without_reading_it(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    source = written(tmp_path, honest)
    os.truncate(source, 65 << 30)
    refused(vault, source, TooLarge, "may have")


def test_content_that_belies_its_root_leaves_no_bytes_behind(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    rich = vault.namespace("rich")
    # More than a pack, so that packs are on disk by the time that the root is known.
    with holdfast.open(tmp_path / "other") as other:
        source = other.namespace("rich")
        for number in range(4):
            source.files.write(f"{number}.bin", os.urandom(12 << 20))
        source.export(tmp_path / "rich.tar")
    data = bytearray((tmp_path / "rich.tar").read_bytes())
    data[40 << 20] ^= 1
    refused(vault, written(tmp_path, bytes(data)), UnsafeArchive, "root in its manifest")
    assert rich.timeline() == []


def test_an_archive_that_changes_while_it_is_read_is_refused(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    source = written(tmp_path, honest)
    before = state(vault, tmp_path)

    def meddle(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("import", 1):
            with source.open("r+b") as file:
                file.seek(honest.index(b"first thoughts"))
                file.write(b"wrong")
            os.utime(source, ns=(0, 0))

    with pytest.raises(UnsafeArchive, match="was changed"):
        vault.namespace("victim").import_(source, progress=meddle)
    assert state(vault, tmp_path) == before


def test_an_archive_that_shrinks_while_it_is_read_is_refused(
    vault: holdfast.Holdfast, honest: bytes, tmp_path: Path
) -> None:
    source = written(tmp_path, honest)
    before = state(vault, tmp_path)

    def meddle(stage: str, done: int, _total: int) -> None:
        if (stage, done) == ("import", 1):
            os.truncate(source, 1024)

    with pytest.raises(UnsafeArchive, match="became shorter"):
        vault.namespace("victim").import_(source, progress=meddle)
    assert state(vault, tmp_path) == before


def test_what_is_not_a_regular_file_is_never_read(vault: holdfast.Holdfast, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    before = state(vault, tmp_path)
    for source in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "link"):
        with pytest.raises(UnsafeArchive, match="not a regular file"):
            vault.namespace("victim").import_(source)
    for name, error in (("missing", NotFound), ("a\0b", InvalidValue), ("a" * 300, InvalidValue)):
        with pytest.raises(error):
            vault.namespace("victim").import_(tmp_path / name)
    assert state(vault, tmp_path) == before

"""A strict reader of tar files: what they say is believed only where it cannot do harm.

It reads the POSIX formats (ustar, and pax headers of single members) and of those no more than
`tarwrite` writes: regular files, directories and symbolic links. Everything else is refused,
whether or not it would be dangerous here, and so is every header with more than one reading.
What other programs write is read by `plaintar.py`, which shares what is public here.
Two promises:

1. It ends. Every step moves on by at least one block, and no size is believed that leads
   beyond the end of the file, so a hostile archive costs at most one read of its headers.
2. Nothing is written. A member is a description; what its name means, and whether it may be
   used, is the business of `survey.py`.

Python's `tarfile` is not used: hostile sizes made it loop for ever (CVE-2025-8194), and crafted
links led its extraction filters astray (CVE-2025-4517).
"""

import enum
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from holdfast.engine.archives.archivefile import Source
from holdfast.entries import TIMES
from holdfast.errors import UnsafeArchive

BLOCK_BYTES: Final = 512
MAGIC: Final = b"ustar\x0000"
EXTENDED: Final = b"x"
TWIN_RECORD: Final = b"HOLDFAST.twin"
"""The first name of a file that has several, in the form that pax reserves for vendors."""

MOTION_RECORD: Final = b"HOLDFAST.motion"
"""Of a file that somebody could write to while it was read. Among files alone: where there is a
manifest, that says so."""

MAX_EXTENDED_BYTES: Final = 64 << 10
"""Of one pax header: many times what two paths of the greatest length take."""

MAX_END_BYTES: Final = 2 * 10240
"""Of zeros at the end: tools fill up the record they are in, and a record has 10 KiB."""


class MemberKind(enum.Enum):
    """What a member is, by the byte that says so."""

    FILE = b"0"
    LINK = b"2"
    DIRECTORY = b"5"


@dataclass(frozen=True, slots=True)
class Member:
    """What the headers say of one member; `at` is where its content begins."""

    name: bytes
    kind: MemberKind
    mode: int
    mtime_ns: int
    at: int
    size: int
    target: bytes
    twin: bytes = b""
    is_in_motion: bool = False


_REFUSED: Final = {
    b"1": "a hard link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a fifo",
    b"7": "a contiguous file",
    b"g": "a header for all members",
    b"K": "a GNU long link",
    b"L": "a GNU long name",
    b"S": "a sparse file",
}
_RECORDS: Final = frozenset({b"path", b"linkpath", b"size", b"mtime", b"hdrcharset", TWIN_RECORD})
_CHARSETS: Final = frozenset({b"BINARY", b"ISO-IR 10646 2000 UTF-8"})
_OCTAL: Final = re.compile(rb"([0-7]+)[ \0]*")
_LENGTH: Final = re.compile(rb"([1-9][0-9]{0,6}) ")
_DECIMAL: Final = re.compile(rb"[0-9]{1,20}")
_MTIME: Final = re.compile(rb"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?")


def iter_members(source: Source) -> Iterator[Member]:
    """Yields the members in their order; raises `UnsafeArchive` at the first fault."""
    at, records = 0, dict[bytes, bytes]()
    while any(block := source.read(at, BLOCK_BYTES)):
        header = Header(block)
        at += BLOCK_BYTES
        size = header.size
        if header.type == EXTENDED:
            if records or not 0 < size <= MAX_EXTENDED_BYTES:
                raise UnsafeArchive("it has a pax header that is empty, too large or doubled")
            records = _parse_records(source.read(at, size))
        else:
            member = to_member(header, records, at)
            size, records = member.size, {}
            if at + size > source.size:
                raise UnsafeArchive("it ends before the member does", member=member.name)
            yield member
        at = after(at, size)
    if records:
        raise UnsafeArchive("its last pax header describes no member")
    check_end(source, at, most_bytes=MAX_END_BYTES)


def after(at: int, size: int) -> int:
    """Returns where the block behind so much content begins."""
    return at + -(-size // BLOCK_BYTES) * BLOCK_BYTES


def octal(field: bytes, name: bytes) -> int:
    """Returns the number in a field; the binary form, which can be negative, is refused."""
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise UnsafeArchive("a number in a header is not octal", member=name)
    return int(found[1], 8)


class Header:
    """The fields of one header block that matter here, proven by the block's checksum."""

    magics: ClassVar = frozenset({MAGIC})
    number: ClassVar[Callable[[bytes, bytes], int]] = staticmethod(octal)

    def __init__(self, block: bytes) -> None:
        if (magic := block[257:265]) not in self.magics:
            raise UnsafeArchive("it is not a tar file, or not one of the POSIX formats")
        number = type(self).number
        # In other formats something else stands where POSIX has the rest of a long name.
        name, prefix = to_text(block[0:100]), to_text(block[345:500]) if magic == MAGIC else b""
        self.name = prefix + b"/" + name if prefix else name
        if number(block[148:156], self.name) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
            raise UnsafeArchive("a header does not have the checksum it names", member=self.name)
        self.mode = number(block[100:108], self.name)
        self.size = number(block[124:136], self.name)
        self.mtime = number(block[136:148], self.name)
        # A zero byte is what the oldest tar files have for a regular file.
        self.type = b"0" if block[156:157] == b"\0" else block[156:157]
        self.target = to_text(block[157:257])


def to_member(header: Header, records: Mapping[bytes, bytes], at: int) -> Member:
    """Returns what a header, and the records before it, say of a member."""
    name = records.get(b"path", header.name)
    try:
        kind = MemberKind(header.type)
    except ValueError:
        what = _REFUSED.get(header.type, "something unknown")
        raise UnsafeArchive(f"it holds {what}", member=name) from None
    size, target = header.size, records.get(b"linkpath", header.target)
    if b"size" in records:
        size = _decimal(records[b"size"], name)
    if size and kind is not MemberKind.FILE:
        raise UnsafeArchive("a link or directory claims to have content", member=name)
    if target and kind is not MemberKind.LINK:
        raise UnsafeArchive("a file or directory has the target of a link", member=name)
    mtime_ns = header.mtime * 10**9
    if b"mtime" in records:
        mtime_ns = _mtime_ns(records[b"mtime"], name)
    if mtime_ns not in TIMES:
        raise UnsafeArchive("a time of modification is out of range", member=name)
    if kind is MemberKind.DIRECTORY:
        name = name.removesuffix(b"/")
    twin = records.get(TWIN_RECORD, b"")
    if twin and kind is not MemberKind.FILE:
        raise UnsafeArchive("a link or directory claims to be one of several names", member=name)
    is_in_motion = MOTION_RECORD in records
    return Member(name, kind, header.mode, mtime_ns, at, size, target, twin, is_in_motion)


def _parse_records(data: bytes) -> dict[bytes, bytes]:
    """Returns the records of a pax header, all of which have to be known."""
    records: dict[bytes, bytes] = {}
    for keyword, value in iter_records(data):
        if keyword not in _RECORDS:
            raise _unknown(keyword)
        put_record(records, keyword, value)
    return records


def iter_records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields the records of a pax header: `length keyword=value`, each ended by a newline."""
    at = 0
    while at < len(data):
        length = _LENGTH.match(data, at)
        end = at + int(length[1]) if length else 0
        # A record that ended before it began would be read again and again.
        if length is None or not length.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise UnsafeArchive("it has a pax record whose length is wrong")
        keyword, equals, value = data[length.end() : end - 1].partition(b"=")
        if not equals:
            raise _unknown(keyword)
        yield keyword, value
        at = end


def _unknown(keyword: bytes) -> UnsafeArchive:
    shown = keyword[:40].decode("ascii", "backslashreplace")
    return UnsafeArchive(f"it has a pax record that is not known here: {shown!r}")


def put_record(records: dict[bytes, bytes], keyword: bytes, value: bytes) -> None:
    """Takes a record in; raises if it contradicts another, or changes what names mean."""
    if records.get(keyword, value) != value:
        raise UnsafeArchive("it has a pax header that contradicts itself")
    # Names are bytes here, so both character sets are read alike; a third could not be.
    if keyword == b"hdrcharset" and value not in _CHARSETS:
        raise UnsafeArchive("it has names in a character set that is not known here")
    records[keyword] = value


def check_end(source: Source, at: int, *, most_bytes: int) -> None:
    """Raises unless from here on there are two zero blocks or more, and nothing else."""
    left = source.size - at
    if left < 2 * BLOCK_BYTES:
        raise UnsafeArchive("it ends without its two closing blocks")
    if left > most_bytes or any(source.read(at, left)):
        raise UnsafeArchive("something follows after its end")


def to_text(field: bytes) -> bytes:
    """Returns the text of a field, which ends at the first NUL."""
    text = field.rstrip(b"\0")
    if b"\0" in text:
        raise UnsafeArchive("something is hidden behind a name's end", member=field)
    return text


def _decimal(value: bytes, name: bytes) -> int:
    if not _DECIMAL.fullmatch(value):
        raise UnsafeArchive("a size is not a number of bytes", member=name)
    return int(value)


def _mtime_ns(value: bytes, name: bytes) -> int:
    found = _MTIME.fullmatch(value)
    if found is None:
        raise UnsafeArchive("a time of modification is not a number", member=name)
    sign, seconds, fraction = found.groups(default=b"")
    elapsed = int(seconds) * 10**9 + int(fraction.ljust(9, b"0"))
    return -elapsed if sign else elapsed

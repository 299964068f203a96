"""Reads the tar files of other programs: more dialects than our own, and as little trust.

What GNU tar, bsdtar, Python, git and Docker write of files, directories, symbolic and hard links
is understood: numbers in binary, long names in members of their own, headers for all members,
records that say nothing of what is kept here. Whatever else they know is refused: devices, fifos,
sparse files, parts of an archive, and what two readers might understand differently. The promises
are those of `tarread.py`: it ends, and nothing is written.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from holdfast.engine.archives.archivefile import Source
from holdfast.engine.archives.tarread import (
    BLOCK_BYTES,
    EXTENDED,
    MAGIC,
    MOTION_RECORD,
    TWIN_RECORD,
    Header,
    Member,
    MemberKind,
    after,
    check_end,
    iter_records,
    octal,
    put_record,
    to_member,
    to_text,
)
from holdfast.engine.files.editing import MAX_MODE
from holdfast.errors import UnsafeArchive

_GNU_MAGIC: Final = b"ustar  \0"
_NO_MAGIC: Final = bytes(8)
"""Of the oldest format: all that proves a header is its checksum."""

_FOR_ALL: Final = b"g"
_LONG_NAME: Final = b"L"
_LONG_TARGET: Final = b"K"
_HARD_LINK: Final = b"1"
_BESIDE: Final = {EXTENDED, _FOR_ALL, _LONG_NAME, _LONG_TARGET}

_MAX_BESIDE_BYTES: Final = 1 << 20
"""Of one header, or long name, beside a member's own: extended attributes take some room."""

_MOST_BESIDE_BYTES: Final = 16 << 20
_BESIDE_A_MEMBER_BYTES: Final = 64 << 10
"""Of all of these: once for the archive, and for each member. To read a megabyte of records takes
a sixth of a second, so that an archive of nothing else would take hours."""

_MAX_END_BYTES: Final = 16 << 20
"""Of zeros at the end: `tar --blocking-factor` makes records as long as somebody likes."""

_ALL_MAY_HAVE: Final = frozenset({b"mtime", b"hdrcharset"})
_MAY_HAVE: Final = _ALL_MAY_HAVE | {b"path", b"linkpath", b"size", TWIN_RECORD, MOTION_RECORD}
_SPARSE: Final = b"GNU.sparse."
_FRACTION: Final = re.compile(rb"(\.[0-9]{9})[0-9]*\Z")
"""Of a second: what is finer than nanoseconds is left out."""

_POSITIVE, _NEGATIVE = 0x80, 0xFF
_COMPRESSED: Final = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"(\xb5/\xfd": ("zstd", "unzstd"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"BZh": ("bzip2", "bunzip2"),
}


@dataclass(frozen=True, slots=True)
class HardLink:
    """One more name of a member that came before."""

    name: bytes
    target: bytes
    at: int


def iter_plain(source: Source, *, is_whole: bool = True) -> Iterator[Member | HardLink]:
    """Yields the members in their order; raises `UnsafeArchive` at the first fault.

    Of an archive that has only begun to come, those whose headers are there.
    """
    _check_unpacked(source)
    yield from _Reading(source, is_whole=is_whole).members()


def _number(field: bytes, name: bytes) -> int:
    """Returns the number in a field: octal, perhaps behind spaces, or binary; nothing is none."""
    if field[0] in (_POSITIVE, _NEGATIVE):
        number = int.from_bytes(field[1:], "big")
        return number if field[0] == _POSITIVE else number - (1 << 8 * (len(field) - 1))
    digits = field.lstrip(b" ")
    return octal(digits, name) if digits.strip(b" \0") else 0


class _Header(Header):
    magics: ClassVar = frozenset({MAGIC, _GNU_MAGIC, _NO_MAGIC})
    number: ClassVar[Callable[[bytes, bytes], int]] = staticmethod(_number)

    def __init__(self, block: bytes) -> None:
        super().__init__(block)
        if self.mode < 0 or self.size < 0:
            raise UnsafeArchive("a mode or size is below nothing", member=self.name)
        self.mode &= MAX_MODE


class _Reading:
    """One pass over the headers, and what was said ahead of the next member."""

    def __init__(self, source: Source, *, is_whole: bool) -> None:
        self._source, self._is_whole = source, is_whole
        self._of_all: dict[bytes, bytes] = {}
        self._records: dict[bytes, bytes] = {}
        self._is_extended = False
        self._room_bytes = _MOST_BESIDE_BYTES

    def members(self) -> Iterator[Member | HardLink]:
        """Yields them."""
        source, at = self._source, 0
        while self._is_there(at, BLOCK_BYTES) and any(block := source.read(at, BLOCK_BYTES)):
            header = _Header(block)
            at, size = at + BLOCK_BYTES, header.size
            if header.type in _BESIDE:
                if not 0 < size <= _MAX_BESIDE_BYTES:
                    raise UnsafeArchive("a header is empty or too large", member=header.name)
                if not self._is_there(at, size):
                    return
                self._room_bytes -= BLOCK_BYTES + size
                if self._room_bytes < 0:
                    raise UnsafeArchive("it has more headers than members", member=header.name)
                self._take(header.type, source.read(at, size))
            else:
                found = self._member(header, at)
                self._room_bytes += _BESIDE_A_MEMBER_BYTES
                size = found.size if isinstance(found, Member) else 0
                if self._is_whole and at + size > source.size:
                    raise UnsafeArchive("it ends before the member does", member=found.name)
                yield found
            at = after(at, size)
        if self._is_whole:
            if self._records or self._is_extended:
                raise UnsafeArchive("its last header describes no member")
            check_end(source, at, most_bytes=_MAX_END_BYTES)

    def _is_there(self, at: int, size: int) -> bool:
        """Says whether so much has come; of what is whole, reading says so."""
        return self._is_whole or at + size <= self._source.size

    def _take(self, kind: bytes, data: bytes) -> None:
        """Takes in what is said of the next member, or of all that follow."""
        if kind == _FOR_ALL:
            for keyword, value in _relevant(data, _ALL_MAY_HAVE):
                self._of_all.pop(keyword, None)  # A later one may say otherwise.
                put_record(self._of_all, keyword, value)
        elif kind == EXTENDED:
            if self._is_extended:
                raise UnsafeArchive("it has a pax header that is doubled")
            self._is_extended = True
            for keyword, value in _relevant(data, _MAY_HAVE):
                put_record(self._records, keyword, value)
        else:
            # In words of pax: said twice, it may not be two things.
            keyword = b"path" if kind == _LONG_NAME else b"linkpath"
            put_record(self._records, keyword, to_text(data))

    def _member(self, header: _Header, at: int) -> Member | HardLink:
        records = self._of_all | self._records
        self._records, self._is_extended = {}, False
        if b"mtime" in records:
            records[b"mtime"] = _FRACTION.sub(rb"\1", records[b"mtime"])
        is_hard = header.type == _HARD_LINK
        if is_hard:
            header.type = MemberKind.LINK.value
        name = records.get(b"path", header.name)
        if header.type == MemberKind.FILE.value and name.endswith(b"/") and not header.size:
            header.type = MemberKind.DIRECTORY.value  # So the oldest format says it.
        member = to_member(header, records, at)
        if is_hard:
            return HardLink(_within(member.name), _within(member.target), at)
        return replace(member, name=_within(member.name))


def _relevant(data: bytes, keywords: frozenset[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yields the records that matter; raises for those that may not be there."""
    for keyword, value in iter_records(data):
        if keyword.startswith(_SPARSE):
            raise UnsafeArchive("it holds a sparse file")
        if keyword in keywords:
            yield keyword, value
        elif keyword in _MAY_HAVE:
            raise UnsafeArchive("a header for all members says what only one can have")


def _within(name: bytes) -> bytes:
    """Returns a name without what says that it begins where the archive is unpacked."""
    while name.startswith(b"./"):
        name = name[2:]
    return name


def _check_unpacked(source: Source) -> None:
    """Raises for what has to be unpacked first, and says how."""
    beginning = source.read(0, min(source.size, BLOCK_BYTES))
    for magic, (kind, command) in _COMPRESSED.items():
        if beginning.startswith(magic):
            hint = f"`{command} -c FILE | holdfast import --files -` unpacks it on the way."
            raise UnsafeArchive(f"it is compressed ({kind})").with_hint(hint)

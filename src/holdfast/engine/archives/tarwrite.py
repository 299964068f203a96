"""Writes tar files that ordinary tools read, the same bytes for the same members.

The format is pax: a ustar header for each member, and before it, where that cannot say all, a
header of text records (long names, names that are not ASCII, times finer than a second, sizes
from 8 GiB on). Names that are not UTF-8 are written as they are, under `hdrcharset=BINARY`.
Owners are left out: every member belongs to user and group 0, without names.

Written by hand, not with `tarfile`: importing that takes 17 ms, which every program that uses
holdfast would pay for, and its bytes may differ from one Python to the next.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import BinaryIO, Final

from holdfast.engine.archives.archivefile import error_of
from holdfast.engine.archives.tarread import (
    BLOCK_BYTES,
    EXTENDED,
    MAGIC,
    MOTION_RECORD,
    TWIN_RECORD,
    MemberKind,
)

_FIELD_LIMIT: Final = 8**11
"""Sizes and times from here on do not fit into the eleven digits that a header has."""

_NAME_BYTES: Final = 100
_SECOND_NS: Final = 10**9
_RECORDS_NAME: Final = b"././@PaxHeader"
_RECORDS_MODE: Final = 0o644
_LINK_MODE: Final = 0o777


class TarWriter:
    """A tar file in the making; `finish` ends it."""

    def __init__(self, file: BinaryIO, *, path: str) -> None:
        self._file = file
        self._path = path

    def add_file(
        self,
        name: bytes,
        content: Iterable[bytes],
        *,
        size: int,
        mode: int,
        mtime_ns: int = 0,
        twin: bytes = b"",
        in_motion: bool = False,
    ) -> None:
        """Adds a regular file; the content has to have the size.

        One of several names of a file is written whole, with `twin` beside it: other tools
        unpack a file of its own. One that is `in_motion` may be a mixture, and says so.
        """
        more = {TWIN_RECORD: twin} if twin else {}
        more |= {MOTION_RECORD: b"1"} if in_motion else {}
        self._add(name, MemberKind.FILE, size=size, mode=mode, mtime_ns=mtime_ns, more=more)
        for part in content:
            self._write(part)
        self._write(bytes(-size % BLOCK_BYTES))

    def add_link(self, name: bytes, target: bytes, *, mtime_ns: int) -> None:
        """Adds a symbolic link."""
        self._add(name, MemberKind.LINK, target=target, mode=_LINK_MODE, mtime_ns=mtime_ns)

    def add_directory(self, name: bytes, *, mode: int) -> None:
        """Adds a directory, without what is in it."""
        self._add(name + b"/", MemberKind.DIRECTORY, mode=mode)

    def finish(self) -> None:
        """Writes the two blocks that end a tar file."""
        self._write(bytes(2 * BLOCK_BYTES))

    def _add(
        self,
        name: bytes,
        kind: MemberKind,
        *,
        mode: int,
        size: int = 0,
        mtime_ns: int = 0,
        target: bytes = b"",
        more: Mapping[bytes, bytes] = MappingProxyType({}),
    ) -> None:
        seconds = mtime_ns // _SECOND_NS
        records: dict[bytes, bytes] = {}
        if not _fits(name):
            records[b"path"] = name
        if not _fits(target):
            records[b"linkpath"] = target
        records.update(more)
        if records and not all(_is_utf8(value) for value in records.values()):
            records = {b"hdrcharset": b"BINARY", **records}
        if size >= _FIELD_LIMIT:
            records[b"size"] = b"%d" % size
        if mtime_ns % _SECOND_NS or not 0 <= seconds < _FIELD_LIMIT:
            records[b"mtime"] = _to_decimal(mtime_ns)
        if records:
            self._write(_extended(records))
        self._write(
            _header(
                name,
                kind.value,
                mode=mode,
                size=size if size < _FIELD_LIMIT else 0,
                mtime=min(max(seconds, 0), _FIELD_LIMIT - 1),
                target=target,
            )
        )

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as exc:
            raise error_of(exc, self._path) from exc


def _header(
    name: bytes, kind: bytes, *, mode: int, size: int, mtime: int = 0, target: bytes = b""
) -> bytes:
    before = b"".join(
        (
            name[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
            b"%07o\0" % mode,
            b"%07o\0" % 0,
            b"%07o\0" % 0,
            b"%011o\0" % size,
            b"%011o\0" % mtime,
        )
    )
    after = b"".join((kind, target[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"), MAGIC))
    after = after.ljust(BLOCK_BYTES - len(before) - 8, b"\0")
    # The sum is over the header with spaces where the sum itself will stand.
    return before + b"%06o\0 " % (sum(before) + sum(after) + 8 * ord(" ")) + after


def _extended(records: dict[bytes, bytes]) -> bytes:
    data = b"".join(_record(keyword, value) for keyword, value in records.items())
    header = _header(_RECORDS_NAME, EXTENDED, mode=_RECORDS_MODE, size=len(data))
    return header + data + bytes(-len(data) % BLOCK_BYTES)


def _record(keyword: bytes, value: bytes) -> bytes:
    """Returns `length keyword=value` and a newline; the length counts its own digits."""
    body = b" " + keyword + b"=" + value + b"\n"
    length = len(body)
    while len(text := b"%d" % length + body) != length:
        length = len(text)
    return text


def _to_decimal(mtime_ns: int) -> bytes:
    seconds, fraction = divmod(abs(mtime_ns), _SECOND_NS)
    return b"%s%d.%09d" % (b"-" if mtime_ns < 0 else b"", seconds, fraction)


def _fits(text: bytes) -> bool:
    return len(text) <= _NAME_BYTES and text.isascii()


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True

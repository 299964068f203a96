"""The bytes of a log: a header that names it, then records. No files here, no clock.

They are documented in `docs/format.md`. Each record has a CRC-32 over its length, its content
and what was synced before it, which begins with the log's name and the record's place: what an
earlier log, or another place of this one, has left behind never counts. A checksum finds
accidents; who can write to the vault needs no trick, so a longer or keyed one would add nothing
but time.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from holdfast.errors import Damaged, VaultTooNew

MAGIC: Final = b"hfstore\n"
VERSION: Final = 1
LONGEST: Final = (1 << 32) - 1
"""The most that one record may hold."""

_HEADER: Final = struct.Struct("<8sII")
"""Magic, version, length of the name that follows; then a CRC-32 of all that."""
_FIELDS: Final = struct.Struct("<IQ")
"""Of a record, after its checksum: its length, and up to where the log had been synced."""
_WORD: Final = struct.Struct("<I")
_BEFORE: Final = _WORD.size + _FIELDS.size
_ALIGNED: Final = 8
_PADS: Final = tuple(bytes(-size % _ALIGNED) for size in range(_ALIGNED))


class LogName(msgspec.Struct, frozen=True):
    """Which log it is: no other has this name. And the namespace whose changes it holds."""

    name: str
    namespace: str

    @property
    def salt(self) -> int:
        """What the checksums of this log begin with."""
        return crc32(self.name.encode())


class LogRecord(NamedTuple):
    """A record that was read: its content, and where it ends."""

    payload: bytes
    end: int


def encode_header(named: LogName) -> bytes:
    """Returns what a log begins with."""
    name = msgspec.msgpack.encode(named)
    data = _HEADER.pack(MAGIC, VERSION, len(name)) + name
    data += _WORD.pack(crc32(data))
    return data + _PADS[len(data) % _ALIGNED]


def decode_header(data: bytes) -> tuple[LogName, int]:
    """Returns which log it is, and where its first record begins."""
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise Damaged("the store's log does not begin as a log does")
    _, version, length = _HEADER.unpack_from(data)
    if version > VERSION:
        raise VaultTooNew("the store's log", found=version, known=VERSION)
    end = _HEADER.size + length
    if end + _WORD.size > len(data) or _word(data, end) != crc32(data[:end]):
        raise Damaged("the beginning of the store's log cannot be read")
    named = msgspec.msgpack.decode(data[_HEADER.size : end], type=LogName)
    return named, _aligned(end + _WORD.size)


def encode_record(payload: bytes, *, at: int, synced: int, salt: int) -> bytes:
    """Returns the bytes of a record that is to stand at a place of the log with that salt."""
    body = _FIELDS.pack(len(payload), synced) + payload
    crc = crc32(body, (salt + at) & LONGEST)
    return _WORD.pack(crc) + body + _PADS[(_BEFORE + len(payload)) % _ALIGNED]


def read_records(data: bytes, start: int, *, salt: int) -> list[LogRecord]:
    """Returns the records from a place on.

    What an interrupted write has left ends them. Raises `Damaged` if a record that had been
    synced cannot be read.
    """
    found = list(_iter_records(data, start, salt))
    _check_tail(data, found[-1].end if found else start, salt)
    return found


def _iter_records(data: bytes, at: int, salt: int) -> Iterator[LogRecord]:
    while (payload := _find_record(data, at, salt)) is not None:
        at = _aligned(at + _BEFORE + len(payload))
        yield LogRecord(payload, at)


def _find_record(data: bytes, at: int, salt: int) -> bytes | None:
    """Returns the content of the record that begins here; None if none does."""
    if at + _BEFORE > len(data):
        return None
    length, _ = _FIELDS.unpack_from(data, at + _WORD.size)
    end = at + _BEFORE + length
    if not length or end > len(data):
        return None
    body = data[at + _WORD.size : end]
    if _word(data, at) != crc32(body, (salt + at) & LONGEST):
        return None
    return body[_FIELDS.size :]


def _check_tail(data: bytes, end: int, salt: int) -> None:
    """Raises `Damaged` if a record after the last that can be read says that it was synced.

    An interrupted write leaves part of a record, or of some that were to be synced together. A
    record further on that was written when this place had been synced proves something else.
    """
    for at in range(end + _ALIGNED, len(data.rstrip(b"\0")), _ALIGNED):
        if at + _BEFORE > len(data):
            return
        _, synced = _FIELDS.unpack_from(data, at + _WORD.size)
        if end < synced <= at and _find_record(data, at, salt) is not None:
            message = f"the store's log cannot be read at {end}, and goes on at {at}"
            raise Damaged(message)


def _word(data: bytes, at: int) -> int:
    return _WORD.unpack_from(data, at)[0]


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED

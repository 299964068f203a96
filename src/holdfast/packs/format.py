"""The fixed parts of a pack: its header, its footer, and the numbers behind its shape.

All integers are big-endian. A pack is read from its end: the footer says where the index
is and what it hashes to, the index says where everything else is. So a pack that was cut
short has no footer and is recognised at once.

Not here: compression (`frames.py`), the index itself (`index.py`).
"""

import enum
import struct
from typing import Final

import msgspec

from holdfast.errors import PackDamaged, VaultTooNew

MAGIC: Final = b"HFPK"
FORMAT_VERSION: Final = 1

PACK_TARGET_BYTES: Final = 32 * 1024 * 1024
"""Where a writer closes a pack: large enough that a bucket is not asked for every few files,
small enough to be built in memory and rewritten by collection in about a second."""

MAX_PLAIN_BYTES: Final = 64 * 1024 * 1024
"""The most that one block, or the index, may hold uncompressed. It bounds what a hostile
frame can make a reader allocate; the largest legal object has to fit, and does, by far."""


class ObjectKind(enum.Enum):
    """What an object is, which decides the objects it shares a block with."""

    CHUNK = "chunk"
    NODE = "node"


BLOCK_TARGET_BYTES: Final = {ObjectKind.CHUNK: 128 * 1024, ObjectKind.NODE: 16 * 1024}
"""Plain bytes per block. Reading one object unpacks its whole block.

Chunks are mostly read in runs: 128 KB costs 1 % more space than 256 KB and reads one random
file in 183 µs instead of 468. Nodes are read one by one, at random: source code in blocks
of 16 KB takes 18 % more space than in blocks of 128 KB, and unpacks in 28 µs instead of 145.
"""

_HEADER: Final = struct.Struct(">4sB3s")
_FOOTER: Final = struct.Struct(">QI32s4s")
HEADER_BYTES: Final = _HEADER.size
FOOTER_BYTES: Final = _FOOTER.size


class Footer(msgspec.Struct, frozen=True):
    """Where the index is, and what its stored bytes hash to."""

    index_offset: int
    index_size: int
    index_hash: bytes


def encode_header() -> bytes:
    """Returns the first bytes of every pack."""
    return _HEADER.pack(MAGIC, FORMAT_VERSION, bytes(3))


def check_header(header: bytes, *, pack: str) -> None:
    """Raises unless these are the first bytes of a pack that this version can read."""
    if len(header) != HEADER_BYTES:
        raise PackDamaged(pack, reason=f"it has no header: {len(header)} bytes")
    magic, version, reserved = _HEADER.unpack(header)
    if magic != MAGIC:
        raise PackDamaged(pack, reason="it does not begin like a pack")
    # Before the reserved bytes: a later version may have found a use for them.
    if version > FORMAT_VERSION:
        raise VaultTooNew(f"pack {pack}", found=version, known=FORMAT_VERSION)
    if version != FORMAT_VERSION or any(reserved):
        raise PackDamaged(pack, reason="its header is not one that was ever written")


def encode_footer(footer: Footer) -> bytes:
    """Returns the last bytes of a pack."""
    return _FOOTER.pack(footer.index_offset, footer.index_size, footer.index_hash, MAGIC)


def decode_footer(data: bytes, *, size: int, pack: str) -> Footer:
    """Returns the footer of a pack of `size` bytes.

    Raises `PackDamaged` unless the index ends where the footer begins. That it begins where
    the blocks end is the first rule of the index.
    """
    if len(data) != FOOTER_BYTES:
        raise PackDamaged(pack, reason=f"it has no footer: {len(data)} bytes")
    index_offset, index_size, index_hash, magic = _FOOTER.unpack(data)
    if magic != MAGIC:
        raise PackDamaged(pack, reason="it does not end like a pack: cut short, or overwritten")
    if index_offset + index_size + FOOTER_BYTES != size:
        raise PackDamaged(pack, reason=f"its index cannot be at {index_offset}+{index_size}")
    return Footer(index_offset, index_size, index_hash)

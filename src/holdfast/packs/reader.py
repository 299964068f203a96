"""Reads packs: one object through its placement, or the index of a whole pack.

Reading an object is `cut(read_block(stored))`: the caller fetches the block's stored bytes
by its placement with one ranged read, and may keep the plain block for its neighbours.

An object that comes back has the hash that names it. Everything else raises: `PackDamaged`
when a part of the pack cannot be read, `ObjectDamaged` when the bytes are not the object's,
`VaultTooNew` when a later version wrote the pack. Nothing here trusts a byte it was given.
"""

from collections.abc import Callable

from blake3 import blake3

from holdfast.errors import ObjectDamaged, PackDamaged
from holdfast.ids import object_id_of
from holdfast.model.basics import Placement
from holdfast.packs.format import (
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_PLAIN_BYTES,
    check_header,
    decode_footer,
)
from holdfast.packs.frames import decompress
from holdfast.packs.index import PackIndex, decode_index

RangeReader = Callable[[int, int], bytes]
"""Returns that many bytes of a pack from that offset on: `(start, length) -> bytes`."""


def read_block(stored: bytes, *, pack: str) -> bytes:
    """Returns the plain bytes of a stored block; raises `PackDamaged` if it is none."""
    return decompress(stored, pack=pack, what="a block")


def cut(block: bytes, placement: Placement, *, pack: str) -> bytes:
    """Returns the object from its plain block.

    Raises `ObjectDamaged` unless the bytes found there hash to the object's id.
    """
    data = block[placement.offset : placement.offset + placement.size]
    if object_id_of(data) != placement.object_id:
        raise ObjectDamaged(placement.object_id, where=f"pack {pack}")
    return data


def read_index(read: RangeReader, *, size: int, pack: str) -> list[Placement]:
    """Returns where every object of a pack of `size` bytes is, in three ranged reads.

    Raises `PackDamaged` or `VaultTooNew`; what `read` raises passes through.
    """
    return load_index(read, size=size, pack=pack).placements()


def parse_index(data: bytes, *, pack: str) -> list[Placement]:
    """Returns where every object is, given the whole pack; raises as `read_index` does."""
    return load_index(ranges_of(data), size=len(data), pack=pack).placements()


def load_index(
    read: RangeReader, *, size: int, pack: str, most: int = MAX_PLAIN_BYTES
) -> PackIndex:
    """Returns the checked index with its table of blocks; raises as `read_index` does.

    An index of more than `most` bytes is not unpacked.
    """
    if size < HEADER_BYTES + FOOTER_BYTES:
        raise PackDamaged(pack, reason=f"{size} bytes are too few for a pack")
    check_header(read(0, HEADER_BYTES), pack=pack)
    footer = decode_footer(read(size - FOOTER_BYTES, FOOTER_BYTES), size=size, pack=pack)
    # Incompressible content grows by less than a hundredth in a frame. Anything beyond twice
    # the cap is not worth fetching: the footer may ask for 4 GB.
    if footer.index_size > 2 * MAX_PLAIN_BYTES:
        raise PackDamaged(pack, reason=f"its index claims {footer.index_size} bytes")
    stored = read(footer.index_offset, footer.index_size)
    if blake3(stored).digest() != footer.index_hash:
        raise PackDamaged(pack, reason="its index does not hash to what the footer says")
    return decode_index(stored, index_offset=footer.index_offset, pack=pack, most=most)


def ranges_of(data: bytes) -> RangeReader:
    """Returns a ranged reader over bytes at hand."""

    def read(start: int, length: int) -> bytes:
        return data[start : start + length]

    return read

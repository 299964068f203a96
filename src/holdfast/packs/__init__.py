"""The pack file: many objects written once, each readable with one ranged read.

    header   8 bytes     "HFPK", version, three zero bytes
    blocks   back to back, each one zstd frame of several objects' plain bytes
    index    zstd frame of msgpack: where every block and every object is
    footer  48 bytes     where the index is, its BLAKE3, "HFPK"

Three promises. A pack describes itself: from its bytes alone follows what it holds and
where, so the catalog's object index can be rebuilt. What comes out is what went in: every
object is hashed again when it is cut from its block. And hostile bytes cost an error, not
the process: whatever stands in a pack, reading it returns the object or raises
`PackDamaged`, `ObjectDamaged` or `VaultTooNew`, and takes bounded memory.

Bytes in, bytes out: where packs live is `holdfast.blobs`, which objects go into which pack
is the engine's business. `docs/format.md` has the bytes.

Modules: `format` (header, footer, constants), `frames` (zstd, kept on a short lead),
`index` (the table of blocks and objects), `writer`, `reader`, `check` (for `verify`).
"""

from holdfast.packs.format import (
    BLOCK_TARGET_BYTES,
    FORMAT_VERSION,
    MAX_PLAIN_BYTES,
    PACK_TARGET_BYTES,
    ObjectKind,
)
from holdfast.packs.reader import (
    Damage,
    RangeReader,
    check_pack,
    cut,
    parse_index,
    read_block,
    read_index,
)
from holdfast.packs.writer import Pack, PackBuilder, pack_all

__all__ = [
    "BLOCK_TARGET_BYTES",
    "FORMAT_VERSION",
    "MAX_PLAIN_BYTES",
    "PACK_TARGET_BYTES",
    "Damage",
    "ObjectKind",
    "Pack",
    "PackBuilder",
    "RangeReader",
    "check_pack",
    "cut",
    "pack_all",
    "parse_index",
    "read_block",
    "read_index",
]

"""Short states compressed for their rows: text takes six tenths of its bytes then.

Each version of a short state repeats all of it, and so does the row of what is pending. As all
that is special to rows, this ends where the plane begins: see `planes/overlays.py`.
"""

import threading
from typing import Final

import zstandard

from holdfast.entries import (
    INLINE_TAG,
    Inline,
    Overlay,
    Packed,
    Submap,
    decode_row_state,
    encode_entry,
    tag_of,
)
from holdfast.errors import Damaged

LEAST_BYTES: Final = 256
"""Shorter entries gain little."""

MOST_BYTES: Final = 64 << 10
"""What a frame may claim to hold: many times what any short state has."""

LEVEL: Final = 1
"""1 KB takes 7 µs, and 17 at level 3, which makes it no smaller."""

StateEntry = Inline | Submap | Overlay
"""What the state of a session is."""


def packed(entry: bytes) -> bytes:
    """Returns what a row has for a state: the same, or something shorter."""
    if len(entry) < LEAST_BYTES or tag_of(entry) != INLINE_TAG:
        return entry
    made = encode_entry(Packed(_local.compressor.compress(entry)))
    return made if len(made) < len(entry) else entry


def decode_state(data: bytes) -> StateEntry:
    """Returns the entry of a session's state; raises `Damaged` if these bytes are none."""
    found = decode_row_state(data)
    if not isinstance(found, Packed):
        return found
    inner = decode_row_state(_decompressed(found.frame))
    if not isinstance(inner, Inline):
        raise Damaged("a session's state is packed twice, or need not be")
    return inner


def _decompressed(frame: bytes) -> bytes:
    try:
        # The library allocates what a frame claims: so the claim is checked first.
        claimed = zstandard.get_frame_parameters(frame).content_size
        if claimed > MOST_BYTES:
            raise Damaged("a session's state claims to be longer than a short one")
        return _local.decompressor.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError as exc:
        message = f"a session's state cannot be decompressed: {exc}"
        raise Damaged(message) from exc


class _OnePerThread(threading.local):
    """Two threads must not share one, and to make one takes longer than to use it."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(
            level=LEVEL, write_content_size=True, write_checksum=True
        )
        self.decompressor = zstandard.ZstdDecompressor()


_local: Final = _OnePerThread()

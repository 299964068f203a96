"""Packs wherever they lie: in a copy of a vault, a backup, or what somebody saved of one.

Nothing here is believed. A file is a pack by its name; what is in it is for the reader to prove.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.errors import NotFound, shorten

SUFFIX: Final = ".pack"

MOST_BYTES: Final = 1 << 30
"""A larger file is none of ours: a pack is closed at a thirtieth of it."""


def iter_scattered(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the packs below a place, or the one that it is; raises `NotFound` if it is none.

    What cannot be read is passed over: others may hold the same.
    """
    if not place.exists():
        message = f"{shorten(str(place))}: there is no such place"
        raise NotFound(message).with_hint("Look for it, then say where it is.")
    if place.is_file():
        yield from _read(place)
    for folder, _, names in os.walk(place):
        for name in sorted(names):
            if name.endswith(SUFFIX):
                yield from _read(Path(folder) / name)


def _read(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:
            return
        data = path.read_bytes()
    except OSError:
        return
    yield str(path), data

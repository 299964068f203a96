"""Small packs that lie inside catalogs of other vaults, or in copies of this one's.

The database is read and never changed: it may be the only copy that is left, on a disk that cannot
be written to. What is in it is for the reader to prove.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

SUFFIXES: Final = (".sqlite", ".sqlite3", ".db")

_PACKS: Final = "SELECT p.name, d.data FROM pack_data d JOIN packs p ON p.id = d.pack_id"


def iter_inline_packs(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the packs of every catalog below a place; one that cannot be read is passed over."""
    for folder, _, names in os.walk(place):
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                yield from _packs_in(Path(folder) / name)


def _packs_in(path: Path) -> Iterator[tuple[str, bytes]]:
    # With its log first; on a disk that cannot be written to, without it.
    for mode in ("mode=ro", "mode=ro&immutable=1"):
        uri = f"file:{quote(os.fsencode(path.absolute()))}?{mode}"
        with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
            for name, data in connection.execute(_PACKS):
                if isinstance(data, bytes):
                    yield f"{path}: {name}", data
            return

"""Makes the bytes of a new stat index out of an old one.

Between the folders that are replaced, the old bytes are copied as they are, in runs: what a new
index costs is what changed, and one pass of `memcpy`.
"""

import sys

from holdfast.workspace.statformat import (
    COUNTS,
    HEAD_BYTES,
    ROW,
    TABLE_ROW,
    Folder,
    IndexBytes,
    count_rows,
    encode_folder,
    open_record,
)


class Copy:
    """An index in the making: runs of another one, and new folders between them."""

    def __init__(self, known: IndexBytes) -> None:
        self._known = known
        self._view = memoryview(known.data)
        self._copied = 0
        self._table: list[bytes | memoryview] = []
        self._records: list[bytes | memoryview] = []
        self._folders, self._rows = known.folder_count, known.row_count
        self._files, self._file_bytes = known.files, known.file_bytes

    def skip(self, places: range) -> None:
        """Copies what comes before these folders, and leaves them out."""
        self._copy_until(places.start)
        for place in range(self._copied, places.stop):
            record = self._view[self._known.offsets[place] : self._known.offsets[place + 1]]
            self._count(bytes(record), sign=-1)
        self._copied = max(self._copied, places.stop)

    def put(self, folder: Folder) -> None:
        """Adds a folder."""
        record = encode_folder(folder)
        self._table.append(TABLE_ROW.pack(len(record), len(folder.rows)))
        self._records.append(record)
        self._count(record, sign=1)

    def finish(self, *, meta: bytes) -> bytes:
        """Copies the rest and returns the whole, its head still empty."""
        self._copy_until(self._known.folder_count)
        file_bytes = self._file_bytes.to_bytes(16, sys.byteorder)
        counts = COUNTS.pack(len(meta), self._folders, self._rows, self._files, file_bytes)
        return b"".join((bytes(HEAD_BYTES), counts, meta, *self._table, *self._records))

    def _copy_until(self, place: int) -> None:
        if place > self._copied:
            table_at, size = self._known.table_at, TABLE_ROW.size
            offsets = self._known.offsets
            self._table.append(self._view[table_at + self._copied * size : table_at + place * size])
            self._records.append(self._view[offsets[self._copied] : offsets[place]])
            self._copied = place

    def _count(self, record: bytes, *, sign: int) -> None:
        rows = open_record(record, 0).rows
        files, file_bytes = count_rows(rows)
        self._folders += sign
        self._rows += sign * (len(rows) // ROW.size)
        self._files += sign * files
        self._file_bytes += sign * file_bytes

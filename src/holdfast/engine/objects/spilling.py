"""Where the objects of a batch go that are too many for memory: see `stage.py`."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import IO

from holdfast.errors import StorageFull
from holdfast.ids import ObjectId
from holdfast.packs import ObjectKind, Pack, pack_all

Fresh = dict[ObjectId, tuple[bytes, ObjectKind]]
"""Objects that are in memory, by their names."""


class Spill:
    """Objects on their way into packs, in a thread of their own."""

    def __init__(self, objects: Fresh, announce: Callable[[Pack], None]) -> None:
        self.objects, self._announce = objects, announce
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-spill")
        self._thread.start()

    def join(self) -> None:
        """Waits until the packs are on disk; raises what went wrong."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Waits until nothing is written any more."""
        self._thread.join()

    def _run(self) -> None:
        try:
            for pack in pack_all(self.objects):
                self._announce(pack)
        except BaseException as exc:  # noqa: BLE001 - a test's power cut too: the caller raises it
            self._failure = exc


class Scratch:
    """A file without a name, for objects that are only looked at and are too many for memory."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self.places: dict[ObjectId, tuple[int, int]] = {}

    def put(self, objects: Mapping[ObjectId, tuple[bytes, ObjectKind]]) -> None:
        """Takes objects in; raises `StorageFull` if they do not fit."""
        import tempfile  # noqa: PLC0415 - takes long to load, and is needed by few

        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="holdfast-")  # noqa: SIM115 - `close` does
            at = self._file.seek(0, os.SEEK_END)
            for object_id, (data, _) in objects.items():
                self._file.write(data)
                self.places[object_id] = (at, len(data))
                at += len(data)
            self._file.flush()
        except OSError as exc:
            message = f"no room for what is compared in {tempfile.gettempdir()}: {exc.strerror}"
            raise StorageFull(message) from exc

    def read(self, object_ids: Iterable[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns those of these objects that are in it."""
        if self._file is None:
            return {}
        fd, places = self._file.fileno(), self.places
        return {i: os.pread(fd, places[i][1], places[i][0]) for i in object_ids if i in places}

    def close(self) -> None:
        """Lets the file go."""
        if self._file is not None:
            self._file.close()

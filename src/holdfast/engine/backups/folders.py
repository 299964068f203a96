"""A backup in a directory: a file for each of its files."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.blobs.places import Pieces, Place
from holdfast.engine.backups import files
from holdfast.engine.backups.sealing import SealedPlace
from holdfast.errors.system import translated


def open_folder(path: str, /, *, key: str | None = None) -> Place:
    """Returns a directory as a place for a backup, encrypted if there is a key."""
    place = FolderPlace(Path(path).expanduser())
    return place if key is None else SealedPlace(place, key)


class FolderPlace:
    """A `Place` that is a directory, whose files are their owner's alone."""

    is_remote = is_sealed = is_beside = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.folder)

    def locked(self) -> AbstractContextManager[None]:
        """Makes the directory if need be, and keeps everybody else out of it."""
        return files.locked_folder(self.folder)

    def sizes(self) -> dict[str, int]:
        """Returns every file below the directory."""
        return dict(files.all_files(self.folder))

    def read(self, path: str, /) -> Iterator[bytes] | None:
        """Yields the bytes of a file."""
        found = self.folder / path
        with translated(found):
            return files.read(found) if found.is_file() else None

    def write(self, path: str, pieces: Pieces, /, *, size: int) -> None:  # noqa: ARG002 - as a place has it
        """Writes a file."""
        with self._room():
            files.put(self.folder / path, pieces)

    def copy_pack(self, _name: str, _path: str, /, *, size: int) -> bool:  # noqa: ARG002 - as above
        """Copies nothing: what was read is at hand."""
        return False

    def publish(self, path: str, data: bytes, /, *, over: bytes | None) -> None:  # noqa: ARG002 - it is locked
        """Puts the manifest in the place of the one before: nobody else is there."""
        with self._room():
            files.put(self.folder / path, [data])

    def remove(self, path: str, /) -> None:
        """Removes a file."""
        files.remove(self.folder / path)

    def _room(self) -> AbstractContextManager[None]:
        hint = f"Free space in {self.folder}, or name another place; a backup of before is whole."
        return files.room_in(self.folder, what="the backup", hint=hint)

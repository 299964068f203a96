"""Reads a backup, and hands out nothing that is not as it was put in.

All of it is checked before a vault is made of it: what is incomplete or altered is refused with
nothing written.
"""

from collections.abc import Iterator
from pathlib import Path

from holdfast.engine.backups import files
from holdfast.engine.backups.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    BesideFile,
    CatalogFile,
    Manifest,
    PackFile,
    decode_manifest,
    hash_of,
)
from holdfast.errors import BackupDamaged
from holdfast.progress import Progress, no_progress


class Backup:
    """A backup in a directory, whose manifest is sound."""

    def __init__(self, folder: Path) -> None:
        """Raises `BackupDamaged` if there is none, or its manifest is not as it was written."""
        self.folder = folder.absolute()
        path = self.folder / MANIFEST_NAME
        with files.translated(path):
            size = path.stat().st_size if path.is_file() else None
        if size is None:
            raise BackupDamaged(str(self.folder), reason="it is no backup, or was never finished")
        if size > MAX_MANIFEST_BYTES:
            raise BackupDamaged(MANIFEST_NAME, reason=f"it has {size} bytes")
        self.manifest: Manifest = decode_manifest(files.read_if_there(path) or b"")

    @property
    def catalog(self) -> Path:
        """Where its rows are."""
        return self.folder / self.manifest.catalog.file

    def check(self, *, progress: Progress = no_progress) -> None:
        """Raises `BackupDamaged` unless every file is there, as long and with the bytes it had."""
        manifest = self.manifest
        named: list[tuple[str, CatalogFile | PackFile | BesideFile]] = [
            (manifest.catalog.file, manifest.catalog),
            *((file.path, file) for file in manifest.packs),
            *((file.file, file) for file in manifest.beside),
        ]
        for at, (path, file) in enumerate(named):
            progress("backup", at, len(named))
            if not (self.folder / path).is_file():
                raise BackupDamaged(path, reason="it is not there")
            if files.measure(self.folder / path) != (file.size, file.hash):
                raise BackupDamaged(path, reason="it is not as it was written")

    def packs(self, *, progress: Progress = no_progress) -> Iterator[tuple[PackFile, bytes]]:
        """Yields every pack with its bytes, checked once more."""
        for at, file in enumerate(self.manifest.packs):
            progress("packs", at, len(self.manifest.packs))
            yield file, self._read(file.path, file)

    def beside(self) -> Iterator[tuple[BesideFile, bytes]]:
        """Yields what lies beside the catalog, checked once more."""
        for file in self.manifest.beside:
            yield file, self._read(file.file, file)

    def _read(self, path: str, file: PackFile | BesideFile) -> bytes:
        data = files.read_if_there(self.folder / path)
        if data is None or (len(data), hash_of(data)) != (file.size, file.hash):
            raise BackupDamaged(path, reason="it is not as it was written")
        return data

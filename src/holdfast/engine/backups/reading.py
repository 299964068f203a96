"""Reads a backup, and hands out nothing that is not as it was put in.

What is incomplete or altered is refused before a vault is made of it. Of what lies in a bucket, it
is first seen that all of it is there, as long as it was: each file is proven on its way, so that
nothing is fetched twice, and none of it is a vault before all was.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from blake3 import blake3

from holdfast.blobs.places import Place, plain_folder
from holdfast.engine.backups import files
from holdfast.engine.backups.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    BesideFile,
    CatalogFile,
    Manifest,
    PackFile,
    decode_manifest,
)
from holdfast.engine.backups.sealing import is_sealed
from holdfast.errors import BackupDamaged, BackupLocked
from holdfast.errors.system import translated
from holdfast.progress import Progress, no_progress

NamedFile = CatalogFile | PackFile | BesideFile


def read_manifest(place: Place) -> tuple[bytes, Manifest] | None:
    """Returns the manifest of the backup in a place, as bytes and as what they say; None for none.

    Raises `BackupLocked` without its key, `BackupDamaged` if it is not as it was written.
    """
    pieces = place.read(MANIFEST_NAME)
    if pieces is None:
        return None
    data = bytearray()
    for piece in pieces:
        data += piece
        if len(data) > MAX_MANIFEST_BYTES:
            raise BackupDamaged(
                MANIFEST_NAME, reason=f"it has more than {MAX_MANIFEST_BYTES} bytes"
            )
    whole = bytes(data)
    if is_sealed(whole):
        raise BackupLocked(f"the backup in {place.name} is encrypted, and no key was given")
    return whole, decode_manifest(whole)


class Backup:
    """A backup in a place, whose manifest is sound."""

    def __init__(self, place: Place) -> None:
        """Raises `BackupDamaged` if there is none, or its manifest is not as it was written."""
        self._place = place
        found = read_manifest(place)
        if found is None:
            raise BackupDamaged(place.name, reason="it is no backup, or was never finished")
        self.manifest: Manifest = found[1]

    @property
    def name(self) -> str:
        """Where it is."""
        return self._place.name

    def check(self, *, progress: Progress = no_progress) -> None:
        """Raises `BackupDamaged` unless every file is there, as long and with the bytes it had."""
        manifest = self.manifest
        named: list[tuple[str, NamedFile]] = [
            (manifest.catalog.file, manifest.catalog),
            *((file.path, file) for file in manifest.packs),
            *((file.file, file) for file in manifest.beside),
        ]
        sizes = self._place.sizes() if self._place.is_remote else None
        for at, (path, file) in enumerate(named):
            progress("backup", at, len(named))
            if sizes is None:
                for _ in self._read(path, file):
                    pass
            elif path not in sizes:
                raise BackupDamaged(path, reason="it is not there")
            elif sizes[path] != file.size:
                raise BackupDamaged(path, reason="it is not as it was written")

    def packs(self, *, progress: Progress = no_progress) -> Iterator[tuple[PackFile, bytes]]:
        """Yields every pack with its bytes, checked once more."""
        for at, file in enumerate(self.manifest.packs):
            progress("packs", at, len(self.manifest.packs))
            yield file, b"".join(self._read(file.path, file))

    def beside(self) -> Iterator[tuple[BesideFile, bytes]]:
        """Yields what lies beside the catalog, checked once more."""
        for file in self.manifest.beside:
            yield file, b"".join(self._read(file.file, file))

    def copy_rows(self, target: Path) -> None:
        """Copies the rows to where nobody looks yet, checked once more."""
        catalog = self.manifest.catalog
        files.fill(target, self._read(catalog.file, catalog))

    @contextmanager
    def rows(self) -> Generator[BinaryIO]:
        """Lends a file with the rows: that of the backup itself, where it is one.

        Else it has no name: what was encrypted is nowhere to be read, also if we are killed.
        """
        from tempfile import TemporaryFile, gettempdir  # noqa: PLC0415 - by who brings backups back

        catalog, folder = self.manifest.catalog, plain_folder(self._place)
        with ExitStack() as stack:
            with files.room_for_rows(folder), translated(folder or gettempdir()):
                if folder is not None:
                    file = stack.enter_context((folder / catalog.file).open("rb"))
                else:
                    file = stack.enter_context(TemporaryFile())
                    file.writelines(self._read(catalog.file, catalog))
                    file.seek(0)
            yield file

    def _read(self, path: str, file: NamedFile) -> Iterator[bytes]:
        """Yields the bytes of a file; raises after the last of them, if they are others."""
        pieces = self._place.read(path)
        if pieces is None:
            raise BackupDamaged(path, reason="it is not there")
        digest, size = blake3(), 0
        for piece in pieces:
            digest.update(piece)
            size += len(piece)
            if size > file.size:
                break
            yield piece
        if (size, digest.hexdigest()) != (file.size, file.hash):
            raise BackupDamaged(path, reason="it is not as it was written")

"""Packs a folder into a plain tar file, for a server that shall have exactly its files."""

import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from holdfast.errors.system import from_system
from holdfast.progress import Progress
from holdfast.wiring import open_vault


@contextmanager
def packed(folder: Path, *, progress: Progress) -> Generator[BinaryIO]:
    """Opens a tar file with all that is in a folder; it goes with the block.

    The folder is read as an engine reads it, into a vault of its own: what cannot be read is an
    error, what was in motion says so, and names of one file stay together.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.TemporaryFile(prefix="holdfast-packed-"))
            place = tempfile.TemporaryDirectory(prefix="holdfast-packing-")
        except OSError as exc:
            raise from_system(exc, "a folder could not be packed") from exc
        with place as vault_folder, open_vault(vault_folder) as vault:
            agent = vault.namespace("packed")
            agent.import_files(folder, progress=progress)
            agent.export_files(file)
        file.seek(0)
        yield file

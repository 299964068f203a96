"""Packs a folder into a plain tar file, for a server that shall have exactly its files."""

import os
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO

from holdfast.errors import HoldfastError, InvalidValue, shorten
from holdfast.errors.system import from_system
from holdfast.progress import Progress
from holdfast.sdk.content import local_error
from holdfast.wiring import open_vault


def pack(folder: Path, *, progress: Progress) -> BinaryIO:
    """Returns a tar file with all that is in a folder, open at its beginning; it has no name.

    The folder is read as an engine reads it, into a vault of its own: what cannot be read is an
    error, what was in motion says so, and names of one file stay together.
    """
    try:
        file = tempfile.TemporaryFile(prefix="holdfast-packed-")  # noqa: SIM115 - the caller's
        place = tempfile.TemporaryDirectory(prefix="holdfast-packing-")
    except OSError as exc:
        raise from_system(exc, "a folder could not be packed") from exc
    with ExitStack() as failed:
        failed.callback(file.close)
        with place as vault_folder, open_vault(vault_folder) as vault:
            agent = vault.namespace("packed")
            agent.import_files(folder, progress=progress)
            agent.export_files(file)
        file.seek(0)
        failed.pop_all()
    return file


@contextmanager
def ready(source: str | os.PathLike[str], *, progress: Progress) -> Generator[Path]:
    """Yields a file that can be sent: the one that is named, or a tar file with a folder's files.

    What cannot be read fails here, before anybody was told of it.
    """
    path = Path(source).expanduser()
    with ExitStack() as stack:
        try:
            if os.path.isdir(path):  # noqa: PTH112 - of a name that is too long, it says no
                path = stack.enter_context(_named(pack(path, progress=progress)))
            else:
                path.open("rb").close()
        except OSError as exc:
            raise local_error(exc, path) from exc
        except ValueError as exc:
            if isinstance(exc, HoldfastError):
                raise
            message = f"{shorten(str(path))}: {exc}"
            raise InvalidValue(message) from exc
        yield path


@contextmanager
def _named(file: BinaryIO) -> Generator[Path]:
    """Yields a file of the same content that has a name, for as long as the block lasts."""
    with file, tempfile.NamedTemporaryFile(prefix="holdfast-packed-", suffix=".tar") as named:
        copyfileobj(file, named)
        named.flush()
        yield Path(named.name)

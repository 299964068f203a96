"""Packs a folder into a plain tar file, for a server that shall have exactly its files."""

import os
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from holdfast.errors import InvalidValue, shorten
from holdfast.errors.system import translated
from holdfast.progress import Progress
from holdfast.sdk.content import local_error
from holdfast.wiring import open_vault


@contextmanager
def packed(folder: Path, *, progress: Progress) -> Generator[BinaryIO]:
    """Opens a tar file with all that is in a folder, at its beginning; it goes with the block.

    The folder is read as an engine reads it, into a vault of its own: what cannot be read is an
    error, what was in motion says so, and names of one file stay together.
    """
    with ExitStack() as stack:
        with translated("a folder could not be packed"):
            named = stack.enter_context(tempfile.NamedTemporaryFile(prefix="holdfast-packed-"))
            place = tempfile.TemporaryDirectory(prefix="holdfast-packing-")
        file = cast("BinaryIO", named)
        with place as vault_folder, open_vault(vault_folder) as vault:
            agent = vault.namespace("packed")
            agent.import_files(folder, progress=progress)
            agent.export_files(file)
        file.seek(0)
        yield file


@contextmanager
def ready(source: str | os.PathLike[str], *, progress: Progress) -> Generator[Path]:
    """Yields a file that can be sent: the one that is named, or a tar file with a folder's files.

    What cannot be read fails here, before anybody was told of it.
    """
    path = Path(source).expanduser()
    if os.path.isdir(path):  # noqa: PTH112 - of a name that is too long, it says no
        with packed(path, progress=progress) as file:
            yield Path(file.name)
        return
    try:
        path.open("rb").close()
    except OSError as exc:
        raise local_error(exc, path) from exc
    except ValueError as exc:
        message = f"{shorten(str(path))}: {exc}"
        raise InvalidValue(message) from exc
    yield path

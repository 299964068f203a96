"""How much of a directory one answer lists."""

from typing import Final

from holdfast.engine.browsing import Listing, browse
from holdfast.engine.files import FilesReader

MAX_ENTRIES: Final = 1000
MAX_LEVELS: Final = 20


def list_directory(files: FilesReader, folder: str, *, recursive: bool) -> Listing:
    """Lists a directory; raises `PathNotFound` or `NotADirectory`."""
    return browse(files, folder, most=MAX_ENTRIES, levels=MAX_LEVELS if recursive else 1)

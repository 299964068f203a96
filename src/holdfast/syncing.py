"""Makes the names in a folder durable: a new file is there after a power cut if both are synced."""

import os


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Puts on the disk what a folder says of its files: their names."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

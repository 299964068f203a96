"""Archives as tests take them apart and put them together again: by Python's own `tarfile`."""

import io
import tarfile
from pathlib import Path

Members = list[tuple[str, bytes]]
"""The names and contents of an archive's files, in their order."""


def read_members(path: Path) -> Members:
    """Returns what an archive holds, without its directories and links."""
    with tarfile.open(path) as tar:
        files = [(member.name, tar.extractfile(member)) for member in tar.getmembers()]
        return [(name, file.read()) for name, file in files if file is not None]


def write_members(path: Path, members: Members, *, modified_s: int = 0) -> Path:
    """Writes an archive whose agent's files are all as old as one; returns its path."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            info.mtime = modified_s if name.startswith("files/") else 0
            tar.addfile(info, io.BytesIO(data))
    return path

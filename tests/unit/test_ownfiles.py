"""Small files are read whole, and closed."""

import os
from pathlib import Path

import pytest

from holdfast.ownfiles import read_small


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_a_file_is_read_to_its_end(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert read_small(tmp_path / "file") == data


def test_a_file_of_the_system_is_read_that_has_no_size() -> None:
    path = Path("/proc/self/status")
    if not path.exists():
        pytest.skip("there is none here")
    assert path.stat().st_size == 0
    assert read_small(path).startswith(b"Name:")


def test_what_is_no_file_is_an_error_and_stays_open_for_nobody(tmp_path: Path) -> None:
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        read_small(tmp_path)
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert again == lowest

"""`holdfast` in directories with much in them: sound is never called damaged, counts are exact."""

import os
from pathlib import Path
from random import Random

import pytest

from .test_cli import Session

MIB = 1 << 20


@pytest.fixture
def user(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_a_diff_beside_a_large_file_that_was_touched(user: Session) -> None:
    big = user.project / "big.bin"
    big.write_bytes(Random(1).randbytes(72 * MIB))
    lines = "".join(f"line {number}\n" for number in range(30_000))
    user.write("idx", lines)
    user.ok("init", "-q")

    os.utime(big)
    user.write("idx", lines + "x\n")
    patch = user.ok("diff").out
    assert "+x\n" in patch
    assert "big.bin" not in patch

    assert "All is well" in user.ok("verify").out

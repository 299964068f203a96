"""Who is interrupted while it waits for its turn to write has nobody's lock, and frees none."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from fcntl import LOCK_EX, LOCK_UN, flock
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.sqlite import SqliteCatalog


@pytest.fixture
def alarm() -> Iterator[None]:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def write(catalog: SqliteCatalog, name: str) -> None:
    with catalog.write() as transaction:
        transaction.add_tenant(name, public_id=name, now=datetime.now(UTC))


@pytest.mark.usefixtures("alarm")
def test_a_wait_that_is_interrupted_leaves_all_locks_as_they_are(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        write(catalog, "one")
        other = os.open(tmp_path / "locks" / "write", os.O_RDWR)
        flock(other, LOCK_EX)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            write(catalog, "two")
        writer = catalog.writer  # Its lock is the next file that is opened.
        # Still it is another's turn.
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            write(catalog, "two")
        flock(other, LOCK_UN)
        write(catalog, "two")
        assert FileLocks(tmp_path / "locks").is_taken(writer)
        with catalog.lock("collect-1"):
            write(catalog, "three")
            with FileLocks(tmp_path / "locks").trying("collect-1") as is_free:
                assert not is_free
        os.close(other)
        kept = cast("Any", catalog)._turns._kept
        assert os.fstat(kept).st_ino == (tmp_path / "locks" / "write").stat().st_ino

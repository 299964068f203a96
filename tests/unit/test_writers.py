"""What a head says of its writers, and what is remembered of tasks."""

import sqlite3
from contextlib import closing
from contextvars import Context
from pathlib import Path

import pytest

import holdfast
from holdfast import running
from holdfast.errors import Damaged


@pytest.mark.parametrize("mark", ["{", "[1]x", '["many",[]]'])
def test_a_mark_that_cannot_be_read_is_damage(tmp_path: Path, mark: str) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("alice").files.write("a.txt", "a")
    with closing(sqlite3.connect(tmp_path / "vault" / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE namespaces SET writer = ?", (mark,))
    with holdfast.open(tmp_path / "vault") as vault, pytest.raises(Damaged, match="alice"):
        vault.namespace("alice").files.write("a.txt", "b")


def test_a_task_that_is_over_leaves_nothing_behind() -> None:
    def work() -> None:
        outer, other = running.Door(), running.Door()
        outer.enter("task-a")
        other.enter("task-b")
        outer.enter("task-c")
        outer.leave("task-c")
        assert outer.within() == ("task-a",)
        other.leave("task-b")
        outer.leave("task-a")
        assert outer.within() == other.within() == ()
        assert running._paths() == {}

    Context().run(work)

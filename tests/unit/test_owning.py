"""What it costs that a task knows what it changed: nothing outside of tasks, a step within one."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.testing.faults import Fuse, FusedCatalog

Act = Callable[[Any, int], object]

ACTS: dict[str, Act] = {
    # One by itself is written in a shorter way, but not in a task.
    "store.set_many": lambda agent, n: agent.store.set_many([("n", "k", n), ("n", "l", n)]),
    "store.delete": lambda agent, n: agent.store.delete("n", f"d{n}"),
    "files.write": lambda agent, n: agent.files.write("f", f"{n}"),
    "files.move": lambda agent, n: agent.files.move(f"m{n}", f"n{n}"),
    "update_state": lambda agent, n: agent.sessions.update_state("s", {"v": n}),
    "add_turn": lambda agent, n: agent.sessions.add_turn("s", "i", f"{n}"),
}


class Steps(Fuse):
    """Notes each step, and never blows."""

    def __init__(self) -> None:
        super().__init__(0)
        self.names: list[str] = []

    def step(self, name: str, /) -> None:
        """Notes a step."""
        self.names.append(name)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_change_in_a_task_takes_one_step_more(tmp_path: Path, act: Act) -> None:
    steps = Steps()
    with closing(SqliteCatalog(tmp_path)) as catalog:
        context = Context.of(catalog, MemoryBlobStore(), limits=Limits(free_floor_bytes=0))
        # Without what was remembered of a write before: each looks for itself.
        fused = replace(context.without_caches(), catalog=FusedCatalog(catalog, steps))

        def opened() -> Namespace:
            return Holdfast(fused).namespace("agent")

        agent, outside = opened(), opened()
        agent.sessions.create("a", session_id="s")
        for number in range(3):
            agent.store.set("n", f"d{number}", 1)
            agent.files.write(f"m{number}", "1")
        agent.store.get("n", "nothing")  # What is pending is added up once, by who comes first.

        def counted(agent: Namespace, number: int) -> list[str]:
            steps.names.clear()
            act(agent, number)
            return [*steps.names]

        with agent.task("around"), agent.task("work"):
            act(agent, 0)
            plain, own = counted(outside, 1), counted(agent, 2)
    assert "transaction.put_task_changes" not in plain
    assert own.count("transaction.put_task_changes") == 1
    assert [name for name in own if name != "transaction.put_task_changes"] == plain

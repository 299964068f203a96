"""Whatever order tasks worked in, `keep="mine"` takes back what is theirs and names what stays."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Name
from holdfast.errors import NothingToUndo, OthersChanged

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agents(opens: Callable[[], Any]) -> list[Any]:
    found = [opens() for _ in range(3)]
    found[0].store.set("n", "k", 0)
    return found


def store(agent: Any) -> dict[str, Any]:
    return {key: agent.store.get("n", key) for key in agent.store.keys("n")}


def test_what_tasks_did_over_each_other_goes_back_in_the_order_of_their_writes(
    agents: list[Any],
) -> None:
    first, second, me = agents
    before = me.snapshot("before")
    with first.task("first"), second.task("second"):
        second.store.set("n", "k", 1)
        second.store.set("n", "l", 1)
        first.store.set("n", "k", 2)
        first.store.set("n", "l", 2)
    me.store.set("n", "l", 3)
    for dry_run in (True, False):
        done = me.restore(before, keep="mine", dry_run=dry_run)
        assert done.left == ["store:n/l"]
    assert store(me) == {"k": 0, "l": 3}


def test_what_stays_does_not_move_half_of_the_way(agents: list[Any]) -> None:
    first, second, me = agents
    before = me.snapshot("before")
    with first.task("first"):
        first.store.set("n", "k", 1)
        first.store.set("n", "own", 1)
        me.store.set("n", "k", 2)
        first.store.set("n", "k", 3)
    with second.task("second"):
        second.store.set("n", "k", 4)
        second.store.set("n", "own", 2)
    done = me.restore(before, keep="mine")
    assert (done.left, store(me)) == (["store:n/k"], {"k": 4})


def test_what_two_tasks_changed_there_and_back_is_looked_at_once(agents: list[Any]) -> None:
    first, second, me = agents
    before = me.snapshot("before")
    with first.task("first"), second.task("second"):
        first.store.set("n", "k", 1)
        second.store.set("n", "k", 0)
        second.store.set("n", "l", 1)
        first.store.set("n", "l", 2)
        second.store.set("n", "m", 1)
        me.store.set("n", "m", 2)
    done = me.restore(before, keep="mine")
    assert (done.left, store(me)) == (["store:n/m"], {"k": 0, "m": 2})


def test_of_a_task_that_began_before_what_it_did_since_goes_back(agents: list[Any]) -> None:
    agent, _, me = agents
    with agent.task("ended before"):
        agent.store.set("n", "early", 1)
    with agent.task("spans"):
        agent.store.set("n", "k", 1)
        agent.store.set("n", "again", 1)
        me.store.set("n", "both", 0)
        before = me.snapshot("before")
        agent.store.set("n", "z", 1)
        agent.store.set("n", "again", 2)
        agent.store.set("n", "both", 1)
        me.store.set("n", "mine", 1)
    done = me.restore(before, keep="mine")
    # What it did to `again` before and after may be others' work in between: nobody noted that.
    assert done.left == ["store:n/again"]
    assert store(me) == {"early": 1, "k": 1, "again": 2, "both": 0, "mine": 1}


def test_a_task_that_still_runs_is_no_reason_to_say_that_there_is_nothing(
    agents: list[Any],
) -> None:
    agent, _, me = agents
    with agent.task("runs"):
        before = me.snapshot("before")
        agent.store.set("n", "k", 1)
        me.restore(before, keep="mine")
        assert store(me) == {"k": 0}
        with pytest.raises(NothingToUndo, match="is there any more"):
            me.restore(before, keep="mine")


def test_a_task_by_hand_beside_others_is_left_and_stands_in_nobodys_way(
    agents: list[Any],
) -> None:
    agent, other, me = agents
    before = me.snapshot("before")
    run = agent.tasks.start("by hand")
    agent.store.set("n", "k", 1)
    me.store.set("n", "z", 1)
    with other.task("named"):
        other.store.set("n", "named", 1)
    agent.tasks.complete(run.id)
    me.store.set("n", "later", 1)
    with pytest.raises(OthersChanged) as caught:
        me.undo(task=run.id)
    assert caught.value.by == []
    done = me.restore(before, keep="mine")
    assert done.left == ["store:n/k", "store:n/z"]
    assert store(me) == {"k": 1, "z": 1, "later": 1}
    with pytest.raises(NothingToUndo, match="others' work"):
        me.undo(task=run.id, keep_mine=True)
    me.restore(before, names=[Name.value("n", "k")])
    assert store(me) == {"k": 0, "z": 1, "later": 1}


def test_a_task_by_hand_that_runs_is_passed_by(agents: list[Any]) -> None:
    agent, other, me = agents
    before = me.snapshot("before")
    agent.tasks.start("by hand")
    agent.store.set("n", "k", 1)
    with other.task("named"):
        other.store.set("n", "named", 1)
    done = me.restore(before, keep="mine")
    assert (done.left, store(me)) == (["store:n/k"], {"k": 1})

"""Steps that only read see one moment, whether they are one or several."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidValue
from holdfast.integrations.doors import Door, Steps

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("alice")


class Counted:
    """A store that counts how often a moment of it is opened."""

    def __init__(self, store: Any) -> None:
        self._store, self.opened = store, 0

    def still(self) -> Any:
        self.opened += 1
        return self._store.still()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_a_single_step_opens_no_moment_of_its_own(agent: holdfast.Namespace) -> None:
    agent.store.set("topic", "key", 1)
    store = Counted(agent.store)

    def steps() -> Steps[int]:
        return (yield lambda store: store.get("topic", "key"))

    def none() -> Steps[int]:
        if store.opened < 0:
            yield lambda store: store.get("topic", "key")
        return 7

    assert Door(agent).read_one(steps, store) == 1
    assert Door(agent).read_one(none, store) == 7
    assert store.opened == 0


def test_several_are_done_anew_and_see_one_moment(agent: holdfast.Namespace) -> None:
    agent.store.set("topic", "key", 0)
    begun = list[int]()

    def steps() -> Steps[tuple[int, int]]:
        begun.append(1)
        first = yield lambda store: store.get("topic", "key")
        agent.store.set("topic", "key", first + 1)
        second = yield lambda store: store.get("topic", "key")
        return first, second

    store = Counted(agent.store)
    assert Door(agent).read_one(steps, store) == (1, 1)
    assert (len(begun), store.opened) == (2, 1)


def test_what_a_step_raises_is_raised(agent: holdfast.Namespace) -> None:
    def steps() -> Steps[None]:
        yield lambda store: store.keys("topic", limit=-1)

    with pytest.raises(InvalidValue):
        Door(agent).read_one(steps)

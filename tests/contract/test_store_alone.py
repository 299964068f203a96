"""A value that is put by itself, where who puts it may know how it left the namespace.

Whoever else has written, what is there is what the next one writes upon, and all of it is counted.
"""

from collections.abc import Callable

import pytest

import holdfast
from holdfast.errors import NotAsExpected, QuotaExceeded
from holdfast.model.values import ABSENT
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch()


def values(agent: holdfast.Namespace) -> dict[str, str]:
    return dict(agent.store.items("t"))


def test_what_is_put_in_turns_is_there_and_is_counted(opener: Opener) -> None:
    one, two = (opener().namespace("alice") for _ in range(2))
    wanted = dict[str, str]()
    for number in range(6):
        for agent, key, text in (
            (one, f"a{number}", "new"),
            (one, f"b{number}", "new " * 200),
            (two, f"a{number}", "another's " * 100),
            (one, "same", f"{number}" * number),
        ):
            agent.store.set("t", key, text)
            wanted[key] = text
        if number == 3:
            one.snapshot()
            two.store.batch(set=[("t", "a1", "not this")], keep=True)
            two.store.set("t", "a2", "over what the snapshot holds")
            two.store.delete("t", "a3")
            two.store.set("t", "a3", "anew")
            wanted |= {"a2": "over what the snapshot holds", "a3": "anew"}
    assert values(one) == values(two) == wanted
    fresh = opener().namespace("bob")
    fresh.store.set_many([("t", key, text) for key, text in wanted.items()])
    assert one.size() == fresh.size()
    one.snapshot()  # Refused if a row were missing of those that were counted.
    assert values(opener().namespace("alice")) == wanted


def test_who_was_alone_and_is_no_more_writes_upon_what_is_there(opener: Opener) -> None:
    one, two = (opener().namespace("alice") for _ in range(2))
    wanted = {f"k{number}": "one's" for number in range(12)}
    for key in wanted:
        one.store.set("t", key, "one's")
        if key in ("k4", "k8"):
            two.store.set("t", f"k{int(key[1:]) + 1}", "two's" * 10)
    two.store.set("t", "l", "two's")
    assert one.store.batch(set=[("t", "l", "not this")], keep=True).set == 0
    assert one.store.batch(set=[("t", "m", "one's")], keep=True).set == 1
    wanted |= {"l": "two's", "m": "one's"}
    assert values(one) == values(two) == wanted
    size = sum(len(holdfast.dumps(text)) for text in wanted.values())
    assert (one.size().entries, one.size().bytes) == (len(wanted), size)
    one.snapshot()


def test_a_value_is_put_only_over_what_is_expected(opener: Opener) -> None:
    one, two = (opener().namespace("alice") for _ in range(2))
    one.store.set("t", "k", "first")
    one.store.set("t", "new", "put", expected=ABSENT)
    found = one.store.find("t", "k")
    assert found is not None
    two.store.set("t", "k", "second")
    with pytest.raises(NotAsExpected):
        one.store.set("t", "k", "third", expected=found.tag)
    with pytest.raises(NotAsExpected):
        one.store.set("t", "new", "again", expected=ABSENT)
    assert values(two) == {"k": "second", "new": "put"}


def test_what_others_decide_holds_for_the_next_write(opener: Opener) -> None:
    vault, other = opener(), opener()
    agent, same = vault.namespace("alice"), other.namespace("alice")
    agent.store.set("t", "first", "x")
    agent.store.set("t", "second", "x")
    same.set_quota(100)
    with pytest.raises(QuotaExceeded):
        agent.store.set("t", "large", "x" * 100)
    same.set_quota(None)
    agent.store.set("t", "large", "x" * 100)
    other.set_quota(1)
    with pytest.raises(QuotaExceeded):
        agent.store.set("t", "more", "x")
    other.set_quota(None)
    agent.store.set("t", "more", "x")
    other.delete_namespace("alice")
    agent.store.set("t", "anew", "x")
    assert values(same) == {"anew": "x"}

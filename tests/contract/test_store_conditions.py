"""What the store promises to several who write at once, on either database."""

from collections.abc import Callable
from threading import Thread

import pytest

import holdfast
from holdfast.errors import InvalidValue, NotAsExpected
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]

ROUNDS = 12


@pytest.fixture
def clock() -> Watch:
    return Watch()


def at_once(opener: Opener, work: Callable[[holdfast.Namespace, int], None]) -> None:
    """Has two do the same, each with an engine of its own: as two processes."""
    agents = [opener().namespace("alice") for _ in range(2)]
    failures = list[BaseException]()

    def run(number: int) -> None:
        try:
            work(agents[number], number)
        except BaseException as exc:
            failures.append(exc)
            raise

    threads = [Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_no_two_who_append_get_the_same_number(opener: Opener) -> None:
    taken = list[str]()

    def work(agent: holdfast.Namespace, number: int) -> None:
        for at in range(ROUNDS):
            # One of them longer than what is kept in a row, so that it is staged before.
            taken.extend(agent.store.append("l", [[number, at], "x" * 3000 * number]))

    at_once(opener, work)
    found = opener().namespace("alice").store.items("l")
    assert sorted(taken) == [key for key, _ in found] == [f"{n:016}" for n in range(4 * ROUNDS)]
    for number in range(2):
        mine = [value for _, value in found if value[:1] == [number]]
        assert mine == [[number, at] for at in range(ROUNDS)]


def test_a_list_without_a_number_left_takes_no_more(opener: Opener) -> None:
    store = opener().namespace("alice").store
    store.set("l", "9" * 16, "last")
    with pytest.raises(InvalidValue):
        store.append("l", ["beyond"])
    assert store.items("l") == [("9" * 16, "last")]


def test_of_those_who_expect_the_same_one_writes(opener: Opener) -> None:
    opener().namespace("alice").store.set("n", "k", 0)

    def work(agent: holdfast.Namespace, _number: int) -> None:
        done = 0
        while done < ROUNDS:
            found = agent.store.find("n", "k")
            assert found is not None
            try:
                agent.store.set("n", "k", found.value + 1, expected=found.tag)
            except NotAsExpected:
                continue
            done += 1

    at_once(opener, work)
    assert opener().namespace("alice").store.get("n", "k") == 2 * ROUNDS


def test_of_those_who_expect_nothing_one_writes(opener: Opener) -> None:
    won = list[int]()

    def work(agent: holdfast.Namespace, number: int) -> None:
        for at in range(ROUNDS):
            try:
                agent.files.write(f"{at}.txt", f"by {number}", expected=holdfast.ABSENT)
            except NotAsExpected:
                continue
            won.append(at)

    at_once(opener, work)
    assert sorted(won) == list(range(ROUNDS))


def test_what_is_expected_where_nothing_is(opener: Opener) -> None:
    vault = opener()
    agent = vault.namespace("new")
    with pytest.raises(NotAsExpected):
        agent.store.set_many([], delete=[("n", "k")], expected=[("n", "k", "0" * 32)])
    with pytest.raises(NotAsExpected):
        agent.files.write_many([], delete=["a"], expected=[("a", "0" * 32)])
    agent.store.set_many([], delete=[("n", "k")], expected=[("n", "k", holdfast.ABSENT)])
    assert vault.namespaces() == []


def test_a_tag_outlives_a_snapshot(opener: Opener) -> None:
    store = opener().namespace("alice").store
    for value in ("short", "x" * 300, "x" * 5000, "x" * 200_000):
        store.set("n", "k", value)
        before = store.find("n", "k")
        store.snapshot()
        assert before is not None
        assert store.find("n", "k") == before
        store.set("n", "k", [value], expected=before.tag)
        with pytest.raises(NotAsExpected):
            store.set("n", "k", value, expected=before.tag)

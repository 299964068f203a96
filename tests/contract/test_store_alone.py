"""A value that is put by itself, where who puts it may know how it left the namespace.

Whoever else has written, what is there is what the next one writes upon, and all of it is counted.
"""

from collections.abc import Callable, Mapping

import pytest

import holdfast
from holdfast.engine.core.recent import MOST_TAGS
from holdfast.engine.store import writing
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


def test_tags_of_what_is_put_are_those_that_are_found(opener: Opener) -> None:
    store = opener().namespace("alice").store
    sizes = (0, 300, 5_000, 16_000, 20_000, 300_000)
    wanted = [("t", f"k{size}", "x" * size) for size in sizes]
    for several in ([each] for each in wanted):
        [(namespace, key, text)] = several
        done = store.batch(set=several, get=[(namespace, key)])
        assert done.values == [store.find(namespace, key)]
        assert done.values[0] is not None
        assert done.values[0].value == text
    keys = [(namespace, key) for namespace, key, _ in wanted]
    assert store.batch(set=wanted, get=keys).values == store.find_many(keys)
    [kept] = store.batch(set=[("t", "k300", "other")], get=[("t", "k300")], keep=True).values
    assert kept == store.find("t", "k300")
    put = holdfast.dumps("packed")
    [raw] = store.batch(put=[("t", "raw", put)], get=[("t", "raw")], raw=True).values
    assert raw == store.raw.find("t", "raw")
    [gone] = store.batch(set=[("t", "k0", 1)], delete=[("t", "k0")], get=[("t", "k0")]).values
    assert gone is None


def put_next(agent: holdfast.Namespace, key: str, expected: dict[str, str]) -> str:
    """Puts a value if others are as expected; returns its tag."""
    tags = [("t", name, tag) for name, tag in expected.items()]
    done = agent.store.batch(set=[("t", key, "one's")], expected=tags, get=[("t", key)])
    [found] = done.values
    assert found is not None
    assert found.tag is not None
    return found.tag


def test_what_this_process_has_put_is_expected_without_a_look(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = opener().namespace("alice")
    agent.store.set("t", "a", "one's")
    tag = put_next(agent, "b", {"sign": ABSENT})
    tag = put_next(agent, "c", {"sign": ABSENT, "b": tag})
    looks, check = list[object](), writing.check_expected

    def counting(expected: Mapping[bytes, str], found: Mapping[bytes, bytes]) -> None:
        looks.append(expected)
        check(expected, found)

    monkeypatch.setattr(writing, "check_expected", counting)
    for number in range(2 * MOST_TAGS):
        tag = put_next(agent, f"d{number:02}", {"sign": ABSENT, key_before(number): tag})
        agent.store.set("t", f"d{number:02}w", "beside it")
    assert looks == []


def key_before(number: int) -> str:
    return f"d{number - 1:02}" if number else "c"


OTHERS: dict[str, Callable[[holdfast.Namespace], object]] = {
    "change it": lambda two: two.store.set("t", "b", "two's"),
    "put it again": lambda two: (two.store.delete("t", "b"), two.store.set("t", "b", "two's")),
    "delete it": lambda two: two.store.delete("t", "b"),
    "delete all": lambda two: two.store.delete_prefix("t"),
    "put the sign": lambda two: two.store.set("t", "sign", "two's"),
    "go back": lambda two: two.restore(two.timeline()[-1]),
    "go back by themselves": lambda two: two.store.restore(two.timeline()[-1]),
}


@pytest.mark.parametrize("own", [False, True], ids=["others", "itself"])
@pytest.mark.parametrize("act", OTHERS)
def test_what_others_have_changed_is_not_believed(opener: Opener, act: str, own: bool) -> None:
    one = opener().namespace("alice")
    two = one if own else opener().namespace("alice")
    one.store.set("t", "a", "one's")
    one.snapshot()
    tag = put_next(one, "b", {"sign": ABSENT})
    expected = {"sign": ABSENT, "b": put_next(one, "b", {"sign": ABSENT, "b": tag})}
    put_next(one, "c", expected)
    OTHERS[act](two)
    for _ in range(2):
        with pytest.raises(NotAsExpected):
            put_next(one, "d", expected)
    assert one.store.get("t", "d") is None


def test_who_takes_snapshots_writes_upon_what_they_hold(opener: Opener) -> None:
    one, two = (opener().namespace("alice") for _ in range(2))
    wanted, tag = dict[str, str](), ABSENT
    for number in range(8):
        for key in (f"a{number}", f"b{number}"):
            one.store.set("t", key, "one's")
            one.store.batch(set=[("t", key, "not this"), ("t", f"{key}x", "one's")], keep=True)
            one.store.batch(set=[("t", f"{key}y", "one's" * 100)], keep=True)
            wanted |= {key: "one's", f"{key}x": "one's", f"{key}y": "one's" * 100}
        tag = put_next(one, f"c{number}", {"sign": ABSENT, f"c{number - 1}": tag})
        wanted |= {f"c{number}": "one's"}
        if number % 3 == 1:
            two.store.set("t", f"a{number}", "two's")
            two.files.write("a.txt", f"{number}")
            wanted[f"a{number}"] = "two's"
        one.snapshot()
        if number % 3 == 2:
            two.store.set("t", f"c{number}x", "two's")
            two.snapshot()
            wanted |= {f"c{number}x": "two's"}
    assert values(one) == values(two) == wanted
    size = sum(len(holdfast.dumps(text)) for text in wanted.values()) + 1
    assert (one.size().entries, one.size().bytes) == (len(wanted) + 1, size)
    kept = one.snapshot()
    one.store.set("t", "d", "later")
    one.restore(kept)
    one.store.set("t", "e", "last")
    with pytest.raises(NotAsExpected):
        put_next(one, "f", {"d": tag})
    assert values(opener().namespace("alice")) == {**wanted, "e": "last"}
    one.snapshot()

"""One suite for swarmstate's `Store` and for ours, with the compiled core and with the other.

What swarmstate 0.11 does is shown by running it: code that was written for it runs with ours.
Where ours does more, or is stricter, the test says so and leaves the peer out.
"""

import copy
import inspect
import pickle
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import swarmstate
from hypothesis import given
from hypothesis import strategies as st
from swarmstate.integrations.crewai import SwarmStateStorage

import holdfast
from holdfast import store as compiled
from holdfast.errors import HoldfastError, Unencodable
from holdfast.testing.cores import load_interpreted_store

interpreted = load_interpreted_store()
IS_COMPILED = compiled.Store.__base__ is not interpreted.Store.__base__
OURS: dict[str, Any] = {
    "compiled": pytest.param(
        compiled, marks=pytest.mark.skipif(not IS_COMPILED, reason="no compiler was at hand")
    ),
    "interpreted": interpreted,
}
every = pytest.mark.parametrize("ss", [swarmstate, *OURS.values()], ids=["swarmstate", *OURS])
ours = pytest.mark.parametrize("ss", OURS.values(), ids=OURS)

Attempt = Callable[[Any, Any], object]
NAMED: dict[str, Attempt] = {
    "set": lambda store, name: store.set(name, "k", 1),
    "set by key": lambda store, name: store.set("n", name, 1),
    "get": lambda store, name: store.get(name, "k"),
    "get by key": lambda store, name: store.get("n", name),
    "set_many": lambda store, name: store.set_many([("n", "new", 1), (name, "k", 1)]),
    "set_many by key": lambda store, name: store.set_many([("n", "new", 1), ("n", name, 1)]),
    "get_many": lambda store, name: store.get_many([("n", "k"), (name, "k")]),
    "get_many by key": lambda store, name: store.get_many([("n", "k"), ("n", name)]),
    "contains": lambda store, name: store.contains(name, "k"),
    "contains by key": lambda store, name: store.contains("n", name),
    "delete": lambda store, name: store.delete(name, "k"),
    "delete by key": lambda store, name: store.delete("n", name),
    "keys": lambda store, name: store.keys(name),
    "max_key": lambda store, name: store.max_key(name),
    "in": lambda store, name: name in store,
}
PREFIXED: dict[str, Attempt] = {
    "keys": lambda store, prefix: store.keys("n", prefix),
    "namespaces": lambda store, prefix: store.namespaces(prefix),
}
NAMED_ONLY_BY_US: dict[str, Attempt] = {
    "items": lambda store, name: store.items(name),
    "put": lambda store, name: store.put(name, "k", b"\x01"),
    "put by key": lambda store, name: store.put("n", name, b"\x01"),
    "put_many": lambda store, name: store.put_many([("n", "new", b"\x01"), (name, "k", b"\x01")]),
    "put_many by key": lambda store, name: store.put_many(
        [("n", "new", b"\x01"), ("n", name, None)]
    ),
    "snapshot.get": lambda store, name: store.snapshot().get(name, "k"),
    "snapshot.get by key": lambda store, name: store.snapshot().get("n", name),
    "snapshot.get_data": lambda store, name: store.snapshot().get_data(name, "k"),
    "snapshot.get_data by key": lambda store, name: store.snapshot().get_data("n", name),
    "snapshot.items": lambda store, name: store.snapshot().items(name),
    "at.get": lambda store, name: store.at(store.snapshot()).get("n", name),
}
PREFIXED_ONLY_BY_US: dict[str, Attempt] = {
    "items": lambda store, prefix: store.items("n", prefix),
    "items of all": lambda store, prefix: store.items(prefix=prefix),
    "snapshot.items": lambda store, prefix: store.snapshot().items("n", prefix),
}
NOT_TEXT = [None, 1, b"n", ("n",), ["n"], object()]
HALF_A_CHARACTER = ["\ud800", "n\udfff", "\ud83d\ude00"]


def shown(value: Any) -> str:
    """Returns a test's name for a value: without addresses, which differ from run to run."""
    return re.sub(r" at 0x\w+", "", ascii(value))[:40]


def content(store: Any) -> dict[tuple[str, str], Any]:
    """Everything that is in a store, by the methods that the peer has as well."""
    pairs = [(name, key) for name in store.namespaces() for key in store.keys(name)]
    assert len(pairs) == len(set(pairs)) == len(store)
    assert sorted(store.snapshot().keys) == sorted(pairs)
    return dict(zip(pairs, store.get_many(pairs), strict=True))


def sorted_lists(changes: dict[str, list[tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    return {kind: sorted(pairs) for kind, pairs in changes.items()}


# Making one


@every
def test_a_new_store_is_empty(ss: Any) -> None:
    store = ss.Store()
    assert (len(store), store.namespaces(), store.history(), bool(store)) == (0, [], [], False)
    assert (store.codec, store.max_history) == ("msgpack", 0)
    store.set("n", "k", None)
    assert bool(store)


@every
def test_there_is_one_backend_and_one_codec(ss: Any) -> None:
    assert ss.Store("memory", "msgpack", 3).max_history == 3
    assert ss.Store(backend="memory", codec="msgpack", max_history=None).max_history is None
    for wrong in ({"backend": "redis"}, {"codec": "json"}, {"backend": ""}, {"codec": "pickle"}):
        ((option, name),) = wrong.items()
        with pytest.raises(ValueError, match=f"{option} '{name}'"):
            ss.Store(**wrong)


@every
def test_max_history_is_a_number_from_0_on_or_none(ss: Any) -> None:
    # The peer's number is unsigned, and Rust overflows; ours is a value out of its range.
    with pytest.raises(ValueError if ss is not swarmstate else OverflowError):
        ss.Store(max_history=-1)
    for wrong in (1.5, "1"):
        with pytest.raises(TypeError):
            ss.Store(max_history=wrong)
    with pytest.raises(TypeError):
        ss.Store(unknown=1)


@every
@pytest.mark.parametrize("name", ["codec", "max_history"])
def test_what_a_store_was_made_with_cannot_be_changed(ss: Any, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(ss.Store(), name, None)


@every
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_store_is_not_copied_by_accident(ss: Any, copied: Callable[[Any], object]) -> None:
    # Half a copy would share what the other writes to.
    for each in (ss.Store(), ss.Store().snapshot()):
        with pytest.raises((TypeError, pickle.PicklingError)):
            copied(each)


@every
def test_stores_are_equal_to_themselves_alone(ss: Any) -> None:
    store, other = ss.Store(), ss.Store()
    assert store == store  # noqa: PLR0124 - that is the question
    assert store != other
    assert len({store, other}) == 2
    with pytest.raises(TypeError):
        iter(store)


@every
def test_a_store_and_a_snapshot_tell_what_they_are(ss: Any) -> None:
    store = ss.Store()
    store.set("secret", "k", "secret")
    snapshot = store.snapshot()
    assert repr(store).startswith("Store(")
    assert "entries=1" in repr(store)
    assert repr(snapshot) == "Snapshot(id=1, size_bytes=7, parent=None)"
    assert "secret" not in repr(store) + repr(snapshot)


@ours
def test_ours_can_be_extended(ss: Any) -> None:
    class Counting(ss.Store):
        def __init__(self) -> None:
            super().__init__(max_history=1)
            self.reads = 0

        def get(self, namespace: str, key: str, default: Any = None) -> Any:
            self.reads += 1
            return super().get(namespace, key, default)

    store = Counting()
    store.set("n", "k", 1)
    assert store.get("n", "k") == store.get("n", "k") == 1
    assert (store.reads, store.max_history) == (2, 1)
    assert repr(store).startswith("Counting(")


# Values by namespace and key


@every
def test_what_was_set_is_got(ss: Any) -> None:
    store = ss.Store()
    assert store.set("n", "k", {"step": 3}) is None
    assert store.get("n", "k") == {"step": 3}
    store.set("n", "k", [4])
    assert store.get("n", "k") == [4]
    assert content(store) == {("n", "k"): [4]}


@every
def test_what_is_missing_is_none_or_the_default(ss: Any) -> None:
    store, default = ss.Store(), object()
    store.set("n", "k", None)
    assert store.get("n", "missing") is None
    assert store.get("missing", "k") is None
    assert store.get("n", "missing", default) is default
    assert store.get("missing", "k", default=default) is default
    assert store.get("n", "k", default) is None, "None is a value"
    assert store.contains("n", "k")


@every
def test_arguments_have_names(ss: Any) -> None:
    store = ss.Store()
    store.set(namespace="n", key="k", value=1)
    store.set_many(items=[("n", "l", 2)])
    assert store.get(namespace="n", key="k", default=None) == 1
    assert store.get_many(pairs=[("n", "l")]) == [2]
    assert store.contains(namespace="n", key="k")
    assert store.keys(namespace="n", prefix="k") == ["k"]
    assert store.max_key(namespace="n") == "l"
    assert store.namespaces(prefix="n") == ["n"]
    snapshot = store.snapshot()
    assert store.delete(namespace="n", key="k")
    assert store.snapshot().diff(base=snapshot)["removed"] == [("n", "k")]
    store.restore(snapshot=snapshot)
    assert ss.loads(data=ss.dumps(obj=[1])) == [1]


@every
@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.set("n", "k"),
        lambda store: store.set("n", "k", 1, 2),
        lambda store: store.set("n", "k", unknown=1),
        lambda store: store.set("n", "k", 1, namespace="n"),
        lambda store: store.get("n"),
        lambda store: store.get("n", "k", 1, 2),
        lambda store: store.get("n", "k", other=1),
        lambda store: store.get("n", "k", key="k"),
        lambda store: store.get_many(),
        lambda store: store.get_many([], []),
        lambda store: store.set_many(),
        lambda store: store.contains("n"),
        lambda store: store.delete("n", "k", "l"),
        lambda store: store.keys(),
        lambda store: store.keys("n", "k", "l"),
        lambda store: store.max_key(),
        lambda store: store.namespaces("n", "m"),
        lambda store: store.clear(1),
        lambda store: store.snapshot("label"),
        lambda store: store.restore(),
        lambda store: store.history(1),
        lambda store: store.clear_history(1),
        lambda store: store.snapshot().diff(),
    ],
)
def test_wrong_arguments_are_a_type_error(ss: Any, call: Callable[[Any], object]) -> None:
    store = ss.Store()
    store.set("n", "k", 0)
    with pytest.raises(TypeError):
        call(store)
    assert content(store) == {("n", "k"): 0}


@every
def test_values_are_isolated(ss: Any) -> None:
    store, value = ss.Store(), {"list": [1]}
    store.set("n", "k", value)
    value["list"].append(2)
    assert store.get("n", "k") == {"list": [1]}
    store.get("n", "k")["list"].append(3)
    store.get_many([("n", "k")])[0]["list"].append(4)
    assert store.get("n", "k") == {"list": [1]}


@every
def test_a_value_that_cannot_be_stored_changes_nothing(ss: Any) -> None:
    store = ss.Store()
    store.set("n", "k", 1)
    with pytest.raises(TypeError) as caught:
        store.set("n", "k", {"deep": [object()]})
    with pytest.raises(TypeError):
        store.set("new", "k", object())
    assert content(store) == {("n", "k"): 1}
    if ss is not swarmstate:  # Ours names the place; `tests/unit/test_store_values.py` has more.
        assert isinstance(caught.value, Unencodable)
        assert isinstance(caught.value, HoldfastError)
        assert "['deep'][0]" in str(caught.value)


@every
@pytest.mark.parametrize("form", [list, tuple])
def test_many_are_set_in_their_order(ss: Any, form: Callable[[Any], Any]) -> None:
    store = ss.Store()
    store.set("n", "b", 0)
    assert (
        store.set_many(form([("n", "a", 1), ("n", "b", 2), ("m", "a", 3), ("n", "a", 4)])) is None
    )
    assert content(store) == {("n", "a"): 4, ("n", "b"): 2, ("m", "a"): 3}
    store.set_many(form([]))
    assert len(store) == 3


@ours
def test_ours_takes_any_iterable_of_many(ss: Any) -> None:
    store = ss.Store()
    store.set_many(("n", str(number), number) for number in range(100))
    store.set_many({("m", "k", 1): None})
    assert store.get_many(("n", str(number)) for number in range(100)) == list(range(100))
    assert store.get_many(iter([("m", "k"), ("m", "l")])) == [1, None]


@every
@pytest.mark.parametrize(
    "wrong",
    [
        [("n", "new", 1), ("n", "other", object())],
        [("n", "k", 2), ("n", "new", 1), ("n", "other", {"a": [object()]})],
        [("n", "new", 1), ("n", "other")],
        [("n", "new", 1), ("n", "other", 1, 1)],
        [("n", "new", 1), ()],
        [("n", "new", 1), None],
        [("n", "new", 1), 1],
        [("n", "new", 1), "abc"],
        [("n", "new", 1), ("n", 1, 1)],
        [("n", "new", 1), ("n", "\ud800", 1)],
        None,
        1,
    ],
)
def test_many_are_set_all_or_none(ss: Any, wrong: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "k", 1), ("gone", "k", 1)])
    store.delete("gone", "k")
    with pytest.raises((TypeError, ValueError)):
        store.set_many(wrong)
    assert content(store) == {("n", "k"): 1}


@ours
def test_an_iterable_that_fails_sets_nothing(ss: Any) -> None:
    def broken(first: Any) -> Any:
        yield first
        raise LookupError("half-way")

    store = ss.Store()
    for attempt, first in (
        (store.set_many, ("n", "new", 1)),
        (store.put_many, ("n", "new", b"\x01")),
        (store.get_many, ("n", "new")),
    ):
        with pytest.raises(LookupError, match="half-way"):
            attempt(broken(first))
    assert content(store) == {}


@every
def test_many_are_got_in_the_order_asked_for(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "a", 1), ("n", "b", None), ("m", "a", [3])])
    asked = [("m", "a"), ("n", "missing"), ("n", "a"), ("missing", "a"), ("n", "b"), ("m", "a")]
    first, *others, last = store.get_many(asked)
    assert (first, *others, last) == ([3], None, 1, None, None, [3])
    assert first is not last, "values are isolated, also from each other"
    assert store.get_many([]) == []
    assert store.get_many(()) == []


@every
@pytest.mark.parametrize(
    "wrong", [None, 1, [1], [None], ["nk"], [("n",)], [("n", "k", "l")], [("n", 1)]]
)
def test_what_is_not_a_list_of_pairs_is_refused(ss: Any, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        ss.Store().get_many(wrong)


@every
def test_a_deleted_key_is_gone(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "a", 1), ("n", "b", 2)])
    assert store.delete("n", "a") is True
    assert store.delete("n", "a") is False
    assert store.delete("missing", "a") is False
    assert store.contains("n", "a") is False
    assert content(store) == {("n", "b"): 2}


@every
def test_a_namespace_exists_while_it_holds_something(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "k", 1), ("m", "k", 2)])
    assert "n" in store
    assert sorted(store.namespaces()) == ["m", "n"]
    store.delete("n", "k")
    assert "n" not in store
    assert store.namespaces() == ["m"]
    assert store.keys("n") == []
    assert store.max_key("n") is None
    assert "missing" not in store


@every
def test_keys_and_namespaces_can_be_chosen_by_how_they_begin(ss: Any) -> None:
    store, names = ss.Store(), ["", "a", "ab", "abc", "b", "é", "\0", "a\0"]
    store.set_many([("n", name, 1) for name in names] + [(name, "k", 1) for name in names])
    for prefix in [*names, "abcd", "\U0001f600"]:
        wanted = sorted(name for name in names if name.startswith(prefix))
        assert sorted(store.keys("n", prefix)) == wanted
        assert sorted(store.namespaces(prefix)) == sorted(
            name for name in [*names, "n"] if name.startswith(prefix)
        )
    assert sorted(store.keys("n", None)) == sorted(names)
    assert sorted(store.namespaces(None)) == sorted([*names, "n"])
    assert store.keys("missing", "a") == []


@every
def test_the_greatest_key_is_the_last_by_code_points(ss: Any) -> None:
    store = ss.Store()
    for key in ("", "Z", "a", "aa", "é", "\ud7ff", "\uffff", "\U0001f600"):
        store.set("n", key, 1)
        assert store.max_key("n") == key
    store.set("n", "\ue000", 1)
    assert store.max_key("n") == "\U0001f600"


@every
def test_any_text_is_a_name(ss: Any) -> None:
    names = ["", "\0", "a\0b", "a b", "/", "..", "é", "e\u0301", "\U0001f600", "x" * 100_000, "\n"]
    store, value = ss.Store(), {}
    for namespace in names:
        for key in names:
            store.set(namespace, key, [namespace[:9], key[:9]])
            value[namespace, key] = [namespace[:9], key[:9]]
    assert content(store) == value
    assert all(
        type(key) is str for namespace in store.namespaces() for key in store.keys(namespace)
    )


@every
def test_a_name_that_only_looks_like_text_becomes_text(ss: Any) -> None:
    class Liar(str):
        __slots__ = ()

        def __hash__(self) -> int:
            raise AssertionError("nobody asks")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("nobody asks")

        def __str__(self) -> str:
            raise AssertionError("nobody asks")

        def __len__(self) -> int:
            raise AssertionError("nobody asks")

        def isascii(self) -> bool:
            raise AssertionError("nobody asks")

        def encode(self, *_: Any) -> bytes:
            raise AssertionError("nobody asks")

        def startswith(self, *_: Any) -> bool:
            raise AssertionError("nobody asks")

    store = ss.Store()
    store.set(Liar("n"), Liar("k"), 1)
    store.set_many([(Liar("é"), Liar("é"), 2)])
    assert content(store) == {("n", "k"): 1, ("é", "é"): 2}
    assert store.get(Liar("n"), Liar("k")) == 1
    assert store.get_many([(Liar("é"), Liar("é"))]) == [2]
    assert store.contains(Liar("n"), Liar("k"))
    assert Liar("n") in store
    assert store.keys(Liar("n"), Liar("k")) == ["k"]
    assert store.namespaces(Liar("é")) == ["é"]
    assert store.max_key(Liar("n")) == "k"
    found = [*store.namespaces(), *store.keys("n"), store.max_key("n"), *store.snapshot().keys[0]]
    assert {type(name) for name in found} == {str}
    with pytest.raises(UnicodeEncodeError):
        store.set("n", Liar("\ud800"), 1)
    assert store.delete(Liar("n"), Liar("k"))


@every
@pytest.mark.parametrize("wrong", NOT_TEXT, ids=shown)
@pytest.mark.parametrize("attempt", NAMED)
def test_a_name_that_is_no_text_is_refused(ss: Any, attempt: str, wrong: Any) -> None:
    check_refused(ss, NAMED[attempt], wrong, TypeError)


@every
@pytest.mark.parametrize("wrong", HALF_A_CHARACTER, ids=shown)
@pytest.mark.parametrize("attempt", NAMED)
def test_half_a_character_is_refused(ss: Any, attempt: str, wrong: str) -> None:
    check_refused(ss, NAMED[attempt], wrong, UnicodeEncodeError)


@every
@pytest.mark.parametrize("attempt", PREFIXED)
def test_a_prefix_is_text_too(ss: Any, attempt: str) -> None:
    for wrong in NOT_TEXT[1:]:
        check_refused(ss, PREFIXED[attempt], wrong, TypeError)
    check_refused(ss, PREFIXED[attempt], "\ud800", UnicodeEncodeError)


@ours
@pytest.mark.parametrize("attempt", NAMED_ONLY_BY_US)
def test_what_only_we_have_refuses_such_names_too(ss: Any, attempt: str) -> None:
    for wrong in NOT_TEXT:
        if wrong is not None or not attempt.endswith("items"):
            check_refused(ss, NAMED_ONLY_BY_US[attempt], wrong, TypeError)
    for half in HALF_A_CHARACTER:
        check_refused(ss, NAMED_ONLY_BY_US[attempt], half, UnicodeEncodeError)


@ours
@pytest.mark.parametrize("attempt", PREFIXED_ONLY_BY_US)
def test_what_only_we_have_refuses_such_prefixes_too(ss: Any, attempt: str) -> None:
    for wrong in NOT_TEXT[1:]:
        check_refused(ss, PREFIXED_ONLY_BY_US[attempt], wrong, TypeError)
    check_refused(ss, PREFIXED_ONLY_BY_US[attempt], "\ud800", UnicodeEncodeError)


def check_refused(ss: Any, attempt: Attempt, name: Any, error: type[Exception]) -> None:
    store = ss.Store()
    store.set("n", "k", 1)
    with pytest.raises(error):
        attempt(store, name)
    assert content(store) == {("n", "k"): 1}


@every
def test_clear_keeps_the_history_and_goes_on_counting(ss: Any) -> None:
    store = ss.Store(max_history=None)
    store.set("n", "k", 1)
    snapshot = store.snapshot()
    assert store.clear() is None
    assert (len(store), store.namespaces(), store.get("n", "k")) == (0, [], None)
    assert [each.id for each in store.history()] == [1]
    assert store.snapshot().id == 2
    store.restore(snapshot)
    assert content(store) == {("n", "k"): 1}


# Snapshots


@every
def test_a_snapshot_knows_about_itself(ss: Any) -> None:
    store, before = ss.Store(), time.time()
    store.set_many([("n", "k", {"a": 1}), ("m", "é", "text")])
    first, second = store.snapshot(), store.snapshot()
    assert before <= first.timestamp <= second.timestamp <= time.time()
    assert (type(first.id), type(first.timestamp)) == (int, float)
    assert ((first.id, first.parent), (second.id, second.parent)) == ((1, None), (2, 1))
    assert first.size_bytes == len(ss.dumps({"a": 1})) + len(ss.dumps("text"))
    assert sorted(first.keys) == [("m", "é"), ("n", "k")]
    assert type(first.keys) is list
    first.keys.clear()
    assert len(first.keys) == 2


@every
def test_a_snapshot_cannot_be_made_or_changed(ss: Any) -> None:
    snapshot = ss.Store().snapshot()
    with pytest.raises(TypeError):
        ss.Snapshot()
    with pytest.raises(TypeError):
        type(snapshot)(1, 2, 3)
    assert type(snapshot) is ss.Snapshot
    for name in ("id", "timestamp", "parent", "size_bytes", "keys", "diff", "new"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(snapshot, name, 1)
    for name in ("id", "timestamp", "parent"):
        with pytest.raises((AttributeError, TypeError)):
            delattr(snapshot, name)
    assert snapshot.id == 1


@every
def test_snapshots_are_equal_to_themselves_alone(ss: Any) -> None:
    store = ss.Store()
    first, second = store.snapshot(), store.snapshot()
    assert first == first  # noqa: PLR0124 - that is the question
    assert first != second
    assert len({first, second, first}) == 2


@every
def test_ids_never_go_back(ss: Any) -> None:
    store = ss.Store()
    first = store.snapshot()
    second = store.snapshot()
    store.restore(first)
    third = store.snapshot()
    store.clear()
    store.clear_history()
    fourth = store.snapshot()
    assert [each.id for each in (first, second, third, fourth)] == [1, 2, 3, 4]
    # The parent is the one that was taken before, whatever was restored in between.
    assert [each.parent for each in (first, second, third, fourth)] == [None, 1, 2, 3]


@every
def test_nothing_changes_a_snapshot(ss: Any) -> None:
    store, expected, taken = ss.Store(), {}, []
    for number in range(50):
        store.set("n", str(number), number)
        store.set("n", "same", number)
        store.delete("n", str(number - 10))
        taken.append((store.snapshot(), content(store)))
    for snapshot, expected in taken:
        assert sorted(snapshot.keys) == sorted(expected)
        assert snapshot.size_bytes == sum(len(ss.dumps(value)) for value in expected.values())
    for snapshot, expected in reversed(taken):
        store.restore(snapshot)
        assert content(store) == expected


@every
def test_restoring_brings_back_everything_and_nothing_else(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "a", 1), ("n", "b", 2), ("m", "a", 3)])
    snapshot, expected = store.snapshot(), content(store)
    for _ in range(3):
        store.set("n", "a", 9)
        store.delete("m", "a")
        store.set("new", "a", 9)
        assert store.restore(snapshot) is None
        assert content(store) == expected
    store.set("n", "a", 9)
    assert snapshot.diff(store.snapshot()) == {"added": [], "removed": [], "changed": [("n", "a")]}


@every
def test_a_snapshot_of_another_store_can_be_restored(ss: Any) -> None:
    store, other = ss.Store(max_history=None), ss.Store()
    store.set("n", "k", 1)
    other.set_many([("m", "k", 2), ("m", "l", 3)])
    other.snapshot()
    foreign = other.snapshot()
    store.restore(foreign)
    store.set("m", "k", 9)
    assert content(store) == {("m", "k"): 9, ("m", "l"): 3}
    assert content(other) == {("m", "k"): 2, ("m", "l"): 3}
    other.clear()
    store.restore(foreign)
    assert content(store) == {("m", "k"): 2, ("m", "l"): 3}
    assert [each.id for each in store.history()] == [1, 2], "its own numbers, taken by content()"


@every
@pytest.mark.parametrize("wrong", [None, 1, "1", {}, object()], ids=shown)
def test_only_a_snapshot_can_be_restored_or_compared(ss: Any, wrong: Any) -> None:
    store = ss.Store()
    store.set("n", "k", 1)
    with pytest.raises(TypeError):
        store.restore(wrong)
    with pytest.raises(TypeError):
        store.snapshot().diff(wrong)
    assert content(store) == {("n", "k"): 1}


@every
def test_a_diff_says_what_leads_from_the_base_to_the_snapshot(ss: Any) -> None:
    store = ss.Store()
    store.set_many(
        [("n", "kept", 1), ("n", "changed", 1), ("n", "removed", 1), ("m", "removed", 1)]
    )
    base = store.snapshot()
    store.set_many([("n", "changed", 2), ("n", "added", 1), ("new", "added", 1)])
    store.delete("n", "removed")
    store.delete("m", "removed")
    later = store.snapshot()
    added, removed = [("n", "added"), ("new", "added")], [("m", "removed"), ("n", "removed")]
    changed = [("n", "changed")]
    assert sorted_lists(later.diff(base)) == {
        "added": added,
        "removed": removed,
        "changed": changed,
    }
    assert sorted_lists(base.diff(later)) == {
        "added": removed,
        "removed": added,
        "changed": changed,
    }
    assert later.diff(later) == base.diff(base) == {"added": [], "removed": [], "changed": []}


@every
def test_what_is_as_it_was_has_not_changed(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "k", 1), ("n", "l", {"a": [1]}), ("m", "k", 1)])
    base, nothing = store.snapshot(), {"added": [], "removed": [], "changed": []}
    store.set("n", "k", 1)
    assert store.snapshot().diff(base) == nothing
    store.set("n", "l", 2)
    store.set("n", "l", {"a": [1]})
    store.delete("m", "k")
    store.set("m", "k", 1)
    assert store.snapshot().diff(base) == nothing
    for other in (True, 1.0, "1", b"1"):  # Equal in Python or not, other bytes.
        store.set("n", "k", other)
        assert store.snapshot().diff(base) == nothing | {"changed": [("n", "k")]}


@every
def test_snapshots_of_different_stores_can_be_compared(ss: Any) -> None:
    store, other = ss.Store(), ss.Store()
    store.set_many([("n", "a", 1), ("n", "b", 1), ("m", "a", 1)])
    other.set_many([("n", "a", 1), ("n", "b", 2), ("o", "a", 1)])
    assert other.snapshot().diff(store.snapshot()) == {
        "added": [("o", "a")],
        "removed": [("m", "a")],
        "changed": [("n", "b")],
    }


@every
def test_branches_can_be_compared(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", str(number), number) for number in range(100)])
    start, ends = store.snapshot(), []
    for branch in range(3):
        store.restore(start)
        store.set("n", str(branch), "changed")
        store.set("n", f"new {branch}", branch)
        ends.append(store.snapshot())
    assert sorted_lists(ends[2].diff(ends[0])) == {
        "added": [("n", "new 2")],
        "removed": [("n", "new 0")],
        "changed": [("n", "0"), ("n", "2")],
    }


@ours
def test_the_lists_of_our_diffs_are_sorted(ss: Any) -> None:
    # The peer's come in any order, and so do the kinds.
    store = ss.Store()
    base = store.snapshot()
    store.set_many([(namespace, str(k), 1) for namespace in "bca" for k in range(100)])
    later = store.snapshot()
    changes = later.diff(base)
    assert changes["added"] == sorted(later.keys)
    assert list(changes) == ["added", "removed", "changed"]


# History


@every
def test_a_store_keeps_the_newest_snapshots_that_it_was_told_to(ss: Any) -> None:
    for most, kept in (
        (0, []),
        (1, [5]),
        (3, [3, 4, 5]),
        (9, [1, 2, 3, 4, 5]),
        (None, [1, 2, 3, 4, 5]),
    ):
        store = ss.Store(max_history=most)
        taken = []
        for number in range(5):
            store.set("n", "k", number)
            taken.append(store.snapshot())
        history = store.history()
        assert [each.id for each in history] == kept
        if ss is not swarmstate:  # The peer's are equal to themselves alone, and new ones.
            assert history == taken[len(taken) - len(kept) :]
        history.clear()
        assert len(store.history()) == len(kept)
        assert store.clear_history() is None
        assert store.history() == []
        store.restore(taken[0])  # Those that the caller holds are not affected.
        assert store.get("n", "k") == 0


@every
def test_a_snapshot_of_the_history_can_be_restored(ss: Any) -> None:
    store = ss.Store(max_history=2)
    for number in range(4):
        store.set("n", "k", number)
        store.snapshot()
    oldest, _ = store.history()
    store.restore(oldest)
    assert store.get("n", "k") == 2
    assert [each.id for each in store.history()] == [3, 4], "restoring forgets nothing"


# Bytes

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])) | st.integers(-9, 9), inner
        )
    ),
    max_leaves=20,
)


@given(plain)
def test_our_bytes_are_those_of_the_peer(value: Any) -> None:
    data = swarmstate.dumps(value)
    assert holdfast.dumps(value) == data
    assert holdfast.loads(data) == swarmstate.loads(data) == value


@every
def test_the_bytes_are_standard_msgpack(ss: Any) -> None:
    value = {"none": None, "list": [True, -1, 2**64 - 1, 1.5, b"\0"], "é": {"": {}}}
    data = (
        b"\x83\xa4none\xc0\xa4list\x95\xc3\xff\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
        b"\xcb\x3f\xf8\0\0\0\0\0\0\xc4\x01\0\xa2\xc3\xa9\x81\xa0\x80"
    )
    assert ss.dumps(value) == data
    assert ss.loads(data) == value
    assert ss.loads(ss.dumps((1, (2,)))) == [1, [2]]


MALFORMED = [b"", b"\xc1", b"\x92\x01", b"\x81\x01", b"\xdd\xff\xff\xff\xff", b"\xc7"]


@every
@pytest.mark.parametrize("data", MALFORMED, ids=shown)
def test_malformed_bytes_are_a_value_error(ss: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ss.loads(data)


@ours
@pytest.mark.parametrize(
    "data",
    [
        b"\x01\x02",  # The peer reads 1 and overlooks the rest.
        b"\xa1\xff",  # No UTF-8.
        b"\x81\x80\x01",  # A map as a key.
        b"\x91" * 100_000 + b"\x01",  # Deeper than anybody's stack.
    ],
    ids=lambda data: repr(data[:9]),
)
def test_ours_overlooks_nothing(ss: Any, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ss.loads(data)


@every
@pytest.mark.parametrize("wrong", [None, "text", 1])
def test_only_bytes_are_loaded(ss: Any, wrong: Any) -> None:
    with pytest.raises(TypeError):
        ss.loads(wrong)


@every
@pytest.mark.parametrize("value", [object(), {"a": object()}, 1j, ...], ids=shown)
def test_what_has_no_bytes_is_a_type_error(ss: Any, value: Any) -> None:
    with pytest.raises(TypeError):
        ss.dumps(value)


@every
def test_integers_have_64_bits(ss: Any) -> None:
    for value in (2**64 - 1, -(2**63), 0):
        assert ss.loads(ss.dumps(value)) == value
    for value in (2**64, -(2**63) - 1):
        # A ValueError of the peer; ours is the one error of all that cannot be stored.
        with pytest.raises(ValueError if ss is swarmstate else Unencodable):
            ss.dumps(value)


# Beyond the peer


@ours
def test_a_view_shows_the_store_as_it_was(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "a", 1), ("n", "ab", [2]), ("m", "a", None)])
    view = store.at(store.snapshot())
    assert isinstance(view, ss.Reader)
    store.clear()
    store.set("n", "a", 9)
    assert view.get("n", "a") == 1
    assert view.get("n", "missing", default=3) == 3
    assert view.get_many([("n", "ab"), ("n", "missing")]) == [[2], None]
    assert view.contains("m", "a")
    assert not view.contains("m", "b")
    assert sorted(view.keys("n")) == ["a", "ab"]
    assert view.keys("n", "ab") == ["ab"]
    assert sorted(view.items("n")) == [("a", 1), ("ab", [2])]
    assert view.max_key("n") == "ab"
    assert sorted(view.namespaces()) == ["m", "n"]
    assert (len(view), "m" in view, "o" in view) == (3, True, False)


@ours
def test_a_view_cannot_write(ss: Any) -> None:
    store = ss.Store()
    view = store.at(store.snapshot())
    for name in ("set", "set_many", "delete", "clear", "put", "put_many", "restore", "snapshot"):
        assert not hasattr(view, name)
    for wrong in (None, 1, store):
        with pytest.raises(TypeError):
            store.at(wrong)


@ours
def test_a_view_of_another_stores_snapshot_is_a_view_too(ss: Any) -> None:
    other = ss.Store()
    other.set("n", "k", 1)
    assert ss.Store().at(other.snapshot()).get("n", "k") == 1


@ours
def test_a_view_and_a_snapshot_outlive_their_store(ss: Any) -> None:
    store = ss.Store()
    store.set("n", "k", [1])
    snapshot = store.snapshot()
    view = store.at(snapshot)
    del store
    assert (view.get("n", "k"), snapshot.get("n", "k"), snapshot.keys) == ([1], [1], [("n", "k")])
    del snapshot
    assert view.items() == [(("n", "k"), [1])]


@ours
def test_a_snapshot_gives_the_values_it_holds(ss: Any) -> None:
    store, default = ss.Store(), object()
    store.set_many([("n", "a", 1), ("n", "ab", [2]), ("m", "a", None)])
    snapshot = store.snapshot()
    store.clear()
    assert snapshot.get("n", "ab") == [2]
    assert snapshot.get(namespace="m", key="a", default=default) is None
    assert snapshot.get("n", "b") is None
    assert snapshot.get("o", "a", default) is default
    assert sorted(snapshot.items("n")) == [("a", 1), ("ab", [2])]
    assert snapshot.items("n", "ab") == snapshot.items(namespace="n", prefix="ab") == [("ab", [2])]
    assert sorted(snapshot.items(), key=lambda item: item[0]) == [
        (("m", "a"), None),
        (("n", "a"), 1),
        (("n", "ab"), [2]),
    ]
    assert snapshot.items(prefix="ab") == [(("n", "ab"), [2])]
    assert snapshot.items("missing") == []
    assert snapshot.get_data("n", "ab") == b"\x91\x02"
    assert snapshot.get_data("n", "b") is None
    assert snapshot.get_data("o", "b") is None


@ours
def test_items_are_isolated_too(ss: Any) -> None:
    store = ss.Store()
    store.set("n", "k", [1])
    for found in (store.items("n")[0][1], store.items()[0][1], store.snapshot().items("n")[0][1]):
        found.append(2)
    assert store.items("n") == [("k", [1])]


@ours
def test_differences_carry_the_bytes_before_and_after(ss: Any) -> None:
    store = ss.Store()
    store.set_many(
        [("n", "kept", 1), ("n", "changed", 1), ("n", "removed", 1), ("b", "removed", 2)]
    )
    base = store.snapshot()
    store.set_many([("n", "changed", [1]), ("n", "added", 3), ("a", "added", 4), ("n", "kept", 1)])
    store.delete("n", "removed")
    store.delete("b", "removed")
    assert store.snapshot().differences(base) == [
        ("a", "added", None, b"\x04"),
        ("b", "removed", b"\x02", None),
        ("n", "added", None, b"\x03"),
        ("n", "changed", b"\x01", b"\x91\x01"),
        ("n", "removed", b"\x01", None),
    ]
    assert base.differences(base) == []
    for wrong in (None, 1, store):
        with pytest.raises(TypeError):
            base.differences(wrong)


@ours
def test_bytes_can_be_put_as_they_are(ss: Any) -> None:
    store, data = ss.Store(), holdfast.dumps({"a": [1]})
    assert store.put("n", "k", data) is None
    assert store.get("n", "k") == {"a": [1]}
    assert store.snapshot().get_data("n", "k") == data
    assert store.snapshot().size_bytes == len(data)
    assert store.put_many([("n", "k", None), ("n", "l", b"\x01"), ("m", "missing", None)]) is None
    assert content(store) == {("n", "l"): 1}
    store.put_many([("n", "l", None), ("n", "m", b"\x01"), ("n", "m", None), ("n", "m", b"\x02")])
    assert content(store) == {("n", "m"): 2}
    store.put_many(iter([]))


@ours
@pytest.mark.parametrize("wrong", [1, "text", bytearray(b"\x01"), memoryview(b"\x01")], ids=shown)
def test_only_bytes_are_put(ss: Any, wrong: Any) -> None:
    store = ss.Store()
    store.set("n", "k", 1)
    for attempt in (
        lambda: store.put("n", "k", wrong),
        lambda: store.put("n", "k", None),
        lambda: store.put_many([("n", "k", b"\x02"), ("n", "l", wrong)]),
        lambda: store.put_many([("n", "k", None), ("n", "l")]),
    ):
        with pytest.raises((TypeError, ValueError)):
            attempt()
    assert content(store) == {("n", "k"): 1}


# The vendor's own code


@every
def test_the_vendors_memory_for_crews_works_with_it(ss: Any) -> None:
    memory = SwarmStateStorage(ss.Store(), namespace="crew")
    memory.save("The Q2 churn rate was 4.1%", {"agent": "analyst"})
    memory.save({"topic": "prices", "text": "up by 3%"})
    snapshot = memory.store.snapshot()
    (found,) = memory.search("churn rate", limit=1)
    assert found == {
        "context": "The Q2 churn rate was 4.1%",
        "metadata": {"agent": "analyst"},
        "score": 1.0,
    }
    assert len(memory) == 2
    memory.reset()
    assert (len(memory), memory.search("prices")) == (0, [])
    memory.store.restore(snapshot)
    assert [each["score"] for each in memory.search("prices", limit=1)] == [1.0]


def taken(door: Any) -> dict[str, list[tuple[str, object, object]]]:
    """Returns what each public method of a class takes, beside itself, with its description."""
    found = dict[str, list[tuple[str, object, object]]]()
    for name in dir(door):
        method = getattr(door, name)
        if name.startswith("_") or not inspect.isroutine(method):
            continue
        _, *rest = inspect.signature(method).parameters.values()
        found[f"{name}: {inspect.getdoc(method)}"] = [
            (each.name, each.kind, each.default) for each in rest
        ]
    return found


@pytest.mark.skipif(not IS_COMPILED, reason="no compiler was at hand")
def test_what_was_compiled_says_what_its_methods_take() -> None:
    for name in ("Store", "Reader", "Snapshot"):
        mine = taken(getattr(compiled, name))
        assert mine == taken(getattr(interpreted, name))
        assert len(mine) > 4

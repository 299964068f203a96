"""The page "Snapshots & diffs" of swarmstate, its snippets word for word but for the import.

They run with the in-process store, compiled and interpreted, with swarmstate itself, which shows
that they were read rightly, with the store of a namespace, and with one that keeps on disk.
"""

import ast
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import swarmstate

import holdfast
from holdfast.testing.cores import load_interpreted_store

TAKE_AND_ROLL_BACK = """\
store = ss.Store()
store.set("workflow", "onboarding", {"step": 3})

snap = store.snapshot()                # savepoint

store.set("workflow", "onboarding", {"step": 4})
store.get("workflow", "onboarding")    # -> {"step": 4}

store.restore(snap)                    # go back to the savepoint
store.get("workflow", "onboarding")    # -> {"step": 3}
"""

WHAT_IT_KNOWS = """\
snap = store.snapshot()

snap.id          # a monotonic id from the store
snap.timestamp   # when it was taken (seconds since the Unix epoch)
snap.parent      # id of the previous snapshot, or None - snapshots form a chain
snap.size_bytes  # total serialized size of all values at that moment
snap.keys        # the (namespace, key) pairs it contains
"""

WHAT_CHANGED = """\
base = store.snapshot()

store.set("n", "added_key", 1)
store.set("n", "changed_key", 999)     # existed in base with a different value
store.delete("n", "removed_key")       # existed in base

later = store.snapshot()

later.diff(base)
# {
#   "added":   [("n", "added_key")],
#   "removed": [("n", "removed_key")],
#   "changed": [("n", "changed_key")],
# }
"""


@pytest.fixture(params=["swarmstate", "holdfast", "interpreted", "namespace", "on disk"])
def ss(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """What `import … as ss` names."""
    match request.param:
        case "swarmstate":
            yield swarmstate
        case "holdfast":
            yield holdfast
        case "interpreted":
            yield load_interpreted_store()
        case "namespace":
            with holdfast.open(tmp_path / "vault") as vault:
                yield SimpleNamespace(Store=lambda: vault.namespace("agent").store)
        case _:
            with holdfast.Store.open(tmp_path / "store") as on_disk:
                yield SimpleNamespace(Store=lambda: on_disk)


def run(snippet: str, names: dict[str, Any]) -> list[Any]:
    """Runs a snippet; returns what its bare expressions gave, after a look at what it promises."""
    lines, found = snippet.splitlines(), []
    for statement in ast.parse(snippet).body:
        source = ast.get_source_segment(snippet, statement)
        assert source is not None
        if not isinstance(statement, ast.Expr):
            exec(source, names)
            continue
        found.append(eval(source, names))
        promise = promised(lines, statement.lineno)
        if promise is not None:
            assert found[-1] == promise, source
    return found


def promised(lines: list[str], line_number: int) -> Any:
    """Returns what a comment says that the expression of a line gives, or None."""
    _, arrow, told = lines[line_number - 1].partition("# -> ")
    if arrow:
        return ast.literal_eval(told)
    below: list[str] = []
    for line in lines[line_number:]:
        if not line.startswith("#"):
            break
        below.append(line.removeprefix("#"))
    return ast.literal_eval("\n".join(below).strip()) if below else None


def test_a_snippet_that_promises_wrongly_is_found_out() -> None:
    ours = {"ss": holdfast}
    with pytest.raises(AssertionError):
        run(TAKE_AND_ROLL_BACK.replace('# -> {"step": 3}', '# -> {"step": 4}'), ours)
    with pytest.raises(AssertionError):
        run(WHAT_CHANGED, ours)  # Nothing existed in base.


def test_take_a_snapshot_and_roll_back(ss: Any) -> None:
    names = {"ss": ss}
    answers = run(TAKE_AND_ROLL_BACK, names)
    assert {"step": 4} in answers
    assert answers[-1] == {"step": 3}


def test_restore_replaces_every_namespace_and_key_not_just_one(ss: Any) -> None:
    store = ss.Store()
    store.set("workflow", "onboarding", {"step": 3})
    store.set("memory", "name", "Ada")
    snap = store.snapshot()
    store.set("workflow", "onboarding", {"step": 4})
    store.set("workflow", "offboarding", {})
    store.set("scratch", "pad", [1, 2])
    store.delete("memory", "name")
    store.restore(snap)
    assert {n: sorted(store.keys(n)) for n in store.namespaces()} == {
        "workflow": ["onboarding"],
        "memory": ["name"],
    }
    assert store.get("workflow", "onboarding") == {"step": 3}
    assert store.get("memory", "name") == "Ada"
    assert len(store) == 2


def test_what_a_snapshot_knows_about_itself(ss: Any) -> None:
    store = ss.Store()
    store.set_many([("n", "k", {"a": 1}), ("n", "l", "text"), ("m", "k", None)])
    names, before = {"store": store}, time.time()
    number, timestamp, parent, size_bytes, keys = run(WHAT_IT_KNOWS, names)
    # The clock of a vault counts in milliseconds.
    assert before - 0.002 <= timestamp <= time.time()
    assert parent is None
    assert size_bytes == len(b"\x81\xa1a\x01" + b"\xa4text" + b"\xc0")
    assert sorted(keys) == [("m", "k"), ("n", "k"), ("n", "l")]
    store.set("n", "new", 1)
    second, _, parent, size_bytes, keys = run(WHAT_IT_KNOWS, names)
    assert parent == number
    assert size_bytes == 11
    assert ("n", "new") in keys
    third, _, parent, *_ = run(WHAT_IT_KNOWS, names)
    assert parent == second, "also if nothing has changed"
    if isinstance(number, int):
        assert number < second < third
    else:  # The ids of a vault are names: what is monotonic there is the history.
        assert [each.id for each in store.history()] == [number, second, third]


def test_see_what_changed_between_two_snapshots(ss: Any) -> None:
    store = ss.Store()
    store.set("n", "changed_key", 1)
    store.set("n", "removed_key", 1)
    names: dict[str, Any] = {"store": store}
    (deleted, changes) = run(WHAT_CHANGED, names)[-2:]
    assert deleted is True
    assert set(changes) == {"added", "removed", "changed"}
    assert names["base"].diff(names["later"]) == {
        "added": changes["removed"],
        "removed": changes["added"],
        "changed": changes["changed"],
    }


def test_later_writes_never_change_a_snapshot(ss: Any) -> None:
    store = ss.Store()
    store.set("n", "k", {"list": [1]})
    snap = store.snapshot()
    known = (snap.id, snap.timestamp, snap.parent, snap.size_bytes, snap.keys)
    value = store.get("n", "k")
    value["list"].append(2)
    store.set("n", "k", value)
    store.set("n", "l", 1)
    store.clear()
    assert (snap.id, snap.timestamp, snap.parent, snap.size_bytes, snap.keys) == known
    store.restore(snap)
    assert store.get("n", "k") == {"list": [1]}


USES: dict[str, Callable[[Any], None]] = {}


def use(function: Callable[[Any], None]) -> Callable[[Any], None]:
    USES[function.__name__.replace("_", " ")] = function
    return function


@use
def undo_and_rollback(store: Any) -> None:
    store.set("n", "k", "good")
    savepoint = store.snapshot()
    try:
        store.set("n", "k", "half")
        store.set("n", "l", 1 / 0)
    except ZeroDivisionError:
        store.restore(savepoint)
    assert (store.get("n", "k"), len(store)) == ("good", 1)


@use
def time_travel_and_what_if(store: Any) -> None:
    store.set("n", "k", 0)
    known, ends = store.snapshot(), []
    for choice in range(3):
        store.restore(known)
        store.set("n", "k", choice)
        ends.append(store.snapshot())
    store.restore(ends[1])
    assert store.get("n", "k") == 1
    assert ends[2].diff(ends[1])["changed"] == [("n", "k")]


@use
def one_fixture_for_many_cases(store: Any) -> None:
    store.set_many([("user", name, {"name": name}) for name in ("ada", "bob")])
    fixture = store.snapshot()
    for case in range(3):
        store.set("user", f"case {case}", case)
        store.delete("user", "ada")
        store.restore(fixture)
        assert sorted(store.keys("user")) == ["ada", "bob"]


@use
def auditing(store: Any) -> None:
    store.set("n", "k", 1)
    base = store.snapshot()
    store.set("n", "k", 2)
    store.set("n", "k", 1)
    assert not any(store.snapshot().diff(base).values()), "what is as it was has not changed"


@pytest.mark.parametrize("when", USES)
def test_when_you_would_use_one(ss: Any, when: str) -> None:
    USES[when](ss.Store())

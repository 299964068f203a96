"""A file that is written by who may know how it left the namespace, and so does not look.

Whatever else was written since, by whom or through which door, is what the next one writes upon.
"""

from collections.abc import Callable

import pytest

import holdfast
from holdfast.errors import QuotaExceeded
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch()


def test_files_that_are_written_in_turns_are_there_and_are_counted(opener: Opener) -> None:
    one, two = (opener().namespace("alice") for _ in range(2))
    wanted = dict[str, str]()
    for number in range(4):
        for agent, path, text in (
            (one, f"a{number}", "new"),
            (one, f"b{number}", "new " * 200),
            (two, f"a{number}", "another's " * 100),
            (one, "same", f"{number}" * number),
            (one, "same", f"{number}" * 3),
        ):
            agent.files.write(path, text)
            wanted[path] = text
        one.store.set("t", "k", number)
        if number == 2:
            one.snapshot()
            two.files.delete("a1")
            del wanted["a1"]
    assert {path: one.files.read_text(path) for path in wanted} == wanted
    fresh = opener().namespace("bob")
    for path, text in wanted.items():
        fresh.files.write(path, text)
    fresh.store.set("t", "k", 3)
    assert one.size() == fresh.size()
    one.snapshot()  # Refused if a row were missing of those that were counted.
    assert {path: two.files.read_text(path) for path in wanted} == wanted


def test_what_else_was_done_in_between_is_written_upon(opener: Opener) -> None:
    vault = opener()
    agent = vault.namespace("alice")
    agent.sessions.create("bot", session_id="s", initial_state={})
    agent.files.write("f", "1")
    agent.files.write("f", "22")
    agent.sessions.update_state("s", {"n": 1})
    agent.files.write("f", "333")
    agent.store.set("t", "k", "v")
    agent.files.write("g", "1")
    before = agent.snapshot()
    agent.files.write("f", "4444")
    agent.restore(before.id)
    agent.files.write("h", "1")
    agent.sessions.update_state("s", {"n": 2})
    assert [agent.files.read_text(path) for path in "fgh"] == ["333", "1", "1"]
    assert [row.number for row in agent.sessions.history("s")] == [0, 1, 2]
    agent.snapshot()
    assert vault.verify().ok


@pytest.mark.parametrize("is_other", [False, True], ids=["the same", "another"])
def test_what_is_decided_holds_for_the_next_file(opener: Opener, *, is_other: bool) -> None:
    vault = opener()
    other = opener() if is_other else vault
    agent, same = vault.namespace("alice"), other.namespace("alice")
    agent.files.write("first", "x")
    agent.files.write("second", "x")
    same.set_quota(100)
    with pytest.raises(QuotaExceeded):
        agent.files.write("large", "x" * 100)
    same.set_quota(None)
    agent.files.write("large", "x" * 100)
    other.set_quota(1)
    with pytest.raises(QuotaExceeded):
        agent.files.write("more", "x")
    other.set_quota(None)
    agent.files.write("more", "x")
    other.delete_namespace("alice")
    agent.files.write("anew", "x")
    assert [each.path for each in same.files.list()] == ["anew"]

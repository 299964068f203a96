"""Prompts of agents are tasks of a directory: begun once, ended whatever is heard, undone alone."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.tasks.prompts import UNHEARD
from holdfast.errors import InvalidName, NothingToUndo, OthersChanged, SnapshotNotFound
from holdfast.model.prompts import Conversation, Prompt, prompt_of
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

A = Conversation("claude-code", "session-a")
B = Conversation("codex", "session-b")


class Place:
    """A directory, its vault, and a clock."""

    def __init__(self, vault: holdfast.Holdfast, folder: Path, clock: Watch) -> None:
        self.vault, self.folder, self.clock = vault, folder, clock
        self.space = vault.workspace(folder)
        self.prompts = self.space.prompts

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def state(self) -> dict[str, str]:
        return {each.name: each.read_text() for each in sorted(self.folder.iterdir())}

    def names(self, prompt: Prompt) -> list[str]:
        return [each.name for each in self.prompts.changes(prompt, limit=None)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    clock = Watch()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "first").write_text("1")
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        made = Place(vault, tmp_path / "project", clock)
        made.space.snapshot("first")
        yield made


def test_a_prompt_is_what_changed_between_its_two_snapshots(place: Place) -> None:
    place.write(mine="by hand")
    prompt = place.prompts.begin(A, "fix it", id="p1")
    (before, _) = place.space.namespace.timeline()
    assert (before.id, before.label, before.trace_id) == (prompt.task.before, "fix it", A.session)
    assert before.metadata == {"agent": A.agent, "session": A.session}
    place.write(a="1")
    assert place.prompts.keep(A, reason="before Bash", id="p1") is not None
    assert place.prompts.keep(A, reason="before Bash", id="p1") is None
    place.write(b="2", first="2")
    ended = place.prompts.end(A, id="p1")
    assert ended is not None
    assert not ended.is_open
    place.write(later="by hand")
    assert place.names(ended) == ["a", "b", "first"]
    done = place.space.undo(task=ended.task.id)
    assert done.by_snapshots
    assert place.state() == {"first": "1", "later": "by hand", "mine": "by hand"}


def test_what_was_heard_before_is_not_begun_again(place: Place) -> None:
    named = place.prompts.begin(A, "one", id="p1")
    assert place.prompts.begin(A, "one", id="p1").task.id == named.task.id
    plain = place.prompts.begin(B, "two")
    assert place.prompts.begin(B, "two").task.id == plain.task.id
    place.clock.wait(timedelta(minutes=1))
    assert place.prompts.begin(B, "two").number == 2
    assert [each.number for each in place.prompts.list(limit=9)] == [2, 1, 1]


def test_a_prompt_that_nobody_ended_lasts_until_the_next(place: Place) -> None:
    first = place.prompts.begin(A, "one", id="p1")
    place.write(a="interrupted")
    second = place.prompts.begin(A, "two", id="p2")
    assert second.number == 2
    place.write(b="2")
    found = {each.id: each for each in place.prompts.list(limit=9)}
    assert not found["p1"].is_open
    assert found["p2"].is_open
    assert place.names(found["p1"]) == ["a"]
    place.space.undo(task=first.task.id)
    assert place.state() == {"b": "2", "first": "1"}


def test_an_open_prompt_is_closed_to_be_undone(place: Place) -> None:
    prompt = place.prompts.begin(A, "one")
    place.write(a="1")
    closed = place.prompts.close(prompt)
    place.space.undo(task=closed.task.id)
    assert place.state() == {"first": "1"}


def test_what_taking_an_open_prompt_back_would_change_is_shown_and_nothing_is_done(
    place: Place,
) -> None:
    prompt = place.prompts.begin(A, "one")
    place.write(a="1")
    place.prompts.begin(B, "two")
    place.write(b="1")
    place.prompts.end(B)
    place.write(first="2")
    taken = len(place.space.namespace.timeline())
    seen = place.space.undo(task=prompt.task.id, dry_run=True)
    assert [each.name for each in seen.changes] == ["a", "first"]
    found = place.prompts.find_last(A)
    assert found is not None
    assert found.is_open
    assert len(place.space.namespace.timeline()) == taken
    assert place.state() == {"a": "1", "b": "1", "first": "2"}


def test_a_prompt_that_was_not_heard_is_begun_by_what_comes_after_it(place: Place) -> None:
    place.prompts.keep(A, reason="before Bash", id="p1")
    place.write(a="1")
    ended = place.prompts.end(A, id="p1")
    assert ended is not None
    assert (ended.task.name, place.names(ended)) == (UNHEARD, ["a"])
    assert place.prompts.end(B) is None


def test_parts_of_an_agent_with_ids_of_their_own_belong_to_the_open_prompt(place: Place) -> None:
    place.prompts.begin(A, "one", id="p1")
    place.write(a="1")
    place.prompts.keep(A, reason="before Bash", id="of a part")
    assert [each.id for each in place.prompts.list(limit=9)] == ["p1"]


def test_an_agent_that_goes_on_after_its_end_moves_it(place: Place) -> None:
    place.prompts.begin(A, "one", id="p1")
    place.prompts.end(A, id="p1")
    place.write(a="1")
    place.prompts.keep(A, reason="after Bash", id="p1")
    (prompt,) = place.prompts.list(limit=9)
    assert place.names(prompt) == ["a"]


def test_what_is_heard_late_of_a_prompt_does_not_reach_into_the_next(place: Place) -> None:
    place.prompts.begin(A, "one", id="p1")
    place.write(a="1")
    place.prompts.end(A, id="p1")
    place.prompts.begin(A, "two", id="p2")
    place.write(b="1")
    place.prompts.keep(A, reason="after Bash", id="p1")
    place.write(c="1")
    late = place.prompts.end(A, id="p1")
    assert late is not None
    assert late.id == "p1"
    found = {each.id: each for each in place.prompts.list(limit=9)}
    assert place.names(found["p1"]) == ["a"]
    assert found["p2"].is_open
    ended = place.prompts.end(A, id="p2")
    assert ended is not None
    assert place.names(ended) == ["b", "c"]
    place.space.undo(task=found["p1"].task.id)
    assert place.state() == {"b": "1", "c": "1", "first": "1"}


def test_a_prompt_that_ended_while_it_was_being_kept_is_not_moved(place: Place) -> None:
    stale = place.prompts.begin(A, "one", id="p1")
    place.write(a="1")
    place.prompts.begin(A, "two", id="p2")
    place.write(b="1")
    place.prompts.close(stale)
    found = {each.id: each for each in place.prompts.list(limit=9)}
    assert place.names(found["p1"]) == ["a"]


def test_what_a_watcher_or_somebody_by_hand_captures_meanwhile_is_the_prompts_own(
    place: Place,
) -> None:
    prompt = place.prompts.begin(A, "one")
    place.write(a="1")
    place.space.snapshot_if_changed(reason="watch")
    place.write(b="1")
    with place.space.task("a run of its own"):
        place.write(c="1")
    ended = place.prompts.end(A)
    assert ended is not None
    assert place.names(ended) == ["a", "b", "c"]
    place.space.undo(task=prompt.task.id)
    assert place.state() == {"first": "1"}


def test_prompts_of_two_conversations_at_once_are_undone_alone(place: Place) -> None:
    a = place.prompts.begin(A, "a")
    place.write(a1="1")
    place.prompts.keep(A, reason="before Bash")
    b = place.prompts.begin(B, "b")
    place.write(b1="1")
    place.prompts.keep(B, reason="after Bash")
    place.write(a2="1")
    place.prompts.end(A)
    place.write(b2="1")
    place.prompts.end(B)
    whole = place.state()
    for prompt, left in ((a, {"b1", "b2"}), (b, {"a1", "a2"})):
        place.space.undo(task=prompt.task.id)
        assert set(place.state()) == {"first", *left}
        place.space.undo()
        assert place.state() == whole


def test_what_a_prompt_found_when_it_began_is_of_whoever_was_at_work(place: Place) -> None:
    first = place.prompts.begin(A, "one")
    place.write(a="1")
    second = place.prompts.begin(B, "two")
    place.write(b="1")
    place.prompts.end(B)
    place.prompts.end(A)
    ended = {each.task.id: each for each in place.prompts.list(limit=9)}
    assert place.names(ended[first.task.id]) == ["a"]
    assert place.names(ended[second.task.id]) == ["b"]
    done = place.space.undo(task=first.task.id)
    assert not done.by_snapshots  # Not all that lies between its snapshots counted.
    assert place.state() == {"b": "1", "first": "1"}


def test_what_both_conversations_changed_is_a_conflict_that_names_it(place: Place) -> None:
    a = place.prompts.begin(A, "a")
    place.write(both="1", mine="1")
    place.prompts.keep(A, reason="before Bash")
    place.prompts.begin(B, "b")
    place.write(both="2")
    place.prompts.end(B)
    place.prompts.end(A)
    whole = place.state()
    with pytest.raises(OthersChanged) as refused:
        place.space.undo(task=a.task.id)
    assert refused.value.names == ["files:both"]
    assert place.state() == whole
    place.space.undo(task=a.task.id, keep_mine=True)
    assert place.state() == {"both": "2", "first": "1"}


def test_what_another_conversation_changed_in_between_is_a_conflict_that_names_it(
    place: Place,
) -> None:
    a = place.prompts.begin(A, "a")
    place.write(both="1", mine="1")
    place.prompts.keep(A, reason="before Bash")
    place.prompts.begin(B, "b")
    place.write(both="2")
    place.prompts.end(B)
    place.write(both="3", mine="2")  # Its own between its own is no conflict.
    place.prompts.end(A)
    with pytest.raises(OthersChanged) as refused:
        place.space.undo(task=a.task.id)
    assert refused.value.names == ["files:both"]
    place.space.undo(task=a.task.id, keep_mine=True)
    assert place.state() == {"both": "3", "first": "1"}


def test_the_undo_of_one_prompt_in_another_is_not_taken_back_with_it(place: Place) -> None:
    first = place.prompts.begin(A, "one", id="p1")
    place.write(a="1")
    second = place.prompts.begin(A, "two", id="p2")
    place.space.undo(task=first.task.id)
    place.write(b="1")
    place.prompts.end(A)
    place.space.undo(task=second.task.id)
    assert place.state() == {"first": "1"}


def test_after_an_undo_the_next_prompt_begins_where_the_directory_is(place: Place) -> None:
    place.prompts.begin(A, "one", id="p1")
    place.write(a="1")
    place.prompts.end(A)
    place.space.undo()
    second = place.prompts.begin(A, "two", id="p2")
    place.write(b="1")
    ended = place.prompts.end(A)
    assert ended is not None
    assert place.names(ended) == ["b"]
    place.space.undo(task=second.task.id)
    assert place.state() == {"first": "1"}


def test_where_it_is_no_longer_known_what_others_did_nothing_is_taken_back(place: Place) -> None:
    a = place.prompts.begin(A, "a")
    place.prompts.begin(B, "b")
    place.write(b1="1")
    kept = place.prompts.keep(B, reason="after Bash")
    assert kept is not None
    place.write(b2="1")
    place.prompts.end(B)
    place.write(a1="1")
    place.prompts.end(A)
    place.space.namespace.delete_snapshot(kept.id)
    whole = place.state()
    with pytest.raises(OthersChanged):
        place.space.undo(task=a.task.id)
    assert place.state() == whole


def test_without_its_first_snapshot_a_prompt_cannot_be_taken_back(place: Place) -> None:
    place.write(mine="1")
    prompt = place.prompts.begin(A, "a")
    place.write(a="1")
    ended = place.prompts.end(A)
    assert ended is not None
    place.space.namespace.delete_snapshot(prompt.task.before)
    with pytest.raises(SnapshotNotFound):
        place.space.undo(task=prompt.task.id)
    with pytest.raises(SnapshotNotFound):
        place.prompts.changes(ended, limit=None)


def test_a_prompt_that_changed_nothing_has_nothing_to_undo(place: Place) -> None:
    prompt = place.prompts.begin(A, "look around")
    place.prompts.end(A)
    with pytest.raises(NothingToUndo):
        place.space.undo(task=prompt.task.id)


def test_prompts_that_come_at_once_have_numbers_of_their_own(place: Place) -> None:
    def begin(number: int) -> Prompt:
        return place.prompts.begin(A, f"prompt {number}", id=f"p{number}")

    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(begin, [*range(8), *range(8)]))
    assert sorted({each.number for each in begun}) == list(range(1, 9))
    assert len({each.task.id for each in begun}) == 8


def test_the_last_prompt_of_a_conversation_is_found_behind_those_of_others(place: Place) -> None:
    place.prompts.begin(A, "one", id="p1")
    for number in range(60):
        place.prompts.begin(B, "x", id=f"x{number}")
    found = place.prompts.find_last(A)
    assert found is not None
    assert found.id == "p1"
    assert place.prompts.begin(A, "two", id="p2").number == 2
    assert len(place.prompts.list(limit=1000)) == 62


def test_a_name_that_cannot_be_shown_is_refused(place: Place) -> None:
    with pytest.raises(InvalidName):
        place.prompts.begin(A, "x\x00")


@pytest.mark.parametrize(
    "metadata",
    [{}, {"holdfast.prompt": 1}, {"holdfast.prompt": {"agent": "a", "session": "s", "number": 0}}],
)
def test_a_task_that_does_not_say_that_it_is_a_prompt_is_none(
    place: Place, metadata: dict[str, object]
) -> None:
    task = place.space.namespace.tasks.start("work", metadata=metadata)
    assert prompt_of(task) is None
    assert place.prompts.list(limit=9) == []

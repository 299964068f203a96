"""One namespace under three hands at once: callers of its API, commands, a program in a directory.

As a law, however they meet: what a hand wrote last to a path, and was told is kept, is in the head
or on the timeline, unless it lay in the directory and was replaced there, by somebody who had it
before them; a path that nobody has deleted is in the head, with what some hand wrote there last.
When all have ended, the directory, a command and the namespace see the same.
`bench/soak_commands.py` plays it for longer.
"""

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.settings import ExecSettings
from holdfast.testing.sandboxes import why_none

PATHS = ("a", "b", "d/a", "d/b", "e/f/a")
"""Of which none is in another's way: whoever meets meets at a file."""

SEEDS = {path: f"seed {path}" for path in PATHS[::2]}

HANDS = ("api", "command", "directory")


@dataclass(frozen=True, slots=True)
class Step:
    """What a hand does to a path, after a while."""

    path: str
    deletes: bool
    after_ms: int


Plan = dict[str, list[Step]]

steps = st.builds(
    Step,
    path=st.sampled_from(PATHS),
    # One of four: what was deleted by somebody says less.
    deletes=st.sampled_from((False, False, False, True)),
    after_ms=st.integers(0, 40),
)
plans: st.SearchStrategy[Plan] = st.fixed_dictionaries(
    {hand: st.lists(steps, min_size=1, max_size=5) for hand in HANDS}
)


class Hands:
    """A namespace, the directory that is attached to it, and what each hand does."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.vault = holdfast.open(folder / "vault", commands=ExecSettings(is_on=True))
        self.agent = self.vault.namespace("alice")
        for path, text in SEEDS.items():
            self.agent.files.write(path, text)
        self.directory = self.vault.workspace(self.tree, namespace="alice")
        self.directory.agree()
        self.replaced: set[tuple[str, str]] = set()
        """What lay in the directory when somebody replaced it there."""

    def close(self) -> None:
        self.directory.close()
        self.vault.close()

    def api(self, path: str, text: str | None) -> None:
        if text is not None:
            self.agent.files.write(path, text)
        elif self.agent.files.exists(path):
            try:
                self.agent.files.delete(path)
            except holdfast.errors.NotFound:
                return  # Somebody else was first.

    def command(self, path: str, text: str | None) -> None:
        parent = str(Path(path).parent)
        write = f"mkdir -p {parent} && printf '%s' '{text}' > {path}"
        done = self.agent.exec(f"rm -f {path}" if text is None else write)
        assert done.is_ok, done

    def directory_(self, path: str, text: str | None) -> None:
        place = self.tree / path
        if place.exists():
            self.replaced.add((path, place.read_text()))
        if text is None:
            place.unlink(missing_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        self.directory.snapshot_if_changed()

    def head(self) -> dict[str, str]:
        return self.files_of(self.agent)

    @staticmethod
    def files_of(agent: "holdfast.Namespace | holdfast.Moment") -> dict[str, str]:
        found = agent.files.list("", recursive=True)
        return {
            each.path: agent.files.read(each.path).decode() for each in found if each.kind == "file"
        }


def play(plan: Plan) -> None:
    """Lets all hands work at once; raises `AssertionError` if something has vanished."""
    with tempfile.TemporaryDirectory(prefix="holdfast-beside-") as folder:
        hands = Hands(Path(folder))
        try:
            _work(hands, plan)
            _check(hands, plan)
        finally:
            hands.close()


def _work(hands: Hands, plan: Plan) -> None:
    acts: dict[str, Callable[[str, str | None], None]] = {
        "api": hands.api,
        "command": hands.command,
        "directory": hands.directory_,
    }
    failures: list[BaseException] = []
    together = threading.Barrier(len(plan))

    def work(hand: str) -> None:
        try:
            together.wait()
            for number, step in enumerate(plan[hand]):
                time.sleep(step.after_ms / 1000)
                acts[hand](step.path, None if step.deletes else f"{hand} {number}")
        except BaseException as exc:  # noqa: BLE001 - raised below
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(hand,)) for hand in plan]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _check(hands: Hands, plan: Plan) -> None:
    last = {
        (hand, step.path): None if step.deletes else f"{hand} {number}"
        for hand, steps in plan.items()
        for number, step in enumerate(steps)
    }
    head = hands.head()
    ever = {(path, text) for path, text in head.items()}
    for snapshot in hands.agent.timeline():
        ever |= {*hands.files_of(hands.agent.at(snapshot)).items()}
    deleted = {step.path for steps in plan.values() for step in steps if step.deletes}
    for path in PATHS:
        wanted = {text for (_, each), text in last.items() if each == path}
        lost = {text for text in wanted - {None} if (path, text) not in ever | hands.replaced}
        assert not lost, (path, lost)
        if path not in deleted:
            assert head.get(path) in (wanted or {SEEDS.get(path)}), (path, head.get(path), wanted)
    hands.directory.agree()
    assert hands.head() == head
    tree = hands.tree
    assert head == {
        str(each.relative_to(tree)): each.read_text() for each in tree.rglob("*") if each.is_file()
    }
    seen = hands.agent.exec("find . -type f -printf '%P\\n'").stdout.split()
    assert sorted(seen) == sorted(head)
    assert hands.vault.verify().ok


@pytest.mark.skipif(why_none() is not None, reason=why_none() or "")
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(plans)
def test_nothing_vanishes_from_the_head_in_silence(plan: Plan) -> None:
    play(plan)

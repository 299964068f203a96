"""A minute with Holdfast: an agent wrecks its own workspace, and nothing is lost.

    python -m holdfast.demo

Everything happens in a temporary vault that is removed again. Each line that begins with "ok"
was checked; a claim that does not hold ends the demo with exit code 1. So it also shows whether
an installation works.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Final, TypeVar

import holdfast
from holdfast.errors import MergeConflict

T = TypeVar("T")

REPORTS: Final = 2000
PLAN: Final = {"goal": "quarterly report", "done": ["collect", "draft"], "next": "review"}
CONFIG: Final = "model: large\nretries: 3\nsend_mail: false\n"


def main() -> int:
    """Plays the story; returns 0, as a claim that does not hold ends the process."""
    _say("Holdfast: an undo button for AI agents", is_heading=True)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, holdfast.open(folder) as vault:
        agent = vault.namespace("researcher")
        good = _work(agent)
        _wreck(agent)
        _look(agent)
        mess = _go_back(agent, good)
        _change_your_mind(agent, good, mess)
        _try_something_else(agent)
        _look_back(vault, agent)
    _say("\nEvery line that begins with ok was checked. The temporary vault is gone again.")
    return 0


def _work(agent: holdfast.Namespace) -> holdfast.SnapshotInfo:
    _step("The agent works")
    count = agent.files.write_many(
        (f"reports/2026/{n % 12 + 1:02}/case-{n:04}.md", f"# Case {n}\n\nAll is well.\n")
        for n in range(REPORTS)
    )
    agent.files.write("config.yaml", CONFIG)
    agent.store.set("state", "plan", PLAN)
    _say(f"      wrote {count + 1} files, and the plan into the store")
    good, took = _timed(lambda: agent.acting_as("demo").snapshot("report drafted"))
    _claim(f"snapshot {good.id} holds them all ({took})", holds=good.size.entries == count + 2)
    return good


def _wreck(agent: holdfast.Namespace) -> None:
    _step("The agent has a bad idea")
    gone = agent.files.delete("reports", recursive=True)
    agent.files.write("config.yaml", CONFIG.replace("false", "true").replace("3", "9999"))
    agent.store.set("state", "plan", {"goal": "cancel everything", "done": None})
    _say(f"      deleted {gone} reports, rewrote its configuration, lost its plan")


def _look(agent: holdfast.Namespace) -> None:
    _step("What happened?")
    changes, took = _timed(agent.diff)
    removed, changed = len(changes.of("removed")), len(changes.of("changed"))
    is_all = (removed, changed) == (REPORTS, 2)
    _claim(f"diff: {removed} removed, {changed} changed ({took})", holds=is_all)
    for line in agent.text_diff("config.yaml", context_lines=0).splitlines()[3:]:
        _say(f"      config.yaml  {line}")


def _go_back(agent: holdfast.Namespace, good: holdfast.SnapshotInfo) -> holdfast.SnapshotInfo:
    _step("One call brings it back")
    done, took = _timed(lambda: agent.restore(good))
    _claim(f"restored and proven ({took})", holds=done.verified and done.root == good.root)
    _claim("the files are back", holds=len(agent.files.list(recursive=True)) == REPORTS + 1)
    _claim("so is the plan", holds=agent.store.get("state", "plan") == PLAN)
    _claim(f"the mess is kept too, as {done.safety_id}", holds=done.safety_id is not None)
    return agent.get_snapshot(done.safety_id or "")


def _change_your_mind(
    agent: holdfast.Namespace, good: holdfast.SnapshotInfo, mess: holdfast.SnapshotInfo
) -> None:
    _step("Going back can be taken back")
    undone, took = _timed(agent.undo)
    _claim(f"undo: the mess is there again ({took})", holds=undone.root == mess.root)
    redone, took = _timed(agent.redo)
    _claim(f"redo: all is well again ({took})", holds=redone.root == good.root)


def _try_something_else(agent: holdfast.Namespace) -> None:
    _step("Try something in a fork, keep what is good")
    fork, took = _timed(lambda: agent.fork("researcher-what-if"))
    entries = fork.size().entries
    _claim(f"forked {entries} entries, copied none ({took})", holds=entries == REPORTS + 2)
    fork.files.write("summary.md", "# Summary\n\nWritten by the fork.\n")
    agent.store.set("state", "reviewed", value=True)
    merged, took = _timed(lambda: agent.merge(fork))
    names = [change.name for change in merged.changes]
    is_merged = names == ["summary.md"] and agent.store.contains("state", "reviewed")
    _claim(f"merged {', '.join(names)} into later work ({took})", holds=is_merged)
    fork.files.write("config.yaml", "model: small\n")
    agent.files.write("config.yaml", "model: huge\n")
    _claim("a contradiction is refused, with nothing applied", holds=_contradicts(agent, fork))


def _contradicts(agent: holdfast.Namespace, fork: holdfast.Namespace) -> bool:
    try:
        agent.merge(fork)
    except MergeConflict as conflict:
        return conflict.conflicts == [("files", b"config.yaml")]
    return False


def _look_back(vault: holdfast.Holdfast, agent: holdfast.Namespace) -> None:
    _step("Nothing was lost on the way")
    for point in reversed(agent.timeline()):
        _say(f"      {point.number}  {point.kind:9} {point.label or point.reason or ''}".rstrip())
    found, took = _timed(vault.verify)
    _claim(f"verify: {found.objects} objects hash to their names ({took})", holds=found.ok)


def _timed(call: Callable[[], T]) -> tuple[T, str]:
    start = time.perf_counter()
    result = call()
    return result, f"{(time.perf_counter() - start) * 1e3:.1f} ms"


def _claim(claim: str, *, holds: bool) -> None:
    _say(f"  {'ok' if holds else 'FAILED'}  {claim}")
    if not holds:
        sys.exit(1)


def _step(title: str) -> None:
    _say(f"\n{title}", is_heading=True)


def _say(text: str, *, is_heading: bool = False) -> None:
    # Bold on a terminal, plain elsewhere: a pipe or a log keeps no escape codes.
    print(f"\033[1m{text}\033[0m" if is_heading and sys.stdout.isatty() else text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

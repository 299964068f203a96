"""Storage grows with what is new: a long conversation whose state holds all of it."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.engine.core.limits import Limits

TURNS = 1000
PER_VERSION = 6 * 1024
"""Rows of a turn, a version, a trace and a pending entry; the pack of what is new, uncompressed
ends of chunks in it."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place in memory where there is one: a thousand commits need no real disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


def stored(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file() and "-wal" not in path.name]
    return sum(path.stat().st_size for path in files)


def test_a_thousand_turns_cost_what_was_said_and_so_much_for_each_version(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, said, sizes = Random(5), 0, list[int]()
    words = [
        "".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 9))) for _ in range(2000)
    ]
    messages = list[dict[str, str]]()
    for part in range(4):
        # Closed four times: what the database has in its log is in its file then.
        with closing(holdfast.open(folder, limits=Limits(free_floor_bytes=0))) as vault:
            sessions = vault.namespace("agent").sessions
            if part == 0:
                sessions.create("agent", session_id="s", initial_state={"messages": []})
            for number in range(TURNS // 4):
                text = " ".join(rng.choices(words, k=35))
                said += len(text)
                messages.append({"role": ("user", "assistant")[number % 2], "content": text})
                sessions.add_turn("s", text, "ok", state_after={"messages": messages})
        sizes.append(stored(folder))
    with closing(holdfast.open(folder)) as vault:
        sessions = vault.namespace("agent").sessions
        assert sessions.get("s").state == {"messages": messages}
        assert (
            sessions.get_state("s", version=TURNS // 2).state["messages"] == messages[: TURNS // 2]
        )
        assert sessions.get("s").version == TURNS
        vault.collect()
    collected = stored(folder)
    naive = sum(n * said // TURNS for n in range(TURNS))
    with capsys.disabled():
        sys.stdout.write(
            f"\n{TURNS} turns, {said} bytes said: {sizes[-1]} bytes stored, "
            f"{(sizes[-1] - 3 * said) / TURNS:.0f} per version beyond 3 x what was said; "
            f"by quarters {[b - a for a, b in pairwise([0, *sizes])]}; "
            f"{collected} after a collection; every state whole would be {naive}\n"
        )
    assert sizes[-1] <= 3 * said + PER_VERSION * TURNS
    growth = [later - earlier for earlier, later in pairwise(sizes)]
    assert growth[-1] < 1.3 * growth[0], "the last quarter costs what the second did"
    assert collected <= sizes[-1]

"""Kills a real process that writes to a durable store, again and again, on one directory.

The victim says what has been acknowledged, through a pipe that outlives it. HOLDFAST_KILL_ROUNDS
makes it longer, HOLDFAST_KILL_SEED makes it other.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from threading import Thread

import msgspec
import pytest

from holdfast.durable import keeping
from holdfast.durable.store import open_store

ROUNDS = int(os.environ.get("HOLDFAST_KILL_ROUNDS", "12")) // 2
SEED = int(os.environ.get("HOLDFAST_KILL_SEED", "1"))
TOGETHER = 7


@pytest.mark.parametrize("sync", ["full", "normal"])
def test_what_was_acknowledged_outlives_any_kill(tmp_path: Path, sync: str) -> None:
    random = Random(SEED)
    acknowledged: dict[str, int] = {}
    begun: dict[str, int] = {}
    before: dict[str, tuple[int, int]] = {}
    for round_ in range(ROUNDS):
        for line in run_and_kill(tmp_path, sync, random):
            kind, writer, number = line
            (acknowledged if kind == "done" else begun)[writer] = number
        with open_store(tmp_path) as store:
            for writer, number in begun.items():
                found = [store.get(writer, f"k{i}") for i in range(TOGETHER)]
                assert len(set(found)) == 1, f"round {round_}: torn {found}"
                least = acknowledged.get(writer, 0)
                assert least <= (found[0] or 0) <= number, f"round {round_}: {writer}"
                together, single = found[0] or 0, store.get(writer, "single") or 0
                start, last = before.get(writer, (0, 0))
                # The one before this victim's first is its predecessor's, who may have died early.
                earlier = last if together <= start + 1 else together - 1
                assert single in (together, earlier), f"round {round_}"
                assert together > start or single == last, f"round {round_}"
                # What was found is what the next victim goes on from.
                acknowledged[writer], before[writer] = together, (together, single)
    assert sum(acknowledged.values()) > ROUNDS


def run_and_kill(folder: Path, sync: str, random: Random) -> list[tuple[str, str, int]]:
    """Lets a victim write to a store and kills it; returns all that it has said."""
    with subprocess.Popen(
        [sys.executable, __file__, str(folder), sync], stdout=subprocess.PIPE
    ) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(random.randrange(2, 200))]
        # Not a wait for anything: it moves the blow to anywhere within the next few acts.
        time.sleep(random.random() * 0.02)
        victim.kill()
        lines += victim.stdout.readlines()
    assert victim.returncode == -signal.SIGKILL, "it ended by itself"
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]


def say(kind: str, writer: str, number: int) -> None:
    # One write, so that a line is there as a whole or is recognised as torn.
    os.write(1, msgspec.json.encode((kind, writer, number)) + b"\n")


def main(folder: str, sync: str) -> None:
    # So short that the log is flushed and exchanged every few dozen writes.
    keeping.LONG_LOG = keeping.STEP = 4096
    store = open_store(folder, sync="full" if sync == "full" else "normal")

    def work(writer: str) -> None:
        number = store.get(writer, "k0") or 0
        while True:
            number += 1
            say("begun", writer, number)
            store.set_many([(writer, f"k{i}", number) for i in range(TOGETHER)])
            store.set(writer, "single", number)
            if number % 40 == 0 and writer == "a":
                store.snapshot()
            say("done", writer, number)

    for writer in "ab":
        Thread(target=work, args=(writer,)).start()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Plays one C source, round after round; `soak_c_sources.py` starts it under the sanitizers.

    python bench/play_sources.py core --seed 7 --rounds 1

For each source there is a module `play_<source>.py` whose `play(rng, folder)` plays one round,
checks what came of it, and returns how often it did what. A round depends on its seed alone (but
for threads), and leaves nothing behind: memory that grows from round to round is a mistake.
"""

import argparse
import ctypes
import gc
import json
import os
import random
import sys
import time
from collections import Counter
from importlib import import_module
from itertools import count
from pathlib import Path

WARM = 30
"""Rounds until Python has whatever it keeps for later."""
GROWTH_PER_ROUND = 64
GROWTH = 96 << 10
"""Bytes that may be more in the end: tables of Python that grow by leaps."""

NAMES = 1 << 16
"""More than there are places in Python's table of names."""


def settle_names() -> None:
    """Lets Python's own table of names be as large as those in it need, and no larger.

    Names that come and go use its places up, and it is made anew when there are none left: once, at
    whichever round, it is twice as large as it was after the start, which is 200 KB.
    """
    for number in range(NAMES):
        sys.intern(f"a name that goes at once {number}")


def live_bytes() -> int:
    """Returns how many bytes are allocated now; 0 without a sanitizer, which alone knows."""
    process = ctypes.CDLL(None)
    try:
        ask = process["__sanitizer_get_current_allocated_bytes"]
    except AttributeError:
        return 0
    ask.restype = ctypes.c_size_t
    gc.collect()
    settle_names()
    return int(ask())


class Memory:
    """Holds what is alive after each round against what was when all was warm."""

    def __init__(self) -> None:
        self.rounds, self.first, self.least = 0, 0, 0

    def look(self) -> None:
        self.rounds += 1
        if self.rounds % WARM == 0:
            now = live_bytes()
            # One look may fall on a table that was just enlarged: the least of the last counts.
            self.least = now if self.rounds % (4 * WARM) == 0 else min(now, self.least or now)
            self.first = self.first or now

    def growth(self) -> int:
        return self.least - self.first

    def check(self) -> None:
        allowed = GROWTH + GROWTH_PER_ROUND * self.rounds
        if self.growth() > allowed:
            raise AssertionError(f"{self.growth()} bytes more after {self.rounds} rounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("--seed", type=int, required=True, help="of the first round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="at most")
    parser.add_argument("--folder", type=Path, default=Path("/tmp"))
    parser.add_argument("--note", type=Path, help="where to write the seed of the current round")
    options = parser.parse_args()
    play = import_module(f"play_{options.source}").play
    note = os.open(options.note, os.O_WRONLY | os.O_CREAT) if options.note else None
    done, memory, begun = Counter[str](), Memory(), time.monotonic()
    for seed in count(options.seed):
        if seed == options.seed + options.rounds or time.monotonic() > begun + options.seconds:
            break
        if note is not None:
            os.pwrite(note, b"%20d" % seed, 0)
        done.update(play(random.Random(seed), options.folder))
        memory.look()
    memory.check()
    json.dump({"rounds": memory.rounds, "growth": memory.growth(), "done": done}, sys.stdout)


if __name__ == "__main__":
    main()

"""How much memory an entry takes, and a kept snapshot: each in a process of its own.

    python bench/store_memory.py compiled dict 1000000      # what a child does

The child fills a store with values that nobody else holds, and reads its resident memory before
and after; what the allocator could give back, it is asked to. Keys are made on the way: who
keeps the text it was given pays for it, as who copies it does.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from store_contenders import VALUES, open_in_memory
from store_subjects import MANY, Subject

GROUNDS = (("dict", 1_000_000), ("1 KB", 100_000), ("10 KB", 10_000))
KEPT, CHANGED = 100, 10


def resident_bytes() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure(contender: str, kind: str, count: int) -> dict[str, float]:
    """Fills a store in this process; returns bytes by entry, and by kept snapshot."""
    subject = Subject(contender, open_in_memory(contender), count, VALUES[kind])
    subject.put(range(MANY))  # Whatever is loaded and made once is there from now on.
    subject.store.restore(open_in_memory(contender).snapshot())
    before = resident_bytes()
    for number in range(count):
        space, key = subject.pair_of(number)
        subject.store.set(space, key, subject.value_of(number))
    filled = resident_bytes()
    kept = [subject.store.snapshot()]
    for number in range(KEPT):
        changed = range(number * CHANGED, (number + 1) * CHANGED)
        subject.put([place * 7919 % count for place in changed], version=1)
        kept.append(subject.store.snapshot())
    grown = resident_bytes()
    return {"entry": (filled - before) / count, "snapshot": (grown - filled) / len(kept)}


def measure_apart(contender: str, kind: str, count: int) -> dict[str, float]:
    """Does the same in a process of its own."""
    command = [sys.executable, __file__, contender, kind, str(count)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def grounds(*, is_quick: bool) -> Iterator[tuple[str, int]]:
    for kind, count in GROUNDS:
        yield kind, count // 50 if is_quick else count


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))

"""Flips bits all over a catalog, and says what is read after each.

    python bench/soak_bit_flips.py [--flips 2000] [--seed 1] [--only sqlite|postgres] [--table T]
        [--bits 1] [--repair]

A vault with a bit of everything is read as it is. Then one bit is flipped, in the used bytes of
SQLite's file or by an UPDATE in a row of PostgreSQL's, everything is read through the public names,
compared, and the bit is put back. A line for each table says how many were named (an error of
ours), left nothing to be seen, made something seem not to be there, were returned as data, or came
out as an error that is none of ours. It ends with 1 if one of the last three is not 0. With
`--bits` so many are flipped at a time, in eight bytes of the file or in one value.

With `--repair` the vault is repaired after each flip, and the law of that is looked at: `verify` is
clean, or what it names was named by `repair`, a backup can be made, and nothing else is read than
was written. It ends with 1 where that does not hold.
"""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

from holdfast.testing.flips import (
    MISSING,
    NAMED,
    RAW,
    UNSEEN,
    WRONG,
    Flip,
    PostgresFlips,
    SqliteFlips,
    examine,
    fill,
    look,
    open_at,
)
from holdfast.testing.mending import BROKEN, repair_after
from holdfast.testing.postgres import PostgresServer

OUTCOMES = (NAMED, UNSEEN, MISSING, WRONG, RAW)
SHOWN = 40
"""Flips that are told in full: those that should not be."""


def main() -> int:
    """Flips, counts, and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["sqlite", "postgres"])
    parser.add_argument("--table", help="flip bits of this one alone")
    parser.add_argument("--bits", type=int, default=1, help="flip so many at a time")
    parser.add_argument("--repair", action="store_true", help="repair after each flip")
    given = parser.parse_args()
    logging.disable()
    bad = 0
    for name, prepared in (("sqlite", on_sqlite), ("postgres", on_postgres)):
        if given.only in (None, name):
            with prepared(Random(given.seed), given.bits) as flips:
                work = soak_repairs if given.repair else soak
                bad += work(name, flips, given.flips, given.table)
    return 1 if bad else 0


@contextmanager
def on_sqlite(random: Random, bits: int) -> Iterator[SqliteFlips]:
    """Makes a vault in a directory."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder, "vault")
        with open_at(str(vault), vault / "packs") as opened:
            fill(opened)
        yield SqliteFlips(vault, random, bits=bits)


@contextmanager
def on_postgres(random: Random, bits: int) -> Iterator[PostgresFlips]:
    """Makes a vault in a database."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        url = server.dsn(server.create_database())
        with open_at(url, Path(folder)) as opened:
            fill(opened)
        with closing(PostgresFlips(url, Path(folder), random, bits=bits)) as flips:
            yield flips


def soak(name: str, flips: SqliteFlips | PostgresFlips, times: int, only: str | None) -> int:
    """Flips so many bits; returns of how many something was missing, returned, or came out raw."""
    flips.put_back()
    with open_at(flips.location, flips.objects) as vault:
        before = look(vault)
    counts, shown = Counter[tuple[str, str]](), 0
    for _ in range(times):
        done = examine(before, flips.flip(only), flips.location, flips.objects)
        counts[done.table, done.outcome] += 1
        if done.outcome not in (NAMED, UNSEEN) and shown < SHOWN:
            shown += 1
            print(_line(done), flush=True)
    flips.put_back()
    print(
        f"\n{name}: {times} flips",
        f"{'':24}" + "".join(f"{each:>12}" for each in OUTCOMES),
        sep="\n",
    )
    for table in sorted({table for table, _ in counts}):
        print(f"{table:24}" + "".join(f"{counts[table, each]:12}" for each in OUTCOMES))
    totals = {each: sum(n for (_, of), n in counts.items() if of == each) for each in OUTCOMES}
    print(f"{'all':24}" + "".join(f"{totals[each]:12}" for each in OUTCOMES))
    print(
        f"{name}: named {totals[NAMED]}, not visible {totals[UNSEEN]}, "
        f"wrong {totals[WRONG] + totals[MISSING]} (returned {totals[WRONG]}, "
        f"missing {totals[MISSING]}), raw {totals[RAW]}",
        flush=True,
    )
    return totals[MISSING] + totals[WRONG] + totals[RAW]


def soak_repairs(
    name: str, flips: SqliteFlips | PostgresFlips, times: int, only: str | None
) -> int:
    """Flips so many bits, with a repair after each; returns after how many the law was broken."""
    flips.put_back()
    with open_at(flips.location, flips.objects) as vault:
        before = look(vault)
    counts = Counter[str]()
    for _ in range(times):
        done = repair_after(before, flips.flip(only), flips.location, flips.objects)
        counts[done.outcome] += 1
        if done.outcome == BROKEN:
            print(_line(done), flush=True)
    flips.put_back()
    print(f"{name}: {times} flips and repairs: {dict(counts)}", flush=True)
    return counts[BROKEN]


def _line(done: Flip) -> str:
    return f"{done.outcome} {done.table}, {done.where}: {done.detail[:200]}"


if __name__ == "__main__":
    sys.exit(main())

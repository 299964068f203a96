"""What it costs to remember and to recall, with 1 k and 10 k memories in a namespace.

    make bench ONLY=memory
    python bench/bench_memory.py --sizes 1000 10000 --rounds 30
    python bench/bench_memory.py --postgres          # the same on a real PostgreSQL
    python bench/bench_memory.py --vectors           # with 384 numbers for each memory, too

`usual` asks for something with the threshold that clients send, `common` for words that most
memories hold, `context` for the best five whatever their score.
"""

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import holdfast

VERBS = ("prefers", "likes", "ordered", "asked for", "complained about", "returned", "lives near")
NOUNS = [f"{kind}{number}" for kind in ("shop", "dish", "tool", "city") for number in range(500)]
DIMENSIONS = 384


def sentence(rng: random.Random) -> str:
    first, second, third = rng.sample(NOUNS, 3)
    return f"The user {rng.choice(VERBS)} {first} and mentioned {second}, after {third} was closed"


def vectors(texts: Sequence[str]) -> list[list[float]]:
    rngs = [random.Random(text) for text in texts]
    return [[rng.gauss(0, 1) for _ in range(DIMENSIONS)] for rng in rngs]


@contextlib.contextmanager
def opened(*, is_postgres: bool, has_vectors: bool) -> Iterator[holdfast.Holdfast]:
    embed = vectors if has_vectors else None
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if not is_postgres:
            yield stack.enter_context(holdfast.open(folder, embed=embed))
            return
        from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - a dev dependency

        server = stack.enter_context(PostgresServer())
        url = server.dsn(server.create_database())
        yield stack.enter_context(holdfast.open(url, objects=Path(folder), embed=embed))


def median_ms(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure(vault: holdfast.Holdfast, size: int, rounds: int) -> None:
    rng = random.Random(size)
    memory = vault.namespace(f"of-{size}").memory
    start = time.perf_counter()
    for _ in range(size):
        memory.add(sentence(rng))
    add_ms = (time.perf_counter() - start) * 1e3 / size
    steps: dict[str, Callable[[], object]] = {
        "usual": lambda: memory.search(f"What did the user say about {rng.choice(NOUNS)}?"),
        "common": lambda: memory.search("user mentioned something closed"),
        "context": lambda: memory.search(
            f"closed {rng.choice(NOUNS)} near the user", threshold=0.0, limit=5
        ),
        "list": memory.list,
    }
    shown = "  ".join(f"{name} {median_ms(step, rounds):7.2f}" for name, step in steps.items())
    print(f"{size:>7}  add {add_ms:6.2f}  {shown}  (ms)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--vectors", action="store_true")
    given = parser.parse_args()
    with opened(is_postgres=given.postgres, has_vectors=given.vectors) as vault:
        for size in given.sizes:
            measure(vault, size, given.rounds)


if __name__ == "__main__":
    main()

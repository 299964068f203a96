"""How long `verify` and a backup take with packs in a bucket, and how long they hold a transaction.

    python bench/bench_apart.py            # a bucket of SeaweedFS that takes 20 ms for each request

Prints for each how long it took, the longest transaction of it, and how many requests there were.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.testing.buckets import SeaweedServer, Wire


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--snapshots", type=int, default=10)
    parser.add_argument("--delay-ms", type=float, default=20.0)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        SeaweedServer() as server,
        Wire(server.endpoint) as wire,
    ):
        os.environ.update(wire.environ, HOLDFAST_CACHE=f"{folder}/cache")
        limits = Limits(inline_bytes=0, free_floor_bytes=0)
        with holdfast.open(f"{folder}/vault", objects=server.url("packs"), limits=limits) as vault:
            _fill(vault, files=arguments.files, snapshots=arguments.snapshots)
            wire.delay_s = arguments.delay_ms / 1000
            acts: dict[str, Callable[[], object]] = {
                "verify": vault.verify,
                "backup to a directory": lambda: vault.backup(Path(folder) / "backup"),
                "the same again": lambda: vault.backup(Path(folder) / "backup"),
            }
            for name, act in acts.items():
                _measure(name, act, vault, wire)


def _fill(vault: "holdfast.Holdfast", *, files: int, snapshots: int) -> None:
    random, alice = Random(7), vault.namespace("alice")
    for number in range(snapshots):
        paths = [f"{n % 40}/{n}.txt" for n in range(number, files, snapshots)]
        alice.files.write_many([(path, random.randbytes(2000)) for path in paths])
        alice.snapshot(str(number))


def _measure(name: str, act: Callable[[], object], vault: Any, wire: Wire) -> None:  # noqa: ANN401 - its inside
    catalog, longest = vault._context.catalog, [0.0]  # noqa: SLF001 - as above
    read = catalog.read

    @contextmanager
    def timed() -> Generator[Any]:
        with read() as transaction:
            begun = time.perf_counter()
            try:
                yield transaction
            finally:
                longest[0] = max(longest[0], time.perf_counter() - begun)

    catalog.read = timed
    wire.counts.clear()
    begun = time.perf_counter()
    try:
        act()
    finally:
        catalog.read = read
    took = time.perf_counter() - begun
    print(
        f"{name:24} {took:6.2f} s, {longest[0]:6.2f} s of it in one transaction, "
        f"{sum(wire.counts.values())} requests"
    )


if __name__ == "__main__":
    main()

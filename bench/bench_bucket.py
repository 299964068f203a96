"""What a bucket costs: requests, which no noise of the machine can move, and seconds beside a disk.

    make bench ONLY=bucket
    python bench/bench_bucket.py --files 400 --delay-ms 20

A real SeaweedFS behind a wire that counts and waits `--delay-ms` before each request. Snapshots:
2,000 files of 3 KB, of which ten are changed each time. Exports: 4,000 files, 72 MB, half of that
in packs; each by a process that has nothing in memory, all kinds in turns. Medians of `--times`.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import holdfast
from holdfast.testing.buckets import SeaweedServer, Wire

SMALL_FILES, SMALL_BYTES = 2_000, 3_000
CHANGED, ROUNDS = 10, 30
EXPORTED_BYTES = 18_000
MOST_REQUESTS, MOST_RATIO = 45, 1.5
"""What a cold export may take, beside a directory."""


def main() -> None:
    parser = argparse.ArgumentParser(description="What a bucket costs.")
    parser.add_argument("--files", type=int, default=4_000, help="files that are exported")
    parser.add_argument("--delay-ms", type=float, default=20.0, help="wait before each request")
    parser.add_argument("--times", type=int, default=3, help="exports of each usual kind")
    parser.add_argument("--all", action="store_true", help="also without a cache, and a small one")
    parser.add_argument("--export", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.export:
        _export(*given.export)
        return
    home = Path(tempfile.mkdtemp(prefix="holdfast-bench-bucket-"))
    try:
        with SeaweedServer() as server, Wire(server.endpoint) as wire:
            os.environ.update(wire.environ)
            os.environ["HOLDFAST_CACHE"] = str(home / "cache")
            print_snapshots(home, server.url("snapshots"), wire)
            wire.delay_s = given.delay_ms / 1000
            print_exports(home, server.url("exports"), wire, given)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def print_snapshots(home: Path, objects: str, wire: Wire) -> None:
    with holdfast.open(home / "small", objects=objects) as vault:
        agent = vault.namespace("bench")
        agent.files.write_many((f"f{n:04}", _text(n, SMALL_BYTES)) for n in range(SMALL_FILES))
        first = agent.snapshot("first")
        before = wire.counts.copy()
        for turn in range(ROUNDS):
            changed = (
                (f"f{n:04}", _text((turn + 1) * 7919 + n, SMALL_BYTES)) for n in range(CHANGED)
            )
            agent.files.write_many(changed)
            agent.snapshot()
        taken, before = wire.counts - before, wire.counts.copy()
        for _ in range(8):
            agent.restore(first)
            agent.undo()
        moved = wire.counts - before
    print("| | requests to the bucket |\n|---|---|")
    rounds = f"{ROUNDS} times {CHANGED} changed files of {SMALL_FILES:,}, and a snapshot"
    print(f"| {rounds} | {_shown(taken)} |")
    print(f"| 8 times restore and undo | {_shown(moved)} |")
    print()


def print_exports(home: Path, objects: str, wire: Wire, given: argparse.Namespace) -> None:
    files = given.files
    for place in (None, objects):
        with holdfast.open(home / ("near" if place is None else "far"), objects=place) as vault:
            agent = vault.namespace("bench")
            agent.files.write_many(
                (f"d{n % 40}/f{n:05}", _text(n, EXPORTED_BYTES)) for n in range(files)
            )
            agent.snapshot()
            vault.collect()
    kinds = {
        "directory": (home / "near", "", dict[str, str]()),
        "bucket, cache empty": (home / "far", objects, {}),
        "bucket, cache full": (home / "far", objects, {}),
    }
    for name, most in (("no cache", 0), ("cache of 8 MB", 8 << 20)) if given.all else ():
        kinds[f"bucket, {name}"] = (home / "far", objects, {"HOLDFAST_CACHE_BYTES": f"{most}"})
    title = f"all of {files:,} files, {wire.delay_s * 1000:g} ms before each request"
    print(f"| {title} | seconds | ratio | requests | MB read |")
    print("|---|---|---|---|---|")
    found: dict[str, list[tuple[float, int, float]]] = {name: [] for name in kinds}
    for turn in range(given.times):
        for name, (vault, place, environ) in kinds.items():
            if environ and turn:
                continue
            if not name.endswith("full"):
                shutil.rmtree(home / "cache", ignore_errors=True)
            with _counted(wire) as counted:
                seconds = _run(vault, place, environ)
            found[name].append((seconds, counted[0], counted[1] / 1e6))
    usual = statistics.median(seconds for seconds, _, _ in found["directory"])
    for name, runs in found.items():
        seconds, requests, read = (statistics.median(column) for column in zip(*runs, strict=True))
        ratio = seconds / usual
        print(f"| {name} | {seconds:.1f} | {ratio:.2f}x | {requests:g} | {read:.0f} |")
        if name.endswith("empty"):
            is_met = requests <= MOST_REQUESTS and ratio <= MOST_RATIO
            verdict = "met" if is_met else "NOT MET"
            limit = f"at most {MOST_REQUESTS} requests and {MOST_RATIO}x: {verdict}"
    print()
    print(limit)


@contextmanager
def _counted(wire: Wire) -> Iterator[list[int]]:
    counted, requests, read = [0, 0], wire.counts.total(), wire.body_bytes
    yield counted
    counted[:] = wire.counts.total() - requests, wire.body_bytes - read


def _run(vault: Path, place: str, environ: dict[str, str]) -> float:
    command = [sys.executable, __file__, "--export", str(vault), place]
    done = subprocess.run(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


def _export(location: str, objects: str) -> None:
    began = time.perf_counter()
    with (
        holdfast.open(location, objects=objects or None) as vault,
        Path(os.devnull).open("wb") as sink,
    ):
        vault.namespace("bench").export(sink)
    print(json.dumps(time.perf_counter() - began))


def _text(seed: int, size: int) -> bytes:
    """Returns bytes of which half is left when they are compressed."""
    return random.Random(seed).randbytes(size // 2).hex().encode()


def _shown(counts: "dict[str, int]") -> str:
    return ", ".join(f"{number} {method}" for method, number in sorted(counts.items())) or "0"


if __name__ == "__main__":
    main()

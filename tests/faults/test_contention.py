"""Fifty writers on one namespace, with a collector at work beside them.

Five processes of ten threads, and two of ten, on both catalogs. Nobody's acknowledged work is
lost, nobody meets a locked database, and the only answer that a writer may have to try again
is `HeadMoved`.

What can be compared and set is the head. So one counter is the label of a snapshot, and the
chain of snapshots itself shows that no update got lost. Another is a file: it is read, changed
and written back in a fork, since what is pending in one namespace all its writers share.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import HeadMoved, MergeConflict
from holdfast.model.basics import Kind, SnapshotInfo
from holdfast.testing.faults import find_litter

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)
THREADS = 10
ROUNDS = {2: 2, 5: 1}
"""How often each thread goes to work, by the number of processes."""

COUNTERS = [f"counter/{number}" for number in range(4)]

Said = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, or nothing for a file beside the packs."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@contextmanager
def opened(where: str, folder: Path) -> Iterator[Context]:
    catalog: Catalog = PostgresCatalog(where) if where else SqliteCatalog(folder)
    with closing(catalog):
        yield Context.of(catalog, DiskBlobStore(folder / "packs"), limits=LIMITS)


# What the parent does


@pytest.mark.parametrize("processes", [2, 5])
def test_no_update_is_lost_among_writers_that_compare_and_set(
    where: str, tmp_path: Path, processes: int
) -> None:
    with opened(where, tmp_path) as context:
        Holdfast(context).namespace("shared").snapshot("0")
    said = run(where, tmp_path, count_up, processes=processes)
    assert len(said) == processes * THREADS * ROUNDS[processes]
    with opened(where, tmp_path) as context:
        vault = Holdfast(context)
        shared = vault.namespace("shared")
        timeline = {snapshot.id: snapshot for snapshot in shared.timeline()}
        # The counter has counted everyone, and each has built on what it had seen.
        assert shared.get_snapshot("@").label == str(len(said))
        assert len({line["expected"] for line in said}) == len(said)
        for line in said:
            snapshot = timeline[line["snapshot"]]
            assert snapshot.parent == line["expected"]
            assert shared.at(snapshot).files.read(line["path"]) == content(line["path"])
            assert shared.files.read(line["path"]) == content(line["path"])
            assert shared.store.get("last", line["path"]) == line["path"]
        check_sound(context)


@pytest.mark.parametrize("processes", [5])
def test_no_work_is_lost_among_writers_that_restore_each_others_snapshots(
    where: str, tmp_path: Path, processes: int
) -> None:
    with opened(where, tmp_path) as context:
        Holdfast(context).namespace("shared").snapshot("0")
    said = run(where, tmp_path, go_back_and_forth, processes=processes)
    assert len(said) == processes * THREADS * ROUNDS[processes]
    with opened(where, tmp_path) as context:
        vault = Holdfast(context)
        shared = vault.namespace("shared")
        timeline = shared.timeline()
        by_id = {snapshot.id: snapshot for snapshot in timeline}
        # Every write is on the timeline: in a snapshot of its own, or in one for safety.
        seen: dict[str, SnapshotInfo] = {}
        for snapshot in timeline:
            for info in shared.at(snapshot).files.list(recursive=True):
                seen.setdefault(info.path, snapshot)
        now = {info.path for info in shared.files.list(recursive=True)}
        for line in said:
            path = line["path"]
            moment = shared if path in now else shared.at(seen[path])
            assert moment.files.read(path) == content(path)
            assert by_id[line["snapshot"]].root.hex() == line["root"]
            assert by_id[line["restored"]].root == by_id[line["target"]].root
        numbers = [snapshot.number for snapshot in timeline]
        assert numbers == [*range(len(timeline), 0, -1)]
        assert {snapshot.kind for snapshot in timeline} >= {Kind.SNAPSHOT, Kind.RESTORE}
        check_sound(context)


def test_no_update_is_lost_among_writers_that_fork_and_merge(where: str, tmp_path: Path) -> None:
    """Content that is read, changed and written back: in a fork, where nobody else writes."""
    with opened(where, tmp_path) as context:
        shared = Holdfast(context).namespace("shared")
        shared.files.write_many([(path, "0 nobody") for path in COUNTERS])
        shared.snapshot("0")
    said = run(where, tmp_path, merge_back, processes=2)
    with opened(where, tmp_path) as context:
        vault = Holdfast(context)
        shared = vault.namespace("shared")
        for path in COUNTERS:
            total = int(shared.files.read_text(path).split()[0])
            assert total == sum(line["path"] == path for line in said) > 0
        assert vault.namespaces() == ["shared"]
        check_sound(context)


def check_sound(context: Context) -> None:
    vault = Holdfast(context)
    assert vault.verify().faults == []
    vault.collect(now=True)
    assert vault.verify().faults == []
    assert find_litter(context) == set()


def run(where: str, folder: Path, work: "Work", *, processes: int) -> list[Said]:
    """Starts processes that all begin at once; returns what they have said."""
    rounds = str(ROUNDS[processes])
    roles = [collect_all_the_time.__name__, *[work.__name__] * processes]
    with ExitStack() as cleanup:
        children = [
            cleanup.enter_context(
                subprocess.Popen(
                    [sys.executable, __file__, role, where, str(folder), str(number), rounds],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                )
            )
            for number, role in enumerate(roles)
        ]
        for child in children:
            cleanup.callback(child.kill)
        collector, *writers = children
        for child in children:
            assert child.stdout is not None
            assert child.stdin is not None
            assert child.stdout.readline() == b"ready\n", child.communicate()[1].decode()
        for child in children:
            child.stdin.write(b"go\n")
            child.stdin.flush()
        said: list[Said] = []
        for child in writers:
            output, errors = child.communicate()
            assert (child.returncode, errors) == (0, b""), errors.decode()
            said += [msgspec.json.decode(line) for line in output.splitlines()]
        output, errors = collector.communicate()
        assert (collector.returncode, errors) == (0, b""), errors.decode()
        assert int(output) > 0
        return said


# What the children do

Work = Callable[[Holdfast, Namespace, str, int], Iterator[Said]]
"""Called with the vault, the shared namespace, the writer's name and how often to go to work."""


def content(path: str) -> bytes:
    """Half of it goes to packs, half into the catalog."""
    random = Random(path)
    return random.randbytes(random.choice([300, 6000]))


def count_up(_vault: Holdfast, shared: Namespace, writer: str, rounds: int) -> Iterator[Said]:
    random = Random(writer)
    for number in range(rounds):
        path = f"own/{writer}/{number}"
        shared.files.write("scratch", Random(path).randbytes(5000))
        shared.files.write(path, content(path))
        shared.store.set("last", path, path)
        while True:
            seen = shared.get_snapshot("@")
            try:
                done = shared.snapshot(str(int(seen.label or 0) + 1), expected=seen)
            except HeadMoved:
                # As anybody would: fifty that try without a pause only keep each other busy.
                time.sleep(random.random() * 0.3)
                continue
            break
        yield {"path": path, "snapshot": done.id, "expected": seen.id}


def go_back_and_forth(
    _vault: Holdfast, shared: Namespace, writer: str, rounds: int
) -> Iterator[Said]:
    random = Random(writer)
    for number in range(rounds):
        path = f"own/{writer}/{number}"
        shared.files.write(path, content(path))
        done = shared.snapshot()
        target = random.choice(shared.timeline(limit=30))
        restored = shared.restore(target)
        assert restored.verified
        assert restored.snapshot is not None
        yield {
            "path": path,
            "snapshot": done.id,
            "root": done.root.hex(),
            "target": target.id,
            "restored": restored.snapshot.id,
        }


def merge_back(vault: Holdfast, shared: Namespace, writer: str, rounds: int) -> Iterator[Said]:
    path = COUNTERS[sum(writer.encode()) % len(COUNTERS)]
    for number in range(rounds):
        for attempt in range(1000):
            fork = shared.fork(f"{writer} {number} {attempt}")
            value = int(fork.files.read_text(path).split()[0])
            # Who has written it is part of it: two who count to the same number differ.
            fork.files.write(path, f"{value + 1} {writer} {number}")
            try:
                shared.merge(fork)
            except MergeConflict:
                vault.delete_namespace(fork.name)
                continue
            vault.delete_namespace(fork.name)
            break
        yield {"path": path}


def collect_all_the_time(vault: Holdfast) -> None:
    """Collects until nobody wants it any more; says how often."""
    done = threading.Event()
    waiting = threading.Thread(target=lambda: (sys.stdin.read(), done.set()))
    waiting.start()
    times = 0
    while not done.wait(0.05) or not times:
        assert vault.collect(now=True).damaged == ()
        times += 1
    sys.stdout.write(f"{times}\n")


def main(role: str, where: str, folder: str, number: str, rounds: str) -> None:
    with opened(where, Path(folder)) as context:
        vault = Holdfast(context)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        if role == collect_all_the_time.__name__:
            collect_all_the_time(vault)
            return
        work: Work = globals()[role]
        shared = vault.namespace("shared")

        def do(thread: int) -> list[Said]:
            return [*work(vault, shared, f"{number}-{thread}", int(rounds))]

        with ThreadPoolExecutor(THREADS) as pool:
            for lines in pool.map(do, range(THREADS)):
                for line in lines:
                    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

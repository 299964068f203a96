"""Kills a real process at random moments, again and again, on one vault.

The victim says what it is about to do and what has been acknowledged, through a pipe that
outlives it. Afterwards every acknowledged snapshot must be there and hold exactly what it
held, the head must show what was there before the last act or after it, and nothing may be
left lying about. HOLDFAST_KILL_ROUNDS makes it longer, HOLDFAST_KILL_SEED makes it other.
"""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import NamespaceNotFound, NothingToUndo
from holdfast.testing.faults import find_litter

ROUNDS = int(os.environ.get("HOLDFAST_KILL_ROUNDS", "8"))
SEED = int(os.environ.get("HOLDFAST_KILL_SEED", "1"))
LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)

Model = dict[str, Any]
"""What a namespace holds: files by path, values by key."""


def test_what_was_acknowledged_outlives_any_kill(tmp_path: Path) -> None:
    random = Random(SEED)
    acknowledged: dict[str, str] = {}
    for round_ in range(ROUNDS):
        said = run_and_kill(tmp_path, seed=random.randrange(1 << 30), random=random)
        fresh = {line["snapshot"]: line["holds"] for line in said if "snapshot" in line}
        acknowledged |= fresh
        check(tmp_path, said, fresh, f"round {round_}")
    assert len(acknowledged) > ROUNDS
    with opened(tmp_path) as context:
        alice = Holdfast(context).namespace("alice")
        for snapshot_id, holds in acknowledged.items():
            assert name_of(read(alice.at(snapshot_id))) == holds
        for snapshot_id in random.sample([*acknowledged], k=min(len(acknowledged), 40)):
            alice.restore(snapshot_id)
            assert name_of(read(alice)) == acknowledged[snapshot_id]


def run_and_kill(root: Path, *, seed: int, random: Random) -> list[dict[str, Any]]:
    """Lets a victim work on a vault and kills it; returns all that it has said."""
    with subprocess.Popen(
        [sys.executable, __file__, str(root), str(seed)], stdout=subprocess.PIPE
    ) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(random.randrange(2, 60))]
        # Not a wait for anything: it moves the blow to anywhere within the next few acts.
        time.sleep(random.random() * 0.02)
        victim.kill()
        lines += victim.stdout.readlines()
    assert victim.returncode == -signal.SIGKILL, "it ended by itself"
    return [msgspec.json.decode(line) for line in lines if line.endswith(b"\n")]


def check(root: Path, said: list[dict[str, Any]], fresh: dict[str, str], at: str) -> None:
    """Checks what the dead have left, cleans up after them, and checks again."""
    expected = {said[-1]["before"], said[-1]["after"]}
    with opened(root) as context:
        vault = Holdfast(context)
        alice = vault.namespace("alice")
        assert vault.verify().faults == [], at
        found = name_of(read(alice))
        if None in expected:
            # An undo or redo leads to what some snapshot holds.
            expected |= {name_of(read(alice.at(snapshot))) for snapshot in alice.timeline()}
        assert found in expected, at
        for snapshot_id, holds in fresh.items():
            assert name_of(read(alice.at(snapshot_id))) == holds, at
        vault.collect(now=True)
        assert find_litter(context) == set(), at
        assert name_of(read(alice)) == found, at
        assert vault.verify().faults == [], at
        with context.catalog.read() as transaction:
            named = {f"{name}.pack" for name in transaction.pack_names()}
        packs = [path.name for path in (root / "packs").rglob("*") if path.is_file()]
        assert sorted(packs) == sorted(named), at


def read(moment: Namespace | Moment) -> Model:
    files = {f.path: moment.files.read(f.path) for f in moment.files.list(recursive=True)}
    return {**files, **{f"store {key}": value for key, value in moment.store.items("s")}}


def name_of(model: Model) -> str:
    """A short name for what a namespace holds: equal contents have equal names."""
    return hashlib.sha256(repr(sorted(model.items())).encode()).hexdigest()[:16]


@contextmanager
def opened(root: Path) -> Iterator[Context]:
    with closing(SqliteCatalog(root)) as catalog:
        yield Context.of(catalog, DiskBlobStore(root / "packs"), limits=LIMITS)


class Victim:
    """Does one thing after another to a namespace, until it is killed."""

    def __init__(self, vault: Holdfast, random: Random) -> None:
        self._vault = vault
        self._alice = vault.namespace("alice")
        self._random = random
        self._model = read(self._alice)

    def run(self) -> None:
        """Works, and never returns."""
        acts = [
            (self._write, 6),
            (self._write_many, 2),
            (self._delete, 2),
            (self._set, 3),
            (self._snapshot, 4),
            (self._restore, 2),
            (self._undo, 2),
            (self._redo, 1),
            (self._collect, 1),
        ]
        while True:
            [act] = self._random.choices(
                [act for act, _ in acts], weights=[weight for _, weight in acts]
            )
            act()

    def _write(self) -> None:
        path, data = self._path(), self._data()
        self._do({**self._model, path: data}, lambda: self._alice.files.write(path, data))

    def _write_many(self) -> None:
        items = {self._path(): self._data() for _ in range(5)}
        self._do({**self._model, **items}, lambda: self._alice.files.write_many(items.items()))

    def _delete(self) -> None:
        files = [path for path in self._model if path.startswith("d/")]
        if files:
            path = self._random.choice(files)
            rest = {name: data for name, data in self._model.items() if name != path}
            # The directory stays when its last file goes; it holds no bytes to compare.
            if len(files) > 1:
                self._do(rest, lambda: self._alice.files.delete(path))

    def _set(self) -> None:
        key, value = self._random.choice("xyz"), self._random.randbytes(3000)
        self._do(
            {**self._model, f"store {key}": value}, lambda: self._alice.store.set("s", key, value)
        )

    def _snapshot(self) -> None:
        self._do(self._model, lambda: self._say_snapshot(self._alice.snapshot().id))

    def _restore(self) -> None:
        timeline = self._alice.timeline(limit=20)
        if timeline:
            target = self._random.choice(timeline)
            self._do(read(self._alice.at(target)), lambda: self._alice.restore(target))

    def _undo(self) -> None:
        self._go(self._alice.undo)

    def _redo(self) -> None:
        self._go(self._alice.redo)

    def _collect(self) -> None:
        self._do(self._model, lambda: self._vault.collect(now=True))

    def _go(self, step: Callable[[], object]) -> None:
        say(before=name_of(self._model), after=None)
        try:
            step()
        except (NothingToUndo, NamespaceNotFound):
            return
        self._model = read(self._alice)

    def _do(self, after: Model, act: Callable[[], object]) -> None:
        say(before=name_of(self._model), after=name_of(after))
        act()
        self._model = after

    def _say_snapshot(self, snapshot_id: str) -> None:
        holds = name_of(self._model)
        say(before=holds, after=holds, snapshot=snapshot_id, holds=holds)

    def _path(self) -> str:
        return f"d/{self._random.randrange(8)}"

    def _data(self) -> bytes:
        return self._random.randbytes(self._random.choice([20, 2000, 2000, 9000]))


def say(**values: object) -> None:
    # One write, so that a line is there as a whole or is recognised as torn.
    os.write(1, msgspec.json.encode(values) + b"\n")


def main(root: str, seed: str) -> None:
    with opened(Path(root)) as context:
        Victim(Holdfast(context), Random(int(seed))).run()


if __name__ == "__main__":
    main(*sys.argv[1:])

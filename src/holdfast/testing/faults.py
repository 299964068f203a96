"""Power cuts at every step: catalogs and blob stores that die when a test says so.

A step is one call of a port. A `Fuse` lets so many steps pass and then blows: the call raises
`PowerCut`, and so does every later call through anything that hangs on the same fuse, because
the dead do nothing more. What runs after a cut, cleanup included, reaches no disk.

    for fuse in fuses():
        ...                                             # the same start each time
        with fuse:
            context = Context.of(FusedCatalog(catalog, fuse), FusedBlobStore(blobs, fuse))
            Holdfast(context).namespace("alice").snapshot()
        ...                                             # open it again: the old, or the new

The kernel's part is the test's: it closes the real catalog, as a dead process holds no lock.
`observe` and `find_litter` say what a vault shows, and what was left lying about in it.

Real directories are changed by system calls, without a port: `holdfast.testing.places` makes
steps of these, of the same fuse; a `Trouble` makes the call fail instead, as a full disk does.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from types import TracebackType
from typing import Any, Self, cast

from holdfast.blobs.port import BlobStore
from holdfast.catalog.port import Catalog, Lease
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.memory.plane import settled
from holdfast.engine.objects import content
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.ownership import settle_entry
from holdfast.engine.planes.view import View
from holdfast.engine.vault import Holdfast
from holdfast.entries import IN_ROW, Blob, Entry, Inline, decode_entry
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Head, Plane, SnapshotInfo
from holdfast.model.upkeep import Load, Loss

Counts = Callable[[str], bool]
"""Says of a step's name whether a power cut may come there."""

Tear = Callable[[str, bytes], None]
"""Leaves what an interrupted `put` of this name and these bytes would leave."""

Contents = dict[tuple[Plane, bytes], tuple[Entry, bytes | None]]
"""Every entry of every plane, with the content that it stands for."""
Observed = dict[str, dict[str, Any]]
"""What a vault shows, by namespace: plain values that can be compared."""


class PowerCut(BaseException):
    """The process died here. Not an `Exception`: no handler may save the day."""


def every_step(_name: str, /) -> bool:
    """Counts every step."""
    return True


def leaves_traces(name: str, /) -> bool:
    """Counts the steps around which something on disk changes: a quick choice of cuts.

    Between two of them all steps are alike, if transactions happen wholly or not at all.
    """
    return name.startswith(("commit", "blobs.put", "blobs.delete", "catalog.reclaim"))


class Fuse:
    """Lets `steps` steps pass, and blows at the next one.

    As a context manager it ends its own power cut, and nothing else.
    """

    def __init__(self, steps: int, *, counts: Counts = every_step) -> None:
        self.steps = steps
        self.died_at: str | None = None
        """The step that it blew at."""
        self._left = steps
        self._counts = counts
        self._guard = threading.Lock()

    @property
    def blown(self) -> bool:
        """Whether the power is gone."""
        return self.died_at is not None

    def step(self, name: str, /) -> None:
        """Goes one step further; raises `PowerCut` if this is the last, or one after it."""
        with self._guard:
            if self.died_at is None:
                if not self._counts(name):
                    return
                if self._left:
                    self._left -= 1
                    return
                self.died_at = name
        raise PowerCut(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> bool:
        return self.blown and kind is not None and issubclass(kind, PowerCut)

    def __repr__(self) -> str:
        return f"Fuse({self.steps}, died_at={self.died_at!r})"


class Trouble(Fuse):
    """Lets `steps` steps pass and makes the next one fail with an `OSError`; life goes on.

    With `lasts`, every later step that counts fails too.
    """

    def __init__(
        self, steps: int, code: int, *, counts: Counts = every_step, lasts: bool = False
    ) -> None:
        super().__init__(steps, counts=counts)
        self._code = code
        self._lasts = lasts

    def step(self, name: str, /) -> None:
        """Goes one step further; raises the error if it is this one's turn."""
        with self._guard:
            if not self._counts(name) or (self.blown and not self._lasts):
                return
            if self._left:
                self._left -= 1
                return
            self.died_at = self.died_at or name
        raise OSError(self._code, os.strerror(self._code), name)


def fuses(*, counts: Counts = every_step) -> Iterator[Fuse]:
    """Yields fuses that blow one step later each time, until one does not blow."""
    for steps in count():
        fuse = Fuse(steps, counts=counts)
        yield fuse
        if not fuse.blown:
            return


class FusedTransaction:
    """A transaction whose every method is a step."""

    def __init__(self, inner: Transaction, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    @property
    def __class__(self) -> type[Transaction]:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride] - what it stands for
        return Transaction

    # By name, not one by one: a method that the port gains is a step from its first day.
    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._inner, name)

        def call(*args: object, **options: object) -> object:
            self._fuse.step(f"transaction.{name}")
            return method(*args, **options)

        return call


class FusedCatalog:
    """A catalog that dies with its fuse; around a commit there are two steps.

    One is just before it: the transaction is lost. One is just after it: the transaction has
    happened, and whoever asked for it never hears so.
    """

    def __init__(self, inner: Catalog, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    @property
    def writer(self) -> str:
        """Returns this opener's name."""
        self._fuse.step("catalog.writer")
        return self._inner.writer

    @property
    def kind(self) -> str:
        """Returns what the rows are in."""
        return self._inner.kind

    @property
    def keep_deleted(self) -> timedelta:
        """Returns how long bytes outlive their rows."""
        return self._inner.keep_deleted

    @contextmanager
    def read(self) -> Generator[Transaction]:
        """Opens a transaction that sees one moment."""
        self._fuse.step("read")
        with self._inner.read() as transaction:
            yield self._fused(transaction)

    @contextmanager
    def ask(self) -> Generator[Transaction]:
        """Opens what reads with a single question."""
        self._fuse.step("ask")
        with self._inner.ask() as transaction:
            yield self._fused(transaction)

    @contextmanager
    def write(self) -> Generator[Transaction]:
        """Opens a transaction that happens wholly or not at all."""
        self._fuse.step("write")
        with self._inner.write() as transaction:
            yield self._fused(transaction)
            self._fuse.step("commit")
        self._fuse.step("commit unacknowledged")

    def is_alive(self, writer: str) -> bool:
        """Says whether the process behind a writer's name still runs."""
        self._fuse.step("catalog.is_alive")
        return self._inner.is_alive(writer)

    @contextmanager
    def lock(self, name: str) -> Generator[Lease]:
        """Holds a lock between all users of the catalog."""
        self._fuse.step("catalog.lock")
        with self._inner.lock(name) as lease:
            yield lease

    def free_bytes(self) -> int | None:
        """Returns the room that is left."""
        self._fuse.step("catalog.free_bytes")
        return self._inner.free_bytes()

    def reclaim(self) -> None:
        """Gives room that deleted rows left back to the disk."""
        self._fuse.step("catalog.reclaim")
        self._inner.reclaim()
        self._fuse.step("catalog.reclaim unacknowledged")

    def tend_log(self) -> None:
        """Does to the log what is due; what it says stays the same."""
        self._inner.tend_log()

    def load(self) -> Load:
        """Says how busy it is."""
        return self._inner.load()

    def scrub(self) -> None:
        """Leaves nothing of rows that are gone; doing it twice is as doing it once."""
        self._fuse.step("catalog.scrub")
        self._inner.scrub()

    def make_room(self) -> None:
        """Gives up what is kept aside, if there is no other room."""
        self._fuse.step("catalog.make_room")
        self._inner.make_room()

    def check_current(self) -> None:
        """Raises if other files lie where the catalog was opened."""
        self._fuse.step("catalog.check_current")
        self._inner.check_current()

    def find_loss(self) -> Loss | None:
        """Returns what was acknowledged and is found missing."""
        self._fuse.step("catalog.find_loss")
        return self._inner.find_loss()

    def find_index_faults(self) -> list[str]:
        """Returns where indexes and rows do not agree."""
        self._fuse.step("catalog.find_index_faults")
        return self._inner.find_index_faults()

    def rebuild_indexes(self) -> dict[str, int]:
        """Makes indexes anew of the rows."""
        self._fuse.step("catalog.rebuild_indexes")
        return self._inner.rebuild_indexes()

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing."""
        self._fuse.step("catalog.accept_loss")
        self._inner.accept_loss()

    def close(self) -> None:
        """Closes the catalog, as only the living do."""
        self._fuse.step("catalog.close")
        self._inner.close()

    def _fused(self, transaction: Transaction) -> Transaction:
        # It has every method of the port through `__getattr__`, which no type checker sees.
        return cast("Transaction", FusedTransaction(transaction, self._fuse))


def leave_nothing(_name: str, _data: bytes, /) -> None:
    """Tears a `put` so that nothing of it is there."""


class FusedBlobStore:
    """A blob store that dies with its fuse; a `put` has three steps.

    Before it nothing is there; in the middle `tear` decides what is; after it the bytes are
    there, and whoever put them never hears so.
    """

    def __init__(self, inner: BlobStore, fuse: Fuse, *, tear: Tear = leave_nothing) -> None:
        self._inner = inner
        self._fuse = fuse
        self._tear = tear

    @property
    def is_remote(self) -> bool:
        """Whether a question is a request."""
        return self._inner.is_remote

    def put(self, name: str, data: bytes, /) -> None:
        """Stores the bytes under the name."""
        self._fuse.step("blobs.put")
        try:
            self._fuse.step("blobs.put torn")
        except PowerCut:
            self._tear(name, data)
            raise
        self._inner.put(name, data)
        self._fuse.step("blobs.put unacknowledged")

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns exactly the range that was asked for, or raises."""
        self._fuse.step("blobs.get")
        return self._inner.get(name, start=start, length=length)

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Passes on what will be asked for; nothing depends on it."""
        self._inner.expect(ranges)

    def size(self, name: str, /) -> int:
        """Returns the number of bytes."""
        self._fuse.step("blobs.size")
        return self._inner.size(name)

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected."""
        self._fuse.step("blobs.find_short")
        return self._inner.find_short(expected)

    def delete(self, name: str, /) -> None:
        """Removes the blob."""
        self._fuse.step("blobs.delete")
        self._inner.delete(name)
        self._fuse.step("blobs.delete unacknowledged")

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name; each of them is a step."""
        self._fuse.step("blobs.iter_names")
        for item in self._inner.iter_names():
            yield item
            self._fuse.step("blobs.iter_names next")

    def free_bytes(self) -> int | None:
        """Returns how much room is left."""
        self._fuse.step("blobs.free_bytes")
        return self._inner.free_bytes()

    def find_mark(self) -> bytes | None:
        """Returns what the place says about itself."""
        self._fuse.step("blobs.find_mark")
        return self._inner.find_mark()

    def put_mark(self, data: bytes, /) -> None:
        """Has the place say this about itself."""
        self._fuse.step("blobs.put_mark")
        self._inner.put_mark(data)
        self._fuse.step("blobs.put_mark unacknowledged")

    def remove_mark(self, data: bytes, /) -> None:
        """Has the place say nothing about itself any more."""
        self._fuse.step("blobs.remove_mark")
        self._inner.remove_mark(data)
        self._fuse.step("blobs.remove_mark unacknowledged")

    def uncached(self) -> "FusedBlobStore":
        """Returns the same, past every cache."""
        return FusedBlobStore(self._inner.uncached(), self._fuse, tear=self._tear)

    def forget(self, name: str | None = None, /) -> None:
        """Lets go of what a cache has."""
        self._inner.forget(name)


def observe(context: Context) -> Observed:
    """Returns all that the default tenant's namespaces show: heads, timelines, every byte.

    Snapshots are named by namespace and number, since ids differ from run to run. Content that
    several snapshots share is read once.
    """
    vault = Holdfast(context)
    with context.catalog.read() as transaction:
        tenant = transaction.find_tenant("default")
        heads = [] if tenant is None else transaction.iter_heads(tenant.id)
    live = [head for head in heads if head.deleted_at is None]
    lines = {head.name: vault.namespace(head.name).timeline() for head in live}
    names = {s.id: f"{name} {s.number}" for name, line in lines.items() for s in line}
    held: dict[ObjectId, Contents] = {}
    for head in live:
        for snapshot in lines[head.name]:
            if snapshot.root not in held:
                held[snapshot.root] = contents(context, head, at=snapshot)
    return {
        head.name: {
            **_observe_head(head, names),
            "now": contents(context, head),
            "timeline": [
                {**_observe_snapshot(snapshot, names), "holds": held[snapshot.root]}
                for snapshot in lines[head.name]
            ],
        }
        for head in live
    }


def contents(context: Context, head: Head, *, at: SnapshotInfo | None = None) -> Contents:
    """Returns every entry and every byte that a head shows, or one of its snapshots."""
    found: Contents = {}
    with context.catalog.read() as transaction:
        objects = Objects(context, head.tenant_id, transaction)

        def in_row(key: bytes) -> bytes:
            named = {key: IN_ROW}
            return settled(transaction, NamesOnly(), head.namespace_id, named)[key] or b""

        for plane in Plane:
            if at is None:
                view = View.of_head(objects, transaction, head, plane)
            else:
                view = View(objects, objects.get_root(at.root).plane(plane))
            for key, data in view.iterate():
                entry = decode_entry(data if data != IN_ROW else in_row(key))
                if not isinstance(entry, Inline | Blob):
                    found[plane, key] = (entry, None)
                    continue
                # Where it lies until a snapshot is nobody's business.
                settled_entry = settle_entry(NamesOnly(), objects, plane, data)
                found[plane, key] = (decode_entry(settled_entry), content.read(objects, entry))
    return found


def find_litter(context: Context) -> set[str]:
    """Returns what no living vault needs: blobs without a name, packs of writers that died.

    What is retired has a row that says so: it is waited for.
    """
    found = {name for name, _ in context.blobs.iter_names()}
    with context.catalog.read() as transaction:
        named = transaction.pack_names()
        named |= transaction.retired_packs(found)
        packs = [
            pack
            for tenant in transaction.iter_tenants()
            for pack in transaction.iter_packs(tenant.id)
        ]
    abandoned = {
        pack.name
        for pack in packs
        if not pack.is_stored and (pack.writer is None or not context.catalog.is_alive(pack.writer))
    }
    return (found - named) | abandoned


def _observe_head(head: Head, names: dict[SnapshotId, str]) -> dict[str, Any]:
    return {
        "position": names.get(head.position) if head.position else None,
        "redo": [names.get(snapshot_id) for snapshot_id in head.redo],
        "generation": head.generation,
        "size": head.size,
        "fork_root": head.fork_root,
        "retention": head.retention,
    }


def _observe_snapshot(snapshot: SnapshotInfo, names: dict[SnapshotId, str]) -> dict[str, Any]:
    return {
        "number": snapshot.number,
        "kind": snapshot.kind,
        "root": snapshot.root,
        "size": snapshot.size,
        "label": snapshot.label,
        "pinned": snapshot.pinned,
        "parent": names.get(snapshot.parent) if snapshot.parent else None,
        "target": names.get(snapshot.target) if snapshot.target else None,
        "expires_at": snapshot.expires_at,
    }

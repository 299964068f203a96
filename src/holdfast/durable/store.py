"""The durable store: the in-process store, with a log in front and a vault behind.

Its methods are those of the in-process store; its snapshots are snapshots of a namespace, and a
restore can be undone. How it keeps its promises is in `keeping`.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self
from weakref import WeakSet, finalize

from holdfast.durable.keeping import KeptStore, Sync
from holdfast.durable.records import Change
from holdfast.engine.namespace import Namespace
from holdfast.engine.store.plane import StoreSnapshot
from holdfast.engine.store.reader import StoreReader
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidValue, Unavailable
from holdfast.model.basics import SnapshotLike
from holdfast.model.changes import Restored
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import Note
from holdfast.store import Reader, Snapshot, encode
from holdfast.wiring import open_vault


def open_store(
    path: str | os.PathLike[str], *, sync: Sync = "full", namespace: str = "store"
) -> "DurableStore":
    """Opens the durable store in a directory; see `Store.open`."""
    if sync not in ("full", "normal"):
        raise InvalidValue("sync is 'full' or 'normal'")
    if "://" in os.fspath(path):
        raise InvalidValue("a store is opened in a directory, since its log is a file there")
    folder = Path(path).expanduser()
    with ExitStack() as on_failure:
        vault = on_failure.enter_context(open_vault(folder))
        store = DurableStore(vault, folder, namespace=namespace, sync=sync)
        on_failure.pop_all()
    return store


class DurableStore(KeptStore):
    """Values by namespace and key, in memory and on disk; any number of threads may use it.

    One process at a time has it open; a child that it forks has to open one of its own.
    """

    def __init__(self, vault: Holdfast, folder: Path, *, namespace: str, sync: Sync) -> None:
        super().__init__(vault.namespace(namespace), folder, sync=sync)
        self._held.resources.callback(vault.close)
        self._finalizer = finalize(self, self._held.let_go)
        _open_stores.add(self)

    # Values

    def set(self, namespace: str, key: str, value: Any) -> None:
        """Puts a value under a key."""
        self._write([self._checked(namespace, key, encode(value))])

    def set_many(self, items: Iterable[tuple[str, str, Any]]) -> None:
        """Puts many values, all or none of them."""
        checked = self._checked
        changes = [checked(namespace, key, encode(value)) for namespace, key, value in items]
        if changes:
            self._write(changes)

    def delete(self, namespace: str, key: str) -> bool:
        """Deletes a key; says whether it was there."""
        change = self._checked(namespace, key, None)
        if not self._waiting and not self.contains(namespace, key):
            return False
        return self._write([change]) > 0

    def clear(self) -> None:
        """Deletes every key of every namespace; snapshots stay."""
        with self._lock:
            self._settle_all()
            self._write_at_once([(n, k, None) for n, k in super().snapshot().keys])

    def put(self, namespace: str, key: str, data: bytes) -> None:
        """Puts a value that is already encoded."""
        if data is None:  # pyright: ignore[reportUnnecessaryComparison] - of untyped callers
            raise TypeError("encoded values are bytes, not 'NoneType'")
        self._write([self._checked(namespace, key, data)])

    def put_many(self, items: Iterable[Change]) -> None:
        """Puts many values that are already encoded, all or none; None deletes."""
        changes = [self._checked(namespace, key, data) for namespace, key, data in items]
        if changes:
            self._write(changes)

    # Snapshots

    @property
    def namespace(self) -> Namespace:
        """The namespace of the vault that it is kept in.

        Files can be kept there, too. Its own `store` shows what has been flushed.
        """
        return self._namespace

    @property
    def max_history(self) -> None:
        """How many snapshots are kept: None, as retention decides that and not a number."""
        return

    @takes(Note)
    def snapshot(  # pyright: ignore[reportIncompatibleMethodOverride] - its snapshots are a namespace's
        self, note: Note
    ) -> StoreSnapshot:
        """Captures the store, and the namespace that it is kept in, as they are now."""
        with self._lock:
            self._flush()
            return self._remember(self._namespace.store.snapshot(**vars(note)))

    def restore(  # pyright: ignore[reportIncompatibleMethodOverride] - its snapshots are a namespace's
        self, snapshot: SnapshotLike | Snapshot
    ) -> Restored | None:
        """Brings back what the store held in a snapshot; what is there now is kept as one first.

        With a snapshot of a store in memory, its content becomes this store's, as any other
        write does: nothing is kept first.
        """
        with self._lock:
            if isinstance(snapshot, Snapshot):
                self._settle_all()
                found = snapshot.differences(super().snapshot())
                self._write_at_once([self._checked(n, k, new) for n, k, _, new in found])
                return None
            self._flush()
            restored = self._namespace.store.restore(snapshot)
            self._follow(restored)
            return restored

    def undo(self) -> Restored:
        """Takes the last change of the namespace back, as `Namespace.undo` does."""
        with self._lock:
            self._flush()
            undone = self._namespace.undo()
            self._follow(undone)
            return undone

    def redo(self) -> Restored:
        """Takes the last undo back."""
        with self._lock:
            self._flush()
            redone = self._namespace.redo()
            self._follow(redone)
            return redone

    def at(  # pyright: ignore[reportIncompatibleMethodOverride] - its snapshots are a namespace's
        self, snapshot: SnapshotLike | Snapshot
    ) -> Reader | StoreReader:
        """Returns the store as a snapshot shows it, to read."""
        if isinstance(snapshot, Snapshot):
            return super().at(snapshot)
        known = snapshot if isinstance(snapshot, str) else snapshot.id
        remembered = self._remembered.get(known)
        if remembered is not None:
            return super().at(remembered.memory)
        return self._namespace.store.at(snapshot)

    def history(  # pyright: ignore[reportIncompatibleMethodOverride] - its snapshots are a namespace's
        self,
    ) -> list[StoreSnapshot]:
        """Returns the snapshots of the namespace, oldest first."""
        found = self._namespace.store.history()
        return [self._remembered.get(snapshot.id, snapshot) for snapshot in found]

    def clear_history(self) -> None:
        """Takes off the timeline what is not pinned and not what the head stands on."""
        self._namespace.store.clear_history()

    # Its end

    def close(self) -> None:
        """Flushes, and lets the next opener in. Closing again does nothing.

        If flushing fails, that is raised once all is closed: what was written is in the log.
        """
        with self._lock:
            if not self._finalizer.alive:
                return
            try:
                if self._log.is_usable:
                    self._flush()
                    self._log.trim()
            finally:
                self.__class__ = _EndedStore  # pyright: ignore[reportAttributeAccessIssue] - see there
                self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _EndedStore(DurableStore):
    """What a store becomes when it can no longer be used: everything is refused.

    Another class instead of a check in every method: reading stays the compiled core's own.
    """

    _reason = "the store is closed: open it again with Store.open"

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name == "close":
            return super().__getattribute__(name)
        raise Unavailable(self._reason)

    def __len__(self) -> int:
        raise Unavailable(self._reason)

    def __contains__(self, namespace: object) -> bool:
        raise Unavailable(self._reason)

    def __enter__(self) -> Self:
        raise Unavailable(self._reason)

    def __repr__(self) -> str:
        return f"<DurableStore: {self._reason}>"

    def close(self) -> None:
        """Does nothing: it has ended."""


class _ForkedStore(_EndedStore):
    """What a store becomes in a child process: it is its parent's."""

    _reason = "the store belongs to the process that this one was forked from"


_open_stores: Final[WeakSet[DurableStore]] = WeakSet()


def _disown() -> None:
    """Leaves the stores of the parent process to it."""
    for store in list(_open_stores):
        store.__class__ = _ForkedStore


os.register_at_fork(after_in_child=_disown)

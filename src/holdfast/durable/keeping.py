"""Memory, log and catalog of a durable store, kept in step. What users call is in `store`.

Promises:

1. A write that returned outlives the death of the process; with `sync="full"`, a power cut.
   What was written together is there together, or not at all.
2. Nobody reads what the log does not hold: a write is appended (and synced), then seen.
3. No record is applied to what already holds it: a flush says, in the very transaction that
   writes the rows, up to where the log is in them.
4. What others did to the namespace is adopted, and never overwritten unseen: where both changed
   the same key while the store was open, the store's own write stands.

Reading is the in-process store's own: everything is in memory. Writers take turns; those that
wait for the disk wait together (`_settle`). Order of locks: `_lock`, then `_syncing`.

A snapshot of a durable store that was taken while it was open: it is in memory, too.
"""

import logging
import threading
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from holdfast.catalog.namespaces import LogPosition
from holdfast.durable import plane
from holdfast.durable.log import STEP, Log
from holdfast.durable.logformat import LogName
from holdfast.durable.plane import Picture
from holdfast.durable.records import Change, Changes, Mark, encode_record, since_mark
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.handle import Handle
from holdfast.engine.store.plane import StoreSnapshot
from holdfast.errors import (
    Busy,
    Damaged,
    HoldfastError,
    LimitExceeded,
    TooLarge,
    Unavailable,
)
from holdfast.model.basics import SnapshotInfo, SnapshotLike, fields_of
from holdfast.model.changes import Restored
from holdfast.operations.store import Pair
from holdfast.store import Snapshot, Store
from holdfast.storekeys import LOG, log_stem, to_store_key

Sync = Literal["full", "normal"]

LONG_LOG: Final = 16 << 20
"""A log is flushed when it is longer than this, and than twice what the store holds: opening
then reads at most three times what there is."""

ROUNDS: Final = 8
"""Times a flush is tried while others change the same namespace."""

_SURELY_SHORT: Final = 1000
"""Characters of a namespace and key that fit into a map key however they are encoded."""

_logger: Final = logging.getLogger(__name__)


class _Write:
    """Changes that are in the log and wait to be synced, and then seen."""

    __slots__ = ("changes", "is_done", "removed")

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.is_done = False
        self.removed = 0


class Resources:
    """What an open store holds on to besides its content: let go of also if nobody closes it."""

    def __init__(self) -> None:
        self.log: Log | None = None
        self.resources = ExitStack()

    def let_go(self) -> None:
        """Closes the log, then the vault, then lets the next opener in."""
        if self.log is not None:
            self.log.close()
        self.resources.close()


class KeptStore(Store):
    """A store in memory, its log, and the namespace that it is flushed to."""

    def __init__(self, namespace: Namespace, folder: Path, *, sync: Sync) -> None:
        super().__init__()
        self._namespace = namespace
        # What the use cases below are given; users have no need of it.
        self._handle: Handle = namespace._handle  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as said
        stem = log_stem(namespace.name)
        self._path = folder / f"{stem}{LOG}"
        self._is_full = sync == "full"
        self._most = self._handle.context.limits.value_bytes
        self._lock, self._syncing = threading.Lock(), threading.Lock()
        self._waiting: deque[_Write] = deque()
        self._remembered: WeakValueDictionary[str, RememberedSnapshot] = WeakValueDictionary()
        self._longest, self._clean_at = LONG_LOG, 0
        self._shown = plane.nothing()
        self._held = Resources()
        with ExitStack() as on_failure:
            on_failure.callback(self._held.let_go)
            self._exclude_others(stem)
            self._log = self._recover()
            on_failure.pop_all()

    # Writing

    def _checked(self, namespace: str, key: str, data: bytes | None) -> Change:
        """Returns a change as the log takes it; raises for what could not be flushed."""
        if type(namespace) is not str or type(key) is not str:
            namespace, key = _text(namespace), _text(key)
        if len(namespace) + len(key) > _SURELY_SHORT:
            to_store_key(namespace, key)
        if data is not None and type(data) is not bytes:
            # Found out now: in the log it would be in the way of all that follows.
            message = f"encoded values are bytes, not {type(data).__name__!r}"
            raise TypeError(message)
        if data is not None and len(data) > self._most:
            message = f"a value may have {self._most} bytes; this one has {len(data)}"
            raise TooLarge(message)
        return namespace, key, data

    def _write(self, changes: Changes) -> int:
        """Makes changes durable, then seen; returns how many entries fewer there are."""
        with self._lock:
            write = self._append(changes)
        if self._is_full:
            self._settle(write)
        if self._log.position > self._longest:
            self._relieve()
        return write.removed

    def _append(self, changes: Changes) -> _Write:
        write = _Write(changes)
        self._log.append(encode_record(changes))
        if self._is_full:
            self._waiting.append(write)
        else:
            self._see(write)
        return write

    def _settle(self, write: _Write) -> None:
        """Returns when a write is synced and seen. Whoever comes first does it for all."""
        with self._syncing:
            if write.is_done:
                return
            together = len(self._waiting)
            self._log.sync()
            for _ in range(together):
                # Taken out when it is done: should a signal come in between, it is done twice
                # in its turn, which changes nothing.
                self._see(self._waiting[0])
                self._waiting.popleft()

    def _settle_all(self) -> None:
        try:
            last = self._waiting[-1]
        except IndexError:
            return
        self._settle(last)

    def _see(self, write: _Write) -> None:
        before = len(self)
        try:
            super().put_many(write.changes)
        except MemoryError as exc:
            raise self._log.give_up(Unavailable("there is no memory left")) from exc
        write.removed = before - len(self)
        write.is_done = True

    def _write_at_once(self, changes: Changes) -> None:
        """The same for a caller that holds the lock."""
        if changes:
            self._append(changes)
            self._settle_all()

    # Between memory and catalog; whoever calls holds the lock

    def _flush(self, *, renew: bool = False) -> None:
        """Writes what has changed into the catalog."""
        self._settle_all()
        self._log.check_usable()
        if self._log.position == self._clean_at:
            return
        for _ in range(ROUNDS):
            position = LogPosition(self._log.name, self._log.position)
            shown = plane.flush(self._handle, self._shown, super().snapshot(), position)
            if shown is not None:
                self._shown = shown
                self._note(renew=renew)
                return
            self._catch_up()
        raise Busy("others keep changing the namespace of this store")

    def _relieve(self) -> None:
        """Flushes a log that has become long."""
        with self._lock:
            if self._log.position <= self._longest:
                return
            try:
                self._flush(renew=True)
            except HoldfastError as exc:
                # The write that led here is done, and safe: it is not the one that failed.
                _logger.warning("store.flush_failed log_bytes=%d: %s", self._log.position, exc)
                self._longest = self._log.position + LONG_LOG

    def _catch_up(self) -> None:
        """Adopts what others did to the namespace."""
        with self._handle.context.catalog.read() as transaction:
            shown = plane.look(transaction, self._handle, self._shown)
        self._adopt(shown)

    def _adopt(self, shown: Picture) -> None:
        before = self._shown.content
        own = {(n, k) for n, k, _, _ in super().snapshot().differences(before)}
        if own:
            found = shown.content.differences(before)
            super().put_many([(n, k, new) for n, k, _, new in found if (n, k) not in own])
        else:
            super().restore(shown.content)
        self._shown = shown

    def _remember(self, taken: StoreSnapshot) -> StoreSnapshot:
        """Returns a snapshot that was just taken, with what it holds if that is what is here."""
        with self._handle.context.catalog.read() as transaction:
            shown = plane.after_snapshot(transaction, self._handle, self._shown)
        if shown is None:
            self._catch_up()
            return taken
        self._shown = shown
        self._note()
        known = RememberedSnapshot.remembering(self._handle, taken, shown.content)
        self._remembered[taken.id] = known
        return known

    def _follow(self, restored: Restored) -> None:
        """Makes memory what the catalog has just become."""
        goal, seen = restored.snapshot, self._shown.mark
        known = self._remembered.get(restored.target)
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.get_head(transaction)
            if (
                known is not None
                and goal is not None
                and Mark.of(head) == Mark(seen.namespace_id, goal.number, seen.sequence)
            ):
                shown = plane.standing_on(transaction, self._handle, head, known.memory)
            else:
                shown = plane.look(transaction, self._handle, self._shown)
        self._adopt(shown)
        self._note()

    # The log

    def _note(self, *, renew: bool = False) -> None:
        """Says in the log that all of it is in the catalog; begins a new one if it is long."""
        is_new = (renew or self._log.position > STEP) and self._renew_log()
        if not is_new:
            # Without the mark, the next opener may take a snapshot that nobody needed.
            with suppress(LimitExceeded):
                self._log.append(encode_record(self._shown.mark))
        self._clean_at = self._log.position
        self._longest = max(LONG_LOG, 2 * self._shown.content.size_bytes)

    def _renew_log(self) -> bool:
        """Puts an empty log in the place of one that is in the catalog; says whether it could."""
        try:
            fresh = self._begin_log()
        except (LimitExceeded, Unavailable) as exc:
            _logger.warning("store.log_kept log_bytes=%d: %s", self._log.position, exc)
            return False
        try:
            fresh.put_in_place(self._path)
        except HoldfastError as exc:
            fresh.close()
            raise self._log.give_up(exc) from exc
        self._log.close()
        self._log = self._held.log = fresh
        return True

    def _begin_log(self) -> Log:
        named = LogName(self._handle.context.ids.log(), self._namespace.name)
        mark = encode_record(self._shown.mark)
        return Log.begin(self._path, named, mark, reserves=self._is_full)

    def _exclude_others(self, name: str) -> None:
        try:
            self._held.resources.enter_context(self._handle.context.catalog.lock(name))
        except Busy as exc:
            message = (
                f"the store in {self._path.parent} is open elsewhere: close it there, share the "
                "object between threads, or use holdfast.open, which many may at once"
            )
            raise Busy(message) from exc

    def _recover(self) -> Log:
        """Brings memory to what was promised: the catalog, and on top what the log holds."""
        handle = self._handle
        handle.ensure()
        with handle.context.catalog.read() as transaction:
            head = handle.get_head(transaction)
            flushed = transaction.find_log(head.namespace_id)
            self._adopt(plane.look(transaction, handle, self._shown))
        log = self._held.log = Log.open(self._path, reserves=self._is_full)
        if log is None:
            return self._first_log(flushed)
        if log.namespace != self._namespace.name:
            message = f"the log of this store belongs to the namespace {log.namespace!r}"
            raise Damaged(message)
        start = log.start
        if flushed is not None and flushed.name == log.name:
            start = flushed.position
        found = log.read(start)
        self._log = log
        self._replay(*since_mark([record.payload for record in found]))
        return self._log

    def _first_log(self, flushed: LogPosition | None) -> Log:
        if flushed is not None:
            message = (
                f"the log {self._path.name} is not there: what was written last may be lost; what "
                "was flushed before can be read through holdfast.open"
            )
            raise Damaged(message)
        log = self._held.log = self._begin_log()
        log.put_in_place(self._path)
        self._clean_at = log.position
        return log

    def _replay(self, mark: Mark | None, changes: list[Changes]) -> None:
        """Puts what the log holds on top, and all of it into the catalog."""
        if changes and mark != self._shown.mark and self._namespace.is_dirty():
            # Others were here since, and no snapshot holds what they did.
            self._namespace.snapshot(reason="before the log of the store was put on top")
            self._catch_up()
        for each in changes:
            super().put_many(each)
        try:
            if changes:
                self._flush(renew=True)
            else:
                self._note(renew=True)
        except LimitExceeded as exc:
            # No room, or a quota: it can be read all the same, and the log keeps it.
            _logger.warning("store.flush_failed log_bytes=%d: %s", self._log.position, exc)


def _text(text: str) -> str:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers are untyped
        message = f"a namespace or key is a str, not {type(text).__name__!r}"
        raise TypeError(message)
    # A subclass may compare and hash as it likes.
    return str.__str__(text)


class RememberedSnapshot(StoreSnapshot, frozen=True, kw_only=True, eq=False, weakref=True):
    """A snapshot on the timeline that answers from memory, for as long as somebody holds it."""

    memory: Snapshot
    """What the store held, as the store itself had it."""

    @classmethod
    def remembering(
        cls, handle: Handle, snapshot: SnapshotInfo, memory: Snapshot
    ) -> "RememberedSnapshot":
        """Returns a snapshot with what the store held when it was taken."""
        return cls(**fields_of(snapshot), _handle=handle, memory=memory)

    @property
    def size_bytes(self) -> int:
        """How much the values take as msgpack."""
        return self.memory.size_bytes

    @property
    def keys(self) -> list[Pair]:
        """Every namespace with every key, in order."""
        return sorted(self.memory.keys)

    def diff(self, base: SnapshotLike) -> dict[str, list[Pair]]:
        """Returns what leads from `base` to this one, at the cost of what differs."""
        if isinstance(base, RememberedSnapshot) and base.namespace_id == self.namespace_id:
            return self.memory.diff(base.memory)
        return StoreSnapshot.diff(self, base)

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value that a key had, or the default."""
        return self.memory.get(namespace, key, default)

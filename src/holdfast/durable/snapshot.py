"""A snapshot of a durable store that was taken while it was open: it is in memory, too."""

from typing import Any

from holdfast.engine.planes.handle import Handle
from holdfast.engine.store.snapshot import Pair, StoreSnapshot
from holdfast.model.basics import SnapshotInfo, SnapshotLike, fields_of
from holdfast.store import Snapshot


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

"""The in-process store: an agent's state in memory, with snapshots that cost nothing.

    store = holdfast.Store()
    store.set("workflow", "onboarding", {"step": 3})
    before = store.snapshot()
    store.set("workflow", "onboarding", {"step": 4})
    store.restore(before)

`Store` and `Snapshot` answer as those of swarmstate 0.11 do. Nothing of the rest of holdfast is
needed, or loaded. The core is compiled where the package was built with a C compiler, and plain
Python otherwise: the answers are the same.
"""

import os
from typing import Any, Literal, NoReturn

import holdfast
from holdfast.store.codec import loads
from holdfast.store.core import Core, Reader, Snapshot, encode, view

__all__ = ["Reader", "Snapshot", "Store", "dumps", "encode", "loads"]


def dumps(obj: Any) -> bytes:
    """Returns a value as the msgpack bytes that a store keeps."""
    return encode(obj)


class Store(Core):
    """Values by namespace and key, in memory; any number of threads may use it.

    `max_history` is how many snapshots the store itself keeps: none, that many, or, with None,
    all. Those that the caller holds are not affected.
    """

    def __init__(
        self, backend: str = "memory", codec: str = "msgpack", max_history: int | None = 0
    ) -> None:
        if backend != "memory":
            message = f"backend {backend!r} is not known, only 'memory'; Store.open keeps on disk"
            raise ValueError(message)
        if codec != "msgpack":
            message = f"codec {codec!r} is not known, only 'msgpack'"
            raise ValueError(message)
        super().__init__(max_history)

    @property
    def codec(self) -> str:
        """What values are inside."""
        return "msgpack"

    def at(self, snapshot: Snapshot) -> Reader:
        """Returns the store as a snapshot shows it, to read."""
        return view(snapshot)

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        sync: Literal["full", "normal"] = "full",
        namespace: str = "store",
    ) -> "holdfast.DurableStore":
        """Opens a store that lasts, in a vault of its own in the directory `path`.

        With `sync="full"` what was written outlives a power cut, with "normal" the end of the
        process alone, at a fraction of the cost. The state is in memory as well.
        """
        # Needs a vault, which those who keep state in memory should not have to load.
        from holdfast.durable import open_store  # noqa: PLC0415 - as said

        return open_store(path, sync=sync, namespace=namespace)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Store cannot be copied or pickled; hand its snapshots on")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(entries={len(self)})"

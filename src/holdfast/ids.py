"""Names of things: which kinds there are, and how new ones are made.

Ids are types, not strings, so that a pack's name can never be passed for a snapshot's.
Every id is URL-safe, carries its kind as a prefix, and is drawn from 80 random bits, so
that it cannot be guessed and a few characters identify it on a command line.
"""

import base64
import os
from collections.abc import Callable
from typing import Final, NewType

from blake3 import blake3

ObjectId = NewType("ObjectId", bytes)
"""BLAKE3-256 of an object's plain bytes."""

SnapshotId = NewType("SnapshotId", str)
PackName = NewType("PackName", str)
TenantId = NewType("TenantId", int)
NamespaceId = NewType("NamespaceId", int)
PackId = NewType("PackId", int)

Randomness = Callable[[int], bytes]
"""Returns that many random bytes: `os.urandom`, or a seeded source in tests."""

OBJECT_ID_BYTES: Final = 32


def object_id_of(data: bytes | memoryview) -> ObjectId:
    """Returns the name that these bytes are stored under."""
    return ObjectId(blake3(data).digest())


class IdMaker:
    """Makes new ids from a source of randomness."""

    def __init__(self, randomness: Randomness = os.urandom) -> None:
        self._randomness = randomness

    def snapshot(self) -> SnapshotId:
        """Returns a new snapshot id, such as `snap-k3v7…`."""
        return SnapshotId(f"snap-{self._tail()}")

    def pack(self, vault: str) -> PackName:
        """Returns a new name for a pack of this vault."""
        return PackName(f"pack-{vault}-{self._tail()}")

    def tenant(self) -> str:
        """Returns a new tenant id as it stands on the wire: `ws-…`."""
        return f"ws-{self._tail()}"

    def writer(self) -> str:
        """Returns a name for a process that writes packs."""
        return f"writer-{self._tail()}"

    def _tail(self) -> str:
        return base64.b32encode(self._randomness(10)).decode("ascii").lower()

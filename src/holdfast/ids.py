"""Names of things: which kinds there are, and how new ones are made.

Ids are types, not strings, so that a pack's name can never be passed for a snapshot's.
Every id is URL-safe, carries its kind as a prefix, and is drawn from 80 random bits, so
that it cannot be guessed and a few characters identify it on a command line.
"""

import base64
import os
import re
from collections.abc import Callable
from typing import Final, NewType

from blake3 import blake3

ObjectId = NewType("ObjectId", bytes)
"""BLAKE3-256 of an object's plain bytes."""

SnapshotId = NewType("SnapshotId", str)
PackName = NewType("PackName", str)
TraceId = NewType("TraceId", str)
TenantId = NewType("TenantId", int)
NamespaceId = NewType("NamespaceId", int)
PackId = NewType("PackId", int)

Randomness = Callable[[int], bytes]
"""Returns that many random bytes: `os.urandom`, or a seeded source in tests."""

OBJECT_ID_BYTES: Final = 32
LAST_ID: Final = "\U0010ffff"
"""Sorts behind every id."""
_SNAPSHOT: Final = re.compile("snap-[a-z2-7]{16}")
_MADE: Final = re.compile("[a-z]{2,5}[-_](?:[a-z2-7]{12}|[a-z2-7]{16})")
_TRACE_TAIL: Final = 14
"""Random characters at the end of a trace's id: 56 bits, beside an instant nobody can guess."""


def object_id_of(data: bytes | memoryview) -> ObjectId:
    """Returns the name that these bytes are stored under."""
    return ObjectId(blake3(data).digest())


def is_snapshot_id(name: str) -> bool:
    """Says whether a name is the whole id of a snapshot, of one that there is or not."""
    return _SNAPSHOT.fullmatch(name) is not None


def is_made_id(name: str) -> bool:
    """Says whether a name has the form of an id that is made here at random, of any kind."""
    return _MADE.fullmatch(name) is not None


def instant_of_trace(trace_id: str) -> int | None:
    """Returns the instant that a trace's id begins with; None if it is no such id."""
    return _instant_in(trace_id.removeprefix("trace_"))


def instant_of_event(event_id: str) -> int | None:
    """Returns the instant that an event's id begins with; None if it is no such id."""
    return _instant_in(event_id.removeprefix("evt-"))


def _instant_in(text: str) -> int | None:
    try:
        found = int(text[:-_TRACE_TAIL], 16)
    except ValueError:
        return None
    return found if -(2**63) <= found < 2**63 else None  # No row holds more.


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

    def directory(self) -> str:
        """Returns the name under which a vault knows an attached directory, wherever it is."""
        return f"dir-{self._short_tail()}"

    def log(self) -> str:
        """Returns a name for the log of a store."""
        return f"log-{self._tail()}"

    def session(self) -> str:
        """Returns a new session id, such as `sess_k3v7…`."""
        return f"sess_{self._short_tail()}"

    def turn(self) -> str:
        """Returns a new id for a turn."""
        return f"turn_{self._short_tail()}"

    def memory(self) -> str:
        """Returns a new id for a memory."""
        return f"mem_{self._short_tail()}"

    def entity(self) -> str:
        """Returns a new id for an entity."""
        return f"ent_{self._short_tail()}"

    def erasure(self) -> str:
        """Returns a new id for an erasure."""
        return f"era-{self._tail()}"

    def task(self) -> str:
        """Returns a new id for a task."""
        return f"task-{self._tail()}"

    def schedule(self) -> str:
        """Returns a new id for a schedule."""
        return f"sched-{self._short_tail()}"

    def git_backup(self) -> str:
        """Returns a new id for a git backup."""
        return f"git-{self._short_tail()}"

    def key(self) -> str:
        """Returns a new id for an API key, such as `key-k3v7…`."""
        return f"key-{self._short_tail()}"

    def secret(self, kind: str) -> str:
        """Returns a new secret of 256 random bits that says what it is for."""
        random = base64.urlsafe_b64encode(self._randomness(32)).decode("ascii").rstrip("=")
        return f"holdfast-{kind}-{random}"

    def user_code(self) -> str:
        """Returns a code that a person types: 8 letters, which make no word, of 20.

        Those that are read for one another are not among them.
        """
        letters = "BCDFGHJKLMNPQRSTVWXZ"
        number = int.from_bytes(self._randomness(16)) % len(letters) ** 8
        drawn = [letters[number // len(letters) ** place % len(letters)] for place in range(8)]
        return f"{''.join(drawn[:4])}-{''.join(drawn[4:])}"

    def branch(self) -> str:
        """Returns a name for a run of turns."""
        return f"branch-{self._tail()}"

    def trace(self, instant_us: int) -> TraceId:
        """Returns a new id for a trace of this instant, in microseconds since 1970.

        It begins with the instant, and is found by that: an index of ids would cost every change
        of state another page. In hexadecimal, which takes a tenth of the time of base32.
        """
        return TraceId(f"trace_{instant_us:014x}{self._randomness(_TRACE_TAIL // 2).hex()}")

    def salt(self) -> bytes:
        """Returns random bytes to hash something with that nobody shall guess by its hash."""
        return self._randomness(16)

    def webhook(self) -> str:
        """Returns a new id for a webhook."""
        return f"wh-{self._short_tail()}"

    def delivery(self) -> str:
        """Returns a new id for the delivery of an event to a webhook."""
        return f"dlv-{self._tail()}"

    def event(self, instant_us: int) -> str:
        """Returns a new id for an event of this instant, which is found by that as traces are."""
        return f"evt-{instant_us:014x}{self._randomness(_TRACE_TAIL // 2).hex()}"

    def _short_tail(self) -> str:
        """Returns 12 characters: 60 random bits, in the form that ids of sessions have."""
        return _base32(int.from_bytes(self._randomness(8)) >> 4, 12)

    def _tail(self) -> str:
        return _base32(int.from_bytes(self._randomness(10)), 16)


_DIGITS: Final = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS: Final = [first + second for first in _DIGITS for second in _DIGITS]


def _base32(number: int, chars: int) -> str:
    """Returns so many characters, an even number, that `base64.b32encode` has for the same bits.

    Small letters, in a sixth of the time: every snapshot and every small file has such an id.
    """
    return "".join([_PAIRS[number >> at & 1023] for at in range(5 * chars - 10, -1, -10)])

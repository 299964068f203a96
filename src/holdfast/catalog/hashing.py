"""What rows are hashed by: those of the journal, and what they made, which lies beside them.

A row of the journal is hashed over what it says, with hashes in the place of its parts: of the ids
that say who did what to what, of its details, of the version of a session and of the turn that it
made, of the roots that it gave snapshots. A part can go, and the chain still holds.
`docs/format.md` has the bytes.

Random bytes are hashed with the details, and bytes that follow from those with the ids: when the
details are taken out, the latter take their place, from which nobody finds the former.

Versions and turns have the first bytes of their hash beside them, and so have the rows of sessions
and branches over all that they say: whoever reads one knows that it is what was written. Whether
it is what the chain says, who asks for a history is told, and `verify`.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Any, Final

import msgspec
from blake3 import blake3

from holdfast.model.traces import TraceRow

REDACTED: Final = "redacted:"
"""What stands before the hash of details that were taken out. No JSON object begins so."""

_AND_IDS: Final = ","
"""Stands between that and the hash of the ids, where these were taken out, too."""

FORMAT: Final = 1
"""How traces are hashed that are appended now. Format 0 is that of the one chain that a tenant had
before: `_IN_FORMAT_0` without salt."""

WITH_ROOTS: Final = 2
"""How those are hashed that name the roots of snapshots: as in format 1, with one part more."""

_SEAL_BYTES: Final = 8
"""Of a hash, what stands beside a row: enough that no accident goes unseen."""

_HEADER: Final = TraceRow.__struct_fields__.index("details")
"""How many fields of a row stand before its details."""

IDS: Final = ("session_id", "user_id", "agent_id", "resource_id", "task_id", "actor")
"""What is hashed apart of them: names that somebody gave to somebody or something."""

_ids_of: Final = itemgetter(*(TraceRow.__struct_fields__.index(name) for name in IDS))
_facts_of: Final = itemgetter(
    *(at for at, name in enumerate(TraceRow.__struct_fields__[:_HEADER]) if name not in IDS)
)
_SALT_BYTES: Final = 16
_HASH_BYTES: Final = 32

_IN_FORMAT_0: Final = attrgetter(
    *("previous", "tenant_id", "number", "id", "namespace_id", "session_id", "user_id", "agent_id"),
    *("action", "resource_type", "resource_id", "actor", "created_us"),
)

_encode = msgspec.msgpack.Encoder().encode


def hash_of(row: TraceRow) -> bytes:
    """Returns the hash that a trace has to have; raises `ValueError` for what no trace says."""
    if row.format in (FORMAT, WITH_ROOTS):
        if (row.roots is None) is (row.format == WITH_ROOTS):
            raise ValueError("a trace names roots, or names none, as those of its format do not")
        header = msgspec.structs.astuple(row)[:_HEADER]
        made = hash_of_made(row.version_hash, row.turn_hash, row.roots)
        if not row.details.startswith(REDACTED):
            return hash_in_parts(header, row.details, row.salt or b"", made)
        return _hash_of_parts(header, _digest_of_ids(row), _digest_of_details(row), made)
    if row.format == 0:
        return _hash((*_IN_FORMAT_0(row), _digest_of_details(row)))
    message = f"a trace of format {row.format}"
    raise ValueError(message)


def hash_in_parts(
    header: tuple[Any, ...],
    details: str,
    salt: bytes,
    made: bytes | None,
) -> bytes:
    """Returns the hash of a new trace: of its fields up to the details, which nothing is taken of.

    `made` is what `hash_of_made` returns.
    """
    ids = digest_of(_ids_of(header), _salt_after(salt))
    return _hash_of_parts(header, ids, blake3(salt + details.encode()).digest(), made)


def hash_of_made(
    version: bytes | None, turn: bytes | None, roots: bytes | None = None
) -> bytes | None:
    """Returns what stands for what a trace made: the hashes of a version and a turn, and roots.

    The latter as `join_roots` returns them; None for nothing.
    """
    if roots is not None:
        return _hash((version, turn, _digest_of_roots(roots)))
    return None if version is None and turn is None else _hash((version, turn))


def join_roots(roots: Iterable[bytes], salt: bytes) -> bytes:
    """Returns what a trace stores of roots: a hash of them says nothing without the salt."""
    return salt + b"".join(roots)


def split_roots(stored: bytes | None) -> list[bytes]:
    """Returns the roots that a trace names; none once they were taken out."""
    if stored is None or len(stored) == _HASH_BYTES:
        return []
    return [stored[at : at + _HASH_BYTES] for at in range(_SALT_BYTES, len(stored), _HASH_BYTES)]


def without_roots(row: TraceRow) -> TraceRow:
    """Returns a trace without the roots that it names; with the hash that stands for them."""
    if row.roots is None or len(row.roots) == _HASH_BYTES:
        return row
    return msgspec.structs.replace(row, roots=_digest_of_roots(row.roots))


def redacted(row: TraceRow) -> TraceRow:
    """Returns a trace without its details; with the hash that stands for them."""
    if row.details.startswith(REDACTED):
        return row
    salt = None if row.salt is None else _salt_after(row.salt)
    details = f"{REDACTED}{_digest_of_details(row).hex()}"
    return msgspec.structs.replace(row, details=details, salt=salt)


def erased(row: TraceRow) -> TraceRow:
    """Returns a trace without its details, ids and roots; with the hashes that stand for them.

    One of format 0 keeps its ids: they are hashed as they are.
    """
    row = without_roots(redacted(row))
    if row.format == 0 or _AND_IDS in row.details:
        return row
    details = f"{row.details}{_AND_IDS}{_digest_of_ids(row).hex()}"
    return msgspec.structs.replace(row, details=details, salt=None, **dict.fromkeys(IDS))


def _digest_of_details(row: TraceRow) -> bytes:
    """Returns what stands for its details in the hash of a trace."""
    if row.details.startswith(REDACTED):
        told, _, _ = row.details.removeprefix(REDACTED).partition(_AND_IDS)
        return bytes.fromhex(told)
    return blake3((row.salt or b"") + row.details.encode()).digest()


def _digest_of_ids(row: TraceRow) -> bytes:
    """Returns what stands for its ids in the hash of a trace; raises `ValueError`."""
    ids = _ids_of(msgspec.structs.astuple(row))
    if not row.details.startswith(REDACTED):
        return digest_of(ids, _salt_after(row.salt or b""))
    _, _, told = row.details.partition(_AND_IDS)
    if not told:
        return digest_of(ids, row.salt)
    if any(each is not None for each in ids):
        raise ValueError("a trace has ids that were taken out")
    return bytes.fromhex(told)


def _digest_of_roots(stored: bytes) -> bytes:
    """Returns what stands for the roots in the hash of a trace."""
    return stored if len(stored) == _HASH_BYTES else blake3(stored).digest()


def _salt_after(salt: bytes) -> bytes:
    """Returns what is hashed with the ids, if these bytes are hashed with the details."""
    return blake3(salt).digest()[:_SALT_BYTES]


def digest_of(values: Sequence[Any], salt: bytes | None = None) -> bytes:
    """Returns the hash of what a row of another table says."""
    return blake3((salt or b"") + _encode(values)).digest()


def to_seal(digest: bytes) -> bytes:
    """Returns what stands beside a row with this hash."""
    return digest[:_SEAL_BYTES]


def _hash_of_parts(
    header: tuple[Any, ...], ids: bytes, details: bytes, made: bytes | None
) -> bytes:
    return _hash((*_facts_of(header), ids, details, made))


def _hash(hashed: tuple[Any, ...]) -> bytes:
    return blake3(_encode(hashed)).digest()

"""What rows are hashed by: those of the journal, and what they made, which lies beside them.

A row of the journal is hashed over what it says, with hashes in the place of its parts: of its
details, of the version of a session and of the turn that it made. A part can go, and the chain
still holds. `docs/format.md` has the bytes.

Versions and turns have the first bytes of their hash beside them, and so have the rows of sessions
and branches over all that they say: whoever reads one knows that it is what was written. Whether
it is what the chain says, who asks for a history is told, and `verify`.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
from blake3 import blake3

from holdfast.model_traces import TraceRow

REDACTED: Final = "redacted:"
"""What stands before the hash of details that were taken out. No JSON object begins so."""

FORMAT: Final = 1
"""How traces are hashed that are appended now. Format 0 is that of the one chain that a tenant had
before: `_IN_FORMAT_0` without salt."""

_SEAL_BYTES: Final = 8
"""Of a hash, what stands beside a row: enough that no accident goes unseen."""

_HASHED: Final = TraceRow.__struct_fields__.index("details")
"""How many fields of a row are hashed as they are: those before its details."""

_IN_FORMAT_0: Final = attrgetter(
    *("previous", "tenant_id", "number", "id", "namespace_id", "session_id", "user_id", "agent_id"),
    *("action", "resource_type", "resource_id", "actor", "created_us"),
)

_encode = msgspec.msgpack.Encoder().encode


def hash_of(row: TraceRow) -> bytes:
    """Returns the hash that a trace has to have; raises `ValueError` for what no trace says."""
    if row.format == FORMAT:
        hashed = msgspec.structs.astuple(row)[:_HASHED]
        details = digest_of_details(row.details, row.salt)
        return hash_in_format_1(hashed, details, row.version_hash, row.turn_hash)
    if row.format == 0:
        return _hash((*_IN_FORMAT_0(row), digest_of_details(row.details, None)))
    message = f"a trace of format {row.format}"
    raise ValueError(message)


def hash_in_format_1(
    hashed: tuple[Any, ...], details: bytes, version: bytes | None, turn: bytes | None
) -> bytes:
    """Returns the hash of a trace's fields, with the hashes of its parts."""
    made = None if version is None and turn is None else _hash((version, turn))
    return _hash((*hashed, details, made))


def digest_of_details(details: str, salt: bytes | None) -> bytes:
    """Returns what stands for details in the hash of their trace."""
    if details.startswith(REDACTED):
        return bytes.fromhex(details.removeprefix(REDACTED))
    return blake3((salt or b"") + details.encode()).digest()


def digest_of(values: Sequence[Any], salt: bytes | None = None) -> bytes:
    """Returns the hash of what a row of another table says."""
    return blake3((salt or b"") + _encode(values)).digest()


def to_seal(digest: bytes) -> bytes:
    """Returns what stands beside a row with this hash."""
    return digest[:_SEAL_BYTES]


def _hash(hashed: tuple[Any, ...]) -> bytes:
    return blake3(_encode(hashed)).digest()

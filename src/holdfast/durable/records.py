"""What the records of a log say, and their bytes.

A record is changes that were made together, or a mark: all that stands before it is in the
catalog, and so was the head when it was written. To delete everything is a change of every key
that was there, and no record of its own: found in the log later, it would take with it what
others have put there since.
"""

from typing import Final

import msgspec

from holdfast.errors import Damaged
from holdfast.model.basics import Head

Change = tuple[str, str, bytes | None]
"""A namespace, a key, and the encoded value; None says that the key is gone."""


class Mark(msgspec.Struct, frozen=True):
    """Where the head of a namespace stood: it is another one as soon as anybody changes it."""

    namespace_id: int
    generation: int
    sequence: int

    @classmethod
    def of(cls, head: Head) -> "Mark":
        """Returns where a head stands."""
        return cls(head.namespace_id, head.generation, head.sequence)


Changes = list[Change]
"""Changes that are made together."""

encode_record: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(list[Change] | Mark)


def decode_record(payload: bytes) -> Changes | Mark:
    """Returns what a record says; raises `Damaged` if it says nothing."""
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        message = f"a record of the store's log cannot be read: {exc}"
        raise Damaged(message) from exc


def since_mark(payloads: list[bytes]) -> tuple[Mark | None, list[Changes]]:
    """Returns the last mark, if there is one, and the changes that came after it."""
    mark: Mark | None = None
    changes: list[Changes] = []
    for payload in payloads:
        record = decode_record(payload)
        if isinstance(record, Mark):
            mark, changes = record, []
        else:
            changes.append(record)
    return mark, changes

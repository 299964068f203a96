"""What leads from one files map to another, as bytes; and the checks on such bytes.

Edits are pairs of a path and its encoded entry, or none where the path is gone: ascending, each
path once. Whoever sends them is not trusted. A path has to be one that stays below its directory,
an entry one that a directory can hold, in the very bytes that this program would write: equal
files have equal entries, or roots would mean nothing. What the entries refer to is `reach.py`'s.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from holdfast.engine.core.limits import Limits
from holdfast.engine.core.paths import to_key, to_text
from holdfast.engine.files.editing import MAX_MODE
from holdfast.engine.objects import content
from holdfast.engine.objects.content import INLINE_BYTES, MAX_REFS
from holdfast.entries import (
    REF_BYTES,
    TIMES,
    Blob,
    BlobTwin,
    Directory,
    Entry,
    Inline,
    InlineTwin,
    Link,
    decode_entry,
    encode_entry,
    unpack_refs,
)
from holdfast.errors import Damaged, InvalidValue, TooLarge, shorten
from holdfast.model.files import MAX_PATH_BYTES

Edits = Mapping[bytes, bytes | None]
"""By path; None where it is gone."""

MAX_EDITS_BYTES: Final = 128 << 20
"""Encoded edits: a million files. They are decoded as one."""

MAX_EDITS: Final = 1_000_000
"""Looked at before they are decoded: an edit of five bytes takes two hundred in memory."""

MAX_ENTRY_BYTES: Final = 16 << 10
"""A link's target, or another name of the same file, has 4 KB at the most."""

MAX_DEPTH: Final = 4
"""Lists of lists: with 8 references in the entry, three levels name more than any file has."""

MAX_ABOVE_BYTES: Final = 2 << 30
"""Directories above all paths, in bytes: a path can have two thousand of them, each of which has
to be looked at. A million honest files have less than half of it."""

_decoder: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes | None]])


def encode_edits(edits: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """Returns edits, which ascend, as they are sent; raises `TooLarge` if they are too many."""
    told = list(edits)
    data = msgspec.msgpack.encode(told)
    if len(told) > MAX_EDITS or len(data) > MAX_EDITS_BYTES:
        message = f"{MAX_EDITS} paths, or {MAX_EDITS_BYTES} bytes of them, can change at a time"
        raise TooLarge(message)
    return data


def decode_edits(data: bytes, limits: Limits) -> dict[bytes, bytes | None]:
    """Returns edits that somebody sent; raises an `Invalid` unless each is sound in itself."""
    if len(data) > MAX_EDITS_BYTES:
        message = f"changes may have {MAX_EDITS_BYTES} bytes together; these have {len(data)}"
        raise TooLarge(message)
    if _announced(data) > MAX_EDITS:
        message = f"{MAX_EDITS} paths can change at a time"
        raise TooLarge(message)
    try:
        edits = _decoder.decode(data)
    except msgspec.DecodeError as exc:
        message = f"the changes cannot be read: {exc}"
        raise InvalidValue(message) from exc
    return check_edits(edits, limits)


def check_edits(
    edits: Sequence[tuple[bytes, bytes | None]], limits: Limits
) -> dict[bytes, bytes | None]:
    """Returns edits that somebody sent; raises an `Invalid` unless each is sound in itself."""
    if any(key >= after for (key, _), (after, _) in pairwise(edits)):
        raise InvalidValue("the changes are not in order, or one path is there twice")
    if sum(key.count(b"/") * len(key) for key, _ in edits) > MAX_ABOVE_BYTES:
        raise TooLarge("the paths are too deep: there are too many directories above them")
    for key, entry in edits:
        to_key(key)
        if entry is not None:
            check_foreign(key, entry, limits)
    return dict(edits)


def check_foreign(key: bytes, data: bytes, limits: Limits) -> Entry:
    """Returns an entry that somebody sent; raises an `Invalid` for one that is not usable."""
    entry = _decoded(key, data)
    if isinstance(entry, Directory):
        _check_mode(key, entry.mode)
    elif isinstance(entry, Link):
        target = entry.target
        if not target or b"\0" in target or len(target) > MAX_PATH_BYTES:
            raise _unfit(key, "its target is empty, too long, or holds a NUL byte")
        _check_time(key, entry.mtime_ns)
    elif isinstance(entry, Inline | Blob):
        _check_mode(key, entry.mode)
        _check_time(key, entry.mtime_ns)
        if isinstance(entry, InlineTwin | BlobTwin):
            to_key(entry.twin)
        if isinstance(entry, Blob):
            check_blob(key, entry, limits)
        elif entry.size > INLINE_BYTES:
            raise _unfit(key, f"{entry.size} bytes are too many to be kept in an entry")
    else:
        raise _unfit(key, "no directory can hold it")
    return entry


def _announced(data: bytes) -> int:
    """Returns how many items an encoded list claims to have; none, if it is no list."""
    width = {0xDC: 2, 0xDD: 4}.get(data[0] if data else 0, 0)
    return int.from_bytes(data[1 : 1 + width], "big")


def _decoded(key: bytes, data: bytes) -> Entry:
    if len(data) > MAX_ENTRY_BYTES:
        raise _unfit(key, f"an entry of {len(data)} bytes is too large")
    try:
        entry = decode_entry(data)
    except Damaged as exc:
        raise _unfit(key, "its entry cannot be read") from exc
    if encode_entry(entry) != data:
        raise _unfit(key, "its entry is not written as entries are")
    return entry


def check_blob(key: bytes, blob: Blob, limits: Limits) -> None:
    """Raises for a blob that somebody sent whose own fields contradict each other."""
    if blob.size > limits.file_bytes:
        message = f"a file may have {limits.file_bytes} bytes; one has {blob.size}"
        raise TooLarge(message)
    is_sound = (
        blob.size > INLINE_BYTES
        and 0 <= blob.depth <= MAX_DEPTH
        and 0 < len(blob.refs) <= MAX_REFS * REF_BYTES
        and len(blob.refs) % REF_BYTES == 0
        and all(0 < size <= content.FILES.max_bytes for _, size in unpack_refs(blob.refs))
        and (blob.depth > 0 or sum(size for _, size in unpack_refs(blob.refs)) == blob.size)
    )
    if not is_sound:
        raise _unfit(key, "its list of chunks is not one")


def _check_mode(key: bytes, mode: int) -> None:
    if not 0 <= mode <= MAX_MODE:
        raise _unfit(key, f"mode {mode:#o} has a set-user-id, set-group-id or unknown bit")


def _check_time(key: bytes, mtime_ns: int) -> None:
    if mtime_ns not in TIMES:
        raise _unfit(key, "no clock has its time")


def _unfit(key: bytes, reason: str) -> InvalidValue:
    return InvalidValue(f"{shorten(to_text(key))} cannot be stored: {reason}")

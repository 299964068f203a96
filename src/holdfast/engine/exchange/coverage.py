"""What the other side says that a snapshot covers, checked before it becomes part of one."""

from typing import Annotated, Any, Final

import msgspec

from holdfast.engine.core.coverage import LISTED, Coverage, Lacking, check_omission
from holdfast.errors import InvalidValue, TooLarge, Unavailable
from holdfast.model.basics import SnapshotInfo
from holdfast.model.files import MAX_PATH_BYTES

MAX_BYTES: Final = 4 << 20
MAX_FAILED: Final = 10_000
"""What could not be read is listed whole: a directory with more of it is not worth a snapshot."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Text = Annotated[str, msgspec.Meta(max_length=4 * MAX_PATH_BYTES)]
_Row = Annotated[list[_Text], msgspec.Meta(min_length=2, max_length=3)]
_Rows = Annotated[list[_Row], msgspec.Meta(max_length=LISTED)]
_Failed = Annotated[list[_Row], msgspec.Meta(max_length=MAX_FAILED)]


class _Told(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a coverage, as `to_detail` writes them."""

    captured: _Count
    captured_bytes: _Count
    skipped_count: _Count
    excluded_count: _Count
    skipped: _Rows
    excluded: _Rows
    failed: _Failed
    in_motion: _Failed = []
    unread_rules: Annotated[list[_Text], msgspec.Meta(max_length=LISTED)] = []


class _Carried(msgspec.Struct, kw_only=True):
    """What a snapshot keeps of what the one that it comes from lacks."""

    failed: _Failed = []
    in_motion: _Failed = []


class _Kept(_Carried, kw_only=True):
    """What a server's snapshot keeps with it, as far as that is about what it lacks."""

    partial: bool = False
    coverage: _Carried | None = None


def lacking_of(snapshot: SnapshotInfo) -> Lacking:
    """Returns what a server's snapshot does not vouch for; raises `Unavailable` for nonsense."""
    try:
        kept = msgspec.convert(snapshot.detail, type=_Kept)
        told = kept if kept.coverage is None else kept.coverage
        return Lacking(
            [check_omission(row).path for row in told.failed],
            [check_omission(row).path for row in told.in_motion],
            kept.partial and not told.failed,
        )
    except (ValueError, RecursionError) as exc:
        message = f"the server's snapshot {snapshot.id} lacks what nobody can name: {exc}"
        raise Unavailable(message) from exc


def checked_detail(told: bytes) -> dict[str, Any]:
    """Returns what is kept with a snapshot about its coverage; nothing, if nothing was told."""
    if not told:
        return {}
    if len(told) > MAX_BYTES:
        message = f"a coverage may have {MAX_BYTES} bytes; this one has {len(told)}"
        raise TooLarge(message)
    try:
        found = msgspec.json.decode(told, type=_Told)
        return Coverage(
            captured=found.captured,
            captured_bytes=found.captured_bytes,
            skipped_count=found.skipped_count,
            excluded_count=found.excluded_count,
            skipped=[check_omission(row) for row in found.skipped],
            excluded=[check_omission(row) for row in found.excluded],
            failed=[check_omission(row) for row in found.failed],
            in_motion=[check_omission(row) for row in found.in_motion],
            unread_rules=[check_omission(["", line]).reason for line in found.unread_rules],
        ).to_detail()
    except (ValueError, RecursionError) as exc:
        message = f"the coverage is none: {exc}"
        raise InvalidValue(message) from exc

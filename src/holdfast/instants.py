"""Instants: stored, hashed and compared as whole microseconds since 1970 in UTC, and told as text.

The text has one width everywhere, six digits after the second and a `Z`: clients sort it, and send
it back word for word.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.errors import Damaged, InvalidValue, shorten

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_ZONE: Final = "+00:00"
LAST_US: Final = 253_402_300_799_999_999
"""The end of the year 9999."""


def to_us(instant: datetime) -> int:
    """Returns whole microseconds since 1970 for an aware instant."""
    return (instant - EPOCH) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Returns the aware UTC instant of so many microseconds since 1970; raises `Damaged`.

    Only instants are stored: a number that no calendar has was never written.
    """
    try:
        return EPOCH + microseconds * _MICROSECOND
    except OverflowError as exc:
        message = f"an instant lies outside of the calendar: {microseconds}"
        raise Damaged(message) from exc


def to_text(instant: datetime) -> str:
    """Returns an instant as text; raises `InvalidValue` for one that may be anywhere."""
    if instant.tzinfo is None:
        raise InvalidValue("an instant says in which time zone it is: datetime.now(UTC)")
    return f"{instant.astimezone(UTC).isoformat(timespec='microseconds').removesuffix(_ZONE)}Z"


def from_text(text: str, name: str | None = None) -> datetime:
    """Returns the instant of ISO-8601 text, or of seconds since 1970; without a zone it is UTC.

    What is none is refused by the `name` that it goes by.
    """
    try:
        # A `+` that nobody escaped in a query has become a space.
        return _in_utc(datetime.fromisoformat(text.strip().replace(" 00:00", "+00:00")))
    except ValueError:
        pass
    except OverflowError as exc:
        raise _refusal(name, text) from exc
    try:
        return datetime.fromtimestamp(float(text), tz=UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise _refusal(name, text) from exc


def _in_utc(instant: datetime) -> datetime:
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)


def _refusal(name: str | None, text: str) -> InvalidValue:
    whose = name or "an instant"
    message = f"{whose} is an instant such as 2026-01-31T09:05:00Z, not {shorten(text)}"
    return InvalidValue(message, param=name)

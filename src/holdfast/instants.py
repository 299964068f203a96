"""Instants as whole microseconds since 1970 in UTC: how they are stored, hashed and compared."""

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.errors import Damaged

_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
LAST_US: Final = 253_402_300_799_999_999
"""The end of the year 9999."""


def to_us(instant: datetime) -> int:
    """Returns whole microseconds since 1970 for an aware instant."""
    return (instant - _START) // _MICROSECOND


def from_us(microseconds: int) -> datetime:
    """Returns the aware UTC instant of so many microseconds since 1970; raises `Damaged`.

    Only instants are stored: a number that no calendar has was never written.
    """
    try:
        return _START + microseconds * _MICROSECOND
    except OverflowError as exc:
        message = f"an instant lies outside of the calendar: {microseconds}"
        raise Damaged(message) from exc

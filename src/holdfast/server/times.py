"""Instants as they stand on the wire, and back.

One fixed width everywhere, six digits after the second and a `Z`: clients sort them as text, and
send them back word for word.
"""

from datetime import UTC, datetime

from holdfast.engine.journal.envelopes import shown
from holdfast.errors import InvalidValue, shorten

__all__ = ["parse_instant", "shown", "shown_or_none"]


def shown_or_none(instant: datetime | None) -> str | None:
    """Returns an instant as text, where there is one."""
    return None if instant is None else shown(instant)


def parse_instant(name: str, text: str) -> datetime:
    """Returns the instant of ISO-8601 text, or of seconds since 1970; without a zone it is UTC."""
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


def _refusal(name: str, text: str) -> InvalidValue:
    return InvalidValue(f"{name} is an instant such as 2026-01-31T09:05:00Z, not {shorten(text)}")

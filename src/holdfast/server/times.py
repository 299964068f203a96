"""Instants in requests and answers of routes that are written out."""

from datetime import datetime

from holdfast.instants import from_text
from holdfast.instants import to_text as shown

__all__ = ["parse_instant", "shown", "shown_or_none"]


def shown_or_none(instant: datetime | None) -> str | None:
    """Returns an instant as text, where there is one."""
    return None if instant is None else shown(instant)


def parse_instant(name: str, text: str) -> datetime:
    """Returns the instant that a parameter says."""
    return from_text(text, name)

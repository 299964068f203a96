"""How values look at a prompt and in a notebook: short, and with what somebody else chose escaped.

Imports nothing of ours. What a value shows is its own to say, in `__repr__` and `_repr_html_`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

LONGEST: Final = 60
"""Characters of a text that are shown of it."""

LINE_CHARS: Final = 100
"""Characters of a value that is shown in a line, among others of its kind."""

MOST_ROWS: Final = 100
"""Rows of a table: a notebook keeps what it has shown."""


def brief(kind: str, *parts: object) -> str:
    """Returns `<Kind part part>`; parts that are None or empty are left out."""
    return f"<{' '.join([kind, *(str(part) for part in parts if part not in (None, ''))])}>"


def line(kind: str, *parts: object) -> str:
    """Returns what `brief` does, and no more of it than a line has."""
    text = brief(kind, *parts)
    return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 2]}…>"


def quoted(text: str | None) -> str | None:
    """Returns a text as Python writes it, and not all of it if it is long."""
    return None if text is None else shortened(text)


def shortened(value: object) -> str:
    """Returns a value as Python writes it, and not all of it if that is long."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def minute(instant: datetime) -> str:
    """Returns an instant as people read it, in UTC, without what is below a second."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def counted(number: int, noun: str) -> str:
    """Returns `1 entry` or `2 entries`."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, more: str = "") -> str:
    """Returns a table as HTML, with everything in it escaped; `more` is what follows it."""
    from html import escape  # noqa: PLC0415 - takes a while, and no command shows a table so

    def cell(value: object) -> str:
        # What is no UTF-8 would be refused by whoever writes the notebook to a file.
        text = "" if value is None else str(value).encode("utf-8", "replace").decode()
        return escape(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")

    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{cell(value)}</td>' for value in row)}</tr>" for row in rows
    )
    tail = f"<p>{escape(more)}</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{tail}"


class Part:
    """What belongs to a namespace, and says to which."""

    def __repr__(self) -> str:
        handle = getattr(self, "_handle", None)
        whose = "" if handle is None else f" of {handle.name!r}"
        return f"<{type(self).__name__}{whose}>"

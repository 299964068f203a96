"""How a field of a value or an operation stands on the wire, where not under its own name.

Said in its annotation: `id: Annotated[str, Named("schedule_id")]`.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

import msgspec

M = TypeVar("M")

Instant = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
"""An instant in UTC, always with six digits after the second: as text they sort as they follow."""


class Named(msgspec.Struct, frozen=True):
    """Under another name."""

    name: str


class Header(msgspec.Struct, frozen=True):
    """As a header of a request; where the path names the field, with `-` in its place there.

    A name with any character in it can be said so. Who writes a request by hand may say it in the
    path as well.
    """

    name: str


class AsBytes(msgspec.Struct, frozen=True):
    """As text, and where it is none, as its bytes in base64 as well: under its name and `_b64`.

    Of a request, what is asked for in a query can be said so.
    """


AS_BYTES: Final = AsBytes()


class Query(msgspec.Struct, frozen=True):
    """In the query, though the others are in the body."""


QUERY: Final = Query()


class Text(msgspec.Struct, frozen=True):
    """As text that a row can hold: of so many characters at the most."""

    most: int


class Inside(msgspec.Struct, frozen=True):
    """Not at all: it is a vault's own. Outside of that, it is this."""

    outside: Any = None


class While(msgspec.Struct, frozen=True):
    """Only while another field is true, and else as null; who reads null has this."""

    field: str
    otherwise: Any


class Unsaid(msgspec.Struct, frozen=True):
    """Not at all where it is None: nobody has asked for it, or nobody knows it."""


UNSAID: Final = Unsaid()


class Instead(msgspec.Struct, frozen=True):
    """None is said by another field, which is true then: to say nothing is something else."""

    name: str


class AtMost(msgspec.Struct, frozen=True):
    """A server takes what is above this for this."""

    number: int


class Flat(msgspec.Struct, frozen=True):
    """Its fields stand beside the others, as if they were fields of the whole.

    An operation's such field is None if a request says none of them.
    """


FLAT: Final = Flat()


class Here(msgspec.Struct, frozen=True):
    """If it is not known, it is the namespace that was asked."""


HERE: Final = Here()


class Shape(msgspec.Struct, frozen=True):
    """As another type, which JSON has; None for what is written as it is."""

    wire: Any
    send: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


def mark(kind: Any, wanted: type[M]) -> M | None:  # noqa: ANN401 - a type, with what stands beside it
    """Returns what an annotation says of such a kind; None if it says nothing."""
    said = getattr(kind, "__metadata__", ())
    return next((each for each in said if isinstance(each, wanted)), None)

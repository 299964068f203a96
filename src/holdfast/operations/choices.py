"""What of a namespace is meant, and how much of it is listed: types of arguments."""

import re
from collections.abc import Sequence, Sized
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec

from holdfast.errors import InvalidValue
from holdfast.ids import ObjectId
from holdfast.model.basics import Plane
from holdfast.model.marks import Shape, Text
from holdfast.model.names import PathLike, read_path, sent_path

SHOWN: Final = 1000
"""Changes that an answer lists unless more are asked for: it stays constant in time."""

MOST_CHANGES: Final = 100_000
"""Changes that one answer of a server lists: they are all in memory at once."""

LAST_NUMBER: Final = 2**53
"""Further than any list goes, and a number that every client reads right."""

Number = Annotated[int, msgspec.Meta(ge=0, le=LAST_NUMBER)]
"""Below which snapshot a list goes on."""

Period = Annotated[timedelta, msgspec.Meta(gt=0, le=10**9)]
"""What a request can say at all of how long; what makes sense of it, the door decides."""

Paths = Annotated[
    Sequence[PathLike],
    Shape(
        list[str],
        lambda paths: [*map(sent_path, paths)],
        lambda paths: [*map(read_path, paths)],
    ),
]
"""Files and directories, with or without `workspace/`; `*`, `?` and `[` make a pattern."""

Tag = Annotated[str, Text(128)]
"""The tag of what has to be there, or `absent`."""


def _root(digits: str) -> ObjectId:
    if not _ROOT.fullmatch(digits):
        raise InvalidValue("a root is 64 digits, as a look answers it")
    return ObjectId(bytes.fromhex(digits))


_ROOT: Final = re.compile("[0-9a-f]{64}")

RootId = Annotated[ObjectId, Shape(str, bytes.hex, _root)]
"""The root of all that was there when somebody looked."""

Planes = Annotated[Sequence[Plane | str], Shape(list[str], lambda planes: [*map(str, planes)])]


def check_chosen(kind: str, given: Sized | None) -> None:
    """Raises `InvalidValue` for a choice of nothing: in a query it would be one of everything."""
    if given is not None and not len(given):
        message = f"nothing is selected: name at least one {kind}"
        raise InvalidValue(message)


def check_zone(name: str, instant: datetime | None) -> None:
    """Raises `InvalidValue` for an instant that may be anywhere: none compares with it."""
    if instant is not None and instant.tzinfo is None:
        message = f"{name} is an instant with a time zone"
        raise InvalidValue(message)


_BOUNDS: Final = {"default": SHOWN, "minimum": 0, "maximum": MOST_CHANGES}
_Counted = Annotated[int, msgspec.Meta(extra_json_schema=_BOUNDS)]

Listed = Annotated[
    int | None,
    Shape(
        _Counted | None,
        lambda limit: MOST_CHANGES if limit is None else limit,
        lambda limit: SHOWN if limit is None else min(limit, MOST_CHANGES),
    ),
]
"""How many changes are listed at the most: 1,000 if it is not said, 0 for none, None for all."""

"""JSON bodies: read with care, since anybody may have written them.

What is no UTF-8, no JSON, or more than reason allows does not fit; `counting` says how much that
is, before anything is made of it. The rest is decoded straight into what the route takes: a field
that it does not know is passed over, and nothing is built for it.
"""

from collections.abc import Callable, Sized
from contextlib import nullcontext
from threading import Lock
from typing import Any, Final, TypeVar, cast

import msgspec
from litestar import Request
from litestar.types import Empty

from holdfast.server.counting import Counter
from holdfast.server.problems import Unfit
from holdfast.server.threads import Work, in_thread

T = TypeVar("T")

SMALL_BYTES: Final = 64 << 10
"""Up to here a body is decoded where it is: to find a thread would take longer."""

COUNTED_BYTES: Final = 1 << 20
"""So much of a body is looked over at a time, while the rest of it is on its way."""

_TURN: Final = Lock()
"""Who decodes a large body. Several would take the interpreter from each other, and nobody else
would come to it between two of them."""


class JsonRequest(Request[Any, Any, Any]):
    """A request whose body is JSON, if its route takes anything that is in it."""

    async def json(self) -> Any:  # noqa: ANN401 - what the route takes
        """Returns what the body says, as the route takes it; raises `Unfit` or `TooLarge`."""
        wanted = self.route_handler.parsed_data_field
        kind = Any if wanted is None else wanted.annotation
        return await _where_it_fits(decode, await self.body(), kind)

    async def body(self) -> bytes:
        """Returns the body; raises `Unfit` or `TooLarge`, before the rest has come if it can."""
        known = (self._body, self._connection_state.body)
        if known == (Empty, Empty) and self.route_handler.parsed_data_field is not None:
            coming = Coming()
            async for piece in self.stream():
                coming.add(piece)
                if coming.uncounted >= COUNTED_BYTES:
                    await in_thread(coming.count, work=Work.HEAVY)
            self._connection_state.body = await _where_it_fits(Coming.whole, coming)
        return await super().body()


class Coming:
    """A text on its way, which is counted as it comes."""

    def __init__(self) -> None:
        self.uncounted = self._size = 0
        # It grows in its place: put together at the end, it would be there twice.
        self._whole, self._fresh = bytearray(), list[bytes]()
        self._counter = Counter()

    def __len__(self) -> int:
        return self._size

    def add(self, piece: bytes) -> None:
        """Takes what came next."""
        self._fresh.append(piece)
        self._size += len(piece)
        self.uncounted += len(piece)

    def count(self) -> None:
        """Counts what has come since; raises `Unfit` or `TooLarge`."""
        for piece in self._fresh:
            self._counter.add_all(piece)
            self._whole += piece
        self._fresh, self.uncounted = [], 0

    def whole(self) -> bytes:
        """Returns all of it; raises as `count`."""
        self.count()
        self._counter.end()
        return cast("bytes", self._whole)


def decode(text: bytes, kind: Any) -> Any:  # noqa: ANN401 - any type, and a value of it
    """Returns what a text says that was counted; raises `Unfit`."""
    try:
        with _TURN if len(text) > SMALL_BYTES else nullcontext():
            # Clients may send numbers as text: what a parameter of a URL can be, a field can.
            return msgspec.json.decode(text, type=kind, strict=False)
    except msgspec.ValidationError as exc:
        what, _, where = str(exc).partition(" - at `$.")
        raise Unfit(f"{where.rstrip('`')}: {what}" if where else what) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Unfit(f"the body cannot be read: {exc}") from exc


async def _where_it_fits(function: Callable[..., T], text: Sized, *more: object) -> T:
    """Calls a function with a text: here, or in a thread if it is long."""
    if len(text) <= SMALL_BYTES:
        return function(text, *more)
    return await in_thread(function, text, *more, work=Work.HEAVY)

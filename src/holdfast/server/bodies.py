"""Bodies: let in once there is room for them, and read with care: anybody may have written them.

What is no UTF-8, no JSON, or more than reason allows does not fit; `counting` says how much that
is, before anything is made of it. The rest is decoded straight into what the route takes. A field
that it does not know is refused; where clients of others ask, it is passed over, and nothing is
built for it.
"""

import re
from collections.abc import Callable, Mapping, Sized
from contextlib import nullcontext
from threading import Lock
from typing import Any, Final, TypeVar, cast, get_args

import msgspec

from holdfast.server.asgi import Message, Receive
from holdfast.server.counting import Counter, count_short
from holdfast.server.problems import BodyPacked, Unfit
from holdfast.server.requests import Request
from holdfast.server.room import FREE_BYTES, STEP_BYTES, Taken
from holdfast.server.threads import Work, in_thread
from holdfast.wire import MAX_NAMED_BYTES

T = TypeVar("T")
Decoder = msgspec.json.Decoder[Any]

NOTHING: Final = msgspec.UNSET
"""What a request without a body says."""

SMALL_BYTES: Final = 64 << 10
"""Up to here a body is decoded where it is: to find a thread would take longer."""

COUNTED_BYTES: Final = 1 << 20
"""So much of a body is looked over at a time, while the rest of it is on its way."""

_HALF: Final = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])")
"""The first half of a character without the second."""

_NAMED: Final = re.compile("(?:missing required|contains unknown) field `([^`]*)`")
"""How it is said of a field that it is not there, or not known."""

_TURN: Final = Lock()
"""Who decodes a large body. Several would take the interpreter from each other, and nobody else
would come to it between two of them."""


async def let_in(request: Request, most: int | None) -> None:
    """Waits until there is room for the body of a request, of which the route takes so much.

    Raises `BodyPacked` for one that is not what it says.
    """
    headers = request.headers
    if b"content-encoding" in headers:
        _check_plain(request)
    size = None if b"transfer-encoding" in headers else size_of(headers)
    if size is not None and size <= FREE_BYTES:
        return
    # Without a limit, a route spools, and only what bears a name is read whole.
    held = most or MAX_NAMED_BYTES
    if size is None:
        request.receive = _counted(request.receive, request.taken, held)
    elif most is None or size <= most:  # Else it is refused, and not read.
        await request.taken.take_memory(min(size, held))


def _check_plain(request: Request) -> None:
    encoding = request.header(b"content-encoding") or ""
    is_there = b"transfer-encoding" in request.headers or size_of(request.headers) > 0
    if is_there and encoding.strip().lower() not in ("", "identity"):
        raise BodyPacked(encoding)


async def read_json(request: Request, decoder: Decoder, most: int | None) -> Any:  # noqa: ANN401 - what the route takes
    """Returns what a body says, or `NOTHING`; raises `Unfit`, or that it is too large.

    The latter before the rest has come, where that can be told.
    """
    if is_short(request):
        text = await read_bytes(request, most)
        count_short(text)
        return decode(text, decoder) if text else NOTHING
    coming = Coming()
    async for piece in request.stream(most):
        coming.add(piece)
        if coming.uncounted >= COUNTED_BYTES:
            await in_thread(coming.count, work=Work.HEAVY)
    if not coming:
        return NOTHING
    return await _where_it_fits(decode, await _where_it_fits(Coming.whole, coming), decoder)


def is_short(request: Request) -> bool:
    """Says whether a body says that it has few bytes."""
    headers = request.headers
    return b"transfer-encoding" not in headers and size_of(headers) <= SMALL_BYTES


def size_of(headers: Mapping[bytes, bytes]) -> int:
    """Returns how many bytes a request says its body has."""
    return int(headers.get(b"content-length", b"0"))


async def check_nothing(request: Request, most: int | None) -> None:
    """Raises `Unfit` for a body that says something to a route that takes none."""
    await read_json(request, _nothing, most)


async def read_bytes(request: Request, most: int | None) -> bytes:
    """Returns a body as it came."""
    return b"".join([piece async for piece in request.stream(most)])


def decoder_of(kind: Any) -> Decoder:  # noqa: ANN401 - any type
    """Returns what reads bodies of a kind: to the letter, if that refuses what it does not know.

    Clients of others may send numbers as text: what a parameter of a URL can be, a field can.
    """
    structs = [each for each in (kind, *get_args(kind)) if hasattr(each, "__struct_config__")]
    is_exact = any(each.__struct_config__.forbid_unknown_fields for each in structs)
    return msgspec.json.Decoder(kind, strict=is_exact)


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """What a body says where none is needed."""


_nothing: Final = decoder_of(_Nothing | None)


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


def decode(text: bytes, decoder: Decoder) -> Any:  # noqa: ANN401 - what the decoder makes
    """Returns what a text says that was counted; raises `Unfit`."""
    try:
        with _TURN if len(text) > SMALL_BYTES else nullcontext():
            return decoder.decode(text)
    except msgspec.ValidationError as exc:
        what, _, where = str(exc).partition(" - at `$.")
        where = where.rstrip("`")
        # What is missing, or is not known, is named in the sentence and not in the place.
        named = _NAMED.search(what)
        param = ".".join(filter(None, (where, named and named[1]))) or None
        raise Unfit(f"{where}: {what}" if where else what, param=param) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        # Of half a character near the end, the decoder says that the body ends too early.
        is_half = "surrogate" in str(exc) or _HALF.search(text)
        said = "a text in it holds half a character" if is_half else exc
        raise Unfit(f"the body cannot be read: {said}") from exc


async def _where_it_fits(function: Callable[..., T], text: Sized, *more: object) -> T:
    """Calls a function with a text: here, or in a thread if it is long."""
    if len(text) <= SMALL_BYTES:
        return function(text, *more)
    return await in_thread(function, text, *more, work=Work.HEAVY)


def _counted(receive: Receive, taken: Taken, most: int) -> Receive:
    """Returns what takes memory for a body as it comes, up to what is ever held of it."""
    had, got = FREE_BYTES, 0

    async def counted() -> Message:
        nonlocal had, got
        message = await receive()
        got += len(message.get("body", b""))
        if had < got and had < most:
            amount = max(STEP_BYTES, got - had)
            taken.grow_memory(amount)
            had += amount
        return message

    return counted

"""What is too much to be made of what is stored, where others wait meanwhile.

A decoder holds the interpreter's lock from the first byte to the last. In a program of one's own
that is one's own affair, and the limits say nothing; a server bounds it, since nobody else is
answered until it is over. What is beyond the bound stays as it is, and can be exported.
"""

from collections.abc import Collection
from contextlib import suppress

from holdfast.engine.core.limits import Limits
from holdfast.engine.core.wellformed import DECODED_BYTES, walk
from holdfast.errors import TooLarge, UnsafeArchive
from holdfast.jsonweight import weigh


def check_packed(limits: Limits, data: bytes, *, what: str) -> None:
    """Raises `TooLarge` for stored msgpack that is not to be decoded."""
    most = limits.decoded_values
    # A value has a byte at the least.
    if most is None or len(data) <= most:
        return
    try:
        with suppress(UnsafeArchive):  # Whoever decodes it says what is wrong.
            walk(data, most=most)
    except TooLarge as exc:
        raise _too_many(most, what) from exc


def check_texts(limits: Limits, texts: Collection[bytes], *, what: str) -> None:
    """Raises `TooLarge` for stored JSON, in several texts, that is not to be decoded."""
    size, most = sum(map(len, texts)), limits.decoded_values
    check_bytes(limits, size, what=what)
    if most is not None and size > DECODED_BYTES and sum(map(weigh, texts)) > most:
        raise _too_many(most, what)


def check_bytes(limits: Limits, size: int, *, what: str) -> None:
    """Raises `TooLarge` for what is too long to be decoded; it need not have been read."""
    if limits.decoded_bytes is not None and size > limits.decoded_bytes:
        raise _refusal(f"{what} has {size} bytes, and {limits.decoded_bytes} are shown")


def _too_many(most: int, what: str) -> TooLarge:
    return _refusal(f"{what} holds more than {most} values and keys")


def _refusal(why: str) -> TooLarge:
    return TooLarge(f"{why}: export it, or open the vault in a program of your own")

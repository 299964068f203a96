"""What is too much to be made of what is stored, where others wait meanwhile.

A decoder holds the interpreter's lock from the first byte to the last. In a program of one's own
that is one's own affair, and the limits say nothing; a server bounds it, since nobody else is
answered until it is over. What is beyond the bound stays as it is, and can be exported.

What a JSON text weighs is found without decoding it: how many values and keys it holds, each of
which takes 0.2 us at the most, and more for what takes longer: half a million take a tenth of a
second, whatever they are. Each step is one pass of the interpreter's own C over a piece; nothing is
made. Text that is no JSON is weighed as if it were: what decodes it afterwards says what is wrong.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from itertools import accumulate
from typing import Final

from holdfast.engine.core.limits import Limits
from holdfast.engine.core.wellformed import DECODED_BYTES, walk
from holdfast.errors import TooLarge, UnsafeArchive

PIECE_BYTES: Final = 64 << 10
"""What is weighed at a time, with everybody else in between."""

HARD, HARDER = 3, 100
"""For how many values more a number counts that has to be converted exactly: in arithmetic of any
length where no table of powers of ten helps. The fewest encoders write one. Far from 1 it takes
up to 20 us, near to it up to 0.7 us."""

_HARD_DOTLESS: Final = (b"0" * 18, b"e0", b"e+")
_HARD: Final = (
    b"0" * 14 + b".",
    b"0" * 17 + b"e",
    b"," + b"0" * 16 + b"e",
    b"-" + b"0" * 16 + b"e",
)
"""What can lie right between two floats: digits without number, or a large number."""

_EXACT: Final = re.compile(rb"[,eE](?<=(?:[05]00|[27]50|[16]25|[38]75).)(?<=[0-9.]{17}.)")
"""What can be a float to the last digit, and has too many of them to be found by one division:
what has three decimals or more is so only if its digits are a multiple of 125."""

_HARDER_DOTLESS: Final = (b"0" * 18 + b"e", b"0" * 100)
_EXPONENTS: Final = (b"e000", b"e+000", b"e-000")
_FAR: Final = re.compile(rb"[eE][+-]?0*+(?:2[89]\d|[3-9]\d\d|[1-9]\d{3})")
"""An exponent beyond the table's powers of ten."""

_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_STEPS))
_AS_ZEROS: Final = bytes.maketrans(b"123456789E", b"000000000e")
_NO_NUMBERS: Final = b" \t\r\n[]{}:"
_NO_ASCII: Final = bytes(range(0x80, 0x100))

TEXT_BYTES, WIDE_BYTES, ESCAPES = 256, 32, 8
"""How many bytes of strings, bytes of characters beyond ASCII, and escapes count for a value: a
short string that has a few of them takes three times as long as one that has none."""

MOST_TEXT: Final = 400_000
"""For how many values these count at the most: 32 MiB of nothing but escapes take 80 ms. What is
longer is a file, of which no text is made."""


class Scale:
    """Weighs a text, of pieces in their order."""

    def __init__(self) -> None:
        self.values, self.inside, self.digits = 1, 0, 0
        """Values and keys; lists and objects among them; characters of numbers."""
        self.depth = self.deepest = 0
        """How many lists and objects are open where the last piece ends; the most there were."""
        self._more = self._text = self._wide = self._escapes = 0
        self._is_in_string = False
        self._rest = b""

    @property
    def weight(self) -> int:
        """How many values and keys the text counts for."""
        text = self._text // TEXT_BYTES + self._wide // WIDE_BYTES + self._escapes // ESCAPES
        return self.values + self._more + min(text, MOST_TEXT)

    def add(self, piece: bytes) -> bytes:
        """Weighs a piece; returns the numbers in it, with the commas between them."""
        self._escapes += piece.count(b"\\")
        if not piece.isascii():
            self._wide += len(piece) - len(piece.translate(None, _NO_ASCII))
        outside = self.outside(piece)
        self._text += len(piece) - len(outside)
        inside = outside.count(b"[") + outside.count(b"{")
        self.inside += inside
        # A value or key follows a bracket, a comma or a colon, but for the first of all.
        keys = outside.count(b":")
        self.values += inside + outside.count(b",") + keys
        # A key has a place to be found by; Python's collector looks at lists and objects again.
        self._more += inside + keys
        numbers = outside.translate(None, _NO_NUMBERS)
        self.digits += len(numbers)
        self._more += _of_numbers(numbers)
        brackets = outside.translate(None, _NO_BRACKETS)
        depths = list(accumulate(map(_STEPS.__getitem__, brackets), initial=self.depth))
        self.depth, self.deepest = depths[-1], max(self.deepest, *set(depths))
        return numbers

    def add_all(self, text: bytes) -> None:
        """Weighs as much as there is, a piece at a time."""
        for start in range(0, len(text), PIECE_BYTES):
            self.add(text[start : start + PIECE_BYTES])

    def outside(self, piece: bytes) -> bytes:
        """Returns what is in no string, with a space where each was: `"a"1` is no number."""
        piece = self._rest + piece
        if b"\\" in piece:
            # An escape that the end of a piece cuts in two belongs to the next one.
            cut = (len(piece) - len(piece.rstrip(b"\\"))) % 2
            piece, self._rest = piece[: len(piece) - cut], piece[len(piece) - cut :]
            # Without escapes, every quote begins or ends a string.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        else:
            self._rest = b""
        parts = piece.split(b'"')
        outside = b" ".join(parts[self._is_in_string :: 2])
        self._is_in_string ^= len(parts) % 2 == 0
        return outside


def weigh(text: bytes) -> int:
    """Returns how many values and keys a JSON text counts for."""
    return _weighed(text).weight


def indented_bytes(text: bytes, *, indent: int) -> int:
    """Returns how long a JSON text is at the most with a line for each part, without making it."""
    scale = _weighed(text)
    # A line for each value, with a comma, and one for each end of a list or an object.
    lines = scale.values + scale.inside
    return len(text) + lines * (2 + indent * scale.deepest)


def _weighed(text: bytes) -> Scale:
    scale = Scale()
    scale.add_all(text)
    return scale


def _of_numbers(numbers: bytes) -> int:
    """Returns for how many values numbers count, beyond the one that each is."""
    # Most floats begin with a zero that is no digit of theirs.
    shape = numbers.replace(b",0.", b",.").replace(b",-0.", b",.").translate(_AS_ZEROS)
    dotless = shape.replace(b".", b"")
    hard = sum(map(dotless.count, _HARD_DOTLESS)) + sum(map(shape.count, _HARD))
    if b"0" * 16 in dotless:
        hard += len(_EXACT.findall(numbers))
    harder = sum(map(dotless.count, _HARDER_DOTLESS))
    if any(each in dotless for each in _EXPONENTS):
        harder += len(_FAR.findall(numbers))
    return HARD * hard + HARDER * harder


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

"""How much a JSON text would make, found without making it.

Decoding holds the interpreter's lock from the first byte to the last, in whatever thread it
happens: until it is over, this process answers nobody. So a large text is looked over first, a
piece at a time with everybody else in between, and refused where it holds more than can be
decoded in a tenth of a second. Each step is one pass of the interpreter's own C over a piece.

Text that is no JSON is counted as if it were: what decodes it afterwards says what is wrong.
"""

import codecs
import re
from itertools import accumulate
from typing import Final

from holdfast.errors import TooLarge
from holdfast.jsontext import PIECE_BYTES, Outside, count_inside
from holdfast.server.problems import Unfit

MOST_VALUES: Final = 500_000
"""Values and keys: as many floats of 17 digits take 85 ms to decode, as many keys 80 ms."""

MOST_INSIDE: Final = 100_000
"""Lists and objects among them: each takes longer, and Python's collector looks at all of them."""

DEEPEST: Final = 200
"""Lists and objects in one another. Reason ends well before the interpreter does: an answer that
shows what was stored nests it a few levels deeper, and has to be possible, too."""

LONGEST_NUMBER: Final = 400
"""Characters: what a number takes grows with the square of its length. 10^308 has 309."""

MOST_DIGITS: Final = 12 << 20
"""Characters of all numbers, with the commas between them: 80 ms, however long each is."""

HARD, HARDER = 3, 100
"""For how many values a number counts that has to be converted exactly: in arithmetic of any
length where no table of powers of ten helps. The fewest encoders write one. Far from 1 it takes
up to 20 us, near to it up to 0.7 us; others take 0.05 us, at the very worst 0.3 us."""

_HARD_DOTLESS: Final = (b"0" * 18, b"e0", b"e+")
_HARD: Final = (b"0" * 15 + b".", b"0" * 17 + b"e")
"""What can lie right between two floats: digits without number, or a large number."""

_HARDER_DOTLESS: Final = (b"0" * 18 + b"e", b"0" * 100)
_EXPONENTS: Final = (b"e000", b"e+000", b"e-000")
_FAR: Final = re.compile(rb"[eE][+-]?0*+(?:2[89]\d|[3-9]\d\d|[1-9]\d{3})")
"""An exponent beyond the table's powers of ten."""

_AS_ZEROS: Final = bytes.maketrans(b"123456789E", b"000000000e")

_SHORT: Final = re.compile(rb"(?:[^,]{0,%d}+,)*+[^,]{0,%d}+" % (LONGEST_NUMBER, LONGEST_NUMBER))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_NUMBERS: Final = b" \t\r\n[]{}:"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(_STEPS))


class Counter:
    """Counts what a text holds, of pieces in their order."""

    def __init__(self) -> None:
        self.values = 1
        self.inside = 0
        self.depth = self.deepest = 0
        self.digits = self.weight = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._outside = Outside()

    def add_all(self, text: bytes) -> None:
        """Counts as much as there is, a piece at a time."""
        for start in range(0, len(text), PIECE_BYTES):
            self.add(text[start : start + PIECE_BYTES])

    def add(self, piece: bytes) -> None:
        """Counts a piece; raises `TooLarge` or `Unfit` as soon as it is too much."""
        self._check_text(piece)
        # With a space where each string was: `"a"1` is no longer a number.
        outside = self._outside.of(piece)
        inside, values = count_inside(outside)
        self.inside += inside
        self.values += values
        self._check_digits(outside)
        self._check_number()
        self._check_depth(outside)

    def end(self) -> None:
        """Raises `Unfit` for text that ends within a character."""
        self._check_text(b"", is_end=True)

    def _check_text(self, piece: bytes, *, is_end: bool = False) -> None:
        try:
            self._utf8.decode(piece, final=is_end)
        except UnicodeDecodeError as exc:
            raise Unfit("the body is not UTF-8") from exc

    def _check_number(self) -> None:
        if self.inside > MOST_INSIDE:
            raise Unfit(f"the body holds more than {MOST_INSIDE} lists and objects")
        if self.values + self.weight > MOST_VALUES:
            raise TooLarge(f"a body may hold {MOST_VALUES} values and keys; this one holds more")

    def _check_depth(self, outside: bytes) -> None:
        brackets = outside.translate(None, _NO_BRACKETS)
        depths = list(accumulate(map(_STEPS.__getitem__, brackets), initial=self.depth))
        self.depth = depths[-1]
        self.deepest = max(self.deepest, *set(depths))
        if self.deepest > DEEPEST:
            raise Unfit(f"the body is nested more than {DEEPEST} levels deep")

    def _check_digits(self, outside: bytes) -> None:
        digits = outside.translate(None, _NO_NUMBERS)
        self.digits += len(digits)
        if self.digits > MOST_DIGITS:
            raise TooLarge(f"the numbers of a body have {MOST_DIGITS} characters at the most")
        self.weight += _weight(digits)
        # Between two commas there is one value at the most that is no string.
        if not _SHORT.fullmatch(digits):
            raise Unfit(f"a number has {LONGEST_NUMBER} characters at the most")


def _weight(digits: bytes) -> int:
    """Returns for how many values numbers count, beyond the one that each is."""
    # Most floats begin with a zero that is no digit of theirs.
    shape = digits.replace(b",0.", b",.").replace(b",-0.", b",.").translate(_AS_ZEROS)
    dotless = shape.replace(b".", b"")
    hard = sum(map(dotless.count, _HARD_DOTLESS)) + sum(map(shape.count, _HARD))
    harder = sum(map(dotless.count, _HARDER_DOTLESS))
    if any(each in dotless for each in _EXPONENTS):
        harder += len(_FAR.findall(digits))
    return HARD * hard + HARDER * harder

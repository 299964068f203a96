"""Whether a JSON text is more than is made of a body, found without making anything of it.

Decoding holds the interpreter's lock from the first byte to the last, in whatever thread it
happens: until it is over, this process answers nobody. So a large text is looked over first, a
piece at a time with everybody else in between, and refused where it holds more than can be
decoded in a tenth of a second: `engine/core/decoding.py` says how much that is.

Text that is no JSON is counted as if it were: what decodes it afterwards says what is wrong.
"""

import codecs
import re
from typing import Final

from holdfast.engine.core.decoding import Scale
from holdfast.errors import TooLarge
from holdfast.server.problems import Unfit

MOST_VALUES: Final = 500_000
"""Values and keys, and what counts for them: the slowest form of any takes 95 ms to decode."""

MOST_INSIDE: Final = 100_000
"""Lists and objects among them: each takes longer, and Python's collector looks at all of them."""

DEEPEST: Final = 200
"""Lists and objects in one another. Reason ends well before the interpreter does: an answer that
shows what was stored nests it a few levels deeper, and has to be possible, too."""

LONGEST_NUMBER: Final = 400
"""Characters: what a number takes grows with the square of its length. 10^308 has 309."""

MOST_DIGITS: Final = 12 << 20
"""Characters of all numbers, with the commas between them: 80 ms, however long each is."""

_SHORT: Final = re.compile(rb"(?:[^,]{0,%d}+,)*+[^,]{0,%d}+" % (LONGEST_NUMBER, LONGEST_NUMBER))


class Counter(Scale):
    """Counts what a text holds, of pieces in their order."""

    def __init__(self) -> None:
        super().__init__()
        self._utf8 = codecs.getincrementaldecoder("utf-8")()

    def add(self, piece: bytes) -> bytes:
        """Counts a piece; raises `TooLarge` or `Unfit` as soon as it is too much."""
        self._check_text(piece)
        numbers = super().add(piece)
        self._check_numbers(numbers)
        self._check_weight()
        return numbers

    def end(self) -> None:
        """Raises `Unfit` for text that ends within a character."""
        self._check_text(b"", is_end=True)

    def _check_text(self, piece: bytes, *, is_end: bool = False) -> None:
        try:
            self._utf8.decode(piece, final=is_end)
        except UnicodeDecodeError as exc:
            raise Unfit("the body is not UTF-8") from exc

    def _check_weight(self) -> None:
        if self.inside > MOST_INSIDE:
            raise Unfit(f"the body holds more than {MOST_INSIDE} lists and objects")
        if self.weight > MOST_VALUES:
            raise TooLarge(f"a body may hold {MOST_VALUES} values and keys; this one holds more")
        if self.deepest > DEEPEST:
            raise Unfit(f"the body is nested more than {DEEPEST} levels deep")

    def _check_numbers(self, numbers: bytes) -> None:
        if self.digits > MOST_DIGITS:
            raise TooLarge(f"the numbers of a body have {MOST_DIGITS} characters at the most")
        # Between two commas there is one value at the most that is no string.
        if not _SHORT.fullmatch(numbers):
            raise Unfit(f"a number has {LONGEST_NUMBER} characters at the most")


def count_short(text: bytes) -> None:
    """Looks over a text of one piece that is there as a whole; raises as a `Counter` does.

    With no more outside of its strings than the longest number has, there is nothing to count:
    neither numbers nor values can be too many, and what is nested begins with a bracket.
    """
    outside = Scale().outside(text)
    is_plain = (
        len(outside) <= LONGEST_NUMBER and outside.count(b"[") + outside.count(b"{") <= DEEPEST
    )
    if not (is_plain and text.isascii()):
        counter = Counter()
        counter.add_all(text)
        counter.end()

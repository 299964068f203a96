"""A unified diff, word by word: what stands in a line of both sides is said once.

Lines that were removed and those that took their place are compared by their words, with bounded
work: where that is spent, the rest counts as replaced.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

Part = tuple[str, str]
"""`-` for what went, `+` for what came, `@` for a heading, nothing for what stayed; its text."""

_WORDS: Final = re.compile(r"\w+|\s|[^\w\s]")
_STEPS: Final = 200_000
"""What one hunk may take: some tenths of a second."""


def marked(lines: Iterable[str]) -> Iterator[list[Part]]:
    """Yields the lines of a diff as parts."""
    for is_change, group in groupby(lines, key=lambda line: line[:1] in ("-", "+", "\\")):
        if is_change:
            yield from _compared(list(group))
        else:
            yield from ([(line[:1] if line.startswith("@") else "", _text(line))] for line in group)


def _text(line: str) -> str:
    return line if line.startswith("@") else line[1:]


def _compared(lines: list[str]) -> Iterator[list[Part]]:
    from holdfast.engine.core.linediff import Budget, compare  # noqa: PLC0415 - a help text needs no engine

    old, new = (_words(lines, sign) for sign in "-+")
    found = list[Part]()
    a = b = 0
    for at, there, size in compare(old, new, Budget(_STEPS)):
        found += [("-", "".join(old[a:at]))] * (at > a) + [("+", "".join(new[b:there]))] * (
            there > b
        )
        found += [("", "".join(old[at : at + size]))] * (size > 0)
        a, b = at + size, there + size
    yield from _by_line(found)


def _words(lines: list[str], sign: str) -> list[str]:
    text = "\n".join(line[1:] for line in lines if line[:1] == sign)
    return _WORDS.findall(text)


def _by_line(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yields parts by line; one that ends in the middle of a part goes on in the next."""
    line = list[Part]()
    for sign, text in parts:
        first, *rest = text.split("\n")
        line += [(sign, first)] if first else []
        for more in rest:
            yield line
            line = [(sign, more)] if more else []
    if line:
        yield line

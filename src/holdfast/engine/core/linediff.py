"""Which lines of two texts are the same, found with bounded work.

Whoever wrote the texts may want the comparison to take an hour, so it is the work that is bounded,
not the size. Lines that only one side has are set aside; lines that each side has exactly once are
matched first, in the longest order that both share; what lies between them is compared by Myers'
search from both ends, which settles for less than the shortest answer once that gets dear, as git
does. When the budget is spent, what is left counts as replaced: such an answer is coarse, and still
leads from one text to the other.

Not here: what the lines are of (`timeline/diff.py`). Light to load: a server compares in processes
that load nothing else.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

STEPS: Final = 1_000_000
"""What one comparison may do: measured, half a second for texts that are made to be slow."""

TEXT_S: Final = 1.5
"""How long lines are compared, where a busy machine makes the bounded work take longer."""

DEAREST: Final = 96
"""Edits after which a search settles for less than the shortest answer."""

_LOOK: Final = 4096
"""Steps between two looks at whether to end: a few milliseconds."""

Same = tuple[int, int, int]
"""From here in the old text, and from there in the new one, so many lines are the same."""

_Span = tuple[int, int, int, int]
"""Lines of the old text, the first and the one behind the last, then those of the new text."""


class Budget:
    """How much work there is left, for one comparison or for several."""

    def __init__(self, steps: int = STEPS, *, is_over: Callable[[], bool] = lambda: False) -> None:
        self._left, self._looks_at, self._is_over = steps, steps - _LOOK, is_over

    @property
    def is_spent(self) -> bool:
        """Whether what was not compared by now will not be."""
        return self._left <= 0

    def spend(self, steps: int) -> None:
        """Notes work that was done."""
        self._left -= steps
        if 0 < self._left < self._looks_at:
            self._looks_at = self._left - _LOOK
            if self._is_over():
                self._left = 0


class Unified(NamedTuple):
    """A unified diff of two texts; empty if they are the same."""

    text: str
    is_coarse: bool
    """Whether the work came to its bound: what was not compared is replaced as a whole."""


class Unify(Protocol):
    """Makes a unified diff of two texts, until it `is_over`."""

    def __call__(
        self,
        old: str,
        new: str,
        *,
        names: tuple[str, str],
        context_lines: int,
        is_over: Callable[[], bool],
    ) -> Unified:
        """Returns the diff; a coarse one if the work came to a bound."""
        ...


def unify(
    old: str,
    new: str,
    *,
    names: tuple[str, str],
    context_lines: int,
    is_over: Callable[[], bool],
    steps: int = STEPS,
) -> Unified:
    """Returns a unified diff of two texts, found in so many steps, right here."""
    stop = time.monotonic() + TEXT_S
    budget = Budget(steps, is_over=lambda: time.monotonic() > stop or is_over())
    lines = unified(
        _lines(old), _lines(new), names=names, context_lines=context_lines, budget=budget
    )
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return Unified(text, budget.is_spent)


def _lines(text: str) -> list[str]:
    """Returns the lines of a text as other programs count them: only a line feed ends one."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def unified(
    old: list[str], new: list[str], *, names: tuple[str, str], context_lines: int, budget: Budget
) -> Iterator[str]:
    """Yields the lines of a unified diff; nothing if the texts are the same."""
    for number, hunk in enumerate(_hunks(compare(old, new, budget), context_lines)):
        if not number:
            yield f"--- {names[0]}\n"
            yield f"+++ {names[1]}\n"
        before = min(context_lines, hunk[0][0], hunk[0][2])
        behind = min(context_lines, len(old) - hunk[-1][1], len(new) - hunk[-1][3])
        at, there = hunk[0][0] - before, hunk[0][2] - before
        end, new_end = hunk[-1][1] + behind, hunk[-1][3] + behind
        yield f"@@ -{_range(at, end)} +{_range(there, new_end)} @@\n"
        for a, a_end, b, b_end in hunk:
            yield from (f" {line}" for line in old[at:a])
            yield from (f"-{line}" for line in old[a:a_end])
            yield from (f"+{line}" for line in new[b:b_end])
            at = a_end
        yield from (f" {line}" for line in old[at:end])


def compare(old: list[str], new: list[str], budget: Budget) -> list[Same]:
    """Returns what is the same in two texts, in order and as long as it goes."""
    a_end, b_end = len(old), len(new)
    budget.spend((a_end + b_end) // 4)
    start = _alike(old, new, (0, a_end, 0, b_end))
    stop = _alike_before(old, new, (start, a_end, start, b_end))
    inner = _Search(old[start : a_end - stop], new[start : b_end - stop], budget).find()
    found = [(0, 0, start), *((a + start, b + start, size) for a, b, size in inner)]
    return _joined([*found, (a_end - stop, b_end - stop, stop)])


class _Search:
    """Looks for what is the same in two lists of lines."""

    def __init__(self, old: list[str], new: list[str], budget: Budget) -> None:
        in_old, in_new = Counter(old), Counter(new)
        ids = {line: number for number, line in enumerate(in_old)}
        # A line that the other side lacks is never the same: without them, texts in which every
        # second line differs are equal.
        self._old_at = [number for number, line in enumerate(old) if line in in_new]
        self._new_at = [number for number, line in enumerate(new) if line in in_old]
        self._old = [ids[old[at]] for at in self._old_at]
        self._new = [ids[new[at]] for at in self._new_at]
        self._once = {ids[line] for line, count in in_old.items() if count == in_new[line] == 1}
        self._budget = budget

    def find(self) -> Iterator[Same]:
        """Yields lines that are the same, in order."""
        at = there = 0
        ends = len(self._old), len(self._new)
        for a, b in [*self._anchors(), ends]:
            for x, y in self._between((at, a, there, b)):
                yield self._old_at[x], self._new_at[y], 1
            if (a, b) != ends:
                yield self._old_at[a], self._new_at[b], 1
            at, there = a + 1, b + 1

    def _anchors(self) -> list[tuple[int, int]]:
        """Returns the longest order that both sides share, of lines that each has once."""
        where = {line: at for at, line in enumerate(self._new) if line in self._once}
        places = {at: where[line] for at, line in enumerate(self._old) if line in self._once}
        ends, last_at, before = list[int](), list[int](), dict[int, int | None]()
        for at, there in places.items():
            rank = bisect_left(ends, there)
            before[at] = last_at[rank - 1] if rank else None
            ends[rank : rank + 1], last_at[rank : rank + 1] = [there], [at]
        order = list[tuple[int, int]]()
        at = last_at[-1] if last_at else None
        while at is not None:
            order.append((at, places[at]))
            at = before[at]
        return order[::-1]

    def _between(self, span: _Span) -> Iterator[tuple[int, int]]:
        """Yields places that are the same inside a span, in order."""
        spans = [span]
        while spans:
            a, a_end, b, b_end = spans.pop()
            size = _alike(self._old, self._new, (a, a_end, b, b_end))
            yield from ((a + step, b + step) for step in range(size))
            a, b = a + size, b + size
            tail = _alike_before(self._old, self._new, (a, a_end, b, b_end))
            self._budget.spend(size + tail + 1)
            if tail:
                spans.append((a_end - tail, a_end, b_end - tail, b_end))
                a_end, b_end = a_end - tail, b_end - tail
            if a < a_end and b < b_end and not self._budget.is_spent:
                x, y = self._middle((a, a_end, b, b_end))
                spans += [(x, a_end, y, b_end), (a, x, b, y)]

    def _middle(self, span: _Span) -> tuple[int, int]:
        """Returns where a short way through a span is cut in two; its ends are not the same.

        A diagonal is how much further a place is in the old text than in the new one. `ahead` is
        how far edits from the start lead on each, `behind` how far back edits from the end do.
        Where the two meet, a shortest way passes.
        """
        a, a_end, b, b_end = span
        ahead, behind = {a - b: a}, {a_end - b_end: a_end}
        for edits in range(1, DEAREST + 1):
            for diagonal in range(a - b - edits, a - b + edits + 1, 2):
                at = self._step_ahead(ahead, diagonal, span)
                if at is not None and behind.get(diagonal, a_end + 1) <= at:
                    return at, at - diagonal
            for diagonal in range(a_end - b_end - edits, a_end - b_end + edits + 1, 2):
                at = self._step_behind(behind, diagonal, span)
                if at is not None and ahead.get(diagonal, -1) >= at:
                    return at, at - diagonal
            if self._budget.is_spent:
                break
        # Dear: whichever side came further is followed so far.
        gone, far = max((2 * at - diagonal - a - b, at - a) for diagonal, at in ahead.items())
        left, near = max((a_end + b_end + k - 2 * at, a_end - at) for k, at in behind.items())
        if gone >= left:
            return a + far, b + gone - far
        return a_end - near, b_end - (left - near)

    def _step_ahead(self, ahead: dict[int, int], diagonal: int, span: _Span) -> int | None:
        """Goes one edit ahead to a diagonal, and on while lines are the same."""
        _, a_end, _, b_end = span
        at = max(
            -1 if (removed := ahead.get(diagonal - 1, -2) + 1) > a_end else removed,
            -1 if (added := ahead.get(diagonal + 1, -1)) - diagonal > b_end else added,
        )
        if at < 0:
            return None
        size = _alike(self._old, self._new, (at, a_end, at - diagonal, b_end))
        self._budget.spend(size + 3)
        ahead[diagonal] = at + size
        return at + size

    def _step_behind(self, behind: dict[int, int], diagonal: int, span: _Span) -> int | None:
        """Goes one edit back to a diagonal, and on while lines are the same."""
        a, a_end, b, _ = span
        nowhere = a_end + 1
        at = min(
            nowhere if (removed := behind.get(diagonal + 1, nowhere + 1) - 1) < a else removed,
            nowhere if (added := behind.get(diagonal - 1, nowhere)) - diagonal < b else added,
        )
        if at == nowhere:
            return None
        size = _alike_before(self._old, self._new, (a, at, b, at - diagonal))
        self._budget.spend(size + 3)
        behind[diagonal] = at - size
        return at - size


def _alike(old: list[str] | list[int], new: list[str] | list[int], span: _Span) -> int:
    """Returns how many lines are the same at the start of a span."""
    a, a_end, b, b_end = span
    most = min(a_end - a, b_end - b)
    size = 0
    while size < most and old[a + size] == new[b + size]:
        size += 1
    return size


def _alike_before(old: list[str] | list[int], new: list[str] | list[int], span: _Span) -> int:
    """Returns how many lines are the same at the end of a span."""
    a, a_end, b, b_end = span
    most = min(a_end - a, b_end - b)
    size = 0
    while size < most and old[a_end - 1 - size] == new[b_end - 1 - size]:
        size += 1
    return size


def _joined(found: list[Same]) -> list[Same]:
    """Returns neighbours as one; the last, which may be empty, is where both texts end."""
    joined = [found[0]]
    for a, b, size in found[1:]:
        last_a, last_b, last_size = joined[-1]
        if (last_a + last_size, last_b + last_size) == (a, b):
            joined[-1] = last_a, last_b, last_size + size
        else:
            joined.append((a, b, size))
    return joined


def _hunks(found: list[Same], context_lines: int) -> Iterator[list[_Span]]:
    """Yields what differs, together where the lines between are few enough to be shown."""
    hunk = list[_Span]()
    last_a = last_b = 0
    for a, b, size in found:
        if a > last_a or b > last_b:
            if hunk and last_a - hunk[-1][1] > 2 * context_lines:
                yield hunk
                hunk = []
            hunk.append((last_a, a, last_b, b))
        last_a, last_b = a + size, b + size
    if hunk:
        yield hunk


def _range(first: int, end: int) -> str:
    """Returns lines as a diff's header names them: none are named by the one before."""
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"

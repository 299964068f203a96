"""Text diffs: right for every pair of texts, and bounded for those that are made to be slow."""

import random
from collections.abc import Callable, Iterator
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.core.linediff import STEPS, Budget, compare, unified

NAMES = ("a/text", "b/text")
few_lines = st.lists(st.sampled_from([f"{n}\n" for n in range(6)]), max_size=30)


def patched(old: list[str], diff: Iterator[str]) -> list[str]:
    """Returns what a diff makes of a text, as `patch` would."""
    made, at = list[str](), 0
    for line in list(diff)[2:]:
        if line.startswith("@@"):
            first, _, count = line.split()[1].removeprefix("-").partition(",")
            start = int(first) - (count != "0")
            made += old[at:start]
            at = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert old[at] == line[1:]
            made += [old[at]] if line[0] == " " else []
            at += 1
    return made + old[at:]


def longest(old: list[str], new: list[str]) -> int:
    """Returns how many lines can be the same, by trying everything."""
    row = [0] * (len(new) + 1)
    for line in old:
        above = row[:]
        for at, other in enumerate(new):
            row[at + 1] = above[at] + 1 if line == other else max(above[at + 1], row[at])
    return row[-1]


@given(few_lines, few_lines, st.integers(0, 3), st.sampled_from([0, 5, 40, STEPS]))
def test_a_diff_leads_from_one_text_to_the_other_whatever_it_may_cost(
    old: list[str], new: list[str], context_lines: int, steps: int
) -> None:
    lines = unified(old, new, names=NAMES, context_lines=context_lines, budget=Budget(steps))
    assert patched(old, lines) == new
    nothing = unified(old, old, names=NAMES, context_lines=context_lines, budget=Budget(steps))
    assert list(nothing) == []


def without_start(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Returns what follows what both begin with, from its end on."""
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(old, new, strict=False)))
    return old[same:][::-1], new[same:][::-1]


@given(few_lines, few_lines)
def test_what_is_the_same_is_the_most_that_can_be_unless_a_line_occurs_once(
    old: list[str], new: list[str]
) -> None:
    found = compare(old, new, Budget())
    assert all(old[a : a + size] == new[b : b + size] for a, b, size in found)
    same = sum(size for _, _, size in found)
    # What both begin and end with is no part of the search: in what is left, a line may be single.
    left, right = without_start(*without_start(old, new))
    has_anchors = any(left.count(line) == right.count(line) == 1 for line in left)
    assert same <= longest(old, new) if has_anchors else same == longest(old, new)


def test_a_line_that_moved_far_leaves_the_others_where_they_are() -> None:
    old = [f"line {n}\n" for n in range(5000)]
    new = [*old[1:], old[0]]
    lines = list(unified(old, new, names=NAMES, context_lines=0, budget=Budget()))
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-line 0\n", "+line 0\n"]


def slow_pairs(seed: int) -> tuple[list[str], list[str]]:
    """Returns two texts that somebody made to be slow to compare."""
    rng = random.Random(seed)
    words = [f"{n}\n" for n in range(rng.choice([1, 2, 3, 10, 100, 1000, 10_000]))]
    size = rng.choice([300, 2000, 12_000])
    old = rng.choices(words, k=size)
    tricks: list[Callable[[], list[str]]] = [
        lambda: old[::-1],
        lambda: rng.sample(old, k=len(old)),
        lambda: rng.choices(words, k=size),
        lambda: [line if n % 2 else f"{n}!\n" for n, line in enumerate(old)],
        lambda: ["first\n", *old[size // 2 :], *old[: size // 2], "last\n"],
        lambda: [line for line in old for _ in range(rng.randrange(3))],
        lambda: (words[:7] + words[:3]) * (size // 10),
    ]
    return old, rng.choice(tricks)()


@pytest.mark.parametrize("batch", range(5))
def test_texts_that_are_made_to_be_slow_are_compared_within_the_bound(batch: int) -> None:
    for seed in range(batch * 100, batch * 100 + 100):
        old, new = slow_pairs(seed)
        # As much less than usual as the texts are smaller than the largest that are compared.
        budget = Counted(steps := STEPS // 20)
        compare(old, new, budget)
        # One step may slide along a whole text; nothing else is done past the end of the budget.
        assert budget.spent <= steps + 4 * (len(old) + len(new)), seed


class Counted(Budget):
    """A budget that says what was spent of it."""

    spent = 0

    def spend(self, steps: int) -> None:
        self.spent += steps
        super().spend(steps)


def test_a_comparison_ends_soon_after_it_is_told_to() -> None:
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    old, new = ["a\n", "b\n"] * 50_000, ["b\n", "a\n", "a\n"] * 30_000
    budget = Counted(is_over=is_over)
    assert patched(old, unified(old, new, names=NAMES, context_lines=0, budget=budget)) == new
    assert (asked, budget.is_spent) == (3, True)
    assert budget.spent < STEPS // 4

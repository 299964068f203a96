"""Texts that are compared in another process: the same answers, whatever happens to it."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.engine.core.linediff import TEXT_S, Unified, unify
from holdfast.server.textprocesses import PRIORITY, TextProcesses

NAMES = "a/x", "b/x"
SLOW = [
    "".join(f"{number * number % 101}\n" for number in range(100_000)[::way]) for way in (1, -1)
]


@pytest.fixture
def processes() -> Iterator[TextProcesses]:
    with closing(TextProcesses()) as made:
        yield made


def ask(processes: TextProcesses, old: str, new: str, *, is_over: bool = False) -> Unified:
    return processes.unify(old, new, names=NAMES, context_lines=3, is_over=lambda: is_over)


def children() -> list[int]:
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    return [int(pid) for pid in listed.read_text().split()]


@pytest.mark.parametrize(
    ("old", "new"),
    [("", ""), ("a\n", "a\n"), ("a\nb\n", "b\nc"), ("é\0\ud800\n", "\r\n\x85"), ("x\n" * 9, "")],
)
def test_the_answers_are_those_of_comparing_here(
    processes: TextProcesses, old: str, new: str
) -> None:
    here = unify(old, new, names=NAMES, context_lines=3, is_over=lambda: False)
    assert ask(processes, old, new) == here


def test_one_process_answers_one_after_the_other_and_is_nicer_than_the_server(
    processes: TextProcesses,
) -> None:
    before = children()
    for number in range(3):
        assert not ask(processes, "a\n", f"{number}\n").is_coarse
    (made,) = set(children()) - set(before)
    # Where the tests are very nice themselves there is no more of it.
    assert os.getpriority(os.PRIO_PROCESS, made) == min(os.nice(0) + PRIORITY, 19)


def test_a_process_ends_when_nobody_waits_for_it(processes: TextProcesses) -> None:
    before = children()
    begun = time.monotonic()
    assert ask(processes, *SLOW, is_over=True).is_coarse
    assert time.monotonic() - begun < TEXT_S
    assert children() == before


def test_a_process_that_was_ended_by_somebody_keeps_nobody_from_an_answer(
    processes: TextProcesses,
) -> None:
    before = children()
    assert ask(processes, "a\n", "b\n").text
    (made,) = set(children()) - set(before)
    os.kill(made, signal.SIGKILL)
    assert ask(processes, "a\n", "b\n").text == ask(processes, "a\n", "b\n").text != ""

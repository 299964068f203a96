"""Patterns that leave files out, or choose them: git's meaning, and no name that takes long."""

import fnmatch
import random
import re
import shutil
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.core.globs import Globs
from holdfast.engine.timeline.selection import path_filter
from holdfast.errors import InvalidValue
from holdfast.workspace.ignoring import Rules

NAMES = ("a", "b", "ab", "a.b", ".x", "b c", "[a]", "A", "a]", "!a", "#a", "a ", "*", "foo")
PIECES = (
    *("a", "b", "foo", ".", "*", "**", "?", "/", "/**/", "**/", "/**", "//", "!", "#", " ", "\\a"),
    *("[ab]", "[!a]", "[^b]", "[a-c]", "[[:alpha:]]", "[]a]", "[z-a]", "[\\]]", "[b-]", "\\*"),
)
PATHS = [*NAMES, *(f"{one}/{two}" for one, two in product(NAMES, NAMES)), *("a/b/a", "foo/a/b/ab")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed: nobody to compare with")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


def test_rules_leave_out_what_git_ignores(repository: Path) -> None:
    rng = random.Random(20)
    for _ in range(120):
        lines = ["".join(rng.choices(PIECES, k=rng.randrange(1, 6))) for _ in range(3)]
        # `a**/b` leaves `ab` out in git: stars that are no name of their own cross no slash here.
        # A line that is only `!` is refused here, and means nothing there.
        usable = [line for line in lines if "**" not in line.strip("/*") and line.strip() != "!"]
        text = "\n".join(usable)
        (repository / ".gitignore").write_text(text)
        asked = subprocess.run(
            ["git", "-C", repository, "check-ignore", "-z", "--stdin", "--no-index"],
            input="\0".join(PATHS).encode(),
            capture_output=True,
            check=False,
        )
        ignored = set(asked.stdout.decode().split("\0"))
        rules = Rules(text.encode())
        for path in PATHS:
            assert rules.excludes_within(path.encode()) is (path in ignored), (text, path)


def test_a_folder_whose_names_are_left_out_is_looked_into() -> None:
    rules = Rules(b"a/*\n!a/b\n")
    assert not rules.excludes(b"a", is_folder=True)
    assert [rules.excludes_within(path) for path in (b"a/b", b"a/c", b"a/b/c")] == [0, 1, 0]


@given(st.text(st.sampled_from("ab*?[]!^-/\\ #"), max_size=20), st.sampled_from(PATHS))
def test_any_text_is_rules_or_refused_with_its_line(text: str, path: str) -> None:
    try:
        rules = Rules(b"fine\n" + text.encode())
    except InvalidValue:
        with pytest.raises(InvalidValue, match="line 2"):
            Rules(b"fine\n" + text.encode())
    else:
        assert rules.excludes_within(path.encode()) in (True, False)


def hostile(rng: random.Random) -> tuple[str, str]:
    """Returns a pattern, and a name that makes backtracking expressions take for ever."""
    unit = rng.choice(["a", "ab", "a/", "?", "[ab]", "a*", "**/a/"])
    star = rng.choice(["*", "**", "*a*", "**/", "*[ab]", "/**/", "*?"])
    pattern = (star + unit) * rng.randrange(5, 60) + rng.choice(["", "b", "/", "c*", "/**"])
    name = rng.choice(["a", "ab", "a/", "aa/b"]) * rng.randrange(20, 120)
    return pattern[:999], name.strip("/")


def test_no_pattern_takes_long_on_any_name() -> None:
    rng, begun = random.Random(4), time.process_time()
    for _ in range(1000):
        pattern, name = hostile(rng)
        path = name.encode()
        Rules(pattern.encode()).excludes(path, is_folder=False)
        path_filter([re.sub("//+", "/", pattern[:250]).strip("/")])(path)
    # A millisecond for each, compiled; one of them took ten minutes before.
    assert time.process_time() - begun < 20


def test_a_thousand_rules_take_no_long_path_long() -> None:
    rng = random.Random(5)
    files = [
        [b"**/" + b"*a*/" * 60 + b"b%d" % number for number in range(1000)],
        [b"**/" + bytes(rng.choices(b"ab*?/", k=250)) for _ in range(1000)],
        [b"*" + b"[a%c]" % (98 + number % 9) * 50 + b"%d" % number for number in range(1000)],
    ]
    paths = [(b"aa/" * 1364 + b"a"), bytes(rng.choices(b"abcd", k=4095)), b"ab" * 127]
    for lines in files:
        rules = Rules(b"\n".join(lines))
        assert not rules.unread
        for path in paths:
            begun = time.process_time()
            rules.excludes(path, is_folder=False)
            # 0.2 s at the most; as expressions they took 3 s.
            assert time.process_time() - begun < 1.5


def test_a_character_that_is_new_takes_no_longer_than_what_is_in_brackets() -> None:
    lines = [f"[{chr(0x4E00 + number)}-{chr(0x9000 + number)}]*{number}" for number in range(1000)]
    rules, begun = Rules("\n".join(lines).encode()), time.process_time()
    for first in range(0x4E00, 0x5000):
        rules.excludes(chr(first).encode() + b"7", is_folder=False)
    assert time.process_time() - begun < 5
    many = "\n".join(f"[{''.join(map(chr, range(at, at + 99)))}]" for at in range(300, 20_000, 99))
    (said, *_) = Rules(many.encode()).unread
    assert "line 101, leaves nothing out: there are more than 10,000 in brackets" in said


def test_blanks_before_something_take_no_longer_than_the_line() -> None:
    begun = time.process_time()
    (said,) = Rules(b" " * 250_000 + b"x").unread
    assert "more than 1000 characters" in said
    assert time.process_time() - begun < 1
    assert Rules(b"a\\   ").excludes(b"a ", is_folder=False)


def test_rules_have_bounds() -> None:
    assert Rules(b"*.o\n" * 1000).unread == ()
    beyond = Rules(b"*.o\n" * 1000 + b"*.c\n")
    assert "after line 1000" in beyond.unread[0].replace(",", "")
    assert beyond.excludes(b"a.o", is_folder=False)
    assert not beyond.excludes(b"a.c", is_folder=False)
    (told,) = Rules(b"fine\n" + b"x" * 1001).unread
    assert "line 2" in told


def test_a_selection_takes_any_number_of_names_and_a_bounded_number_of_patterns() -> None:
    selects = path_filter([f"folder/{number}" for number in range(50_000)])
    assert selects(b"folder/49999/below")
    assert not selects(b"folder/50000")
    with pytest.raises(InvalidValue, match="too many"):
        path_filter([f"{number}*" for number in range(1001)])
    with pytest.raises(InvalidValue, match="too many"):
        path_filter([f"*{number}/" + "x/" * 1900 for number in range(18)])


GLOBBED = ["a", "b", "/", "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[", "]", "-", "\xff"]


@given(
    st.lists(st.lists(st.sampled_from(GLOBBED), max_size=8).map("".join), min_size=1, max_size=4),
    st.text("abc/-[]\xff", max_size=12),
)
def test_many_patterns_match_what_one_of_them_does(patterns: list[str], name: str) -> None:
    globs = Globs(pattern.encode("latin-1") for pattern in patterns)
    each = [fnmatch.fnmatchcase(name, pattern) for pattern in patterns]
    assert globs(name.encode("latin-1")) is any(each)


def test_a_thousand_patterns_take_no_longer_than_a_few() -> None:
    begun = time.process_time()
    selects = path_filter([f"**/*a*a*a/**/*a*a*a/**/*{number}" for number in range(1000)])
    folder = (b"a" * 130 + b"/") * 6 + b"a" * 150
    chosen = [number for number in range(500) if selects(folder + b"%05d" % number)]
    assert chosen == list(range(500))
    assert not any(selects(folder + b"%05dz" % number) for number in range(500))
    # One after the other they took 20 ms for each name.
    assert time.process_time() - begun < 3


def test_patterns_that_lead_everywhere_are_refused_before_they_take_long() -> None:
    rng, begun = random.Random(6), time.process_time()
    selects = path_filter(
        ["*" + "".join(rng.choices("abcdefgh*?", k=60)) for _ in range(1000)],
    )
    names = (bytes(rng.choices(b"abcdefgh", k=1000)) for _ in range(100_000))
    with pytest.raises(InvalidValue, match="too long"):
        list(map(selects, names))
    assert time.process_time() - begun < 10

"""Pages put together are the whole: of a listing, of values, of changes and of a file's bytes.

Names are few letters that sort before and after a slash, so that keys and paths come in different
orders; some are snapshots, some are pending.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.engine.files.download import find_sendable
from holdfast.engine.store.reader import items_page
from holdfast.engine.timeline.comparison import Place, read_cursor
from holdfast.errors import HoldfastError
from holdfast.operations.timeline import GetChanges, GetTextDiffs
from holdfast.wiring import open_vault

_NUMBERS = count(1)
_SOME = settings(max_examples=60)

names = st.text(alphabet="a-.0b", min_size=1, max_size=2).filter(lambda n: n.strip("."))
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
keys = st.tuples(st.text("a\0/ü", max_size=2), st.text("a\0/ü", max_size=2))


@pytest.fixture(scope="module")
def vault(home: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(home / "vault") as opened:
        yield opened


@pytest.fixture(scope="module")
def fresh(vault: holdfast.Holdfast) -> Any:
    return lambda: vault.namespace(f"agent-{next(_NUMBERS)}")


def fill(agent: holdfast.Namespace, stored: set[str], pending: set[str]) -> None:
    for some in (stored, pending):
        for path in sorted(some):
            try:
                agent.files.mkdir(path) if path.endswith("0") else agent.files.write(path, path)
            except HoldfastError:
                continue  # A file is where this one needs a directory.
        if some is stored:
            agent.snapshot()


def place_of(cursor: str | None) -> Place | None:
    return None if cursor is None else read_cursor(cursor)


@_SOME
@given(
    stored=st.sets(paths, max_size=8),
    pending=st.sets(paths, max_size=4),
    most=st.integers(1, 3),
    asked=st.fixed_dictionaries(
        {
            "path": st.one_of(st.just(""), names),
            "prefix": st.one_of(st.just(""), names),
            "recursive": st.booleans(),
        }
    ),
)
def test_pages_of_a_listing_are_the_listing(
    fresh: Any, stored: set[str], pending: set[str], most: int, asked: dict[str, Any]
) -> None:
    agent = fresh()
    fill(agent, stored, pending)
    try:
        wanted = agent.files.list(**asked)
    except HoldfastError:
        return
    found, after = [], None
    while True:
        page = agent.files.list(**asked, after=after, limit=most)
        found += page
        if len(page) < most:
            break
        assert after != page[-1].path
        after = page[-1].path
    assert found == wanted


@_SOME
@given(
    pairs=st.sets(keys, max_size=10),
    most=st.integers(1, 3),
    namespace=st.one_of(st.none(), st.text("a\0/ü", max_size=2)),
    prefix=st.one_of(st.none(), st.text("a\0/ü", max_size=1)),
)
def test_pages_of_values_are_the_values(
    fresh: Any,
    pairs: set[tuple[str, str]],
    most: int,
    namespace: str | None,
    prefix: str | None,
) -> None:
    agent = fresh()
    agent.store.set_many([(n, k, [n, k]) for n, k in pairs])
    found, after = [], None
    while True:
        page = items_page(agent.store, namespace, prefix, after=after, most=most)
        found += [((item.namespace, item.key), item.value) for item in page.items]
        if not page.has_more:
            break
        last = page.items[-1]
        assert after != (last.namespace, last.key)
        after = (last.namespace, last.key)
    wanted = agent.store.items(namespace, prefix)
    if namespace is not None:
        wanted = [((namespace, key), value) for key, value in wanted]
    assert found == wanted


@_SOME
@given(
    stored=st.sets(paths, max_size=6),
    pending=st.sets(paths, max_size=6),
    pairs=st.sets(keys, max_size=6),
    most=st.integers(1, 3),
)
def test_pages_of_changes_are_the_changes(
    fresh: Any, stored: set[str], pending: set[str], pairs: set[tuple[str, str]], most: int
) -> None:
    agent = fresh()
    fill(agent, stored, pending)
    agent.store.set_many([(n, k, 1) for n, k in pairs])
    found, texts = [], []
    cursor: str | None = None
    while True:
        page = agent.comparing.page(GetChanges(cursor=cursor), after=place_of(cursor), most=most)
        found += page.changes
        assert page.truncated == (page.next_cursor is not None)
        if not page.truncated:
            break
        assert cursor != page.next_cursor
        cursor = page.next_cursor
    assert found == list(agent.diff())
    cursor = None
    while True:
        wanted = GetTextDiffs(context_lines=1, cursor=cursor)
        part = agent.comparing.page_of_texts(wanted, after=place_of(cursor), most=most)
        texts += [(each.change, each.diff) for each in part.diffs]
        cursor = part.next_cursor
        if cursor is None:
            break
    assert texts == agent.text_diffs(context_lines=1)


def test_a_page_of_texts_ends_when_its_time_is_up(tmp_path: Path) -> None:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    seconds = count()
    clock = lambda: started + timedelta(seconds=next(seconds))  # noqa: E731 - each look is a second
    with open_vault(tmp_path / "vault", clock=clock) as opened:
        agent = opened.namespace("a")
        agent.files.write_many((f"f{number}", "x") for number in range(20))
        part = agent.comparing.page_of_texts(GetTextDiffs(), after=None, most=100)
        assert part.next_cursor is not None
        assert 0 < len(part.diffs) <= 5
        assert len(agent.text_diffs()) == 20


@_SOME
@given(size=st.integers(0, 400_000), start=st.integers(0, 450_000))
def test_a_file_is_sent_from_anywhere(fresh: Any, size: int, start: int) -> None:
    agent, data = fresh(), bytes(number * number % 251 for number in range(size))
    agent.files.write("file", data)
    file = find_sendable(agent.files, "file")
    assert b"".join(file.pieces(start)) == data[start:]
    assert (file.size, b"".join(file.pieces())) == (size, data)
    agent.files.write("file", data + b"x")
    assert find_sendable(agent.files, "file").tag != file.tag

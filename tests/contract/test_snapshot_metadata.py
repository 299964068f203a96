"""What people keep with a snapshot in words of their own, on both catalogs."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import InvalidValue, UnsafeArchive
from holdfast.testing.clocks import Watch
from holdfast.testing.postgres import PostgresServer

_NUMBERS = count(1)
TEXT = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
PAIRS = st.dictionaries(
    st.text(TEXT, min_size=1, max_size=64), st.text(TEXT, max_size=1024), max_size=50
)


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(taken=st.lists(PAIRS, max_size=5), wanted=PAIRS)
def test_what_is_given_comes_back_and_finds_those_that_have_all_of_it(
    vault: holdfast.Holdfast, taken: list[dict[str, str]], wanted: dict[str, str]
) -> None:
    agent = vault.namespace(f"agent-{next(_NUMBERS)}")
    for metadata in taken:
        made = agent.snapshot(metadata=metadata)
        assert made.metadata == metadata
        assert agent.get_snapshot(made.id).metadata == metadata
    newest = taken[::-1]
    assert [each.metadata for each in agent.timeline()] == newest
    for asked in (wanted, {}, *taken):
        meant = [each for each in newest if asked.items() <= each.items()]
        assert [each.metadata for each in agent.timeline(metadata=asked)] == meant
        assert [each.metadata for each in agent.list_snapshots(metadata=asked)] == meant


def test_those_that_are_meant_are_found_behind_many_others(agent: holdfast.Namespace) -> None:
    first = agent.snapshot(metadata={"run": "1", "of": "night"})
    for _ in range(70):
        agent.snapshot(metadata={"run": "2"})
    second = agent.snapshot(metadata={"run": "1"})
    assert [each.id for each in agent.timeline(metadata={"run": "1"})] == [second.id, first.id]
    (found,) = agent.timeline(metadata={"run": "1"}, limit=1, before=second.number)
    assert found.id == first.id
    assert agent.timeline(metadata={"run": "1", "of": "day"}) == []
    assert len(agent.timeline(metadata={"run": "2"}, limit=5)) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        {"": "a"},
        {"a" * 65: "a"},
        {"a": "b" * 1025},
        {str(each): "" for each in range(51)},
        {"a": 1},
        {"a": None},
        {"a": {"b": "c"}},
        {1: "a"},
        {"a": "\0"},
        {"a\0": ""},
        {"a": "\ud800"},
        ["a"],
        "a=b",
        7,
    ],
)
def test_what_is_not_text_or_too_much_is_refused(agent: holdfast.Namespace, wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="metadata"):
        agent.snapshot(metadata=wrong)
    with pytest.raises(InvalidValue, match="metadata"):
        agent.timeline(metadata=wrong)
    assert agent.timeline() == []


def test_as_much_as_there_may_be(agent: holdfast.Namespace) -> None:
    most = {f"{each:064}": "ü" * 1024 for each in range(50)}
    agent.snapshot(metadata=most)
    assert agent.timeline(metadata=most)[0].metadata == most


def test_who_changes_what_was_given_changes_no_snapshot(agent: holdfast.Namespace) -> None:
    given = {"a": "1"}
    made = agent.snapshot(metadata=given)
    given["a"] = "2"
    assert made.metadata == agent.get_snapshot("latest").metadata == {"a": "1"}


def test_it_stays_with_whatever_is_done_to_the_snapshot(agent: holdfast.Namespace) -> None:
    made = agent.snapshot("one", metadata={"a": "1"})
    agent.pin(made)
    agent.set_label(made, "another")
    agent.unpin(made)
    agent.delete_snapshot(made)
    assert agent.deleted_snapshots()[0].metadata == {"a": "1"}
    assert agent.recover_snapshot(made.id).metadata == {"a": "1"}


def test_a_fork_and_an_archive_have_it(
    vault: holdfast.Holdfast, agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.files.write("a.txt", "a")
    made = agent.snapshot("one", metadata={"a": "1"})
    assert agent.fork("now").timeline()[0].metadata == {"a": "1"}
    agent.files.write("a.txt", "b")
    assert agent.fork("then", at=made).timeline()[0].metadata == {"a": "1"}
    assert agent.fork("since").timeline()[0].metadata == {}
    agent.export(tmp_path / "one.tar", snapshot=made)
    done = vault.namespace("else").import_(tmp_path / "one.tar")
    assert done.manifest.metadata == done.snapshot.metadata == {"a": "1"}
    assert vault.namespace("else").timeline(metadata={"a": "1"})[0].id == done.snapshot.id
    agent.restore(made)
    kept = agent.snapshot(metadata={"b": "2"})
    agent.export(tmp_path / "clean.tar")
    clean = vault.namespace("clean").import_(tmp_path / "clean.tar")
    assert clean.manifest.snapshot == kept.id
    assert clean.snapshot.metadata == kept.metadata
    agent.files.write("a.txt", "c")
    agent.export(tmp_path / "head.tar")
    assert vault.namespace("third").import_(tmp_path / "head.tar").snapshot.metadata == {}
    assert vault.verify().ok


def test_an_archive_cannot_bring_in_more_than_may_be_given(
    agent: holdfast.Namespace, tmp_path: Path
) -> None:
    agent.snapshot(metadata={"key": "value"})
    agent.export(tmp_path / "one.tar", snapshot="latest")
    # A number of the same width, so that the rest of the archive is where it was.
    wrong = (tmp_path / "one.tar").read_bytes().replace(b'"value"', b"1234567")
    (tmp_path / "wrong.tar").write_bytes(wrong)
    with pytest.raises(UnsafeArchive):
        agent.import_(tmp_path / "wrong.tar")


@pytest.fixture
def another_url(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.create_database()
    yield postgres.dsn(name)
    postgres.drop_database(name)


def test_a_backup_has_it(
    vault: holdfast.Holdfast,
    agent: holdfast.Namespace,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    agent.snapshot("one", metadata={"a": "1"})
    vault.backup(tmp_path / "backup")
    where: Any = tmp_path / "again"
    if "postgres" in request.node.name:
        where = request.getfixturevalue("another_url")
    packs = tmp_path / "more packs"
    holdfast.reinstate(tmp_path / "backup", where, objects=packs)
    with holdfast.open(where, objects=packs) as again:
        assert again.namespace("alice").timeline(metadata={"a": "1"})[0].label == "one"
        assert again.verify().ok


def test_a_snapshot_of_a_directory_and_of_the_store_has_it(
    vault: holdfast.Holdfast, agent: holdfast.Namespace, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("a")
    with vault.workspace(project) as workspace:
        made = workspace.snapshot("one", metadata={"a": "1"})
        (project / "a.txt").write_text("b")
        again = workspace.snapshot_if_changed("two", metadata={"a": "2"}, pin=True)
        assert again is not None
        assert (again.metadata, again.pinned) == ({"a": "2"}, True)
        assert workspace.namespace.timeline(metadata={"a": "1"}) == [made]
    assert agent.store.snapshot(metadata={"a": "3"}).metadata == {"a": "3"}

"""Listings for people: the order, the ends, and that all of it is of one moment."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.engine.files.browsing import browse
from holdfast.engine.namespace import Namespace
from holdfast.errors import NotADirectory, PathNotFound

NAMES = st.sampled_from(["a", "a-", "a.b", "a0", "b", "B", "é", "~"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def vault(home: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(home / "vault") as opened:
        yield opened


def fill(namespace: Namespace, paths: set[str]) -> None:
    """Writes what fits: no file where a directory is needed."""
    folders = {path[:at] for path in paths for at, char in enumerate(path) if char == "/"}
    namespace.files.write_many((path, b"") for path in paths - folders)


def expected(namespace: Namespace, folder: str, levels: int) -> list[str]:
    """Returns what is to be listed, found in the plainest way."""
    inside = namespace.files.list(folder)
    inside.sort(key=lambda info: (info.kind != "directory", info.name.encode()))
    listed: list[str] = []
    for info in inside:
        listed.append(info.path)
        if info.kind == "directory" and levels > 1:
            listed += expected(namespace, info.path, levels - 1)
    return listed


@given(
    paths=st.sets(PATHS, max_size=25),
    late=st.sets(PATHS, max_size=5),
    most=st.integers(0, 30),
    levels=st.integers(1, 5),
)
def test_a_listing_is_the_beginning_of_what_there_is(
    vault: holdfast.Holdfast, paths: set[str], late: set[str], most: int, levels: int
) -> None:
    name = "listed"
    if name in vault.namespaces():
        vault.delete_namespace(name)
    namespace = vault.namespace(name)
    # Some of it is in the maps by then, some is not.
    fill(namespace, paths)
    namespace.snapshot()
    for path in late & paths:
        if namespace.files.exists(path):
            namespace.files.delete(path, recursive=True)
    found = browse(namespace.files, "", most=most, levels=levels)
    whole = expected(namespace, "", levels)
    assert [info.path for info in found.entries] == whole[:most]
    is_deeper = levels > 1 and len(expected(namespace, "", levels + 1)) > len(whole)
    is_cut = len(whole) > most
    assert found.truncated in ({True} if is_cut else {is_deeper})


def test_what_is_no_directory_is_not_listed(vault: holdfast.Holdfast) -> None:
    files = vault.namespace("none").files
    files.write("d/f", b"")
    with pytest.raises(PathNotFound):
        browse(files, "nowhere", most=9)
    with pytest.raises(NotADirectory):
        browse(files, "d/f", most=9)
    assert browse(vault.namespace("never used").files, "", most=9).entries == []


def test_still_files_do_not_change(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        files = vault.namespace("a").files
        files.write("f", "old")
        with files.still() as now:
            size = now.stat("f").size_bytes
            files.write("f", "new and longer")
            files.write("g", "")
            assert (size, now.read("f"), now.exists("g")) == (3, b"old", False)
            assert len(now.list()) == 1
            pieces = now.stream("f")
        assert list(islice(pieces, 2)) == [b"old"]
        assert files.read("f") == b"new and longer"

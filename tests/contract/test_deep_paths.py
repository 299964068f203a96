"""Below thousands of folders, most of them are not looked at: what may be written is the same."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.engine.files import drafting
from holdfast.engine.files.editing import Files
from holdfast.engine.planes.view import View
from holdfast.errors import HoldfastError, NotADirectory
from holdfast.testing.clocks import Watch

DEEPEST = "d/" * 2000 + "file"


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC), step=timedelta(microseconds=1))


def step(files: Files, rng: random.Random) -> str:
    """Does one thing somewhere in a small tree; returns what came of it."""

    def path() -> str:
        return "/".join(rng.choices("ab", k=rng.randint(1, 4)))

    kind, one, other = rng.randrange(6), path(), path()
    try:
        if kind == 0:
            files.write_many([(each, each) for each in sorted({one, other, path()})])
        elif kind == 1:
            files.write_many([(one, one)], delete=[other])
        elif kind == 2:
            files.mkdir(one, mode=rng.choice([0o755, 0o700]))
        elif kind == 3:
            files.move(one, other)
        elif kind == 4:
            files.delete(one, recursive=rng.random() < 0.5)
        else:
            files.write(one, one)
    except HoldfastError as exc:
        return repr(exc)
    return "done"


def test_a_search_finds_in_the_way_what_a_look_at_every_folder_does(
    opener: Callable[..., holdfast.Holdfast], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = opener()
    looking, searching = vault.namespace("looking"), vault.namespace("searching")
    for seed in range(150):
        told = list[str]()
        for namespace, deep in ((looking, drafting.DEEP), (searching, 0)):
            with monkeypatch.context() as patch:
                patch.setattr(drafting, "DEEP", deep)
                told.append(step(namespace.files, random.Random(seed)))
            if seed % 10 == 0:
                namespace.snapshot()
        assert told[0] == told[1]
    entries = [
        [(each.path, each.kind, each.mode) for each in namespace.files.list(recursive=True)]
        for namespace in (looking, searching)
    ]
    assert entries[0] == entries[1]
    assert len(entries[0]) > 3


def test_the_deepest_path_takes_a_dozen_looks(
    opener: Callable[..., holdfast.Holdfast], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, looks, look = opener().namespace("alice").files, list[bytes](), View.first_under

    def counted(view: View, prefix: bytes) -> tuple[bytes, bytes] | None:
        looks.append(prefix)
        return look(view, prefix)

    monkeypatch.setattr(View, "first_under", counted)
    files.write(DEEPEST, "new")
    assert 0 < len(looks) <= 13
    with pytest.raises(NotADirectory):
        files.write(f"{DEEPEST}/below", "x")
    with pytest.raises(NotADirectory):
        files.write_many([("e/f", "a file"), ("e/f/" + DEEPEST, "x")])
    assert files.read(DEEPEST) == b"new"

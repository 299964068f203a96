"""One suite, three doors: a namespace in this process, over HTTP, and over HTTP awaited.

Every test is written for `holdfast.Namespace` and runs against a vault of its own, against a
`Client` of a real server, and against an `AsyncClient` through an adapter that only awaits. So
what a program sees when it moves from a laptop to a server is what is said here: the same names,
the same answers, the same errors with the same values.

`Door` says where the doors do differ, and why; nothing else may.
"""

import ast
import asyncio
import contextvars
import io
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.namespace import Namespace
from holdfast.model.basics import Kind, Plane, SnapshotInfo, Timeline
from holdfast.model.changes import Changes, Restored
from holdfast.model.names import Name
from holdfast.model.sessions import VersionKind
from holdfast.model.tasks import Cadence, TaskStatus
from holdfast.model.traces import Level
from holdfast.sdk.agent import Moment
from holdfast.sdk.calls import Group
from holdfast.sdk.tasks import AsyncCheckpointed, AsyncTasks
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

_NUMBERS = count(1)
OFFLINE = "snap-0000000000000000000000000000"


# The doors.


class Loop:
    """An event loop in a thread of its own, for tests that wait."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        # One for all: what is entered by one call is left by another.
        self._context = contextvars.copy_context()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def run(self, awaited: Any) -> Any:
        done: Future[Any] = Future()

        async def wait() -> None:
            try:
                done.set_result(await awaited)
            except Exception as exc:  # noqa: BLE001 - it is the caller's
                done.set_exception(exc)

        self._loop.call_soon_threadsafe(
            lambda: self._loop.create_task(wait(), context=self._context)
        )
        return done.result(30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Awaited:
    """Something of an `AsyncClient`, every coroutine of which is awaited."""

    def __init__(self, loop: Loop, target: Any) -> None:
        self._loop, self._target = loop, target

    def __getattr__(self, name: str) -> Any:
        return self._plain(getattr(self._target, name))

    def __enter__(self) -> Any:
        return self._loop.run(self._target.__aenter__())

    def __exit__(self, *told: object) -> Any:
        return self._loop.run(self._target.__aexit__(*told))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self._target, AsyncTasks | AsyncCheckpointed):
            if args and callable(args[0]):
                return self._decorated(*args)
            return Awaited(self._loop, self._target(*args, **kwargs))._decorated
        given = [arg._target if isinstance(arg, Awaited) else arg for arg in args]
        return self._plain(self._target(*given, **kwargs))

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*args: Any) -> Any:
            return await asyncio.to_thread(function, *args)

        run.__name__ = function.__name__
        task = self._target(run)
        return lambda *args: self._loop.run(task(*args))

    def _plain(self, value: Any) -> Any:
        if isawaitable(value):
            return self._plain(self._loop.run(value))
        if isinstance(value, AsyncIterator):
            return self._iterated(value)
        if isinstance(value, Group | Moment | AsyncTasks) or callable(value):
            return Awaited(self._loop, value)
        if isinstance(value, Timeline):
            return value
        return [self._plain(each) for each in value] if isinstance(value, list) else value

    def _iterated(self, values: AsyncIterator[Any]) -> Iterator[Any]:
        async def following() -> list[Any]:
            return [await anext(values)]

        while True:
            try:
                yield from self._loop.run(following())
            except StopAsyncIteration:
                return


@dataclass(frozen=True)
class Door:
    """A way into a namespace, and where it cannot but differ from the others."""

    agent: Namespace
    new_agent: Callable[[str], Namespace]
    is_remote: bool

    @property
    def actor(self) -> str | None:
        """Who is said to have done something: a server knows the key, a library nobody."""
        return "key-" if self.is_remote else None

    @property
    def sees_entries(self) -> bool:
        """Whether a change holds the entries themselves: those never leave a vault."""
        return not self.is_remote

    def exported(self, written: Path, *, entries: int) -> int:
        """Returns what `export` returns: over a line, bytes are what is counted."""
        return written.stat().st_size if self.is_remote else entries

    def came_back(self, rolled_back: Any) -> SnapshotInfo:
        """Returns what a task's way back left: a server keeps the snapshot, not the whole list."""
        if self.is_remote:
            return rolled_back
        assert isinstance(rolled_back, Restored)
        assert rolled_back.snapshot is not None
        return rolled_back.snapshot


SECRETS_KEY = "a key of more than thirty-two characters"


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_SECRETS_KEY": SECRETS_KEY}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture(params=["embedded", "client", "async client"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    name = f"agent-{next(_NUMBERS)} ü"
    if request.param == "embedded":
        with holdfast.open(tmp_path / "vault", secrets_key=SECRETS_KEY) as vault:
            yield Door(vault.namespace(name), vault.namespace, is_remote=False)
        return
    server: Server = request.getfixturevalue("server")
    if request.param == "client":
        with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
            new = cast("Callable[[str], Namespace]", client.namespace)
            yield Door(cast("Namespace", client), new, is_remote=True)
        return
    loop = Loop()
    try:
        adapter: Any = Awaited(
            loop, holdfast.AsyncClient(server.api_key, url=server.url, namespace=name)
        )
        yield Door(adapter, adapter.namespace, is_remote=True)
        adapter.close()
    finally:
        loop.close()


@pytest.fixture
def agent(door: Door) -> Namespace:
    return door.agent


def is_now(instant: datetime | None) -> bool:
    assert instant is not None
    assert instant.tzinfo is not None
    return abs(datetime.now(UTC) - instant) < timedelta(minutes=2)


# Files.


def test_a_file_is_read_as_it_was_written(agent: Namespace) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    written = agent.files.write("a/ü b.txt", "first\r\nthoughts", mode=0o640, modified_at=at)
    assert (written.path, written.kind, written.size_bytes) == ("a/ü b.txt", "file", 15)
    assert (written.mode, written.modified_at, written.name) == (0o640, at, "ü b.txt")
    assert agent.files.read("a/ü b.txt") == b"first\r\nthoughts"
    assert agent.files.read_text("a/ü b.txt") == "first\r\nthoughts"
    assert agent.files.stat("a/ü b.txt") == written
    assert agent.files.stat("a").kind == "directory"
    agent.files.write("latin", "ü".encode("latin-1"))
    assert agent.files.read_text("latin", encoding="latin-1") == "ü"
    with pytest.raises(UnicodeDecodeError):
        agent.files.read_text("latin")


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO])
def test_a_file_is_written_from_whatever_holds_bytes(
    agent: Namespace, wrap: Callable[[bytes], Any]
) -> None:
    data = os.urandom(1_500_000)
    assert agent.files.write("big", wrap(data)).size_bytes == len(data)
    pieces = list(agent.files.stream("big"))
    assert b"".join(pieces) == data
    assert len(pieces) > 1


def test_an_open_file_is_written_from_where_it_stands(agent: Namespace) -> None:
    source = io.BytesIO(b"skipped, kept")
    source.seek(9)
    agent.files.write(Path("from/here"), source)
    assert agent.files.read("from/here") == b"kept"
    agent.files.write("empty", b"")
    assert agent.files.read("empty") == b""
    assert b"".join(agent.files.stream("empty")) == b""


def test_a_path_may_be_bytes(agent: Namespace, tmp_path: Path) -> None:
    path = "d/ü.txt".encode()
    agent.files.write(path, "1")
    assert agent.files.read(path) == agent.files.read("d/ü.txt") == b"1"
    first = agent.snapshot()
    agent.files.write_many([(path, b"2"), (os.fsencode("e"), b"e")])
    assert agent.files.stat(path).path == "d/ü.txt"
    assert [step.change for step in agent.history(path)] == ["changed", "added"]
    assert [change.key for change in agent.diff(paths=[b"d", tmp_path.relative_to("/")])] == [path]
    assert "+2" in agent.text_diff(path)
    assert agent.restore(first, paths=[path]).changes.of("changed") == ["d/ü.txt"]
    agent.files.move(b"e", b"f")
    agent.files.symlink(b"link", b"f")
    assert [info.path for info in agent.files.list(prefix=b"l")] == ["link"]
    assert agent.files.delete(b"f") == 1


def test_listings_are_in_the_order_of_bytes(agent: Namespace) -> None:
    assert agent.files.list() == []
    assert agent.files.write_many([("d/b", b"1"), ("d/a", "zwei"), ("d/Z/x", b""), ("e", b"")]) == 4
    assert [each.path for each in agent.files.list()] == ["d", "e"]
    assert [each.path for each in agent.files.list("d")] == ["d/Z", "d/a", "d/b"]
    everything = [each.path for each in agent.files.list(recursive=True)]
    assert everything == ["d/Z/x", "d/a", "d/b", "e"]
    assert [each.path for each in agent.files.list("d", prefix="a")] == ["d/a"]
    assert [each.path for each in agent.files.list("d", limit=2)] == ["d/Z", "d/a"]
    assert agent.files.list(limit=0) == []
    assert agent.files.exists("d/Z")
    assert not agent.files.exists("d/z")


def test_files_are_found_by_pattern_and_by_what_they_say(agent: Any) -> None:
    agent.files.write_many(
        [
            ("src/a.py", "x = 1\nTODO: y\n"),
            ("src/deep/b.py", "nothing\r\ntodo é TODO\r\n"),
            ("notes.txt", "TODO\n" * 5),
            ("blob.bin", b"\0TODO\n"),
        ]
    )
    then = agent.snapshot()
    agent.files.write("src/a.py", "done\n")

    def globbed(pattern: str, **more: Any) -> list[str]:
        return [each.path for each in agent.files.glob(pattern, **more)]

    assert globbed("*.py") == ["src/a.py", "src/deep/b.py"]
    assert globbed("src/*.py") == ["src/a.py"]
    assert globbed("src/**/*.py", after="src/a.py") == ["src/deep/b.py"]
    assert globbed("*", limit=1) == ["blob.bin"]
    assert globbed("/notes.*") == ["notes.txt"]

    def lines(pattern: str, *path: str, at: Any = agent, **more: Any) -> list[tuple[str, int, str]]:
        found = at.files.grep(pattern, *path, **more)
        return [(each.path, each.line, each.text) for each in found]

    assert lines("TODO", "src") == [("src/deep/b.py", 2, "todo é TODO")]
    assert lines("TODO", "src", at=agent.at(then)) == [
        ("src/a.py", 2, "TODO: y"),
        ("src/deep/b.py", 2, "todo é TODO"),
    ]
    assert lines("tOdO: Y", ignore_case=True, at=agent.at(then)) == [("src/a.py", 2, "TODO: y")]
    assert lines(r"^T\w+$", regex=True, glob="*.txt") == [
        ("notes.txt", line, "TODO") for line in range(1, 6)
    ]
    assert lines("TODO", "notes.txt", limit=2) == [
        ("notes.txt", 1, "TODO"),
        ("notes.txt", 2, "TODO"),
    ]
    found, cursor = [], None
    while True:
        page = agent.files.grep("TODO", limit=2, cursor=cursor)
        found += [(each.path, each.line) for each in page]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [*(("notes.txt", line) for line in range(1, 6)), ("src/deep/b.py", 2)]
    for wrong in ({"pattern": ""}, {"pattern": "a\nb"}, {"pattern": "a", "cursor": "x"}):
        with pytest.raises(errors.InvalidValue):
            agent.files.grep(**wrong)
    with pytest.raises(errors.InvalidValue):
        agent.files.grep("(a", regex=True)
    with pytest.raises(errors.InvalidValue):
        agent.files.glob("[")
    with pytest.raises(errors.PathNotFound):
        agent.files.grep("a", "nowhere")


def test_what_lies_across_the_pieces_of_a_long_line_is_found(agent: Any) -> None:
    for cut in (16 << 10, 28 << 10, 32 << 10):
        line = "x" * (cut - 3) + "Needle" + "x" * 50_000
        agent.files.write("long.txt", f"short\n{line}\nneedle\n")
        for more in ({"ignore_case": True}, {"regex": True}):
            found = agent.files.grep("Needle" if "regex" in more else "nEEDLE", **more)
            lines = [each.line for each in found]
            assert lines == ([2] if "regex" in more else [2, 3]), (cut, more)


def test_a_part_of_a_file_is_read(agent: Any) -> None:
    data = bytes(range(256)) * 1024
    agent.files.write("f", data)
    agent.files.write("empty", b"")
    for start, length in ((0, 10), (5, None), (100_000, 70_000), (len(data) - 1, 5), (3, 0)):
        stop = None if length is None else start + length
        assert agent.files.read("f", start=start, length=length) == data[start:stop]
    assert agent.files.read("f", start=len(data)) == b""
    for far in (10**12, 10**18, 10**19, 10**300):
        assert agent.files.read("f", start=far, length=5) == b""
        assert agent.files.read("f", start=far) == b""
        assert agent.files.read("f", start=7, length=far) == data[7:]
    assert agent.files.read("empty", start=0, length=3) == b""
    for wrong in ({"start": -1}, {"length": -1}, {"start": "1"}, {"start": 10**5000}):
        with pytest.raises(errors.InvalidValue):
            agent.files.read("f", **wrong)
    with pytest.raises(errors.PathNotFound):
        agent.files.read("no", start=1)
    with pytest.raises(errors.PathNotFound):
        agent.files.read("no", length=0)


def test_links_modes_directories_moves_and_deletions(agent: Namespace) -> None:
    agent.files.write("a/one", "1")
    link = agent.files.symlink("a/link", "../nowhere")
    assert (link.kind, agent.files.readlink("a/link")) == ("link", "../nowhere")
    assert agent.files.mkdir("made/deep", mode=0o700).mode == 0o700
    assert agent.files.chmod("a/one", 0o755).mode == 0o755
    assert agent.files.stat("a/one").mode == 0o755
    assert agent.files.move("a", "b/a").is_dir
    assert agent.files.stat("b/a/link").target == "../nowhere"
    assert [each.path for each in agent.files.list(recursive=True)] == [
        "b/a/link",
        "b/a/one",
        "made/deep",
    ]
    agent.files.write("two", "2")
    agent.files.move("two", "b/a/one", overwrite=True)
    assert agent.files.read("b/a/one") == b"2"
    assert agent.files.delete("b/a/one") == 1
    assert agent.files.delete("b", recursive=True) == 1
    assert not agent.files.exists("b")


BAD_FILES: list[tuple[type[errors.HoldfastError], dict[str, Any], Callable[[Namespace], Any]]] = [
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.read("no")),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.stat("no")),
    (errors.PathNotFound, {"path": b"no"}, lambda a: list(a.files.stream("no"))),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.readlink("no")),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.list("no")),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.delete("no")),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.chmod("no", 0o600)),
    (errors.PathNotFound, {"path": b"no"}, lambda a: a.files.move("no", "x")),
    (errors.NotAFile, {"path": b"d", "found": "directory"}, lambda a: a.files.read("d")),
    (errors.NotAFile, {"path": b"d", "found": "directory"}, lambda a: a.files.write("d", b"")),
    (errors.NotAFile, {"path": b"d"}, lambda a: a.files.delete("d")),
    (errors.NotAFile, {"path": b"f"}, lambda a: a.files.readlink("f")),
    (
        errors.NotADirectory,
        {"path": b"f/x", "blocked_by": b"f"},
        lambda a: a.files.write("f/x", b""),
    ),
    (errors.NotADirectory, {}, lambda a: a.files.mkdir("f/x")),
    (errors.PathExists, {"path": b"g"}, lambda a: a.files.move("f", "g")),
    (errors.InvalidPath, {}, lambda a: a.files.write("../out", b"")),
    (errors.InvalidPath, {}, lambda a: a.files.write("a//b", b"")),
    (errors.InvalidPath, {}, lambda a: a.files.read("nul\0")),
    (errors.InvalidPath, {}, lambda a: a.files.symlink("", "x")),
    (errors.InvalidPath, {}, lambda a: a.files.move("d", "d/inside")),
    (errors.InvalidValue, {}, lambda a: a.files.write("m", b"", mode=0o1000000)),
    (errors.InvalidValue, {}, lambda a: a.files.write("s", "\ud800")),
    (errors.InvalidValue, {}, lambda a: a.files.list(limit=-1)),
]


@pytest.mark.parametrize("number", range(len(BAD_FILES)))
def test_what_is_wrong_with_files_is_said_the_same_way(agent: Namespace, number: int) -> None:
    kind, carried, do = BAD_FILES[number]
    agent.files.write_many([("d/x", b""), ("f", b""), ("g", b"")])
    before = agent.files.list(recursive=True)
    assert_raises(agent, kind, do, **carried)
    assert agent.files.list(recursive=True) == before


def assert_raises(
    agent: Namespace,
    kind: type[errors.HoldfastError],
    do: Callable[[Namespace], Any],
    **carried: Any,
) -> errors.HoldfastError:
    with pytest.raises(errors.HoldfastError) as raised:
        do(agent)
    assert type(raised.value) is kind, repr(raised.value)
    for name, value in carried.items():
        assert getattr(raised.value, name) == value, name
    assert raised.value.hint
    assert str(raised.value)
    return raised.value


# The store.


VALUES: dict[str, Any] = {
    "none": None,
    "truth": True,
    "number": -(2**63),
    "large": 2**64 - 1,
    "fraction": 1.5,
    "text": "ü\0\U0001f600",
    "bytes": bytes(range(256)),
    "list": [1, [2, {}], "x"],
    "map": {"a": {"b": b"c"}, 3: "three"},
    "instant": datetime(2026, 1, 1, 12, tzinfo=UTC),
    "like a mark": {"$bytes": "AA==", "$date": 1},
}


def test_values_come_back_as_they_went(agent: Namespace) -> None:
    for key, value in VALUES.items():
        assert agent.store.set("v", key, value) is None
    for key, value in VALUES.items():
        found = agent.store.get("v", key)
        assert (type(found), found) == (type(value), value), key
    agent.store.set("v", "tuple", (1, 2))
    assert agent.store.get("v", "tuple") == [1, 2]
    assert agent.store.get("v", "missing") is None
    assert agent.store.get("v", "missing", 7) == 7
    assert agent.store.get("v", "none", 7) is None
    assert agent.store.contains("v", "none")
    assert not agent.store.contains("w", "none")


def test_many_values_at_once(agent: Namespace) -> None:
    agent.store.set_many([("n/1", f"k{i:04}", i) for i in range(1200)] + [("m", "", "no name")])
    assert agent.store.get_many([("m", ""), ("no", "no"), ("n/1", "k1199")]) == [
        "no name",
        None,
        1199,
    ]
    assert agent.store.get_many([]) == []
    assert agent.store.keys("n/1")[:2] == ["k0000", "k0001"]
    assert len(agent.store.keys("n/1")) == 1200
    assert agent.store.keys("n/1", "k119", after="k1195", limit=3) == ["k1196", "k1197", "k1198"]
    assert agent.store.keys("none") == []
    agent.store.set_many([("empty", key, 1) for key in ("", "a", "b")])
    assert agent.store.keys("empty", after="") == ["a", "b"]
    assert agent.store.keys("empty", after="", reverse=True) == []
    assert agent.store.items("empty", after="") == [("a", 1), ("b", 1)]
    assert agent.store.items("n/1", "k000")[:1] == [("k0000", 0)]
    assert len(agent.store.items()) == 1201
    assert agent.store.items(None, "k1199") == [(("n/1", "k1199"), 1199)]
    assert agent.store.namespaces() == ["m", "n/1"]
    assert agent.store.namespaces("n") == ["n/1"]
    assert agent.store.count() == 1201
    assert agent.store.max_key("n/1") == "k1199"
    assert agent.store.max_key("none") is None
    assert agent.store.delete("m", "") is True
    assert agent.store.delete("m", "") is False
    assert agent.store.delete_many([("n/1", "k0000"), ("n/1", "none")]) == 1
    assert agent.store.clear() is None
    assert agent.store.namespaces() == []


def test_what_is_written_only_as_expected(agent: Namespace) -> None:
    store = agent.store
    store.set("n", "k", [1], expected=holdfast.ABSENT)
    found = store.find("n", "k")
    assert found is not None
    assert (found.namespace, found.key, found.value, found.data) == ("n", "k", [1], None)
    assert store.find("n", "none") is None
    store.set("n", "k", [2], expected=found.tag)
    for again in (found.tag, holdfast.ABSENT):
        with pytest.raises(errors.NotAsExpected, match="the value of 'k' in 'n'") as raised:
            store.set("n", "k", [3], expected=again)
        assert (raised.value.expected, raised.value.code) == (again, "not_as_expected")
        now = store.find("n", "k")
        assert now is not None
        assert (now.value, raised.value.actual) == ([2], now.tag)
    # Many at once, put and deleted, and looked at though they are not written.
    tag = store.find_many([("n", "k"), ("n", "none")])[0].tag
    with pytest.raises(errors.NotAsExpected):
        store.set_many(
            [("n", "new", 1)],
            delete=[("n", "k")],
            expected=[("n", "k", tag), ("n", "new", holdfast.ABSENT), ("m", "x", "0" * 32)],
        )
    assert store.items() == [(("n", "k"), [2])]
    store.set_many([("n", "new", 1)], delete=[("n", "k")], expected=[("n", "k", tag)])
    store.set_many([("n", "new", 2), ("n", "other", 3)], keep=True)
    assert store.items() == [(("n", "new"), 1), (("n", "other"), 3)]
    store.put("n", "raw", holdfast.dumps({"a": b"b"}), expected=holdfast.ABSENT)
    store.put_many([("n", "new", None), ("n", "last", holdfast.dumps(None))])
    assert store.raw.items("n") == [
        ("last", holdfast.dumps(None)),
        ("other", holdfast.dumps(3)),
        ("raw", holdfast.dumps({"a": b"b"})),
    ]
    assert store.raw.get_many([("n", "raw"), ("n", "none")]) == [holdfast.dumps({"a": b"b"}), None]
    assert store.raw.get("n", "none", 7) == 7
    one = store.raw.find("n", "raw")
    assert one is not None
    assert (one.value, one.data) == (None, holdfast.dumps({"a": b"b"}))
    with pytest.raises(errors.InvalidValue):
        store.put("n", "raw", b"\xc1")
    done = store.batch(set=[("n", "a", 1)], delete=[("n", "raw")], get=[("n", "a"), ("n", "raw")])
    assert (done.set, done.deleted) == (1, 1)
    assert [each and each.value for each in done.values] == [1, None]


def test_a_snapshot_is_found_by_what_it_is_called(agent: Namespace) -> None:
    first = agent.snapshot("kept", task_id="t", trace_id="r")
    agent.snapshot("other", task_id="t")
    again = agent.snapshot("kept")
    assert [each.id for each in agent.timeline(label="kept")] == [again.id, first.id]
    assert [each.id for each in agent.list_snapshots(label="kept", limit=1)] == [again.id]
    assert [each.id for each in agent.timeline(task_id="t", trace_id="r")] == [first.id]
    assert list(agent.list_snapshots(trace_id="none")) == []


def test_values_are_listed_from_the_end_and_in_parts(agent: Namespace) -> None:
    keys = [f"{letter}{number:03}" for letter in "ab" for number in range(300)]
    agent.store.set_many([("n", key, key) for key in keys])
    agent.snapshot()
    # What is pending lies over what a snapshot has: some is new, some is gone.
    agent.store.set_many([("n", "a0005", "new"), ("m", "a", 1)], delete=[("n", "b299")])
    there = sorted({*keys, "a0005"} - {"b299"})
    for prefix in (None, "", "a", "b29", "none"):
        fit = [key for key in there if key.startswith(prefix or "")]
        assert agent.store.keys("n", prefix, reverse=True) == fit[::-1]
        assert agent.store.max_key("n", prefix) == (fit[-1] if fit else None)
        down = agent.store.items("n", prefix, reverse=True, limit=3)
        assert [key for key, _ in down] == fit[::-1][:3]
    assert agent.store.keys("n", "a", after="a005", limit=2, reverse=True) == ["a004", "a003"]
    assert agent.store.items("n", after="a0005", limit=1) == [("a001", "a001")]
    assert agent.store.items("n", "b", after="a9", limit=1) == [("b000", "b000")]
    assert agent.store.items("n", "b", after="a9", reverse=True) == []
    assert agent.store.items(after=("m", "a"), limit=1) == [(("n", "a000"), "a000")]
    assert agent.store.items(after=("n", "a000"), reverse=True) == [(("m", "a"), 1)]
    assert agent.store.items("n", limit=0) == []
    with pytest.raises(errors.InvalidValue):
        agent.store.items(after="a")
    assert agent.store.delete_prefix("n", "a") == 301
    assert agent.store.delete_prefix("n") == 299
    assert agent.store.delete_prefix("none") == 0


def test_a_list_grows_at_its_end(agent: Namespace) -> None:
    store, items = agent.store, [{"role": "user", "text": "ü" * 200}, None]
    assert store.append("l", items) == ["0" * 16, "0" * 15 + "1"]
    assert store.append("l", []) == []
    agent.snapshot("two")
    assert store.append("l", [{"$bytes": "AA=="}], prefix="p/") == ["p/" + "0" * 16]
    assert store.append("l", [3]) == ["0" * 15 + "2"]
    assert [value for _, value in store.items("l", "0")] == [*items, 3]
    assert [value for _, value in store.items("l", "0", reverse=True, limit=2)] == [3, None]
    last = store.pop("l")
    assert last is not None
    assert (last.key, last.value) == ("p/" + "0" * 16, {"$bytes": "AA=="})
    assert [store.pop("l", prefix="0").value for _ in range(3)] == [3, None, items[0]]
    assert store.pop("l") is None
    agent.undo()
    assert [value for _, value in store.items("l")] == items
    store.set("l", "0other", 1)
    with pytest.raises(errors.InvalidValue, match="no key of a list"):
        store.append("l", [1])


def test_a_file_is_written_only_as_expected(agent: Namespace) -> None:
    files = agent.files
    made = files.write("a/b.txt", "one", expected=holdfast.ABSENT)
    assert files.stat("a/b.txt").tag == made.tag
    again = files.write("a/b.txt", "two", expected=made.tag)
    for wrong in (holdfast.ABSENT, made.tag):
        with pytest.raises(errors.NotAsExpected, match=r"a/b\.txt") as raised:
            files.write("a/b.txt", "three", expected=wrong)
        assert raised.value.actual == again.tag
    with pytest.raises(errors.NotAsExpected):
        files.write("a", "a directory is in the way", expected=holdfast.ABSENT)
    assert files.read("a/b.txt") == b"two"
    assert again.tag is not None
    with pytest.raises(errors.NotAsExpected):
        files.write_many(
            [("a/c.txt", "c")],
            delete=["a/b.txt"],
            expected=[("a/b.txt", again.tag), ("a/c.txt", again.tag)],
        )
    assert [info.path for info in files.list("a")] == ["a/b.txt"]
    expected = [("a/b.txt", again.tag), ("a/b.txt/c", holdfast.ABSENT)]
    # What goes makes room for what comes.
    written = files.write_many([("a/b.txt/c", "c")], delete=["a/b.txt", "x"], expected=expected)
    assert written == 1
    assert files.read("a/b.txt/c") == b"c"
    with pytest.raises(errors.NotAFile):
        files.write_many([], delete=["a"])


def test_a_snapshot_of_the_store_knows_what_it_holds(agent: Namespace) -> None:
    agent.files.write("kept", "as it is")
    agent.store.set_many([("n", "stays", 1), ("n", "goes", 2), ("n", "changes", 3)])
    base = agent.store.snapshot("base", reason="why", pin=True)
    agent.store.delete("n", "goes")
    agent.store.set("n", "changes", {"now": b"this"})
    agent.store.set("o/p", "comes", None)
    agent.files.write("kept", "changed")
    later = agent.store.snapshot()
    assert base.keys == [("n", "changes"), ("n", "goes"), ("n", "stays")]
    assert (base.label, base.reason, base.pinned, base.size_bytes) == ("base", "why", True, 3)
    assert later.diff(base) == {
        "added": [("o/p", "comes")],
        "removed": [("n", "goes")],
        "changed": [("n", "changes")],
    }
    assert later.diff(base.id) == later.diff(base)
    assert base.get("n", "goes") == 2
    assert base.get("n", "none", "default") == "default"
    assert later.items("o/p") == [("comes", None)]
    assert [pair for pair, _ in base.items()] == base.keys
    assert (later.parent, later.number, later.kind) == (base.id, 2, Kind.SNAPSHOT)
    assert later.timestamp == later.created_at.timestamp()
    assert is_now(later.created_at)
    done = agent.store.restore(base)
    assert (done.target, done.verified) == (base.id, True)
    assert agent.store.get("n", "goes") == 2
    assert agent.files.read("kept") == b"changed", "the other planes stay"
    assert [each.id for each in agent.store.history()][:2] == [base.id, later.id]
    assert agent.store.at(base).get("n", "changes") == 3
    assert agent.restore(later).target == later.id


BAD_STORE: list[tuple[type[errors.HoldfastError], Callable[[Namespace], Any]]] = [
    (errors.Unencodable, lambda a: a.store.set("n", "k", object())),
    (errors.Unencodable, lambda a: a.store.set_many([("n", "ok", 1), ("n", "k", {1, object()})])),
    (errors.InvalidValue, lambda a: a.store.set("n" * 5000, "k", 1)),
    (errors.InvalidValue, lambda a: a.store.set("n", "k" * 5000, 1)),
    (errors.InvalidValue, lambda a: a.store.keys("n", limit=-1)),
    (errors.SnapshotNotFound, lambda a: a.store.restore(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.store.at(OFFLINE).get("n", "k")),
]


@pytest.mark.parametrize("number", range(len(BAD_STORE)))
def test_what_is_wrong_with_values_is_said_the_same_way(agent: Namespace, number: int) -> None:
    kind, do = BAD_STORE[number]
    agent.snapshot()
    assert_raises(agent, kind, do)
    assert agent.store.namespaces() == []


# Snapshots and going back.


def test_a_snapshot_says_what_it_is(door: Door) -> None:
    agent = door.agent
    agent.files.write("a", "12345")
    agent.store.set("n", "k", 1)
    taken = agent.snapshot("first", reason="why", pin=True, task_id="task-1", trace_id="trace-1")
    assert (taken.label, taken.reason, taken.pinned) == ("first", "why", True)
    assert (taken.task_id, taken.trace_id) == ("task-1", "trace-1")
    assert (taken.number, taken.kind, taken.parent, taken.target) == (1, Kind.SNAPSHOT, None, None)
    assert (taken.size.entries, taken.size.bytes, taken.size_bytes) == (2, 6, 6)
    assert (taken.snapshot_id, taken.expires_at, taken.is_partial) == (taken.id, None, False)
    assert is_now(taken.created_at)
    assert (taken.actor is None) is (door.actor is None)
    assert (taken.actor or "").startswith(door.actor or "")
    soon = agent.snapshot(expires_in=timedelta(hours=1))
    assert soon.expires_at is not None
    assert timedelta(minutes=59) < soon.expires_at - soon.created_at <= timedelta(hours=1)
    assert soon.root == taken.root
    assert agent.get_snapshot(taken) == agent.get_snapshot(taken.id) == taken
    assert agent.get_snapshot(taken.id[:12]) == taken
    assert agent.get_snapshot("latest") == agent.get_snapshot("@") == soon
    assert agent.get_snapshot("@-1") == taken
    assert agent.timeline() == [soon, taken]
    assert agent.timeline(limit=1) == [soon]
    assert agent.timeline(before=2) == [taken]
    assert agent.timeline(limit=0) == []


def test_the_head_says_whether_a_snapshot_holds_it(agent: Namespace) -> None:
    assert not agent.is_dirty()
    agent.files.write("a", "1")
    assert agent.is_dirty()
    assert agent.find_current() is None
    taken = agent.snapshot()
    assert not agent.is_dirty()
    assert agent.find_current() == taken
    assert (agent.size().entries, agent.size().bytes) == (1, 1)


def test_a_restore_brings_everything_back_and_loses_nothing(agent: Namespace) -> None:
    agent.files.write("a", "old")
    agent.store.set("n", "k", "old")
    session = agent.sessions.create("helper", initial_state={"step": 1})
    before = agent.snapshot("before")
    agent.files.write("a", "newer")
    agent.files.write(".git/hooks/pre-commit", "#!/bin/sh")
    agent.store.delete("n", "k")
    agent.sessions.update_state(session.id, {"step": 2})

    told = agent.restore(before, dry_run=True)
    assert (told.dry_run, told.snapshot, told.safety_id) == (True, None, None)
    assert told.changes.of("removed") == [".git/hooks/pre-commit"]
    assert told.changes.of("added", Plane.STORE) == ["n/k"]
    assert agent.files.read("a") == b"newer"

    done = agent.restore(before, reason="it went wrong")
    assert (done.target, done.verified, done.dry_run) == (before.id, True, False)
    assert done.snapshot is not None
    assert (done.snapshot.kind, done.snapshot.target) == (Kind.RESTORE, before.id)
    assert (done.snapshot.reason, done.root) == ("it went wrong", before.root)
    assert (done.files, list(done.kept)) == (1, [])
    assert [(each.plane, each.name, each.change) for each in done.changes] == [
        (each.plane, each.name, each.change) for each in told.changes
    ]
    changed = next(each for each in done.changes if each.name == "a")
    assert (changed.change, changed.old_bytes, changed.new_bytes) == ("changed", 5, 3)
    hook = next(each for each in done.changes if each.name.startswith(".git"))
    assert hook.is_executable_config
    assert not changed.is_executable_config
    assert agent.files.read("a") == b"old"
    assert agent.store.get("n", "k") == "old"
    assert agent.sessions.get_state(session.id).state == {"step": 1}

    kept = agent.get_snapshot(done.safety_id or "")
    assert kept.kind is Kind.SAFETY
    assert agent.at(kept).files.read("a") == b"newer"
    back = agent.undo()
    assert (back.snapshot and back.snapshot.kind) is Kind.UNDO
    assert agent.files.read("a") == b"newer"
    assert agent.sessions.get_state(session.id).state == {"step": 2}
    forth = agent.redo()
    assert (forth.snapshot and forth.snapshot.kind) is Kind.REDO
    assert agent.files.read("a") == b"old"


def test_part_of_a_snapshot_can_be_brought_back(agent: Namespace) -> None:
    agent.files.write_many([("notes/a", b"1"), ("notes/b", b"1"), ("other", b"1")])
    agent.store.set("n", "k", 1)
    before = agent.snapshot()
    agent.files.write_many([("notes/a", b"2"), ("notes/b", b"2"), ("other", b"2")])
    agent.store.set("n", "k", 2)
    done = agent.restore(before, paths=["notes/"])
    assert (done.changes.of("changed"), done.files) == (["notes/a", "notes/b"], None)
    assert agent.files.read("other") == b"2"
    agent.restore(before, planes=["store"])
    assert (agent.store.get("n", "k"), agent.files.read("other")) == (1, b"2")
    done = agent.restore(before, planes=[Plane.FILES], limit=0)
    assert (len(done.changes), done.changes.truncated) == (0, True)
    assert agent.files.read("other") == b"1"


def test_names_bring_single_entries_back_to_the_letter(agent: Namespace) -> None:
    hostile = ["x[1].txt", "x1.txt", "*", "a\nb", "d/[!a]", "d/{a,b}.", "workspace/x1.txt"]
    agent.files.write_many((path, b"1") for path in hostile)
    places = [("n", "k"), ("n/m", "k"), ("n", "m/k"), ("*", "*")]
    agent.store.set_many((*place, 1) for place in places)
    before = agent.snapshot()
    agent.files.write_many((path, b"2") for path in hostile)
    agent.store.set_many((*place, 2) for place in places)
    names = [Name.file("x[1].txt"), Name.file("d"), Name.value("n/m", "k"), Name("store", "n/k")]
    chosen: Any = {"names": names, "except_": [Name.file("d/[!a]")]}
    seen = agent.restore(before, dry_run=True, **chosen)
    assert agent.files.read("x[1].txt") == b"2"
    done = agent.restore(before, **chosen)
    assert done.changes.of("changed") == ["d/{a,b}.", "x[1].txt", "n/k", "n/m/k"]
    assert (done.changes, done.root, done.files) == (seen.changes, seen.root, None)
    assert done.verified
    assert [agent.files.read(path) for path in hostile] == [b"1", *[b"2"] * 4, b"1", b"2"]
    assert [agent.store.get(*place) for place in places] == [1, 1, 2, 2]
    assert done.snapshot is not None
    assert done.snapshot.detail["names"][0] == {"plane": "files", "name": "x[1].txt"}
    assert done.snapshot.detail["names_count"] == 4
    agent.undo()
    assert {agent.files.read(path) for path in hostile} == {b"2"}
    assert {agent.store.get(*place) for place in places} == {2}


def test_what_a_preview_lists_can_be_chosen_by_its_name(agent: Namespace) -> None:
    agent.files.write_many([("a", b"1"), ("b", b"1")])
    agent.store.set_many([("n/m", "k", 1), ("n", "m/k", 1)])
    agent.sessions.create("helper", session_id="s")
    before = agent.snapshot()
    agent.files.write_many([("a", b"2"), ("b", b"2")])
    agent.store.set_many([("n/m", "k", 2), ("n", "m/k", 2)])
    agent.sessions.update_state("s", {"n": 2})
    listed = agent.restore(before, dry_run=True).changes
    for change in listed:
        done = agent.restore(before, names=[change.named])
        assert [(c.plane, c.key, c.name) for c in done.changes] == [
            (change.plane, change.key, change.name)
        ]
    assert not agent.restore(before, dry_run=True).changes
    agent.undo()
    left = agent.restore(before, except_=[listed.items[-1].named])
    assert not left.changes


def test_a_session_brought_back_alone_has_its_turns_and_its_versions(agent: Namespace) -> None:
    for each in ("one", "other"):
        agent.sessions.create("helper", session_id=each, initial_state={"n": 1})
        agent.sessions.add_turn(each, "first", "1")
    before = agent.snapshot()
    for each in ("one", "other"):
        agent.sessions.add_turn(each, "second", "2", state_after={"n": 2})
    agent.sessions.create("helper", session_id="late")
    agent.sessions.delete("one")

    def said(session_id: str) -> list[Any]:
        return [turn.output["content"] for turn in agent.sessions.list_turns(session_id)]

    done = agent.restore(before, names=[Name.session("one")])
    assert [(each.plane, each.name) for each in done.changes] == [(Plane.SESSIONS, "one")]
    assert (agent.sessions.get_state("one").state, said("one")) == ({"n": 1}, ["1"])
    assert agent.sessions.history("one")[-1].kind is VersionKind.RESTORE
    assert (agent.sessions.get_state("other").state, said("other")) == ({"n": 2}, ["2", "1"])
    assert {each.id for each in agent.sessions.list()} == {"one", "other", "late"}
    agent.sessions.add_turn("one", "third", "3")
    agent.restore(before, planes=["sessions"], except_=[Name.session("other")])
    assert (said("one"), said("other")) == (["1"], ["2", "1"])
    assert {each.id for each in agent.sessions.list()} == {"one", "other"}


def test_names_that_mean_nothing_are_refused_and_exceptions_are_not(agent: Namespace) -> None:
    agent.files.write("d/a", b"1")
    agent.store.set("n", "k", 1)
    before = agent.snapshot()
    agent.files.write("d/new", b"2")
    for dry_run in (True, False):
        wanted = [Name.file("d"), Name.file("d/*"), Name.value("n", "*"), Name.session("none")]
        chosen: Any = {"names": wanted, "dry_run": dry_run}
        assert_raises(
            agent,
            errors.NameNotFound,
            lambda a, chosen=chosen: a.restore(before, **chosen),
            names=["d/*", "n/*", "none"],
        )
    assert [each.id for each in agent.timeline()] == [before.id]
    done = agent.restore(before, names=[Name.file("d")], except_=[Name.file("no such file")])
    assert done.changes.of("removed") == ["d/new"]


def test_what_was_not_chosen_does_not_give_way(agent: Namespace) -> None:
    agent.files.write_many([("a/b", b"1"), ("c", b"1")])
    before = agent.snapshot()
    agent.files.delete("a", recursive=True)
    agent.files.delete("c")
    agent.files.write_many([("a", b"2"), ("c/kept", b"2"), ("c/other", b"2")])
    for dry_run in (True, False):
        for in_the_way, chosen in (
            ("a", {"names": [Name.file("a/b")]}),
            ("a", {"paths": ["a/*"], "except_": [Name.file("c")]}),
            ("c/kept", {"names": [Name.file("c")], "except_": [Name.file("c/kept")]}),
        ):
            more: Any = {**chosen, "dry_run": dry_run}
            assert_raises(
                agent,
                errors.InTheWay,
                lambda a, more=more: a.restore(before, **more),
                paths=[in_the_way],
            )
    assert agent.files.read("a") == b"2"
    agent.restore(before, names=[Name.file("a"), Name.file("c")])
    assert [each.path for each in agent.files.list(recursive=True)] == ["a/b", "c"]


BAD_NAMES: list[dict[str, Any]] = [
    {"names": []},
    {"names": [], "paths": ["a"]},
    {"names": [Name.file("a")], "planes": ["store"]},
    {"names": [Name.file("a")], "planes": ["files", "store"]},
    {"names": [Name.value("n", "k")], "paths": ["a"], "planes": ["files"]},
    {"names": [Name.file("a")], "except_": [Name.session("s")]},
    {"planes": ["store"], "except_": [Name.file("a")]},
    {"names": [Name("dreams", "a")]},
    {"names": [Name("store", "a/b/c")]},
    {"names": [Name("store", "k")]},
    {"names": [Name("store", "n/x", namespace="n", key="k")]},
    {"names": [Name("store", namespace="n")]},
    {"names": [Name("files", "a", key="k")]},
    {"names": [Name("sessions")]},
    {"names": "a"},
    {"names": [("files", "a")]},
    {"names": [Name.file(str(number)) for number in range(10_001)]},
    {"except_": [Name.file(f"{number}" + "/x" * 2000) for number in range(300)]},
    {"names": [Name.value("n", "k" * 5000)]},
]
BAD_PATHS = ["", ".", "..", "/a", "a//b", "a/../b", "nul\0", "x" * 256, "x/" * 2100]


@pytest.mark.parametrize("number", range(len(BAD_NAMES)))
def test_what_is_wrong_with_names_is_said_the_same_way(agent: Namespace, number: int) -> None:
    agent.files.write("a", b"1")
    agent.snapshot()
    assert_raises(agent, errors.InvalidValue, lambda a: a.restore("@", **BAD_NAMES[number]))
    assert len(agent.timeline()) == 1


def test_a_name_never_leads_out_of_the_namespace(agent: Namespace) -> None:
    agent.files.write("a", b"1")
    agent.snapshot()
    names = [*map(Name.file, BAD_PATHS), Name("files"), Name("files", name_b64="no base64!")]
    for name in names:
        assert_raises(agent, errors.InvalidPath, lambda a, it=name: a.restore("@", names=[it]))
        assert_raises(agent, errors.InvalidPath, lambda a, it=name: a.restore("@", except_=[it]))
    assert len(agent.timeline()) == 1


def test_what_is_not_listed_is_counted(agent: Namespace) -> None:
    agent.files.write_many([("changed", b"1"), ("gone-a", b"1"), ("gone-b", b"1")])
    agent.store.set("n", "k", 1)
    before = agent.snapshot()
    agent.files.write_many([("changed", b"2"), ("new", b"2")])
    agent.files.delete("gone-a")
    agent.files.delete("gone-b")
    agent.store.set("n", "k", 2)

    def counts(changes: Changes) -> list[int | None]:
        return [
            len(changes),
            changes.count(),
            changes.count("added"),
            changes.count("removed"),
            changes.count("changed"),
            changes.count("changed", plane=Plane.FILES),
            changes.count(plane=Plane.STORE),
        ]

    assert counts(agent.restore(before, dry_run=True, limit=2).changes) == [2, 5, 2, 1, 2, 1, 1]
    assert counts(agent.restore(before, limit=0).changes) == [0, 5, 2, 1, 2, 1, 1]
    assert counts(agent.undo(limit=1).changes) == [1, 5, 1, 2, 2, 1, 1]
    assert counts(agent.redo(limit=3).changes) == [3, 5, 2, 1, 2, 1, 1]
    assert counts(agent.undo(limit=None).changes) == [5, 5, 1, 2, 2, 1, 1]
    assert agent.diff(before, limit=2).count() is None
    assert agent.diff(before).count() == 5
    with pytest.raises(errors.Invalid):
        agent.undo(limit=-1)
    assert agent.files.read("new") == b"2"


def test_an_operation_in_the_middle_can_be_undone(agent: Namespace) -> None:
    agent.files.write("a", "1")
    first = agent.snapshot()
    agent.files.write("b", "1")
    second = agent.snapshot()
    agent.files.write("c", "1")
    agent.snapshot()
    undone = agent.undo(second)
    assert undone.changes.of("removed") == ["b"]
    assert [each.path for each in agent.files.list()] == ["a", "c"]
    assert agent.get_snapshot(first.id) == first


def test_the_past_can_be_read_where_it_is(agent: Namespace) -> None:
    agent.files.write("d/a", "then")
    agent.files.symlink("l", "d/a")
    agent.store.set("n", "k", "then")
    session = agent.sessions.create("helper", initial_state={"step": 1})
    turn = agent.sessions.add_turn(session.id, "hi", "hello")
    then = agent.at(agent.snapshot("then"))
    agent.files.delete("d", recursive=True)
    agent.files.delete("l")
    agent.store.clear()
    agent.sessions.update_state(session.id, {"step": 2})
    agent.sessions.add_turn(session.id, "more", "talk")
    assert then.snapshot.label == "then"
    assert then.files.read("d/a") == b"then"
    assert then.files.read_text("d/a") == "then"
    assert b"".join(then.files.stream("d/a")) == b"then"
    assert (then.files.exists("d"), then.files.exists("e")) == (True, False)
    assert then.files.stat("d/a").size_bytes == 4
    assert then.files.readlink("l") == "d/a"
    assert [each.path for each in then.files.list(recursive=True)] == ["d/a", "l"]
    assert then.store.get("n", "k") == "then"
    assert then.store.get_many([("n", "k")]) == ["then"]
    assert then.store.contains("n", "k")
    assert then.store.keys("n") == ["k"]
    assert then.store.items() == [(("n", "k"), "then")]
    assert then.store.max_key("n") == "k"
    assert then.store.namespaces() == ["n"]
    assert then.store.count() == 1
    assert then.sessions.get(session.id).state == {"step": 1}
    assert then.sessions.get_state(session.id).state == {"step": 1}
    assert [each.id for each in then.sessions.list()] == [session.id]
    assert [each.id for each in then.sessions.list_turns(session.id)] == [turn.id]
    assert agent.at("@").files.list(recursive=True) == then.files.list(recursive=True)


def test_two_moments_are_compared(door: Door) -> None:
    agent = door.agent
    agent.files.write_many([("a.txt", b"one\ntwo\n"), ("bin", b"\0\1"), ("same", b"")])
    agent.store.set("n", "k", 1)
    old = agent.snapshot()
    agent.files.write_many([("a.txt", b"one\n2\n"), ("bin", b"\0\2"), ("new", b"x")])
    agent.store.set("n", "k", 2)
    now = agent.diff()
    assert [(each.plane, each.name, each.change) for each in now] == [
        (Plane.FILES, "a.txt", "changed"),
        (Plane.FILES, "bin", "changed"),
        (Plane.FILES, "new", "added"),
        (Plane.STORE, "n/k", "changed"),
    ]
    assert (now.items[0].key, now.items[2].old_bytes, now.items[2].new_bytes) == (b"a.txt", None, 1)
    assert (now.items[0].old is not None) is door.sees_entries
    new = agent.snapshot()
    assert names(agent.diff(old, new)) == names(now)
    assert names(agent.diff(old)) == names(now)
    assert agent.diff(new, old).of("removed") == ["new"]
    assert len(agent.diff(old, new, planes=["store"])) == 1
    assert agent.diff(old, new, paths=["*.txt"]).of("changed") == ["a.txt"]
    some = agent.diff(old, new, limit=2)
    assert (len(some), some.truncated) == (2, True)
    assert len(agent.diff()) == 0
    text = agent.text_diff("a.txt", old, new)
    assert text.splitlines()[-3:] == [" one", "-two", "+2"]
    assert agent.text_diff("a.txt", old, new, context_lines=0).splitlines()[-2:] == ["-two", "+2"]
    assert agent.text_diff("same", old) == ""
    with pytest.raises(errors.PathNotFound):
        agent.text_diff("never there")
    both = agent.text_diffs(old, new, paths=["a.txt", "new"])
    assert [change.name for change, _ in both] == ["a.txt", "new"]
    assert both[0][1] == text
    assert [change.name for change, _ in agent.text_diffs(old, new)] == [
        "a.txt",
        "bin",
        "new",
        "n/k",
    ]


def test_what_happened_to_one_thing_is_told_alike(agent: Namespace) -> None:
    agent.files.write("dir/a.txt", "1")
    agent.store.set("n/m", "k", 1)
    agent.sessions.create("helper", session_id="ses-1")
    first = agent.snapshot("first", reason="because")
    agent.files.write("dir/a.txt", "22")
    agent.store.delete("n/m", "k")
    second = agent.snapshot("second")
    agent.files.write("new", "in no snapshot yet")
    names = [Name.file("dir"), "dir/a.txt", Name.value("n/m", "k"), Name.session("ses-1"), "new"]
    told = [
        [(step.change, step.snapshot and step.snapshot.id) for step in agent.history(name)]
        for name in names
    ]
    assert told == [
        [("changed", second.id), ("added", first.id)],
        [("changed", second.id), ("added", first.id)],
        [("removed", second.id), ("added", first.id)],
        [("added", first.id)],
        [("added", None)],
    ]
    newest = agent.history("dir/a.txt", limit=1)
    step = newest.steps[0]
    assert (step.old_bytes, step.new_bytes, step.previous, step.gone) == (1, 2, first.id, 0)
    oldest = agent.history("dir/a.txt", before=newest.before)
    assert [s.snapshot and s.snapshot.reason for s in oldest] == ["because"]
    assert (oldest.searched_to, oldest.before) == (1, None)
    assert list(agent.history("dir/a.txt", limit=0)) == []
    with pytest.raises(errors.InvalidPath):
        agent.history("../a")
    with pytest.raises(errors.InvalidValue):
        agent.history("a", limit=-1)


def test_a_timeline_tells_what_it_is_asked_and_finds_what_is_meant(door: Door) -> None:
    agent = door.agent
    first = agent.snapshot("first")
    for number in range(3):
        agent.files.write(f"src/{number}.py", "x")
    agent.store.set("n", "k", 1)
    with agent.task("Rewrite refunds"):
        agent.files.write("src/0.py", "y")
    done = agent.get_snapshot("latest")
    fork = door.new_agent(f"fork-{next(_NUMBERS)}").name
    assert fork is not None
    agent.fork(fork, at=done)
    rows = agent.timeline(with_=["changes", "task", "actor"])
    assert rows == agent.timeline()
    assert (rows.total, rows.before, rows.searched_to) == (len(rows), None, 1)
    newest, before, oldest = rows
    assert newest.task is not None
    assert (newest.task.name, newest.task.status) == ("Rewrite refunds", "completed")
    assert (newest.forks, oldest.forks) == ([fork], [])
    assert (newest.actor_name is not None) == door.is_remote
    assert newest.changes is not None
    assert newest.changes["files"] == {"added": 0, "removed": 0, "changed": 1}
    assert before.changes is not None
    assert [before.changes[plane]["added"] for plane in ("files", "store")] == [3, 1]
    assert agent.timeline(limit=1)[0].changes is None
    said = {"q": "REFUNDS rewrite", "kind": "snapshot", "path": "src/0.py"}
    assert agent.timeline(**said, task_status="completed") == [done, before]
    assert agent.timeline(**said, task_status="failed") == []
    assert agent.timeline(path="src", until=done.created_at, pinned=False) == [before]
    assert agent.timeline(limit=1, since=first.created_at) == [done]
    assert agent.timeline(actor="nobody at all") == []
    limited = agent.timeline(limit=2)
    assert (limited, limited.before) == ([done, before], before.number)
    assert agent.timeline(before=limited.before) == [first]
    for wrong in ({"kind": "other"}, {"with_": ["other"]}, {"task_status": "other"}, {"q": "a\0"}):
        with pytest.raises((errors.InvalidValue, errors.InvalidName)):
            agent.timeline(**wrong)
    cut = agent.diff(first, done, limit=1, counts=True)
    assert (len(cut), cut.summary(), cut.truncated) == (1, "4 added", True)
    assert agent.diff(first, done, limit=4, counts=True) == agent.diff(first, done)
    found = agent.diff_folders(first, done)
    assert [(each.path, each.added, each.removed, each.changed) for each in found.folders] == [
        ("src", 3, 0, 0)
    ]
    assert found.counts is not None
    assert (found.counts["store"]["added"], found.truncated) == (1, False)
    assert [each.path for each in agent.diff_folders(first, done, depth=0).folders] == [""]


def test_what_is_remembered_goes_back_with_all_the_rest(door: Door) -> None:
    agent = door.agent
    tea, car = agent.memory.add("likes green tea", tags=["drink"]), agent.memory.add("a red car")
    agent.files.write("a", "1")
    before = agent.snapshot()
    assert (before.size.entries, agent.size()) == (3, before.size)
    agent.memory.update(tea.id, content="likes black coffee")
    agent.memory.delete(car.id)
    new = agent.memory.add("made since")
    agent.files.write("a", "2")

    def contents() -> list[str]:
        return [memory.content for memory in agent.memory.list()]

    def found(query: str) -> list[str]:
        return [each.content for each in agent.memory.search(query)]

    wanted = sorted([(tea.id, "changed"), (car.id, "removed"), (new.id, "added")])
    told = agent.diff(before, planes=["memories"])
    assert sorted((each.name, each.change) for each in told) == wanted
    texts = {change.name: text for change, text in agent.text_diffs(before)}
    assert "-likes green tea" in texts[tea.id].splitlines()
    now = contents()
    seen = agent.restore(before, dry_run=True)
    assert seen.changes.count(plane=Plane.MEMORIES) == 3
    assert (seen.left_alone, contents()) == ([], now)
    agent.restore(before, planes=["files", "store", "sessions"])
    assert contents() == now
    (named,) = (each.named for each in seen.changes if each.name == car.id)
    assert named == Name.memory(car.id)
    agent.restore(before, names=[named])
    assert contents() == ["made since", "a red car", "likes black coffee"]
    done = agent.restore(before)
    assert (done.verified, contents()) == (True, ["a red car", "likes green tea"])
    assert (found("tea"), found("coffee"), found("since")) == (["likes green tea"], [], [])
    assert agent.memory.get(tea.id) == tea
    agent.undo()
    assert found("since") == ["made since"]
    agent.redo()
    fork = agent.fork(f"{agent.name}-fork")
    assert [memory.content for memory in fork.memory.list()] == contents()
    fork.memory.add("learnt in the fork")
    assert len(contents()) == 2
    merged = agent.merge(fork)
    assert merged.changes.of("added", Plane.MEMORIES)
    assert contents() == ["learnt in the fork", "a red car", "likes green tea"]


def names(changes: holdfast.Changes) -> list[tuple[str, str, str]]:
    return [(each.plane, each.name, each.change) for each in changes]


def test_snapshots_are_kept_called_and_taken_away(agent: Namespace) -> None:
    agent.files.write("a", "1")
    first, second = agent.snapshot("first"), agent.snapshot("second")
    pinned = agent.pin(first)
    assert (pinned.pinned, pinned.expires_at, pinned.id) == (True, None, first.id)
    assert (agent.unpin("@-1").pinned, agent.get_snapshot(first).pinned) == (False, False)
    assert agent.set_label(first.id, "called otherwise").label == "called otherwise"
    assert agent.set_label(first, None).label is None
    agent.files.write("a", "2")
    agent.snapshot("third")
    assert agent.delete_snapshot(second) is None
    assert [each.number for each in agent.timeline()] == [3, 1]
    assert_raises(
        agent,
        errors.SnapshotNotFound,
        lambda a: a.restore(second),
        snapshot_id=second.id,
    )


BAD_TIMELINE: list[tuple[type[errors.HoldfastError], Callable[[Namespace], Any]]] = [
    (errors.SnapshotNotFound, lambda a: a.get_snapshot(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.get_snapshot("@-9")),
    (errors.SnapshotNotFound, lambda a: a.get_snapshot("../../v1/me")),
    (errors.SnapshotNotFound, lambda a: a.get_snapshot("")),
    (errors.SnapshotNotFound, lambda a: a.restore(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.restore("no/../such")),
    (errors.SnapshotNotFound, lambda a: a.at(OFFLINE).files.list()),
    (errors.SnapshotNotFound, lambda a: a.at(OFFLINE).sessions.list()),
    (errors.SnapshotNotFound, lambda a: a.diff(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.pin(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.unpin(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.set_label(OFFLINE, "x")),
    (errors.SnapshotNotFound, lambda a: a.delete_snapshot(OFFLINE)),
    (errors.SnapshotNotFound, lambda a: a.undo(OFFLINE)),
    (errors.NothingToUndo, lambda a: a.redo()),
    (errors.InvalidName, lambda a: a.snapshot("x" * 129)),
    (errors.InvalidName, lambda a: a.snapshot("\0")),
    (errors.InvalidName, lambda a: a.set_label("@", "x" * 129)),
    (errors.InvalidValue, lambda a: a.snapshot(expires_in=timedelta(0))),
    (errors.InvalidValue, lambda a: a.timeline(limit=-1)),
    (errors.InvalidValue, lambda a: a.restore("@", planes=["files"], paths=["a"], limit=-1)),
    (errors.InvalidValue, lambda a: a.diff(planes=["no such plane"])),
    (errors.InvalidValue, lambda a: a.restore("@", planes=["no such plane"])),
    (errors.InvalidPath, lambda a: a.restore("@", paths=["../x"])),
    (errors.NameNotFound, lambda a: a.restore("@", paths=["x", "b*"])),
    (errors.NameNotFound, lambda a: a.restore("@", paths=["a/x"], dry_run=True)),
    (errors.InvalidValue, lambda a: a.health(window=timedelta(0))),
]


@pytest.mark.parametrize("number", range(len(BAD_TIMELINE)))
def test_what_is_wrong_with_snapshots_is_said_the_same_way(agent: Namespace, number: int) -> None:
    kind, do = BAD_TIMELINE[number]
    agent.files.write("a", "1")
    agent.snapshot()
    assert_raises(agent, kind, do)
    assert len(agent.timeline()) == 1


def test_who_expects_another_head_is_told_which_one_there_is(agent: Namespace) -> None:
    agent.files.write("a", "1")
    first = agent.snapshot()
    agent.files.write("a", "2")
    second = agent.snapshot(expected=first)
    found = assert_raises(agent, errors.HeadMoved, lambda a: a.snapshot(expected=first))
    assert isinstance(found, errors.HeadMoved)
    assert (found.expected, found.actual) == (first.id, second.id)
    assert_raises(agent, errors.HeadMoved, lambda a: a.restore(first, expected=first.id))
    assert_raises(agent, errors.HeadMoved, lambda a: a.store.snapshot(expected=first))
    assert agent.restore(first, expected=second).verified


# Forks, archives.


def test_an_undo_takes_a_redo_back_that_ran_over_what_was_not_captured(door: Door) -> None:
    agent = door.agent
    session = agent.sessions.create("agent", initial_state={"v": 1})
    agent.files.write("f", "1")
    agent.snapshot()
    agent.files.write("f", "2")
    agent.snapshot()
    agent.undo()
    agent.files.write("new", "not captured")
    agent.store.set("n", "new", "not captured")
    agent.sessions.update_state(session.id, {"v": 2})
    memory = agent.memory.add("not captured")

    def there() -> tuple[object, ...]:
        files = {each.path: agent.files.read(each.path) for each in agent.files.list()}
        state = agent.sessions.get(session.id).state
        return files, dict(agent.store.items()), state, [m.id for m in agent.memory.list()]

    before = there()
    agent.redo()
    assert there() == ({"f": b"2"}, {}, {"v": 1}, [])
    agent.undo()
    assert there() == before
    assert before[-1] == [memory.id]


def test_a_fork_goes_its_own_way_and_can_be_merged(door: Door) -> None:
    agent, name = door.agent, f"fork-{next(_NUMBERS)}"
    agent.files.write_many([("ours", b"0"), ("theirs", b"0")])
    base = agent.snapshot()
    agent.files.write("late", "1")
    fork = agent.fork(name, at=base)
    assert fork.name == name
    assert agent.name == door.agent.name
    assert [each.path for each in fork.files.list()] == ["ours", "theirs"]
    assert fork.timeline()[0].kind is Kind.FORK
    fork.files.write("theirs", "1")
    agent.files.write("ours", "1")
    merged = agent.merge(fork)
    assert (merged.snapshot.kind, merged.changes.of("changed")) == (Kind.MERGE, ["theirs"])
    assert (agent.files.read("ours"), agent.files.read("theirs")) == (b"1", b"1")
    fork.files.write("ours", "2")
    agent.files.write("ours", "3")
    found = assert_raises(agent, errors.MergeConflict, lambda a: a.merge(name))
    assert isinstance(found, errors.MergeConflict)
    assert found.conflicts == [("files", b"ours")]
    agent.merge(door.new_agent(name), prefer="theirs")
    assert agent.files.read("ours") == b"2"
    taken = assert_raises(agent, errors.NamespaceExists, lambda a: a.fork(name), name=name)
    assert name in str(taken)
    assert_raises(agent, errors.NamespaceNotFound, lambda a: a.merge("nobody"), name="nobody")
    assert_raises(agent, errors.InvalidName, lambda a: a.fork("x" * 200))
    assert_raises(agent, errors.SnapshotNotFound, lambda a: a.fork("other", at=OFFLINE))


def test_an_archive_carries_a_namespace_to_another(door: Door, tmp_path: Path) -> None:
    agent, told = door.agent, list[tuple[str, int, int]]()
    agent.files.write("a", os.urandom(300_000))
    agent.store.set("n", "k", b"v")
    session = agent.sessions.create("helper", initial_state={"step": 1})
    taken = agent.snapshot("carried")
    agent.files.write("a", "later")
    size = agent.export(
        tmp_path / "out.tar", snapshot=taken, progress=lambda *step: told.append(step)
    )
    assert size == door.exported(tmp_path / "out.tar", entries=3)
    assert all(0 <= done <= total for _, done, total in told)
    assert told
    other = door.new_agent(f"other-{next(_NUMBERS)}")
    other.files.write("there", "before")
    told.clear()
    done = other.import_(tmp_path / "out.tar", progress=lambda *step: told.append(step))
    assert (done.verified, done.snapshot.kind, done.snapshot.root) == (
        True,
        Kind.IMPORT,
        taken.root,
    )
    assert told
    assert (done.manifest.label, done.manifest.entries) == ("carried", 3)
    assert done.manifest.size == taken.size
    assert done.manifest.created_at == taken.created_at
    assert other.files.read("a") == agent.at(taken).files.read("a")
    assert other.store.get("n", "k") == b"v"
    assert other.sessions.get_state(session.id).state == {"step": 1}
    assert done.safety_id is not None
    other.undo()
    assert other.files.read("there") == b"before"
    (tmp_path / "bad.tar").write_bytes(b"no archive")
    assert_raises(other, errors.UnsafeArchive, lambda a: a.import_(tmp_path / "bad.tar"))
    assert_raises(other, errors.NotFound, lambda a: a.import_(tmp_path / "none.tar"))
    assert_raises(agent, errors.NotFound, lambda a: a.export(tmp_path / "no" / "out.tar"))
    assert_raises(agent, errors.InvalidValue, lambda a: a.export(tmp_path))
    assert_raises(
        agent,
        errors.SnapshotNotFound,
        lambda a: a.export(tmp_path / "none.tar", snapshot=OFFLINE),
    )
    assert not (tmp_path / "none.tar").exists()


def test_files_alone_become_exactly_what_is_brought(door: Door, tmp_path: Path) -> None:
    agent, told, folder = door.agent, list[tuple[str, int, int]](), tmp_path / "folder"
    agent.files.write("a", os.urandom(300_000), mode=0o755)
    agent.files.mkdir("empty")
    taken = agent.snapshot("carried")
    size = agent.export_files(
        tmp_path / "out.tar", snapshot=taken, progress=lambda *step: told.append(step)
    )
    assert size == door.exported(tmp_path / "out.tar", entries=2)
    other = door.new_agent(f"other-{next(_NUMBERS)}")
    other.files.write("there", "before")
    other.store.set("n", "k", b"v")
    done = other.import_files(tmp_path / "out.tar", progress=lambda *step: told.append(step))
    assert (done.verified, done.snapshot.kind, done.entries) == (True, Kind.IMPORT, 2)
    assert done.content_bytes == 300_000
    assert other.files.stat("a") == agent.files.stat("a")
    assert other.files.read("a") == agent.files.read("a")
    assert [info.path for info in other.files.list()] == ["a", "empty"]
    assert other.store.get("n", "k") == b"v"
    assert done.safety_id is not None
    other.undo()
    assert other.files.read("there") == b"before"
    folder.mkdir()
    (folder / "b").write_text("of a folder")
    (folder / "c").hardlink_to(folder / "b")
    told.clear()
    done = other.import_files(folder, progress=lambda *step: told.append(step))
    assert told
    assert (done.verified, done.entries, done.content_bytes) == (True, 2, 22)
    assert [other.files.read(info.path) for info in other.files.list()] == [b"of a folder"] * 2
    (tmp_path / "bad.tar").write_bytes(b"no archive")
    assert_raises(other, errors.UnsafeArchive, lambda a: a.import_files(tmp_path / "bad.tar"))
    assert_raises(other, errors.NotFound, lambda a: a.import_files(tmp_path / "none.tar"))
    with holdfast.open(tmp_path / "inner"):
        assert_raises(other, errors.DirectoryRefused, lambda a: a.import_files(tmp_path / "inner"))
    assert_raises(agent, errors.InvalidValue, lambda a: a.export_files(tmp_path))
    plain = assert_raises(other, errors.UnsafeArchive, lambda a: a.import_(tmp_path / "out.tar"))
    assert "import_files" in plain.hint


# Sessions.


def test_a_session_says_what_it_is(door: Door) -> None:
    sessions = door.agent.sessions
    made = sessions.create(
        "helper",
        initial_state={"step": 1, "ü": [None, 1.5]},
        user_id="ada",
        metadata={"plan": "free"},
        session_id="mine-1",
    )
    assert (made.id, made.agent_id, made.user_id) == ("mine-1", "helper", "ada")
    assert (made.state, made.metadata) == ({"step": 1, "ü": [None, 1.5]}, {"plan": "free"})
    assert (made.version, made.turn_count, made.memory_count) == (0, 0, 0)
    assert (made.forked_from, made.forked_version) == (None, None)
    assert is_now(made.created_at)
    assert made.expires_at is None, "it stays until somebody ends it"
    assert sessions.get("mine-1") == made
    changed = sessions.update("mine-1", metadata={"plan": "pro"}, ttl_seconds=3600)
    assert (changed.metadata, changed.version) == ({"plan": "pro"}, 0)
    assert changed.expires_at is not None
    assert abs(changed.expires_at - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=2)
    assert sessions.delete("mine-1", reason="done") is None
    assert_raises(
        door.agent,
        errors.SessionNotFound,
        lambda a: a.sessions.get("mine-1"),
        session_id="mine-1",
    )


def test_a_restore_brings_back_the_sessions_of_a_snapshot_and_no_others(agent: Namespace) -> None:
    short = agent.sessions.create("helper", initial_state={"n": 1}, ttl_seconds=1)
    kept = agent.sessions.create("helper")
    then = agent.snapshot("both")
    late = agent.sessions.create("helper")
    turn = agent.sessions.add_turn(late.id, "i", "o")
    wait_until_gone(agent, short.id)
    agent.restore(then)
    back = agent.sessions.get(short.id)
    assert back.state == {"n": 1}
    assert back.expires_at is not None
    assert {each.id for each in agent.sessions.list()} >= {kept.id}
    for do in (
        lambda a: a.sessions.get(late.id),
        lambda a: a.sessions.get_state(late.id),
        lambda a: a.sessions.get_state(late.id, version=0),
        lambda a: a.sessions.history(late.id),
        lambda a: a.sessions.list_turns(late.id),
        lambda a: a.sessions.get_turn(late.id, turn.id),
        lambda a: a.sessions.update_state(late.id, {"n": 2}),
        lambda a: a.sessions.add_turn(late.id, "i", "o"),
    ):
        assert_raises(agent, errors.SessionNotFound, do)
    agent.undo()
    assert agent.sessions.get(late.id).turn_count == 1


def wait_until_gone(agent: Namespace, session_id: str) -> None:
    """Asks for a session until its second is over."""
    end = datetime.now(UTC) + timedelta(minutes=1)
    while datetime.now(UTC) < end:
        try:
            agent.sessions.get(session_id)
        except errors.SessionNotFound:
            return
    raise AssertionError


def test_sessions_are_listed_newest_first_by_what_is_known_of_them(agent: Namespace) -> None:
    made = agent.sessions.create("stateful", initial_state={"a": 1})
    assert [each.state for each in agent.sessions.list()] == [{"a": 1}]
    assert [each.state for each in agent.sessions.list(include_state=False)] == [{}]
    agent.sessions.delete(made.id)
    sessions = agent.sessions
    made = [
        sessions.create(f"agent-{n % 2}", user_id=f"user-{n}", metadata={"n": n}) for n in range(5)
    ]
    ids = [each.id for each in reversed(made)]
    assert [each.id for each in sessions.list()] == ids
    assert [each.id for each in sessions.list(limit=2)] == ids[:2]
    assert [each.id for each in sessions.list(starting_after=ids[1], limit=None)] == ids[2:]
    assert [each.id for each in sessions.list(agent_id="agent-1")] == [ids[1], ids[3]]
    assert [each.id for each in sessions.list(user_id="user-4")] == ids[:1]
    assert [each.id for each in sessions.list(metadata={"n": 0})] == ids[4:]
    after = sessions.list(created_after=made[3].created_at)
    assert ids[0] in [each.id for each in after]
    assert made[0].id not in [each.id for each in after]
    assert sessions.list(created_before=made[0].created_at - timedelta(days=1)) == []
    assert sessions.list(limit=0) == []


def test_every_change_of_a_state_is_a_version(door: Door) -> None:
    sessions = door.agent.sessions
    session = sessions.create("helper", initial_state={"step": 1})
    one = sessions.update_state(session.id, {"place": "NYC"}, reasoning="told")
    assert (one.session_id, one.version, one.state) == (session.id, 1, {"step": 1, "place": "NYC"})
    assert one.trace_id is not None
    assert one.created_at == session.created_at
    two = sessions.replace_state(session.id, {"all": "new"}, reasoning="anew", expected_version=1)
    assert (two.version, two.state) == (2, {"all": "new"})
    back = sessions.rollback(session.id, 1, reason="wrong", expected_version=2)
    assert (back.version, back.state) == (3, one.state)
    assert sessions.rollback(session.id, -1).state == two.state
    assert sessions.get_state(session.id).version == 4
    assert sessions.get_state(session.id, version=0).state == {"step": 1}
    assert sessions.get_state(session.id, version=-2).version == 2
    history = sessions.history(session.id)
    assert [each.number for each in history] == [0, 1, 2, 3, 4]
    assert [each.kind for each in history] == [
        VersionKind.CREATED,
        VersionKind.UPDATED,
        VersionKind.REPLACED,
        VersionKind.ROLLBACK,
        VersionKind.ROLLBACK,
    ]
    assert (history[1].reasoning, history[3].target, history[1].state) == ("told", 1, one.state)
    assert (history[1].trace_id, history[1].turn_count) == (one.trace_id, 0)
    assert (history[1].actor is None) is (door.actor is None)
    some = sessions.history(session.id, since_version=1, limit=2, include_state=False)
    assert [(each.number, each.state) for each in some] == [(2, None), (3, None)]
    difference = sessions.diff(session.id, 0, 1)
    assert difference.patch == [{"op": "add", "path": "/place", "value": "NYC"}]
    assert "place" in difference.text


def test_turns_are_what_was_said(agent: Namespace) -> None:
    sessions = agent.sessions
    session = sessions.create("helper", initial_state={"n": 0})
    first = sessions.add_turn(
        session.id, "Hello", {"type": "text", "content": "Hi"}, metadata={"m": 1}, reasoning="r"
    )
    assert (first.number, first.session_id, first.metadata, first.reasoning) == (
        1,
        session.id,
        {"m": 1},
        "r",
    )
    assert (first.input["content"], first.output["content"]) == ("Hello", "Hi")
    assert (first.version_before, first.version_after) == (0, 0)
    second = sessions.add_turn(
        session.id, "Go", "Gone", state_before={"n": 0}, state_after={"n": 1}
    )
    assert (second.version_before, second.version_after) == (0, 1)
    shown = sessions.get_turn(session.id, second.id, include_state=True)
    assert (shown.state_before, shown.state_after) == ({"n": 0}, {"n": 1})
    third = sessions.add_tool_call(
        session.id, "weather", arguments={"city": "SF"}, output={"c": 17}, call_id="c-1"
    )
    assert (third.input["type"], third.output["type"]) == ("tool_call", "tool_response")
    assert third.input["tool_metadata"]["arguments"] == {"city": "SF"}
    assert third.output["output"] == {"c": 17}
    listed = sessions.list_turns(session.id)
    assert [each.id for each in listed] == [third.id, second.id, first.id]
    oldest = sessions.list_turns(session.id, order="asc", limit=1, include_state=True)
    assert (oldest[0].id, oldest[0].state_after) == (first.id, {"n": 0})
    rest = sessions.list_turns(session.id, starting_after=third.id)
    assert [each.id for each in rest] == [second.id, first.id]
    sessions.rollback(session.id, 0, conversation=True)
    assert sessions.list_turns(session.id) == []
    assert_raises(
        agent,
        errors.TurnNotFound,
        lambda a: a.sessions.get_turn(session.id, third.id),
        turn_id=third.id,
    )


def test_a_fork_of_a_session_goes_on_from_a_version(agent: Namespace) -> None:
    sessions = agent.sessions
    session = sessions.create("helper", initial_state={"n": 0}, user_id="ada")
    sessions.add_turn(session.id, "a", "b")
    sessions.update_state(session.id, {"n": 1})
    fork = sessions.fork(
        session.id, 0, agent_id="other", include_turns=True, metadata={"try": 2}, ttl_seconds=99
    )
    assert (fork.state, fork.agent_id, fork.user_id) == ({"n": 0}, "other", "ada")
    assert (fork.forked_from, fork.forked_version, fork.version) == (session.id, 0, 0)
    assert fork.metadata == {"try": 2, "forked_from": session.id, "forked_version": 0}
    again = sessions.fork(fork.id)
    lineage = sessions.lineage(fork.id)
    assert (lineage.session_id, lineage.forked_from, lineage.forked_version) == (
        fork.id,
        session.id,
        0,
    )
    assert (lineage.ancestors, [each.session_id for each in lineage.forks]) == (
        [session.id],
        [again.id],
    )
    assert sessions.lineage(session.id).forks[0].forks[0].session_id == again.id


def test_a_context_is_what_an_agent_needs_to_go_on(agent: Namespace) -> None:
    session = agent.sessions.create("helper", initial_state={"n": 0})
    made = agent.memory.add("prefers aisle seats", session_id=session.id, tags=["seat"])
    turn = agent.sessions.add_turn(session.id, "a", "b")
    context = agent.sessions.get_context(session.id, "aisle seats", memory_limit=2, turn_limit=1)
    assert (context.state, [each.id for each in context.recent_turns]) == ({"n": 0}, [turn.id])
    assert [each.memory for each in context.memories] == [made]
    assert context.memories[0].score > 0
    assert context.drift_warning is False
    assert 0 < context.average_relevance <= 1
    plain = agent.sessions.get_context(session.id)
    assert len(plain.memories) == 1


BAD_SESSIONS: list[tuple[type[errors.HoldfastError], dict[str, Any], Callable[[Namespace], Any]]]
BAD_SESSIONS = [
    (errors.SessionNotFound, {"session_id": "no"}, lambda a: a.sessions.get("no")),
    (errors.SessionNotFound, {"session_id": ".."}, lambda a: a.sessions.get("..")),
    (errors.SessionNotFound, {"session_id": ""}, lambda a: a.sessions.delete("")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.update("no", metadata={})),
    (errors.SessionNotFound, {}, lambda a: a.sessions.delete("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.fork("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.lineage("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.get_state("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.update_state("no", {})),
    (errors.SessionNotFound, {}, lambda a: a.sessions.replace_state("no", {})),
    (errors.SessionNotFound, {}, lambda a: a.sessions.history("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.diff("no", 0, 1)),
    (errors.SessionNotFound, {}, lambda a: a.sessions.rollback("no", 0)),
    (errors.SessionNotFound, {}, lambda a: a.sessions.add_turn("no", "a", "b")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.add_tool_call("no", "a")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.list_turns("no")),
    (errors.SessionNotFound, {}, lambda a: a.sessions.get_context("no")),
    (errors.SessionExists, {"session_id": "s"}, lambda a: a.sessions.create("x", session_id="s")),
    (
        errors.VersionNotFound,
        {"session_id": "s", "version": 9},
        lambda a: a.sessions.rollback("s", 9),
    ),
    (errors.VersionNotFound, {"version": 9}, lambda a: a.sessions.get_state("s", version=9)),
    (errors.VersionNotFound, {"version": 9}, lambda a: a.sessions.fork("s", 9)),
    (errors.VersionNotFound, {}, lambda a: a.sessions.diff("s", 0, 9)),
    (errors.TurnNotFound, {"turn_id": "t"}, lambda a: a.sessions.get_turn("s", "t")),
    (
        errors.StateMoved,
        {"session_id": "s", "expected": 5, "actual": 0},
        lambda a: a.sessions.update_state("s", {}, expected_version=5),
    ),
    (errors.StateMoved, {}, lambda a: a.sessions.replace_state("s", {}, expected_version=5)),
    (errors.StateMoved, {}, lambda a: a.sessions.rollback("s", 0, expected_version=5)),
    (
        errors.ConversationMoved,
        {"session_id": "s", "expected": 3, "actual": 0},
        lambda a: a.sessions.rollback("s", 0, expected_turns=3),
    ),
    (errors.InvalidName, {}, lambda a: a.sessions.create("x", session_id="a/b")),
    (errors.InvalidValue, {}, lambda a: a.sessions.create("x", ttl_seconds=0)),
    (errors.InvalidValue, {}, lambda a: a.sessions.list_turns("s", order="sideways")),
    (errors.InvalidValue, {}, lambda a: a.sessions.list(limit=-1)),
]


@pytest.mark.parametrize("number", range(len(BAD_SESSIONS)))
def test_what_is_wrong_with_sessions_is_said_the_same_way(agent: Namespace, number: int) -> None:
    kind, carried, do = BAD_SESSIONS[number]
    agent.sessions.create("x", session_id="s")
    assert_raises(agent, kind, do, **carried)
    assert [(each.id, each.version) for each in agent.sessions.list()] == [("s", 0)]


# Memories, entities, traces.


def test_memories_are_added_found_changed_and_forgotten(agent: Namespace) -> None:
    session = agent.sessions.create("helper", user_id="ada")
    made = agent.memory.add(
        "prefers aisle seats",
        type="preference",
        session_id=session.id,
        tags=["seat", "flight"],
        metadata={"source": "chat"},
    )
    assert (made.content, made.type, made.tags) == (
        "prefers aisle seats",
        "preference",
        ("seat", "flight"),
    )
    assert (made.session_id, made.user_id, made.agent_id) == (session.id, "ada", "helper")
    assert (made.metadata, made.version, made.is_searchable) == ({"source": "chat"}, 1, True)
    assert is_now(made.created_at)
    hidden = agent.memory.add("aisle of a church", embed=False, user_id="bob", agent_id="other")
    assert (hidden.is_searchable, hidden.session_id, hidden.user_id) == (False, None, "bob")
    assert agent.memory.get(made.id) == made
    (found,) = agent.memory.search("aisle seats", limit=3)
    assert found.memory == made
    assert 0.7 <= found.score <= 1
    assert agent.memory.search("quantum physics", threshold=0.9) == []
    assert agent.memory.search("aisle seats", types=[]) == agent.memory.list(tags=[]) == []
    assert agent.memory.search("aisle seats", tags=["other"]) == []
    assert agent.memory.search(
        "aisle seats", types=["preference"], scope="session", session_id=session.id, user_id="ada"
    ) == [found]
    assert [each.id for each in agent.memory.list()] == [hidden.id, made.id]
    assert [each.id for each in agent.memory.list(limit=1)] == [hidden.id]
    assert [each.id for each in agent.memory.list(starting_after=hidden.id)] == [made.id]
    assert agent.memory.list(types=["preference"], tags=["seat"]) == [made]
    assert agent.memory.list(session_id=session.id, scope="session") == [made]
    assert agent.memory.list(user_id="bob", agent_id="other") == [hidden]
    changed = agent.memory.update(
        made.id, content="prefers windows", type="general", tags=["x"], metadata={"more": 1}
    )
    assert (changed.content, changed.type, changed.tags) == ("prefers windows", "general", ("x",))
    assert (changed.metadata, changed.version) == ({"source": "chat", "more": 1}, 2)
    assert agent.memory.delete(made.id) is None
    assert_raises(agent, errors.MemoryNotFound, lambda a: a.memory.get(made.id), memory_id=made.id)


def test_entities_are_what_a_session_knows_of_things(agent: Namespace) -> None:
    session = agent.sessions.create("helper")
    made = agent.entities.create(
        session.id, entity_type="order", entity_id="o-1", attributes={"total": 9}
    )
    assert (made.session_id, made.entity_type, made.entity_id) == (session.id, "order", "o-1")
    assert (made.attributes, made.version) == ({"total": 9}, 1)
    bare = agent.entities.create(session.id, entity_type="file", entity_id="o-1")
    assert bare.attributes == {}
    assert agent.entities.get(made.id) == made
    assert agent.entities.list() == [bare, made]
    assert agent.entities.list(session_id=session.id, entity_type="order", limit=5) == [made]
    assert agent.entities.list(starting_after=bare.id) == [made]
    changed = agent.entities.update(made.id, {"total": 10})
    assert (changed.attributes, changed.version) == ({"total": 10}, 2)
    assert_raises(
        agent,
        errors.EntityExists,
        lambda a: a.entities.create(session.id, entity_type="order", entity_id="o-1"),
        entity_type="order",
        entity_id="o-1",
    )
    assert agent.entities.delete(made.id) is None
    assert_raises(
        agent, errors.EntityNotFound, lambda a: a.entities.get(made.id), entity_id=made.id
    )


def test_memories_are_read_as_a_snapshot_holds_them(agent: Namespace) -> None:
    made = [agent.memory.add(f"memory {number}", tags=[f"{number % 2}"]) for number in range(5)]
    then = agent.at(agent.snapshot("then"))
    agent.memory.update(made[0].id, content="changed since")
    agent.memory.delete(made[1].id)
    later = agent.memory.add("later")
    assert then.memory.list() == made[::-1]
    assert then.memory.list(limit=2, starting_after=made[3].id) == [made[2], made[1]]
    assert then.memory.list(tags=["1"]) == [made[3], made[1]]
    assert then.memory.get(made[0].id) == made[0]
    gone = later.id
    assert_raises(agent, errors.MemoryNotFound, lambda _: then.memory.get(gone), memory_id=gone)
    assert_raises(agent, errors.InvalidValue, lambda _: then.memory.list(scope="global"))


def test_traces_tell_what_happened(door: Door) -> None:
    agent = door.agent
    session = agent.sessions.create("helper", user_id="ada")
    mine = agent.traces.add(
        "tool.called",
        session_id=session.id,
        user_id="ada",
        agent_id="helper",
        resource_type="tool",
        resource_id="weather",
        details={"city": "SF"},
    )
    assert (mine.action, mine.session_id, mine.details) == (
        "tool.called",
        session.id,
        {"city": "SF"},
    )
    assert (mine.resource_type, mine.resource_id, mine.is_redacted) == ("tool", "weather", False)
    assert (mine.namespace, mine.user_id, mine.agent_id) == (agent.name, "ada", "helper")
    assert len(mine.hash) == 64
    assert (mine.actor is None) is (door.actor is None)
    assert agent.traces.get(mine.id) == mine
    assert [each.action for each in agent.traces.list()] == ["tool.called", "session.created"]
    assert agent.traces.list(limit=1) == [mine]
    assert [each.action for each in agent.traces.list(starting_after=mine.id)] == [
        "session.created"
    ]
    for given in (
        {"action": "tool.called"},
        {"resource_type": "tool", "resource_id": "weather"},
        {"session_id": session.id, "user_id": "ada", "agent_id": "helper", "action": "tool.called"},
        {"after": mine.created_at},
    ):
        assert agent.traces.list(**given)[0] == mine, given
    assert agent.traces.list(before=mine.created_at - timedelta(days=1)) == []
    assert agent.traces.list(actor="nobody") == []
    assert_raises(agent, errors.TraceNotFound, lambda a: a.traces.get("no"), trace_id="no")
    assert_raises(agent, errors.InvalidValue, lambda a: a.traces.list(limit=-1))


def test_traces_name_the_task_that_they_were_left_in(door: Door) -> None:
    agent = door.agent
    agent.memory.add("in none")
    with agent.task("outer") as outer:
        agent.memory.add("tea")
        with agent.task("inner") as inner:
            agent.traces.add("tool.called")
    assert mine(agent, outer.id) == [
        "task.completed",
        "snapshot.taken",
        "memory.created",
        "task.started",
        "snapshot.taken",
    ]
    assert "tool.called" in mine(agent, inner.id)
    (made,) = agent.traces.list(task_id=outer.id, action="memory.created")
    assert (made.task_id, agent.traces.get(made.id)) == (outer.id, made)
    assert agent.traces.list(action="memory.created")[-1].task_id is None
    assert agent.traces.list(task_id="task-nobody") == []


def mine(agent: Any, task_id: str) -> list[str]:
    """Returns what the traces of a task say that was done, newest first."""
    return [each.action for each in agent.traces.list(task_id=task_id)]


LISTS: list[Callable[[Namespace, int], Any]] = [
    lambda a, limit: a.timeline(limit=limit),
    lambda a, limit: a.diff(limit=limit).items,
    lambda a, limit: a.files.list(limit=limit),
    lambda a, limit: a.store.keys("n", limit=limit),
    lambda a, limit: a.sessions.list(limit=limit),
    lambda a, limit: a.sessions.history("s0", limit=limit),
    lambda a, limit: a.sessions.list_turns("s0", limit=limit),
    lambda a, limit: a.sessions.get_context("s0", memory_limit=limit, turn_limit=0).memories,
    lambda a, limit: a.sessions.get_context("s0", turn_limit=limit).recent_turns,
    lambda a, limit: a.memory.list(limit=limit),
    lambda a, limit: a.memory.search("memory", threshold=0.0, limit=limit),
    lambda a, limit: a.entities.list(limit=limit),
    lambda a, limit: a.tasks.list(limit=limit),
]


@pytest.mark.parametrize("number", range(len(LISTS)))
def test_a_limit_is_any_number_from_none_on(agent: Namespace, number: int) -> None:
    for n in range(3):
        agent.sessions.create("x", session_id=f"s{n}")
        agent.files.write(f"f{n}", "")
        agent.store.set("n", f"k{n}", n)
        agent.sessions.update_state("s0", {"n": n})
        agent.sessions.add_turn("s0", "a", "b")
        agent.memory.add(f"memory {n}", session_id="s0")
        agent.entities.create("s0", entity_type="t", entity_id=f"i{n}")
        agent.tasks.complete(agent.tasks.start(f"t{n}").id)
    for n in range(3):
        agent.files.write(f"f{n}", "changed")
    ask = LISTS[number]
    assert len(ask(agent, 0)) == 0
    assert len(ask(agent, 2)) == 2
    assert len(ask(agent, 3000)) >= 3
    assert_raises(agent, errors.InvalidValue, lambda a: ask(a, -1))


NO_JSON: list[Any] = [
    float("nan"),
    float("inf"),
    b"bytes",
    {1: "a key that is no text"},
    {1, 2},
    (1, 2),
    object(),
    2**70,
    "\ud800",
    datetime(2026, 1, 1, tzinfo=UTC),
]
HOLDERS: dict[str, Callable[[Namespace, Any], Any]] = {
    "update_state": lambda a, v: a.sessions.update_state("s", {"v": v}).state["v"],
    "replace_state": lambda a, v: a.sessions.replace_state("s", {"v": v}).state["v"],
    "add_turn": lambda a, v: a.sessions.add_turn("s", {"v": v}, "b").input["v"],
    "add_tool_call": lambda a, v: a.sessions.add_tool_call("s", "t", output=v).output["output"],
    "update": lambda a, v: a.sessions.update("s", metadata={"v": v}).metadata["v"],
    "memory": lambda a, v: a.memory.add("m", metadata={"v": v}).metadata["v"],
    "entity": lambda a, v: a.entities.create(
        "s", entity_type="t", entity_id="i", attributes={"v": v}
    ).attributes["v"],
    "trace": lambda a, v: a.traces.add("x.y", details={"v": v}).details["v"],
}


def outcome(do: Callable[[], Any]) -> str:
    try:
        return repr(do())
    except errors.HoldfastError as exc:
        return type(exc).__name__


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_no_json_comes_to_the_same(door: Door, tmp_path: Path, holder: str) -> None:
    with holdfast.open(tmp_path / "model") as vault:
        model = vault.namespace("model")
        for agent in (model, door.agent):
            agent.sessions.create("x", session_id="s")
        for value in NO_JSON:
            wanted = outcome(lambda value=value: HOLDERS[holder](model, value))
            found = outcome(lambda value=value: HOLDERS[holder](door.agent, value))
            assert found == wanted, repr(value)


def test_an_instant_without_a_zone_is_refused(agent: Namespace) -> None:
    agent.sessions.create("helper")
    nowhere = datetime(2026, 1, 1)  # noqa: DTZ001 - that is what is refused
    for do in (
        lambda a: a.files.write("a", b"", modified_at=nowhere),
        lambda a: a.sessions.list(created_after=nowhere),
        lambda a: a.traces.list(before=nowhere),
    ):
        assert_raises(agent, errors.InvalidValue, do)


WRONG_CHOICES: dict[str, Callable[[Any], object]] = {
    "restore": lambda a: a.restore("latest", keep="theirs"),
    "merge": lambda a: a.merge("other", prefer="me"),
    "list_turns": lambda a: a.sessions.list_turns("s", order="up"),
}


def test_a_choice_that_is_none_of_those_there_are_is_refused(agent: Namespace) -> None:
    agent.sessions.create("helper", session_id="s")
    agent.files.write("a", "kept")
    agent.snapshot()
    with agent.task("change"):
        agent.files.write("a", "changed by a task")
    for do in WRONG_CHOICES.values():
        found = assert_raises(agent, errors.InvalidValue, do)
        assert " is '" in str(found), "it says what there is to choose from"
    assert agent.files.read("a") == b"changed by a task"


CURSORED: dict[str, Callable[[Any], Any]] = {
    "sessions": lambda a: a.sessions.list,
    "turns": lambda a: lambda **more: a.sessions.list_turns("s", **more),
    "memories": lambda a: a.memory.list,
    "entities": lambda a: a.entities.list,
    "tasks": lambda a: a.tasks.list,
    "traces": lambda a: a.traces.list,
}


def test_every_list_can_be_asked_for_whole_and_goes_on_behind_what_it_showed(
    agent: Namespace,
) -> None:
    agent.sessions.create("helper", session_id="s")
    agent.sessions.create("helper", session_id="t")
    for number in range(25):
        agent.memory.add(f"number {number}")
        agent.entities.create("s", entity_type="order", entity_id=str(number))
    for _ in range(2):
        agent.sessions.add_turn("s", "i", "o")
        agent.tasks.start("tidy")
    for name, find in CURSORED.items():
        listing = find(agent)
        whole = listing(limit=None)
        assert len(whole) >= 2, name
        assert listing(limit=1000) == whole, name
        assert listing(limit=None, starting_after=whole[0].id) == whole[1:], name
        for wrong in ({"limit": -1}, {"limit": "all"}, {"starting_after": "nope"}):
            found = assert_raises(
                agent, errors.InvalidValue, lambda _, do=listing, wrong=wrong: do(**wrong)
            )
            assert "".join(wrong) in str(found), (name, wrong)
    assert (len(agent.memory.list(limit=None)), len(agent.entities.list(limit=None))) == (25, 25)


def test_arguments_that_do_not_fit_are_told_as_those_of_the_method(agent: Any) -> None:
    for do, name in (
        (lambda: agent.sessions.create("a", foo=1), "Sessions.create"),
        (agent.sessions.create, "Sessions.create"),
        (lambda: agent.memory.add("a", "b"), "Memories.add"),
        (lambda: agent.diff(foo=1), "diff"),
    ):
        with pytest.raises(TypeError) as caught:
            do()
        assert name + "() " in str(caught.value)
        assert "__init__" not in str(caught.value)


def test_what_is_wrong_inside_of_an_argument_is_refused(agent: Any) -> None:
    agent.memory.add("blue cars")
    for do in (
        lambda a: a.memory.add("x", tags=["fine", 1]),
        lambda a: a.memory.list(types=[None]),
        lambda a: a.memory.search("blue", threshold=float("nan")),
        lambda a: a.memory.search("blue", threshold=1.5),
        lambda a: a.task(5),
        lambda a: a.task(""),
        lambda a: a.task("t", rollback_on_failure="yes"),
    ):
        assert_raises(agent, errors.InvalidValue, do)
    assert [each.content for each in agent.memory.list()] == ["blue cars"]


# Tasks, schedules, health.


def test_a_task_outlives_the_call_that_began_it(door: Door) -> None:
    agent = door.agent
    agent.files.write("a", "before")
    run = agent.tasks.start("tidy", rollback_on_failure=True, metadata={"n": 1})
    assert (run.name, run.status, run.rolls_back) == ("tidy", TaskStatus.RUNNING, True)
    assert run.metadata == '{"n":1}'
    assert (run.after, run.restored, run.ended_at, run.reason) == (None, None, None, None)
    assert is_now(run.started_at)
    assert run.namespace == agent.status().namespace == agent.name
    assert agent.at(run.before).files.read("a") == b"before"
    agent.files.write("a", "after")
    done = agent.tasks.complete(run.id, reason="all is tidy")
    assert (done.status, done.reason) == (TaskStatus.COMPLETED, "all is tidy")
    assert agent.get_snapshot(done.after or "").label == "tidy"
    other = agent.tasks.start("wild")
    agent.files.write("a", "wild")
    failed = agent.tasks.fail(other.id, error="it broke", rollback=True)
    assert (failed.status, failed.restored is not None) == (TaskStatus.FAILED, True)
    assert agent.files.read("a") == b"after"
    assert agent.tasks.get(other.id) == failed
    assert agent.tasks.list() == [failed, done]
    assert agent.tasks.list(status="completed", limit=5) == [done]
    assert agent.tasks.list(starting_after=other.id) == [done]
    assert agent.tasks.complete(run.id) == done, "said again, it is the same"
    assert_raises(
        agent,
        errors.TaskEnded,
        lambda a: a.tasks.fail(run.id),
        task_id=run.id,
        status="completed",
    )
    assert_raises(agent, errors.TaskNotFound, lambda a: a.tasks.get("no"), task_id="no")
    assert_raises(agent, errors.InvalidValue, lambda a: a.tasks.list(status="no such"))


def test_a_task_as_a_context(door: Door) -> None:
    agent = door.agent
    with agent.task("write it down") as task:
        agent.files.write("a", "1")
    assert (task.name, task.rolled_back) == ("write it down", None)
    assert task.after is not None
    assert (task.after.label, task.after.task_id) == ("write it down", task.id)
    assert agent.at(task.before).files.list() == []
    with (
        pytest.raises(ZeroDivisionError),
        agent.task("break it", rollback_on_failure=True) as broken,
    ):
        write_and_raise(agent, "2", ZeroDivisionError())
    assert agent.files.read("a") == b"1"
    back = door.came_back(broken.rolled_back)
    assert (back.kind, back.target) == (Kind.RESTORE, broken.before.id)
    assert broken.after is not None
    assert agent.at(broken.after).files.read("a") == b"2", "the attempt is kept"
    assert "ZeroDivisionError" in (broken.after.reason or "")
    with pytest.raises(KeyError), agent.task("leave it"):
        write_and_raise(agent, "3", KeyError())
    assert agent.files.read("a") == b"3"


def write_and_raise(agent: Namespace, text: str, error: Exception) -> None:
    agent.files.write("a", text)
    raise error


def test_tasks_can_be_within_each_other(agent: Namespace) -> None:
    tasks = agent.task("again")
    with tasks as outer:
        agent.files.write("a", "1")
        with tasks as inner:
            agent.files.write("b", "1")
    assert outer.id != inner.id
    assert outer.after is not None
    assert inner.after is not None
    assert inner.after.number < outer.after.number


def test_a_task_may_end_in_another_context_than_it_began_in(agent: Namespace) -> None:
    tasks = agent.task("elsewhere")
    task = contextvars.copy_context().run(tasks.__enter__)
    agent.files.write("a", "1")
    tasks.__exit__(None, None, None)
    assert task.after is not None
    assert agent.at(task.after).files.exists("a")


def test_a_task_around_a_function(agent: Namespace) -> None:
    def work(amount: int) -> int:
        agent.files.write("a", str(amount))
        if amount < 0:
            raise ValueError(amount)
        return amount + 1

    decorated = agent.task("work", rollback_on_failure=True)(work)
    assert decorated(1) == 2
    with pytest.raises(ValueError, match="-1"):
        decorated(-1)
    assert agent.files.read("a") == b"1"
    assert [each.label for each in agent.timeline() if each.kind is Kind.SNAPSHOT][:3] == [
        "work",
        "work",
        "before work",
    ]


def test_a_function_is_checkpointed_under_its_own_name_or_another(agent: Namespace) -> None:
    def tidy(amount: int) -> int:
        agent.files.write("a", str(amount))
        if amount < 0:
            raise ValueError(amount)
        return amount + 1

    assert agent.checkpointed(tidy)(1) == 2
    assert agent.checkpointed("sweep", rollback_on_failure=True)(tidy)(2) == 3
    with pytest.raises(ValueError, match="-1"):
        agent.checkpointed(None, rollback_on_failure=True)(tidy)(-1)
    assert agent.files.read("a") == b"2"
    labels = [each.label for each in agent.list_snapshots()]
    assert labels[:3] == ["tidy", "sweep", "tidy"]


def test_snapshots_go_by_the_names_of_other_clients_too(agent: Namespace) -> None:
    agent.files.write_many([("a", b"1"), ("b", b"2")])
    first = agent.create_snapshot("first")
    agent.files.delete("a")
    assert agent.restore_snapshot(first.id) == 2
    assert [each.id for each in agent.list_snapshots()] == [first.id]
    assert agent.files.read("a") == b"1"


def test_no_command_is_run_where_nobody_has_turned_that_on(agent: Namespace) -> None:
    agent.files.write("a", "1")
    assert_raises(agent, errors.NotBuilt, lambda a: a.exec("rm a"))
    assert agent.files.read("a") == b"1"


def test_a_copy_in_git_is_set_up_changed_and_forgotten(agent: Namespace) -> None:
    assert_raises(agent, errors.GitBackupNotFound, lambda a: a.git.get())
    made = agent.git.configure("ssh://git@host.invalid/copy.git", every=timedelta(hours=1))
    assert made.public_key is not None
    assert made.public_key.startswith("ssh-ed25519 ")
    assert (made.branch, made.every_s, made.host_fingerprint) == ("main", 3600, None)
    assert agent.git.configure(made.remote, branch="copy").public_key == made.public_key
    assert agent.git.update(paused=True).paused
    assert_raises(agent, errors.GitBackupPaused, lambda a: a.git.push())
    assert_raises(agent, errors.GitFailed, lambda a: a.git.host_keys())
    assert_raises(agent, errors.GitFailed, lambda a: a.git.confirm_host("SHA256:none"))
    assert_raises(agent, errors.InvalidValue, lambda a: a.git.configure("ext::sh -c x"))
    assert agent.git.get().branch == "copy"
    assert agent.git.delete() is None
    assert_raises(agent, errors.GitBackupNotFound, lambda a: a.git.push())


def test_schedules_take_snapshots_by_themselves(agent: Namespace) -> None:
    hourly = agent.schedules.create(every=timedelta(hours=1), label="hourly")
    assert (hourly.cadence, hourly.amount, hourly.label) == (Cadence.EVERY, 3600, "hourly")
    assert (hourly.enabled, hourly.only_if_changed) == (True, True)
    assert (hourly.last_run_at, hourly.last_snapshot_id, hourly.last_error) == (None, None, None)
    assert hourly.next_at - hourly.created_at == timedelta(hours=1)
    often = agent.schedules.create(after_changes=50, only_if_changed=False)
    assert (often.cadence, often.amount, often.only_if_changed) == (Cadence.CHANGES, 50, False)
    quiet = agent.schedules.create(when_quiet=timedelta(minutes=5))
    assert (quiet.cadence, quiet.amount) == (Cadence.QUIET, 300)
    assert [each.id for each in agent.schedules.list()] == [hourly.id, often.id, quiet.id]
    stopped = agent.schedules.update(often.id, enabled=False, label="fifty")
    assert (stopped.enabled, stopped.label) == (False, "fifty")
    assert agent.schedules.get(often.id).enabled is False
    assert agent.schedules.delete(quiet.id) is None
    assert_raises(
        agent,
        errors.ScheduleNotFound,
        lambda a: a.schedules.get(quiet.id),
        schedule_id=quiet.id,
    )
    assert_raises(agent, errors.InvalidValue, lambda a: a.schedules.create())
    assert_raises(agent, errors.InvalidValue, lambda a: a.schedules.create(every=timedelta(0)))


def test_health_and_totals_count_the_same(agent: Namespace) -> None:
    sessions = [agent.sessions.create("helper") for _ in range(2)]
    agent.sessions.add_turn(sessions[0].id, "a", "b")
    agent.memory.add("remember", session_id=sessions[0].id)
    agent.entities.create(sessions[0].id, entity_type="t", entity_id="i")
    for _ in range(3):
        agent.sessions.update_state(sessions[0].id, {"n": 1})
        agent.sessions.rollback(sessions[0].id, 0)
    health = agent.health()
    assert (health.rollbacks, health.sessions, health.rate) == (3, 2, 1.5)
    assert health.level is Level.CRITICAL
    (loop,) = health.loops
    assert (loop.session_id, loop.version, loop.rollbacks) == (sessions[0].id, 0, 3)
    assert loop.namespace == agent.name
    assert agent.health(window=timedelta(hours=2), agent_id="nobody").rollbacks == 0
    mild = holdfast.Thresholds(elevated=1.0, warning=2.0, critical=3.0, loop=4)
    assert agent.health(thresholds=mild).level is Level.ELEVATED
    assert agent.health(thresholds=mild).loops == []
    days = agent.rollback_series(bucket="day", since=datetime.now(tz=UTC) - timedelta(days=2))
    assert [each.rollbacks for each in days.buckets[:2]] == [0, 0]
    assert sum(each.rollbacks for each in days.buckets) == 3
    assert agent.rollback_series(agent_id="nobody").buckets[-1].sessions == 0
    totals = agent.totals()
    assert (totals.sessions, totals.turns, totals.memories, totals.entities) == (2, 1, 1, 1)
    assert totals.active_sessions == 2
    assert totals.storage_bytes > 0
    assert sum(number for _, number in totals.by_hour) > 0


# Nothing was left out.


EMBEDDED_ONLY = {
    "acting_as": "a server writes down the key that asked",
    "deleted_snapshots": "operators': admin.namespaces",
    "forget": "operators': admin.namespaces",
    "quota": "operators': admin.namespaces",
    "recover_snapshot": "operators': admin.namespaces",
    "retention": "operators': admin.namespaces",
    "set_quota": "operators': admin.namespaces",
    "set_retention": "operators': admin.namespaces",
    "recover": "operators': admin.namespaces",
    "comparing": "what the embedded door and the server compare with",
    "still": "a reader's lock: a server takes it for each request",
    "opened": "how the plane is read inside",
    "codec": "of the in-process store",
    "max_history": "of the in-process store",
    "clear_history": "of the in-process store",
    "checkout": "writes to a disk of this machine",
    "import_": "reads from a disk of this machine, or runs git on it",
}


def test_this_suite_calls_every_public_method_of_a_namespace(tmp_path: Path) -> None:
    called = {
        node.attr
        for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8")))
        if isinstance(node, ast.Attribute)
    }
    groups = ("files", "store", "sessions", "memory", "entities", "traces", "tasks", "schedules")
    groups += ("git",)
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("a")
        for subject in (agent, *(getattr(agent, group) for group in groups)):
            public = {name for name in dir(type(subject)) if not name.startswith("_")}
            assert public - called - EMBEDDED_ONLY.keys() == set(), type(subject).__name__

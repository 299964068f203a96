"""The file system that fsspec finds: fsspec's own suite at both doors, and our own promises."""

import errno
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.tests import abstract

import holdfast
from holdfast.integrations.fsspec import HoldfastFileSystem
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory

NUMBERS = count(1)

Make = Callable[..., HoldfastFileSystem]


DOORS = ["vault", "server"]
SUITE_DOORS = DOORS if os.environ.get("HOLDFAST_TEST_EVERY_DOOR") else DOORS[:1]
"""Where all of fsspec's own tests are run: over HTTP by `make fsspec`, as they are long there."""


@pytest.fixture(scope="module", params=DOORS)
def make(request: pytest.FixtureRequest, home: Path) -> Iterator[Make]:
    """Returns file systems of one place; `at` and so on are options."""
    yield maker(request, home)
    HoldfastFileSystem.clear_instance_cache()


@pytest.fixture(scope="module", params=SUITE_DOORS)
def suite(request: pytest.FixtureRequest, home: Path) -> Iterator[Make]:
    """Returns the same, for long suites."""
    yield maker(request, home)
    HoldfastFileSystem.clear_instance_cache()


def maker(request: pytest.FixtureRequest, home: Path) -> Make:
    if request.param == "vault":
        options = {"vault": str(home / "vault")}
    else:
        server: Server = request.getfixturevalue("server")
        options = {"server": server.url, "api_key": server.api_key}
    return lambda **more: fsspec.filesystem("holdfast", **options, **more)


@pytest.fixture
def fs(make: Make) -> HoldfastFileSystem:
    return make()


@pytest.fixture
def name() -> str:
    """A namespace of the test's own."""
    return f"agent-{next(NUMBERS)}"


def agent_of(fs: HoldfastFileSystem, name: str) -> Any:
    return fs.backing._agent(name)


class Own(abstract.AbstractFixtures):
    """What fsspec's suite is given."""

    @pytest.fixture
    def fs(self, suite: Make) -> HoldfastFileSystem:
        return suite()

    @pytest.fixture
    def fs_path(self, name: str) -> str:
        return name


class TestCopy(abstract.AbstractCopyTests, Own):
    pass


class TestGet(abstract.AbstractGetTests, Own):
    pass


class TestPut(abstract.AbstractPutTests, Own):
    pass


class OwnAtEveryDoor(Own):
    @pytest.fixture
    def fs(self, make: Make) -> HoldfastFileSystem:
        return make()


class TestPipe(abstract.AbstractPipeTests, OwnAtEveryDoor):
    pass


class TestOpen(abstract.AbstractOpenTests, OwnAtEveryDoor):
    pass


def test_a_url_names_a_moment_and_a_file_system_has_one(
    fs: HoldfastFileSystem, make: Make, name: str
) -> None:
    fs.pipe_file(f"{name}/a.txt", b"old")
    snapshot = agent_of(fs, name).snapshot("old")
    fs.pipe_file(f"{name}/a.txt", b"new")
    url = f"holdfast://{name}/a.txt?at={snapshot.id}"

    past = make(at=snapshot.id)
    assert past.cat_file(url) == past.cat_file(f"{name}/a.txt") == b"old"
    assert past.unstrip_protocol(f"{name}/a.txt") == url
    options = {key: value for key, value in past.storage_options.items() if key != "at"}
    assert fsspec.core.url_to_fs(url, **options)[1] == f"{name}/a.txt"
    with fsspec.open(url, **options) as file:
        assert file.read() == b"old"
    with pytest.raises(ValueError, match="another moment"):
        fs.cat_file(url)
    assert fs.cat_file(f"holdfast://{name}/a.txt") == b"new"
    for write in (
        lambda: past.open(f"{name}/a.txt", "wb"),
        lambda: past.pipe_file(f"{name}/a.txt", b"?"),
        lambda: past.rm(name, recursive=True),
        lambda: past.mv(f"{name}/a.txt", f"{name}/b.txt"),
        lambda: past.makedirs(f"{name}/folder"),
    ):
        with pytest.raises(OSError, match="Read-only") as error:
            write()
        assert error.value.errno == errno.EROFS


def test_a_file_may_be_called_like_a_moment(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"{name}/a?at=b", b"1")
    assert fs.cat_file(f"{name}/a?at=b") == b"1"


def test_a_file_that_is_touched_keeps_what_it_has(fs: HoldfastFileSystem, name: str) -> None:
    fs.touch(f"{name}/a", truncate=False)
    fs.pipe_file(f"{name}/a", b"1")
    before = fs.modified(f"{name}/a")
    fs.touch(f"{name}/a", truncate=False)
    assert fs.cat_file(f"{name}/a") == b"1"
    assert fs.modified(f"{name}/a") > before
    fs.touch(f"{name}/a")
    assert fs.cat_file(f"{name}/a") == b""


def test_of_two_who_create_one_is_refused(fs: HoldfastFileSystem, name: str) -> None:
    first, second = (fs.open(f"{name}/lock", "xb") for _ in range(2))
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileExistsError):
        second.close()
    assert fs.cat_file(f"{name}/lock") == b"first"
    with pytest.raises(FileExistsError):
        fs.put_file(__file__, f"{name}/lock", mode="create")


def test_all_who_append_at_once_get_in(fs: HoldfastFileSystem, name: str) -> None:
    def append(number: int) -> None:
        with fs.open(f"{name}/log", "ab") as file:
            file.write(b"%d\n" % number)

    threads = [threading.Thread(target=append, args=[number]) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(fs.cat_file(f"{name}/log").split()) == [b"%d" % number for number in range(6)]


def test_a_file_that_is_replaced_while_it_is_read_is_no_mixture(
    fs: HoldfastFileSystem, name: str
) -> None:
    fs.pipe_file(f"{name}/large", b"a" * 40_000)
    with fs.open(f"{name}/large", block_size=1000) as file:
        assert file.read(10) == b"a" * 10
        fs.pipe_file(f"{name}/large", b"b" * 40_000)
        file.seek(30_000)
        with pytest.raises(OSError) as error:  # noqa: PT011 - its number is looked at
            file.read(10)
    assert error.value.errno == errno.ESTALE


def test_all_of_a_file_goes_with_what_was_read_before(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"{name}/file", b"a" * 40)
    with fs.open(f"{name}/file", cache_type="none") as file:
        assert file.read() == b"a" * 40
        file.seek(0)
        assert file.read() == b"a" * 40
        file.seek(0)
        assert file.read(10) == b"a" * 10
        fs.pipe_file(f"{name}/file", b"b" * 40)
        file.seek(0)
        with pytest.raises(OSError) as error:  # noqa: PT011 - its number is looked at
            file.read()
    assert error.value.errno == errno.ESTALE


def test_what_is_written_is_there_when_it_is_closed(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"{name}/a", b"old")
    file = fs.open(f"{name}/a", "wb", block_size=4)
    file.write(b"new and long")
    assert fs.cat_file(f"{name}/a") == b"old"
    file.close()
    assert fs.cat_file(f"{name}/a") == b"new and long"
    with fs.open(f"{name}/a", "ab") as file:
        assert file.tell() == 12
    assert fs.cat_file(f"{name}/a") == b"new and long"


def test_a_transaction_is_all_or_nothing(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"{name}/taken", b"1")
    with fs.transaction:
        fs.pipe_file(f"{name}/a", b"a")
        left_open = fs.open(f"{name}/b", "wb")
        left_open.write(b"b")
        assert fs.find(name) == [f"{name}/taken"]
    assert fs.cat(fs.find(name)) == {
        f"{name}/a": b"a",
        f"{name}/b": b"b",
        f"{name}/taken": b"1",
    }

    with pytest.raises(FileExistsError, match=f"{name}/free"), fs.transaction:  # noqa: PT012 - it is raised by its end
        fs.pipe_file(f"{name}/c", b"c")
        taken = fs.open(f"{name}/free", "xb")
        taken.write(b"2")
        agent_of(fs, name).files.write("free", b"another was first")
    with pytest.raises(OSError, match=f"Invalid argument: '{name}/../up'"), fs.transaction:  # noqa: PT012 - likewise
        fs.pipe_file(f"{name}/c", b"c")
        fs.pipe_file(f"{name}/../up", b"up")
    with pytest.raises(OSError, match=f"Invalid argument: '{name}/../up'"):
        fs.pipe({f"{name}/c": b"c", f"{name}/../up": b"up"})
    with pytest.raises(ZeroDivisionError), fs.transaction:  # noqa: PT012 - what ends it is inside
        fs.pipe_file(f"{name}/d", b"d")
        raise ZeroDivisionError
    assert fs.find(name) == [f"{name}/{each}" for each in ("a", "b", "free", "taken")]
    fs.pipe_file(f"{name}/later", b"")
    assert fs.exists(f"{name}/later")


def test_names_that_lead_astray_lead_nowhere(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"{name}/a", b"1")
    inside = [f"{name}/../{name}/a", f"{name}//a", f"{name}/a\0b", f"{name}/./a"]
    for path in (*inside, f"../{name}/a", f"{name}\0/a"):
        assert not fs.exists(path)
        assert not fs.isdir(path)
        with pytest.raises(OSError) as error:  # noqa: PT011 - its number is looked at
            fs.pipe_file(path, b"2")
        assert error.value.errno == errno.EINVAL
    for write in (fs.touch, lambda path: fs.pipe_file(path, b""), fs.cat_file):
        with pytest.raises(OSError):  # noqa: PT011 - a namespace is no file, whatever is said
            write(name)


READING: tuple[str, ...] = (
    "info",
    "ls",
    "cat_file",
    "ukey",
    "modified",
    "open",
    "stat",
    "size",
    "du",
)
WRITING: tuple[str, ...] = ("makedirs", "mkdir", "touch", "rm", "rmdir", "rm_file")


def test_whatever_goes_wrong_is_an_error_of_the_system_and_names_ours(
    fs: HoldfastFileSystem, make: Make, name: str
) -> None:
    fs.pipe_file(f"{name}/a", b"1")
    past, outside = make(at="snap-nowhere"), "..%2Fother/a"
    calls = [partial(getattr(fs, each), outside) for each in READING + WRITING]
    calls += [
        lambda: fs.pipe_file(outside, b""),
        lambda: fs.pipe({outside: b""}),
        lambda: fs.put_file(__file__, outside),
        lambda: fs.cp_file(f"{name}/a", outside),
        lambda: fs.mv(outside, "..%2Fother/b"),
        lambda: fs.open(outside, "wb").close(),
        lambda: fs.ls("..%2Fother"),
    ]
    for call in calls:
        with pytest.raises(OSError, match="reads like a path") as error:
            call()
        assert error.value.errno == errno.EINVAL
        assert isinstance(error.value.__cause__, holdfast.errors.InvalidName)
    for each in READING:
        with pytest.raises(FileNotFoundError, match="no snapshot 'snap-nowhere'") as missing:
            getattr(past, each)(f"{name}/a")
        assert isinstance(missing.value.__cause__, holdfast.errors.SnapshotNotFound)
    assert not fs.exists(outside)
    assert not past.exists(name)
    with pytest.raises(TypeError):
        make(at=5).info(f"{name}/a")


def test_a_namespace_is_there_when_it_was_made(fs: HoldfastFileSystem, name: str) -> None:
    for look in (fs.info, fs.ls, lambda path: fs.rm(path, recursive=True)):
        with pytest.raises(FileNotFoundError):
            look(name)
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{name}/folder", create_parents=False)
    assert fs.exists("")
    assert not fs.exists(name)
    assert not fs.isdir(name)
    fs.mkdir(name)
    fs.mkdir(name)
    assert fs.isdir(name)
    assert fs.ls(name) == []
    with pytest.raises(FileExistsError):
        fs.makedirs(name)


def test_a_namespace_with_a_slash_has_one_path(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe_file(f"team%2F{name}/100%25/a", b"1")
    assert agent_of(fs, f"team/{name}").files.read("100%25/a") == b"1"
    assert fs.find(f"team%2F{name}") == [f"team%2F{name}/100%25/a"]


def test_a_link_is_listed_copied_and_never_followed(fs: HoldfastFileSystem, name: str) -> None:
    agent_of(fs, name).files.symlink("link", "/etc/passwd")
    assert fs.info(f"{name}/link")["type"] == "link"
    fs.cp_file(f"{name}/link", f"{name}/copy")
    assert fs.info(f"{name}/copy")["destination"] == "/etc/passwd"
    for read in (fs.open, fs.cat_file, lambda path: fs.open(path, "ab").close()):
        with pytest.raises(OSError) as error:  # noqa: PT011 - its number is looked at
            read(f"{name}/link")
        assert error.value.errno == errno.ELOOP


def test_a_folder_is_moved_and_deleted_in_one_step(fs: HoldfastFileSystem, name: str) -> None:
    fs.pipe({f"{name}/old/{number}": b"1" for number in range(3)})
    with pytest.raises(IsADirectoryError):
        fs.mv(f"{name}/old", f"{name}/new")
    fs.mv(f"{name}/old", f"{name}/new", recursive=True)
    assert fs.find(name, withdirs=True)[:2] == [name, f"{name}/new"]
    with pytest.raises(OSError, match="not empty"):
        fs.rm(f"{name}/new")
    agent = agent_of(fs, name)
    agent.snapshot("before")
    fs.rm(name, recursive=True)
    assert fs.find(name) == []
    agent.undo()
    assert len(fs.find(name)) == 3
    with pytest.raises(FileNotFoundError):
        fs.rm(f"{name}/nobody")


def test_bytes_have_a_name_and_ranges_are_those_of_a_slice(
    fs: HoldfastFileSystem, name: str
) -> None:
    data = bytes(range(100))
    fs.pipe_file(f"{name}/a", data)
    fs.pipe_file(f"{name}/b", data)
    assert fs.checksum(f"{name}/a") == fs.checksum(f"{name}/b")
    assert fs.modified(f"{name}/a") <= fs.modified(f"{name}/b")
    for start, end in ((0, 10), (90, 200), (-5, None), (None, -5), (10, 5), (200, None), (3, 3)):
        assert fs.cat_file(f"{name}/a", start, end) == data[start:end]
    with pickle.loads(pickle.dumps(fs.open(f"{name}/a", block_size=7))) as file:
        file.seek(50)
        assert file.read(3) == data[50:53]


def test_a_server_that_is_away_is_no_missing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    away = HoldfastFileSystem(url="http://127.0.0.1:9", api_key="key", skip_instance_cache=True)
    with holdfast.Client("key", url="http://127.0.0.1:9", patience_s=0) as impatient:
        monkeypatch.setattr(away.backing, "_agent", impatient.namespace)
        for look in (away.exists, away.isfile, away.isdir):
            with pytest.raises(holdfast.errors.Unavailable):
                look("alice/a")


def test_a_vault_is_meant_from_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        fs = fsspec.filesystem("holdfast", vault="vault")
        assert fs.find("alice") == []
        fs.pipe_file("alice/a", name.encode())
        assert fsspec.filesystem("holdfast", vault="vault") is fs
    HoldfastFileSystem.clear_instance_cache()


def test_a_place_is_one_of_both() -> None:
    with pytest.raises(ValueError, match="vault"):
        HoldfastFileSystem(vault="vault", url="http://127.0.0.1:9")
    with pytest.raises(ValueError, match="same option"):
        HoldfastFileSystem(server="http://127.0.0.1:9", url="http://127.0.0.1:9")

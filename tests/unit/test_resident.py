"""The parts of `holdfast watch` one by one: when a snapshot is due, and who is believed."""

import contextlib
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import confinement, thin
from holdfast.cli.resident import Door, Request
from holdfast.cli.watch import Keeper
from holdfast.errors import Busy
from holdfast.settings import (
    LONGEST_STAY_S,
    USUAL_STAY_S,
    find_location,
    find_runtime_directory,
    stay_s,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Kept:
    """Counts captures, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.at: list[float] = []
        self.failures = 0
        self.said: list[str] = []
        self.keeper = Keeper(self, self.said.append, quiet_s=2, max_interval_s=10, clock=self.clock)

    def __call__(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is \x1b[31mfull")
        self.at.append(self.clock.now)

    def pass_time(self, seconds: float, *, step: float = 0.25, busy: bool = False) -> None:
        for _ in range(round(seconds / step)):
            self.clock.now += step
            if busy:
                self.keeper.suspect()
            self.keeper.run_due()


def test_nothing_is_due_while_nothing_has_changed() -> None:
    kept = Kept()
    assert kept.keeper.due_in() is None
    kept.pass_time(100)
    assert kept.at == []


def test_a_change_is_kept_once_when_it_has_been_quiet() -> None:
    kept = Kept()
    kept.keeper.suspect()
    assert kept.keeper.due_in() == 2
    kept.pass_time(1)
    kept.keeper.suspect()
    kept.pass_time(30)
    assert kept.at == [103]


def test_what_is_never_quiet_is_kept_at_the_longest_interval() -> None:
    kept = Kept()
    kept.pass_time(30, busy=True)
    assert kept.at == [110.25, 120.5]


def test_failures_are_tried_again_ever_later_and_told_once() -> None:
    kept = Kept()
    kept.failures = 10
    kept.keeper.suspect()
    tries: list[float] = []
    while kept.failures:
        due = kept.keeper.due_in()
        assert due is not None
        tries.append(due)
        kept.clock.now += due
        kept.keeper.run_due()
    assert tries == [2, 1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert kept.keeper.due_in() == 300
    assert len(kept.said) == 1
    assert "\x1b" not in kept.said[0]
    kept.pass_time(300)
    assert len(kept.at) == 1
    assert kept.said[1:] == ["snapshots can be taken again"]
    assert kept.keeper.due_in() is None


def test_a_change_during_a_capture_is_not_forgotten() -> None:
    clock = Clock()

    def keep() -> None:
        keeper.suspect()

    keeper = Keeper(keep, print, quiet_s=2, max_interval_s=10, clock=clock)
    keeper.suspect()
    clock.now += 2
    keeper.run_due()
    assert keeper.due_in() == 2


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, None),
        ({"HOLDFAST_DATA": "/named"}, None),
        ({"HOLDFAST_DATA": "relative"}, None),
        ({"HOLDFAST_DATA": ""}, None),
        ({"HOLDFAST_DATA": "/named"}, "other/./one"),
        ({"HOLDFAST_DATA": "postgresql://somewhere"}, None),
        ({"HOLDFAST_DATA": "/named", "HOLDFAST_DATABASE_URL": "postgresql://somewhere"}, None),
        ({"HOLDFAST_DATA": "/named", "HOLDFAST_DATABASE_URL": ""}, None),
        ({"HOLDFAST_DATABASE_URL": "postgresql://somewhere"}, "other"),
        ({"XDG_DATA_HOME": "/xdg"}, None),
        ({"XDG_DATA_HOME": "not/absolute"}, None),
    ],
)
@pytest.mark.parametrize("where", ["tree", "tree/local/below", "tree/linked"])
def test_the_thin_client_finds_the_vault_that_the_settings_mean(
    tmp_path: Path, environ: dict[str, str], named: str | None, where: str
) -> None:
    home = {"HOME": str(tmp_path / "home"), **environ}
    (tmp_path / "tree/local/below").mkdir(parents=True)
    (tmp_path / "tree/local/.holdfast").mkdir()
    (tmp_path / "tree/local/.holdfast/catalog.sqlite").touch()
    (tmp_path / "tree/linked").mkdir()
    (tmp_path / "tree/linked/.holdfast").symlink_to(tmp_path / "tree/local/.holdfast")
    directory = str(tmp_path / where)
    expected = find_location(home, directory, named=named)
    assert thin.find_location(home, directory, named) == expected


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, USUAL_STAY_S),
        ({"HOLDFAST_STAY": ""}, USUAL_STAY_S),
        ({"HOLDFAST_STAY": "60", "CI": ""}, 60),
        ({"HOLDFAST_STAY": "60", "CI": "false"}, 60),
        ({"HOLDFAST_STAY": "60", "CI": "true"}, 0),
        ({"HOLDFAST_STAY": "999999999"}, LONGEST_STAY_S),
        *(({"HOLDFAST_STAY": said}, 0) for said in ("0", "00", "no", "-1", "1.5", "٣", "1" * 10)),
        ({"SUDO_UID": str(os.geteuid())}, USUAL_STAY_S),
        *(({"SUDO_UID": said}, 0) for said in ("12345", "")),
    ],
)
def test_the_thin_client_asks_where_the_settings_let_a_process_stay(
    environ: dict[str, str], expected: int, tmp_path: Path
) -> None:
    environ = {"XDG_RUNTIME_DIR": str(tmp_path), **environ}
    tmp_path.chmod(0o700)
    assert stay_s(environ) == expected
    assert thin.may_stay(environ) is (expected > 0)


@pytest.mark.parametrize("said", [".", "/", "/nonexistent", "/dev/null", "/\0", "open", "link", ""])
def test_the_thin_client_asks_in_a_directory_that_is_the_users_alone(
    said: str, tmp_path: Path
) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "open").mkdir(mode=0o750)
    (tmp_path / "link").symlink_to("own")
    environ = {"XDG_RUNTIME_DIR": str(tmp_path / said) if said.isalpha() else said}
    found = find_runtime_directory(environ)
    assert thin.may_stay(environ) is (found is not None)
    assert found in (None, thin.runtime_directory(environ))
    assert (found is not None) == (said == "link" or (not said and os.path.isdir(found or "")))


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["snapshot", "-m", "x"], ("snapshot", "", None)),
        (["-C", "a", "--data", "b", "status"], ("status", "a", "b")),
        (["-Ca", "--data=b", "-q", "status"], ("status", "a", "b")),
        (["status", "--data", "b", "-C", "a"], ("status", "a", "b")),
        (["run", "--", "-C", "a"], ("run", "", None)),
        (["--json"], ("", "", None)),
        ([], ("", "", None)),
        (["status", "-C"], ("status", "", None)),
    ],
)
def test_the_thin_client_reads_a_command_line(
    argv: list[str], expected: tuple[str, str, str | None]
) -> None:
    assert thin.read_command_line(argv) == expected


def test_the_thin_client_loads_next_to_nothing() -> None:
    script = (
        "import sys; before = set(sys.modules); from holdfast.cli import main, thin;"
        "assert thin.try_resident(['status']) is None;"
        "print(*sorted(set(sys.modules) - before))"
    )
    environ = {**os.environ, "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    loaded = {"holdfast", "holdfast.cli", "holdfast.cli.main", "holdfast.cli.thin", "_socket", "gc"}
    assert set(done.stdout.split()) == loaded


def test_messages_arrive_as_they_were_sent() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for fields in ([], [b""], [b"a", b"", b"\0" * 70_000]):
            sender = threading.Thread(target=ours.sendall, args=(thin.pack(fields),))
            sender.start()
            assert thin.receive(theirs) == fields
            sender.join()
        ours.sendall(b"\xff\xff\xff\xff")
        with pytest.raises(OSError, match="longer"):
            thin.receive(theirs)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to be in, whose vault has a folder for sockets."""
    (tmp_path / "project").mkdir()
    (tmp_path / "vault").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "vault"))
    # pytest's capturing replaces both; their descriptors are what counts.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    return tmp_path / "project"


@contextlib.contextmanager
def serving(directory: Path, answer: Callable[[Request], int]) -> Iterator[Door]:
    """A server that answers one command in a thread of its own."""
    door = Door(directory.parent / "vault" / "run", str(directory))
    door._listener.settimeout(30)
    thread = threading.Thread(target=door.serve, args=(answer,))
    thread.start()
    try:
        yield door
    finally:
        # Whoever was not asked is woken up.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as bell:
            bell.connect(str(directory.parent / "vault/run" / door._name))
        thread.join()
        door.close()


def test_a_command_is_answered_with_its_output(
    directory: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[tuple[list[str], str, str]] = []

    def answer(request: Request) -> int:
        console = request.console(vaults=None)  # type: ignore[arg-type]  # nothing is opened here
        seen.append((request.argv, console.cwd, console.environ["HOLDFAST_DATA"]))
        console.err.write("half")
        console.err.flush()
        console.err.write(" done")
        console.out.write("said \udcff")
        return 6

    with serving(directory, answer):
        assert thin.try_resident(["log", "-n", "1"]) == 6
    assert seen == [(["log", "-n", "1"], str(directory), str(directory.parent / "vault"))]
    assert capfd.readouterr() == ("said \\udcff", "half done")


def test_what_an_encoding_refuses_is_told_without_it(
    directory: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "ü" + 70 * "x" + ".. "  # No domain name, which is what this one is for.

    def answer(request: Request) -> int:
        console = request.console(vaults=None)  # type: ignore[arg-type]  # nothing is opened here
        console.err.write(said)
        console.err.flush()
        console.out.write(said)
        return 0

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "idna"))
    with serving(directory, answer):
        assert thin.try_resident(["log"]) == 0
    told = said.replace("ü", "\\xfc")
    assert capfd.readouterr() == (told, told)


def test_what_is_not_hot_is_not_even_asked(directory: Path) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0):
        assert thin.try_resident(["verify"]) is None
        assert thin.try_resident([]) is None
    assert asked == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [("status", None), ("undo", 1), ("snapshot", 1), ("log", None), ("hook", None)],
)
def test_a_command_whose_answer_was_lost_is_repeated_only_if_that_does_no_harm(
    directory: Path, capfd: pytest.CaptureFixture[str], command: str, expected: int | None
) -> None:
    def die(request: Request) -> int:
        assert request._connection is not None
        request._connection.close()
        raise OSError("gone")

    with serving(directory, die):
        assert thin.try_resident([command], hot=thin.HOT | {thin.HOOK}) == expected
    assert ("may have been carried out" in capfd.readouterr().err) == (expected == 1)


def hearing(answer: list[bytes]) -> Callable[..., list[bytes]]:
    """Lets the client alone hear this: the server, in a thread, shares the function."""
    client, real = threading.current_thread(), thin.receive

    def receive(connection: Any, **more: Any) -> list[bytes]:
        heard = real(connection, **more)
        return answer if threading.current_thread() is client else heard

    return receive


def test_another_version_is_not_asked(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0):
        known = thin.greeting(str(directory))
        with monkeypatch.context() as patch:
            patch.setattr(thin, "receive", hearing([known[0], b"another", *known[2:], b"1"]))
            assert thin.try_resident(["status"]) is None
    assert asked == []


def test_another_directory_of_the_same_name_is_not_asked(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0):
        known = thin.greeting(str(directory))
        with monkeypatch.context() as patch:
            patch.setattr(thin, "greeting", lambda _: [*known[:3], b"1 1"])
            # Both sides share the function here: the server has greeted before it is replaced.
            patch.setattr(thin, "receive", hearing([*known, b"1"]))
            assert thin.try_resident(["status"]) is None
    assert asked == []


def test_a_folder_that_others_may_enter_is_not_trusted(directory: Path) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0):
        folder = directory.parent / "vault/run"
        folder.chmod(0o755)
        assert thin.try_resident(["status"]) is None
        folder.chmod(0o700)
    assert asked == []


def test_a_folder_of_somebody_else_is_not_trusted(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0):
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        assert thin.try_resident(["status"]) is None
        monkeypatch.undo()
    assert asked == []


def test_the_server_listens_to_its_equals_alone(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Request] = []
    monkeypatch.setattr("holdfast.cli.resident._may_ask", lambda _: False)
    with serving(directory, lambda request: asked.append(request) or 0):
        assert thin.try_resident(["undo"]) is None
    assert asked == []


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [b"nonsense"],
        [b"1 1 80 utf-8 18", b"/", b"0", b"verify"],
        [b"1 1 80 no-such-encoding 18", b"/", b"0", b"status"],
        [b"x x x x 18", b"/", b"0", b"status"],
        [b"1 1 80 utf-8 18", b"/", b"many", b"status"],
        [b"1 1 80 utf-8 18", b"/", b"1", b"no equals sign", b"status"],
        [b"1 1 80 undefined 18", b"/", b"0", b"status"],
        [b"1 1 80 hex 18", b"/", b"0", b"status"],
        [b"1 1 99999999999 utf-8 18", b"/", b"0", b"status"],
        [b"1 1 -1 utf-8 18", b"/", b"0", b"status"],
        [b"1 1 80 utf-8 18", b"/", b"-1", b"status", b"status"],
        [b"1 1 80 utf-8 18", b"/", b"2", b"status"],
        [b"2 1 80 utf-8 18", b"/", b"0", b"status"],
        [b"1 1 999999999 utf-8 18", b"/", b"0", b"status"],
        [b"1 1 " + b"9" * 5000 + b" utf-8 18", b"/", b"0", b"status"],
        [b"1 1 80 utf-8 18", b"elsewhere", b"0", b"status"],
        [b"1 1 80 utf-8 18", b"/a\0b", b"0", b"status"],
        [b"1 1 80 utf-8 18", b"/", b"0", b"status", b"\0"],
        [b"1 1 80  18", b"/", b"0", b"status"],
        [b"1 1 0 utf-8 18", b"/", b"0", b"status"],
        [b"1 1 80 utf-8", b"/", b"0", b"status"],
        [b"1 1 80 utf-8 -1", b"/", b"0", b"status"],
        [b"1 1 80 utf-8 512", b"/", b"0", b"status"],
    ],
)
def test_nonsense_is_declined(directory: Path, fields: list[bytes]) -> None:
    asked: list[Request] = []
    with serving(directory, lambda request: asked.append(request) or 0) as door:
        connection = thin.connect(str(door._folder), thin.name_of(str(directory)))
        assert connection is not None
        thin.receive(connection)
        connection.sendall(thin.pack(fields))
        assert thin.receive(connection) == [b"no"]
        connection.close()
    assert asked == []


def test_a_request_that_goes_wrong_ends_alone(directory: Path) -> None:
    answers = iter([ValueError("one"), RecursionError("two"), MemoryError("three")])

    def answer(_: Request) -> int:
        error = next(answers, None)
        if error is not None:
            raise error
        return 0

    for expected in (None, None, None, 0):  # None: it is done without.
        with serving(directory, answer):
            assert thin.try_resident(["status"]) == expected


def test_a_request_that_drips_is_not_waited_for(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each byte is in time; all of them would take minutes, in which no snapshot is taken.
    monkeypatch.setattr("holdfast.cli.resident.REQUEST_TIMEOUT_S", 0.2)
    with serving(directory, lambda _: 0) as door:
        connection = thin.connect(str(door._folder), thin.name_of(str(directory)))
        assert connection is not None
        thin.receive(connection)
        connection.sendall(thin.pack([b"x" * 10_000])[:4])
        connection.settimeout(0.02)
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            for _ in range(1000):
                connection.send(b"\0")
                with contextlib.suppress(TimeoutError):
                    assert connection.recv(1) == b""
                    break
        assert time.monotonic() - begun < 10
        connection.close()


def test_a_directory_has_one_door(directory: Path) -> None:
    folder = directory.parent / "vault/run"
    door = Door(folder, str(directory))
    with pytest.raises(Busy, match=f"by process {os.getpid()}"):
        Door(folder, str(directory))
    other = Door(folder, str(directory.parent))
    other.close()
    door.close()
    Door(folder, str(directory)).close()
    assert sorted(each.suffix for each in folder.iterdir()) == [".lock", ".lock"]


def test_a_busy_server_is_not_waited_for_for_ever(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert thin.connect.__kwdefaults__ == {"timeout_s": thin.GREETING_TIMEOUT_S}
    monkeypatch.setitem(thin.connect.__kwdefaults__, "timeout_s", 0.05)
    door = Door(directory.parent / "vault/run", str(directory))
    assert thin.try_resident(["undo"]) is None
    # And when it has time again, there is nothing left of it to be done.
    asked: list[Request] = []
    assert door.serve(lambda request: asked.append(request) or 0)
    assert asked == []
    door.close()


def test_control_groups_differ_by_what_they_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "_GROUPS", str(tmp_path))
    for name, memory in (("slice/one", "max"), ("slice/two", "max"), ("slice/less", "1048576")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "memory.max").write_text(f"{memory}\n")
    (tmp_path / "slice" / "cpu.max").write_text("50000 100000\n")
    bounds = {name: confinement._bounds_of(f"0::/slice/{name}\n") for name in ("one", "two")}
    assert bounds["one"] == bounds["two"] == ["cpu.max 50000 100000\n"]
    assert confinement._bounds_of("0::/slice/less\n") != bounds["one"]
    assert confinement._bounds_of("0::/\n") != bounds["one"]
    session = "1:name=systemd:/session-2.scope\n"
    assert confinement._bounds_of(f"{session}0::/\n") == confinement._bounds_of("0::/\n")
    old = [confinement._bounds_of(f"4:memory:/{name}\n{session}") for name in ("a", "b")]
    assert old[0] != old[1]


def test_who_asks_is_looked_at_with_few_calls() -> None:
    if not confinement.is_alike(os.getpid()):
        pytest.skip("this system does not say what a process may do")
    calls = Counter[str]()

    def note(_: object, kind: str, what: object) -> None:
        calls[f"{getattr(what, '__module__', '')}.{getattr(what, '__name__', '')}"] += (
            kind == "c_call"
        )

    sys.setprofile(note)
    try:
        assert confinement.is_alike(os.getpid())
    finally:
        sys.setprofile(None)
    assert calls.total() < 600, "each line is compared with each name"
    assert calls["io.open"] == 0, "which makes twice the system calls"

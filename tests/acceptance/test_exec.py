"""Commands in a namespace, in process: what they see, what they leave, and what nobody loses."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.commands import warm
from holdfast.engine.commands.running import run_as
from holdfast.engine.directory import lending
from holdfast.engine.directory.lending import Place
from holdfast.engine.planes.commanding import Manner
from holdfast.errors import Busy, InvalidValue, NotBuilt, QuotaExceeded, TooLarge
from holdfast.model.basics import Kind
from holdfast.model.commands import Stopped
from holdfast.operations.commands import Command
from holdfast.sandbox.limits import find_user
from holdfast.settings import ExecSettings
from holdfast.testing.sandboxes import why_none
from holdfast.workspace.owning import hand_over

pytestmark = pytest.mark.skipif(why_none() is not None, reason=why_none() or "")

ON = ExecSettings(is_on=True)


SMALL = ON._replace(disk_bytes=4 << 20)
"""Where a command may add little."""

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


def open_one(
    request: pytest.FixtureRequest, tmp_path: Path, commands: ExecSettings
) -> holdfast.Holdfast:
    if request.param == "sqlite":
        return holdfast.open(tmp_path / "vault", commands=commands)
    # What a machine keeps for a database lies in the home of whoever runs it.
    request.getfixturevalue("monkeypatch").setenv("HOME", str(tmp_path))
    url = request.getfixturevalue("postgres_url")
    return holdfast.open(url, objects=tmp_path / "packs", commands=commands)


@pytest.fixture(params=DATABASES)
def vault(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with open_one(request, tmp_path, ON) as opened:
        yield opened


@pytest.fixture(params=DATABASES)
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with open_one(request, tmp_path, SMALL) as opened:
        yield opened


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


@pytest.fixture
def local(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    """A vault of one database, where the other has nothing to add."""
    with holdfast.open(tmp_path / "vault", commands=ON) as opened:
        yield opened


def names(agent: Any) -> list[str]:
    return [each.path for each in agent.files.list(recursive=True)]


def places(folder: Path) -> list[Place]:
    home = folder / "vault" / "commands"
    return [Place(each) for each in home.iterdir()] if home.exists() else []


def test_a_command_sees_the_files_and_what_it_leaves_is_kept(agent: holdfast.Namespace) -> None:
    agent.files.write("src/a.sh", "echo from a", mode=0o755)
    agent.files.symlink("b.sh", "src/a.sh")
    heard: list[tuple[str, str]] = []
    done = agent.exec(
        "./b.sh; cat; echo oh >&2; rm b.sh; mkdir -p new/empty; echo grüße > new/c; exit 3",
        stdin="read ",
        output=lambda stream, text: heard.append((stream, text)),
    )
    assert (done.exit_code, done.stdout, done.stderr) == (3, "from a\nread ", "oh\n")
    assert "".join(text for stream, text in heard if stream == "stdout") == done.stdout
    assert names(agent) == ["new/c", "new/empty", "src/a.sh"]
    assert agent.files.read("new/c").decode() == "grüße\n"
    assert not agent.is_dirty()
    assert done.snapshot == agent.status().position
    last = agent.traces.list(limit=1)[0]
    assert (last.action, last.details["exit_code"]) == ("exec.completed", 3)
    # What changes nothing leaves nothing.
    assert agent.exec("ls").snapshot is None
    # And is taken back without what was written before it.
    agent.undo()
    assert names(agent) == ["b.sh", "src/a.sh"]
    assert agent.exec("ls -A").stdout == "b.sh\nsrc\n"


def test_what_is_written_in_between_is_seen_by_the_next(agent: holdfast.Namespace) -> None:
    agent.exec("echo 1 > one")
    agent.files.write("two", "2")
    agent.files.delete("one")
    assert agent.exec("ls; echo 3 > three").stdout == "two\n"
    before = agent.exec("echo changed > two").snapshot
    agent.restore("@-1")
    assert agent.exec("cat two").stdout == "2"
    assert before is not None


def test_what_is_written_while_it_runs_stays(agent: holdfast.Namespace) -> None:
    agent.files.write("both", "before")
    begun = threading.Event()
    running = threading.Thread(
        target=lambda: agent.exec(
            "echo go; until [ -f /tmp/never ]; do sleep 0.1; [ $SECONDS -ge 1 ] && break; done; "
            "echo mine > both; echo x > own",
            output=lambda *_: begun.set(),
        )
    )
    running.start()
    assert begun.wait(30)
    agent.files.write("beside", "theirs")
    agent.files.write("both", "theirs")
    running.join()
    assert names(agent) == ["beside", "both", "own"]
    assert agent.files.read("both") == b"mine\n"
    # The version that gave way is in the snapshot before.
    assert any(agent.at(each).files.read("both") == b"theirs" for each in agent.timeline()[1:3])
    assert agent.exec("echo more | tee -a beside both own > /dev/stderr").exit_code == 0


def test_a_command_that_is_a_task_is_taken_back_when_it_fails(agent: holdfast.Namespace) -> None:
    agent.files.write("kept", "1")
    failed = agent.exec("rm *; exit 9", task="clean up", rollback_on_failure=True)
    assert (failed.exit_code, names(agent)) == (9, ["kept"])
    assert failed.restored is not None
    run = agent.tasks.list()[0]
    assert (run.id, run.name, run.status.value) == (failed.task_id, "clean up", "failed")
    assert agent.at(str(failed.snapshot)).files.list() == []
    well = agent.exec("echo 2 > more", task="add")
    assert (well.before, well.restored) == (failed.restored, None)
    # And within a task of somebody else's, with what is done beside it.
    with pytest.raises(ZeroDivisionError):
        fail_in_a_task(agent)
    assert names(agent) == ["kept", "more"]


def fail_in_a_task(agent: holdfast.Namespace) -> None:
    with agent.task("outer", rollback_on_failure=True):
        agent.exec("echo 3 > third; rm kept")
        agent.files.write("fourth", "4")
        raise ZeroDivisionError


def test_a_command_that_is_ended_has_left_what_it_did(agent: holdfast.Namespace) -> None:
    done = agent.exec("echo 1 > begun; sleep 60; echo 2 > ended", timeout_s=0.5)
    assert (done.stopped, done.exit_code) == (Stopped.TIME, 128 + signal.SIGKILL)
    assert names(agent) == ["begun"]


def test_nothing_is_left_out_and_nothing_is_in_the_way(local: holdfast.Holdfast) -> None:
    agent = local.namespace("alice")
    agent.files.write(".holdfastignore", "*.log\nbuild/\n")
    agent.files.write("a.log", "seen")
    assert agent.exec("cat a.log; mkdir build; echo x > build/b.log").stdout == "seen"
    assert names(agent) == [".holdfastignore", "a.log", "build/b.log"]
    # Whatever it makes of the modes of folders and files, they are kept, and the next one begins.
    agent.exec("mkdir shut; echo y > shut/f; chmod 000 shut/f shut .")
    assert agent.files.read("shut/f") == b"y\n"
    agent.exec("chmod 000 shut")
    agent.files.write("shut/g", "z")
    assert agent.exec("chmod 700 shut; chmod 600 shut/f; cat shut/f shut/g").stdout == "y\nz"


def test_a_link_out_of_the_folder_leads_nowhere(local: holdfast.Holdfast, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("nobody's business")
    agent = local.namespace("alice")
    agent.exec(f"ln -s {tmp_path}/secret s; ln -s / r; ln -s /etc/passwd p")
    done = agent.exec(f"cat s r{tmp_path}/secret p; echo over > s")
    assert "nobody's business" not in done.stdout
    assert (tmp_path / "secret").read_text() == "nobody's business"
    assert agent.files.stat("s").target == f"{tmp_path}/secret"


def test_the_vault_is_out_of_reach(local: holdfast.Holdfast, tmp_path: Path) -> None:
    done = local.namespace("alice").exec(
        f"ls {tmp_path}/vault /proc/*/root{tmp_path}/vault /proc/*/cwd/../../../vault; ls -A"
    )
    assert done.stdout == ""


@pytest.mark.skipif(find_user(0) is None, reason="nobody but root has others run commands")
def test_as_root_each_namespace_has_a_user_of_its_own(
    local: holdfast.Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[set[bytes] | None] = []

    def noted(folder: str, user: int, *, within: set[bytes] | None) -> None:
        given.append(within and {*within})
        hand_over(folder, user, within=within)

    monkeypatch.setattr(warm, "hand_over", noted)
    (tmp_path / "secret").write_text("nobody's business")
    alice, bob = local.namespace("alice"), local.namespace("bob")
    alice.files.write("a/b/c", "1", mode=0o600)
    alice.files.symlink("out", str(tmp_path / "secret"))
    first = alice.exec("id -u; echo 2 >> a/b/c; echo 3 > a/d; whoami").stdout.split()
    second = bob.exec("id -u; whoami").stdout.split()
    assert (first[1], second[1]) == ("agent", "agent")
    assert len({first[0], second[0], "0"}) == 3
    assert (tmp_path / "secret").stat().st_uid == 0
    assert alice.files.stat("a/b/c").mode == 0o600
    # Only what was brought in since is looked at.
    alice.exec("true")
    assert given == [None, None]
    alice.files.write("a/b/e", "4")
    alice.files.write("f/g", "5")
    assert alice.exec("echo 6 | tee -a a/b/* f/* f/h").exit_code == 0
    assert given[2:] == [{b"", b"a", b"a/b", b"f"}]
    owners = {
        str(path.lstat().st_uid) for place in places(tmp_path) for path in place.files.rglob("*")
    }
    assert owners == {first[0]}


def test_one_that_is_made_again_begins_empty(local: holdfast.Holdfast) -> None:
    local.namespace("alice").exec("echo 1 > one")
    local.delete_namespace("alice")
    agent = local.namespace("alice")
    assert agent.exec("ls").stdout == ""
    assert names(agent) == []


def test_what_there_is_no_room_for_is_not_kept_and_blocks_nobody(local: holdfast.Holdfast) -> None:
    agent = local.namespace("alice")
    agent.files.write("a", "1")
    agent.set_quota(1000)
    with pytest.raises(QuotaExceeded):
        agent.exec("head -c 5000 /dev/urandom > big")
    assert names(agent) == ["a"]
    assert agent.exec("ls").stdout == "a\n"


def test_what_was_interrupted_is_kept_first(
    local: holdfast.Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = local.namespace("alice")
    agent.exec("echo 1 > one")
    (place,) = places(tmp_path)
    (place.folder / "in-use").touch()
    (place.files / "half").write_text("done")
    # Since then somebody has gone on.
    agent.files.write("one", "2\n")
    assert agent.exec("ls; cat one").stdout == "one\n2\n"
    back, left = agent.timeline()[:2]
    assert (back.kind, left.reason) == (
        Kind.RESTORE,
        "what a command that was interrupted has left",
    )
    assert agent.at(left).files.read("half") == b"done"
    agent.exec("echo 1 > one")
    (place,) = places(tmp_path)
    # After a restart of the machine nobody knows what of it was on disk.
    (place.folder / "in-use").touch()
    (place.files / "one").write_text("")
    monkeypatch.setattr(lending, "boot_id", lambda: "another")
    assert agent.exec("cat one").stdout == "1\n"


KILLED = """
import sys
import holdfast
from holdfast.settings import ExecSettings
with holdfast.open(sys.argv[1], commands=ExecSettings(is_on=True)) as vault:
    agent = vault.namespace("alice")
    agent.exec("echo 1 > one")
    agent.exec(f"echo 2 > two; echo begun; sleep {sys.argv[2]} & sleep {sys.argv[2]}",
               output=lambda *said: print(*said, flush=True))
"""


def test_killed_in_the_middle_it_leaves_no_process_and_a_sound_vault(tmp_path: Path) -> None:
    number = f"6{os.getpid()}"
    line = [sys.executable, "-c", KILLED, str(tmp_path / "vault"), number]
    with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"begun" in process.stdout.readline()
        process.kill()
    until = time.monotonic() + 20
    while _left(number) and time.monotonic() < until:
        time.sleep(0.02)
    assert _left(number) == []
    with holdfast.open(tmp_path / "vault", commands=ON) as vault:
        assert vault.verify().ok
        agent = vault.namespace("alice")
        assert agent.exec("ls").stdout == "one\n"
        assert names(agent) == ["one"]
        assert agent.at(agent.timeline()[1]).files.read("two") == b"2\n"


def _left(number: str) -> list[str]:
    found = subprocess.run(
        ["pgrep", "-f", f"sleep {number}"], capture_output=True, text=True, check=False
    )
    return found.stdout.split()


def test_directories_go_when_nobody_needs_them(local: holdfast.Holdfast, tmp_path: Path) -> None:
    for name in ("alice", "bob", "carol"):
        local.namespace(name).exec("mkdir d; echo private > d/f; chmod 000 d")
    assert len(places(tmp_path)) == 3
    local.erasures.namespace("alice")
    assert len(places(tmp_path)) == 2
    local.delete_namespace("bob")
    assert local.sweep_commands() == 1
    (last,) = places(tmp_path)
    with last.hold():
        os.utime(last.folder, (0, 0))
        assert local.sweep_commands() == 0
    assert local.sweep_commands() == 1
    assert local.namespace("carol").exec("chmod 700 d; cat d/f").stdout == "private\n"


def test_whoever_waits_for_too_long_is_told(
    local: holdfast.Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = local.namespace("alice")
    agent.exec("true")
    (place,) = places(tmp_path)
    monkeypatch.setattr(lending, "PATIENCE_S", 0.05)
    with place.hold(), pytest.raises(Busy):
        agent.exec("true")


def test_what_no_snapshot_holds_is_named(local: holdfast.Holdfast) -> None:
    agent = local.namespace("alice")
    done = agent.exec("mkfifo pipe")
    assert (done.snapshot, done.skipped) == (None, ["pipe"])
    done = agent.exec("rm pipe; mkdir sub; mkfifo sub/other; echo 1 > one")
    assert (done.is_partial, done.skipped) == (False, ["sub/other"])
    assert agent.exec("rm sub/other").skipped == []


@pytest.mark.parametrize("is_held", [True, False])
def test_who_has_left_by_its_turn_is_never_begun(
    local: holdfast.Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_held: bool
) -> None:
    agent = local.namespace("alice")
    agent.exec("true")
    (place,) = places(tmp_path)
    monkeypatch.setattr(lending, "PATIENCE_S", 5.0)
    # As another process holds it while this one waits; or as one leaves that found it free.
    asked = iter([True, True, False] if is_held else [True, False])
    manner = Manner(is_wanted=lambda: next(asked))
    with (
        place.hold() if is_held else nullcontext(),
        pytest.raises(Busy, match="whoever asked for it has left"),
    ):
        run_as(agent, Command("echo 1 > one"), manner)
    assert (names(agent), [*agent.timeline()]) == ([], [])
    assert agent.exec("ls").stdout == ""


def test_where_nobody_has_turned_it_on_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_EXEC", raising=False)
    with holdfast.open(tmp_path / "vault") as vault:
        with pytest.raises(NotBuilt) as told:
            vault.namespace("alice").exec("true")
        assert "HOLDFAST_EXEC=1" in told.value.hint
        assert vault.namespaces() == []
    monkeypatch.setenv("HOLDFAST_EXEC", "1")
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.namespace("alice").exec("true").is_ok


@pytest.mark.parametrize(
    "asked",
    [
        {"command": " "},
        {"command": "a\0b"},
        {"command": "\ud800"},
        {"command": "x" * 100_001},
        {"command": "true", "stdin": "x" * ((1 << 20) + 1)},
        {"command": "true", "timeout_s": 0},
        {"command": "true", "timeout_s": 601.0},
        {"command": "true", "network": True},
        {"command": "true", "task": "x" * 129},
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    local: holdfast.Holdfast, asked: dict[str, Any]
) -> None:
    with pytest.raises((InvalidValue, holdfast.errors.Invalid)):
        local.namespace("alice").exec(**asked)
    assert local.namespaces() == []


def test_what_took_too_much_room_is_kept_aside(small: holdfast.Holdfast) -> None:
    agent = small.namespace("alice")
    agent.files.write("kept", "1")
    begun = threading.Event()
    done: list[holdfast.Executed] = []
    running = threading.Thread(
        target=lambda: done.append(
            agent.exec(
                "echo go; until [ -f /tmp/never ]; do [ $SECONDS -ge 1 ] && break; done; "
                "echo 2 > kept; mkdir d; chmod 000 d; for i in {1..3}; do "
                "head -c 2M /dev/urandom > big$i; done",
                output=lambda *_: begun.set(),
            )
        )
    )
    running.start()
    assert begun.wait(30)
    agent.files.write("beside", "theirs")
    running.join()
    (ended,) = done
    assert (ended.stopped, ended.exit_code) == (Stopped.DISK, 128 + signal.SIGKILL)
    # The namespace goes on as it was, with what others did to it; the attempt is kept.
    assert {each: agent.files.read(each) for each in names(agent)} == {
        "beside": b"theirs",
        "kept": b"1",
    }
    assert not agent.is_dirty()
    assert (ended.restored, ended.snapshot) == tuple(each.id for each in agent.timeline()[:2])
    attempt = agent.at(str(ended.snapshot)).files
    assert attempt.read("kept") == b"2\n"
    assert attempt.stat("big1").size_bytes == 2 << 20
    assert agent.exec("ls; cat kept").stdout == "beside\nkept\n1"
    assert small.verify().ok


def test_what_took_too_much_room_is_aside_whatever_else_ended_it(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault", commands=SMALL) as vault:
        agent = vault.namespace("alice")
        done = agent.exec("for i in {1..3}; do truncate -s 2M $i; done; yes")
        assert done.stopped is Stopped.DISK
        assert names(agent) == []


@pytest.mark.parametrize("wanted", [{"rollback_on_failure": True}, {"task": "fill"}])
def test_a_task_that_took_too_much_room_is_aside_once(
    tmp_path: Path, wanted: dict[str, Any]
) -> None:
    with holdfast.open(tmp_path / "vault", commands=SMALL) as vault:
        agent = vault.namespace("alice")
        agent.files.write("kept", "1")
        done = agent.exec("rm kept; for i in {1..3}; do truncate -s 2M $i; done", **wanted)
        assert done.stopped is Stopped.DISK
        assert names(agent) == ["kept"]
        assert agent.at(str(done.snapshot)).files.stat("1").size_bytes == 2 << 20
        assert agent.at(str(done.restored)).files.read("kept") == b"1"
        assert agent.tasks.list()[0].status.value == "failed"


def test_far_too_much_is_not_read_and_not_kept(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault", commands=SMALL) as vault:
        agent = vault.namespace("alice")
        agent.files.write("kept", "1")
        with pytest.raises(TooLarge, match="more than twice") as told:
            agent.exec("for i in {1..9}; do truncate -s 4M $i; done; rm kept")
        assert "Nothing of what the command did was kept" in told.value.hint
        assert names(agent) == ["kept"]
        assert agent.exec("ls").stdout == "kept\n"


def test_folders_that_lie_too_deep_are_not_kept_and_block_nobody(local: holdfast.Holdfast) -> None:
    agent = local.namespace("alice")
    agent.files.write("kept", "1")
    # Deeper than Python calls itself, and than a path can name.
    nested = "p=$(printf 'dd/%.0s' {1..800}); for i in 1 2; do mkdir -p $p; cd $p; done"
    for command in (f"{nested}; echo > f; chmod 000 . ..", "mkdir -p $(printf 'd/%.0s' {1..300})"):
        with pytest.raises(TooLarge, match="too deep"):
            agent.exec(command)
        assert names(agent) == ["kept"]
    assert agent.exec("mkdir -p $(printf 'd/%.0s' {1..200}); ls").stdout == "d\nkept\n"
    local.delete_namespace("alice")
    assert local.sweep_commands() == 1


def test_the_limit_of_a_snapshot_holds_for_what_commands_leave(tmp_path: Path) -> None:
    limits = holdfast.Limits(snapshot_bytes=1 << 20)
    with holdfast.open(tmp_path / "vault", commands=ON, limits=limits) as vault:
        agent = vault.namespace("alice")
        agent.files.write("kept", "1")
        with pytest.raises(TooLarge, match="a snapshot may take"):
            agent.exec("head -c 2M /dev/urandom > big")
        assert agent.exec("ls; head -c 2M /dev/zero > light").stdout == "kept\n"
        # What is too large already may become smaller.
        agent.files.write("big", random.Random(1).randbytes(2 << 20))
        agent.files.write("more", random.Random(2).randbytes(2 << 20))
        agent.exec("rm more")
        assert names(agent) == ["big", "kept", "light"]


def test_who_is_slow_to_listen_holds_up_nobody_else(local: holdfast.Holdfast) -> None:
    agent, read = local.namespace("alice"), threading.Event()
    done: list[holdfast.Executed] = []

    def slowly(_stream: str, _text: str) -> None:
        assert read.wait(60)

    command = "echo 1 > one; seq 100000; sleep 60"
    running = threading.Thread(
        target=lambda: done.append(agent.exec(command, timeout_s=0.5, output=slowly))
    )
    running.start()
    try:
        # One after the other: this one begins when that one has ended, in its time.
        assert agent.exec("cat one").stdout in ("", "1\n")
        until = time.monotonic() + 20
        while not agent.files.exists("one") and time.monotonic() < until:
            time.sleep(0.02)
        assert agent.exec("cat one").stdout == "1\n"
        assert done == []
    finally:
        read.set()
        running.join()
    assert (done[0].stopped, done[0].stdout.count("\n")) == (Stopped.TIME, 100_000)


def test_who_fails_to_listen_ends_the_command_and_what_it_did_is_kept(
    local: holdfast.Holdfast,
) -> None:
    agent = local.namespace("alice")

    def fail(_stream: str, _text: str) -> None:
        raise BrokenPipeError

    began = time.monotonic()
    with pytest.raises(BrokenPipeError):
        agent.exec("echo 1 > one; echo said; sleep 60", output=fail)
    assert time.monotonic() - began < 30
    assert names(agent) == ["one"]

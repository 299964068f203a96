"""Which git is run, and what becomes of it when whoever runs it does not see to it any more."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import GitFailed, GitMissing, GitTooOld
from holdfast.git import program
from holdfast.git.program import Program, find_git
from holdfast.server.app import _warn_without_git

PATIENCE_S = 60


@pytest.fixture
def bin_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one place where programs are looked for, and nothing in it yet."""
    place = tmp_path / "bin"
    place.mkdir()
    monkeypatch.setattr(program, "PLACES", str(place))
    return place


def install(place: Path, script: str) -> None:
    (place / "git").unlink(missing_ok=True)
    (place / "git").write_text(f"#!/bin/sh\n{script}\n")
    (place / "git").chmod(0o755)


@pytest.mark.parametrize(
    "version", ["2.37.0", "2.37.0-rc1", "2.39.5 (Apple Git-154)", "3.0.1", "2.100.GIT"]
)
def test_a_git_that_does_all_that_is_asked_is_run(bin_, version):
    install(bin_, f"echo 'git version {version}'")
    assert find_git() == find_git(over_https=True) == str(bin_ / "git")


def test_one_that_connects_where_it_likes_is_run_over_ssh_alone(bin_, tmp_path):
    install(bin_, "echo 'git version 2.34.1'")
    with holdfast.open(tmp_path / "vault", secrets_key="x" * 32) as vault:
        git = vault.namespace("agent").git
        assert git.configure("ssh://git@host.example/x").public_key
        with pytest.raises(GitTooOld, match=r"git 2\.34\.1 is too old: 2\.37 or later"):
            git.configure("https://host.example/x", password="word")


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("echo 'git version 2.31.8'", "git 2.31.8 is too old: 2.32 or later is needed"),
        ("echo 'git version 1.8.3.1'", "1.8.3.1"),
        ("echo nonsense", "of no version"),
        ("exit 1", "of no version"),
    ],
)
def test_one_that_does_not_is_refused_before_anything_is_done(bin_, tmp_path, script, word):
    install(bin_, script)
    with pytest.raises(GitTooOld, match=word):
        Program(tmp_path)
    with holdfast.open(tmp_path / "vault", secrets_key="x" * 32) as vault:
        with pytest.raises(GitTooOld):
            vault.namespace("agent").git.configure("ssh://git@host.example/x")
        assert not vault.namespace("agent").status().exists
        with pytest.raises(GitTooOld):
            vault.check_git()
    install(bin_, "echo 'git version 2.40.0'")
    assert find_git()  # What was installed meanwhile is asked again.


@pytest.mark.usefixtures("bin_")
def test_where_there_is_none_it_says_what_to_install(tmp_path):
    with holdfast.open(tmp_path / "vault", secrets_key="x" * 32) as vault:
        with pytest.raises(GitMissing) as refused:
            vault.namespace("agent").git.configure("ssh://git@host.example/x")
        assert "Install git (2.37 or later) and an OpenSSH client" in refused.value.hint
        with pytest.raises(GitMissing):
            vault.namespace("agent").git.import_(str(tmp_path))


@pytest.mark.usefixtures("bin_")
def test_a_server_says_in_its_log_that_it_cannot_push(tmp_path, caplog):
    with holdfast.open(tmp_path / "vault", secrets_key="x" * 32) as vault:
        _warn_without_git(vault)
    (said,) = caplog.messages
    assert said.startswith("git backups cannot be pushed from here: git is not installed")


def test_a_command_on_a_tether_says_and_ends_as_it_would_without(bin_, tmp_path):
    install(bin_, 'echo "git version 2.40.0"; /bin/cat; echo "$1" >&2; [ "$1" = good ]')
    git = Program(tmp_path)
    assert git.run(["good"], is_tethered=True) == b"git version 2.40.0\n"
    with pytest.raises(GitFailed, match="git bad failed: bad\n"):
        git.run(["bad"], is_tethered=True)


def test_a_command_that_hangs_on_a_tether_is_ended_in_time(bin_, tmp_path):
    install(bin_, '[ "$1" = version ] && echo "git version 2.40.0" && exit; /bin/sleep 1000')
    with pytest.raises(GitFailed, match="took too long"):
        Program(tmp_path).run(["hang"], seconds=0.2, is_tethered=True)


def test_a_command_on_a_tether_does_not_outlive_who_is_killed(bin_, tmp_path):
    install(
        bin_,
        '[ "$1" = version ] && echo "git version 2.40.0" && exit\n'
        f"/bin/sleep 1000 & echo $$ $! > {tmp_path}/new\n"
        f"/bin/mv {tmp_path}/new {tmp_path}/pids; wait",
    )
    code = (
        "import sys; from pathlib import Path; from holdfast.git import program\n"
        "program.PLACES = sys.argv[1]\n"
        "program.Program(Path(sys.argv[2])).run(['hang'], is_tethered=True)\n"
    )
    command = [sys.executable, "-c", code, str(bin_), str(tmp_path)]
    with subprocess.Popen(command) as process:
        pids = tmp_path / "pids"
        _wait(process, pids.exists)
        running = [int(pid) for pid in pids.read_text().split()]
        assert all(map(_is_there, running))
        process.send_signal(signal.SIGKILL)
        process.wait()
        _wait(None, lambda: not any(map(_is_there, running)))


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # Nobody reaps what init does not.


def _wait(process, is_so) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.01)

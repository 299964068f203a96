"""Copies over a real ssh server: pushed when a task ends, never forced, and secrets stay secret."""

import json
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import (
    GitBackupNotFound,
    GitBackupPaused,
    HostKeyUnconfirmed,
    InvalidValue,
    SecretsLocked,
)
from holdfast.server.work.upkeep import sweeping_repositories
from holdfast.testing.clocks import Watch
from holdfast.testing.gitcopies import compare, git, play
from holdfast.testing.servers import Begin, Server, running_server
from holdfast.testing.sshd import MISSING, PROGRAM, Sshd

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

KEY = "a key of more than thirty-two characters"


@pytest.fixture
def sshd(place_in_memory: Path) -> Iterator[Sshd]:
    with Sshd(place_in_memory / "sshd") as started:
        yield started


@pytest.fixture
def bare(place_in_memory: Path) -> Path:
    place = place_in_memory / "theirs.git"
    git("init", "-q", "--bare", "-b", "main", str(place))
    git("-C", str(place), "config", "receive.fsckObjects", "true")
    return place


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opens(
    request: pytest.FixtureRequest, place_in_memory: Path, watch: Watch
) -> Callable[..., holdfast.Holdfast]:
    """Opens the same vault each time."""
    is_postgres = request.param == "postgres"
    place = request.getfixturevalue("postgres_url") if is_postgres else place_in_memory / "vault"

    def opened(**more: object) -> holdfast.Holdfast:
        packs = place_in_memory / "packs" if is_postgres else None
        given = {"secrets_key": KEY, "clock": watch, **more}
        return holdfast.open(place, objects=packs, **given)

    return opened


@pytest.fixture
def vault(opens, place_in_memory, monkeypatch) -> Iterator[holdfast.Holdfast]:
    monkeypatch.setenv("HOME", str(place_in_memory / "home"))
    with opens() as vault:
        yield vault


def set_up(agent, sshd: Sshd, bare: Path, **more):
    """Does all that a user has to do."""
    made = agent.git.configure(sshd.url(bare), **more)
    sshd.admit(made.public_key)
    (shown,) = [each for each in agent.git.host_keys() if each.kind == "ssh-ed25519"]
    return agent.git.confirm_host(shown.fingerprint)


def commits_in(bare: Path, branch: str = "main") -> int:
    return int(git("-C", str(bare), "rev-list", "--count", branch))


def repositories(vault: holdfast.Holdfast) -> list[Path]:
    return [*vault._context.state.parent.glob("git/*/*.git")]


def run_all(vault: holdfast.Holdfast) -> int:
    done = 0
    while vault.push_backups():
        done += 1
    return done


def test_a_task_that_ends_is_pushed_and_a_clone_has_all_of_it(vault, sshd, bare, place_in_memory):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    assert run_all(vault) == 0
    agent.files.write("a.txt", "1")
    agent.snapshot("no task: nobody is told")
    assert run_all(vault) == 0
    with agent.task("work"):
        agent.files.write("b/c.txt", "2")
    assert run_all(vault) == 1
    assert run_all(vault) == 0
    found = agent.git.get()
    assert found.last_error is None
    assert found.pushed_number == agent.timeline()[0].number
    assert commits_in(bare) == len(agent.timeline())
    assert git("-C", str(bare), "fsck", "--strict", "--no-dangling") == ""
    git("clone", "-q", str(bare), str(place_in_memory / "clone"))
    assert (place_in_memory / "clone/b/c.txt").read_text() == "2"
    assert git("-C", str(bare), "rev-parse", "main") == found.pushed_commit
    told = [each.action for each in agent.traces.list() if each.action.startswith("backup.")]
    assert told == ["backup.pushed", "backup.configured"]


def test_tasks_restores_undos_and_forks_are_ordinary_commits(vault, sshd, bare, place_in_memory):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare, patterns=[])

    def push() -> None:
        agent.git.push()
        run_all(vault)

    # `bench/soak_git.py` does more of it.
    play(agent, tasks=50, push=push)
    assert agent.git.get().last_error is None
    assert compare(agent, bare, place_in_memory / "clone", every=10) > 5


def test_before_the_first_snapshot_there_is_nothing_to_push(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    agent.files.write("a", "1")
    assert agent.git.push().asked_at is None
    assert (run_all(vault), agent.git.get().last_error) == (0, None)
    agent.snapshot()
    agent.git.push()
    assert (run_all(vault), commits_in(bare)) == (1, 1)


def test_nothing_is_pushed_before_the_host_key_is_confirmed(vault, sshd, bare):
    agent = vault.namespace("agent")
    agent.files.write("a", "1")
    agent.snapshot()
    sshd.admit(agent.git.configure(sshd.url(bare)).public_key)
    with pytest.raises(HostKeyUnconfirmed):
        agent.git.confirm_host("SHA256:" + "A" * 43)
    agent.git.push()
    assert run_all(vault) == 1
    assert "host_key_unconfirmed" in agent.git.get().last_error
    (shown,) = [each for each in agent.git.host_keys() if each.kind == "ssh-ed25519"]
    agent.git.confirm_host(shown.fingerprint)
    assert run_all(vault) == 1
    assert commits_in(bare) == 1


def test_a_failure_says_why_is_told_once_and_is_tried_again_later(vault, sshd, bare, watch):
    agent = vault.namespace("agent")
    mine = set_up(agent, sshd, bare).public_key
    other = vault.namespace("other").git.configure(sshd.url(bare)).public_key
    with agent.task("work"):
        agent.files.write("a", "1")
    sshd.admit(other)  # The wrong key.
    assert run_all(vault) == 1
    assert "Permission denied" in agent.git.get().last_error
    assert run_all(vault) == 0
    watch.wait(timedelta(seconds=31))
    assert run_all(vault) == 1
    found = agent.git.get()
    assert found.failures == 2
    failed = [each for each in agent.traces.list() if each.action == "backup.failed"]
    assert [each.details["reason"] for each in failed] == ["git_failed"]

    sshd.stop()
    sshd.make_host_key()  # Somebody else answers.
    sshd.admit(mine)
    sshd.start()
    watch.wait(timedelta(seconds=61))
    assert run_all(vault) == 1
    changed = agent.git.get()
    (shown,) = [each for each in agent.git.host_keys() if each.kind == "ssh-ed25519"]
    assert changed.last_error == (
        f"host_key_changed: 127.0.0.1 has another host key: {changed.host_fingerprint} was "
        f"confirmed, and it shows {shown.fingerprint}"
    )
    (told, *_) = [each for each in agent.traces.list() if each.action == "backup.failed"]
    assert told.details["reason"] == "host_key_changed"
    agent.git.confirm_host(shown.fingerprint)

    sshd.stop()  # Nobody answers.
    assert run_all(vault) == 1
    assert "refused" in agent.git.get().last_error
    sshd.start(command="sh -c 'printf 00; kill -9 $PPID'")  # It dies in the middle.
    agent.git.push()
    assert run_all(vault) == 1
    assert agent.git.get().last_error.startswith("git_failed")
    sshd.stop()
    sshd.start()
    agent.git.push()
    assert run_all(vault) == 1
    found = agent.git.get()
    assert (found.last_error, found.failures, found.asked_at) == (None, 0, None)
    assert commits_in(bare) == len(agent.timeline())


def test_what_went_wrong_is_kept_without_addresses_and_places(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    hook = bare / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\necho not into {vault._context.state.parent}/git >&2; exit 1\n")
    hook.chmod(0o755)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    said = agent.git.get().last_error
    assert "not into [vault]/git" in said
    assert "failed to push some refs to '[remote]'" in said


def test_a_remote_with_commits_of_others_is_never_overwritten(vault, sshd, bare, place_in_memory):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    work = place_in_memory / "work"
    git("clone", "-q", str(bare), str(work))
    (work / "theirs").write_text("x")
    mine = ["-C", str(work), "-c", "user.name=Ann", "-c", "user.email=a@b.c"]
    git(*mine, "add", ".")
    git(*mine, "commit", "-qm", "by hand")
    git(*mine, "push", "-q")
    theirs = git("-C", str(bare), "rev-parse", "main")
    with agent.task("more"):
        agent.files.write("b", "2")
    assert run_all(vault) == 1
    assert agent.git.get().last_error.startswith("remote_diverged")
    assert git("-C", str(bare), "rev-parse", "main") == theirs
    agent.git.configure(sshd.url(bare), branch="holdfast")
    agent.git.push()
    run_all(vault)
    assert agent.git.get().last_error is None
    assert commits_in(bare, "holdfast") == len(agent.timeline())


def test_a_repository_that_was_lost_here_goes_on_where_the_remote_is(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    for number in range(3):
        with agent.task(f"task {number}"):
            agent.files.write("a", str(number))
        run_all(vault)
    before = git("-C", str(bare), "rev-list", "main").split()
    # What was pushed says otherwise than the timeline does by now.
    agent.set_label(agent.timeline()[2], "another label")
    places = repositories(vault)
    assert len(places) == 1
    shutil.rmtree(places[0])
    with agent.task("after"):
        agent.files.write("a", "after")
    assert run_all(vault) == 1
    left = places[0] / "run-of-a-process-that-was-killed"
    left.mkdir()
    (left / "key").write_text("a private key")
    assert agent.git.get().last_error is None
    after = git("-C", str(bare), "rev-list", "main").split()
    assert after[-len(before) :] == before
    assert len(after) == len(agent.timeline())
    agent.git.push()
    run_all(vault)
    assert not [*places[0].glob("run-*")]


def test_a_copy_is_paused_scheduled_and_forgotten(vault, sshd, bare, watch):
    agent = vault.namespace("agent")
    with pytest.raises(GitBackupNotFound):
        agent.git.get()
    set_up(agent, sshd, bare, on_tasks=False, every=timedelta(hours=1))
    with agent.task("work"):
        agent.files.write("a", "1")
    assert run_all(vault) == 0
    agent.git.update(paused=True)
    with pytest.raises(GitBackupPaused):
        agent.git.push()
    watch.wait(timedelta(hours=1, seconds=1))
    assert run_all(vault) == 0
    agent.git.update(paused=False)
    assert run_all(vault) == 1
    watch.wait(timedelta(hours=2))
    assert run_all(vault) == 0  # There is nothing new.
    agent.git.delete()
    assert repositories(vault) == []
    with pytest.raises(GitBackupNotFound):
        agent.git.push()
    assert commits_in(bare) == len(agent.timeline())


def test_what_is_secret_comes_out_nowhere(opens, sshd, bare, place_in_memory, caplog):
    caplog.set_level(logging.DEBUG)
    vault = opens()
    key = place_in_memory / "brought"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    agent = vault.namespace("agent")
    made = set_up(agent, sshd, bare, private_key=key.read_text())
    assert made.public_key.split()[:2] == key.with_suffix(".pub").read_text().split()[:2]
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    assert commits_in(bare)
    secret = "".join(key.read_text().split("\n")[3:4])
    assert len(secret) > 20
    said = repr(agent.git.get()) + caplog.text + str(agent.traces.list())
    agent.export(place_in_memory / "export.tar")
    vault.backup(place_in_memory / "backup")
    kept = [*place_in_memory.rglob("*")]
    looked = b"".join(
        each.read_bytes()
        for each in kept
        if each.is_file() and each != key and "sshd" not in str(each)
    )
    assert secret not in said
    assert secret.encode() not in looked
    vault.close()
    with opens(secrets_key=None) as other:
        other.namespace("agent").git.push()
        run_all(other)
        assert other.namespace("agent").git.get().last_error.startswith("secrets_locked")
        with pytest.raises(SecretsLocked) as told:
            other.namespace("new").git.configure(sshd.url(bare))
        assert told.value.hint.startswith("Set HOLDFAST_SECRETS_KEY to 32 or more characters")


@pytest.mark.parametrize(
    "said",
    [
        {"private_key": "-----BEGIN nonsense"},
        {"user": "me"},
        {"password": "x"},
        {"patterns": ["*"] * 101},
        {"patterns": ["*****"]},
        {"file_bytes": -1},
        {"branch": "-f"},
        {"every": timedelta(seconds=1)},
    ],
)
def test_what_makes_no_sense_is_refused(vault, said):
    with pytest.raises(InvalidValue):
        vault.namespace("agent").git.configure("ssh://git@host.example/x", **said)
    assert not vault.namespace("agent").status().exists


def test_a_password_is_kept_for_the_host_that_it_was_given_for(vault):
    agent = vault.namespace("agent")
    agent.git.configure("https://host.example/x", user="me", password="word")
    for elsewhere in ("https://other.example/x", "https://host.example:8443/x"):
        with pytest.raises(InvalidValue):
            agent.git.configure(elsewhere, user="me")
    assert agent.git.configure("https://host.example/y", user="me").remote.endswith("/y")


def test_what_was_never_pushed_is_made_anew_under_stricter_rules(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare, patterns=[])
    with agent.task("work"):
        agent.files.write("a.csv", "1")
    run_all(vault)
    sshd.stop()
    with agent.task("more"):
        agent.files.write("secret.key", "of mine")
    run_all(vault)
    assert agent.git.get().failures == 1
    sshd.start()
    agent.git.configure(sshd.url(bare), patterns=["*.key"])
    agent.git.push()
    run_all(vault)
    assert agent.git.get().last_error is None
    assert commits_in(bare) == len(agent.timeline())
    everything = git("-C", str(bare), "log", "--format=", "--name-only", "main").split()
    assert "a.csv" in everything
    assert "secret.key" not in everything


def test_what_was_pushed_before_a_crash_is_gone_on_from_under_other_rules(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    with vault._context.catalog.read() as transaction:
        before = transaction.find_git_backup(agent._handle.find_head(transaction).namespace_id)
    run_all(vault)
    with vault._context.work() as transaction:  # Nobody has written down that it was pushed.
        transaction.set_git_backup(before)
    agent.git.configure(sshd.url(bare), patterns=["*.key"])
    with agent.task("more"):
        agent.files.write("b", "1")
    run_all(vault)
    assert agent.git.get().last_error is None
    assert commits_in(bare) == len(agent.timeline())


def test_a_repository_is_of_one_copy_alone(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    (first,) = repositories(vault)
    # The same number, in a catalog that was set back: another copy.
    agent.git.delete()
    first.mkdir()
    (first / "HEAD").write_text("ref: refs/heads/main\n")
    set_up(agent, sshd, bare, branch="other")
    agent.git.push()
    run_all(vault)
    assert agent.git.get().last_error is None
    vault.look_after()
    (second,) = repositories(vault)
    assert second != first


def test_a_snapshot_that_was_deleted_is_waited_for_by_nobody(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    with agent.task("more"):
        agent.files.write("a", "2")
    agent.delete_snapshot(agent.timeline()[0])
    agent.git.push()
    assert [vault.push_backups() for _ in range(3)] == [1, 0, 0]
    with agent.task("last"):
        agent.files.write("a", "3")
    agent.delete_snapshot(agent.timeline()[0])
    assert [vault.push_backups() for _ in range(3)][1:] == [0, 0]


def test_what_a_git_that_was_killed_left_locked_stops_nobody(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    (place,) = repositories(vault)
    (place / "refs/heads/main.lock").touch()
    (place / "packed-refs.lock").touch()
    with agent.task("more"):
        agent.files.write("a", "2")
    run_all(vault)
    assert agent.git.get().last_error is None


def test_nothing_is_pushed_in_the_middle_of_a_task(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
        agent.snapshot("half way")
        assert run_all(vault) == 0
        agent.files.write("a", "2")
    assert run_all(vault) == 1


def test_a_vault_may_be_where_names_have_spaces(sshd, bare, place_in_memory, watch, monkeypatch):
    home = place_in_memory / "Application Support 100%h"
    monkeypatch.setenv("HOME", str(home))
    with holdfast.open(home / "vault", secrets_key=KEY, clock=watch) as vault:
        agent = vault.namespace("agent")
        set_up(agent, sshd, bare)
        with agent.task("work"):
            agent.files.write("a", "1")
        run_all(vault)
        assert agent.git.get().last_error is None


def test_a_namespace_that_is_erased_leaves_no_repository_behind(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    assert repositories(vault)
    vault.erasures.namespace("agent")
    assert repositories(vault) == []


def test_what_is_erased_goes_from_here_and_is_never_pushed_again(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare, planes=["sessions"])
    with agent.task("work"):
        agent.sessions.create("bot", initial_state={"name": "Ann of the hill"}, session_id="s")
        agent.files.write("a", "1")
    run_all(vault)
    agent.git.configure(sshd.url(bare))  # It is in the history still.
    assert len(repositories(vault)) == 1
    vault.erasures.session("agent", "s")
    assert repositories(vault) == []
    with agent.task("more"):
        agent.files.write("a", "2")
    run_all(vault)
    # Not gone on from, and not overwritten: what is there is its owner's.
    assert agent.git.get().last_error.startswith("remote_diverged")
    git("-C", str(bare), "update-ref", "-d", "refs/heads/main")
    agent.git.push()
    run_all(vault)
    assert agent.git.get().last_error is None
    assert commits_in(bare) == len(agent.timeline())
    assert "Ann of the hill" not in git("-C", str(bare), "log", "-p", "main")
    (place,) = repositories(vault)
    assert "Ann of the hill" not in git("-C", str(place), "log", "-p", "--all")


def test_what_another_machine_erased_is_swept_here_within_the_hour(vault, sshd, bare):
    agent = vault.namespace("agent")
    set_up(agent, sshd, bare)
    with agent.task("work"):
        agent.files.write("a", "1")
    run_all(vault)
    (here,) = repositories(vault)
    there = here.with_suffix(".elsewhere")
    here.rename(there)  # Whoever erases does not see it.
    vault.erasures.namespace("agent")
    there.rename(here)
    sweep = sweeping_repositories(vault, every=timedelta(hours=1))
    assert sweep() <= 60  # Whoever starts a server wants to be answered first.
    assert repositories(vault) == [here]
    assert sweep() == 3600
    assert repositories(vault) == []


# A server


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_SECRETS_KEY": KEY, "HOLDFAST_ALLOW_PRIVATE_REMOTES": "1"}
    with running_server(home / "server", environ=environ, begin=at_once) as started:
        yield started


def test_a_server_pushes_by_itself_and_tells_of_it(server: Server, sshd, bare):
    with holdfast.Client(server.api_key, url=server.url, namespace="agent") as agent:
        made = agent.git.configure(sshd.url(bare))
        assert made.namespace == "agent"
        sshd.admit(made.public_key)
        (shown,) = [each for each in agent.git.host_keys() if each.kind == "ssh-ed25519"]
        agent.git.confirm_host(shown.fingerprint)
        (last,) = agent.events.list(limit=1)
        with agent.task("work"):
            agent.files.write("a", "1")
        event = next(agent.events.stream(types=["backup.*"], last_event_id=last.id))
        assert event.type == "backup.pushed"
        found = agent.git.get()
        assert found.pushed_commit == git("-C", str(bare), "rev-parse", "main")
        assert found.secret == b""
        agent.git.update(paused=True)
        with pytest.raises(GitBackupPaused) as refused:
            agent.git.push()
        assert refused.value.http_status == 409
        agent.git.delete()


def test_the_command_line_sets_a_copy_up_pushes_it_and_brings_it_back(
    sshd, bare, place_in_memory, warm
):
    vault = str(place_in_memory / "vault")
    with holdfast.open(vault) as made:
        made.namespace("agent").files.write("a", "1")
        made.namespace("agent").snapshot("first")
    environ = {**os.environ, "HOLDFAST_SECRETS_KEY": KEY, "HOLDFAST_DATA": vault}

    def run(*args: str, code: int = 0) -> dict:
        command = [*warm, "--json", "git", *args]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout or done.stderr)

    here = ("--namespace", "agent")
    assert "`holdfast git set URL`" in run(*here, code=3)["error"]["hint"]
    sshd.admit(run("set", sshd.url(bare), *here)["public_key"])
    assert "host_key_unconfirmed" in run("push", *here, code=1)["last_error"]
    shown = run("host-keys", *here)["host_keys"]
    run("confirm", shown[0]["fingerprint"], *here)
    run("pause", *here)
    assert run("push", *here, code=4)["error"]["code"] == "git_backup_paused"
    run("resume", *here)
    assert run("push", *here)["pushed_number"] == 1
    assert run(*here)["last_error"] is None
    assert run("import", str(bare), "--namespace", "back")["commits"] == 1
    key = place_in_memory / "mine"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    sshd.admit(key.with_suffix(".pub").read_text().strip())
    more = ["--key", str(key), "--fingerprint", named := "SHA256:" + "A" * 43]
    told = run("import", sshd.url(bare), "--namespace", "again", *more, code=4)["error"]
    assert f"you named '{named}', and 127.0.0.1 shows " in told["message"]
    assert shown[0]["fingerprint"] in told["message"]
    more[-1] = shown[0]["fingerprint"]
    assert run("import", sshd.url(bare), "--namespace", "again", *more)["commits"] == 1
    with holdfast.open(vault) as made:
        for name in ("back", "again"):
            assert made.namespace(name).files.read_text("a") == "1"
            assert made.namespace(name).timeline()[0].label == "first"

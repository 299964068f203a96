"""Copies that real servers push: over https with a password, without what is secret, until killed.

A server of ours is started as users start it; what it pushes to is `git http-backend` behind TLS,
or an sshd.
"""

import base64
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import holdfast
from holdfast.errors import GitFailed
from holdfast.testing.gitcopies import git
from holdfast.testing.githttps import GitHttps
from holdfast.testing.servers import COMMAND, Begin, Server, running_server
from holdfast.testing.sshd import MISSING, PROGRAM, Sshd
from holdfast.testing.tokens import TOKENS

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

KEY = "a key of more than thirty-two characters"
PASSWORD = "correct-horse-battery-staple-and-some-more"
FORMS = [PASSWORD.encode(), base64.b64encode(f"me:{PASSWORD}".encode())]
"""What nobody may find anywhere: the password, and as it goes over the wire."""

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def there(home: Path) -> Iterator[GitHttps]:
    root = home / "repositories"
    root.mkdir()
    with GitHttps(home / "https", root=root, user="me", password=PASSWORD) as started:
        yield started


@pytest.fixture
def bare(there: GitHttps, request: pytest.FixtureRequest) -> Path:
    place = there.root / f"{request.node.name[:40]}.git"
    git("init", "-q", "--bare", "-b", "main", str(place))
    git("-C", str(place), "config", "receive.fsckObjects", "true")
    return place


@pytest.fixture(scope="module")
def server(home: Path, there: GitHttps, at_once: Begin) -> Iterator[Server]:
    environ = {
        "HOLDFAST_SECRETS_KEY": KEY,
        "HOLDFAST_ALLOW_PRIVATE_REMOTES": "1",
        "HOLDFAST_GIT_CERTIFICATES": str(there.certificate),
    }
    with running_server(home / "server", environ=environ, begin=at_once) as started:
        yield started


def push(agent: holdfast.Client, started: Server) -> holdfast.GitBackup:
    """Asks for a push, and returns what came of it."""
    tried = agent.git.push().tried_at
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = agent.git.get()
        if found.tried_at != tried and (found.asked_at is None or found.last_error):
            return found
        time.sleep(0.05)
    raise AssertionError(started.read_log())


def commands() -> bytes:
    """What everybody on the machine sees of all processes."""
    found = list[bytes]()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(place.read_bytes())
        except OSError:
            continue  # It is over.
    return b"\n".join(found)


def bytes_in(folder: Path) -> bytes:
    """All that lies in a folder, names as well."""
    parts = list[bytes]()
    for place in folder.rglob("*"):
        parts.append(os.fsencode(place))
        if place.is_file():
            parts.append(place.read_bytes())
    return b"\n".join(parts)


def test_a_copy_goes_over_https_and_its_password_is_nowhere(server, there, bare, tmp_path):
    seen, asked = list[bytes](), list[str]()

    def look(path: str) -> None:
        asked.append(path)
        if path.endswith("git-receive-pack"):
            seen.append(commands())

    there.watch = look
    with holdfast.Client(server.api_key, url=server.url, namespace="https") as agent:
        agent.git.configure(there.url(bare), user="me", password=PASSWORD, on_tasks=False)
        agent.files.write("large.bin", os.urandom(2_000_000))  # More than git sends in one piece.
        agent.snapshot("first")
        found = push(agent, server)
        assert found.last_error is None
        assert found.pushed_commit == git("-C", str(bare), "rev-parse", "main")
        assert any(b"receive-pack" in each or b"remote-https" in each for each in seen)
        events = str(agent.events.list())
        answers = str(found) + repr(agent.git.get()) + str(agent.traces.list())
        agent.git.configure(there.url(bare), user="me", password="wrong-" + PASSWORD[::-1])
        refused = push(agent, server)
        said = "git_failed: git push failed: the remote did not accept the user and the password"
        assert refused.last_error == said
        # With the repository that it is pushed from, and the configuration of that.
        assert [*server.data.glob("git/*/*.git/config")]
        places = [server.log.read_bytes(), bytes_in(server.data), bytes_in(bare)]
        agent.git.delete()
    told = f"{events}{answers}{refused}{refused.last_error}".encode()
    everything = b"\n".join([*seen, *places, told])
    assert not [form for form in FORMS if form in everything]

    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    options = ["--namespace", "back", "--user", "me", "--password-file", str(password)]
    environ = {**os.environ, "HOLDFAST_DATA": str(tmp_path / "vault")}
    environ["HOLDFAST_GIT_CERTIFICATES"] = str(there.certificate)
    command = [*COMMAND, "git", "import", there.url(bare), *options]
    subprocess.run(command, env=environ, check=True, capture_output=True)
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.namespace("back").timeline()[0].label == "first"


def test_a_host_whose_certificate_nobody_knows_is_shown_no_password(there, bare, place_in_memory):
    asked = list[str]()
    there.watch = asked.append
    with holdfast.open(place_in_memory / "vault", secrets_key=KEY) as vault:
        agent = vault.namespace("agent")
        agent.files.write("a", "1")
        agent.snapshot()
        agent.git.configure(there.url(bare), user="me", password=PASSWORD)
        agent.git.push()
        assert vault.push_backups() == 1
        assert "certificate" in agent.git.get().last_error.lower()
    assert asked == []


def test_what_a_remote_repeats_of_a_password_is_kept_nowhere(there, bare, place_in_memory):
    forms = [form.decode() for form in FORMS]
    pair = f"me:{PASSWORD}"
    more = [there.authorization, pair, quote(pair, safe=""), base64.b64encode(PASSWORD.encode())]
    there.refusal = f"so it was {forms} and {more}, in the end".encode()
    with holdfast.open(
        place_in_memory / "vault", secrets_key=KEY, git_certificates=there.certificate
    ) as vault:
        agent = vault.namespace("agent")
        agent.files.write("a", "1")
        agent.snapshot()
        agent.git.configure(there.url(bare), user="me", password=PASSWORD)
        agent.git.push()
        try:
            assert vault.push_backups() == 1
            with pytest.raises(GitFailed) as refused:
                vault.namespace("back").git.import_(there.url(bare), user="me", password=PASSWORD)
            # More than is repeated, with an end in which the beginning of one is missing.
            there.refusal = (PASSWORD * 3000).encode()
            with pytest.raises(GitFailed) as long:
                vault.namespace("back").git.import_(there.url(bare), user="me", password=PASSWORD)
        finally:
            there.refusal = None
        said = agent.git.get().last_error
        vault.backup(place_in_memory / "backup")
    for words in (said, str(refused.value)):
        assert "so it was ['[password]', '[password]'] and ['Basic [password]" in words
        assert "in the end" in words
    kept = f"{said}{refused.value}{long.value}".encode() + bytes_in(place_in_memory)
    assert not [form for form in (*FORMS, PASSWORD[8:].encode()) if form in kept]


def test_no_token_that_was_planted_comes_out_anywhere(server, there, bare):
    assert len(TOKENS) > 25
    hook = bare / "hooks/pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n" + "".join(f"echo {each} >&2\n" for each in TOKENS) + "exit 1\n")
    hook.chmod(0o755)
    planes = ["store", "sessions", "memories"]
    with holdfast.Client(server.api_key, url=server.url, namespace="tokens") as agent:
        agent.git.configure(there.url(bare), user="me", password=PASSWORD, planes=planes)
        agent.files.write("kept.txt", "nothing to hide")
        agent.store.set("plain", "kept", {"word": "nothing to hide"})
        for number, token in enumerate(TOKENS):
            agent.files.write(f"notes/{number}.txt", f"my key:\n{token}\nis not yours\n")
            agent.store.set("keys", f"value {number}", {"deep": [f"one\n{token}"]})
            agent.memory.add(f"a key is\n{token}")
        session = agent.sessions.create("bot", initial_state={"keys": f"first\n{TOKENS[0]}"})
        agent.sessions.create("bot", initial_state={"word": "nothing to hide"}, session_id="plain")
        for token in TOKENS:
            agent.sessions.add_turn(session.id, input=f"it is\n{token}", output="thanks")
        agent.snapshot("with many tokens")
        refused = push(agent, server)  # The remote says all of them.
        hook.unlink()
        found = push(agent, server)
        assert found.last_error is None
        # Of each token a file, a value, a memory and a turn; and the state.
        assert found.withheld == 4 * len(TOKENS) + 1
        said = [refused.last_error, str(found), repr(found), str(agent.git.get())]
        said += [str(agent.events.list(limit=1000)), str(agent.traces.list(limit=1000))]
    objects = subprocess.run(
        ["git", "-C", str(bare), "cat-file", "--batch-all-objects", "--batch"],
        check=True,
        capture_output=True,
    ).stdout
    looked_at = ["\n".join(said).encode(), server.log.read_bytes(), objects]
    for data in looked_at:
        assert [token for token in TOKENS if token.encode() in data] == []
    listed = git("-C", str(bare), "ls-tree", "-r", "--name-only", "main").split()
    assert "kept.txt" in listed
    assert ".holdfast/store/plain/kept.json" in listed
    assert ".holdfast/sessions/plain/session.json" in listed


def test_a_server_that_is_killed_while_it_pushes_leaves_nothing_running(
    home, place_in_memory, at_once: Begin
):
    bare, marker = place_in_memory / "theirs.git", place_in_memory / "begun"
    git("init", "-q", "--bare", "-b", "main", str(bare))
    environ = {"HOLDFAST_SECRETS_KEY": KEY, "HOLDFAST_ALLOW_PRIVATE_REMOTES": "1"}
    with (
        Sshd(place_in_memory / "sshd") as sshd,
        running_server(home / "killed", environ=environ, begin=at_once) as server,
        holdfast.Client(server.api_key, url=server.url, namespace="agent") as agent,
    ):
        sshd.admit(agent.git.configure(sshd.url(bare)).public_key)
        agent.git.confirm_host(agent.git.host_keys()[0].fingerprint)
        sshd.stop()
        # It listens, and says nothing.
        sshd.start(command=f"sh -c 'touch {marker}; cat >/dev/null'")
        with agent.task("work"):
            agent.files.write("a", "1")
        wait_until(marker.exists)
        assert str(bare).encode() in commands()
        server.kill()
        wait_until(lambda: str(bare).encode() not in commands())

        sshd.stop()
        sshd.start()
        with holdfast.open(server.data, secrets_key=KEY) as vault:
            there = vault.namespace("agent")
            there.git.push()
            assert vault.push_backups() == 1
            found = there.git.get()
            assert found.last_error is None
            assert found.pushed_commit == git("-C", str(bare), "rev-parse", "main")
            count = int(git("-C", str(bare), "rev-list", "--count", "main"))
            assert count == len(there.timeline())
            assert vault.verify().faults == []
        assert git("-C", str(bare), "fsck", "--strict", "--no-dangling") == ""
        assert not [*server.data.glob("git/*/*.git/run-*")]  # Where the key was.


def wait_until(is_so) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)

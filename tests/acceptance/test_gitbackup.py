"""A namespace and its copy in git: every snapshot is a commit, and the way back leads here."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.gitbackup.exporting import WITHHELD, export
from holdfast.engine.gitbackup.importing import import_history
from holdfast.engine.gitbackup.rules import Rules
from holdfast.engine.gitbackup.tokens import has_token
from holdfast.errors import GitFailed, NamespaceExists, UnsafeArchive
from holdfast.git import names
from holdfast.git.program import Program
from holdfast.git.remotes import fetch_path
from holdfast.git.repository import EXECUTABLE, FILE, LINK, Reader, Repository
from holdfast.testing.gitcopies import HOSTILE, make_repository
from holdfast.testing.tokens import TOKENS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

ALL = Rules(patterns=(), finds_tokens=False)
HEAD = "refs/heads/main"


@pytest.fixture
def agent(place_in_memory: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(place_in_memory / "vault") as vault:
        yield vault.namespace("agent")


@pytest.fixture
def copy(place_in_memory: Path) -> Repository:
    return make_repository(place_in_memory, "copy.git")


def bring(agent: holdfast.Namespace, copy: Repository, rules: Rules = ALL):
    return export(agent._handle, copy, branch="main", rules=rules)


def tree_of(copy: Repository, commit: str) -> dict[bytes, tuple[bytes, bytes]]:
    """What a commit holds, by the names that it has here: mode and content."""
    listed = copy.run("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]
    found = {}
    with copy.reading() as reader:
        for line in listed:
            said, _, path = line.partition(b"\t")
            mode, _, blob = said.split(b" ")
            found[path] = (mode, reader.get(blob, most_bytes=1 << 30))
    return {names.from_git(path): entry for path, entry in found.items()}


def files_of(agent: holdfast.Namespace, snapshot) -> dict[bytes, tuple[bytes, bytes]]:
    """What a snapshot holds, as git would have it."""
    moment, found = agent.at(snapshot), {}
    for info in moment.files.list(recursive=True):
        key = os.fsencode(info.path)
        if info.kind == "link":
            found[key] = (LINK, os.fsencode(info.target))
        elif info.kind == "file":
            mode = EXECUTABLE if info.mode & 0o100 else FILE
            found[key] = (mode, moment.files.read(info.path))
        elif not moment.files.list(info.path):
            found[key + b"/" + names.KEEP] = (FILE, b"")
    return found


def check_all(agent: holdfast.Namespace, copy: Repository) -> None:
    commits = copy.commits(HEAD, most=10_000)
    snapshots = list(reversed(agent.timeline()))
    assert len(commits) == len(snapshots)
    for commit, snapshot in zip(commits, snapshots, strict=True):
        assert snapshot.id in commit.message
        assert tree_of(copy, commit.id) == files_of(agent, snapshot)
    assert copy.check() == ""


def play(agent: holdfast.Namespace) -> None:
    """Some of all that can happen."""
    for path in HOSTILE:
        agent.files.write(path, path)
    agent.files.write("run.sh", "#!/bin/sh\n", mode=0o755)
    agent.files.write("deep/er/one.txt", "1")
    agent.files.mkdir("empty/folder")
    agent.files.mkdir("secret", mode=0o700)
    agent.files.write(b"\xff\xfe.bin", b"\0\xff" * 5000)
    first = agent.snapshot("first")
    agent.files.write("secret/inside/x", "x")
    agent.files.delete("deep/er/one.txt")
    agent.files.write("empty/folder/full", "now")
    agent.snapshot('two\n\nHoldfast-Root: "forged"')
    agent.files.delete("secret/inside", recursive=True)
    agent.files.delete("run.sh")
    agent.files.write("run.sh/now/a/folder", "x")
    with agent.task("a task"):
        agent.files.write("of-a-task", "x" * 100_000)
    agent.restore(first)
    agent.undo()
    agent.files.delete("run.sh", recursive=True)
    agent.snapshot()


def test_every_snapshot_is_a_commit_with_exactly_its_files(agent, copy):
    play(agent)
    done = bring(agent, copy)
    assert done.number == agent.timeline()[0].number
    check_all(agent, copy)


def test_step_by_step_and_all_at_once_the_commits_are_the_same(agent, copy, place_in_memory):
    agent.files.write("a", "1")
    agent.snapshot("one")
    bring(agent, copy)
    play(agent)
    one = bring(agent, copy)
    other = bring(agent, make_repository(place_in_memory, "again.git"))
    assert one.tip == other.tip
    assert bring(agent, copy).commits == 0


def test_only_what_differs_is_written(agent, copy):
    for number in range(300):
        agent.files.write(f"folder/{number}", str(number) * 100)
    agent.snapshot()
    bring(agent, copy)
    before = int(copy.run("count-objects", "-v").split(b"in-pack: ")[1].split()[0])
    agent.files.write("folder/7", "seven")
    agent.snapshot()
    bring(agent, copy)
    # One file, two folders, one commit; so few lie by themselves.
    loose = int(copy.run("count-objects").split()[0])
    assert before > 300
    assert loose == 4


def test_what_looks_like_a_secret_stays_here_and_is_named(agent, copy):
    token = "ghp_" + "a1" * 18
    agent.files.write("notes.txt", f"use {token}\n")
    agent.files.write("src/.env", "PASSWORD=x")
    agent.files.write("large.bin", b"0" * 3000)
    agent.files.write(token, "a name can be one, too")
    agent.files.write("kept.txt", "fine")
    about = {"key": token, "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
    agent.snapshot(f"with {token} in the label", metadata=about)
    bring(agent, copy, Rules(file_bytes=2000))
    tree = tree_of(copy, HEAD)
    assert tree.keys() == {b"kept.txt", WITHHELD}
    listed = tree[WITHHELD][1].decode()
    assert '"notes.txt": "secret"' in listed
    assert '"src/.env": "pattern"' in listed
    assert '"large.bin": "size"' in listed
    everything = copy.run("log", "-p", "--format=%an%B", HEAD)
    assert token.encode() not in everything
    assert b"wJalrXUtnFEMI" not in everything
    agent.files.write("notes.txt", "nothing to see")
    agent.snapshot()
    bring(agent, copy, Rules(file_bytes=2000))
    assert tree_of(copy, HEAD)[b"notes.txt"] == (FILE, b"nothing to see")
    assert b"notes.txt" not in tree_of(copy, HEAD)[WITHHELD][1]
    agent.files.write("notes.txt", f"{token} again")
    agent.snapshot()
    bring(agent, copy, Rules(file_bytes=2000))
    assert b"notes.txt" not in tree_of(copy, HEAD)


def test_under_other_rules_a_tree_is_made_anew(agent, copy):
    agent.files.write("data.csv", "1,2")
    agent.snapshot()
    bring(agent, copy, Rules(patterns=("*.csv",)))
    agent.files.write("other", "x")
    agent.snapshot()
    bring(agent, copy, ALL)
    assert tree_of(copy, HEAD) == files_of(agent, agent.timeline()[0])


def test_what_the_user_told_git_means_nothing(agent, copy, place_in_memory, monkeypatch):
    hook = place_in_memory / "hooks" / "reference-transaction"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {place_in_memory}/ran\n")
    hook.chmod(0o755)
    config = place_in_memory / "config"
    config.write_text(f"[core]\n\thooksPath = {hook.parent}\n[user]\n\tname = Mallory\n")
    (place_in_memory / ".gitconfig").write_text(config.read_text())
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_DIR": str(place_in_memory / "elsewhere"),
        "GIT_AUTHOR_NAME": "Mallory",
        "GIT_COMMITTER_DATE": "1000000000 +0000",
        "HOME": str(place_in_memory),
    }.items():
        monkeypatch.setenv(name, value)
    agent.files.write("a", "1")
    agent.snapshot()
    bring(agent, copy)
    assert not (place_in_memory / "ran").exists()
    assert not (place_in_memory / "elsewhere").exists()
    assert copy.find(HEAD).author == "holdfast"


def test_a_stream_that_breaks_off_leaves_the_branch_where_it_was(agent, copy):
    agent.files.write("a", "1")
    agent.snapshot()
    tip = bring(agent, copy).tip

    def stop_half_way() -> None:
        with copy.writing("main") as writer:
            writer.begin("half", author="x", seconds=1)
            writer.put(b"b", FILE, 100, [b"too little"])
            raise RuntimeError

    def talk_nonsense() -> None:
        with copy.writing("main") as writer:
            writer.begin("bad", author="x", seconds=1)
            writer._write(b"nonsense\n")

    with pytest.raises(RuntimeError):
        stop_half_way()
    with pytest.raises(GitFailed):
        talk_nonsense()
    assert copy.find(HEAD).id == tip
    assert not [*copy.folder.glob("fast_import_crash_*")]
    agent.files.write("b", "2")
    agent.snapshot()
    bring(agent, copy)
    check_all(agent, copy)


def test_a_git_that_hangs_is_ended(copy):
    args = [*copy._at, "cat-file", "--batch"]
    with copy._program.started(args, seconds=0.1) as (process, _):
        assert process.wait(60) == -signal.SIGKILL
        with pytest.raises(GitFailed):
            Reader(process).get(b"HEAD", most_bytes=1)


def test_what_is_fetched_is_bounded(agent, copy, place_in_memory):
    agent.files.write("large", os.urandom(200_000))
    agent.snapshot()
    bring(agent, copy)
    other = make_repository(place_in_memory, "other.git")
    said = {"source": HEAD, "target": HEAD}
    with pytest.raises(GitFailed):
        fetch_path(other, copy.folder, **said, most_bytes=100_000)
    assert other.find(HEAD) is None
    fetch_path(other, copy.folder, **said, most_bytes=300_000)
    assert other.find(HEAD) is not None


def test_a_vault_that_is_set_back_goes_on_from_what_both_have(copy, place_in_memory):
    vault = place_in_memory / "vault"
    with holdfast.open(vault) as opened:
        agent = opened.namespace("agent")
        for number in range(3):
            agent.files.write("a", str(number))
            agent.snapshot(f"before {number}")
        opened.backup(place_in_memory / "backup")
        for number in range(3):
            agent.files.write("a", f"lost {number}")
            agent.snapshot(f"lost {number}")
        bring(agent, copy)
    holdfast.reinstate(place_in_memory / "backup", place_in_memory / "again")
    with holdfast.open(place_in_memory / "again") as opened:
        agent = opened.namespace("agent")
        agent.files.write("a", "anew")
        agent.snapshot("anew")
        bring(agent, copy)
        bring(agent, copy)
        subjects = [each.message.partition("\n")[0] for each in copy.commits(HEAD, most=100)]
        kept = [f"snapshot: before {n}" for n in range(3)] + [
            f"snapshot: lost {n}" for n in range(3)
        ]
        assert subjects == [*kept, "snapshot: anew"]
        assert tree_of(copy, HEAD) == files_of(agent, agent.timeline()[0])


# The way back


def test_a_namespace_comes_back_with_its_timeline(agent, copy, place_in_memory):
    play(agent)
    bring(agent, copy)
    with holdfast.open(place_in_memory / "other") as vault:
        back = vault.namespace("back")
        done = import_history(back._handle, copy, HEAD, origin="test")
        ours, theirs = agent.timeline(), back.timeline()
        assert done.commits == len(theirs) == len(ours)
        for here, there in zip(ours, theirs, strict=True):
            assert here.label == there.label
            assert files_of(agent, here) == files_of(back, there)
        assert vault.verify().faults == []
        assert vault.verify_audit().ok
        with pytest.raises(NamespaceExists):
            import_history(back._handle, copy, HEAD, origin="test")
        again = make_repository(place_in_memory, "again.git")
        bring(back, again)
        same = [tree_of(each, HEAD) for each in (copy, again)]
        assert same[0] == same[1]


def test_the_repository_of_somebody_else_is_taken_as_well(agent, place_in_memory):
    work = place_in_memory / "work"
    work.mkdir()

    def git(*args: str) -> None:
        mine = ["-c", "user.name=Ann", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *mine, *args], cwd=work, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (work / "a.txt").write_text("1")
    (work / "link").symlink_to("a.txt")
    git("add", ".")
    git("commit", "-qm", "Begin\n\nwith more words")
    (work / "a.txt").unlink()
    (work / "a.txt").mkdir()
    (work / "a.txt" / "b").write_text("2")
    git("add", "-A")
    git("commit", "-qm", "A file becomes a folder")
    there = Repository(Program(place_in_memory), work / ".git")
    import_history(agent._handle, there, HEAD, origin="test")
    labels = [each.label for each in agent.timeline()]
    assert labels == ["A file becomes a folder", "Begin"]
    assert agent.files.read("a.txt/b") == b"2"
    assert agent.at(agent.timeline()[1]).files.read("a.txt") == b"1"


def test_a_file_that_becomes_another_repository_is_gone(agent, copy):
    with copy.writing("main") as writer:
        writer.begin("file", author="x", seconds=1)
        writer.put(b"a", FILE, 1, [b"1"])
        writer.put(b"b", FILE, 1, [b"2"])
        writer.begin("module", author="x", seconds=2)
        writer._write(b"M 160000 %s a\n" % (b"1" * 40))
    done = import_history(agent._handle, copy, HEAD, origin="test")
    assert done.left_out == ["a"]
    assert [each.path for each in agent.files.list()] == ["b"]


@pytest.mark.parametrize(
    "path", [b".hf~%2E.", b".hf~%2F", b"x/.hf~%2E./y", b".hf~%41/b", b".hf~nonsense"]
)
def test_a_hostile_repository_is_refused_and_leaves_nothing(agent, copy, path):
    with copy.writing("main") as writer:
        writer.begin("hostile", author="x", seconds=1)
        writer.put(b"A", FILE, 1, [b"1"])
        writer.put(path, FILE, 1, [b"2"])
    with pytest.raises(UnsafeArchive, match="the repository was refused") as told:
        agent.git.import_(str(copy.folder), branch="main")
    assert "another branch" in told.value.hint
    assert not agent.status().exists


@pytest.mark.parametrize("token", [*TOKENS, "-----BEGIN OPENSSH PRIVATE KEY-----"])
def test_the_shapes_that_makers_gave_their_tokens_are_seen(token):
    data = token.encode()
    assert has_token([b"key = " + data + b"\n"])
    assert has_token([b"x" * 1000 + b" " + data[:9], data[9:] + b" y"])
    assert not has_token([b"a word, sk-learn, the key-value store, hf_transfer, ghp_ and SG.1.2"])


def test_a_token_that_lies_across_two_parts_is_seen():
    token = b"eyJ" + b"a" * 300 + b".eyJ" + b"b" * 10
    assert all(has_token([token[:at], token[at:]]) for at in range(1, len(token)))

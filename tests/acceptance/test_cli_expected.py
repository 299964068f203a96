"""The commands that people expect, typed: from where they stand, by the names that they use."""

import io
import os
import pty
import re
import subprocess
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import read_terminal

from .test_cli import Done, Session

pytestmark = pytest.mark.in_memory


@pytest.fixture
def project(tmp_path: Path, warm: tuple[str, ...]) -> Session:
    user = Session(tmp_path, warm)
    user.ok("init")
    return user


def inside(project: Session, folder: str, *argv: str) -> Done:
    return project(*argv, cwd=project.project / folder)


# Where one stands


def test_paths_are_from_the_folder_that_one_is_in(project: Session) -> None:
    project.write("src/app.py", "x = 3\n")
    project.write("readme.md", "changed\n")
    (project.project / "src" / "[x]").mkdir()
    project.write("src/[x]/a.txt", "new\n")
    status = inside(project, "src", "status").out
    assert re.findall(r"^  ([+~-] \S+)", status, re.MULTILINE) == [
        "~ ../readme.md",
        "+ [x]/a.txt",
        "~ app.py",
    ]
    assert inside(project, "src", "diff", "--path", "app.py", "--name-only").out == "app.py\n"
    assert inside(project, "src", "diff", "--path", "./*.py", "--name-only").out == "app.py\n"
    assert inside(project, "src/[x]", "diff", "--path", "*.txt", "--name-only").out == "a.txt\n"
    above = inside(project, "src", "diff", "--path", "..", "--name-only").out
    assert above == "../readme.md\n[x]/a.txt\napp.py\n"
    absolute = str(project.project / "readme.md")
    patch = inside(project, "src", "diff", "--path", absolute).out
    assert patch.startswith("diff --git a/readme.md b/readme.md\n"), "a patch is from the root"
    only = inside(project, "src", "status", "app.py", "--json").document["changes"]
    assert [change["path"] for change in only] == ["src/app.py"]
    done = inside(project, "src", "restore", "@", "--path", "app.py")
    assert (done.code, project.files()["src/app.py"]) == (0, b"x = 1\ny = 2\n")
    assert project.files()["readme.md"] == b"changed\n"
    inside(project, "src", "restore", "first snapshot", "--name", "../readme.md")
    assert project.files()["readme.md"] == b"hello\n"


def test_a_path_that_names_nothing_is_3_and_one_that_leads_out_2(project: Session) -> None:
    project.write("src/app.py", "x = 3\n")
    for command in (["diff", "--path", "six.py"], ["status", "six.py"]):
        assert inside(project, "src", *command).code == 3, command
    assert project("diff", "--path", "readme.md").out == "", "there, and as it was"
    assert inside(project, "src", "diff", "--path", "../../outside").code == 2
    assert project("restore", "@", "--name", "/etc/passwd").code == 2


# What snapshots are called


def test_a_snapshot_is_named_by_its_label_its_task_or_when_it_was(project: Session) -> None:
    project.write("readme.md", "one\n")
    first = project.ok("snapshot", "-m", "before the rewrite", "--json").document
    ran = project.ok("run", "--json", "--", "sh", "-c", "echo two > readme.md").document
    project.write("readme.md", "three\n")
    project.ok("snapshot", "-m", "twice")
    project.ok("snapshot", "-m", "twice")

    def shown(name: str) -> str:
        return project.ok("show", name, "--json").document["snapshot_id"]

    assert shown("before the rewrite") == first["snapshot_id"]
    assert shown(ran["after"]["task_id"]) == ran["snapshot_id"]
    taken = datetime.fromisoformat(first["created_at"])
    assert shown(f"@{{{taken.isoformat()}}}") == first["snapshot_id"]
    assert shown("@{now}") == shown("latest")
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    assert shown(f"@{{{tomorrow:%Y-%m-%d}}}") == shown("latest")
    project.ok("restore", "before the rewrite")
    assert project.files()["readme.md"] == b"one\n"
    project.ok("pin", "before the rewrite")
    assert "-two\n+one\n" in project.ok("diff", ran["after"]["task_id"], "@").out
    done = project("show", "twice", "--json")
    assert (done.code, done.error["code"]) == (4, "conflict")
    assert project("show", "before the", "--json").code == 3, "a label is one to the letter"
    assert project("show", "@{yesterday}").code == 3
    for nonsense in ("@{whenever}", "@{}", "@{2026-99-99}"):
        assert project("show", nonsense).code == 2, nonsense


# Lists


def test_large_folders_are_folded_and_what_programs_made_comes_last(project: Session) -> None:
    for number in range(300):
        project.write(f"node_modules/pkg{number % 7}/{number}.js", "x\n")
        project.write(f"data/{number % 3}/{number}.csv", "x\n")
    project.write(".git/hooks/pre-commit", "#!/bin/sh\n")
    for number in range(5):
        project.write(f".git/objects/{number}", "x\n")
    project.write("src/app.py", "x = 3\n")
    lines = project.ok("status").out.splitlines()
    listed = [line for line in lines if line.startswith("  ")]
    assert listed[0].startswith("  +!.git/hooks/pre-commit"), "never put away"
    assert any(re.match(r"  ~ src/app.py +12 B → 6 B", line) for line in listed)
    assert "  + data/0/  100 added" in listed
    assert listed[-2:] == ["  + .git/  5 added", "  + node_modules/  300 added"]
    assert len(listed) < 42
    assert "607 changes: 606 added, 1 changed" in "\n".join(lines)
    everything = project.ok("status", "-v").out
    assert "data/2/299.csv" in everything
    assert everything.index("src/app.py") < everything.index("node_modules/pkg0/0.js")


def test_a_log_names_where_it_stands_and_draws_what_goes_on_from_what(project: Session) -> None:
    for number in range(3):
        project.write("readme.md", f"{number}\n")
        project.ok("snapshot", "-m", f"step {number}")
    project.ok("undo")
    project.write("readme.md", "other\n")
    project.ok("snapshot", "-m", "another way")
    log = project.ok("log").out
    assert "to snap-" in log
    assert '"step 1"' in log, "where an undo led to, by its label"
    graph = project.ok("log", "--graph").out.splitlines()
    assert [line[:4] for line in graph] == [
        *("* @ ", "| * ", "|/", "| * ", "|/", "*   ", "*   ", "*   ")
    ]
    assert graph[3].endswith("step 2"), "what was undone stands beside"
    project.ok("undo")
    project.ok("undo")
    short = project.ok("log", "-n", "1").out.splitlines()
    assert len(short) == 2
    assert short[1].startswith("@ is snap-")
    named = project.ok("log", "--path", "readme.md").out
    assert named == project.ok("log", "readme.md").out


def test_the_path_of_the_root_is_a_choice_of_files(project: Session) -> None:
    with holdfast.open(project.vault) as vault:
        agent = vault.namespace("project")
        agent.store.set("notes", "k", "old")
        before = agent.snapshot("before").id
        agent.store.set("notes", "k", "new")
        agent.snapshot("after")
    project.write("readme.md", "changed\n")
    project.ok("restore", before, "--path", ".")
    assert project.files()["readme.md"] == b"hello\n"
    with holdfast.open(project.vault) as vault:
        assert vault.namespace("project").store.get("notes", "k") == "new"


@pytest.mark.parametrize("when", ["999999 weeks ago", "0001-01-01", "0001-01-01 00:00", "no time"])
def test_a_time_that_no_calendar_reaches_is_a_mistake_of_whoever_names_it(
    project: Session, when: str
) -> None:
    done = project("show", f"@{{{when}}}")
    assert done.code == 2, done
    assert "Traceback" not in done.err


# Branches


def test_a_fork_is_switched_to_worked_on_and_merged(project: Session) -> None:
    project.write("pending.txt", "in no snapshot yet\n")
    made = project.ok("fork", "idea", "--json").document
    assert made["forked_from"] == "project"
    assert "idea now: nothing" in project.ok("switch", "idea").out
    assert project.ok("status", "--json").document["namespace"] == "idea"
    project.write("src/app.py", "better\n")
    project.write("unkept.txt", "kept when the directory leaves\n")
    there = project.files()
    project.ok("switch", "project")
    assert project.files() == {
        "pending.txt": b"in no snapshot yet\n",
        "readme.md": b"hello\n",
        "src/app.py": b"x = 1\ny = 2\n",
    }
    project.write("readme.md", "changed here\n")
    merged = project.ok("merge", "idea").out
    assert "1 added, 1 changed, verified" in merged
    assert project.files() == {**there, "readme.md": b"changed here\n"}
    project.ok("undo")
    assert "unkept.txt" not in project.files()
    assert project.files()["readme.md"] == b"changed here\n"
    project.ok("switch", "idea")
    assert project.files() == there
    project.ok("verify")


def test_an_undo_after_a_switch_takes_back_what_was_done_there(project: Session) -> None:
    first = project.files()
    project.write("readme.md", "two\n")
    project.ok("snapshot", "-m", "two")
    before = project.ok("log").out
    project.ok("switch", "-c", "idea")
    project.write("only-idea.txt", "of the other one\n")
    project.write("readme.md", "three\n")
    project.ok("snapshot")
    there = project.files()
    shown = project.ok("switch", "project", "--json").document
    assert (shown["safety_id"], shown["snapshot_id"], shown["verified"]) == (None, None, True)
    assert (shown["namespace"], shown["left"]) == ("project", "idea")
    assert project.ok("log").out == before
    project.ok("undo")
    assert project.files() == first
    project.ok("redo")
    assert project.files() == {**first, "readme.md": b"two\n"}
    project.ok("switch", "idea")
    assert project.files() == there


def test_what_both_sides_changed_is_4_until_one_wins(project: Session) -> None:
    project.ok("switch", "-c", "idea")
    project.write("readme.md", "theirs\n")
    project.ok("switch", "project")
    project.write("readme.md", "ours\n")
    done = project("merge", "idea")
    assert done.code == 4
    assert "--prefer" in done.err
    assert project.files()["readme.md"] == b"ours\n"
    project.ok("merge", "idea", "--prefer", "theirs")
    assert project.files()["readme.md"] == b"theirs\n"
    project.ok("undo")
    assert project.files()["readme.md"] == b"ours\n"


def test_a_switch_that_cannot_be_leaves_everything_as_it_was(
    project: Session, tmp_path: Path
) -> None:
    assert project("switch", "project").code == 2
    done = project("switch", "nowhere")
    assert done.code == 3
    assert "holdfast namespaces" in done.err
    other = tmp_path / "other"
    other.mkdir()
    project.ok("init", str(other))
    assert project("switch", "other").code == 4
    assert project("fork", "other").code == 4
    assert project.ok("status", "--json").document["namespace"] == "project"
    project.ok("fork", "old", "--at", "@")
    # A fifo where the other namespace has a file: no snapshot can hold it.
    (project.project / "readme.md").unlink()
    os.mkfifo(project.project / "readme.md")
    done = project("switch", "old")
    assert done.code == 4, done
    assert project.ok("status", "--json").document["namespace"] == "project"
    assert (project.project / "readme.md").is_fifo()
    project.ok("switch", "old", "--force")
    assert project.files()["readme.md"] == b"hello\n"


def test_a_switch_that_fails_brings_nothing_of_the_other_namespace(project: Session) -> None:
    project.ok("switch", "-c", "idea")
    project.write("only-idea.txt", "of the other one\n")
    project.write("pipe", "a file there\n")
    project.write("readme.md", "changed there\n")
    project.ok("switch", "project")
    here = project.files()
    os.mkfifo(project.project / "pipe")
    assert project("switch", "idea").code == 4
    (project.project / "pipe").unlink()
    assert project.files() == here
    assert project.ok("status", "--json").document["changes"] == []
    project.ok("switch", "idea")
    assert project.files()["only-idea.txt"] == b"of the other one\n"
    assert project.files()["readme.md"] == b"changed there\n"
    project.ok("switch", "project")
    assert project.files() == here


def test_namespaces_are_listed_by_prefix_with_what_they_hold(project: Session) -> None:
    for name in ("idea-1", "idea-2"):
        project.ok("fork", name)
    every = project.ok("namespaces", "--json").document["namespaces"]
    assert [each["namespace"] for each in every] == ["idea-1", "idea-2", "project"]
    assert every[2]["directory"] == {"path": str(project.project)}
    assert {each["bytes"] for each in every} == {18}
    taken = project.ok("log", "-n", "0", "--json").document["snapshots"]
    assert every[2]["snapshots"] == len(taken)
    assert (every[0]["is_dirty"], every[0]["level"]) == (False, "healthy")
    said = project.ok("namespaces", "-v").out
    assert "forked from" in said
    assert "the last" in said
    some = project.ok("namespaces", "idea").out.splitlines()
    assert [line.split()[0] for line in some] == ["idea-1", "idea-2"]
    used = project.ok("du", "--namespaces", "--json").document["namespaces"]
    assert {each["namespace"] for each in used} == {"idea-1", "idea-2", "project"}
    assert "namespaces (each as if it were alone)" in project.ok("du", "--namespaces").out


# Searching


def test_files_are_searched_at_a_moment(project: Session) -> None:
    project.write("src/deep/b.py", "nothing\nTODO: this\r\nX = 'é TODO'\n")
    (project.project / "odd\nname.txt").write_text("TODO \x1b[31m\n")
    (project.project / "a.bin").write_bytes(b"\0TODO\n")
    project.ok("snapshot")
    project.write("src/deep/b.py", "done\n")
    project.ok("snapshot")
    found = project.ok("grep", "TODO", "--at", "@-1").out
    assert found == (
        "odd\\x0aname.txt:1:TODO \x1b[31m\n"
        "src/deep/b.py:2:TODO: this\nsrc/deep/b.py:3:X = 'é TODO'\n"
    )
    assert project("grep", "TODO", "src").code == 3, "it was done since"
    here = inside(project, "src", "grep", "-l", "-i", "X = ", ".")
    assert (here.code, here.out) == (0, "app.py\n")
    only = project.ok("grep", "-E", r"^[xy] = \d$", "--glob", "src/**/*.py", "--json").document
    assert [(each["path"], each["line"]) for each in only["matches"]] == [
        ("src/app.py", 1),
        ("src/app.py", 2),
    ]
    assert project.ok("grep", "-n", "1", "=").out == "src/app.py:1:x = 1\n"
    for wrong in (["-E", "(a"], [""], ["a\nb"], ["--glob", "[", "a"]):
        assert project("grep", *wrong).code == 2, wrong
    assert project("grep", "a", "gone.txt").code == 3


# Through pipes


def piped(project: Session, *argv: str, data: bytes = b"") -> bytes:
    done = subprocess.run(
        [*COMMAND, *argv],
        cwd=project.project,
        env=project.environ,
        input=data,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_archives_go_through_pipes(project: Session) -> None:
    (project.project / "-rf").write_text("odd\n")
    (project.project / "src/app.py").chmod(0o755)
    project.ok("snapshot")
    before = project.files()
    archive = piped(project, "export", "-")
    assert "-" not in os.listdir(project.project)
    project.write("readme.md", "lost\n")
    piped(project, "import", "-", data=archive)
    assert project.files() == before
    with tarfile.open(fileobj=io.BytesIO(piped(project, "export", "-", "--files"))) as plain:
        assert sorted(plain.getnames()) == ["./-rf", "./readme.md", "./src/app.py"]
        assert plain.getmember("./src/app.py").mode == 0o755
        file = plain.extractfile("./readme.md")
        assert file is not None
        assert file.read() == b"hello\n"
    project.ok("export", "../files.tar", "--files")
    assert project("import", "../files.tar").code == 2, "not one of ours, and nothing changed"
    assert project.files() == before
    assert project("export", "-", "--json").code == 2
    assert project("import", "-", input=None).code == 2, "nothing came"


# Shells


def test_help_and_completion_name_every_command(project: Session) -> None:
    assert project.ok("help").out == project.ok("--help").out
    assert project.ok("help", "diff").out == project.ok("diff", "--help").out
    assert project("help", "frobnicate").code == 2
    script = project.ok("completion", "bash").out
    typed = (
        "COMP_WORDS=(holdfast {}); COMP_CWORD={}; _holdfast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )

    def completed(*words: str) -> list[str]:
        line = typed.format(" ".join(f"'{word}'" for word in words), len(words))
        run = ["bash", "-c", f"{script}\ncompopt() {{ :; }}\n{line}"]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert completed("stat") == ["status"]
    assert completed("-C", "/tmp", "com") == ["completion"]
    assert completed("diff", "--wor") == ["--word-diff"]
    assert "bash" in completed("completion", "")
    assert completed("help", "swi") == ["switch"]
    for shell in ("zsh", "fish"):
        said = project.ok("completion", shell).out
        assert "word-diff" in said
        assert "switch" in said
    assert project("completion", "tcsh").code == 2


def on_terminal(project: Session, *argv: str, **environ: str) -> str:
    """Returns what a command shows on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *argv],
        cwd=project.project,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**project.environ, "TERM": "xterm", **environ},
        start_new_session=True,
    ) as running:
        os.close(theirs)
        shown = read_terminal(ours)
        running.wait()
    return shown.decode().replace("\r\n", "\n")


def test_a_diff_on_a_terminal_is_coloured_paged_and_without_bytes(project: Session) -> None:
    project.write("src/app.py", "x = 1\ny = 3 \x1b[2J\n")
    (project.project / "a.bin").write_bytes(b"\0\1")
    for number in range(5):
        project.write(f"node_modules/{number}.js", "x\n")
    shown = on_terminal(project, "diff", HOLDFAST_PAGER="sed s/^/>/")
    assert all(line.startswith(">") for line in shown.splitlines())
    assert "\x1b[31m-y = 2\x1b[0m" in shown
    assert "\x1b[32m+y = 3 \\x1b[2J\x1b[0m" in shown
    assert "Binary files /dev/null and b/a.bin differ" in shown
    assert "node_modules/  5 added" in shown
    assert "node_modules/0.js" not in shown
    for pager in ("", "cat", "/nowhere/pager"):
        plain = on_terminal(project, "diff", "--no-color", HOLDFAST_PAGER=pager)
        assert "-y = 2\n" in plain, pager
    words = project.ok("diff", "--word-diff", "--path", "src").out
    assert "y = [-2-]{+3 \x1b[2J+}\n" in words
    assert "x = 1\n" in words


def test_what_is_in_a_file_of_ours_is_not_handed_to_what_we_start(project: Session) -> None:
    (project.home / "key").write_text("hidden-from-agents")
    (config := project.home / "holdfast.toml").write_text('secrets_key = "hidden-from-agents"')
    files = {"HOLDFAST_ADMIN_KEY_FILE": str(project.home / "key"), "HOLDFAST_CONFIG": str(config)}
    done = project("run", "--", "env", env=project.environ | files)
    assert done.code == 0, done
    project.write("src/app.py", "x = 7\n")
    paged = on_terminal(project, "diff", HOLDFAST_PAGER="sh -c env", **files)
    for shown in (done.out, paged):
        # As it was given to us, so that our own commands in it find the same.
        assert {f"{name}={path}" for name, path in files.items()} <= set(shown.splitlines())
        assert "hidden-from-agents" not in shown

"""Random command sequences, typed three ways: through the client in C, that in Python, and cold.

Answers, exit codes, directories and vaults have to be the same.
Each way has a directory and a vault of its own, in folders whose names are equally long, and the
same edits happen in all of them at the same moment, by the clock of the files. What differs by its
nature is replaced before it is compared: ids of snapshots by their order, the way's own folder,
and times. `soak_clients.py` plays for long, `tests/acceptance/test_three_ways.py` a little.

Cold commands are most of the time, and loading is most of theirs. With `forks`, they are forked
from a process that has loaded everything: all that is left out is that.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path

from holdfast.cli import thin

SCRIPTS = Path(sys.executable).parent
WAYS = {"see": "holdfast", "pyt": "holdfast-python", "own": "holdfast-python"}
"""The client in C, that in Python, and a process of one's own: with the command of each."""
NAMES = ("a", "b.txt", "deep/er/c", "deep/d", "ü\u2028", "-x", "sp ace", "\x1b[31m", "deep/.hid")
EPOCH = 1_700_000_000
TIMEOUT_S = 120


class Differs(AssertionError):
    """Says what was typed, and what the ways have answered."""


class Way:
    """A directory with a vault, and how commands are typed there."""

    def __init__(self, folder: Path, name: str, *, forks: bool) -> None:
        self.name, self.home, self.forks = name, folder / name, forks and name == "own"
        self.directory, self.vault = self.home / "project", self.home / "vault"
        self.directory.mkdir(parents=True)
        (self.home / "session").mkdir(mode=0o700)
        self.environ = {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "HOLDFAST_DATA": str(self.vault),
            "HOLDFAST_STAY": "0" if name == "own" else "",
            "XDG_RUNTIME_DIR": str(self.home / "session"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            # Tells a command that was answered from one that was done in its own process.
            "PYTHONPROFILEIMPORTTIME": "1",
        }
        left = Path(thin.left_folder(str(self.home / "session")))
        self.socket = left / f"{thin.name_of(str(self.vault))}.sock"
        self.answered = 0
        self._ids: dict[str, str] = {}

    def type(self, words: list[str], cwd: str) -> tuple[int, str, str]:
        """Types a command; returns its exit code and what it says, without what has to differ."""
        run = forked if self.forks else started
        done = run([str(SCRIPTS / WAYS[self.name]), *words], self.directory / cwd, self.environ)
        err, is_answered = "", not self.forks
        for line in done.stderr.decode("utf-8", "replace").splitlines(keepends=True):
            if line.startswith("import time:"):
                is_answered &= self.name != "see" and "holdfast.cli.app" not in line
            else:
                err += line
        self.answered += is_answered
        out = done.stdout.decode("utf-8", "replace")
        return done.returncode, self._plain(out), self._plain(err)

    def _plain(self, text: str) -> str:
        text = re.sub(r"\bsnap-[0-9a-z]{8,16}", lambda found: self._number(found[0]), text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z)?", "THEN", text)
        text = re.sub(r"just now|\d+ minutes? ago", "AGO", text)
        return text.replace(str(self.home), "HOME")

    def _number(self, snapshot_id: str) -> str:
        return self._ids.setdefault(snapshot_id[:13], f"snapshot {len(self._ids)}")

    def files(self) -> dict[str, tuple[bytes, int, int]]:
        return {
            str(path.relative_to(self.directory)): (
                path.read_bytes(),
                path.stat().st_mode,
                path.stat().st_mtime_ns,
            )
            for path in self.directory.rglob("*")
            if path.is_file()
        }

    def close(self) -> None:
        """Ends whatever commands have left behind, be it still on its way."""
        mine = f"HOLDFAST_DATA={self.vault}".encode()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and mine in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
        shutil.rmtree(self.home)


def started(
    words: list[str], cwd: Path, environ: dict[str, str]
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a command as a shell does."""
    return subprocess.run(
        words, cwd=cwd, env=environ, capture_output=True, check=False, timeout=TIMEOUT_S
    )


def forked(
    words: list[str], cwd: Path, environ: dict[str, str]
) -> "subprocess.CompletedProcess[bytes]":
    """Runs a command in a copy of this process."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            code = 70
            try:
                os.environ.clear()
                os.environ.update(environ)
                os.chdir(cwd)
                for number, file in enumerate((out, err), start=1):
                    os.dup2(file.fileno(), number)
                code = import_module("holdfast.cli.main").main(words[1:])
            finally:
                os._exit(code)
        _, ended = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(words, os.waitstatus_to_exitcode(ended), *texts)


def edit(rng: random.Random, ways: list[Way], moment: int) -> None:
    """Does the same to a file of each directory."""
    name, what = rng.choice(NAMES), rng.randrange(5)
    text = rng.randbytes(rng.choice((0, 3, 40, 5000)))
    mode = rng.choice((0o644, 0o600, 0o755))
    for way in ways:
        path = way.directory / name
        if what == 0:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        path.chmod(mode)
        os.utime(path, ns=(moment, moment))


def command(rng: random.Random) -> tuple[list[str], str]:
    """Returns what is typed, and in which folder."""
    where = rng.choice(("", "", "", "deep"))
    at = rng.choice(("@", "@-1", "@-2", "latest", "@-99", "snap-nonesuch", ""))
    name = rng.choice(NAMES)
    words = rng.choice(
        [
            ["status"],
            ["diff"],
            ["diff", "--stat"],
            ["diff", at],
            ["log"],
            ["log", "-n", str(rng.randrange(4))],
            ["log", "-n", "x"],
            ["snapshot"],
            ["snapshot", "-m", rng.choice(("words", "", "ü\n\x1b[2J", "--"))],
            ["restore", at],
            ["restore", at, "--dry-run"],
            ["restore", at, "--name", name],
            ["restore", at, "--refuse-drift"],
            ["undo"],
            ["undo", "--dry-run"],
            ["redo"],
            ["show", at],
            ["pin", at],
            ["unpin", at],
            ["status", "--nonsense"],
            ["status", "--help"],
            ["workspaces"],
        ]
    )
    before = rng.choice(([], [], [], ["-C", "."], ["-Cdeep"], ["-C", "nowhere"], ["-C", ".."]))
    after = rng.choice(([], [], ["--json"], ["-q"], ["-v"], ["--no-color"], ["--data", ""]))
    return [*before, *words, *after], where


def play(folder: Path, seed: int, sequences: int, *, forks: bool = False) -> Counter[str]:
    """Plays some sequences one after the other in the same three vaults; returns what was done."""
    rng, done, moment = random.Random(seed), Counter[str](), EPOCH * 10**9
    ways = [Way(folder, name, forks=forks) for name in WAYS]
    try:
        for way in ways:
            (way.directory / "deep").mkdir()
        compare(ways, ["init"], "")
        for _ in range(sequences):
            for _ in range(rng.randint(2, 5)):
                for _ in range(rng.choice((0, 0, 1, 3))):
                    moment += rng.randrange(1, 10**10)
                    edit(rng, ways, moment)
                words, where = command(rng)
                compare(ways, words, where)
                done["commands"] += 1
            done["sequences"] += 1
            if any(way.files() != ways[0].files() for way in ways):
                raise Differs(f"seed {seed}: the directories differ")
            # The roots of all snapshots are in there: that of a snapshot stands for all it holds.
            compare(ways, ["log", "--json"], "")
        compare(ways, ["verify"], "")
        for way in ways:
            done[f"answered, {way.name}"] += way.answered
    finally:
        for way in ways:
            way.close()
    return done


def compare(ways: list[Way], words: list[str], where: str) -> None:
    """Types a command each way; raises where the answers differ."""
    answers = [way.type(words, where if (way.directory / where).is_dir() else "") for way in ways]
    if any(answer != answers[-1] for answer in answers):
        told = "\n".join(f"{way.name}: {answer}" for way, answer in zip(ways, answers, strict=True))
        raise Differs(f"{words} in {where!r}:\n{told}")

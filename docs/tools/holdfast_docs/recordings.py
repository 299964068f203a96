"""Types what pages show of a terminal, and compares what comes of it.

The blocks of one page are typed into one shell, in the order of the page. It begins in an empty
directory with a home and a vault of its own, and has `holdfast` and `python` on its PATH.

Of a recording (`console`), lines that begin with `$ ` are typed, those that begin with `> ` go on
with them, and all else is what is printed, errors too. Of a script (`sh`), every line is typed,
and has to succeed. Some lines of scripts stand for what cannot happen inside of a test, and are
proved otherwise:

- `make …` is asked what it would do;
- `pip install …` has to name this project, and extras that it has;
- `holdfast serve` and `holdfast watch` stay until somebody ends them: they are started, and
  stopped with Ctrl-C once they have said that they run;
- `export HOLDFAST_…=…` says where the server is, which the shell of a page knows already.
"""

import dataclasses
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast_docs.blocks import ROOT, Block, blocks_of, name_of
from holdfast_docs.running import check_output

SCRIPT: Final = Path(sys.executable).with_name("holdfast")
ENDED: Final = b"-- that command ended with "
STAYS: Final = re.compile(r"holdfast (?:serve|watch)(?!.*--(?:background|stop|help))")
RUNS: Final = re.compile(rb"Holdfast is at|Watching")
INTERRUPTED: Final = {0, 130}
WAIT_S: Final = 60


@dataclass
class Typed:
    """One command of a page, and what it says that it prints; None for whatever it prints."""

    page: Path
    line: int
    command: str
    shown: list[str] | None = dataclasses.field(default_factory=list[str])


def typed_on(page: Path) -> list[Typed]:
    """Returns all that a page types, in order."""
    found: list[Typed] = []
    for block in blocks_of(page):
        if block.kind == "console":
            found += typed_in(block)
        elif block.kind == "sh":
            found += lines_of(block)
    return found


def recording_of(page: Path) -> list[Typed]:
    """Returns what a page's recordings type, without its scripts."""
    return [typed for typed in typed_on(page) if typed.shown is not None]


def typed_in(block: Block) -> Iterator[Typed]:
    """Yields the commands of a recording."""
    typed: Typed | None = None
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            if typed is not None:
                yield typed
            typed = Typed(block.page, number, line[2:])
            continue
        assert typed is not None, f"{name_of(block.page)}:{number} begins without a command"
        assert typed.shown is not None
        if line.startswith("> ") and not typed.shown:
            typed.command += f"\n{line[2:]}"
        else:
            typed.shown.append(line)
    if typed is not None:
        yield typed


def lines_of(block: Block) -> Iterator[Typed]:
    """Yields the commands of a script: each is one line, and may have a comment behind it."""
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.strip() and not line.startswith("#"):
            yield Typed(block.page, number, re.sub(r"\s+# .*$", "", line), shown=None)


class Shell:
    """A shell in an empty directory, of somebody who has never used holdfast before."""

    def __init__(self, folder: Path, script: Path = SCRIPT, **environ: str) -> None:
        places = {name: folder / name for name in ("home", "work", "bin")}
        for place in places.values():
            place.mkdir()
        put_programs(places["bin"], script)
        self.cwd = places["work"]
        self.environ = {
            "PATH": f"{places['bin']}{os.pathsep}{os.defpath}",
            "HOME": str(places["home"]),
            "HOLDFAST_DATA": str(folder / "vault"),
            "HOLDFAST_PORT": "0",
            "HOLDFAST_STAY": "0",  # Nobody would end it.
            "LC_ALL": "C.UTF-8",
            **environ,
        }
        self._process = subprocess.Popen(
            ["/bin/sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.cwd,
            env=self.environ,
        )

    def run(self, command: str) -> tuple[str, int]:
        """Types a command; returns what it printed and its exit code."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # Braces keep it in this shell, so that `cd` lasts, and its hands off what is typed next.
        told = f"printf '\\n{ENDED.decode()}%d\\n' $ended; (exit $ended)"
        stdin.write(f"{{ {command}\n}} </dev/null; ended=$?; {told}\n".encode())
        stdin.flush()
        printed = b""
        for line in stdout:
            if line.startswith(ENDED):
                return printed.removesuffix(b"\n").decode(), int(line.removeprefix(ENDED))
            printed += line
        raise AssertionError(f"the shell ended: {printed.decode()}")

    def stay(self, command: str) -> None:
        """Starts what stays, and stops it with Ctrl-C once it has said something."""
        cwd, _ = self.run("pwd")
        process = subprocess.Popen(
            shlex.split(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd.strip(),
            env=self.environ,
        )
        assert process.stdout is not None
        said = process.stdout.readline()
        if RUNS.match(said):
            process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=WAIT_S)[0]
        is_fine = RUNS.match(said) is not None and process.returncode in INTERRUPTED
        assert is_fine, f"{command} ended with {process.returncode}: {said.decode()}"

    def close(self) -> None:
        """Ends the shell."""
        self._process.communicate()


def put_programs(folder: Path, script: Path) -> None:
    """Puts a script `holdfast` and the environment's own `python` on the PATH, and nothing else."""
    python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    # Before the environment has been installed anew there is the module that the script calls.
    module = f'#!/bin/sh\nexec "{sys.executable}" -P -m holdfast.cli.main "$@"\n'
    for name, text in {"python": python, "holdfast": module}.items():
        program = folder / name
        if name == "holdfast" and script.exists():
            program.symlink_to(script)
        else:
            program.write_text(text)
            program.chmod(0o755)


def play(recording: list[Typed], shell: Shell) -> None:
    """Types a page's commands; raises where one prints something else, or fails unsaid."""
    for place, typed in enumerate(recording):
        if typed.shown is None:
            follow(typed, shell)
            continue
        printed, code = shell.run(typed.command)
        told = "".join(f"{line}\n" for line in typed.shown)
        check_output(Block(typed.page, typed.line, "console", told), printed)
        next_one = recording[place + 1].command if place + 1 < len(recording) else ""
        is_said = code == 0 or next_one == "echo $?"
        assert is_said, f"{name_of(typed.page)}:{typed.line} ended with {code}"


def follow(typed: Typed, shell: Shell) -> None:
    """Does what a line of a script says, or proves that it could be done."""
    command, place = typed.command, f"{name_of(typed.page)}:{typed.line}"
    if command.startswith("make "):
        targets = shlex.split(command)
        done = subprocess.run(
            [*targets, "--dry-run"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{place}: {done.stderr}"
    elif command.startswith("pip install "):
        assert is_installable(command), f"{place}: {command}"
    elif STAYS.match(command):
        shell.stay(command)
    elif not re.match(r"export HOLDFAST_(?:URL|API_KEY|ADMIN_KEY|NAMESPACE)=", command):
        printed, code = shell.run(command)
        assert code == 0, f"{place} ended with {code}:\n{printed}"


def is_installable(command: str) -> bool:
    """Says whether `pip install` is told to install this project, with extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for word in shlex.split(command)[2:]:
        found = re.fullmatch(r"(\.|[\w-]+)(?:\[([\w,-]+)\])?", word)
        if found is None or found[1] not in (".", project["name"]):
            return False
        extras = set(found[2].split(",")) if found[2] else set[str]()
        if not extras <= set(project["optional-dependencies"]):
            return False
    return True

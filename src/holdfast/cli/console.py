"""Who a command speaks to: two streams, a directory, an environment, and open vaults.

A command writes to its console and to nothing else, so that the same code serves a shell and a
process that stays. People get lines, programs get one JSON document on one line (`--json`);
colours and a progress bar are for terminals alone.

Types of the engine stand in quotes, here and in all of `cli`: `import holdfast` loads nothing,
and a help text should not have to wait for an engine.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import BinaryIO, Final, TextIO

import holdfast
from holdfast.cli.vaults import OwnVaults, Vaults
from holdfast.escaping import RAW, escaped, escaped_lines
from holdfast.progress import Progress, no_progress
from holdfast.settings import (
    expand,
    find_location,
    find_objects,
    find_pager,
    is_url,
    process_environ,
    wants_colour,
    without_password,
)
from holdfast.settingsfile import as_given

USUAL_WIDTH: Final = 80

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
}


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(kw_only=True)
class Console:
    """Where one command reads from and writes to.

    The first half is the caller's to say; the rest follows from the command line, and
    `app.run` sets it.
    """

    out: TextIO
    err: TextIO
    is_terminal: bool
    """Whether `out` is read by a person on a terminal."""
    width: int = USUAL_WIDTH
    cwd: str
    environ: Mapping[str, str]
    has_progress: bool = False
    """Whether `err` is a terminal on which a line can be drawn over and over."""
    vaults: Vaults = field(default_factory=OwnVaults)
    """Opens vaults; a process that stays hands out those that it has open already."""
    clock: Callable[[], datetime] = _now
    pages: bool = False
    """Whether `out` is this process's own terminal, to which a pager can write."""

    workspaces: "list[holdfast.Workspace]" = field(default_factory=list["holdfast.Workspace"])
    """The attached directories that the command has to do with."""
    started_in: str | None = None
    """Where the command was typed, if -C named another directory."""
    called: str = ""
    """What -C named, before links were followed."""
    command: str = ""
    """What was typed: the name of the command, if there is one."""
    data: str | None = None
    """What `--data` named."""
    objects: str | None = None
    """What `--objects` named."""
    below: str = ""
    """In which folder of the attached directory it is; empty for its root, and for none."""
    is_json: bool = False
    is_quiet: bool = False
    is_verbose: bool = False
    is_plain: bool = False
    """Whether `--no-color` was given."""

    def location(self, directory: str | None = None) -> str:
        """Returns where the vault is that a command in this directory means."""
        return find_location(self.environ, directory or self.cwd, named=self.data)

    def location_text(self, location: str | None = None) -> str:
        """Returns where the vault is, as it may be shown."""
        return without_password(location or self.location())

    def find_objects(self, location: str) -> str | None:
        """Returns where the packs of a vault are; None for beside it, or if nobody says."""
        return find_objects(self.environ, self.cwd, location, named=self.objects)

    def open_vault(self, location: str) -> "holdfast.Holdfast":
        """Returns the vault at a location; whoever handed out `vaults` closes it."""
        return self.vaults.open(location)

    def binary_out(self) -> BinaryIO:
        """Returns where bytes go that are the answer themselves."""
        self.out.flush()
        return self.out.buffer

    def binary_in(self) -> BinaryIO:
        """Returns where bytes come from that somebody sends us."""
        return sys.stdin.buffer

    def resolve(self, path: str) -> str:
        """Returns a path as it is meant in the console's directory."""
        return os.path.normpath(os.path.join(self.cwd, expand(path, self.environ)))

    def resolve_place(self, place: str) -> str:
        """Returns a place as it is meant here: a URL, or a path in the console's directory."""
        return place if is_url(place) else self.resolve(place)

    def answer(
        self, *, document: Callable[[], Mapping[str, object]], lines: Callable[[], Iterable[str]]
    ) -> None:
        """Writes what came of a command: a document for programs, lines for people."""
        if self.is_json:
            self._write_json(self.out, document())
        else:
            for line in lines():
                self.out.write(f"{line}\n")

    def page(self, lines: Iterable[str]) -> None:
        """Writes lines for people, on their terminal through the pager that they like."""
        command = find_pager(self.environ) if self.pages else None
        if command is None:
            for line in lines:
                self.out.write(f"{line}\n")
            return
        from holdfast.cli.paging import page  # noqa: PLC0415 - starts a process: for terminals alone

        self.out.flush()
        page(command, lines, self.out, as_given(self.environ))

    def say(self, line: str) -> None:
        """Writes a line for people that says what was done; not if they asked for quiet."""
        if not self.is_json and not self.is_quiet:
            self.out.write(f"{line}\n")

    def note(self, *lines: str) -> None:
        """Writes a remark to stderr: beside the answer, not part of it."""
        if not self.is_quiet:
            self.warn(*lines)

    def warn(self, *lines: str) -> None:
        """Writes a remark to stderr that is worth it, quiet or not."""
        if not self.is_json:
            # Nothing of ours ends a line, or has a style: what does is a name that somebody chose.
            self.complain("\n".join(map(escaped, (f"holdfast: {lines[0]}", *lines[1:]))))

    def complain(self, text: str) -> None:
        """Writes what went wrong, made safe to show; quiet or not."""
        self.err.write(f"{escaped_lines(text)}\n")

    def tell_of_recovery(self, sentence: str) -> None:
        """Says on stderr what was put right before the command did its work; quiet or not."""
        if self.is_json:
            self._write_json(self.err, {"recovered": sentence})
        else:
            self.warn(sentence)

    def fail(self, document: Mapping[str, object]) -> None:
        """Writes what went wrong, for programs."""
        self._write_json(self.err, document)

    def paint(self, text: str, style: str) -> str:
        """Returns text in a style, if somebody can see it."""
        if not self.is_terminal or self.is_plain or not wants_colour(self.environ):
            return text
        return f"\033[{_STYLES[style]}m{text}\033[0m"

    @contextmanager
    def progress(self) -> Generator[Progress]:
        """Draws a bar on a terminal while something takes its time, and nothing elsewhere."""
        if not self.has_progress or self.is_json or self.is_quiet:
            yield no_progress
            return
        from holdfast.cli.bar import Bar  # noqa: PLC0415 - for terminals alone

        bar = Bar(self.err, width=self.width)
        try:
            yield bar.update
        finally:
            bar.close()

    def close(self) -> None:
        """Closes what was opened for this command alone."""
        self.vaults.release()

    def _write_json(self, stream: TextIO, document: Mapping[str, object]) -> None:
        import json  # noqa: PLC0415 - most commands speak to people

        # ASCII: neither a terminal nor an odd encoding can make something else of it.
        stream.write(json.dumps(document, ensure_ascii=True) + "\n")


def system_console() -> Console:
    """Returns the console of the shell that this process was started from."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is no reason to fail.
        stream.reconfigure(errors=RAW)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - both are TextIOWrapper unless a test put something else there
    return Console(
        out=sys.stdout,
        err=sys.stderr,
        is_terminal=sys.stdout.isatty(),
        pages=sys.stdout.isatty(),
        has_progress=sys.stderr.isatty(),
        width=_terminal_width(),
        cwd=_here(process_environ()),
        environ=process_environ(),
    )


def _replace_closed_streams() -> None:
    """Lets what a shell has closed (`>&-`) lead nowhere.

    A file of the vault would be opened under its number next, and be written what we say.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # The lowest number that is free: that of this stream, as those before it are open.
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)  # noqa: FBT003 - it has no name: C's own
            setattr(sys, name, open(number, "r" if name == "stdin" else "w"))  # noqa: SIM115 - until the end


def _here(environ: Mapping[str, str]) -> str:
    """Returns where the process is; if that was deleted, where the shell says that it was."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        named = environ.get("PWD", "")
        # Whether it is a place that a vault knows is checked where it is used: `app.configured`.
        return os.path.normpath(named) if os.path.isabs(named) else ""


def _terminal_width() -> int:
    for number in (1, 2):
        try:
            return os.get_terminal_size(number).columns or USUAL_WIDTH
        except OSError:
            continue
    return USUAL_WIDTH

"""Reads a command line: which command it is, and what was said to it.

Options that every command understands may stand before its name or after it. The parser of one
command is built, never those of all; it neither exits the process nor writes anywhere but to
the console.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NoReturn, Protocol, cast

from holdfast.cli.commands import COMMANDS, GROUPS, is_there, module_of
from holdfast.cli.console import Console
from holdfast.cli.exits import usage

GLOBAL_OPTIONS: Final = """\
options that every command understands:
  -C DIR         as if started in DIR
  --data DIR     the vault to use, instead of that of HOLDFAST_DATA
  --objects DIR  where its packs are, if the vault is in a database
  --json         one JSON document instead of text
  -q, --quiet    say only what was asked for
  -v, --verbose  say more; with an error, where it came from
  --no-color     no colours
  -h, --help     show this, or how one command is used
"""

_READABLE: Final = 100
"""Columns: longer lines are hard to read."""

_WITH_VALUE: Final = ("-C", "--data", "--objects")


class Command(Protocol):
    """What a command's module has."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds what the command understands."""
        ...

    def run(self, arguments: argparse.Namespace, console: Console) -> int:
        """Does it; returns the exit code."""
        ...


class HelpWritten(Exception):
    """The help was asked for and has been written: the way out of argparse."""


class Parser(argparse.ArgumentParser):
    """A parser that writes to the console, and raises instead of exiting."""

    def __init__(self, name: str, console: Console, command: Command) -> None:
        super().__init__(
            prog=f"holdfast {name}",
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog, width=min(console.width, _READABLE) - 2
            ),
            allow_abbrev=False,  # an abbreviation of today may be ambiguous tomorrow
            add_help=False,
        )
        self._console = console
        self.color = False  # From Python 3.14 on argparse would colour by itself.
        command.configure(self)
        add_global_options(self)

    def error(self, message: str) -> NoReturn:
        """Refuses a command line."""
        raise usage(message, hint=f"`{self.prog} --help` shows how it is used.")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leaves the parser; status and message are those of an exit that does not happen."""
        del status, message
        raise HelpWritten

    def print_help(self, file: object = None) -> None:
        """Writes the help to the console."""
        del file
        self._console.out.write(self.format_help())


def add_global_options(parser: argparse.ArgumentParser) -> None:
    """Adds what every command understands."""
    group = parser.add_argument_group("options that every command understands")
    group.add_argument("-C", dest="directory", metavar="DIR", help="as if started in DIR")
    group.add_argument("--data", metavar="DIR", help="the vault to use")
    group.add_argument("--objects", metavar="DIR", help="where the packs of a database's vault are")
    group.add_argument("--json", action="store_true", help="one JSON document instead of text")
    group.add_argument("-q", "--quiet", action="store_true", help="say only what was asked for")
    group.add_argument("-v", "--verbose", action="store_true", help="say more")
    group.add_argument("--no-color", action="store_true", help="no colours")
    group.add_argument("-h", "--help", action="help", help="show this")


def find_command(argv: Sequence[str]) -> int | None:
    """Returns where in a command line the command's name is; None if there is none."""
    skip = False
    for at, word in enumerate(argv):
        if skip:
            skip = False
        elif word == "--":
            return None
        elif word in _WITH_VALUE:
            skip = True
        elif not word.startswith("-"):
            return at
    return None


def load(name: str) -> Command:
    """Returns a command's module; raises for a name that is none."""
    if not is_there(name):
        raise usage(f"there is no command {name!r}", hint=_suggestion(name))
    return cast("Command", import_module(module_of(name)))  # a module is its functions


def parse(name: str, argv: Sequence[str], console: Console, command: Command) -> argparse.Namespace:
    """Returns what was said to a command."""
    return Parser(name, console, command).parse_args([*argv])


def overview() -> str:
    """Returns what `holdfast --help` shows."""
    lines = ["usage: holdfast [options] COMMAND ...", ""]
    lines += ["An undo button for the directory that an agent works in.", ""]
    for title, names in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {name:<12}{line}" for name, line in names.items() if is_there(name)]
        lines.append("")
    lines += [GLOBAL_OPTIONS]
    lines += ["A first minute:"]
    lines += ["  holdfast init            in your project", "  ... let the agent work ..."]
    lines += ["  holdfast status          what has it done?"]
    lines += ["  holdfast undo            take it back", ""]
    lines += ["`holdfast COMMAND --help` shows how a command is used."]
    return "\n".join(lines) + "\n"


def _suggestion(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for mistakes alone

    close = get_close_matches(name, [each for each in COMMANDS if is_there(each)], n=1)
    return f"Did you mean `holdfast {close[0]}`?" if close else "`holdfast --help` lists them."

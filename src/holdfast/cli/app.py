"""The whole program as one call: a command line in, an exit code out.

`run` never exits the process, reads nothing but its arguments and its console, and writes to
that console alone. A process that stays calls it once for each request, with a console of its
own; `main` calls it once.

Reads a command line: which command it is, and what was said to it.

Options that every command understands may stand before its name or after it. The parser of one
command is built, never those of all; it neither exits the process nor writes anywhere but to
the console.
"""

import argparse
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import Final, NoReturn, Protocol, cast

from holdfast.cli.commands import COMMANDS, GROUPS, is_there, module_of
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, USAGE, Refused, report, usage
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.escaping import escaped
from holdfast.settings import holds_vault
from holdfast.settingsfile import CONFIG, adopt, settle

INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
LONGEST_MESSAGE: Final = 400


def run(argv: Sequence[str], console: Console) -> int:
    """Runs one command and returns its exit code."""
    # Before anything is parsed: an error in parsing is told in the form that was asked for.
    at = find_command(argv)
    told = replace(
        console,
        command="" if at is None else argv[at],
        is_json="--json" in _ours(argv),
        is_verbose=_is_verbose(argv),
    )
    try:
        try:
            return _run(argv, told)
        except HelpWritten:
            return DONE
        except (HoldfastError, Refused, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            return report(error, told)
        except Exception as error:  # noqa: BLE001 - people get a sentence, -v the traceback
            return report(error, told)
        finally:
            told.close()
    except BrokenPipeError:
        return CLOSED_PIPE
    except KeyboardInterrupt:
        half_way = [each.path for each in told.workspaces if each.is_half_way]
        for path in half_way:
            told.complain(
                f"holdfast: interrupted: {escaped(str(path))} is half-way; "
                "the next holdfast command puts it right"
            )
        if not half_way:
            told.complain("holdfast: interrupted")
        return INTERRUPTED


def _run(argv: Sequence[str], console: Console) -> int:
    at = find_command(argv)
    if at is None:
        return _without_command(argv, console)
    name = argv[at]
    command = load(name)
    arguments = parse(name, [*argv[:at], *argv[at + 1 :]], console, command)
    return command.run(arguments, configured(console, arguments))


def configured(console: Console, arguments: Namespace) -> Console:
    """Returns the console as the options that every command understands want it."""
    console = _settled(console, arguments)
    directory = console.cwd
    if arguments.directory is not None:
        directory = console.resolve(arguments.directory)
    named = replace(console, cwd=directory or "/", data=arguments.data, objects=arguments.objects)
    console.vaults.admit(named.cwd, named.location, named.find_objects)
    made = replace(
        console,
        # Vaults know directories by their real names: one directory, one name.
        cwd=os.path.realpath(directory or "/"),
        started_in=os.path.realpath(console.cwd or "/"),
        called="" if arguments.directory is None else directory,
        data=arguments.data,
        objects=arguments.objects,
        is_json=arguments.json,
        is_quiet=arguments.quiet,
        is_verbose=arguments.verbose,
        is_plain=arguments.no_color,
    )
    if not os.path.isdir(directory) and not _is_known(made):
        if arguments.directory is not None:
            raise usage(f"{arguments.directory} is not a directory", hint="Name one with -C.")
        raise usage(
            f"the directory that you are in is gone{f' ({directory})' if directory else ''}",
            hint="Change to one that is there, or name one with -C.",
        )
    return made


def _settled(console: Console, arguments: Namespace) -> Console:
    """Returns the console with what files say that the environment, or the command line, names."""
    environ, is_for_servers = console.environ, hasattr(arguments, "config")
    if is_for_servers and arguments.config is not None:
        environ = {**environ, CONFIG: console.resolve(arguments.config)}
    settled = settle(environ)
    # Commands for servers name them with all else that is wrong; some have no use for a vault.
    if settled.problems and not is_for_servers and console.command not in _WITHOUT_SETTINGS:
        raise InvalidValue("; ".join(settled.problems))
    # Also if the file said nothing new: a worker would read it again, or another one.
    if settled.origins or CONFIG in environ:
        adopt(settled)
    return replace(console, environ=settled)


def _is_known(console: Console) -> bool:
    """Says whether a directory that is gone is, or was in, an attached one."""
    location = console.location()
    if not holds_vault(location):
        return False
    attached = console.open_vault(location).workspaces()
    return any(f"{console.cwd}/".startswith(f"{each.path}/") for each in attached)


def _without_command(argv: Sequence[str], console: Console) -> int:
    if "--version" in argv:
        command = load("version")
        rest = [word for word in argv if word != "--version"]
        arguments = parse("version", rest, console, command)
        return command.run(arguments, configured(console, arguments))
    if "-h" in argv or "--help" in argv:
        console.out.write(overview())
        return DONE
    if any(word.startswith("-") for word in argv):
        raise usage("no command was given", hint="`holdfast --help` lists them.")
    console.err.write(overview())
    return USAGE


def _ours(argv: Sequence[str]) -> Sequence[str]:
    """Returns the part of a command line that is ours: what `run` starts comes after `--`."""
    words = list(argv)
    return words[: words.index("--")] if "--" in words else words


def _is_verbose(argv: Sequence[str]) -> bool:
    return any(word in ("-v", "--verbose") for word in _ours(argv))


GLOBAL_OPTIONS: Final = """\
options that every command understands:
  -C DIR         as if started in DIR
  --data DIR     the vault to use, instead of that of HOLDFAST_DATA
  --objects DIR  where its packs are, if the vault is in a database: DIR, or a bucket
  --json         one JSON document instead of text
  -q, --quiet    say only what was asked for
  -v, --verbose  say more; with an error, where it came from
  --no-color     no colours
  -h, --help     show this, or how one command is used
"""

_READABLE: Final = 100
"""Columns: longer lines are hard to read."""

_MISSING: Final = "the following arguments are required"
"""How argparse begins to say that something is missing."""

_WITH_VALUE: Final = ("-C", "--data", "--objects")

_WITHOUT_SETTINGS: Final = ("", "completion", "help", "version")


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

    def __init__(
        self, name: str, console: Console, command: Command, words: Sequence[str] = ()
    ) -> None:
        # All that may be said is there already in a process that has read such a command before.
        vars(self).update(vars(_options_of(name, command)))
        self.color = False  # From Python 3.14 on argparse would colour by itself.
        self._console, self._words = console, frozenset(words)
        self.formatter_class = partial(
            argparse.RawDescriptionHelpFormatter, width=min(console.width, _READABLE) - 2
        )

    def error(self, message: str) -> NoReturn:
        """Refuses a command line."""
        # It repeats what was typed, however long that is.
        message = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}…"
        raise usage(message, hint=self._hint_of(message))

    def _hint_of(self, message: str) -> str:
        lists = (each.option_strings for each in self._actions if each.nargs == "+")
        taker = next((name for names in lists for name in names if name in self._words), None)
        if taker is None or not message.startswith(_MISSING):
            return f"`{self.prog} --help` shows how it is used."
        return f"{taker} takes all that follows it: say what is missing before {taker}."

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Leaves the parser; status and message are those of an exit that does not happen."""
        del status, message
        raise HelpWritten

    def print_help(self, file: object = None) -> None:
        """Writes the help to the console."""
        del file
        self._console.out.write(self.format_help())


@cache
def _options_of(name: str, command: Command) -> argparse.ArgumentParser:
    """Returns what may be said to a command: reading a command line leaves no trace in it."""
    parser = argparse.ArgumentParser(
        prog=f"holdfast {name}",
        allow_abbrev=False,  # an abbreviation of today may be ambiguous tomorrow
        add_help=False,
    )
    command.configure(parser)
    add_global_options(parser)
    return parser


def add_global_options(parser: argparse.ArgumentParser) -> None:
    """Adds what every command understands."""
    group = parser.add_argument_group("options that every command understands")
    group.add_argument("-C", dest="directory", metavar="DIR", help="as if started in DIR")
    group.add_argument("--data", metavar="DIR", help="the vault to use")
    group.add_argument(
        "--objects",
        metavar="DIR",
        help="where the packs of a database's vault are: a directory, or s3://…",
    )
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
    return Parser(name, console, command, argv).parse_args([*argv])


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

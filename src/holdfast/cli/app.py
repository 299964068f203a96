"""The whole program as one call: a command line in, an exit code out.

`run` never exits the process, reads nothing but its arguments and its console, and writes to
that console alone. A process that stays calls it once for each request, with a console of its
own; `main` calls it once.
"""

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.exits import DONE, USAGE, Refused, report, usage
from holdfast.cli.parsing import HelpWritten, find_command, load, overview, parse
from holdfast.errors import HoldfastError
from holdfast.settings import holds_vault

INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141


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

"""`holdfast migrate`: brings the tables of a server's vault up to this version, before it starts.

A server does the same when it starts. Who replaces servers one by one does it first, and sees
whether those of the version before can go on meanwhile.
"""

from argparse import ArgumentParser, Namespace

import holdfast
from holdfast.cli.attached import add_config, served_place
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, FAILED
from holdfast.errors import Busy
from holdfast.escaping import escaped
from holdfast.model.upkeep import Formats
from holdfast.server.config import configure as set_up
from holdfast.wiring import check_store, find_formats

EXAMPLES = """\
examples:
  holdfast migrate --check                      what would be done; exits with 1 if anything
  holdfast migrate --config /etc/holdfast.toml  for a server with these settings
"""

TRIES = 6
"""Of ten seconds each, in which those who use the tables may come to an end."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Brings the tables of the vault that `holdfast serve` would serve up to this version, as "
        "servers do by themselves when they start. A bucket that does not answer is told, too."
    )
    parser.epilog = EXAMPLES
    add_config(parser)
    parser.add_argument("--check", action="store_true", help="say what is missing; change nothing")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    config = set_up(console.environ, **served_place(console))
    before = find_formats(config.location)
    if config.objects is not None:
        check_store(config.objects)
    if arguments.check:
        _tell(console, before)
        return FAILED if before.missing else DONE
    for tried in range(1, TRIES + 1):
        try:
            # To open it is what brings the tables up to date.
            with holdfast.open(config.location, objects=config.objects):
                break
        except Busy:
            if tried == TRIES:
                raise
            console.note("others are using the tables: it is tried again")
    _tell(console, before, is_done=True)
    return DONE


def _tell(console: Console, formats: Formats, *, is_done: bool = False) -> None:
    document = {
        "format": formats.format,
        "newest": formats.newest,
        "missing": [] if is_done else formats.missing,
        "applied": formats.missing if is_done else [],
        "beside": formats.is_beside,
    }
    console.answer(document=lambda: document, lines=lambda: _lines(formats, is_done=is_done))


def _lines(formats: Formats, *, is_done: bool) -> list[str]:
    if not formats.missing:
        return [f"The tables are of format {formats.format}: nothing is missing."]
    if not formats.format:
        made = "Made" if is_done else "There is no catalog yet: to be made are"
        return [f"{made} tables of format {formats.newest}."]
    lines = [f"{'Applied to' if is_done else 'Missing from'} format {formats.format}:"]
    lines += [f"  {escaped(name)}" for name in formats.missing]
    if formats.is_beside:
        return [*lines, "Servers of the version before can go on meanwhile."]
    return [*lines, "Servers of the version before cannot write from then on: stop them first."]

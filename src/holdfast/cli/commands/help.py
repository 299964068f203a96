"""`holdfast help`: what the commands are, or how one of them is used."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.console import Console
from holdfast.cli.exits import DONE

EXAMPLES = """\
examples:
  holdfast help                    what the commands are
  holdfast help restore            how one of them is used
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows what the commands are, or how one of them is used."
    parser.epilog = EXAMPLES
    parser.add_argument("about", nargs="?", metavar="COMMAND", help="this one (default: all)")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    from holdfast.cli.app import Parser, load, overview  # noqa: PLC0415 - who loads us is above us

    if arguments.about is None:
        console.page(overview().splitlines())
    else:
        parser = Parser(arguments.about, console, load(arguments.about))
        console.page(parser.format_help().splitlines())
    return DONE

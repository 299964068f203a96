"""`holdfast version`: which holdfast this is, and on what it runs."""

import platform
from argparse import ArgumentParser, Namespace
from importlib import metadata

from holdfast.cli.console import Console
from holdfast.cli.exits import DONE

EXAMPLES = """\
examples:
  holdfast version
  holdfast --version               the same
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Prints the version."
    parser.epilog = EXAMPLES


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    del arguments
    version, python = metadata.version("holdfast"), platform.python_version()
    console.answer(
        document=lambda: {
            "version": version,
            "python": python,
            "platform": platform.platform(),
        },
        lines=lambda: [f"holdfast {version}"],
    )
    return DONE

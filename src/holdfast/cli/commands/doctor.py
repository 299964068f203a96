"""`holdfast doctor`: checks that everything is in order, and says what to do where it is not."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence

from holdfast.cli.checks import FAIL, Check, run_checks
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, FAILED
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast doctor                  exit code 1 if a check fails; a warning is no failure
"""

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Checks that everything is in order, and says what to do where it is not."
    parser.epilog = EXAMPLES


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    del arguments
    checks = list(run_checks(console))
    is_well = not any(check.state == FAIL for check in checks)
    console.answer(
        document=lambda: {
            "ok": is_well,
            "checks": [
                {
                    "name": check.name,
                    "state": check.state,
                    "message": check.message,
                    "to_do": check.to_do,
                }
                for check in checks
            ],
        },
        lines=lambda: _lines(console, checks),
    )
    return DONE if is_well else FAILED


def _lines(console: Console, checks: Sequence[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        if console.is_quiet and check.state == "ok":
            continue
        state = console.paint(f"{check.state:<4}", _STYLES[check.state])
        yield f"{state}  {check.name:<{width}}  {escaped(check.message)}"
        if check.to_do:
            yield f"      {'':<{width}}  {escaped(check.to_do)}"

"""`holdfast grep`: searches in files as a snapshot has them, the last one or an earlier one."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

import holdfast
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, usage
from holdfast.cli.moments import HELP, id_of
from holdfast.cli.places import name_here, path_from_here
from holdfast.cli.views import path_view
from holdfast.escaping import escaped, escaped_line

EXAMPLES = """\
examples:
  holdfast grep TODO                     in all files, as last captured
  holdfast grep TODO src                 in a directory, or in a file
  holdfast grep --at @{yesterday} TODO   as they were a day ago
  holdfast grep -i --glob '*.py' todo    in some of them, whatever the case
  holdfast grep -E 'def \\w+_test'        an expression of RE2
  holdfast grep -l TODO                  names alone
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Searches in files. Exits with 3 if nothing is found."
    parser.epilog = EXAMPLES
    parser.add_argument("pattern", metavar="TEXT", help="what to look for")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only here, from where you are")
    parser.add_argument("--at", metavar="ID", default="@", help=f"{HELP} (default: @)")
    parser.add_argument("--glob", metavar="GLOB", help="only files whose paths fit, as `*.py`")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="whatever the case")
    parser.add_argument(
        "-E", "--regex", action="store_true", help="TEXT is an expression; needs holdfast[search]"
    )
    parser.add_argument("-l", "--name-only", action="store_true", help="names alone")
    parser.add_argument(
        "-n", "--number", metavar="N", type=int, default=0, help="how many lines (default: all)"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.number < 0:
        raise usage("-n is 0 or more", hint="`holdfast grep` shows all unless told otherwise.")
    workspace = get_workspace(console)
    here = arguments.paths or ["." if console.below else ""]
    places = [path_from_here(console, workspace, path) if path else "." for path in here]
    namespace = workspace.namespace
    moment = namespace.at(id_of(namespace, arguments.at, now=console.clock()))
    search = Search(arguments, moment.files)
    found = [each for place in places for each in search.find("" if place == "." else place)]
    if search.passed_by:
        console.note(f"{search.passed_by:,} files are too large to be searched")
    console.answer(
        document=lambda: {
            "matches": [
                {**path_view(each.path), "line": each.line, "text": each.text} for each in found
            ]
        },
        lines=list,
    )
    if not console.is_json:
        console.page(_lines(console, found, only_names=arguments.name_only))
    return DONE if found else NOT_FOUND


class Search:
    """What is looked for, and how much of it is still wanted."""

    def __init__(self, arguments: Namespace, files: Any) -> None:  # noqa: ANN401 - a part of the engine
        self._said, self._files = arguments, files
        self._left: int | None = arguments.number or None
        self.passed_by = 0

    def find(self, place: str) -> "Iterator[holdfast.Finding]":
        """Yields what is found in a file or directory; a search that ended early goes on."""
        said, cursor = self._said, None
        while self._left is None or self._left > 0:
            found = self._files.grep(
                said.pattern,
                place,
                glob=said.glob,
                regex=said.regex,
                ignore_case=said.ignore_case,
                limit=min(self._left or 1000, 1000),
                cursor=cursor,
            )
            yield from found
            self.passed_by += found.passed_by
            self._left = None if self._left is None else self._left - len(found)
            cursor = found.next_cursor
            if cursor is None:
                return


def _lines(console: Console, found: "list[holdfast.Finding]", *, only_names: bool) -> Iterator[str]:
    if only_names:
        names = dict.fromkeys(each.path for each in found)
        yield from (escaped(name_here(console, name)) for name in names)
        return
    for each in found:
        name = console.paint(escaped(name_here(console, each.path)), "cyan")
        text = escaped_line(each.text) if console.is_terminal else each.text
        yield f"{name}:{console.paint(str(each.line), 'green')}:{text}"

"""`holdfast diff`: what differs between two moments, as a unified diff.

The text is what `git apply` and `patch` read; values, sessions and memories are indented, and
skipped by both. Names with odd bytes are quoted as git quotes them; content goes out as it is to
a pipe, and with its control bytes escaped to a terminal.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped, escaped_line, quoted
from holdfast.cli.exits import DONE, usage
from holdfast.cli.views import changes_view

EXAMPLES = """\
examples:
  holdfast diff                    from the last snapshot to the directory as it is
  holdfast diff @-1                from the snapshot before that
  holdfast diff snap-k3v7 latest   between two snapshots
  holdfast diff --path 'src/*.py'  of some files
  holdfast diff --stat             names and sizes
"""

_LINK = "120000"
"""What diffs write for a link, which has no mode of its own."""

_LINE_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows what differs between two moments."
    parser.epilog = EXAMPLES
    parser.add_argument("old", nargs="?", metavar="A", help="from here (default: last snapshot)")
    parser.add_argument("new", nargs="?", metavar="B", help="to here (default: as it is now)")
    parser.add_argument(
        "--path",
        metavar="GLOB",
        nargs="+",
        action="extend",
        dest="paths",
        help="only these files, what lies in these directories, or what matches",
    )
    parser.add_argument("--stat", action="store_true", help="names and sizes instead of text")
    parser.add_argument("--name-only", action="store_true", help="names alone")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.stat and arguments.name_only:
        raise usage("--stat and --name-only are two ways to show it", hint="Leave one out.")
    workspace = get_workspace(console)
    moments = (arguments.old, arguments.new)
    if not (arguments.stat or arguments.name_only or console.is_json):
        texts = workspace.text_diffs(*moments, paths=arguments.paths)
        console.answer(
            document=dict,
            lines=lambda: (line for found, text in texts for line in _patch(console, found, text)),
        )
        return DONE
    changes = workspace.diff(*moments, paths=arguments.paths)

    def lines() -> Iterator[str]:
        if arguments.name_only:
            yield from (words.plane_name(change) for change in changes)
        else:
            yield from words.change_lines(console, changes, most=None)
            yield changes.summary()

    console.answer(document=lambda: changes_view(changes), lines=lines)
    return DONE


def _patch(console: Console, change: "holdfast.Change", text: str) -> Iterator[str]:
    """Yields the lines of one change."""
    if change.plane.value != "files":
        yield from _other_plane(console, change, text)
        return
    if words.is_folder(change):
        # Diffs know no directories: a line that `git apply` and `patch` skip.
        modes = [getattr(each, "mode", None) for each in (change.old, change.new)]
        more = "" if None in modes else ": mode {:o} -> {:o}".format(*modes)
        yield f"Directory {quoted(change.name)} {change.change}{more}"
        return
    old_name, new_name = quoted(f"a/{change.name}"), quoted(f"b/{change.name}")
    if change.is_executable_config:
        # Before the header, where `git apply` and `patch` skip what they do not know.
        yield console.paint("! executable configuration: other programs run this", "yellow")
    yield console.paint(f"diff --git {old_name} {new_name}", "bold")
    old_mode, new_mode = _git_mode(change.old), _git_mode(change.new)
    if change.old is None:
        yield f"new file mode {new_mode}"
        old_name = "/dev/null"
    elif change.new is None:
        yield f"deleted file mode {old_mode}"
        new_name = "/dev/null"
    elif old_mode != new_mode:
        yield f"old mode {old_mode}"
        yield f"new mode {new_mode}"
    # Its own two lines of header hold the name as it is, line ends and all.
    head = f"--- a/{change.name}\n+++ b/{change.name}\n"
    if not text.startswith(head):
        yield from (escaped(line) for line in text.splitlines())
        return
    yield f"--- {old_name}"
    yield f"+++ {new_name}"
    links = ("-" if old_mode == _LINK else "") + ("+" if new_mode == _LINK else "")
    for line in text[len(head) :].removesuffix("\n").split("\n"):
        yield _content_line(console, line)
        if links and line[:1] in links:
            yield "\\ No newline at end of file"  # A link's target has none.


def _other_plane(console: Console, change: "holdfast.Change", text: str) -> Iterator[str]:
    """Yields the lines of what is no file, indented: `git apply` and `patch` skip them."""
    yield console.paint(f"{words.plane_name(change)} {change.change}", "bold")
    head = f"--- a/{change.name}\n+++ b/{change.name}\n"
    for line in text.removeprefix(head).removesuffix("\n").split("\n"):
        yield f"  {_content_line(console, line)}"


def _content_line(console: Console, line: str) -> str:
    if not console.is_terminal:
        return line
    safe = escaped_line(line)
    style = _LINE_COLOURS.get(line[:1])
    return console.paint(safe, style) if style else safe


def _git_mode(entry: object) -> str:
    """Returns a mode as diffs write it: what kind of file, and whether it can be executed."""
    if entry is None:
        return ""
    mode = getattr(entry, "mode", None)
    if mode is None:
        return _LINK
    return f"100{mode:03o}"

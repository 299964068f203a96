"""`holdfast merge`: brings in what a fork of this namespace, or its origin, has changed."""

from argparse import ArgumentParser, Namespace

from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import code_of_proof
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.views import changes_view
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast merge idea                    what was done there comes here
  holdfast merge idea --prefer theirs    where both changed the same, theirs wins
  holdfast undo                          and it is as before
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Brings in what a fork has changed; what was there is kept first."
    parser.epilog = EXAMPLES
    parser.add_argument("name", metavar="NAME", help="the namespace that has the changes")
    parser.add_argument(
        "--prefer",
        choices=("ours", "theirs"),
        help="who wins where both changed the same; without it, nothing is changed then",
    )
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    with console.progress() as progress:
        merged = workspace.merge(
            arguments.name, prefer=arguments.prefer, force=arguments.force, progress=progress
        )
    console.answer(
        document=lambda: {
            **snapshot_view(merged.snapshot),
            "safety_id": merged.safety_id,
            "verified": merged.verified,
            **changes_view(merged.changes),
        },
        lines=list,
    )
    if not console.is_json and not console.is_quiet:
        proof = words.proof(console, is_verified=merged.verified, lacking="")
        console.say(f"Merged {escaped(arguments.name)}: {merged.changes.summary()}, {proof}")
        for line in words.change_lines(console, merged.changes):
            console.say(line)
        if merged.safety_id is not None:
            console.say(f"What was there before is kept as {words.short(merged.safety_id)}.")
        console.say("`holdfast undo` takes this back.")
    return code_of_proof(console, is_verified=merged.verified)

"""`holdfast import`: brings an exported file into the directory."""

from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.views import find_lacking
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast import backup.tar       the directory becomes what the file holds
  holdfast undo                    and is again what it was
  ssh host 'cat b.tar' | holdfast import -
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Makes the directory what an exported file holds; what was there is kept first."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "file", metavar="FILE", help="what `holdfast export` has written; - for stdin"
    )
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    with _opened(arguments.file, console) as source, console.progress() as progress:
        imported = workspace.import_(source, force=arguments.force, progress=progress)
    console.answer(
        document=lambda: {
            **snapshot_view(imported.snapshot),
            "safety_id": imported.safety_id,
            "verified": imported.verified,
            "uncaptured_count": imported.manifest.uncaptured,
            "in_motion_count": imported.manifest.in_motion,
            "from_namespace": imported.manifest.namespace,
            "from_snapshot_id": imported.manifest.snapshot,
        },
        lines=lambda: [] if console.is_quiet else _lines(console, imported),
    )
    return DONE


@contextmanager
def _opened(file: str, console: Console) -> Generator[str]:
    """Yields the name of the file that is imported; what comes through a pipe becomes one first."""
    if file != "-":
        yield console.resolve(file)
        return
    from shutil import copyfileobj  # noqa: PLC0415 - for pipes alone
    from tempfile import NamedTemporaryFile  # noqa: PLC0415 - as above

    # It is surveyed from end to end before anything of it is used, and then read again.
    with NamedTemporaryFile(prefix="holdfast-import-") as kept:
        copyfileobj(console.binary_in(), kept)
        kept.flush()
        yield kept.name


def _lines(console: Console, imported: "holdfast.Imported") -> Iterator[str]:
    manifest, size = imported.manifest, imported.snapshot.size
    what = f'"{escaped(manifest.label)}"' if manifest.label else "a snapshot"
    found = find_lacking(imported.snapshot)
    lacking = words.lacking(
        is_partial=imported.snapshot.is_partial,
        uncaptured=manifest.uncaptured,
        in_motion=manifest.in_motion,
    )
    proof = words.proof(console, is_verified=imported.verified, lacking=lacking)
    yield (
        f"Imported {what} of namespace {escaped(manifest.namespace)}: "
        f"{words.number(size.entries, 'entry', 'entries')}, {words.size(size.bytes)}, {proof}"
    )
    yield from words.lacking_lines(console, found, is_kept=True)
    if imported.safety_id is not None:
        yield f"What was there before is kept as {words.short(imported.safety_id)}."
    yield "`holdfast undo` takes this back."

"""`holdfast import`: brings an exported file, or a set of files, into the directory."""

from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import code_of_proof
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.views import find_lacking
from holdfast.escaping import escaped

EXAMPLES = """\
examples:
  holdfast import backup.tar       the directory becomes what the file holds
  holdfast undo                    and is again what it was
  ssh host 'cat b.tar' | holdfast import -
  holdfast import --files ../copy  the files are exactly those of a folder
  gunzip -c site.tgz | holdfast import --files -
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
        "--files",
        action="store_true",
        help="FILE is any tar file, or a directory: the files become exactly those, all else stays",
    )
    parser.add_argument(
        "--force", action="store_true", help="give up what cannot be captured and is in the way"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    workspace = get_workspace(console)
    with _opened(arguments.file, console) as source, console.progress() as progress:
        if arguments.files:
            brought = workspace.import_files(source, force=arguments.force, progress=progress)
        else:
            brought = workspace.import_(source, force=arguments.force, progress=progress)
    if isinstance(brought, holdfast.ImportedFiles):
        _answer_files(console, brought)
    else:
        _answer(console, brought)
    return code_of_proof(console, is_verified=brought.verified)


def _answer(console: Console, imported: "holdfast.Imported") -> None:
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


def _answer_files(console: Console, imported: "holdfast.ImportedFiles") -> None:
    console.answer(
        document=lambda: {
            **snapshot_view(imported.snapshot),
            "safety_id": imported.safety_id,
            "verified": imported.verified,
            "in_motion_count": len(find_lacking(imported.snapshot).in_motion),
            "imported_entries": imported.entries,
            "imported_bytes": imported.content_bytes,
            "left_out": imported.left_out,
        },
        lines=lambda: [] if console.is_quiet else _files_lines(console, imported),
    )


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
    yield from _way_back(imported.safety_id)


def _files_lines(console: Console, imported: "holdfast.ImportedFiles") -> Iterator[str]:
    found = find_lacking(imported.snapshot)
    lacking = words.lacking(is_partial=False, uncaptured=0, in_motion=len(found.in_motion))
    proof = words.proof(console, is_verified=imported.verified, lacking=lacking)
    count = words.number(imported.entries, "entry", "entries")
    yield f"Imported files: {count}, {words.size(imported.content_bytes)}, {proof}"
    yield from words.lacking_lines(console, found, is_kept=True)
    yield from words.listed(
        console, "in no snapshot, by the rules that came along", imported.left_out
    )
    yield from _way_back(imported.safety_id)


def _way_back(safety_id: str | None) -> Iterator[str]:
    if safety_id is not None:
        yield f"What was there before is kept as {words.short(safety_id)}."
    yield "`holdfast undo` takes this back."

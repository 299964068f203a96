"""`holdfast du`: what takes the space, in the vault and in the directory's snapshots."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.commands.namespaces import Row, rows_of, view_of
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.views import path_view
from holdfast.errors import NotFound
from holdfast.escaping import escaped
from holdfast.settings import CATALOG_NAME, is_url

USUALLY_SHOWN = 10

EXAMPLES = """\
examples:
  holdfast du                      the vault, the newest snapshots, the largest files
  holdfast du -n 50                more of each
  holdfast du --namespaces         every namespace of the vault

A snapshot's size is what it would take alone. Snapshots share what they have in common, so the
vault is smaller than their sum.
"""


@dataclass(frozen=True, slots=True)
class _Usage:
    """What was found."""

    vault: str
    pack_files: int
    pack_bytes: int
    catalog_bytes: int | None
    stored_bytes: int
    retired_bytes: int
    snapshots: "Sequence[holdfast.SnapshotInfo]"
    largest: "Sequence[holdfast.FileInfo]"
    namespaces: Sequence[Row] | None


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Shows what takes the space."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "-n",
        "--number",
        metavar="N",
        type=int,
        default=USUALLY_SHOWN,
        help=f"how many snapshots and files to list (default {USUALLY_SHOWN})",
    )
    parser.add_argument(
        "--namespaces", action="store_true", help="also what each namespace of the vault holds"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.number < 0:
        raise usage("-n is 0 or more", hint="`holdfast du` lists 10 of them.")
    workspace = get_workspace(console)
    location = console.location()
    vault = console.open_vault(location)
    packs = [*_sizes(console.find_objects(location) or os.path.join(location, "packs"))]
    found = _Usage(
        vault=console.location_text(location),
        pack_files=len(packs),
        pack_bytes=sum(packs),
        catalog_bytes=_catalog(location),
        stored_bytes=vault.stored_bytes(),
        retired_bytes=vault.retired_bytes(),
        snapshots=workspace.namespace.timeline(limit=arguments.number),
        largest=_largest(workspace, most=arguments.number),
        namespaces=_by_size(vault) if arguments.namespaces else None,
    )
    console.answer(document=lambda: _document(found), lines=lambda: _lines(console, found))
    return DONE


def _by_size(vault: "holdfast.Holdfast") -> list[Row]:
    return sorted(rows_of(vault), key=lambda row: row.size.bytes, reverse=True)


def _largest(workspace: "holdfast.Workspace", *, most: int) -> "Sequence[holdfast.FileInfo]":
    try:
        files = workspace.namespace.at("@").files.list(recursive=True)
    except NotFound:
        return []
    return nlargest(most, files, key=lambda file: file.size_bytes)


def _sizes(folder: str) -> Iterator[int]:
    """Yields the bytes of each file in a folder, or of each pack in a bucket."""
    if is_url(folder):
        from holdfast.wiring import open_blobs  # noqa: PLC0415 - for buckets alone

        yield from (size for _, size in open_blobs(folder)[0].iter_names())
        return
    for here, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(here, name)).st_size
            except FileNotFoundError:
                continue  # A collection is under way: it has gone since.


def _catalog(location: str) -> int | None:
    """Returns the bytes of the catalog's file and of its log; None for one in a database."""
    if is_url(location):
        return None
    total = 0
    for name in (CATALOG_NAME, f"{CATALOG_NAME}-wal"):
        try:
            total += os.stat(os.path.join(location, name)).st_size
        except OSError:
            continue
    return total


def _lines(console: Console, found: _Usage) -> Iterator[str]:
    yield console.paint(f"vault {escaped(found.vault)}", "bold")
    yield f"  {words.size(found.pack_bytes):>9}  {words.number(found.pack_files, 'pack file')}"
    if found.retired_bytes:
        yield f"  {words.size(found.retired_bytes):>9}  of that is retired: `holdfast gc` frees it"
    if found.catalog_bytes is not None:
        yield f"  {words.size(found.catalog_bytes):>9}  catalog"
    if found.namespaces is not None:
        yield console.paint("namespaces (each as if it were alone)", "bold")
        for row in found.namespaces:
            where = "" if row.path is None else f"  {escaped(row.path)}"
            yield f"  {words.size(row.size.bytes):>9}  {escaped(row.name)}{where}"
    yield console.paint("snapshots (each as if it were alone)", "bold")
    for snapshot in found.snapshots:
        label = escaped(snapshot.label or "")
        line = f"  {words.size(snapshot.size.bytes):>9}  {words.short(snapshot.id)}  "
        yield f"{line}{words.local(snapshot.created_at)}  {label}".rstrip()
    yield console.paint("largest files of the last snapshot", "bold")
    for file in found.largest:
        yield f"  {words.size(file.size_bytes):>9}  {escaped(file.path)}"


def _document(found: _Usage) -> dict[str, object]:
    return {
        "vault": found.vault,
        "pack_files": found.pack_files,
        "pack_bytes": found.pack_bytes,
        "catalog_bytes": found.catalog_bytes,
        "stored_bytes": found.stored_bytes,
        "retired_bytes": found.retired_bytes,
        **(
            {}
            if found.namespaces is None
            else {"namespaces": [view_of(row) for row in found.namespaces]}
        ),
        "snapshots": [snapshot_view(snapshot) for snapshot in found.snapshots],
        "largest_files": [
            {**path_view(file.path), "bytes": file.size_bytes} for file in found.largest
        ],
    }

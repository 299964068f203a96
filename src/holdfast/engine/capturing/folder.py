"""Takes in a folder of which nothing is known, as it is at this moment.

No rules leave anything out of it, only what is never captured: vaults, packs, and what is neither
file, link nor folder. The coverage names it.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.engine.capturing.capture import Capture, Rereading
from holdfast.engine.capturing.captured import Captured, take_until_still
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import check_free
from holdfast.engine.objects.content import Sink
from holdfast.progress import Progress
from holdfast.workspace.guard import check_directory
from holdfast.workspace.ignoring import Rules
from holdfast.workspace.scan import Scan, Scanner

_LEAST_SHARE: Final = 4
"""Content that will not fit even at a quarter of its size is refused before it is read."""


def capture_folder(
    context: Context, sink: Sink, folder: Path, root_fd: int, *, progress: Progress
) -> Captured:
    """Returns all that is in a folder, which is open; its content goes to the sink.

    Raises `DirectoryRefused` for a vault, or what lies in one.
    """
    check_directory(folder, home=None, vault=context.own_folders, force=True)
    rules = Rules(apart=identities(context.own_folders))

    def scan(known: LastLook, only: frozenset[bytes] | None = None) -> Scan:
        return Scanner(root_fd, known.index, rules, is_wary=True).scan(only=only)

    def take(known: LastLook) -> Captured:
        scanned = scan(known)
        check_fits(context, scanned)
        rereading = Rereading.NONE if len(known.index) else Rereading.SOME
        capture = Capture(root_fd, known, sink, context.limits, progress, rereading=rereading)
        return capture.take(scanned, rules=rules.digest)

    return take_until_still(LastLook.of(None), take, scan)


def check_fits(context: Context, scan: Scan) -> None:
    """Raises `StorageFull` if what has to be read will not fit."""
    needed = sum(d.rows[n].size for d in scan.drafts.values() for n in d.wanted - d.unsure)
    places = (context.catalog, context.blobs)
    check_free(needed // _LEAST_SHARE, limits=context.limits, places=places)


def identities(folders: Iterable[Path]) -> frozenset[tuple[int, int]]:
    """Returns folders by device and inode."""
    found: set[tuple[int, int]] = set()
    for folder in folders:
        with suppress(OSError):
            there = folder.stat()
            found.add((there.st_dev, there.st_ino))
    return frozenset(found)

"""Lists files page by page: the order of `Files.list`, from where the page before ended.

Pages are of the moments at which they are asked for. What is there all the while is listed once;
what comes or goes meanwhile is listed or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.engine.core.paths import PathLike, to_bytes, to_text
from holdfast.engine.files.reader import (
    FilesReader,
    Times,
    by_path,
    check_folder,
    children_of,
    info_of,
    listed_place,
)
from holdfast.engine.planes.view import View
from holdfast.entries import Entry, Link, decode_entry
from holdfast.model.files import FileInfo
from holdfast.tree import prefix_stop


@dataclass(frozen=True, slots=True)
class Listed:
    """One thing in a listing."""

    info: FileInfo
    target: str | None
    """Where a link points; None for anything else."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing, and whether more follows."""

    items: list[Listed]
    has_more: bool


def list_page(
    files: FilesReader,
    path: PathLike = "",
    *,
    prefix: PathLike = "",
    recursive: bool = False,
    after: str | None = None,
    most: int,
) -> Page:
    """Returns what lies in a directory behind the path `after`; raises `PathNotFound`.

    A page never ends at a name that is no text, as nobody could say where to go on: it is longer
    by those.
    """
    folder, beginning = listed_place(path, prefix)
    behind = None if after is None else to_bytes(after)
    with files.opened() as view:
        check_folder(view, folder)
        inside = folder + b"/" if folder else b""
        read = _walk if recursive else _children
        found = read(view, inside, beginning, behind)
        items, times = list[Listed](), Times(view)
        for key, entry in found:
            if len(items) >= most and _is_text(items[-1]):
                return Page(items, has_more=True)
            items.append(_listed(times, key, entry))
    return Page(items, has_more=False)


def look_at(files: FilesReader, path: PathLike) -> Listed:
    """Returns what is known about a path, and where it points if it is a link."""
    with files.still() as now:
        info = now.stat(path)
        return Listed(info, now.readlink(path) if info.kind == "link" else None)


def _walk(
    view: View, inside: bytes, beginning: bytes, behind: bytes | None
) -> Iterator[tuple[bytes, Entry]]:
    first = inside + beginning
    start = first if behind is None else max(first, behind + b"\0")
    for key, data in view.iterate(start, prefix_stop(first)):
        yield key, decode_entry(data)


def _children(
    view: View, inside: bytes, beginning: bytes, behind: bytes | None
) -> Iterator[tuple[bytes, Entry]]:
    found = by_path(children_of(view, inside, beginning, start=behind or b""))
    # What lies in a directory comes behind names that stand behind the directory's own.
    return (each for each in found if behind is None or each[0] > behind)


def _listed(times: Times, key: bytes, entry: Entry) -> Listed:
    target = to_text(entry.target) if isinstance(entry, Link) else None
    return Listed(times.dated(key, info_of(key, entry)), target)


def _is_text(listed: Listed) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in listed.info.path)

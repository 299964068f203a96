"""Files as they were at a snapshot, as somebody looks through them: a directory, or a text.

What a directory holds and what a file says is answered in one form, wherever somebody asks; paths
carry the prefix `workspace/` there.
"""

from typing import Final

import msgspec

from holdfast.engine.files.browsing import browse, read_short
from holdfast.engine.files.reader import FilesReader
from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidPath
from holdfast.instants import EPOCH, to_text
from holdfast.model.files import FileInfo
from holdfast.model.marks import Instant
from holdfast.model.names import legible_name, legible_path, read_path
from holdfast.server.routing import Route, get


class EntryAnswer(msgspec.Struct, kw_only=True):
    """One thing in a directory."""

    name: str
    path: str
    is_dir: bool
    is_link: bool
    size_bytes: int | None
    modified_at: Instant


class ListAnswer(msgspec.Struct, kw_only=True):
    """What lies in a directory; `truncated` if there is more."""

    path: str
    entries: list[EntryAnswer]
    truncated: bool


class ContentAnswer(msgspec.Struct, kw_only=True):
    """A file's content as text; null where it is none."""

    path: str
    size_bytes: int
    modified_at: Instant
    encoding: str
    content: str | None
    truncated: bool


TEXT, BINARY = "utf-8", "binary"
MAX_PREVIEW_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 1000
MAX_LEVELS: Final = 20


@get("/v1/snapshots/{snapshot_id}/files")
def list_then(
    agent: Namespace, snapshot_id: str, path: str = "workspace/", recursive: bool = False
) -> ListAnswer:
    """Lists a directory as it was at a snapshot."""
    return listing_of(agent.at(snapshot_id).files, path, recursive=recursive)


@get("/v1/snapshots/{snapshot_id}/files/content")
def read_then(agent: Namespace, snapshot_id: str, path: str) -> ContentAnswer:
    """Returns a file's content as it was at a snapshot."""
    return content_of(agent.at(snapshot_id).files, read_path(path))


def listing_of(files: FilesReader, path: str, *, recursive: bool) -> ListAnswer:
    """Returns what lies in a directory, or with `recursive` below it."""
    folder = _folder_path(path)
    found = browse(files, folder, most=MAX_ENTRIES, levels=MAX_LEVELS if recursive else 1)
    return ListAnswer(
        path=legible_path(folder),
        entries=[_entry(info) for info in found.entries],
        truncated=found.truncated,
    )


def content_of(files: FilesReader, path: str) -> ContentAnswer:
    """Returns what a file says, or the beginning of it."""
    with files.still() as now:
        info, body = read_short(now, file_path(path), most=MAX_PREVIEW_BYTES)
        return answer_of(path, info, _beginning(now, path) if body is None else body)


def answer_of(path: str, info: FileInfo, beginning: bytes) -> ContentAnswer:
    """Returns the answer about a file that begins like this."""
    is_cut = len(beginning) < info.size_bytes
    text = _text(beginning, is_cut=is_cut)
    return ContentAnswer(
        path=legible_path(path),
        size_bytes=info.size_bytes,
        modified_at=modified(info),
        encoding=BINARY if text is None else TEXT,
        content=text,
        truncated=text is not None and is_cut,
    )


def file_path(path: str) -> str:
    """Returns the path of something in a namespace; raises `InvalidPath` for the root."""
    if not path:
        raise InvalidPath(path, reason="it is empty")
    return path


def modified(info: FileInfo) -> str:
    """Returns when something was modified, as an answer says it; of what says nothing, in 1970."""
    return to_text(info.modified_at or EPOCH)


def _folder_path(path: str) -> str:
    """Returns the path of a directory to read: empty for the root."""
    bare = read_path(path).rstrip("/")
    return "" if bare == "." else bare


def _text(beginning: bytes, *, is_cut: bool) -> str | None:
    """Returns the beginning of a file as text; None if it is none."""
    try:
        return beginning.decode()
    except UnicodeDecodeError as exc:
        # A character that begins at the very end is cut off, not broken.
        is_end = is_cut and exc.reason == "unexpected end of data"
        return beginning[: exc.start].decode() if is_end else None


def _beginning(files: FilesReader, path: str) -> bytes:
    held = bytearray()
    for piece in files.stream(path):
        held += piece
        if len(held) >= MAX_PREVIEW_BYTES:
            break
    return bytes(held[:MAX_PREVIEW_BYTES])


def _entry(info: FileInfo) -> EntryAnswer:
    is_dir = info.kind == "directory"
    return EntryAnswer(
        name=legible_name(info.name),
        path=legible_path(info.path),
        is_dir=is_dir,
        is_link=info.kind == "link",
        size_bytes=None if is_dir else info.size_bytes,
        modified_at=modified(info),
    )


ROUTES: Final[list[Route]] = [list_then, read_then]

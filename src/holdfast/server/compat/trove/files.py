"""Files of a namespace: write, upload, download, delete, list, read.

Which path is meant is in `paths`, what is sent and answered in `shapes`.
"""

from functools import partial
from typing import BinaryIO, Final, cast

from holdfast.engine.core.paths import to_key
from holdfast.engine.files.browsing import browse, find_short, read_short
from holdfast.engine.files.download import find_sendable
from holdfast.engine.files.reader import EPOCH, FilesReader
from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidPath
from holdfast.model.files import FileInfo
from holdfast.model.paths import read_path, shown_name, shown_path
from holdfast.server import transfer
from holdfast.server.calling import encoded
from holdfast.server.compat.trove.paths import deleted_path, folder_path, url_path, written_path
from holdfast.server.compat.trove.shapes import (
    ContentAnswer,
    DeletedAnswer,
    DeleteRequest,
    EntryAnswer,
    ListAnswer,
    WriteRequest,
    WrittenAnswer,
)
from holdfast.server.compat.trove.texts import Unquoted
from holdfast.server.requests import Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, get, post, put
from holdfast.server.threads import Work, in_thread
from holdfast.server.times import shown
from holdfast.server.uploads import Upload

TEXT, BINARY = "utf-8", "binary"
MAX_PREVIEW_BYTES: Final = 1 << 20
AT_ONCE_BYTES: Final = 64 << 10
"""Up to here a file is read while the loop waits: 0.1 ms."""

MAX_ENTRIES: Final = 1000
MAX_LEVELS: Final = 20
SIZE_HEADER, TRUNCATED_HEADER = "X-Trove-Size", "X-Trove-Truncated"
_BYTES: Final = "application/octet-stream"


@post("/write")
def write(request: Request, agent: Namespace, data: WriteRequest) -> WrittenAnswer:
    """Writes a text file, byte for byte; the directories above it come about by themselves."""
    most = request.services.config.max_upload_bytes
    body = Unquoted(data.content, max_bytes=most)
    return _written(agent.files.write(written_path(data.path), cast("BinaryIO", body)))


@put(
    "/files/{path:path}",
    body=_BYTES,
    claims=False,
    is_spooled=True,  # The limit of uploads counts instead, while they are read.
)
async def upload(request: Request, agent: Namespace) -> WrittenAnswer:
    """Writes a file from the bytes of the body, which are stored as they come."""
    path = _url_path(request)
    to_key(path)  # Before the body is read: a path that is none is refused at once.
    most = request.services.config.max_upload_bytes
    async with Upload(request, agent, max_bytes=most).opened() as body:
        write = partial(encoded, lambda: _written(agent.files.write(path, body)))
        return await in_thread(write, work=Work.SLOW)


@get(
    "/files/{path:path}",
    media_type=_BYTES,
    headers={SIZE_HEADER: "The file's whole size.", TRUNCATED_HEADER: "1 if there is more."},
)
async def download(request: Request, agent: Namespace) -> Stream:
    """Returns a file's bytes; of a very large one the beginning, which a header says."""
    path, most = _url_path(request), request.services.config.max_download_bytes
    outgoing = await in_thread(_opened, agent.files, path)
    headers = {
        SIZE_HEADER: str(outgoing.size),
        "Content-Length": str(min(outgoing.size, most)),
    }
    if outgoing.size > most:
        headers[TRUNCATED_HEADER] = "1"
    return Stream(transfer.send(outgoing, max_bytes=most), media_type=_BYTES, headers=headers)


@put("/files", work=None, is_shown=False)
def upload_nothing() -> None:
    """Refuses an upload to the root, which a client sends for `workspace/`."""
    written_path("")


@get("/files", work=None, is_shown=False)
def download_nothing() -> None:
    """Refuses a download of the root."""
    written_path("")


@post("/delete")
def delete(agent: Namespace, data: DeleteRequest) -> DeletedAnswer:
    """Deletes a file, a link, or a directory with all that lies in it."""
    path = deleted_path(data.path)
    count = agent.files.delete(path, recursive=True)
    return DeletedAnswer(deleted=shown_path(path), entries=count)


@get("/v1/files")
def list_(agent: Namespace, path: str = "workspace/", recursive: bool = False) -> ListAnswer:
    """Lists a directory: directories first, then by name; at most 1000 entries.

    With `recursive`, what lies in a directory follows it, 20 levels deep at the most.
    """
    return _listing(agent.files, path, recursive=recursive)


def _read_short(agent: Namespace, path: str) -> ContentAnswer | None:
    """Returns the content of a short file; None for anything else."""
    place = read_path(path)
    found = find_short(agent.files, written_path(place), most=AT_ONCE_BYTES)
    return None if found is None else _content(place, *found)


@get("/v1/files/content", at_once=_read_short)
def read(agent: Namespace, path: str) -> ContentAnswer:
    """Returns a file's content as text; of a long one the beginning, and of bytes none."""
    return _whole(agent.files, read_path(path))


@get("/v1/snapshots/{snapshot_id}/files")
def list_then(
    agent: Namespace, snapshot_id: str, path: str = "workspace/", recursive: bool = False
) -> ListAnswer:
    """Lists a directory as it was at a snapshot."""
    return _listing(agent.at(snapshot_id).files, path, recursive=recursive)


@get("/v1/snapshots/{snapshot_id}/files/content")
def read_then(agent: Namespace, snapshot_id: str, path: str) -> ContentAnswer:
    """Returns a file's content as it was at a snapshot."""
    return _whole(agent.at(snapshot_id).files, read_path(path))


def _listing(files: FilesReader, path: str, *, recursive: bool) -> ListAnswer:
    folder = folder_path(path)
    found = browse(files, folder, most=MAX_ENTRIES, levels=MAX_LEVELS if recursive else 1)
    return ListAnswer(
        path=shown_path(folder),
        entries=[_entry(info) for info in found.entries],
        truncated=found.truncated,
    )


def _whole(files: FilesReader, path: str) -> ContentAnswer:
    with files.still() as now:
        info, body = read_short(now, written_path(path), most=MAX_PREVIEW_BYTES)
        return _content(path, info, _beginning(now, path) if body is None else body)


def _content(path: str, info: FileInfo, beginning: bytes) -> ContentAnswer:
    is_cut = len(beginning) < info.size_bytes
    text = _text(beginning, is_cut=is_cut)
    return ContentAnswer(
        path=shown_path(path),
        size_bytes=info.size_bytes,
        modified_at=_modified(info),
        encoding=BINARY if text is None else TEXT,
        content=text,
        truncated=text is not None and is_cut,
    )


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


def _opened(files: FilesReader, path: str) -> transfer.Outgoing:
    return transfer.begun(find_sendable(files, path))


def _url_path(request: Request) -> str:
    if request.scope["query_string"]:
        # What a client meant as part of a name; to go on would be to use another file.
        raise InvalidPath(request.path, reason="a '?' in a name has to be sent as %3F")
    return url_path(request.scope["raw_path"])


def _written(info: FileInfo) -> WrittenAnswer:
    return WrittenAnswer(
        path=shown_path(info.path), size_bytes=info.size_bytes, modified_at=_modified(info)
    )


def _entry(info: FileInfo) -> EntryAnswer:
    is_dir = info.kind == "directory"
    return EntryAnswer(
        name=shown_name(info.name),
        path=shown_path(info.path),
        is_dir=is_dir,
        is_link=info.kind == "link",
        size_bytes=None if is_dir else info.size_bytes,
        modified_at=_modified(info),
    )


def _modified(info: FileInfo) -> str:
    return shown(info.modified_at or EPOCH)


ROUTES_WITH_TEXTS: Final[list[Route]] = [write]

ROUTES: Final[list[Route]] = [
    upload,
    upload_nothing,
    download,
    download_nothing,
    delete,
    list_,
    read,
    list_then,
    read_then,
]

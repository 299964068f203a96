"""Files of a namespace: write, upload, download, delete, list, read.

Paths are those of `places`. What writes gets them relative to the root; what reads takes them as
somebody typed them.
"""

from functools import partial
from typing import Any, BinaryIO, Final, cast

from litestar import Request
from litestar.datastructures import ResponseHeader
from litestar.handlers import HTTPRouteHandler
from litestar.response import Stream

from holdfast.engine.browsing import browse
from holdfast.engine.files import EPOCH, FilesReader
from holdfast.engine.namespace import Namespace
from holdfast.engine.paths import to_key
from holdfast.errors import InvalidPath, NotAFile
from holdfast.model_files import FileInfo
from holdfast.server import transfer
from holdfast.server.callers import runtime_only
from holdfast.server.idempotency import AT_ONCE
from holdfast.server.places import (
    deleted_path,
    folder_path,
    read_path,
    shown_name,
    shown_path,
    url_path,
    written_path,
)
from holdfast.server.routing import encoded, get, post, put
from holdfast.server.threads import Work, in_thread
from holdfast.server.times import shown
from holdfast.server.uploads import Upload
from holdfast.wire.files import (
    ContentAnswer,
    DeletedAnswer,
    DeleteRequest,
    EntryAnswer,
    ListAnswer,
    WriteRequest,
    WrittenAnswer,
)

TEXT, BINARY = "utf-8", "binary"
MAX_PREVIEW_BYTES: Final = 1 << 20
MAX_ENTRIES: Final = 1000
MAX_LEVELS: Final = 20
SIZE_HEADER, TRUNCATED_HEADER = "X-Trove-Size", "X-Trove-Truncated"
_BYTES: Final = "application/octet-stream"


@post("/write", guards=[runtime_only])
def write(request: "Request[Any, Any, Any]", agent: Namespace, data: WriteRequest) -> WrittenAnswer:
    """Writes a text file, byte for byte; the directories above it come about by themselves."""
    most = request.app.state.config.max_upload_bytes
    body = transfer.Unquoted(data.content, max_bytes=most)
    return _written(agent.files.write(written_path(data.path), cast("BinaryIO", body)))


@put(
    "/files/{path:path}",
    guards=[runtime_only],
    is_async=True,
    body=_BYTES,
    opt=AT_ONCE,
    request_max_body_size=None,  # The limit of uploads counts instead, while they are read.
)
async def upload(request: "Request[Any, Any, Any]", agent: Namespace) -> WrittenAnswer:
    """Writes a file from the bytes of the body, which are stored as they come."""
    path = _url_path(request)
    to_key(path)  # Before the body is read: a path that is none is refused at once.
    most = request.app.state.config.max_upload_bytes
    async with Upload(request, agent, max_bytes=most).opened() as body:
        write = partial(encoded, lambda: _written(agent.files.write(path, body)))
        return await in_thread(write, work=Work.SLOW)


@get(
    "/files/{path:path}",
    guards=[runtime_only],
    is_async=True,
    media_type=_BYTES,
    response_headers=[
        ResponseHeader(
            name=SIZE_HEADER, documentation_only=True, description="The file's whole size."
        ),
        ResponseHeader(
            name=TRUNCATED_HEADER, documentation_only=True, description="1 if there is more."
        ),
    ],
)
async def download(request: "Request[Any, Any, Any]", agent: Namespace) -> Stream:
    """Returns a file's bytes; of a very large one the beginning, which a header says."""
    path, most = _url_path(request), request.app.state.config.max_download_bytes
    outgoing = await in_thread(transfer.open_file, agent.files, path)
    headers = {
        SIZE_HEADER: str(outgoing.size),
        "Content-Length": str(min(outgoing.size, most)),
    }
    if outgoing.size > most:
        headers[TRUNCATED_HEADER] = "1"
    return Stream(transfer.send(outgoing, max_bytes=most), media_type=_BYTES, headers=headers)


@put("/files", guards=[runtime_only], in_thread=False, include_in_schema=False)
def upload_nothing() -> None:
    """Refuses an upload to the root, which a client sends for `workspace/`."""
    written_path("")


@get("/files", guards=[runtime_only], in_thread=False, include_in_schema=False)
def download_nothing() -> None:
    """Refuses a download of the root."""
    written_path("")


@post("/delete", guards=[runtime_only])
def delete(agent: Namespace, data: DeleteRequest) -> DeletedAnswer:
    """Deletes a file, a link, or a directory with all that lies in it."""
    path = deleted_path(data.path)
    count = agent.files.delete(path, recursive=True)
    return DeletedAnswer(deleted=shown_path(path), entries=count)


@get("/v1/files", guards=[runtime_only])
def list_(agent: Namespace, path: str = "workspace/", recursive: bool = False) -> ListAnswer:
    """Lists a directory: directories first, then by name; at most 1000 entries.

    With `recursive`, what lies in a directory follows it, 20 levels deep at the most.
    """
    return to_listing(agent.files, path, recursive=recursive)


@get("/v1/files/content", guards=[runtime_only])
def read(agent: Namespace, path: str) -> ContentAnswer:
    """Returns a file's content as text; of a long one the beginning, and of bytes none."""
    return to_content(agent.files, read_path(path))


def to_listing(files: FilesReader, path: str, *, recursive: bool) -> ListAnswer:
    """Returns what lies in a directory as it stands on the wire."""
    folder = folder_path(path)
    found = browse(files, folder, most=MAX_ENTRIES, levels=MAX_LEVELS if recursive else 1)
    return ListAnswer(
        path=shown_path(folder),
        entries=[_entry(info) for info in found.entries],
        truncated=found.truncated,
    )


def to_content(files: FilesReader, path: str) -> ContentAnswer:
    """Returns a file's content as it stands on the wire."""
    with files.still() as now:
        info = now.stat(written_path(path))
        if info.kind != "file":
            raise NotAFile(to_key(path), found=info.kind)
        text = _preview(now, path, info)
    return ContentAnswer(
        path=shown_path(path),
        size_bytes=info.size_bytes,
        modified_at=_modified(info),
        encoding=BINARY if text is None else TEXT,
        content=text,
        truncated=text is not None and info.size_bytes > MAX_PREVIEW_BYTES,
    )


def _preview(files: FilesReader, path: str, info: FileInfo) -> str | None:
    """Returns the beginning of a file as text; None if it is none."""
    is_cut = info.size_bytes > MAX_PREVIEW_BYTES
    beginning = _beginning(files, path) if is_cut else files.read(path)
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


def _url_path(request: "Request[Any, Any, Any]") -> str:
    if request.scope["query_string"]:
        # What a client meant as part of a name; to go on would be to use another file.
        raise InvalidPath(request.scope["path"], reason="a '?' in a name has to be sent as %3F")
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


ROUTES_WITH_TEXTS: Final[list[HTTPRouteHandler]] = [write]

ROUTES: Final[list[HTTPRouteHandler]] = [
    upload,
    upload_nothing,
    download,
    download_nothing,
    delete,
    list_,
    read,
]

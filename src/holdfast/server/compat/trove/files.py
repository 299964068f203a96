"""Files of a namespace: write, upload, download, delete, list, read.

Paths as this client sends them, and as it expects them.

Two families of routes get differently shaped paths. Those that write (and the raw download) get
them relative to the namespace's root, with `workspace/` taken off already. Those that read get
what the user typed: there, slashes at the beginning and one `workspace/` come off, as in our own
routes. What is answered always carries the prefix.
"""

from functools import partial
from typing import BinaryIO, Final, cast
from urllib.parse import unquote_to_bytes

import msgspec

from holdfast.engine.core.paths import to_key
from holdfast.engine.files.browsing import find_short
from holdfast.engine.files.download import find_sendable
from holdfast.engine.files.reader import FilesReader
from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidPath
from holdfast.model.files import FileInfo
from holdfast.model.marks import Instant
from holdfast.model.names import legible_path, read_path
from holdfast.server import transfer
from holdfast.server.calling import encoded
from holdfast.server.compat.trove.texts import QuotedText, Unquoted
from holdfast.server.requests import Request
from holdfast.server.responses import Stream
from holdfast.server.routes.files import (
    ContentAnswer,
    ListAnswer,
    answer_of,
    content_of,
    file_path,
    listing_of,
    modified,
)
from holdfast.server.routing import Route, get, post, put
from holdfast.server.threads import Work, in_thread
from holdfast.server.uploads import Upload


class WriteRequest(msgspec.Struct, kw_only=True):
    """A text to write to a path below the namespace's root."""

    path: str
    content: QuotedText


class WrittenAnswer(msgspec.Struct, kw_only=True):
    """A file that was written."""

    path: str
    size_bytes: int
    modified_at: Instant


class DeleteRequest(msgspec.Struct, kw_only=True):
    """A path to delete, with all that lies below it."""

    path: str


class DeletedAnswer(msgspec.Struct, kw_only=True):
    """What was deleted."""

    deleted: str
    entries: int


AT_ONCE_BYTES: Final = 64 << 10
"""Up to here a file is read while the loop waits: 0.1 ms."""

SIZE_HEADER, TRUNCATED_HEADER = "X-Trove-Size", "X-Trove-Truncated"
_BYTES: Final = "application/octet-stream"


@post("/write")
def write(request: Request, agent: Namespace, data: WriteRequest) -> WrittenAnswer:
    """Writes a text file, byte for byte; the directories above it come about by themselves."""
    most = request.services.config.max_upload_bytes
    body = Unquoted(data.content, max_bytes=most)
    return _written(agent.files.write(file_path(data.path), cast("BinaryIO", body)))


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
    size = min(outgoing.size, most)
    headers = {SIZE_HEADER: str(outgoing.size), "Content-Length": str(size)}
    if outgoing.size > most:
        headers[TRUNCATED_HEADER] = "1"
    return Stream(
        transfer.send(outgoing, max_bytes=most),
        media_type=_BYTES,
        headers=headers,
        weight=outgoing.weight(size),
    )


@put("/files", work=None, is_described=False)
def upload_nothing() -> None:
    """Refuses an upload to the root, which a client sends for `workspace/`."""
    file_path("")


@get("/files", work=None, is_described=False)
def download_nothing() -> None:
    """Refuses a download of the root."""
    file_path("")


@post("/delete")
def delete(agent: Namespace, data: DeleteRequest) -> DeletedAnswer:
    """Deletes a file, a link, or a directory with all that lies in it."""
    path = deleted_path(data.path)
    count = agent.files.delete(path, recursive=True)
    return DeletedAnswer(deleted=legible_path(path), entries=count)


@get("/v1/files")
def list_(agent: Namespace, path: str = "workspace/", recursive: bool = False) -> ListAnswer:
    """Lists a directory: directories first, then by name; at most 1000 entries.

    With `recursive`, what lies in a directory follows it, 20 levels deep at the most.
    """
    return listing_of(agent.files, path, recursive=recursive)


def _read_short(agent: Namespace, path: str) -> ContentAnswer | None:
    """Returns the content of a short file; None for anything else."""
    place = read_path(path)
    found = find_short(agent.files, file_path(place), most=AT_ONCE_BYTES)
    return None if found is None else answer_of(place, *found)


@get("/v1/files/content", at_once=_read_short)
def read(agent: Namespace, path: str) -> ContentAnswer:
    """Returns a file's content as text; of a long one the beginning, and of bytes none."""
    return content_of(agent.files, read_path(path))


def _opened(files: FilesReader, path: str) -> transfer.Outgoing:
    return transfer.begun(find_sendable(files, path))


def _url_path(request: Request) -> str:
    if request.scope["query_string"]:
        # What a client meant as part of a name; to go on would be to use another file.
        raise InvalidPath(request.path, reason="a '?' in a name has to be sent as %3F")
    return url_path(request.scope["raw_path"])


def _written(info: FileInfo) -> WrittenAnswer:
    return WrittenAnswer(
        path=legible_path(info.path), size_bytes=info.size_bytes, modified_at=modified(info)
    )


ROUTES_WITH_TEXTS: Final[list[Route]] = [write]

ROUTES: Final[list[Route]] = [
    upload,
    upload_nothing,
    download,
    download_nothing,
    delete,
    list_,
    read,
]


_FILES: Final = b"/files/"


def deleted_path(path: str) -> str:
    """Returns the path of a request that deletes: a directory may be named with its slash."""
    return file_path(path.removesuffix("/"))


def url_path(raw_path: bytes) -> str:
    """Returns the path that follows `/files/` in a URL, with its escapes decoded once.

    A `%` that begins no escape stands for itself.
    """
    if not raw_path.startswith(_FILES):
        # Somebody escaped letters of the route itself: where the path begins is not certain.
        raise InvalidPath(raw_path, reason="the route's own name has to stand there unescaped")
    escaped = raw_path.removeprefix(_FILES)
    try:
        return file_path(unquote_to_bytes(escaped).decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise InvalidPath(escaped, reason="its escapes are not UTF-8") from exc

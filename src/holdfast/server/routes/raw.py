"""The bytes of a file, whole however many they are; a broken download goes on where it ended.

A download has an entity tag. With `Range` and that tag in `If-Range`, what is missing is sent; of
a file that has changed meanwhile, all of it.
"""

import re
from functools import partial
from typing import Annotated, Any, Final

from msgspec import Meta

from holdfast.engine.core.paths import to_key
from holdfast.engine.files.download import Sendable, find_sendable
from holdfast.engine.namespace import Namespace
from holdfast.instants import from_text
from holdfast.model.files import FileInfo
from holdfast.model.marks import Header
from holdfast.model.names import from_b64, read_path
from holdfast.operations.shapes import shape_of
from holdfast.server import transfer
from holdfast.server.calling import encoded
from holdfast.server.doors import At, RawPath, missing, seen
from holdfast.server.problems import RangeUnfit
from holdfast.server.requests import Request
from holdfast.server.responses import Stream
from holdfast.server.routing import Route, get, put
from holdfast.server.threads import Work, in_thread
from holdfast.server.uploads import Upload

_FILE: Final[Any] = shape_of(FileInfo)
FileAnswer = _FILE.wire

_BYTES: Final = "application/octet-stream"
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d+)?", re.ASCII)
_FAR: Final = 10**18
"""No file reaches that far, and a number that is longer is not read."""

RangeHeader = Annotated[
    str | None,
    Header("Range"),
    Meta(description="`bytes=N-` for what follows the first N bytes."),
]
IfRangeHeader = Annotated[
    str | None,
    Header("If-Range"),
    Meta(description="The ETag of what was received so far."),
]


@put(
    "/v1/files/raw",
    body=_BYTES,
    claims=False,
    is_spooled=True,  # The limit of uploads counts instead, while they are read.
)
async def upload(
    request: Request,
    agent: Namespace,
    path: str,
    mode: int | None = None,
    modified_at: str | None = None,
    expected: str | None = None,
) -> FileAnswer:
    """Writes a file from the bytes of the body, which are stored as they come.

    Without `mode`, a file that is there keeps its own. With `expected`, only while what is there
    has that tag, or with `absent` while nothing is; else 409.
    """
    place = read_path(path)
    to_key(place)  # Before the body is read: a path that is none is refused at once.
    instant = None if modified_at is None else from_text(modified_at, "modified_at")
    most = request.services.config.max_upload_bytes
    async with Upload(request, agent, max_bytes=most).opened() as body:
        write = partial(
            agent.files.write, place, body, mode=mode, modified_at=instant, expected=expected
        )
        return await in_thread(partial(encoded, lambda: _FILE.send(write())), work=Work.SLOW)


@get(
    "/v1/files/raw",
    media_type=_BYTES,
    headers={"ETag": "Another one after a change."},
)
async def download(
    agent: Namespace,
    path: str | None = None,
    path_b64: RawPath = None,
    at: At = None,
    range_: RangeHeader = None,
    if_range: IfRangeHeader = None,
) -> Stream:
    """Returns a file's bytes, all of them; with `Range`, 206 and a part of them."""
    if path_b64 is not None:
        place = from_b64(path_b64)
    elif path is not None:
        place = read_path(path)
    else:
        raise missing("path", "path_b64")
    file = await in_thread(_find, agent, place, at)
    start, stop, tag = 0, file.size, f'"{file.tag}"'
    if if_range is None or if_range == tag:
        start, stop = _wanted(range_, file.size)
    headers = {"ETag": tag, "Accept-Ranges": "bytes", "Content-Length": str(stop - start)}
    is_part = (start, stop) != (0, file.size)
    if is_part:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{file.size}"
    outgoing = await in_thread(partial(transfer.begun, file, start=start))
    return Stream(
        transfer.send(outgoing, max_bytes=stop - start),
        media_type=_BYTES,
        headers=headers,
        status=206 if is_part else 200,
        weight=outgoing.weight(stop - start),
    )


def _find(agent: Namespace, path: str, at: str | None) -> Sendable:
    return find_sendable(seen(agent, at).files, path)


def _wanted(header: str | None, size: int) -> tuple[int, int]:
    """Returns where the part begins and ends that is asked for; all of it, if none is."""
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None:
        return 0, size  # A server may ignore what it does not know.
    start = _offset(found[1])
    last = size - 1 if found[2] is None else _offset(found[2])
    if start >= size or last < start:
        raise RangeUnfit(size)
    return start, min(last + 1, size)


def _offset(digits: str) -> int:
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < len(str(_FAR)) else _FAR


ROUTES: Final[list[Route]] = [upload, download]

"""What lies at a path: look, list, make, link, move and delete, as on a file system.

Where `files` speaks as its clients expect, these do what `Files` does in process, and answer as
much. Paths are read with or without `workspace/`, and answered without.
"""

from base64 import b64decode
from typing import Final

from holdfast.engine.files.editing import BATCH_BYTES, BATCH_FILES
from holdfast.engine.files.listing import Listed, list_page, look_at
from holdfast.engine.files.reader import USUAL_DIRECTORY_MODE
from holdfast.engine.namespace import Namespace
from holdfast.errors import TooLarge
from holdfast.server.moments import At, seen
from holdfast.server.paging import page_size
from holdfast.server.places import read_path, shown_name
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route, get, post
from holdfast.server.times import shown_or_none
from holdfast.wire.files import (
    ChmodRequest,
    FileAnswer,
    FilesAnswer,
    MkdirRequest,
    MoveRequest,
    RemovedAnswer,
    RemoveRequest,
    SymlinkRequest,
    WriteManyItem,
    WriteManyRequest,
    WroteManyAnswer,
)

LISTED, MOST_LISTED = 1000, 10_000


@get("/v1/files/stat")
def stat(agent: Namespace, path: str, at: At = None) -> FileAnswer:
    """Returns what is known about a path without reading what is there."""
    return to_file(look_at(seen(agent, at).files, read_path(path)))


@get("/v1/files/list")
def list_(
    agent: Namespace,
    path: str = "",
    prefix: str = "",
    recursive: bool = False,
    limit: int | None = None,
    starting_after: str | None = None,
    at: At = None,
) -> FilesAnswer:
    """Lists a directory by the bytes of the paths; with `recursive`, files at any depth.

    `starting_after` is the path that was listed last, as it was answered.
    """
    page = list_page(
        seen(agent, at).files,
        read_path(path),
        prefix=prefix,
        recursive=recursive,
        after=starting_after,
        most=page_size(limit, usual=LISTED, most=MOST_LISTED),
    )
    return FilesAnswer(files=[to_file(each) for each in page.items], has_more=page.has_more)


@post("/v1/files/mkdir")
def mkdir(agent: Namespace, data: MkdirRequest) -> FileAnswer:
    """Makes a directory, with those above it; one that is there gets the mode."""
    mode = USUAL_DIRECTORY_MODE if data.mode is None else data.mode
    return to_file(Listed(agent.files.mkdir(read_path(data.path), mode=mode), None))


@post("/v1/files/symlink")
def symlink(agent: Namespace, data: SymlinkRequest) -> FileAnswer:
    """Makes a link, or lets one that is there point elsewhere."""
    info = agent.files.symlink(read_path(data.path), data.target)
    return to_file(Listed(info, data.target))


@post("/v1/files/chmod")
def chmod(agent: Namespace, data: ChmodRequest) -> FileAnswer:
    """Sets the permission bits of a file or directory."""
    path = read_path(data.path)
    agent.files.chmod(path, data.mode)
    return to_file(look_at(agent.files, path))


@post("/v1/files/move")
def move(agent: Namespace, data: MoveRequest) -> FileAnswer:
    """Moves a file, link or directory; with `overwrite`, a file or link may be in its way."""
    target = read_path(data.target)
    agent.files.move(read_path(data.source), target, overwrite=bool(data.overwrite))
    return to_file(look_at(agent.files, target))


@post("/v1/files/delete")
def delete(agent: Namespace, data: RemoveRequest) -> RemovedAnswer:
    """Deletes a file, link or empty directory; with `recursive`, all that is in it."""
    count = agent.files.delete(read_path(data.path), recursive=bool(data.recursive))
    return RemovedAnswer(entries=count)


@post("/v1/files/write_many")
def write_many(agent: Namespace, data: WriteManyRequest) -> WroteManyAnswer:
    """Writes files, all or none of them: at most 4,096, and less than 32 MiB of content."""
    # What is within these bounds is one transaction.
    if len(data.files) > BATCH_FILES:
        raise Unfit(f"at most {BATCH_FILES} files are written together", param="files")
    items = [(read_path(item.path), _content(item)) for item in data.files]
    if sum(len(body) for _, body in items) >= BATCH_BYTES:
        message = f"files that are written together have less than {BATCH_BYTES} bytes in all"
        raise TooLarge(message)
    return WroteManyAnswer(written=agent.files.write_many(items))


def to_file(listed: Listed) -> FileAnswer:
    """Returns what lies at a path as it stands on the wire."""
    info = listed.info
    return FileAnswer(
        path=shown_name(info.path),
        kind=info.kind,
        size_bytes=info.size_bytes,
        mode=info.mode,
        modified_at=shown_or_none(info.modified_at),
        target=None if listed.target is None else shown_name(listed.target),
    )


def _content(item: WriteManyItem) -> bytes:
    try:
        return b64decode(item.content, validate=True)
    except ValueError as exc:
        raise Unfit("the content of a file is not base64", param="content") from exc


ROUTES_WITH_BATCHES: Final[list[Route]] = [write_many]

ROUTES: Final[list[Route]] = [stat, list_, mkdir, symlink, chmod, move, delete]

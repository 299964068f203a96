"""`client.files`: the names of `holdfast.Namespace.files`, and files that come and go."""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from holdfast.errors import Invalid, NotAFile, PathNotFound
from holdfast.model.files import FileInfo, as_text, to_content
from holdfast.model.names import PathLike, sent_path, to_b64, to_raw
from holdfast.operations.checks import check_of
from holdfast.operations.choices import Tag
from holdfast.operations.files import (
    BATCH_WEIGHT,
    ChangeMode,
    DeleteFile,
    GlobFiles,
    Item,
    Items,
    ListFiles,
    MakeDirectory,
    MakeLink,
    MoveFile,
    SearchFiles,
    StatFile,
    WriteFiles,
    check_part,
    weigh,
)
from holdfast.operations.forms import form_of
from holdfast.progress import Progress, no_progress
from holdfast.sdk.calls import (
    Call,
    Download,
    F,
    Group,
    Pages,
    Sender,
    Steps,
    asking,
    call,
    download,
    flow,
    method,
    pages,
    paging,
    stream,
)
from holdfast.sdk.content import Content, Source, Target
from holdfast.sdk.reading import sent, whole

BATCH_FILES: Final = 500
BATCH_BYTES: Final = 4 << 20
"""Files that go together in one request; base64 makes a third more of them."""

MOST_WEIGHT: Final = BATCH_WEIGHT // 2
"""Above this there may be no room for one more path, whatever its length."""

_check_item: Final = check_of(Item)

LAST_BYTE: Final = 10**18 - 1
"""No file reaches that far, and servers need not read a number that is longer."""


class FilesReader(Group[F]):
    """Files at one moment: now, or as a snapshot shows them."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self.above = {} if at is None else {"at": at}

    @flow
    def read(self, path: PathLike, *, start: int = 0, length: int | None = None) -> Steps[bytes]:
        """Returns a file's content, or so many bytes of it from an offset on.

        Where the file ends sooner, there are fewer.
        """
        part = check_part(start, length)
        if part is None:
            return (yield self._raw(path))
        if length == 0:
            # A range of nothing cannot be asked for; whether the file is there can.
            yield asking(StatFile(path), self.above)
            return b""
        try:
            return (yield self._part(path, start, length))
        except Invalid as error:
            if error.http_status != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise
            return b""  # The file ends before.

    @flow
    def read_text(self, path: PathLike, *, encoding: str = "utf-8") -> Steps[str]:
        """Returns a file's content as text, with its line ends as they are."""
        body: bytes = yield self._raw(path)
        return as_text(body, encoding)

    @stream
    def stream(self, path: PathLike) -> Call[bytes]:
        """Returns a file's content piece by piece; a broken connection is taken up again."""
        return self._raw(path)

    @download
    def download(
        self, path: PathLike, target: Target, *, progress: Progress = no_progress
    ) -> Download[int]:
        """Writes a file's content to a local path, or to an open file; returns its size.

        A path gets its content when all of it has come, and keeps what it had until then.
        """
        return Download(self._raw(path), target, lambda size: size, progress)

    stat = method(StatFile)
    glob = method(GlobFiles)
    grep = method(SearchFiles)

    @flow
    def exists(self, path: PathLike) -> Steps[bool]:
        """Says whether there is a file, link or directory at a path."""
        try:
            yield asking(StatFile(path), self.above)
        except PathNotFound:
            return False
        return True

    @flow
    def readlink(self, path: PathLike) -> Steps[str]:
        """Returns where a link points, which may be nowhere."""
        info: FileInfo = yield asking(StatFile(path), self.above)
        if info.target is None:
            raise NotAFile(to_raw(path), found=f"{info.kind}, not a link,")
        return info.target

    list = method(ListFiles)

    @pages
    def iter(
        self,
        path: PathLike = "",
        *,
        prefix: PathLike = "",
        recursive: bool = False,
        after: str | None = None,
        limit: int | None = None,
    ) -> Pages[FileInfo]:
        """Does what `list` does, and asks for more only when it is wanted."""
        asked = ListFiles(path, prefix=prefix, recursive=recursive, after=after, limit=limit)
        return paging(asked, self.above)

    def _part(self, path: PathLike, start: int, length: int | None) -> Call[bytes]:
        query = {**_asked(path), **self.above}
        stop = None if length is None else start + length
        last = "" if stop is None else min(stop - 1, LAST_BYTE)
        return Call(
            method="GET",
            path="/v1/files/raw",
            query=query,
            headers={"Range": f"bytes={min(start, LAST_BYTE)}-{last}"},
            read=whole,
            read_all=lambda body: body[start:stop],
        )

    def _raw(self, path: PathLike) -> Call[bytes]:
        query = {**_asked(path), **self.above}
        return Call(method="GET", path="/v1/files/raw", query=query, read=whole, is_resumable=True)


def _asked(path: PathLike) -> dict[str, str]:
    """Returns how a path is asked for: as text, or where it is none, as bytes."""
    raw = to_b64(path)
    return {"path": sent_path(path)} if raw is None else {"path_b64": raw}


class Files(FilesReader[F]):
    """Files at the head of a namespace, to read and to change."""

    @call
    def write(
        self,
        path: PathLike,
        data: Source,
        *,
        mode: int | None = None,
        modified_at: datetime | None = None,
        expected: Tag | None = None,
        progress: Progress = no_progress,
    ) -> Call[FileInfo]:
        """Creates or replaces a file; the directories above it come about by themselves.

        Without `mode`, a file that is there keeps its own. An open file is sent as it is read. With
        `expected`, only while what is there has that tag, or with `absent` while nothing is; else
        raises `NotAsExpected`.
        """
        return _put(path, Content(data, progress=progress), mode, modified_at, expected)

    @call
    def upload(
        self,
        source: str | os.PathLike[str],
        path: PathLike,
        *,
        mode: int | None = None,
        progress: Progress = no_progress,
    ) -> Call[FileInfo]:
        """Writes a file from a local one."""
        return _put(path, Content(Path(source).expanduser(), progress=progress), mode, None)

    @flow
    def write_many(
        self,
        items: Items,
        *,
        delete: Sequence[PathLike] = (),
        expected: Iterable[tuple[PathLike, str]] = (),
    ) -> Steps[int]:
        """Writes many files, some hundreds to a transaction; returns how many.

        With `delete` or `expected`, all or none, in one: before, files, links and empty directories
        at paths go, if they are there, and nothing is done unless all that is `expected` is so:
        tags behind paths, or `absent`; else raises `NotAsExpected`.
        """
        expected = list(expected)
        if delete or expected:
            return (yield asking(WriteFiles(items, delete=delete, expected=expected)))
        total, size, weight, batch = 0, 0, 0, list[tuple[PathLike, bytes]]()
        for item in items:
            _check_item("an item", item)
            path, body = item[0], to_content(item[1])
            if len(body) >= BATCH_BYTES:
                # Too large to go with others; what came before it is written before it.
                if batch:
                    yield asking(WriteFiles(batch))
                yield _put(path, Content(body, progress=no_progress), None, None)
                total, size, weight, batch = total + 1, 0, 0, []
                continue
            batch.append((path, body))
            total, size, weight = total + 1, size + len(body), weight + weigh(sent_path(path))
            if len(batch) >= BATCH_FILES or size >= BATCH_BYTES or weight >= MOST_WEIGHT:
                yield asking(WriteFiles(batch))
                size, weight, batch = 0, 0, []
        if batch:
            yield asking(WriteFiles(batch))
        return total

    mkdir = method(MakeDirectory)
    symlink = method(MakeLink)
    chmod = method(ChangeMode)
    move = method(MoveFile)
    delete = method(DeleteFile)


def _put(
    path: PathLike,
    content: Content,
    mode: int | None,
    modified_at: datetime | None,
    expected: str | None = None,
) -> Call[FileInfo]:
    query = {
        "path": sent_path(path),
        "mode": mode,
        "modified_at": sent(modified_at),
        "expected": expected,
    }
    return Call(
        method="PUT",
        path="/v1/files/raw",
        query=query,
        content=content,
        read=_file,
        is_conditional=expected is not None,
    )


def _file(body: bytes) -> FileInfo:
    return form_of(StatFile).read_answer(body)

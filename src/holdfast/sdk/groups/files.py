"""`client.files`: the names of `holdfast.Namespace.files`, and files that come and go."""

import os
from base64 import b64encode
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from holdfast.errors import NotAFile, PathNotFound
from holdfast.model.files import FileInfo
from holdfast.progress import Progress, no_progress
from holdfast.sdk.calls import (
    Call,
    Download,
    F,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    call,
    download,
    flow,
    page_of,
    pages,
    stream,
)
from holdfast.sdk.content import Content, Source, Target, encoded
from holdfast.sdk.paths import PathLike, sent_path, sent_text
from holdfast.sdk.reading import as_it_is, nothing, reads, sent, to_file, whole
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

T = TypeVar("T")

PAGE: Final = 1000
USUAL_DIRECTORY_MODE: Final = 0o755
BATCH_FILES: Final = 500
BATCH_BYTES: Final = 4 << 20
"""Files that go together in one request; base64 makes a third more of them."""

_file = reads(FileAnswer, to_file)


class FilesReader(Group[F]):
    """Files at one moment: now, or as a snapshot shows them."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self._at = at

    @call
    def read(self, path: PathLike) -> Call[bytes]:
        """Returns a file's content."""
        return self._raw(path, whole)

    @flow
    def read_text(self, path: PathLike, *, encoding: str = "utf-8") -> Steps[str]:
        """Returns a file's content as text, with its line ends as they are."""
        body: bytes = yield self._raw(path, whole)
        return body.decode(encoding)

    @stream
    def stream(self, path: PathLike) -> Call[bytes]:
        """Returns a file's content piece by piece; a broken connection is taken up again."""
        return self._raw(path, whole)

    @download
    def download(
        self, path: PathLike, target: Target, *, progress: Progress = no_progress
    ) -> Download[int]:
        """Writes a file's content to a local path, or to an open file; returns its size.

        A path gets its content when all of it has come, and keeps what it had until then.
        """
        return Download(self._raw(path, whole), target, lambda size: size, progress)

    @call
    def stat(self, path: PathLike) -> Call[FileInfo]:
        """Returns what is known about a path."""
        return self._stat(path, _file)

    @flow
    def exists(self, path: PathLike) -> Steps[bool]:
        """Says whether there is a file, link or directory at a path."""
        try:
            yield self._stat(path, nothing)
        except PathNotFound:
            return False
        return True

    @flow
    def readlink(self, path: PathLike) -> Steps[str]:
        """Returns where a link points, which may be nowhere."""
        answer: FileAnswer = yield self._stat(path, as_it_is(FileAnswer))
        if answer.target is None:
            raise NotAFile(sent_text(path).encode(), found=f"{answer.kind}, not a link,")
        return answer.target

    @flow
    def list(
        self,
        path: PathLike = "",
        *,
        prefix: PathLike = "",
        recursive: bool = False,
        limit: int | None = None,
    ) -> Steps[list[FileInfo]]:
        """Returns what lies in a directory, in the order of the paths' bytes.

        With `prefix`, only what begins with it there. A recursive listing names files, links
        and empty directories at any depth.
        """
        return (yield from self._pages(path, prefix, limit, recursive=recursive).collect())

    @pages
    def iter(
        self,
        path: PathLike = "",
        *,
        prefix: PathLike = "",
        recursive: bool = False,
        limit: int | None = None,
    ) -> Pages[FileInfo]:
        """Does what `list` does, and asks for more only when it is wanted."""
        return self._pages(path, prefix, limit, recursive=recursive)

    def _pages(
        self, path: PathLike, prefix: PathLike, limit: int | None, *, recursive: bool
    ) -> Pages[FileInfo]:
        def ask(cursor: str | None, most: int) -> Call[Page[FileInfo]]:
            return Call(
                method="GET",
                path="/v1/files/list",
                query={
                    "path": sent_path(path),
                    "prefix": sent_text(prefix) or None,
                    "recursive": recursive or None,
                    "limit": most,
                    "starting_after": cursor,
                    "at": self._at,
                },
                read=reads(FilesAnswer, _page),
            )

        return Pages(PAGE, ask, limit)

    def _stat(self, path: PathLike, read: Callable[[bytes], T]) -> Call[T]:
        query = {"path": sent_path(path), "at": self._at}
        return Call(method="GET", path="/v1/files/stat", query=query, read=read)

    def _raw(self, path: PathLike, read: Callable[[bytes], T]) -> Call[T]:
        query = {"path": sent_path(path), "at": self._at}
        return Call(method="GET", path="/v1/files/raw", query=query, read=read, is_resumable=True)


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
        progress: Progress = no_progress,
    ) -> Call[FileInfo]:
        """Creates or replaces a file; the directories above it come about by themselves.

        Without `mode`, a file that is there keeps its own. An open file is sent as it is read.
        """
        return _put(path, Content(data, progress=progress), mode, modified_at)

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
    def write_many(self, items: Iterable[tuple[PathLike, str | bytes]]) -> Steps[int]:
        """Writes many files, some hundreds to a transaction; returns how many."""
        total, size, batch = 0, 0, list[WriteManyItem]()
        for path, data in items:
            body = encoded(data) if isinstance(data, str) else data
            if len(body) >= BATCH_BYTES:
                # Too large to go with others; what came before it is written before it.
                if batch:
                    yield _write_batch(batch)
                yield _put(path, Content(body, progress=no_progress), None, None)
                total, size, batch = total + 1, 0, []
                continue
            content = b64encode(body).decode("ascii")
            batch.append(WriteManyItem(path=sent_path(path), content=content))
            total, size = total + 1, size + len(body)
            if len(batch) >= BATCH_FILES or size >= BATCH_BYTES:
                yield _write_batch(batch)
                size, batch = 0, []
        if batch:
            yield _write_batch(batch)
        return total

    @call
    def mkdir(self, path: PathLike, *, mode: int = USUAL_DIRECTORY_MODE) -> Call[FileInfo]:
        """Makes a directory, with those above it; one that is there gets the mode."""
        body = MkdirRequest(path=sent_path(path), mode=mode)
        return Call(method="POST", path="/v1/files/mkdir", body=body, read=_file)

    @call
    def symlink(self, path: PathLike, target: PathLike) -> Call[FileInfo]:
        """Makes a link. Its target is data: it may lead anywhere, and is never followed."""
        body = SymlinkRequest(path=sent_path(path), target=sent_text(target))
        return Call(method="POST", path="/v1/files/symlink", body=body, read=_file)

    @call
    def chmod(self, path: PathLike, mode: int) -> Call[None]:
        """Sets the permission bits of a file or directory."""
        body = ChmodRequest(path=sent_path(path), mode=mode)
        return Call(method="POST", path="/v1/files/chmod", body=body, read=nothing)

    @call
    def move(self, source: PathLike, target: PathLike, *, overwrite: bool = False) -> Call[None]:
        """Moves a file, link or directory; the target's directories come about by themselves.

        With `overwrite`, a file or link at the target is replaced; a directory never is.
        """
        body = MoveRequest(source=sent_path(source), target=sent_path(target), overwrite=overwrite)
        return Call(method="POST", path="/v1/files/move", body=body, read=nothing)

    @call
    def delete(self, path: PathLike, *, recursive: bool = False) -> Call[int]:
        """Deletes a file, link or empty directory; with `recursive`, all that is in it.

        Returns how many files, links and empty directories went.
        """
        return Call(
            method="POST",
            path="/v1/files/delete",
            body=RemoveRequest(path=sent_path(path), recursive=recursive),
            read=reads(RemovedAnswer, lambda answer: answer.entries),
        )


def _put(
    path: PathLike, content: Content, mode: int | None, modified_at: datetime | None
) -> Call[FileInfo]:
    query = {
        "path": sent_path(path),
        "mode": mode,
        "modified_at": sent(modified_at),
    }
    return Call(method="PUT", path="/v1/files/raw", query=query, content=content, read=_file)


def _write_batch(batch: list[WriteManyItem]) -> Call[int]:
    return Call(
        method="POST",
        path="/v1/files/write_many",
        body=WriteManyRequest(files=batch),
        read=reads(WroteManyAnswer, lambda answer: answer.written),
    )


def _page(answer: FilesAnswer) -> Page[FileInfo]:
    found = [to_file(each) for each in answer.files]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: last.path)

"""Files: what lies at a path, as on a file system.

Their bytes come and go as they are: reading and writing a file is no request of JSON, and is code.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Final

import msgspec

from holdfast.errors import InvalidValue, TooLarge
from holdfast.model.files import USUAL_DIRECTORY_MODE, Bytes, FileInfo, Findings, to_content
from holdfast.model.marks import AS_BYTES, Named, Shape
from holdfast.model.names import FilePath, PathLike, PathText, read_path, sent_path
from holdfast.operations.choices import Paths
from holdfast.operations.operation import Operation, Paged, Work

BATCH_FILES: Final = 4096
BATCH_BYTES: Final = 32 << 20
"""How many files, and how many bytes, are written together in one transaction."""

BATCH_WEIGHT: Final = 16 << 20
"""How many bytes the names of all directories above them have: each of these is looked at."""


def check_part(start: int, length: int | None) -> tuple[int, int | None] | None:
    """Returns which part of a file is asked for; None for all of it. Raises for what is none."""
    for name, number in (("start", start), ("length", length)):
        if isinstance(number, bool) or not isinstance(number, int | None) or (number or 0) < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - no promise
            message = f"{name} is a number of bytes, 0 or more"
            raise InvalidValue(message)
    return None if (start, length) == (0, None) else (start, length)


class StatFile(Operation[FileInfo], get="/v1/files/stat", of_moments=True):
    """Returns what is known about a path."""

    path: FilePath


class ListFiles(
    Operation[list[FileInfo]],
    get="/v1/files/list",
    under="files",
    paged=Paged(cursor="after", last="path", usual=1000, most=10_000),
    of_moments=True,
):
    """Returns what lies in a directory, in the order of the paths' bytes.

    With `prefix`, only what begins with it there. A recursive listing names files, links
    and empty directories at any depth. `after` is the path that was listed last.
    """

    path: FilePath = ""
    _: KW_ONLY
    prefix: PathText = ""
    recursive: bool = False
    after: Annotated[str | None, Named("starting_after"), AS_BYTES] = None
    limit: int | None = None


class GlobFiles(
    Operation[list[FileInfo]],
    get="/v1/files/glob",
    under="files",
    paged=Paged(cursor="after", last="path", usual=1000, most=10_000),
    of_moments=True,
    work=Work.LONG,
):
    """Returns the files and links whose paths fit a pattern, in the order of the paths' bytes.

    As in a `.gitignore`: `*.py` fits at any depth, `src/*.py` in that directory alone, and
    `src/**/*.py` in it and below. `after` is the path that was listed last.
    """

    pattern: str
    _: KW_ONLY
    after: Annotated[str | None, Named("starting_after"), AS_BYTES] = None
    limit: int | None = None


class SearchFiles(Operation[Findings], get="/v1/files/grep", of_moments=True, work=Work.COSTLY):
    """Returns the lines of files that hold a text, by path and number.

    In one file, or below a directory, of paths that fit `glob`. With `regex` the text is an
    expression of RE2, which needs `holdfast[search]`; `ignore_case` is for letters of ASCII, unless
    it is one. Files that are no text are left out. A search ends after one and a half seconds or
    `limit` lines: `cursor` is the `next_cursor` of the answer before.
    """

    pattern: str
    path: FilePath = ""
    _: KW_ONLY
    glob: str | None = None
    regex: bool = False
    ignore_case: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1000
    cursor: str | None = None


class MakeDirectory(Operation[FileInfo], post="/v1/files/mkdir"):
    """Makes a directory, with those above it; one that is there gets the mode."""

    path: FilePath
    _: KW_ONLY
    mode: int = USUAL_DIRECTORY_MODE


class MakeLink(Operation[FileInfo], post="/v1/files/symlink"):
    """Makes a link, or lets one that is there point elsewhere.

    Its target is data: it may lead anywhere, and is never followed.
    """

    path: FilePath
    target: PathText


class ChangeMode(Operation[FileInfo], post="/v1/files/chmod"):
    """Sets the permission bits of a file or directory."""

    path: FilePath
    mode: int


class MoveFile(Operation[FileInfo], post="/v1/files/move"):
    """Moves a file, link or directory; the target's directories come about by themselves.

    With `overwrite`, a file or link at the target is replaced; a directory never is.
    """

    source: FilePath
    target: FilePath
    _: KW_ONLY
    overwrite: bool = False


class DeleteFile(Operation[int], post="/v1/files/delete", under="entries"):
    """Deletes a file, link or empty directory; with `recursive`, all that is in it.

    Returns how many files, links and empty directories went.
    """

    path: FilePath
    _: KW_ONLY
    recursive: bool = False


class FileToWrite(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A file to write: its bytes in base64."""

    path: str
    content: bytes


Item = tuple[PathLike, str | Bytes]
Items = Iterable[Item]


def _send(items: Items) -> list[FileToWrite]:
    return [FileToWrite(path=sent_path(path), content=to_content(data)) for path, data in items]


def _read(files: list[FileToWrite]) -> Items:
    if sum(len(file.content) for file in files) >= BATCH_BYTES:
        message = f"files that are written together have less than {BATCH_BYTES} bytes in all"
        raise TooLarge(message)
    if sum(weigh(file.path) for file in files) >= BATCH_WEIGHT:
        raise TooLarge("these paths have too many directories: write fewer of them together")
    return [(read_path(file.path), file.content) for file in files]


def weigh(path: str | bytes) -> int:
    """Returns about how many bytes the names of all directories above a path have.

    Each name has all of those above it: with thousands of levels these are megabytes.
    """
    levels = path.count("/") if isinstance(path, str) else path.count(b"/")
    return len(path) * levels // 2


_FILES: Final = Annotated[list[FileToWrite], msgspec.Meta(max_length=BATCH_FILES)]


class FileExpectation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What has to be at a path: a file with this tag, or with `absent` nothing."""

    path: str
    expected: str


Expectations = Annotated[
    Iterable[tuple[PathLike, str]],
    Shape(
        list[FileExpectation],
        lambda items: [FileExpectation(path=sent_path(path), expected=tag) for path, tag in items],
        lambda sent: [(read_path(each.path), each.expected) for each in sent],
    ),
]


class WriteFiles(Operation[int], post="/v1/files/write_many", under="written", is_bulky=True):
    """Writes many files, some thousands to a transaction; returns how many.

    In one request, all or none: at most 4,096, and less than 32 MiB of content. With `delete` or
    `expected` that is so at every door: before, files, links and empty directories at paths go, if
    they are there, and nothing is done unless all that is `expected` is so: tags behind paths, or
    `absent`; else raises `NotAsExpected`.
    """

    items: Annotated[Items, Named("files"), Shape(_FILES, _send, _read)]
    _: KW_ONLY
    delete: Paths = ()
    expected: Expectations = ()

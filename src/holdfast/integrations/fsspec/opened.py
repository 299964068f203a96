"""An open file: read in blocks, all of one version; written whole, or not at all.

What is written is gathered beside, and becomes the file when it is closed, or when the transaction
of fsspec ends that it was opened in. Whoever reads meanwhile sees the old file, and so does
everybody if this process dies. A file that is replaced while it is read is noticed by its tag: its
reader gets `ESTALE`, never a mixture.
"""

# fsspec has no types of its own: what pyright guesses of it says nothing.
# pyright: reportMissingTypeStubs=false, reportIncompatibleMethodOverride=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import errno
from collections.abc import Iterator
from io import BytesIO
from itertools import groupby
from operator import attrgetter
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem
from fsspec.transaction import Transaction

from holdfast import ABSENT
from holdfast.errors import NotAsExpected, PathNotFound
from holdfast.integrations import TOGETHER_BYTES, TOGETHER_FILES
from holdfast.integrations.failures import failure, system_errors
from holdfast.integrations.fsspec.backing import Backing
from holdfast.integrations.fsspec.places import described, split

GATHERED_BYTES: Final = 8 << 20
"""How much of what is being written is in memory; what is more, in a temporary file."""

ATTEMPTS: Final = 50
"""How often somebody who appends tries: each failure is the success of another one."""


class HoldfastFile(AbstractBufferedFile):
    """A file of a namespace, opened with fsspec."""

    def __init__(
        self,
        fs: AbstractFileSystem,
        path: str,
        mode: str,
        *,
        backing: Backing,
        **options: Any,
    ) -> None:
        self._backing = backing
        self.namespace, self.inner = split(path)
        self._gathered: IO[bytes] = BytesIO()
        self._is_done = False
        self._has_read = False
        # What fsspec remembers of a file in another process may be of another version.
        options.pop("size", None)
        if mode == "rb":
            self._begin_reading(path)
        else:
            backing.files(self.namespace, path)  # Raises where nothing can be written.
            if mode == "xb" and fs.exists(path):
                raise failure(errno.EEXIST, path)
        super().__init__(fs, path, mode, **options)
        if mode == "ab" and fs.exists(path):
            self.loc = fs.info(path)["size"]

    # Reading

    def _begin_reading(self, path: str) -> None:
        if not self.inner:
            raise failure(errno.EISDIR, path)
        with system_errors(path):
            self._reader = self._backing.reader(self.namespace, path)
            info = self._reader.stat(self.inner)
        _check_kind(info, path)
        self._tag: str | None = info.tag
        self._details = described(self.namespace, info)

    def _fetch_range(self, start: int, end: int) -> bytes:
        with system_errors(self.path):
            if start <= 0 and end >= self.size and not self._has_read:
                # All of it in one go is of one version, whichever that is, and goes with nothing.
                data: bytes = self._reader.read(self.inner)
                is_same = len(data) == self.size
            else:
                data = self._reader.read(self.inner, start=start, length=max(0, end - start))
                is_same = (
                    self._backing.at is not None or self._reader.stat(self.inner).tag == self._tag
                )
        if not is_same:
            raise failure(errno.ESTALE, self.path)
        self._has_read = True
        return data

    # Writing

    def _initiate_upload(self) -> None:
        self._gathered = SpooledTemporaryFile(max_size=GATHERED_BYTES)  # noqa: SIM115 - see `commit`

    def _upload_chunk(self, final: bool = False) -> bool:
        self._gathered.write(self.buffer.getvalue())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Makes what was written the file; fsspec asks for it when a transaction ends."""
        self.finish()
        if self._is_done:
            return
        self._is_done = True
        with system_errors(self.path), self._gathered:
            files = self._backing.files(self.namespace, self.path)
            if self.mode == "ab":
                self._append(files)
            else:
                self._gathered.seek(0)
                expected = ABSENT if self.mode == "xb" else None
                files.write(self.inner, self._gathered, expected=expected)

    def discard(self) -> None:
        """Lets go of what was written; the file stays as it is."""
        self._is_done = True
        self._gathered.close()

    def finish(self) -> None:
        """Closes a file that was left open in a transaction: what is in its buffer counts."""
        if not self.forced:
            self.close()

    def written_bytes(self) -> int:
        """Returns how much was written."""
        return self._gathered.seek(0, 2)

    def written(self) -> bytes:
        """Returns what was written."""
        self._gathered.seek(0)
        return self._gathered.read()

    def _append(self, files: Any) -> None:
        """Puts what was written behind what is there, whoever else does the same."""
        for _ in range(ATTEMPTS):
            with SpooledTemporaryFile[bytes](max_size=GATHERED_BYTES) as whole:
                # If that is not what is there any more, the write is refused.
                expected = self._copy_standing(files, whole)
                self._gathered.seek(0)
                copyfileobj(self._gathered, whole)
                whole.seek(0)
                try:
                    files.write(self.inner, whole, expected=expected)
                except NotAsExpected:
                    continue
                return
        raise failure(errno.EAGAIN, self.path)

    def _copy_standing(self, files: Any, target: SpooledTemporaryFile[bytes]) -> str:
        """Copies the file as it is; returns its tag."""
        try:
            info = files.stat(self.inner)
            _check_kind(info, self.path)
            for piece in files.stream(self.inner):
                target.write(piece)
        except PathNotFound:
            target.seek(0)
            target.truncate()
            return ABSENT
        return info.tag


def _check_kind(info: Any, path: str) -> None:
    if info.kind != "file":
        raise failure(errno.EISDIR if info.is_dir else errno.ELOOP, path)


class Together(Transaction):
    """Files that are written when a transaction of fsspec ends.

    Those of one namespace are written in one transaction: all of them, or none. Where something is
    appended, where a file was written twice, or where there is more than one transaction takes,
    they are written one after the other, as fsspec does it.
    """

    def __init__(self, fs: Any, **options: Any) -> None:
        super().__init__(fs, **options)
        self._backing: Backing = fs.backing

    def complete(self, commit: bool = True) -> None:
        """Writes the files, or lets go of them."""
        try:
            for files in self._groups() if commit else ():
                self._write(files)
        except BaseException:
            super().complete(commit=False)
            raise
        super().complete(commit=commit)

    def _groups(self) -> Iterator[list[HoldfastFile]]:
        """Yields the files of each namespace that one transaction takes."""
        files: list[HoldfastFile] = sorted(self.files, key=attrgetter("namespace"))
        for _, group in groupby(files, key=attrgetter("namespace")):
            together = list(group)
            for each in together:
                each.finish()
            if (
                len({each.inner for each in together}) == len(together) <= TOGETHER_FILES
                and all(each.mode != "ab" for each in together)
                and sum(each.written_bytes() for each in together) < TOGETHER_BYTES
            ):
                yield together

    def _write(self, together: list[HoldfastFile]) -> None:
        first = together[0]
        with system_errors(first.path, several={each.inner: each.path for each in together}):
            files = self._backing.files(first.namespace, first.path)
            # With something to delete it is one transaction at every door, and what is written is
            # not deleted.
            files.write_many(
                [(each.inner, each.written()) for each in together],
                delete=[first.inner],
                expected=[(each.inner, ABSENT) for each in together if each.mode == "xb"],
            )
        for each in together:
            each.discard()

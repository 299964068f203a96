"""Changes a file where it is, if that is safe and worth it; else another takes its place.

Not one that programs run from or have open for writing, nor one that has several names: whoever
has such a file goes on with what it was. What a crash leaves half-done, the journal puts right
(`writing.py`).
"""

import os
from collections.abc import Iterator
from typing import Final

from holdfast.entries import Blob, Inline, twin_of
from holdfast.model.files import PERMISSIONS
from holdfast.workspace.placing import Expected
from holdfast.workspace.pouring import has_hole, write_at
from holdfast.workspace.statindex import Row
from holdfast.workspace.steps import Contents, Drifted, Step, has_same_content, split_key

REWRITE_BYTES: Final = 64 << 10
"""Up to here a file is rewritten where it is, with one call: a new one beside it that takes its
place costs 0.5 ms instead of 0.05, as ext4 writes out at once what replaces something."""

PATCH_BYTES: Final = 4 << 20
"""From here on a file is patched where few of its chunks differ: writing 1 GB anew takes a
second, ten chunks of it a few milliseconds."""


class Amending:
    """What is known of files that are to be changed, and what they get."""

    def __init__(self, expected: Expected, contents: Contents) -> None:
        self._expected, self._contents = expected, contents

    def amend(
        self, step: Step, row: Row | None, fd: int, data: bytes | None, done: list[Step]
    ) -> bool:
        """Changes a file in a folder, and adds the step to those that were begun.

        Says whether it did; nothing was touched if not. Raises `Drifted` if it is not what the row
        knows.
        """
        old, new = step.old, step.new
        if (
            row is None
            or row.nlink != 1
            or not isinstance(old, Inline | Blob)
            or not isinstance(new, Inline | Blob)
            or twin_of(new)
            # A program that runs from the file, or has it mapped, goes on with the old one.
            or row.mode & 0o111
        ):
            return False
        if data is not None and len(data) < old.size <= REWRITE_BYTES:
            return self._shorten(step, row, fd, data, done)
        patches, name = self._patches(old, new, data), split_key(step.key)[1]
        # Who writes to it goes on with the old one, too.
        if patches is None or self._expected.has_writer(name, fd):
            return False
        file = _open(step.key, fd)
        if file is None:
            return False
        try:
            self._expected.check_open(step.key, file, row)
            done.append(step)
            for at, part in patches:
                write_at(file, part, at)
            if new.size != old.size:
                os.ftruncate(file, new.size)
            if _mode_of(new) != row.mode & 0o7777:
                os.fchmod(file, _mode_of(new))
            os.utime(file, ns=(new.mtime_ns, new.mtime_ns))
        finally:
            os.close(file)
        return True

    def _shorten(self, step: Step, row: Row, fd: int, data: bytes, done: list[Step]) -> bool:
        """Cuts a small file, if nobody else has it open at all; says whether it did."""
        new = step.new
        if not isinstance(new, Inline | Blob) or _mode_of(new) != row.mode & 0o7777:
            return False
        if has_hole(data):
            return False
        file = _open(step.key, fd)
        if file is None:
            return False
        done.append(step)
        try:
            if self._expected.shorten(step.key, file, row, data, mtime_ns=new.mtime_ns):
                return True
        except Drifted:
            # Not touched: what is there is somebody's, and is not to be taken back.
            done.pop()
            raise
        finally:
            os.close(file)
        done.pop()
        return False

    def _patches(
        self, old: Inline | Blob, new: Inline | Blob, data: bytes | None
    ) -> Iterator[tuple[int, bytes]] | None:
        """Returns what to write into a file to make it another, and where.

        None if that is too much to be done under the eyes of whoever reads the file.
        """
        if has_same_content(old, new):
            return iter(())
        # Not one that gets shorter: cutting it is a second call, and could cut what somebody has
        # written in between.
        is_small = data is not None and old.size <= len(data) <= REWRITE_BYTES
        if is_small and data is not None and not has_hole(data):
            return iter(((0, data),))
        if isinstance(old, Blob) and isinstance(new, Blob) and new.size >= PATCH_BYTES:
            return self._contents.patches(old, new)
        return None


def _mode_of(entry: Inline | Blob) -> int:
    return entry.mode & PERMISSIONS


def _open(key: bytes, fd: int) -> int | None:
    """Opens a file to write to it that was looked at; None if that is not permitted."""
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(split_key(key)[1], flags, dir_fd=fd)
    except PermissionError:
        return None
    except OSError as exc:
        # Gone, a folder or a link since it was looked at.
        raise Drifted(key) from exc

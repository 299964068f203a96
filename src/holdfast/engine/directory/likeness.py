"""Whether a directory holds the files of a namespace: how one that lost its identity is known.

It is compared with what the head shows, never with the stat index: that is a cache, which may be
damaged, old, or another directory's. The work is bounded, however large the directory is.

Two files are *alike* if they have the same path and size. That is how a project that somebody
put back, or whose file system has no memory, is known where it was. It is not enough to say that
a directory elsewhere was moved: many projects have an empty `__init__.py` and the same line in
`.gitignore`. *Strong* evidence is that at least `ENOUGH` files which are not empty, and differ
from each other, have the very same content, that this is so for most of the files that were
compared, and that files which are alike are most of those in the directory, or most of those in
the namespace.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.engine.files.retrieval import Weighing
from holdfast.engine.objects.content import store_stream
from holdfast.engine.planes.forms import settle_file
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.entries import Blob, Inline, decode_entry
from holdfast.errors import Damaged, TooLarge
from holdfast.model.basics import Plane
from holdfast.workspace.descent import Descent, open_root
from holdfast.workspace.identity import find_files

ENOUGH: Final = 3
"""Files of equal content that tell one project from another."""

MOST_COMPARED: Final = 16
"""Files of which the content is read, the smallest first."""

MOST_COMPARED_BYTES: Final = 4 << 20
"""A file that is larger is not read."""

# Somebody may put a link or a pipe there meanwhile: neither is followed, nor waited for.
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Likeness(NamedTuple):
    """How much of a directory is in a namespace."""

    seen: int = 0
    """Files in the directory, as far as it was looked at."""
    entries: int = 0
    """Entries in the namespace."""
    alike: int = 0
    """Files that have the same path and size in both."""
    compared: int = 0
    """Of those, how many were read and compared."""
    equal: int = 0
    """Contents that are the same in both, each counted once."""
    differing: int = 0
    """Files whose content is another."""

    @property
    def is_strong(self) -> bool:
        """Whether the directory holds the files of the namespace without a doubt."""
        is_most = self.alike * 2 >= self.seen or self.alike * 2 >= self.entries
        return self.equal >= ENOUGH and self.differing * 2 <= self.compared and is_most

    @property
    def is_some(self) -> bool:
        """Whether most files of the directory may be those of the namespace."""
        return self.alike > 0 and self.alike * 2 >= self.seen

    @property
    def is_another(self) -> bool:
        """Whether the directory holds other files than the namespace.

        Not so of one without files; with little to go by, each has to hold most of the other.
        """
        is_most = self.alike * 2 >= self.seen and self.alike * 2 >= self.entries
        return self.seen > 0 and not (self.is_strong or is_most)


def find_likeness(handle: Handle, path: Path) -> Likeness | None:
    """Compares a directory with what the head shows; None if that cannot be said."""
    try:
        with handle.context.catalog.read() as transaction:
            head = handle.find_head(transaction)
            if head is None:
                return None
            view = View.of_head(handle.objects, transaction, head, Plane.FILES)
            held = view.count()
            if head.position is None and not held:
                return None  # Nothing was captured yet.
            sizes = find_files(path)
            found = view.get_many(sorted(sizes))
        # What is pending may have its content in its row: it is compared as maps have it.
        entries = {key: decode_entry(settle_file(Weighing(), found[key])) for key in found}
    except Damaged:
        return None
    alike = {
        key: entry
        for key, entry in entries.items()
        if isinstance(entry, Inline | Blob) and entry.size == sizes[key]
    }
    return _compared(path, alike, Likeness(len(sizes), held, len(alike)))


def _compared(path: Path, alike: dict[bytes, Inline | Blob], likeness: Likeness) -> Likeness:
    """Returns it with what the contents of a few files say."""
    some = [key for key, entry in alike.items() if 0 < entry.size <= MOST_COMPARED_BYTES]
    some.sort(key=lambda key: (alike[key].size, key))
    compared = some[:MOST_COMPARED]
    try:
        root_fd = open_root(str(path))
    except OSError:
        return likeness
    try:
        with Descent(root_fd) as descent:
            same = [key for key in compared if _read(descent, key) == _content(alike[key])]
    finally:
        os.close(root_fd)
    return likeness._replace(
        equal=len({_content(alike[key]) for key in same}),
        differing=len(compared) - len(same),
        compared=len(compared),
    )


def _content(entry: Inline | Blob) -> bytes:
    """Returns what stands for the content of a file: equal if that is equal."""
    return entry.data if isinstance(entry, Inline) else bytes([entry.depth]) + entry.refs


def _read(descent: Descent, key: bytes) -> bytes | None:
    """Returns the same for a file in a directory; None for one that cannot be read."""
    folder, _, name = key.rpartition(b"/")
    try:
        with os.fdopen(os.open(name, _OPEN_FILE, dir_fd=descent.open(folder)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            return _content(store_stream(Weighing(), file, max_bytes=MOST_COMPARED_BYTES))
    except (OSError, TooLarge):
        return None

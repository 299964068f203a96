"""A file that is about to be sent: its size, a tag that changes with it, its bytes from anywhere.

What was found is what is sent, whatever happens to the path meanwhile.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.engine.core.paths import PathLike, to_key
from holdfast.engine.files.reader import FilesReader, get_file, tag_of
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.entries import Blob, Inline


@dataclass(frozen=True, slots=True)
class Sendable:
    """One file as it was when it was found."""

    entry: Inline | Blob
    objects: Objects

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return self.entry.size

    @property
    def tag(self) -> str:
        """A name for these bytes: others have another."""
        return tag_of(self.entry)

    def pieces(self, start: int = 0) -> Iterator[bytes]:
        """Returns the bytes from an offset on; what lies before it is not read."""
        return content.stream_from(self.objects, self.entry, start)


def find_sendable(files: FilesReader, path: PathLike) -> Sendable:
    """Returns the file at a path; raises if there is none, or something else."""
    key = to_key(path)
    with files.opened() as view:
        return Sendable(get_file(view, key), view.objects.unbound())

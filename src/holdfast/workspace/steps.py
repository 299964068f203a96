"""The vocabulary of writing into a directory: what changes, into what, with what content."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from holdfast.entries import Blob, Entry, Inline, Link, with_twin

BATCH: Final = 256
"""Files whose content is fetched together."""
BATCH_BYTES: Final = 8 << 20
BATCH_FOLDERS: Final = 64
"""Folders that are open together, of the 256 files that macOS lets a process have."""

State = tuple[int, int]
"""The size and the time of modification of something that was put."""


class Step(NamedTuple):
    """One entry that changes; None is not there."""

    key: bytes
    old: Entry | None
    new: Entry | None


Loaded = tuple[Step, bytes | None]
"""A step, and the content of the file that it puts, if that is small."""


class Drifted(Exception):
    """Something is not as the index knows it. Never leaves the engine."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self.key = key


class Contents(Protocol):
    """Where the bytes of files come from."""

    def load(self, batches: Sequence[Sequence[Inline | Blob]]) -> Generator[list[bytes | None]]:
        """Yields the contents of each batch of small files; None for each that is large."""
        ...

    def stream(self, entry: Inline | Blob) -> Generator[bytes]:
        """Yields the content of one file."""
        ...

    def patches(self, old: Blob, new: Blob) -> Iterator[tuple[int, bytes]] | None:
        """Yields what of `new` differs from `old`, and where; None if that is most of it."""
        ...


class Goal(Protocol):
    """The state to come, as a whole."""

    def find(self, key: bytes) -> Entry | None:
        """Returns the entry at a path, or None."""
        ...

    def is_folder(self, path: bytes) -> bool:
        """Says whether a path will be a folder, with or without an entry of its own."""
        ...


def is_file(entry: Entry | None) -> bool:
    """Says whether an entry is a file or a link."""
    return isinstance(entry, Inline | Blob | Link)


def has_same_content(old: Inline | Blob, new: Inline | Blob) -> bool:
    """Says whether two files have the same bytes, whatever their times and modes."""
    plain_old, plain_new = with_twin(old, b""), with_twin(new, b"")
    if isinstance(plain_old, Inline) and isinstance(plain_new, Inline):
        return plain_old.data == plain_new.data
    if isinstance(plain_old, Blob) and isinstance(plain_new, Blob):
        return (plain_old.size, plain_old.refs) == (plain_new.size, plain_new.refs)
    return False


def split_key(key: bytes) -> tuple[bytes, bytes]:
    """Returns the folder that a path lies in, and its name there."""
    folder, _, name = key.rpartition(b"/")
    return folder, name


def above(path: bytes) -> bytes:
    """Returns the folder that a path lies in."""
    return path.rpartition(b"/")[0]


def batches_of(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Cuts steps into batches: of few folders, and of contents that fit into memory together."""
    batch, size, folders = list[Step](), 0, set[bytes]()
    for step in steps:
        batch.append(step)
        size += step.new.size if isinstance(step.new, Inline | Blob) else 0
        folders.add(above(step.key))
        if len(batch) == BATCH or size >= BATCH_BYTES or len(folders) == BATCH_FOLDERS:
            yield batch
            batch, size, folders = [], 0, set[bytes]()
    if batch:
        yield batch


def bytes_of(steps: Iterable[Step]) -> int:
    """Returns how many bytes some steps put into files."""
    return sum(step.new.size for step in steps if isinstance(step.new, Inline | Blob))

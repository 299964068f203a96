"""What a directory needs from the vault: content to write, and a map to ask.

Also the opposite: a sink that only wants to know names, for looking at a directory without
storing anything of it.
"""

import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cache
from typing import BinaryIO, Final, Generic, TypeVar

from holdfast.engine.objects import content
from holdfast.engine.objects.stage import StagedObjects
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry, unpack_refs
from holdfast.errors import Damaged
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.files import MAX_PATH_BYTES
from holdfast.packs import ObjectKind
from holdfast.tree import get, iterate, prefix_stop
from holdfast.workspace.ignoring import MAX_RULES_BYTES

LOADED_BYTES: Final = 256 << 10
"""Files up to this size are fetched together; larger ones are streamed."""

STREAMED_BYTES: Final = 4 << 20
"""So much of a large file is read while as much of it is written."""

T = TypeVar("T")

_END: Final = object()


class Retrieval:
    """Content of files, read from the vault and proven on the way."""

    def __init__(self, source: StagedObjects) -> None:
        self._source = source

    def load(self, batches: Sequence[Sequence[Inline | Blob]]) -> Generator[list[bytes | None]]:
        """Yields the contents of each batch of small files; None for each that is large."""
        loading = (self._load(batch) for batch in batches)
        with closing(self._ahead(loading, is_long=len(batches) > 1)) as coming:
            yield from coming

    def _load(self, entries: Sequence[Inline | Blob]) -> list[bytes | None]:
        refs = [
            unpack_refs(entry.refs)
            if isinstance(entry, Blob) and entry.size <= LOADED_BYTES and not entry.depth
            else ()
            for entry in entries
        ]
        wanted = dict.fromkeys(object_id for each in refs for object_id, _ in each)
        found = self._source.get_many(list(wanted)) if wanted else {}
        return [
            entry.data
            if isinstance(entry, Inline)
            else _whole(entry, [found[object_id] for object_id, _ in each])
            if each
            else None
            for entry, each in zip(entries, refs, strict=True)
        ]

    def stream(self, entry: Inline | Blob) -> Generator[bytes]:
        """Yields the content of one file."""
        runs = _runs(content.stream(self._source, entry))
        with closing(self._ahead(runs, is_long=entry.size > STREAMED_BYTES)) as coming:
            for run in coming:
                yield from run

    def is_content(self, file: BinaryIO, entry: Inline | Blob) -> bool:
        """Says whether a file has the content of an entry."""
        if isinstance(entry, Inline):
            return file.read(entry.size + 1) == entry.data
        refs = content.content_refs(self._source, entry)
        return all(object_id_of(file.read(size)) == object_id for object_id, size in refs)

    def patches(self, old: Blob, new: Blob) -> Iterator[tuple[int, bytes]] | None:
        """Yields what of `new` differs from `old`, and where; None if that is most of it."""
        there = set(_offsets(content.content_refs(self._source, old)))
        differing = [
            place
            for place in _offsets(content.content_refs(self._source, new))
            if place not in there
        ]
        is_most = sum(size for _, _, size in differing) * 2 > new.size
        # Zeros are written anew, as a hole: a patch would fill it.
        if is_most or any(object_id == _zeros() for _, object_id, _ in differing):
            return None
        return self._read(differing)

    def _ahead(self, items: Generator[T], *, is_long: bool) -> Generator[T]:
        """Lets the vault be read while what was read is written, where that is worth a thread."""
        return ahead(items) if is_long and not self._source.is_bound else items

    def _read(self, places: Sequence[tuple[int, ObjectId, int]]) -> Iterator[tuple[int, bytes]]:
        for at in range(0, len(places), content.READ_AHEAD):
            batch = places[at : at + content.READ_AHEAD]
            found = self._source.get_many([object_id for _, object_id, _ in batch])
            for offset, object_id, _ in batch:
                yield offset, found[object_id]


class MapGoal:
    """A files map, as the state that a directory shall have."""

    def __init__(self, source: StagedObjects, root: ObjectId) -> None:
        self._source = source
        self._root = root
        self._folders: dict[bytes, bool] = {}

    def find(self, key: bytes) -> Entry | None:
        """Returns the entry at a path, or None."""
        data = get(self._source, self._root, key)
        return None if data is None else decode_entry(data)

    def read(self, key: bytes) -> bytes:
        """Returns what a file of rules says; nothing if it is no file, or not there."""
        entry, text = self.find(key), bytearray()
        for part in content.stream(self._source, entry) if isinstance(entry, Inline | Blob) else ():
            text += part
            if len(text) > MAX_RULES_BYTES:
                break
        return bytes(text[: MAX_RULES_BYTES + 1])

    def is_folder(self, path: bytes) -> bool:
        """Says whether a path will be a folder, with or without an entry of its own."""
        if path not in self._folders:
            below = iterate(
                self._source, self._root, start=path + b"/", stop=prefix_stop(path + b"/")
            )
            self._folders[path] = next(below, None) is not None or isinstance(
                self.find(path), Directory
            )
        return self._folders[path]


def check_entry(entry: Entry) -> Entry:
    """Returns an entry of a files map; raises `Damaged` for one that no directory can hold."""
    is_sound = isinstance(entry, Inline | Blob | Directory)
    if isinstance(entry, Link):
        target = entry.target
        is_sound = 0 < len(target) <= MAX_PATH_BYTES and b"\0" not in target
    if not is_sound:
        raise Damaged("a map holds an entry that no directory can")
    return entry


class Weighing:
    """A sink that computes names, and keeps nothing."""

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:  # noqa: ARG002 - the sink's form
        """Returns the name of an object."""
        return object_id_of(data)

    def spill(self) -> None:
        """Has nothing to make room for."""


@cache
def _zeros() -> ObjectId:
    """Returns the name of the chunks that a long run of zeros is cut into."""
    return object_id_of(bytes(content.FILES.max_bytes))


def ahead(items: Iterable[T]) -> Generator[T]:
    """Yields the same items; while one is in use, a thread makes the one after it.

    What making one raises is raised here, in its turn. Whoever stops early closes the generator;
    nothing is being made any more when that returns.
    """
    making = iter(items)
    coming = _Coming(making)
    try:
        while (item := coming.take()) is not _END:
            coming = _Coming(making)
            yield item  # pyright: ignore[reportReturnType] - what is not the end is an item
    finally:
        coming.wait()


class _Coming(Generic[T]):
    """One item in the making, in a thread of its own: that costs 0.1 ms, and leaves nothing."""

    def __init__(self, making: Iterator[T]) -> None:
        self._making = making
        self._item: object = _END
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._make, name="holdfast-ahead"
        )
        try:
            self._thread.start()
        except RuntimeError:
            # There may be no thread to be had, and there is none when the process ends.
            self._thread = None
            self._make()

    def wait(self) -> None:
        """Returns when it is made."""
        if self._thread is not None:
            self._thread.join()

    def take(self) -> object:
        """Returns it, or the end; raises what making it raised."""
        self.wait()
        if self._failure is not None:
            raise self._failure
        return self._item

    def _make(self) -> None:
        try:
            self._item = next(self._making, _END)
        except BaseException as exc:  # noqa: BLE001 - a test's power cut too: the caller raises it
            self._failure = exc


def _whole(blob: Blob, chunks: Sequence[bytes]) -> bytes:
    data = b"".join(chunks)
    content.check_size(blob, len(data))
    return data


def _runs(parts: Iterator[bytes]) -> Generator[list[bytes]]:
    """Yields parts some at a time: a thread to make them costs 0.1 ms."""
    run, size = list[bytes](), 0
    for part in parts:
        run.append(part)
        size += len(part)
        if size >= STREAMED_BYTES:
            yield run
            run, size = [], 0
    yield run


def _offsets(refs: Sequence[tuple[ObjectId, int]]) -> Iterator[tuple[int, ObjectId, int]]:
    at = 0
    for object_id, size in refs:
        yield at, object_id, size
        at += size

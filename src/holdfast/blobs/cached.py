"""Pages of a bucket's blobs on a local disk: `folder/pages/<end of the name>/<name>.<number>.page`.

A bucket takes 20 ms for whatever it is asked, and the engine asks for a block here and a block
there: so a whole page, 1 MiB, is fetched, and what is asked for next is mostly in it.

- **A page is proven when a process first reads it**: in front of it stands a BLAKE3 over its bytes,
  the blob's name and size, and where it lies in it. One that is wrong is dropped, and fetched
  again. So nothing is synced, and a page that a crash has torn is no harm. From then on what is
  asked for is read from the same file; should it change, objects do not hash to their names any
  more, and who notices that has the page forgotten, and asks again.
- **Pages come ahead.** What somebody says will be asked for is fetched beside, several pages at a
  time, for as long as anybody reads on; and who asks for one after the other gets the next ones.
- **What was put is here, too**, if it is a small pack, as new content is: it is read soon. Packs of
  an import or a collection would only push out what others read.
- **Bounded, over all processes that share the folder.** Each looks at the whole folder after a 64th
  of the bound has been written by it, and lets go of what was used longest ago when more than four
  fifths are taken: twelve processes may do so at their worst moment at once. What nobody has used
  for a day goes as well, for what was deleted elsewhere should not stay here.
- **Passed by when it does harm.** A cache smaller than what is used in turn fetches pages of which
  little is read before they go. When that is seen, reads go past it for a while.
- **Never an authority.** Who has to know what the bucket holds (`verify`, a backup, whoever leaves
  bytes out because a copy is there) asks `uncached()`. Whole blobs are not kept.

Where `pages` cannot be made, or is not this user's alone, nothing is kept, and the log says so.
"""

# System calls are spelled as such, as in `disk.py`: a page appears under its name by a rename.

import contextlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from blake3 import blake3

from holdfast.blobs.beside import Beside
from holdfast.blobs.port import BlobStore, is_blob_name, length_of_range
from holdfast.instruments import TALLIES

PAGE_BYTES: Final = 1 << 20
_HASH_BYTES: Final = 32
_SIZE_BYTES: Final = 8
_HEADER_BYTES: Final = _HASH_BYTES + _SIZE_BYTES

_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_OTHERS: Final = 0o077
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC

_SHARE: Final = 64
"""A process looks at the folder after it has written this part of the bound."""
_FULL: Final = 0.8
_EMPTIED: Final = 0.7
"""From which part of the bound on pages go, and until when."""
_UNUSED_S: Final = 86_400.0
_ROUND_S: Final = 3_600.0
"""How long a page stays that nobody uses, and how often that is looked at."""
_USED_S: Final = 60.0
"""A use is written down if the last one is so long ago."""

_AHEAD: Final = 3
"""Pages that are fetched beside the one that is asked for, by who has asked for the one before."""

_PUT_BYTES: Final = 8 * PAGE_BYTES
"""The largest pack that is kept when it is put."""

_KNOWN: Final = 1 << 16
"""Pages of which a process remembers that it has proven them."""

_LOCKS: Final = 512
"""Of pages that are fetched at the same time, hardly two have to wait for each other."""

_QUEUED_S: Final = 1.0
"""How long one waits for another who fetches the same page: ten seconds are all that a read has."""

_MOST_AHEAD: Final = 64
_PART_AHEAD: Final = 4
"""Pages that are expected at the same time, and which part of the bound they may take: who fetched
more would let go of what has not been read yet."""
_JUDGED: Final = 64
_WASTE: Final = 4
"""Of so many fetched pages no more than this part was asked for while others had to go: that is
worse than no cache."""
_PASSED_BY: Final = 512
"""Reads that go past a cache that did harm, before it is tried again."""


class Pages(BlobStore, Protocol):
    """Blobs that can be read page by page."""

    def read(self, name: str, /, *, start: int, length: int) -> tuple[bytes, int]:
        """Returns what there is of a range, and how many bytes the whole blob has."""
        ...


class _Page(NamedTuple):
    """A page, by its blob and its number."""

    name: str
    number: int


class _Part(NamedTuple):
    """Some bytes of a page, and how many bytes all of the blob has."""

    data: bytes
    size: int


class CachedBlobStore:
    """A `BlobStore` of another's blobs, of which ranges that were read lately are here."""

    def __init__(
        self,
        inner: Pages,
        folder: str | os.PathLike[str],
        *,
        max_bytes: int,
        ahead: int = _AHEAD,
    ) -> None:
        self._inner = inner
        self._disk = _Folder(os.fspath(folder), max_bytes)
        self._worth = _Worth()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._ahead = ahead
        most = min(_MOST_AHEAD, max_bytes // (_PART_AHEAD * PAGE_BYTES))
        self._beside = Beside(self._fetch, most=most, name="holdfast-pages")

    @property
    def is_remote(self) -> bool:
        """Whether a question is a request."""
        return self._inner.is_remote

    def put(self, name: str, data: bytes, /) -> None:
        """Stores the bytes; keeps them if they are few."""
        self._inner.put(name, data)
        if len(data) <= _PUT_BYTES:
            for number, start in enumerate(range(0, len(data), PAGE_BYTES)):
                page = _Part(bytes(data[start : start + PAGE_BYTES]), len(data))
                self._disk.keep(name, number, page)

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        """Returns exactly the range that was asked for, or raises; of a range, from its pages."""
        if length is None or not _is_paged(name, start, length):
            return self._inner.get(name, start=start, length=length)
        if not self._disk.is_usable or self._worth.is_passed_by():
            return self._inner.get(name, start=start, length=length)
        self._worth.count(asked=length)
        number, offset = divmod(start, PAGE_BYTES)
        found = self._part(name, number, offset, length)
        length_of_range(name, size=found.size, start=start, length=length)
        data = found.data
        if offset + length > PAGE_BYTES:
            data += self._part(name, number + 1, 0, offset + length - PAGE_BYTES).data
        if len(data) != length:
            # A page of another moment than its neighbour: only the bucket can say.
            self.forget(name)
            return self._inner.get(name, start=start, length=length)
        return data

    def expect(self, ranges: Iterable[tuple[str, int, int]], /) -> None:
        """Has the pages of what will be asked for fetched beside, as many as there is room for."""
        if not self._disk.is_usable or self._worth.is_spent:
            return
        for name, start, length in ranges:
            if _is_paged(name, start, length):
                last = (start + length - 1) // PAGE_BYTES
                self._expect(name, range(start // PAGE_BYTES, last + 1))
        self._beside.go_on()

    def size(self, name: str, /) -> int:
        """Returns the number of bytes, as the bucket says."""
        return self._inner.size(name)

    def find_short(self, expected: Mapping[str, int], /) -> dict[str, int]:
        """Returns those that are shorter than expected, as the bucket says."""
        return self._inner.find_short(expected)

    def delete(self, name: str, /) -> None:
        """Removes the blob, and its pages."""
        self._inner.delete(name)
        self.forget(name)

    def iter_names(self) -> Iterator[tuple[str, int]]:
        """Yields every name, as the bucket says."""
        return self._inner.iter_names()

    def free_bytes(self) -> int | None:
        """Returns what the bucket says."""
        return self._inner.free_bytes()

    def find_mark(self) -> bytes | None:
        """Returns what the bucket says about itself."""
        return self._inner.find_mark()

    def put_mark(self, data: bytes, /) -> None:
        """Has the bucket say this about itself."""
        self._inner.put_mark(data)

    def remove_mark(self, data: bytes, /) -> None:
        """Has the bucket say nothing about itself any more."""
        self._inner.remove_mark(data)

    def uncached(self) -> BlobStore:
        """Returns the bucket."""
        return self._inner

    def forget(self, name: str | None = None, /) -> None:
        """Lets go of a blob's pages, or of all."""
        self._disk.forget(name)

    def _part(self, name: str, number: int, offset: int, length: int) -> _Part:
        """Returns what a page has of a range; fetches it, and maybe some more, if need be."""
        found = self._disk.find(name, number, offset, length)
        TALLIES.add("cache_misses" if found is None else "cache_hits")
        size = self._disk.size_of(name, number - 1) if found is None else None
        if size is not None:
            pages = -(-size // PAGE_BYTES)
            self._expect(name, range(number + 1, min(number + 1 + self._ahead, pages)))
        self._beside.go_on()
        return found or self._part_now(name, number, offset, length)

    def _expect(self, name: str, numbers: Iterable[int]) -> None:
        """Has pages fetched beside that are not here."""
        self._beside.expect(_Page(name, each) for each in numbers if not self._disk.has(name, each))

    def _fetch(self, page: _Page) -> None:
        self._part_now(*page, offset=0, length=0)

    def _part_now(self, name: str, number: int, offset: int, length: int) -> _Part:
        start, lock = number * PAGE_BYTES, self._locks[hash((name, number)) % _LOCKS]
        # One that many ask for at once is fetched once; nobody queues behind a bucket that is slow.
        if not lock.acquire(timeout=_QUEUED_S):
            return _Part(*self._inner.read(name, start=start + offset, length=max(1, length)))
        try:
            found = self._disk.find(name, number, offset, length)
            if found is not None:
                return found
            page = _Part(*self._inner.read(name, start=start, length=PAGE_BYTES))
            gone = self._disk.keep(name, number, page)
            self._worth.count(fetched=len(page.data), gone=gone)
        finally:
            lock.release()
        return page._replace(data=page.data[offset : offset + length])


class _Worth:
    """Sees when a cache does harm."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = self._fetched = self._pages = self._gone = 0
        self._left = 0

    @property
    def is_spent(self) -> bool:
        """Whether reads go past the cache for now."""
        return self._left > 0

    def is_passed_by(self) -> bool:
        """Says whether a read goes past the cache."""
        if not self._left:
            return False
        with self._lock:
            self._left = max(0, self._left - 1)
        return True

    def count(self, *, asked: int = 0, fetched: int = 0, gone: int = 0) -> None:
        """Counts bytes that were asked for and fetched, and pages that had to go."""
        with self._lock:
            self._asked += asked
            self._gone += gone
            if not fetched:
                return
            self._fetched += fetched
            self._pages += 1
            if self._pages < _JUDGED:
                return
            if self._gone and self._fetched > _WASTE * self._asked:
                self._left = _PASSED_BY
            self._asked = self._fetched = self._pages = self._gone = 0


class _Proof(NamedTuple):
    """A file that was found right, by this process or as it wrote it."""

    inode: int
    size: int
    """How many bytes the blob has."""


class _File(NamedTuple):
    used: float
    size: int
    path: str


class _Folder:
    """The pages on the disk, of all processes that have them there."""

    def __init__(self, root: str, max_bytes: int) -> None:
        # Of our own: a volume that is mounted there may be open to everybody.
        self._root, self._max = os.path.join(os.path.abspath(root), "pages"), max_bytes
        self._lock = threading.Lock()
        self._written = 0
        self._next_round = 0.0
        # By blob: of one that is deleted, all proofs go at once.
        self._proven: dict[str, dict[int, _Proof]] = {}
        self._proofs = 0
        self.is_usable = self._max >= PAGE_BYTES and self._make()

    def size_of(self, name: str, number: int) -> int | None:
        """Returns how many bytes a blob has, if this page of it was proven here."""
        proof = self._proof_of(name, number)
        return None if proof is None else proof.size

    def has(self, name: str, number: int) -> bool:
        """Says whether there is a page, right or not: one that was proven may have gone since."""
        return os.path.exists(self._path(name, number))

    def find(self, name: str, number: int, offset: int, length: int) -> _Part | None:
        """Returns a part of a page that is there and right."""
        path = self._path(name, number)
        try:
            descriptor = os.open(path, _READ)
        except OSError:
            return None
        try:
            state, proof = os.fstat(descriptor), self._proof_of(name, number)
            if proof is not None and proof.inode == state.st_ino:
                data = os.pread(descriptor, length, _HEADER_BYTES + offset)
            else:
                raw = os.pread(descriptor, _HEADER_BYTES + PAGE_BYTES + 1, 0)
                page, proof = raw[_HEADER_BYTES:], _Proof(state.st_ino, _size_in(raw))
                if raw[:_HASH_BYTES] != _hash(name, number, proof.size, page):
                    _unlink(path)
                    return None
                self._remember(name, number, proof)
                data = page[offset : offset + length]
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if time.time() - state.st_mtime > _USED_S:
            with contextlib.suppress(OSError):
                os.utime(path)
        return _Part(data, proof.size)

    def keep(self, name: str, number: int, page: _Part) -> int:
        """Writes a page; returns how many others had to go."""
        if not self.is_usable:
            return 0
        path = self._path(name, number)
        temporary = f"{path}.{os.urandom(8).hex()}.tmp"
        header = _hash(name, number, page.size, page.data) + page.size.to_bytes(_SIZE_BYTES)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.dirname(path), _FOLDER_MODE)
            descriptor = os.open(temporary, _CREATE, _MODE)
            try:
                # In one piece: on a full disk, what is short is no page.
                written = os.writev(descriptor, [header, page.data])
                inode = os.fstat(descriptor).st_ino
            finally:
                os.close(descriptor)
            is_whole = written == len(header) + len(page.data)
        except OSError:
            is_whole, inode = False, 0
        try:
            if is_whole:
                os.rename(temporary, path)
        except OSError:
            is_whole = False
        if not is_whole:
            _unlink(temporary)
            return 0
        self._remember(name, number, _Proof(inode, page.size))
        with self._lock:
            self._written += len(header) + len(page.data)
            now = time.monotonic()
            if self._written * _SHARE < self._max and now < self._next_round:
                return 0
            self._written, self._next_round = 0, now + _ROUND_S
        return self._make_room()

    def forget(self, name: str | None) -> None:
        """Removes the pages of a blob, or all."""
        if not self.is_usable or (name is not None and not is_blob_name(name)):
            return
        with self._lock:
            if name is None:
                self._proven, self._proofs = {}, 0
            else:
                self._proofs -= len(self._proven.pop(name, ()))
        shards = [f"{self._root}/{name[-2:]}"] if name is not None else self._shards()
        for shard in shards:
            for entry in _entries(shard):
                if _is_ours(entry) and (name is None or entry.name.startswith(f"{name}.")):
                    _unlink(entry.path)

    def _proof_of(self, name: str, number: int) -> _Proof | None:
        proofs = self._proven.get(name)
        return None if proofs is None else proofs.get(number)

    def _remember(self, name: str, number: int, proof: _Proof) -> None:
        with self._lock:
            if self._proofs >= _KNOWN:
                self._proven, self._proofs = {}, 0
            proofs = self._proven.setdefault(name, {})
            self._proofs += number not in proofs
            proofs[number] = proof

    def _make_room(self) -> int:
        """Lets go of what was used longest ago, and of what nobody uses; returns how many."""
        files = sorted(self._files())
        used, oldest, gone = sum(file.size for file in files), time.time() - _UNUSED_S, 0
        is_full = used > _FULL * self._max
        for file in files:
            if file.used >= oldest and not (is_full and used > _EMPTIED * self._max):
                break
            _unlink(file.path)
            used -= file.size
            gone += file.used >= oldest
        return gone

    def _files(self) -> Iterator[_File]:
        for shard in self._shards():
            for entry in filter(_is_ours, _entries(shard)):
                with contextlib.suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    yield _File(state.st_mtime, state.st_size, entry.path)

    def _shards(self) -> list[str]:
        return [entry.path for entry in _entries(self._root)]

    def _path(self, name: str, number: int) -> str:
        return f"{self._root}/{name[-2:]}/{name}.{number}.page"

    def _make(self) -> bool:
        """Makes the folder; says whether it is this user's alone, and can be used."""
        try:
            os.makedirs(self._root, _FOLDER_MODE, exist_ok=True)
            state = os.stat(self._root, follow_symlinks=False)
            is_own = state.st_uid == os.geteuid() and not state.st_mode & _OTHERS
            if is_own and stat.S_ISDIR(state.st_mode) and os.access(self._root, os.W_OK):
                return True
            reason = "it is not this user's alone"
        except OSError as exc:
            reason = exc.strerror or str(exc)
        import logging  # noqa: PLC0415 - needed by few, and no small thing to load

        # A sentence: where nobody reads a log, it stands on a terminal as it is.
        logging.getLogger(__name__).warning(
            "Nothing of the bucket is kept in %s: %s. HOLDFAST_CACHE names another folder.",
            self._root,
            reason,
        )
        return False


def _is_paged(name: str, start: int, length: int) -> bool:
    """Says whether a range is read by pages."""
    return 0 < length <= PAGE_BYTES and start >= 0 and is_blob_name(name)


def _hash(name: str, number: int, size: int, data: bytes) -> bytes:
    """Returns what proves a page: its bytes, of which blob they are, and where they lie in it."""
    made = blake3(f"{name}.{number}.{size}.".encode())
    made.update(data)
    return made.digest()


def _size_in(raw: bytes) -> int:
    return int.from_bytes(raw[_HASH_BYTES:_HEADER_BYTES])


def _entries(path: str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    """Says whether a file is a page, or what is left of one."""
    return ".page" in entry.name


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)

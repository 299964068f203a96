"""A place for a backup in which all is encrypted, with a key that neither it nor the vault has.

A file is a beginning of `HEADER_BYTES`, and segments of 1 MiB, each with a tag of 16 bytes. It has
a key of its own, made of the backup's and of 32 random bytes in its beginning. Into every tag goes
the path of the file, which of its segments this is, and whether it is the last one: what was put in
another file's place, cut short or lengthened does not open. That the files are those of one backup
says the manifest, which has the hash of each.

What can be seen of it all: the paths, the sizes to the byte, when each was written, and that two
files were encrypted with one key.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from holdfast.blobs.places import Pieces, Place, read_whole
from holdfast.engine.backups.manifest import MANIFEST_NAME
from holdfast.engine.core.ciphers import LEAST_CHARS, NONCE_BYTES, cipher_of, invalid_tag, key_of
from holdfast.errors import BackupDamaged, BackupLocked

MAGIC: Final = b"holdfast sealed1"

_MARK_BYTES: Final = 8
"""Tells whether a key is the one: so that another one is not taken for damage."""

_SALT_BYTES: Final = 32
_TAG_BYTES: Final = 16
HEADER_BYTES: Final = len(MAGIC) + _MARK_BYTES + _SALT_BYTES
SEGMENT_BYTES: Final = 1 << 20
_SEALED_BYTES: Final = SEGMENT_BYTES + _TAG_BYTES


class SealedPlace:
    """A `Place` whose files only who has the key can read, or could have written."""

    is_sealed = True

    def __init__(self, inner: Place, said: str) -> None:
        """Raises `BackupLocked` for a key that is too short to be one."""
        if len(said) < LEAST_CHARS:
            raise BackupLocked(f"the key of a backup has {LEAST_CHARS} or more characters")
        self._inner = inner
        self._key = key_of(said, person=b"holdfast backups")
        mark = blake2b(key=self._key, digest_size=_MARK_BYTES, person=b"holdfast keymark")
        self._begin = MAGIC + mark.digest()
        # Before anything is begun: the library may not be there.
        cipher_of(self._key)

    @property
    def name(self) -> str:
        """What people call it."""
        return self._inner.name

    @property
    def folder(self) -> Path | None:
        """The directory that it is."""
        return self._inner.folder

    @property
    def is_remote(self) -> bool:
        """Whether it is over a network."""
        return self._inner.is_remote

    @property
    def is_beside(self) -> bool:
        """Whether the packs of the vault are in the same bucket."""
        return self._inner.is_beside

    def locked(self) -> AbstractContextManager[None]:
        """Keeps others out."""
        return self._inner.locked()

    def sizes(self) -> dict[str, int]:
        """Returns every file with what it has when it is opened."""
        return {path: _plain_size(size) for path, size in self._inner.sizes().items()}

    def read(self, path: str, /) -> Iterator[bytes] | None:
        """Yields what was encrypted, each piece proven."""
        pieces = self._inner.read(path)
        return None if pieces is None else self._open(path, pieces)

    def write(self, path: str, pieces: Pieces, /, *, size: int) -> None:
        """Encrypts a file."""
        self._inner.write(path, self._seal(path, pieces), size=_sealed_size(size))

    def copy_pack(self, _name: str, _path: str, /, *, size: int) -> bool:  # noqa: ARG002 - as a place has it
        """Copies nothing: the packs of a vault are not encrypted."""
        return False

    def publish(self, path: str, data: bytes, /, *, over: bytes | None) -> None:
        """Encrypts the manifest, if what it is put over is what was seen."""
        seen = None
        if over is not None:
            seen = read_whole(self._inner, path)
            if seen is None or b"".join(self._open(path, [seen])) != over:
                seen = b""  # Another one, so this is refused.
        self._inner.publish(path, b"".join(self._seal(path, [data])), over=seen)

    def remove(self, path: str, /) -> None:
        """Removes a file."""
        self._inner.remove(path)

    def _seal(self, path: str, pieces: Pieces) -> Iterator[bytes]:
        salt = os.urandom(_SALT_BYTES)
        cipher, name = self._cipher(salt), path.encode()
        yield self._begin + salt
        for at, is_last, segment in _segments(pieces, SEGMENT_BYTES):
            yield cipher.encrypt(_nonce(at, is_last=is_last), segment, name)

    def _open(self, path: str, pieces: Pieces) -> Iterator[bytes]:
        source = iter(pieces)
        head = b""
        while len(head) < HEADER_BYTES and (piece := next(source, None)) is not None:
            head += piece
        self._check(path, head)
        cipher, name = self._cipher(head[HEADER_BYTES - _SALT_BYTES : HEADER_BYTES]), path.encode()
        damaged = BackupDamaged(path, reason="it is not as it was written")

        def rest() -> Iterator[bytes]:
            yield head[HEADER_BYTES:]
            yield from source

        for at, is_last, segment in _segments(rest(), _SEALED_BYTES):
            try:
                yield cipher.decrypt(_nonce(at, is_last=is_last), segment, name)
            except (invalid_tag(), ValueError) as exc:
                raise damaged from exc

    def _check(self, path: str, head: bytes) -> None:
        if path == MANIFEST_NAME and head.lstrip().startswith(b"{"):
            message = f"the backup in {self.name} is not encrypted, and a key was given"
            raise BackupLocked(message).with_hint(
                "Unset HOLDFAST_BACKUP_KEY if you trust who could write there; an encrypted backup "
                "needs another place."
            )
        if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
            raise BackupDamaged(path, reason="it is not as it was written")
        if not head.startswith(self._begin):
            if path != MANIFEST_NAME:
                raise BackupDamaged(path, reason="it was encrypted with another key")
            raise BackupLocked(f"the backup in {self.name} was encrypted with another key")

    def _cipher(self, salt: bytes) -> Any:  # noqa: ANN401 - of a library that is loaded when needed
        made = blake2b(salt, key=self._key, digest_size=32, person=b"holdfast sealing")
        return cipher_of(made.digest())


def is_sealed(data: bytes) -> bool:
    """Says whether a file is one of an encrypted backup."""
    return data.startswith(MAGIC)


def _nonce(at: int, *, is_last: bool) -> bytes:
    return at.to_bytes(NONCE_BYTES - 1) + (b"\x01" if is_last else b"\x00")


def _segments(pieces: Pieces, size: int) -> Iterator[tuple[int, bool, bytes]]:
    """Yields bytes in segments of a size, each with its number; the last one may be shorter."""
    at, held = 0, bytearray()
    for piece in pieces:
        held += piece
        while len(held) > size:
            yield at, False, bytes(held[:size])
            del held[:size]
            at += 1
    yield at, True, bytes(held)


def _sealed_size(size: int) -> int:
    segments = max(1, -(-size // SEGMENT_BYTES))
    return HEADER_BYTES + size + segments * _TAG_BYTES


def _plain_size(size: int) -> int:
    inside = max(0, size - HEADER_BYTES)
    segments = max(1, -(-inside // _SEALED_BYTES))
    return max(0, inside - segments * _TAG_BYTES)

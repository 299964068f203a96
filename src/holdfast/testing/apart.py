"""A bucket that knows whether whoever asks it has a transaction open.

A catalog and blobs that `Watched` has wrapped note each question to the bucket, and those that a
thread asks in the middle of a transaction of its own once more.
"""

import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, cast

from holdfast.blobs.port import BlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction

_ASKS_NOBODY: Final = frozenset({"expect", "free_bytes", "forget", "uncached"})


class Watched:
    """What was asked of a bucket, and what of that while a transaction was open."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.inside: list[str] = []
        self._open = threading.local()

    def catalog(self, inner: Catalog) -> Catalog:
        """Returns a catalog whose transactions are noticed."""
        return cast("Catalog", _Catalog(inner, self._opened))

    def blobs(self, inner: BlobStore) -> BlobStore:
        """Returns blobs that say they are a bucket's."""
        return cast("BlobStore", _Blobs(inner, self.note))

    def forget(self) -> None:
        """Begins anew."""
        self.asked.clear()
        self.inside.clear()

    @contextmanager
    def _opened(self, kind: str, opened: AbstractContextManager[Transaction]) -> Generator[Any]:
        with opened as transaction:
            before: tuple[str, ...] = getattr(self._open, "kinds", ())
            self._open.kinds = (*before, kind)
            try:
                yield transaction
            finally:
                self._open.kinds = before

    def note(self, what: str) -> None:
        """Notes a question to a bucket."""
        self.asked.append(what)
        if kinds := getattr(self._open, "kinds", ()):
            self.inside.append(f"{what} while one is open to {kinds[-1]}")


class _Catalog:
    def __init__(self, inner: Catalog, opened: Callable[..., Any]) -> None:
        self._inner, self._opened = inner, opened

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a catalog has
        found = getattr(self._inner, name)
        if name in ("read", "ask", "write"):
            return lambda: self._opened(name, found())
        return found


class _Blobs:
    is_remote = True

    def __init__(self, inner: BlobStore, note: Callable[[str], None]) -> None:
        self._inner, self._note = inner, note

    def uncached(self) -> "_Blobs":
        """Returns itself: a bucket's own cache would answer for it."""
        return self

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a blob store has
        found = getattr(self._inner, name)
        if name in _ASKS_NOBODY:
            return found

        def ask(*args: object, **kwargs: object) -> object:
            self._note(name)
            return found(*args, **kwargs)

        return ask

"""Lets a thread make what is needed next."""

import threading
from collections.abc import Generator, Iterable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_END: Final = object()


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

"""Opens one plane of a namespace to read: as its head shows it, or as a snapshot does."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from types import TracebackType

from holdfast.engine.files.reader import Opened
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.planes.view import HeadView, View
from holdfast.model.basics import Plane, SnapshotInfo


def opened_head(handle: Handle, plane: Plane) -> Opened:
    """Returns what opens a plane as the head shows it whenever it is asked."""
    return partial(_Head, handle, plane)


def opened_at(handle: Handle, snapshot: SnapshotInfo, plane: Plane) -> Opened:
    """Returns what opens a plane as a snapshot shows it."""

    @contextmanager
    def opened() -> Generator[View]:
        with looking_at(handle, snapshot), handle.context.catalog.read() as transaction:
            objects = handle.objects_in(transaction)

            def begun() -> datetime | None:
                head = transaction.find_head_by_id(snapshot.namespace_id)
                return None if head is None else head.created_at

            yield View(objects, objects.get_root(snapshot.root).plane(plane), begun=begun)

    return opened


class _Head:
    """One transaction, and a plane as the head shows it there.

    A class, where a generator would say it in four lines: on the way to one small value, which
    takes 16 µs, a generator takes 1.7 more.
    """

    __slots__ = ("_handle", "_plane", "_reading")

    def __init__(self, handle: Handle, plane: Plane) -> None:
        self._handle, self._plane = handle, plane
        self._reading = handle.context.catalog.read()

    def __enter__(self) -> View:
        return HeadView(self._handle, self._reading.__enter__(), self._plane)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._reading.__exit__(kind, error, traceback)

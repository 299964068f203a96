"""Work under a lock that may be lost: what is written happens only while nobody else has it.

Whoever stands still for long, or is cut off from the database, may find another at the same work.
Everything that is written under the lock insists on it, so that the second is never disturbed; and
before the first reports what it could not find, it looks whether it was the second who moved it.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, cast

from holdfast.catalog.port import Catalog, Lease
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.errors import Busy


@contextmanager
def fenced(context: Context, name: str) -> Generator[Context]:
    """Holds a lock; gives the context for what is done under it. Raises `Busy` if it is taken."""
    with context.catalog.lock(name) as lease:
        yield replace(context, catalog=cast("Catalog", FencedCatalog(context.catalog, lease)))


class FencedCatalog:
    """A catalog for whoever holds a lock of it."""

    def __init__(self, inner: Catalog, lease: Lease) -> None:
        self._inner, self._lease = inner, lease

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a catalog has
        return getattr(self._inner, name)

    def write(self) -> AbstractContextManager[Transaction]:
        """Opens a write transaction that fails if somebody else has the lock."""
        return self._written()

    def check_current(self) -> None:
        """Raises `Busy` if somebody else has the lock, and what the catalog itself raises."""
        self._inner.check_current()
        self._lease.check()

    @contextmanager
    def _written(self) -> Generator[Transaction]:
        try:
            with self._inner.write() as transaction:
                self._lease.fence(transaction)
                yield transaction
        except Busy:
            self._lease.check()  # It says so, if this is why.
            raise

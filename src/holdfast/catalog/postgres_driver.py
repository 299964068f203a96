"""The driver that runs named queries on a PostgreSQL connection, and what its errors mean."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import errors as pg

from holdfast.catalog.driver import Guard
from holdfast.catalog.rows import Row
from holdfast.errors import (
    Busy,
    Conflict,
    Damaged,
    HoldfastError,
    InvalidValue,
    StorageFull,
    Unavailable,
)

Connection = psycopg.Connection[tuple[Any, ...]]

_BATCH: Final = 10_000
"""Rows sent in one pipelined `executemany`: bounds memory on both sides."""


class PostgresDriver:
    """Runs named queries on one connection."""

    def __init__(self, connection: Connection, queries: Mapping[str, str], guard: Guard) -> None:
        self._connection = connection
        self._queries = queries
        self._guard = guard

    def one(self, name: str, /, **parameters: object) -> Row | None:
        with self._guard:
            return self._connection.execute(self._query(name), parameters).fetchone()

    def all(self, name: str, /, **parameters: object) -> Sequence[Row]:
        with self._guard:
            return self._connection.execute(self._query(name), parameters).fetchall()

    def run(self, name: str, /, **parameters: object) -> int:
        with self._guard:
            return self._connection.execute(self._query(name), parameters).rowcount

    def run_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> int:
        query, total, rest = self._query(name), 0, iter(rows)
        with self._guard, self._connection.cursor() as cursor:
            while batch := list(islice(rest, _BATCH)):
                cursor.executemany(query, batch)
                total += cursor.rowcount
        return total

    def by_keys(
        self,
        name: str,
        keys: Sequence[bytes],
        /,
        *,
        near: bool = False,  # noqa: ARG002 - the server finds out by itself
        **parameters: object,
    ) -> Sequence[Row]:
        if not keys:
            return []
        # One round trip for all keys: the point query's `= key` becomes `= ANY (keys)`.
        query = self._query(name).replace("= %(key)s", "= ANY (%(keys)s)")
        parameters["keys"] = list(keys)
        with self._guard:
            return self._connection.execute(query, parameters).fetchall()

    def put_pairs(
        self, name: str, pairs: Iterable[tuple[bytes, bytes | None]], /, **parameters: object
    ) -> None:
        self.run_many(name, ({**parameters, "key": key, "entry": entry} for key, entry in pairs))

    def _query(self, name: str) -> LiteralString:
        # From our own files; LiteralString cannot say so.
        return cast("LiteralString", self._queries[name])


def to_error(exc: BaseException) -> HoldfastError | None:
    """Returns our error for one of PostgreSQL's, the driver's or the pool's."""
    is_refused = isinstance(exc, psycopg.ProgrammingError) and exc.sqlstate is None
    if is_refused or isinstance(exc, ValueError):
        # By the driver, before the server saw it.
        return InvalidValue(f"the catalog cannot hold this value: {exc}")
    for kind, error in _ERRORS:
        if isinstance(exc, kind):
            return error(f"the database answered: {exc}")
    return None


_ERRORS: Final[Sequence[tuple[type[Exception], type[HoldfastError]]]] = (
    (pg.DiskFull, StorageFull),
    (pg.OutOfMemory, StorageFull),
    (pg.SerializationFailure, Busy),
    (pg.DeadlockDetected, Busy),
    (pg.LockNotAvailable, Busy),
    (pg.DataCorrupted, Damaged),
    (pg.IndexCorrupted, Damaged),
    # What we ask is known to fit our tables: then these are not our tables any more.
    (pg.UndefinedTable, Damaged),
    (pg.UndefinedColumn, Damaged),
    (psycopg.IntegrityError, Conflict),
    (psycopg.DataError, InvalidValue),
    (psycopg.Error, Unavailable),  # the pool's errors too
)


@contextmanager
def translated() -> Generator[None]:
    """Turns the database's errors into ours, outside of any transaction."""
    try:
        yield
    except psycopg.Error as exc:
        raise to_error(exc) or exc from exc

"""One transaction as a talk with PostgreSQL: statements go out at once, answers are waited for.

A wait costs more than most statements, for either side falls asleep. So what nobody needs an
answer to is only said, and the server works on it meanwhile; it is over with the next answer that
is waited for, which is also where its error shows. The beginning is said like that, too.

A connection of the pool may have died since it was used, in a restart of the server for instance.
That shows with the first answer. Until then nothing can have been committed: the same is said
again on another connection, and nobody notices.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
from psycopg.sql import Composed
from psycopg_pool import ConnectionPool

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Said = tuple[LiteralString, Any]


class Talk:
    """A transaction on one connection of a pool; without a beginning, each question is its own.

    `end` has to follow.
    """

    __slots__ = (
        "_block",
        "_connection",
        "_deadline",
        "_is_one",
        "_last",
        "_lent",
        "_pipeline",
        "_pool",
        "_said",
    )

    def __init__(self, pool: ConnectionPool[Connection], begin: LiteralString | None) -> None:
        self._pool = pool
        self._deadline = time.monotonic() + pool.timeout
        self._said: list[Said] | None = [] if begin is None else [(begin, None)]
        self._pipeline: psycopg.Pipeline | None = None
        self._is_one = begin is not None
        self._connect()

    @property
    def is_answered(self) -> bool:
        """Says whether the connection is known to live; until then it may be replaced."""
        return self._said is None

    def say(self, query: LiteralString, parameters: object = None) -> Cursor:
        """Sends a statement whose outcome nobody waits for.

        Once the talk is answered, that has its rows with the next answer.
        """
        if self._said is None:
            return self._send(query, parameters)
        self._said.append((query, parameters))
        try:
            self._send(query, parameters)
        except psycopg.OperationalError:
            self._say_again()
        return self._last

    def ask(self, query: LiteralString, parameters: object = None) -> Cursor:
        """Sends a statement, and waits for its answer and all before it."""
        while True:
            try:
                cursor = self._send(query, parameters)
                if self._pipeline is not None:
                    self._pipeline.sync()
            except psycopg.OperationalError:
                self._say_again()
            else:
                self._said = None
                return cursor

    def ask_many(self, query: LiteralString, rows: list[Any]) -> int:
        """Runs a statement for every row; returns how many rows of a table it concerned."""
        if self._said is not None:
            self.ask("SELECT 1")
        with self._connection.cursor() as cursor:
            cursor.executemany(query, rows)
            if self._pipeline is not None:
                self._pipeline.sync()
            return cursor.rowcount

    def copy_out(self, query: Composed) -> Iterator[bytes]:
        """Yields what a COPY writes. From then on nothing is said without being waited for."""
        if self._said is not None:
            self.ask("SELECT 1")
        self._leave()
        with self._connection.cursor() as cursor, cursor.copy(query) as copying:
            for piece in copying:
                yield bytes(piece)

    def commit(self) -> None:
        """Ends the transaction well, or raises what went wrong in it."""
        if self._pipeline is not None:
            self._said = None
            self._send("COMMIT", None)
            self._leave()

    def end(self) -> None:
        """Undoes what was not committed, and gives the connection back."""
        connection, self._lent = self._lent, None
        if connection is None:
            return
        with suppress(psycopg.Error):
            self._leave()
        with suppress(psycopg.Error):
            connection.rollback()
        self._pool.putconn(connection)

    def _say_again(self) -> None:
        """Goes on with another connection, if this one died unseen; raises what is handled."""
        if self._said is None or not self._connection.broken:
            raise  # noqa: PLE0704 - called where an error is handled
        self.end()
        self._connect()

    def _connect(self) -> None:
        while True:
            wait_s = max(self._deadline - time.monotonic(), 0.001)
            self._lent = self._connection = self._pool.getconn(timeout=wait_s)
            try:
                if self._is_one:
                    self._block = self._connection.pipeline()
                    self._pipeline = self._block.__enter__()
                for query, parameters in self._said or ():
                    self._send(query, parameters)
            except psycopg.OperationalError:
                self.end()
            else:
                return

    def _leave(self) -> None:
        """Waits for all answers, and raises what went wrong."""
        # Not as a block: it would tell the log of what is raised already.
        if self._pipeline is not None:
            self._pipeline = None
            self._block.__exit__(None, None, None)

    def _send(self, query: LiteralString, parameters: Any) -> Cursor:  # noqa: ANN401 - the driver's own word
        # Bytes would come as text otherwise, at twice the length.
        self._last = self._connection.execute(query, parameters, binary=True)
        return self._last

"""One transaction on PostgreSQL, from its beginning to its end.

It waits for one of so many connections, and is a talk on it; who writes has it looked at that the
tables are still of our format.
"""

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import LiteralString

import psycopg

from holdfast.behalf import rest
from holdfast.catalog.driver import Guard, paced
from holdfast.catalog.postgres_driver import CHECK_FORMAT, PostgresDriver, to_error
from holdfast.catalog.postgres_lines import Lines
from holdfast.catalog.postgres_talk import WRITING, Talk
from holdfast.catalog.tables import newest_format
from holdfast.catalog.transaction import Transaction
from holdfast.catalog.turns import Slots
from holdfast.errors import HoldfastError


class Conversation:
    """A transaction; without a beginning, each question is its own.

    A class, where generators would say it in fewer lines: three of them are 4 percent of what an
    update computes.
    """

    __slots__ = (
        "_begin",
        "_check_format",
        "_guard",
        "_lines",
        "_queries",
        "_slots",
        "_talk",
        "_turn",
    )

    _begin: LiteralString | None

    def __init__(
        self,
        slots: Slots,
        lines: Callable[[], Lines],
        queries: Mapping[str, str],
        begin: LiteralString | None,
        *,
        check_format: Callable[[], None],
    ) -> None:
        self._slots, self._lines, self._queries, self._begin = slots, lines, queries, begin
        self._check_format = check_format
        self._guard = Guard(to_error)

    def __enter__(self) -> Transaction:
        rest()
        lines = self._lines()
        # One wait, for a turn and for its connection.
        until = time.monotonic() + lines.timeout
        self._turn, is_begun = self._slots.take(), False
        try:
            self._talk = self._open(lines, until)
            is_begun = True
        finally:
            if not is_begun:
                self._slots.leave(self._turn)
        driver = PostgresDriver(self._talk, self._queries, self._guard)
        if self._begin != WRITING:
            return Transaction(paced(driver))
        self._talk.require(CHECK_FORMAT, {"known": newest_format()})
        return Transaction(driver)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._commit()
            else:
                self._explain(error)
        finally:
            self._guard.end()
            try:
                self._talk.end()
            finally:
                self._slots.leave(self._turn)

    def _open(self, lines: Lines, until: float) -> Talk:
        try:
            return Talk(lines, self._begin, until=until)
        except psycopg.Error as exc:
            raise to_error(exc) or exc from exc

    def _commit(self) -> None:
        try:
            with self._guard:
                self._talk.commit()
        except HoldfastError as exc:
            self._explain(exc)
            raise

    def _explain(self, error: BaseException | None) -> None:
        """Raises `VaultTooNew` where a newer version has changed the tables.

        A statement that does not fit them any more fails before it asks.
        """
        is_unfit = error is not None and isinstance(error.__cause__, psycopg.ProgrammingError)
        if is_unfit and isinstance(error, HoldfastError):
            self._check_format()

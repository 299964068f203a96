"""One transaction as a talk with PostgreSQL: statements are put together, answers are waited for.

A wait costs more than most statements, for either side falls asleep. So what nobody needs an
answer to is only said: it goes out with the next question, in one piece, and its error shows with
that answer. The beginning goes with the first question, and the end with whatever was said last.
The end of one that has only read is not waited for.

A transaction that asks nothing is a single wait, and neither begins nor ends by a statement: what
is sent in one piece is one transaction for PostgreSQL, and is committed at the end of the piece. So
until something is asked nothing is handed to the connection, and who asks begins first: no answer
that is waited for commits what was said before it.

A connection may have died since it was used, in a restart of the server for instance. Mostly that
is seen before anything is said, else with the first answer. Until then nothing can have been
committed: the same is said again on another connection, and nobody notices. It is likewise if a
server does not know what it was told to prepare, being another one behind a pooler.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.errors import SerializationFailure
from psycopg.sql import Composed

from holdfast.catalog.postgres_lines import UNKNOWN_THERE, Answer, Line, Lines, Parameters

Said = tuple[LiteralString, Parameters | None, Answer]

Condition = tuple[LiteralString, Mapping[str, Any]]
"""A question whose answer is at most one value, and what it is asked with."""

READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"

_MANY: Final = 1000
"""Rows that are said before their answers are waited for."""


class Unheard(psycopg.OperationalError):
    """The connection broke when a commit was under way."""


class Talk:
    """A transaction on one connection; without a beginning, each question is its own.

    `end` has to follow.
    """

    __slots__ = ("_begin", "_conditions", "_era", "_lent", "_line", "_lines", "_said", "_until")

    _line: Line
    _lent: Line | None

    def __init__(
        self, lines: Lines, begin: LiteralString | None, *, until: float | None = None
    ) -> None:
        """Waits for a connection until then, or as long as is usual."""
        self._lines, self._begin = lines, begin
        self._until = time.monotonic() + lines.timeout if until is None else until
        self._said: list[Said] | None = []
        """All that was said, until the connection is known to live: it may have to be replaced."""
        self._conditions: list[Condition] = []
        self._era: int | None = None
        self._connect()

    @property
    def only_reads(self) -> bool:
        """Whether all its questions see one moment."""
        return self._begin == READING

    @property
    def era(self) -> int:
        """What is known by a talk of another era may not be so: whoever asks stays in this one."""
        self._era = self._line.era
        return self._era

    def require(self, query: LiteralString, parameters: Mapping[str, Any]) -> None:
        """Takes a question that fails if something is not so: it is said before all that follows.

        Or with it: whoever says the next thing may take it over.
        """
        self._conditions.append((query, parameters))

    def take_conditions(self) -> Sequence[Condition]:
        """Returns what was held back, for who says it in one statement with something else."""
        conditions, self._conditions = self._conditions, []
        return conditions

    def say(self, query: LiteralString, parameters: Parameters | None = None) -> Answer:
        """Takes a statement whose outcome nobody waits for yet; the next wait brings its answer."""
        if self._conditions:
            self._say_conditions()
        answer = Answer()
        if self._said is None:
            self._line.send(query, parameters, answer)
        else:
            self._said.append((query, parameters, answer))
        return answer

    def ask(self, query: LiteralString, parameters: Parameters | None = None) -> Answer:
        """Sends a statement and all before it, and waits for the answers."""
        return self.hear(self.say(query, parameters))

    def hear(self, answer: Answer) -> Answer:
        """Waits for the answer to something that was said, if it is not there yet."""
        is_there = answer.is_there
        while not is_there:
            try:
                self._send(self._begin)
                self._line.receive()
            except (psycopg.OperationalError, *UNKNOWN_THERE):
                self._say_again()
            else:
                self._said, is_there = None, True
        return answer

    def ask_many(self, query: LiteralString, rows: Sequence[Parameters]) -> int:
        """Runs a statement for every row; returns how many rows of a table it concerned."""
        if self._said is not None:
            self.ask("SELECT 1")
        total = 0
        for first in range(0, len(rows), _MANY):
            answers = [self.say(query, row) for row in rows[first : first + _MANY]]
            self._line.receive()
            total += sum(answer.rowcount for answer in answers)
        return total

    def copy_out(self, query: Composed) -> Iterator[bytes]:
        """Yields what a COPY writes."""
        if self._said is not None:
            self.ask("SELECT 1")
        self._line.pgconn.exit_pipeline_mode()
        try:
            with self._line.connection.cursor() as cursor, cursor.copy(query) as copying:
                for piece in copying:
                    yield bytes(piece)
        finally:
            self._line.pgconn.enter_pipeline_mode()

    def commit(self) -> None:
        """Ends the transaction well, or raises what went wrong in it; `Unheard` if nobody knows."""
        if self._begin is None:
            return
        self._say_conditions()
        is_reading, is_begun = self.only_reads, self._said is None
        if is_begun:
            self._line.send("COMMIT", None, Answer())
        elif is_reading or not self._said:
            return  # Nobody wants to know.
        else:
            self._send(self._begin if self._lines.begins else None)
            if self._lines.begins:
                self._line.send("COMMIT", None, Answer())
        if is_reading:
            self._line.owe()
        else:
            try:
                self._line.receive()
            except psycopg.OperationalError as exc:
                if self._line.connection.broken:
                    raise Unheard(str(exc)) from exc
                raise

    def end(self) -> None:
        """Undoes what was not committed, and gives the connection back."""
        line, self._lent = self._lent, None
        if line is not None:
            self._lines.give(line)

    def _say_conditions(self) -> None:
        for query, parameters in self.take_conditions():
            self.say(query, parameters)

    def _send(self, begin: str | None) -> None:
        """Hands to the connection what was said, and was not yet, with what it begins by."""
        is_sent = self._said is None
        while not is_sent:
            try:
                if begin is not None:
                    self._line.send(begin, None, Answer())
                for said in self._said or ():
                    self._line.send(*said)
            except psycopg.OperationalError:
                self._say_again()
            else:
                is_sent = True

    def _say_again(self) -> None:
        """Goes on with another connection, if this one died unseen; raises what is handled."""
        is_lost = self._line.connection.broken or isinstance(sys.exc_info()[1], UNKNOWN_THERE)
        if self._said is None or not is_lost:
            raise  # noqa: PLE0704 - called where an error is handled
        self.end()
        self._connect()

    def _connect(self) -> None:
        self._lent = self._line = self._lines.take(until=self._until)
        if self._era is not None and self._era != self._line.era:
            raise SerializationFailure("what was known of the database has to be looked at")

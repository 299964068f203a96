"""Connections to PostgreSQL as talks use them: what is said on them, and who has which.

What is said goes by libpq's own calls, past the driver's cursors, which send and wait for each
statement by itself. Texts go as they are, numbers and bytes in binary, and what comes back is read
by the driver.
A statement that a connection is told again is prepared there.

Connections stay open for whoever is next: a talk that has only read leaves the answer to its end
to them. New ones come from `postgres_reach`, which knows whether there are any to be had.
"""

import re
import select
import struct
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import repeat
from types import NoneType
from typing import Any, Final

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import (
    DuplicatePreparedStatement,
    InvalidSqlStatementName,
    error_from_result,
)
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from holdfast.catalog.postgres_reach import Connection, Reach

Row = tuple[Any, ...]
Parameters = Mapping[str, Any] | tuple[Any, ...]
"""By name; or in the order in which the statement names them first."""

UNKNOWN_THERE: Final = (InvalidSqlStatementName, DuplicatePreparedStatement)
"""What a server says to whom a pooler between us took for somebody else."""

_PARAMETER: Final = re.compile(r"%\((\w+)\)s")

_MOST_PREPARED: Final = 128
"""Statements that a connection keeps: each takes some ten KB of the server's memory."""

_UNDOING: Final = 2
"""Attempts: after an error, what was said with it is not done, not even to undo."""

_KEPT_S: Final = 3600
"""How long a connection is used: what a name leads to may be another server by then."""

_IDLE_S: Final = 600
"""How long one stays that nobody needs."""

_ALL: Final = 1 << 62
_TEXT, _BINARY = int(Format.TEXT), int(Format.BINARY)
_to_int8: Final = struct.Struct(">q").pack
_INT8_OID: Final = 20
_BYTEA_OID: Final = 17


class Answer:
    """What a statement brought, once it is there."""

    __slots__ = ("_forms", "_result")

    _forms: abc.Transformer

    def __init__(self) -> None:
        self._result: PGresult | None = None

    def arrive(self, result: PGresult, forms: abc.Transformer) -> None:
        """Takes what the server sent, and what reads it."""
        self._result, self._forms = result, forms

    @property
    def is_there(self) -> bool:
        """Says whether it has arrived."""
        return self._result is not None

    def fetchone(self) -> Row | None:
        """Returns the first row, if there is one."""
        rows = self._load(1)
        return rows[0] if rows else None

    def fetchall(self) -> list[Row]:
        """Returns all rows."""
        return self._load(_ALL)

    @property
    def rowcount(self) -> int:
        """How many rows it concerned."""
        return 0 if self._result is None else self._result.command_tuples or 0

    def _load(self, most: int) -> list[Row]:
        result = self._result
        if result is None or not (count := result.ntuples):
            return []
        forms = self._forms
        forms.set_pgresult(result, format=Format.BINARY)
        return forms.load_rows(0, min(count, most), tuple)


class Line:
    """A connection, what was said on it, and what it is still owed."""

    may_prepare = True
    """Whether servers know a statement again that they were told."""

    def __init__(self, connection: Connection, *, prepares: bool = True, era: int = 0) -> None:
        self.connection, self.pgconn = connection, connection.pgconn
        self.era = era
        self._prepares = prepares
        self.forms: abc.Transformer = Transformer(connection)
        """How the driver reads and writes values."""
        self.since = self.idle_since = time.monotonic()
        self._names: dict[str, bytes] = {}
        """What prepared statements are called; b"" for what was said, and is not prepared."""
        self._prepared = 0
        self._new = list[str]()
        self._awaited = list[Answer]()
        self._is_owed = False
        self._poll = select.poll()
        self._poll.register(self.pgconn.socket, select.POLLIN)
        # From here on, what is said goes out when it is waited for.
        self.pgconn.enter_pipeline_mode()

    def undo(self) -> bool:
        """Undoes what was not committed; False if the connection is of no use any more."""
        for _ in range(_UNDOING):
            if self._is_owed or self._is_idle:
                return True
            with suppress(psycopg.Error):
                self.send("ROLLBACK", None, Answer())
                self.receive()
        return self._is_idle

    @property
    def _is_idle(self) -> bool:
        return not self._awaited and self.pgconn.transaction_status == TransactionStatus.IDLE

    def send(self, query: str, parameters: Parameters | None, answer: Answer) -> None:
        """Hands a statement to libpq, which sends it when it is waited for."""
        (text, wanted), pgconn, name = _positional(query), self.pgconn, self._names.get(query)
        given = parameters or ()
        plain = given if isinstance(given, tuple) else [given[each] for each in wanted]
        values, forms = _dump(self.forms, plain)
        may_prepare = self._prepares and Line.may_prepare
        if name and may_prepare:
            pgconn.send_query_prepared(name, values, forms, _BINARY)
        elif name is None or not may_prepare or self._prepared == _MOST_PREPARED:
            self._names[query] = b""
            pgconn.send_query_params(text, values, _kinds(self.forms, plain), forms, _BINARY)
        else:
            self._prepared += 1
            kinds = _kinds(self.forms, plain)
            self._names[query] = name = _name_of(text, kinds, self._prepared)
            self._new.append(query)
            pgconn.send_prepare(name, text, kinds)
            self._awaited.append(Answer())
            pgconn.send_query_prepared(name, values, forms, _BINARY)
        self._awaited.append(answer)

    def receive(self) -> None:
        """Waits for all answers; raises the first error among them."""
        self.pgconn.pipeline_sync()
        self._collect()

    def owe(self) -> None:
        """Sends what was said; the answers are left to whoever is next."""
        self.pgconn.pipeline_sync()
        self._is_owed = True
        if self.pgconn.flush():
            self._collect()

    def settle(self) -> None:
        """Takes what is owed, or was said and not waited for; raises as `receive` does."""
        if self._is_owed:
            self._collect()
        elif self._awaited:
            self.receive()

    def is_cut(self) -> bool:
        """Says whether the server has closed it, or said something that nobody asked for."""
        return bool(self._poll.poll(0))

    def _collect(self) -> None:
        awaited, new, self._is_owed = self._awaited, self._new, False
        self._awaited, self._new = [], []
        error = self.connection.wait(_receive(self.pgconn, awaited, self.forms))
        if error is not None:
            # Whether they were prepared, nobody can say.
            self._names.update(dict.fromkeys(new, b""))
            if isinstance(error, UNKNOWN_THERE):
                Line.may_prepare = False
                self._names.clear()
            raise error


class Lines:
    """Connections to one database; any number of threads may take one.

    How many of them at a time is the caller's to see to. Each is waited for until `timeout`
    seconds have passed since whoever needs it began to wait.
    """

    def __init__(
        self, reach: Reach, *, timeout: float, prepares: bool = True, begins: bool = False
    ) -> None:
        self.timeout = timeout
        self.begins = begins
        """Whether one that writes has to say how it is isolated: usual there is something else."""
        self._reach, self._prepares = reach, prepares
        self._idle = list[Line]()
        """Those that were used last are last."""
        self._guard = threading.Lock()
        self._is_closed = False
        self._open = 0
        self._era = time.monotonic_ns()  # A forked process has eras of its own.
        """Another one as soon as what was known of the database may not be so any more: a
        connection was lost, or there was none. What is reached then may be a standby that lacks the
        last commits."""

    def take(self, *, until: float) -> Line:
        """Lends a connection on which nothing is owed, and which was alive a moment ago."""
        while True:
            with self._guard:
                line = self._idle.pop() if self._idle else None
            if line is None:
                return self._connect(until)
            try:
                line.settle()
                is_alive = not line.is_cut()
            except psycopg.Error:
                is_alive = False
            if is_alive:
                return line
            self._lose(line)

    def give(self, line: Line) -> None:
        """Takes a connection back, in whatever state it is."""
        now, unneeded = time.monotonic(), line
        is_whole = line.undo()
        if not is_whole and line.connection.broken:
            self._lose(line)
            return
        if is_whole and now - line.since < _KEPT_S:
            line.idle_since = now
            with self._guard:
                if not self._is_closed and line.era == self._era:
                    self._idle.append(line)
                    if now - self._idle[0].idle_since < _IDLE_S:
                        return
                    unneeded = self._idle.pop(0)
        self._close([unneeded])

    def _lose(self, line: Line) -> None:
        """Closes one that was found dead, and what is idle: to try each takes as long again."""
        with self._guard:
            self._era += line.era == self._era
            idle, self._idle = self._idle, []
        self._close([line, *idle])

    def _connect(self, until: float) -> Line:
        with self._guard:
            self._era += self._open == 0
            era = self._era
        connection = self._reach.connect(until=until)
        with self._guard:
            self._open += 1
        return Line(connection, prepares=self._prepares, era=era)

    def _close(self, lines: Sequence[Line]) -> None:
        with self._guard:
            self._open -= len(lines)
        for line in lines:
            line.connection.close()

    def close(self) -> None:
        """Closes what is idle now, and what is lent as soon as it comes back."""
        with self._guard:
            self._is_closed = True
            idle, self._idle = self._idle, []
        self._close(idle)
        self._reach.close()


def _receive(
    pgconn: PGconn, awaited: list[Answer], forms: abc.Transformer
) -> Generator[Any, Any, psycopg.Error | None]:
    """Gives each answer what arrives for it; returns the first error, once all is read."""
    failure: psycopg.Error | None = None
    yield from send(pgconn)
    try:
        for answer in awaited:
            result = (yield from fetch_many(pgconn))[-1]
            answer.arrive(result, forms)
            if result.status == ExecStatus.FATAL_ERROR and failure is None:
                failure = error_from_result(result, encoding="utf-8")
        (ended,) = yield from fetch_many(pgconn)
        if ended.status == ExecStatus.FATAL_ERROR:
            # Of what is committed here: the end of the piece comes after its error.
            failure = failure or error_from_result(ended, encoding="utf-8")
            yield from fetch_many(pgconn)
    except psycopg.OperationalError as exc:
        return failure or exc
    return failure


def parameters_of(query: str) -> tuple[str, ...]:
    """Returns the names of a statement's parameters, each once, in the order of their places."""
    return _positional(query)[1]


def with_prefix(query: str, prefix: str) -> str:
    """Returns a statement whose parameters have names that begin so."""
    return _PARAMETER.sub(rf"%({prefix}\1)s", query)


@cache
def _positional(query: str) -> tuple[bytes, tuple[str, ...]]:
    """Returns a statement as the server reads it, and the names of its parameters in order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(query)))
    places = {name: f"${place}" for place, name in enumerate(names, 1)}
    return _PARAMETER.sub(lambda found: places[found[1]], query).encode(), names


def _name_of(text: bytes, kinds: Sequence[int], number: int) -> bytes:
    """Returns what a statement is called: no two different ones are called the same.

    Behind a pooler, what another connection has prepared may be there.
    """
    told = blake2b(text + repr([*kinds]).encode(), digest_size=12)
    return f"holdfast_{told.hexdigest()}_{number}".encode()


_KINDS: Final = {int: _INT8_OID, bytes: _BYTEA_OID, str: 0, NoneType: 0}
"""A number is of the same type whatever its size, so that a statement is prepared once."""

_FORMS: Final = {int: _BINARY, bytes: _BINARY, str: _TEXT, NoneType: _TEXT}
"""A number goes as eight bytes, so that neither side makes or reads digits; all columns of numbers
have as many, also where the statement was prepared without one."""


def _dump(known: abc.Transformer, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
    """Returns values as they are sent, and in which form each is."""
    sent, forms = [*values], [*map(_FORMS.get, map(type, values), repeat(_TEXT))]
    for place, value in enumerate(values):
        # In place: sixty calls take as long as all the rest of it.
        kind = value.__class__
        if kind is int:
            try:
                sent[place] = _to_int8(value)
            except struct.error as exc:
                raise ValueError("a number has 64 bits at the most") from exc
        elif kind is str:
            if "\0" in value:
                raise ValueError("text cannot hold a NUL")
            sent[place] = value.encode()
        elif kind not in _FORMS:
            # What few queries take: a list of keys.
            dumper = known.get_dumper(value, PyFormat.AUTO)
            sent[place], forms[place] = dumper.dump(value), int(dumper.format)
    return sent, forms


def _kinds(known: abc.Transformer, values: Sequence[Any]) -> Sequence[int]:
    """Returns the type of each value, 0 if that shows in the statement."""
    return [
        _KINDS[value.__class__]
        if value.__class__ in _KINDS
        else known.get_dumper(value, PyFormat.AUTO).oid
        for value in values
    ]

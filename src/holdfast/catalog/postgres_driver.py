"""The driver that runs named queries in a talk with PostgreSQL, and what its errors mean."""

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from operator import itemgetter
from typing import Final, LiteralString, NoReturn, cast

import psycopg
from psycopg import errors as pg

from holdfast.catalog.driver import Asked, Guard, KeyedRow, Moment, Several
from holdfast.catalog.postgres_dump import dump_rows
from holdfast.catalog.postgres_lines import (
    Answer,
    Parameters,
    parameters_of,
    with_prefix,
)
from holdfast.catalog.postgres_talk import Talk, Unheard
from holdfast.catalog.rows import Row
from holdfast.catalog.tables import NEEDED
from holdfast.errors import (
    Busy,
    Conflict,
    Damaged,
    HoldfastError,
    InvalidValue,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
    VaultTooNew,
)

_BATCH: Final = 10_000
"""Rows sent in one go: bounds memory on both sides."""

_FEW: Final = 16
"""Rows that are sent one by one, without being waited for."""


class PostgresDriver:
    """Runs named queries in one transaction."""

    is_unheard = False
    follows: Moment = None
    becomes: Moment = None

    def __init__(self, talk: Talk, queries: Mapping[str, str], guard: Guard) -> None:
        self._talk = talk
        # From our own files; LiteralString cannot say so.
        self._queries = cast("Mapping[str, LiteralString]", queries)
        self._guard = guard
        self._ahead: dict[_Question, Answer] = {}

    @property
    def era(self) -> int:
        return self._talk.era

    def asking(self) -> "AskingDriver":
        return AskingDriver(self._talk, self._queries, self._guard, self._ahead)

    def one(self, name: str, /, **parameters: object) -> Row | None:
        with self._guard:
            return self._ask(self._queries[name], parameters).fetchone()

    def all(self, name: str, /, **parameters: object) -> Sequence[Row]:
        with self._guard:
            return self._ask(self._queries[name], parameters).fetchall()

    def all_as_stored(self, name: str, /, **parameters: object) -> Sequence[Row]:
        return self.all(name, **parameters)  # The server lets no text in that is none.

    def run(self, name: str, /, **parameters: object) -> int:
        with self._guard:
            return self._talk.ask(self._queries[name], parameters).rowcount

    def say(self, name: str, /, **parameters: object) -> None:
        with self._guard:
            self._talk.say(self._queries[name], parameters)

    def say_all(self, several: Several, values: Sequence[object], /) -> None:
        with self._guard:
            conditions = self._talk.take_conditions()
            query, values_of = _together(
                several,
                tuple([each for each, _ in conditions]),
                *map(self._queries.__getitem__, several.names),
            )
            for each, named in conditions:
                values = [*values, *map(named.__getitem__, parameters_of(each))]
            self._talk.say(query, values_of(values))

    def insist(self, name: str, /, *, locked: bool = False, **parameters: object) -> None:
        with self._guard:
            query = _insisting(self._queries[name], locked=locked)
            (self._talk.require if locked else self._talk.say)(query, parameters)

    def lock(self, name: str, /, **parameters: object) -> None:
        if not (self._ahead and self._ahead.pop(_question(self._queries[name], parameters), None)):
            self.say(name, **parameters)

    def run_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> int:
        query, total, rest = self._queries[name], 0, iter(rows)
        with self._guard:
            while batch := list(islice(rest, _BATCH)):
                total += self._talk.ask_many(query, batch)
        return total

    def say_many(self, name: str, rows: Iterable[Mapping[str, object]], /) -> None:
        query = self._queries[name]
        with self._guard:
            given = list(rows)
            if len(given) <= _FEW:
                for row in given:
                    self._talk.say(query, row)
                return
        self.run_many(name, given)

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
        query = self._queries[name].replace("= %(key)s", "= ANY (%(keys)s)")
        parameters["keys"] = list(keys)
        with self._guard:
            return self._ask(query, parameters).fetchall()

    def put_rows(self, name: str, rows: Iterable[KeyedRow], /, **parameters: object) -> None:
        names = ("key", "entry", "checksum")
        self.say_many(name, ({**parameters, **dict(zip(names, row, strict=True))} for row in rows))

    def dump(self, path: str, /, *, opened: Callable[[], None]) -> None:
        with self._guard:
            dump_rows(self._talk, path, opened)

    def _ask(self, query: LiteralString, parameters: Parameters) -> Answer:
        if self._ahead:
            question = _question(query, parameters)
            # Who only reads sees one moment: what was asked once is not asked again.
            take = self._ahead.get if self._talk.only_reads else self._ahead.pop
            if (said := take(question, None)) is not None:
                return self._talk.hear(said)
        return self._talk.ask(query, parameters)


class AskingDriver(PostgresDriver):
    """Says questions whose answers another driver takes, once it is asked the same."""

    def __init__(
        self,
        talk: Talk,
        queries: Mapping[str, str],
        guard: Guard,
        ahead: "dict[_Question, Answer]",
    ) -> None:
        super().__init__(talk, queries, guard)
        self._ahead = ahead

    def lock(self, name: str, /, **parameters: object) -> None:
        with self._guard:
            self._say(self._queries[name], parameters)

    def _ask(self, query: LiteralString, parameters: Parameters) -> NoReturn:
        self._say(query, parameters)
        raise Asked

    def _say(self, query: LiteralString, parameters: Parameters) -> None:
        self._ahead[_question(query, parameters)] = self._talk.say(query, parameters)


_Question = tuple[str, str]


def _question(query: str, parameters: Parameters) -> _Question:
    """Returns what two questions have in common that are the same."""
    return query, repr(parameters)


@cache
def _together(
    several: Several, conditions: Sequence[LiteralString], *queries: LiteralString
) -> tuple[LiteralString, Callable[[Sequence[object]], tuple[object, ...]]]:
    """Returns one statement that runs several, and what takes its values out of theirs.

    What is said costs more than what is done. Conditions are questions of the statement itself,
    asked before anything is changed, and if one fails, nothing is. Their values stand last.
    """
    parts = [f"did_{name} AS ({query})" for name, query in zip(several.names, queries, strict=True)]
    names, asked = [*several.columns], list[str]()
    for place, query in enumerate(conditions):
        names += (f"condition_{place}_{name}" for name in parameters_of(query))
        asked.append(f"({with_prefix(query, f'condition_{place}_')})")
    last = f"SELECT {', '.join(asked)}" if asked else queries[-1]
    before = parts if asked else parts[:-1]
    query = cast("LiteralString", f"WITH {', '.join(before)} {last}")
    return query, itemgetter(*map(names.index, parameters_of(query)))


@cache
def _insisting(query: LiteralString, *, locked: bool) -> LiteralString:
    """Returns a statement that fails if a query has no row: nobody waits to be told."""
    found = f"{query} FOR UPDATE" if locked else query
    return f"WITH found AS ({found}) SELECT 1 / COUNT(*) FROM found"  # noqa: S608 - our own query


def to_error(exc: BaseException) -> HoldfastError | None:
    """Returns our error for one of PostgreSQL's, the driver's or the pool's."""
    is_refused = isinstance(exc, psycopg.ProgrammingError) and exc.sqlstate is None
    if is_refused or isinstance(exc, ValueError):
        # By the driver, before the server saw it.
        return InvalidValue(f"the catalog cannot hold this value: {exc}")
    if isinstance(exc, pg.InvalidTextRepresentation) and (found := _NEWER.search(str(exc))):
        return VaultTooNew("the catalog", found=int(found[1]), known=int(found[2]))
    for kind, error in _ERRORS:
        if isinstance(exc, kind):
            return error(f"the database answered: {exc}")
    return None


CHECK_FORMAT: Final = f"""
SELECT ('format ' || MAX(number) || ' above ' || %(known)s::INTEGER)::INTEGER
FROM holdfast.migrations WHERE number > %(known)s HAVING MAX({NEEDED}) > %(known)s
"""  # noqa: S608 - our own
"""Said first by who writes: fails if a newer version has changed the tables since they were
opened. Its answer is not waited for, so the number comes with what PostgreSQL complains of. No
format needs one above itself: mostly there is no row to look at."""

_NEWER: Final = re.compile(r"format (\d+) above (\d+)")

_ERRORS: Final[Sequence[tuple[type[Exception], type[HoldfastError]]]] = (
    (Unheard, OutcomeUnknown),
    (pg.DiskFull, StorageFull),
    (pg.OutOfMemory, StorageFull),
    (pg.SerializationFailure, Busy),
    (pg.DeadlockDetected, Busy),
    (pg.LockNotAvailable, Busy),
    # By which `insist` fails: nothing else divides.
    (pg.DivisionByZero, Busy),
    # Prepared on another server's connection, by a pooler between us: not again.
    (pg.InvalidSqlStatementName, Busy),
    (pg.DuplicatePreparedStatement, Busy),
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

"""The tables of a catalog, written once, and the way to them from older ones.

`sql/schema.sql` has the tables as both databases have them: each one's own text is made of it
here, and `sql/<dialect>/tables.sql` adds what only one of them has. What a later format changes is
a numbered file in `sql/migrations`, and one more, `<name>.<dialect>.sql`, where a database needs
something of its own; the first of these leads from the oldest format to `schema.sql`. An opener
that holds the catalog's lock applies what is missing, all of it in one transaction: the tables
where there are none, and the migrations that a catalog lacks.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.catalog.rows import Row
from holdfast.catalog.sealing import Run, seal_all
from holdfast.errors import Damaged, VaultTooNew, VaultTooOld, shorten
from holdfast.instants import to_us

_SQL: Final = Path(__file__).with_name("sql")
"""Beside this file; `importlib.resources` would find it too, and takes 20 ms to load."""

OLDEST_FORMAT: Final = 15
"""The oldest that is carried on. Those between it and the first step were never released."""

_OLDEST_NAME: Final = "0015_writers"

_THEN: Final = {30: seal_all}

_COMMENT: Final = re.compile(r"--[^\n]*")
_MAKE: Final = re.compile(r"MAKE (\w+)")
_MADE: Final = re.compile(r"CREATE (?:UNIQUE )?(?:TABLE|VIEW|INDEX) (\w+)(?:\s+ON (\w+))?")
_WORD: Final = re.compile(r"\b(?:INTEGER|TEXT|BYTES|IDENTITY)\b")
_WORDS: Final = {
    "sqlite": {
        "INTEGER": "INTEGER",
        "TEXT": "TEXT",
        "BYTES": "BLOB",
        "IDENTITY": "INTEGER PRIMARY KEY AUTOINCREMENT",
    },
    "postgres": {
        "INTEGER": "BIGINT",
        "TEXT": 'TEXT COLLATE "C"',
        "BYTES": "BYTEA",
        "IDENTITY": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    },
}


class Migration(msgspec.Struct, frozen=True):
    """One numbered step to a set of tables: from an older one, or the first from nothing."""

    number: int
    name: str
    statements: tuple[str, ...]
    then: Callable[[Run], None] | None = None
    """What is done with the rows after these, where that takes more than a statement."""


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Returns the steps from the oldest format, in order; the first leads to `schema.sql`."""
    names = sorted(path.stem for path in (_SQL / "migrations").glob("????_*.sql"))
    return tuple(
        Migration(
            number=int(name[:4]),
            name=name,
            statements=_read_step(name, dialect),
            then=_THEN.get(int(name[:4])),
        )
        for name in names
        if "." not in name
    )


@cache
def load_tables(dialect: str) -> tuple[Migration, ...]:
    """Returns what makes the tables where there are none: those of `schema.sql`, and what follows.

    The step that leads to these from the oldest format is none of them, but has given its name.
    """
    first, *later = load_migrations(dialect)
    made = ("CREATE SCHEMA holdfast",) if dialect == "postgres" else ()
    made += _read_schema(dialect)
    return (Migration(number=first.number, name=first.name, statements=made), *later)


def load_tables_of(number: int, dialect: str) -> tuple[Migration, ...]:
    """Returns what makes the tables of a format that is carried on, for rows that were in them."""
    first, *later = load_tables(dialect)
    if number == OLDEST_FORMAT:
        back = _read_own(f"{dialect}/oldest.sql")
        return (first, Migration(number=number, name=_OLDEST_NAME, statements=back))
    return (first, *(each for each in later if each.number <= number))


def newest_format() -> int:
    """Returns the number of the newest format that this version knows."""
    return load_migrations("sqlite")[-1].number


def missing_migrations(
    dialect: str, *, applied: Sequence[tuple[int, str]]
) -> tuple[Migration, ...]:
    """Returns what an opener has yet to apply, given the numbers and names of what was.

    Raises `VaultTooNew` or `VaultTooOld` for a format that it does not know, and `Damaged` for
    what no version has applied.
    """
    if not applied:
        return load_tables(dialect)
    found, migrations = sorted(applied), load_migrations(dialect)
    number, name = found[-1]
    check_format("the catalog", found=number)
    if number == OLDEST_FORMAT:
        done = 0
        is_ours = name == _OLDEST_NAME and [n for n, _ in found] == [*range(1, number + 1)]
    else:
        done = len(found)
        is_ours = found == [(each.number, each.name) for each in migrations[:done]]
    if not is_ours:
        message = f"no version has made a catalog of {len(found)} steps up to {shorten(name)}"
        raise Damaged(message)
    return migrations[done:]


def check_format(what: str, *, found: int) -> None:
    """Raises `VaultTooNew` or `VaultTooOld` if a format is none that this version knows."""
    first, newest = load_migrations("sqlite")[0].number, newest_format()
    if found > newest:
        raise VaultTooNew(what, found=found, known=newest)
    if found < first and found != OLDEST_FORMAT:
        raise VaultTooOld(what, found=found, known=OLDEST_FORMAT)


def split_statements(text: str) -> tuple[str, ...]:
    """Returns the statements of a script; none of ours has a semicolon inside."""
    plain = _COMMENT.sub("", text)
    return tuple(part.strip() for part in plain.split(";") if part.strip())


Step = Callable[[str], None]
"""Called before each statement of a migration; a test makes it die there."""


def no_step(_statement: str, /) -> None:
    """Goes on: the step of an ordinary opener."""


def apply(migrations: Sequence[Migration], run: Run, *, step: Step) -> None:
    """Applies what is missing, up to the end of the transaction in which `run` runs it."""

    def run_after_step(statement: str, values: Sequence[Any]) -> Sequence[Row]:
        step(statement)
        return run(statement, values)

    for migration in migrations:
        for statement in migration.statements:
            run_after_step(statement, ())
        if migration.then is not None:
            migration.then(run_after_step)
        done = (migration.number, migration.name, to_us(datetime.now(tz=UTC)))
        run("INSERT INTO migrations VALUES (?, ?, ?)", done)
    step("COMMIT")


def _read(path: str, dialect: str) -> tuple[str, ...]:
    """Returns the statements of a file that is for both databases."""
    text = (_SQL / path).read_text("utf-8")
    return tuple(_translate(statement, dialect) for statement in split_statements(text))


def _read_own(path: str) -> tuple[str, ...]:
    """Returns the statements of a file that one database needs; none if there is no such file."""
    file = _SQL / path
    return split_statements(file.read_text("utf-8")) if file.exists() else ()


def _read_step(name: str, dialect: str) -> tuple[str, ...]:
    of_both = _read(f"migrations/{name}.sql", dialect)
    own = _read_own(f"migrations/{name}.{dialect}.sql")
    return tuple(each for statement in of_both + own for each in _make(statement, dialect))


@cache
def _read_schema(dialect: str) -> tuple[str, ...]:
    return _read("schema.sql", dialect) + _read_own(f"{dialect}/tables.sql")


def _make(statement: str, dialect: str) -> tuple[str, ...]:
    """Returns what a statement stands for: `MAKE` and a name for what the schema makes of it."""
    asked = _MAKE.fullmatch(statement)
    if asked is None:
        return (statement,)
    made = ((each, _MADE.match(each)) for each in _read_schema(dialect))
    return tuple(each for each, names in made if names and asked[1] in names.groups())


def _translate(statement: str, dialect: str) -> str:
    """Returns a statement in a dialect's own words: what these mean stands in `schema.sql`."""
    text = _WORD.sub(lambda found: _WORDS[dialect][found[0]], statement)
    if not text.startswith("CREATE TABLE"):
        return text
    plain = text.removesuffix(" BY KEY")
    if dialect == "postgres":
        return plain
    return f"{plain} STRICT" if plain == text else f"{plain} STRICT, WITHOUT ROWID"

"""The tables of a catalog, written once, and the way to them from older ones.

`sql/schema.sql` has the tables as both databases have them: each one's own text is made of it
here, and `sql/<dialect>/tables.sql` adds what only one of them has. What a later format changes is
a numbered file in `sql/migrations`, and one more, `<name>.<dialect>.sql`, where a database needs
something of its own. An opener that holds the catalog's lock applies what is missing, all of it in
one transaction: the tables where there are none, and the migrations that a catalog lacks.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from holdfast.catalog.sealing import Run, seal_all
from holdfast.errors import Damaged, VaultTooNew, VaultTooOld, shorten

_SQL: Final = Path(__file__).with_name("sql")
"""Beside this file; `importlib.resources` would find it too, and takes 20 ms to load."""

OLDEST_FORMAT: Final = 15
"""The oldest that is carried on: the last one before the tables were written once."""

_OLDEST_NAME: Final = "0015_writers"

_THEN: Final = {21: seal_all}

_COMMENT: Final = re.compile(r"--[^\n]*")
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
    """Returns the steps that follow the oldest format, in order, without a gap."""
    names = sorted(path.stem for path in (_SQL / "migrations").glob("????_*.sql"))
    return tuple(
        Migration(
            number=int(name[:4]),
            name=name,
            statements=_read(f"migrations/{name}.sql", dialect)
            + _read_own(f"migrations/{name}.{dialect}.sql"),
            then=_THEN.get(int(name[:4])),
        )
        for name in names
        if "." not in name
    )


@cache
def load_tables(dialect: str) -> tuple[Migration, ...]:
    """Returns what makes the tables where there are none: those of `schema.sql`, and what follows.

    The step that leads to these from the oldest format is none of them: it changes no column.
    """
    first, *later = load_migrations(dialect)
    made = ("CREATE SCHEMA holdfast",) if dialect == "postgres" else ()
    made += _read("schema.sql", dialect) + _read_own(f"{dialect}/tables.sql")
    return (Migration(number=first.number, name=first.name, statements=made), *later)


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
    if found > newest_format():
        raise VaultTooNew(what, found=found, known=newest_format())
    if found < OLDEST_FORMAT:
        raise VaultTooOld(what, found=found, known=OLDEST_FORMAT)


def split_statements(text: str) -> tuple[str, ...]:
    """Returns the statements of a script; none of ours has a semicolon inside."""
    plain = _COMMENT.sub("", text)
    return tuple(part.strip() for part in plain.split(";") if part.strip())


Step = Callable[[str], None]
"""Called before each statement of a migration; a test makes it die there."""


def no_step(_statement: str, /) -> None:
    """Goes on: the step of an ordinary opener."""


def _read(path: str, dialect: str) -> tuple[str, ...]:
    """Returns the statements of a file that is for both databases."""
    text = (_SQL / path).read_text("utf-8")
    return tuple(_translate(statement, dialect) for statement in split_statements(text))


def _read_own(path: str) -> tuple[str, ...]:
    """Returns the statements of a file that one database needs; none if there is no such file."""
    file = _SQL / path
    return split_statements(file.read_text("utf-8")) if file.exists() else ()


def _translate(statement: str, dialect: str) -> str:
    """Returns a statement in a dialect's own words: what these mean stands in `schema.sql`."""
    text = _WORD.sub(lambda found: _WORDS[dialect][found[0]], statement)
    if not text.startswith("CREATE TABLE"):
        return text
    plain = text.removesuffix(" BY KEY")
    if dialect == "postgres":
        return plain
    return f"{plain} STRICT" if plain == text else f"{plain} STRICT, WITHOUT ROWID"

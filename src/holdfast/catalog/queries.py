"""Reads the named SQL files, and says which migrations a catalog lacks.

SQL lives in `.sql` files under names, a file for each topic: `sql/<topic>.sql` for what both
databases say the same way, `sql/<dialect>/<topic>.sql` for what they do not. Migrations are
numbered files. An opener that holds the catalog's lock applies those that are missing, all of
them in one transaction.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import Damaged, VaultTooNew, shorten

_SQL: Final = Path(__file__).with_name("sql")
"""Beside this file; `importlib.resources` would find it too, and takes 20 ms to load."""

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")
_COMMENT: Final = re.compile(r"--[^\n]*")


class Migration(msgspec.Struct, frozen=True):
    """One numbered step from an older set of tables to a newer one."""

    number: int
    name: str
    statements: tuple[str, ...]


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Returns every query by its name, in the dialect's own parameter style."""
    queries = dict[str, str]()
    for path in (*_SQL.glob("*.sql"), *(_SQL / dialect).glob("*.sql")):
        queries |= _parse(path.read_text("utf-8"))
    if dialect == "postgres":
        return {name: _PARAMETER.sub(r"%(\1)s", query) for name, query in queries.items()}
    return queries


@cache
def load_migrations(dialect: str) -> tuple[Migration, ...]:
    """Returns the dialect's migrations in order; their numbers are 1, 2, 3 without a gap."""
    folder = _SQL / dialect / "migrations"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return tuple(
        Migration(
            number=int(name.split("_", 1)[0]),
            name=name.removesuffix(".sql"),
            statements=split_statements((folder / name).read_text("utf-8")),
        )
        for name in names
    )


def missing_migrations(
    dialect: str, *, applied: Sequence[tuple[int, str]]
) -> tuple[Migration, ...]:
    """Returns what an opener has yet to apply, given the numbers and names of what was.

    Raises `VaultTooNew` if it knows too little, and `Damaged` for what no version has applied.
    """
    migrations = load_migrations(dialect)
    check_format(dialect, found=max((number for number, _ in applied), default=0))
    for (number, name), known in zip(sorted(applied), migrations, strict=False):
        if (number, name) != (known.number, known.name):
            message = f"the catalog says {number}, {shorten(name)}, where {known.name} was applied"
            raise Damaged(message)
    return migrations[len(applied) :]


def check_format(dialect: str, *, found: int) -> None:
    """Raises `VaultTooNew` if the newest migration that was applied is none of ours."""
    known = len(load_migrations(dialect))
    if found > known:
        raise VaultTooNew("the catalog", found=found, known=known)


def split_statements(text: str) -> tuple[str, ...]:
    """Returns the statements of a script; none of ours has a semicolon inside."""
    plain = _COMMENT.sub("", text)
    return tuple(part.strip() for part in plain.split(";") if part.strip())


Step = Callable[[str], None]
"""Called before each statement of a migration; a test makes it die there."""


def no_step(_statement: str, /) -> None:
    """Goes on: the step of an ordinary opener."""


def _parse(text: str) -> dict[str, str]:
    parts = _NAME.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COMMENT.sub("", body).strip() for name, body in pairs}

"""SQL for tests: run behind a vault's back, and the statements of a migration as steps."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, LiteralString, cast


def run_in(where: Path | str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Runs a statement with `?` for each value in the catalog of a directory or at a URL."""
    if isinstance(where, Path):
        with closing(sqlite3.connect(where / "catalog.sqlite")) as database, database:
            return database.execute(statement, values).fetchall()
    import psycopg  # noqa: PLC0415 - an extra: importing this module needs only the core

    # Chosen by a test; LiteralString cannot say so.
    text = cast("LiteralString", statement.replace("%", "%%").replace("?", "%s"))
    with psycopg.connect(where, options="-c search_path=holdfast") as connection:
        cursor = connection.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def one_of_each(step: Callable[[str], None], *, words: int | None = None) -> Callable[[str], None]:
    """Returns a step for the statements of one transaction that passes on the first of each kind.

    Those are of a kind that are equal, or begin with the same `words`.
    """
    seen = set[str]()

    def step_once(statement: str, /) -> None:
        kind = " ".join(statement.split()[:words])
        if kind not in seen:
            seen.add(kind)
            step(statement)

    return step_once

"""Reads the named SQL files.

SQL lives in `.sql` files under names, a file for each topic: `sql/<topic>.sql` for what both
databases say the same way, `sql/<dialect>/<topic>.sql` for what they do not. In braces stand all
columns of a `Record` (`rows.py`): `{session}` by their names, `{s.session}` those of a table that
the query calls `s`, `{:session}` the parameters that are called so.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.catalog.rows import RECORDS

_SQL: Final = Path(__file__).with_name("sql")
"""Beside this file; `importlib.resources` would find it too, and takes 20 ms to load."""

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")
_COLUMNS: Final = re.compile(r"\{(\w+\.|:)?(\w+)\}")
_COMMENT: Final = re.compile(r"--[^\n]*")


@cache
def load_queries(dialect: str) -> dict[str, str]:
    """Returns every query by its name, in the dialect's own parameter style."""
    queries = dict[str, str]()
    for path in (*_SQL.glob("*.sql"), *(_SQL / dialect).glob("*.sql")):
        queries |= _parse(path.read_text("utf-8"))
    if dialect == "postgres":
        return {name: _PARAMETER.sub(r"%(\1)s", query) for name, query in queries.items()}
    return queries


def _parse(text: str) -> dict[str, str]:
    parts = _NAME.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COLUMNS.sub(_name_all, _COMMENT.sub("", body)).strip() for name, body in pairs}


def _name_all(found: re.Match[str]) -> str:
    before, record = found[1] or "", RECORDS[found[2]]
    return ", ".join(f"{before}{column}" for column in record.columns)

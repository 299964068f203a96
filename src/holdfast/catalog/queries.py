"""Reads the named SQL files.

SQL lives in `.sql` files under names, a file for each topic: `sql/<topic>.sql` for what both
databases say the same way, `sql/<dialect>/<topic>.sql` for what they do not. In braces stand all
columns of a `Record` (`rows.py`): `{session}` by their names, `{s.session}` those of a table that
the query calls `s`, `{:session}` the parameters that are called so. `{now}` is the microsecond that
the database's own clock shows: those of its users may differ. `{part}` is a number of the
connection's, below 64: two that write at once mostly have two. With SQLite, where writers take
turns, one is enough. `{timeline}` is the number of the timeline that the database writes on: a
replica that is promoted begins another. NULL where there is none, or nobody says it.
"""

import re
from functools import cache
from typing import Final

from holdfast.catalog.orphans import orphan_queries
from holdfast.catalog.rows import RECORDS
from holdfast.catalog.tables import COMMENT, SQL, load_tables

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<!:):(\w+)")
_COLUMNS: Final = re.compile(r"\{(\w+\.|:)?(\w+)\}")
TIMELINE: Final = (
    # A replica, which has none of its own yet, would refuse to say where it writes.
    "CASE WHEN NOT pg_is_in_recovery() THEN"
    " ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END"
)
_NO_TIMELINE: Final = "CAST(NULL AS BIGINT)"

_WORDS: Final = {
    "sqlite": {
        "{now}": "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
        "{part}": "0",
        "{timeline}": _NO_TIMELINE,
    },
    "postgres": {
        "{now}": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
        "{part}": "MOD(pg_backend_pid(), 64)",
        "{timeline}": TIMELINE,
    },
}
"""What each database has a word of its own for."""
_MADE: Final = re.compile(r"CREATE TABLE (\w+)")


@cache
def load_queries(dialect: str, *, tells_timeline: bool = True) -> dict[str, str]:
    """Returns every query by its name, in the dialect's own parameter style.

    Some databases that are managed do not say on which timeline they are: `tells_timeline`.
    """
    words = _WORDS[dialect]
    if not tells_timeline:
        words = {**words, "{timeline}": _NO_TIMELINE}
    queries = {**orphan_queries()}
    for path in (*SQL.glob("*.sql"), *(SQL / dialect).glob("*.sql")):
        text = path.read_text("utf-8")
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        queries |= _parse(text)
    if dialect == "postgres":
        return {name: _of_postgres(query) for name, query in queries.items()}
    return queries


def _of_postgres(query: str) -> str:
    """Returns a query with parameters as the driver has them, and names that lead to our schema.

    Wherever it is asked: what a connection was told before belongs to no transaction, and behind a
    pooler to somebody else.
    """
    return in_schema(_PARAMETER.sub(r"%(\1)s", query))


def in_schema(query: str) -> str:
    """Returns a query of PostgreSQL's whose tables are named with their schema."""
    return _table().sub(r"\1holdfast.\2", query)


@cache
def _table() -> re.Pattern[str]:
    made = (_MADE.match(each) for step in load_tables("postgres") for each in step.statements)
    names = "|".join(sorted({found[1] for found in made if found}))
    return re.compile(rf"\b((?:FROM|JOIN|INTO|UPDATE|USING|TABLE)\s+)({names})\b")


def _parse(text: str) -> dict[str, str]:
    parts = _NAME.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _COLUMNS.sub(_name_all, COMMENT.sub("", body)).strip() for name, body in pairs}


def _name_all(found: re.Match[str]) -> str:
    before, record = found[1] or "", RECORDS[found[2]]
    return ", ".join(f"{before}{column}" for column in record.columns)

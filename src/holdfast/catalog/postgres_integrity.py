"""Whether the indexes of a PostgreSQL catalog agree with its tables.

Where the extension `amcheck` is there, it is asked. Where it is not, each index is read from end
to end, and so is its table: both have to say the same.
"""

from typing import Any, Final, LiteralString, cast

import psycopg
from psycopg import sql

Connection = psycopg.Connection[tuple[Any, ...]]

_INDEXES: Final = """
SELECT c.relname, t.relname, pg_get_expr(i.indpred, i.indrelid),
    ARRAY(SELECT pg_get_indexdef(i.indexrelid, k, true)
          FROM generate_series(1, i.indnkeyatts) AS k)
FROM pg_index i
JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid
JOIN pg_am a ON a.oid = c.relam
WHERE c.relnamespace = 'holdfast'::regnamespace AND a.amname = 'btree' ORDER BY c.relname
"""

_CHECK: Final = (
    "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace"
    " WHERE e.extname = 'amcheck'"
)

_BY_TABLE: Final = ("enable_seqscan",)
_BY_INDEX: Final = ("enable_indexscan", "enable_indexonlyscan")
_WAYS: Final = (*_BY_TABLE, *_BY_INDEX, "enable_bitmapscan", "enable_sort")

_TOGETHER: Final = 16
"""Indexes that are asked for at once: the way to the server and back is most of what they cost."""


def find_faults(connection: Connection) -> dict[str, str]:
    """Returns the indexes that do not agree with their tables, and why."""
    extension = connection.execute(_CHECK).fetchone()
    faults, unasked = dict[str, str](), dict[str, str]()
    for index, table, condition, columns in connection.execute(_INDEXES).fetchall():
        reason = None if extension is None else _ask(connection, extension[0], index)
        if reason is None:
            unasked[index] = _sums(table, condition, columns)
        elif reason:
            faults[index] = reason
    names = list(unasked)
    for at in range(0, len(names), _TOGETHER):
        for index in _compare(connection, {name: unasked[name] for name in names[at:][:_TOGETHER]}):
            faults[index] = "it does not hold the rows that its table does"
    return faults


def rebuild(connection: Connection, index: str) -> None:
    """Makes an index anew; one that cannot be, as two rows have one key, stays as it is."""
    name = sql.Identifier("holdfast", index)
    try:
        connection.execute(sql.SQL("REINDEX INDEX {}").format(name))
    except psycopg.errors.IntegrityError:
        return


def _ask(connection: Connection, schema: str, index: str) -> str | None:
    """Returns what `amcheck` says: nothing, if all is well; None if we may not ask it."""
    check = sql.SQL("SELECT {}(%s::regclass, true)").format(
        sql.Identifier(schema, "bt_index_check")
    )
    try:
        connection.execute(check, (f"holdfast.{index}",))
    except psycopg.errors.InsufficientPrivilege:
        return None
    except (psycopg.errors.InternalError, psycopg.errors.DataError) as exc:
        return str(exc).splitlines()[0]
    return ""


def _sums(table: str, condition: str | None, columns: list[str]) -> str:
    """Returns what sums up the columns of an index as the table has them, and as the index has."""
    # As the database itself writes them: names and expressions of ours.
    listed = ", ".join(columns)
    where = f" WHERE {condition}" if condition else ""
    rows = f"SELECT {listed} FROM holdfast.{table}{where} ORDER BY {listed}"  # noqa: S608 - the same
    summed = f"SELECT COUNT(*), COALESCE(SUM(hashtextextended(f::text, 0)), 0) FROM ({rows}) AS f"  # noqa: S608 - the same
    statements = ["BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"]
    for allowed in (("enable_sort", *_BY_TABLE), _BY_INDEX):
        statements += (f"SET LOCAL {way} = {'on' if way in allowed else 'off'}" for way in _WAYS)
        statements.append(summed)
    return "; ".join([*statements, "COMMIT"])


def _compare(connection: Connection, sums: dict[str, str]) -> list[str]:
    """Returns those of some indexes that do not hold the rows that their tables do.

    As one message: there are many indexes, and most hold little. Each has a moment of its own.
    """
    answers = connection.execute(cast("LiteralString", "; ".join(sums.values())))
    found = list[tuple[Any, ...] | None]()
    while True:
        if answers.description is not None:
            found.append(answers.fetchone())
        if not answers.nextset():
            break
    pairs = zip(sums, found[::2], found[1::2], strict=True)
    return [index for index, by_table, by_index in pairs if by_table != by_index]

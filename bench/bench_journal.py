"""What a large journal costs in PostgreSQL: as one table, and in parts by month.

    make bench ONLY=journal
    python bench/bench_journal.py --rows 3000000 --months 24

Rows are made by the database, as long as real ones are, in many chains and in the order of time.
Both forms have the indexes that the catalog has; the one in parts has the instant in its key, since
every unique index needs what tells the parts: it proves no longer that a number is there once.
Rounds of both are interleaved, so that a noisy machine is noisy for both. Then the oldest month
goes: row by row in pieces, and with its part; and once more where every tenth row has to stay.
Then a month's rows are packed as objects are. And first, on both databases, what retention does: an
agent's sessions and snapshots, most of which go, and bytes of the journal before and after.
"""

import argparse
import random
import sqlite3
import statistics
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter as clock
from typing import Any, LiteralString

import msgspec
import psycopg
import zstandard

import holdfast
from holdfast.testing.postgres import PostgresServer

STREAMS = 2_000
MONTH_US = 30 * 24 * 3600 * 1_000_000
PIECE = 1_000
ROUNDS = 300
PACKED = 1_000
FORMS = ("one_table", "in_months")

FILL: LiteralString = """
INSERT INTO {} (
    tenant_id, stream, number, format, kind, id, namespace_id, session_id, agent_id, action,
    resource_type, resource_id, version, actor, created_at, details, salt, previous, hash,
    version_hash
)
SELECT 1, 1 + (n - 1) %% %(streams)s, 1 + (n - 1) / %(streams)s, 1, 'done',
    'trace_' || substr(encode(sha256(n::text::bytea), 'hex'), 1, 28), 1 + (n - 1) %% %(streams)s,
    CASE WHEN n %% 10 < 8 THEN 'ses-' || substr(md5((n / 200000)::text || (n %% 997)), 1, 20) END,
    'agent-' || n %% 50,
    CASE WHEN n %% 10 < 6 THEN 'state.updated' WHEN n %% 10 < 8 THEN 'turn.added'
         ELSE 'snapshot.taken' END,
    CASE WHEN n %% 10 < 8 THEN 'session' ELSE 'snapshot' END, 'res-' || md5(n::text),
    n %% 300, 'key-' || n %% 20, n * (%(months)s * %(month)s / %(rows)s),
    '{{"version":' || n %% 300 || ',"reasoning":"' || md5(n::text) || md5((n + 1)::text) || '"}}',
    decode(md5(n::text), 'hex'), sha256((n - %(streams)s)::text::bytea), sha256(n::text::bytea),
    CASE WHEN n %% 10 < 6 THEN sha256((n + 7)::text::bytea) END
FROM generate_series(1, %(rows)s::bigint) n
"""

INDEXES = (
    "CREATE INDEX ON {} (tenant_id, created_at, stream, number)",
    "CREATE INDEX ON {} (namespace_id, created_at, stream, number, session_id, agent_id, action)",
    """CREATE INDEX ON {} (namespace_id, action, created_at, stream, number)
    WHERE action <> 'state.updated' AND action <> 'turn.added'""",
    """CREATE INDEX ON {} (tenant_id, session_id, created_at, stream, number)
    WHERE session_id IS NOT NULL""",
)

SIZES: LiteralString = """
SELECT SUM(pg_relation_size(c.oid))::BIGINT, SUM(pg_indexes_size(c.oid))::BIGINT
FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
LEFT JOIN pg_class parent ON parent.oid = i.inhparent
WHERE c.relkind = 'r' AND COALESCE(parent.relname, c.relname) = %s
"""

Connection = psycopg.Connection[tuple[Any, ...]]


def make(connection: Connection, rows: int, months: int) -> None:
    """Makes both forms, and fills them."""
    connection.execute("SET search_path = holdfast, public")
    connection.execute("CREATE TABLE one_table (LIKE journal)")
    connection.execute("CREATE TABLE in_months (LIKE journal) PARTITION BY RANGE (created_at)")
    for month in range(months + 1):
        connection.execute(
            f"CREATE TABLE month_{month} PARTITION OF in_months"
            f" FOR VALUES FROM ({month * MONTH_US}) TO ({(month + 1) * MONTH_US})"
        )
    values = {"streams": STREAMS, "months": months, "month": MONTH_US, "rows": rows}
    for form in FORMS:
        began = clock()
        connection.execute(FILL.format(form), values)
        filled = clock()
        key = "tenant_id, stream, number" + (", created_at" if form == "in_months" else "")
        connection.execute(f"ALTER TABLE {form} ADD PRIMARY KEY ({key})")
        for index in INDEXES:
            connection.execute(index.format(form))
        connection.execute(f"VACUUM ANALYZE {form}")
        print(f"{form}: filled in {filled - began:.0f} s, indexed in {clock() - filled:.0f} s")


class Play:
    """One call after the other, of both forms in turn."""

    def __init__(self, connection: Connection, rows: int, months: int) -> None:
        self._connection, self._rows = connection, rows
        self._now = months * MONTH_US
        self._chain = rows // STREAMS
        self._added = dict.fromkeys(FORMS, 0)
        self._draw = random.Random(1)

    def calls(self) -> dict[str, Callable[[str], None]]:
        return {
            "append": self._append,
            "one row by its number": self._point,
            "50 versions with their rows": self._points,
            "1,000 rows of a chain": self._page,
            "50 newest of a namespace": self._newest,
            "50 newest of all": self._newest_of_all,
            "50 newest of a session": self._session,
            "a row by its id": self._by_id,
        }

    def _run(self, query: str, *values: object) -> int:
        return len(self._connection.execute(query, values, prepare=True).fetchall())

    def _append(self, form: str) -> None:
        self._added[form] += 1
        self._now += 1
        stream, number = 1 + self._added[form] % STREAMS, self._chain + 10 + self._added[form]
        self._connection.execute(
            f"INSERT INTO {form} (tenant_id, stream, number, format, kind, id, namespace_id,"
            " session_id, agent_id, action, actor, created_at, details, salt, previous, hash)"
            " SELECT 1, %s, %s, format, kind, id, namespace_id, session_id, agent_id, action,"
            " actor, %s, details, salt, previous, hash FROM journal_row",
            (stream, number, self._now),
            prepare=True,
        )

    def _drawn(self) -> tuple[int, int]:
        return self._draw.randint(1, STREAMS), self._draw.randint(1, self._chain)

    def _point(self, form: str) -> None:
        query = f"SELECT * FROM {form} WHERE tenant_id = 1 AND stream = %s AND number = %s"
        assert self._run(query, *self._drawn()) == 1

    def _points(self, form: str) -> None:
        stream, number = self._drawn()
        numbers = [1 + (number + 7 * each) % self._chain for each in range(50)]
        query = (
            f"SELECT t.* FROM unnest(%s::bigint[]) v LEFT JOIN {form} t"
            " ON t.tenant_id = 1 AND t.stream = %s AND t.number = v"
        )
        assert self._run(query, numbers, stream) == len(numbers)

    def _page(self, form: str) -> None:
        query = (
            f"SELECT * FROM {form} WHERE tenant_id = 1 AND stream = %s AND number > %s"
            " ORDER BY number LIMIT 1000"
        )
        self._run(query, self._draw.randint(1, STREAMS), 0)

    def _newest(self, form: str) -> None:
        query = (
            f"SELECT * FROM {form} WHERE namespace_id = %s AND created_at >= 0"
            " AND (created_at, stream, number) < (%s, 0, 0)"
            " ORDER BY created_at DESC, stream DESC, number DESC LIMIT 50"
        )
        self._run(query, self._draw.randint(1, STREAMS), 2**62)

    def _newest_of_all(self, form: str) -> None:
        query = (
            f"SELECT * FROM {form} WHERE tenant_id = 1 AND created_at >= 0"
            " AND (created_at, stream, number) < (%s, 0, 0)"
            " ORDER BY created_at DESC, stream DESC, number DESC LIMIT 50"
        )
        assert self._run(query, 2**62) == 50

    def _session(self, form: str) -> None:
        found = self._connection.execute(
            "SELECT session_id FROM one_table WHERE tenant_id = 1 AND stream = %s AND number = %s",
            self._drawn(),
            prepare=True,
        ).fetchone()
        query = (
            f"SELECT * FROM {form} WHERE tenant_id = 1 AND session_id = %s AND created_at >= 0"
            " AND (created_at, stream, number) < (%s, 0, 0)"
            " ORDER BY created_at DESC, stream DESC, number DESC LIMIT 50"
        )
        self._run(query, found and found[0], 2**62)

    def _by_id(self, form: str) -> None:
        stream, number = self._drawn()
        at = ((number - 1) * STREAMS + stream) * (self._now // self._rows)
        query = f"SELECT * FROM {form} WHERE tenant_id = 1 AND created_at = %s AND id = 'x'"
        self._run(query, at)


def measure(connection: Connection, rows: int, months: int) -> None:
    """Prints what calls take."""
    connection.execute(
        "CREATE TABLE journal_row AS SELECT * FROM one_table WHERE stream = 7 AND number = 7"
    )
    play = Play(connection, rows, months)
    print("\n| | one table | in months |\n|---|---|---|")
    for name, call in play.calls().items():
        times: dict[str, list[float]] = {form: [] for form in FORMS}
        for _ in range(ROUNDS):
            for form in FORMS:
                began = clock()
                call(form)
                times[form].append(clock() - began)
        shown = " | ".join(f"{statistics.median(times[form]) * 1e6:,.0f} µs" for form in FORMS)
        print(f"| {name} | {shown} |")


def sizes_of(connection: Connection, form: str) -> tuple[int, int]:
    found = connection.execute(SIZES, (form,)).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def timed(connection: Connection, query: str, *values: object) -> tuple[float, int]:
    began = clock()
    cursor = connection.execute(query, values)
    return clock() - began, cursor.rowcount


def delete_month(connection: Connection, month: int, stays: str = "") -> tuple[float, float, int]:
    """Deletes a month chain by chain; returns seconds in all, of the longest piece, and rows."""
    total = longest = 0.0
    count = 0
    for stream in range(1, STREAMS + 1):
        took, gone = timed(
            connection,
            "DELETE FROM one_table WHERE (tenant_id, stream, number) IN (SELECT tenant_id, stream,"
            " number FROM one_table WHERE tenant_id = 1 AND stream = %s AND created_at < %s"
            f" {stays} ORDER BY number LIMIT {PIECE})",
            stream,
            (month + 1) * MONTH_US,
        )
        total, longest, count = total + took, max(longest, took), count + gone
    return total, longest, count


def let_go(connection: Connection) -> None:
    """Prints what it takes to let go of a month."""
    before = sizes_of(connection, "one_table")
    total, longest, count = delete_month(connection, 0)
    vacuum, _ = timed(connection, "VACUUM one_table")
    print(
        f"\none table: a month of {count:,} rows deleted in {total:.1f} s,"
        f" {total / max(count, 1) * 1e6:.0f} µs a row, the longest piece {longest * 1e3:.0f} ms;"
        f" VACUUM {vacuum:.1f} s"
    )
    again, _ = timed(connection, "VACUUM one_table")
    print(f"VACUUM where nothing is dead: {again * 1e3:.0f} ms")
    print(f"bytes on disk before {sum(before):,}, after {sum(sizes_of(connection, 'one_table')):,}")
    gone, _ = timed(connection, "DROP TABLE month_0")
    print(f"in months: DROP of the part {gone * 1e3:.0f} ms")
    total, longest, count = delete_month(connection, 1, stays="AND mod(number, 10) <> 0")
    vacuum, _ = timed(connection, "VACUUM one_table")
    print(f"one table, where a tenth stays: {count:,} rows in {total:.1f} s; VACUUM {vacuum:.1f} s")
    moved, count = timed(
        connection,
        "WITH stays AS (DELETE FROM month_1 WHERE mod(number, 10) = 0 RETURNING *)"
        " INSERT INTO month_2 SELECT * FROM stays WHERE false",
    )
    print(f"in months, where a tenth stays: to take it out of the part {moved:.1f} s")
    before = sizes_of(connection, "one_table")
    connection.execute(
        "INSERT INTO one_table SELECT tenant_id, stream, number + 1000000, format, kind, id,"
        " namespace_id, session_id, user_id, agent_id, action, resource_type, resource_id, version,"
        " task_id, actor, created_at, details, salt, previous, hash, version_hash, turn_hash, roots"
        " FROM month_3"
    )
    grown = sum(sizes_of(connection, "one_table")) - sum(before)
    print(f"one table, a month more in the room of two that went: grows by {grown:,} bytes")


def pack(connection: Connection) -> None:
    """Prints what rows take in the table, and packed."""
    rows = connection.execute("SELECT * FROM month_5 ORDER BY stream, number LIMIT 100000")
    encode, compress = msgspec.msgpack.Encoder().encode, zstandard.ZstdCompressor(3).compress
    found = rows.fetchall()
    began = clock()
    size = sum(
        len(compress(encode(found[at : at + PACKED]))) for at in range(0, len(found), PACKED)
    )
    took = (clock() - began) / len(found)
    print(f"\npacked with zstd 3, {PACKED} at a time: {size / len(found):.0f} bytes a row,")
    print(f"{took * 1e6:.1f} µs a row")


def live(vault: holdfast.Holdfast, sessions: int) -> None:
    """Plays agents with sessions, snapshots and traces; every tenth session stays."""
    for number in range(sessions):
        agent = vault.namespace(f"agent-{number % 4}")
        session = agent.sessions.create("planner", initial_state={"step": 0})
        for step in range(40):
            agent.sessions.update_state(session.id, {"step": step}, reasoning="as it was planned")
        agent.files.write("plan.md", f"{number}")
        agent.snapshot(f"of {number}")
        for _ in range(10):
            agent.traces.add("looked.around", details={"number": number})
        if number % 10:
            agent.sessions.delete(session.id)


def journal_bytes(place: str | Path) -> tuple[int, int]:
    """Returns the rows of the journal, and its bytes, made anew so that no room is left in it."""
    if isinstance(place, str):
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("VACUUM FULL holdfast.journal")
            found = connection.execute(
                "SELECT COUNT(*), pg_total_relation_size('holdfast.journal') FROM holdfast.journal"
            ).fetchone()
    else:
        with closing(sqlite3.connect(place / "catalog.sqlite")) as file:
            file.execute("VACUUM")
            found = file.execute(
                "SELECT (SELECT COUNT(*) FROM journal), SUM(pgsize) FROM dbstat"
                " WHERE name = 'journal' OR name LIKE 'journal_%'"
            ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def retain(name: str, place: str | Path, folder: Path, sessions: int) -> None:
    """Prints what retention of traces does to a vault."""
    packs = folder / "kept" if isinstance(place, str) else None
    now = datetime.now(tz=UTC)
    with holdfast.open(place, objects=packs) as vault:
        live(vault, sessions)
    rows, size = journal_bytes(place)
    took, times = 0.0, [now]
    limits = holdfast.Limits(keep_traces=timedelta(days=30))
    with holdfast.open(place, objects=packs, clock=lambda: times[-1], limits=limits) as vault:
        for months in (2, 4, 6):
            times.append(now + timedelta(days=31 * months))
            began = clock()
            vault.forget()
            took += clock() - began
            vault.collect()
        report = vault.verify_audit()
        assert report.ok
        assert vault.verify().faults == []
    left, left_size = journal_bytes(place)
    print(
        f"{name}: {rows:,} rows of {size:,} bytes; after retention {left:,} of {left_size:,}, "
        f"{report.forgotten:,} let go, {took / report.forgotten * 1e6:.0f} µs a row"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--retention", action="store_true", help="only what retention does")
    arguments = parser.parse_args()
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        url = server.dsn(server.create_database())
        print()
        retain("PostgreSQL", url, Path(folder), arguments.sessions)
        retain("SQLite", Path(folder) / "vault", Path(folder), arguments.sessions)
        if arguments.retention:
            return
        with psycopg.connect(url, autocommit=True) as connection:
            make(connection, arguments.rows, arguments.months)
            for form in FORMS:
                heap, indexes = (each / arguments.rows for each in sizes_of(connection, form))
                print(f"{form}: {heap:.0f} + {indexes:.0f} bytes a row, heap and indexes")
            measure(connection, arguments.rows, arguments.months)
            let_go(connection)
            pack(connection)


if __name__ == "__main__":
    main()

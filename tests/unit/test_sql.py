"""The SQL files: schema and migrations say the same, and every query is right and used."""

import ast
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.catalog import transaction
from holdfast.catalog.queries import (
    load_migrations,
    load_queries,
    missing_migrations,
    split_statements,
)
from holdfast.errors import Damaged, VaultTooNew
from holdfast.testing.postgres import PostgresServer

SQL = resources.files("holdfast.catalog") / "sql"
DIALECTS = ("sqlite", "postgres")
FILES = sorted(
    path.relative_to(SQL).as_posix()
    for folder in (SQL, SQL / "sqlite", SQL / "postgres")
    for path in folder.glob("*.sql")
    if path.name != "schema.sql"
)

READS_A_WHOLE_TABLE = {"iter_retired", "iter_tenants", "pack_names"}
"""Queries that are meant to."""


SCAN = re.compile(r"SCAN (?!CONSTANT ROW|named\b|needed\b|\w+ VIRTUAL TABLE INDEX (?:1:|0:M))")
"""A list that was given as JSON, the index of words when it is asked for some, and what the same
query has found before (`named`, `needed`) are no table."""


def schema_of(dialect: str) -> tuple[str, ...]:
    return split_statements((SQL / dialect / "schema.sql").read_text("utf-8"))


def migrations_of(dialect: str) -> Iterator[str]:
    for migration in load_migrations(dialect):
        yield from migration.statements


def names_in(file: str) -> list[str]:
    return re.findall(r"^-- name: (\w+)$", (SQL / file).read_text("utf-8"), re.MULTILINE)


def parameters_of(query: str) -> list[str]:
    return [a or b for a, b in re.findall(r"(?<!:):(\w+)|%\((\w+)\)s", query)]


def sqlite_tables(statements: Iterable[str]) -> Sequence[Any]:
    """Returns what SQLite has made of these statements, whatever their layout."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.execute(statement)
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        return sorted((*row[:3], " ".join((row[3] or "").split())) for row in rows)


POSTGRES_TABLES = (
    """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
           a.attstorage, l.collname, pg_get_expr(d.adbin, d.adrelid), c.relkind, c.relpersistence
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'holdfast'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1, 2
    """,
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'holdfast'::regnamespace ORDER BY 1, 2
    """,
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'holdfast' ORDER BY 1",
)


def postgres_tables(server: PostgresServer, statements: Iterable[str]) -> Sequence[Any]:
    """Returns what PostgreSQL has made of these statements, whatever their layout."""
    name = server.create_database()
    options = "-c search_path=holdfast"
    with psycopg.connect(server.dsn(name), options=options) as connection:
        for statement in statements:
            connection.execute(statement)
        tables = [connection.execute(query).fetchall() for query in POSTGRES_TABLES]
    server.drop_database(name)
    assert all(tables)
    return tables


# Schema and migrations


def test_the_migrations_lead_to_the_schema_on_sqlite() -> None:
    assert sqlite_tables(migrations_of("sqlite")) == sqlite_tables(schema_of("sqlite"))


def test_the_migrations_lead_to_the_schema_on_postgres(postgres: PostgresServer) -> None:
    migrated = postgres_tables(postgres, migrations_of("postgres"))
    assert migrated == postgres_tables(postgres, schema_of("postgres"))


CHANGES = [
    "CREATE INDEX more ON packs (created_at)",
    "DROP INDEX namespaces_live",
    "ALTER TABLE packs ADD COLUMN more BIGINT",
    "ALTER TABLE packs RENAME COLUMN writer TO author",
]


def test_the_comparison_can_fail(postgres: PostgresServer) -> None:
    schema = {name: schema_of(name) for name in DIALECTS}
    tables = sqlite_tables(schema["sqlite"]), postgres_tables(postgres, schema["postgres"])
    for change in CHANGES:
        sqlite = change.replace("BIGINT", "INTEGER")
        assert sqlite_tables([*schema["sqlite"], sqlite]) != tables[0]
        assert postgres_tables(postgres, [*schema["postgres"], change]) != tables[1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_numbered_without_gaps(dialect: str) -> None:
    migrations = load_migrations(dialect)
    assert [migration.number for migration in migrations] == list(range(1, len(migrations) + 1))
    for migration in migrations:
        assert re.fullmatch(r"\d{4}_[a-z_]+", migration.name)
        assert migration.statements


def test_both_dialects_have_the_same_migrations_and_tables() -> None:
    names = [[migration.name for migration in load_migrations(name)] for name in DIALECTS]
    assert names[0] == names[1]
    made = [re.findall(r"CREATE TABLE (\w+)", " ".join(schema_of(name))) for name in DIALECTS]
    assert made[0] == made[1]


def test_an_opener_that_knows_too_little_says_so() -> None:
    migrations = load_migrations("sqlite")
    known = [(each.number, each.name) for each in migrations]
    assert missing_migrations("sqlite", applied=known) == ()
    assert missing_migrations("sqlite", applied=known[:5]) == migrations[5:]
    assert missing_migrations("sqlite", applied=[]) == migrations
    newer = len(known) + 1
    with pytest.raises(VaultTooNew, match=f"has format {newer}"):
        missing_migrations("sqlite", applied=[*known, (newer, "from the future")])


def test_an_opener_takes_no_steps_for_its_own_that_are_not() -> None:
    known = [(each.number, each.name) for each in load_migrations("sqlite")]
    for applied in (
        [*known[:3], (4, "0004_other")],
        [*known[:2], *known[3:]],
        known[1:],
        [(0, "0000_before"), *known],
    ):
        with pytest.raises(Damaged):
            missing_migrations("sqlite", applied=applied)


# Queries


def test_both_dialects_say_the_same_things_their_own_way() -> None:
    in_file = {file: names_in(file) for file in FILES}
    for file, names in in_file.items():
        if file.startswith("sqlite/"):
            assert names == in_file[file.replace("sqlite/", "postgres/")]
    every = [name for file in FILES if not file.startswith("postgres/") for name in in_file[file]]
    assert len(every) == len(set(every))
    assert load_queries("sqlite").keys() == load_queries("postgres").keys() == set(every)


def test_both_dialects_take_the_same_parameters() -> None:
    sqlite, postgres = load_queries("sqlite"), load_queries("postgres")
    for name, query in sqlite.items():
        assert set(parameters_of(query)) == set(parameters_of(postgres[name])), name


def walk_catalog() -> Iterator[ast.AST]:
    """Yields all that stands in the modules that ask queries."""
    for path in Path(transaction.__file__).parent.glob("*.py"):
        yield from ast.walk(ast.parse(path.read_bytes()))


def names_asked_for(*methods: str) -> set[str]:
    """Returns the first argument of every call of a driver's methods."""
    return {
        node.args[0].value
        for node in walk_catalog()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
        and ast.unparse(node.func.value) == "self._db"
        and isinstance(node.args[0], ast.Constant)
    }


def test_every_query_is_used_and_every_name_has_a_query() -> None:
    texts = {node.value for node in walk_catalog() if isinstance(node, ast.Constant)}
    queries = load_queries("sqlite").keys()
    assert queries - texts == set()
    assert names_asked_for("one", "all", "run", "run_many", "by_keys") - queries == set()


def test_what_is_asked_for_many_keys_has_one_place_for_them() -> None:
    asked = names_asked_for("by_keys")
    assert asked
    for name in asked:
        assert load_queries("sqlite")[name].count("= :key") == 1, name
        assert load_queries("postgres")[name].count("= %(key)s") == 1, name


def test_sqlite_understands_every_query_and_reads_no_whole_table_for_it() -> None:
    scans = set()
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in schema_of("sqlite"):
            connection.execute(statement)
        for name, query in load_queries("sqlite").items():
            plan = connection.execute(
                f"EXPLAIN QUERY PLAN {query}", dict.fromkeys(parameters_of(query))
            )
            scans |= {name for row in plan if SCAN.match(row[3])}
    assert scans == READS_A_WHOLE_TABLE


def test_postgres_understands_every_query(postgres_url: str) -> None:
    options = "-c search_path=holdfast"
    with psycopg.connect(postgres_url, options=options) as connection:
        cursor = psycopg.ClientCursor(connection)
        for query in load_queries("postgres").values():
            cursor.execute(f"EXPLAIN {query}", dict.fromkeys(parameters_of(query)))


def test_no_statement_holds_what_the_reader_of_files_takes_for_an_end() -> None:
    """Comments and semicolons are cut out by plain rules: no text in quotes may have them."""
    paths = [*FILES, *(f"{d}/{f}" for d in DIALECTS for f in ("schema.sql",))]
    paths += [f"{d}/migrations/{m.name}.sql" for d in DIALECTS for m in load_migrations(d)]
    for path in paths:
        for line in (SQL / path).read_text("utf-8").splitlines():
            quoted = re.findall(r"'[^']*'", line.split("--")[0])
            assert not any(";" in text for text in quoted), (path, line)
            assert line.split("--")[0].count("'") % 2 == 0, (path, line)

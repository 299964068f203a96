"""The SQL files: the tables are written once, and every query is right and used."""

import ast
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from holdfast.catalog import transaction
from holdfast.catalog.orphans import orphan_queries
from holdfast.catalog.queries import load_queries
from holdfast.catalog.tables import (
    NEEDED,
    OLDEST_FORMAT,
    Migration,
    load_migrations,
    load_tables,
    missing_migrations,
    needed_format,
    newest_format,
)
from holdfast.errors import Damaged, VaultTooNew, VaultTooOld

pytestmark = pytest.mark.usefixtures("made_anew")

SQL = Path(transaction.__file__).with_name("sql")
DIALECTS = ("sqlite", "postgres")
FILES = sorted(
    path.relative_to(SQL).as_posix()
    for folder in (SQL, SQL / "sqlite", SQL / "postgres")
    for path in folder.glob("*.sql")
    if path.name not in ("schema.sql", "tables.sql", "oldest.sql")
)

READS_A_WHOLE_TABLE = {
    *("counted_tenants", "iter_retired", "iter_tenants", "pack_names"),
    "active_tenants",  # Once in a quarter of a minute, by one of all servers.
    "tenants_to_number",  # Of webhooks, of which there are few.
    "chains_to_forget",  # Of chains that it has just gone from one to the next of.
    "count_lags",  # What waits, for who asks a doctor.
    *("measure_deliveries", "measure_inline"),  # Of what is due, and some sums of each tenant.
    "purge_sign_ins",  # Of people, of whom there are few.
    *("count_logins", "purge_logins"),  # Of programs that wait for a person: a thousand at most.
    *("purge_rates", "purge_writers"),  # Of keys with a limit, and of processes: once an hour.
    "has_lost_packs",  # For who would give up bytes that no row names.
    # For who repairs one row that is damaged beyond repair.
    *("drop_changes_of_task", "drop_stray_session", "iter_stray_bytes", "stray_traces"),
    # For who verifies or repairs: a row whose namespace was damaged may be anybody's.
    *("sort_task_changes", "stray_task_changes"),
}
"""Queries that are meant to."""


SCAN = re.compile(
    r"SCAN (?!CONSTANT ROW|named\b|needed\b|\(subquery|\w+ VIRTUAL TABLE INDEX (?:1:|0:M))"
)
"""A list that was given as JSON, the index of words when it is asked for some, and what the same
query has found before (`named`, `needed`, a subquery, whose own lines say how) are no table."""


def tables_of(dialect: str) -> list[str]:
    return [statement for each in load_tables(dialect) for statement in each.statements]


def names_in(file: str) -> list[str]:
    return re.findall(r"^-- name: (\w+)$", (SQL / file).read_text("utf-8"), re.MULTILINE)


def parameters_of(query: str) -> list[str]:
    return [a or b for a, b in re.findall(r"(?<!:):(\w+)|%\((\w+)\)s", query)]


# Tables


def test_both_databases_have_the_tables_of_the_same_files() -> None:
    _, *later = [each for each in sorted(SQL.glob("migrations/*.sql")) if "." not in each.stem]
    text = "".join(path.read_text("utf-8") for path in (SQL / "schema.sql", *later))
    made = [re.findall(r"CREATE TABLE (\w+)", " ".join(tables_of(name))) for name in DIALECTS]
    assert made[0] == made[1] == re.findall(r"^CREATE TABLE (\w+)", text, re.MULTILINE)


def test_a_word_of_the_schema_becomes_what_each_database_calls_it() -> None:
    sqlite, postgres = (" ".join(" ".join(tables_of(name)).split()) for name in DIALECTS)
    assert "CREATE TABLE pending ( namespace_id INTEGER NOT NULL" in sqlite
    assert "CREATE TABLE pending ( namespace_id BIGINT NOT NULL" in postgres
    assert "key BLOB NOT NULL, entry BLOB, sequence INTEGER NOT NULL" in sqlite
    assert "key BYTEA NOT NULL, entry BYTEA, sequence BIGINT NOT NULL" in postgres
    assert "PRIMARY KEY (namespace_id, plane, key) ) STRICT, WITHOUT ROWID CREATE TABLE" in sqlite
    assert "PRIMARY KEY (namespace_id, plane, key) ) CREATE TABLE" in postgres
    assert "CREATE TABLE tenants ( id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT" in sqlite
    assert "CREATE TABLE tenants ( id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY," in postgres
    assert 'name TEXT COLLATE "C" NOT NULL UNIQUE' in postgres
    assert "BYTES" not in sqlite + postgres
    assert "BY KEY" not in sqlite + postgres


def test_all_text_of_postgres_compares_by_its_bytes(postgres_url: str) -> None:
    query = """
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'holdfast' AND data_type = 'text'
          AND collation_name IS DISTINCT FROM 'C'
    """
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute(query).fetchall() == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_migrations_are_numbered_without_gaps(dialect: str) -> None:
    migrations = load_migrations(dialect)
    numbers = [migration.number for migration in migrations]
    assert numbers == [*range(FIRST, newest_format() + 1)]
    for migration in migrations:
        assert re.fullmatch(r"\d{4}_[a-z_]+", migration.name)
        assert migration.statements


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_step_that_makes_a_table_makes_it_as_the_schema_does(dialect: str) -> None:
    schema, (first, *_) = tables_of(dialect), load_migrations(dialect)
    made = [each for each in first.statements if each.startswith("CREATE")]
    assert "CREATE TABLE journal" in " ".join(made)
    assert set(made) <= set(schema)
    assert not any(each.startswith("MAKE") for each in first.statements)


def test_what_one_database_needs_belongs_to_a_migration_of_both() -> None:
    names = {path.name.removesuffix(".sql") for path in (SQL / "migrations").glob("*.sql")}
    for name in names:
        of_both, _, dialect = name.partition(".")
        assert of_both in names
        assert dialect in ("", *DIALECTS)


@pytest.mark.parametrize("each", load_migrations("sqlite"), ids=lambda each: each.name)
def test_a_migration_that_can_stand_beside_others_says_beside_which(each: Migration) -> None:
    is_said = "beside" in each.name
    assert is_said == (needed_format(each.number, each.name) < each.number)
    with closing(sqlite3.connect(":memory:")) as connection:
        query = f"SELECT {NEEDED} FROM (SELECT ? AS number, ? AS name)"
        found = connection.execute(query, (each.number, each.name)).fetchone()
    assert found == (needed_format(each.number, each.name),)


KNOWN = [(each.number, each.name) for each in load_migrations("sqlite")]
FIRST = 30
OLD = [(number, f"{number:04}_x") for number in range(1, OLDEST_FORMAT)]
OLD.append((OLDEST_FORMAT, "0015_writers"))


def test_an_opener_applies_what_is_missing() -> None:
    migrations = load_migrations("sqlite")
    assert missing_migrations("sqlite", applied=[]) == load_tables("sqlite")
    assert missing_migrations("sqlite", applied=OLD) == migrations
    for count in range(1, len(KNOWN) + 1):
        assert missing_migrations("sqlite", applied=KNOWN[:count]) == migrations[count:]


def test_an_opener_that_knows_too_little_says_so() -> None:
    newer = newest_format() + 1
    with pytest.raises(VaultTooNew, match=f"has format {newer}"):
        missing_migrations("sqlite", applied=[*KNOWN, (newer, "from the future")])


@pytest.mark.parametrize("applied", [OLD[:1], OLD[:-1], [(0, "0000_before")], [(-1, "")]])
def test_an_opener_that_knows_no_more_says_so(applied: list[tuple[int, str]]) -> None:
    with pytest.raises(VaultTooOld, match=f"has format {applied[-1][0]};.* from 15") as raised:
        missing_migrations("sqlite", applied=applied)
    assert "Export" in (raised.value.hint or "")


@pytest.mark.parametrize("number", range(OLDEST_FORMAT + 1, FIRST))
def test_an_opener_refuses_a_format_that_was_never_released(number: int) -> None:
    applied = [(each, f"{each:04}_x") for each in range(OLDEST_FORMAT + 1, number + 1)]
    with pytest.raises(VaultTooOld, match=f"has format {number}, which was never released"):
        missing_migrations("sqlite", applied=applied)


@pytest.mark.parametrize(
    "applied",
    [
        [*OLD, *KNOWN],
        [*OLD[:-1], (15, "0015_other")],
        [*OLD[:3], *OLD[4:]],
        [(0, "0000_before"), *OLD],
        [(FIRST, "0030_other"), *KNOWN[1:]],
        [OLD[-1], *KNOWN],
        [(FIRST - 1, "0026_x"), *KNOWN],
    ],
)
def test_an_opener_takes_no_steps_for_its_own_that_are_not(applied: list[tuple[int, str]]) -> None:
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
    every += orphan_queries()  # Which are made of the tables, for both.
    assert load_queries("sqlite").keys() == load_queries("postgres").keys() == set(every)


def test_both_dialects_take_the_same_parameters() -> None:
    sqlite, postgres = load_queries("sqlite"), load_queries("postgres")
    for name, query in sqlite.items():
        assert set(parameters_of(query)) == set(parameters_of(postgres[name])), name


def walk_catalog() -> Iterator[ast.AST]:
    """Yields all that stands in the modules that ask queries."""
    for path in Path(transaction.__file__).parent.glob("*.py"):
        yield from ast.walk(ast.parse(path.read_bytes()))


def asked_for(*methods: str) -> Iterator[ast.expr]:
    """Yields the first argument of every call of a driver's methods."""
    for node in walk_catalog():
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in methods
            and ast.unparse(node.func.value) == "self._db"
        ):
            yield node.args[0]


def names_asked_for(*methods: str) -> set[str]:
    return {str(name.value) for name in asked_for(*methods) if isinstance(name, ast.Constant)}


def made_of(name: ast.JoinedStr) -> re.Pattern[str]:
    """Returns what matches the names that are made of the name of a record."""
    parts = (
        str(part.value) if isinstance(part, ast.Constant) else "[a-z]+" for part in name.values
    )
    return re.compile("".join(parts))


def test_every_query_is_used_and_every_name_has_a_query() -> None:
    texts = {node.value for node in walk_catalog() if isinstance(node, ast.Constant)}
    made = [
        made_of(name)
        for name in asked_for("one", "soon", "all", "all_as_stored", "run")
        if isinstance(name, ast.JoinedStr)
    ]
    queries = load_queries("sqlite").keys()
    # With the names of tables, which have more to them than those of records.
    texts |= {name for name in orphan_queries() if "orphans_of_" in name or "_of_orphans" in name}
    unused = {name for name in queries - texts if not any(one.fullmatch(name) for one in made)}
    assert unused == set()
    assert names_asked_for("one", "all", "run", "run_many", "by_keys") - queries == set()


def test_what_is_asked_for_many_keys_has_one_place_for_them() -> None:
    asked = names_asked_for("by_keys")
    assert asked
    for name in asked:
        assert load_queries("sqlite")[name].count("= :key") == 1, name
        assert load_queries("postgres")[name].count("= %(key)s") == 1, name


def plans(queries: Mapping[str, str]) -> dict[str, list[str]]:
    """Returns what SQLite says of how it would answer some queries."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in tables_of("sqlite"):
            connection.execute(statement)

        def plan(query: str) -> list[str]:
            given = dict.fromkeys(parameters_of(query))
            return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", given)]

        return {name: plan(query) for name, query in queries.items()}


def test_sqlite_understands_every_query_and_reads_no_whole_table_for_it() -> None:
    found = plans(load_queries("sqlite")).items()
    # All rows are looked at for one that refers to nothing.
    found = [(name, plan) for name, plan in found if name not in orphan_queries()]
    assert {name for name, plan in found if any(map(SCAN.match, plan))} == READS_A_WHOLE_TABLE


@pytest.mark.parametrize("name", ["last_done", "chains_to_forget"])
def test_what_was_done_to_one_namespace_is_found_without_reading_all_of_its_tenant(
    name: str,
) -> None:
    plan = plans({name: load_queries("sqlite")[name]})[name]
    assert any("journal_of_action (namespace_id=? AND action=?)" in line for line in plan)
    assert not any(line.endswith("(tenant_id=?)") for line in plan)


def test_postgres_understands_every_query_on_whatever_connection(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        cursor = psycopg.ClientCursor(connection)
        for query in load_queries("postgres").values():
            cursor.execute(f"EXPLAIN {query}", dict.fromkeys(parameters_of(query)))


def test_no_statement_holds_what_the_reader_of_files_takes_for_an_end() -> None:
    """Comments and semicolons are cut out by plain rules: no text in quotes may have them."""
    paths = [path.relative_to(SQL) for path in SQL.rglob("*.sql")]
    assert len(paths) > len(FILES)
    for path in paths:
        for line in (SQL / path).read_text("utf-8").splitlines():
            quoted = re.findall(r"'[^']*'", line.split("--")[0])
            assert not any(";" in text for text in quoted), (path, line)
            assert line.split("--")[0].count("'") % 2 == 0, (path, line)

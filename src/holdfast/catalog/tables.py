"""The tables of a catalog, written once, and the way to them from older ones.

`sql/schema.sql` has the tables as both databases have them: each one's own text is made of it
here, and `sql/<dialect>/tables.sql` adds what only one of them has. What a later format changes is
a numbered file in `sql/migrations`, and one more, `<name>.<dialect>.sql`, where a database needs
something of its own; the first of these leads from the oldest format to `schema.sql`. An opener
that holds the catalog's lock applies what is missing, all of it in one transaction: the tables
where there are none, and the migrations that a catalog lacks.

A migration that only adds, so that a version which does not know it can go on beside one that does,
says so in its name: `0048_more_beside_0047` can be used by whoever knows format 47. So servers are
replaced one by one, and back again ([0105](../../../docs/adr/0105-what-operators-expect.md)).

Carries sessions over from format 15: versions and turns become parts of the journal.

Each version and each turn that is there gets a row of its own at the end of a chain, with its
hash: of its namespace, or of the tenant where it was said somewhere that is gone, or in another
vault. What was done is told already; these rows are of a kind that no list shows. Why a version was
made, and by whom, stands there alone from then on.

Parts the histories of ids that were used again before format 36: until then, who got an id had the
versions of those before it, too.

What a step does never changes: so columns are named here, and not taken from today's.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.catalog.hashing import digest_of, hash_in_parts, hash_of_made, to_seal
from holdfast.catalog.rows import Row
from holdfast.errors import Damaged, VaultTooNew, VaultTooOld, shorten
from holdfast.ids import IdMaker
from holdfast.instants import to_us
from holdfast.model.traces import NO_HASH, OWN, TraceEnd

Run = Callable[[str, Sequence[Any]], Sequence[Row]]
"""Runs a statement with `?` for each parameter; returns the rows of a question."""

_SESSIONS: Final = """
SELECT namespace_id, id, agent_id, user_id, metadata, created_at, updated_at, expires_at, version,
       branch, turns, forked_from, forked_version, is_present, deleted_at
FROM sessions WHERE (namespace_id, id) > (?, ?) ORDER BY namespace_id, id LIMIT 500
"""
_SEAL_SESSION: Final = "UPDATE sessions SET seal = ? WHERE namespace_id = ? AND id = ?"

_VERSIONS: Final = """
SELECT session_id, number, kind, state, bytes, branch, turns, created_at, target, trace_id,
       reasoning, actor
FROM versions WHERE namespace_id = ? AND (session_id, number) > (?, ?)
ORDER BY session_id, number LIMIT 500
"""
_SEAL_VERSION: Final = """
UPDATE versions SET journal = ?, salt = ?, seal = ?
WHERE namespace_id = ? AND session_id = ? AND number = ?
"""

_BRANCHES: Final = """
SELECT id, parent, parent_turns FROM branches WHERE tenant_id = ? AND id > ? ORDER BY id LIMIT 500
"""
_SEAL_BRANCH: Final = "UPDATE branches SET seal = ? WHERE id = ?"

_TURNS: Final = """
SELECT branch, number, id, data, created_at FROM turns WHERE branch = ? AND number > ?
ORDER BY number LIMIT 500
"""
_SEAL_TURN: Final = """
UPDATE turns SET stream = ?, journal = ?, salt = ?, seal = ? WHERE branch = ? AND number = ?
"""

_APPEND: Final = """
INSERT INTO journal
    (format, previous, tenant_id, stream, number, kind, id, namespace_id, session_id, user_id,
     agent_id, action, resource_type, resource_id, version, task_id, actor, created_at,
     details, salt, hash, version_hash, turn_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class _Said(msgspec.Struct):
    """Where a turn was said."""

    namespace_id: int = OWN


def seal_all(run: Run) -> None:
    """Gives every session, version, branch and turn its hash, and drops what it made needless."""
    for (tenant_id,) in run("SELECT id FROM tenants ORDER BY id", ()):
        _Tenant(run, tenant_id).seal()
    for row in _iterate(run, _SESSIONS, after=(-1, ""), key=slice(0, 2)):
        run(_SEAL_SESSION, (to_seal(digest_of(tuple(row))), *row[:2]))
    for column in ("reasoning", "actor"):
        run(f"ALTER TABLE versions DROP COLUMN {column}", ())


class _Tenant:
    """What belongs to one tenant, and where its chains end."""

    def __init__(self, run: Run, tenant_id: int) -> None:
        self._run, self._id = run, tenant_id
        self._ids, self._now = IdMaker(), to_us(datetime.now(tz=UTC))
        own = "SELECT 0, journal_number, journal_hash FROM tenants WHERE id = ?"
        others = "SELECT id, journal_number, journal_hash FROM namespaces WHERE tenant_id = ?"
        found = [*run(own, (tenant_id,)), *run(others, (tenant_id,))]
        self._ends = {row[0]: TraceEnd(row[1], row[2] or NO_HASH) for row in found}

    def seal(self) -> None:
        """Appends a row for each version and turn, and moves the ends of the chains."""
        for namespace_id in sorted(self._ends.keys() - {OWN}):
            first = (namespace_id,)
            for row in _iterate(self._run, _VERSIONS, first, after=("", -1), key=slice(0, 2)):
                self._seal_version(namespace_id, row)
        for row in _iterate(self._run, _BRANCHES, (self._id,), after=("",), key=slice(0, 1)):
            self._run(_SEAL_BRANCH, (to_seal(digest_of((self._id, *row))), row[0]))
            for turn in _iterate(self._run, _TURNS, (row[0],), after=(-1,), key=slice(1, 2)):
                self._seal_turn(turn)
        for stream, end in self._ends.items():
            if end.number:
                move = "UPDATE namespaces SET journal_number = ?, journal_hash = ? WHERE id = ?"
                if stream == OWN:
                    move = "UPDATE tenants SET journal_number = ?, journal_hash = ? WHERE id = ?"
                self._run(move, (end.number, end.hash, stream or self._id))

    def _seal_version(self, namespace_id: int, row: Row) -> None:
        session_id, number, *_, reasoning, actor = row
        salt = self._ids.salt()
        digest = digest_of((namespace_id, *row[:10]), salt)
        told = {} if reasoning is None else {"reasoning": reasoning}
        details = msgspec.json.encode(told).decode()
        about = ("version.kept", "session", session_id, number, None, actor)
        place = self._append(namespace_id, about, details=details, version=digest)
        values = (place, salt, to_seal(digest), namespace_id, session_id, number)
        self._run(_SEAL_VERSION, values)

    def _seal_turn(self, row: Row) -> None:
        branch, number, turn_id, data, _ = row
        salt, stream = self._ids.salt(), _place_of(data)
        stream = stream if stream in self._ends else OWN
        digest = digest_of(tuple(row), salt)
        about = ("turn.kept", "turn", turn_id, None, None, None)
        place = self._append(stream, about, turn=digest)
        self._run(_SEAL_TURN, (stream, place, salt, to_seal(digest), branch, number))

    def _append(
        self,
        stream: int,
        about: tuple[Any, ...],
        *,
        details: str = "{}",
        version: bytes | None = None,
        turn: bytes | None = None,
    ) -> int:
        """Appends a row of the kind `kept` to a chain; returns its number."""
        end, salt = self._ends[stream], self._ids.salt()
        place, of = end.number + 1, None if stream == OWN else stream
        hashed = (1, end.hash, self._id, stream, place, "kept", self._ids.trace(self._now))
        hashed += (of, None, None, None, *about, self._now)
        digest = hash_in_parts(hashed, details, salt, hash_of_made(version, turn))
        self._run(_APPEND, (*hashed, details, salt, digest, version, turn))
        self._ends[stream] = TraceEnd(place, digest)
        return place


_MIXED: Final = """
SELECT DISTINCT v.namespace_id, v.session_id FROM versions v
WHERE v.kind = 'created' AND v.number > 0 AND EXISTS (
    SELECT 1 FROM versions f
    WHERE f.namespace_id = v.namespace_id AND f.session_id = v.session_id
      AND f.number = 0 AND f.kind = 'created'
)
"""
_FIRSTS: Final = """
SELECT v.number, v.created_at, t.agent_id, t.user_id
FROM versions v JOIN namespaces n ON n.id = v.namespace_id
LEFT JOIN journal t
    ON t.tenant_id = n.tenant_id AND t.stream = v.namespace_id AND t.number = v.journal
WHERE v.namespace_id = ? AND v.session_id = ? AND (v.kind = 'created' OR v.number = 0)
ORDER BY v.number
"""
_BROUGHT_BACK: Final = """
SELECT number FROM versions
WHERE namespace_id = ? AND session_id = ? AND kind = 'restore' AND number > ?
ORDER BY number LIMIT 1
"""
_LAST: Final = """
SELECT number, branch, turns, created_at FROM versions
WHERE namespace_id = ? AND session_id = ? AND number < ? ORDER BY number DESC LIMIT 1
"""
_ADD_FORMER: Final = """
INSERT INTO former_sessions
    (namespace_id, id, agent_id, user_id, metadata, created_at, updated_at, expires_at, version,
     branch, turns, forked_from, forked_version, is_present, deleted_at, since, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ONE_SESSION: Final = """
SELECT namespace_id, id, agent_id, user_id, metadata, created_at, updated_at, expires_at, version,
       branch, turns, forked_from, forked_version, is_present, deleted_at
FROM sessions WHERE namespace_id = ? AND id = ?
"""
_SET_SINCE: Final = "UPDATE sessions SET since = ?, seal = ? WHERE namespace_id = ? AND id = ?"


def part_histories(run: Run) -> None:
    """Gives each version of an id that was used again to the session that had the id then.

    What came by a fork or an import began before its first version here, and no row says when:
    snapshots would be asked for another session, and collection would take what they hold for
    spare. Ids of such stay as they are.
    """
    for namespace_id, session_id in run(_MIXED, ()):
        place = (namespace_id, session_id)
        found = run(_ONE_SESSION, place)
        if not found:
            continue
        session, firsts = found[0], [*run(_FIRSTS, place)]
        began_at, (last, *_) = session[5], firsts[-1]
        if firsts[-1][1] != began_at:
            # One of those before has it again: since a restore, of which the first is meant.
            back = run(_BROUGHT_BACK, (*place, last))
            firsts += [(row[0], began_at, None, None) for row in back]
        for first, after in pairwise(firsts):
            since, created_at, agent_id, user_id = first
            version, branch, turns, updated_at = run(_LAST, (*place, after[0]))[0]
            former = (*place, agent_id or "", user_id, "{}", created_at, updated_at, None)
            former += (version, branch, turns, None, None, 0, None, since or None)
            seal = to_seal(digest_of(former if since else former[:-1]))
            run(_ADD_FORMER, (*former, seal))
        since = firsts[-1][0]
        run(_SET_SINCE, (since, to_seal(digest_of((*session, since))), *place))


def _iterate(
    run: Run, query: str, first: tuple[Any, ...] = (), *, after: tuple[Any, ...], key: slice
) -> Iterator[Row]:
    """Yields rows a page at a time; `key` says where a row has what the next page begins after."""
    while page := run(query, (*first, *after)):
        yield from page
        after = tuple(page[-1][key])


def _place_of(data: bytes) -> int:
    try:
        return msgspec.json.decode(data, type=_Said).namespace_id
    except (ValueError, RecursionError):
        return OWN


SQL: Final = Path(__file__).with_name("sql")
"""Beside this file; `importlib.resources` would find it too, and takes 20 ms to load."""

OLDEST_FORMAT: Final = 15
"""The oldest that is carried on. Those between it and the first step were never released."""

_OLDEST_NAME: Final = "0015_writers"

_THEN: Final = {30: seal_all, 36: part_histories}

COMMENT: Final = re.compile(r"--[^\n]*")
_BESIDE: Final = re.compile(r"_beside_([0-9]{4})$")
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
    names = sorted(path.stem for path in (SQL / "migrations").glob("????_*.sql"))
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
    check_applied(applied)
    migrations = load_migrations(dialect)
    found = [each for each in sorted(applied) if each[0] <= migrations[-1].number]
    number, name = found[-1]
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


def needed_format(number: int, name: str) -> int:
    """Returns which format one has to know to use the tables that a migration has left."""
    said = _BESIDE.search(name)
    return number if said is None else int(said[1])


NEEDED: Final = """
CASE WHEN substr(name, length(name) - 11, 8) = '_beside_'
THEN CAST(substr(name, length(name) - 3) AS INTEGER) ELSE number END
"""
"""The same, for a row of `migrations`."""


def check_applied(applied: Sequence[tuple[int, str]]) -> None:
    """Raises `VaultTooNew` or `VaultTooOld` if a catalog is none that this version can use.

    And `Damaged` for a row of another kind than any version writes: SQLite reads what is there.
    """
    if {(each.__class__, name.__class__) for each, name in applied} - {(int, str)}:
        raise Damaged("the migrations of the catalog are not rows that a version has written")
    needed = max(needed_format(*each) for each in applied)
    newest = max(number for number, _ in applied)
    # Told with the number that it has: what it needs is nobody's business who cannot use it.
    check_format("the catalog", found=newest if needed > newest_format() else needed)


def check_format(what: str, *, found: int) -> None:
    """Raises `VaultTooNew` or `VaultTooOld` if a format is none that this version knows."""
    first, newest = load_migrations("sqlite")[0].number, newest_format()
    if found > newest:
        raise VaultTooNew(what, found=found, known=newest)
    if found < first and found != OLDEST_FORMAT:
        raise VaultTooOld(what, found=found, known=OLDEST_FORMAT)


def split_statements(text: str) -> tuple[str, ...]:
    """Returns the statements of a script; none of ours has a semicolon inside."""
    plain = COMMENT.sub("", text)
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
    text = (SQL / path).read_text("utf-8")
    return tuple(_translate(statement, dialect) for statement in split_statements(text))


def _read_own(path: str) -> tuple[str, ...]:
    """Returns the statements of a file that one database needs; none if there is no such file."""
    file = SQL / path
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

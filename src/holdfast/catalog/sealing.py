"""Carries sessions over from format 15: versions and turns become parts of the journal.

Each version and each turn that is there gets a row of its own at the end of a chain, with its
hash: of its namespace, or of the tenant where it was said somewhere that is gone, or in another
vault. What was done is told already; these rows are of a kind that no list shows. Why a version was
made, and by whom, stands there alone from then on.

What a step does never changes: so columns are named here, and not taken from today's.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.catalog.hashing import digest_of, hash_in_parts, hash_of_made, to_seal
from holdfast.catalog.rows import Row
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

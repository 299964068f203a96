"""Who takes part in `bench_sessions.py`: our sessions, and LangGraph's two savers.

Everybody is asked for the same: to keep a new state, to read the newest, to go back to an old
one, to start another conversation from an old one. What a call needs is prepared before it is
timed. A peer is given the whole new state, which its caller holds in memory, and the ids of old
checkpoints; ours is given what changed.

LangGraph's savers have no call for going back or forking. What its graphs do is done here: read
the old checkpoint, and put what it holds as the newest, of the same thread, where values of known
versions need not be put again, or of another one, where they do. The state is one channel.
"""

import contextlib
import importlib
import sqlite3
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from sessions_states import State

import holdfast

SQLITE_OURS: Final = "holdfast, SQLite"
SQLITE_PEER: Final = "SqliteSaver"
POSTGRES_OURS: Final = "holdfast, PostgreSQL"
POSTGRES_PEER: Final = "PostgresSaver"

RIVALS: Final = {SQLITE_OURS: SQLITE_PEER, POSTGRES_OURS: POSTGRES_PEER}
"""Whom each of ours is compared with."""

MODULES: Final = {
    SQLITE_PEER: "langgraph.checkpoint.sqlite",
    POSTGRES_PEER: "langgraph.checkpoint.postgres",
}

INSTALL: Final = ".venv/bin/python -m pip install --editable '.[bench]'"

Call = Callable[[], object]


class Contender(Protocol):
    """What everybody can do; each returns what is to be timed."""

    name: str

    def start(self, thread: str, state: State) -> None: ...
    def updating(self, thread: str, changes: State) -> Call: ...
    def reading(self, thread: str) -> Call: ...
    def rolling_back(self, thread: str, version: int) -> Call: ...
    def forking(self, thread: str, version: int) -> Call: ...
    def state_of(self, thread: str) -> State: ...
    def stored_bytes(self) -> int: ...


@dataclass
class Ours:
    """Sessions of one namespace."""

    name: str
    vault: holdfast.Holdfast
    measure: Callable[[], int]

    @property
    def sessions(self) -> Any:  # noqa: ANN401 - the door's class has no public name
        return self.vault.namespace("agent").sessions

    def start(self, thread: str, state: State) -> None:
        self.sessions.create("bench", session_id=thread, initial_state=state)

    def updating(self, thread: str, changes: State) -> Call:
        sessions = self.sessions
        return lambda: sessions.update_state(thread, changes)

    def reading(self, thread: str) -> Call:
        sessions = self.sessions
        return lambda: sessions.get_state(thread)

    def rolling_back(self, thread: str, version: int) -> Call:
        sessions = self.sessions
        return lambda: sessions.rollback(thread, version)

    def forking(self, thread: str, version: int) -> Call:
        sessions = self.sessions
        return lambda: sessions.fork(thread, version)

    def state_of(self, thread: str) -> State:
        return self.sessions.get_state(thread).state

    def stored_bytes(self) -> int:
        return self.measure()


@dataclass
class Thread:
    """What a caller of a saver holds: the newest state, and the ids of the checkpoints."""

    state: State
    version: str
    ids: list[str] = field(default_factory=list[str])


CHANNEL: Final = "state"


@dataclass
class Peer:
    """A saver of LangGraph, used as its graphs use it."""

    name: str
    saver: Any
    measure: Callable[[], int]
    threads: dict[str, Thread] = field(default_factory=dict[str, Thread])
    forks: int = 0

    def __post_init__(self) -> None:
        self.base: Any = importlib.import_module("langgraph.checkpoint.base")

    def start(self, thread: str, state: State) -> None:
        version = self.saver.get_next_version(None, None)
        self.threads[thread] = Thread(state, version)
        self._putting(thread, state)()

    def updating(self, thread: str, changes: State) -> Call:
        return self._putting(thread, {**self.threads[thread].state, **changes})

    def reading(self, thread: str) -> Call:
        return lambda: self.saver.get_tuple(_config(thread))

    def rolling_back(self, thread: str, version: int) -> Call:
        return self._copying(thread, version, thread)

    def forking(self, thread: str, version: int) -> Call:
        self.forks += 1
        return self._copying(thread, version, f"{thread}-fork-{self.forks}")

    def state_of(self, thread: str) -> State:
        return self.saver.get_tuple(_config(thread)).checkpoint["channel_values"][CHANNEL]

    def stored_bytes(self) -> int:
        return self.measure()

    def _putting(self, thread: str, state: State) -> Call:
        known = self.threads[thread]
        known.version = self.saver.get_next_version(known.version, None)
        known.state = state
        checkpoint = self.base.empty_checkpoint()
        checkpoint["channel_values"] = {CHANNEL: state}
        checkpoint["channel_versions"] = {CHANNEL: known.version}
        parent = known.ids[-1] if known.ids else None
        known.ids.append(checkpoint["id"])
        config, metadata = _config(thread, parent), {"source": "loop", "step": len(known.ids)}
        versions = {CHANNEL: known.version}
        return lambda: self.saver.put(config, checkpoint, metadata, versions)

    def _copying(self, thread: str, version: int, other: str) -> Call:
        known, new = self.threads[thread], self.base.empty_checkpoint()
        source, is_same = _config(thread, known.ids[version]), other == thread
        target = _config(other, known.ids[-1] if is_same else None)
        metadata = {"source": "fork", "step": version}
        if is_same:
            known.ids.append(new["id"])

        def copy() -> None:
            found = self.saver.get_tuple(source).checkpoint
            values, versions = found["channel_values"], found["channel_versions"]
            checkpoint = {**new, "channel_values": values, "channel_versions": versions}
            self.saver.put(target, checkpoint, metadata, {} if is_same else versions)
            if is_same:
                known.state = values[CHANNEL]

        return copy


def _config(thread: str, checkpoint_id: str | None = None) -> dict[str, Any]:
    named = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


@contextlib.contextmanager
def open_sqlite_ours(folder: Path) -> Generator[Contender]:
    with holdfast.open(folder / "vault") as vault:
        yield Ours(SQLITE_OURS, vault, lambda: file_bytes(folder, "vault/catalog.sqlite"))


@contextlib.contextmanager
def open_sqlite_peer(folder: Path) -> Generator[Contender]:
    module = importlib.import_module(MODULES[SQLITE_PEER])
    with module.SqliteSaver.from_conn_string(str(folder / "peer.sqlite")) as saver:
        yield Peer(SQLITE_PEER, saver, lambda: file_bytes(folder, "peer.sqlite"))


@contextlib.contextmanager
def open_postgres_ours(folder: Path, url: str) -> Generator[Contender]:
    with holdfast.open(url, objects=folder / "packs") as vault:
        yield Ours(POSTGRES_OURS, vault, lambda: table_bytes(url) + all_bytes(folder))


@contextlib.contextmanager
def open_postgres_peer(url: str) -> Generator[Contender]:
    module = importlib.import_module(MODULES[POSTGRES_PEER])
    with module.PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield Peer(POSTGRES_PEER, saver, lambda: table_bytes(url))


def file_bytes(folder: Path, name: str) -> int:
    """Returns what is on disk below a folder, its database without free pages and log."""
    with contextlib.closing(sqlite3.connect(folder / name)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return all_bytes(folder)


def all_bytes(folder: Path) -> int:
    found = [path for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in found if not path.name.endswith("-shm"))


def table_bytes(url: str) -> int:
    """Returns the bytes of all tables with their indexes and long values, without dead rows."""
    psycopg = importlib.import_module("psycopg")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        query = (
            "SELECT SUM(pg_total_relation_size(c.oid)) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        )
        return int(connection.execute(query).fetchone()[0])


def describe_syncing(folder: Path) -> str:
    """Says how hard each of the two that use SQLite sees to it that a commit lasts."""
    levels = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
    with contextlib.closing(sqlite3.connect(folder / "syncing.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        # The saver opens its connection so, and leaves the setting alone.
        found = connection.execute("PRAGMA synchronous").fetchone()[0]
    return f"synchronous: ours FULL, SqliteSaver {levels[found]}"


def is_missing(name: str) -> bool:
    """Says whether a peer is not installed, and tells how it can be."""
    try:
        importlib.import_module(MODULES.get(name, "holdfast"))
    except ImportError as error:
        print(f"left out: {name}: {error}. To install it: {INSTALL}")
        return True
    return False

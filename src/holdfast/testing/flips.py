"""Flips bits of a catalog, reads everything after each, and says what came of it.

A vault with a bit of everything is read once as it is. Then one bit is flipped, everything is read
again by the names that users have, and the two are compared: what is read is what was written, or
an error of ours. `bench/soak_bit_flips.py` does this some thousand times, a test some dozens.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, LiteralString, cast

import msgspec
import psycopg

import holdfast
from holdfast import Holdfast
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.model.basics import Size
from holdfast.model.upkeep import Policy
from holdfast.testing.clocks import Watch

LARGE: Final = "notes/large.bin"
_LARGE_BYTES: Final = 300_000
"""More than the catalog keeps inside: its pack lies in the blob store."""

NOW: Final = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)

NAMED, UNSEEN, MISSING, WRONG, RAW = "named", "not visible", "missing", "WRONG", "RAW"
"""What can come of a flip: an error of ours says so; nothing shows; something is said not to be
there; something else is returned than was written; an error that is none of ours."""


class Flip(msgspec.Struct, frozen=True):
    """One flipped bit, where it was, and what came of it."""

    table: str
    where: str
    outcome: str = UNSEEN
    detail: str = ""


def open_at(location: str, objects: Path) -> Holdfast:
    """Opens a vault whose clock goes on with every look at it."""
    where = objects if location.startswith("postgres") else None
    limits = holdfast.Limits(free_floor_bytes=0)
    return holdfast.open(
        location, objects=where, clock=Watch(NOW, step=timedelta(microseconds=1)), limits=limits
    )


def fill(vault: Holdfast) -> None:
    """Puts a bit of everything into a vault."""
    vault.keys.create("ops")
    vault.webhooks.create("https://hooks.example/in", description="all of it")
    for name in ("alice", "bob"):
        agent = vault.namespace(name)
        agent.files.write(LARGE, Random(name).randbytes(_LARGE_BYTES))  # noqa: S311 - no secret
        for each in range(4):
            agent.files.write(f"notes/kept-{each}.md", f"{name} kept this, number {each}\n" * 3)
            agent.store.set("state", f"kept-{each}", {"n": each, "of": name})
        agent.acting_as("planner").snapshot("a first label", reason="before more")
        task = agent.tasks.start("a task of its own", metadata={"why": "to see"})
        agent.files.write("notes/kept-0.md", f"{name} wrote this anew\n")
        agent.tasks.complete(task.id)
        with agent.task("a task that knows what it changes"):
            for each in range(4):
                agent.files.write(f"work/{each}.md", f"{name} made this, number {each}\n")
        agent.pin(agent.snapshot("pinned", reason="for good"))
        agent.schedules.create(every=timedelta(hours=6), label="now and then")
        agent.set_retention(keep_last=50, keep_daily=7)
        for each in range(3):
            made = agent.sessions.create(
                "planner", initial_state={"step": 0, "plan": ["a", "b"]}, user_id=f"u-{each}"
            )
            agent.sessions.add_turn(
                made.id, input="what is next?", output="step one", reasoning="b"
            )
            agent.sessions.update_state(made.id, {"step": 1, "note": "a text of some length"})
            agent.entities.create(
                made.id, entity_type="order", entity_id=f"o-{each}", attributes={"total": each}
            )
            agent.memory.add(f"{name} likes the number {each}", tags=["likes"])
        for each in range(4):
            agent.files.write(f"drafts/pending-{each}.md", f"{name} has yet to keep this {each}\n")
            agent.store.set("state", f"pending-{each}", {"n": each, "yet": "to be kept"})
    vault.namespace("bob").fork("branch")
    look(vault)  # Rows that are written when somebody first asks for them.


def look(vault: Holdfast, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns everything that can be read, by what it is; an error in the place of what is not.

    What is `known` from an earlier look is asked for by its id, whether a list names it or not.
    """
    seen = dict[str, Any]()

    def note(name: str, read: Callable[[], object]) -> object:
        try:
            seen[name] = read()
        except Exception as exc:  # noqa: BLE001 - what is none of ours is looked for, too
            seen[name] = exc
        return seen[name]

    note("namespaces", vault.namespaces)
    note("keys", vault.keys.list)
    hooks = note("webhooks", vault.webhooks.list)
    for of in _ids(hooks if known is None else known["webhooks"]):
        note(f"{of}", lambda of=of: vault.webhooks.get(of))
    note("events", lambda: vault.events.list(limit=1000)[0])
    note("quota", vault.quota)
    for name in ("alice", "bob", "branch"):
        mine = {each.removeprefix(f"{name}: "): was for each, was in (known or {}).items()}
        _look_at(vault, name, lambda what, read, name=name: note(f"{name}: {what}", read), mine)
    return seen


Note = Callable[[str, Callable[[], object]], object]


def _look_at(vault: Holdfast, name: str, note: Note, known: Mapping[str, Any]) -> None:
    agent = vault.namespace(name)
    for folder, kind in (("notes", "kept"), ("drafts", "pending")):
        for each in range(4):
            path, key = f"{folder}/{kind}-{each}.md", f"{kind}-{each}"
            note(path, lambda path=path: agent.files.read(path))
            note(key, lambda key=key: agent.store.get("state", key))
    note(LARGE, lambda: agent.files.read(LARGE))
    note("files", lambda: agent.files.list(recursive=True))
    note("store", lambda: sorted(agent.store.keys("state")))
    # Not how much there is: that is counted loosely, and compared by who verifies.
    note("retention", agent.retention)
    for kind, of_kind, get in (
        ("tasks", agent.tasks.list, agent.tasks.get),
        ("schedules", agent.schedules.list, agent.schedules.get),
        ("entities", agent.entities.list, agent.entities.get),
        ("memories", agent.memory.list, agent.memory.get),
        ("traces", lambda: agent.traces.list(limit=1000), agent.traces.get),
        ("timeline", agent.timeline, agent.get_snapshot),
    ):
        listed = known.get(kind, note(kind, of_kind))
        for of in _ids(listed):
            note(f"{kind} {of}", lambda get=get, of=of: get(of))
    for of in _ids(known.get("tasks", note("tasks", agent.tasks.list))):
        note(f"{of} taken back", lambda of=of: agent.undo(task=of, dry_run=True))
    note("search", lambda: [each.id for each in agent.memory.search("number")])
    found = note("sessions", lambda: sorted(agent.sessions.list(), key=lambda s: s.id))
    for of in _ids(known.get("sessions", found)):
        note(f"{of} state", lambda of=of: agent.sessions.get_state(of))
        note(f"{of} history", lambda of=of: agent.sessions.history(of))
        turns = note(f"{of} turns", lambda of=of: agent.sessions.list_turns(of))
        for turn in _ids(known.get(f"{of} turns", turns)):
            note(turn, lambda of=of, turn=turn: agent.sessions.get_turn(of, turn))
    for snapshot in _ids(known.get("timeline", note("timeline", agent.timeline))):
        note(
            f"{snapshot} files",
            lambda snapshot=snapshot: agent.at(snapshot).files.list(recursive=True),
        )


def _ids(timeline: object) -> Iterator[str]:
    """Yields the ids of what was listed; none of what could not be."""
    for each in cast("list[Any]", timeline) if isinstance(timeline, list) else []:
        yield each.id


def judge(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    """Returns what came of a flip, and where it showed."""
    worst, detail = UNSEEN, ""
    order = (UNSEEN, NAMED, MISSING, WRONG, RAW)
    for name, was in before.items():
        # What is read of something that a list no longer names was judged with the list.
        now = after.get(name, was)
        outcome = _compare(*(_listed(each) for each in (was, now)))
        if order.index(outcome) > order.index(worst):
            worst, detail = outcome, f"{name}: {str(now)[:160]!r} was {str(was)[:160]!r}"
    return worst, detail


_NOTHING: Final = (None, Size(), Policy())
"""What a namespace has that is not there."""


def _listed(value: object) -> object:
    return [*cast("Iterable[object]", value)] if isinstance(value, list | tuple) else value


def _compare(was: object, now: object) -> str:
    if isinstance(now, HoldfastError):
        if isinstance(was, HoldfastError):
            return UNSEEN
        return MISSING if isinstance(now, NotFound | Conflict) else NAMED
    if isinstance(now, Exception):
        return RAW
    if was == now:
        return UNSEEN
    # A row whose key is another one is not found: nothing is returned that was not written.
    if isinstance(was, list) and isinstance(now, list):
        known = cast("list[object]", was)
        return MISSING if all(each in known for each in cast("list[object]", now)) else WRONG
    return MISSING if now in _NOTHING else WRONG


def examine(before: dict[str, Any], flip: Flip, location: str, objects: Path) -> Flip:
    """Opens the vault in which a bit was flipped, reads everything, and judges."""
    try:
        with open_at(location, objects) as vault:
            outcome, detail = judge(before, look(vault, before))
    except HoldfastError as exc:
        outcome, detail = NAMED, f"opening: {type(exc).__name__} {exc}"
    except Exception as exc:  # noqa: BLE001 - the same
        outcome, detail = RAW, f"opening: {exc!r}"
    return Flip(flip.table, flip.where, outcome, detail)


_NEAR_BYTES: Final = 8
"""How far from each other bits are flipped, where more than one is at a time."""


class _Files:
    """The files of a directory, as they are now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bytes = {each: each.read_bytes() for each in self._found()}

    def _found(self) -> list[Path]:
        return [each for each in self._folder.rglob("*") if each.is_file()]

    def put_back(self) -> None:
        """Has them as they were, and no others."""
        for path in self._found():
            if path not in self._bytes:
                path.unlink()
        for path, kept in self._bytes.items():
            if not path.exists() or path.read_bytes() != kept:
                path.write_bytes(kept)


class SqliteFlips:
    """Flips bits in the used bytes of SQLite's file, whose log is empty."""

    def __init__(self, folder: Path, random: Random, *, bits: int = 1) -> None:
        self.location, self.objects, self._random = str(folder), folder / "packs", random
        self._bits = bits
        self._path = folder / "catalog.sqlite"
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._roots = connection.execute(
                "SELECT rootpage, tbl_name FROM sqlite_master WHERE rootpage > 0"
            ).fetchall()
        self._bytes = self._path.read_bytes()
        # What is kept beside it says how far it was.
        self._beside = _Files(folder)
        self._page = int.from_bytes(self._bytes[16:18], "big")
        self._used = [*self._ranges()]

    def _ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yields tables and the ranges of bytes that their pages use."""
        for root, table in [(1, "sqlite_master"), *self._roots]:
            todo = [root]
            while todo:
                number = todo.pop()
                base = (number - 1) * self._page
                page = self._bytes[base : base + self._page]
                at = 100 if number == 1 else 0
                kind, cells = page[at], int.from_bytes(page[at + 3 : at + 5], "big")
                start = int.from_bytes(page[at + 5 : at + 7], "big") or 65536
                head = at + (12 if kind in (2, 5) else 8)
                pointers = [
                    int.from_bytes(page[head + 2 * i : head + 2 * i + 2], "big")
                    for i in range(cells)
                ]
                if kind in (2, 5):
                    todo += [int.from_bytes(page[p : p + 4], "big") for p in pointers]
                    todo.append(int.from_bytes(page[at + 8 : at + 12], "big"))
                yield table, base + at, base + head + 2 * cells
                yield table, base + start, base + self._page

    @property
    def tables(self) -> list[str]:
        """The tables that have rows; indexes go with theirs."""
        return sorted({table for table, _, _ in self._used})

    def flip(self, table: str | None = None) -> Flip:
        """Flips a bit, or several that are near, of a table or of any, in place of those before."""
        used = [each for each in self._used if table in (None, each[0])]
        weights = [end - start for _, start, end in used]
        name, start, end = self._random.choices(used, weights)[0]
        at = self._random.randrange(start, end)
        near = range(8 * at, 8 * min(at + _NEAR_BYTES, end))
        chosen = self._random.sample(near, self._bits)
        changed = bytearray(self._bytes)
        for bit in chosen:
            changed[bit >> 3] ^= 1 << (bit & 7)
        self._write(bytes(changed))
        return Flip(name, ", ".join(f"byte {bit >> 3}, bit {bit & 7}" for bit in chosen))

    def put_back(self) -> None:
        """Puts the file back as it was."""
        self._write(self._bytes)

    def _write(self, data: bytes) -> None:
        for end in ("-wal", "-shm"):
            Path(f"{self._path}{end}").unlink(missing_ok=True)
        self._beside.put_back()
        self._path.write_bytes(data)


class PostgresFlips:
    """Flips bits in the rows of a database, by changing them; no constraint stands in the way."""

    def __init__(self, url: str, objects: Path, random: Random, *, bits: int = 1) -> None:
        self.location, self.objects, self._random = url, objects, random
        self._bits = bits
        self._connection = psycopg.connect(
            url,
            autocommit=True,
            options="-c search_path=holdfast -c session_replication_role=replica",
        )
        self._beside = _Files(objects)
        self._keep()
        query = """SELECT table_name, column_name, is_identity FROM information_schema.columns
            WHERE table_schema = 'holdfast' AND data_type IN ('bigint', 'text', 'bytea')
            AND table_name != 'migrations' ORDER BY 1, ordinal_position"""
        self._cells, weights = list[tuple[str, str]](), list[int]()
        for table, column, identity in self._connection.execute(query).fetchall():
            if identity == "YES":
                self._run(f"ALTER TABLE {table} ALTER COLUMN {column} SET GENERATED BY DEFAULT")
            query = f"SELECT COALESCE(SUM(pg_column_size({column})), 0) FROM {table}"  # noqa: S608 - our own names
            ((size,),) = self._run(query)
            if size:
                self._cells.append((table, column))
                weights.append(int(size))
        self._weights = weights

    def _keep(self) -> None:
        """Copies every table aside, to be put back from there."""
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' ORDER BY 1"
        self._all = [name for (name,) in self._run(query)]
        self._run("CREATE SCHEMA kept")
        for name in self._all:
            self._run(f"CREATE TABLE kept.{name} AS TABLE {name}")

    @property
    def tables(self) -> list[str]:
        """The tables that have rows."""
        return sorted({table for table, _ in self._cells})

    def flip(self, table: str | None = None) -> Flip:
        """Flips bits of one value, of a table or of any, after those before were put back."""
        self.put_back()
        cells = [
            (cell, weight)
            for cell, weight in zip(self._cells, self._weights, strict=True)
            if table in (None, cell[0])
        ]
        while True:
            name, column = self._random.choices([c for c, _ in cells], [w for _, w in cells])[0]
            query = f"SELECT ctid, {column} FROM {name} WHERE {column} IS NOT NULL"  # noqa: S608 - the same
            rows = self._run(query)
            place, old = self._random.choice(rows)
            new, bits = old, list[int]()
            for _ in range(self._bits):
                new, bit = self._flipped(new)
                bits.append(bit)
            if new is None or new == old:
                continue
            set_it = f"UPDATE {name} SET {column} = %s WHERE ctid = %s"  # noqa: S608 - the same
            try:
                self._run(set_it, new, place)
            except psycopg.Error:
                continue  # Two rows of one key, say: no bit on a disk would be refused so.
            return Flip(name, f"{column}, bits {bits}")

    def _flipped(self, old: object) -> tuple[object, int]:
        if old is None:
            return None, 0
        if isinstance(old, int):
            bit = self._random.randrange(64)
            return (old ^ (1 << bit) if bit < 63 else old ^ (-1 << 63)), bit  # noqa: PLR2004 - the sign
        data = bytearray(old.encode() if isinstance(old, str) else cast("bytes", old))
        if not data:
            return None, 0
        bit = self._random.randrange(8 * len(data))
        data[bit >> 3] ^= 1 << (bit & 7)
        if not isinstance(old, str):
            return bytes(data), bit
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None, 0
        return (None if "\0" in text else text), bit

    def put_back(self) -> None:
        """Puts everything back as it was."""
        self._beside.put_back()
        with self._connection.transaction():
            self._run(f"TRUNCATE {', '.join(self._all)}")
            for name in self._all:
                self._run(f"INSERT INTO {name} OVERRIDING SYSTEM VALUE TABLE kept.{name}")

    def close(self) -> None:
        """Ends the connection."""
        self.put_back()
        self._run("DROP SCHEMA kept CASCADE")
        self._connection.close()

    def _run(self, statement: str, *given: object) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(cast("LiteralString", statement), given or None)
        return cursor.fetchall() if cursor.description else []


def flip_in_index(path: Path, key: bytes, *, index: str, before: bool = False) -> None:
    """Flips a bit of a key in the one page of an index of SQLite's: in its last byte.

    With `before`, in the byte that stands before it.
    """
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = connection.execute(query, (index,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    found = path.read_bytes().index(key, (root - 1) * size, root * size)
    flip_in_file(path, found - 1 if before else found + len(key) - 1)


def flip_in_file(path: Path, at: int) -> None:
    """Flips a bit of the byte at a place of a file; a place below 0 counts from its end."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)

"""Small changes of a long state are laid over its map: in rows alone, bounded, and never lost."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest
import zstandard
from msgspec.structs import replace

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.packing import MOST_BYTES, decode_state, packed
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.overlays import (
    LEAST_BYTES,
    SPLICED_BYTES,
    lay,
    settle,
    settle_session,
    texts,
)
from holdfast.engine.vault import Holdfast
from holdfast.entries import (
    Inline,
    Overlay,
    Packed,
    Session,
    Splice,
    Submap,
    decode_entry,
    encode_entry,
)
from holdfast.errors import Damaged
from holdfast.model.basics import Plane
from holdfast.model.sessions import VersionRow
from holdfast.testing.faults import contents

START = datetime(2030, 1, 1, tzinfo=UTC)
LONG = {f"key{number:03d}": f"text {number} " * 10 for number in range(100)}


@dataclass
class World:
    """A vault that is opened anew, with nothing in memory, each time that it is asked for."""

    folder: Path
    now: datetime = START
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)
    catalog: SqliteCatalog | None = None

    @property
    def vault(self) -> Holdfast:
        self.close()
        self.catalog = SqliteCatalog(self.folder)
        limits = Limits(free_floor_bytes=0)
        return Holdfast(Context.of(self.catalog, self.blobs, clock=lambda: self.now, limits=limits))

    def close(self) -> None:
        if self.catalog is not None:
            self.catalog.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with closing(World(tmp_path)) as made:
        yield made


def rows_of(agent: Namespace, session_id: str = "s") -> list[VersionRow]:
    handle = agent._handle
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        return transaction.list_versions(head.namespace_id, session_id, after=-1, most=10_000)


def count_packs(agent: Namespace) -> int:
    handle = agent._handle
    with handle.context.catalog.read() as transaction:
        return len(list(transaction.iter_packs(handle.tenant_id)))


def in_plane(agent: Namespace, session_id: str = "s") -> Session:
    """Returns what the newest snapshot's plane holds for a session."""
    handle = agent._handle
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
    entry, _ = contents(handle.context, head)[Plane.SESSIONS, session_id.encode()]
    assert isinstance(entry, Session)
    return entry


def test_small_changes_of_a_long_state_store_no_objects(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    before = count_packs(agent)
    for number in range(5):
        agent.sessions.update_state("s", {f"key{number:03d}": "new", f"more{number}": number})
    assert count_packs(agent) == before
    assert [type(decode_state(row.state)) for row in rows_of(agent)] == [Submap] + [Overlay] * 5


def test_changes_that_outgrow_their_room_become_a_map_and_rows_stay_small(world: World) -> None:
    agent, rng = world.vault.namespace("agent"), Random(7)
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    expected = [dict(LONG)]
    for number in range(120):
        changes = {f"key{rng.randrange(100):03d}": f"{number} " * 30, "count": number}
        assert agent.sessions.update_state("s", changes).version == number + 1
        expected.append({**expected[-1], **changes})
    rows = rows_of(agent)
    assert max(len(row.state) for row in rows) < LEAST_BYTES + 200
    kinds = [type(decode_state(row.state)) for row in rows]
    assert 5 < kinds.count(Submap) < 40
    vault = world.vault
    sessions = vault.namespace("agent").sessions
    for number, state in enumerate(expected):
        assert sessions.get_state("s", version=number).state == state
    assert vault.verify().ok


def test_of_a_list_that_grows_only_the_new_end_is_written(world: World) -> None:
    agent, messages = world.vault.namespace("agent"), list[str]()
    agent.sessions.create("x", session_id="s", initial_state={"messages": messages, "n": 0})
    for number in range(300):
        messages = [*messages, f"message {number} " * 10]
        agent.sessions.update_state("s", {"messages": messages})
    rows = rows_of(agent)
    assert sum(len(row.state) for row in rows) < 300 * 3000
    assert any(
        isinstance(state := decode_state(row.state), Overlay)
        and isinstance(state.changes["messages"], Splice)
        for row in rows
    )
    vault = world.vault
    sessions = vault.namespace("agent").sessions
    for number in (1, 20, 21, 22, 150, 299, 300):
        found = sessions.get_state("s", version=number).state
        assert found == {"messages": messages[:number], "n": 0}
    assert vault.verify().ok


def test_a_snapshot_holds_the_map_and_equal_states_have_equal_entries(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    agent.sessions.create("x", session_id="t", initial_state={**LONG, "key050": ["changed"] * 99})
    agent.sessions.update_state("s", {"key050": ["changed"] * 50})
    agent.sessions.update_state("s", {"key050": ["changed"] * 99})
    assert isinstance(decode_state(in_plane(agent).state), Overlay)
    now = agent.snapshot("now")
    assert isinstance(decode_state(in_plane(agent).state), Submap)
    assert in_plane(agent).state == in_plane(agent, "t").state
    vault = world.vault
    assert vault.verify().ok
    assert vault.namespace("agent").at(now.id).sessions.get_state("s").state["key050"][98:] == [
        "changed"
    ]


def test_a_change_and_its_opposite_leave_no_difference(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    first = agent.snapshot("first")
    agent.sessions.update_state("s", {"key001": "x"})
    agent.sessions.update_state("s", {"key001": LONG["key001"]})
    second = agent.snapshot("second")
    assert not agent.diff(first.id, second.id).items


def test_going_back_to_an_overlay_and_forking_it_bring_its_state(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    agent.sessions.update_state("s", {"key001": "one"})
    one = agent.snapshot("one")
    agent.sessions.update_state("s", {"key001": "two", "more": 1})
    assert agent.sessions.rollback("s", 1).state == {**LONG, "key001": "one"}
    fork = agent.sessions.fork("s", 2)
    agent.sessions.update_state(fork.id, {"key002": "three"})
    agent.restore(one.id)
    vault = world.vault
    sessions = vault.namespace("agent").sessions
    assert sessions.get_state("s").state == {**LONG, "key001": "one"}
    vault.namespace("agent").undo()
    found = sessions.get_state(fork.id).state
    assert found == {**LONG, "key001": "two", "key002": "three", "more": 1}
    assert vault.verify().ok


def test_a_collection_keeps_the_map_that_only_an_overlay_names(world: World) -> None:
    vault = world.vault
    agent = vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    agent.sessions.update_state("s", {"key001": "one"})
    fork = agent.sessions.fork("s")
    agent.sessions.delete("s")
    agent.snapshot("holds a map of its own")
    for _ in range(3):
        world.now += timedelta(days=60)
        vault.collect()
    assert [type(decode_state(row.state)) for row in rows_of(agent, fork.id)] == [Overlay]
    assert not rows_of(agent)
    vault = world.vault
    assert vault.namespace("agent").sessions.get_state(fork.id).state == {**LONG, "key001": "one"}
    assert vault.verify().ok


def test_a_fork_of_a_namespace_has_the_states_that_were_laid_over_maps(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    agent.sessions.update_state("s", {"key001": "one"})
    fork = agent.fork("fork")
    assert fork.sessions.update_state("s", {"key002": "two"}).version == 1
    agent.sessions.update_state("s", {"key003": "three"})
    agent.merge(fork)
    changed = {**LONG, "key001": "one", "key002": "two", "key003": "three"}
    assert world.vault.namespace("agent").sessions.get_state("s").state == changed


def test_a_turn_with_a_whole_state_is_laid_over_the_one_before(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    before = count_packs(agent)
    agent.sessions.add_turn("s", "hi", "ho", state_after={**LONG, "key001": "one"})
    assert count_packs(agent) == before
    fewer = {key: text for key, text in LONG.items() if key != "key002"}
    agent.sessions.add_turn("s", "hi", "ho", state_after=fewer)
    assert world.vault.namespace("agent").sessions.get_state("s").state == fewer


def test_verify_finds_a_row_whose_changes_are_not_what_the_plane_holds(world: World) -> None:
    vault = world.vault
    agent = vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    agent.sessions.update_state("s", {"key001": "one"})
    agent.snapshot("now")
    state = decode_state(rows_of(agent)[-1].state)
    assert isinstance(state, Overlay)
    forged = encode_entry(replace(state, changes={"key001": b'"two"'}))
    assert world.catalog is not None
    with world.catalog._connections.use(writing=True) as connection:
        connection.execute("UPDATE versions SET state = ? WHERE number = 1", (forged,))
    assert [fault.what for fault in vault.verify().faults] == ["sessions: s"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"[" + b"1," * 999 + b"1]", b"[" + b"1," * 999 + b"1,2]"),
        (b"a" * 3000, b"a" * 2999 + b"b"),
        (b"a" * 3000, b"b" + b"a" * 2999),
        (b"a" * 3000, b"a" * 3001),
        (b"a" * 3001, b"a" * 3000),
        (b"ab" * 5000, b"ab" * 2000 + b"c" + b"ab" * 3000),
        (b"x" * 5000, b"x" * 5000),
        (b"x" * 600, b"x" * 9000),
        (b"", b"y" * 600),
    ],
)
def test_a_splice_brings_the_text_back(old: bytes, new: bytes) -> None:
    over = lay(Submap(bytes(32), 1), {"k": new}, below={"k": old}, size=10**6)
    assert over is not None
    assert texts(over, {"k": old}) == {"k": new}
    found = decode_state(encode_entry(over))
    assert found == over
    if len(old) > SPLICED_BYTES and len(new) < 2 * len(old):
        assert isinstance(over.changes["k"], Splice)
        assert len(over.changes["k"].middle) <= 3


@pytest.mark.parametrize("splice", [Splice(3, 3, b""), Splice(-1, 0, b""), Splice(0, -1, b"")])
def test_a_splice_of_text_that_is_not_there_is_damage(splice: Splice) -> None:
    over = Overlay(bytes(32), 1, {"k": splice})
    for below in ({"k": b"12345"}, dict[str, bytes]()):
        with pytest.raises(Damaged, match="not there"):
            texts(over, below)


def test_what_is_no_state_is_damage() -> None:
    for data in (b"", b"\x90", encode_entry(Session(b"", 0, "", 0, "", None, "{}", 0, None))):
        with pytest.raises(Damaged, match="no known form"):
            decode_state(data)
    with pytest.raises(Damaged):
        decode_entry(encode_entry(Overlay(bytes(32), 1, {})))


def test_settling_what_is_settled_changes_nothing(world: World) -> None:
    agent = world.vault.namespace("agent")
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    objects = Objects(agent._handle.context, agent._handle.tenant_id)
    entry = encode_entry(in_plane(agent))
    assert settle_session(NamesOnly(), objects, entry) is entry
    assert settle(NamesOnly(), objects, in_plane(agent).state) == in_plane(agent).state


def test_a_short_state_is_packed_in_its_row_and_whole_in_the_plane(world: World) -> None:
    vault = world.vault
    agent, short = vault.namespace("agent"), {"text": "some words " * 100}
    made = agent.sessions.create("x", session_id="s", initial_state=short)
    agent.sessions.update_state("s", {"more": 1})
    assert made.state == short
    rows = rows_of(agent)
    assert max(len(row.state) for row in rows) < 100
    now = agent.snapshot("now")
    assert in_plane(agent).state == encode_entry(decode_state(rows[1].state))
    vault = world.vault
    agent = vault.namespace("agent")
    assert agent.sessions.get_state("s", version=0).state == short
    assert agent.at(now.id).sessions.get_state("s").state == {**short, "more": 1}
    assert vault.verify().ok


def test_what_is_packed_comes_back_and_nothing_grows() -> None:
    for text in (b"{}", b'"' + b"x" * 2000 + b'"', Random(1).randbytes(2000)):
        entry = encode_entry(Inline(text))
        assert len(packed(entry)) <= len(entry)
        assert decode_state(packed(entry)) == Inline(text)
        assert packed(packed(entry)) == packed(entry)
    over = encode_entry(Overlay(bytes(32), 1, {"k": b"x" * 2000}))
    assert packed(over) is over


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"no frame at all",
        zstandard.compress(encode_entry(Inline(b"x")))[:-3],
        zstandard.compress(encode_entry(Inline(b"x"))) + b"more",
        zstandard.compress(b"no entry"),
        zstandard.compress(encode_entry(Submap(bytes(32), 1))),
        zstandard.compress(encode_entry(Packed(b""))),
        zstandard.compress(encode_entry(Inline(bytes(MOST_BYTES)))),
    ],
)
def test_a_frame_that_holds_no_short_state_is_damage(frame: bytes) -> None:
    with pytest.raises(Damaged):
        decode_state(encode_entry(Packed(frame)))

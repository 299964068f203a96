"""An exchange believes nobody: what is wrong in any way is refused, and nothing has changed."""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import zstandard
from blake3 import blake3

import holdfast
from holdfast import errors
from holdfast.engine.core.limits import Limits
from holdfast.engine.exchange import door, reach, receiving
from holdfast.engine.exchange.adopting import Commit
from holdfast.engine.exchange.coverage import checked_detail
from holdfast.engine.exchange.door import Exchange
from holdfast.engine.exchange.edits import MAX_EDITS, decode_edits, encode_edits
from holdfast.engine.objects import content
from holdfast.engine.objects.content import FILES
from holdfast.engine.objects.stage import Stage
from holdfast.engine.upkeep.collect import AWAITED
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    InlineTwin,
    Link,
    Session,
    Submap,
    encode_entry,
    pack_ref,
)
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import EMPTY_MAP, Kind, Plane
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.packs.format import HEADER_BYTES, Footer, encode_footer, encode_header
from holdfast.packs.frames import FrameWriter
from holdfast.packs.index import BlockRow, ObjectRow, PackIndex, encode_index
from holdfast.testing.clocks import Watch
from holdfast.tree import build
from holdfast.wire import exchange as wire
from holdfast.wiring import open_vault

pytestmark = pytest.mark.in_memory

Files = Mapping[bytes, Entry | None]


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 1, 1, tzinfo=UTC), step=timedelta(milliseconds=1))


@pytest.fixture
def vault(tmp_path: Path, clock: Watch) -> Iterator[holdfast.Holdfast]:
    with open_vault(tmp_path / "vault", clock=clock) as opened:
        yield opened


@pytest.fixture
def exchange(vault: holdfast.Holdfast) -> Exchange:
    return Exchange.of(vault.namespace("agent"), is_shared=True)


def packed(*parts: bytes) -> bytes:
    builder = PackBuilder()
    for part in parts:
        builder.add(object_id_of(part), part, kind=ObjectKind.CHUNK)
    return builder.finish().data


def blob(*parts: bytes, **fields: Any) -> Blob:
    refs = b"".join(pack_ref(object_id_of(part), len(part)) for part in parts)
    told = {"size": sum(map(len, parts)), "depth": 0, "refs": refs, "mode": 0o644} | fields
    return Blob(**told)


def commit(files: Files, **more: Any) -> Commit:
    """Returns a first commit of some files, with the root that they lead to."""
    edits = sorted((key, None if e is None else encode_entry(e)) for key, e in files.items())
    root = build([(key, data) for key, data in edits if data is not None]).root
    told = {"name": os.urandom(8).hex(), "base": EMPTY_MAP, "root": root}
    return Commit(**(told | {"edits": encode_edits(edits)} | more))


def paths(vault: holdfast.Holdfast, name: str = "agent") -> set[str]:
    return {info.path for info in vault.namespace(name).files.list(recursive=True)}


PART = b"content of a file " * 100
ONE = {b"a/b": Inline(b"1", 0o644, 5), b"big": blob(PART)}


# What is sent becomes a snapshot


def test_a_commit_is_a_snapshot_with_its_files(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    done = exchange.commit(commit(ONE, pack=packed(PART), note=Note(label="first")))
    agent = vault.namespace("agent")
    assert agent.files.read("big") == PART
    assert agent.files.read("a/b") == b"1"
    assert (done.snapshot.label, done.replaced) == ("first", None)
    assert agent.timeline() == [done.snapshot]
    assert vault.verify().faults == []


def test_objects_are_there_once_they_were_received(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    name = object_id_of(PART)
    assert exchange.missing(name) == name
    assert exchange.receive(packed(PART)) == 1
    assert exchange.missing(name) == b""
    assert exchange.receive(packed(PART)) == 1
    exchange.commit(commit(ONE))
    assert vault.namespace("agent").files.read("big") == PART


def test_objects_in_a_pack_that_is_lost_are_asked_for_again(
    vault: holdfast.Holdfast, exchange: Exchange, tmp_path: Path
) -> None:
    parts = [Random(number).randbytes(200_000) for number in range(3)]
    names = b"".join(map(object_id_of, parts))
    exchange.receive(packed(*parts))
    [pack] = (tmp_path / "vault" / "packs").rglob("*.pack")
    pack.unlink()
    assert exchange.missing(names) == names
    exchange.receive(packed(*parts))
    assert exchange.missing(names) == b""
    exchange.commit(commit({b"large": blob(*parts)}))
    assert vault.namespace("agent").files.read("large") == b"".join(parts)


def test_a_commit_that_is_repeated_is_done_once(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    told = commit(ONE, pack=packed(PART))
    assert exchange.commit(told) == exchange.commit(told)
    assert len(vault.namespace("agent").timeline()) == 1
    vault.namespace("agent").store.set("n", "k", 1)
    vault.namespace("agent").snapshot()
    exchange.commit(told)
    assert len(vault.namespace("agent").timeline()) == 2


def test_a_commit_on_top_of_something_else_is_a_conflict(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    vault.namespace("agent").files.write("theirs", "1")
    with pytest.raises(errors.HeadMoved):
        exchange.commit(commit({b"mine": Inline(b"2", 0o644)}))
    assert paths(vault) == {"theirs"}
    done = exchange.commit(commit({b"mine": Inline(b"2", 0o644)}, overwrite=True))
    assert paths(vault) == {"mine"}
    assert done.replaced is not None
    kept = vault.namespace("agent").get_snapshot(done.replaced)
    assert kept.kind is Kind.SAFETY
    assert vault.namespace("agent").at(kept).files.read("theirs") == b"1"


def test_a_directory_can_be_set_aside(vault: holdfast.Holdfast, exchange: Exchange) -> None:
    agent = vault.namespace("agent")
    agent.files.write("theirs", "1")
    agent.store.set("n", "k", 1)
    done = exchange.commit(commit({b"mine": Inline(b"2", 0o644)}, aside=True, kind=Kind.SAFETY))
    assert paths(vault) == {"theirs"}
    assert agent.at(done.snapshot).files.read("mine") == b"2"
    assert not agent.is_dirty()
    assert [each.kind for each in agent.timeline()] == [Kind.RESTORE, Kind.SAFETY, Kind.SAFETY]
    again = exchange.commit(commit({b"mine": Inline(b"2", 0o644)}, aside=True))
    assert again.replaced == agent.timeline()[2].id


def test_edits_go_on_from_what_is_there(vault: holdfast.Holdfast, exchange: Exchange) -> None:
    first = commit(ONE, pack=packed(PART))
    exchange.commit(first)
    both = commit({**ONE, b"c": Inline(b"3", 0o644)})
    more = encode_edits([(b"c", encode_entry(Inline(b"3", 0o644)))])
    exchange.commit(commit({}, base=first.root, root=both.root, edits=more))
    assert paths(vault) == {"a/b", "big", "c"}


def test_many_edits_come_as_content(vault: holdfast.Holdfast, exchange: Exchange) -> None:
    files = {b"f%05d" % at: Inline(os.urandom(16), 0o644) for at in range(3000)}
    told = commit(files)
    made: dict[ObjectId, bytes] = {}

    class Sink:
        def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
            assert kind is ObjectKind.CHUNK
            made[object_id_of(data)] = data
            return object_id_of(data)

        def spill(self) -> None: ...

    _, listed = content.store(Sink(), told.edits, FILES)
    exchange.receive(packed(*made.values()))
    exchange.commit(Commit(name="listed", base=EMPTY_MAP, root=told.root, listed=listed))
    assert len(paths(vault)) == 3000
    vault.collect()
    assert exchange.missing(b"".join(made)) == b"".join(made), "they have served"


def test_nothing_to_change_is_still_a_snapshot(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    first = commit(ONE, pack=packed(PART))
    exchange.commit(first)
    done = exchange.commit(commit({}, base=first.root, root=first.root))
    assert next(s.id for s in vault.namespace("agent").timeline()) == done.snapshot.id
    empty = Exchange.of(vault.namespace("empty"), is_shared=True)
    assert empty.commit(commit({})).snapshot.size.entries == 0


# What was sent ahead waits, and not for ever


def test_what_was_received_outlives_a_collection(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    exchange.receive(packed(PART))
    vault.collect()
    assert exchange.missing(object_id_of(PART)) == b""
    exchange.commit(commit(ONE))
    vault.collect()
    assert vault.namespace("agent").files.read("big") == PART


def test_what_nobody_came_back_for_is_collected(
    vault: holdfast.Holdfast, exchange: Exchange, clock: Watch
) -> None:
    exchange.receive(packed(PART))
    clock.now += AWAITED + timedelta(seconds=1)
    assert vault.collect().objects_deleted == 1
    with pytest.raises(errors.ContentMissing):
        exchange.commit(commit(ONE))
    assert paths(vault) == set()


def test_what_is_collected_while_it_is_to_be_used_again_is_asked_for(
    vault: holdfast.Holdfast, exchange: Exchange, clock: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = vault.namespace("gone")
    gone.files.write("big", PART)
    gone.snapshot()
    vault.delete_namespace("gone")
    clock.now += timedelta(days=8)
    vault.forget()
    assert exchange.missing(object_id_of(PART)) == b""
    seal, collected = Stage.seal, list[int]()

    def collecting(stage: Stage, *args: Any) -> None:
        if not collected:
            collected.append(vault.collect().objects_deleted)
        seal(stage, *args)

    monkeypatch.setattr(Stage, "seal", collecting)
    with pytest.raises(errors.ContentMissing):
        exchange.commit(commit(ONE))
    assert collected[0] > 0
    assert paths(vault) == set()
    exchange.commit(commit(ONE, pack=packed(PART)))
    assert vault.verify().faults == []


def test_a_file_that_is_written_during_a_commit_is_a_conflict(
    vault: holdfast.Holdfast, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = vault.namespace("agent")
    seal, written = Stage.seal, list[str]()

    def writing(stage: Stage, *args: Any) -> None:
        seal(stage, *args)
        if not written:
            written.append("big/below")
            agent.files.write("big/below", b"mine")

    monkeypatch.setattr(Stage, "seal", writing)
    with pytest.raises(errors.HeadMoved):
        exchange.commit(commit(ONE, pack=packed(PART)))
    assert paths(vault) == {"big/below"}
    assert agent.files.read("big/below") == b"mine"


def test_what_is_written_to_the_store_during_a_commit_is_no_conflict(
    vault: holdfast.Holdfast, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = vault.namespace("agent")
    seal, written = Stage.seal, list[int]()

    def writing(stage: Stage, *args: Any) -> None:
        seal(stage, *args)
        if not written:
            written.append(1)
            agent.store.set("n", "k", 1)

    monkeypatch.setattr(Stage, "seal", writing)
    done = exchange.commit(commit(ONE, pack=packed(PART)))
    assert agent.files.read("big") == PART
    assert agent.at(done.snapshot).store.get("n", "k") == 1


def test_a_namespace_that_is_purged_takes_what_was_received_along(
    vault: holdfast.Holdfast, exchange: Exchange, clock: Watch
) -> None:
    exchange.receive(packed(PART))
    vault.delete_namespace("agent")
    clock.now += timedelta(days=8)
    assert vault.collect().objects_deleted == 1


# Who may name what


def test_a_key_for_one_namespace_learns_of_no_object_of_another(vault: holdfast.Holdfast) -> None:
    vault.namespace("rich").files.write("secret", PART)
    vault.namespace("rich").snapshot()
    mine = Exchange.of(vault.namespace("poor"), is_shared=False)
    assert mine.missing(object_id_of(PART)) == object_id_of(PART)
    with pytest.raises(errors.ContentMissing):
        mine.commit(commit(ONE))
    ours = Exchange.of(vault.namespace("poor"), is_shared=True)
    assert ours.missing(object_id_of(PART)) == b""


def test_what_others_hold_takes_a_key_for_one_namespace_no_longer_to_ask_for(
    vault: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.namespace("rich").files.write("secret", PART)
    vault.namespace("rich").snapshot()
    mine = Exchange.of(vault.namespace("poor"), is_shared=False)
    walked, held = list[int](), reach.Reach._all

    def walking(self: reach.Reach) -> set[ObjectId]:
        walked.append(1)
        return held(self)

    monkeypatch.setattr(reach.Reach, "_all", walking)
    mine.missing(object_id_of(PART))
    mine.missing(object_id_of(b"held by nobody"))
    assert len(walked) == 2


def test_a_key_for_one_namespace_reaches_what_it_sent_itself(vault: holdfast.Holdfast) -> None:
    vault.namespace("rich").files.write("secret", PART)
    vault.namespace("rich").snapshot()
    mine = Exchange.of(vault.namespace("poor"), is_shared=False)
    mine.receive(packed(PART))
    assert mine.missing(object_id_of(PART)) == b""
    mine.commit(commit(ONE))
    assert vault.namespace("poor").files.read("big") == PART
    other = Exchange.of(vault.namespace("third"), is_shared=False)
    assert other.missing(object_id_of(PART)) == object_id_of(PART)


def test_a_key_for_one_namespace_need_not_send_what_that_one_holds(
    vault: holdfast.Holdfast,
) -> None:
    mine = Exchange.of(vault.namespace("poor"), is_shared=False)
    first = commit(ONE, pack=packed(PART))
    mine.commit(first)
    assert mine.missing(object_id_of(PART)) == b""
    moved = {b"a/b": ONE[b"a/b"], b"moved": ONE[b"big"]}
    edits = [(b"big", None), (b"moved", encode_entry(ONE[b"big"]))]
    mine.commit(commit(moved, base=first.root, edits=encode_edits(edits)))
    assert vault.namespace("poor").files.read("moved") == PART


def test_objects_of_other_tenants_are_not_there(vault: holdfast.Holdfast) -> None:
    vault.namespace("rich").files.write("secret", PART)
    vault.namespace("rich").snapshot()
    theirs = Exchange.of(vault.tenant("other").namespace("poor"), is_shared=True)
    assert theirs.missing(object_id_of(PART)) == object_id_of(PART)
    with pytest.raises(errors.ContentMissing):
        theirs.commit(commit(ONE))


def test_content_is_handed_out_by_path_and_not_by_name(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    done = exchange.commit(commit(ONE, pack=packed(PART)))
    vault.namespace("rich").files.write("secret", b"s" * 1000)
    secret = object_id_of(b"s" * 1000)
    pack = exchange.content(done.snapshot, [(b"big", [object_id_of(PART)])])
    assert list(receiving.unpack(pack).values()) == [PART]
    with pytest.raises(errors.InvalidValue):
        exchange.content(done.snapshot, [(b"big", [secret])])
    for path in (b"a/b", b"nothing", b"a"):
        with pytest.raises(errors.PathNotFound):
            exchange.content(done.snapshot, [(path, [secret])])
    with pytest.raises(errors.InvalidPath):
        exchange.content(done.snapshot, [(b"../big", [secret])])
    other = Exchange.of(vault.namespace("other"), is_shared=True)
    with pytest.raises(errors.SnapshotNotFound):
        other.content(done.snapshot.id, [(b"big", [object_id_of(PART)])])


def test_content_is_asked_for_by_each_path_once(exchange: Exchange) -> None:
    done, name = exchange.commit(commit(ONE, pack=packed(PART))), object_id_of(PART)
    with pytest.raises(errors.InvalidValue):
        exchange.content(done.snapshot, [(b"big", [name]), (b"big", [name])])
    with pytest.raises(errors.InvalidValue):
        exchange.content(done.snapshot, [(b"big", [])])


def test_files_with_long_lists_are_looked_through_a_few_at_a_time(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {b"one": blob(PART), b"two": blob(PART[1:])}
    done = exchange.commit(commit(files, pack=packed(PART, PART[1:])))
    wants = [(b"one", [object_id_of(PART)]), (b"two", [object_id_of(PART[1:])])]
    assert len(receiving.unpack(exchange.content(done.snapshot, wants))) == 2
    monkeypatch.setattr(door, "MAX_LISTED", 1)
    assert len(receiving.unpack(exchange.content(done.snapshot, wants))) == 1


# Entries and paths that somebody made up

FILE = Inline(b"x", 0o644)
WRONG: dict[str, Files] = {
    "a path that leads upwards": {b"../x": FILE},
    "a path with dots inside": {b"a/../x": FILE},
    "an absolute path": {b"/etc/passwd": FILE},
    "an empty path": {b"": FILE},
    "a path with an empty part": {b"a//b": FILE},
    "a path that ends with a slash": {b"a/": FILE},
    "a path with a NUL": {b"a\0b": FILE},
    "a path that is too long": {b"a/" * 2048 + b"b": FILE},
    "a name that is too long": {b"n" * 256: FILE},
    "set-user-id": {b"a": Inline(b"x", 0o4755)},
    "set-group-id of a folder": {b"a": Directory(0o2755)},
    "a mode below zero": {b"a": Inline(b"x", -1)},
    "a session": {b"a": Session(b"", 0, "", 0, "", None, "", 0, None)},
    "another map": {b"a": Submap(b"x" * 32, 1)},
    "a link to nowhere": {b"a": Link(b"")},
    "a link with a NUL": {b"a": Link(b"a\0b")},
    "a link that is too long": {b"a": Link(b"x" * 4096)},
    "a twin that leads upwards": {b"a": InlineTwin(b"x", 0o644, 0, b"../x")},
    "a twin of nothing": {b"a": InlineTwin(b"x", 0o644, 0, b"")},
    "content that is too long for an entry": {b"a": Inline(b"x" * 257, 0o644)},
    "something below a file": {b"a": FILE, b"a/b": FILE},
    "something below a link": {b"a": Link(b"x"), b"a/b/c": FILE},
    "a blob without chunks": {b"a": Blob(1000, 0, b"", 0o644)},
    "a blob with half a reference": {b"a": Blob(1000, 0, b"x" * 35, 0o644)},
    "a blob that is larger than its chunks": {b"a": blob(PART, size=9999)},
    "a blob that is small": {b"a": blob(b"tiny")},
    "a blob with too many references": {b"a": blob(*[PART] * 9)},
    "a blob that is too deep": {b"a": blob(PART, depth=5)},
    "a blob below zero": {b"a": blob(PART, depth=-1)},
    "a list of chunks that is none": {b"a": blob(PART, depth=1, size=100_000)},
}


@pytest.mark.parametrize("files", WRONG.values(), ids=WRONG)
def test_what_no_directory_can_hold_is_refused(
    vault: holdfast.Holdfast, exchange: Exchange, files: Files
) -> None:
    exchange.receive(packed(PART, b"tiny"))
    with pytest.raises((errors.Invalid, errors.TooLarge)):
        exchange.commit(commit(files))
    assert paths(vault) == set()
    assert vault.namespace("agent").timeline() == []


def test_something_below_a_file_that_is_there_is_refused(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    first = commit({b"a": FILE, b"d/e": FILE})
    exchange.commit(first)
    for key in (b"a/b", b"d"):
        told = commit(
            {b"a": FILE, b"d/e": FILE, key: FILE},
            base=first.root,
            edits=encode_edits([(key, encode_entry(FILE))]),
        )
        with pytest.raises(errors.NotADirectory):
            exchange.commit(told)
    assert paths(vault) == {"a", "d/e"}


def test_an_entry_in_other_bytes_is_refused() -> None:
    # The same entry, with an integer that takes more bytes than it needs.
    odd = encode_entry(FILE)[:-1] + b"\xcc\x00"
    with pytest.raises(errors.InvalidValue, match="not written as entries are"):
        decode_edits(encode_edits([(b"a", odd)]), Limits())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        msgspec.msgpack.encode([(b"b", None), (b"a", None)]),
        msgspec.msgpack.encode([(b"a", None), (b"a", None)]),
        msgspec.msgpack.encode([(b"a", b"")]),
        msgspec.msgpack.encode([("a", None)]),
        b"\xdd" + (MAX_EDITS + 1).to_bytes(4, "big"),
        b"\x91" * 100_000,
    ],
)
def test_edits_that_are_none_are_refused(data: bytes) -> None:
    with pytest.raises((errors.InvalidValue, errors.TooLarge)):
        decode_edits(data, Limits())


def test_paths_without_end_cost_nothing() -> None:
    deep = [(b"%05d/" % at + b"a/" * 2040 + b"b", None) for at in range(1000)]
    with pytest.raises(errors.TooLarge):
        decode_edits(encode_edits(deep), Limits())


def test_a_root_that_the_edits_do_not_lead_to_is_refused(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    with pytest.raises(errors.InvalidValue, match="root"):
        exchange.commit(commit(ONE, pack=packed(PART), root=b"x" * 32))
    assert paths(vault) == set()


def test_a_chunk_of_another_size_is_refused(exchange: Exchange) -> None:
    exchange.receive(packed(PART))
    refs = pack_ref(object_id_of(PART), len(PART) - 1)
    with pytest.raises(errors.InvalidValue, match="size"):
        exchange.commit(commit({b"a": Blob(len(PART) - 1, 0, refs, 0o644)}))


def test_lists_that_lead_everywhere_are_not_followed(exchange: Exchange) -> None:
    chunk = os.urandom(FILES.max_bytes)
    wide = b"".join(pack_ref(object_id_of(chunk), len(chunk)) for _ in range(7000))
    wide = wide[: FILES.max_bytes // 36 * 36]
    exchange.receive(packed(chunk, wide))
    with pytest.raises(errors.InvalidValue, match="longer than its file"):
        exchange.commit(commit({b"a": blob(*[wide] * 8, depth=1, size=1_000_000)}))


def test_lists_that_share_what_they_list_are_followed_so_far_and_no_further(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.exchange.reach.MAX_LISTED_REFS", 100)
    chunk = os.urandom(FILES.max_bytes)
    lists = [pack_ref(object_id_of(chunk), len(chunk)) * count for count in range(10, 30)]
    exchange.receive(packed(chunk, *lists))
    files = {
        b"%d" % at: blob(part, depth=1, size=len(chunk) * (at + 10))
        for at, part in enumerate(lists)
    }
    with pytest.raises(errors.TooLarge, match="chunks together"):
        exchange.commit(commit(files))
    exchange.commit(commit({b"0": files[b"0"]}))


def test_quotas_count_for_what_is_sent(vault: holdfast.Holdfast, exchange: Exchange) -> None:
    exchange.commit(commit({}))
    vault.namespace("agent").set_quota(100)
    with pytest.raises(errors.QuotaExceeded):
        exchange.commit(commit(ONE, pack=packed(PART)))
    vault.namespace("agent").set_quota(None)
    vault.set_quota(1)
    with pytest.raises(errors.QuotaExceeded):
        exchange.receive(packed(os.urandom(10_000)))


# Packs that somebody made up


def handmade(rows: list[ObjectRow], block: bytes, *, claimed: int | None = None) -> bytes:
    frames = FrameWriter()
    stored = frames.compress(block)
    size = len(block) if claimed is None else claimed
    index = encode_index(PackIndex([BlockRow(HEADER_BYTES, len(stored), size)], rows), frames)
    footer = Footer(HEADER_BYTES + len(stored), len(index), blake3(index).digest())
    return b"".join([encode_header(), stored, index, encode_footer(footer)])


def overlapping() -> bytes:
    block, size = os.urandom(FILES.max_bytes + 1000), FILES.max_bytes
    ids = [object_id_of(block[at : at + size]) for at in range(200)]
    return handmade([ObjectRow(name, 0, at, size) for at, name in enumerate(ids)], block)


def hollow() -> bytes:
    """Returns a few KB that claim millions of blocks with nothing in them."""
    frames, blocks = FrameWriter(), [BlockRow(HEADER_BYTES, 0, 0)] * 4_000_000
    index = encode_index(PackIndex(blocks, []), frames)
    footer = Footer(HEADER_BYTES, len(index), blake3(index).digest())
    return b"".join([encode_header(), index, encode_footer(footer)])


PACKS: dict[str, Callable[[], bytes]] = {
    "an index without end": hollow,
    "nothing": lambda: b"",
    "noise": lambda: os.urandom(500),
    "one that was cut short": lambda: packed(PART)[:-1],
    "one with something behind": lambda: packed(PART) + b"x",
    "a flipped bit in the content": lambda: flipped(packed(PART), 20),
    "a flipped bit in the footer": lambda: flipped(packed(PART), -20),
    "an object under another name": lambda: handmade([ObjectRow(b"x" * 32, 0, 0, 9)], b"some part"),
    "a block of another size": lambda: handmade(
        [ObjectRow(object_id_of(b"some"), 0, 0, 4)], b"some part", claimed=8
    ),
    "an object without bytes": lambda: handmade([ObjectRow(object_id_of(b""), 0, 0, 0)], b"some"),
    "an object that is too large": lambda: packed(bytes(FILES.max_bytes + 1)),
    "a bomb": lambda: packed(*[bytes([n]) * FILES.max_bytes for n in range(200)]),
    "rows that lie over each other": overlapping,
    "one of a later format": lambda: flipped(packed(PART), 4, by=8),
    "one that is too large": lambda: bytes(receiving.MAX_PACK_BYTES + 1),
}


def flipped(data: bytes, at: int, *, by: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= by
    return bytes(changed)


@pytest.mark.parametrize("made", PACKS.values(), ids=PACKS)
def test_a_pack_that_is_wrong_in_any_way_is_refused_whole(
    vault: holdfast.Holdfast, exchange: Exchange, made: Callable[[], bytes]
) -> None:
    with pytest.raises((errors.InvalidValue, errors.TooLarge)):
        exchange.receive(made())
    assert vault.stored_bytes() == 0


@pytest.mark.parametrize("names", [b"x", b"x" * 33, b"x" * 32 * (receiving.MAX_ASKED + 1)])
def test_questions_that_are_none_are_refused(exchange: Exchange, names: bytes) -> None:
    with pytest.raises((errors.InvalidValue, errors.TooLarge)):
        exchange.missing(names)


# Bodies


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "noise": b"\xff" * 100,
    "no size": zstandard.ZstdCompressor(write_content_size=False).compress(b"\x80"),
    "a bomb": zstandard.ZstdCompressor().compress(bytes(wire.MAX_PLAIN_BYTES + 1)),
    "something behind it": zstandard.ZstdCompressor().compress(b"\x80") + b"x",
    "no msgpack": zstandard.ZstdCompressor().compress(b"\xc1"),
    "nested without end": zstandard.ZstdCompressor().compress(b"\x81\xa1a" + b"\x91" * 100_000),
    "an unknown field": zstandard.ZstdCompressor().compress(
        msgspec.msgpack.encode({"ids": b"", "x": 1})
    ),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises((errors.InvalidValue, errors.TooLarge)):
        wire.decode(body, wire.MissingRequest)


def test_a_question_about_paths_without_end_is_refused() -> None:
    many = [b""] * (wire.MAX_PATHS + 1)
    body = wire.encode(wire.ContentRequest(snapshot="latest", paths=many, ids=many))
    with pytest.raises(errors.InvalidValue):
        wire.decode(body, wire.ContentRequest)


COVERAGE = {
    "captured": 1,
    "captured_bytes": 2,
    "skipped_count": 0,
    "excluded_count": 0,
    "skipped": [],
    "excluded": [],
    "failed": [["a", "unreadable"]],
    "in_motion": [["log", "it was open for writing"], ["\\xfe", "no", "fe"]],
}


def test_a_coverage_makes_a_snapshot_partial_for_ever() -> None:
    detail = checked_detail(msgspec.json.encode(COVERAGE))
    assert detail == {"coverage": COVERAGE, "partial": True}
    assert checked_detail(b"") == {}


def test_a_client_need_not_know_of_files_in_motion() -> None:
    told = {key: value for key, value in COVERAGE.items() if key != "in_motion"}
    detail = checked_detail(msgspec.json.encode(told))
    assert detail["coverage"] == {**COVERAGE, "in_motion": []}


@pytest.mark.parametrize(
    "told",
    [
        {**COVERAGE, "captured": -1},
        {**COVERAGE, "more": 1},
        {**COVERAGE, "failed": [["a"]]},
        {**COVERAGE, "failed": [["a", "b", "not hex"]]},
        {**COVERAGE, "failed": [["a\0", "b"]]},
        {**COVERAGE, "in_motion": [["a\0", "b"]]},
        {**COVERAGE, "in_motion": "a"},
        {**COVERAGE, "skipped": [["a", "b"]] * 1001},
        [],
    ],
)
def test_a_coverage_that_is_none_is_refused(told: object) -> None:
    with pytest.raises(errors.InvalidValue):
        checked_detail(msgspec.json.encode(told))


# What is told of a snapshot


def test_changes_come_in_pages(
    vault: holdfast.Holdfast, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.exchange.door.MAX_TOLD", 7)
    files: Files = {b"f%03d" % at: FILE for at in range(40)}
    done = exchange.commit(commit(files))
    found: list[bytes] = []
    while True:
        told = exchange.changes(None, done.snapshot.id, after=found[-1] if found else b"")
        found += [key for key, _ in told.edits]
        if not told.has_more:
            break
    assert found == sorted(files)
    assert told.root == exchange.standing().root
    vault.namespace("agent").files.delete("f001")
    again = vault.namespace("agent").snapshot()
    assert exchange.changes(done.snapshot.id, again.id).edits == [(b"f001", None)]


def test_what_was_taken_back_by_hand_is_as_dirty_as_the_namespace_says(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    agent = vault.namespace("agent")
    agent.files.write("a", "1")
    agent.snapshot()
    assert not exchange.standing().is_dirty
    agent.files.write("b", "1")
    agent.files.delete("b")
    assert exchange.standing().is_dirty is agent.is_dirty() is agent.status().dirty is True


def test_where_a_namespace_stands_counts_what_is_pending(
    vault: holdfast.Holdfast, exchange: Exchange
) -> None:
    assert (exchange.standing().position, exchange.standing().root) == (None, EMPTY_MAP)
    done = exchange.commit(commit(ONE, pack=packed(PART)))
    assert exchange.standing().position == done.snapshot.id
    vault.namespace("agent").files.write("more", "1")
    standing = exchange.standing()
    assert standing.is_dirty
    taken = vault.namespace("agent").snapshot()
    handle = vault.namespace("agent")._handle
    assert standing.root == handle.objects.get_root(taken.root).plane(Plane.FILES)

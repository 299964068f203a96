"""The format, pinned: what these bytes hash to may not change without a new format version."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.engine.memory.plane import entry_of
from holdfast.engine.objects.content import NamesOnly, as_value
from holdfast.entries import IN_ROW, Inline, Memory, decode_entry, encode_entry
from holdfast.errors import Damaged, VaultTooNew
from holdfast.ids import NamespaceId, ObjectId, object_id_of
from holdfast.model.basics import EMPTY_MAP, EMPTY_ROOT, Root
from holdfast.model.memories import MemoryRow

INSTANT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)


def noise(size: int) -> bytes:
    """Returns bytes without repetition that are the same on every machine."""
    state, out = 7433, bytearray()
    while len(out) < size:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        out += state.to_bytes(8, "little")
    return bytes(out[:size])


def root_of(tmp_path: Path, build: str) -> str:
    with holdfast.open(tmp_path / "vault", clock=lambda: INSTANT) as hf:
        agent = hf.namespace("golden")
        if build == "small":
            agent.files.write("a/b.txt", "hello")
            agent.files.mkdir("empty")
            agent.files.symlink("link", "/nowhere")
        elif build == "cut":
            agent.files.write("large.bin", noise(1_000_000))
            agent.store.set("state", "list", list(range(50_000)))
        else:
            agent.files.write_many((f"d{n % 7}/f{n:05}", f"{n}\n") for n in range(5_000))
        return agent.snapshot().root.hex()


def test_a_small_tree_keeps_its_root(tmp_path: Path) -> None:
    assert root_of(tmp_path, "small").startswith("bc3b1a6dbce54717b2874b7a")


def test_large_content_is_cut_where_it_was_cut(tmp_path: Path) -> None:
    assert root_of(tmp_path, "cut").startswith("17fcd952ed400067d408397a")


def test_a_map_of_several_levels_keeps_its_root(tmp_path: Path) -> None:
    assert root_of(tmp_path, "deep").startswith("bc4ae8fb5eea8e9aba57eeb2")


# Roots of the first format, which knew nothing of memories

FIRST_EMPTY = "94 01" + 3 * f" c420 {EMPTY_MAP.hex()}"


def test_a_root_of_the_first_format_is_read_and_written_as_it_was() -> None:
    data = bytes.fromhex(FIRST_EMPTY)
    root = Root.decode(data)
    assert root == Root(memories=None)
    assert root.encode() == data
    changed = root.replacing(files=b"f" * 32)
    assert Root.decode(changed.encode()) == changed
    assert changed.encode()[:2] == data[:2]


def test_the_same_tree_had_another_root_in_the_first_format(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault", clock=lambda: INSTANT) as hf:
        agent = hf.namespace("golden")
        agent.files.write("a/b.txt", "hello")
        agent.files.mkdir("empty")
        agent.files.symlink("link", "/nowhere")
        root_id = agent.snapshot().root
        root = agent._handle.objects.get_root(ObjectId(root_id))
    assert object_id_of(root.encode()) == root_id
    then = object_id_of(root.replacing(memories=None).encode())
    assert then.hex().startswith("76e69fedcc24c1606578bba5")


def test_a_root_with_memories_is_written_in_the_second_format() -> None:
    data = Root(memories=b"m" * 32).encode()
    assert data[:2] == b"\x95\x02"
    assert Root.decode(data) == Root(memories=b"m" * 32)
    assert object_id_of(Root().encode()) == EMPTY_ROOT


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(Root().encode().replace(b"\x02", b"\x01", 1), id="first, with memories"),
        pytest.param(
            Root(memories=None).encode().replace(b"\x01", b"\x02", 1), id="second, without"
        ),
        pytest.param(Root().encode().replace(b"\x02", b"\x00", 1), id="format 0"),
        pytest.param(Root().encode() + b"\x00", id="more"),
        pytest.param(Root().encode()[:-1], id="less"),
    ],
)
def test_what_is_no_root_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        Root.decode(data)


def test_a_root_of_a_later_format_is_too_new() -> None:
    with pytest.raises(VaultTooNew):
        Root.decode(b"\x96\x03")


# Memories

REMEMBERED = MemoryRow(
    namespace_id=NamespaceId(1),
    id="mem_a",
    session_id="sess_b",
    user_id="ann",
    agent_id=None,
    type="fact",
    tags='["x"]',
    metadata='{"k":1}',
    is_searchable=True,
    version=3,
    created_at=INSTANT,
    updated_at=INSTANT,
    terms="not stored: it follows from the rest",
    content="likes tea",
)


def test_a_memory_keeps_its_bytes() -> None:
    data = entry_of(NamesOnly(), REMEMBERED)
    body = encode_entry(Inline(b"\x93\xa9likes tea\xa5" + b'["x"]' + b"\xa7" + b'{"k":1}'))
    us = 1_767_323_045_678_900
    assert decode_entry(data) == Memory(
        body=body,
        embedding=None,
        bytes=9,
        kind="fact",
        session_id="sess_b",
        user_id="ann",
        agent_id=None,
        is_searchable=True,
        version=3,
        created_us=us,
        updated_us=us,
    )
    assert data[:2] == b"\x9c\x0a"
    assert object_id_of(data).hex().startswith("df86225c319de245043c4df2")
    assert IN_ROW == b"\x91\x0b"


def test_the_parts_of_a_large_memory_are_chunks() -> None:
    vector, text = bytes(range(256)) * 16, "x" * 300
    entry = decode_entry(
        entry_of(NamesOnly(), msgspec.structs.replace(REMEMBERED, content=text, embedding=vector))
    )
    assert isinstance(entry, Memory)
    assert entry.size == 300
    assert entry.embedding == encode_entry(as_value(NamesOnly(), vector))
    assert entry.body[1] == 1

"""Memories in archives: hostile ones do not come in at all.

That they come in as they went out is in `tests/contract/test_memory_plane.py`.
"""

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import QuotaExceeded, TooLarge, UnsafeArchive
from holdfast.testing.archives import Members, read_members, write_members

pytestmark = pytest.mark.in_memory

MEMORY = "memories/0.json"
VECTOR = struct.pack("<2f", 0.6, 0.8)
NAN = struct.pack("<2f", math.nan, 1.0)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault", embed=lambda texts: [[3.0, 4.0] for _ in texts]) as hf:
        agent = hf.namespace("agent")
        agent.memory.add("likes tea", tags=["a", "b"], metadata={"k": 1}, user_id="ann")
        yield agent


@pytest.fixture
def other(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "other") as vault:
        yield vault


def swapped(old: bytes, new: bytes, name: str = MEMORY) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        assert old in dict(members)[name]
        return [(n, d.replace(old, new, 1) if n == name else d) for n, d in members]

    return change


def with_vector(data: bytes) -> Callable[[Members], Members]:
    return swapped(b64encode(VECTOR), b64encode(data))


ATTACKS: dict[str, Callable[[Members], Members]] = {
    "another content": swapped(b"likes tea", b"hates tea"),
    "another user": swapped(b'"ann"', b'"bob"'),
    "a memory is missing": lambda members: members[:1],
    "a memory twice": lambda members: [*members, ("memories/1.json", members[1][1])],
    "a name out of order": lambda members: [members[0], ("memories/1.json", members[1][1])],
    "an archive that should have none": swapped(b'"format": 2', b'"format": 1', "holdfast.json"),
    "an id that is a path": swapped(b'"id":"mem_', b'"id":"../'),
    "no content": swapped(b'"likes tea"', b'""'),
    "too much content": swapped(b"likes tea", b"x" * 10_001),
    "a NUL": swapped(b"likes tea", b"likes \\u0000"),
    "half a character": swapped(b"likes tea", b"\\ud800"),
    "a tag twice": swapped(b'["a","b"]', b'["a","a"]'),
    "tags that are text": swapped(b'["a","b"]', b'"a"'),
    "metadata that is a list": swapped(b'{"k":1}', b"[1]"),
    "metadata with spaces": swapped(b'{"k":1}', b'{"k": 1}'),
    "metadata that is too long": swapped(b'{"k":1}', b'{"k":"' + b"x" * (64 << 10) + b'"}'),
    "nesting without end": swapped(b'{"k":1}', b'{"k":' + b"[" * 50_000),
    "an empty name": swapped(b'"ann"', b'""'),
    "no version": swapped(b'"version":1', b'"version":0'),
    "a negative time": swapped(b'"created_us":', b'"created_us":-'),
    "a field too many": swapped(b'"version":1', b'"version":1,"number":1'),
    "a vector of no length": with_vector(bytes(8)),
    "a vector of another length": with_vector(struct.pack("<2f", 3.0, 4.0)),
    "a vector that is no number": with_vector(NAN),
    "half a number": with_vector(VECTOR[:-1]),
    "an empty vector": with_vector(b""),
    "not JSON at all": lambda members: [members[0], (MEMORY, b"\xff\x00")],
    "nothing at all": lambda members: [members[0], (MEMORY, b"")],
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_archive_is_refused_and_nothing_changes(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path, name: str
) -> None:
    agent.export(tmp_path / "a.tar")
    members = read_members(tmp_path / "a.tar")
    assert other.namespace("copy").import_(write_members(tmp_path / "same.tar", members)).verified
    there = other.namespace("copy").memory.list()
    with pytest.raises((UnsafeArchive, TooLarge)):
        other.namespace("copy").import_(write_members(tmp_path / "b.tar", ATTACKS[name](members)))
    assert other.namespace("copy").memory.list() == there


def test_a_member_that_no_memory_fills_is_not_read(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    agent.export(tmp_path / "a.tar")
    members = read_members(tmp_path / "a.tar")
    large = [members[0], (MEMORY, b" " * (2 << 20))]
    with pytest.raises(TooLarge):
        other.namespace("copy").import_(write_members(tmp_path / "b.tar", large))


def test_rows_of_memories_count_against_the_quota_of_an_importing_tenant(
    agent: holdfast.Namespace, other: holdfast.Holdfast, tmp_path: Path
) -> None:
    for number in range(8):
        # Chunks of the same would share one pack: what counts is rows.
        agent.memory.add(f"{number}" + "z" * 9_000)
    agent.export(tmp_path / "a.tar")
    other.set_quota(50_000)
    with pytest.raises(QuotaExceeded):
        other.namespace("copy").import_(tmp_path / "a.tar")
    assert other.namespace("copy").memory.list() == []

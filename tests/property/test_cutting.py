"""Content is cut by the rule of docs/format.md, whatever it is: a second writer of the rule agrees.

What stands here was written from the section "Where content is cut" alone. A library that cuts
elsewhere is another format, and fails here.
"""

import io
import random
import re
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.engine.objects.content import FILES, VALUES, Cutting, store, store_stream
from holdfast.entries import Blob, unpack_refs
from holdfast.ids import ObjectId, object_id_of
from holdfast.packs import ObjectKind

PAGE = Path(__file__).parents[2] / "docs/format.md"

# The rule, as the page has it

TABLE = tuple(int(md5(bytes(64 * [value])).hexdigest()[:16], 16) for value in range(256))

MASKS = {FILES: (0xD90703537000, 0xD90F03530000), VALUES: (0xD90303530000, 0xD90003530000)}


def cuts(data: bytes, cutting: Cutting) -> Iterator[bytes]:
    """Yields the chunks of content that is too large for one."""
    early, late = MASKS[cutting]
    start = 0
    while (left := len(data) - start) > cutting.min_bytes:
        size = min(cutting.max_bytes, left)
        rolled, length = 0, cutting.min_bytes
        while length < size - (size & 1):
            rolled = ((rolled << 1) + TABLE[data[start + length]]) & 0xFFFF_FFFF_FFFF_FFFF
            if not rolled & (early if length < cutting.mean_bytes else late):
                break
            length += 1
        else:
            length = size
        yield data[start : start + length]
        start += length
    if start < len(data):
        yield data[start:]


# What we do


class Kept:
    """A sink that remembers what it was given, in order."""

    def __init__(self) -> None:
        self.objects = list[bytes]()

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        assert kind is ObjectKind.CHUNK
        self.objects.append(data)
        return object_id_of(data)

    def spill(self) -> None:
        """Does nothing: all is kept."""


def chunks_of(data: bytes, cutting: Cutting) -> list[bytes]:
    """Returns the chunks that we make of content; lists of references come after them."""
    kept = Kept()
    _, blob = store(kept, data, cutting)
    assert blob is not None
    return content_of(kept, len(data))


def content_of(kept: Kept, size: int) -> list[bytes]:
    """Returns the first objects, those that have as many bytes as the content."""
    chunks = list[bytes]()
    for data in kept.objects:
        if size == 0:
            break
        chunks.append(data)
        size -= len(data)
    return chunks


class Dribble(io.RawIOBase):
    """A stream that gives as much as it likes, as a pipe does."""

    def __init__(self, data: bytes, seed: int) -> None:
        self._rest = io.BytesIO(data)
        self._draw = random.Random(seed)

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(self._draw.randint(1, size))


# Vectors


def noise(size: int) -> bytes:
    number, parts = 7433, list[bytes]()
    for _ in range(0, size, 8):
        number = (number * 6364136223846793005 + 1442695040888963407) % 2**64
        parts.append(number.to_bytes(8, "little"))
    return b"".join(parts)[:size]


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


VECTORS = {
    ("`noise(20001)`", "a value"): noise(20_001),
    ("`noise(4360)`", "a value"): noise(4_360),
    ("`noise(10290)`", "a value"): noise(10_290),
    ("`noise(10291)`", "a value"): noise(10_291),
    ("40,001 bytes of 0", "a value"): bytes(40_001),
    ("`lines(6000)`", "a value"): lines(6_000),
    ("`noise(400001)`", "a file"): noise(400_001),
    ("`lines(60000)`", "a file"): lines(60_000),
}
ROW = re.compile(r"^\| ([^|]+) \| (a value|a file) \| ([\d, ]+) \|$", re.MULTILINE)


def test_the_page_has_every_vector() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8"))
    assert [(content, kind) for content, kind, _ in rows] == list(VECTORS)


@pytest.mark.parametrize(("content", "kind", "sizes"), ROW.findall(PAGE.read_text("utf-8")))
def test_content_is_cut_where_the_page_says(content: str, kind: str, sizes: str) -> None:
    data, cutting = VECTORS[content, kind], VALUES if kind == "a value" else FILES
    expected = [int(size) for size in sizes.split(", ")]
    assert [len(chunk) for chunk in cuts(data, cutting)] == expected
    assert [len(chunk) for chunk in chunks_of(data, cutting)] == expected


def test_the_page_has_our_sizes_and_the_masks() -> None:
    text = PAGE.read_text("utf-8")
    for name, cutting in {"files": FILES, "values": VALUES}.items():
        early, late = MASKS[cutting]
        sizes = (cutting.min_bytes, cutting.mean_bytes, cutting.max_bytes)
        row = " | ".join([name, *(f"{size:,}" for size in sizes)])
        bits = (f"`0x{mask:X}` ({mask.bit_count()} bits)" for mask in (early, late))
        assert f"| {row} | {' | '.join(bits)} |" in text
        assert cutting.whole_bytes == cutting.mean_bytes


# Any content

# Where a rule that is off by one shows, and anywhere.
edges = [size + off for size in (1024, 4096, 16384) for off in (-2, -1, 0, 1, 2)]
sizes = st.one_of(st.sampled_from(edges), st.integers(1_000, 40_000))
pieces = st.one_of(
    st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(0, 99), sizes),
    st.builds(lambda value, size: bytes([value]) * size, st.integers(0, 255), sizes),
    st.builds(
        lambda unit, size: (unit * (size // len(unit) + 1))[:size],
        st.binary(min_size=1, max_size=80),
        sizes,
    ),
    st.builds(lines, st.integers(100, 3_000)),
)
contents = st.lists(pieces, min_size=1, max_size=4).map(b"".join)


@given(contents)
@example(noise(4_097))
@example(noise(65_537))
def test_values_are_cut_by_the_rule(data: bytes) -> None:
    if len(data) > VALUES.whole_bytes:
        assert chunks_of(data, VALUES) == list(cuts(data, VALUES))


@given(contents, st.integers(5, 30), st.integers(0, 999))
def test_files_are_cut_by_the_rule_however_they_arrive(part: bytes, times: int, seed: int) -> None:
    data = (part * times)[:600_001]
    if len(data) <= FILES.whole_bytes:
        return
    expected = list(cuts(data, FILES))
    assert chunks_of(data, FILES) == expected
    kept = Kept()
    entry = store_stream(kept, Dribble(data, seed), max_bytes=len(data))
    assert isinstance(entry, Blob)
    assert content_of(kept, len(data)) == expected


@pytest.mark.parametrize(("size", "depths"), [(20_001, 0), (50_000, 1), (800_000, 1), (5 << 20, 2)])
def test_lists_of_references_are_cut_like_values_until_eight_are_left(
    size: int, depths: int
) -> None:
    data = random.Random(size).randbytes(size)
    kept = Kept()
    _, blob = store(kept, data, VALUES)
    assert blob is not None
    level = list(cuts(data, VALUES))
    made, depth = list(level), 0
    while len(level) > 8:
        refs = b"".join(object_id_of(chunk) + len(chunk).to_bytes(4, "big") for chunk in level)
        level = list(cuts(refs, VALUES)) if len(refs) > VALUES.whole_bytes else [refs]
        made += level
        depth += 1
    assert kept.objects == made
    assert blob.depth == depth == depths
    assert [name for name, _ in unpack_refs(blob.refs)] == [object_id_of(c) for c in level]

"""The pack format: layout, blocks, self-description, and damage by name."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
import zstandard
from blake3 import blake3

from holdfast.errors import ObjectDamaged, PackDamaged, TooLarge, VaultTooNew
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import Placement
from holdfast.packs import (
    BLOCK_TARGET_BYTES,
    MAX_PLAIN_BYTES,
    Damage,
    ObjectKind,
    Pack,
    PackBuilder,
    check_pack,
    cut,
    parse_index,
    read_block,
    read_index,
    writer,
)

RNG = random.Random(20)
CHUNK, NODE = ObjectKind.CHUNK, ObjectKind.NODE
HEADER_BYTES, FOOTER_BYTES = 8, 48

DAMAGE_TO_THE_FRAME: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda _: b"", "too few"),
    (lambda data: data[:55], "too few"),
    (lambda data: b"XXXX" + data[4:], "does not begin"),
    (lambda data: data[:4] + b"\0" + data[5:], "header"),
    (lambda data: data[:7] + b"\1" + data[8:], "header"),
    (lambda data: data[:-1], "does not end"),
    (lambda data: data[:-9], "does not end"),
    (lambda data: data[:8] + b"more" + data[8:], "its index cannot be at"),
    (lambda data: data + data[-48:], "its index cannot be at"),
    (lambda data: data[:-48] + bytes(8) + data[-40:], "its index cannot be at"),
    (lambda data: data[:-49] + b"\xff" + data[-48:], "does not hash"),
    (lambda data: data[:-10] + b"\xff" + data[-9:], "does not hash"),
]


def build(objects: list[bytes], *, kind: ObjectKind = CHUNK) -> Pack:
    builder = PackBuilder()
    for data in objects:
        builder.add(object_id_of(data), data, kind=kind)
    return builder.finish()


def read(data: bytes, placement: Placement) -> bytes:
    end = placement.block_offset + placement.block_size
    return cut(read_block(data[placement.block_offset : end], pack="p"), placement, pack="p")


def with_index(index: object, *, blocks: bytes = b"", raw: bytes | None = None) -> bytes:
    """Returns a pack with that index, hashed and framed as it should be."""
    plain = msgspec.msgpack.encode(index) if raw is None else raw
    stored = zstandard.ZstdCompressor().compress(plain)
    end = HEADER_BYTES + len(blocks)
    footer = end.to_bytes(8) + len(stored).to_bytes(4) + blake3(stored).digest() + b"HFPK"
    return b"HFPK\x01\0\0\0" + blocks + stored + footer


class TestWriting:
    def test_every_object_comes_back(self) -> None:
        objects = [RNG.randbytes(RNG.randrange(20_000)) for _ in range(100)]
        pack = build(objects)
        assert [read(pack.data, placement) for placement in pack.placements] == objects

    def test_the_layout_is_the_documented_one(self) -> None:
        block = zstandard.ZstdCompressor(level=3).compress(b"hold fast")
        row = [object_id_of(b"hold fast"), 0, 0, 9]
        by_hand = with_index([[[8, len(block), 9]], [row]], blocks=block)
        assert build([b"hold fast"]).data == by_hand

    def test_a_pack_of_nothing_is_a_pack(self) -> None:
        pack = PackBuilder().finish()
        assert pack.placements == parse_index(pack.data, pack="p") == []
        assert check_pack(pack.data, pack="p") == []

    def test_an_empty_object_is_an_object(self) -> None:
        pack = build([b""])
        assert read(pack.data, pack.placements[0]) == b""
        assert check_pack(pack.data, pack="p") == []

    def test_an_object_is_in_a_pack_once(self) -> None:
        builder = PackBuilder()
        for kind in (CHUNK, CHUNK, NODE):
            builder.add(object_id_of(b"same"), b"same", kind=kind)
        assert len(builder) == 1
        assert len(builder.finish().placements) == 1

    @pytest.mark.parametrize("kind", ObjectKind)
    def test_small_objects_share_blocks_of_the_target_size(self, kind: ObjectKind) -> None:
        target = BLOCK_TARGET_BYTES[kind]
        pack = build([RNG.randbytes(1_000) for _ in range(500)], kind=kind)
        per_block = Counter(placement.block_offset for placement in pack.placements)
        *full, _ = per_block.values()
        assert set(full) == {target // 1_000}

    def test_chunks_and_nodes_do_not_share_a_block(self) -> None:
        builder = PackBuilder()
        kinds: dict[ObjectId, ObjectKind] = {}
        for number in range(200):
            data, kind = RNG.randbytes(2_000), (CHUNK, NODE)[number % 2]
            builder.add(object_id_of(data), data, kind=kind)
            kinds[object_id_of(data)] = kind
        blocks: dict[int, set[ObjectKind]] = {}
        for placement in builder.finish().placements:
            blocks.setdefault(placement.block_offset, set()).add(kinds[placement.object_id])
        assert all(len(found) == 1 for found in blocks.values())

    def test_an_object_beyond_the_target_is_alone_and_leaves_the_open_block_open(self) -> None:
        before, large, after = b"before", RNG.randbytes(BLOCK_TARGET_BYTES[CHUNK] + 1), b"after"
        placements = {p.object_id: p for p in build([before, large, after]).placements}
        block_of = {data: placements[object_id_of(data)].block_offset for data in (before, after)}
        assert block_of[before] == block_of[after]
        assert placements[object_id_of(large)].block_offset != block_of[before]
        assert placements[object_id_of(large)].offset == 0

    def test_an_object_that_no_reader_would_take_is_refused(self) -> None:
        builder = PackBuilder()
        with pytest.raises(TooLarge):
            builder.add(ObjectId(bytes(32)), bytes(MAX_PLAIN_BYTES + 1), kind=CHUNK)
        assert len(builder) == 0
        assert builder.finish().placements == []

    def test_a_builder_starts_afresh_after_a_pack(self) -> None:
        builder = PackBuilder()
        empty = builder.stored_bytes
        builder.add(object_id_of(b"one"), b"one", kind=CHUNK)
        first = builder.finish()
        assert (len(builder), builder.stored_bytes) == (0, empty)
        builder.add(object_id_of(b"one"), b"one", kind=CHUNK)
        assert builder.finish() == first

    def test_the_writer_does_not_hand_out_a_pack_whose_index_is_wrong(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = writer.BlockRow
        builder = PackBuilder()
        builder.add(object_id_of(b"one"), b"one", kind=CHUNK)
        monkeypatch.setattr(
            writer, "BlockRow", lambda at, stored, plain: real(at + 1, stored, plain)
        )
        with pytest.raises(PackDamaged, match="being written"):
            builder.finish()

    def test_the_writer_misses_an_object_that_is_not_in_the_index(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        builder = PackBuilder()
        builder.add(object_id_of(b"one"), b"one", kind=CHUNK)
        monkeypatch.setattr(writer, "PackIndex", lambda blocks, objects: [blocks, objects[1:]])
        with pytest.raises(PackDamaged, match="does not name what was added"):
            builder.finish()


class TestReading:
    def test_an_index_is_read_in_three_ranged_reads(self) -> None:
        pack = build([RNG.randbytes(100) for _ in range(50)])
        asked: list[tuple[int, int]] = []

        def ranged(start: int, length: int) -> bytes:
            asked.append((start, length))
            return pack.data[start : start + length]

        assert read_index(ranged, size=len(pack.data), pack="p") == pack.placements
        assert len(asked) == 3

    def test_a_reader_that_returns_less_than_asked_is_found_out(self) -> None:
        pack = build([b"one"])
        for part in (0, len(pack.data) - FOOTER_BYTES):

            def short(start: int, length: int, part: int = part) -> bytes:
                return pack.data[start : start + length - (start == part)]

            with pytest.raises(PackDamaged):
                read_index(short, size=len(pack.data), pack="p")

    def test_wrong_bytes_are_reported_never_returned(self) -> None:
        pack = build([b"one"])
        (placement,) = pack.placements
        for block in (b"", b"on", b"onE"):
            with pytest.raises(ObjectDamaged) as caught:
                cut(block, placement, pack="pack-x")
            assert caught.value.object_id == object_id_of(b"one")
            assert "pack-x" in caught.value.where

    def test_a_placement_that_is_off_is_found_out(self) -> None:
        pack = build([b"one", b"two"])
        placement = pack.placements[0]
        for offset, size in ((1, 3), (0, 4), (-3, 3), (6, 3), (0, 0)):
            wrong = Placement(
                placement.object_id, placement.block_offset, placement.block_size, offset, size
            )
            with pytest.raises(ObjectDamaged):
                read(pack.data, wrong)

    def test_a_later_version_asks_for_an_upgrade(self) -> None:
        data = bytearray(build([b"one"]).data)
        data[4:8] = b"\x02\x01\x02\x03"
        for use in (parse_index, check_pack):
            with pytest.raises(VaultTooNew) as caught:
                use(bytes(data), pack="p")
            assert (caught.value.found, caught.value.known) == (2, 1)

    @pytest.mark.parametrize(("damage", "reason"), DAMAGE_TO_THE_FRAME)
    def test_damage_to_the_frame_of_a_pack_is_named(
        self, damage: Callable[[bytes], bytes], reason: str
    ) -> None:
        data = damage(build([b"one"]).data)
        with pytest.raises(PackDamaged, match=reason) as caught:
            parse_index(data, pack="pack-x")
        assert caught.value.pack == "pack-x"
        assert [(d.pack, d.object_id) for d in check_pack(data, pack="pack-x")] == [
            ("pack-x", None)
        ]

    def test_threads_share_nothing_that_they_must_not(self) -> None:
        objects = [RNG.randbytes(500) * 40 for _ in range(40)]
        pack = build(objects)

        def read_all(seed: int) -> bool:
            order = random.Random(seed).sample(range(40), 40)
            return all(read(pack.data, pack.placements[i]) == objects[i] for i in order)

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(read_all, range(24)))


class TestHostileBlocks:
    def test_a_frame_that_claims_terabytes_is_refused_before_it_is_believed(self) -> None:
        claim = b"\x28\xb5\x2f\xfd\xe0" + (1 << 45).to_bytes(8, "little") + b"\x01\0\0"
        with pytest.raises(PackDamaged, match="35184372088832"):
            read_block(claim, pack="p")

    def test_a_bomb_just_beyond_the_cap_is_refused_and_one_at_the_cap_is_read(self) -> None:
        compress = zstandard.ZstdCompressor().compress
        assert len(read_block(compress(bytes(MAX_PLAIN_BYTES)), pack="p")) == MAX_PLAIN_BYTES
        with pytest.raises(PackDamaged, match="claims"):
            read_block(compress(bytes(MAX_PLAIN_BYTES + 1)), pack="p")

    def test_only_one_whole_frame_with_its_size_is_a_block(self) -> None:
        frame = zstandard.ZstdCompressor().compress(b"content" * 100)
        unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"content" * 100)
        skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
        for stored in (
            b"",
            frame[:4],
            frame[:-1],
            frame + b"x",
            frame + frame,
            unsized,
            skippable,
            skippable + frame,
        ):
            with pytest.raises(PackDamaged):
                read_block(stored, pack="p")
        with pytest.raises(PackDamaged, match="does not state its size"):
            read_block(unsized, pack="p")
        # And the thread's decompressor has taken no harm.
        assert read_block(frame, pack="p") == b"content" * 100


class TestHostileIndexes:
    BLOCK = zstandard.ZstdCompressor().compress(b"0123456789")
    ID = object_id_of(b"0123456789")

    def test_an_index_that_overlaps_the_header(self) -> None:
        data = b"HFPK\x01\0\0\0" + bytes(4)
        for offset in range(8):
            stored = data[offset:]
            footer = offset.to_bytes(8) + len(stored).to_bytes(4) + blake3(stored).digest()
            with pytest.raises(PackDamaged):
                parse_index(data + footer + b"HFPK", pack="p")

    def refuse(self, index: object, *, reason: str, raw: bytes | None = None) -> None:
        data = with_index(index, blocks=self.BLOCK, raw=raw)
        with pytest.raises(PackDamaged, match=reason):
            parse_index(data, pack="p")

    def test_the_honest_one_is_taken(self) -> None:
        row = [[[8, len(self.BLOCK), 10]], [[self.ID, 0, 0, 10]]]
        (placement,) = parse_index(with_index(row, blocks=self.BLOCK), pack="p")
        assert placement == Placement(self.ID, 8, len(self.BLOCK), 0, 10)

    @pytest.mark.parametrize(
        "blocks",
        [
            [],
            [[0, 18, 10]],
            [[8, 1, 10]],
            [[8, 10_000, 10]],
            [[9, 18, 10]],
            [[8, 10, 10], [8, 10, 10]],
            [[1 << 63, 18, 10]],
        ],
    )
    def test_blocks_that_do_not_fill_the_space_exactly(self, blocks: list[list[int]]) -> None:
        assert len(self.BLOCK) not in (1, 10, 10_000)
        self.refuse([blocks, []], reason="block")

    @pytest.mark.parametrize(
        "place",
        [[1, 0, 10], [0, 1, 10], [0, 0, 11], [0, 11, 0], [1 << 60, 0, 1], [0, 1 << 25, 1 << 25]],
    )
    def test_objects_outside_of_their_block(self, place: list[int]) -> None:
        self.refuse([[[8, len(self.BLOCK), 10]], [[self.ID, *place]]], reason="outside")

    def test_an_object_twice(self) -> None:
        rows = [[self.ID, 0, 0, 10], [self.ID, 0, 0, 10]]
        self.refuse([[[8, len(self.BLOCK), 10]], rows], reason="twice")

    @pytest.mark.parametrize(
        "index",
        [
            None,
            [],
            {},
            "text",
            [1, 2],
            [[[8, -1, 10]], []],
            [[[8, 18, MAX_PLAIN_BYTES + 1]], []],
            [[[8, 18, 10]], [[b"short", 0, 0, 10]]],
            [[[8, 18, 10]], [[bytes(33), 0, 0, 10]]],
            [[[8, 18, 10]], [[bytes(32), 0, -1, 10]]],
            [[[8, 18, 10]], [], "more"],
        ],
    )
    def test_rows_of_another_shape(self, index: object) -> None:
        self.refuse(index, reason="decoded")

    @pytest.mark.parametrize(
        "raw",
        [
            b"",
            b"\x92\x90\x90 trailing",
            b"\x92\xdd\xff\xff\xff\xff",
            b"\x92\x90\x91\x94\xc6\xff\xff\xff\xff",
            b"\x93\x90\x90" + b"\x91" * 1_000_000,
            b"\x92\x91\x94\x08\x00\x00" + b"\x91" * 1_000_000,
            b"\x92" + b"\x91" * 1_000_000,
        ],
        ids=["empty", "trailing", "4G rows", "4G id", "deep index", "deep row", "deep list"],
    )
    def test_msgpack_that_aims_at_the_decoder(self, raw: bytes) -> None:
        self.refuse(None, reason="decoded", raw=raw)

    def test_an_index_that_claims_gigabytes_is_not_fetched(self) -> None:
        size = 1 << 40
        footer = (size - 48 - 0xFFFFFFFF).to_bytes(8) + b"\xff" * 4 + bytes(32) + b"HFPK"
        asked: list[int] = []

        def ranged(start: int, length: int) -> bytes:
            asked.append(length)
            return footer if start else b"HFPK\x01\0\0\0"

        with pytest.raises(PackDamaged, match="4294967295"):
            read_index(ranged, size=size, pack="p")
        assert asked == [HEADER_BYTES, FOOTER_BYTES]


class TestChecking:
    def test_a_sound_pack_has_no_damage(self) -> None:
        assert check_pack(build([RNG.randbytes(3_000) for _ in range(200)]).data, pack="p") == []

    def test_every_object_of_a_damaged_block_is_named_and_no_other(self) -> None:
        pack = build([RNG.randbytes(5_000) for _ in range(100)])
        hit = pack.placements[30]
        data = bytearray(pack.data)
        data[hit.block_offset : hit.block_offset + 4] = bytes(4)
        lost = {p.object_id for p in pack.placements if p.block_offset == hit.block_offset}
        assert 1 < len(lost) < 100
        assert {damage.object_id for damage in check_pack(bytes(data), pack="p")} == lost

    def test_one_changed_byte_of_content_names_one_object(self) -> None:
        pack = build([RNG.randbytes(5_000) for _ in range(100)])
        hit = pack.placements[30]
        data = bytearray(pack.data)
        # Random bytes are stored as they are, so the middle of the block is plain content.
        at = data.index(read(pack.data, hit)[1_000:1_020])
        data[at] ^= 1
        assert check_pack(bytes(data), pack="p") == [
            Damage("p", hit.object_id, "its bytes do not hash to its name")
        ]

    def test_a_block_of_another_size_than_the_index_says_is_named(self) -> None:
        block = zstandard.ZstdCompressor().compress(b"0123456789")
        row = [object_id_of(b"0123456789"), 0, 0, 10]
        data = with_index([[[8, len(block), 11]], [row]], blocks=block)
        (damage,) = check_pack(data, pack="p")
        assert damage.object_id is None
        assert "holds 10 bytes, not 11" in damage.reason

    def test_a_block_without_objects_is_checked_too(self) -> None:
        data = with_index([[[8, 4, 10]], []], blocks=b"junk")
        (damage,) = check_pack(data, pack="p")
        assert damage.object_id is None

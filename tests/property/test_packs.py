"""Laws of the pack format: what goes in comes out, and damage is never returned."""

import random
from collections.abc import Callable
from contextlib import suppress

import msgspec
import zstandard
from blake3 import blake3
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.errors import ObjectDamaged, PackDamaged, VaultTooNew
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import Placement
from holdfast.packs import (
    ObjectKind,
    Pack,
    PackBuilder,
    check_pack,
    cut,
    parse_index,
    read_block,
)

Mutation = Callable[[bytes], bytes]

# Sizes around the block targets matter more than content: content is random, or all the same.
contents = st.builds(
    lambda size, seed: random.Random(seed).randbytes(size) if seed else bytes(size),
    st.one_of(st.integers(0, 300), st.sampled_from([16_383, 16_384, 16_385, 131_072, 131_073])),
    st.integers(0, 50),
)
added = st.lists(st.tuples(contents, st.sampled_from(ObjectKind)), max_size=25)


def build(objects: list[tuple[bytes, ObjectKind]]) -> Pack:
    builder = PackBuilder()
    for data, kind in objects:
        builder.add(object_id_of(data), data, kind=kind)
    return builder.finish()


def read(data: bytes, placement: Placement) -> bytes:
    end = placement.block_offset + placement.block_size
    return cut(read_block(data[placement.block_offset : end], pack="p"), placement, pack="p")


def flip(position: float, bit: int) -> Mutation:
    def mutate(data: bytes) -> bytes:
        changed = bytearray(data)
        if changed:
            changed[int(position * (len(changed) - 1))] ^= 1 << bit
        return bytes(changed)

    return mutate


def splice(position: float, remove: int, insert: bytes) -> Mutation:
    def mutate(data: bytes) -> bytes:
        at = int(position * len(data))
        return data[:at] + insert + data[at + remove :]

    return mutate


def truncate(position: float) -> Mutation:
    return lambda data: data[: int(position * len(data))]


positions = st.floats(0, 1)
mutations = st.lists(
    st.one_of(
        st.builds(flip, positions, st.integers(0, 7)),
        st.builds(splice, positions, st.integers(0, 40), st.binary(max_size=40)),
        st.builds(truncate, positions),
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(added)
def test_what_goes_in_comes_out_once_each(objects: list[tuple[bytes, ObjectKind]]) -> None:
    wanted = {object_id_of(data): data for data, _ in objects}
    pack = build(objects)
    assert {p.object_id: read(pack.data, p) for p in pack.placements} == wanted
    assert len(pack.placements) == len(wanted)
    assert parse_index(pack.data, pack="p") == pack.placements
    assert check_pack(pack.data, pack="p") == []


@settings(deadline=None)
@given(added)
def test_a_pack_is_never_larger_than_the_builder_said(
    objects: list[tuple[bytes, ObjectKind]],
) -> None:
    builder = PackBuilder()
    for data, kind in objects:
        builder.add(object_id_of(data), data, kind=kind)
    promised = builder.stored_bytes
    assert len(builder.finish().data) <= promised


@settings(deadline=None)
@given(added)
def test_the_same_objects_make_the_same_pack(objects: list[tuple[bytes, ObjectKind]]) -> None:
    assert build(objects) == build(objects)


@settings(deadline=None, max_examples=300)
@given(added, mutations)
@example([(b"one", ObjectKind.CHUNK)], [flip(0.0, 0)])
def test_from_a_mutilated_pack_an_object_comes_back_exactly_or_not_at_all(
    objects: list[tuple[bytes, ObjectKind]], steps: list[Mutation]
) -> None:
    pack = build(objects)
    wanted = {object_id_of(data): data for data, _ in objects}
    data = pack.data
    for mutate in steps:
        data = mutate(data)
    # The catalog still has the placements; the pack's own index may have others.
    comes_back(data, pack.placements, wanted)
    with suppress(PackDamaged, VaultTooNew):
        comes_back(data, parse_index(data, pack="p"), wanted)


@settings(deadline=None, max_examples=200)
@given(added, mutations)
def test_a_check_that_finds_nothing_means_that_nothing_is_lost(
    objects: list[tuple[bytes, ObjectKind]], steps: list[Mutation]
) -> None:
    pack = build(objects)
    data = pack.data
    for mutate in steps:
        data = mutate(data)
    try:
        damages = check_pack(data, pack="p")
    except VaultTooNew:
        return
    lost = {damage.object_id for damage in damages}
    if None not in lost:
        for placement in pack.placements:
            if placement.object_id not in lost:
                assert object_id_of(read(data, placement)) == placement.object_id


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=300))
def test_bytes_of_any_kind_are_damaged_at_worst(data: bytes) -> None:
    with suppress(PackDamaged):
        read_block(data, pack="p")
    with suppress(PackDamaged, VaultTooNew):
        parse_index(data, pack="p")


numbers = st.one_of(st.integers(0, 40), st.integers(-(2**63), 2**64 - 1))
ids = st.one_of(st.binary(min_size=32, max_size=32), st.binary(max_size=40))
likely_indexes = st.tuples(
    st.lists(st.tuples(numbers, numbers, numbers), max_size=3),
    st.lists(st.tuples(ids, numbers, numbers, numbers), max_size=4),
)
any_value = st.recursive(
    st.one_of(st.none(), numbers, st.binary(max_size=40), st.text(max_size=5), st.floats()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner)),
    max_leaves=8,
)


@settings(deadline=None, max_examples=300)
@given(st.one_of(likely_indexes, any_value), st.binary(max_size=60))
@example(([(8, 18, 10)], [(bytes(32), 0, 0, 10)]), zstandard.compress(b"0123456789"))
def test_an_index_made_up_by_an_enemy_leads_to_no_wrong_bytes(index: object, blocks: bytes) -> None:
    data = forge(index, blocks=blocks)
    try:
        placements = parse_index(data, pack="p")
    except PackDamaged:
        return
    for placement in placements:
        assert placement.block_offset >= 8
        assert placement.block_offset + placement.block_size <= len(data)
    comes_back(data, placements, {})
    check_pack(data, pack="p")


@settings(deadline=None, max_examples=200)
@given(added.filter(bool), st.data())
def test_an_index_with_one_number_changed_leads_to_no_wrong_bytes(
    objects: list[tuple[bytes, ObjectKind]], draw: st.DataObject
) -> None:
    data = build(objects).data
    index_offset = int.from_bytes(data[-48:-40])
    index = msgspec.msgpack.decode(zstandard.decompress(data[index_offset:-48]))
    row = draw.draw(st.sampled_from([*index[0], *index[1]]))
    place = draw.draw(st.sampled_from([n for n in range(len(row)) if isinstance(row[n], int)]))
    row[place] = draw.draw(st.one_of(numbers, st.integers(-2, 2).map(lambda by: row[place] + by)))
    forged = forge(index, blocks=data[8:index_offset])
    wanted = {object_id_of(data): data for data, _ in objects}
    with suppress(PackDamaged):
        comes_back(forged, parse_index(forged, pack="p"), wanted)
    check_pack(forged, pack="p")


def forge(index: object, *, blocks: bytes) -> bytes:
    """Returns a pack with that index, whose hash is right."""
    stored = zstandard.compress(msgspec.msgpack.encode(index))
    place = (8 + len(blocks)).to_bytes(8) + len(stored).to_bytes(4)
    return b"HFPK\x01\0\0\0" + blocks + stored + place + blake3(stored).digest() + b"HFPK"


def comes_back(data: bytes, placements: list[Placement], wanted: dict[ObjectId, bytes]) -> None:
    """Fails unless each object is what its id says, or raises what it may raise."""
    for placement in placements:
        try:
            found = read(data, placement)
        except (PackDamaged, ObjectDamaged):
            continue
        assert object_id_of(found) == placement.object_id
        assert found == wanted.get(placement.object_id, found)

"""Decides where one tree node ends and the next begins.

This is what makes trees canonical: the same entries always form the same nodes, whatever
the order in which they arrived, so equal maps have equal roots.

Two rules, both part of the format:

1. A key alone decides whether a *natural* boundary follows it at a level (`closes_node`):
   not the value, not the neighbours, not the past. The rows between two natural boundaries
   are a *run*.
2. A run within `MAX_ENTRIES` and `MAX_BYTES` is one node. A larger one is cut in two at the
   row of the middle half whose second hash is smallest, and each part again until it fits.
   The run's own rows decide, so the cut is canonical too; and because a hash chooses the
   place, an edit leaves most nodes of a large run as they were.

Rule 2 is for large values, and for whoever picks keys that never close a node: nodes stay
bounded, and what they pay is that an edit reads the whole run.

Not here: bytes (`node.py`), and which rows need splitting again (`apply.py`).
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import Final
from zlib import crc32

MEAN_ENTRIES: Final = 32
"""Mean rows of a node. Changing it changes every root: it is part of the format.

An edit rewrites one node per level: smaller nodes mean fewer bytes per edit, larger ones
fewer levels and round trips. At 32, a path entry of about 100 bytes makes nodes of 3 KB,
and a million entries are four levels deep.
"""

MAX_ENTRIES: Final = 256
"""Most rows of a node. Eight times the mean: honest keys exceed it once in 3,000 runs."""

MAX_BYTES: Final = 64 * 1024
"""Most bytes of keys and values in a node, unless a single entry is larger."""

_FEWEST_CHILDREN: Final = 3
# Above the leaves a part of up to three rows is never cut, however long its keys. Cut to
# single rows, a level would have as many nodes as the one beneath it, and the tree would
# grow upwards for ever.

_MASK: Final = 0xFFFF_FFFF
_THRESHOLD: Final = 2**32 // MEAN_ENTRIES
_LEVEL_STEP: Final = 0x9E37_79B9
_MIX: Final = 0x9E37_79B1
# 2**32 divided by the golden ratio, as a step between seeds and (its neighbouring prime) as
# a multiplier: both spread what differs in few bits over all of them.


def closes_node(key: bytes, level: int) -> bool:
    """Returns whether a node at `level` naturally ends with `key`.

    The hash is CRC-32, seeded by the level, then squared and multiplied: 0.25 µs per key
    where BLAKE2b takes 0.7 µs, and as even on numbered names. CRC-32 alone would not do: it
    is linear, so keys that closed a node at one level would, for names of one length, all
    close at the next or never. Squaring ends that (a multiplication alone leaves pairs of
    levels dependent for some lengths). A stronger hash would stop no adversary, who can
    always try keys until they suit; bounded nodes do.
    """
    hashed = crc32(key, (level + 1) * _LEVEL_STEP & _MASK)
    return hashed * hashed * _MIX & _MASK < _THRESHOLD


def natural_ends(keys: Sequence[bytes], level: int) -> list[int]:
    """Returns the positions in `keys` right after those that close a node at `level`."""
    # The same arithmetic as `closes_node`, in one loop: building calls it for every entry.
    hashes = map(crc32, keys, repeat((level + 1) * _LEVEL_STEP & _MASK))
    return [
        at for at, hashed in enumerate(hashes, 1) if hashed * hashed * _MIX & _MASK < _THRESHOLD
    ]


def node_ranges(
    keys: Sequence[bytes], values: Sequence[bytes], ends: Sequence[int], level: int
) -> list[tuple[int, int]]:
    """Returns the (start, stop) of every node that these rows of a level form.

    The rows begin after a natural boundary; `ends` says where the natural boundaries among
    them are. Rows after the last one form a run too.
    """
    if not keys:
        return []
    offsets = list(accumulate(map(add, map(len, keys), map(len, values)), initial=0))
    ranges: list[tuple[int, int]] = []
    start = 0
    stops = ends if ends and ends[-1] == len(keys) else [*ends, len(keys)]
    for stop in stops:
        if _fits(offsets, start, stop, level):
            ranges.append((start, stop))
        else:
            ranges.extend(_cut(keys, offsets, start, stop, level))
        start = stop
    return ranges


def _cut(
    keys: Sequence[bytes], offsets: list[int], start: int, stop: int, level: int
) -> Iterator[tuple[int, int]]:
    """Yields the (start, stop) of the nodes of a run that is too large for one."""
    ranks = [_rank(key, level) for key in keys[start:stop]]
    parts = [(start, stop)]
    while parts:
        left, right = parts.pop()
        if _fits(offsets, left, right, level):
            yield left, right
            continue
        # Of two rows or more, the middle half holds at least one and never the last one: both
        # sides have rows, and lose some.
        rows, ahead = right - left, left - start
        first, last = ahead + rows // 4, ahead + rows * 3 // 4
        middle = start + ranks.index(min(ranks[first:last]), first, last) + 1
        parts += [(middle, right), (left, middle)]


def _fits(offsets: list[int], start: int, stop: int, level: int) -> bool:
    rows = stop - start
    if rows <= (_FEWEST_CHILDREN if level else 1):
        return True
    return rows <= MAX_ENTRIES and offsets[stop] - offsets[start] <= MAX_BYTES


def _rank(key: bytes, level: int) -> int:
    # The complement of the seed makes this hash independent of the one that closes nodes.
    hashed = crc32(key, ~((level + 1) * _LEVEL_STEP) & _MASK)
    return hashed * hashed * _MIX & _MASK

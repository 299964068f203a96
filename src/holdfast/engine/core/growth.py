"""How much larger or smaller edits make a namespace."""

from collections.abc import Iterable

from holdfast.entries import decode_entry
from holdfast.model.basics import Size
from holdfast.tree import Edit


def size_of(edits: Iterable[Edit]) -> Size:
    """Returns by how much these edits make a namespace grow."""
    entries = total = 0
    for edit in edits:
        if edit.new is not None:
            entries += 1
            total += decode_entry(edit.new).size
        if edit.old is not None:
            entries -= 1
            total -= decode_entry(edit.old).size
    return Size(entries, total)

"""Records that grow: rows that were there before a column came are what they were."""

from dataclasses import dataclass, field, replace

import pytest

from holdfast.catalog.rows import Record
from holdfast.errors import Damaged


@dataclass(frozen=True, kw_only=True)
class Before:
    """A row as it was."""

    id: str
    note: str | None
    detail: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Now:
    """The same with two columns more, and a field that is none."""

    id: str
    note: str | None
    detail: dict[str, str]
    words: dict[str, str] = field(default_factory=dict[str, str])
    count: int = 0
    elsewhere: int = 0


BEFORE = Record("thing", Before, sealed=True)
NOW = Record("thing", Now, sealed=True, without=["elsewhere"], grows_after="detail")
OLD = Before(id="a", note=None, detail={})
NEW = Now(id="a", note=None, detail={})


def test_a_row_from_before_is_read_with_defaults() -> None:
    *values, checksum = BEFORE.row(OLD)
    assert NOW.read([*values, None, None, checksum]) == NEW


def test_what_holds_nothing_is_stored_as_it_was() -> None:
    assert NOW.row(NEW) == [*BEFORE.row(OLD)[:-1], None, None, BEFORE.row(OLD)[-1]]


@pytest.mark.parametrize("new", [replace(NEW, words={"a": "b"}), replace(NEW, count=3)])
def test_what_came_later_is_under_the_checksum(new: Now) -> None:
    stored = NOW.row(new)
    assert NOW.read(stored) == new
    for place in (3, 4):
        for other in (None, '{"a": "c"}', 2):
            if stored[place] != other:
                with pytest.raises(Damaged):
                    NOW.read([*stored[:place], other, *stored[place + 1 :]])


def test_a_column_from_before_is_never_left_out() -> None:
    *values, checksum = BEFORE.row(OLD)
    for place in range(len(values)):
        if values[place] is not None:
            lost = [*values[:place], None, *values[place + 1 :]]
            with pytest.raises(Damaged):
                NOW.read([*lost, None, None, checksum])

"""Changes of which some are listed, and all are counted."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.timeline.diff import collect_changes
from holdfast.model.basics import Plane
from holdfast.model.changes import WORDS, Change, Changes

planes = st.sampled_from([Plane.FILES, Plane.STORE])
these = st.lists(st.tuples(planes, st.sampled_from(WORDS)), max_size=12).map(
    lambda drawn: [
        Change(plane, b"%03d" % number, f"{number:03}", word)
        for number, (plane, word) in enumerate(sorted(drawn, key=lambda each: each[0] != "files"))
    ]
)


def counts(changes: Changes) -> dict[tuple[Plane, str], int | None]:
    return {(plane, word): changes.count(word, plane=plane) for plane in Plane for word in WORDS}


@given(these, st.integers(0, 13), st.integers(0, 13))
def test_a_limit_changes_what_is_listed_and_no_count(
    found: list[Change], limit: int, fewer: int
) -> None:
    every = Changes(found)
    some = collect_changes(iter(found), limit=limit, counts=True)
    assert list(some) == found[:limit]
    assert some.truncated == (len(found) > limit)
    for listed in (some, some.first(fewer), every.first(limit).first(fewer)):
        assert counts(listed) == counts(every)
        assert listed.count() == len(found)
    assert some.first(fewer).truncated == (len(found) > min(limit, fewer))


@given(these, st.integers(0, 13), st.sets(st.integers(0, 11)))
def test_what_is_taken_out_is_counted_neither_if_it_was_listed_nor_if_not(
    found: list[Change], limit: int, chosen: set[int]
) -> None:
    files = {found[n].key: found[n].change for n in chosen if n < len(found)}
    files = {key: word for key, word in files.items() if found[int(key)].plane is Plane.FILES}
    kept = [change for change in found if change.key not in files]
    some = collect_changes(iter(found), limit=limit, counts=True)
    left = some.without({**files, b"touched alone": None})
    assert counts(left) == counts(Changes(kept))
    assert left.truncated == (len(left) < len(kept))


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_without_counting_one_more_than_the_limit_is_looked_at(limit: int) -> None:
    looked_at: list[int] = []

    def found() -> Iterator[Change]:
        for number in range(10):
            looked_at.append(number)
            yield Change(Plane.FILES, b"%d" % number, str(number), "added")

    some = collect_changes(found(), limit=limit, counts=False)
    assert (len(some), some.truncated, some.count()) == (limit, True, None)
    assert some.first(0).count() is None
    assert len(looked_at) == limit + 1

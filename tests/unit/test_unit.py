"""A unit of work is done again if it has to be, and its batch is kept or dropped with it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.tenants import get_or_add
from holdfast.engine.objects.stage import Stage, Withdrawn
from holdfast.engine.planes import unit
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import ATTEMPTS, carry_out
from holdfast.errors import Busy
from holdfast.packs import ObjectKind


@pytest.fixture
def handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handle]:
    monkeypatch.setattr(unit, "PAUSE_S", 0)
    limits = Limits(free_floor_bytes=0, inline_bytes=0)
    with closing(SqliteCatalog(tmp_path)) as catalog:
        context = Context.of(catalog, MemoryBlobStore(), limits=limits)
        tenant = get_or_add(context, "any")
        yield Handle(replace(context, vault="any"), tenant.id, "any")


def packs(handle: Handle) -> list[str]:
    return [name for name, _ in handle.context.blobs.iter_names()]


def put(stage: Stage, data: bytes) -> None:
    stage.add(data, ObjectKind.CHUNK)
    stage.seal()


def name(handle: Handle, stage: Stage) -> None:
    with handle.context.work() as transaction:
        stage.record(transaction)


def test_what_was_named_stays(handle: Handle) -> None:
    def write(stage: Stage) -> str:
        put(stage, b"data")
        name(handle, stage)
        return "done"

    assert carry_out(handle, write) == "done"
    assert len(packs(handle)) == 1


def test_what_was_not_named_goes(handle: Handle) -> None:
    carry_out(handle, lambda stage: put(stage, b"data"))
    assert packs(handle) == []


def test_what_failed_goes_and_is_not_tried_again(handle: Handle) -> None:
    tried = list[Stage]()

    def write(stage: Stage) -> None:
        tried.append(stage)
        put(stage, b"data")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        carry_out(handle, write)
    assert len(tried) == 1
    assert packs(handle) == []


@pytest.mark.parametrize("error", [Busy, Withdrawn])
def test_who_was_not_first_begins_anew(handle: Handle, error: type[Exception]) -> None:
    tried = list[Stage]()

    def write(stage: Stage) -> None:
        tried.append(stage)
        put(stage, b"data")
        if len(tried) < ATTEMPTS:
            raise error("another was faster")
        name(handle, stage)

    carry_out(handle, write)
    assert len({id(stage) for stage in tried}) == ATTEMPTS
    assert len(packs(handle)) == 1


@pytest.mark.parametrize("error", [Busy, Withdrawn])
def test_who_is_never_first_is_told_so(handle: Handle, error: type[Exception]) -> None:
    def write(_: Stage) -> None:
        raise error("another was faster")

    with pytest.raises(Busy, match="another was faster"):
        carry_out(handle, write)


def test_the_last_attempt_may_be_another(handle: Handle) -> None:
    tried = list[str]()

    def beside_others(_: Stage) -> str:
        tried.append("beside others")
        raise Withdrawn("another was faster")

    assert carry_out(handle, beside_others, last=lambda _: "under the lock") == "under the lock"
    assert tried == ["beside others"] * (ATTEMPTS - 1)


def test_of_two_units_the_one_is_done_again_whose_batch_is_gone(handle: Handle) -> None:
    outer, inner = list[Stage](), list[Stage]()

    def around(stage: Stage) -> None:
        outer.append(stage)

        def within(other: Stage) -> None:
            inner.append(other)
            if len(inner) == 1:
                raise Withdrawn("of this one", batch=other)
            if len(inner) == 2:
                raise Withdrawn("of the one around it", batch=stage)

        carry_out(handle, within)

    carry_out(handle, around, is_around=True)
    assert (len(outer), len(inner)) == (2, 3)


def test_what_a_unit_could_not_do_the_one_around_it_does_not_try_again(handle: Handle) -> None:
    outer, inner = list[Stage](), list[Stage]()

    def within(stage: Stage) -> None:
        inner.append(stage)
        raise Busy("others are")

    def around(stage: Stage) -> None:
        outer.append(stage)
        carry_out(handle, within)

    with pytest.raises(Busy):
        carry_out(handle, around, is_around=True)
    assert (len(outer), len(inner)) == (1, ATTEMPTS)

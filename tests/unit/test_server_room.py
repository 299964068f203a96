"""Room for what comes in: who waits, who is refused, and what is given back."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from obstore.exceptions import BaseError

from holdfast.engine.core.limits import GIB, MIB, Limits
from holdfast.errors import Damaged, StorageDenied, StorageFull, Unavailable
from holdfast.server import room as room_
from holdfast.server.config import Config
from holdfast.server.failures import answer_to
from holdfast.server.problems import AnswersNotTaken, TooManyAtOnce
from holdfast.server.requests import Request
from holdfast.server.room import Room, Taken


class Usage(NamedTuple):
    """How full a disk is, as `shutil` says it."""

    total: int
    used: int
    free: int


def has_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    def usage(_: Path) -> Usage:
        return Usage(200 * GIB, 200 * GIB - free, free)

    monkeypatch.setattr(shutil, "disk_usage", usage)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    has_free(monkeypatch, 100 * GIB)
    monkeypatch.setattr(room_, "PATIENCE_S", 0.01)
    return Room(Config(data=tmp_path))


def is_as_before(room: Room) -> bool:
    return (room.memory.free, room.disk.free, room.promised) == (
        room.memory.total,
        room.disk.total,
        0,
    )


def test_uploads_of_one_tenant_wait_for_each_other_and_are_told_so(room: Room) -> None:
    async def test() -> None:
        held = [Taken(room, "greedy", each) for each in "ab"]
        for each in held:
            await each.take_disk(16 * GIB)
        with pytest.raises(TooManyAtOnce, match="at once") as refused:
            await Taken(room, "greedy", "c").take_disk(16 * GIB)
        assert refused.value.retry_after
        other = Taken(room, "modest", "k")
        await other.take_disk(16 * GIB)
        for each in (*held, other):
            each.give_back()
        assert is_as_before(room)

    asyncio.run(test())


def test_what_one_key_has_declared_holds_up_no_other_key_of_its_tenant(room: Room) -> None:
    size = 125 * MIB

    async def test() -> None:
        first, modest, other = (Taken(room, "tenant", key) for key in ("greedy", "modest", "other"))
        await first.take_memory(size)
        with pytest.raises(TooManyAtOnce, match="this key"):
            await Taken(room, "tenant", "greedy").take_memory(size)
        with pytest.raises(TooManyAtOnce):
            first.grow_memory(size)
        await modest.take_memory(size)
        other.grow_memory(4 * MIB)
        for each in (first, modest, other):
            each.give_back()
        assert is_as_before(room)

    asyncio.run(test())


def test_what_waits_for_its_tenant_and_is_given_up_leaves_its_key_nothing(room: Room) -> None:
    async def test() -> None:
        others = [Taken(room, tenant, "k") for tenant in "abcde"]
        for each in others:
            await each.take_memory(room.memory.total // 8)
        mine, half = Taken(room, "mine", "k"), room.memory.total // 4
        await mine.take_memory(half // 2)
        with pytest.raises(TooManyAtOnce):
            await Taken(room, "mine", "l").take_memory(half)
        await Taken(room, "a", "l").take_memory(MIB)
        mine.give_back()
        for each in others[1:]:
            each.give_back()
        again = Taken(room, "mine", "l")
        await again.take_memory(half)
        again.give_back()

    asyncio.run(test())


def test_one_that_waits_goes_on_when_another_is_done(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_, "PATIENCE_S", 20.0)

    async def test() -> None:
        first, second = Taken(room, "greedy", "k"), Taken(room, "greedy", "k")
        await first.take_memory(room.memory.total // 4)
        waiting = asyncio.create_task(second.take_memory(MIB))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.give_back()
        await waiting
        second.give_back()
        assert is_as_before(room)

    asyncio.run(test())


def test_an_upload_of_unknown_length_takes_room_as_it_comes_until_there_is_none(room: Room) -> None:
    taken = Taken(room, "greedy", "k")
    for _ in range(room.disk.total // GIB // 4):
        taken.write(GIB)
    with pytest.raises(TooManyAtOnce):
        taken.write(1)
    taken.give_back()
    assert is_as_before(room)


def test_bytes_that_are_on_their_way_count_before_they_have_come(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_free(monkeypatch, 2 * GIB)

    async def test() -> None:
        first, second = Taken(room, "one", "k"), Taken(room, "two", "k")
        await first.take_disk(900 * MIB)
        with pytest.raises(StorageFull):
            await second.take_disk(600 * MIB)
        second.give_back()
        first.write(900 * MIB)
        # They lie on the disk by now, which has so much less free.
        has_free(monkeypatch, 1148 * MIB)
        third = Taken(room, "three", "k")
        await third.take_disk(500 * MIB)
        for each in (first, third):
            each.give_back()
        assert is_as_before(room)

    asyncio.run(test())


def test_what_a_request_took_comes_back_once() -> None:
    given_back = list[str]()
    taken = Taken(Room(Config(data=Path())), "one", "k")
    taken.until_answered(lambda: given_back.append("a seat"))
    taken.give_back()
    taken.give_back()
    assert given_back == ["a seat"]


def on_disks(monkeypatch: pytest.MonkeyPatch, *, temporary: Path, free: dict[Path, int]) -> None:
    """Says how much is free where, and where temporary files are."""

    def usage(folder: Path) -> Usage:
        return Usage(200 * GIB, 0, free[folder])

    monkeypatch.setattr(shutil, "disk_usage", usage)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(temporary))


def has_no_exports(room: Room) -> bool:
    return (room.exports.free, room.leaving, room.exported) == (room.exports.total, 0, {})


OTHER_DISK = Path("/proc")
"""A folder that is on no disk of a vault."""


def test_who_leaves_a_full_disk_needs_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room(Config(data=tmp_path))
    on_disks(monkeypatch, temporary=OTHER_DISK, free={tmp_path: 0, OTHER_DISK: 100 * GIB})
    leaving = Taken(room, "leaving", "k")
    asyncio.run(leaving.take_export(49 * GIB))
    following = Taken(room, "next", "k")
    with pytest.raises(StorageFull, match=str(OTHER_DISK)) as refused:
        asyncio.run(following.take_export(26 * GIB))
    following.give_back()
    assert "TMPDIR" in refused.value.hint
    leaving.exported(30 * GIB)
    asyncio.run(leaving.take_export(2 * GIB))
    leaving.give_back()
    assert has_no_exports(room)


def test_an_export_leaves_the_vaults_disk_what_is_kept_free_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, temporary = Room(Config(data=tmp_path)), tmp_path / "tmp"
    temporary.mkdir()
    floor = Limits().free_floor_bytes
    on_disks(monkeypatch, temporary=temporary, free={tmp_path: floor, temporary: floor + GIB})
    with pytest.raises(StorageFull, match="kept"):
        asyncio.run(Taken(room, "a", "k").take_export(GIB + 1))


def test_what_a_tenant_spools_leaves_as_much_of_the_disk_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    room, free = Room(Config(data=tmp_path)), 1500 * MIB
    has_free(monkeypatch, free)

    async def test() -> None:
        first, next_, other = (Taken(room, name, "k") for name in ("greedy", "greedy", "modest"))
        with pytest.raises(StorageFull):
            await first.take_export(1400 * MIB)
        first.give_back()
        await first.take_export(500 * MIB)
        # More than was thought: what lies there is what counts.
        first.exported(600 * MIB)
        has_free(monkeypatch, free - 600 * MIB)
        # It waits for itself: the next export, and an upload, which lies on the same disk.
        for take_more in (next_.take_export, next_.take_disk):
            with pytest.raises(TooManyAtOnce):
                await take_more(200 * MIB)
            next_.give_back()
        await other.take_disk(100 * MIB)
        await other.take_export(100 * MIB)
        first.give_back()
        other.give_back()
        assert has_no_exports(room)
        assert is_as_before(room)

    asyncio.run(test())


def export_request() -> Request:
    scope = {"method": "GET", "path": "/v1/export", "headers": [], "query_string": b""}
    return Request(scope, cast("Any", None), cast("Any", None), "req_1")


def test_nobody_is_told_which_bucket_is_away() -> None:
    away = Unavailable("blob pack-a: s3://ours does not answer: http://10.0.0.1")
    away.__cause__ = BaseError("http://10.0.0.1")
    answer = answer_to(export_request(), away)
    assert answer.status == 503
    assert b"log says why" in answer.body
    assert b"s3:" not in answer.body
    assert b"10.0" not in answer.body


def test_nobody_is_told_where_our_disks_are_or_how_full() -> None:
    answer = answer_to(
        export_request(), StorageFull("123 bytes are free in /var/tmp").with_hint("Wait.")
    )
    assert answer.status == 507
    assert b"storage_full" in answer.body
    assert b"Wait." in answer.body
    assert b"123" not in answer.body
    assert b"/var" not in answer.body


def test_large_answers_wait_for_those_before_them_and_beyond_that_are_let_go(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_, "PATIENCE_S", 20.0)
    size = room.answers.total // 8

    async def test() -> None:
        first, second, third = (Taken(room, "slow", "k") for _ in range(3))
        await first.take_answer(2 * size)
        waiting = asyncio.create_task(second.take_answer(2 * size))
        await asyncio.sleep(0)
        # What waits is in memory as well, and has an end.
        with pytest.raises(AnswersNotTaken) as refused:
            await third.take_answer(size)
        assert refused.value.retry_after
        others = Taken(room, "slow", "other"), Taken(room, "quick", "k")
        for each in others:
            await each.take_answer(size)
        assert not waiting.done()
        first.give_back()
        await waiting
        monkeypatch.setattr(room_, "PATIENCE_S", 0.01)
        with pytest.raises(AnswersNotTaken):
            await third.take_answer(size)
        for each in (second, third, *others):
            each.give_back()
        # One that is larger than all that a key has is answered alone.
        await third.take_answer(room.answers.total)
        third.give_back()
        assert room.answers.free == room.answers.total
        assert room.waiting.free == room.waiting.total

    asyncio.run(test())


def test_exports_of_one_tenant_wait_for_each_other_and_for_nobody_elses(room: Room) -> None:
    async def test() -> None:
        held = [Taken(room, "greedy", "k") for _ in range(room.exports.total // 2)]
        for each in held:
            await each.take_export(200 * MIB)
            each.exported(200 * MIB)
        with pytest.raises(TooManyAtOnce):
            await Taken(room, "greedy", "k").take_export(1)
        other = Taken(room, "modest", "k")
        await other.take_export(1)
        for each in (*held, other):
            each.give_back()
        assert has_no_exports(room)

    asyncio.run(test())


@pytest.mark.parametrize("upload", [MIB, 100 * MIB, GIB, 1 << 40])
def test_memory_has_an_end_however_large_an_upload_may_be(tmp_path: Path, upload: int) -> None:
    config = Config(data=tmp_path, max_upload_bytes=upload)
    room = Room(config)
    assert room.memory.total <= GIB
    # One that is as large as it may be fits all the same.
    assert room.memory.take_at_once("a", "k", config.max_text_bytes)
    assert room.disk.take_at_once("a", "k", upload)


def test_what_is_away_for_every_request_is_said_once_in_a_while(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("holdfast.server.failures.time.monotonic", lambda: now[0])
    monkeypatch.setattr("holdfast.server.failures._told", {})
    for number in range(50):
        now[0] = number / 25
        answer = answer_to(export_request(), Unavailable("the database does not answer"))
        assert answer.status == 503
        answer_to(export_request(), StorageDenied("the bucket", reason="it takes nothing"))
    assert len(caplog.records) == 4
    assert not any(record.exc_info for record in caplog.records)
    # What may be a mistake of ours says each time where it was made.
    for _ in range(2):
        answer_to(export_request(), Damaged("a row is not what was written"))
    assert len([record for record in caplog.records if record.exc_info]) == 2

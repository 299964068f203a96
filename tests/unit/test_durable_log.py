"""The log of a durable store: every length that a write can break off at, every byte that can turn.

What was synced is read again, or is `Damaged`; what was torn is as if it had never been written.
"""

import errno
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast import ownfiles
from holdfast.durable import log as logging_module
from holdfast.durable.log import STEP, Log
from holdfast.durable.logformat import LogName, encode_header, encode_record, read_records
from holdfast.durable.records import Mark, decode_record, since_mark
from holdfast.durable.records import encode_record as encode_content
from holdfast.errors import Damaged, StorageFull, Unavailable, VaultTooNew
from holdfast.testing.faults import (
    Trouble,
    fuses,
)
from holdfast.testing.places import FusedOs

NAMED = LogName("log-a", "store")
PAYLOADS = [b"first", b"2", b"x" * 300, b"12345678", b"last one"]


def begin(folder: Path, *, reserves: bool = True, name: str = "log-a") -> Log:
    path = folder / "a.log"
    log = Log.begin(path, LogName(name, "store"), b"mark", reserves=reserves)
    log.put_in_place(path)
    return log


def written(folder: Path, *, syncs: bool = True) -> tuple[Path, list[int]]:
    """Writes a log; returns it with the places where its records end."""
    with closing(begin(folder, reserves=False)) as log:
        ends = [log.position]
        for payload in PAYLOADS:
            ends.append(log.append(payload))
            if syncs:
                log.sync()
    return folder / "a.log", ends


def read(path: Path) -> list[bytes]:
    log = Log.open(path, reserves=False)
    assert log is not None
    with closing(log):
        return [found.payload for found in log.read(log.start)]


@pytest.mark.parametrize("reserves", [True, False])
def test_what_was_appended_is_read_again_and_can_be_gone_on_with(
    tmp_path: Path, reserves: bool
) -> None:
    with closing(begin(tmp_path, reserves=reserves)) as log:
        for payload in PAYLOADS:
            log.append(payload)
    for more in range(3):
        again = Log.open(tmp_path / "a.log", reserves=reserves)
        assert again is not None
        with closing(again):
            found = [record.payload for record in again.read(again.start)]
            assert found == [b"mark", *PAYLOADS, *[b"more"] * more]
            assert (again.name, again.namespace) == ("log-a", "store")
            again.append(b"more")


def test_where_there_is_no_log_none_is_opened(tmp_path: Path) -> None:
    assert Log.open(tmp_path / "a.log", reserves=True) is None


def test_room_is_reserved_and_given_back(tmp_path: Path) -> None:
    with closing(begin(tmp_path)) as log:
        assert (tmp_path / "a.log").stat().st_size == STEP
        log.append(bytes(3 * STEP))
        assert (tmp_path / "a.log").stat().st_size == 4 * STEP
        log.trim()
        assert (tmp_path / "a.log").stat().st_size == log.position
        log.append(b"after")
    assert read(tmp_path / "a.log")[-1] == b"after"


def test_a_log_that_breaks_off_anywhere_holds_the_records_before(tmp_path: Path) -> None:
    path, ends = written(tmp_path)
    data = path.read_bytes()
    for length in range(ends[0], len(data) + 1):
        path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        # The last record may lack what only fills it up.
        assert read(path) in ([b"mark", *PAYLOADS][:whole], [b"mark", *PAYLOADS][: whole + 1])
        path.write_bytes(data[:length] + bytes(64))
        assert read(path)[:whole] == [b"mark", *PAYLOADS][:whole]


def test_a_byte_that_turned_in_what_was_synced_is_damage_unless_it_is_the_last_record(
    tmp_path: Path,
) -> None:
    path, ends = written(tmp_path)
    data, everything = path.read_bytes(), [b"mark", *PAYLOADS]
    refused = 0
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            found = read(path)
        except (Damaged, VaultTooNew):
            refused += 1
            assert at < ends[-2]
        else:
            # A byte that only fills up says nothing, and the last record may have been torn.
            assert found == everything or (at >= ends[-2] and found == everything[:-1])
    assert refused > len(data) / 2


def test_what_was_never_synced_may_have_holes(tmp_path: Path) -> None:
    path, ends = written(tmp_path, syncs=False)
    data = bytearray(path.read_bytes())
    data[ends[1] : ends[2]] = bytes(ends[2] - ends[1])
    path.write_bytes(data)
    assert read(path) == [b"mark", PAYLOADS[0]]


def test_what_is_torn_is_cut_off_before_anything_is_appended(tmp_path: Path) -> None:
    path, ends = written(tmp_path)
    path.write_bytes(path.read_bytes()[: ends[3] - 9])
    log = Log.open(path, reserves=False)
    assert log is not None
    with closing(log):
        log.read(log.start)
        # What is left of it could be taken for a record once something shorter stands before.
        assert path.stat().st_size == log.position == ends[2]
        log.append(b"n")
    assert read(path) == [b"mark", *PAYLOADS[:2], b"n"]


def test_a_record_counts_only_in_its_own_log_and_place() -> None:
    start = len(encode_header(NAMED))
    record = encode_record(b"content", at=start, synced=0, salt=NAMED.salt)
    header = encode_header(NAMED)
    assert [f.payload for f in read_records(header + record, start, salt=NAMED.salt)] == [
        b"content"
    ]
    assert read_records(header + record, start, salt=LogName("log-b", "store").salt) == []
    assert read_records(header + bytes(8) + record, start + 8, salt=NAMED.salt) == []


@pytest.mark.parametrize("at", [0, 9, 13, 17, 30])
def test_a_header_that_cannot_be_read_is_damage(tmp_path: Path, at: int) -> None:
    path, _ = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises((Damaged, VaultTooNew)):
        read(path)
    path.write_bytes(data[:at])
    with pytest.raises(Damaged):
        read(path)


def test_a_log_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    with pytest.raises(VaultTooNew):
        read(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_write_that_fails_leaves_no_trace_and_the_next_one_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    expected = Unavailable if code == errno.EIO else StorageFull
    for steps in range(2):
        with closing(begin(tmp_path)) as log:
            log.append(b"before")
            monkeypatch.setattr(
                logging_module,
                "os",
                FusedOs(Trouble(steps, code, counts=lambda name: name.startswith("os.pwrite"))),
            )
            at = log.position
            with pytest.raises(expected):
                log.append(b"fails" * 100)
            assert log.position == at
            log.append(b"after")
            monkeypatch.undo()
        assert read(tmp_path / "a.log") == [b"mark", b"before", b"after"]


def test_a_log_that_cannot_be_begun_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = written(tmp_path)
    for steps in range(20):
        trouble = Trouble(steps, errno.ENOSPC)
        monkeypatch.setattr(logging_module, "os", FusedOs(trouble))
        with suppress(StorageFull):
            Log.begin(path, LogName("log-b", "store"), b"mark", reserves=True).close()
        monkeypatch.undo()
        assert read(path) == [b"mark", *PAYLOADS]
        if not trouble.blown:
            return
    pytest.fail("it never succeeded")


def test_after_a_failed_sync_nothing_more_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(begin(tmp_path)) as log:
        log.append(b"before")
        log.sync()
        trouble = Trouble(0, errno.EIO, counts=lambda name: name == "os.fdatasync")
        monkeypatch.setattr(logging_module, "os", FusedOs(trouble))
        log.append(b"perhaps")
        with pytest.raises(Unavailable, match="opened again"):
            log.sync()
        for attempt in (log.sync, lambda: log.append(b"never"), log.check_usable):
            with pytest.raises(Unavailable, match="opened again"):
                attempt()
        assert not log.is_usable
    assert read(tmp_path / "a.log") in ([b"mark", b"before"], [b"mark", b"before", b"perhaps"])


def test_a_failed_write_that_cannot_be_cut_back_ends_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(begin(tmp_path)) as log:
        monkeypatch.setattr(logging_module, "os", FusedOs(Trouble(0, errno.EIO, lasts=True)))
        with pytest.raises(Unavailable):
            log.append(b"fails")
        monkeypatch.undo()
        with pytest.raises(Unavailable, match="opened again"):
            log.append(b"never")


def test_whoever_dies_while_a_log_is_exchanged_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for fuse in fuses():
        path, _ = written(tmp_path)
        for module in (logging_module, ownfiles):
            monkeypatch.setattr(module, "os", FusedOs(fuse))
        with fuse:
            log = Log.begin(path, LogName("log-b", "store"), b"new", reserves=True)
            log.put_in_place(path)
        monkeypatch.undo()
        assert read(path) in ([b"mark", *PAYLOADS], [b"new"])
        if not fuse.blown:
            assert read(path) == [b"new"]


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = begin(tmp_path)
    log.close()
    log.close()
    with pytest.raises(Unavailable):
        log.append(b"x")


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    path, _ = written(tmp_path)
    (tmp_path / "b.log").symlink_to(path)
    with pytest.raises(Unavailable):
        Log.open(tmp_path / "b.log", reserves=True)
    (tmp_path / "b.new").symlink_to(path)
    with pytest.raises(Unavailable):
        Log.begin(tmp_path / "b.log", NAMED, b"x", reserves=True)
    assert read(path) == [b"mark", *PAYLOADS]


def test_only_what_came_after_the_last_mark_is_to_be_done() -> None:
    changes = [("a", "k", b"\x01"), ("a", "gone", None)]
    more = [("b", "k", b"\x02")]
    records = [Mark(1, 0, 0), changes, more, Mark(1, 2, 3), more, changes]
    payloads = [encode_content(record) for record in records]
    assert [decode_record(payload) for payload in payloads] == records
    assert since_mark(payloads) == (Mark(1, 2, 3), [more, changes])
    assert since_mark(payloads[1:3]) == (None, [changes, more])
    with pytest.raises(Damaged):
        decode_record(b"\x05")

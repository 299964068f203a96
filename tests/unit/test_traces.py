"""Names of actions, ids of traces, the hash, thresholds, and a chain in a file."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

import holdfast
from holdfast.catalog.hashing import (
    FORMAT,
    erased,
    hash_of,
    join_roots,
    redacted,
    split_roots,
    without_roots,
)
from holdfast.engine.audit import chains as audit
from holdfast.engine.audit import export as auditfile
from holdfast.engine.audit.export import verify_audit_file
from holdfast.engine.journal.actions import ACTIONS, normalise
from holdfast.engine.journal.chain import is_whole
from holdfast.errors import HoldfastError, InvalidValue, NotFound, VaultTooNew
from holdfast.ids import IdMaker, NamespaceId, TenantId, instant_of_trace
from holdfast.model.traces import NO_HASH, Level, Thresholds, TraceRow
from holdfast.model.upkeep import AuditReport

pytestmark = pytest.mark.in_memory

# Names


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("state_update", "state.updated"),
        ("state.update", "state.updated"),
        ("state_updated", "state.updated"),
        ("memory.create", "memory.created"),
        ("turn.add", "turn.added"),
        ("state.rollback", "state.rolled_back"),
        ("state_rolled_back", "state.rolled_back"),
        ("trace.rollback", "state.rolled_back"),
        ("session.fork", "session.forked"),
        ("snapshot.restore", "snapshot.restored"),
        # Not ours: as they are.
        ("tool_call.failed", "tool_call.failed"),
        ("permission_denied", "permission_denied"),
        ("key.used", "key.used"),
        ("", ""),
    ],
)
def test_an_action_has_one_name_however_it_is_spelt(asked: str, meant: str) -> None:
    assert normalise(asked) == meant


def test_our_own_names_are_not_taken_for_others() -> None:
    assert [normalise(action) for action in ACTIONS] == list(ACTIONS)


def test_what_was_added_by_another_name_is_found_by_either(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as hf:
        agent = hf.namespace("alice")
        added = agent.traces.add("state_update")
        assert agent.traces.list(action="state.update") == [added]
        assert agent.traces.list(action="state.updated") == [added]


@pytest.mark.parametrize("instant", [0, 1, -1, 1_740_000_000_000_000, 2**60, -(2**60)])
def test_the_id_of_a_trace_says_its_instant(instant: int) -> None:
    ids = IdMaker()
    assert instant_of_trace(ids.trace(instant)) == instant
    assert ids.trace(instant) != ids.trace(instant)


# The hash


def row(**changes: object) -> TraceRow:
    fields = {
        "format": FORMAT,
        "previous": NO_HASH,
        "tenant_id": TenantId(1),
        "stream": 2,
        "number": 1,
        "kind": "done",
        "id": "trace_1",
        "namespace_id": NamespaceId(2),
        "session_id": "sess_1",
        "user_id": None,
        "agent_id": None,
        "action": "state.updated",
        "resource_type": "session",
        "resource_id": "sess_1",
        "version": 1,
        "task_id": None,
        "actor": None,
        "created_us": 5,
        "details": '{"version":1}',
        "salt": b"0123456789abcdef",
        "hash": b"",
    }
    return TraceRow(**(fields | changes))  # pyright: ignore[reportArgumentType] - by name


FACTS = (1, NO_HASH, 1, 2, 1, "done", "trace_1", 2, "state.updated", "session", 1, 5)
IDS = msgspec.msgpack.encode(("sess_1", None, None, "sess_1", None, None))
PARTS = (
    blake3(blake3(b"0123456789abcdef").digest()[:16] + IDS).digest(),
    blake3(b'0123456789abcdef{"version":1}').digest(),
)


def test_the_hash_is_over_the_fields_in_their_order_and_the_hashes_of_ids_and_details() -> None:
    packed = msgspec.msgpack.encode((*FACTS, *PARTS, None))
    assert hash_of(row()) == blake3(packed).digest()


def test_what_a_row_made_is_hashed_with_it_each_by_its_own_hash() -> None:
    one, other = blake3(b"1").digest(), blake3(b"2").digest()
    made = blake3(msgspec.msgpack.encode((one, other))).digest()
    packed = msgspec.msgpack.encode((*FACTS, *PARTS, made))
    assert hash_of(row(version_hash=one, turn_hash=other)) == blake3(packed).digest()
    hashes = {
        hash_of(row(version_hash=version, turn_hash=turn))
        for version in (None, one, other)
        for turn in (None, one, other)
    }
    assert len(hashes) == 9


def test_roots_are_hashed_apart_and_may_be_taken_out() -> None:
    salt, roots = b"fedcba9876543210", [blake3(b"1").digest(), blake3(b"2").digest()]
    stored = join_roots(roots, salt)
    made = blake3(msgspec.msgpack.encode((None, None, blake3(salt + b"".join(roots)).digest())))
    packed = msgspec.msgpack.encode((2, *FACTS[1:], *PARTS, made.digest()))
    full = row(format=2, roots=stored)
    assert hash_of(full) == blake3(packed).digest()
    assert split_roots(stored) == roots
    without = without_roots(full)
    assert (split_roots(without.roots), without_roots(without)) == ([], without)
    assert hash_of(without) == hash_of(erased(full)) == hash_of(full)
    for other in (row(roots=stored), row(format=2)):
        assert not is_whole(other), "of another format"


def test_a_row_of_the_one_chain_before_is_hashed_as_it_was() -> None:
    details = blake3(b'{"version":1}').digest()
    fields = (NO_HASH, 1, 1, "trace_1", 2, "sess_1", None, None, "state.updated", "session")
    packed = msgspec.msgpack.encode((*fields, "sess_1", None, 5, details))
    old = row(format=0, stream=0, version=None, salt=None)
    assert hash_of(old) == blake3(packed).digest()


def test_a_row_of_a_format_that_nobody_knows_is_not_whole() -> None:
    assert not is_whole(row(format=2))
    assert not is_whole(row(details=7))


def test_text_that_moves_from_one_field_to_the_next_changes_the_hash() -> None:
    hashes = {
        hash_of(row(user_id="a", agent_id=None)),
        hash_of(row(user_id=None, agent_id="a")),
        hash_of(row(user_id="", agent_id="a")),
        hash_of(row(resource_type="sessions", resource_id="ess_1")),
        hash_of(row()),
    }
    assert len(hashes) == 5


def test_redacted_details_have_the_hash_that_they_had() -> None:
    gone = redacted(row())
    assert gone.details.startswith("redacted:")
    assert gone.salt not in (None, row().salt), "nobody finds out what it was by guessing"
    assert hash_of(gone) == hash_of(row())
    assert redacted(gone) == gone


def test_a_row_that_was_erased_has_no_ids_and_the_hash_that_it_had() -> None:
    gone = erased(row(user_id="ann"))
    assert (gone.session_id, gone.user_id, gone.resource_id, gone.salt) == (None,) * 4
    assert hash_of(gone) == hash_of(row(user_id="ann"))
    assert erased(redacted(row(user_id="ann"))) == gone
    assert erased(gone) == gone
    assert redacted(gone) == gone
    assert erased(row(user_id="bob")).details != gone.details


def test_ids_that_are_put_into_a_row_that_was_erased_are_noticed() -> None:
    gone = msgspec.structs.replace(erased(row()), hash=hash_of(row()))
    assert is_whole(gone)
    assert not is_whole(msgspec.structs.replace(gone, user_id="mallory"))
    known = msgspec.structs.replace(redacted(row()), hash=hash_of(row()))
    assert is_whole(known)
    assert not is_whole(msgspec.structs.replace(known, user_id="mallory"))


def test_a_row_of_the_one_chain_before_keeps_its_ids() -> None:
    old = row(format=0, stream=0, version=None, salt=None)
    assert (erased(old).session_id, erased(old).details) == (old.session_id, redacted(old).details)
    assert hash_of(erased(old)) == hash_of(old)


def test_equal_details_of_two_rows_are_redacted_to_different_hashes() -> None:
    assert redacted(row(salt=b"another salt")).details != redacted(row()).details


# Thresholds


def test_thresholds_can_be_set() -> None:
    strict = Thresholds(elevated=0, warning=0.01, critical=0.02)
    assert [strict.level_of(rate) for rate in (0, 0.01, 0.02, 5)] == [
        Level.ELEVATED,
        Level.WARNING,
        Level.CRITICAL,
        Level.CRITICAL,
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"elevated": -0.1}, {"elevated": 0.06}, {"warning": 0.2}, {"loop": 0}, {"critical": 0.01}],
)
def test_thresholds_that_do_not_ascend_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        Thresholds(**wrong)  # pyright: ignore[reportArgumentType] - by name


# In a file


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A file with an anchor and five traces."""
    with holdfast.open(tmp_path / "vault") as hf:
        agent = hf.namespace("alice")
        for number in range(5):
            agent.acting_as("me").traces.add("tick", details={"number": number, "text": "ä\n"})
        target = tmp_path / "audit.jsonl"
        assert hf.export_audit(target) == 6
        assert holdfast.verify_audit_file(target) == hf.verify_audit()
    assert verify_audit_file(target).checked == 6
    return target


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def numbers(report: AuditReport) -> list[int]:
    assert report.is_sound is (not report.problems)
    return [problem.number for problem in report.problems]


def test_a_file_holds_nobody_elses_eyes_and_a_line_for_each_trace(exported: Path) -> None:
    assert exported.stat().st_mode & 0o777 == 0o600
    header, *own, start, one, two, three, four, five, end, last = map(
        json.loads, lines_of(exported)
    )
    assert header["audit_format"] == 4
    traces = [one, two, three, four, five]
    assert [trace["number"] for trace in traces] == [1, 2, 3, 4, 5]
    assert json.loads(traces[0]["details"]) == {"number": 0, "text": "ä\n"}
    assert end == {"end": 5, "hash": traces[-1]["hash"]}
    assert (own[0], start, last) == ({"stream": 0}, {"stream": one["namespace_id"]}, {"streams": 2})
    ends = [[one["namespace_id"], 5, five["hash"]]]
    assert (own[1]["kind"], json.loads(own[1]["details"])) == ("anchor", {"ends": ends})
    assert own[2:] == [{"end": 1, "hash": own[1]["hash"]}]


@pytest.mark.parametrize("name", auditfile._Line.__struct_fields__)
def test_an_edited_field_of_a_line_is_found(exported: Path, name: str) -> None:
    lines = lines_of(exported)
    trace = json.loads(lines[7])
    old = trace[name]
    trace[name] = old + 1 if isinstance(old, int) else "ab" * 32
    lines[7] = json.dumps(trace).encode() + b"\n"
    exported.write_bytes(b"".join(lines))
    assert not verify_audit_file(exported).is_sound


OWN = [0, 1, 2, 3]
"""The header, and the tenant's own chain: a beginning, an anchor and an end."""


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        ([*OWN, 4, 5, 6, 8, 9, 10, 11], [3]),
        ([*OWN, 4, 6, 7, 8, 9, 10, 11], [1]),
        ([*OWN, 4, 5, 6, 7, 8, 10, 11], [5]),
        ([*OWN, 4, 5, 6, 6, 7, 8, 9, 10, 11], [2]),
        ([*OWN, 4, 5, 6, 7, 8, 9, 10], [6]),  # The end of the file,
        ([*OWN, 4, 5, 6, 7, 8, 9, 11], [6, 6, 6]),  # that of a chain,
        ([*OWN, 4, 10, 11], [1]),
        ([*OWN, 11], [2, 5]),  # a whole chain,
        ([*OWN], [2, 5]),
        ([0, 4, 5, 6, 7, 8, 9, 10, 11], [0, 6, 1]),  # the one with the anchors,
        ([0, 4, 5, 6, 7, 8, 9, 10, 1, 2, 3, 11], [0, 0]),  # or both in the wrong order.
        ([*OWN, *range(4, 11), *range(4, 12)], [0, 6]),
        ([0], [1, 1]),
    ],
)
def test_lines_that_are_missing_or_there_twice_are_found(
    exported: Path, order: list[int], wrong: list[int]
) -> None:
    lines = lines_of(exported)
    exported.write_bytes(b"".join(lines[at] for at in order))
    assert numbers(verify_audit_file(exported)) == wrong


def test_lines_that_change_places_are_found(exported: Path) -> None:
    lines = lines_of(exported)
    lines[2], lines[3] = lines[3], lines[2]
    exported.write_bytes(b"".join(lines))
    assert not verify_audit_file(exported).is_sound


def test_every_byte_of_a_file_matters(exported: Path) -> None:
    """But for those of the header that only say which tenant it is."""
    data = exported.read_bytes()
    start = data.index(b"\n") + 1
    for at in range(start, len(data) - 1, 7):
        changed = bytearray(data)
        changed[at] ^= 1
        exported.write_bytes(changed)
        assert not verify_audit_file(exported).is_sound, data[at - 20 : at + 20]


@pytest.mark.parametrize("cut", [1, 50, 500, 900])
def test_a_file_that_ends_early_is_found(exported: Path, cut: int) -> None:
    exported.write_bytes(exported.read_bytes()[: -1 - cut])
    assert not verify_audit_file(exported).is_sound


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}", b"[]\n", b"\xff\n", b'{"format":1}\n', b"[" * 9]
)
def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(InvalidValue, match="export_audit"):
        verify_audit_file(path)


def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b'{"audit_format":5,"tenant":"ws-1","tenant_id":1}\n')
    with pytest.raises(VaultTooNew):
        verify_audit_file(path)


def test_a_line_without_an_end_is_refused_before_all_of_it_is_held(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditfile, "_READ_BYTES", 100)
    monkeypatch.setattr(auditfile, "_MAX_LINE_BYTES", 1000)
    assert verify_audit_file(exported).is_sound
    with exported.open("ab") as file:
        file.write(b"x" * 2000)
    with pytest.raises(InvalidValue, match="export_audit"):
        verify_audit_file(exported)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "a\0b"):
        with pytest.raises(HoldfastError):
            verify_audit_file(tmp_path / name)
    with pytest.raises(NotFound):
        verify_audit_file(tmp_path / "nothing")


def test_an_export_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "audit.jsonl"
    target.write_text("old")

    def fail(_stage: str, _done: int, _total: int) -> None:
        raise ZeroDivisionError

    with holdfast.open(tmp_path / "vault") as hf:
        hf.namespace("alice").traces.add("tick")
        with pytest.raises(ZeroDivisionError):
            hf.export_audit(target, progress=fail)
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"audit.jsonl", "vault"}


def test_problems_are_named_up_to_a_number(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_PROBLEMS", 2)
    lines = lines_of(exported)
    exported.write_bytes(lines[0] + b"x\n" * 5 + lines[-1])
    assert len(verify_audit_file(exported).problems) == 2


def test_a_vault_without_traces_is_sound(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as hf:
        report = hf.verify_audit()
        assert (report.checked, report.is_sound) == (0, True)
        assert report.anchor == f"0:{NO_HASH.hex()}"
        assert hf.export_audit(tmp_path / "empty") == 0
        assert verify_audit_file(tmp_path / "empty") == report
        hf.namespace("alice").traces.add("tick")
        assert hf.verify_audit(anchor=report.anchor).is_sound


def test_a_trace_is_dated_by_the_clock(tmp_path: Path) -> None:
    noon = datetime(2025, 3, 1, 12, tzinfo=UTC)
    with holdfast.open(tmp_path, clock=lambda: noon) as hf:
        assert hf.namespace("alice").traces.add("tick").created_at == noon

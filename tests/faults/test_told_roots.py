"""The journal names the root that each snapshot was given, and `verify` compares them."""

from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.catalog.hashing import split_roots
from holdfast.catalog.rows import SNAPSHOT
from holdfast.model.basics import SnapshotInfo
from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory

ANOTHER = "the journal says that it has another root"


def faults(kept: Kept) -> set[tuple[str, str]]:
    return {(fault.what, fault.reason) for fault in kept.vault.verify().faults}


def named(*snapshots: SnapshotInfo) -> set[tuple[str, str]]:
    return {(f"snapshot: {each.id}", ANOTHER) for each in snapshots}


def swap(kept: Kept, one: SnapshotInfo, other: SnapshotInfo) -> None:
    """Swaps the roots of two snapshots, with checksums that fit: what nothing else notices."""
    context = kept.vault.namespace("alice")._handle.context
    with context.catalog.read() as transaction:
        old = {
            each.id: each for each in transaction.timeline(one.namespace_id, before=None, most=100)
        }
    for mine, theirs in ((one, other), (other, one)):
        row = SNAPSHOT.write(msgspec.structs.replace(old[mine.id], root=old[theirs.id].root))
        change = "UPDATE snapshots SET root = ?, checksum = ? WHERE id = ?"
        kept.sql(change, row["root"], row["checksum"], mine.id)


def test_roots_that_were_swapped_between_snapshots_are_named(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    first = agent.snapshot("first")
    agent.files.write("a.txt", "2")
    second = agent.snapshot("second")
    agent.files.write("a.txt", "3")
    agent.restore(second)  # It keeps what is there in a snapshot of its own.
    restored, safety = agent.timeline()[:2]
    assert faults(kept) == set()
    swap(kept, first, second)
    assert faults(kept) == named(first, second)
    swap(kept, first, second)
    swap(kept, first, safety)
    assert faults(kept) == named(first, safety)
    swap(kept, first, safety)
    assert faults(kept) == set()
    # Of equal contents there is one root.
    swap(kept, second, restored)
    assert faults(kept) == set()


def test_so_are_those_of_a_directorys_snapshots(
    kept: Kept, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / "a.txt").write_text("1")
    project = kept.vault.workspace(folder, namespace="alice")
    first = project.snapshot("first")
    (folder / "a.txt").write_text("2")
    second = project.snapshot("second")
    (folder / "a.txt").write_text("3")
    project.restore(first)
    safety = project.namespace.timeline()[1]
    assert faults(kept) == set()
    swap(kept, second, safety)
    assert faults(kept) == named(second, safety)


def test_a_repair_names_them_and_a_fork_has_a_root_of_its_own(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    for number in "12":
        agent.files.write("a.txt", number)
        agent.snapshot(number)
    fork = agent.fork("copy")
    fork.files.write("b.txt", "3")
    fork.snapshot("three")
    agent.merge("copy")
    assert faults(kept) == set()
    second, first = agent.timeline()[1:3]
    swap(kept, first, second)
    lost = {each.what for each in kept.vault.repair().lost}
    assert lost == {f"{what}: {why}" for what, why in named(first, second)}
    assert all(fault.is_noted for fault in kept.vault.verify().faults)


def test_a_row_whose_roots_were_changed_is_named_itself(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    agent.snapshot("first")
    kept.flip("journal", "roots", where="roots IS NOT NULL")
    assert [what for what, _ in faults(kept)] == ["journal of alice"]
    assert (kept.vault.repair().mended, faults(kept)) == (1, set())
    kept.sql("UPDATE journal SET roots = NULL")
    assert faults(kept) == {("journal of alice", "trace 1: it was changed")}


def test_an_erasure_takes_old_roots_out_of_the_journal_and_tells_the_new_ones(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    snapshots = list[SnapshotInfo]()
    for number in range(3):
        agent.sessions.create("planner", session_id=f"ses-{number}")
        snapshots.append(agent.snapshot(str(number)))
    agent.delete_snapshot(agent.snapshot("gone before").id)
    old = {each.root for each in agent.timeline()}
    kept.vault.erasures.session("alice", "ses-0")
    told = [
        root
        for (stored,) in kept.sql("SELECT roots FROM journal WHERE roots IS NOT NULL")
        for root in split_roots(bytes(stored))
    ]
    assert {*told} & old == set()
    assert {each.root for each in agent.timeline()} <= {*told}
    assert faults(kept) == set()
    assert kept.vault.verify_audit().problems == []
    first, second, _ = snapshots
    swap(kept, first, second)
    assert faults(kept) == named(first, second)


def test_operators_are_told_no_roots_and_the_file_holds(kept: Kept, tmp_path: Path) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    root = agent.snapshot("first").root.hex()
    target = tmp_path / "audit.jsonl"
    kept.vault.export_audit(target)
    assert root in target.read_text()
    kept.vault.export_audit(target, for_operators=True)
    assert root not in target.read_text()
    assert '"label' in target.read_text()
    assert holdfast.verify_audit_file(target).is_sound

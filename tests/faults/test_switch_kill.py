"""Kills whoever lets a directory show another namespace, between any two steps.

The directory is then what it left or what it was to show, nothing of it is half-written, and what
it left is on the timeline that it left and on no other where an undo would find it.
"""

from pathlib import Path

from holdfast.progress import no_progress
from holdfast.testing.faults import fuses
from holdfast.testing.places import SqlitePlace, attached, touches_files

Files = dict[str, bytes]

LEFT: Files = {"a": b"here", "both": b"ours", "d/f": b"in a folder", "large": b"x" * 9000}
SHOWN: Files = {"a": b"here", "both": b"theirs", "e": b"new", "large": b"y" * 9000}


def look(tree: Path) -> Files:
    return {str(p.relative_to(tree)): p.read_bytes() for p in tree.rglob("*") if p.is_file()}


def test_a_switch_that_dies_leaves_one_of_both_and_the_timeline_as_it_was(
    place: SqlitePlace,
) -> None:
    with attached(place, seed=1) as it:
        (it.tree / "d").mkdir()
        for name, data in LEFT.items():
            (it.tree / name).write_bytes(data)
        left = it.work.snapshot("left")
        other = it.work.namespace.fork("other")
        first = other.get_snapshot("@")
        other.files.delete("d", recursive=True)
        for name, data in SHOWN.items():
            other.files.write(name, data)
        target = other.snapshot("shown")
    place.save()
    seen = set[str]()
    for fuse in fuses(counts=touches_files):
        place.reset()
        with fuse, attached(place, fuse=fuse, seed=3) as it:
            work = it.vault.workspace(it.tree, namespace="other", stands_on=target)
            done = work.enter(target, left=left, limit=None, progress=no_progress)
            assert done is not None
            assert done.verified
            assert done.changes.summary() == "1 added, 1 removed, 2 changed"
            assert work.namespace.timeline()[0].id == target.id
            work.close()
        with attached(place, seed=4) as it:
            status = it.work.status()
            assert status.agreed is None, fuse
            found = look(it.tree)
            name = it.work.namespace.name
            assert found == LEFT or (found == SHOWN and name == "other"), (fuse, name)
            assert bool(status.changes) == (name == "other" and found == LEFT), fuse
            seen.add(f"{name}: {found == SHOWN}")
            if name == "other":
                if found == SHOWN:
                    assert it.work.undo().target == first.id, fuse
                it.work.restore(target)
                assert look(it.tree) == SHOWN, fuse
    assert seen == {"tree: False", "other: False", "other: True"}

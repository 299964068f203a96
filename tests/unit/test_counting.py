"""What is counted without being decoded is what a diff says of it."""

from itertools import pairwise, product
from pathlib import Path

import holdfast
from holdfast.engine.timeline.diff import find_word, word_of
from holdfast.entries import (
    Blob,
    BlobTwin,
    Directory,
    Entry,
    Inline,
    InlineTwin,
    Link,
    Memory,
    Session,
    encode_entry,
)
from holdfast.model.basics import EMPTY_MAP
from holdfast.model.changes import tally, to_counts
from holdfast.tree import Edit
from holdfast.tree.node import Node, NodeSource

TIMES = (0, 1, 200, 70_000, 2**31, 2**40, 2**62, -1, -(2**40), 207, 0xCF)
CONTENTS = (b"", b"x", b"y", b"\xcf" * 9, b"\xcf" * 12, b"xy", b"x" * 256)


class Nothing(NodeSource):
    """Maps of which none is read: nothing lies in any directory here."""

    def get_nodes(self, ids: object, /) -> list[Node]:
        raise AssertionError(ids)


def entries() -> list[Entry]:
    made: list[Entry] = [Directory(0o755), Directory(0o700)]
    for time in TIMES:
        made += [Inline(content, 0o644, time) for content in CONTENTS]
        made += [Inline(b"x", 0, time), InlineTwin(b"x", 0o644, time, b"a")]
        made += [Blob(5000, 0, b"r" * 36, 0o644, time), Blob(5000, 0, b"s" * 36, 0o644, time)]
        made += [Blob(70_000, 0, b"r" * 36, 0o644, time), BlobTwin(1, 0, b"r" * 36, 0, time, b"a")]
        made += [BlobTwin(1, 0, b"r" * 36, 0, time, b"b"), Link(b"x", time), Link(b"y", time)]
    made += [Session(b"s", 1, "b", turns, "a", None, "{}", 1, None) for turns in (1, 2)]
    made += [
        Memory(b"m", None, 1, "k", None, None, None, True, version, 1, 1) for version in (1, 2)
    ]
    return made


def test_what_is_seen_in_the_bytes_is_what_the_entries_say() -> None:
    maps, every = (EMPTY_MAP, EMPTY_MAP), [None, *entries()]
    for old, new in product(every, every):
        if old == new:
            continue
        data = [None if each is None else encode_entry(each) for each in (old, new)]
        edit = Edit(b"a", *data)
        assert word_of(Nothing(), edit, maps) == find_word(old, new), (old, new)


def test_snapshots_of_a_directory_count_what_a_diff_says(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        first = project.snapshot("empty")
        for number in range(4):
            (folder / "src" / f"{number}.py").write_text(f"{number}")
        project.snapshot("written")
        (folder / "src" / "0.py").unlink()
        (folder / "src" / "1.py").touch()
        (folder / "src" / "2.py").write_text("changed")
        (folder / "src" / "3.py").chmod(0o755)
        (folder / "empty").mkdir()
        project.snapshot("changed")
        project.namespace.store.set("n", "k", 1)
        (folder / "a").write_text("beside what is pending")
        project.snapshot("both")
        project.namespace.files.write("a", "of the namespace")
        (folder / "a").write_text("of the directory")
        project.snapshot("of one file")
        project.restore(first)
        project.undo()
        rows = project.namespace.timeline(with_=["changes"])
        assert [row.changes for row in rows[:-1]] == [
            to_counts(tally(project.namespace.diff(old, new))) for new, old in pairwise(rows)
        ]
        counted = {row.label for row in rows if row.counts is not None}
        assert counted >= {"written", "changed", "both"}

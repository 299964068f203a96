"""Lists of changes, names of moments, and bars: bounded, and true whatever they are given."""

import io
import time
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import Change, Plane, SnapshotInfo
from holdfast.cli import bar
from holdfast.cli.exits import Refused
from holdfast.cli.folding import Folder, folded, in_order
from holdfast.cli.graph import drawn
from holdfast.cli.moments import id_of
from holdfast.cli.wordwise import marked
from holdfast.errors import SnapshotNotFound
from holdfast.ids import SnapshotId

from .test_cli_app import NOW, FakeNamespace, a_change, a_snapshot


def names(rows: list[Change | Folder]) -> list[str]:
    return [row.path if isinstance(row, Folder) else row.name for row in rows]


def total(rows: list[Change | Folder]) -> int:
    return sum(len(row.changes) if isinstance(row, Folder) else 1 for row in rows)


def test_the_folders_with_the_fewest_changes_are_opened() -> None:
    changes = [a_change(f"big/{n:03}") for n in range(200)]
    changes += [a_change(f"small/{n}") for n in range(3)] + [a_change("top.txt")]
    rows = folded(changes, most=10)
    assert names(rows) == ["big/", "small/0", "small/1", "small/2", "top.txt"]
    assert total(rows) == len(changes)


def test_executable_configuration_is_never_put_away() -> None:
    changes = [a_change(f".git/objects/{n:03}") for n in range(100)]
    changes += [a_change(".git/hooks/pre-commit", "added"), a_change("src/a.py")]
    rows = folded(sorted(changes, key=lambda each: each.key), most=10)
    assert names(rows) == [".git/hooks/pre-commit", "src/a.py", ".git/"]
    assert in_order(changes)[0].name == "src/a.py"


def test_paths_that_are_made_deep_take_no_more_than_rows() -> None:
    deep = "/".join("d" for _ in range(2_000))
    changes = [a_change(f"{deep}/{n}/{m}") for n in range(30) for m in range(5)]
    changes.sort(key=lambda each: each.key)
    before = time.process_time()
    rows = folded(changes, most=20)
    assert time.process_time() - before < 2
    assert total(rows) == len(changes)
    assert all(name.startswith(deep) for name in names(rows))


def test_what_is_no_file_is_listed_beside_folders() -> None:
    changes = [a_change(f"f/{n:02}") for n in range(50)]
    changes += [Change(Plane.STORE, b"k%02d" % n, f"n/k{n:02}", "added") for n in range(3)]
    rows = folded(changes, most=10)
    assert names(rows) == ["f/", "n/k00", "n/k01", "n/k02"]


class ATimeline(FakeNamespace):
    def get_snapshot(self, name: str) -> SnapshotInfo:
        found = [each for each in self.snapshots if each.id == name]
        if not found:
            raise SnapshotNotFound(name)
        return found[0]


def a_timeline() -> ATimeline:
    return ATimeline(
        snapshots=[
            a_snapshot(
                id=SnapshotId(f"snap-{n}"),
                number=n,
                label="even" if n % 2 == 0 else f"n{n}",
                task_id="task-1" if n in {1, 3} else None,
                created_at=NOW - timedelta(hours=10 - n),
            )
            for n in range(5, 0, -1)
        ]
    )


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("n5", "snap-5"),
        ("task-1", "snap-3"),
        ("@{6 hours ago}", "snap-4"),
        ("@{7hours}", "snap-3"),
        ("@{now}", "snap-5"),
        ("@{2026-03-01T04:30:00+00:00}", "snap-2"),
        ("latest", "latest"),
        ("@-3", "@-3"),
        ("snap-2", "snap-2"),
    ],
)
def test_what_people_call_a_snapshot(said: str, meant: str) -> None:
    namespace = a_timeline()
    assert id_of(namespace, said, now=NOW) == meant  # pyright: ignore[reportArgumentType] - a fake


def test_a_day_means_its_end_and_a_label_that_several_have_means_none() -> None:
    namespace = a_timeline()
    today = f"@{{{NOW.astimezone():%Y-%m-%d}}}"
    assert id_of(namespace, today, now=NOW) == "snap-5"  # pyright: ignore[reportArgumentType]
    with pytest.raises(Refused, match="more than one"):
        id_of(namespace, "even", now=NOW)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Refused, match="as old as"):
        id_of(namespace, "@{2 weeks ago}", now=NOW)  # pyright: ignore[reportArgumentType]


def test_a_label_goes_before_the_beginning_of_an_id_and_a_whole_id_before_a_label(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        namespace = vault.namespace("a")
        first = namespace.snapshot("one")
        letters = first.id.removeprefix("snap-")
        begin = letters[:5]
        assert id_of(namespace, begin, now=NOW) == first.id
        called = namespace.snapshot(begin)
        namespace.snapshot(letters)
        assert id_of(namespace, begin, now=NOW) == called.id
        assert id_of(namespace, letters, now=NOW) == first.id
        begun = f"snap-{begin}"
        assert namespace.get_snapshot(id_of(namespace, begun, now=NOW)).id == first.id
        assert id_of(namespace, first.id, now=NOW) == first.id


def test_a_graph_has_a_row_for_each_however_many_columns_there_are() -> None:
    timeline = [
        a_snapshot(id=SnapshotId(f"s{n}"), number=n, parent=SnapshotId("s0"))
        for n in range(40, 0, -1)
    ]
    timeline.append(a_snapshot(id=SnapshotId("s0"), number=0))
    rows = list(drawn(timeline))
    assert len(rows) == 41
    assert rows[0][0] == "* "
    assert rows[1] == ("| * ", "|/")
    assert rows[-1] == ("* ", None)


def test_words_lead_from_one_text_to_the_other() -> None:
    hunk = ["@@ -1,3 +1,3 @@", " same", "-the old word", "-gone", "+the new word", " end"]
    lines = list(marked(hunk))
    assert lines[0] == [("@", "@@ -1,3 +1,3 @@")]
    text = "\n".join("".join(part for sign, part in line if sign != "+") for line in lines[1:])
    assert text == "same\nthe old word\ngone\nend"
    assert ("-", "old") in lines[2]
    assert ("+", "new") in lines[2]


def test_a_bar_of_bytes_says_how_fast_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(bar.time, "monotonic", lambda: now)
    stream = io.StringIO()
    drawn_bar = bar.Bar(stream, width=200)
    for second in range(4):
        now = 101.0 + second
        drawn_bar.update("reading", second * 50_000_000, 300_000_000)
    assert stream.getvalue().endswith("50%  150.0 MB of 300.0 MB  50.0 MB/s  0:03 left")
    now = 200.0
    drawn_bar.update("sweep", 5, 10)
    assert stream.getvalue().endswith("50%  5 of 10")

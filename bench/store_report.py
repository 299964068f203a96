"""Keeps what `bench_store.py` measured, and turns it into tables that can be pasted into a page.

A sample is seconds per call, or bytes; medians are taken here. Ratios are the peer's median by
ours: above 1 we are ahead. Rows in which we are not are said again at the end.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from store_contenders import IN_MEMORY, INTERPRETED, PEER, RIVALS

GROWING = (
    "snapshot, nothing changed",
    "snapshot after a set",
    "restore, nothing changed",
    "restore after 10 changes",
    "first set after a snapshot",
    "diff of 10",
)
"""What should cost the same for few entries and for many."""


@dataclass
class Row:
    """One thing that was measured: what, on which ground, and the samples of everybody."""

    group: str
    """The table that it belongs to."""
    name: str
    column: str
    unit: str = "s"
    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, contender: str, sample: float) -> None:
        self.samples.setdefault(contender, []).append(sample)

    def median(self, contender: str) -> float | None:
        found = self.samples.get(contender)
        return statistics.median(found) if found else None

    def ratio(self, ours: str) -> float | None:
        mine, peer = self.median(ours), self.median(RIVALS[ours])
        # A call that takes no longer than reading the clock can come out at nothing.
        return peer / max(mine, 1e-9) if mine is not None and peer is not None else None

    def ours(self) -> list[str]:
        return [name for name in RIVALS if name in self.samples]


@dataclass
class Results:
    """All rows of a run, in the order of the first sample."""

    rows: dict[tuple[str, str, str], Row] = field(default_factory=dict[tuple[str, str, str], Row])

    def row(self, group: str, name: str, column: str, unit: str = "s") -> Row:
        return self.rows.setdefault((group, name, column), Row(group, name, column, unit))

    def groups(self) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in self.rows.values():
            found.setdefault(row.group, []).append(row)
        return found


def save(path: Path, machine: dict[str, str], results: Results) -> None:
    raw = {"machine": machine, "rows": [asdict(row) for row in results.rows.values()]}
    path.write_text(json.dumps(raw, indent=1) + "\n")


def load(paths: Iterable[Path]) -> tuple[dict[str, str], Results]:
    """Reads results of several runs, and pools the samples of the same row."""
    machine: dict[str, str] = {}
    results = Results()
    for path in paths:
        raw = json.loads(path.read_text())
        machine |= raw["machine"]
        for each in raw["rows"]:
            row = results.row(each["group"], each["name"], each["column"], each["unit"])
            for contender, samples in each["samples"].items():
                row.samples.setdefault(contender, []).extend(samples)
    return machine, results


def show(machine: dict[str, str], results: Results) -> None:
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine.items()))
    for group, rows in results.groups().items():
        for ours in dict.fromkeys(name for row in rows for name in row.ours()):
            show_group(group, ours, [row for row in rows if row.ratio(ours) is not None])
    show_growth(results)
    print()
    for line in behind(results) or ["Ahead in every row."]:
        print(line)


def show_group(group: str, ours: str, rows: Sequence[Row]) -> None:
    """Prints a table: a line for each name, a column for each size, ours and the peer's in it."""
    if not rows:
        return
    columns = list(dict.fromkeys(row.column for row in rows))
    print(f"\n### {group}: {ours}\n")
    print(f"| ours / {RIVALS[ours]} |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    by_place = {(row.name, row.column): row for row in rows}
    for name in dict.fromkeys(row.name for row in rows):
        found = [by_place.get((name, column)) for column in columns]
        print(f"| {name} |", " | ".join(cell(row, ours) for row in found), "|")


def cell(row: Row | None, ours: str) -> str:
    if row is None:
        return ""
    mine, peer, ratio = row.median(ours), row.median(RIVALS[ours]), row.ratio(ours)
    if mine is None or peer is None or ratio is None:
        return ""
    return f"{shown(mine, row.unit)} / {shown(peer, row.unit)}, {times(ratio)}"


def show_growth(results: Results) -> None:
    """Prints how much longer a call takes in the largest store than in the smallest."""
    lines: list[str] = []
    for group, rows in results.groups().items():
        for name in GROWING:
            named = [row for row in rows if row.name == name and PEER in row.samples]
            if len(named) < 2:
                continue
            first, last = named[0], named[-1]
            cells: list[str] = []
            for contender in IN_MEMORY:
                few, many = first.median(contender), last.median(contender)
                cells.append(times(many / max(few, 1e-9)) if few and many else "")
            span = f"{last.column} / {first.column}"
            lines.append(f"| {group}: {name} | {span} | {' | '.join(cells)} |")
    if lines:
        print("\n### Growth\n")
        print("|  | entries |", " | ".join(IN_MEMORY), "|")
        print("|---" * (len(IN_MEMORY) + 2) + "|")
        print("\n".join(lines))


def behind(results: Results) -> list[str]:
    """Returns a sentence for every row in which the peer is ahead; the fallback's come last."""
    found: list[str] = []
    for ours in (*(name for name in RIVALS if name != INTERPRETED), INTERPRETED):
        for row in results.rows.values():
            ratio = row.ratio(ours)
            if ratio is not None and ratio < 1:
                said = cell(row, ours)
                found.append(f"Behind: {ours}: {row.group}, {row.name}, {row.column}: {said}")
    return found


def shown(amount: float, unit: str) -> str:
    if unit == "bytes":
        return f"{amount:,.0f} B" if amount < 1e5 else f"{amount / 1e6:,.1f} MB"
    for factor, name in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if amount * factor < 1000:
            return f"{amount * factor:.3g} {name}"
    return f"{amount:.2f} s"


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:,.0f}x"

"""Keeps what `bench_sessions.py` measured, and turns it into tables that can be pasted into a page.

A sample is the seconds of one call, or bytes; medians are taken here. Ratios are the peer's
median by ours: above 1 we are ahead. Rows in which we are not are said again at the end.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sessions_contenders import RIVALS
from store_report import shown, times


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
        return peer / mine if mine and peer is not None else None

    def cell(self, ours: str) -> str:
        mine, peer, ratio = self.median(ours), self.median(RIVALS[ours]), self.ratio(ours)
        if mine is None:
            return ""
        if peer is None or ratio is None:
            return shown(mine, self.unit)
        return f"{shown(mine, self.unit)} / {shown(peer, self.unit)}, {times(ratio)}"


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
        for ours in RIVALS:
            show_group(group, ours, [row for row in rows if ours in row.samples])
    show_growth(results)
    is_compared = any(row.ratio(ours) for row in results.rows.values() for ours in RIVALS)
    if is_compared:
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
        print(f"| {name} |", " | ".join(row.cell(ours) if row else "" for row in found), "|")


def show_growth(results: Results) -> None:
    """Prints how much more the last column of each line takes than its first."""
    everybody = [name for pair in RIVALS.items() for name in pair]
    print("\n### Growth\n")
    print("|  | from, to |", " | ".join(everybody), "|")
    print("|---" * (len(everybody) + 2) + "|")
    for group, rows in results.groups().items():
        for name in dict.fromkeys(row.name for row in rows):
            named = [row for row in rows if row.name == name]
            if len(named) > 1:
                cells = [_growth(named[0], named[-1], contender) for contender in everybody]
                span = f"{named[0].column}, {named[-1].column}"
                print(f"| {group}: {name} | {span} | {' | '.join(cells)} |")


def _growth(first: Row, last: Row, contender: str) -> str:
    few, many = first.median(contender), last.median(contender)
    return times(many / few) if few and many else ""


def behind(results: Results) -> list[str]:
    """Returns a sentence for every row in which the peer is ahead."""
    found: list[str] = []
    for ours in RIVALS:
        for row in results.rows.values():
            ratio = row.ratio(ours)
            if ratio is not None and ratio < 1:
                said = row.cell(ours)
                found.append(f"Behind: {ours}: {row.group}, {row.name}, {row.column}: {said}")
    return found

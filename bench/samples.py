"""What a benchmark measured: rows with the samples of everybody, kept in a file and pooled.

A sample is seconds, or bytes; medians are taken here. A ratio is the peer's median by ours: above
1 we are ahead.
"""

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path


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

    def ratio(self, ours: str, peer: str) -> float | None:
        mine, theirs = self.median(ours), self.median(peer)
        # A call that takes no longer than reading the clock can come out at nothing.
        return theirs / max(mine, 1e-9) if mine is not None and theirs is not None else None


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


def shown(amount: float, unit: str) -> str:
    if unit == "bytes":
        return f"{amount:,.0f} B" if amount < 1e5 else f"{amount / 1e6:,.1f} MB"
    for factor, name in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if amount * factor < 1000:
            return f"{amount * factor:.3g} {name}"
    return f"{amount:.2f} s"


def times(ratio: float) -> str:
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:,.0f}x"

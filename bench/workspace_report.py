"""Turns raw results into tables that can be pasted into a page, and says where we are behind.

Results are seconds, all of them, by row and contender; medians are taken here. Several files of
them are merged: the samples of one size are pooled, so that a size can be measured in parts.
"""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROWS = {
    "first": "first",
    "unchanged": "unchanged",
    "changed": "10 changed",
    "rollback": "roll back 10",
    "restore": "full restore",
}
OURS = "holdfast"
OURS_WATCHED = "holdfast, watcher"
OURS_CLI = "holdfast CLI"
OURS_SERVED = "holdfast CLI, watch"
ORDER = (OURS, OURS_WATCHED, OURS_CLI, OURS_SERVED, "git", "restic", "borg", "tar + zstd", "cp -a")
FLOOR = "find -ctime"
CHECK = "own check"


@dataclass
class Result:
    """What one size took everybody."""

    size: str
    title: str
    files: int
    total_bytes: int
    times: dict[str, dict[str, list[float]]] = field(
        default_factory=dict[str, dict[str, list[float]]]
    )
    stored: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def add(self, row: str, contender: str, seconds: float) -> None:
        self.times.setdefault(row, {}).setdefault(contender, []).append(seconds)

    def median(self, row: str, contender: str) -> float | None:
        samples = self.times.get(row, {}).get(contender)
        return statistics.median(samples) if samples else None

    def contenders(self) -> list[str]:
        return sorted(self.stored, key=ORDER.index)

    def peers(self) -> list[str]:
        return [name for name in self.contenders() if not name.startswith(OURS)]


def save(path: Path, machine: dict[str, str], results: Iterable[Result]) -> None:
    raw = {"machine": machine, "results": [asdict(result) for result in results]}
    path.write_text(json.dumps(raw, indent=1) + "\n")


def load(paths: Iterable[Path]) -> tuple[dict[str, str], list[Result]]:
    """Reads results, and pools those of the same size; what is weighed last counts."""
    machine: dict[str, str] = {}
    merged: dict[str, Result] = {}
    for path in paths:
        raw = json.loads(path.read_text())
        machine |= raw["machine"]
        for each in raw["results"]:
            found = Result(**each)
            known = merged.setdefault(found.size, found)
            if known is found:
                continue
            known.stored |= found.stored
            for row, contenders in found.times.items():
                for contender, samples in contenders.items():
                    for seconds in samples:
                        known.add(row, contender, seconds)
    return machine, list(merged.values())


def show(machine: dict[str, str], results: Sequence[Result]) -> None:
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine.items()))
    for result in results:
        print(f"\n### {result.title}, {result.total_bytes / 1e6:,.0f} MB\n")
        show_times(result)
        for ours in (OURS, OURS_CLI):
            if ours in result.stored and result.peers():
                show_ratios(result, ours)
    print("\n### Above the floor\n")
    show_floors(results)
    print()
    if not any(OURS in result.stored for result in results):
        print("Holdfast did not take part.")
        return
    for line in shortfalls(results) or ["Ahead of everybody in every row."]:
        print(line)


def show_times(result: Result) -> None:
    print("|  |", " | ".join(ROWS.values()), "| size after 1 | after 20 |")
    print("|---" * (len(ROWS) + 3) + "|")
    for name in result.contenders():
        cells = [shown(result.median(row, name)) for row in ROWS]
        stored = result.stored[name]
        # Fewer than twenty were taken: what they added is projected.
        about = "" if stored.get("measured", 20) >= 20 else "≈ "
        sizes = [f"{stored['1'] / 1e6:,.1f} MB", f"{about}{stored.get('20', 0) / 1e6:,.1f} MB"]
        print(f"| {name} |", " | ".join([*cells, *sizes]), "|")
    counts = {row: [len(each) for each in result.times.get(row, {}).values()] for row in ROWS}
    parts = [f"{ROWS[row]} {span(count)}" for row, count in counts.items() if count]
    print(f"\nSamples: {', '.join(parts)}.")


def span(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def show_ratios(result: Result, ours: str) -> None:
    print(f"\n| times {ours} |", " | ".join(ROWS.values()), "| size after 1 | after 20 |")
    print("|---" * (len(ROWS) + 3) + "|")
    for peer in result.peers():
        cells = [ratio(result.median(row, peer), result.median(row, ours)) for row in ROWS]
        mine, other = result.stored[ours], result.stored[peer]
        cells += [ratio(other.get(count), mine.get(count)) for count in ("1", "20")]
        print(f"| {peer} |", " | ".join(cells), "|")


def show_floors(results: Sequence[Result]) -> None:
    columns = (
        ("floor", FLOOR, "find -ctime"),
        ("floor", CHECK, "own check alone"),
        ("unchanged", OURS, "unchanged"),
        ("changed", OURS, "10 changed"),
        ("unchanged", OURS_WATCHED, "watcher, unchanged"),
        ("changed", OURS_WATCHED, "watcher, 10 changed"),
        ("floor", "start of Python", "start of Python"),
        ("changed", OURS_CLI, "CLI, 10 changed"),
        ("changed", OURS_SERVED, "CLI with watch, 10 changed"),
        ("changed", "git", "git, 10 changed"),
    )
    print("| files |", " | ".join(title for _, _, title in columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for result in results:
        cells = [shown(result.median(row, name)) for row, name, _ in columns]
        print(f"| {result.files:,} |", " | ".join(cells), "|")


def shortfalls(results: Sequence[Result]) -> list[str]:
    """Returns a sentence for every goal that was measured and missed."""
    missed: list[str] = []
    for result in results:
        for ours in (OURS, OURS_CLI):
            for row, peer, part in losses(result, ours):
                missed.append(f"Behind: {result.title}, {row}: {peer} takes {part:.2f}x {ours}.")
        floor = result.median("floor", FLOOR)
        for row in ("unchanged", "changed"):
            mine, watched = result.median(row, OURS), result.median(row, OURS_WATCHED)
            if mine and floor and mine > floor + 0.05:
                above = (mine - floor) * 1e3
                missed.append(f"Behind: {result.title}, {row}: {above:.0f} ms above the floor.")
            if watched and watched > 0.02:
                missed.append(f"Behind: {result.title}, {row}: {shown(watched)} with the watcher.")
    return missed


def losses(result: Result, ours: str) -> Iterable[tuple[str, str, float]]:
    for peer in result.peers():
        for row, title in ROWS.items():
            mine, other = result.median(row, ours), result.median(row, peer)
            if mine and other and other < mine:
                yield title, peer, other / mine
        for count in ("1", "20"):
            mine = result.stored.get(ours, {}).get(count)
            other = result.stored[peer].get(count)
            if mine and other and other < mine:
                yield f"size after {count}", peer, other / mine


def shown(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds >= 1:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds * 1e3:.0f} ms"


def ratio(other: float | None, mine: float | None) -> str:
    if not other or not mine:
        return ""
    return f"{other / mine:.2f}x" if other < mine * 10 else f"{other / mine:,.0f}x"

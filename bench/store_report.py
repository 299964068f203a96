"""Keeps what `bench_store.py` measured, and turns it into tables that can be pasted into a page.

A sample is seconds per call, or bytes. Rows in which we are not ahead are said again at the end.
"""

from collections.abc import Sequence

from samples import Results, Row, load, save, shown, times
from store_contenders import IN_MEMORY, INTERPRETED, PEER, RIVALS

__all__ = ["Results", "load", "save", "show"]

GROWING = (
    "snapshot, nothing changed",
    "snapshot after a set",
    "restore, nothing changed",
    "restore after 10 changes",
    "first set after a snapshot",
    "diff of 10",
)
"""What should cost the same for few entries and for many."""


def show(machine: dict[str, str], results: Results) -> None:
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine.items()))
    for group, rows in results.groups().items():
        for ours in dict.fromkeys(name for row in rows for name in RIVALS if name in row.samples):
            show_group(
                group, ours, [row for row in rows if row.ratio(ours, RIVALS[ours]) is not None]
            )
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
    mine, peer, ratio = row.median(ours), row.median(RIVALS[ours]), row.ratio(ours, RIVALS[ours])
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
            ratio = row.ratio(ours, RIVALS[ours])
            if ratio is not None and ratio < 1:
                said = cell(row, ours)
                found.append(f"Behind: {ours}: {row.group}, {row.name}, {row.column}: {said}")
    return found

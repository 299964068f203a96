"""Keeps what `bench_sessions.py` measured, and turns it into tables that can be pasted into a page.

A sample is the seconds of one call, or bytes. Rows in which we are not ahead are said again at
the end.
"""

from collections.abc import Sequence

from samples import Results, Row, load, save, shown, times
from sessions_contenders import RIVALS

__all__ = ["Results", "load", "save", "show"]


def show(machine: dict[str, str], results: Results) -> None:
    print("\n" + ", ".join(f"{name} {value}" for name, value in machine.items()))
    for group, rows in results.groups().items():
        for ours in RIVALS:
            show_group(group, ours, [row for row in rows if ours in row.samples])
    show_growth(results)
    is_compared = any(
        row.ratio(ours, RIVALS[ours]) for row in results.rows.values() for ours in RIVALS
    )
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
        print(f"| {name} |", " | ".join(cell(row, ours) if row else "" for row in found), "|")


def cell(row: Row, ours: str) -> str:
    mine, peer, ratio = (
        row.median(ours),
        row.median(RIVALS[ours]),
        row.ratio(ours, RIVALS[ours]),
    )
    if mine is None:
        return ""
    if peer is None or ratio is None:
        return shown(mine, row.unit)
    return f"{shown(mine, row.unit)} / {shown(peer, row.unit)}, {times(ratio)}"


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
            ratio = row.ratio(ours, RIVALS[ours])
            if ratio is not None and ratio < 1:
                said = cell(row, ours)
                found.append(f"Behind: {ours}: {row.group}, {row.name}, {row.column}: {said}")
    return found

"""Draws cost against file count as an SVG: two panels, both axes logarithmic.

Written by hand, so that nothing has to be installed to draw it, and readable on light and dark
pages: the colours follow the reader's scheme. Every line is named at its end, not in a legend.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from workspace_report import FLOOR, OURS, OURS_CLI, OURS_SERVED, OURS_WATCHED, Result

WIDTH, HEIGHT = 1120, 450
TOP, BOTTOM = 44, 56
PANELS = (("unchanged", "Snapshot, nothing changed", 64), ("changed", "Snapshot, 10 changed", 620))
PANEL_WIDTH = 310
LABEL_GAP = 16  # pixels between two names, so that none covers another

# A name, its colour on light and on dark, its width and its dashes. Ours stand out, peers recede.
STYLES: dict[str, tuple[str, str, float, str]] = {
    OURS: ("#0b62d6", "#58a6ff", 3, ""),
    OURS_WATCHED: ("#0b62d6", "#58a6ff", 3, "2 5"),
    OURS_CLI: ("#0a7f6f", "#3fd0b6", 2.4, ""),
    OURS_SERVED: ("#0a7f6f", "#3fd0b6", 2.4, "2 5"),
    "git": ("#b3470b", "#f0883e", 1.7, ""),
    "restic": ("#8250a8", "#c297ff", 1.7, ""),
    "borg": ("#a3325f", "#f778ba", 1.7, ""),
    "tar + zstd": ("#7a6a1f", "#d4b83a", 1.7, ""),
    "cp -a": ("#6b7280", "#9aa4b2", 1.7, ""),
    FLOOR: ("#444c56", "#adbac7", 1.4, "6 4"),
}


def draw(results: Sequence[Result], path: Path) -> None:
    """Writes the chart of all sizes but the one of few big files: there, files do not count."""
    counted = sorted((each for each in results if each.size != "big"), key=lambda r: r.files)
    files = [result.files for result in counted]
    panels = {row: lines_of(counted, row) for row, _, _ in PANELS}
    costs = [y for lines in panels.values() for points in lines.values() for _, y in points]
    low, high = decades(costs)
    first, last = min(files) / 1.25, max(files) * 1.25
    parts = [opening()]
    for row, title, left in PANELS:
        place = Panel(left, (first, last), (low, high))
        parts += place.frame(title, files)
        parts += place.lines(panels[row])
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def lines_of(results: Sequence[Result], row: str) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for name in STYLES:
        where = "floor" if name == FLOOR else row
        points = [(float(r.files), cost) for r in results if (cost := r.median(where, name))]
        if points:
            lines[name] = points
    return lines


def decades(costs: Sequence[float]) -> tuple[float, float]:
    return 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))


class Panel:
    """One pair of axes."""

    def __init__(self, left: int, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.left, self.across, self.up = left, across, up

    def x(self, files: float) -> float:
        low, high = map(math.log, self.across)
        return self.left + PANEL_WIDTH * (math.log(files) - low) / (high - low)

    def y(self, seconds: float) -> float:
        low, high = map(math.log, self.up)
        share = (math.log(seconds) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    def frame(self, title: str, files: Sequence[int]) -> list[str]:
        right, bottom = self.left + PANEL_WIDTH, HEIGHT - BOTTOM
        parts = [text(self.left, TOP - 18, title, kind="title")]
        tick = self.up[0]
        while tick <= self.up[1] * 1.001:
            y = self.y(tick)
            parts.append(
                f'<line class="grid" x1="{self.left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(text(self.left - 8, y + 4, named_time(tick), anchor="end"))
            tick *= 10
        taken = -math.inf
        for count in sorted(set(files)):
            x = self.x(count)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
            if x - taken > 30:  # 2 k and 3 k stand too close for two names
                parts.append(text(x, bottom + 18, f"{count // 1000} k", anchor="middle"))
                taken = x
        middle = self.left + PANEL_WIDTH / 2
        parts.append(text(middle, bottom + 40, "files in the directory", anchor="middle"))
        return parts

    def lines(self, lines: dict[str, list[tuple[float, float]]]) -> list[str]:
        parts: list[str] = []
        ends = {name: self.y(points[-1][1]) for name, points in lines.items()}
        names = spread(ends, TOP, HEIGHT - BOTTOM)
        for name, points in lines.items():
            kind = f"s{list(STYLES).index(name)}"
            places = [(self.x(files), self.y(cost)) for files, cost in points]
            drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f'<polyline class="{kind}" points="{drawn}"/>')
            parts += [
                f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places
            ]
            x, y = places[-1]
            edge = self.left + PANEL_WIDTH + 14
            parts.append(
                f'<path class="lead" d="M{x + 5:.1f} {y:.1f}L{edge - 3} {names[name]:.1f}"/>'
            )
            cost = named_time(points[-1][1])
            parts.append(text(edge, names[name] + 4, f"{name} {cost}", kind=f"{kind} name"))
        return parts


def spread(ends: dict[str, float], top: float, bottom: float) -> dict[str, float]:
    """Returns where the names go: as near to the ends of their lines as their height allows."""
    order = sorted(ends, key=lambda name: ends[name])
    places: dict[str, float] = {}
    previous = top - LABEL_GAP
    for name in order:
        previous = places[name] = max(ends[name], previous + LABEL_GAP)
    limit = bottom + LABEL_GAP
    for name in reversed(order):
        limit = places[name] = min(places[name], limit - LABEL_GAP)
    return places


def named_time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {place}>{escape(words)}</text>'


def opening() -> str:
    light: list[str] = []
    dark: list[str] = []
    for number, (on_light, on_dark, width, dashes) in enumerate(STYLES.values()):
        light.append(f".s{number}{{stroke:{on_light};fill:{on_light};stroke-width:{width}}}")
        light.append(f"polyline.s{number}{{stroke-dasharray:{dashes or 'none'}}}")
        dark.append(f".s{number}{{stroke:{on_dark};fill:{on_dark}}}")
    rules = "\n".join(
        [
            "text{font:12px system-ui,sans-serif;fill:#57606a;stroke:none}",
            "text.title{font-size:15px;font-weight:600;fill:#1f2328}",
            "text.name{stroke:none;font-size:12.5px}",
            "polyline{fill:none!important;stroke-linejoin:round;stroke-linecap:round}",
            "circle{stroke:none!important}",
            ".grid{stroke:#d0d7de;stroke-width:1}",
            ".lead{stroke:#afb8c1;stroke-width:.7;fill:none}",
            *light,
            "@media (prefers-color-scheme:dark){",
            "text{fill:#9198a1}text.title{fill:#f0f6fc}.grid{stroke:#30363d}.lead{stroke:#565e68}",
            *dark,
            "}",
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        "<title>Seconds per snapshot against the number of files, both logarithmic</title>\n"
        f"<style>\n{rules}\n</style>"
    )

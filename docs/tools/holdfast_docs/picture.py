"""Draws what README shows first: a mistake and its undo, as they look on a terminal.

The commands are typed into a real terminal, in an empty directory with a vault of its own, and
what comes is drawn as it comes, colours included. What differs from run to run is called by one
name: where the directory is, and the ids of snapshots. A test draws it again and compares.

    make picture
"""

import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from holdfast_docs.blocks import ROOT

PICTURE: Final = ROOT / "docs" / "undo.svg"
COMMAND: Final = (sys.executable, "-P", "-m", "holdfast.cli.main")

BEFORE: Final = {
    "orders.csv": "id,total\n1,10\n2,20\n",
    "cart.py": "def total(items):\n    return sum(items)\n",
}
"""What lies in the directory when it is attached."""

STORY: Final = (
    "# an agent tidies up",
    "rm orders.csv",
    "echo 'def total(items): return 0' > cart.py",
    "echo 'it works!' > notes.txt",
    "",
    "holdfast status",
    "",
    "holdfast undo",
    "",
    "cat orders.csv",
)

IDS: Final = ("snap-k3v7m2qx", "snap-d5wz8n4p")
"""What the snapshots are called here, in the order in which they appear."""

_ID: Final = re.compile(r"snap-[a-z2-7]{8}")
_COLOUR: Final = re.compile(r"\x1b\[(\d*)m")
_COLOURS: Final = {"31": "#f47067", "32": "#6bc46d", "33": "#daaa3f", "36": "#56c8d8"}
_BOLD: Final = "1"
_PLAIN: Final = "#d7dce2"
_FAINT: Final = "#8b949e"
_BEHIND: Final = "#1c2128"

_SIZE: Final = 14
_LINE: Final = 21
_LETTER: Final = 8.43
_EDGE: Final = 22
_TOP: Final = 44
_COLUMNS: Final = 72


class Piece(NamedTuple):
    """Text of one look."""

    text: str
    colour: str = _PLAIN
    is_bold: bool = False


def main() -> None:
    """Draws the picture anew."""
    PICTURE.write_text(draw(), encoding="utf-8")


def draw() -> str:
    """Plays the story; returns the picture of it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "shop"
        folder.mkdir()
        for name, text in BEFORE.items():
            (folder / name).write_text(text)
        _type(folder, "holdfast init")
        typed = [list(_told(folder, command)) for command in STORY]
    return _drawn(_named(list(chain.from_iterable(typed)), folder))


def _told(folder: Path, command: str) -> Iterator[str]:
    """Yields a command as it is typed, then what it prints."""
    if command and not command.startswith("#"):
        yield f"\x1b[{_BOLD}m$ {command}\x1b[0m"
        yield from _type(folder, command)
    else:
        yield f"$ {command}" if command else ""


def _type(folder: Path, command: str) -> list[str]:
    """Types a command into a terminal; returns the lines that it prints."""
    ours, theirs = pty.openpty()
    program = " ".join(COMMAND)
    with os.fdopen(theirs, "wb") as terminal:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command.replace("holdfast ", f"{program} ", 1)],
            cwd=folder,
            env={
                "PATH": os.defpath,
                "HOME": str(folder.parent),
                "HOLDFAST_DATA": str(folder.parent / "vault"),
                "HOLDFAST_STAY": "0",
                "LC_ALL": "C.UTF-8",
                "TERM": "xterm",
            },
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
        )
    printed = b"".join(_read(ours))
    assert process.wait() == 0, printed.decode()
    return printed.decode().replace("\r\n", "\n").splitlines()


def _read(terminal: int) -> Iterator[bytes]:
    """Yields what is printed, until nobody is there who could print more."""
    with os.fdopen(terminal, "rb", buffering=0) as printed:
        while True:
            try:
                part = printed.read(4096)
            except OSError:  # So Linux says it.
                return
            if not part:
                return
            yield part


def _named(lines: list[str], folder: Path) -> list[str]:
    """Returns lines in which everything has the name that it has in every run."""
    text = "\n".join(lines).replace(str(folder), "~/shop")
    found = list(dict.fromkeys(_ID.findall(text)))
    for identity, name in zip(found, IDS, strict=True):
        text = text.replace(identity, name)
    return text.split("\n")


def _pieces(line: str) -> Iterator[Piece]:
    """Yields a line in pieces, by the colours that are switched on and off in it."""
    if line.startswith("$ #"):
        yield Piece(line, _FAINT)
        return
    colour, is_bold = _PLAIN, False
    for number, part in enumerate(_COLOUR.split(line)):
        if number % 2:
            colour, is_bold = _COLOURS.get(part, _PLAIN), part == _BOLD
        elif part:
            yield Piece(part, colour, is_bold)


def _drawn(lines: list[str]) -> str:
    width, height = round(2 * _EDGE + _COLUMNS * _LETTER), _TOP + len(lines) * _LINE + _EDGE // 2
    rows = "\n".join(
        f'<text x="{_EDGE}" y="{_TOP + number * _LINE + _SIZE}">{_spans(line)}</text>'
        for number, line in enumerate(lines)
        if line
    )
    dots = "".join(
        f'<circle cx="{_EDGE + 18 * number}" cy="20" r="6" fill="{fill}"/>'
        for number, fill in enumerate(("#f47067", "#daaa3f", "#6bc46d"))
    )
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
role="img" aria-label="A terminal: files are deleted, holdfast undo brings them back">
<rect width="{width}" height="{height}" rx="10" fill="{_BEHIND}"/>
{dots}
<g font-family="{font}" font-size="{_SIZE}" xml:space="preserve" style="white-space: pre">
{rows}
</g>
</svg>
"""


def _spans(line: str) -> str:
    return "".join(
        f'<tspan fill="{piece.colour}"{_weight(piece)}>{escape(piece.text)}</tspan>'
        for piece in _pieces(line)
    )


def _weight(piece: Piece) -> str:
    return ' font-weight="bold"' if piece.is_bold else ""


if __name__ == "__main__":
    main()

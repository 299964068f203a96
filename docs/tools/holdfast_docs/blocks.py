"""The fenced blocks of a page: what they are, and where they stand.

The word behind the fence says what a block is, and nothing is left to guess: `KINDS` has all of
them, and a page with another one is refused.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[3]
DOCS: Final = ROOT / "docs"

FENCE: Final = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

KINDS: Final = {
    "python": "run; those of one page share their names",
    "text output": "what the block of Python before it prints",
    "console": "a recording of a terminal: typed, and compared",
    "sh": "typed as well, whatever it prints",
    "toml": "settings of a server: it would start with them",
    "json": "an answer of the server: JSON that fits the shape it names",
    "text figure": "a drawing: no line of it can be typed",
}
"""What a block can be. `json` is followed by the name of a shape, such as `json ProblemAnswer`."""


@dataclass
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def kind(self) -> str:
        """Which of `KINDS` it is."""
        return "json" if self.info.startswith("json ") else self.info

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    """Returns a page's path from the root of the project on."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """Returns what a page holds."""
    return page.read_text("utf-8")


def blocks_of(page: Path) -> list[Block]:
    """Returns a page's blocks, in order; `line` is that of their first line of text."""
    text = text_of(page)
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found[1].strip(), found[2])
        for found in FENCE.finditer(text)
    ]


def prose_of(page: Path) -> str:
    """Returns a page without its blocks."""
    return FENCE.sub("", text_of(page))

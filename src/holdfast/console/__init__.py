"""The web console: what a person's browser is given, and nothing that a browser does not need.

A client as any other: it speaks the public HTTP API. Below `static` are plain ES modules, one style
sheet and one page, without a build step; in the page, `{{base}}` stands for where the console is
(`/console/`, after the server's prefix) and `{{static}}` for where its files are, relative to that,
under a name that changes with their content. A server hands them out (`server/pages.py`).

Imports nothing of ours.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).with_name("static")

INDEX: Final = "index.html"
"""The page, which answers at every place of the console that is no file."""


def iter_files() -> Iterator[tuple[str, bytes]]:
    """Yields all files of the console in their order, by their names below `static`."""
    for path in sorted(STATIC.rglob("*")):
        if path.is_file():
            yield path.relative_to(STATIC).as_posix(), path.read_bytes()

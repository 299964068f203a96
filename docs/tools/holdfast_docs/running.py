"""Runs what pages show, and compares what they say comes of it.

Blocks of Python of one page share their names and run in order. A page that speaks to a server
finds one, of its own, under the variables that clients read.
"""

import contextlib
import inspect
import io
import json
import re
import socket
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from holdfast.testing.servers import Begin, begin, running_server
from holdfast_docs.blocks import Block, blocks_of

SPEAKS: Final = re.compile(r"HOLDFAST_URL|Client\(|from_env\(")
"""What a page says whose blocks need a server."""

SAYS: Final = re.compile(r"^export HOLDFAST_.*$", re.MULTILINE)
TYPED: Final = ("console", "sh")

CLOSED_BY_US: Final = {"holdfast", "trove_sdk", "statebase", "httpx", "httpx2"}
"""Where classes are from whose objects a page may leave open."""


def python_of(page: Path) -> str:
    """Returns all that a page has of Python."""
    return "".join(block.text for block in blocks_of(page) if block.kind == "python")


def run_page(page: Path, **given: object) -> None:
    """Runs a page's Python, block by block; raises where it fails or prints something else."""
    space: dict[str, object] = {"__name__": "__main__", **given}
    printed, opened = "", dict[int, object]()
    try:
        for block in blocks_of(page):
            if block.kind == "python":
                printed = run_block(block, space)
                # A name may mean something else two blocks later; what it meant stays open.
                opened |= {id(value): value for value in space.values()}
            elif block.kind == "text output":
                check_output(block, printed)
    finally:
        close({**opened, **{id(value): value for value in space.values()}}.values())


def run_block(block: Block, space: dict[str, object]) -> str:
    """Runs one block; returns what it printed."""
    # Empty lines before it make tracebacks name the line of the page.
    source = "\n" * (block.line - 1) + block.text
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(source, str(block.page), "exec"), space)
    return output.getvalue()


def close(values: Iterable[Any]) -> None:
    """Closes vaults and clients that were left open, as the end of a process would."""
    for value in values:
        home: str = value.__class__.__module__
        if home.partition(".")[0] not in CLOSED_BY_US or not hasattr(value, "close"):
            continue
        if not inspect.iscoroutinefunction(value.close):  # Those end with their event loop.
            value.close()


def check_output(block: Block, printed: str) -> None:
    """Raises if a block does not show what was printed, line by line; `…` is anything."""
    shown, found = block.text.splitlines(), printed.splitlines()
    assert len(shown) == len(found), f"{block.place} printed:\n{printed}"
    for line, real in zip(shown, found, strict=True):
        pattern = ".+".join(re.escape(part) for part in line.rstrip().split("…"))
        assert re.fullmatch(pattern, real.rstrip()), f"{line!r} is shown, {real!r} was printed"


def check_json(block: Block, document: dict[str, Any]) -> None:
    """Raises if a block is not JSON of the shape that it names, by a server's description."""
    shapes = document["components"]["schemas"]
    shape = block.info.removeprefix("json").strip()
    assert shape in shapes, f"{block.place} has to name a shape of /openapi.json"
    schema = {"$ref": f"#/components/schemas/{shape}", "components": document["components"]}
    jsonschema_rs.validator_for(schema).validate(json.loads(block.text))


def only_near(connect: Callable[[socket.socket, Any], None]) -> Callable[..., None]:
    """Returns a way to connect that leads to this machine alone: what is shown works offline."""

    def connect_near(self: socket.socket, address: Any, /) -> None:
        is_near = self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost")
        assert is_near, f"somebody wants to speak to {address}"
        connect(self, address)

    return connect_near


def needs_server(page: Path, kinds: tuple[str, ...]) -> bool:
    """Says whether blocks of some kinds speak to a server; to say where one is does not."""
    texts = [SAYS.sub("", block.text) for block in blocks_of(page) if block.kind in kinds]
    return any(SPEAKS.search(text) for text in texts)


@contextlib.contextmanager
def served(
    page: Path, folder: Path, *kinds: str, begin: Begin = begin
) -> Generator[dict[str, str]]:
    """Yields the variables that say where a page's server is; none for a page that needs none."""
    if not needs_server(page, kinds):
        yield {}
        return
    # Webhooks of examples lead to this machine.
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with running_server(folder / "server", environ=environ, begin=begin) as server:
        yield {
            "HOLDFAST_URL": server.url,
            "HOLDFAST_API_KEY": server.api_key,
            "HOLDFAST_ADMIN_KEY": server.admin_key,
        }

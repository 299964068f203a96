"""What a request walks through: files, functions and calls of ours, and what the database hears.

    python bench/walk_requests.py                      # a PostgreSQL of its own
    python bench/walk_requests.py --names snapshot     # every function too, in the order of calls

A real application over a real PostgreSQL, in this process, so that a profiler sees all of it. Each
request is sent a few times before it is counted: what is loaded or prepared once does not count. A
wait is an answer of the database that somebody waits for; many statements may share one.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx

import holdfast
from holdfast.catalog.postgres_lines import Line
from holdfast.catalog.postgres_talk import Talk
from holdfast.engine.objects import trust
from holdfast.server.app import create, open_vault
from holdfast.server.config import configure
from holdfast.server.credentials import make_credentials
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import ADMIN_KEY, API_KEY

OURS = str(Path(holdfast.__file__).parent)
CHANGED = 10
TITLES = (
    "files",
    "functions",
    "calls",
    "changes",
    "lines",
    "transactions",
    "statements",
    "waits",
)
"""Changes are those from one file to another; lines are those of all files."""

WARMING, COUNTED = 3, 5


@dataclass
class Walk:
    """What one request walked through."""

    codes: list[CodeType] = field(default_factory=list[CodeType])
    changes: int = 0
    transactions: int = 0
    statements: int = 0
    waits: int = 0

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.codes}

    def row(self) -> tuple[int, ...]:
        lines = sum(len(Path(name).read_text().splitlines()) for name in self.files)
        functions = len(set(self.codes))
        walked = len(self.files), functions, len(self.codes), self.changes, lines
        return *walked, self.transactions, self.statements, self.waits


class Profiler:
    """Counts while it is told to, in all threads that begin after it."""

    def __init__(self) -> None:
        self._walk: Walk | None = None
        self._at = threading.local()
        for kind, name in ((Talk, "__init__"), (Line, "send"), (Line, "receive")):
            setattr(kind, name, self._heard(name, getattr(kind, name)))
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def begin(self) -> Walk:
        self._walk = Walk()
        return self._walk

    def end(self) -> None:
        self._walk = None

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        walk, code = self._walk, frame.f_code
        if walk is None or event != "call" or not code.co_filename.startswith(OURS):
            return
        walk.changes += getattr(self._at, "file", None) != code.co_filename
        self._at.file = code.co_filename
        walk.codes.append(code)

    def _heard(self, name: str, heard: Callable[..., object]) -> Callable[..., object]:
        def hears(talk: object, *given: object, **named: object) -> object:
            walk = self._walk
            if walk is not None and name == "__init__":
                walk.transactions += 1
            elif walk is not None and name == "send":
                walk.statements += not str(given[0]).startswith(("BEGIN", "COMMIT"))
            elif walk is not None:
                walk.waits += 1
            return heard(talk, *given, **named)

        return hears


@asynccontextmanager
async def served(url: str, data: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """Runs an application with all that it starts by itself, but for what would be counted."""
    os.environ |= {
        "HOLDFAST_DATA": str(data),
        "HOLDFAST_DATABASE_URL": url,
        "HOLDFAST_ADMIN_KEY": ADMIN_KEY,
        "HOLDFAST_API_KEY": API_KEY,
        "HOLDFAST_WORKS": "0",
    }
    config = configure(os.environ)
    with closing(open_vault(config)) as vault:
        make_credentials(vault, config)
    app: Any = create()
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    living = asyncio.create_task(app({"type": "lifespan", "state": {}}, told.get, heard.put))
    await told.put({"type": "lifespan.startup"})
    assert (await heard.get())["type"] == "lifespan.startup.complete"
    headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "walker"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        client.headers.update(headers)
        yield client
    await told.put({"type": "lifespan.shutdown"})
    await living


async def walk(profiler: Profiler, client: httpx.AsyncClient) -> dict[str, Walk]:
    async def send(method: str, path: str, body: object, name: str | None = None) -> dict[str, Any]:
        headers = {} if name is None else {"Idempotency-Key": name}
        answer = await client.request(method, path, json=body, headers=headers)
        return answer.raise_for_status().json()

    async def write(n: int) -> None:
        for each in range(CHANGED):
            await send("POST", "/write", {"path": f"d{each}/f.txt", "content": f"{n} {each}"})

    made = await send("POST", "/v1/sessions", {"agent_id": "walker", "initial_state": {"step": 0}})
    state = f"/v1/sessions/{made['id']}/state"
    await write(0)
    taken = await send("POST", "/v1/snapshots", {"label": "taken"})
    requests: dict[str, tuple[str, str, Callable[[int], object]]] = {
        "update_state": ("PATCH", state, lambda n: {"state": {"step": n}}),
        "write": ("POST", "/write", lambda n: {"path": "d0/f.txt", "content": f"{n}"}),
        "snapshot": ("POST", "/v1/snapshots", lambda n: {"label": f"{n}"}),
        "restore": ("POST", f"/v1/snapshots/{taken['snapshot_id']}/restore", lambda _: {}),
    }
    found: dict[str, Walk] = {}
    for what, (method, path, body) in requests.items():
        for suffix in ("", ", named"):
            walks: list[Walk] = []
            for n in range(WARMING + COUNTED):
                if what in ("snapshot", "restore"):
                    await write(n)
                walks.append(profiler.begin())
                await send(method, path, body(n), f"{what}-{n}" if suffix else None)
                profiler.end()
            # Now and then one does more, such as to number what was told.
            found[what + suffix] = min(walks[WARMING:], key=lambda walk: len(walk.codes))
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--names", help="a request whose functions are listed, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data, PostgresServer() as postgres:
        profiler, trust.LATELY = Profiler(), timedelta(days=1)  # Else some look at all packs.
        async with served(postgres.dsn(postgres.create_database()), Path(data)) as client:
            found = await walk(profiler, client)
    print(f"{'':22}" + "".join(f"{title:>14}" for title in TITLES))
    for what, walked in found.items():
        print(f"{what:22}" + "".join(f"{each:14,}" for each in walked.row()))
    if options.names:
        for code in dict.fromkeys(found[options.names].codes):
            print(
                f"  {code.co_filename.removeprefix(OURS)}:{code.co_firstlineno} {code.co_qualname}"
            )
    if options.json:
        rows = {what: dict(zip(TITLES, each.row(), strict=True)) for what, each in found.items()}
        options.json.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    asyncio.run(main())

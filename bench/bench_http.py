"""What requests cost: how many a second, and how long one takes, as more come at once.

    make bench ONLY=http
    python bench/bench_http.py --quick                 # one second each, SQLite alone
    python bench/bench_http.py --workers 2 --json http.json
    python bench/bench_http.py --beside ~/old/.venv/bin/holdfast    # and another build in turns

A real server in a process of its own, and a client that does next to nothing, on the same
machine: what the client takes is taken from the server. The floor is a route that does nothing.
Every connection is an agent of its own, with a namespace of its own; all of them are one tenant's.
Then snapshot and restore of ten changed files, with a thousand files in the namespace and with a
hundred thousand. With `--beside`, two servers get the same requests in turns: how many a second,
and what the processor takes for one, ours by theirs and by the floor.
"""

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from http_load import Asked, Load, run_load

import holdfast
from holdfast.testing.servers import Server, running_server

CONNECTIONS = (1, 16, 64)
SECONDS = 4.0
SIZES = (1_000, 100_000)
CHANGED = 10
ROUNDS = 15
TEXT = "a line of a file that an agent writes\n" * 26
"""About 1 KB."""

BESIDE = (1, 16)
TURNS = 3
"""How many connections, and how often each, beside another build."""

Ask = Callable[[int, int], tuple[str, Asked]]


def send(server: Server, namespace: str, asked: Asked) -> dict[str, object]:
    body = None if asked.body is None else json.dumps(asked.body).encode()
    headers = {
        "Authorization": f"Bearer {server.api_key}",
        "X-Namespace": namespace,
        "Content-Type": "application/json",
    }
    request = Request(server.url + asked.path, body, headers, method=asked.method)
    with urlopen(request) as response:
        return json.load(response)


def cases(server: Server) -> Iterator[tuple[str, Ask]]:
    """Yields what is measured, with everything that it needs in place."""
    most = max(CONNECTIONS)
    names = [f"agent-{each}" for each in range(most)]
    sessions, snapshots = [], []
    for name in names:
        send(server, name, Asked("POST", "/write", {"path": "notes.md", "content": TEXT}))
        made = send(server, name, Asked("POST", "/v1/snapshots", {"label": "first"}))
        snapshots.append(made["snapshot_id"])
        talk = {"agent_id": "bench", "initial_state": {"text": TEXT, "step": 0}}
        sessions.append(send(server, name, Asked("POST", "/v1/sessions", talk))["id"])
        memory = {"content": "The user prefers a window seat", "session_id": sessions[-1]}
        send(server, name, Asked("POST", "/v1/memories", memory))
        turn = {"input": "Which seat?", "output": "By the window."}
        send(server, name, Asked("POST", f"/v1/sessions/{sessions[-1]}/turns", turn))

    def write(c: int, n: int) -> tuple[str, Asked]:
        body = {"path": f"files/{n % 100}.md", "content": f"{n}\n{TEXT}"}
        return names[c], Asked("POST", "/write", body)

    def update(c: int, n: int) -> tuple[str, Asked]:
        path = f"/v1/sessions/{sessions[c]}/state"
        return names[c], Asked("PATCH", path, {"state": {"step": n}})

    def context(c: int, _n: int) -> tuple[str, Asked]:
        path = f"/v1/sessions/{sessions[c]}/context"
        return names[c], Asked("POST", path, {"query": "window seat"})

    def restore(c: int, _n: int) -> tuple[str, Asked]:
        return names[c], Asked("POST", f"/v1/snapshots/{snapshots[c]}/restore")

    yield "floor (/health/live)", lambda c, _n: (names[c], Asked("GET", "/health/live"))
    read = Asked("GET", "/v1/files/content?path=notes.md")
    yield "read", lambda c, _n: (names[c], read)
    yield "write 1 KB", write
    yield "update_state", update
    yield "get_context", context
    yield "snapshot", lambda c, _n: (names[c], Asked("POST", "/v1/snapshots", {}))
    yield "restore", restore


def measure(server: Server, seconds: float) -> dict[str, list[Load]]:
    found: dict[str, list[Load]] = {}
    for name, ask in cases(server):
        for connections in CONNECTIONS:
            load = run_load(
                server.url, server.api_key, ask, connections=connections, seconds=seconds
            )
            found.setdefault(name, []).append(load)
            print(f"  {name:22} {connections:3} {load.rate:8.0f}/s", flush=True)
    return found


@dataclass
class Cost:
    """What the requests of one kind came to, with so many connections."""

    requests: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0

    def add(self, server: Server, ask: Ask, connections: int, seconds: float) -> None:
        before = server.cpu_s()
        load = run_load(server.url, server.api_key, ask, connections=connections, seconds=seconds)
        self.requests, self.seconds = self.requests + load.requests, self.seconds + load.seconds
        self.cpu_s += server.cpu_s() - before

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def cpu_us(self) -> float:
        return self.cpu_s / self.requests * 1e6


def compare(ours: Server, theirs: Server, seconds: float) -> None:
    """Prints a table of what the same requests cost two servers, which get them in turns."""
    print("| | conns. | req/s | theirs | ratio | of the floor | CPU | theirs | ratio |")
    print("|---" * 9 + "|", flush=True)
    floors = dict[int, float]()
    for (name, ask), (_, same) in zip(cases(ours), cases(theirs), strict=True):
        for connections in BESIDE:
            mine, other = Cost(), Cost()
            for _ in range(TURNS):
                mine.add(ours, ask, connections, seconds)
                other.add(theirs, same, connections, seconds)
            floor = floors.setdefault(connections, mine.rate)
            cells = (
                f"{name} | {connections}",
                f"{mine.rate:,.0f} | {other.rate:,.0f} | {mine.rate / other.rate:.2f}x",
                f"{mine.rate / floor:.2f}x | {mine.cpu_us:,.0f} us | {other.cpu_us:,.0f} us",
                f"{mine.cpu_us / other.cpu_us:.2f}x",
            )
            print(f"| {' | '.join(cells)} |", flush=True)


def compare_all(command: str, seconds: float, *, quick: bool) -> None:
    """Prints what requests cost on each catalog, beside another build."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-bench-")))
        one, two = (stack.enter_context(catalogs(quick=quick)) for _ in range(2))
        for name in one:
            print(f"### {name}", flush=True)
            with (
                running_server(folder / f"{name}-ours", environ=one[name]) as ours,
                running_server(
                    folder / f"{name}-theirs", environ=two[name], command=[command]
                ) as theirs,
            ):
                compare(ours, theirs, seconds)


def grow(server: Server, size: int, rounds: int) -> tuple[float, float]:
    """Returns the medians of a snapshot and of a restore, with so many files in the namespace."""
    name = f"grown-{size}"
    location = server.environ.get("HOLDFAST_DATABASE_URL") or str(server.data)
    objects = str(server.data / "packs") if "://" in location else None
    with holdfast.open(location, objects=objects) as vault:
        files = ((f"d{n // 100}/{n}.txt", f"file {n}\n") for n in range(size))
        vault.namespace(name).files.write_many(files)
    first = send(server, name, Asked("POST", "/v1/snapshots", {}))["snapshot_id"]
    snapshots, restores = [], []
    for n in range(rounds):
        for each in range(CHANGED):
            at = (each * size // CHANGED + n) % size
            body = {"path": f"d{at // 100}/{at}.txt", "content": f"changed {n}"}
            send(server, name, Asked("POST", "/write", body))
        begun = time.perf_counter()
        send(server, name, Asked("POST", "/v1/snapshots", {}))
        middle = time.perf_counter()
        send(server, name, Asked("POST", f"/v1/snapshots/{first}/restore"))
        snapshots.append(middle - begun)
        restores.append(time.perf_counter() - middle)
    return statistics.median(snapshots), statistics.median(restores)


def report(title: str, found: dict[str, list[Load]]) -> str:
    lines = [f"### {title}", ""]
    heads = [f"{c} conn." if c == 1 else f"{c} conns." for c in CONNECTIONS]
    lines.append("| | " + " | ".join(f"{head} req/s | p50 | p99" for head in heads) + " |")
    lines.append("|---" * (1 + 3 * len(CONNECTIONS)) + "|")
    for name, loads in found.items():
        cells = [f"{x.rate:,.0f} | {x.p50 * 1e3:.1f} ms | {x.p99 * 1e3:.1f} ms" for x in loads]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def report_growth(grown: dict[str, dict[int, tuple[float, float]]]) -> str:
    lines = ["| 10 changed files, of | " + " | ".join(f"{n:,}" for n in SIZES) + " | ratio |"]
    lines.append("|---" * (2 + len(SIZES)) + "|")
    for catalog, sizes in grown.items():
        for at, what in enumerate(("snapshot", "restore")):
            times = [sizes[size][at] for size in SIZES]
            cells = " | ".join(f"{t * 1e3:.1f} ms" for t in times)
            lines.append(f"| {catalog}: {what} | {cells} | {times[-1] / times[0]:.2f}x |")
    return "\n".join(lines) + "\n"


@contextmanager
def catalogs(*, quick: bool) -> Generator[dict[str, dict[str, str]]]:
    """Opens what servers can stand on: each with the variables that say so."""
    if quick:
        yield {"SQLite": {}}
        return
    from holdfast.testing.postgres import PostgresServer  # noqa: PLC0415 - only when asked for

    with PostgresServer() as server:
        yield {
            "SQLite": {},
            "PostgreSQL": {"HOLDFAST_DATABASE_URL": server.dsn(server.create_database())},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one second each, SQLite alone")
    parser.add_argument("--workers", type=int, default=1, help="processes that answer")
    parser.add_argument("--json", type=Path, help="keep the figures here")
    parser.add_argument("--beside", metavar="COMMAND", help="another build's `holdfast`")
    options = parser.parse_args()
    if options.beside:
        compare_all(options.beside, 1.0 if options.quick else SECONDS / 2, quick=options.quick)
        return
    texts, grown, kept = [], {}, {}
    with (
        tempfile.TemporaryDirectory(prefix="hf-bench-") as folder,
        catalogs(quick=options.quick) as stands,
    ):
        for name, environ in stands.items():
            print(name, flush=True)
            arguments = ("--workers", str(options.workers))
            with running_server(Path(folder) / name, *arguments, environ=environ) as server:
                found = measure(server, 1.0 if options.quick else SECONDS)
                rounds = 5 if options.quick else ROUNDS
                grown[name] = {size: grow(server, size, rounds) for size in SIZES}
            texts.append(report(f"{name}, {options.workers} worker(s)", found))
            kept[name] = {
                case: [(x.connections, x.rate, x.p50, x.p99) for x in loads]
                for case, loads in found.items()
            }
    print(f"\nCPython {platform.python_version()}, {platform.system()} {platform.release()}\n")
    print("\n".join(texts))
    print(report_growth(grown))
    if options.json:
        options.json.write_text(json.dumps({"loads": kept, "grown": grown}, indent=1))


if __name__ == "__main__":
    main()

"""Puts one hostile tenant beside ten normal ones, and says what these notice of it.

Ten tenants write, read, list, take snapshots and change states, in turns alone and beside
one that does everything at once that a server has to outlive: texts that are slow to compare, a
restore with 36,000 patterns, patterns that make matchers go back, large JSON, imports beyond its
quota, paths of thousands of levels, collections and checks on all threads, streams that nobody
reads, endless heads and connections that say half of something. Its key has a rate limit, and it is
always at it.

    python bench/soak_hostile_tenant.py [--minutes 10] [--rate 600] [--workers 1] [--only WAY]
        [--snapshots 0] [--rounds 5]

The minutes are shared between the two halves, and these between the rounds: what else goes on
beneath a machine meets both. With `--only` the hostile one goes one way alone,
which says what each of them costs; with `--snapshots` it has so many before it begins, as after
many minutes. It ends with 1 if a normal tenant got an error, if its p99 is
more than three times that without the hostile one, or if `/health/live` took more than 250 ms.
How long the disk took to sync a page of somebody else is told beside it: who waits for that waits
for no tenant.

What the hostile one computes to be hostile, it computes at a low priority: it would do so on a
machine of its own, and here is about what a server does for it. The rest of this machine should
have nothing else to do.
"""

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

import holdfast
from holdfast.testing.servers import Server, running_server

NORMAL = 10
PAUSE_S = 0.25
"""Between two requests of a normal tenant: 40 in a second together, which one client can send."""
MOST_RATIO = 3.0
MOST_LIVE_S = 0.25
LOW = 10
"""The priority of what the hostile one computes for itself."""
MIB = 1 << 20
TOO_MANY = 429
FAILED = 500


@dataclass
class Seen:
    """What the normal tenants saw."""

    kinds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """How long the requests of each kind took."""
    probes: list[float] = field(default_factory=list[float])
    syncs: list[float] = field(default_factory=list[float])
    """Of a file that is nobody's."""
    errors: Counter[str] = field(default_factory=Counter[str])
    rss_kb: int = 0
    cpu_s: float = 0.0
    """What the server computed meanwhile."""

    @property
    def took(self) -> list[float]:
        """How long all requests took."""
        return [each for took in self.kinds.values() for each in took]

    def at(self, share: float) -> float:
        """Returns so long a request took that this share of them were quicker, in ms."""
        return at(share, self.took)

    def add(self, other: "Seen") -> None:
        """Takes in what was seen another time."""
        for kind, took in other.kinds.items():
            self.kinds.setdefault(kind, []).extend(took)
        self.probes += other.probes
        self.syncs += other.syncs
        self.errors += other.errors
        self.rss_kb = max(self.rss_kb, other.rss_kb)
        self.cpu_s += other.cpu_s


def at(share: float, of: Sequence[float]) -> float:
    """Returns so long one took that this share of them were quicker, in ms."""
    return sorted(of)[int(len(of) * share)] * 1e3


@dataclass(frozen=True)
class Target:
    """Where the hostile tenant finds the server, and what it has."""

    url: str
    port: int
    key: str
    admin_key: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the soak; returns 0 if the normal tenants noticed little."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=int, default=600, help="requests a minute of the hostile")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", choices=[*WAYS, ""], default="", help="one attack alone")
    parser.add_argument(
        "--snapshots", type=int, default=0, help="of the hostile one, to begin with"
    )
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args(arguments)
    turn_s = wanted.minutes * 30 / wanted.rounds
    before, beside = Seen(), Seen()
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder), "--workers", str(wanted.workers)) as server,
    ):
        keys, target = make_tenants(server, wanted.rate, snapshots=wanted.snapshots)
        for _ in range(wanted.rounds):
            before.add(asyncio.run(normal(server, keys, turn_s)))
            hostile = multiprocessing.get_context("spawn").Process(
                target=attack, args=(target, turn_s + 5, wanted.only), daemon=True
            )
            hostile.start()
            beside.add(asyncio.run(normal(server, keys, turn_s)))
            hostile.join(60)
            tell("alone", before)
            tell("beside the hostile one", beside)
        begun = time.monotonic()
        server.stop()
        print(f"stopped in {time.monotonic() - begun:.1f} s")
        for line in server.log.read_text().splitlines():
            if not is_usual(line):
                print(line)
    ratio, lives = beside.at(0.99) / before.at(0.99), max(beside.probes)
    errors = before.errors + beside.errors
    is_met = not errors and ratio <= MOST_RATIO and lives <= MOST_LIVE_S
    print(
        f"{'met' if is_met else 'NOT MET'}: p99 {ratio:.1f} times that without"
        f" (at most {MOST_RATIO:.0f}); {errors.total()} errors {dict(errors) or ''}(none);"
        f" /health/live at worst {lives * 1e3:.0f} ms (at most {MOST_LIVE_S * 1e3:.0f})"
    )
    return 0 if is_met else 1


def is_usual(line: str) -> bool:
    """Says whether a line of the log tells of a request and nothing else."""
    return "holdfast.access" in line


def make_tenants(server: Server, rate: int, *, snapshots: int) -> tuple[list[str], Target]:
    """Makes the tenants; returns the keys of the normal ones, and what the hostile one needs."""
    with holdfast.open(server.data) as vault:
        keys = [vault.tenant(f"normal-{n}").keys.create("agent").api_key for n in range(NORMAL)]
        bad = vault.tenant("hostile")
        bad.set_quota(64 * MIB)
        key = bad.keys.create("agent", rate_limit=rate).api_key
        admin = bad.keys.create("operator", admin=True, rate_limit=rate).api_key
        for _ in range(snapshots):
            bad.namespace("work").snapshot()
    return keys, Target(server.url, server.port, key, admin)


def tell(when: str, seen: Seen) -> None:
    """Prints what was seen."""
    kinds = ", ".join(f"{kind} {at(0.99, took):.0f}" for kind, took in seen.kinds.items())
    print(
        f"{when}: {len(seen.took)} requests, p50 {seen.at(0.5):.1f} ms, p99 {seen.at(0.99):.1f} ms,"
        f" worst {max(seen.took) * 1e3:.0f} ms, {seen.errors.total()} errors; /health/live at worst"
        f" {max(seen.probes) * 1e3:.0f} ms; the disk's own p99 {at(0.99, seen.syncs):.1f} ms;"
        f" {seen.rss_kb // 1024} MiB resident,"
        f" {seen.cpu_s:.1f} s computed;"
        f" p99 by kind {kinds}",
        flush=True,
    )


# The normal ones


async def normal(server: Server, keys: list[str], seconds: float) -> Seen:
    """Lets ten tenants work for so long."""
    assert server.process is not None
    seen, end, begun_s = Seen(), time.monotonic() + seconds, computed_s(server.process.pid)
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=server.url, trust_env=False, timeout=60, limits=limits
    ) as client:
        await asyncio.gather(
            probe(client, server, seen, end),
            asyncio.to_thread(sync, server.data.parent / "page", seen, end),
            *(agent(client, key, seen, end, number) for number, key in enumerate(keys)),
        )
    seen.cpu_s = computed_s(server.process.pid) - begun_s
    return seen


async def agent(client: httpx.AsyncClient, key: str, seen: Seen, end: float, number: int) -> None:
    """Does what agents do, again and again."""
    headers = {"Authorization": f"Bearer {key}", "X-Namespace": "work"}

    async def ask(kind: str, method: str, path: str, body: object = None) -> dict[str, Any]:
        begun = time.monotonic()
        try:
            answer = await client.request(method, path, headers=headers, json=body)
            if not answer.is_success:
                seen.errors[f"{method} {path.partition('?')[0]}: {answer.status_code}"] += 1
                return {}
        except httpx.HTTPError as exc:
            seen.errors[f"{method} {path}: {type(exc).__name__}"] += 1
            return {}
        if kind:
            seen.kinds.setdefault(kind, []).append(time.monotonic() - begun)
        await asyncio.sleep(PAUSE_S)
        return answer.json() if "json" in answer.headers["content-type"] else {}

    await asyncio.sleep(PAUSE_S * number / NORMAL)  # Not all in the same moment.
    talk = {"agent_id": "a", "initial_state": {"step": 0}}
    made = await ask("", "POST", "/v1/sessions", talk)
    session = made.get("id", "")
    step = 0
    while time.monotonic() < end:
        step += 1
        text = f"step {step}\n" * 50
        await ask("write", "POST", "/write", {"path": f"notes-{step % 20}.md", "content": text})
        await ask("read", "GET", f"/files/notes-{step % 20}.md")
        await ask("state", "PATCH", f"/v1/sessions/{session}/state", {"state": {"step": step}})
        await ask("snapshot", "POST", "/v1/snapshots", {"label": f"step {step}"})
        await ask("list", "GET", "/v1/snapshots?limit=20")


async def probe(client: httpx.AsyncClient, server: Server, seen: Seen, end: float) -> None:
    """Asks whether the server lives, and how much memory it takes."""
    assert server.process is not None
    while time.monotonic() < end:
        begun = time.monotonic()
        try:
            (await client.get("/health/live")).raise_for_status()
            seen.probes.append(time.monotonic() - begun)
        except httpx.HTTPError as exc:
            seen.errors[f"/health/live: {type(exc).__name__}"] += 1
        seen.rss_kb = max(seen.rss_kb, resident_kb(server.process.pid))
        await asyncio.sleep(0.2)


def sync(path: Path, seen: Seen, end: float) -> None:
    """Writes a page that is nobody's, again and again."""
    page = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    while time.monotonic() < end:
        os.pwrite(page, os.urandom(4096), 0)
        begun = time.monotonic()
        os.fdatasync(page)
        seen.syncs.append(time.monotonic() - begun)
        time.sleep(0.1)
    os.close(page)


def resident_kb(pid: int) -> int:
    """Returns how much memory a process takes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def computed_s(pid: int) -> float:
    """Returns for how long a process has computed; its workers have pids of their own."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


# The hostile one


WAYS = {
    "half": 4,
    "none": 4,
    "many": 1,
    "back": 2,
    "floats": 2,
    "import": 2,
    "deep": 2,
    "collect": 8,
    "verify": 8,
    "snapshot": 8,
    "listen": 4,
    "begin": 8,
    "head": 1,
}
"""The attacks, and how many of each go on at once."""


def attack(target: Target, seconds: float, only: str) -> None:
    """Does everything at once, or one thing only, for so long."""
    os.nice(LOW)
    asyncio.run(Hostile(target, time.monotonic() + seconds).run(only))


class Hostile:
    """A tenant that means no good."""

    def __init__(self, target: Target, end: float) -> None:
        self._target, self._end = target, end
        self._client = httpx.AsyncClient(
            base_url=target.url,
            trust_env=False,
            timeout=30,
            limits=httpx.Limits(max_connections=None),
        )
        self._answers = Counter[int]()
        self._failures = Counter[str]()
        self._dug = 0

    async def run(self, only: str) -> None:
        """Attacks on all ways at once, or on one; tells how it was answered."""
        async with self._client:
            ways = self.ways(await self.prepare())
            await asyncio.gather(
                *(
                    self.repeat(ways[name])
                    for name, count in WAYS.items()
                    for _ in range(count if only in ("", name) else 0)
                )
            )
        print(f"the hostile one was answered {dict(sorted(self._answers.items()))}", flush=True)
        if self._failures:
            print(f"of these, the server failed in {dict(self._failures)}", flush=True)

    def ways(self, snapshot: str) -> dict[str, Callable[[], Awaitable[object]]]:
        """Returns what it does, by name."""
        many = json.dumps({"paths": [f"*{n}*x" for n in range(36_000)], "dry_run": True}).encode()
        back = json.dumps({"paths": ["*a" * 24 + "b"], "dry_run": True}).encode()
        floats = b'{"path": "x", "content": "", "y": [' + b"0.5," * (8 * MIB) + b"0]}"
        restore = f"/v1/snapshots/{snapshot}/restore"
        compare = partial(self.ask, "GET", "/v1/diff/text")
        return {
            "half": partial(compare, params={"from": "@-1", "to": "latest", "path": "half"}),
            "none": partial(compare, params={"from": "@-1", "to": "latest", "path": "none"}),
            "many": partial(self.ask, "POST", restore, content=many),
            "back": partial(self.ask, "POST", restore, content=back),
            "floats": partial(self.ask, "POST", "/write", content=floats),
            "import": lambda: self.ask("POST", "/v1/import", content=self.drop(400)),
            "deep": self.dig,
            "collect": partial(self.operate, "collect"),
            "verify": partial(self.operate, "verify"),
            "snapshot": partial(self.ask, "POST", "/v1/snapshots", content=b"{}"),
            "listen": self.listen,
            "begin": self.begin_and_stop,
            "head": self.send_an_endless_head,
        }

    async def prepare(self) -> str:
        """Writes what is slow to compare; returns a snapshot."""
        half = ["".join("same\n" if n % 2 else f"{s}{n}\n" for n in range(16_000)) for s in "ab"]
        none = "".join(f"{n * n % 101}\n" for n in range(100_000))
        made = ""
        for text, other in zip(half, (none, none[::-1]), strict=True):
            files = {"half": text, "none": other, "a" * 60: "x"}
            for name, content in files.items():
                body = json.dumps({"path": name, "content": content}).encode()
                await self.ask("POST", "/write", content=body)
            answer = await self.ask("POST", "/v1/snapshots", content=b"{}")
            made = answer.json()["snapshot_id"] if answer else ""
        return made

    async def repeat(self, way: Callable[[], Awaitable[object]]) -> None:
        """Goes one way again and again."""
        while time.monotonic() < self._end:
            begun = time.monotonic()
            with suppress(httpx.HTTPError, OSError):
                async with asyncio.timeout(max(0.1, self._end - begun)):
                    await way()
            await asyncio.sleep(max(0.05, begun + 0.2 - time.monotonic()))

    async def ask(self, method: str, path: str, **more: object) -> httpx.Response | None:
        """Sends a request; waits a moment when it is told that these are too many."""
        headers = {"Authorization": f"Bearer {self._target.key}", "X-Namespace": "work"}
        return await self._send(method, path, headers, **more)

    async def operate(self, what: str) -> None:
        """Lets the server work for a long time."""
        headers = {"Authorization": f"Bearer {self._target.admin_key}"}
        await self._send("POST", f"/v1/workspaces/me/{what}", headers)

    async def _send(
        self, method: str, path: str, headers: dict[str, str], **more: object
    ) -> httpx.Response | None:
        answer = await self._client.request(method, path, headers=headers, **more)  # pyright: ignore[reportArgumentType] - as it takes them
        self._answers[answer.status_code] += 1
        if answer.status_code >= FAILED:
            self._failures[f"{method} {path.partition('?')[0]}: {answer.status_code}"] += 1
        if answer.status_code == TOO_MANY:
            await asyncio.sleep(1)
            return None
        return answer

    async def drop(self, mebibytes: int):  # noqa: ANN201 - pieces
        """Yields more than the quota has room for, without saying how much."""
        for _ in range(mebibytes):
            yield b"\0" * MIB

    async def dig(self) -> None:
        """Writes below thousands of folders, keeps that, and asks for it back."""
        self._dug += 1
        root = f"r{self._dug % 20}/"
        below = [f"{root}{number}{'/d' * 2025}" for number in range(3)]
        content = base64.b64encode(str(self._dug).encode()).decode()
        files = json.dumps({"files": [{"path": path, "content": content} for path in below]})
        if await self.ask("POST", "/v1/files/write_many", content=files.encode()) is None:
            return
        kept = await self.ask("POST", "/v1/snapshots", content=b"{}")
        if kept is not None and kept.is_success:
            back = json.dumps({"paths": [f"{root}*"]}).encode()
            await self.ask(
                "POST", f"/v1/snapshots/{kept.json()['snapshot_id']}/restore", content=back
            )

    async def listen(self) -> None:
        """Begins streams, and reads none."""
        head = "GET /v1/workspaces/me/events/stream HTTP/1.1\r\nHost: x\r\n"
        await self._hold(
            (f"{head}Authorization: Bearer {self._target.admin_key}\r\n\r\n").encode(), 10
        )

    async def begin_and_stop(self) -> None:
        """Says half of a request."""
        await self._hold(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Le", 20)

    async def _hold(self, begun: bytes, times: int) -> None:
        held = list[socket.socket]()
        try:
            for _ in range(times):
                held.append(socket.create_connection(("127.0.0.1", self._target.port), 5))
                held[-1].sendall(begun)
                await asyncio.sleep(0.05)
            await asyncio.sleep(5)
        finally:
            for connection in held:
                connection.close()

    async def send_an_endless_head(self) -> None:
        """Sends a header that does not end."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._target.port)
        with suppress(OSError):
            writer.write(b"GET / HTTP/1.1\r\nX-A: ")
            for _ in range(100):
                writer.write(b"a" * MIB)
                await writer.drain()
        writer.close()


if __name__ == "__main__":
    sys.exit(main())

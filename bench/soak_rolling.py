"""Servers that are replaced one by one under load: nobody is told anything but to come later.

    python bench/soak_rolling.py --rounds 2
    python bench/soak_rolling.py --older /path/to/older/bin/holdfast

Two servers of the older version on one PostgreSQL stand behind the proxy of `deploy/compose`, with
its file. Clients write and read all the time. Meanwhile `holdfast migrate` of the newer version
changes the tables; then each server is stopped and started with the newer version, one by one, and
back. In the end every write that was acknowledged is there. An answer that is neither a success nor
503 with `Retry-After`, and a request that is not answered, is a failure.

Without `--older`, this version is the older one, and the newer one is a copy of it with a migration
more, which says that it stands beside this one: whatever else a next version has is not in it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psycopg

import holdfast
from holdfast.catalog.tables import newest_format
from holdfast.testing.buckets import free_ports
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import API_KEY, COMMAND, Server

CADDYFILE = Path(__file__).parents[1] / "deploy" / "compose" / "Caddyfile"
CADDY = Path(sys.executable).with_name("caddy")
HEADERS = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}
CLIENTS = 4
SETTLES_S = 4.0
"""After a server is back: the proxy looks at it every two seconds."""


class Clients:
    """Writes and reads until it is stopped, and counts the answers."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._guard = threading.Lock()
        self.answers = Counter[str]()
        self.written = list[str]()
        self.slowest_s = 0.0
        self._threads = [
            threading.Thread(target=self._play, args=(number,)) for number in range(CLIENTS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _play(self, client: int) -> None:
        with httpx.Client(base_url=self._url, headers=HEADERS, timeout=60, trust_env=False) as http:
            number = 0
            while not self._stop.is_set():
                name, number = f"c{client}/f{number}.txt", number + 1
                if self._ask(http, "PUT", name, content=name.encode()):
                    with self._guard:
                        self.written.append(name)
                    self._ask(http, "GET", name)
                self._stop.wait(0.01)

    def _ask(self, http: httpx.Client, method: str, name: str, content: bytes = b"") -> bool:
        begun, key = time.monotonic(), {"Idempotency-Key": f"{method}-{name.replace('/', '-')}"}
        try:
            answer = http.request(
                method, f"/files/{name}", content=content, headers=key if content else {}
            )
        except httpx.HTTPError as exc:
            told = f"none: {type(exc).__name__}"
        else:
            is_later = answer.status_code == 503 and "retry-after" in answer.headers
            told = "later" if is_later else str(answer.status_code)
        with self._guard:
            self.answers[f"{method} {told}"] += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        return told.startswith("2")


def start_proxy(folder: Path, servers: list[Server], stack: ExitStack) -> str:
    (port,) = free_ports(1)
    config = folder / "Caddyfile"
    config.write_text(CADDYFILE.read_text().replace(":8080 {", f":{port} {{"))
    places = " ".join(f"127.0.0.1:{server.port}" for server in servers)
    proxy = subprocess.Popen(
        [str(CADDY), "run", "--config", str(config), "--adapter", "caddyfile"],
        env={"HOLDFAST_SERVERS": places, "HOME": str(folder), "XDG_DATA_HOME": str(folder)},
        stderr=(folder / "proxy.log").open("wb"),
    )
    stack.callback(proxy.wait)
    stack.callback(proxy.terminate)
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health/ready", trust_env=False).is_success:
                return url
        time.sleep(0.1)
    raise SystemExit((folder / "proxy.log").read_text())


def make_newer(folder: Path) -> list[str]:
    """Returns the command of a copy of this version that knows one migration more."""
    copy, number = folder / "newer" / "holdfast", newest_format() + 1
    shutil.copytree(
        Path(holdfast.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    more = copy / f"catalog/sql/migrations/{number:04}_more_beside_{number - 1:04}.sql"
    more.write_text("CREATE TABLE more (\n    id INTEGER PRIMARY KEY\n);\n")
    python = [sys.executable, "-P", "-m", "holdfast.cli.main"]
    return ["env", f"PYTHONPATH={copy.parent}", *python]


def find_format(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT max(number) FROM holdfast.migrations").fetchone()
    assert found is not None
    return found[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1, help="there and back so often")
    parser.add_argument("--older", help="the command of another version")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        older: Sequence[str] = [given.older] if given.older else COMMAND
        newer: Sequence[str] = COMMAND if given.older else make_newer(folder)
        database = stack.enter_context(PostgresServer())
        url = database.dsn(database.create_database())
        place = {"HOLDFAST_DATABASE_URL": url, "HOLDFAST_OBJECTS_URL": str(folder / "packs")}
        servers = list[Server]()
        for number in range(2):
            server = Server(
                data=folder / f"data-{number}",
                log=folder / f"server-{number}.log",
                environ={**place, "HOLDFAST_STOP_PAUSE": "5", "HOLDFAST_PROXIES": "127.0.0.1"},
                command=older,
            )
            stack.callback(server.kill)
            servers.append(server.start())
        clients = Clients(start_proxy(folder, servers, stack))
        clients.start()
        stack.callback(clients.stop)
        time.sleep(SETTLES_S)
        before = find_format(url)
        subprocess.run([*newer, "migrate"], env={**os.environ, **place}, check=True)
        print(f"tables of format {before}, then {find_format(url)}", flush=True)
        for turn in range(2 * given.rounds):
            for server in servers:
                began = time.monotonic()
                code = server.stop()
                server.command, word = (older, "older") if turn % 2 else (newer, "newer")
                server.start()
                took_s = time.monotonic() - began
                print(f"{word} in its place after {took_s:.1f} s, exit {code}", flush=True)
                time.sleep(SETTLES_S)
        clients.stop()
        print(dict(sorted(clients.answers.items())), f"slowest {clients.slowest_s:.2f} s")
        with httpx.Client(base_url=servers[0].url, headers=HEADERS, trust_env=False) as http:
            lost = [
                name
                for name in clients.written
                if http.get(f"/files/{name}").content != name.encode()
            ]
        print(f"{len(clients.written)} acknowledged, {len(lost)} lost")
        bad = [
            told for told in clients.answers if not told.endswith(("200", "201", "204", "later"))
        ]
        sys.exit(1 if lost or bad else 0)


if __name__ == "__main__":
    main()

"""What a request costs a server and its database: seconds of the processor, by who takes them.

    make bench ONLY=servers
    python bench/bench_servers.py --seconds 2 --servers 1

Servers on one PostgreSQL that writes to disk, 8 connections behind a balancer, every connection an
agent of its own. What the processor took, of the servers' processes and of PostgreSQL's, is divided
by the requests: however busy the machine is, that stays; how many come in a second does not.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench_http import Ask, cases
from http_load import Asked, run_load

from holdfast.testing.postgres import PostgresServer
from holdfast.testing.proxies import Proxy
from holdfast.testing.servers import API_KEY, Server, cpu_s, running_server

CONNECTIONS = 8
SECONDS = 4.0
DURABLE = {"fsync": "on", "full_page_writes": "on", "autovacuum": "on"}


def all_cases(server: Server) -> Iterator[tuple[str, Ask]]:
    """Yields what is measured: what one server is measured with, and values of the store."""
    yield from cases(server)

    def put(c: int, n: int) -> tuple[str, Asked]:
        value = {"namespace": "bench", "key": f"k{n % 100}", "value": {"step": n}}
        return f"agent-{c}", Asked("PUT", "/v1/store/value", value)

    yield "store put", put
    read = Asked("GET", "/v1/store/value?namespace=bench&key=k0")
    yield "store get", lambda c, _n: (f"agent-{c}", read)


def measure(count: int, seconds: float, folder: Path) -> None:
    """Prints a table of what requests cost so many servers."""
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(settings=DURABLE))
        environ = {
            "HOLDFAST_DATABASE_URL": postgres.dsn(postgres.create_database()),
            "HOLDFAST_OBJECTS_URL": str(folder / "packs"),
        }
        servers = [
            stack.enter_context(running_server(folder / str(number), environ=environ))
            for number in range(count)
        ]
        balancer = stack.enter_context(Proxy(*(each.port for each in servers)))
        print(f"| {count} server{'s' * (count > 1)} | req/s | server CPU | database CPU |")
        print("|---|---|---|---|", flush=True)
        for name, ask in all_cases(servers[0]):
            before = sum(each.cpu_s() for each in servers), cpu_s(postgres.pid, children=True)
            load = run_load(
                f"http://127.0.0.1:{balancer.port}",
                API_KEY,
                ask,
                connections=CONNECTIONS,
                seconds=seconds,
            )
            mine = sum(each.cpu_s() for each in servers) - before[0]
            theirs = cpu_s(postgres.pid, children=True) - before[1]
            own, database = (each / load.requests * 1000 for each in (mine, theirs))
            print(f"| {name} | {load.rate:,.0f} | {own:.2f} ms | {database:.2f} ms |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--seconds", type=float, default=SECONDS)
    options = parser.parse_args()
    for count in options.servers:
        with tempfile.TemporaryDirectory(prefix="hf-bench-") as folder:
            measure(count, options.seconds, Path(folder))


if __name__ == "__main__":
    main()

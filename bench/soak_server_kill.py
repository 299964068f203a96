"""Kills a server under load, 20 times and more on each catalog.

    python bench/soak_server_kill.py                      # 20 rounds on SQLite, 20 on PostgreSQL
    python bench/soak_server_kill.py --rounds 200 --catalog sqlite --seed 7

One vault lives through all rounds of a catalog. In each, agents write files, change states, add
turns, take snapshots and go back, until the server is killed with SIGKILL; then what they were
told is compared with what is there (`tests/acceptance/test_server_kill.py`, which plays 3 rounds
in every test run). It stops at the first thing that is wrong, and leaves the evidence.
"""

import argparse
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from checks import load_checks

from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Server, running_server

CHECKS = "acceptance/test_server_kill.py"


@contextmanager
def started(catalog: str, folder: Path) -> Generator[Server]:
    if catalog == "sqlite":
        with running_server(folder) as server:
            yield server
        return
    with PostgresServer() as postgres:
        environ = {"HOLDFAST_DATABASE_URL": postgres.dsn(postgres.create_database())}
        with running_server(folder, environ=environ) as server:
            yield server


def soak(catalog: str, rounds: int, seed: int, folder: Path) -> None:
    begun = time.perf_counter()
    with started(catalog, folder / catalog) as server:
        played = load_checks(CHECKS).Soak(server, seed)
        for round_ in range(rounds):
            played.play()
            if (round_ + 1) % 10 == 0:
                print(f"{catalog} {round_ + 1:4} kills, {time.perf_counter() - begun:5.0f} s")
    print(
        f"{catalog}: {rounds} kills, {played.acknowledged} changes acknowledged, "
        f"{played.snapshots} snapshots among them, {played.events} events: none lost"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--catalog", choices=["sqlite", "postgres"], action="append")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder otherwise")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="holdfast-soak-"))
    print(f"seed {options.seed}, in {folder}")
    for catalog in options.catalog or ("sqlite", "postgres"):
        soak(catalog, options.rounds, options.seed, folder)


if __name__ == "__main__":
    main()

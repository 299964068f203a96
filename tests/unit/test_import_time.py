"""A client is light: what it loads, and how long that takes.

Loaded modules are compared by name. Time is that of the processor, the best of several tries,
beside what a peer's client needs in the same minute: a slow machine is slow for both.
"""

import os
import resource
import subprocess
import sys

import pytest

TRIES = 5
HEAVY = (
    "anyio",
    "asyncio",
    "holdfast.blobs",
    "holdfast.catalog",
    "holdfast.cli",
    "holdfast.engine",
    "holdfast.mirror",
    "holdfast.packs",
    "holdfast.server",
    "holdfast.tree",
    "holdfast.wiring",
    "holdfast.workspace",
    "httpx",
    "httpx2",
    "psycopg",
    "sqlite3",
    "ssl",
    "uvicorn",
    "zstandard",
)
"""What no program pays for that only names a client."""

NEEDED_TO_SPEAK = {"anyio", "asyncio", "httpx2", "ssl"}
"""What comes with the HTTP library, when the first client is made."""


def loaded_by(code: str) -> set[str]:
    """Returns the modules that a new process has loaded after running some code."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def heavy_ones(modules: set[str]) -> set[str]:
    return {name for name in HEAVY if any(f"{each}.".startswith(f"{name}.") for each in modules)}


@pytest.mark.parametrize("name", ["Client", "AsyncClient", "AdminClient", "AsyncAdminClient"])
def test_naming_a_client_loads_nothing_heavy(name: str) -> None:
    assert heavy_ones(loaded_by(f"from holdfast import {name}")) == set()


def test_importing_the_package_loads_none_of_it() -> None:
    ours = {each for each in loaded_by("import holdfast") if each.startswith("holdfast")}
    assert ours == {"holdfast"}


def test_making_a_client_loads_what_it_speaks_with_and_no_more() -> None:
    made = loaded_by("from holdfast import Client\nClient('key', namespace='alice')")
    assert "httpx2" in made
    assert heavy_ones(made) <= NEEDED_TO_SPEAK


def test_verifying_a_webhook_needs_no_client() -> None:
    loaded = loaded_by("from holdfast import verify_webhook")
    assert heavy_ones(loaded) == set()
    assert not any(each.startswith("holdfast.sdk") for each in loaded)


def test_a_class_that_is_heavy_is_found_out() -> None:
    assert "holdfast.engine" in heavy_ones(loaded_by("from holdfast import Namespace"))


def spent_s() -> float:
    """Returns the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spent_by(code: str) -> float:
    """Returns what a new process needs to run some code."""
    # The first leaves bytecode behind, as an installation does.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = spent_s()
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
    return spent_s() - before


def test_a_client_is_there_before_a_peers() -> None:
    ours, peers = list[float](), list[float]()
    for _ in range(TRIES):
        ours.append(spent_by("from holdfast import Client"))
        peers.append(spent_by("import statebase"))
    assert min(ours) < min(peers), (ours, peers)

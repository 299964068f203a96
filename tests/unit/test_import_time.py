"""A client is light: what it loads, and how long that takes.

Loaded modules are compared by name; time is that of the processor, which a busy machine does not
stretch as it does the clock's, and the best of several tries.
"""

import os
import resource
import subprocess
import sys

import pytest

TRIES = 5
ALLOWED_S = 0.150
"""Of processor time, for a new process to have a client's class in its hands."""

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


@pytest.mark.parametrize("code", ["import holdfast", "from holdfast import Client"])
def test_a_client_is_there_in_no_time(code: str) -> None:
    spent: list[float] = []
    # The first leaves bytecode behind, as an installation does.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(TRIES):
        before = spent_s()
        subprocess.run([sys.executable, "-P", "-c", code], check=True, env=environment)
        spent.append(spent_s() - before)
    assert min(spent) < ALLOWED_S, spent

"""Runs the OpenAI Agents SDK's own tests of sessions against ours.

    make openai-agents
    python bench/openai_agents_tests.py tests/memory/test_session.py -k limit

The SDK's source distribution, of the version that is installed, is downloaded into `build`, and so
is what its tests need beside it. They run as they are, with `SQLiteSession` replaced by a session
of ours in a vault of its own, or in one for each file that a test names. Left out are those that
reach into SQLite itself: its connections, its tables, its locks, its words.
"""

import inspect
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(__file__).resolve().parents[1] / "build" / "openai-agents"
TESTS = ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"]
NEEDED = ["pytest-asyncio", "pytest-mock", "inline-snapshot"]

REACHES_INTO_SQLITE = re.compile(
    r"sqlite3\.|\._connections|\._locked_connection|\._file_lock|_drop_sqlite_table"
    r"|SQLiteSession is closed"
)


def main() -> int:
    version = metadata.version("openai-agents")
    source = BUILD / f"openai_agents-{version}"
    if not source.exists():
        fetch(version)
    chosen = sys.argv[1:] or TESTS
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"),
            *("-p", Path(__file__).stem, "--rootdir", str(source), *chosen),
        ],
        cwd=source,
        env={
            **os.environ,
            "OPENAI_API_KEY": "none",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(BUILD / "needed")]),
        },
        check=False,
    ).returncode


def fetch(version: str) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    own = ["--no-deps", "--no-binary", "openai-agents", f"openai-agents=={version}"]
    subprocess.run([*pip, "download", "--dest", str(BUILD), *own], check=True)
    with tarfile.open(BUILD / f"openai_agents-{version}.tar.gz") as archive:
        archive.extractall(BUILD, filter="data")
    subprocess.run([*pip, "install", "--target", str(BUILD / "needed"), *NEEDED], check=True)


# What pytest loads, in the process that runs the tests.


def pytest_configure() -> None:
    import agents  # noqa: PLC0415 - not of the process that starts this one
    import agents.memory  # noqa: PLC0415 - likewise
    import agents.memory.sqlite_session  # noqa: PLC0415 - likewise

    replaced: Any = replacement()
    for module in (agents, agents.memory, agents.memory.sqlite_session):
        module.SQLiteSession = replaced  # type: ignore[misc]


def replacement() -> type:
    import holdfast  # noqa: PLC0415 - likewise
    from holdfast.integrations.openai_agents import HoldfastSession  # noqa: PLC0415 - likewise

    vaults = dict[str, holdfast.Holdfast]()

    class ReplacedSession(HoldfastSession):
        """A session of ours that is made as one of SQLite's is."""

        def __init__(
            self,
            session_id: str,
            db_path: str | Path = ":memory:",
            **options: Any,  # noqa: ANN401 - as its peer takes them
        ) -> None:
            place = str(db_path)
            if place == ":memory:":
                vault = holdfast.open(tempfile.mkdtemp())
            else:
                vault = vaults.get(place) or holdfast.open(tempfile.mkdtemp())
                vaults[place] = vault
            super().__init__(session_id, vault.namespace("alice"), **options)

        def close(self) -> None:
            """Closes nothing: other sessions of the same file go on."""

    return ReplacedSession


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if REACHES_INTO_SQLITE.search(source_of(item))]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def source_of(item: pytest.Item) -> str:
    return inspect.getsource(item.function) if isinstance(item, pytest.Function) else ""


if __name__ == "__main__":
    sys.exit(main())

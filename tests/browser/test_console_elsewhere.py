"""The console below a prefix, with four workers, on PostgreSQL: one short visit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Begin, Server, running_server

PREFIX = "/holdfast"


@pytest.fixture(scope="module")
def server(home: Path, postgres: PostgresServer, at_once: Begin) -> Iterator[Server]:
    name = postgres.create_database()
    environ = {"HOLDFAST_PREFIX": PREFIX, "HOLDFAST_DATABASE_URL": postgres.dsn(name)}
    with running_server(home, "--workers", "4", environ=environ, begin=at_once) as started:
        yield started
    postgres.drop_database(name)


def test_one_looks_goes_back_and_undoes_below_a_prefix(visit: Any, agent: Any) -> None:
    assert PREFIX in visit.home
    agent.files.write("a.txt", "1\n")
    agent.snapshot("well")
    page = visit.page
    visit.open("n", agent.name, "timeline")
    agent.files.write("a.txt", "2\n")
    agent.snapshot("worse")
    visit.row("worse").wait_for()  # Whichever worker was told of it.
    visit.row("well").click()
    page.get_by_role("button", name="Go back to here").click()
    page.locator(".sums").wait_for()
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").filter(has_text="verified").wait_for()
    assert agent.files.read("a.txt") == b"1\n"
    page.get_by_role("status").get_by_role("button", name="Undo").click()
    page.get_by_role("status").filter(has_text="Undone").wait_for()
    assert agent.files.read("a.txt") == b"2\n"
    for screen in ("files?path=a.txt", "store", "tasks", "sessions"):
        visit.move(f"n/{agent.name}/{screen}")
        page.locator("main h2, main h1").first.wait_for(state="attached")
    assert {each["name"] for each in page.context.cookies()} != set()
    assert all(each["path"] == f"{PREFIX}/" for each in page.context.cookies())

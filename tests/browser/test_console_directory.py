"""`holdfast console` in a real browser: in a directory, and for somebody who has nothing yet."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import environment


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    shop = tmp_path / "shop"
    shop.mkdir(mode=0o700)
    (shop / "orders.csv").write_text("1,10\n")
    return shop


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return environment(home, HOLDFAST_DATA=str(tmp_path / "vault"), XDG_RUNTIME_DIR=str(home))


def init(shop: Path, environ: dict[str, str]) -> None:
    environ = environ | {"PWD": str(shop)}
    subprocess.run([*COMMAND, "init"], cwd=shop, env=environ, check=True, capture_output=True)


@contextmanager
def console(chromium: Any, folder: Path, environ: dict[str, str]) -> Generator[tuple[Any, str]]:
    """Yields a page that is signed in, and the link that it was opened with."""
    with subprocess.Popen(
        [*COMMAND, "--json", "console"],
        cwd=folder,
        env=environ | {"PWD": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            link = process.stdout.readline().partition('"url": "')[2].partition('"')[0]
            page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(link)
            yield page, link
            page.context.close()
        finally:
            os.killpg(process.pid, signal.SIGINT)


def test_the_console_of_a_directory_opens_on_what_is_in_no_snapshot(
    chromium: Any, shop: Path, environ: dict[str, str]
) -> None:
    init(shop, environ)
    (shop / "orders.csv").write_text("1,10\n2,20\n")
    with console(chromium, shop, environ) as (page, link):
        pane = page.get_by_label("Details")
        pane.get_by_role("heading", name="Now", exact=True).wait_for()
        pane.get_by_label("Changes of orders.csv").get_by_text("2,20").wait_for()
        assert page.url.endswith("/console/n/shop/timeline?sel=now")
        # A name of its own: what else is served on the machine is never sent its cookie.
        (cookie,) = page.context.cookies()
        assert cookie["domain"] == link.partition("://")[2].partition(":")[0]
        # What one chooses stays chosen.
        page.get_by_role("option").last.click()
        pane.get_by_role("heading", name="Now", exact=True).wait_for(state="detached")


def test_without_a_vault_the_console_says_how_to_begin_and_shows_what_does(
    chromium: Any, shop: Path, environ: dict[str, str]
) -> None:
    with console(chromium, shop, environ) as (page, _):
        page.get_by_role("heading", name="Nothing here yet").wait_for()
        page.get_by_text("holdfast init", exact=True).wait_for()
        init(shop, environ)
        page.get_by_role("region", name="Namespaces").get_by_role("link", name="shop").wait_for()

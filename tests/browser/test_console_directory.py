"""`holdfast console` in a directory, in a real browser: it opens on what is in no snapshot yet."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import environment


def test_the_console_of_a_directory_opens_on_what_is_in_no_snapshot(
    chromium: Any, tmp_path: Path
) -> None:
    shop, home = tmp_path / "shop", tmp_path / "home"
    for folder in (shop, home):
        folder.mkdir(mode=0o700)
    environ = environment(
        home, HOLDFAST_DATA=str(tmp_path / "vault"), XDG_RUNTIME_DIR=str(home), PWD=str(shop)
    )
    (shop / "orders.csv").write_text("1,10\n")
    subprocess.run([*COMMAND, "init"], cwd=shop, env=environ, check=True, capture_output=True)
    (shop / "orders.csv").write_text("1,10\n2,20\n")
    with subprocess.Popen(
        [*COMMAND, "--json", "console"],
        cwd=shop,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            link = process.stdout.readline().partition('"url": "')[2].partition('"')[0]
            page = chromium.new_context(viewport={"width": 1440, "height": 900}).new_page()
            page.goto(link)
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
            page.context.close()
        finally:
            os.killpg(process.pid, signal.SIGINT)

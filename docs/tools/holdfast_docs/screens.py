"""Takes the pictures of the console: what `holdfast demo --serve` serves, in a real Chromium.

Times in them are of the day on which they are taken, so no test compares them.

    make screens
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import holdfast
from holdfast.story import tell
from holdfast.testing.servers import running_server
from holdfast_docs.blocks import ROOT

FOLDER: Final = ROOT / "docs" / "screens"
NAMESPACE: Final = "shop-backend"


def main() -> int:
    """Writes the timeline and the way back, each in both themes."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only who takes them has it

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        vault = Path(folder, "vault")
        tell(vault)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=("--no-sandbox", "--disable-gpu")
        )
        with running_server(Path(folder)) as server:
            for theme in ("light", "dark"):
                with holdfast.open(vault) as hf:
                    secret = hf.sign_ins.create_link()
                page = browser.new_page(
                    viewport={"width": 1280, "height": 720},
                    color_scheme=theme,
                    reduced_motion="reduce",
                )
                page.goto(f"{server.url}/console/#link={secret}")
                page.get_by_role("button", name="Sign out").wait_for()
                _take(page, f"{server.url}/console/n/{NAMESPACE}/timeline", theme)
        browser.close()
    return 0


def _take(page: Any, timeline: str, theme: str) -> None:
    page.goto(timeline)
    page.get_by_role("listbox").get_by_role("option", name="failed task").first.click()
    page.get_by_label("Changes of", exact=False).first.wait_for()
    page.screenshot(path=FOLDER / f"timeline-{theme}.png")
    page.get_by_role("button", name="Go back before this…").click()
    page.locator(".sums").wait_for()
    page.get_by_label("Changes of", exact=False).first.wait_for()
    page.screenshot(path=FOLDER / f"goback-{theme}.png")


if __name__ == "__main__":
    sys.exit(main())

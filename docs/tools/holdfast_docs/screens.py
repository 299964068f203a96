"""Takes the pictures of the console: what `holdfast demo --serve` serves, in a real Chromium.

Times in them are of the day on which they are taken, so no test compares them.

    make screens
"""

import shutil
import sys
import tempfile
from base64 import b64decode
from pathlib import Path
from typing import Any, Final

import holdfast
from holdfast.story import tell
from holdfast.testing.servers import running_server
from holdfast_docs.blocks import ROOT

FOLDER: Final = ROOT / "docs" / "screens"
NAMESPACE: Final = "shop-backend"
DESK: Final = "support-desk"
QUALITY: Final = 80
"""Of 100: as sharp as the screen to the eye, in a third of its bytes."""


def main() -> int:
    """Writes six screens, from all namespaces to what operators look after, in both themes."""
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
                _take(page, f"{server.url}/console", theme)
        browser.close()
    return 0


def _take(page: Any, console: str, theme: str) -> None:
    browser = page.context.new_cdp_session(page)

    def shoot(name: str) -> None:
        page.mouse.move(0, 0)
        asked = {"format": "webp", "quality": QUALITY}
        told = browser.send("Page.captureScreenshot", asked)["data"]
        (FOLDER / f"{name}-{theme}.webp").write_bytes(b64decode(told))

    page.goto(f"{console}/")
    page.get_by_role("table").get_by_role("link", name=NAMESPACE).wait_for()
    shoot("namespaces")
    page.goto(f"{console}/n/{NAMESPACE}/timeline")
    page.get_by_role("listbox").get_by_role("option", name="failed task").first.click()
    page.get_by_label("Changes of", exact=False).first.wait_for()
    shoot("timeline")
    page.get_by_role("button", name="Go back before this…").click()
    page.locator(".sums").wait_for()
    page.get_by_label("Changes of", exact=False).first.wait_for()
    shoot("goback")
    page.goto(f"{console}/n/{NAMESPACE}/files?path=src/shop/cart.py&show=history")
    page.locator(".steps button").nth(1).click()
    page.get_by_label("Changes of", exact=False).first.wait_for()
    shoot("files")
    page.goto(f"{console}/n/{DESK}/sessions")
    page.get_by_role("link", name="in circles").first.click()
    page.get_by_label("State at version").first.wait_for()
    shoot("session")
    page.goto(f"{console}/operations/health")
    page.locator(".chart svg").first.wait_for()
    shoot("health")


if __name__ == "__main__":
    sys.exit(main())

"""What a person waits for who opens the console, and walks through 100,000 files in it.

    make bench ONLY=console
    python bench/bench_console.py --files 10000 --rounds 3

A real server in a process of its own, and the system's Chromium on the same machine (`apt install
chromium`). A time is the browser's own: from what a person does, and with what a field waits for
more letters, until the first row of the answer is on the page. Medians and the worst, beside what
each may take. Who opens a timeline has nothing of it in the browser yet, and a processor that is
slowed down four times; once without a line between, and once with one of 10 Mbit/s and 40 ms. What
is loaded before, and what 10,000 snapshots and an interaction take, is in
`tests/browser/test_console_budgets.py`.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, StorageState, sync_playwright

import holdfast
from holdfast.testing.servers import running_server

NAMESPACE = "large"
FOLDER = 1_000
"""Files in each of the small folders; half of all files are in one large one."""
BATCH = 5_000

MOMENTS = 300

OPENED_S = 0.2
FOUND_S = 0.5
FIRST_ROW_S = 1.5

SLOWED = 4
LINES: dict[str, dict[str, Any] | None] = {
    "first row": None,
    "over a line": {
        "offline": False,
        "latency": 40,
        "downloadThroughput": 10e6 / 8,
        "uploadThroughput": 10e6 / 8,
    },
}
FIRST_ROW = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("[role=option][id^=row-snap]")) return;
  window.firstRow = performance.now() / 1000;
  observer.disconnect();
}).observe(document, { childList: true, subtree: true });
"""

WAIT = """() => new Promise((done) => {
  const began = performance.now();
  const look = () => {
    if (!document.querySelector(`%(row)s`)) return;
    observer.disconnect();
    done((performance.now() - began) / 1000);
  };
  const observer = new MutationObserver(look);
  observer.observe(document, { childList: true, subtree: true, attributes: true });
  %(act)s;
})"""


def fill(vault: Path, files: int) -> None:
    """Makes a namespace with so many files."""
    half = files // 2
    names = [f"folder-{n // FOLDER:03}/{n % FOLDER:04}.txt" for n in range(half)]
    names += [f"all/{n:06}.txt" for n in range(files - half)]
    with holdfast.open(vault) as hf:
        agent = hf.namespace(NAMESPACE)
        for start in range(0, len(names), BATCH):
            agent.files.write_many((name, name) for name in names[start : start + BATCH])
        agent.snapshot("all of them")
        busy = hf.namespace("busy")
        for number in range(MOMENTS):
            busy.files.write(f"{number % 20}.txt", str(number))
            busy.snapshot(f"moment {number}")


def open_folder(page: Page, turn: int) -> float:
    folder = "all" if turn % 2 else f"folder-{turn:03}"
    link = f".links a[href$='path={folder}%2F']"
    page.locator(link).wait_for()
    # By where it leads: what was listed before stands there for a moment more.
    row = f"[aria-label='Files in {folder}'] a[href*='path={folder}%2F0']"
    return page.evaluate(WAIT % {"act": f"document.querySelector(`{link}`).click()", "row": row})


def find_file(page: Page, turn: int) -> float:
    page.locator(".links a").first.wait_for()
    text = f"{turn * 37:06}"
    act = f"""const box = document.querySelector(".walk-head input");
      box.value = "{text}";
      box.dispatchEvent(new InputEvent("input", {{ bubbles: true }}))"""
    row = f"[aria-label='Files that were found'] a[href*='all%2F{text}.txt']"
    return page.evaluate(WAIT % {"act": act, "row": row})


def see_first_row(
    browser: Browser, home: str, signed_in: StorageState, line: dict[str, Any] | None
) -> float:
    """Opens a timeline as whoever is signed in and was never there."""
    context = browser.new_context(storage_state=signed_in)
    page = context.new_page()
    page.add_init_script(FIRST_ROW)
    wire = context.new_cdp_session(page)
    wire.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
    if line is not None:
        wire.send("Network.enable")
        wire.send("Network.emulateNetworkConditions", line)
    page.goto(f"{home}/n/busy/timeline")
    page.locator("[role=option][id^=row-snap]").first.wait_for(state="attached")
    took = page.evaluate("window.firstRow")
    context.close()
    return took


CASES: dict[str, tuple[Callable[[Page, int], float], float]] = {
    "open a folder": (open_folder, OPENED_S),
    "find by name": (find_file, FOUND_S),
}


def measure(home: str, link: str, rounds: int) -> dict[str, list[float]]:
    """Returns the seconds that each case took, round by round."""
    taken: dict[str, list[float]] = {name: [] for name in (*CASES, *LINES)}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=("--no-sandbox", "--disable-gpu")
        )
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{home}/#link={link}")
        page.get_by_role("button", name="Sign out").wait_for()
        for turn in range(rounds + 1):
            for name, (case, _) in CASES.items():
                page.goto(f"{home}/n/{NAMESPACE}/files")
                taken[name].append(case(page, turn))
        signed_in = page.context.storage_state()
        for _ in range(rounds + 1):
            for name, line in LINES.items():
                taken[name].append(see_first_row(browser, home, signed_in, line))
        browser.close()
    # The first of each loads what is compiled once.
    return {name: seconds[1:] for name, seconds in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    if shutil.which("chromium") is None:
        print("there is no Chromium: apt install chromium")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder, "vault")
        fill(vault, given.files)
        with running_server(Path(folder)) as server:
            with holdfast.open(vault) as hf:
                link = hf.sign_ins.create_link()
            taken = measure(f"{server.url}/console", link, given.rounds)
    late = False
    print(f"{given.files:,} files: median, worst, limit")
    for name, seconds in taken.items():
        limit = CASES[name][1] if name in CASES else FIRST_ROW_S
        middle, worst = statistics.median(seconds), max(seconds)
        late = late or middle > limit
        print(f"  {name:14} {middle * 1000:6.0f} ms {worst * 1000:6.0f} ms {limit * 1000:6.0f} ms")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())

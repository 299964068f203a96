"""What tests of the console stand on: a real server, and a real Chromium that looks at it.

The Chromium is the system's (`apt install chromium`); where there is none, these tests are skipped
and say so. Every page is watched: whatever the policy of the page had to stop, whatever asked for
something of another host, every dialog and every error is a failure of the test that met it.
"""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import Begin, Server, running_server

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 20_000
"""What a page may take on a busy machine."""

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}

AXE = Path(__file__).with_name("vendor") / "axe.min.js"

WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The system's Chromium, for the tests of one module: its loop must not outlive them."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no Chromium: apt install chromium")
    api = pytest.importorskip("playwright.sync_api")
    api.expect.set_options(timeout=PATIENCE_MS)
    playwright = api.sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
    yield browser
    browser.close()
    playwright.stop()


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as started:
        yield started


@dataclass
class Visit:
    """A person at the console: a page, and all that went wrong on it."""

    page: Any
    server: Server
    problems: list[str] = field(default_factory=list)
    tabs: list["Visit"] = field(default_factory=list["Visit"])

    @property
    def home(self) -> str:
        return f"{self.server.url}/console/"

    def open(self, *parts: str) -> None:
        """Opens a screen of the console, and returns once it shows what it has asked for."""
        self.page.goto(self.home + "/".join(parts))
        self.page.locator(".app, .signin").wait_for()
        self.page.locator(".waiting").first.wait_for(state="detached")

    def move(self, path: str) -> None:
        """Goes to another screen as a link does: without loading the page again."""
        self.page.evaluate(
            "to => (history.pushState(null, '', to), dispatchEvent(new PopStateEvent('popstate')))",
            self.home + path,
        )
        self.page.locator(".waiting").first.wait_for(state="detached")

    def row(self, text: str) -> Any:
        rows = self.page.get_by_role("listbox").get_by_role("option")
        return rows.filter(has_text=text).first

    def violations(self) -> list[str]:
        """Returns what axe finds wrong with the page, with the first place of each."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]

    def tab(self) -> "Visit":
        """Opens another tab of the same browser."""
        self.tabs.append(_watched(self.page.context.new_page(), self.server))
        return self.tabs[-1]

    def check(self) -> None:
        """Fails if anything went wrong that nobody expected."""
        for each in (self, *self.tabs):
            assert each.problems == []
            assert each.page.evaluate("window.violations") == []


def _watched(page: Any, server: Server) -> Visit:
    visit = Visit(page, server)
    page.set_default_timeout(PATIENCE_MS)

    def asked(request: Any) -> None:
        if not request.url.startswith((server.url, "blob:")):
            visit.problems.append(f"asked for {request.url}")

    def said(message: Any) -> None:
        # A browser logs every answer that is no success; which those are, tests say themselves.
        if message.type == "error" and "Failed to load resource" not in message.text:
            visit.problems.append(message.text)

    page.on("request", asked)
    page.on("console", said)
    page.on("pageerror", lambda error: visit.problems.append(str(error)))
    page.on("dialog", lambda dialog: visit.problems.append(dialog.message) or dialog.dismiss())
    page.add_init_script(WATCH)
    return visit


def sign_in(page: Any, home: str, key: str) -> None:
    """Signs in as a person does."""
    page.goto(home)
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Namespaces").wait_for()


@pytest.fixture(scope="module")
def signed_in(chromium: Any, server: Server) -> Any:
    """The cookie of somebody who has signed in with both keys: one try for all tests."""
    context = chromium.new_context()
    page = context.new_page()
    home = f"{server.url}/console/"
    sign_in(page, home, server.api_key)
    page.goto(f"{home}?key=add")
    page.get_by_label("API key").fill(server.admin_key)
    page.get_by_role("button", name="Add").click()
    page.get_by_label("API key").wait_for(state="detached")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def visits(chromium: Any, server: Server) -> Iterator[Callable[..., Visit]]:
    """Opens a page of its own for each call; whatever went wrong on one fails the test."""
    opened: list[tuple[Any, Visit]] = []

    def visit(**options: Any) -> Visit:
        context = chromium.new_context(**{"viewport": WIDE, "reduced_motion": "reduce", **options})
        made = _watched(context.new_page(), server)
        opened.append((context, made))
        return made

    yield visit
    for context, made in opened:
        made.check()
        context.close()


@pytest.fixture
def visit(visits: Callable[..., Visit], signed_in: Any) -> Visit:
    """Somebody who is signed in."""
    return visits(storage_state=signed_in)


@pytest.fixture(scope="session")
def lengthen() -> Callable[[Any, int], list[int]]:
    """Makes a timeline as long as one likes, of its newest row; returns what is asked for."""

    def answer_all(page: Any, rows: int) -> list[int]:
        template: dict[str, Any] = {}
        asked: list[int] = []

        def answer(route: Any) -> None:
            if not template:
                template.update(route.fetch().json())
            query = dict(re.findall(r"(\w+)=(\d+)", route.request.url))
            newest = int(query.get("before", rows + 1)) - 1
            asked.append(newest)
            listed = [
                {
                    **template["snapshots"][0],
                    "snapshot_id": f"snap-{n:016}",
                    "number": n,
                    "label": f"moment {n}",
                    "parent": f"snap-{n - 1:016}" if n > 1 else None,
                }
                for n in range(newest, max(0, newest - int(query["limit"])), -1)
            ]
            more = bool(listed) and listed[-1]["number"] > 1
            route.fulfill(json={**template, "snapshots": listed, "has_more": more, "total": rows})

        page.route("**/v1/timeline?*", answer)
        return asked

    return answer_all


@pytest.fixture(scope="session")
def failing() -> Callable[..., Any]:
    """Makes a task in which is done what the block does, and which then fails."""

    @contextmanager
    def task(agent: Any, name: str, why: str = "31 of 44 tests failed", **how: Any) -> Any:
        with suppress(RuntimeError), agent.task(name, **how):
            yield
            raise RuntimeError(why)

    return task


@pytest.fixture
def agent(server: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    """An agent at work in a namespace of the test's own."""
    name = re.sub(r"\W+", "-", request.node.name.removeprefix("test_"))[-50:]
    with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
        yield client

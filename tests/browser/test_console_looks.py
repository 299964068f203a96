"""How the console looks to everybody, on every screen, in both themes, wide and narrow."""

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import Server

MOST_ELEMENTS = 3_000
WIDTHS = {"wide": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
NARROWEST = 320

NAMESPACE = "shop"

SCROLLERS = """[...document.querySelectorAll("main, main *")]
    .filter((each) => /auto|scroll/.test(getComputedStyle(each).overflowY))
    .map((each) => each.checkVisibility() && each.scrollHeight > each.clientHeight + 1)
    .filter((scrolls) => scrolls)"""
"""One True for each box that can be scrolled up and down."""


@pytest.fixture(scope="module")
def shop(server: Server, failing: Callable[..., Any]) -> dict[str, str]:
    """A story in which something of every kind happened: where each screen is."""
    with holdfast.Client(server.api_key, url=server.url, namespace=NAMESPACE) as agent:
        agent.files.write("src/cart.py", "".join(f"total = {n}\n" for n in range(40)))
        agent.files.write_many([(f"data/{n}.csv", b"1\n") for n in range(20)])
        agent.store.set("state", "plan", {"step": 1})
        agent.sessions.create("writer", initial_state={"step": 1})
        first = agent.snapshot("before the release", pin=True)
        with failing(agent, "Clean up"):
            agent.files.delete("data", recursive=True)
            agent.files.write("src/cart.py", "total = '\u202eevil'\n")
            agent.files.write(".git/hooks/pre-commit", "#!/bin/sh\n")
            agent.files.write_many([(f"pages/{n}/new.md", b"1\n") for n in range(30)])
            agent.store.set("state", "plan", {"step": 2})
        failed = agent.timeline(limit=1)[0]
        agent.files.write("notes.md", "more\n")
        agent.undo()
        agent.files.write("notes.md", "more\n")
    place = f"n/{NAMESPACE}"
    return {
        "namespaces": "",
        "timeline": f"{place}/timeline?sel={failed.id}",
        "now": f"{place}/timeline?sel=now",
        "snapshot": f"{place}/snapshot/{failed.id}",
        "compare": f"{place}/compare/{first.id}...{failed.id}",
        "go back": f"{place}/goback/{first.id}?before={failed.id}",
        "nowhere": "no/such/page",
    }


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [*WIDTHS])
def test_every_screen_is_for_everybody(
    visits: Callable[..., Any], signed_in: Any, shop: dict[str, str], theme: str, width: str
) -> None:
    options = {"viewport": WIDTHS[width], "color_scheme": theme}
    outside = visits(**options)
    outside.open()
    outside.page.get_by_label("API key").wait_for()
    found = {"sign in": outside.violations()}
    visit = visits(storage_state=signed_in, **options)
    visit.open()
    for screen, path in shop.items():
        visit.move(path)
        found[screen] = visit.violations()
        assert visit.page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
        if width == "phone" and screen in ("compare", "go back"):
            assert_one_thing_scrolls(visit.page)
    visit.move(shop["now"])
    visit.page.keyboard.press("u")
    visit.page.get_by_role("dialog", name="Undo").get_by_label("What will change").wait_for()
    found["undo"] = visit.violations()
    visit.page.keyboard.press("Escape")
    if width == "phone":
        visit.page.get_by_role("button", name="Menu").click()
        visit.page.get_by_role("button", name="Keys").click()
    else:
        visit.page.keyboard.press("?")
    visit.page.get_by_role("dialog", name="Keys").locator("kbd").first.wait_for()
    found["keys"] = visit.violations()
    assert {screen: each for screen, each in found.items() if each} == {}


def assert_one_thing_scrolls(page: Any) -> None:
    """Looks at a page with a list, and at a change of it, whose closing leads back to its place."""
    assert page.evaluate(SCROLLERS) == [True]
    # The last of a long list is drawn when the page was scrolled to it.
    page.locator(".compare, .goback").evaluate("(page) => page.scrollTo(0, page.scrollHeight)")
    change = page.get_by_role("button", name="cart.py")
    change.wait_for()
    before = change.bounding_box()
    change.click()
    page.get_by_role("region", name="The change").get_by_text(
        "total = 3", exact=True
    ).first.wait_for()
    assert page.evaluate(SCROLLERS) == [True]
    page.get_by_role("button", name="Close").click()
    assert change.bounding_box() == before


def test_nothing_is_cut_off_at_the_narrowest(
    visits: Callable[..., Any], signed_in: Any, shop: dict[str, str]
) -> None:
    narrow = visits(storage_state=signed_in, viewport={"width": NARROWEST, "height": 640})
    narrow.open()
    for screen, path in shop.items():
        narrow.move(path)
        assert narrow.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen

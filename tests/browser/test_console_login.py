"""Who is let in, and how far: programs, by a person who sees who asks; people, by their keys."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.testing.servers import Server

SAID_S = 15
"""Within which a page says that its key is no longer valid."""

HOSTILE = "<img src=x onerror=alert(1)> \u202egnp.exe " + "w" * 300


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=60) as client:
        yield client


def start(http: httpx.Client, client: str = "a laptop") -> dict[str, Any]:
    return http.post("/v1/auth/device/start", json={"client": client}).raise_for_status().json()


def poll(http: httpx.Client, begun: dict[str, Any]) -> dict[str, Any]:
    asked = {"device_code": begun["device_code"]}
    return http.post("/v1/auth/device/poll", json=asked).raise_for_status().json()


def test_a_person_sees_who_asks_and_chooses_what_for(server: Server, http: Any, visit: Any) -> None:
    begun, page = start(http, HOSTILE), visit.page
    page.goto(begun["verification_uri_complete"])
    page.get_by_text(begun["user_code"]).wait_for()
    # The code is in no address that anybody reads over a shoulder, or in a history.
    assert page.url == f"{server.url}/console/device"
    assert "<img src=x" in page.locator(".facts-list").inner_text()
    assert "127.0.0.1" in page.locator(".facts-list").inner_text()
    # It says no namespace, also where there is but one, whose name is there already.
    page.get_by_label("Namespace", exact=True).fill("")
    page.locator("button[aria-disabled=true]", has_text="Approve").wait_for()
    # By keyboard alone.
    page.get_by_label("An agent that only adds").focus()
    page.keyboard.press("Space")
    page.get_by_label("Namespace", exact=True).focus()
    page.keyboard.type("alice")
    page.get_by_label("Name of the key").fill("my laptop")
    page.get_by_label("Good for").select_option("1 day")
    page.get_by_label("Name of the key").press("Enter")
    page.get_by_text("Approved.").wait_for()
    told = poll(http, begun)
    assert (told["status"], told["namespace"]) == ("approved", "alice")
    with holdfast.AdminClient(server.admin_key, url=server.url) as boss:
        (key,) = [each for each in boss.keys.list() if each.name == "my laptop"]
    assert (key.scope.value, key.namespace) == ("add-only", "alice")
    assert key.expires_at is not None


def test_a_code_is_typed_refused_and_over(http: Any, visit: Any) -> None:
    begun, page = start(http), visit.page
    visit.open("device")
    field = page.get_by_label("Code")
    field.fill("AAAA-AAAA")
    field.press("Enter")
    page.get_by_text("No program that waits shows this code").wait_for()
    field.fill(begun["user_code"].lower().replace("-", " "))
    field.press("Enter")
    page.get_by_role("button", name="Refuse").click()
    page.get_by_text("Refused.").wait_for()
    assert poll(http, begun)["status"] == "denied"
    page.get_by_role("button", name="Another code").click()
    field.fill(begun["user_code"])
    field.press("Enter")
    page.get_by_text("No program that waits shows this code").wait_for()


def test_a_second_link_in_an_open_tab_is_what_is_decided_on(http: Any, visit: Any) -> None:
    first, second, page = start(http, "the first"), start(http, "the second"), visit.page
    page.goto(first["verification_uri_complete"])
    page.get_by_text(first["user_code"]).wait_for()
    page.goto(second["verification_uri_complete"])  # The same page: nothing is loaded anew.
    page.get_by_text(second["user_code"]).wait_for()
    assert "the second" in page.locator(".facts-list").inner_text()
    assert "#" not in page.url
    page.get_by_role("button", name="Refuse").click()
    page.get_by_text("Refused.").wait_for()
    page.goto(first["verification_uri_complete"])
    page.get_by_text(first["user_code"]).wait_for()
    assert [poll(http, each)["status"] for each in (first, second)] == ["pending", "denied"]


def test_it_takes_an_operators_key_which_can_be_added_there(
    server: Server, http: Any, visits: Callable[..., Any]
) -> None:
    begun, visit = start(http), visits()
    page = visit.page
    page.goto(begun["verification_uri_complete"])
    page.get_by_label("API key").fill(server.api_key)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("makes a key for it, which takes an operator").wait_for()
    page.get_by_label("API key").fill(server.admin_key)
    page.get_by_role("button", name="Add").click()
    page.get_by_text(begun["user_code"]).wait_for()
    page.get_by_role("button", name="Refuse").click()
    page.get_by_text("Refused.").wait_for()


def test_the_page_is_for_everybody(http: Any, visits: Callable[..., Any], signed_in: Any) -> None:
    begun, found = start(http, HOSTILE), {}
    for theme in ("dark", "light"):
        for width in (1440, 390, 320):
            size = {"width": width, "height": 844}
            visit = visits(storage_state=signed_in, viewport=size, color_scheme=theme)
            visit.open("device")
            found[theme, width, "code"] = visit.violations()
            visit.page.get_by_label("Code").fill(begun["user_code"])
            visit.page.get_by_label("Code").press("Enter")
            visit.page.get_by_text(begun["user_code"]).wait_for()
            found[theme, width, "decide"] = visit.violations()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
    assert {where: each for where, each in found.items() if each} == {}


# People


def come_in(visit: Any, key: str, *place: str) -> None:
    visit.open(*place)
    visit.page.get_by_label("API key").fill(key)
    visit.page.get_by_role("button", name="Sign in").click()


def test_a_key_that_is_revoked_elsewhere_ends_the_page_that_stands_on_it(
    server: Server, visits: Callable[..., Any]
) -> None:
    visit = visits()
    with holdfast.AdminClient(server.admin_key, url=server.url) as boss:
        made = boss.create_key("brief", namespace="alice")
        come_in(visit, made.api_key, "n", "alice", "timeline")
        visit.page.get_by_role("status").filter(has_text="Live").first.wait_for()
        began = time.monotonic()
        boss.revoke_key(made.id)
        visit.page.get_by_text("You were signed out: the key is no longer valid").wait_for()
    assert time.monotonic() - began < SAID_S


def test_each_key_shows_what_it_opens_and_says_what_it_does_not(
    server: Server, visits: Callable[..., Any], visit: Any
) -> None:
    for name in ("alice", "bob"):
        with holdfast.Client(server.api_key, url=server.url, namespace=name) as agent:
            agent.snapshot(f"of {name}")
    with holdfast.AdminClient(server.admin_key, url=server.url) as boss:
        locked = boss.create_key("locked", namespace="alice", add_only=True).api_key
    # One that is for a namespace: that, and nothing else.
    one = visits()
    come_in(one, locked)
    one.row("of alice").wait_for()
    one.page.keyboard.press("p")
    one.row("of alice").locator(".pinned").wait_for()
    one.page.keyboard.press("p")
    one.page.get_by_role("alert").filter(has_text="Not unpinned").wait_for()
    rail = one.page.get_by_role("navigation", name="Namespaces")
    assert "bob" not in rail.inner_text()
    one.move("n/bob/timeline")
    one.page.get_by_role("heading", name="This key is for another namespace").wait_for()
    one.page.keyboard.press("s")
    assert one.page.get_by_role("button", name="Keep this moment").count() == 0
    assert one.page.get_by_role("dialog").count() == 0
    one.move("operations/keys")
    one.page.get_by_role("heading", name="This is for operators").wait_for()
    # An operator's: all namespaces in numbers, and none of them from inside.
    boss_visit = visits()
    come_in(boss_visit, server.admin_key)
    boss_visit.page.get_by_role("link", name="bob").first.wait_for()
    boss_visit.move("n/bob/timeline")
    boss_visit.page.get_by_role("heading", name="key does not open a namespace").wait_for()
    # Both: all of it.
    visit.open("n", "bob", "timeline")
    visit.row("of bob").wait_for()
    visit.move("operations/keys")
    visit.page.get_by_role("row").filter(has_text="locked").first.wait_for()


ELSEWHERE = "http://127.0.0.1:9"
"""Another port of the same host, for which a browser has the same cookies."""

EVIL = "<script>document.title = 'ran'</script>"
ATTACK = """
<form action="{url}/v1/workspaces/me/keys" method="post" enctype="text/plain" target="one">
<input name='{{"name": "' value='", "admin": true}}'></form>
<iframe name="one"></iframe><iframe name="two" src="{url}/console/n/attacked/timeline"></iframe>
<script>
document.forms[0].submit();
const ask = (path, how) => fetch("{url}" + path, {{ credentials: "include", ...how }})
  .then((answer) => answer.text()).catch(() => "refused");
const headers = {{ "X-Namespace": "attacked", "X-Holdfast-Console": "1" }};
Promise.all([
  ask("/v1/timeline?in=attacked"),
  ask("/v1/timeline?in=attacked", {{ mode: "no-cors" }}),
  ask("/v1/undo", {{ method: "POST", mode: "no-cors", body: "{{}}" }}),
  ask("/v1/undo", {{ method: "POST", headers, body: "{{}}" }}),
  ask("/console/session?everywhere=true", {{ method: "DELETE", headers }}),
]).then((said) => (window.said = said));
</script>
"""


def test_another_page_gets_nothing_by_ones_cookie(
    server: Server, chromium: Any, signed_in: Any, visit: Any
) -> None:
    with holdfast.Client(server.api_key, url=server.url, namespace="attacked") as agent:
        agent.files.write("evil.html", EVIL)
        agent.snapshot("secret")
    context = chromium.new_context(storage_state=signed_in)
    page = context.new_page()
    evil = ATTACK.format(url=server.url)
    page.route(f"{ELSEWHERE}/*", lambda route: route.fulfill(body=evil, content_type="text/html"))
    with page.expect_event("framenavigated", lambda frame: frame.name == "one"):
        page.goto(f"{ELSEWHERE}/")
    page.wait_for_function("window.said")
    assert "secret" not in str(page.evaluate("window.said"))
    assert [frame.url for frame in page.frames if "/console/" in frame.url] == []
    context.close()
    visit.open("n", "attacked", "timeline")
    visit.row("secret").wait_for()
    # What an agent has stored is no page of ours: opened by its address, it is handed over.
    stored = f"{server.url}/v1/files/raw?path=workspace/evil.html&in=attacked"
    with visit.page.expect_download() as got:
        visit.page.evaluate("to => { location = to }", stored)
    assert got.value.path().read_text() == EVIL
    assert visit.page.title() != "ran"
    # Nor was anything done: nobody was signed out, nothing undone, and no key made.
    with holdfast.AdminClient(server.admin_key, url=server.url) as boss:
        assert "=" not in "".join(each.name for each in boss.keys.list())

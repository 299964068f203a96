"""Signing a program in, by a person in a browser who sees who asks for what."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.testing.servers import Server

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
    button = page.get_by_role("button", name="Approve")
    assert button.get_attribute("aria-disabled") == "true"  # It says no namespace yet.
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

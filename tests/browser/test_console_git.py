"""A person sees to the copy of a namespace in git: sets it up, pushes, hears what went wrong."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.servers import Begin, Server, running_server
from holdfast.testing.sshd import MISSING, PROGRAM, Sshd

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=MISSING)

KEY = "a key of more than thirty-two characters"
WIDTHS = (1440, 390, 320)


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect  # noqa: PLC0415 - where there is no Chromium, neither is this

    return expect(locator)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    """A server that may push to this machine."""
    environ = {"HOLDFAST_SECRETS_KEY": KEY, "HOLDFAST_ALLOW_PRIVATE_REMOTES": "1"}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    with Sshd(tmp_path / "sshd") as started:
        yield started


def test_a_copy_is_set_up_pushed_and_says_what_went_wrong(
    visit: Any, agent: Any, sshd: Sshd, tmp_path: Path
) -> None:
    bare = tmp_path / "theirs.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(bare)], check=True)
    agent.files.write("a.txt", "1")
    agent.files.write(".env", "TOKEN=1")
    agent.snapshot("first")
    page = visit.page
    visit.open("operations", f"git?in={agent.name}")
    page.get_by_role("button", name="Set it up…").click()
    asked = page.get_by_role("dialog", name="Where the copy is")
    asked.get_by_label("Address of the repository").fill(sshd.url(bare))
    asked.get_by_role("button", name="Set it up").click()
    # What the host is given, and which key of its own is the right one.
    key = page.locator("dd").filter(has_text="ssh-ed25519").locator(".name")
    sshd.admit(str(key.get_attribute("title")))
    page.get_by_role("button", name="Look which keys it shows…").click()
    host = page.get_by_role("dialog", name="Which keys the host shows")
    host.get_by_role("radio", name="ssh-ed25519").check()
    host.get_by_role("button", name="It is this one").click()
    expect(page.get_by_text("Nobody has said yet")).to_have_count(0)
    page.get_by_role("button", name="Push now").click()
    standing = page.locator(".number .chip")
    expect(standing).to_have_text("up to date")
    expect(page.locator(".number").first).to_contain_text("#1")
    expect(page.get_by_text("1 file stays here, by the rules below.")).to_be_visible()
    told = subprocess.run(
        ["git", "-C", str(bare), "ls-tree", "-r", "--name-only", "main"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert told.stdout.split() == [".holdfast/withheld.json", "a.txt"]
    page.get_by_role("button", name="Pause").click()
    expect(standing).to_have_text("paused")
    assert agent.git.get().paused
    page.get_by_role("button", name="Go on").click()
    expect(standing).to_have_text("up to date")
    sshd.stop()
    agent.files.write("a.txt", "2")
    agent.snapshot("second")
    page.get_by_role("button", name="Push now").click()
    expect(page.get_by_role("alert")).to_contain_text("The last push failed.")
    expect(page.locator(".number").nth(1)).to_have_text(re.compile(r"1\s*snapshot to go"))
    page.get_by_role("button", name="Change…").click()
    asked.get_by_label("Push when a task has ended").uncheck()
    asked.get_by_label("Push every so many minutes").fill("90")
    asked.get_by_role("button", name="Save").click()
    expect(page.get_by_text("every 90 minutes if something is new")).to_be_visible()
    assert (agent.git.get().on_tasks, agent.git.get().every_s) == (False, 5400)
    page.get_by_role("button", name="Forget where the copy is").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.get_by_text("No copy yet")).to_be_visible()


def test_the_page_is_for_everybody(
    visits: Callable[..., Any], signed_in: Any, agent: Any, server: Server
) -> None:
    odd = "<img src=x onerror=alert(1)>"
    agent.snapshot("first")
    agent.git.configure("git@host.invalid:me/copy.git", patterns=[odd, "W" * 200])
    found = {}
    for theme in ("dark", "light"):
        visit = visits(storage_state=signed_in, color_scheme=theme)
        visit.open("operations", f"git?in={agent.name}")
        visit.page.get_by_text(odd).wait_for()
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 844})
            found[theme, width] = visit.violations()
            assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), width
        visit.page.get_by_role("button", name="Change…").click()
        visit.page.get_by_role("dialog").wait_for()
        found[theme, "set"] = visit.violations()
    assert {where: each for where, each in found.items() if each} == {}
    # An agent's key alone opens it, too, from the namespace that it is in.
    alone = visits()
    alone.open("n", agent.name, "timeline")
    alone.page.get_by_label("API key").fill(server.api_key)
    alone.page.get_by_role("button", name="Sign in").click()
    alone.page.get_by_role("link", name="Git copy").click()
    alone.page.get_by_text(odd).wait_for()

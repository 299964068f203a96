"""A person at the console looks after sessions, and after the server: each thing once, for real."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing import receivers
from holdfast.testing.servers import Begin, Server, running_server

WIDTHS = {"wide": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
NARROWEST = 320
MOST_ELEMENTS = 3_000
MANY = 30_000

HOSTILE = '"><img src=x onerror=alert(1)>\u202e<script>alert(1)</script>\n${alert(1)}' + "W" * 300


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect  # noqa: PLC0415 - where there is no Chromium, neither is this

    return expect(locator)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    """A server that may tell somebody on this machine."""
    with running_server(
        home, environ={"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}, begin=at_once
    ) as started:
        yield started


@pytest.fixture
def operator(server: Server) -> Iterator[Any]:
    with holdfast.AdminClient(server.admin_key, url=server.url) as admin:
        yield admin


def make_session(agent: Any) -> str:
    """Makes a session that changed its mind, and then said something that no version shows."""
    session = agent.sessions.create("desk", user_id="mira", initial_state={"step": "asking"})
    agent.sessions.add_turn(session.id, "Where is it?", "On its way.", state_after={"step": "told"})
    agent.sessions.update_state(session.id, {"refund": 500}, reasoning="They wrote in capitals.")
    agent.sessions.add_turn(session.id, "And my money?", "All of it, twice.")
    return session.id


def said(agent: Any, session_id: str) -> list[Any]:
    return [turn.input["content"] for turn in agent.sessions.list_turns(session_id, order="asc")]


# Sessions


@pytest.mark.parametrize("with_turns", [False, True])
def test_a_session_goes_back_and_its_undo_brings_back_what_no_version_shows(
    visit: Any, agent: Any, with_turns: bool
) -> None:
    session = make_session(agent)
    page = visit.page
    visit.open("n", agent.name, "sessions")
    page.get_by_role("link", name=session).click()
    versions = page.get_by_role("region", name="Versions")
    expect(versions.get_by_text("They wrote in capitals.")).to_be_visible()
    # Who it was, by what their key is called.
    expect(versions.get_by_text("key-")).to_have_count(0)
    versions.get_by_role("link", name="Version 1").click()
    expect(page.get_by_role("heading", name="State at version 1")).to_be_visible()
    expect(page.get_by_text("said after version 1")).to_be_visible()
    page.keyboard.press("r")
    asked = page.get_by_role("dialog", name="Roll back to version 1")
    expect(asked.get_by_text("refund")).to_be_visible()
    expect(asked.locator("del")).to_have_text("500")
    if with_turns:
        asked.get_by_role("checkbox").check()
    asked.get_by_label("Why?").fill("too dear")
    asked.get_by_role("button", name="Roll back").click()
    undo = page.get_by_role("status").get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    expect(versions.get_by_text("taken back")).to_be_visible()
    expect(versions.get_by_text("too dear")).to_be_visible()
    before = ["Where is it?", "And my money?"]
    assert agent.sessions.get(session).state == {"step": "told"}
    assert said(agent, session) == (before[:1] if with_turns else before)
    taken = page.get_by_text("1 turn taken back by version 3")
    expect(taken).to_have_count(int(with_turns))
    if with_turns:
        taken.click()
        expect(page.locator("del.said-text")).to_have_text(["And my money?", "All of it, twice."])
    undo.click()
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert agent.sessions.get(session).state == {"step": "told", "refund": 500}
    assert said(agent, session) == before
    expect(taken).to_have_count(0)


def test_who_looked_before_a_session_went_on_rolls_nothing_back(visit: Any, agent: Any) -> None:
    session = make_session(agent)
    page = visit.page
    page.clock.install()  # Nothing is asked for again by itself.
    visit.open("n", agent.name, "sessions", f"{session}?v=0")
    page.keyboard.press("r")
    asked = page.get_by_role("dialog")
    expect(asked.get_by_text("refund")).to_be_visible()
    agent.sessions.update_state(session, {"step": "paid"})
    asked.get_by_role("button", name="Roll back").click()
    expect(asked.get_by_role("alert")).to_contain_text("The session went on since you looked.")
    assert agent.sessions.get(session).state["step"] == "paid"
    # It has looked again by itself: what it shows now is what it does.
    expect(asked.get_by_label("What will change in the state")).to_contain_text("paid")
    asked.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").filter(has_text="Back at version 0")).to_be_visible()


def test_what_is_said_between_two_requests_of_a_rollback_is_not_taken_back(
    visit: Any, agent: Any
) -> None:
    session = make_session(agent)
    page = visit.page
    visit.open("n", agent.name, "sessions", f"{session}?v=1")
    page.keyboard.press("r")
    asked = page.get_by_role("dialog")
    asked.get_by_role("checkbox").check()

    def say_more(route: Any) -> None:
        agent.sessions.add_turn(session, "One more thing", "Yes?")
        route.continue_()

    page.route("**/rollback", say_more)
    asked.get_by_role("button", name="Roll back").click()
    expect(asked.get_by_role("alert")).to_contain_text("has 3 turns, not 2")
    expect(asked).to_contain_text("from 3 turns")
    assert said(agent, session)[-1] == "One more thing"


def test_a_session_forks_and_shows_where_it_comes_from(visit: Any, agent: Any) -> None:
    session = make_session(agent)
    agent.memory.add("Mira wants her money back", session_id=session)
    page = visit.page
    visit.open("n", agent.name, "sessions", f"{session}?v=1&with=2")
    expect(page.get_by_label("What leads from version")).to_have_value("2")
    page.get_by_role("tab", name="Memories").click()
    expect(page.get_by_text("Mira wants her money back")).to_be_visible()
    page.keyboard.press("f")
    asked = page.get_by_role("dialog", name="Fork from version 1")
    asked.get_by_label("Agent that goes on").fill("careful-desk")
    asked.get_by_role("checkbox").check()
    asked.get_by_role("button", name="Fork").click()
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_text("careful-desk")).to_be_visible()
    page.get_by_role("tab", name="Lineage").click()
    expect(page.get_by_text("from version 1")).to_be_visible()
    page.get_by_role("link", name=session, exact=True).click()
    expect(page.get_by_role("heading", name=session)).to_be_visible()
    (fork,) = agent.sessions.list(agent_id="careful-desk")
    assert said(agent, fork.id) == ["Where is it?"]


def test_a_session_that_goes_on_is_shown_as_it_goes(visit: Any, agent: Any) -> None:
    session = make_session(agent)
    visit.open("n", agent.name, "sessions", session)
    expect(visit.page.get_by_text("version 2, 2 turns")).to_be_visible()
    agent.sessions.update_state(session, {"step": "later"}, reasoning="It went on.")
    agent.sessions.add_turn(session, "Are you there?", "Always.")
    expect(visit.page.get_by_text("It went on.")).to_be_visible()
    expect(visit.page.get_by_text("Are you there?")).to_be_visible()


def test_a_large_state_is_folded(visit: Any, agent: Any) -> None:
    large = {
        "list": [{"n": number} for number in range(MANY)],
        "deep": deep(60),
        "wide": "W" * 5000,
    }
    session = agent.sessions.create("desk", initial_state=large)
    page = visit.page
    visit.open("n", agent.name, "sessions", session.id)
    page.get_by_role("button", name="WWWW").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text("W" * 5000)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="30,000 items").click()
    expect(page.get_by_role("button", name="1 key").nth(9)).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS


def deep(levels: int) -> Any:
    return {"in": deep(levels - 1)} if levels else "the end"


# Health


def test_a_rate_is_in_the_band_that_it_is_in(visit: Any) -> None:
    page = visit.page
    levels = [(0.0199, "healthy"), (0.02, "elevated"), (0.05, "warning"), (0.1, "critical")]
    buckets = [
        {"start": f"2026-11-1{day}T00:00:00.000000Z", "rollbacks": 1, "sessions": 9}
        | {"rate": rate, "level": level}
        for day, (rate, level) in enumerate(levels)
    ]
    # An answer ends where the server's second does, and goes on where it says.
    pages = {False: (buckets[:2], "2026-11-12T00:00:00.000000Z"), True: (buckets[2:], None)}

    def answer(route: Any) -> None:
        some, following = pages["since=" in route.request.url]
        starts = {"elevated": 0.02, "warning": 0.05, "critical": 0.1, "loop": 3}
        route.fulfill(json={"buckets": some, "next_since": following, "thresholds": starts})

    page.route("**/rollbacks/series*", answer)
    visit.open("operations", "health")
    chart = page.get_by_role("img", name="Rollback rate by day; the highest was 10 %")
    expect(chart).to_be_visible()
    page.get_by_text("The same as a table").click()
    rows = page.get_by_role("region", name=re.compile("as a table")).get_by_role("row")
    assert [re.split(r"\s{2,}|\t", text)[1:3] for text in rows.all_inner_texts()[1:]] == [
        ["10 %", "critical"],
        ["5 %", "warning"],
        ["2 %", "elevated"],
        ["1.9 %", "healthy"],
    ]
    names = page.locator(".band-name").all_text_contents()
    assert [name.strip() for name in names] == ["healthy", "elevated", "warning", "critical"]
    page.get_by_role("link", name="Storage").click()
    page.get_by_role("button", name="Collect now…").click()
    page.get_by_role("dialog").get_by_role("button", name="Collect").click()
    expect(page.get_by_text("given back.")).to_be_visible()


# Webhooks


@pytest.fixture
def receiver() -> Iterator[receivers.Receiver]:
    with receivers.receiver(receivers.say(500)) as there:
        yield there


def test_a_delivery_that_failed_is_looked_at_and_sent_once_more(
    visit: Any, agent: Any, operator: Any, receiver: receivers.Receiver
) -> None:
    page = visit.page
    visit.open("operations", "webhooks")
    page.get_by_role("button", name="New webhook…").click()
    asked = page.get_by_role("dialog", name="New webhook")
    asked.get_by_label("Address").fill(receiver.url)
    asked.get_by_label("Events").fill("snapshot.created")
    asked.get_by_label("Only of this namespace").fill(agent.name)
    asked.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="The webhook is made")
    expect(shown.get_by_text("holdfast-whsec-")).to_be_visible()
    page.keyboard.press("Escape")  # It is shown once: a slip does not close it.
    shown.get_by_role("checkbox").check()
    shown.get_by_role("button", name="Done").click()
    agent.snapshot("told of")
    page.get_by_role("link", name=f":{receiver.port}/hook").click()
    delivery = page.get_by_role("row").filter(has_text="snapshot.created")
    expect(delivery).to_contain_text("waits")
    expect(delivery).to_contain_text("500")
    delivery.get_by_role("button", name="snapshot.created", exact=True).click()
    expect(page.get_by_role("dialog").locator("pre")).to_contain_text("told of")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    receiver.answer = receivers.say(200)
    delivery.get_by_role("button", name="Redeliver snapshot.created").click()
    expect(delivery).to_contain_text("taken")
    page.get_by_role("button", name="Test").click()
    expect(page.get_by_role("status").filter(has_text="The test was taken: 200")).to_be_visible()
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_text("It is off.")).to_be_visible()
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_text("It is off.")).not_to_be_visible()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").filter(has_text="The webhook is gone.")).to_be_visible()
    expect(page.get_by_role("link", name=f":{receiver.port}/hook")).to_have_count(0)
    assert f":{receiver.port}/" not in str([each.url for each in operator.list_webhooks()])


# Keys


def test_a_key_is_shown_once_and_opens_nothing_once_it_is_revoked(
    visit: Any, agent: Any, operator: Any, server: Server
) -> None:
    page = visit.page
    visit.open("operations", "keys")
    page.get_by_role("button", name="New key…").click()
    asked = page.get_by_role("dialog", name="New key")
    asked.get_by_label("Name", exact=True).fill("Mira")
    asked.get_by_label("Only this namespace").fill(agent.name)
    asked.get_by_label("Days until it expires").fill("7")
    asked.get_by_role("button", name="Make it").click()
    shown = page.get_by_role("dialog", name="The key Mira")
    secret = shown.locator(".secret .name").inner_text()
    shown.get_by_role("checkbox").check()
    shown.get_by_role("button", name="Done").click()
    expect(page.get_by_role("row").filter(has_text="Mira")).to_contain_text(agent.name[-20:])
    assert secret not in page.content()
    with holdfast.Client(secret, url=server.url) as mira:
        assert mira.me().namespace == agent.name
        page.get_by_role("button", name="Revoke Mira").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row").filter(has_text="Mira")).to_have_count(0)
        with pytest.raises(holdfast.HoldfastError):
            mira.me()
    page.get_by_role("button", name="Revoke admin").click()
    asked = page.get_by_role("dialog", name="Revoke admin")
    expect(asked.get_by_text("You are signed in with it.")).to_be_visible()
    asked.get_by_role("button", name="Revoke").click()
    expect(asked.get_by_role("alert")).to_contain_text("is the last admin key: nobody could make")
    expect(asked.get_by_role("alert")).to_contain_text("Make another admin key first.")
    assert operator.me()


def test_who_has_one_key_of_the_two_is_told_which_is_missing(
    visits: Callable[..., Any], server: Server
) -> None:
    for key, place, words in [
        (server.api_key, "operations/keys", "This is for operators"),
        (server.admin_key, "operations/schedules", "Schedules are an agent"),
    ]:
        visit = visits()
        visit.open(place)
        visit.page.get_by_label("API key").fill(key)
        visit.page.get_by_role("button", name="Sign in").click()
        expect(visit.page.get_by_role("heading", name=words)).to_be_visible()
        expect(visit.page.get_by_role("link", name="Add a key")).to_be_visible()


# What happens by itself


def test_what_was_deleted_comes_back_and_what_would_go_goes(
    visit: Any, agent: Any, operator: Any
) -> None:
    for number in range(4):
        agent.files.write("a.txt", str(number))
        agent.snapshot(f"moment {number}")
    agent.delete_snapshot(agent.timeline(limit=9)[-1])
    page = visit.page
    visit.open("operations", f"deleted?in={agent.name}")
    row = page.get_by_role("row").filter(has_text="moment 0")
    row.get_by_role("button", name="Bring back").click()
    expect(page.get_by_role("status").filter(has_text="on the timeline again")).to_be_visible()
    expect(row).to_have_count(0)
    # Whoever comes from a namespace begins with that one, and stays with it.
    visit.open("n", agent.name, "timeline")
    for place in ("Health", "Retention"):
        page.get_by_role("navigation", name="Namespaces").get_by_role(
            "link", name=place, exact=True
        ).click()
    expect(page.get_by_role("combobox", name="Namespace")).to_have_value(agent.name)
    page.get_by_label("The newest").fill("1")
    page.get_by_role("button", name="What would go?").click()
    going = page.get_by_role("region", name="What would go", exact=True)
    expect(going.get_by_role("heading")).to_have_text(re.compile(r"[12] snapshots? would go"))
    expect(going.get_by_text("moment 0")).to_be_visible()
    assert len(agent.timeline(limit=9)) == 4
    page.get_by_role("button", name="Keep this rule").click()
    expect(page.get_by_text("The rule is kept")).to_be_visible()
    assert operator.namespaces.retention(agent.name).keep_last == 1
    going.get_by_role("button", name="Let them go now…").click()
    asked = page.get_by_role("dialog")
    expect(asked.get_by_text("They cannot be brought back.")).to_be_visible()
    asked.get_by_role("button", name="Let them go").click()
    expect(
        page.get_by_role("status").filter(has_text=re.compile("snapshots? went"))
    ).to_be_visible()
    assert "moment 0" not in [each.label for each in agent.timeline(limit=9)]


def test_a_namespace_that_was_deleted_comes_back_under_another_name(
    visit: Any, server: Server, operator: Any
) -> None:
    with holdfast.Client(server.api_key, url=server.url, namespace="team/gone") as gone:
        gone.files.write("a.txt", "1")
    operator.namespaces.delete("team/gone")
    page = visit.page
    visit.open("operations", "deleted")
    page.get_by_role("button", name="Bring back team/gone").click()
    page.get_by_role("dialog").get_by_label("Under the name").fill("team/back")
    page.get_by_role("dialog").get_by_role("button", name="Bring back").click()
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_role("heading", name="team/back", exact=True)).to_be_visible()
    with holdfast.Client(server.api_key, url=server.url, namespace="team/back") as back:
        assert back.files.read("a.txt") == b"1"


def test_a_schedule_is_made_stopped_and_taken_away(visit: Any, agent: Any) -> None:
    agent.files.write("a.txt", "1")
    page = visit.page
    visit.open("operations", f"schedules?in={agent.name}")
    page.get_by_role("button", name="New schedule…").click()
    asked = page.get_by_role("dialog", name="New schedule")
    asked.get_by_label("How many").fill("2")
    asked.get_by_label("Label").fill("by the clock")
    asked.get_by_role("button", name="Make it").click()
    row = page.get_by_role("row").filter(has_text="every 2 hours")
    expect(row).to_contain_text("by the clock")
    row.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("off")
    row.get_by_role("button", name="Delete the schedule every 2 hours").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing is taken by itself")).to_be_visible()


# The audit


def test_an_audit_that_somebody_has_changed_is_red(visit: Any, agent: Any, server: Server) -> None:
    agent.snapshot("written down")
    page = visit.page
    visit.open("operations", "audit")
    button = page.get_by_role("button", name="Verify")
    button.click()
    fine = page.get_by_role("status").filter(has_text="no gap")
    expect(fine).to_contain_text(re.compile(r"Verified: \d+ entries, no gap"))
    page.get_by_label("An anchor").fill(fine.locator(".name").inner_text())
    button.click()
    expect(fine).to_contain_text("goes on from the anchor")
    page.get_by_label("What", exact=True).fill("snapshot.taken")
    page.get_by_role("button", name="Find").click()
    page.get_by_role("button", name="snapshot.taken").first.click()
    expect(page.get_by_role("dialog", name="snapshot.taken")).to_contain_text("Hash")
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    assert holdfast.verify_audit_file(Path(download.value.path())).is_sound
    with closing(sqlite3.connect(server.data / "catalog.sqlite", timeout=30)) as catalog, catalog:
        catalog.execute("UPDATE journal SET actor = 'nobody' WHERE action = 'snapshot.taken'")
    button.click()
    red = page.get_by_role("alert")
    expect(red).to_contain_text("The chain is broken")
    expect(red).to_contain_text(re.compile(rf"Entry \d+ of {agent.name}"))


# Whoever would like to mislead them, and everybody


@pytest.fixture(scope="module")
def places(server: Server) -> dict[str, str]:
    """Where each screen is, with something of every kind on it that somebody hostile wrote."""
    plain = HOSTILE.replace("\n", " ").replace("\u202e", "")
    with (
        holdfast.Client(server.api_key, url=server.url, namespace="odd<i>") as agent,
        holdfast.AdminClient(server.admin_key, url=server.url) as admin,
    ):
        made = agent.sessions.create(
            HOSTILE[:100],
            user_id=HOSTILE[:100],
            initial_state={HOSTILE: [HOSTILE, {HOSTILE: HOSTILE * 9}]},
            metadata={HOSTILE[:40]: HOSTILE},
        )
        agent.sessions.update_state(made.id, {"a\nb": HOSTILE, "step": 1}, reasoning=HOSTILE * 4)
        for _ in range(3):
            agent.sessions.update_state(made.id, {"step": 2})
            agent.sessions.rollback(made.id, 1, reason=HOSTILE)
        agent.sessions.add_turn(made.id, HOSTILE, {"type": HOSTILE, "content": HOSTILE * 30})
        agent.sessions.fork(made.id, 0)
        agent.memory.add(HOSTILE, session_id=made.id, tags=["<b>"])
        gone = agent.snapshot(plain[:100])
        agent.files.write("a.txt", "1")
        agent.snapshot(plain[:100])
        agent.delete_snapshot(gone)
        admin.create_key(plain[:100], namespace="odd<i>")
        hook = admin.create_webhook("https://example.invalid/?<script>", description=plain[:150])
    place = "n/odd%3Ci%3E/sessions"
    return {
        "sessions": place,
        "session": f"{place}/{made.id}",
        "compared": f"{place}/{made.id}?v=1&with=0",
        **{
            part: f"operations/{part}?in=odd%3Ci%3E"
            for part in ("health", "storage", "webhooks", "keys", "schedules", "retention")
        },
        "webhook": f"operations/webhooks/{hook.webhook_id}",
        "deleted": "operations/deleted?in=odd%3Ci%3E",
        "audit": "operations/audit",
        "nowhere": "operations/no-such",
    }


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [*WIDTHS])
def test_every_screen_is_for_everybody_whatever_others_wrote(
    visits: Callable[..., Any], signed_in: Any, places: dict[str, str], theme: str, width: str
) -> None:
    visit = visits(storage_state=signed_in, viewport=WIDTHS[width], color_scheme=theme)
    page = visit.page
    visit.open()
    found = dict[str, list[str]]()
    for screen, path in places.items():
        visit.move(path)
        found[screen] = visit.violations()
        assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
    visit.move(places["compared"])
    # What turns text around is shown as a mark.
    expect(page.locator(".patch .mark", has_text="U+202E").first).to_be_visible()
    page.get_by_role("button", name=re.compile("Roll back")).click()
    page.get_by_role("dialog").locator(".preview").wait_for()
    found["roll back"] = visit.violations()
    assert {screen: each for screen, each in found.items() if each} == {}


def test_nothing_is_cut_off_at_the_narrowest(
    visits: Callable[..., Any], signed_in: Any, places: dict[str, str]
) -> None:
    narrow = visits(storage_state=signed_in, viewport={"width": NARROWEST, "height": 640})
    narrow.open()
    for screen, path in places.items():
        narrow.move(path)
        assert narrow.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen

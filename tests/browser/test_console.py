"""A person at the console: looks, goes back, undoes; and whoever would like to mislead them."""

import io
import os
import re
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import Server

PATIENCE_MS = 20_000
LIVE_S = 1.0

STATE = """
const main = document.querySelector("script[type=module]").src;
const state = await import(main.replace("main.js", "state.js"));
"""
LEFT = f"async () => {{ {STATE} return [state.overview.value, state.timeline.value]; }}"
LISTEN = f"""async () => {{ {STATE}
  window.links = [];
  state.link.subscribe(({{ state }}) => window.links.push(state));
}}"""
GONE = f"async () => {{ {STATE} state.link.value = {{ state: 'away', heard: null }}; }}"
SILENT_S = 41


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect  # noqa: PLC0415 - where there is no Chromium, neither is this

    return expect(locator)


def files_of(agent: Any) -> dict[str, bytes]:
    listed = agent.files.list(recursive=True)
    return {each.path: agent.files.read(each.path) for each in listed if each.kind == "file"}


# Signing in


def test_a_key_opens_the_console_and_signing_out_closes_it(
    visits: Callable[..., Any], server: Server
) -> None:
    visit = visits()
    page = visit.page
    refused = {"error": {"code": "unknown_host", "message": "not by this name", "suggestion": "Or"}}
    answers = iter([None, {"status": 403, "json": refused}, {"status": 200, "json": {}}])

    def answer(route: Any) -> None:
        said = next(answers, None) if route.request.method == "POST" else None
        route.fulfill(**said) if said else route.continue_()

    # One route from the beginning to the end: a page may ask once more by the way it had, and a
    # request that is under way when a route goes may never be answered.
    page.route("**/console/session", answer)
    visit.open("n", "somebody", "timeline")
    page.get_by_label("API key").fill("holdfast-sk-not-a-key")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("This key is not valid, or no longer.")
    page.get_by_label("API key").fill(server.api_key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not by this name Or")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("did not keep the cookie")
    page.keyboard.press("Enter")
    # The address that was asked for is the one that opens.
    expect(page.get_by_role("heading", name="somebody", exact=True)).to_be_visible()
    expect(page.get_by_text("No snapshots yet")).to_be_visible()
    assert server.api_key not in page.evaluate(
        "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + location"
    )
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign out here").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.evaluate(LEFT) == [None, None]
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_session_that_ends_leaves_nothing_for_who_comes_next(visit: Any, agent: Any) -> None:
    agent.snapshot("private")
    visit.open("n", agent.name, "timeline")
    visit.row("private").wait_for()
    visit.page.context.clear_cookies()
    visit.page.keyboard.press("p")
    expect(visit.page.get_by_label("API key")).to_be_visible()
    assert visit.page.evaluate(LEFT) == [None, None]


def test_a_link_signs_in_once_and_leaves_no_trace(
    visits: Callable[..., Any], server: Server
) -> None:
    with holdfast.open(server.data) as vault:
        secret = vault.sign_ins.create_link()
    visit, other = visits(), visits()
    visit.open(f"#link={secret}")
    expect(visit.page.get_by_role("button", name="Sign out")).to_be_visible()
    assert visit.page.evaluate("location.href") == visit.home
    other.open(f"#link={secret}")
    expect(other.page.get_by_role("status")).to_contain_text("This link was used already")
    expect(other.page.get_by_label("API key")).to_be_visible()
    assert secret not in server.read_log()


# The timeline


def test_what_an_agent_does_shows_within_a_second_and_the_choice_stays(
    visit: Any, agent: Any, failing: Callable[..., Any]
) -> None:
    for number in range(45):
        agent.snapshot(f"moment {number}")
    page = visit.page
    page.clock.install()
    visit.open("n", agent.name, "timeline")
    visit.row("moment 42").click()
    expect(page.get_by_role("status").filter(has_text="Live")).to_be_visible()
    # A stream on which nothing happens is a good one.
    page.evaluate(LISTEN)
    with page.expect_response("**/console/session"):
        page.clock.fast_forward(f"00:{SILENT_S}")
    took = []
    for number in range(3):
        agent.files.write("plan.md", f"{number}\n")
        began = time.monotonic()
        agent.snapshot(f"live {number}")
        visit.row(f"live {number}").wait_for(timeout=PATIENCE_MS)
        took.append(time.monotonic() - began)
    agent.undo()
    visit.row("Undid").wait_for(timeout=PATIENCE_MS)
    assert min(took) < LIVE_S, took
    assert set(page.evaluate("window.links")) == {"live"}
    expect(visit.row("moment 42")).to_have_attribute("aria-selected", "true")
    # Whoever has scrolled away stays where they are, and is told.
    page.get_by_role("listbox").evaluate("box => { box.scrollTop = 400 }")
    seen = visit.row("moment 25")
    expect(seen).to_be_visible()
    before = seen.bounding_box()["y"]
    agent.snapshot("one more")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert seen.bounding_box()["y"] == before
    with failing(agent, "Tidy up", "out of shelves"):
        agent.files.delete("plan.md")
    page.get_by_role("button", name=re.compile("new")).click()
    visit.row("Tidy up").click()
    expect(page.get_by_text("The task failed.")).to_be_visible()
    expect(page.get_by_label("Details").get_by_text("out of shelves")).to_be_visible()


def test_rows_stand_in_the_lane_of_what_is_true_now(
    visit: Any, agent: Any, failing: Callable[..., Any]
) -> None:
    agent.files.write("a", "1")
    first = agent.snapshot("first")
    agent.files.write("a", "2")
    agent.snapshot("second")
    agent.restore(first)
    agent.files.write("b", "1")
    agent.snapshot("third")
    agent.files.write("b", "2")
    agent.undo()
    agent.redo()
    agent.undo()
    with failing(agent, "bad", rollback_on_failure=True):
        agent.files.write("c", "1")
    agent.restore(first, paths=["b"])
    fork = agent.fork(f"{agent.name}-other")
    fork.files.write("d", "1")
    fork.snapshot("aside")
    agent.merge(fork.name)
    visit.open("n", agent.name, "timeline")
    visit.row("first").wait_for()
    rows = visit.page.evaluate(
        """async () => {
          const main = document.querySelector("script[type=module]").src;
          const { timeline } = await import(main.replace("main.js", "state.js"));
          const { layOut, titleOf } = await import(main.replace("main.js", "graph.js"));
          const { rows, position } = timeline.value;
          const find = (id) => rows.find((row) => row.snapshot_id === id);
          const chips = (row) => [...document.querySelectorAll(`#row-${row.snapshot_id} .chip`)]
            .map((chip) => chip.textContent.trim());
          return layOut(rows, { position, isWhole: true }).map(
            ({ row, shape, lane, isTrue }) =>
              [titleOf(row, find), shape, lane, isTrue, chips(row)]);
        }"""
    )
    assert rows == [
        [f"Merged {fork.name}", "diamond", 0, True, []],
        ["Brought back part of #1", "arrow", 0, True, ["1 fork"]],
        ["Went back to #4 · “bad” failed", "arrow", 0, True, []],
        ["bad", "cross", 1, False, ["failed", "taken back"]],
        ["Undid the last change", "arrow", 2, False, ["kept #5"]],
        ["Redid what was undone", "arrow", 2, False, []],
        ["Undid the last change", "arrow", 2, False, ["kept #5"]],
        ["third", "ring", 0, True, []],
        ["Went back to #1", "arrow", 0, True, []],
        ["second", "ring", 1, False, ["taken back"]],
        ["first", "ring", 0, True, []],
    ]


# Going back


def break_things(agent: Any, failing: Callable[..., Any]) -> dict[str, bytes]:
    """Lets a task delete and overwrite things, and fail; returns what was there before."""
    agent.files.write("cart.py", "total = 1\n")
    agent.files.write("data/one.csv", "1\n")
    agent.store.set("state", "plan", {"step": 1})
    agent.snapshot("all well")
    before = files_of(agent)
    with failing(agent, "Clean up"):
        agent.files.write("cart.py", "total = 2\n")
        agent.files.delete("data/one.csv")
        agent.files.write("oops.txt", "oops\n")
        agent.store.set("state", "plan", {"step": 2})
    return before


def test_one_goes_back_to_before_what_failed_and_undoes_it(
    visit: Any, agent: Any, failing: Callable[..., Any]
) -> None:
    before = break_things(agent, failing)
    broken = files_of(agent)
    page = visit.page
    visit.open("n", agent.name, "timeline")
    visit.row("Clean up").click()
    page.get_by_role("button", name="Go back before this…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Go back to before “Clean up”")
    expect(page.get_by_text("Nothing is lost.")).to_be_visible()
    expect(page.locator(".sums")).to_have_text("1 comes back 2 change 1 goes away")
    expect(page.get_by_label("Changes of cart.py")).to_contain_text("total = 1")
    page.get_by_placeholder("Why?").fill("it broke the tests")
    page.get_by_role("button", name="Go back", exact=False).click()
    said = page.get_by_role("status").filter(has_text="verified")
    expect(said).to_contain_text("4 changes, verified.")
    assert files_of(agent) == before
    assert agent.store.get("state", "plan") == {"step": 1}
    assert agent.timeline(limit=1)[0].reason == "it broke the tests"
    expect(visit.row("Went back to #1")).to_have_attribute("aria-selected", "true")
    said.get_by_role("button", name="Undo").click()
    said = page.get_by_role("status").filter(has_text="Undone")
    expect(said).to_be_visible()
    assert files_of(agent) == broken
    assert agent.store.get("state", "plan") == {"step": 2}
    # What a message offers is about the namespace that it came from.
    visit.move("n/elsewhere/timeline")
    said.get_by_role("button", name="Redo").click()
    said = page.get_by_role("status").filter(has_text="Done again")
    expect(said).to_be_visible()
    assert files_of(agent) == before
    expect(visit.row("Undid #4")).to_have_attribute("aria-selected", "true")
    said.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert files_of(agent) == broken


def test_nobody_is_told_that_nothing_was_changed_where_that_is_not_known(
    visit: Any, agent: Any
) -> None:
    agent.files.write("a.txt", "1")
    target = agent.snapshot("well")
    agent.files.write("a.txt", "2")
    page = visit.page
    visit.open("n", agent.name, "goback", target.id)

    def refuse(route: Any) -> None:
        is_dry = route.request.post_data_json.get("dry_run")
        route.fallback() if is_dry else route.fulfill(status=422, json={"detail": "not so"})

    def cut_off(route: Any) -> None:
        if route.request.post_data_json.get("dry_run"):
            route.fallback()
        else:
            route.fetch()
            route.fulfill(status=200, body='{"snapshot": {')

    page.route("**/restore", refuse)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed. not so")
    page.unroute("**/restore")
    page.route("**/restore", cut_off)
    # And the server is gone when the page looks again: it does so by itself once it is back.
    page.route("**/v1/status", lambda route: route.abort())
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert").first).to_contain_text("It is not known whether it was done.")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    page.unroute("**/v1/status")
    page.evaluate(GONE)
    expect(page.get_by_text("That is how it is now")).to_be_visible()
    assert agent.files.read("a.txt") == b"1"


ODD = ("x[1].txt", "x1.txt", "*", "a\nb", "-rf", "café.txt")


def test_exactly_what_is_ticked_comes_back(visit: Any, agent: Any) -> None:
    for name in ODD:
        agent.files.write(name, f"old {name}")
    target = agent.snapshot("odd")
    for name in ODD:
        agent.files.write(name, "new")
    page = visit.page
    visit.open("n", agent.name, "goback", target.id)
    page.get_by_role("checkbox", name=re.compile("^Files")).uncheck()
    button = page.get_by_role("button", name="Go back", exact=False)
    expect(button).to_have_attribute("aria-disabled", "true")
    expect(button).to_have_attribute("title", "Nothing is ticked: nothing would change")
    page.get_by_role("checkbox", name="changed: x[1].txt", exact=True).check()
    page.get_by_role("checkbox", name="changed: *", exact=True).check()
    expect(page.locator(".sums")).to_have_text("0 come back 2 change 0 go away")
    button.click()
    expect(page.get_by_role("status").filter(has_text="2 changes, verified.")).to_be_visible()
    chosen = {"x[1].txt", "*"}
    assert files_of(agent) == {
        name: f"old {name}".encode() if name in chosen else b"new" for name in ODD
    }
    expect(visit.row("Brought back part of #1")).to_be_visible()


NO_TEXT = (b"odd\xe9.txt", b"odd\xe8.txt")


def test_one_of_two_names_that_are_no_text_comes_back_while_a_task_runs(
    visit: Any, agent: Any, tmp_path: Path
) -> None:
    def put(content: bytes) -> None:
        with tarfile.open(tmp_path / "in.tar", "w", errors="surrogateescape") as archive:
            for name in NO_TEXT:
                member = tarfile.TarInfo(os.fsdecode(name))
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        agent.import_files(tmp_path / "in.tar")

    put(b"old")
    target = agent.snapshot("odd")
    put(b"new")
    task = agent.tasks.start("Mend <i>")
    page = visit.page
    visit.open("n", agent.name, "goback", target.id)
    expect(page.get_by_text("A task is running.")).to_be_visible()
    page.get_by_role("checkbox", name=re.compile("^Files")).uncheck()
    page.get_by_role("checkbox", name=re.compile("changed: odd")).last.check()
    page.get_by_role("button", name="Go back", exact=False).click()
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    agent.export_files(tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar", errors="surrogateescape") as archive:
        held = {
            os.fsencode(each.name.removeprefix("./")): read.read()
            for each in archive
            if (read := archive.extractfile(each)) is not None
        }
    assert held == {NO_TEXT[0]: b"old", NO_TEXT[1]: b"new"}  # Listed in the order of their bytes.
    agent.tasks.complete(task.id)


def test_what_is_not_listed_goes_with_the_box_of_its_plane(visit: Any, agent: Any) -> None:
    agent.files.write_many([(f"{name}.txt", b"1") for name in "abc"])
    agent.store.set("state", "plan", 1)
    target = agent.snapshot("well")
    agent.files.write_many([(f"{name}.txt", b"2") for name in "abc"])
    agent.store.set("state", "plan", 2)
    page = visit.page

    def list_one(route: Any) -> None:
        route.continue_(post_data={**route.request.post_data_json, "limit": 1})

    page.route("**/restore", list_one)
    visit.open("n", agent.name, "goback", target.id)
    sums = page.locator(".sums")
    expect(sums).to_have_text("0 come back 4 change 0 go away")
    page.get_by_role("checkbox", name=re.compile("^Store")).uncheck()
    expect(sums).to_have_text("0 come back 3 change 0 go away")
    page.get_by_role("checkbox", name=re.compile("^Files")).uncheck()
    expect(sums).to_have_text("0 come back 0 change 0 go away")
    page.get_by_role("checkbox", name=re.compile("^Store")).check()
    page.get_by_role("checkbox", name="changed: a.txt").check()
    button = page.get_by_role("button", name="Go back", exact=False)
    expect(button).to_have_attribute("title", re.compile("Not all of Files is listed"))
    page.get_by_role("checkbox", name="changed: a.txt").uncheck()
    button.click()
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    assert set(files_of(agent).values()) == {b"2"}
    assert agent.store.get("state", "plan") == 1


@pytest.mark.parametrize("is_kept", [True, False])
def test_who_looked_before_somebody_else_changed_something_looks_again(
    visit: Any, agent: Any, is_kept: bool
) -> None:
    agent.files.write("a.txt", "1")
    agent.files.write("b.txt", "1")
    target = agent.snapshot("well")
    agent.files.write("a.txt", "2")
    agent.files.write("b.txt", "2")
    agent.snapshot("worse")
    page = visit.page
    visit.open("n", agent.name, "goback", target.id)
    page.get_by_role("checkbox", name="changed: b.txt").uncheck()
    agent.files.write("c.txt", "meanwhile")
    agent.files.write("a.txt", "3, and longer")
    if is_kept:
        agent.snapshot("meanwhile")
    page.keyboard.press("Control+Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("since you looked")
    expect(page.get_by_role("checkbox", name="changed: b.txt")).not_to_be_checked()
    assert agent.files.read("a.txt") == b"3, and longer"
    page.get_by_role("checkbox", name="removed: c.txt").uncheck()
    if is_kept:
        # Whoever goes on writing does not keep anybody from going back, nor lose what they wrote.
        agent.files.write("a.txt", "4, and longer still")
        agent.snapshot("and on")
        agent.files.write("a.txt", "5, in no snapshot")
        page.get_by_role("button", name="Go back all the same").click()
        said = page.get_by_role("status").filter(has_text="Back at #1, all the same: 1 change")
        expect(said).to_be_visible()
        kept = agent.timeline(limit=2)[1]
        assert agent.at(kept).files.read("a.txt") == b"5, in no snapshot"
    else:
        page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    assert files_of(agent) == {"a.txt": b"1", "b.txt": b"2", "c.txt": b"meanwhile"}


def test_an_undo_says_what_it_takes_back_and_asks_again_once_that_changed(
    visit: Any, agent: Any
) -> None:
    agent.files.write("a.txt", "one\n")
    agent.snapshot("first")
    agent.files.write("a.txt", "two and more\n")
    page = visit.page
    visit.open("n", agent.name, "timeline")
    # What the first of all has added is what changed with it.
    visit.row("first").click()
    page.get_by_label("Details").get_by_role("button", name="a.txt").click()
    expect(page.get_by_label("Changes of a.txt").locator("ins")).to_have_text("one\n")
    page.keyboard.press("u")
    asked = page.get_by_role("dialog", name="Undo")
    would = asked.get_by_label("What will change")
    expect(would).to_contain_text("a.txt")
    expect(asked.locator(".sums")).to_have_text("0 come back 1 changes 0 go away")
    agent.files.write("b.txt", "meanwhile\n")
    page.keyboard.press("Control+Enter")
    expect(asked.get_by_role("alert")).to_contain_text("Something changed since you looked")
    expect(would).to_contain_text("b.txt")
    agent.files.write("c.txt", "and on\n")
    assert len(files_of(agent)) == 3
    asked.get_by_role("button", name="Undo all the same").click()
    said = page.get_by_role("status").filter(has_text="Undone, all the same: 3 changes, verified.")
    expect(said).to_be_visible()
    assert files_of(agent) == {"a.txt": b"one\n"}
    assert agent.at(agent.timeline(limit=2)[1]).files.read("c.txt") == b"and on\n"


def test_an_undo_takes_back_what_it_showed_or_asks_again(visit: Any, agent: Any) -> None:
    agent.files.write("a.txt", "one\n")
    agent.snapshot("first")
    agent.files.write("a.txt", "two\n")
    page = visit.page
    visit.open("n", agent.name, "timeline")
    visit.row("first").click()
    expect(page.get_by_label("Details").get_by_role("button", name="a.txt")).to_be_visible()
    page.keyboard.press("u")
    asked = page.get_by_role("dialog", name="Undo")
    undo = asked.get_by_role("button", name="Undo", exact=True)
    expect(asked).to_contain_text("Takes back the 1 change since #1")
    agent.files.write("a.txt", "new\n")  # As long as what was there, and in no snapshot either.
    undo.click()
    expect(asked.get_by_role("alert")).to_contain_text("this is what it takes back now")
    assert files_of(agent) == {"a.txt": b"new\n"}
    # What it says goes with what it lists: both are of one look.
    agent.snapshot("second")
    expect(asked.get_by_role("alert")).to_contain_text("Something changed since you looked.")
    expect(asked).to_contain_text("Takes back the 1 change since #1")
    asked.get_by_role("button", name="Look again").click()
    expect(asked).to_contain_text("Takes back the last change: second, #2")
    # Whoever hears no answer is not told that nothing was done.

    def lose_answer(route: Any) -> None:
        if "dry_run" in route.request.post_data:
            return route.continue_()
        route.fetch()
        return route.abort()

    page.route("**/v1/undo", lose_answer)
    undo.click()
    expect(asked.get_by_role("alert")).to_contain_text("It is not known whether it was done.")
    assert files_of(agent) == {"a.txt": b"one\n"}


def test_look_go_back_and_undo_by_keyboard_alone(
    visit: Any, agent: Any, failing: Callable[..., Any]
) -> None:
    before = break_things(agent, failing)
    broken = files_of(agent)
    page = visit.page
    visit.open("n", agent.name, "timeline")
    visit.row("Clean up").wait_for()
    press = page.keyboard.press
    press("j")
    expect(visit.row("Clean up")).to_have_attribute("aria-selected", "false")
    press("k")
    expect(visit.row("Clean up")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Changes of cart.py")).to_be_visible()
    press("]")
    expect(page.get_by_label("Changes of data/one.csv")).to_be_visible()
    press("[")
    expect(page.get_by_label("Changes of cart.py")).to_be_visible()
    press("r")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    press("Escape")
    expect(visit.row("Clean up")).to_have_attribute("aria-selected", "true")
    press("r")
    expect(page.locator(".sums")).to_be_visible()
    press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="verified")).to_be_visible()
    assert files_of(agent) == before
    press("u")
    expect(page.get_by_role("dialog", name="Undo").get_by_label("What will change")).to_be_visible()
    press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="Undone")).to_be_visible()
    assert files_of(agent) == broken
    # What the message before offered would take back nothing now, and the Redo with it.
    older = page.get_by_role("status").filter(has_text="Back at #1")
    expect(older).to_be_visible()
    expect(older.get_by_role("button", name="Undo")).to_have_count(0)
    press("s")
    page.keyboard.type("found by hand")
    press("Enter")
    expect(visit.row("found by hand")).to_be_visible()

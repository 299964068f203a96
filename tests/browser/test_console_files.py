"""A person looks through files, store and tasks: now and then, and brings one thing back."""

import re
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import Server

expect = pytest.importorskip("playwright.sync_api").expect

PNG_START = b"\x89PNG\r\n\x1a\n"
ROWS = 10_000
WIDTHS = {
    "wide": {"width": 1440, "height": 900},
    "phone": {"width": 390, "height": 844},
    "narrowest": {"width": 320, "height": 640},
}
MOST_ELEMENTS = 3_000
LONG = 6_000
SCROLLED = """() => [...document.querySelectorAll(".pane, .pane *")]
  .filter((each) => ["auto", "scroll"].includes(getComputedStyle(each).overflowY))
  .filter((each) => each.scrollHeight > each.clientHeight)
  .map((each) => each.className.split(" ").at(-1))"""
ONE_LINE = 48 << 20


def picture() -> bytes:
    """Returns a picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        end = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + end

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    return PNG_START + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


def test_one_version_of_one_file_comes_back_from_its_history(visit: Any, agent: Any) -> None:
    agent.files.write("src/cart.py", "total = 1\n")
    agent.files.write("src/x[1].py", "total = 1\n")
    first = agent.snapshot("well")
    agent.files.write("src/cart.py", "total = 2\n")
    agent.files.write("src/x[1].py", "total = 2\n")
    agent.snapshot("worse")
    page, press = visit.page, visit.page.keyboard.press
    visit.open("n", agent.name, "timeline")
    visit.row("worse").wait_for()
    # By keyboard alone: to the files, into the folder, to the file and its history.
    press("g")
    press("f")
    expect(page.get_by_role("link", name="src/")).to_be_visible()
    press("j")
    expect(page.get_by_role("link", name="src/")).to_be_focused()
    press("Enter")
    expect(page.get_by_label("Files in src").get_by_role("link")).to_have_count(3)
    page.get_by_role("link", name="cart.py").first.focus()
    press("Enter")
    expect(page.get_by_label("Content of src/cart.py")).to_have_text("total = 2\n")
    # What an agent writes meanwhile shows.
    agent.files.write("src/cart.py", "total = 33\n")
    expect(page.get_by_label("Content of src/cart.py")).to_have_text("total = 33\n")
    page.get_by_role("link", name="History", exact=True).focus()
    press("Enter")
    versions = page.locator(".steps > li")
    expect(versions).to_have_text(
        [re.compile("Not in a snapshot yet"), re.compile("#2 worse"), re.compile("#1 well")]
    )
    versions.nth(1).get_by_role("button").first.click()
    expect(page.get_by_label("Changes of src/cart.py")).to_contain_text("total = 1")
    page.get_by_label("Compare with").select_option("now")
    expect(page.get_by_label("Changes of src/cart.py")).to_contain_text("total = 33")
    versions.nth(2).get_by_role("button").first.click()
    page.get_by_role("link", name="Bring back this version…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bring back “src/cart.py”")
    expect(page.locator(".sums")).to_have_text("0 come back 1 changes 0 go away")
    press("Escape")
    expect(versions).to_have_count(3)
    visit.move(f"n/{agent.name}/files?path=src/cart.py&at={first.id}")
    expect(page.get_by_label("Content of src/cart.py")).to_have_text("total = 1\n")
    expect(page.get_by_text("As it was at")).to_be_visible()
    page.get_by_role("link", name="Bring it back…").click()
    expect(page.locator(".sums")).to_have_text("0 come back 1 changes 0 go away")
    press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    assert agent.files.read("src/cart.py") == b"total = 1\n"
    assert agent.files.read("src/x[1].py") == b"total = 2\n"


def test_a_file_that_is_gone_comes_back_from_its_history(visit: Any, agent: Any) -> None:
    agent.files.write("gone.txt", "was here\n")
    agent.files.write("other.txt", "1\n")
    agent.snapshot("well")
    agent.files.delete("gone.txt")
    agent.files.write("other.txt", "2\n")
    agent.snapshot("worse")
    page = visit.page
    visit.open("n", agent.name, "files?path=gone.txt")
    expect(page.get_by_text("It is not there now")).to_be_visible()
    page.get_by_role("link", name="What happened to it").click()
    page.locator(".steps > li").first.get_by_role("button").first.click()
    page.get_by_role("link", name="Bring back the version before…").click()
    expect(page.locator(".sums")).to_have_text("1 comes back 0 change 0 go away")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    assert agent.files.read("gone.txt") == b"was here\n"
    assert agent.files.read("other.txt") == b"2\n"


def test_the_bytes_of_a_file_say_how_it_is_shown(visit: Any, agent: Any) -> None:
    agent.files.write("real.png", picture())
    agent.files.write("fake.png", "<svg onload=alert(1)>")
    agent.files.write("prog", b"\x7fELF" + bytes(100))
    agent.files.write("big.csv", "".join(f"{n},{n}\n" for n in range(120_000)))
    agent.files.write_many([(f"many/{n:04}.txt", b"x") for n in range(1_200)])
    page = visit.page
    visit.open("n", agent.name, "files?path=real.png")
    assert page.get_by_role("img", name="real.png").evaluate("i => i.decode().then(() => i.width)")
    visit.move(f"n/{agent.name}/files?path=fake.png")
    expect(page.get_by_label("Content of fake.png")).to_have_text("<svg onload=alert(1)>\n")
    visit.move(f"n/{agent.name}/files?path=prog")
    expect(page.get_by_text("This is an ELF program: 104 bytes.")).to_be_visible()
    visit.move(f"n/{agent.name}/files?path=big.csv")
    expect(page.get_by_text("The first 200 lines of 1.4 MB.")).to_be_visible()
    page.get_by_role("button", name="Load anyway").click()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_label("Content of big.csv")).to_contain_text("0,0")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download big.csv").click()
    assert download.value.path().stat().st_size == len(agent.files.read("big.csv"))
    # A long folder comes in pages as one goes down, and a name is found wherever it lies.
    visit.move(f"n/{agent.name}/files?path=many/")
    box = page.get_by_label("Files in many")
    expect(box.get_by_role("link", name="0001.txt")).to_be_visible()
    for _ in range(3):
        box.evaluate("box => { box.scrollTop = box.scrollHeight }")
        page.wait_for_timeout(50)
        box.evaluate("box => { box.scrollTop = box.scrollHeight }")
    expect(box.get_by_role("link", name="1199.txt")).to_be_visible()
    page.get_by_label("Find files by name").fill("0777")
    expect(page.get_by_role("link", name="many/0777.txt")).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS


def test_each_change_is_shown_as_what_it_is(visit: Any, agent: Any) -> None:
    words = [f"line {n} of many\n" for n in range(40)]
    long = [f"{n}\n" for n in range(LONG)]
    agent.files.write("words.txt", "".join(words))
    agent.files.write("long.txt", "".join(long))
    agent.files.write("real.png", picture())
    agent.files.write("prog", b"\x7fELF" + bytes(100))
    first = agent.snapshot("before")
    agent.files.write("words.txt", "".join(words).replace("line 7 of", "line 7 among"))
    agent.files.write("long.txt", "".join(f"x{each}" for each in long))
    agent.files.write("real.png", picture() + b"\0")
    agent.files.write("prog", b"\x7fELF" + bytes(99))
    agent.files.write("bidi.py", "if access == '\u202euser':\n")
    agent.files.write("line.txt", b"x" * ONE_LINE)
    agent.files.write("two.txt", b"two\n" * (1 << 19))
    page = visit.page
    visit.open("n", agent.name, "compare", f"{first.id}...now")
    lines = page.get_by_label("What changed")

    def show(name: str) -> Any:
        lines.get_by_role("button", name=re.compile(re.escape(name))).click()
        return page.get_by_label(f"Changes of {name}")

    shown = show("words.txt")
    expect(shown.locator("del")).to_have_text("line 7 of many\n")
    expect(shown.locator("ins")).to_have_text("line 7 among many\n")
    expect(shown.locator("del .word")).to_have_text("of")
    expect(shown.locator("ins .word")).to_have_text("among")
    page.keyboard.press("v")
    sides = page.get_by_label("Changes of words.txt, side by side").locator(".side")
    expect(sides.nth(0).locator("del")).to_have_text("line 7 of many\n")
    expect(sides.nth(1).locator("ins")).to_have_text("line 7 among many\n")
    page.keyboard.press("v")
    # Of very many lines the first, then all of them, of which those in sight are there.
    expect(show("long.txt").locator("del").first).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.get_by_text("The first 200 of")).to_have_count(0)
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
    show("real.png")
    for when in ("before", "after"):
        drawn = page.get_by_role("img", name=f"real.png {when}")
        assert drawn.evaluate("i => i.decode().then(() => i.width)")
    show("prog")
    expect(page.locator(".facts-box")).to_contain_text("104 B → 103 B")
    expect(show("bidi.py")).to_contain_text("U+202E")
    expect(page.get_by_text("some that turn text around")).to_be_visible()
    show("line.txt")
    expect(page.locator(".facts-box")).to_contain_text("was not there → 48 MB")
    expect(page.locator(".facts-box")).to_contain_text("Too large to compare: 50,331,648 bytes.")
    show("two.txt")
    expect(page.locator(".facts-box")).to_contain_text("Too large to compare: 2,097,152 bytes.")
    expect(page.get_by_role("button", name="Load anyway")).to_have_count(0)


def test_a_name_in_the_list_shows_what_cannot_be_seen_in_it(visit: Any, agent: Any) -> None:
    names = {
        " a .txt": "␠a .txt",
        "q\u00a0c\u2003d\u202fe": "qU+00A0cU+2003dU+202Fe",
        "f\u205fg\u2800h\u3000i": "fU+205FgU+2800hU+3000i",
        "j\ufe0f\U0001d173k": "jU+FE0FU+1D173k",
        "l m ": "l m␠",
    }
    agent.files.write_many([(name, "x") for name in names])
    visit.open("n", agent.name, "files")
    expect(visit.page.locator("bdi.path").first).to_be_visible()
    assert sorted(visit.page.locator("bdi.path").all_inner_texts()) == sorted(names.values())


def test_a_long_change_among_others_has_no_bar_of_its_own(visit: Any, agent: Any) -> None:
    long = [f"{n}\n" for n in range(600)]
    agent.files.write("long.txt", "".join(long))
    agent.snapshot("before")
    agent.files.write("long.txt", "".join(f"x{each}" for each in long))
    page = visit.page
    visit.open("n", agent.name, "timeline?sel=now")
    for width in WIDTHS["wide"], WIDTHS["phone"]:
        page.set_viewport_size(width)
        visit.move(f"n/{agent.name}/timeline?sel=now")
        if width == WIDTHS["phone"]:
            page.get_by_label("Details").get_by_role("button", name="long.txt").click()
        expect(page.get_by_label("Changes of long.txt")).to_be_visible()
        assert page.evaluate(SCROLLED) == ["pane"]
        page.get_by_role("link", name="All on a page").click()
        expect(page.get_by_role("region", name="The change")).to_contain_text("long.txt")


def test_a_moment_is_found_by_words_actor_kind_and_path(
    visit: Any, agent: Any, server: Server
) -> None:
    agent.files.write("src/cart.py", "1")
    first = agent.snapshot("the first of all")
    with holdfast.AdminClient(server.admin_key, url=server.url) as boss:
        mira = boss.create_key("Mira", namespace=agent.name)
    with holdfast.Client(mira.api_key, url=server.url) as other:
        other.files.write("notes.md", "1")
        other.snapshot("what Mira did")
    agent.files.write("src/cart.py", "2")
    agent.snapshot("another cart")
    agent.restore(first)
    visit.open("n", agent.name, "timeline")
    page = visit.page
    rows = page.get_by_label("What was found").get_by_role("option").locator(".title")
    box = page.get_by_role("searchbox", name="Search the timeline")
    for typed, found in [
        ("first of", ["the first of all"]),
        ("actor:Mira", ["what Mira did"]),
        ("kind:restore", ["Went back to #1"]),
        ("path:src/cart.py", ["Went back to #1", "another cart", "the first of all"]),
        ("path:src/cart.py another", ["another cart"]),
        ("nothing is called so", []),
    ]:
        box.fill(typed)
        expect(page.get_by_role("status").filter(has_text=f"{len(found)} found")).to_be_visible()
        expect(rows).to_have_text(found)


def test_one_key_of_the_store_comes_back(visit: Any, agent: Any) -> None:
    agent.store.set("state", "plan", {"step": 1, "of": [{"name": n} for n in range(200)]})
    agent.store.set("state", "other", 1)
    agent.store.set("", "", "a key without a name")
    first = agent.snapshot("well")
    agent.store.set("state", "plan", {"step": 2})
    agent.store.set("state", "other", 2)
    agent.snapshot("worse")
    page = visit.page
    visit.open("n", agent.name, "store")
    page.get_by_role("link", name="without a name").click()
    page.get_by_label("Keys of").get_by_role("link", name="without a name").click()
    expect(page.get_by_label("Value of /")).to_contain_text("a key without a name")
    page.get_by_role("navigation", name="Store").get_by_role("link", name="Store").click()
    page.get_by_role("link", name="state").click()
    page.get_by_role("link", name="plan").click()
    value = page.get_by_label("Value of state/plan")
    expect(value).to_contain_text("step2")
    page.get_by_role("button", name="At now").click()
    page.get_by_label("Number or words").fill("#1")
    page.get_by_role("button", name="#1 well").click()
    expect(value).to_contain_text("step1")
    value.get_by_role("button", name="200 items").click()
    expect(value.get_by_role("button", name="1 key").first).to_be_visible()
    assert value.get_by_role("button").count() < 100
    page.get_by_role("link", name="History", exact=True).click()
    page.locator(".steps > li").last.get_by_role("button").first.click()
    page.get_by_role("link", name="Bring back this version…").click()
    expect(page.locator(".sums")).to_have_text("0 come back 1 changes 0 go away")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="1 change, verified.")).to_be_visible()
    assert agent.store.get("state", "plan")["step"] == 1
    assert agent.store.get("state", "other") == 2
    assert first.number == 1


def test_a_task_is_taken_back_alone_and_what_others_did_stays(visit: Any, agent: Any) -> None:
    agent.files.write("a.txt", "1\n")
    agent.files.write("b.txt", "1\n")
    page = visit.page
    visit.open("n", agent.name, "tasks")
    expect(page.get_by_text("No tasks yet")).to_be_visible()
    with agent.task("Mend <b>it</b>"):
        agent.files.write("a.txt", "2\n")
        agent.files.write("b.txt", "2\n")
        # It shows while it runs.
        line = page.get_by_label("Tasks, newest first").get_by_role("link", name="Mend")
        expect(line).to_contain_text("running")
        undo = page.get_by_role("button", name="Undo this task…")
        expect(undo).to_have_attribute("aria-disabled", "true")
    expect(line).to_contain_text("finished")
    expect(page.get_by_label("Changes of a.txt")).to_contain_text("2")
    agent.files.write("a.txt", "others\n")
    agent.snapshot("others")
    undo.click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("Others changed the same since: nothing was taken back.")
    expect(alert.get_by_role("listitem")).to_have_text("Files: a.txt")
    assert agent.files.read("b.txt") == b"2\n"
    page.get_by_role("link", name="Leave theirs, take the rest back…").click()
    expect(page.get_by_text("1 thing stays as others made it:")).to_be_visible()
    expect(page.locator(".sums")).to_have_text("0 come back 1 changes 0 go away")
    agent.files.write("a.txt", "2\n")
    page.keyboard.press("Control+Enter")
    expect(alert).to_contain_text("Something changed since you looked.")
    expect(page.locator(".sums")).to_have_text("0 come back 2 change 0 go away")
    # Whoever goes on writing keeps nobody from it, and keeps what is theirs.
    agent.files.write("a.txt", "others\n")
    page.get_by_role("button", name="Undo all the same").click()
    said = page.get_by_role("status").filter(has_text="Undone, all the same: 1 change, verified.")
    expect(said).to_be_visible()
    assert agent.files.read("a.txt") == b"others\n"
    assert agent.files.read("b.txt") == b"1\n"
    said.get_by_role("button", name="Redo").click()
    expect(page.get_by_role("status").filter(has_text="Done again")).to_be_visible()
    assert agent.files.read("b.txt") == b"2\n"
    # Where others changed all of it, there is no rest to offer.
    agent.files.write("b.txt", "others\n")
    visit.move(f"n/{agent.name}/undo/{agent.tasks.list()[0].id}")
    expect(alert).to_contain_text("Nothing else of it is left to take back.")
    expect(page.get_by_role("link", name="Go back before it all the same…")).to_be_visible()
    expect(page.get_by_role("link", name="Leave theirs")).to_have_count(0)


def test_a_far_jump_asks_for_what_is_there_and_not_for_all_before_it(
    visit: Any, agent: Any, lengthen: Callable[[Any, int], list[int]]
) -> None:
    agent.snapshot("moment")
    page = visit.page
    asked = lengthen(page, ROWS)
    visit.open("n", agent.name, "timeline")
    visit.row(f"moment {ROWS}").wait_for()
    begun = len(asked)
    page.get_by_role("listbox").evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    visit.row("moment 5").wait_for()
    # The place itself comes first; what is between follows, and moves nothing.
    assert min(asked[begun : begun + 2]) < ROWS * 0.6, asked
    seen = page.get_by_role("option", name=re.compile("moment 5|moment 4")).nth(20)
    name, place = seen.inner_text(), seen.bounding_box()["y"]
    page.wait_for_function(
        """async () => {
          const main = document.querySelector("script[type=module]").src;
          const { timeline } = await import(main.replace("main.js", "state.js"));
          return timeline.value.rows.length > 5000 && !timeline.value.loading;
        }"""
    )
    moved = page.get_by_role("option").filter(has_text=name.split("\n")[1]).first
    assert moved.bounding_box()["y"] == pytest.approx(place, abs=1)


# Whoever would like to mislead them

HOSTILE = (
    '"><img src=x onerror=alert(1)>',
    "<script>alert(1)<script>",
    "javascript:alert(1)",
    "new\nline\x1b[2J",
    "\u202egnp.exe\u202c \u200b",
    "constructor",
    "__proto__",
    "%2e%2e%2f?at=x&path=y#z",
    "W" * 250,
)


@pytest.fixture(scope="module")
def odd(server: Server) -> dict[str, str]:
    """A namespace of which every name misleads: where each screen is."""
    with holdfast.Client(server.api_key, url=server.url, namespace="odd") as agent:
        for name in HOSTILE:
            agent.files.write(f"{name}/{name}", f"{name}\n")
            agent.store.set(name, name, {name: [name, {name: 1}], "list": [*range(300)]})
        agent.files.write("/".join(["deep" * 10] * 60), "deep\n")
        first = agent.snapshot(HOSTILE[0])
        with agent.task(HOSTILE[1]):
            for name in HOSTILE:
                agent.files.write(f"{name}/{name}", f"{name}\nmore\n")
                agent.store.set(name, name, 2)
        agent.files.write(f"{HOSTILE[0]}/{HOSTILE[0]}", "others\n")
        task = agent.tasks.list()[0].id
    place, bad = "n/odd", HOSTILE[0].replace("<", "%3C").replace('"', "%22").replace(">", "%3E")
    key = f'["{HOSTILE[1]}","{HOSTILE[1]}"]'
    return {
        "files": f"{place}/files",
        "file": f"{place}/files?path={bad}/{bad}",
        "file then": f"{place}/files?path={bad}/{bad}&at={first.id}",
        "history": f"{place}/files?path={bad}/{bad}&show=history",
        "find": f"{place}/files?find=constructor",
        "no such file": f"{place}/files?path=nothing",
        "no such moment": f"{place}/files?at=nothing",
        "store": f"{place}/store?key={key}",
        "store then": f"{place}/store?key={key}&at={first.id}",
        "history of a key": f"{place}/store?key={key}&show=history",
        "no key": f"{place}/store?key=%5B1",
        "tasks": f"{place}/tasks?sel={task}",
        "no such task": f"{place}/tasks?sel=nothing",
        "undo": f"{place}/undo/{task}?keep=theirs",
        "conflict": f"{place}/undo/{task}",
        "one back": f'{place}/goback/{first.id}?only={{"plane":"files","name":"{bad}/{bad}"}}',
        "nothing yet": "n/nobody/files",
    }


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [*WIDTHS])
def test_every_screen_is_for_everybody_whatever_the_names_say(
    visits: Callable[..., Any], signed_in: Any, odd: dict[str, str], theme: str, width: str
) -> None:
    visit = visits(storage_state=signed_in, viewport=WIDTHS[width], color_scheme=theme)
    visit.open()
    found: dict[str, list[str]] = {}
    for screen, path in odd.items():
        visit.move(path)
        opened = visit.page.locator(".steps button").first
        if screen.startswith("history"):
            opened.click()
            visit.page.locator(".in-place .code").wait_for()
        if width != "narrowest":
            found[screen] = visit.violations()
        assert visit.page.evaluate("document.querySelectorAll('*').length") < MOST_ELEMENTS
        assert visit.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), screen
    assert {screen: each for screen, each in found.items() if each} == {}


def test_every_odd_name_leads_to_what_it_names(visit: Any, odd: dict[str, str]) -> None:
    visit.open(odd["files"])
    page = visit.page
    folders = page.get_by_label("Files in the root").get_by_role("link")
    expect(folders).to_have_count(len(HOSTILE) + 1)
    for index in range(len(HOSTILE) + 1):
        folders.nth(index).click()
        inside = page.locator(".links").get_by_role("link")
        expect(inside).to_have_count(2)
        inside.nth(1).click()
        if "deep" not in page.url:
            expect(page.get_by_role("region", name="Content of")).to_be_visible()
        visit.move(odd["files"])
    visit.move("n/odd/store")
    spaces = page.get_by_label("Namespaces of the store").get_by_role("link")
    expect(spaces).to_have_count(len(HOSTILE))
    for index in range(len(HOSTILE)):
        spaces.nth(index).click()
        page.locator(".links").get_by_role("link").nth(1).click()
        expect(page.get_by_role("region", name="Value of")).to_have_text("2")
        visit.move("n/odd/store")
    visit.check()

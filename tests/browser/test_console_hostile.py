"""One list of hostile texts, written wherever others can write, and looked at on every screen.

Nothing of it may open a dialog, ask anything of another host, meet the page's policy or make an
error: every visit is watched for that. Every text ends with a number, by which it is seen that it
was on the screen at all.
"""

import re
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import holdfast
from holdfast.testing.servers import Server

EVIL = "http://evil.example/"
TEXTS = (
    # Markup that runs, in text, in an attribute, in what is read in another way.
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><script>alert(1)</script>',
    "'><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<math><mtext><style><img src=x onerror=alert(1)></style>",
    "<body onload=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<object data='javascript:alert(1)'>",
    "<embed src='data:text/html,<script>alert(1)</script>'>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "<textarea autofocus onfocus=alert(1)>",
    "</textarea></title></style><script>alert(1)</script>",
    '" autofocus onfocus=alert(1) x="',
    "' style='animation:x' onanimationstart='alert(1)",
    "--><script>alert(1)</script><!--",
    "]]><script>alert(1)</script>",
    "<ScRiPt\x0c>alert(1)</ScRiPt>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#x3c;img src=x onerror=alert(1)&#x3e;",
    # What calls out, or changes where the page stands.
    f"<img src={EVIL}>",
    f"<a href='{EVIL}' ping='{EVIL}'>x</a>",
    f"<base href={EVIL}>",
    f"<link rel=stylesheet href={EVIL}>",
    f"<style>@import '{EVIL}'</style>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<form action={EVIL}><button>Sign in</button></form>",
    f"![x]({EVIL}) [y](javascript:alert(1))",
    EVIL,
    "//evil.example/x",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    # What templates, shells, patterns and paths read.
    "${alert(1)}",
    "{{constructor.constructor('alert(1)')()}}",
    "<%= alert(1) %>",
    "`alert(1)`",
    "$(touch /tmp/x); rm -rf .",
    "'; DROP TABLE snapshots; --",
    "../../../etc/passwd",
    "%2e%2e%2f?at=now&path=x#link=y",
    "*[a-z]?{x,y}",
    "path:x kind:restore actor:y",
    # Names that objects have already.
    "__proto__",
    "constructor",
    "toString",
    # What cannot be seen, turns text around, moves a cursor, or never ends.
    "\u202egnp.exe\u202c",
    "\u2066x\u2069\u200b\ufeff",
    "\x1b[2J\x1b]0;owned\x07",
    "two\nlines\r\n+++ b/x\n@@ -1 +1 @@",
    "Z\u0351\u036b" + "\u0343" * 40,
    "\ufdfa" * 20,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "W" * 70,
)
SPACE = "hostile<i>"
PLACE = f"n/{quote(SPACE, safe='')}"

SCROLL = """async () => {
  const rest = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)));
  const seen = {};
  const note = () => {
    for (const name of ["body", ".versions", ".state", ".said"])
      seen[name] = (seen[name] ?? "") + (document.querySelector(name)?.textContent ?? "");
  };
  note();
  for (const box of document.querySelectorAll("main *"))
    while (box.isConnected && box.clientHeight > 40 && getComputedStyle(box).overflowY === "auto"
        && box.scrollTop + box.clientHeight < box.scrollHeight - 1) {
      const before = box.scrollTop;
      box.scrollTop += box.clientHeight;
      await rest();
      note();
      if (box.scrollTop === before) break;
    }
  return seen;
}"""
"""Looks at all of a screen, in every part of it that scrolls, and returns what could be read."""


def numbered(most: int = 120) -> list[str]:
    return [f"{text[:most]}~{number:02}" for number, text in enumerate(TEXTS)]


def missing(seen: str) -> set[int]:
    return {*range(len(TEXTS))} - {int(each) for each in re.findall(r"~(\d\d)", seen)}


def visible(text: str) -> str:
    """Where one line of what can be seen is asked for, others write that."""
    return re.sub(r"[\x00-\x1f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", " ", text)


@pytest.fixture(scope="module")
def places(server: Server) -> dict[str, str]:
    """Where each screen is, after everything was written that can be."""
    names = numbered()
    with (
        holdfast.Client(server.api_key, url=server.url, namespace=SPACE) as agent,
        holdfast.AdminClient(server.admin_key, url=server.url) as admin,
    ):
        agent.files.write_many((each.replace("/", "\\"), each.encode()) for each in names)
        agent.store.set_many([(each, each, {each: [each]}) for each in names])
        agent.store.set("all", "all", {each: {each: each} for each in names})
        first = agent.snapshot("first")
        everything = "\n".join(names)
        for kind in ("html", "svg", "md", "py"):
            agent.files.write(f"all.{kind}", everything)
        for each in names:
            with agent.task(each):
                agent.snapshot(each, reason=each, metadata={"why": each})
        made = agent.sessions.create(
            names[0], user_id=names[1], initial_state=dict.fromkeys(names, names)
        )
        for one, two in zip(names[::2], names[1::2], strict=True):
            agent.sessions.update_state(made.id, {one: two}, reasoning=f"{one}\n{two}")
            agent.sessions.add_turn(made.id, one, {"type": one, "content": two})
            agent.memory.add(one, session_id=made.id, tags=[visible(two)[:40]])
        keys = [admin.create_key(visible(each)[-100:], namespace=SPACE) for each in names]
        with holdfast.Client(keys[4].api_key, url=server.url, namespace=SPACE) as other:
            task = other.tasks.start(names[4], metadata=dict.fromkeys(names, names[5])).id
            other.snapshot(names[5])
        hook = admin.create_webhook(f"https://example.invalid/?{quote(names[0])}")
    key = quote('["all","all"]')
    return {
        "namespaces": "",
        "timeline": f"{PLACE}/timeline",
        "search": f"{PLACE}/timeline?q={quote(names[0])}",
        "compare": f"{PLACE}/compare/{first.id}...now",
        "go back": f"{PLACE}/goback/{first.id}",
        "files": f"{PLACE}/files",
        **{kind: f"{PLACE}/files?path=all.{kind}" for kind in ("html", "svg", "md", "py")},
        "history": f"{PLACE}/files?path=all.html&show=history",
        "store": f"{PLACE}/store",
        "value": f"{PLACE}/store?key={key}",
        "tasks": f"{PLACE}/tasks?sel={task}",
        "undo": f"{PLACE}/undo/{task}",
        "sessions": f"{PLACE}/sessions",
        "session": f"{PLACE}/sessions/{made.id}?v=0",
        "compared": f"{PLACE}/sessions/{made.id}?v=9&with=0",
        **{
            part: f"operations/{part}?in={quote(SPACE)}"
            for part in ("health", "storage", "schedules", "retention", "deleted", "audit")
        },
        "keys": "operations/keys",
        "webhooks": "operations/webhooks",
        "webhook": f"operations/webhooks/{hook.webhook_id}",
    }


EVERYTHING = {
    "timeline": ("body",),
    "go back": ("body",),
    "files": ("body",),
    "html": ("body",),
    "svg": ("body",),
    "store": ("body",),
    "value": ("body",),
    "tasks": ("body",),
    "session": (".versions", ".state", ".said"),
    "keys": ("body",),
}
"""Where every text is on a screen, and in which parts of it."""


def test_nothing_that_others_wrote_runs_calls_out_or_hides(
    visit: Any, places: dict[str, str], server: Server
) -> None:
    visit.open()
    unseen = {}
    for screen, path in places.items():
        visit.move(path)
        seen = visit.page.evaluate(SCROLL)
        for part in EVERYTHING.get(screen, ()):
            unseen[screen, part] = missing(seen[part])
        visit.check()
    assert {where: each for where, each in unseen.items() if each} == {}
    # What cannot be seen, or turns text around, is shown as marks.
    visit.move(f"{PLACE}/files?path=all.html")
    assert visit.page.locator(".mark", has_text="U+202E").first.is_visible()
    for each in (visible(numbered()[0]), visible(numbered()[26])):
        asked = httpx.post(
            f"{server.url}/v1/auth/device/start", json={"client": each}, trust_env=False
        )
        visit.open()
        visit.page.goto(asked.raise_for_status().json()["verification_uri_complete"])
        visit.page.locator(".facts-list", has_text=each[-3:]).wait_for()

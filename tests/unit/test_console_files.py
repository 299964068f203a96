"""The console's files: what may stand in them, what they weigh, and where others' are from."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
STATIC = Path(holdfast.__file__).with_name("console") / "static"
VENDORED = (STATIC / "vendor", ROOT / "tests" / "browser" / "vendor")
OURS = sorted((STATIC / "js").glob("*.js"))

SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|srcdoc"
    r"|createContextualFragment|DOMParser|\beval\b|new Function|javascript:"
    r"|\bstyle=[\"']|\bon\w+=[\"']"
)
"""Ways in which a text becomes something that runs, or that the page's policy would stop."""

HREF = re.compile(r"\b(?:href|src|action|ping|formaction)=(.{0,60})")
OWN_HREF = re.compile(
    r"\$\{(?:state\.to\(|to\(|filesAt\(|storeAt\(|tasksAt\(|asked\.raw\(|namespaceOf\(namespace\)\.(?:raw|archive)\()"
)
"""What an address may be made by: none of it is anybody's text."""

MOST_MODULES = 8
MOST_REQUESTS = 10
MOST_FIRST_BYTES = 90_000
MOST_BYTES = 160_000
MOST_LINES = 500


def imports_of(path: Path) -> list[Path]:
    text = path.read_text("utf-8")
    return [
        (path.parent / name).resolve()
        for name in re.findall(r'^import .* from "(.+)";', text, re.MULTILINE)
    ]


def loaded_first() -> list[Path]:
    """Returns the modules that the page loads before it asks for anything."""
    found, left = list[Path](), [(STATIC / "js" / "main.js").resolve()]
    while left:
        path = left.pop()
        if path not in found:
            found.append(path)
            left += imports_of(path)
    return sorted(found)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_no_text_becomes_anything_but_text(path: Path) -> None:
    text = path.read_text("utf-8")
    assert SINKS.findall(text) == []
    assert [each for each in HREF.findall(text) if not OWN_HREF.match(each)] == []
    assert "http:" not in text
    assert "https:" not in text
    assert text.count("\n") <= MOST_LINES


def test_the_page_holds_no_script_and_no_style_of_its_own() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert SINKS.findall(page) == []
    assert re.findall(r"<style|<script>|<script [^>]*></script>[^\n]", page) == []
    places = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert [each for each in places if not each.startswith("{{static}}/")] == ["{{base}}"]
    sheet = (STATIC / "app.css").read_text("utf-8")
    assert re.findall(r"url\(|@import", sheet) == []


def test_what_is_loaded_first_is_little_and_asked_for_at_once() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    named = re.findall(r'(?:href|src)="\{\{static\}\}/([^"]*\.js)"', page)
    asked = {(STATIC / name).resolve() for name in named} - {(STATIC / "js" / "first.js").resolve()}
    assert asked == set(loaded_first())
    assert len(asked) <= MOST_MODULES
    first = [*asked, STATIC / "js" / "first.js", STATIC / "app.css", STATIC / "index.html"]
    assert len(first) <= MOST_REQUESTS
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in first}
    print(sizes)  # noqa: T201 - shown with `-s`, and where it fails
    assert sum(sizes.values()) <= MOST_FIRST_BYTES
    every = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in every) <= MOST_BYTES


@pytest.mark.parametrize("folder", VENDORED, ids=lambda path: path.parent.name)
def test_what_others_wrote_is_what_it_was_when_it_was_taken(folder: Path) -> None:
    told = json.loads((folder / "VENDORED.json").read_text("utf-8"))
    hashes = {each["file"]: each["sha256"] for each in told}
    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.js")
    }
    assert there == hashes
    notice = (ROOT / "NOTICE").read_text("utf-8").lower()
    for part in (part for each in told for part in each["parts"]):
        assert part["source"].startswith("https://github.com/")
        assert part["licence"] in {"MIT", "BSD-3-Clause", "Apache-2.0", "MPL-2.0"}
        assert part["version"] in notice or (folder / "LICENSE").exists()

"""Keeps the site whole: it is built without a warning, works offline, and has everything.

The pages that are made from code are asked for what the code has: every public class with all of
its methods, every route with all of its parameters.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from holdfast_docs import classes, routes
from holdfast_docs.blocks import DOCS, ROOT
from holdfast_docs.members import member_of, members_of

import holdfast

MADE = dict(classes.written())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    target = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
    ]  # `--quiet` would let warnings pass
    done = subprocess.run(
        [*command, "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return routes.describe()


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert [page.as_posix() for page in pages if not (site / page).exists()] == []
    index = (site / "index.html").read_text("utf-8")
    decisions = [page.stem for page in DOCS.glob("adr/*.md")]
    assert [name for name in decisions if f"adr/{name}.html" not in index] == []


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*href="https?://'
    )
    found = [page.name for page in site.rglob("*.html") if loads.search(page.read_text("utf-8"))]
    assert found == []


def test_the_site_can_be_searched(site: Path) -> None:
    assert "safety snapshot" in (site / "search" / "search_index.json").read_text("utf-8")


def test_the_description_of_the_routes_can_be_had(site: Path, described: dict[str, Any]) -> None:
    found = json.loads((site / "reference" / "openapi.json").read_text("utf-8"))
    assert found["paths"].keys() == described["paths"].keys()


def test_words_for_tests_are_not_shown(site: Path) -> None:
    page = (site / "howto" / "before-a-risky-step.html").read_text("utf-8")
    assert "head_moved" in page
    assert "```" not in page
    assert "text output" not in page


THINGS = [thing for topic in classes.TOPICS for thing in topic.things]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: thing.title)
def test_every_public_method_is_on_a_page_that_is_made(thing: classes.Thing) -> None:
    topic = next(topic for topic in classes.TOPICS if thing in topic.things)
    _, _, rest = MADE[topic.path].partition(f"\n## {thing.title}\n")
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    for place in filter(None, (thing.embedded, thing.remote)):
        members = members_of(classes.load(place))
        assert members
        assert [each.name for each in members if f"### `{each.name}`\n" not in section] == []


def test_every_public_name_is_on_a_page_that_is_made() -> None:
    shown = {kind.__name__ for kind in classes.shown_elsewhere()}
    shown |= set(re.findall(r"^## (\w+)$", MADE["reference/api/values.md"], re.MULTILINE))
    shown |= set(re.findall(r"^### `holdfast\.(\w+)`$", "".join(MADE.values()), re.MULTILINE))
    assert sorted(set(holdfast.__all__) - shown) == []


def test_every_route_and_parameter_is_on_a_page_that_is_made(described: dict[str, Any]) -> None:
    made = dict(routes.written(described))
    page = made[routes.PATH]
    assert len(list(routes.operations(described))) > 100
    for method, path, operation in routes.operations(described):
        _, found, rest = page.partition(f"### `{method} {path}`\n")
        assert found, f"{method} {path}"
        section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
        names = [each["name"] for each in operation.get("parameters", [])]
        assert [name for name in names if f"| `{name}` |" not in section] == []
    shapes = made[routes.SHAPES]
    links = re.findall(r"http-shapes\.md#(\w+)", page + shapes)
    titles = {title.lower() for title in re.findall(r"^## `(\w+)`$", shapes, re.MULTILINE)}
    assert set(links) <= titles


def test_a_signature_is_shown_as_one_calls_it() -> None:
    def find(self: object, name: str, *, limit: "int | None" = 20) -> "list[str]":
        raise NotImplementedError

    shown = member_of("find", find).signature
    assert shown == "find(name: str, *, limit: int | None = 20) -> list[str]"


def test_no_signature_shows_how_calls_are_described() -> None:
    machinery = re.compile(
        r"\bCall\b|\bSteps\b|\bPages\b|\bFeed\b|~|\bself\b|NoneType|Optional\[|<\w"
    )
    blocks = re.findall(
        r"```python\n(.*?)```|^- `(.*?)`:", "".join(MADE.values()), re.DOTALL | re.MULTILINE
    )
    shown = [line for pair in blocks for line in "".join(pair).splitlines()]
    assert len(shown) > 500
    assert [line for line in shown if machinery.search(line)] == []


def test_where_both_doors_are_the_same_the_page_says_it_once() -> None:
    _, _, rest = MADE["reference/api/operators.md"].partition("### `create`\n")
    section = rest.partition("### ")[0]
    assert "-> NewKey" in section
    assert "Over HTTP" not in section
    assert "\n## NewKey\n" in MADE["reference/api/values.md"]

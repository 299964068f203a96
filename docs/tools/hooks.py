"""What mkdocs does besides: adds the pages that are made from code, and brings in the README.

The pages under `docs` are written for people who read them where the code is. On the site some
things are elsewhere: the README and its neighbours get pages of their own, sources of examples
too, and the words behind a fence that only tests understand are taken off.
"""

import os
import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import Any, Final, cast

from holdfast_docs import classes, routes
from holdfast_docs.blocks import DOCS, ROOT, text_of
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

BROUGHT: Final = {
    "README.md": "project/readme.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "AGENTS.md": "project/working-on-this-code.md",
    "LICENSE": "project/license.md",
    "examples/README.md": "examples/index.md",
}
"""Pages from outside of `docs`, and where they are on the site."""

_LINK: Final = re.compile(r"(?<=\]\()([^)\s:#]+)(#[^)\s]*)?(?=\))")
_FENCE: Final = re.compile(r"^```(text|json) \w+$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists the decisions in the navigation: there is one more now and then."""
    # Ignored: mkdocs itself does not say what its navigation holds.
    nav = cast("list[dict[str, Any]]", config.nav)  # pyright: ignore[reportUnknownMemberType]
    for section in nav:
        if section == {"Decisions": "adr"}:
            section["Decisions"] = [f"adr/{page.name}" for page in sorted(DOCS.glob("adr/*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is made, and what is brought in."""
    made = {**dict(classes.written()), **dict(routes.written(routes.describe()))}
    for path, text in {**made, **brought(), **sources()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leads links out of `docs` to where their targets are on the site."""
    home = PurePosixPath(page.file.src_uri).parent
    return relinked(_FENCE.sub(r"```\1", markdown), Path("docs", home), home)


def brought() -> dict[str, str]:
    """Returns pages from outside of `docs`, with links that fit where they are on the site."""
    found: dict[str, str] = {}
    for origin, place in BROUGHT.items():
        path = ROOT / origin
        if not path.exists():
            continue
        text = text_of(path) if path.suffix else f"# License\n\n```\n{text_of(path)}```\n"
        found[place] = relinked(text, Path(origin).parent, PurePosixPath(place).parent)
    return found


def sources() -> dict[str, str]:
    """Returns a page for each example, with its source."""
    return {
        f"examples/{path.stem}.md": f"# {path.name}\n\n```python\n{text_of(path)}```\n"
        for path in sorted(ROOT.glob("examples/*.py"))
    }


def relinked(text: str, origin: Path, home: PurePosixPath) -> str:
    """Returns a page of `origin` for its place `home` on the site."""

    def lead(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(origin / found[1])).as_posix()
        placed = placed_at(target)
        return found[0] if placed is None else posixpath.relpath(placed, home) + (found[2] or "")

    return _LINK.sub(lead, text)


def placed_at(target: str) -> str | None:
    """Returns where a file of the project is on the site; None if it is not there."""
    if target in BROUGHT:
        return BROUGHT[target]
    if target.startswith("examples/") and target.endswith(".py"):
        return target.removesuffix(".py") + ".md"
    return target.removeprefix("docs/") if target.startswith("docs/") else None

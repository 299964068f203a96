"""Keeps the pages true: everything that they show is done, and comes out as they say.

What the word behind a fence means is in `holdfast_docs.blocks`; every block of the README, of
`docs` and of the examples' README is one of these, and none of them is only looked at:

- ```python is run. Blocks of one page share their names and run in order, in an empty directory
  of their own. Vaults and clients that are left open are closed afterwards.
- ```text output shows what the block before it prints, line by line. A line may hold `…`, which
  stands for anything: ids and times differ from run to run.
- ```console is a recording of a terminal, ```sh a script: both are typed, see
  `holdfast_docs.recordings`. After a command that fails, `echo $?` has to come next.
- ```json SHAPE is an answer: it has to fit the shape of that name in `/openapi.json`.
- ```toml is a file of settings: a server reads it, and finds nothing wrong.
- ```text figure is a drawing: it must not look like something to type.

A page that runs commands finds them turned on, where a sandbox can be had.
A page that shows ADK is passed over where that is not installed, as `dev` does without it.
A page whose blocks use the name `postgres_url` finds it defined: the URL of an empty database on
a real server. A page that names `HOLDFAST_URL`, or makes a client, finds a server of its own,
with the keys HOLDFAST_API_KEY and HOLDFAST_ADMIN_KEY.
"""

import argparse
import io
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from holdfast_docs import routes
from holdfast_docs.blocks import (
    DOCS,
    FENCE,
    KINDS,
    ROOT,
    Block,
    blocks_of,
    name_of,
    prose_of,
    text_of,
)
from holdfast_docs.recordings import (
    SCRIPT,
    Shell,
    Typed,
    follow,
    is_installable,
    play,
    recording_of,
    typed_in,
    typed_on,
)
from holdfast_docs.running import TYPED as TYPED_KINDS
from holdfast_docs.running import (
    check_json,
    check_output,
    only_near,
    python_of,
    run_block,
    run_page,
    served,
)

from holdfast.cli.app import Parser, load
from holdfast.cli.commands import COMMANDS
from holdfast.cli.console import Console
from holdfast.server.config import configure
from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import Begin

pytestmark = pytest.mark.in_memory

EXAMPLES = ROOT / "examples"
SHOWN = sorted([ROOT / "README.md", *DOCS.rglob("*.md"), *EXAMPLES.glob("*.md")])
"""Pages for users: every block of theirs is done."""
PAGES = sorted({*SHOWN, *ROOT.glob("*.md")})
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


def needs_postgres(page: Path) -> bool:
    return "postgres_url" in python_of(page)


# Blocks.


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_every_block_is_of_a_kind_that_is_done(page: Path) -> None:
    unknown = [block.place for block in blocks_of(page) if block.kind not in KINDS]
    assert unknown == [], f"say what they are, with one of {', '.join(KINDS)}"
    assert text_of(page).count("\n```") == 2 * len(blocks_of(page)), "a fence is not closed"


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_what_is_said_to_be_printed_follows_what_prints_it(page: Path) -> None:
    kinds = [block.kind for block in blocks_of(page)]
    pairs = zip(["", *kinds], kinds, strict=False)
    assert {before for before, kind in pairs if kind == "text output"} <= {"python"}


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_no_drawing_hides_something_to_type(page: Path) -> None:
    drawings = [block for block in blocks_of(page) if block.kind == "text figure"]
    assert [block.place for block in drawings if can_be_typed(block)] == []


def can_be_typed(drawing: Block) -> bool:
    typed = r"^\s*(?:[$>] |(?:holdfast|python|pip|make|curl|cd|git|export|import|from|def) )"
    return re.search(typed, drawing.text, re.MULTILINE) is not None


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return routes.describe()


@pytest.mark.parametrize(
    "block",
    [block for page in SHOWN for block in blocks_of(page) if block.kind == "json"],
    ids=lambda block: block.place,
)
def test_every_answer_that_is_shown_fits_its_shape(block: Block, described: dict[str, Any]) -> None:
    check_json(block, described)


def test_a_server_takes_every_file_of_settings_that_is_shown(tmp_path: Path) -> None:
    blocks = [block for page in SHOWN for block in blocks_of(page) if block.kind == "toml"]
    for block in blocks:
        (tmp_path / "shown.toml").write_text(block.text)
        configure({"HOLDFAST_CONFIG": str(tmp_path / "shown.toml"), "HOME": str(tmp_path)})
    assert blocks


WITH_CODE = [page for page in SHOWN if python_of(page)]


@pytest.mark.parametrize(
    "page", [page for page in WITH_CODE if not needs_postgres(page)], ids=name_of
)
def test_every_example_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: Begin
) -> None:
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(socket.socket, "connect", only_near(socket.socket.connect))
    if "google.adk" in python_of(page):
        pytest.importorskip("google.adk", reason="google-adk is not installed: make frameworks")
    if ".exec(" in python_of(page):
        if why_none() is not None:
            pytest.skip(why_none() or "")
        monkeypatch.setenv("HOLDFAST_EXEC", "1")
    with served(page, tmp_path, "python", begin=at_once) as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run_page(page)


@pytest.mark.parametrize("page", [page for page in WITH_CODE if needs_postgres(page)], ids=name_of)
def test_every_example_with_a_database_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, postgres_url=postgres_url)


def test_there_are_examples_to_run() -> None:
    pages = {name_of(page) for page in WITH_CODE}
    assert {"README.md", "docs/format.md", "docs/reference/embedded.md"} <= pages
    assert {"docs/reference/store.md", "docs/howto/keep-state.md"} <= pages
    assert len([page for page in WITH_CODE if page.parent.name == "howto"]) >= 15
    assert len([page for page in WITH_CODE if page.parent.name == "migrate"]) == 4
    assert len([page for page in WITH_CODE if page.parent.name == "tutorial"]) >= 3


# Recordings of a terminal.


TYPED = [page for page in SHOWN if typed_on(page)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.parametrize("page", TYPED, ids=name_of)
def test_every_recording_is_what_happens(
    page: Path, tmp_path: Path, warm: tuple[str, ...], at_once: Begin
) -> None:
    # What newcomers type first begins as it does for them.
    script = SCRIPT if page.parent.name == "tutorial" or page.parent == ROOT else Path(warm[0])
    with served(page, tmp_path, *TYPED_KINDS, begin=at_once) as variables:
        shell = Shell(tmp_path, script, **variables)
        if page.parent == EXAMPLES:
            (shell.cwd / "examples").symlink_to(EXAMPLES)
        try:
            play(typed_on(page), shell)
        finally:
            shell.close()


def test_there_are_recordings_to_play() -> None:
    names = {name_of(page) for page in TYPED}
    assert {"README.md", "docs/howto/undo-in-a-directory.md"} <= names
    typed = " ".join(typed.command for typed in recording_of(ROOT / "README.md"))
    first_minute = ("init", "status", "diff --stat", "undo", "redo", "log")
    assert [name for name in first_minute if f"holdfast {name}" not in typed] == []


def options_of(command: str) -> set[str]:
    console = Console(out=io.StringIO(), err=io.StringIO(), is_terminal=False, cwd="/", environ={})
    actions: list[argparse.Action] = Parser(command, console, load(command))._actions
    return {option for action in actions for option in action.option_strings}


def command_lines(page: Path) -> Iterator[str]:
    """Yields what a page tells people to type: in its text, and in blocks of any language."""
    yield from re.findall(r"`(holdfast [a-z-][^`\n]*)`", FENCE.sub("", text_of(page)))
    for block in blocks_of(page):
        yield from re.findall(r"^(?:\$ )?(holdfast [a-z-].*)$", block.text, re.MULTILINE)


def exists(line: str) -> bool:
    """Says whether a command line names a command and options that there are."""
    words = line.partition(" -- ")[0].split()[1:]
    named = [word for word in words if re.fullmatch(r"[a-z]+", word)][:1]
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    if not set(named) <= set(COMMANDS):
        return False
    return options <= options_of(named[0] if named else "version") | {"--version"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_and_options_that_pages_name_exist(page: Path) -> None:
    assert [line for line in command_lines(page) if not exists(line)] == []


# What holds for every page.


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, made as code hosts make them."""
    titles = [found[2].lower() for found in HEADING.finditer(prose_of(page))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(prose_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}"
        assert target.is_relative_to(ROOT), f"{name_of(page)} links out: {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{name_of(page)} links to {link}"


def test_every_page_can_be_reached_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        seen.add(page)
        links = [link.partition("#")[0] for link in LINK.findall(text_of(page))]
        found = {(page.parent / link).resolve() for link in links if link.endswith(".md")}
        todo += [target for target in found if target not in seen and target.is_relative_to(DOCS)]
    assert [name_of(page) for page in DOCS.rglob("*.md") if page not in seen] == []


def test_the_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    for page in PAGES:
        text = text_of(page)
        named = re.findall(r"^make (?:[A-Z]+=\S+ )*([a-z]+)", text, re.MULTILINE)
        named += re.findall(r"`make (?:[A-Z]+=\S+ )*([a-z]+)", text)
        assert set(named) <= targets, name_of(page)
    assert {"run", "test"} <= set(re.findall(r"\bmake (\w+)", text_of(ROOT / "README.md")))


# Generic on purpose: places on somebody's own machine, and credentials.
FORBIDDEN = {
    "a home directory": r"/(?:home|Users)/\w+|/root/|[A-Z]:\\Users",
    "a temporary path": r"/(?:tmp|var/folders)/\w+",
    "a mailbox": r"[\w.+-]+@[\w-]+\.[a-z]{2,}",
    "a private key": r"BEGIN [A-Z ]*PRIVATE KEY",
    "a password in a URL": r"\w+://[^\s:/@]+:[^\s:/@]+@",
    "a note to oneself": r"\b(?:TODO|FIXME|XXX|TBD)\b(?!\(#)",
    "a merge marker": r"^(?:<<<<<<<|>>>>>>>) ",
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_page_holds_what_belongs_to_one_machine(page: Path, what: str) -> None:
    found = re.search(FORBIDDEN[what], text_of(page), re.MULTILINE)
    assert found is None, f"{name_of(page)} holds {what}: {found[0]!r}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_line_holds_one_sentence(page: Path) -> None:
    # Tables and lists may hold several; running text may not, so that changes read well.
    prose = prose_of(page)
    for line in prose.splitlines():
        if re.match(r"\s*(?:[|#>*-]|\d+\.)", line):
            continue
        assert not re.search(r"[a-z`)][.!?] [A-Z]", line), f"{name_of(page)}: {line}"


@pytest.mark.parametrize("page", sorted((DOCS / "adr").glob("*.md")), ids=name_of)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    titles = [found[2] for found in HEADING.finditer(text_of(page)) if len(found[1]) == 2]
    assert titles == ["Situation", "Decision", "Rejected", "Consequences"]


# The checks above can fail.


def test_a_wrong_output_is_noticed() -> None:
    block = Block(ROOT / "README.md", 1, "text output", "one …\ntwo\n")
    check_output(block, "one and more\ntwo\n")
    for printed in ("one and more\n", "one and more\nthree\n", "one\ntwo\n"):
        with pytest.raises(AssertionError):
            check_output(block, printed)


def test_a_wrong_recording_is_noticed(shell: Shell) -> None:
    page = ROOT / "README.md"
    play(
        [Typed(page, 1, "cd ..; mkdir a"), Typed(page, 2, "pwd; ls", ["…", "a", "bin", "…", "…"])],
        shell,
    )
    play([Typed(page, 1, "holdfast status", ["…", "…"]), Typed(page, 2, "echo $?", ["3"])], shell)
    for wrong in (
        Typed(page, 1, "echo one", ["two"]),
        Typed(page, 1, "echo one"),
        Typed(page, 1, "true", ["one"]),
        Typed(page, 1, "holdfast status", ["…", "…"]),
    ):
        with pytest.raises(AssertionError):
            play([wrong], shell)


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert exists("holdfast run -m x -- make --keep-going")
    assert exists("holdfast --version")
    assert not exists("holdfast rewind")
    assert not exists("holdfast undo --all")
    assert any("holdfast watch" in line for line in command_lines(DOCS / "reference" / "cli.md"))


def test_a_recording_is_taken_apart_as_it_was_typed() -> None:
    text = "$ cat <<E\n> one\n> E\none\n> two\n$ true\n"
    typed = list(typed_in(Block(ROOT / "README.md", 7, "console", text)))
    assert [(each.line, each.command, each.shown) for each in typed] == [
        (7, "cat <<E\none\nE", ["one", "> two"]),
        (12, "true", []),
    ]


def test_an_example_that_raises_is_noticed() -> None:
    with pytest.raises(ZeroDivisionError):
        run_block(Block(ROOT / "README.md", 1, "python", "1 / 0"), {})


def test_a_line_of_a_script_that_cannot_be_followed_is_noticed(shell: Shell) -> None:
    page = ROOT / "README.md"
    for fine in ("make test", "pip install 'holdfast[server,postgres]'", "true"):
        follow(Typed(page, 1, fine, shown=None), shell)
    for wrong in ("make coffee", "pip install 'holdfast[coffee]'", "false", "holdfast serve -x"):
        with pytest.raises(AssertionError):
            follow(Typed(page, 1, wrong, shown=None), shell)
    assert not is_installable("pip install requests")


def test_a_wrong_answer_is_noticed(described: dict[str, Any]) -> None:
    page = ROOT / "README.md"
    check_json(Block(page, 1, "json LiveAnswer", "{}"), with_shape(described))
    for info, text in (("json", "{}"), ("json Nothing", "{}"), ("json LiveAnswer", '{"a": "b"}')):
        with pytest.raises((AssertionError, ValueError)):
            check_json(Block(page, 1, info, text), with_shape(described))


def with_shape(described: dict[str, Any]) -> dict[str, Any]:
    live = {"type": "object", "properties": {"a": {"type": "integer"}}}
    return {"components": {"schemas": {**described["components"]["schemas"], "LiveAnswer": live}}}


def test_to_speak_to_another_machine_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", only_near(socket.socket.connect))
    with pytest.raises(AssertionError, match="wants to speak"), socket.socket() as line:
        line.connect(("192.0.2.1", 80))


def test_a_drawing_that_can_be_typed_is_noticed() -> None:
    page = ROOT / "README.md"
    assert can_be_typed(Block(page, 1, "text figure", "one\n  holdfast init\n"))
    assert not can_be_typed(Block(page, 1, "text figure", "vault/\n  locks/   from here\n"))

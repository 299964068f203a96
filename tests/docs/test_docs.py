"""Keeps the words true: what the pages show runs, and what they list is what there is.

How the blocks of a page are run:

- Every block marked ```python is executed. Those of one page share their names and run in order,
  in an empty directory of their own. Vaults and clients that are left open are closed afterwards.
- A block marked ```text output shows what the block before it prints, line by line. A line may
  hold `…`, which stands for anything: ids and times differ from run to run.
- A page whose blocks use the name `postgres_url` finds it defined: the URL of an empty database
  on a real server.
- A block marked ```console is a recording of a terminal. Each line that begins with `$ ` is typed
  (lines that begin with `> ` go on with it), and the lines below it are what it prints, stderr
  too, with `…` as above. Those of one page are typed into one shell, which begins in an empty
  directory with a home and a vault of its own and has this environment's `holdfast` on its PATH.
  After a command that fails, `echo $?` has to come next: no failure goes unsaid.
- A page that names `HOLDFAST_URL` in a block that is run finds a server there, of its own, with the
  keys HOLDFAST_API_KEY and HOLDFAST_ADMIN_KEY.

Blocks in other languages (sh, sql, text) are not run; the commands that they name have to exist.
"""

import argparse
import contextlib
import dataclasses
import inspect
import io
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path

import pytest
from statebase import StateBase
from trove_sdk import TroveAdminClient, TroveClient

import holdfast
from holdfast import entries
from holdfast.cli.commands import COMMANDS
from holdfast.cli.console import Console
from holdfast.cli.parsing import Parser, load
from holdfast.engine.archives import tarread
from holdfast.engine.archives.transfer import Imported
from holdfast.engine.collect import Collected
from holdfast.engine.diff import Change, Changes
from holdfast.engine.editing import Files
from holdfast.engine.files import FileInfo
from holdfast.engine.memory import Memories
from holdfast.engine.merge import MergeResult
from holdfast.engine.restore import Restored
from holdfast.engine.sessions.reader import SessionsReader
from holdfast.engine.storeplane import Store
from holdfast.engine.traces import Traces
from holdfast.engine.verify import Fault, Verified
from holdfast.errors import HoldfastError
from holdfast.model import Size
from holdfast.store import Reader, interpreted
from holdfast.testing.servers import running_server

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


@dataclass
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    info: str
    text: str


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text("utf-8")


def blocks_of(page: Path) -> list[Block]:
    text = text_of(page)
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found[1].strip(), found[2])
        for found in FENCE.finditer(text)
    ]


def is_python(block: Block) -> bool:
    return block.info == "python"


def python_of(page: Path) -> str:
    return "".join(block.text for block in blocks_of(page) if is_python(block))


def needs_postgres(page: Path) -> bool:
    return "postgres_url" in python_of(page)


def run_page(page: Path, **given: object) -> None:
    space: dict[str, object] = {"__name__": "__main__", **given}
    printed = ""
    try:
        for block in blocks_of(page):
            if is_python(block):
                printed = run_block(block, space)
            elif block.info == "text output":
                check_output(block, printed)
    finally:
        for value in space.values():
            if isinstance(value, holdfast.Holdfast | TroveClient | TroveAdminClient | StateBase):
                value.close()


def run_block(block: Block, space: dict[str, object]) -> str:
    # Empty lines before it make tracebacks name the line of the page.
    source = "\n" * (block.line - 1) + block.text
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(source, str(block.page), "exec"), space)
    return output.getvalue()


def check_output(block: Block, printed: str) -> None:
    shown, found = block.text.splitlines(), printed.splitlines()
    assert len(shown) == len(found), f"{name_of(block.page)}:{block.line} printed:\n{printed}"
    for line, real in zip(shown, found, strict=True):
        pattern = ".+".join(re.escape(part) for part in line.rstrip().split("…"))
        assert re.fullmatch(pattern, real.rstrip()), f"{line!r} is shown, {real!r} was printed"


WITH_CODE = [page for page in PAGES if python_of(page)]


def needs_server(page: Path) -> bool:
    return any("HOLDFAST_URL" in b.text for b in blocks_of(page) if b.info in ("python", "console"))


@contextlib.contextmanager
def served(page: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Yields the variables that say where a page's server is; none for a page that needs none."""
    if not needs_server(page):
        yield {}
        return
    # Webhooks of examples lead to this machine.
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with running_server(folder / "server", environ=environ) as server:
        yield {
            "HOLDFAST_URL": server.url,
            "HOLDFAST_API_KEY": server.api_key,
            "HOLDFAST_ADMIN_KEY": server.admin_key,
        }


@pytest.mark.parametrize(
    "page", [page for page in WITH_CODE if not needs_postgres(page)], ids=name_of
)
def test_every_example_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with served(page, tmp_path) as variables:
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
    assert len([page for page in WITH_CODE if page.parent.name == "howto"]) >= 7


# Recordings of a terminal.


SCRIPT = Path(sys.executable).with_name("holdfast")
ENDED = b"-- that command ended with "


@dataclass
class Typed:
    """One command of a recording, and what the page says that it prints."""

    page: Path
    line: int
    command: str
    shown: list[str] = dataclasses.field(default_factory=list[str])


def typed_in(block: Block) -> Iterator[Typed]:
    typed: Typed | None = None
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            if typed is not None:
                yield typed
            typed = Typed(block.page, number, line[2:])
            continue
        assert typed is not None, f"{name_of(block.page)}:{number} begins without a command"
        if line.startswith("> ") and not typed.shown:
            typed.command += f"\n{line[2:]}"
        else:
            typed.shown.append(line)
    if typed is not None:
        yield typed


def recording_of(page: Path) -> list[Typed]:
    blocks = [block for block in blocks_of(page) if block.info == "console"]
    return [typed for block in blocks for typed in typed_in(block)]


class Shell:
    """A shell in an empty directory, of somebody who has never used holdfast before."""

    def __init__(self, folder: Path, **environ: str) -> None:
        places = {name: folder / name for name in ("home", "work", "bin")}
        for place in places.values():
            place.mkdir()
        put_script(places["bin"])
        self._process = subprocess.Popen(
            ["/bin/sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=places["work"],
            env={
                "PATH": f"{places['bin']}{os.pathsep}{os.defpath}",
                "HOME": str(places["home"]),
                "HOLDFAST_DATA": str(folder / "vault"),
                "LC_ALL": "C.UTF-8",
                **environ,
            },
        )

    def run(self, command: str) -> tuple[str, int]:
        """Types a command; returns what it printed and its exit code."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # Braces keep it in this shell, so that `cd` lasts, and its hands off what is typed next.
        told = f"printf '\\n{ENDED.decode()}%d\\n' $ended; (exit $ended)"
        stdin.write(f"{{ {command}\n}} </dev/null; ended=$?; {told}\n".encode())
        stdin.flush()
        printed = b""
        for line in stdout:
            if line.startswith(ENDED):
                return printed.removesuffix(b"\n").decode(), int(line.removeprefix(ENDED))
            printed += line
        pytest.fail(f"the shell ended: {printed.decode()}")

    def close(self) -> None:
        self._process.communicate()


def put_script(folder: Path) -> None:
    """Puts the environment's own `holdfast` on the PATH, and nothing else of it."""
    if SCRIPT.exists():
        (folder / "holdfast").symlink_to(SCRIPT)
        return
    # Before the environment has been installed anew there is the module that the script calls.
    script = folder / "holdfast"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m holdfast.cli.main "$@"\n')
    script.chmod(0o755)


def play(recording: list[Typed], shell: Shell) -> None:
    for place, typed in enumerate(recording):
        printed, code = shell.run(typed.command)
        told = "".join(f"{line}\n" for line in typed.shown)
        check_output(Block(typed.page, typed.line, "console", told), printed)
        next_one = recording[place + 1].command if place + 1 < len(recording) else ""
        is_said = code == 0 or next_one == "echo $?"
        assert is_said, f"{name_of(typed.page)}:{typed.line} ended with {code}"


RECORDED = [page for page in PAGES if recording_of(page)]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.parametrize("page", RECORDED, ids=name_of)
def test_every_recording_is_what_happens(page: Path, tmp_path: Path) -> None:
    with served(page, tmp_path) as variables:
        shell = Shell(tmp_path, **variables)
        try:
            play(recording_of(page), shell)
        finally:
            shell.close()


def test_there_are_recordings_to_play() -> None:
    names = {name_of(page) for page in RECORDED}
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


# The reference and the code name the same things.


def section_of(page: Path, title: str) -> str:
    """Returns what stands below a heading, up to the next one of its rank."""
    text = text_of(page)
    for found in HEADING.finditer(text):
        if found[2].strip("`") == title:
            later = (h for h in HEADING.finditer(text, found.end()) if len(h[1]) <= len(found[1]))
            return text[found.end() : next((h.start() for h in later), len(text))]
    pytest.fail(f"{name_of(page)} has no section {title!r}")


def public_names(kind: type) -> set[str]:
    names = {name for name in dir(kind) if not name.startswith("_")}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    return names - {"__init__"}


def rows_of(section: str) -> dict[str, str]:
    """Returns the rows of a section's tables by the name that they begin with."""
    rows = re.findall(r"^\| `\.?(\w+)[^|]*\|.*$", section, re.MULTILINE)
    lines = re.findall(r"^\| `\.?\w+[^|]*\|.*$", section, re.MULTILINE)
    return dict(zip(rows, lines, strict=True))


EMBEDDED = DOCS / "reference" / "embedded.md"

CLASSES: dict[str, tuple[type, set[str]]] = {
    # A class, and the public names that instances have besides.
    "Holdfast": (holdfast.Holdfast, set()),
    "TenantVault": (
        holdfast.TenantVault,
        {"traces", "keys", "events", "webhooks", "replies"},
    ),
    "Namespace": (
        holdfast.Namespace,
        {"files", "memory", "sessions", "store", "traces", "tasks", "schedules", "entities"},
    ),
    "Workspace": (holdfast.Workspace, {"namespace"}),
    "Status": (holdfast.Status, set()),
    "Coverage": (holdfast.Coverage, set()),
    "Omission": (holdfast.Omission, set()),
    "Attachment": (holdfast.Attachment, set()),
    "Moment": (holdfast.Moment, {"snapshot", "files", "store", "sessions"}),
    "Files": (Files, set()),
    "Store": (Store, set()),
    "SnapshotInfo": (holdfast.SnapshotInfo, set()),
    "Size": (Size, set()),
    "Changes": (Changes, set()),
    "Change": (Change, set()),
    "Restored": (Restored, set()),
    "MergeResult": (MergeResult, set()),
    "Imported": (Imported, set()),
    "FileInfo": (FileInfo, set()),
    "Verified": (Verified, set()),
    "Fault": (Fault, set()),
    "Collected": (Collected, set()),
    "Memories": (Memories, set()),
    "Memory": (holdfast.Memory, set()),
    "FoundMemory": (holdfast.FoundMemory, set()),
    "Embedder": (holdfast.Embedder, set()),
    "Traces": (Traces, set()),
    "TraceInfo": (holdfast.TraceInfo, set()),
    "AuditReport": (holdfast.AuditReport, set()),
    "AuditProblem": (holdfast.AuditProblem, set()),
    "Health": (holdfast.Health, set()),
    "Loop": (holdfast.Loop, set()),
    "Thresholds": (holdfast.Thresholds, set()),
    "Policy": (holdfast.Policy, set()),
    "Limits": (holdfast.Limits, set()),
}


@pytest.mark.parametrize("title", CLASSES)
def test_the_reference_names_every_public_method(title: str) -> None:
    kind, more = CLASSES[title]
    wanted = public_names(kind) | more
    if title == "Holdfast":  # What it has as the default tenant's vault is in that section.
        wanted -= public_names(holdfast.TenantVault)
    assert set(rows_of(section_of(EMBEDDED, title))) == wanted


@pytest.mark.parametrize(
    "title",
    ["Holdfast", "TenantVault", "Namespace", "Workspace", "Files", "Store", "Memories", "Traces"],
)
def test_the_reference_names_every_argument(title: str) -> None:
    kind, _ = CLASSES[title]
    missing: list[str] = []
    for name, row in rows_of(section_of(EMBEDDED, title)).items():
        member = inspect.getattr_static(kind, name, None)
        if inspect.isfunction(member):
            names = [each for each in inspect.signature(member).parameters if each != "self"]
            missing += [f"{name}({each})" for each in names if not re.search(rf"\b{each}\b", row)]
    assert missing == []


SESSIONS = DOCS / "reference" / "sessions.md"

DOORS: dict[str, type] = {"Sessions": holdfast.Sessions, "SessionsReader": SessionsReader}

VALUES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        holdfast.SessionInfo,
        holdfast.SessionContext,
        holdfast.State,
        holdfast.Version,
        holdfast.Turn,
        holdfast.StateDiff,
        holdfast.Lineage,
        holdfast.Task,
    )
}


@pytest.mark.parametrize("title", DOORS)
def test_the_reference_names_every_method_and_argument_of_sessions(title: str) -> None:
    rows = rows_of(section_of(SESSIONS, title))
    assert set(rows) == public_names(DOORS[title])
    missing: list[str] = []
    for name, row in rows.items():
        shown = set(re.findall(r"\w+", row.split("|")[1]))
        names = names_of_arguments(inspect.getattr_static(DOORS[title], name))
        missing += [f"{name}({each})" for each in names if each not in shown]
    assert missing == []


@pytest.mark.parametrize("title", VALUES)
def test_the_reference_names_every_field_of_what_sessions_return(title: str) -> None:
    first = re.findall(r"^\| (`[^|]*) \|", section_of(SESSIONS, title), re.MULTILINE)
    named = {name for cell in first for name in re.findall(r"`(\w+)`", cell)}
    assert named == public_names(VALUES[title])


def test_the_reference_names_every_kind_of_version_and_the_arguments_of_a_task() -> None:
    kinds = section_of(SESSIONS, "Version")
    assert [kind for kind in holdfast.VersionKind if f"`{kind}`" not in kinds] == []
    row = rows_of(section_of(SESSIONS, "Tasks"))["task"]
    missing = [name for name in names_of_arguments(holdfast.Namespace.task) if name not in row]
    assert missing == []


IN_PROCESS = DOCS / "reference" / "store.md"

STORES: dict[str, tuple[type, type, Callable[..., object] | None]] = {
    # A class; one with the same methods in Python, as compiled ones do not tell their arguments;
    # and what users make it with.
    "Store": (holdfast.Store, interpreted.Core, holdfast.Store.__init__),
    "Snapshot": (holdfast.Snapshot, interpreted.Snapshot, None),
    "Reader": (Reader, interpreted.Reader, None),
    "DurableStore": (holdfast.DurableStore, interpreted.Core, holdfast.Store.open),
}


def names_of_arguments(function: Callable[..., object] | None) -> list[str]:
    if not inspect.isfunction(function):
        return []
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("title", STORES)
def test_the_reference_names_every_public_method_of_the_in_process_store(title: str) -> None:
    kind, _, maker = STORES[title]
    wanted = public_names(kind)
    if title == "DurableStore":  # What it does as any other store does is in that section.
        wanted &= set(vars(kind))
    named = set(rows_of(section_of(IN_PROCESS, title)))
    assert named == wanted | set(names_of_arguments(maker))


@pytest.mark.parametrize("title", STORES)
def test_the_reference_names_every_argument_of_the_in_process_store(title: str) -> None:
    kind, twin, _ = STORES[title]
    missing: list[str] = []
    for name, row in rows_of(section_of(IN_PROCESS, title)).items():
        names = names_of_arguments(getattr(kind, name, None))
        names = names or names_of_arguments(getattr(twin, name, None))
        shown = set(re.findall(r"\w+", row.split("|")[1]))
        missing += [f"{name}({each})" for each in names if each not in shown]
    assert missing == []


@pytest.mark.parametrize("name", ["dumps", "loads"])
def test_the_reference_names_the_functions_of_the_codec(name: str) -> None:
    row = rows_of(section_of(IN_PROCESS, "Values"))[name]
    (argument,) = inspect.signature(getattr(holdfast, name)).parameters
    assert f"`{name}({argument})`" in row


def test_the_reference_names_every_exported_name() -> None:
    text = text_of(EMBEDDED)
    assert [name for name in holdfast.__all__ if f"`{name}`" not in text] == []
    (listed,) = re.findall(r"^`import holdfast` brings these names: (.*)$", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", listed)) == set(holdfast.__all__)


def test_the_reference_names_every_argument_of_open() -> None:
    section = section_of(EMBEDDED, "holdfast.open")
    names = inspect.signature(holdfast.open).parameters
    assert set(rows_of(section)) == set(names)


@pytest.mark.parametrize("kind", [holdfast.Kind, holdfast.Level, holdfast.Plane])
def test_the_reference_names_every_choice(kind: type[StrEnum]) -> None:
    assert set(rows_of(section_of(EMBEDDED, kind.__name__))) == set(kind)


def test_the_reference_states_the_limits() -> None:
    rows = rows_of(section_of(EMBEDDED, "Limits"))
    units = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "days": 1, "members": 1, "files": 1}
    for field in dataclasses.fields(holdfast.Limits):
        real = getattr(holdfast.Limits(), field.name)
        if real is None:
            assert "| None |" in rows[field.name]
            continue
        number, unit = re.findall(r"\| (\d+) (\w+) \|", rows[field.name])[0]
        assert int(number) * units[unit] == getattr(real, "days", real), field.name


# Errors.


ERRORS = DOCS / "reference" / "errors.md"


def every_error() -> Iterator[type[HoldfastError]]:
    todo: list[type[HoldfastError]] = [HoldfastError]
    while todo:
        kind = todo.pop()
        # What is elsewhere is for a door or the engine itself, and is private to it.
        if kind.__module__.startswith("holdfast.errors") and not kind.__name__.startswith("_"):
            yield kind
        todo += kind.__subclasses__()


def test_the_reference_names_every_error() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|.*$", text_of(ERRORS), re.MULTILINE)
    assert dict(rows) == {kind.__name__: kind.code for kind in every_error()}
    assert len(rows) == len(set(rows))


def test_the_reference_repeats_every_hint() -> None:
    text = text_of(ERRORS)
    assert [kind.__name__ for kind in every_error() if kind.hint not in text] == []


# The format.


def catalog_columns() -> Iterator[tuple[str, str]]:
    schema = resources.files("holdfast.catalog") / "sql" / "sqlite" / "schema.sql"
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema.read_text("utf-8"))
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        # Tables whose names begin so are SQLite's own, and those in which FTS5 keeps its index.
        names = [name for (name,) in tables if not name.startswith(("sqlite_", "memory_"))]
        for table in names:
            for column in connection.execute(f"PRAGMA table_info({table})"):
                yield table, column[1]


def test_the_format_names_every_column_of_the_catalog() -> None:
    page = DOCS / "format.md"
    missing = [
        f"{table}.{column}"
        for table, column in catalog_columns()
        if f"`{column}`" not in section_of(page, table)
    ]
    assert missing == []


def test_the_format_names_every_kind_of_entry() -> None:
    rows = re.findall(
        r"^\| (\d+) \| ([a-z, ]+) \| (.+) \|$", text_of(DOCS / "format.md"), re.MULTILINE
    )
    told = {int(tag): re.findall(r"`(\w+)`", fields) for tag, _, fields in rows}
    kinds = entries.Entry.__args__
    assert told == {kind.__struct_config__.tag: list(kind.__struct_fields__) for kind in kinds}


def test_the_format_names_every_record_that_archives_may_have() -> None:
    text = section_of(DOCS / "format.md", "Archives")
    assert [name for name in tarread._RECORDS if f"`{name.decode()}`" not in text] == []


# What holds for every page.


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, made as code hosts make them."""
    titles = [found[2].lower() for found in HEADING.finditer(FENCE.sub("", text_of(page)))]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", text_of(page))):
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
    prose = FENCE.sub("", text_of(page))
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

"""Keeps the reference true: what its pages list is what there is.

Tables written by hand say what each method, argument, field, error and limit means; here they
are compared with the code, name by name.
"""

import contextlib
import dataclasses
import inspect
import re
import sqlite3
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from holdfast_docs.blocks import DOCS, name_of, text_of

import holdfast
from holdfast import entries
from holdfast.catalog.tables import load_tables, newest_format
from holdfast.engine.archives import tarread
from holdfast.engine.archives.transfer import Imported
from holdfast.engine.audit.traces import Traces
from holdfast.engine.files.editing import Files
from holdfast.engine.memories import Memories
from holdfast.engine.memory.reader import MemoriesReader
from holdfast.engine.sessions.reader import SessionsReader
from holdfast.engine.store.plane import Store
from holdfast.errors import HoldfastError
from holdfast.model.basics import Size
from holdfast.model.changes import Change, Changes, MergeResult, Restored
from holdfast.model.files import FileInfo
from holdfast.model.upkeep import Collected, Fault, Verified
from holdfast.sdk.groups.operators import Keys, Logins, Namespaces, Webhooks
from holdfast.store import Reader, interpreted

HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)


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
    return names - {"__init__", "wire_shape", "ON_WIRE"}


def rows_of(section: str) -> dict[str, str]:
    """Returns the rows of a section's tables by the name that they begin with."""
    rows = re.findall(r"^\| `\.?(\w+)[^|]*\|.*$", section, re.MULTILINE)
    lines = re.findall(r"^\| `\.?\w+[^|]*\|.*$", section, re.MULTILINE)
    return dict(zip(rows, lines, strict=True))


EMBEDDED = DOCS / "reference" / "embedded.md"

CLASSES: dict[str, tuple[type, set[str]]] = {
    # A class, and the public names that instances have besides.
    "Holdfast": (holdfast.Holdfast, set()),
    "TenantVault": (holdfast.TenantVault, set()),
    "Namespace": (holdfast.Namespace, set()),
    "Workspace": (holdfast.Workspace, {"namespace", "on_recovery", "on_agreement"}),
    "Status": (holdfast.Status, set()),
    "Coverage": (holdfast.Coverage, set()),
    "Omission": (holdfast.Omission, set()),
    "Attachment": (holdfast.Attachment, set()),
    "Moment": (holdfast.Moment, {"snapshot", "files", "store", "sessions", "memory"}),
    "Files": (Files, set()),
    "Store": (Store, set()),
    "SnapshotInfo": (holdfast.SnapshotInfo, set()),
    "Size": (Size, set()),
    "Changes": (Changes, set()),
    "Change": (Change, set()),
    "Restored": (Restored, set()),
    "MergeResult": (MergeResult, set()),
    "Imported": (Imported, set()),
    "ImportedFiles": (holdfast.ImportedFiles, set()),
    "FileInfo": (FileInfo, set()),
    "Verified": (Verified, set()),
    "Fault": (Fault, set()),
    "Collected": (Collected, set()),
    "Memories": (Memories, set()),
    "MemoriesReader": (MemoriesReader, set()),
    "Memory": (holdfast.Memory, set()),
    "MemoryMatch": (holdfast.MemoryMatch, set()),
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
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


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
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for migration in load_tables("sqlite"):
            connection.executescript(";".join(migration.statements))
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        # Tables whose names begin so are SQLite's own, and those in which FTS5 keeps its index.
        names = [name for (name,) in tables if not name.startswith(("sqlite_", "memory_"))]
        for table in names:
            for column in connection.execute(f"PRAGMA table_info({table})"):
                yield table, column[1]


def test_the_format_names_the_newest_format_of_the_catalog() -> None:
    assert f"| catalog | {newest_format()} |" in text_of(DOCS / "format.md")


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


# The clients.


CLIENT = DOCS / "reference" / "client.md"


def test_the_reference_names_what_only_clients_have() -> None:
    embedded = public_names(holdfast.Namespace)
    only = {name for name in public_names(holdfast.Client) if name not in embedded}
    only |= {"snapshots", "events"}
    named = set(rows_of(section_of(CLIENT, "What only clients have")))
    assert named == only - {"sender", "above"}


def test_the_reference_says_what_clients_lack() -> None:
    # A client has them once it is made.
    made = {"name", "checkpointed", "files", "store", "sessions", "memory", "entities"}
    made |= {"traces", "tasks", "schedules", "git"}
    lacks = public_names(holdfast.Namespace) - public_names(holdfast.Client) - made
    text = section_of(CLIENT, "What only clients have")
    told = {"recover_snapshot", "deleted_snapshots", "retention", "quota"}  # "what recovers …"
    assert [name for name in lacks - told if f"`{name}`" not in text] == []


def test_the_reference_names_all_that_operators_can_do() -> None:
    section = section_of(CLIENT, "Operators")
    rows = rows_of(section)
    groups = {"keys", "logins", "webhooks", "namespaces", "erasures", "events"}
    assert set(rows) == (public_names(holdfast.AdminClient) | groups) - {"sender", "above"}
    missing: list[str] = []
    for name, row in rows.items():
        member = inspect.getattr_static(holdfast.AdminClient, name, None)
        function = getattr(member, "__wrapped__", member)
        missing += [f"{name}({each})" for each in names_of_arguments(function) if each not in row]
    assert missing == []


@pytest.mark.parametrize("name", ["keys", "logins", "webhooks", "namespaces"])
def test_the_reference_names_the_methods_of_operators_groups(name: str) -> None:
    row = rows_of(section_of(CLIENT, "Operators"))[name]
    kinds = {"keys": Keys, "logins": Logins, "webhooks": Webhooks, "namespaces": Namespaces}
    kind = kinds[name]
    assert [
        each for each in public_names(kind) - {"sender", "above"} if f"`{each}`" not in row
    ] == []


@pytest.mark.parametrize("client", [holdfast.Client, holdfast.AdminClient])
def test_the_reference_names_the_arguments_that_clients_are_made_with(client: type) -> None:
    rows = rows_of(section_of(CLIENT, "Making one"))
    assert set(names_of_arguments(client.__init__)) <= set(rows)


PAIRS = [
    (holdfast.Client, holdfast.AsyncClient),
    (holdfast.AdminClient, holdfast.AsyncAdminClient),
]


@pytest.mark.parametrize(("plain", "awaited"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_forms_of_a_client_have_the_same_names(plain: type, awaited: type) -> None:
    assert public_names(plain) == public_names(awaited)

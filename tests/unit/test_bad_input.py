"""What is refused: typed, explained, printable, and without a trace in the vault.

One vault for the whole module, because nothing here may change it: every case compares heads,
pending rows, timelines, packs and bytes from before with those from after.
"""

import io
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Holdfast, HoldfastError, Limits, Namespace, Policy, errors
from holdfast.engine.core.paths import MAX_NAME_BYTES
from holdfast.errors import (
    Conflict,
    InvalidName,
    InvalidPath,
    InvalidValue,
    MergeConflict,
    NamespaceExists,
    NamespaceNotFound,
    NotADirectory,
    NotAFile,
    NotFound,
    NothingToUndo,
    PathExists,
    PathNotFound,
    QuotaExceeded,
    SnapshotExpired,
    SnapshotNotFound,
    StorageFull,
    TooLarge,
    Unavailable,
    Unencodable,
)
from holdfast.model.files import MAX_PATH_BYTES
from holdfast.store.codec import DEEPEST
from holdfast.testing.postgres import PostgresServer

HOSTILE = "\x1b[31m\n\r\t\0\u202e\ud800'\"" + "x" * 10_000
"""What an attacker would have us print: escapes, line ends, reversed text, and far too much."""

LIMITS = Limits(value_bytes=1 << 20, file_bytes=1 << 20)


@dataclass
class Prepared:
    """A vault with something of everything in it."""

    vault: Holdfast
    alice: Namespace
    snapshot: str
    expired: str
    deleted: str
    bobs: str
    foreign: str

    @property
    def ghost(self) -> Namespace:
        return self.vault.namespace("ghost")

    def witness(self) -> list[Any]:
        """Returns every row and every blob, to compare."""
        context = self.vault._context
        with context.catalog.read() as rows:
            found: list[Any] = [rows.iter_tenants(), sorted(rows.pack_names())]
            for tenant in rows.iter_tenants():
                found += [rows.iter_heads(tenant.id), rows.iter_snapshots(tenant.id)]
                found += [rows.iter_packs(tenant.id), rows.stored_bytes(tenant.id)]
                found += [
                    sorted(rows.all_pending(h.namespace_id)) for h in rows.iter_heads(tenant.id)
                ]
        return [*found, sorted(context.blobs.iter_names())]


def prepare(vault: Holdfast, clock: list[datetime]) -> Prepared:
    alice = vault.namespace("alice")
    alice.files.write_many([("file", b"1"), ("dir/file", b"2"), ("big", b"3" * 300_000)])
    alice.files.mkdir("empty")
    alice.files.symlink("link", "file")
    deep = "/".join(["d" * 200] * 20)
    alice.files.write(f"deep/{deep}", b"4")
    alice.store.set("n", "k", [1])
    expired = alice.snapshot(expires_in=timedelta(hours=1))
    deleted = alice.snapshot()
    alice.files.write("file", b"5")
    snapshot = alice.snapshot()
    alice.delete_snapshot(deleted)
    alice.files.write("pending", b"6")
    bob = vault.namespace("bob")
    bob.files.write("file", b"7")
    bobs = bob.snapshot()
    fork = alice.fork("fork")
    fork.files.write("file", b"theirs")
    alice.files.write("file", b"ours")
    small = vault.namespace("small")
    small.files.write("file", b"8")
    small.set_quota(1000)
    other = vault.tenant("other")
    foreign = other.namespace("alice")
    foreign.files.write("file", b"9")
    foreign_snapshot = foreign.snapshot()
    poor = vault.tenant("poor")
    poor.namespace("alice").files.write("file", b"10")
    poor.set_quota(poor.stored_bytes() + 1000)
    clock[0] += timedelta(hours=2)
    return Prepared(vault, alice, snapshot.id, expired.id, deleted.id, bobs.id, foreign_snapshot.id)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def prepared(request: pytest.FixtureRequest, home: Path) -> Iterator[Prepared]:
    folder = home / request.param
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    server: PostgresServer | None = None
    location: str | Path = folder
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        database = server.create_database()
        location = server.dsn(database)
    with holdfast.open(
        location, objects=folder / "packs", clock=lambda: clock[0], limits=LIMITS
    ) as vault:
        yield prepare(vault, clock)
    if server is not None:
        server.drop_database(database)


def check(error: HoldfastError) -> None:
    """An error says what it is, what to do next, and nothing that a terminal would obey."""
    message = str(error)
    assert type(error).__module__ == errors.__name__
    assert error.code
    assert error.hint
    assert message
    assert message.isprintable()
    assert len(message) < 1000


Case = Callable[[Prepared], object]
Expected = type[HoldfastError] | tuple[type[HoldfastError], ...]


def refuse(prepared: Prepared, expected: Expected, *cases: Case) -> None:
    before = prepared.witness()
    for case in cases:
        with pytest.raises(expected) as refused:
            case(prepared)
        check(refused.value)
    assert prepared.witness() == before


def each(uses: dict[str, Callable[..., object]], *arguments: object) -> list[Case]:
    """Returns every use of a namespace, each with the same arguments."""
    return [lambda p, use=use: use(p.alice, *arguments) for use in uses.values()]


# Paths


BAD_PATHS: dict[str, str | bytes] = {
    "absolute": "/etc/passwd",
    "absolute bytes": b"/etc/passwd",
    "upwards": "../secret",
    "upwards inside": "a/../../secret",
    "upwards at the end": "a/..",
    "a dot inside": "a/./b",
    "an empty part": "a//b",
    "NUL": "a\0b",
    "NUL bytes": b"a\0b",
    "a long name": "x" * (MAX_NAME_BYTES + 1),
    "a long name of few characters": "é" * (MAX_NAME_BYTES // 2 + 1),
    "a long path": "/".join(["x" * 100] * 41)[: MAX_PATH_BYTES + 1],
    "half a character": "a\ud800",
    "hostile": HOSTILE,
}
PATH_USES: dict[str, Callable[[Namespace, Any], object]] = {
    "read": lambda ns, path: ns.files.read(path),
    "read_text": lambda ns, path: ns.files.read_text(path),
    "stream": lambda ns, path: ns.files.stream(path),
    "stat": lambda ns, path: ns.files.stat(path),
    "exists": lambda ns, path: ns.files.exists(path),
    "readlink": lambda ns, path: ns.files.readlink(path),
    "list": lambda ns, path: ns.files.list(path),
    "write": lambda ns, path: ns.files.write(path, b""),
    "write_many": lambda ns, path: ns.files.write_many([("fine", b""), (path, b"")]),
    "mkdir": lambda ns, path: ns.files.mkdir(path),
    "symlink": lambda ns, path: ns.files.symlink(path, "target"),
    "chmod": lambda ns, path: ns.files.chmod(path, 0o600),
    "move": lambda ns, path: ns.files.move(path, "elsewhere"),
    "move to": lambda ns, path: ns.files.move("file", path),
    "delete": lambda ns, path: ns.files.delete(path, recursive=True),
}


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_that_is_not_one_of_ours_is_refused_everywhere(
    prepared: Prepared, path: str
) -> None:
    refuse(prepared, InvalidPath, *each(PATH_USES, BAD_PATHS[path]))


@pytest.mark.parametrize("path", ["", ".", "dir/", b"", b"."])
def test_only_a_listing_may_name_the_root_or_end_with_a_slash(
    prepared: Prepared, path: str | bytes
) -> None:
    uses = {name: use for name, use in PATH_USES.items() if name != "list"}
    refuse(prepared, InvalidPath, *each(uses, path))
    assert prepared.alice.files.list(path)


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_restore_of_such_a_path_is_refused(prepared: Prepared, path: str) -> None:
    bad: Any = BAD_PATHS[path]
    if isinstance(bad, str):
        refuse(
            prepared,
            InvalidPath,
            lambda p: p.alice.restore(p.snapshot, paths=[bad]),
            lambda p: p.alice.restore(p.snapshot, paths=["dir", bad], dry_run=True),
        )


def test_the_longest_path_and_name_are_fine(prepared: Prepared) -> None:
    longest = "/".join(["x" * MAX_NAME_BYTES] * 16)
    assert len(longest) == MAX_PATH_BYTES
    assert not prepared.alice.files.exists(longest)


TREE: dict[str, tuple[type[HoldfastError], Callable[[Namespace], object]]] = {
    "read a directory": (NotAFile, lambda ns: ns.files.read("dir")),
    "read an empty directory": (NotAFile, lambda ns: ns.files.read("empty")),
    "read through a link": (NotAFile, lambda ns: ns.files.read("link")),
    "read what is not there": (PathNotFound, lambda ns: ns.files.read("nothing")),
    "read below a file": (PathNotFound, lambda ns: ns.files.read("file/x")),
    "stat nothing": (PathNotFound, lambda ns: ns.files.stat("nothing")),
    "stat hostile": (PathNotFound, lambda ns: ns.files.stat("\x1b[31m\n\u202e")),
    "list a file": (NotADirectory, lambda ns: ns.files.list("file")),
    "list a link": (NotADirectory, lambda ns: ns.files.list("link")),
    "list nothing": (PathNotFound, lambda ns: ns.files.list("nothing")),
    "list less than none": (InvalidValue, lambda ns: ns.files.list(limit=-1)),
    "readlink of a file": (NotAFile, lambda ns: ns.files.readlink("file")),
    "readlink of nothing": (PathNotFound, lambda ns: ns.files.readlink("nothing")),
    "write over a directory": (NotAFile, lambda ns: ns.files.write("dir", b"")),
    "write over an empty directory": (NotAFile, lambda ns: ns.files.write("empty", b"")),
    "write through a link": (NotAFile, lambda ns: ns.files.write("link", b"")),
    "write below a link": (NotADirectory, lambda ns: ns.files.write("link/x", b"")),
    "write below a file": (NotADirectory, lambda ns: ns.files.write("file/x", b"")),
    "write far below a file": (NotADirectory, lambda ns: ns.files.write("file/x/y", b"")),
    "write many, one of them wrong": (
        NotADirectory,
        lambda ns: ns.files.write_many([("fine", b"1"), ("file/x", b"2")]),
    ),
    "write many that contradict": (
        NotADirectory,
        lambda ns: ns.files.write_many([("new", b"1"), ("new/x", b"2")]),
    ),
    "mkdir over a file": (NotADirectory, lambda ns: ns.files.mkdir("file")),
    "mkdir over a link": (NotADirectory, lambda ns: ns.files.mkdir("link")),
    "mkdir below a file": (NotADirectory, lambda ns: ns.files.mkdir("file/x")),
    "link over a directory": (NotAFile, lambda ns: ns.files.symlink("dir", "x")),
    "link to nothing at all": (InvalidPath, lambda ns: ns.files.symlink("new", "")),
    "link to a NUL": (InvalidPath, lambda ns: ns.files.symlink("new", "a\0")),
    "link to half a character": (InvalidPath, lambda ns: ns.files.symlink("new", "\ud800")),
    "link too far": (InvalidPath, lambda ns: ns.files.symlink("new", "x" * 4096)),
    "chmod of a link": (NotAFile, lambda ns: ns.files.chmod("link", 0o600)),
    "chmod of nothing": (PathNotFound, lambda ns: ns.files.chmod("nothing", 0o600)),
    "a negative mode": (InvalidValue, lambda ns: ns.files.chmod("file", -1)),
    "set-user-id": (InvalidValue, lambda ns: ns.files.write("new", b"", mode=0o4755)),
    "set-group-id": (InvalidValue, lambda ns: ns.files.mkdir("new", mode=0o2755)),
    "delete a full directory": (NotAFile, lambda ns: ns.files.delete("dir")),
    "delete nothing": (PathNotFound, lambda ns: ns.files.delete("nothing", recursive=True)),
    "move nothing": (PathNotFound, lambda ns: ns.files.move("nothing", "x")),
    "move onto a file": (PathExists, lambda ns: ns.files.move("big", "file")),
    "move onto a directory": (PathExists, lambda ns: ns.files.move("big", "dir", overwrite=True)),
    "move below a file": (NotADirectory, lambda ns: ns.files.move("big", "file/x")),
    "move below a link": (NotADirectory, lambda ns: ns.files.move("big", "link/x")),
    "move into itself": (InvalidPath, lambda ns: ns.files.move("dir", "dir/inside")),
    "move onto itself": (InvalidPath, lambda ns: ns.files.move("dir", "dir")),
    "move what becomes too long": (
        InvalidPath,
        lambda ns: ns.files.move("deep", "/".join(["x" * 80] * 3)),
    ),
    "a time without a zone": (
        InvalidValue,
        lambda ns: ns.files.write("new", b"", modified_at=datetime(2026, 1, 1)),  # noqa: DTZ001 - what is refused
    ),
    "a time too far": (
        InvalidValue,
        lambda ns: ns.files.write("new", b"", modified_at=datetime(9999, 1, 1, tzinfo=UTC)),
    ),
    "a time too long ago": (
        InvalidValue,
        lambda ns: ns.files.write("new", b"", modified_at=datetime(1, 1, 1, tzinfo=UTC)),
    ),
    "half a character of text": (InvalidValue, lambda ns: ns.files.write("new", "\ud800")),
    "half a character among many": (
        InvalidValue,
        lambda ns: ns.files.write_many([("new", "fine"), ("newer", "\ud800")]),
    ),
    "a stream of text": (InvalidValue, lambda ns: ns.files.write("new", text_stream("short"))),
    "a long stream of text": (
        InvalidValue,
        lambda ns: ns.files.write("new", text_stream("long" * 100_000)),
    ),
    "a file too large": (TooLarge, lambda ns: ns.files.write("new", b"x" * (1 << 20) + b"x")),
    "a stream too large": (
        TooLarge,
        lambda ns: ns.files.write("new", io.BytesIO(b"x" * (1 << 20) + b"x")),
    ),
}


def text_stream(text: str) -> Any:
    """What `open(path)` returns: the mistake is easily made."""
    return io.StringIO(text)


@pytest.mark.parametrize("case", TREE)
def test_a_change_that_breaks_the_tree_is_refused(prepared: Prepared, case: str) -> None:
    expected, do = TREE[case]
    refuse(prepared, expected, lambda p: do(p.alice))


# Snapshots


BAD_IDS: dict[str, tuple[Expected, Callable[[Prepared], str]]] = {
    "unknown": (SnapshotNotFound, lambda _: "snap-aaaaaaaaaaaaaaaa"),
    "empty": (SnapshotNotFound, lambda _: ""),
    "of another namespace": (SnapshotNotFound, lambda p: p.bobs),
    "of another tenant": (SnapshotNotFound, lambda p: p.foreign),
    "expired": (SnapshotExpired, lambda p: p.expired),
    "deleted": (SnapshotNotFound, lambda p: p.deleted),
    "ambiguous": (Conflict, lambda _: "snap-"),
    "too far back": (SnapshotNotFound, lambda _: "@-99"),
    "absurdly far back": (SnapshotNotFound, lambda _: "@-" + "9" * 5000),
    "not a number": (SnapshotNotFound, lambda _: "@-x"),
    "a pattern": (SnapshotNotFound, lambda _: "snap-%"),
    "NUL": ((SnapshotNotFound, InvalidValue), lambda _: "snap-\0"),
    "half a character": ((SnapshotNotFound, InvalidValue), lambda _: "snap-\ud800"),
    "hostile": ((SnapshotNotFound, InvalidValue), lambda _: HOSTILE),
}
ID_USES: dict[str, Callable[[Namespace, str], object]] = {
    "get": lambda ns, name: ns.get_snapshot(name),
    "at": lambda ns, name: ns.at(name),
    "restore": lambda ns, name: ns.restore(name),
    "rehearse": lambda ns, name: ns.restore(name, dry_run=True),
    "undo": lambda ns, name: ns.undo(name),
    "diff from": lambda ns, name: ns.diff(name),
    "diff to": lambda ns, name: ns.diff(None, name),
    "text_diff": lambda ns, name: ns.text_diff("file", name),
    "fork": lambda ns, name: ns.fork("new", at=name),
    "pin": lambda ns, name: ns.pin(name),
    "unpin": lambda ns, name: ns.unpin(name),
    "set_label": lambda ns, name: ns.set_label(name, "label"),
    "delete": lambda ns, name: ns.delete_snapshot(name),
    "expected": lambda ns, name: ns.snapshot(expected=name),
}


@pytest.mark.parametrize("name", BAD_IDS)
def test_an_id_that_is_not_on_this_timeline_is_refused(prepared: Prepared, name: str) -> None:
    expected, of = BAD_IDS[name]
    refuse(prepared, expected, *each(ID_USES, of(prepared)))


@pytest.mark.parametrize("name", sorted(BAD_IDS.keys() - {"deleted", "expired"}))
def test_only_what_was_deleted_can_be_recovered(prepared: Prepared, name: str) -> None:
    _, of = BAD_IDS[name]
    refuse(prepared, (SnapshotNotFound, InvalidValue), lambda p: p.alice.recover_snapshot(of(p)))


NOTES: dict[str, dict[str, Any]] = {
    "a label of 129 characters": {"label": "x" * 129},
    "a label with NUL": {"label": "a\0b"},
    "half a label": {"label": "\ud800"},
    "a hostile label": {"label": HOSTILE},
    **{
        f"{name}: {what}": {name: text}
        for name in ("reason", "task_id", "trace_id")
        for what, text in (("long", "x" * 4097), ("NUL", "\0"), ("half a character", "\udfff"))
    },
}


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_no_row_holds_is_refused(prepared: Prepared, note: str) -> None:
    refuse(prepared, InvalidName, lambda p: p.alice.snapshot(**NOTES[note]))
    if "label" in NOTES[note]:
        refuse(prepared, InvalidName, lambda p: p.alice.set_label(p.snapshot, **NOTES[note]))
    elif "reason" in NOTES[note]:
        refuse(prepared, InvalidName, lambda p: p.alice.restore(p.snapshot, **NOTES[note]))


@pytest.mark.parametrize("actor", ["x" * 4097, "\0", "\udfff"])
def test_an_actor_that_no_row_holds_is_refused(prepared: Prepared, actor: str) -> None:
    refuse(prepared, InvalidName, lambda p: p.alice.acting_as(actor).snapshot())
    refuse(prepared, InvalidName, lambda p: p.alice.acting_as(actor).restore(p.snapshot))


TIMELINE: dict[str, tuple[Expected, Case]] = {
    "no time at all": (InvalidValue, lambda p: p.alice.snapshot(expires_in=timedelta(0))),
    "time gone by": (InvalidValue, lambda p: p.alice.snapshot(expires_in=timedelta(days=-1))),
    "beyond the calendar": (InvalidValue, lambda p: p.alice.snapshot(expires_in=timedelta.max)),
    "an unknown plane": (InvalidValue, lambda p: p.alice.restore(p.snapshot, planes=["secrets"])),
    "a hostile plane": (InvalidValue, lambda p: p.alice.restore(p.snapshot, planes=[HOSTILE])),
    "a plane spelled out": (InvalidValue, lambda p: p.alice.restore(p.snapshot, planes="files")),
    "no plane": (InvalidValue, lambda p: p.alice.restore(p.snapshot, planes=[])),
    "no path": (InvalidValue, lambda p: p.alice.restore(p.snapshot, paths=[])),
    "a path spelled out": (InvalidValue, lambda p: p.alice.restore(p.snapshot, paths="notes.md")),
    "paths of the store": (
        InvalidValue,
        lambda p: p.alice.restore(p.snapshot, paths=["file"], planes=["store"]),
    ),
    "paths of two planes": (
        InvalidValue,
        lambda p: p.alice.restore(p.snapshot, paths=["file"], planes=["files", "store"]),
    ),
    "less than no changes": (InvalidValue, lambda p: p.alice.restore(p.snapshot, limit=-1)),
    "a diff of an unknown plane": (InvalidValue, lambda p: p.alice.diff(planes=["secrets"])),
    "a diff of no plane": (InvalidValue, lambda p: p.alice.diff(planes=[])),
    "a diff of less than nothing": (InvalidValue, lambda p: p.alice.diff(limit=-1)),
    "a timeline of less than nothing": (InvalidValue, lambda p: p.alice.timeline(limit=-1)),
    "a negative quota": (InvalidValue, lambda p: p.alice.set_quota(-1)),
    "an absurd quota": (InvalidValue, lambda p: p.alice.set_quota(2**63)),
    "a negative quota of a tenant": (InvalidValue, lambda p: p.vault.set_quota(-1)),
    "an absurd quota of a tenant": (InvalidValue, lambda p: p.vault.set_quota(2**63)),
    "a negative policy": (InvalidValue, lambda p: p.alice.set_retention(keep_last=-1)),
    "a negative policy to forget by": (
        InvalidValue,
        lambda p: p.alice.forget(policy=Policy(keep_daily=-1)),
    ),
    "a merge with a stranger": (InvalidValue, lambda p: p.alice.merge("bob")),
    "a merge with itself": (InvalidValue, lambda p: p.alice.merge("alice")),
    "a merge with nobody": (NamespaceNotFound, lambda p: p.alice.merge("nobody")),
    "a merge with a hostile name": (InvalidName, lambda p: p.alice.merge(HOSTILE)),
    "a merge for a third party": (InvalidValue, lambda p: p.alice.merge("fork", prefer=any_word())),
    "a merge of what both changed": (MergeConflict, lambda p: p.alice.merge("fork")),
    "a fork onto another": (NamespaceExists, lambda p: p.alice.fork("bob")),
    "a fork onto itself": (NamespaceExists, lambda p: p.alice.fork("alice")),
    "a fork with a hostile name": (InvalidName, lambda p: p.alice.fork(HOSTILE)),
    "nothing to redo": (NothingToUndo, lambda p: p.alice.redo()),
    "redo of nobody": (NamespaceNotFound, lambda p: p.ghost.redo()),
    "undo of nobody": (NamespaceNotFound, lambda p: p.ghost.undo()),
    "fork of nobody": (NamespaceNotFound, lambda p: p.ghost.fork("new")),
    "merge into nobody": (NamespaceNotFound, lambda p: p.ghost.merge("alice")),
    "forget of nobody": (NamespaceNotFound, lambda p: p.ghost.forget()),
    "latest of nobody": (SnapshotNotFound, lambda p: p.ghost.at("latest")),
    "restore of nobody": (SnapshotNotFound, lambda p: p.ghost.restore(p.snapshot)),
    "recover of nobody": (NamespaceNotFound, lambda p: p.ghost.recover_snapshot(p.deleted)),
    "reading nobody's file": (PathNotFound, lambda p: p.ghost.files.read("file")),
    "deleting nobody's file": (PathNotFound, lambda p: p.ghost.files.delete("file")),
    "deleting nobody": (NamespaceNotFound, lambda p: p.vault.delete_namespace("ghost")),
    "recovering nobody": (NamespaceNotFound, lambda p: p.vault.recover_namespace("ghost")),
    "recovering somebody": (NamespaceNotFound, lambda p: p.vault.recover_namespace("alice")),
}


def any_word() -> Any:
    return "mine"


@pytest.mark.parametrize("case", TIMELINE)
def test_an_operation_that_makes_no_sense_is_refused(prepared: Prepared, case: str) -> None:
    expected, do = TIMELINE[case]
    refuse(prepared, expected, do)


BAD_NAMES = [
    "",
    ".",
    "..",
    " a",
    "a ",
    "a\n",
    "\0",
    "a\x1b[0m",
    "x" * 129,
    "\ud800",
    "\u202ea",
    HOSTILE,
]
NAME_USES: dict[str, Callable[[Holdfast, str], object]] = {
    "namespace": lambda vault, name: vault.namespace(name),
    "tenant": lambda vault, name: vault.tenant(name),
    "delete": lambda vault, name: vault.delete_namespace(name),
    "recover": lambda vault, name: vault.recover_namespace(name),
    "fork": lambda vault, name: vault.namespace("alice").fork(name),
}


@pytest.mark.parametrize("use", NAME_USES)
def test_a_name_that_cannot_be_shown_is_refused(prepared: Prepared, use: str) -> None:
    cases: list[Case] = [lambda p, n=name: NAME_USES[use](p.vault, n) for name in BAD_NAMES]
    refuse(prepared, InvalidName, *cases)


def test_names_may_hold_spaces_slashes_and_any_script(prepared: Prepared) -> None:
    for name in ("two words", "a/b", "Ünïcödé 日本", "..a", "x" * 128):
        assert prepared.vault.namespace(name).name == name


# Values


@dataclass(frozen=True)
class Point:
    """Can be encoded as a key, but a map could not be read back with it."""

    x: int = 0


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


VALUES: dict[str, tuple[type[HoldfastError], Callable[[], Any]]] = {
    "an object": (Unencodable, object),
    "a function": (Unencodable, lambda: nested),
    "a set of objects": (Unencodable, lambda: {object()}),
    "an object inside": (Unencodable, lambda: {"a": [1, {"b": object()}]}),
    "a huge integer": (Unencodable, lambda: 2**64),
    "a huge negative integer": (Unencodable, lambda: -(2**63) - 1),
    "half a character": (Unencodable, lambda: "\ud800"),
    "half a character in a key": (Unencodable, lambda: {"\ud800": 1}),
    "a key that cannot be read": (Unencodable, lambda: {Point(): 1}),
    "raw bytes that are no value": (Unencodable, lambda: msgspec.Raw(b"\xc1")),
    "a hundred thousand lists": (Unencodable, lambda: nested(100_000)),
    "a list in itself": (Unencodable, lambda: endless([])),
    "too much": (TooLarge, lambda: b"x" * (1 << 20)),
}


def endless(value: list[Any]) -> list[Any]:
    value.append(value)
    return value


@pytest.mark.parametrize("value", VALUES)
def test_a_value_that_would_not_come_back_is_refused(prepared: Prepared, value: str) -> None:
    expected, make = VALUES[value]
    refuse(
        prepared,
        expected,
        lambda p: p.alice.store.set("n", "k", make()),
        lambda p: p.alice.store.set_many([("n", "fine", 1), ("n", "k", make())]),
    )


def test_unencodable_is_also_a_type_error(prepared: Prepared) -> None:
    with pytest.raises(TypeError):
        prepared.alice.store.set("n", "k", object())


KEYS: dict[str, tuple[str, str]] = {
    "a huge key": ("n", "x" * 5000),
    "a huge namespace": ("x" * 5000, "k"),
    "together too long": ("x" * 2048, "x" * 2048),
    "a namespace of NULs": ("\0" * 2100, "k"),
    "half a character": ("n", "\ud800"),
    "half a namespace": ("\udfff", "k"),
    "hostile": (HOSTILE, HOSTILE),
}
KEY_USES: dict[str, Callable[[Namespace, str, str], object]] = {
    "set": lambda ns, group, key: ns.store.set(group, key, 1),
    "set_many": lambda ns, group, key: ns.store.set_many([("n", "fine", 1), (group, key, 1)]),
    "get": lambda ns, group, key: ns.store.get(group, key),
    "get_many": lambda ns, group, key: ns.store.get_many([("n", "k"), (group, key)]),
    "contains": lambda ns, group, key: ns.store.contains(group, key),
    "delete": lambda ns, group, key: ns.store.delete(group, key),
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key_that_no_node_holds_is_refused(prepared: Prepared, key: str) -> None:
    refuse(prepared, InvalidValue, *each(KEY_USES, *KEYS[key]))


# Limits, and the end


QUOTAS: dict[str, Case] = {
    "a file": lambda p: p.vault.namespace("small").files.write("new", b"x" * 2000),
    "a longer file": lambda p: p.vault.namespace("small").files.write("file", b"x" * 2000),
    "a stream": lambda p: p.vault.namespace("small").files.write("new", io.BytesIO(b"x" * 400_000)),
    "many files": lambda p: p.vault.namespace("small").files.write_many(
        (f"new/{number}", b"x" * 100) for number in range(20)
    ),
    "a value": lambda p: p.vault.namespace("small").store.set("n", "k", "x" * 2000),
    "a file of the tenant": lambda p: (
        p.vault.tenant("poor").namespace("alice").files.write("new", noise(400_000))
    ),
    "a small file of the tenant": lambda p: (
        p.vault.tenant("poor").namespace("alice").files.write("new", noise(2000))
    ),
    "a value of the tenant": lambda p: (
        p.vault.tenant("poor").namespace("alice").store.set("n", "k", noise(2000))
    ),
}


def noise(size: int) -> bytes:
    """Returns bytes that no compression makes smaller."""
    return Random(size).randbytes(size)


@pytest.mark.parametrize("case", QUOTAS)
def test_what_does_not_fit_is_refused_before_it_is_written(prepared: Prepared, case: str) -> None:
    refuse(prepared, QuotaExceeded, QUOTAS[case])


def test_nothing_is_written_below_the_floor_that_is_kept_free(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        vault.namespace("alice").files.write("file", b"1")
        size = sum(path.stat().st_size for path in tmp_path.rglob("*.pack"))
    with holdfast.open(tmp_path, limits=Limits(free_floor_bytes=1 << 60)) as vault:
        alice = vault.namespace("alice")
        for write in (
            lambda: alice.files.write("new", noise(400_000)),
            lambda: alice.files.write("new", b"small"),
            lambda: alice.store.set("n", "k", 1),
        ):
            with pytest.raises(StorageFull) as refused:
                write()
            check(refused.value)
        assert [info.path for info in alice.files.list()] == ["file"]
        alice.files.delete("file")
    assert size == sum(path.stat().st_size for path in tmp_path.rglob("*.pack"))


CLOSED: dict[str, Case] = {
    "read": lambda p: p.alice.files.read("file"),
    "write": lambda p: p.alice.files.write("file", b""),
    "a long write": lambda p: p.alice.files.write("file", noise(400_000)),
    "get": lambda p: p.alice.store.get("n", "k"),
    "set": lambda p: p.alice.store.set("n", "k", 1),
    "snapshot": lambda p: p.alice.snapshot(),
    "restore": lambda p: p.alice.restore(p.snapshot),
    "timeline": lambda p: p.alice.timeline(),
    "collect": lambda p: p.vault.collect(),
    "verify": lambda p: p.vault.verify(),
    "tenants": lambda p: p.vault.tenants(),
    "a new tenant": lambda p: p.vault.tenant("new"),
}


@pytest.mark.parametrize("where", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_closed_vault_says_so(where: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    location = tmp_path if where == "sqlite" else request.getfixturevalue("postgres_url")
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    with holdfast.open(
        location, objects=tmp_path / "packs", clock=lambda: clock[0], limits=LIMITS
    ) as vault:
        closed = prepare(vault, clock)
        stream = closed.alice.files.stream("big")
    vault.close()
    for do in [*CLOSED.values(), lambda _: list(stream)]:
        with pytest.raises(Unavailable) as refused:
            do(closed)
        check(refused.value)


# What is unusual, and fine


def test_not_a_number_and_other_oddities_come_back(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        store = vault.namespace("alice").store
        store.set("n", "nan", math.nan)
        assert math.isnan(store.get("n", "nan"))
        odd = [math.inf, -0.0, 2**64 - 1, -(2**63), "", b"", [], {}, {1: 2, b"k": None}, "\0é日"]
        for number, value in enumerate(odd):
            store.set("n", str(number), value)
        assert [store.get("n", str(number)) for number in range(len(odd))] == odd


def test_every_value_that_is_taken_can_be_read(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        store = vault.namespace("alice").store
        taken = 0
        for depth in range(50, sys.getrecursionlimit() + 100, 50):
            with suppress(Unencodable):
                store.set("n", "deep", nested(depth))
                taken = depth
            assert msgspec.msgpack.encode(store.get("n", "deep"))
        assert taken == DEEPEST // 50 * 50


# The errors themselves


def classes_below(base: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    for cls in base.__subclasses__():
        # A private one is the engine talking to itself: callers meet the class it is made from.
        if cls.__module__ == "holdfast.errors" and not cls.__name__.startswith("_"):
            yield cls
            yield from classes_below(cls)


CLASSES = sorted({HoldfastError, *classes_below(HoldfastError)}, key=lambda cls: cls.__name__)


def drawn_tree() -> dict[str, str | None]:
    """Returns each class in the docstring's drawing, with the one it hangs from."""
    parents: dict[str, str | None] = {}
    line_of: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+)( {2,}|$)", line)
        if found and (found[1] or found[2] == "HoldfastError"):
            depth = len(found[1]) // 4
            line_of[depth:] = [found[2]]
            parents[found[2]] = line_of[depth - 1] if depth else None
    return parents


def test_the_drawing_shows_every_error_where_it_hangs() -> None:
    real = {cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES}
    assert drawn_tree() == {**real, "HoldfastError": None}


def test_every_error_is_where_callers_look_for_it() -> None:
    assert set(errors.__all__) == {cls.__name__ for cls in CLASSES} | {"shorten"}
    assert all(getattr(errors, cls.__name__) is cls for cls in CLASSES)


def test_every_error_has_a_code_of_its_own_and_a_hint() -> None:
    codes = [cls.code for cls in CLASSES]
    assert sorted(codes) == sorted(set(codes))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)
    assert [cls.__name__ for cls in CLASSES if not cls.hint and cls is not HoldfastError] == []
    assert [cls.__name__ for cls in CLASSES if not cls.__doc__] == []


HOSTILE_BYTES = HOSTILE.encode("utf-8", "surrogatepass") + b"\xff\xfe"
WITH_HOSTILE_TEXT: list[HoldfastError] = [
    errors.InvalidPath(HOSTILE, reason="why"),
    errors.InvalidPath(HOSTILE_BYTES, reason="why"),
    errors.InvalidName("label", HOSTILE, reason="why"),
    errors.NotAFile(HOSTILE_BYTES, found="link"),
    errors.NotADirectory(HOSTILE_BYTES, blocked_by=HOSTILE_BYTES),
    errors.UnsafeArchive("why", member=HOSTILE),
    errors.UnsafeArchive("why", member=HOSTILE_BYTES),
    errors.PathNotFound(HOSTILE_BYTES),
    errors.PathNotFound(b""),
    errors.NamespaceNotFound(HOSTILE),
    errors.SnapshotNotFound(HOSTILE),
    errors.SnapshotExpired(HOSTILE),
    errors.HeadMoved(HOSTILE, expected="snap-a", actual=None),
    errors.MergeConflict([("files", HOSTILE_BYTES)] * 50),
    errors.NamespaceExists(HOSTILE),
    errors.PathExists(HOSTILE_BYTES),
    errors.ObjectDamaged(b"\xff" * 32, where="pack-a"),
    errors.ObjectMissing(b"\xff" * 32),
]


@pytest.mark.parametrize("error", WITH_HOSTILE_TEXT, ids=lambda error: type(error).__name__)
def test_no_message_repeats_what_a_terminal_would_obey(error: HoldfastError) -> None:
    check(error)
    str(error).encode("utf-8")


def test_families_are_what_a_caller_can_do_next() -> None:
    for cls in CLASSES:
        if cls is not HoldfastError:
            families = [base for base in cls.__mro__ if base.__bases__[:1] == (HoldfastError,)]
            assert len(families) == 1
    assert issubclass(PathNotFound, NotFound)

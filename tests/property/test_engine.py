"""A vault against plain dicts: whatever is done, in whatever order, both say the same.

The model is the simplest thing that could be right: a tree is a dict with an entry for every
path, a snapshot is a copy of it. Names are few and chosen to collide: a file where another
step wants a directory, `a` beside `a-b` and `a0`, bytes that are not UTF-8.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import holdfast
from holdfast import Kind, Limits, Namespace, Plane, Policy, SnapshotInfo, TenantVault
from holdfast.engine.files.reader import FilesReader
from holdfast.engine.store.reader import StoreReader
from holdfast.errors import (
    HoldfastError,
    InvalidPath,
    InvalidValue,
    MergeConflict,
    NameNotFound,
    NotADirectory,
    NotAFile,
    NothingToUndo,
    PathExists,
    PathNotFound,
    SnapshotExpired,
    SnapshotNotFound,
)
from holdfast.model.basics import EMPTY_ROOT, Size
from holdfast.model.changes import Changes, Restored
from holdfast.model.files import FileInfo
from holdfast.storekeys import to_store_key
from holdfast.testing.postgres import find_base

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
USUAL_FILE, USUAL_FOLDER = 0o644, 0o755

PATHS = [
    *(b"a", b"a-b", b"a0", b"b", b"\xff"),
    *(b"a/b", b"a/b-c", b"a/\xff", b"b/a", b"a-b/a"),
    *(b"a/b/c", b"a/b/c-d", b"b/a/\xfe"),
]
CONTENTS = {
    "nothing": b"",
    "one": b"one",
    "two": b"two",
    "a chunk": b"0123456789" * 30,
    "as much as a row holds": b"0123456789abcdef" * 1024,
    "more than that": b"0123456789abcdef" * 1024 + b"0",
    "many chunks": bytes(range(256)) * 300,
}
TARGETS = [b"a", b"../../etc/passwd", b"\xff"]
GROUPS, KEYS = ["", "n", "n\0", "n\0m", "é"], ["", "k", "k/1", "\0"]
VALUES: dict[str, Any] = {
    "none": None,
    "one": 1,
    "text": "text",
    "nested": [1, {"a": b"b"}],
    "chunks": "long" * 2000,
}

paths = st.sampled_from(PATHS)
pairs = st.tuples(st.sampled_from(GROUPS), st.sampled_from(KEYS))
contents = st.sampled_from(sorted(CONTENTS))
values = st.sampled_from(sorted(VALUES))
Edit = tuple[str, tuple[Any, ...]]
edits: st.SearchStrategy[Edit] = st.one_of(
    *[
        st.tuples(st.just(method), st.tuples(*arguments))
        for method, *arguments in [
            ("write", paths, contents, st.sampled_from([None, 0o600])),
            ("write", paths, contents, st.none()),
            ("write_many", st.lists(paths, min_size=1, max_size=4, unique=True)),
            ("mkdir", paths, st.sampled_from([USUAL_FOLDER, 0o700])),
            ("symlink", paths, st.sampled_from(TARGETS)),
            ("chmod", paths, st.sampled_from([USUAL_FOLDER, 0o700])),
            ("move", paths, paths, st.booleans()),
            ("delete", paths, st.booleans()),
            ("set_many", st.dictionaries(pairs, values, min_size=1, max_size=4)),
            ("set_value", pairs, values),
            ("delete_value", pairs),
            ("clear",),
        ]
    ]
)
sides = st.sampled_from([None, None, "ours", "theirs"])
policies = st.just((0, 0, 0)) | st.tuples(*[st.integers(0, 2)] * 3)
some = st.integers(0, 11)
"""Picks a namespace or snapshot by number, modulo how many there are."""


# The model


@dataclass(frozen=True)
class File:
    data: bytes
    mode: int
    mtime: datetime

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def timeless(self) -> "File":
        return replace(self, mtime=START)


@dataclass(frozen=True)
class Link:
    target: bytes
    mtime: datetime

    @property
    def size(self) -> int:
        return len(self.target)

    @property
    def timeless(self) -> "Link":
        return replace(self, mtime=START)


@dataclass(frozen=True)
class Folder:
    mode: int = USUAL_FOLDER
    size: int = 0

    @property
    def timeless(self) -> "Folder":
        return self


Node = File | Link | Folder
Tree = dict[bytes, Node]
Group = dict[tuple[str, str], bytes]


def above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts))]


def below(tree: Tree, path: bytes) -> list[bytes]:
    return [name for name in tree if name.startswith(path + b"/")]


@dataclass
class State:
    """Everything in a namespace: a node for every path, directories too, and store values."""

    tree: Tree = field(default_factory=dict)
    values: Group = field(default_factory=dict)

    def copy(self) -> "State":
        return State(dict(self.tree), dict(self.values))

    def entries(self) -> Tree:
        """The tree without directories that follow from what is in them."""
        return {
            path: node
            for path, node in sorted(self.tree.items())
            if node != Folder() or not below(self.tree, path)
        }

    def key(self) -> object:
        return tuple(self.entries().items()), tuple(sorted(self.values.items()))

    def size(self) -> Size:
        held = [node.size for node in self.entries().values()]
        held += [len(value) for value in self.values.values()]
        return Size(len(held), sum(held))

    def put(self, path: bytes, node: Node) -> None:
        for folder in above(path):
            if not isinstance(self.tree.setdefault(folder, Folder()), Folder):
                raise NotADirectory(path, blocked_by=folder)
        self.tree[path] = node

    def drop(self, path: bytes) -> None:
        for name in [path, *below(self.tree, path)]:
            self.tree.pop(name, None)

    def refuse_to_cover(self, path: bytes, *kinds: type[Node]) -> None:
        found = self.tree.get(path)
        if isinstance(found, kinds):
            raise NotAFile(path, found=type(found).__name__)


def tree_of(entries: Tree, more: Sequence[bytes] = ()) -> Tree:
    tree = dict(entries)
    for path in [*entries, *more]:
        for folder in above(path):
            tree.setdefault(folder, Folder())
    for path in more:
        tree.setdefault(path, Folder())
    return tree


def restored(now: State, goal: State, planes: Sequence[str]) -> State:
    return State(
        dict(goal.tree if "files" in planes else now.tree),
        dict(goal.values if "store" in planes else now.values),
    )


def restored_paths(now: State, goal: State, chosen: Sequence[bytes]) -> State:
    after = now.copy()
    for path in chosen:
        after.drop(path)
        for name in [path, *below(goal.tree, path)]:
            if name in goal.tree:
                for folder in above(name):
                    if not isinstance(after.tree.get(folder, Folder()), Folder):
                        after.drop(folder)
                after.put(name, goal.tree[name])
    return after


def timeless(node: Node | None) -> Node | None:
    return None if node is None else node.timeless


def changed_keys(old: dict[Any, Any], new: dict[Any, Any]) -> list[Any]:
    return [key for key in {**old, **new} if old.get(key) != new.get(key)]


def three_way(
    base: dict[Any, Any], ours: dict[Any, Any], theirs: dict[Any, Any]
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What they changed and we did not, and what both changed differently: key to theirs."""
    our_keys = set(changed_keys(base, ours))
    their_keys = changed_keys(base, theirs)
    changes = {key: theirs.get(key) for key in their_keys if key not in our_keys}
    both = [key for key in their_keys if key in our_keys]
    return changes, {key: theirs.get(key) for key in both if ours.get(key) != theirs.get(key)}


def clashing(entries: Tree, changes: dict[bytes, Node | None]) -> set[bytes]:
    """What stands in the way of these changes: something below or above a file or link."""
    result = {k: v for k, v in {**entries, **changes}.items() if v is not None}
    found: set[bytes] = set()
    for lower in result:
        for upper in above(lower):
            if upper in result and not isinstance(result[upper], Folder):
                found |= {upper} if changes.get(lower) else set()
                found |= {lower} if changes.get(upper) else set()
    return found


def merged(
    base: State, ours: State, theirs: State, prefer: str | None
) -> State | list[tuple[str, bytes]]:
    """The state that a merge leads to; or what both changed, if nobody says who wins."""
    changes, conflicts = three_way(base.entries(), ours.entries(), theirs.entries())
    # Where only the times differ there is nothing to quarrel about: ours stays.
    conflicts = {
        path: node
        for path, node in conflicts.items()
        if timeless(node) != timeless(ours.entries().get(path))
    }
    puts, quarrels = three_way(base.values, ours.values, theirs.values)
    if prefer == "theirs":
        changes, puts = changes | conflicts, puts | quarrels
    clashes = clashing(ours.entries(), changes)
    if prefer is None and (conflicts or clashes or quarrels):
        listed = {("files", key) for key in {*conflicts, *clashes}}
        listed |= {("store", to_store_key(*key)) for key in quarrels}
        return sorted(listed)
    if prefer == "ours":
        for one in clashes:
            for key in list(changes):
                if one == key or one in above(key) or key in above(one):
                    del changes[key]
        clashes = set()
    entries = {**ours.entries(), **changes, **dict.fromkeys(clashes)}
    live = {key: node for key, node in entries.items() if node is not None}
    # A directory that both sides have is one that nobody deleted.
    shared = [p for p, n in ours.tree.items() if isinstance(n, Folder)]
    shared = [p for p in shared if isinstance(theirs.tree.get(p), Folder)]
    kept = {key: value for key, value in {**ours.values, **puts}.items() if value is not None}
    return State(tree_of(live, shared), kept)


Difference = tuple[str, str, str]


def differences(old: State, new: State, planes: Sequence[str] = ("files", "store")) -> list[Any]:
    """The naive diff, as (plane, name, word) in order; times alone make no difference."""
    found: list[Difference] = []
    if "files" in planes:
        listed = sorted(changed_keys(old.entries(), new.entries()))
        pairs = {path: (seen_at(old, new, path), seen_at(new, old, path)) for path in listed}
        found += [
            ("files", text(path), word(a is not None, b is not None))
            for path, (a, b) in pairs.items()
            if timeless(a) != timeless(b)
        ]
    if "store" in planes:
        for pair in sorted(changed_keys(old.values, new.values)):
            there = pair in old.values, pair in new.values
            found.append(("store", "/".join(pair), word(*there)))
    return found


def seen_at(state: State, other: State, path: bytes) -> Node | None:
    """What is at a path; a directory without an entry too, where the other state has one."""
    node, known = state.entries().get(path), other.entries().get(path)
    implied = state.tree.get(path) if isinstance(known, Folder) else None
    return implied if node is None and isinstance(implied, Folder) else node


def word(was_there: bool, is_there: bool) -> str:
    return "changed" if was_there and is_there else "removed" if was_there else "added"


def text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def shown(changes: Changes) -> list[Difference]:
    return [(change.plane.value, change.name, change.change) for change in changes]


@dataclass
class Row:
    """A snapshot as the model remembers it."""

    snapshot: SnapshotInfo
    state: State
    own_expiry: datetime | None = None
    deleted_at: datetime | None = None

    @property
    def id(self) -> str:
        return self.snapshot.id


@dataclass
class World:
    """A namespace as the model remembers it."""

    state: State = field(default_factory=State)
    rows: dict[str, Row] = field(default_factory=dict)
    position: str | None = None
    redo: list[str] = field(default_factory=list)
    newest: int = 0
    origin: str | None = None
    common: State = field(default_factory=State)
    policy: Policy = field(default_factory=Policy)
    begun: datetime | None = None

    def begin(self, now: datetime) -> None:
        """It is there from the first thing on that it holds, be it a snapshot of nothing."""
        self.begun = self.begun or now

    def expiry(self, row: Row) -> datetime | None:
        """When a snapshot's time is over: a pin, its own term, a policy, or thirty days."""
        if row.snapshot.pinned:
            return None
        default = None if self.policy.is_set else row.snapshot.created_at + timedelta(days=30)
        return row.own_expiry or default

    def is_over(self, row: Row, now: datetime) -> bool:
        expiry = self.expiry(row)
        return expiry is not None and expiry <= now

    def is_expired(self, row: Row, now: datetime) -> bool:
        """What the head stands on does not expire."""
        return row.id != self.position and self.is_over(row, now)

    def dated(self, row: Row, now: datetime) -> SnapshotInfo:
        """A snapshot as it is shown: an end that has passed is none."""
        expiry = None if self.is_over(row, now) else self.expiry(row)
        return msgspec.structs.replace(row.snapshot, expires_at=expiry)

    def needed(self) -> set[str | None]:
        """What the head stands on, one step back from it, and what redo would go to."""
        newest = max(self.rows.values(), key=lambda row: row.snapshot.number, default=None)
        back = None if newest is None else self.back_from(newest.state)
        return {newest.id if newest else None, self.position, back and back.id, *self.redo}

    def is_changed(self) -> bool:
        """Whether something differs from the newest snapshot; not, if it was taken back by hand."""
        newest = max(self.rows.values(), key=lambda row: row.snapshot.number, default=None)
        last = State() if newest is None else newest.state
        return last.key() != self.state.key()

    def previous(self, row: Row) -> Row | None:
        """The snapshot before; where it was forgotten, the newest one with a smaller number."""
        if row.snapshot.parent is None or row.snapshot.parent in self.rows:
            return self.rows.get(row.snapshot.parent or "")
        earlier = [r for r in self.rows.values() if r.snapshot.number < row.snapshot.number]
        return max(earlier, key=lambda r: r.snapshot.number, default=None)

    def back_from(self, state: State) -> Row | None:
        """The nearest snapshot before that shows another state and was not deleted."""
        row = self.rows.get(self.position or "")
        while row is not None:
            is_there = row.deleted_at is None or row.id == self.position
            if row.state.key() != state.key() and is_there:
                return row
            row = self.previous(row)
        return None

    def last_merge(self, other: str) -> Row | None:
        """The last merge with the other side that what the head shows contains."""
        row = self.rows.get(self.position or "")
        while row is not None:
            snapshot = row.snapshot
            if snapshot.kind is Kind.MERGE and snapshot.detail["merged"] == other:
                return row
            is_whole = snapshot.kind is Kind.REDO or (
                snapshot.kind is Kind.RESTORE and not snapshot.detail
            )
            target = self.rows.get(snapshot.target or "") if is_whole else None
            row = target or self.previous(row)
        return None

    def to_forget(self, policy: Policy, now: datetime, grace: timedelta) -> list[str]:
        ordered = sorted(self.rows.values(), key=lambda row: -row.snapshot.number)
        live = [r for r in ordered if r.deleted_at is None and not self.is_expired(r, now)]
        kept = {row.id for row in live[: policy.keep_last]}
        for most, form in ((policy.keep_daily, "%Y %j"), (policy.keep_weekly, "%G %V")):
            newest: dict[str, str] = {}
            for row in live:
                newest.setdefault(row.snapshot.created_at.strftime(form), row.id)
            kept |= set(list(newest.values())[:most])
        gone: list[str] = []
        for row in ordered:
            if row.id in self.needed():
                continue
            if row.deleted_at is not None:
                may_go = row.deleted_at + grace <= now
            elif row.snapshot.pinned:
                may_go = False
            else:
                is_spare = policy.is_set and row.id not in kept
                may_go = is_spare or self.is_expired(row, now)
            gone += [row.id] if may_go else []
        return gone


# What a reader sees


def view_of(reader: FilesReader) -> dict[str, tuple[FileInfo, bytes | str | None]]:
    seen: dict[str, tuple[FileInfo, bytes | str | None]] = {}
    for info in reader.list(recursive=True):
        match info.kind:
            case "file":
                seen[info.path] = info, reader.read(info.path)
            case "link":
                seen[info.path] = info, reader.readlink(info.path)
            case _:
                seen[info.path] = info, None
    return seen


def expected_info(tree: Tree, path: bytes, begun: datetime) -> FileInfo:
    match node := tree[path]:
        case File():
            return FileInfo(text(path), "file", node.size, node.mode, node.mtime)
        case Link():
            return FileInfo(text(path), "link", node.size, 0o777, node.mtime, text(node.target))
        case Folder():
            # As new as the newest of what lies in it; an empty one is as old as the namespace.
            inside = [tree[name] for name in below(tree, path)]
            times = [found.mtime for found in inside if not isinstance(found, Folder)]
            newest = max(times, default=begun)
            return FileInfo(text(path), "directory", 0, node.mode, newest)


def expected_view(state: State, begun: datetime) -> dict[str, tuple[FileInfo, bytes | str | None]]:
    def body(node: Node) -> bytes | str | None:
        match node:
            case File():
                return node.data
            case Link():
                return text(node.target)
            case Folder():
                return None

    return {
        text(p): (expected_info(state.tree, p, begun), body(n)) for p, n in state.entries().items()
    }


def values_of(reader: StoreReader) -> Group:
    return {
        (group, key): msgspec.msgpack.encode(value)
        for group in reader.namespaces()
        for key, value in reader.items(group)
    }


Opener = Callable[[Callable[[], datetime], Limits], TenantVault]


class VaultMachine(RuleBasedStateMachine):
    """Steps that a user may take, each done twice: to the vault and to the model."""

    def __init__(self, opener: Opener) -> None:
        super().__init__()
        self.opener = opener
        self.now = START
        self.worlds = {"main": World()}
        # What each merge brought in: the base of the next one between the two.
        self.brought_in: dict[str, State] = {}
        self.touched = {"main"}
        self.purged: list[tuple[str, str]] = []
        # Equal states have equal roots, in every namespace and whatever led there.
        self.roots: dict[object, bytes] = {State().key(): EMPTY_ROOT}

    @initialize(
        inline_bytes=st.sampled_from([0, 1 << 18]),
        cache_bytes=st.sampled_from([0, 1 << 20]),
        seeds=st.lists(edits, max_size=6),
        is_forked=st.booleans(),
    )
    def begin(
        self, inline_bytes: int, cache_bytes: int, seeds: list[Edit], is_forked: bool
    ) -> None:
        self.open(inline_bytes, cache_bytes)
        self.edit(0, seeds)
        if is_forked:
            self.snapshot(0, pin=False, days=None)
            self.fork(0, None)

    def open(self, inline_bytes: int = 0, cache_bytes: int = 0) -> None:
        self.limits = Limits(
            inline_bytes=inline_bytes,
            node_cache_bytes=cache_bytes,
            block_cache_bytes=cache_bytes,
            free_floor_bytes=0,
        )
        self.vault = self.opener(lambda: self.now, self.limits)

    def teardown(self) -> None:
        if hasattr(self, "vault"):
            self.everything_reads_back()
            assert self.vault.verify().ok
            self.collect()
            # Once those between are gone, another snapshot may be the one step back.
            while any(
                world.to_forget(world.policy, self.now, self.limits.grace)
                for world in self.worlds.values()
            ):
                self.collect()
            assert self.vault.collect(now=True).objects_deleted == 0
            self.everything_reads_back()

    # Inside

    def name(self, which: int) -> str:
        return list(self.worlds)[which % len(self.worlds)]

    def at(self, which: int) -> tuple[Namespace, World]:
        name = self.name(which)
        self.touched.add(name)
        return self.vault.namespace(name), self.worlds[name]

    def both(
        self, which: int, do: Callable[[Namespace], Any], model: Callable[[State], Any]
    ) -> Any:
        """Does a change to both; if the model refuses it, so must the vault, and keep all."""
        namespace, world = self.at(which)
        after = world.state.copy()
        try:
            wanted = model(after)
        except HoldfastError as refusal:
            with pytest.raises(type(refusal)):
                do(namespace)
            return
        answer = do(namespace)
        world.state = after
        if after.tree or after.values:
            world.begin(self.now)
        if wanted is not None:
            assert answer == wanted

    def pick(self, world: World, which: int) -> Row | None:
        rows = list(world.rows.values())
        return rows[which % len(rows)] if rows else None

    def is_usable(self, world: World, row: Row) -> bool:
        return row.deleted_at is None and not world.is_expired(row, self.now)

    def refusal(self, row: Row) -> type[HoldfastError]:
        return SnapshotNotFound if row.deleted_at is not None else SnapshotExpired

    def absorb(
        self, name: str, kind: Kind, after: State, target: str | None = None
    ) -> tuple[Row | None, Row]:
        """Takes in what an operation appended: the state before, where it had to be kept, then
        the operation itself.
        """
        namespace, world = self.vault.namespace(name), self.worlds[name]
        fresh = [s for s in reversed(namespace.timeline()) if s.number > world.newest]
        assert [s.number - world.newest for s in fresh] == [1, 2][: len(fresh)]
        *kept, mark = fresh
        assert (mark.kind, mark.target) == (kind, target)
        assert [s.kind for s in kept] == [Kind.SAFETY] * len(kept)
        assert [s.parent for s in fresh] == [world.position, *(s.id for s in kept)]
        for snapshot, state in zip(fresh, [world.state, after][-len(fresh) :], strict=True):
            self.remember(world, snapshot, state)
        world.state = after.copy()
        return world.rows[kept[0].id] if kept else None, world.rows[mark.id]

    def remember(self, world: World, snapshot: SnapshotInfo, state: State) -> None:
        assert snapshot.created_at == self.now
        assert snapshot.size == state.size()
        assert self.roots.setdefault(state.key(), snapshot.root) == snapshot.root
        world.begin(self.now)
        world.rows[snapshot.id] = Row(snapshot, state.copy())
        world.newest = snapshot.number

    def check_answer(self, answer: Restored, before: State, after: State, *, dirty: bool) -> None:
        assert answer.verified
        assert answer.root == self.roots[after.key()]
        assert shown(answer.changes) == differences(before, after)
        assert not dirty or answer.safety_id is not None

    # Changes

    @rule(which=some, edits=st.lists(edits, min_size=1, max_size=6))
    def edit(self, which: int, edits: list[Edit]) -> None:
        for method, arguments in edits:
            getattr(self, method)(which, *arguments)

    @rule(which=some, edits=st.lists(edits, min_size=1, max_size=3))
    def edit_and_snapshot(self, which: int, edits: list[Edit]) -> None:
        self.edit(which, edits)
        self.snapshot(which, pin=False, days=None)

    def write(self, which: int, path: bytes, content: str, mode: int | None) -> None:
        data = CONTENTS[content]

        def model(state: State) -> None:
            state.refuse_to_cover(path, Folder, Link)
            found = state.tree.get(path)
            kept = found.mode if isinstance(found, File) else USUAL_FILE
            state.put(path, File(data, kept if mode is None else mode, self.now))

        self.both(which, lambda ns: ns.files.write(path, data, mode=mode) and None, model)

    def write_many(self, which: int, chosen: list[bytes]) -> int | None:
        def model(state: State) -> int:
            for path in chosen:
                state.refuse_to_cover(path, Folder, Link)
                found = state.tree.get(path)
                mode = found.mode if isinstance(found, File) else USUAL_FILE
                state.put(path, File(path, mode, self.now))
            return len(chosen)

        self.both(which, lambda ns: ns.files.write_many([(p, p) for p in chosen]), model)

    def mkdir(self, which: int, path: bytes, mode: int) -> None:
        def model(state: State) -> None:
            if not isinstance(state.tree.get(path, Folder()), Folder):
                raise NotADirectory(path, blocked_by=path)
            state.put(path, Folder(mode))

        self.both(which, lambda ns: ns.files.mkdir(path, mode=mode) and None, model)

    def symlink(self, which: int, path: bytes, goal: bytes) -> None:
        def model(state: State) -> None:
            state.refuse_to_cover(path, Folder)
            state.put(path, Link(goal, self.now))

        self.both(which, lambda ns: ns.files.symlink(path, goal) and None, model)

    def chmod(self, which: int, path: bytes, mode: int) -> None:
        def model(state: State) -> None:
            if path not in state.tree:
                raise PathNotFound(path)
            state.refuse_to_cover(path, Link)
            state.tree[path] = replace(state.tree[path], mode=mode)

        self.both(which, lambda ns: ns.files.chmod(path, mode), model)

    def move(self, which: int, old: bytes, new: bytes, overwrite: bool) -> None:
        def model(state: State) -> None:
            if old == new or old in above(new):
                raise InvalidPath(new, reason="inside")
            if old not in state.tree:
                raise PathNotFound(old)
            found = state.tree.get(new)
            if isinstance(found, Folder) or (found is not None and not overwrite):
                raise PathExists(new)
            moved = {name: state.tree[name] for name in [old, *below(state.tree, old)]}
            state.drop(new)
            state.drop(old)
            for name, node in moved.items():
                state.put(new + name[len(old) :], node)

        self.both(which, lambda ns: ns.files.move(old, new, overwrite=overwrite), model)

    def delete(self, which: int, path: bytes, recursive: bool) -> None:
        def model(state: State) -> int:
            if path not in state.tree:
                raise PathNotFound(path)
            inside = below(state.tree, path)
            if inside and not recursive:
                raise NotAFile(path, found="directory")
            gone = len(below(state.entries(), path)) or 1
            state.drop(path)
            return gone

        self.both(which, lambda ns: ns.files.delete(path, recursive=recursive), model)

    def set_value(self, which: int, pair: tuple[str, str], value: str) -> None:
        encoded = msgspec.msgpack.encode(VALUES[value])
        self.both(
            which,
            lambda ns: ns.store.set(*pair, VALUES[value]),
            lambda state: state.values.update({pair: encoded}),
        )

    def set_many(self, which: int, items: dict[tuple[str, str], str]) -> None:
        encoded = {pair: msgspec.msgpack.encode(VALUES[value]) for pair, value in items.items()}
        self.both(
            which,
            lambda ns: ns.store.set_many([(*pair, VALUES[value]) for pair, value in items.items()]),
            lambda state: state.values.update(encoded),
        )

    def delete_value(self, which: int, pair: tuple[str, str]) -> None:
        self.both(
            which,
            lambda ns: ns.store.delete(*pair),
            lambda state: state.values.pop(pair, None) is not None,
        )

    def clear(self, which: int) -> None:
        self.both(which, lambda ns: ns.store.clear(), lambda state: state.values.clear())

    # Timeline

    @rule(
        which=some,
        pin=st.booleans(),
        days=st.sampled_from([None, 1, 60]),
    )
    def snapshot(self, which: int, pin: bool, days: int | None) -> None:
        namespace, world = self.at(which)
        is_dirty = world.is_changed()
        expires_in = None if days is None else timedelta(days=days)
        taken = namespace.snapshot("label", pin=pin, expires_in=expires_in)
        kept, mark = self.absorb(namespace.name, Kind.SNAPSHOT, world.state)
        assert (kept, mark.snapshot) == (None, taken)
        mark.own_expiry = None if expires_in is None else self.now + expires_in
        assert taken.expires_at == world.expiry(mark)
        world.position = taken.id
        world.redo = [] if is_dirty else world.redo

    @rule(
        which=some,
        chosen=some,
        planes=st.sampled_from([None, ["files"], ["store"], ["store", "files"], ["sessions"]]),
        selected=st.none() | st.lists(paths, min_size=1, max_size=3),
        edits=st.lists(edits, max_size=3),
    )
    def change_and_restore(
        self,
        which: int,
        chosen: int,
        planes: list[str] | None,
        selected: list[bytes] | None,
        edits: list[Edit],
    ) -> None:
        self.edit(which, edits)
        self.restore(which, chosen, planes, selected)

    def restore(
        self, which: int, chosen: int, planes: list[str] | None, selected: list[bytes] | None
    ) -> None:
        namespace, world = self.at(which)
        row = self.pick(world, chosen)
        if row is None:
            return
        names = None if selected is None else [text(path) for path in selected]
        wanted = ["files"] if selected is not None else planes
        if not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.restore(row.id, planes=wanted, paths=names)
            return
        before, is_dirty = world.state, world.is_changed()
        if selected is not None:
            if not any(path in tree for path in selected for tree in (before.tree, row.state.tree)):
                with pytest.raises(NameNotFound):
                    namespace.restore(row.id, planes=wanted, paths=names)
                return
            after = restored_paths(before, row.state, selected)
        else:
            after = restored(
                before, row.state, [plane.value for plane in Plane] if planes is None else planes
            )
        was_written = namespace.is_dirty()
        rehearsed = namespace.restore(row.id, planes=wanted, paths=names, dry_run=True)
        assert (rehearsed.dry_run, rehearsed.snapshot, rehearsed.safety_id) == (True, None, None)
        assert namespace.is_dirty() == was_written
        answer = namespace.restore(row.id, planes=wanted, paths=names)
        kept, mark = self.absorb(namespace.name, Kind.RESTORE, after, target=row.id)
        self.check_answer(answer, before, after, dirty=is_dirty)
        assert (rehearsed.root, rehearsed.changes) == (answer.root, answer.changes)
        assert answer.snapshot == mark.snapshot
        assert answer.safety_id == (kept.id if kept else None)
        world.position, world.redo = mark.id, []

    @rule(
        which=some,
        ways=st.lists(
            st.tuples(st.sampled_from(["undo", "undo", "redo"]), st.lists(edits, max_size=2)),
            max_size=6,
        ),
    )
    def go_back_and_forth(self, which: int, ways: list[tuple[str, list[Edit]]]) -> None:
        for way, edits in ways:
            getattr(self, way)(which)
            self.edit(which, edits)

    def undo(self, which: int) -> None:
        namespace, world = self.at(which)
        before, is_dirty = world.state, world.is_changed()
        target = self.undo_target(world)
        if target is None:
            with pytest.raises(HoldfastError) as refused:
                namespace.undo()
            assert isinstance(refused.value, NothingToUndo | holdfast.errors.NamespaceNotFound)
            return
        answer = namespace.undo()
        kept, _ = self.absorb(namespace.name, Kind.UNDO, target.state, target=target.id)
        self.check_answer(answer, before, target.state, dirty=is_dirty)
        # What was pending can be gone forward to; without it, the steps before can be, too.
        pending = [kept.id] if kept else []
        forward = pending if is_dirty else [*world.redo, world.position or ""]
        world.position, world.redo = target.id, forward

    def undo_target(self, world: World) -> Row | None:
        """The nearest snapshot before that shows another state and was not deleted."""
        return world.back_from(world.state)

    def redo(self, which: int) -> None:
        namespace, world = self.at(which)
        before, is_dirty = world.state, world.is_changed()
        if not world.redo or world.redo[-1] not in world.rows:
            with pytest.raises(HoldfastError) as refused:
                namespace.redo()
            assert isinstance(refused.value, NothingToUndo | holdfast.errors.NamespaceNotFound)
            return
        target = world.rows[world.redo[-1]]
        answer = namespace.redo()
        was_at = world.position
        kept, mark = self.absorb(namespace.name, Kind.REDO, target.state, target=target.id)
        self.check_answer(answer, before, target.state, dirty=is_dirty)
        follows = kept is None and target.snapshot.parent == was_at
        world.position, world.redo = target.id if follows else mark.id, world.redo[:-1]
        stood_on = world.rows.get(was_at or "")
        is_there = kept is not None or stood_on is None or stood_on.deleted_at is None
        if before.key() != target.state.key() and is_there:
            # Whatever was there, captured or not, is where an undo would lead now: unless it was
            # deleted by name, as no undo leads to what was.
            back = self.undo_target(world)
            assert back is not None
            assert back.state.key() == before.key()

    @rule(which=some, chosen=some)
    def undo_operation(self, which: int, chosen: int) -> None:
        namespace, world = self.at(which)
        row = self.pick(world, chosen)
        if row is None:
            return
        before, is_dirty = world.state, world.is_changed()
        parent = world.rows.get(row.snapshot.parent or "")
        if not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.undo(row.id)
            return
        if row.snapshot.parent is None:
            with pytest.raises(NothingToUndo):
                namespace.undo(row.id)
            return
        if parent is None or parent.deleted_at is not None:
            with pytest.raises(SnapshotNotFound):
                namespace.undo(row.id)
            return
        after = merged(row.state, before, parent.state, None)
        if isinstance(after, list):
            with pytest.raises(MergeConflict) as refused:
                namespace.undo(row.id)
            assert refused.value.conflicts == after
            return
        answer = namespace.undo(row.id)
        _, mark = self.absorb(namespace.name, Kind.UNDO, after, target=row.id)
        self.check_answer(answer, before, after, dirty=is_dirty)
        world.position, world.redo = mark.id, []

    # Branches

    @precondition(lambda self: len(self.worlds) < 3)
    @rule(which=some, chosen=st.none() | some)
    def fork(self, which: int, chosen: int | None) -> None:
        namespace, world = self.at(which)
        row = None if chosen is None else self.pick(world, chosen)
        name = f"fork {len(self.worlds)}"
        if not world.rows and not namespace.is_dirty():
            return
        if row is not None and not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.fork(name, at=row.id)
            return
        is_dirty = world.is_changed()
        fork = namespace.fork(name, at=None if row is None else row.id)
        if row is None:
            fresh = [s for s in namespace.timeline() if s.number > world.newest]
            assert len(fresh) == 1 or not is_dirty
            for kept in fresh:
                assert (kept.kind, kept.parent) == (Kind.SAFETY, world.position)
                self.remember(world, kept, world.state)
                world.position, world.redo = kept.id, []
        state = world.state if row is None else row.state
        new = self.worlds[name] = World(
            state.copy(), origin=namespace.name, common=state.copy(), policy=world.policy
        )
        first = fork.get_snapshot("@")
        assert (first.kind, first.target) == (Kind.FORK, row.id if row else world.position)
        self.remember(new, first, state)
        new.position = first.id
        self.touched.add(name)

    @precondition(lambda self: len(self.worlds) > 1)
    @rule(
        which=some,
        other=some,
        ours=st.lists(edits, max_size=4),
        theirs=st.lists(edits, max_size=4),
        prefer=sides,
    )
    def change_and_merge(
        self, which: int, other: int, ours: list[Edit], theirs: list[Edit], prefer: Any
    ) -> None:
        self.edit(which, ours)
        self.edit(other, theirs)
        self.merge(which, other, prefer)

    def merge(self, which: int, other: int, prefer: Any) -> None:
        name, their_name = self.name(which), self.name(other)
        namespace, world = self.at(which)
        theirs = self.worlds[their_name]
        if name not in (theirs.origin, their_name) and world.origin != their_name:
            with pytest.raises(InvalidValue):
                namespace.merge(their_name, prefer=prefer)
            return
        if name == their_name:
            with pytest.raises((InvalidValue, holdfast.errors.NamespaceNotFound)):
                namespace.merge(their_name, prefer=prefer)
            return
        fork = theirs if theirs.origin == name else world
        before = world.state
        merges = [row for row in (theirs.last_merge(name), world.last_merge(their_name)) if row]
        last = max(merges, key=lambda row: row.snapshot.created_at, default=None)
        common = fork.common if last is None else self.brought_in[last.id]
        after = merged(common, before, theirs.state, prefer)
        if isinstance(after, list):
            with pytest.raises(MergeConflict) as refused:
                namespace.merge(their_name, prefer=prefer)
            assert refused.value.conflicts == after
            return
        answer = namespace.merge(their_name, prefer=prefer)
        _, mark = self.absorb(name, Kind.MERGE, after)
        assert answer.snapshot == mark.snapshot
        assert shown(answer.changes) == differences(before, after)
        world.position, world.redo = mark.id, []
        self.brought_in[mark.id] = theirs.state.copy()

    @rule(
        which=some,
        old=st.none() | some,
        new=st.none() | some,
        planes=st.none() | st.just(["files"]),
    )
    def diff(self, which: int, old: int | None, new: int | None, planes: list[str] | None) -> None:
        namespace, world = self.at(which)
        rows = [None if one is None else self.pick(world, one) for one in (old, new)]
        if any(row is not None and not self.is_usable(world, row) for row in rows):
            return
        first, last = rows
        base = world.rows.get(world.position or "")
        before = first.state if first else base.state if base else State()
        after = last.state if last else world.state
        if not first and world.position and base is None:
            return
        found = namespace.diff(first and first.id, last and last.id, planes=planes)
        assert shown(found) == differences(before, after, planes or ["files", "store"])

    # Keeping and forgetting

    @rule(
        which=some,
        chosen=some,
        what=st.sampled_from(["pin", "unpin", "delete_snapshot", "recover_snapshot"]),
    )
    def retouch(self, which: int, chosen: int, what: str) -> None:
        namespace, world = self.at(which)
        row = self.pick(world, chosen)
        if row is not None:
            getattr(self, what)(namespace, world, row)

    def pin(self, namespace: Namespace, world: World, row: Row) -> None:
        if not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.pin(row.id)
            return
        row.snapshot, row.own_expiry = namespace.pin(row.id), None
        assert row.snapshot.pinned

    def unpin(self, namespace: Namespace, world: World, row: Row) -> None:
        if not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.unpin(row.id)
            return
        full_term = self.now + self.limits.retention
        row.snapshot = namespace.unpin(row.id)
        row.own_expiry = None if world.policy.is_set else full_term
        assert not row.snapshot.pinned

    def delete_snapshot(self, namespace: Namespace, world: World, row: Row) -> None:
        if not self.is_usable(world, row):
            with pytest.raises(self.refusal(row)):
                namespace.delete_snapshot(row.id)
            return
        namespace.delete_snapshot(row.id)
        row.deleted_at = self.now

    def recover_snapshot(self, namespace: Namespace, world: World, row: Row) -> None:
        if world.is_expired(row, self.now):
            with pytest.raises(SnapshotExpired):
                namespace.recover_snapshot(row.id)
            return
        assert namespace.recover_snapshot(row.id).id == row.id
        row.deleted_at = None

    @rule(which=some, keep=policies, is_for_good=st.booleans())
    def forget(self, which: int, keep: tuple[int, int, int], is_for_good: bool) -> None:
        namespace, world = self.at(which)
        if not world.rows:
            return
        last, daily, weekly = keep
        policy = Policy(keep_last=last, keep_daily=daily, keep_weekly=weekly)
        given = policy
        if is_for_good:
            namespace.set_retention(keep_last=last, keep_daily=daily, keep_weekly=weekly)
            world.policy, given = policy, None
        wanted = world.to_forget(policy, self.now, self.limits.grace)
        assert [s.id for s in namespace.forget(policy=given, dry_run=True)] == wanted
        assert [s.id for s in namespace.forget(policy=given)] == wanted
        self.purge(namespace.name, wanted)

    def purge(self, name: str, gone: list[str]) -> None:
        for snapshot_id in gone:
            del self.worlds[name].rows[snapshot_id]
            self.purged.append((name, snapshot_id))

    @rule(hours=st.sampled_from([-1, 1, 30, 24 * 8, 24 * 16, 24 * 31]))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)
        self.touched |= self.worlds.keys()

    @rule(what=st.sampled_from(["collect", "verify", "reopen"]))
    def look_after(self, what: str) -> None:
        getattr(self, what)()

    def collect(self) -> None:
        for name, world in self.worlds.items():
            gone = world.to_forget(world.policy, self.now, self.limits.grace)
            self.purge(name, gone)
        collected = self.vault.collect(now=True)
        assert not collected.damaged
        assert collected.bytes_after == self.vault.stored_bytes() <= collected.bytes_before
        self.everything_reads_back()

    def verify(self) -> None:
        assert self.vault.verify().ok

    def reopen(self) -> None:
        self.vault = self.opener(lambda: self.now, self.limits)
        self.everything_reads_back()

    # What always holds

    @invariant()
    def heads_are_as_the_model_says(self) -> None:
        touched, self.touched = self.touched, set()
        for name in touched:
            self.check_files(name)
            self.check_store(name)
            self.check_timeline(name)

    def check_files(self, name: str) -> None:
        files, world = self.vault.namespace(name).files, self.worlds[name]
        state, begun = world.state, world.begun or self.now
        assert list(view_of(files).items()) == list(expected_view(state, begun).items())
        folders = [path for path, node in state.tree.items() if isinstance(node, Folder)]
        for folder in [b"", *folders]:
            inside = folder + b"/" if folder else b""
            wanted = [
                expected_info(state.tree, path, begun)
                for path in sorted(state.tree)
                if path.startswith(inside) and b"/" not in path[len(inside) :]
            ]
            assert files.list(folder) == wanted
        for path in PATHS:
            if path in state.tree:
                found = files.stat(path)
                assert msgspec.structs.replace(found, tag=None) == expected_info(
                    state.tree, path, begun
                )
                assert (found.tag is not None) == isinstance(state.tree[path], File)
            else:
                assert not files.exists(path)

    def check_store(self, name: str) -> None:
        store, wanted = self.vault.namespace(name).store, self.worlds[name].state.values
        assert values_of(store) == wanted
        assert len(store) == len(wanted)
        for group in GROUPS:
            keys = sorted(key for of, key in wanted if of == group)
            assert store.keys(group) == keys
            assert store.max_key(group) == max(keys, default=None)
            assert (group in store) == bool(keys)
        assert store.keys("n", "k") == sorted(
            key for of, key in wanted if of == "n" and key.startswith("k")
        )

    def check_timeline(self, name: str) -> None:
        namespace, world = self.vault.namespace(name), self.worlds[name]
        usable = [row for row in world.rows.values() if self.is_usable(world, row)]
        usable.sort(key=lambda row: -row.snapshot.number)
        assert namespace.timeline() == [world.dated(row, self.now) for row in usable]
        assert namespace.size() == world.state.size()
        base = world.rows.get(world.position or "")
        if base is not None and base.state.key() != world.state.key():
            assert namespace.is_dirty()
        if usable:
            assert namespace.get_snapshot("latest").id == usable[0].id

    def everything_reads_back(self) -> None:
        for name, world in self.worlds.items():
            namespace = self.vault.namespace(name)
            for row in world.rows.values():
                if not self.is_usable(world, row):
                    with pytest.raises(self.refusal(row)):
                        namespace.at(row.id)
                    continue
                moment = namespace.at(row.id)
                assert view_of(moment.files) == expected_view(row.state, world.begun or self.now)
                assert values_of(moment.store) == row.state.values
        for name, snapshot_id in self.purged:
            with pytest.raises(SnapshotNotFound):
                self.vault.namespace(name).at(snapshot_id)


profile = settings.default
EXAMPLES = profile.max_examples if profile else 50
steps = settings(
    deadline=None,
    # No shrinking: it would take minutes, and thirty steps can be read.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.fixture
def folders() -> Iterator[Callable[[], Path]]:
    """Makes directories in memory where there are any: nothing here is about power cuts."""
    top = Path(tempfile.mkdtemp(dir=find_base()))
    yield lambda: Path(tempfile.mkdtemp(dir=top))
    shutil.rmtree(top)


class Opened:
    """Opens one vault again and again, and closes the one before."""

    def __init__(self, location: str | Path, objects: Path | None, tenant: str) -> None:
        self.location, self.objects, self.tenant = location, objects, tenant
        self.vault: holdfast.Holdfast | None = None

    def __call__(self, clock: Callable[[], datetime], limits: Limits) -> TenantVault:
        self.close()
        self.vault = holdfast.open(self.location, objects=self.objects, clock=clock, limits=limits)
        return self.vault.tenant(self.tenant)

    def close(self) -> None:
        if self.vault is not None:
            self.vault.close()


def run_machine(make: Callable[[], Opened], *, examples: int) -> None:
    opened: list[Opened] = []

    def machine() -> VaultMachine:
        for one in opened:
            one.close()
        opened[:] = [make()]
        return VaultMachine(opened[0])

    try:
        run_state_machine_as_test(machine, settings=settings(steps, max_examples=examples))
    finally:
        for one in opened:
            one.close()


@pytest.fixture
def fresh_machine(folders: Callable[[], Path]) -> Iterator[Callable[[], VaultMachine]]:
    """Makes machines that share a vault and nothing in it: cheap enough for many examples."""
    now = [START]
    numbers = iter(range(1_000_000))
    with holdfast.open(folders(), clock=lambda: now[0], limits=Limits(free_floor_bytes=0)) as vault:

        def make() -> VaultMachine:
            machine = VaultMachine(lambda _clock, _limits: vault.tenant(f"{next(numbers)}"))
            machine.open()
            return machine

        yield make


many_edits = st.lists(edits, min_size=1, max_size=8)
law = settings(
    max_examples=max(100, EXAMPLES), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@law
@given(base=many_edits, ours=many_edits, theirs=many_edits, prefer=sides)
def test_a_merge_takes_what_one_side_changed_and_names_what_both_did(
    fresh_machine: Callable[[], VaultMachine],
    base: list[Edit],
    ours: list[Edit],
    theirs: list[Edit],
    prefer: str | None,
) -> None:
    machine = fresh_machine()
    machine.edit(0, base)
    machine.snapshot(0, pin=False, days=None)
    machine.fork(0, None)
    machine.edit(0, ours)
    machine.edit(1, theirs)
    machine.merge(0, 1, prefer)
    machine.merge(1, 0, prefer)
    machine.heads_are_as_the_model_says()


@law
@given(base=many_edits, later=many_edits, chosen=st.lists(paths, min_size=1, max_size=3))
def test_a_restore_of_paths_touches_those_alone_and_can_be_undone(
    fresh_machine: Callable[[], VaultMachine],
    base: list[Edit],
    later: list[Edit],
    chosen: list[bytes],
) -> None:
    machine = fresh_machine()
    machine.edit(0, base)
    machine.snapshot(0, pin=False, days=None)
    machine.edit(0, later)
    machine.restore(0, 0, None, chosen)
    machine.heads_are_as_the_model_says()
    machine.undo(0)
    machine.undo_operation(0, 0)
    machine.heads_are_as_the_model_says()


@law
@given(base=many_edits, mistake=many_edits, later=many_edits)
def test_an_operation_is_undone_alone_or_not_at_all(
    fresh_machine: Callable[[], VaultMachine],
    base: list[Edit],
    mistake: list[Edit],
    later: list[Edit],
) -> None:
    machine = fresh_machine()
    for one in (base, mistake, later):
        machine.edit(0, one)
        machine.snapshot(0, pin=False, days=None)
    machine.undo_operation(0, 1)
    machine.heads_are_as_the_model_says()


def test_a_vault_on_sqlite_is_a_dict_with_a_memory(folders: Callable[[], Path]) -> None:
    run_machine(lambda: Opened(folders(), None, "default"), examples=max(30, EXAMPLES // 2))


def test_a_vault_on_postgres_is_a_dict_with_a_memory(
    folders: Callable[[], Path], postgres_url: str
) -> None:
    packs, numbers = folders(), iter(range(1_000_000))
    run_machine(
        lambda: Opened(postgres_url, packs, f"tenant {next(numbers)}"),
        examples=max(5, EXAMPLES // 10),
    )

"""Names choose what they say, to the letter, and nothing else: on every plane, and in a directory.

The model is plain: a moment is a few dicts, and after a restore everything that was chosen is as it
was then, everything else as it is now. Names are full of what patterns are made of.
"""

import fnmatch
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Name, Namespace, Plane
from holdfast.entries import Directory
from holdfast.errors import InTheWay, NameNotFound

PARTS = [
    *(b"a", b"[a]", b"x1.txt", b"x[1].txt", b"x[[]1].txt", b"*", b"**", b"?", b"a*", b"[!a]"),
    *(b"\\", b"\\*", b"!a", b"{a,b}", b"#", b"a\nb", b"a.", b"a ", b" ", b"...", b"-a", b"~"),
    *("é".encode(), b"\xff", b"[\xfe]", b"workspace"),
]
PATTERNS = ["*", "a*", "?", "[!a]", "*/[a]", "x[1].txt", "a", "nothing*"]
GROUPS = ["", "n", "n/m", "[n]", "*", "n\0"]
KEYS = ["", "k", "m/k", "[k]", "?", "a\nb"]
SESSIONS = ["s", "s1", "S", "s.1"]
NUMBERS = count()
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]

Files = dict[bytes, bytes | None]
"""None is a directory that only its owner may look into."""
Values = dict[tuple[str, str], int]
Sessions = dict[str, tuple[int, ...]]
"""What was said in each; the last of it is the state."""
K, V = TypeVar("K"), TypeVar("V")


@dataclass(frozen=True)
class World:
    """What there is at one moment."""

    files: Files = field(default_factory=Files)
    store: Values = field(default_factory=Values)
    sessions: Sessions = field(default_factory=Sessions)


@dataclass(frozen=True)
class Choice:
    """What somebody ticks, and what not."""

    names: list[Name] | None
    paths: list[str] | None
    except_: list[Name]

    @property
    def is_literal(self) -> bool:
        """Whether nothing gives way that was not chosen."""
        return self.names is not None or bool(self.except_)


contents = st.sampled_from([b"", b"one", b"two", b"0123456789" * 60, None])


def without_clashes(files: Files) -> Files:
    """Returns a tree that can be: nothing lies below a file."""
    return {
        path: content
        for path, content in files.items()
        if not any(files.get(above, None) is not None for above in folders_above(path))
    }


def folders_above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts))]


places = st.tuples(st.sampled_from(GROUPS), st.sampled_from(KEYS))
values = st.dictionaries(places, st.integers(0, 1), max_size=4)
said = st.integers(0, 2).map(lambda number: (number,))
sessions = st.dictionaries(st.sampled_from(SESSIONS), said, max_size=2)


@st.composite
def moments(draw: st.DrawFn) -> tuple[World, World]:
    """Draws two moments that have something in common, and are at odds about much."""
    parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5, unique=True))
    paths = st.lists(st.sampled_from(parts), min_size=1, max_size=3).map(b"/".join)
    trees = st.dictionaries(paths, contents, max_size=8)
    then = World(without_clashes(draw(trees)), draw(values), draw(sessions))
    files = {**(then.files if draw(st.booleans()) else {}), **draw(trees)}
    now = World(without_clashes(files), {**then.store, **draw(values)}, draw(sessions))
    return then, now


@st.composite
def choices(draw: st.DrawFn, then: World, now: World, *, only_files: bool = False) -> Choice:
    files = {*then.files, *now.files}
    known = [
        Name.file(path) for path in sorted({*files, *(f for p in files for f in folders_above(p))})
    ]
    if not only_files:
        known += [Name.value(*place) for place in sorted({*then.store, *now.store})]
        known += [Name.session(each) for each in sorted({*then.sessions, *now.sessions})]
    if not known:
        return Choice(None, None, [])
    names = draw(st.none() | st.lists(st.sampled_from(known), min_size=1, max_size=4))
    patterns = draw(st.none() | st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2))
    excepted = draw(st.lists(st.sampled_from(known), max_size=3))
    chosen = planes_of(names, patterns)
    return Choice(names, patterns, [name for name in excepted if name.plane in chosen])


def planes_of(names: list[Name] | None, patterns: list[str] | None) -> set[str]:
    if names is None and patterns is None:
        return {"files", "store", "sessions"}
    return {*(name.plane for name in names or ()), *(["files"] if patterns else [])}


# The model


def is_below(path: bytes, names: list[Name]) -> bool:
    meant = [name for name in names if name.plane == "files"]
    return any(Name.file(part) in meant for part in [path, *folders_above(path)])


def is_chosen_file(path: bytes, choice: Choice) -> bool:
    if is_below(path, choice.except_):
        return False
    if choice.names is None and choice.paths is None:
        return True
    text = path.decode("latin-1")
    return is_below(path, choice.names or []) or any(
        fnmatch.fnmatchcase(text, pattern)
        or any(part == pattern.encode() for part in [path, *folders_above(path)])
        for pattern in choice.paths or []
    )


def is_chosen(name: Name, choice: Choice) -> bool:
    if name in choice.except_:
        return False
    if choice.names is None:
        return choice.paths is None
    return name in choice.names


def expected_of(then: World, now: World, choice: Choice) -> World:
    """Returns what there has to be after a restore; it may be a tree that cannot be."""

    def mixed(old: Mapping[K, V], new: Mapping[K, V], chosen: dict[K, bool]) -> dict[K, V]:
        return {
            key: side[key]
            for key, is_so in chosen.items()
            if key in (side := old if is_so else new)
        }

    files = mixed(
        then.files,
        now.files,
        {path: is_chosen_file(path, choice) for path in {*then.files, *now.files}},
    )
    if not choice.is_literal:
        files = giving_way(files, choice)
    return World(
        {**needed(files, then.files, now.files), **files},
        mixed(
            then.store,
            now.store,
            {at: is_chosen(Name.value(*at), choice) for at in {*then.store, *now.store}},
        ),
        mixed(
            then.sessions,
            now.sessions,
            {s: is_chosen(Name.session(s), choice) for s in {*then.sessions, *now.sessions}},
        ),
    )


def finds_nothing(then: World, now: World, choice: Choice) -> bool:
    """Says whether patterns alone were given, and nothing is what they say."""
    files = {*then.files, *now.files}
    is_sought = bool(choice.paths) and not choice.is_literal
    return is_sought and not any(is_chosen_file(path, choice) for path in files)


def giving_way(files: Files, choice: Choice) -> Files:
    """Returns the tree without what no pattern chose, and stands where a chosen entry has to be."""
    chosen = {path for path in files if is_chosen_file(path, choice)}
    above_chosen = {above for path in chosen for above in folders_above(path)}
    chosen_files = {path for path in chosen if files[path] is not None}
    return {
        path: content
        for path, content in files.items()
        if path in chosen
        or (
            (content is None or path not in above_chosen)
            and chosen_files.isdisjoint(folders_above(path))
        )
    }


def needed(files: Files, then: Files, now: Files) -> Files:
    """Returns the directories that would go, and stay as they are since something in them does."""

    def is_folder(path: bytes, tree: Files) -> bool:
        return any(path in folders_above(each) for each in tree)

    return {
        path: None
        for path, content in now.items()
        if content is None and is_folder(path, files) and not is_folder(path, then)
    }


# The world


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # Where files in memory are to be had: hundreds of commits wait for no disk there.
    roomy = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 1 << 30 else None
    made = Path(tempfile.mkdtemp(prefix="holdfast-names-", dir=roomy))
    yield made
    for place, _, _ in os.walk(made):
        os.chmod(place, 0o700)
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def vault(folder: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(folder / "vault") as opened:
        yield opened


def become(agent: Namespace, world: World) -> None:
    """Makes a namespace what a moment says; a session goes on, if there is one."""
    agent.store.clear()
    agent.store.set_many((*place, value) for place, value in world.store.items())
    known = {session.id for session in agent.sessions.list()}
    for session_id in known - world.sessions.keys():
        agent.sessions.delete(session_id)
    for session_id, (said,) in world.sessions.items():
        if session_id not in known:
            agent.sessions.create("a", session_id=session_id)
        agent.sessions.add_turn(session_id, str(said), "", state_after={"last": said})
    for info in agent.files.list():
        agent.files.delete(os.fsencode(info.path), recursive=True)
    for path, content in world.files.items():
        if content is None:
            agent.files.mkdir(path, mode=0o700)
        else:
            agent.files.write(path, content)


def talk(agent: Namespace, session_id: str) -> tuple[int, ...]:
    said = tuple(int(turn.input["content"]) for turn in agent.sessions.list_turns(session_id))
    assert agent.sessions.get_state(session_id).state == {"last": said[0]}
    return said


def shown(agent: Namespace) -> World:
    """Returns what a namespace holds; of directories, those that only their owner looks into."""
    files = agent.files.list(recursive=True)
    folders = {above for info in files for above in folders_above(os.fsencode(info.path))}
    places = [os.fsencode(info.path) for info in files if info.kind == "file"]
    folders |= {os.fsencode(info.path) for info in files if info.kind != "file"}
    private: Files = {folder: None for folder in folders if agent.files.stat(folder).mode == 0o700}
    return World(
        {**{path: agent.files.read(path) for path in places}, **private},
        dict(agent.store.items()),
        {each.id: talk(agent, each.id) for each in agent.sessions.list()},
    )


def is_possible(files: Files) -> bool:
    return without_clashes(files) == files


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=PHASES)
@given(st.data())
def test_a_restore_changes_what_was_chosen_and_nothing_else(
    vault: holdfast.Holdfast, data: st.DataObject
) -> None:
    then, now = data.draw(moments())
    choice = data.draw(choices(then, now))
    agent = vault.namespace(f"n{next(NUMBERS)}")
    become(agent, then)
    target, then = agent.snapshot(), shown(agent)
    become(agent, now)
    now, before = shown(agent), agent.snapshot()
    expected = expected_of(then, now, choice)
    chosen = {"names": choice.names, "paths": choice.paths, "except_": choice.except_}
    if finds_nothing(then, now, choice) or not is_possible(expected.files):
        refusal = NameNotFound if finds_nothing(then, now, choice) else InTheWay
        for dry_run in (True, False):
            with pytest.raises(refusal):
                agent.restore(target, dry_run=dry_run, **chosen)
        assert agent.get_snapshot("@").id == before.id
        return
    seen = agent.restore(target, dry_run=True, limit=None, **chosen)
    assert shown(agent) == now
    done = agent.restore(target, limit=None, **chosen)
    assert done.verified
    assert done.changes == seen.changes
    assert done.root == seen.root
    assert shown(agent) == expected
    if done.root != before.root:
        assert agent.undo().root == before.root
    assert shown(agent) == now


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], phases=PHASES)
@given(st.data())
def test_what_a_preview_lists_can_be_ticked_one_by_one(
    vault: holdfast.Holdfast, data: st.DataObject
) -> None:
    then, now = data.draw(moments())
    agent = vault.namespace(f"n{next(NUMBERS)}")
    become(agent, then)
    target = agent.snapshot()
    become(agent, now)
    listed = agent.restore(target, dry_run=True, limit=None).changes
    ticks = (
        data.draw(st.lists(st.sampled_from(listed.items), min_size=1, unique=True))
        if listed
        else []
    )
    if not ticks:
        return
    names = [change.named for change in ticks]
    try:
        changed = agent.restore(target, names=names, limit=None).changes
    except InTheWay:
        return
    meant = {(change.plane, change.key, change.change) for change in ticks}
    others = [c for c in changed if (c.plane, c.key, c.change) not in meant]
    # What is below a folder goes and comes with it; one that would be empty stays for itself.
    assert all(
        c.plane is Plane.FILES and (is_below(c.key, names) or isinstance(c.new, Directory | None))
        for c in others
    )
    assert meant <= {(c.plane, c.key, c.change) for c in changed}


@settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=PHASES
)
@given(st.data())
def test_in_a_directory_what_was_chosen_is_written_and_nothing_else(
    vault: holdfast.Holdfast, folder: Path, data: st.DataObject
) -> None:
    then, now = data.draw(moments())
    choice = data.draw(choices(then, now, only_files=True))
    tree = folder / f"tree{next(NUMBERS)}"
    tree.mkdir()
    with vault.workspace(tree) as project:
        put(tree, then.files)
        target = project.snapshot()
        put(tree, now.files)
        before = look(tree)
        expected = expected_of(World(then.files), World(now.files), choice).files
        chosen = {"names": choice.names, "paths": choice.paths, "except_": choice.except_}
        if finds_nothing(then, now, choice) or not is_possible(expected):
            refusal = NameNotFound if finds_nothing(then, now, choice) else InTheWay
            with pytest.raises(refusal):
                project.restore(target, **chosen)
            assert look(tree) == before
            return
        seen = project.restore(target, dry_run=True, limit=None, **chosen)
        assert look(tree) == before
        done = project.restore(target, limit=None, **chosen)
        assert done.verified
        assert [(c.key, c.change) for c in done.changes] == [
            (c.key, c.change) for c in seen.changes
        ]
        assert look(tree) == expected
        if done.changes:
            project.undo()
        assert look(tree) == before


def put(tree: Path, files: Files) -> None:
    """Makes a real directory what a moment says."""
    for entry in os.scandir(tree):
        shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
    for path, content in files.items():
        place = os.path.join(os.fsencode(tree), path)
        if content is None:
            os.makedirs(place, exist_ok=True)
            os.chmod(place, 0o700)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            Path(os.fsdecode(place)).write_bytes(content)


def look(tree: Path) -> Files:
    """Returns what a real directory holds, in the words of the model."""
    found: Files = {}
    for above, folders, files in os.walk(os.fsencode(tree)):
        for name in files:
            place = os.path.join(above, name)
            found[os.path.relpath(place, os.fsencode(tree))] = Path(os.fsdecode(place)).read_bytes()
        for name in folders:
            place = os.path.join(above, name)
            if os.stat(place).st_mode & 0o777 == 0o700:
                found[os.path.relpath(place, os.fsencode(tree))] = None
    return found

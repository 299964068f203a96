"""Sessions against plain dicts and lists: whatever is done, in whatever order, both say the same.

A session of the model is a list of versions, each a state and a list of turns; a snapshot is a
copy. What was once in a history is compared for ever after. Values are chosen to be hard on JSON,
and long enough to be kept in one piece, as a map, and in chunks.
"""

import copy
import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.overlays import settle
from holdfast.engine.sessions.patching import make_patch, to_text
from holdfast.engine.sessions.state import SHORT_BYTES
from holdfast.engine.vault import Holdfast
from holdfast.errors import NothingToUndo, SessionNotFound, VersionNotFound
from holdfast.model.basics import Kind, Plane, Size
from holdfast.model.changes import Restored
from holdfast.model.sessions import Version, VersionKind
from holdfast.testing.faults import contents
from holdfast.testing.postgres import find_base

START = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)
MOST_NAMESPACES, MOST_SESSIONS = 3, 5

State = dict[str, Any]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40 + 7, -(10**400)]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 0.0, 1.0, 5e-324, 1.7976931348623157e308, 0.1, 1e16, 1e22]),
    texts,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=8,
)
long_values = st.one_of(
    st.sampled_from([1015, 1022, 1023, 2040, SHORT_BYTES, 5000, 90_000]).map(
        lambda n: "é" + "x" * n
    ),
    st.integers(1, 400).map(
        lambda n: [{"role": "user", "content": f"message {i}"} for i in range(n)]
    ),
)
keys = st.one_of(st.sampled_from(["a", "b", "c", "messages", "", 'quo"te', "ü/~", "\0"]), texts)
states = st.dictionaries(keys, values | values | long_values, max_size=4)
some = st.integers(0, 99)
"""Picks one of what there is, modulo how many there are."""


def exact(state: State) -> dict[str, str]:
    """Returns a state in which 1, 1.0 and True differ, and the order inside values counts."""
    return {key: json.dumps(value) for key, value in state.items()}


@dataclass(frozen=True)
class Moment:
    """What the plane holds of a session."""

    state: State
    turns: tuple[str, ...]
    metadata: State


@dataclass
class Model:
    """A session: the simplest thing that could be right."""

    now: Moment
    versions: list[tuple[VersionKind, State, int | None, tuple[str, ...]]]
    forked: tuple[str, int] | None = None
    is_present: bool = True
    is_deleted: bool = False
    seen: list[Version] = field(default_factory=list[Version])
    """The history, as it was shown last."""

    def add(self, kind: VersionKind, now: Moment, target: int | None = None) -> None:
        self.now, self.is_present = now, True
        self.versions.append((kind, now.state, target, now.turns))


@dataclass
class World:
    """A namespace of the model."""

    real: Namespace
    sessions: dict[str, Model] = field(default_factory=dict[str, Model])
    held: dict[str, dict[str, Moment]] = field(default_factory=dict[str, dict[str, Moment]])
    """What each snapshot holds."""

    def plane(self) -> dict[str, Moment]:
        return {name: model.now for name, model in self.sessions.items() if model.is_present}

    def living(self) -> list[str]:
        return [name for name, model in self.sessions.items() if model.is_present]

    def become(self, plane: dict[str, Moment]) -> None:
        """Moves to another plane, as restore, undo and redo do: by versions."""
        for name in self.plane().keys() - plane.keys():
            self.sessions[name].is_present = False
        for name, moment in plane.items():
            model = self.sessions[name]
            if not model.is_present or exact_moment(model.now) != exact_moment(moment):
                model.add(VersionKind.RESTORE, moment)
                model.is_deleted = False


def exact_moment(moment: Moment) -> object:
    return exact(moment.state), moment.turns, exact(moment.metadata)


class SessionsMachine(RuleBasedStateMachine):
    """Does anything to the sessions of up to three namespaces that are forks of each other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=find_base()))
        self.catalog = SqliteCatalog(self.folder)
        self.ticks = count()
        self.open()
        self.worlds: list[World] = []
        self.touched: World | None = None
        self.names = count()

    def open(self) -> None:
        """Opens the vault as somebody who remembers nothing."""
        self.context = Context.of(
            self.catalog,
            DiskBlobStore(self.folder / "packs"),
            clock=lambda: START + timedelta(milliseconds=next(self.ticks)),
            limits=LIMITS,
        )
        self.vault = Holdfast(self.context)

    def teardown(self) -> None:
        try:
            with closing(self.catalog):
                self.check_anew()
        finally:
            shutil.rmtree(self.folder)

    def check_anew(self) -> None:
        self.open()
        for world in self.worlds:
            world.real = self.vault.namespace(world.real.name)
            self.check(world)
        self.check_entries()
        assert self.vault.verify().faults == []

    @initialize(state=states)
    def begin(self, state: State) -> None:
        self.worlds = [World(self.vault.namespace("first"))]
        self.create(0, state, {})

    def pick(self, number: int) -> tuple[World, str, Model]:
        """Returns a session that somebody may ask for, with its namespace."""
        world = self.worlds[number % len(self.worlds)]
        living = world.living()
        name = living[number // len(self.worlds) % len(living)] if living else "sess_none"
        self.touched = world
        return world, name, world.sessions.get(name) or Model(Moment({}, (), {}), [])

    def refused(self, world: World, name: str, act: Callable[[], object]) -> bool:
        """Plays what has no session to work on: it is told, and nothing is changed."""
        if name in world.sessions:
            return False
        with pytest.raises(SessionNotFound):
            act()
        return True

    # One session

    @rule(number=some, state=states, metadata=states)
    def create(self, number: int, state: State, metadata: State) -> None:
        world = self.worlds[number % len(self.worlds)]
        self.touched = world
        if len(world.sessions) >= MOST_SESSIONS:
            return
        made = world.real.sessions.create("agent", initial_state=state, metadata=metadata)
        assert made.version == 0
        now = Moment(state, (), metadata)
        world.sessions[made.id] = Model(now, [(VersionKind.CREATED, state, None, ())])

    @rule(number=some, changes=states)
    def update_state(self, number: int, changes: State) -> None:
        world, name, model = self.pick(number)
        if self.refused(world, name, lambda: world.real.sessions.update_state(name, changes)):
            return
        state = {**model.now.state, **changes}
        found = world.real.sessions.update_state(name, changes)
        assert exact(found.state) == exact(state)
        model.add(VersionKind.UPDATED, Moment(state, model.now.turns, model.now.metadata))
        assert found.version == len(model.versions) - 1

    @rule(number=some, state=states)
    def replace_state(self, number: int, state: State) -> None:
        world, name, model = self.pick(number)
        if self.refused(world, name, lambda: world.real.sessions.replace_state(name, state)):
            return
        assert exact(world.real.sessions.replace_state(name, state).state) == exact(state)
        model.add(VersionKind.REPLACED, Moment(state, model.now.turns, model.now.metadata))

    @rule(number=some, wanted=st.integers(-8, 8), conversation=st.booleans())
    def rollback(self, number: int, wanted: int, *, conversation: bool) -> None:
        world, name, model = self.pick(number)
        sessions = world.real.sessions
        target = wanted if wanted >= 0 else len(model.versions) - 1 + wanted
        if not 0 <= target < len(model.versions):
            with pytest.raises((VersionNotFound, SessionNotFound)):
                sessions.rollback(name, wanted, conversation=conversation)
            return
        found = sessions.rollback(name, wanted, conversation=conversation)
        _, state, _, turns = model.versions[target]
        assert exact(found.state) == exact(state)
        now = Moment(state, turns if conversation else model.now.turns, model.now.metadata)
        model.add(VersionKind.ROLLBACK, now, target)

    @rule(number=some, wanted=st.none() | st.integers(-4, 8), turns=st.booleans(), more=states)
    def fork(self, number: int, wanted: int | None, more: State, *, turns: bool) -> None:
        world, name, model = self.pick(number)
        if len(world.sessions) >= MOST_SESSIONS:
            return
        newest = len(model.versions) - 1
        target = newest if wanted is None else wanted if wanted >= 0 else newest + wanted
        sessions = world.real.sessions
        if not 0 <= target <= newest:
            with pytest.raises((VersionNotFound, SessionNotFound)):
                sessions.fork(name, wanted, include_turns=turns)
            return
        made = sessions.fork(name, wanted, include_turns=turns, metadata=more)
        _, state, _, said = model.versions[target]
        # As it is now: with what was said since the newest version was made.
        said = model.now.turns if wanted is None else said
        assert exact(made.state) == exact(state)
        metadata = {**more, "forked_from": name, "forked_version": target}
        now = Moment(state, said if turns else (), metadata)
        versions = [(VersionKind.FORK, state, None, now.turns)]
        world.sessions[made.id] = Model(now, versions, forked=(name, target))

    @rule(number=some, after=st.none() | states, said=values)
    def add_turn(self, number: int, after: State | None, said: Any) -> None:
        world, name, model = self.pick(number)
        sessions = world.real.sessions
        if self.refused(world, name, lambda: sessions.add_turn(name, "i", "o", state_after=after)):
            return
        turn = sessions.add_turn(name, {"said": said}, "o", state_after=after)
        assert exact(turn.input)["said"] == json.dumps(said)
        assert turn.number == len(model.now.turns) + 1
        turns, before = (*model.now.turns, turn.id), len(model.versions) - 1
        is_new = after is not None and exact_sorted(after) != exact_sorted(model.now.state)
        state = after if is_new and after is not None else model.now.state
        now = Moment(state, turns, model.now.metadata)
        if is_new:
            model.add(VersionKind.TURN, now)
        model.now, model.is_present = now, True
        assert (turn.version_before, turn.version_after) == (before, before + is_new)

    @rule(number=some, more=states)
    def set_metadata(self, number: int, more: State) -> None:
        world, name, model = self.pick(number)
        if self.refused(world, name, lambda: world.real.sessions.update(name, metadata=more)):
            return
        metadata = {**model.now.metadata, **more}
        assert exact(world.real.sessions.update(name, metadata=more).metadata) == exact(metadata)
        model.now = Moment(model.now.state, model.now.turns, metadata)
        model.is_present = True

    @rule(number=some)
    def delete(self, number: int) -> None:
        world, name, model = self.pick(number)
        if self.refused(world, name, lambda: world.real.sessions.delete(name)):
            return
        world.real.sessions.delete(name)
        model.is_present, model.is_deleted = False, True
        with pytest.raises(SessionNotFound):
            world.real.sessions.get(name)

    # A namespace

    @rule(number=some)
    def snapshot(self, number: int) -> None:
        world = self.touched = self.worlds[number % len(self.worlds)]
        world.held[world.real.snapshot().id] = world.plane()

    @rule(number=some, which=some)
    def restore(self, number: int, which: int) -> None:
        world = self.touched = self.worlds[number % len(self.worlds)]
        if world.held:
            snapshot_id = list(world.held)[which % len(world.held)]
            self.moved(world, world.real.restore(snapshot_id))

    @rule(number=some)
    def undo(self, number: int) -> None:
        world = self.touched = self.worlds[number % len(self.worlds)]
        try:
            done = world.real.undo()
        except NothingToUndo:
            return
        self.moved(world, done)

    @rule(number=some)
    def redo(self, number: int) -> None:
        world = self.touched = self.worlds[number % len(self.worlds)]
        try:
            done = world.real.redo()
        except NothingToUndo:
            return
        self.moved(world, done)

    def moved(self, world: World, done: Restored) -> None:
        """Takes over what a restore says that it did: from where, and to which snapshot."""
        if done.safety_id is not None:
            world.held[done.safety_id] = world.plane()
        world.become(world.held[done.target])
        world.held[done.snapshot.id] = world.plane()

    @precondition(lambda self: len(self.worlds) < MOST_NAMESPACES)
    @rule(number=some)
    def fork_namespace(self, number: int) -> None:
        origin = self.worlds[number % len(self.worlds)]
        world = World(origin.real.fork(f"fork {next(self.names)}"))
        # None where all that was ever there is gone again: nothing has to be kept of that.
        newest = next(iter(origin.real.timeline(limit=1)), None)
        if newest is not None and newest.kind is Kind.SAFETY:
            origin.held[newest.id] = origin.plane()
        world.held[world.real.timeline()[0].id] = origin.plane()
        for name, moment in origin.plane().items():
            versions = [(VersionKind.FORK, moment.state, None, moment.turns)]
            world.sessions[name] = Model(copy.deepcopy(moment), versions)
        self.worlds.append(world)
        self.touched = world

    @rule()
    def collect(self) -> None:
        self.vault.collect(now=True)

    # What has to be true

    @invariant()
    def shows_what_the_model_does(self) -> None:
        if self.touched is not None:
            self.check(self.touched)

    def check(self, world: World) -> None:
        sessions = world.real.sessions
        found = {info.id: info for info in sessions.list(limit=MOST_SESSIONS + 1)}
        assert found.keys() == world.plane().keys()
        for name, model in world.sessions.items():
            if not model.is_present:
                for ask in (
                    sessions.get,
                    sessions.get_state,
                    sessions.history,
                    sessions.list_turns,
                ):
                    with pytest.raises(SessionNotFound):
                        ask(name)
                continue
            info = found[name]
            assert exact(info.state) == exact(model.now.state)
            assert exact(info.metadata) == exact(model.now.metadata)
            assert info.version == len(model.versions) - 1
            assert info.turn_count == len(model.now.turns)
            turns = sessions.list_turns(name, order="asc", limit=1000)
            assert [turn.id for turn in turns] == list(model.now.turns)
            self.check_history(sessions.history(name, limit=1000), model)
        self.check_plane(world)

    def check_history(self, history: list[Version], model: Model) -> None:
        assert history[: len(model.seen)] == model.seen, "what was is another now"
        model.seen = history
        assert [
            (version.number, version.kind, exact(version.state or {}), version.target)
            for version in history
        ] == [
            (number, kind, exact(state), target)
            for number, (kind, state, target, _) in enumerate(model.versions)
        ]
        assert [version.turn_count for version in history] == [
            len(turns) for *_, turns in model.versions
        ]

    def check_plane(self, world: World) -> None:
        with self.context.catalog.read() as transaction:
            tenant = transaction.find_tenant("default")
            assert tenant is not None
            head = transaction.find_head(tenant.id, world.real.name)
            assert head is not None
        held = contents(self.context, head)
        assert held.keys() == {(Plane.SESSIONS, name.encode()) for name in world.plane()}
        assert head.size == Size(len(held), sum(entry.size for entry, _ in held.values()))

    def check_entries(self) -> None:
        """Equal states have equal entries, whatever the way there, and others have others."""
        known: dict[str, bytes] = {}
        with self.context.catalog.read() as transaction:
            tenant = transaction.find_tenant("default")
            assert tenant is not None
            objects = Objects(self.context, tenant.id, transaction)
            for world in self.worlds:
                head = transaction.find_head(tenant.id, world.real.name)
                assert head is not None
                for name, model in world.sessions.items():
                    rows = transaction.list_versions(head.namespace_id, name, after=-1, most=1000)
                    for row, (_, state, *_rest) in zip(rows, model.versions, strict=True):
                        text = json.dumps(sorted(exact(state).items()))
                        entry = settle(NamesOnly(), objects, row.state)
                        assert known.setdefault(text, entry) == entry
                        sorted_state = dict(sorted(state.items()))
                        assert row.bytes == len(msgspec.json.encode(sorted_state))
        assert len(set(known.values())) == len(known)


def exact_sorted(state: State) -> str:
    """Returns what two states have in common that differ in the order of keys alone."""
    return json.dumps(state, sort_keys=True)


TestSessionsMachine = SessionsMachine.TestCase
TestSessionsMachine.settings = settings(
    max_examples=25, stateful_step_count=30, phases=set(Phase) - {Phase.explain}
)


# What leads from one state to another


def apply(value: Any, patch: list[dict[str, Any]]) -> Any:
    """Applies a JSON Patch, read from RFC 6902 and written without a look at ours."""
    value = copy.deepcopy(value)
    for operation in patch:
        *way, last = (
            step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
        )
        place = value
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        match operation["op"], place:
            case "add", list():
                assert int(last) <= len(place)
                place.insert(int(last), operation["value"])
            case "remove", list():
                del place[int(last)]
            case "replace", list():
                place[int(last)] = operation["value"]
            case "add" | "replace" as op, dict():
                assert (last in place) == (op == "replace")
                place[last] = operation["value"]
            case _:
                del place[last]
    return value


@given(old=states, new=states)
def test_a_patch_leads_from_the_old_state_to_the_new(old: State, new: State) -> None:
    patched = make_patch(old, new)
    patch = patched.patch
    assert not patched.is_coarse
    assert exact_sorted(apply(old, patch)) == exact_sorted(new)
    assert bool(patch) == (exact_sorted(old) != exact_sorted(new))
    changes = {"add": 1, "remove": 1, "replace": 2}
    lines = to_text(old, patched).splitlines()
    assert len(lines) >= sum(changes[operation["op"]] for operation in patch)


@given(old=st.lists(values, max_size=8), data=st.data())
def test_a_patch_of_a_list_names_what_changed_and_not_what_stayed(
    old: list[Any], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(old)))
    gone = data.draw(st.integers(0, len(old) - at))
    come = data.draw(st.lists(values, max_size=3))
    new = [*old[:at], *come, *old[at + gone :]]
    patch = make_patch({"k": old}, {"k": new}).patch
    assert exact_sorted(apply({"k": old}, patch)) == exact_sorted({"k": new})
    tops = {operation["path"].split("/")[2] for operation in patch}
    assert len(tops) <= max(gone, len(come))


@settings(max_examples=20)
@given(first=states, second=states)
def test_the_patch_between_two_versions_is_told_by_the_session(first: State, second: State) -> None:
    with (
        tempfile.TemporaryDirectory(dir=find_base()) as folder,
        closing(SqliteCatalog(Path(folder))) as catalog,
    ):
        context = Context.of(catalog, DiskBlobStore(Path(folder) / "packs"), limits=LIMITS)
        sessions = Holdfast(context).namespace("agent").sessions
        name = sessions.create("agent", initial_state=first).id
        sessions.replace_state(name, second)
        found = sessions.diff(name, 0, 1)
        assert exact_sorted(apply(first, found.patch)) == exact_sorted(second)
        back = sessions.diff(name, -0, -1)
        assert back.patch == []
        assert exact_sorted(apply(second, sessions.diff(name, 1, 0).patch)) == exact_sorted(first)

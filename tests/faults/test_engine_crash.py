"""Kills the engine at every step of every operation, and opens the vault again.

What is found must be the old state or the new one, wholly: every byte, every snapshot. All of
it must be sound, the next collection must remove what the dead have left, and the operation
must then run to its end. A step is a call of a port (`holdfast.testing.faults`).

Steps that leave exactly the same bytes on disk are looked at once. Below, somebody else comes
in at every step instead, and changes what there is: then nothing that is needed may be gone.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.tables import no_step
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects import stage
from holdfast.engine.upkeep import repacking
from holdfast.engine.upkeep.repacking import join_packs
from holdfast.engine.vault import Holdfast
from holdfast.errors import Conflict, NotFound
from holdfast.model.basics import Size
from holdfast.model.upkeep import Policy
from holdfast.testing.damaged import one_of_each
from holdfast.testing.faults import (
    Counts,
    Fuse,
    FusedBlobStore,
    FusedCatalog,
    Observed,
    every_step,
    find_litter,
    fuses,
    leaves_traces,
    observe,
)
from holdfast.testing.places import (
    LIMITS,
    NOW,
    Admin,
    Place,
    PostgresPlace,
    SqlitePlace,
    clear,
    fingerprint,
    opened,
    tar_file,
)

NOTHING = {
    "position": None,
    "redo": [],
    "generation": 0,
    "size": Size(),
    "fork_root": None,
    "retention": None,
    "now": {},
    "timeline": [],
}


def noise(size: int, seed: int) -> bytes:
    """Bytes that do not compress, so that a few of them fill a pack."""
    return Random(seed).randbytes(size)


# What is done


def build(vault: Holdfast) -> None:
    """Makes two namespaces that hold some of everything: entries, packs, pending rows."""
    alice = vault.namespace("alice")
    alice.files.write("notes.md", "first thoughts", mode=0o600)
    alice.files.write("data/large.bin", noise(6000, 1))
    alice.files.write("data/small.bin", noise(1500, 2))
    alice.files.mkdir("empty", mode=0o700)
    alice.files.symlink("link", "../anywhere")
    alice.files.write("data/first.bin", noise(5000, 8))
    alice.snapshot("zero")
    alice.files.delete("data/first.bin")
    alice.store.set_many([("config", "model", "a"), ("config", "long", "x" * 2000)])
    alice.snapshot("one", pin=True)
    alice.fork("bob")
    alice.files.write("data/large.bin", noise(7000, 3))
    alice.files.delete("notes.md")
    alice.files.chmod("data/small.bin", 0o755)
    alice.store.set("config", "model", "b")
    alice.snapshot("two")
    alice.files.write("draft.txt", "not in any snapshot")
    alice.files.write("data/pending.bin", noise(5000, 4))
    alice.files.write("data/in its row.bin", noise(3000, 11))
    alice.store.set("notes", "todo", ["pending"])
    bob = vault.namespace("bob")
    bob.files.write("bob.txt", "from the fork")
    bob.files.write("data/bob.bin", noise(5000, 5))
    bob.snapshot("bob's")
    bob.files.write("data/unsaved.bin", noise(5000, 6))


@dataclass(frozen=True)
class Scenario:
    """One operation, what has to be there before it, and when it happens."""

    act: Callable[[Holdfast], object]
    arrange: Callable[[Holdfast], object] = lambda _vault: None
    later: timedelta = timedelta(0)
    is_several: bool = False
    """Whether it may leave one namespace as it was and another as it shall be."""
    counts: Counts = every_step
    """Where it may die."""


def on_alice(method: str, *args: object, **options: object) -> Callable[[Holdfast], object]:
    return lambda vault: getattr(vault.namespace("alice"), method)(*args, **options)


def on_files(method: str, *args: object, **options: object) -> Callable[[Holdfast], object]:
    return lambda vault: getattr(vault.namespace("alice").files, method)(*args, **options)


def make_many_pending(vault: Holdfast) -> None:
    items = [(f"many/{number}", noise(250, number)) for number in range(30)]
    vault.namespace("alice").files.write_many(items)


def write_and_delete(vault: Holdfast) -> None:
    """Leaves an object that nothing needs, and that is there until it is collected."""
    vault.namespace("alice").files.write("dead.bin", noise(6000, 7))
    vault.namespace("alice").files.delete("dead.bin")


def undo_twice(vault: Holdfast) -> None:
    vault.namespace("alice").undo()
    vault.namespace("alice").undo()


def make_garbage(vault: Holdfast) -> None:
    """Leaves expired snapshots, dead and wasteful packs, and a crowd of inline ones."""
    alice = vault.namespace("alice")
    for number in range(2):
        alice.files.write("wasted", noise(6000, 100 + number))
        alice.snapshot(f"short-lived {number}", expires_in=timedelta(hours=1))
    alice.files.write_many([(f"mixed/{n}", noise(2000, 200 + n)) for n in range(5)])
    alice.files.delete("wasted")
    alice.snapshot("all", expires_in=timedelta(hours=1))
    for number in range(4):
        alice.files.delete(f"mixed/{number}")
    alice.snapshot("few")
    # One step back is always kept: two, and the files above are gone.
    alice.files.write("few", "few")
    alice.snapshot("fewer")
    bob = vault.namespace("bob")
    bob.files.write("bob.txt", "again")
    bob.snapshot()
    bob.set_retention(keep_last=1)


def import_files(vault: Holdfast) -> None:
    with tar_file() as source:
        assert vault.namespace("alice").import_files(source).verified


def collect(vault: Holdfast) -> None:
    done = vault.collect(now=True)
    assert done.damaged == ()


def make_small_packs(vault: Holdfast) -> None:
    """Leaves packs that are joined, inside and outside, of which one holds nothing that is used."""
    make_garbage(vault)
    vault.collect(now=True)
    for number in range(6):
        vault.namespace("alice").files.write(f"small/{number}", noise(5000, 300 + number))
        vault.namespace("alice").files.write(f"short/{number}", noise(1000, 400 + number))


def join(vault: Holdfast) -> None:
    with vault._context.catalog.read() as transaction:
        (tenant,) = transaction.iter_tenants()
        before = len(transaction.iter_packs(tenant.id))
    join_packs(vault._context, tenant.id)
    with vault._context.catalog.read() as transaction:
        assert len(transaction.iter_packs(tenant.id)) <= max(before - 5, 5)


SCENARIOS = {
    "snapshot": Scenario(on_alice("snapshot", "three")),
    "snapshot with packs": Scenario(on_alice("snapshot", "three"), make_many_pending),
    "first snapshot": Scenario(lambda vault: vault.namespace("carol").snapshot("first")),
    "first write": Scenario(lambda vault: vault.namespace("carol").files.write("a", "b")),
    "restore": Scenario(lambda vault: vault.namespace("alice").restore("@-1")),
    "restore far": Scenario(lambda vault: vault.namespace("alice").restore("@-2")),
    "restore planes": Scenario(
        lambda vault: vault.namespace("alice").restore("@-1", planes=["store"])
    ),
    "restore paths": Scenario(
        lambda vault: vault.namespace("alice").restore("@-1", paths=["data", "*.md"])
    ),
    "undo": Scenario(on_alice("undo")),
    "undo twice": Scenario(on_alice("undo"), on_alice("undo")),
    "redo": Scenario(on_alice("redo"), undo_twice),
    "revert": Scenario(lambda vault: vault.namespace("alice").undo("@")),
    "fork": Scenario(on_alice("fork", "carol")),
    "fork at": Scenario(on_alice("fork", "carol", at="@-1")),
    "fork far": Scenario(on_alice("fork", "carol", at="@-2")),
    "merge": Scenario(on_alice("merge", "bob")),
    "write": Scenario(on_files("write", "notes.md", "second thoughts")),
    "write into a row": Scenario(on_files("write", "data/large.bin", noise(3500, 12))),
    "write over a row": Scenario(on_files("write", "data/in its row.bin", noise(3500, 12))),
    "write a pack": Scenario(on_files("write", "data/large.bin", noise(9000, 9))),
    "write what is known": Scenario(on_files("write", "copy.bin", noise(6000, 1))),
    "write what is dead": Scenario(on_files("write", "dead.bin", noise(6000, 7)), write_and_delete),
    "write many": Scenario(
        on_files("write_many", [(f"bulk/{n}", noise(3000, 50 + n)) for n in range(12)])
    ),
    "delete": Scenario(on_files("delete", "data/large.bin")),
    "delete a tree": Scenario(on_files("delete", "data", recursive=True)),
    "move a tree": Scenario(on_files("move", "data", "moved/here")),
    "set many": Scenario(
        lambda vault: vault.namespace("alice").store.set_many(
            [("config", "model", "c"), ("big", "value", noise(9000, 10)), ("new", "key", 1)]
        )
    ),
    "import files": Scenario(import_files),
    "pin": Scenario(on_alice("pin", "@")),
    "delete a snapshot": Scenario(lambda vault: vault.namespace("alice").delete_snapshot("@-1")),
    "forget": Scenario(
        lambda vault: vault.namespace("bob").forget(),
        make_garbage,
        later=timedelta(days=1),
    ),
    "collect": Scenario(collect, make_garbage, later=timedelta(days=1), is_several=True),
    "join": Scenario(join, make_small_packs),
    "delete a namespace": Scenario(lambda vault: vault.delete_namespace("bob")),
    "collect a namespace": Scenario(
        collect,
        lambda vault: vault.delete_namespace("bob"),
        later=timedelta(days=8),
        counts=leaves_traces,  # Its other steps are those of `collect`.
    ),
}


ON_POSTGRES = (
    "snapshot with packs",
    "first snapshot",
    "restore",
    "undo",
    "fork",
    "merge",
    "write many",
    "import files",
    "forget",
    "collect",
    "join",
)
"""One of each kind: the engine is the same, and a step takes ten times as long."""


@pytest.fixture(autouse=True)
def few_inline_packs_are_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repacking, "INLINE_PACKS", 4)
    monkeypatch.setattr(repacking, "SMALL_BYTES", 20_000)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_step_leaves_the_old_or_the_new(place: SqlitePlace, name: str) -> None:
    die_everywhere(place, SCENARIOS[name])


@pytest.mark.parametrize("name", ON_POSTGRES)
def test_a_crash_at_any_step_on_postgres_leaves_the_old_or_the_new(
    postgres_place: PostgresPlace, name: str
) -> None:
    die_everywhere(postgres_place, SCENARIOS[name])


def test_the_garbage_to_collect_is_of_every_kind(place: SqlitePlace) -> None:
    def packs() -> dict[str, tuple[bool, int]]:
        query = """
            SELECT name, is_inline, (SELECT COUNT(*) FROM objects WHERE pack_id = packs.id)
            FROM packs
        """
        with closing(sqlite3.connect(place.vault / "catalog.sqlite")) as connection:
            return {row[0]: (bool(row[1]), row[2]) for row in connection.execute(query)}

    with opened(place) as context:
        build(Holdfast(context))
        make_garbage(Holdfast(context))
    before = packs()
    with opened(place, seed=1, now=NOW + timedelta(days=1)) as context:
        done = Holdfast(context).collect(now=True)
    after = packs()
    gone = {name: before[name] for name in before.keys() - after.keys()}
    made = {name: after[name] for name in after.keys() - before.keys()}
    assert done.objects_deleted > 10
    assert sum(is_inline for is_inline, _ in gone.values()) > 3
    assert any(held >= 5 for is_inline, held in gone.values() if not is_inline), "wasteful"
    assert any(held == 1 for is_inline, held in gone.values() if not is_inline), "dead"
    assert [is_inline for is_inline, _ in made.values()] == [False]


def test_a_crash_between_the_packs_of_one_batch_leaves_the_old_or_the_new(
    place: SqlitePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "PACK_TARGET_BYTES", 16 * 1024)
    items = [(f"bulk/{number}", noise(9000, number)) for number in range(6)]
    die_everywhere(place, Scenario(on_files("write_many", items)))
    assert len(list((place.vault / "packs").rglob("*.pack"))) >= 6


def die_everywhere(place: Place, scenario: Scenario) -> None:
    now = NOW + scenario.later
    with opened(place, seed=1) as context:
        vault = Holdfast(context)
        build(vault)
        scenario.arrange(vault)
    place.save()
    with opened(place, seed=2, now=now) as context:
        old = observe(context)
        scenario.act(Holdfast(context))
        new = observe(context)
    seen: set[str] = set()
    for fuse in fuses(counts=lambda name: place.counts(name) and scenario.counts(name)):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3, now=now) as context:
            scenario.act(Holdfast(context))
        state = fingerprint(place)
        if fuse.blown and state in seen:
            continue
        seen.add(state)
        with opened(place, seed=4, now=now) as context:
            found = observe(context)
            if not fuse.blown:
                assert found == new
            elif scenario.is_several:
                assert found.keys() == old.keys()
                assert all(found[name] in (old[name], new[name]) for name in found), fuse
            else:
                assert begun(found) in (old, new), fuse
            is_old = begun(found) == old
            check_sound(context, found, fuse)
        # A collection applies retention, which is what makes the new state of some.
        kept = {name: new[name] if found[name]["retention"] else found[name] for name in found}
        check_tidy(place, now, kept, fuse)
        with opened(place, seed=6, now=now) as context:
            vault = Holdfast(context)
            if is_old:
                scenario.act(vault)
                assert observe(context) == new, fuse
            else:
                vault.namespace("alice").snapshot("life goes on")


def check_sound(context: Context, found: Observed, fuse: Fuse) -> None:
    """Checks that all is there and proven, and that what is counted is counted right."""
    assert Holdfast(context).verify().faults == [], fuse
    for namespace in found.values():
        now = [entry for entry, _ in namespace["now"].values()]
        assert namespace["size"] == Size(len(now), sum(entry.size for entry in now)), fuse


def check_tidy(place: Place, now: datetime, kept: Observed, fuse: Fuse) -> None:
    """Collects, and checks that nothing of the dead is left and nothing else is gone."""
    with opened(place, seed=5, now=now) as context:
        vault = Holdfast(context)
        vault.collect(now=True)
        assert find_litter(context) == set(), fuse
        with context.catalog.read() as transaction:
            named = transaction.pack_names()
        files = [path for path in (place.vault / "packs").rglob("*") if path.is_file()]
        assert {path.name for path in files} == {f"{name}.pack" for name in named}, fuse
        assert len(files) == len(named), fuse
        assert observe(context) == kept, fuse
        assert vault.verify().faults == [], fuse


def begun(found: Observed) -> Observed:
    """Leaves out a namespace that was made for its first snapshot and has nothing yet."""
    return {name: state for name, state in found.items() if state != NOTHING}


# Somebody else at every step


class Visit(Fuse):
    """Lets somebody else in at one step, and goes on."""

    def __init__(self, steps: int, visit: Callable[[], None]) -> None:
        super().__init__(steps)
        self._visit = visit
        self.is_writing = False
        self.has_been = False

    def step(self, name: str, /) -> None:
        # While we write, everybody else waits; and most of what a transaction is asked for
        # is asked of one moment, whatever happens meanwhile.
        is_quiet = name.startswith("transaction.") and name != "transaction.locate"
        if self.is_writing or is_quiet or self.has_been:
            return
        if self._left:
            self._left -= 1
            return
        self.has_been = True
        self._visit()


class VisitedCatalog(FusedCatalog):
    """Knows when it writes."""

    def __init__(self, inner: Catalog, visit: Visit) -> None:
        super().__init__(inner, visit)
        self._visits = visit

    @contextmanager
    def write(self) -> Generator[Transaction]:
        self._fuse.step("write")
        self._visits.is_writing = True
        try:
            with self._inner.write() as transaction:
                yield transaction
        finally:
            self._visits.is_writing = False
        self._fuse.step("written")


def collect_too(vault: Holdfast) -> None:
    vault.collect(now=True)


def replace_what_is_pending(vault: Holdfast) -> None:
    """Takes away the content behind pending rows, and leaves the timelines as they are."""
    for namespace in (vault.namespace("alice"), vault.namespace("bob")):
        namespace.files.write("draft.txt", "by somebody else")
        for path in ("data/pending.bin", "data/unsaved.bin"):
            if namespace.files.exists(path):
                namespace.files.delete(path)
    vault.collect(now=True)


def change_everything(vault: Holdfast) -> None:
    """Takes away all that it can: rows, snapshots, and what only they have held."""
    for namespace in (vault.namespace("alice"), vault.namespace("bob")):
        for snapshot in namespace.timeline():
            namespace.unpin(snapshot)
        namespace.files.delete("data", recursive=True)
        # Twice: one step back is always kept.
        namespace.snapshot()
        namespace.files.write("draft.txt", "by somebody else")
        namespace.snapshot()
        namespace.forget(policy=Policy(keep_last=1))
    vault.collect(now=True)


def thin_out(vault: Holdfast) -> None:
    """Takes snapshots off the timeline, and what only they have held; the heads stay."""
    alice = vault.namespace("alice")
    for snapshot in alice.timeline():
        alice.unpin(snapshot)
    alice.forget(policy=Policy(keep_last=1))
    vault.collect(now=True)


def change_bob(vault: Holdfast) -> None:
    """Takes away what a merge is about to bring in."""
    bob = vault.namespace("bob")
    bob.files.delete("data", recursive=True)
    bob.snapshot()
    bob.files.write("bob.txt", "something else")
    bob.snapshot()
    bob.forget(policy=Policy(keep_last=1))
    vault.collect(now=True)


VISITS: dict[Callable[[Holdfast], None], tuple[str, ...]] = {
    collect_too: (
        "snapshot with packs",
        "restore paths",
        "merge",
        "write a pack",
        "write what is known",
        "write what is dead",
        "write many",
        "set many",
    ),
    replace_what_is_pending: ("snapshot", "restore", "undo", "fork", "merge"),
    change_everything: ("snapshot", "restore", "redo", "revert", "fork at", "move a tree"),
    thin_out: ("restore far", "fork far"),
    change_bob: ("merge",),
}


@pytest.mark.parametrize(
    ("visitor", "name"),
    [
        pytest.param(visitor, name, id=f"{visitor.__name__} - {name}")
        for visitor, names in VISITS.items()
        for name in names
    ],
)
def test_somebody_else_at_any_step_takes_nothing_that_is_needed(
    place: SqlitePlace, name: str, visitor: Callable[[Holdfast], None]
) -> None:
    scenario = SCENARIOS[name]
    with opened(place, seed=1) as context:
        build(Holdfast(context))
        scenario.arrange(Holdfast(context))
    place.save()

    def visit() -> None:
        with opened(place, seed=2) as context:
            visitor(Holdfast(context))

    for steps in count():
        place.reset()
        fuse = Visit(steps, visit)
        with opened(place, seed=3) as plain:
            catalog = VisitedCatalog(plain.catalog, fuse)
            blobs = FusedBlobStore(plain.blobs, fuse)
            context = replace(plain, catalog=catalog, blobs=blobs)
            # What it stood on may be gone, and then it says so; damage it never meets.
            with suppress(Conflict, NotFound):
                scenario.act(Holdfast(context))
        if not fuse.has_been:
            break
        with opened(place, seed=4) as context:
            vault = Holdfast(context)
            assert vault.verify().faults == [], steps
            vault.collect(now=True)
            assert vault.verify().faults == [], steps
            assert find_litter(context) == set(), steps


def test_a_crash_while_a_sqlite_vault_is_made_leaves_one_that_opens(place_in_memory: Path) -> None:
    for fuse in fuses():
        root = place_in_memory / f"died-after-{fuse.steps}"
        root.mkdir()
        with fuse:
            step = one_of_each(fuse.step, words=2)
            open_for_the_first_time(SqliteCatalog(root, step=step), root, fuse)
        check_it_opens(SqliteCatalog(root), root)


def test_a_crash_while_a_postgres_vault_is_made_leaves_one_that_opens(
    place_in_memory: Path, database: tuple[str, Admin]
) -> None:
    url, admin = database
    for fuse in fuses():
        clear(admin)
        root = place_in_memory / f"died-after-{fuse.steps}"
        with fuse:
            step = one_of_each(fuse.step, words=2)
            open_for_the_first_time(PostgresCatalog(url, step=step), root, fuse)
        check_it_opens(PostgresCatalog(url), root)


def open_for_the_first_time(catalog: Catalog, root: Path, fuse: Fuse) -> None:
    try:
        context = Context.of(FusedCatalog(catalog, fuse), DiskBlobStore(root / "packs"))
        Holdfast(context).namespace("alice").files.write("a", "b")
    finally:
        catalog.close()


def check_it_opens(catalog: Catalog, root: Path) -> None:
    with closing(catalog):
        context = Context.of(catalog, DiskBlobStore(root / "packs"), limits=LIMITS)
        vault = Holdfast(context)
        assert vault.namespaces() in ([], ["alice"])
        vault.namespace("alice").files.write("a", "c")
        assert vault.namespace("alice").files.read("a") == b"c"
        assert vault.verify().ok
        assert vault.tenants() == ["default"]


def test_a_fuse_kills_for_good() -> None:
    fuse = Fuse(1)
    fuse.step("first")
    with fuse:
        fuse.step("second")
    assert fuse.blown
    assert fuse.died_at == "second"
    with pytest.raises(BaseException, match="third") as raised:
        fuse.step("third")
    assert not isinstance(raised.value, Exception)
    assert no_step("") is None

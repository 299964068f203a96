"""What was erased is nowhere: not in a row, a page, a log or a pack, raw or decompressed.

A word that stands nowhere else is put into everything that a namespace can hold. Afterwards every
file of the vault is searched for it, and every block of every pack that is still there.
"""

import subprocess
import sys
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from random import Random

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.erasing import door
from holdfast.engine.vault import Holdfast
from holdfast.errors import Busy, InvalidValue, NamespaceNotFound, StorageFull
from holdfast.model.erasures import Certificate
from holdfast.testing.faults import Fuse, FusedBlobStore, FusedCatalog
from holdfast.testing.remains import Place

pytestmark = pytest.mark.in_memory

WORD = "xqzjerasedword"


@pytest.fixture
def vault(searched: Place) -> Place:
    return searched


def fill(agent: holdfast.Namespace, word: str) -> None:
    """Puts a word into all that a namespace holds."""
    noise = Random(word).randbytes(40_000).hex()
    agent.files.write(f"{word}.txt", f"{word} {noise}")
    agent.files.write("small", word)
    agent.store.set(word, "key", {"value": word, "more": noise})
    agent.sessions.create("helper", session_id="ses-1", initial_state={"note": word})
    for number in range(30):
        note = {f"note {number}": f"{word} {number}"}
        agent.sessions.update_state("ses-1", note, reasoning=f"{word} {number}")
    agent.sessions.add_turn("ses-1", input=word, output=f"{word} indeed", reasoning=word)
    agent.memory.add(f"The {word} is secret", tags=[word])
    agent.entities.create(
        "ses-1", entity_type="thing", entity_id="one", attributes={"called": word}
    )
    agent.snapshot(f"label {word}", reason=f"because of {word}")
    agent.files.write("small", f"{word} once more")
    task = agent.tasks.start(f"task {word}", metadata={"what": word})
    agent.tasks.fail(task.id, error=f"failed for {word}")
    agent.traces.add("looked.at", details={"what": word})
    agent.undo()
    agent.store.set("pending", "key", word)


def held(agent: holdfast.Namespace) -> object:
    """Returns all that can be read of a namespace."""
    return (
        {info.path: agent.files.read(info.path) for info in agent.files.list(recursive=True)},
        agent.store.items(),
        agent.sessions.get_state("ses-1").state,
        [turn.output for turn in agent.sessions.list_turns("ses-1")],
        [memory.content for memory in agent.memory.list()],
        [(each.label, each.root) for each in agent.timeline()],
    )


def test_a_namespace_that_was_erased_is_nowhere_and_its_neighbour_is_whole(vault: Place) -> None:
    with vault.open() as opened:
        opened.events.listen()
        fill(opened.namespace("kept"), "another")
        fill(opened.namespace("gone"), WORD)
        assert len(opened.events.list()[0]) > 10
        before = held(opened.namespace("kept"))
        assert len(vault.holding(WORD)) > 2, "the word is looked for where it is"
        done = opened.erasures.namespace("gone")
        told = opened.events.page(after=0)
        assert [event.number for event in told] == [*range(1, len(told) + 1)], "without a gap"
        rest = [event.type for event in told if event.namespace == "gone"]
        assert rest == ["namespace.purged"]
        assert "event.erased" in [event.type for event in told]
        assert held(opened.namespace("kept")) == before
        assert opened.namespaces() == ["kept"]
        assert opened.deleted_namespaces() == []
        assert opened.verify().ok
        audited = opened.verify_audit()
        assert (audited.problems, done.copies) == ([], [])
        row = next(t for t in opened.traces.list() if t.action == "namespace.erased")
        assert (row.number, row.hash) == (done.number, done.hash)
        assert done.removed["snapshots"] >= 3
        assert done.redacted_rows > 10
        assert opened.erasures.list() == [done]
        with pytest.raises(NamespaceNotFound):
            opened.erasures.namespace("gone")
    assert vault.holding(WORD) == []


def test_a_deleted_namespace_and_what_was_retired_are_erased_too(vault: Place) -> None:
    with vault.open() as opened:
        fill(opened.namespace("gone"), WORD)
        opened.collect()
        opened.delete_namespace("gone")
        fill(opened.namespace("gone"), "another")
        number = opened.deleted_namespaces()[0].number
        opened.erasures.namespace("gone", number=number)
        assert opened.namespaces() == ["gone"]
        assert opened.verify().ok
    assert vault.holding(WORD) == []


def test_a_fork_keeps_what_it_holds_and_is_named(vault: Place) -> None:
    with vault.open() as opened:
        origin = opened.namespace("gone")
        fill(origin, WORD)
        fork = origin.fork("fork")
        before = held(fork)
        assert opened.erasures.namespace("gone").copies == ["fork"]
        assert held(fork) == before
        assert opened.verify().ok
        assert opened.erasures.namespace("fork").copies == []
    assert vault.holding(WORD) == []


def is_cut_at(vault: Place, step: int) -> bool:
    """Erases it, and cuts the power after so many steps; False if there were fewer."""
    catalog = PostgresCatalog(vault.location) if vault.is_database else SqliteCatalog(vault.folder)
    with closing(catalog), Fuse(step) as fuse:
        blobs = FusedBlobStore(DiskBlobStore(vault.packs), fuse)
        Holdfast(Context.of(FusedCatalog(catalog, fuse), blobs)).erasures.namespace("gone")
    return fuse.blown


def test_one_that_was_cut_off_at_any_step_is_finished_by_the_next(vault: Place) -> None:
    for step in count(3, 67 if vault.is_database else 29):
        with vault.open() as opened:
            fill(opened.namespace("gone"), WORD)
        if not is_cut_at(vault, step):
            break
        with vault.open() as opened:
            if "gone" in opened.namespaces():
                opened.erasures.namespace("gone")  # It had not begun.
            else:
                opened.forget()  # As upkeep does.
            assert opened.verify().ok
            assert opened.verify_audit().ok
            assert opened.erasures.list()[0].namespace == "gone"
        assert vault.holding(WORD) == []


def test_a_backup_that_is_brought_back_has_it_erased_again(vault: Place, tmp_path: Path) -> None:
    backup, kept = tmp_path / "backup", tmp_path / "certificate.json"
    with vault.open() as opened:
        fill(opened.namespace("kept"), "another")
        fill(opened.namespace("gone"), WORD)
        opened.backup(backup)
        kept.write_bytes(msgspec.json.encode(opened.erasures.namespace("gone")))
        before = held(opened.namespace("kept"))
    if vault.is_database:
        with psycopg.connect(vault.location) as connection:
            connection.execute("DROP SCHEMA holdfast CASCADE")
        again = Place(vault.location, tmp_path / "again-packs", tmp_path / "again")
    else:
        again = Place(str(tmp_path / "again"), tmp_path / "again-packs", tmp_path / "again")
    holdfast.reinstate(backup, again.location, objects=again.packs, erased=[kept])
    assert again.holding(WORD) == []
    with again.open() as opened:
        assert opened.namespaces() == ["kept"]
        assert held(opened.namespace("kept")) == before
        assert opened.verify_audit().ok
    kept.write_text("no certificate")
    with pytest.raises(InvalidValue):
        holdfast.reinstate(backup, tmp_path / "other", objects=tmp_path / "more", erased=[kept])


def test_the_log_of_a_store_goes_with_its_namespace_and_no_other(tmp_path: Path) -> None:
    vault = Place(str(tmp_path / "vault"), tmp_path / "vault" / "packs", tmp_path / "vault")
    with holdfast.Store.open(tmp_path / "vault", namespace="kept") as store:
        store.set("said", "word", "another")
    store = holdfast.Store.open(tmp_path / "vault", namespace="gone")
    store.set("said", "word", WORD)
    with holdfast.open(tmp_path / "vault") as opened, pytest.raises(Busy):
        opened.erasures.namespace("gone")
    with pytest.raises(NamespaceNotFound):
        store.close()
    assert len([*(tmp_path / "vault").glob("store-*.log")]) == 2
    with holdfast.open(tmp_path / "vault") as opened:
        opened.tenant("other").namespace("kept").files.write("a", "1")
        opened.tenant("other").erasures.namespace("kept")
        opened.forget()  # It had begun.
        assert [each.namespace for each in opened.erasures.list()] == ["gone"]
    assert len([*(tmp_path / "vault").glob("store-*.log")]) == 1
    assert vault.holding(WORD) == []
    with holdfast.Store.open(tmp_path / "vault", namespace="kept") as store:
        assert store.get("said", "word") == "another"


def test_what_is_attached_to_another_of_that_name_stays_attached(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with holdfast.open(tmp_path / "vault") as opened:
        opened.namespace("shop").files.write("old", WORD)
        opened.delete_namespace("shop")
        number = opened.deleted_namespaces()[0].number
        with opened.workspace(project, namespace="shop") as workspace:
            workspace.snapshot("of the new one")
        state = opened.workspaces()[0].state
        before = {path.name: path.read_bytes() for path in state.iterdir()}
        opened.erasures.namespace("shop", number=number)
        assert [each.namespace for each in opened.workspaces()] == ["shop"]
        assert {path.name: path.read_bytes() for path in state.iterdir()} == before
        opened.erasures.namespace("shop")
        assert opened.workspaces() == []


def test_a_process_that_is_killed_leaves_it_as_it_was_or_to_be_finished(tmp_path: Path) -> None:
    vault = Place(str(tmp_path / "vault"), tmp_path / "packs", tmp_path / "vault")
    script = (
        "import sys; from holdfast.wiring import open_vault\n"
        "vault = open_vault(sys.argv[1], objects=sys.argv[2]); print('open', flush=True)\n"
        "vault.erasures.namespace('gone')"
    )
    for delay_s in (0.0, 0.01, 0.03, 0.06, 0.12):
        with vault.open() as opened:
            fill(opened.namespace("gone"), WORD)
        command = [sys.executable, "-c", script, vault.location, str(vault.packs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"open\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=delay_s)
            process.kill()
        with vault.open() as opened:
            if "gone" in opened.namespaces():
                assert opened.namespace("gone").files.read_text("small") == WORD
                opened.erasures.namespace("gone")
            else:
                opened.forget()
            assert opened.verify().ok
            assert opened.verify_audit().ok
        assert vault.holding(WORD) == []


def test_a_tenant_that_is_at_its_quota_is_erased_from_all_the_same(vault: Place) -> None:
    with vault.open() as opened:
        agent = opened.namespace("full")
        fill(agent, WORD)
        opened.set_quota(1)
        opened.erasures.session("full", "ses-1")
        assert agent.sessions.list() == []
        assert opened.verify().ok


def test_the_command_asks_twice_and_writes_the_certificate(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    vault, project = tmp_path / "vault", tmp_path / "project"
    project.mkdir()
    (project / "secret.txt").write_text(WORD)

    def type_(*argv: str) -> subprocess.CompletedProcess[bytes]:
        command = [*warm, "--data", str(vault), *argv]
        return subprocess.run(command, cwd=project, capture_output=True, check=False)

    assert type_("init").returncode == 0
    assert type_("erase", "project").returncode == 2
    done = type_("erase", "project", "--yes", "--certificate", "erased.json", "--json")
    assert done.returncode == 0, done.stderr
    assert (project / "secret.txt").read_text() == WORD, "the directory itself is not touched"
    told = msgspec.json.decode((project / "erased.json").read_bytes())
    assert told == msgspec.json.decode(done.stdout)
    assert told["namespace"] == "project"
    assert type_("erase", "project", "--yes").returncode == 3
    given = ("--yes", "--certificate")
    assert type_("erase", "project", "--number", "77", *given, "no.json").returncode == 3
    assert type_("erase", "project", "--session", "s", *given, "no.json").returncode == 3
    assert not (project / "no.json").exists()
    for unclear in ([], ["--session", "s"], ["--user", "u", "a"], ["--user", "u", "--number", "1"]):
        assert type_("erase", *unclear, "--yes").returncode == 2, unclear
    with holdfast.open(vault) as opened:
        agent = opened.namespace("other")
        for session_id, user_id in (("ses-1", "ann"), ("ses-2", "bob")):
            agent.sessions.create("helper", session_id=session_id, user_id=user_id)
    told = type_("erase", "other", "--session", "ses-1", "--yes")
    assert b"Erased ses-1 of other: 1 session, 1 version.\n" in told.stdout, told
    told = type_("erase", "--user", "bob", "--yes")
    assert b"Erased the user bob: 1 session, 1 version.\n" in told.stdout, told
    assert Place(str(vault), vault / "packs", vault).holding(WORD) == []


def test_the_command_gives_the_certificate_of_one_that_somebody_else_has_finished(
    tmp_path: Path, warm: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise Busy("somebody collects")

    def type_(*argv: str) -> subprocess.CompletedProcess[bytes]:
        command = [*warm, "--data", str(tmp_path / "vault"), *argv]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    with holdfast.open(tmp_path / "vault") as opened:
        opened.namespace("kept").sessions.create("helper", session_id="ses-1")
        opened.namespace("gone").files.write("a", WORD)
        with monkeypatch.context() as patch:
            patch.setattr(door, "collect", busy)
            for begin in (
                lambda: opened.erasures.session("kept", "ses-1"),
                lambda: opened.erasures.namespace("gone"),
            ):
                with pytest.raises(Busy):
                    begin()
    assert type_("gc").returncode == 0
    with holdfast.open(tmp_path / "vault") as opened:
        finished = opened.erasures.list()
    for name, what in (("gone", ["gone"]), ("ses-1", ["kept", "--session", "ses-1"])):
        told = type_("erase", *what, "--yes", "--certificate", f"{name}.json")
        assert told.returncode == 0, told.stderr
        assert b"It was erased before, at " in told.stdout
    decode = msgspec.json.Decoder(Certificate).decode
    kept = [decode((tmp_path / f"{name}.json").read_bytes()) for name in ("gone", "ses-1")]
    assert sorted(kept, key=repr) == sorted(finished, key=repr)


def test_an_erasure_that_has_no_room_to_finish_says_that_it_has_begun(
    vault: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise StorageFull("no room")

    with vault.open() as opened:
        opened.namespace("gone").files.write("a.txt", WORD)
        with monkeypatch.context() as patch:
            patch.setattr(door, "finish_all", is_full)
            with pytest.raises(StorageFull) as raised:
                opened.erasures.namespace("gone")
            assert "has begun" in raised.value.hint
        assert "gone" not in opened.namespaces()
        assert opened.erasures.list() == []
        done = opened.erasures.namespace("gone")
        assert opened.erasures.list() == [done]

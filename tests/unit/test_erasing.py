"""Erasing what is half gone already, twice, beside others, and what was never whole."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.erasing import certifying, door
from holdfast.engine.vault import Holdfast
from holdfast.errors import Busy, Damaged, InvalidValue, SessionNotFound
from holdfast.model.basics import Tenant
from holdfast.model.erasures import Certificate
from holdfast.testing.clocks import Watch
from holdfast.testing.remains import Place


@pytest.fixture
def context(tmp_path: Path, watch: Watch) -> Iterator[Context]:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        yield Context.of(catalog, MemoryBlobStore(), clock=watch)


@pytest.fixture
def vault(context: Context) -> Holdfast:
    return Holdfast(context)


def purge_a_session(vault: Holdfast, watch: Watch) -> None:
    """Lets a session of a user be deleted for so long that its rows are gone."""
    sessions = vault.namespace("alice").sessions
    sessions.create("helper", session_id="ses-gone", user_id="ann")
    sessions.create("helper", session_id="ses-kept")
    sessions.delete("ses-gone")
    watch.wait(timedelta(days=8))
    vault.collect()
    watch.wait(timedelta(days=1))
    vault.collect()


def told_of(vault: Holdfast, session_id: str) -> list[str]:
    events = vault.events.page(after=0)
    return [event.type for event in events if session_id in str(event.data)]


def test_events_of_a_session_whose_rows_are_gone_are_erased(vault: Holdfast, watch: Watch) -> None:
    vault.events.listen()
    purge_a_session(vault, watch)
    kept = told_of(vault, "ses-kept")
    assert "session.purged" in told_of(vault, "ses-gone")
    assert [trace.details for trace in vault.traces.list(action="session.purged")] == [
        {"sessions": ["ses-gone"]}
    ]
    vault.erasures.session("alice", "ses-gone")
    assert [trace.details for trace in vault.traces.list(action="session.purged")] == [{}]
    assert vault.verify_audit().problems == []
    assert told_of(vault, "ses-gone") == []
    assert told_of(vault, "ses-kept") == kept != []
    with pytest.raises(SessionNotFound):
        vault.erasures.session("alice", "ses-gone")


def test_events_of_a_users_sessions_are_erased_with_their_namespace_long_gone(
    vault: Holdfast, watch: Watch
) -> None:
    vault.events.listen()
    vault.namespace("alice").sessions.create("helper", session_id="ses-gone", user_id="ann")
    vault.namespace("alice").traces.add("looked.at", session_id="ses-gone")
    vault.delete_namespace("alice")
    watch.wait(timedelta(days=9))
    vault.collect()
    assert len(told_of(vault, "ses-gone")) == 2
    vault.erasures.user("ann")
    assert told_of(vault, "ses-gone") == []


def test_events_of_others_stay_as_they_were_when_a_user_is_erased(vault: Holdfast) -> None:
    vault.events.listen()
    agent = vault.namespace("alice")
    agent.sessions.create("helper", session_id="ses-gone", user_id="ann")
    agent.sessions.create("helper", session_id="ses-kept", user_id="ben")
    agent.files.write("a", "1")
    agent.snapshot()
    kept = [each for each in vault.events.page(after=0) if "ses-gone" not in str(each.data)]
    assert told_of(vault, "ses-kept") != []
    vault.erasures.user("ann")
    assert told_of(vault, "ses-gone") == []
    left = vault.events.page(after=0)
    assert [each for each in kept if each not in left] == []


def test_who_has_it_in_a_snapshot_alone_is_named(vault: Holdfast) -> None:
    agent = vault.namespace("alice")
    agent.sessions.create("helper", session_id="ses-gone")
    agent.fork("fork")
    agent.sessions.delete("ses-gone")
    agent.snapshot()
    assert vault.erasures.session("fork", "ses-gone").copies == ["alice/ses-gone"]


WORD = "xqzjerasedword"


def busy(*_: object, **__: object) -> None:
    raise Busy("somebody collects")


def test_what_a_task_alone_has_noted_of_a_user_is_erased(tmp_path: Path, watch: Watch) -> None:
    place = Place(str(tmp_path), tmp_path / "packs", tmp_path)
    with holdfast.open(tmp_path, clock=watch) as vault:
        agent = vault.namespace("alice")
        with agent.task("remember"):
            memory = agent.memory.add(WORD, user_id="ann")
            agent.files.write("kept", "kept")
        agent.memory.delete(memory.id)
        agent.files.write("later", "still pending")
        watch.wait(timedelta(days=9))
        vault.collect()
    assert place.holding(WORD) != []
    with holdfast.open(tmp_path, clock=watch) as vault:
        vault.erasures.user("ann")
        assert vault.namespace("alice").files.read_text("kept") == "kept"
    assert place.holding(WORD) == []


def test_a_backup_of_one_that_was_only_begun_has_it_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, again = tmp_path / "certificate.json", tmp_path / "again"
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("gone").files.write("a", WORD * 10_000)
        vault.namespace("kept").files.write("b", "other")
        with monkeypatch.context() as patch:
            patch.setattr(door, "collect", busy)
            with pytest.raises(Busy):
                vault.erasures.namespace("gone")
        vault.backup(tmp_path / "backup")
        kept.write_bytes(msgspec.json.encode(vault.erasures.namespace("gone")))
    made = holdfast.reinstate(tmp_path / "backup", again, erased=[kept])
    assert made.erased == (str(kept),)
    with holdfast.open(again) as vault:
        assert [each.namespace for each in vault.erasures.list()] == ["gone"]
    assert Place(str(again), again / "packs", again).holding(WORD) == []


def test_it_is_said_what_became_of_each_certificate(tmp_path: Path) -> None:
    certificates = dict[str, Certificate]()
    with holdfast.open(tmp_path / "vault") as vault:
        for name in ("before", "since"):
            vault.namespace(name).files.write("a", name)
        vault.namespace("since").sessions.create("helper", user_id="ann")
        certificates["before"] = vault.erasures.namespace("before")
        vault.backup(tmp_path / "backup")
        certificates["user"] = vault.erasures.user("ann")
        certificates["nobody"] = vault.erasures.user("bob")
        certificates["since"] = vault.erasures.namespace("since")
    with holdfast.open(tmp_path / "other") as vault:
        certificates["elsewhere"] = vault.erasures.user("ann")
    files = {name: tmp_path / f"{name}.json" for name in certificates}
    for name, certificate in certificates.items():
        files[name].write_bytes(msgspec.json.encode(certificate))
    made = holdfast.reinstate(tmp_path / "backup", tmp_path / "again", erased=[*files.values()])
    assert made.erased == (str(files["user"]), str(files["since"]))
    assert made.erased_before == (str(files["before"]),)
    assert made.unmatched == (str(files["nobody"]), str(files["elsewhere"]))


def again(backup: Path, number: int, erased: list[Path]) -> tuple[Path, holdfast.Reinstated]:
    """Makes a vault of a backup, of which something is erased."""
    place = backup.with_name(f"again-{number}")
    return place, holdfast.reinstate(backup, place, erased=erased)


def test_who_came_back_after_an_erasure_is_not_erased_by_the_same_certificates(
    tmp_path: Path,
) -> None:
    kept = {name: tmp_path / f"{name}.json" for name in ("user", "session", "twice", "namespace")}

    def come(vault: holdfast.Holdfast) -> None:
        sessions = vault.namespace("alice").sessions
        sessions.create("helper", session_id="ses-ann", user_id="ann")
        sessions.create("helper", session_id="ses-1")
        vault.namespace("gone").files.write("a", "1")

    def erase(name: str, certificate: Certificate) -> None:
        kept[name].write_bytes(msgspec.json.encode(certificate))

    with holdfast.open(tmp_path / "vault") as vault:
        come(vault)
        vault.backup(tmp_path / "first")
        erase("user", vault.erasures.user("ann"))
        erase("session", vault.erasures.session("alice", "ses-1"))
        erase("namespace", vault.erasures.namespace("gone"))
        vault.namespace("alice").sessions.create("helper", session_id="ses-1")
        # Of the backup, the certificate before takes all that it names.
        erase("twice", vault.erasures.session("alice", "ses-1"))
    files = [*kept.values()]
    named = tuple(map(str, files))
    place, done = again(tmp_path / "first", 1, files)
    assert done.erased == tuple(str(kept[name]) for name in ("user", "session", "namespace"))
    assert done.unmatched == (str(kept["twice"]),)
    for number in (2, 3):
        with holdfast.open(place) as vault:
            if number == 2:
                come(vault)
            vault.backup(tmp_path / f"backup-{number}")
        place, done = again(tmp_path / f"backup-{number}", number, files)
        assert done.erased_before == named
        with holdfast.open(place) as vault:
            assert vault.namespaces() == ["alice", "gone"]
            there = {each.id for each in vault.namespace("alice").sessions.list()}
            assert there == {"ses-ann", "ses-1"}
            known = {each.erasure_id for each in vault.erasures.list()}
            assert known == {msgspec.json.decode(path.read_bytes())["erasure_id"] for path in files}


@pytest.mark.parametrize("what", ["user", "session"])
@pytest.mark.parametrize("step", ["collect", "certify_all"])
def test_an_erasure_that_is_done_again_is_known_from_when_it_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, what: str
) -> None:
    def come(vault: Holdfast) -> None:
        vault.namespace("alice").sessions.create("helper", session_id="ses-1", user_id="ann")

    with holdfast.open(tmp_path / "vault") as vault:
        come(vault)
        vault.backup(tmp_path / "backup")
        # One of the same that was interrupted is another one.
        if what == "user":
            certificate = vault.erasures.user("ann")
        else:
            certificate = vault.erasures.session("alice", "ses-1")
    holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    with holdfast.open(tmp_path / "again") as vault:
        with monkeypatch.context() as patch:
            patch.setattr(door, step, busy)
            if what == "user":
                with pytest.raises(Busy):
                    vault.erasures.user("ann")
            with pytest.raises(Busy):
                vault.erasures.again(certificate)
        vault.erasures.finish()
        assert certificate.erasure_id in {each.erasure_id for each in vault.erasures.list()}
        come(vault)
        assert vault.erasures.again(certificate) is None
        assert len(vault.namespace("alice").sessions.list()) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("large.json", '"namespace_id": 18446744073709551616'),
        ("id.json", '"erasure_id": "era-1"'),
        ("pipe", None),
        (".", None),
        ("none", None),
    ],
)
def test_a_file_that_is_no_certificate_is_named(
    tmp_path: Path, name: str, text: str | None
) -> None:
    path = tmp_path / name
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("gone").files.write("a", "1")
        vault.backup(tmp_path / "backup")
        whole = msgspec.json.encode(vault.erasures.namespace("gone"))
    if name == "pipe":
        os.mkfifo(path)
    elif text is not None:
        path.write_bytes(whole[:-1] + f",{text}}}".encode())
    with pytest.raises(InvalidValue, match=re.escape(str(path))) as raised:
        holdfast.reinstate(tmp_path / "backup", tmp_path / "again", erased=[path])
    assert "doctor" not in (raised.value.hint or "")
    assert not (tmp_path / "again").exists()


def test_a_certificate_that_does_not_say_who_was_erased_is_refused(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("alice").sessions.create("helper", user_id="ann")
        vault.backup(tmp_path / "backup")
        vault.erasures.user("ann")
        listed = vault.erasures.list()[0]
        assert vault.erasures.again(listed) is None, "it was erased here"
    kept = tmp_path / "certificate.json"
    kept.write_bytes(msgspec.json.encode(listed))
    with pytest.raises(InvalidValue, match="does not say who"):
        holdfast.reinstate(tmp_path / "backup", tmp_path / "again", erased=[kept])
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize("is_busy", [False, True])
def test_one_that_another_has_finished_meanwhile_is_certified(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    finish = door.finish_all

    def after_another(context: Context, tenant: Tenant, **more: Any) -> list[Certificate]:
        finish(context, tenant)
        if is_busy:
            raise Busy("somebody collects")
        return finish(context, tenant, **more)

    agent = vault.namespace("alice")
    agent.sessions.create("helper", session_id="ses-1", user_id="ann")
    agent.sessions.create("helper", session_id="ses-2", user_id="ann")
    monkeypatch.setattr(door, "finish_all", after_another)
    assert vault.erasures.session("alice", "ses-1").session_id == "ses-1"
    assert vault.erasures.user("ann").removed["sessions"] == 1
    assert vault.erasures.namespace("alice").namespace == "alice"


@pytest.mark.parametrize("step", ["_take_user_from", "collect", "scrub", "certify_all"])
def test_a_user_who_is_asked_for_again_has_one_certificate_of_all_that_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        vault = Holdfast(Context.of(catalog, MemoryBlobStore()))
        sessions = vault.namespace("alice").sessions
        sessions.create("helper", session_id="ses-1", user_id="ann")
        sessions.create("helper", session_id="ses-2", user_id="bob")
        with monkeypatch.context() as patch:
            patch.setattr(catalog if step == "scrub" else door, step, busy)
            for user_id in ("bob", "ann", "ann"):
                with pytest.raises(Busy):
                    vault.erasures.user(user_id)
        sessions.create("helper", session_id="ses-3", user_id="ann")
        done = vault.erasures.user("ann")
        assert (done.user_id, done.removed["sessions"]) == ("ann", 2)
        assert vault.erasures.user("ann").removed == {}
        kept = {each.erasure_id: each.removed.get("sessions") for each in vault.erasures.list()}
        assert sorted(kept.values(), key=str) == [1, 2, None]
        assert kept[done.erasure_id] == 2
        assert sessions.list() == []


def test_a_user_who_is_asked_for_while_another_erases_them_is_looked_for_again(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, collect, more = vault.namespace("alice").sessions, door.collect, ["ses-2"]
    certificates = list[Certificate]()

    def beside_another(*given: Any, **options: Any) -> Any:
        if more:
            sessions.create("helper", session_id=more.pop(), user_id="ann")
            certificates.append(vault.erasures.user("ann"))
        return collect(*given, **options)

    monkeypatch.setattr(door, "collect", beside_another)
    sessions.create("helper", session_id="ses-1", user_id="ann")
    certificates.append(vault.erasures.user("ann"))
    assert certificates[0] == certificates[1]
    assert certificates[0].removed["sessions"] == 2
    assert sessions.list() == []


def test_what_a_user_was_known_by_goes_with_the_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[str]()

    def noting(user_id: str, salt: bytes) -> str:
        made.append(mark_of(user_id, salt))
        return made[-1]

    def connecting(*given: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*given, **options)
        connection.execute("PRAGMA secure_delete = OFF")  # Some builds begin with ON.
        return connection

    mark_of, connect = certifying.mark_of, sqlite3.connect
    monkeypatch.setattr(certifying, "mark_of", noting)
    monkeypatch.setattr(sqlite3, "connect", connecting)
    with holdfast.open(tmp_path / "vault") as vault:
        with monkeypatch.context() as patch:
            patch.setattr(door, "collect", busy)
            for user_id in ("ann", "bob", "cid", "dan", "eve", "fay"):
                with pytest.raises(Busy):
                    vault.erasures.user(user_id)
        vault.erasures.finish()
    place = Place(str(tmp_path / "vault"), tmp_path / "vault" / "packs", tmp_path / "vault")
    assert made
    assert [mark for mark in made if place.holding(mark)] == []


def test_an_erasure_that_cannot_be_read_keeps_no_other_waiting(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alice", "other"):
        vault.namespace(name).sessions.create("helper", session_id="ses-1", user_id="ann")
    with monkeypatch.context() as patch:
        patch.setattr(door, "collect", busy)
        patch.setattr(certifying, "encode", str)
        with pytest.raises(Busy):
            vault.erasures.namespace("other")
    assert vault.erasures.user("ann").removed["sessions"] == 1
    with pytest.raises(Damaged):
        vault.erasures.finish()


def test_what_a_restore_has_named_does_not_name_what_was_erased(vault: Holdfast) -> None:
    agent = vault.namespace("alice")
    for session_id in ("ses-gone", "ses-kept"):
        agent.sessions.create("helper", session_id=session_id)
    before = agent.snapshot("before")
    names = [holdfast.Name("sessions", each) for each in ("ses-gone", "ses-kept")]
    agent.sessions.update_state("ses-gone", {"a": 1})
    agent.sessions.update_state("ses-kept", {"a": 1})
    agent.restore(before.id, names=names)
    agent.restore(before.id, except_=names)
    vault.erasures.session("alice", "ses-gone")
    details = [each.detail for each in agent.timeline() if each.kind == "restore"]
    kept = [{"plane": "sessions", "name": "ses-kept"}]
    assert [each.get("names", each.get("except")) for each in details] == [kept, kept]
    assert vault.verify().ok


def test_a_row_that_was_damaged_ends_an_erasure_and_does_not_keep_it(
    vault: Holdfast, tmp_path: Path
) -> None:
    agent = vault.namespace("alice")
    agent.sessions.create("helper", session_id="ses-1", user_id="ann")
    vault.erasures.session("alice", "ses-1")
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as database, database:
        erased = "WHERE details LIKE 'redacted:%'"
        database.execute(f"UPDATE journal SET session_id = 'ses-1', user_id = 'ann' {erased}")
    with pytest.raises(Damaged):
        vault.erasures.session("alice", "ses-1")
    with pytest.raises(Damaged):
        vault.erasures.user("ann")

"""Erasing what is half gone already, twice, beside others, and what was never whole."""

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
from holdfast.engine.erasing import door
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


WORD = "xqzjerasedword"


def busy(*_: object, **__: object) -> None:
    raise Busy("somebody collects")


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

"""Erasing what is half gone already, twice, beside others, and what was never whole."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.context import Context
from holdfast.engine.vault import Holdfast
from holdfast.errors import SessionNotFound
from holdfast.testing.clocks import Watch


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
    vault.erasures.session("alice", "ses-gone")
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

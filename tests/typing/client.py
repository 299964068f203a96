"""What type checkers see of the clients: run by pyright, as part of `make check`."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from holdfast import (
    AdminClient,
    AsyncAdminClient,
    AsyncClient,
    AsyncRemoteWorkspace,
    Client,
    FileInfo,
    Name,
    Namespace,
    RemoteWorkspace,
    Restored,
    SessionInfo,
    SnapshotInfo,
    State,
    Timeline,
)
from holdfast.model.events import Event
from holdfast.model.keys import NewKey
from holdfast.model.memories import MemoryMatch
from holdfast.model.webhooks import NewWebhook


def waits(client: Client, admin: AdminClient) -> None:
    """The methods of a client that waits return answers."""
    assert_type(client.snapshot("before"), SnapshotInfo)
    assert_type(client.restore("latest", paths=["notes.md"]), Restored)
    assert_type(client.restore("latest", names=[Name.file("x[1]")], except_=[]), Restored)
    assert_type(client.restore_snapshot("latest"), int)
    assert_type(client.timeline(limit=3), Timeline)
    assert_type(client.snapshots.iter(), Iterator[SnapshotInfo])
    assert_type(client.files.read("notes.md"), bytes)
    assert_type(client.files.stream("notes.md"), Iterator[bytes])
    assert_type(client.files.list(recursive=True), list[FileInfo])
    assert_type(client.sessions.create("agent", initial_state={}), SessionInfo)
    assert_type(client.sessions.update_state("sess_1", {"step": 2}), State)
    assert_type(client.memory.search("seats"), list[MemoryMatch])
    assert_type(client.events.stream(), Iterator[Event])
    assert_type(client.store.get("n", "k"), Any)
    assert_type(client.at("latest").files.read("notes.md"), bytes)
    assert_type(client.fork("other"), Client)
    assert_type(client.workspace("."), RemoteWorkspace)
    assert_type(admin.create_key("alice"), NewKey)
    assert_type(admin.create_webhook("https://example.com", ["snapshot.created"]), NewWebhook)


async def awaits(client: AsyncClient, admin: AsyncAdminClient) -> None:
    """The same of one whose methods are coroutines."""
    assert_type(await client.snapshot("before"), SnapshotInfo)
    assert_type(await client.restore("latest", names=[Name.value("n", "k")]), Restored)
    assert_type(await client.restore_snapshot("latest"), int)
    assert_type(client.snapshots.iter(), AsyncIterator[SnapshotInfo])
    assert_type(await client.files.read("notes.md"), bytes)
    assert_type(client.files.stream("notes.md"), AsyncIterator[bytes])
    assert_type(await client.sessions.create("agent"), SessionInfo)
    assert_type(await client.memory.search("seats"), list[MemoryMatch])
    assert_type(client.events.stream(), AsyncIterator[Event])
    assert_type(await client.at("latest").files.read("notes.md"), bytes)
    assert_type(await client.fork("other"), AsyncClient)
    assert_type(client.workspace("."), AsyncRemoteWorkspace)
    assert_type(await admin.create_key("alice"), NewKey)
    async with client.task("tidy") as task:
        assert_type(task.before, SnapshotInfo)


def decorated(client: Client) -> None:
    """A decorated function keeps its signature."""

    @client.checkpointed
    def add(one: int, two: int) -> int:
        return one + two

    @client.checkpointed("other", rollback_on_failure=True)
    def name(of: str) -> str:
        return of

    assert_type(add(1, 2), int)
    assert_type(name("x"), str)


def either(door: Namespace | Client) -> None:
    """What is written for one door is right for the other."""
    assert_type(door.snapshot("before"), SnapshotInfo)
    assert_type(door.restore("latest"), Restored)
    assert_type(door.sessions.get("sess_1"), SessionInfo)

"""Every method that the SDK's clients have works against the server, called plainly or awaited.

Each method has a use below. One that a client has and that has none fails here by its name.
"""

import asyncio
import inspect
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import trove_sdk
from trove_sdk import (
    AsyncTroveAdminClient,
    AsyncTroveClient,
    TroveAdminClient,
    TroveAuthError,
    TroveClient,
    TroveError,
    TroveNotFoundError,
    TroveServerError,
)

from holdfast.testing.servers import Server

UNDOCUMENTED_PORT = "http://127.0.0.1:9/hook"
"""Where nobody listens: what is sent there is refused at once."""


@dataclass
class Anyhow:
    """A client whose methods are awaited, whether it is one to await or not."""

    client: Any
    server: Server
    namespace: str

    async def end(self) -> None:
        """Closes the client, whichever way it has."""
        await (self.aclose() if hasattr(self.client, "aclose") else self.close())

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **more: Any) -> Any:
            result = getattr(self.client, name)(*args, **more)
            return await result if inspect.isawaitable(result) else result

        return call


async def use_exec(client: Anyhow) -> None:
    with pytest.raises(TroveServerError, match="runs no commands") as told:
        await client.exec("ls workspace/")
    assert told.value.status_code == 501


async def use_exec_detailed(client: Anyhow) -> None:
    with pytest.raises(TroveServerError, match="runs no commands"):
        await client.exec_detailed("cat", stdin="x")


async def use_exec_chain(client: Anyhow) -> None:
    with pytest.raises(TroveServerError, match="runs no commands"):
        await client.exec_chain(["cd workspace", "ls"])


async def use_write(client: Anyhow) -> None:
    written = await client.write("workspace/notes/tödo.md", "grüße\r\n")
    assert (written.path, written.size_bytes) == ("workspace/notes/tödo.md", 9)
    assert await client.read_text("workspace/notes/tödo.md") == "grüße\r\n"


async def use_upload(client: Anyhow) -> None:
    written = await client.upload("/workspace/a.bin", io.BytesIO(b"\x00\xff"))
    assert (written.path, written.size_bytes) == ("workspace/a.bin", 2)
    assert (await client.upload("empty", b"")).size_bytes == 0


async def use_delete(client: Anyhow) -> None:
    await client.write("d/e/f.txt", "x")
    assert await client.delete("workspace/d") == "workspace/d"
    with pytest.raises(TroveNotFoundError):
        await client.read_text("d/e/f.txt")


async def use_set_init(client: Anyhow) -> None:
    assert (await client.set_init("cd workspace\n")).path == "workspace/.trove/init.sh"


async def use_get_init(client: Anyhow) -> None:
    assert await client.get_init() is None
    await client.set_init("export A=1\n")
    assert await client.get_init() == "export A=1\n"


async def use_clear_init(client: Anyhow) -> None:
    assert await client.clear_init() is False
    await client.set_init("export A=1\n")
    assert await client.clear_init() is True
    assert await client.get_init() is None


async def use_bootstrap(client: Anyhow) -> None:
    fresh = await client.bootstrap()
    assert (fresh.file_count, fresh.recent_files, fresh.truncated) == (0, [], False)
    await client.set_init("true\n")
    await client.write("workspace/.trove/agent.md", "go on with b")
    for name in ("a", "b"):
        await client.write(f"src/{name}.py", name)
    packet = await client.bootstrap()
    assert packet.file_count == 2
    assert [file.path for file in packet.recent_files] == [
        "workspace/src/b.py",
        "workspace/src/a.py",
    ]
    assert packet.last_modified_at == packet.recent_files[0].modified_at
    assert (packet.init_script, packet.agent_memory) == ("true\n", "go on with b")
    assert "workspace/src/b.py" in packet.as_system_prompt_block()


async def use_list_dir(client: Anyhow) -> None:
    assert list(await client.list_dir()) == []
    await client.write("b/c.txt", "12")
    await client.write("a.txt", "1")
    listed = await client.list_dir("workspace/")
    assert [(e.name, e.path, e.is_dir, e.size_bytes) for e in listed] == [
        ("b", "workspace/b", True, None),
        ("a.txt", "workspace/a.txt", False, 1),
    ]
    deep = await client.list_dir(recursive=True)
    assert [e.name for e in deep] == ["b", "c.txt", "a.txt"]
    assert deep.truncated is False


async def use_read(client: Anyhow) -> None:
    await client.write("t", "text")
    await client.upload("b", b"\xff\xfe")
    assert (await client.read("t"), await client.read("b")) == ("text", b"\xff\xfe")


async def use_read_text(client: Anyhow) -> None:
    await client.upload("b", b"\xff\xfe")
    with pytest.raises(TroveError, match="binary") as told:
        await client.read_text("workspace/b")
    assert told.value.status_code == 415


async def use_read_file(client: Anyhow) -> None:
    await client.write("t", "text")
    found = await client.read_file("t")
    assert (found.path, found.size_bytes, found.encoding) == ("workspace/t", 4, "utf-8")
    assert (found.content, found.truncated) == ("text", False)


async def use_read_bytes(client: Anyhow) -> None:
    await client.upload("x.gz", b"\x1f\x8b not really")
    assert await client.read_bytes("workspace/x.gz") == b"\x1f\x8b not really"


async def use_read_bytes_full(client: Anyhow) -> None:
    await client.upload("x", b"12345")
    found = await client.read_bytes_full("x")
    assert (found.content, found.truncated, found.size_bytes) == (b"12345", False, 5)


async def use_create_snapshot(client: Anyhow) -> None:
    await client.write("a", "12345")
    taken = await client.create_snapshot("before")
    assert (taken.namespace, taken.label, taken.size_bytes) == (client.namespace, "before", 5)
    assert taken.snapshot_id.startswith("snap-")
    assert len(taken.snapshot_id) <= 26
    assert (await client.create_snapshot()).label is None


async def use_list_snapshots(client: Anyhow) -> None:
    assert await client.list_snapshots() == []
    taken = [await client.create_snapshot(label) for label in ("one", "two")]
    assert await client.list_snapshots() == taken[::-1]


async def use_restore_snapshot(client: Anyhow) -> None:
    await client.write("kept", "1")
    await client.write("changed", "1")
    taken = await client.create_snapshot()
    await client.write("changed", "2")
    await client.write("new", "2")
    assert await client.restore_snapshot(taken.snapshot_id) == 2
    assert [e.name for e in await client.list_dir()] == ["changed", "kept"]
    assert await client.read_text("changed") == "1"


async def use_delete_snapshot(client: Anyhow) -> None:
    taken = await client.create_snapshot()
    assert await client.delete_snapshot(taken.snapshot_id) is None
    assert await client.list_snapshots() == []
    with pytest.raises(TroveNotFoundError):
        await client.delete_snapshot(taken.snapshot_id)


async def use_create_key(client: Anyhow) -> None:
    made = await client.create_key("robot", namespace="alice")
    assert (made.name, made.scope, made.namespace) == ("robot", "workspace", "alice")
    assert made.api_key.startswith(made.prefix)
    assert len(made.api_key) > 40
    assert (await client.create_key("other")).namespace is None


async def use_list_keys(client: Anyhow) -> None:
    made = await client.create_key("listed")
    found = {key.key_id: key for key in await client.list_keys()}
    assert found[made.key_id].name == "listed"
    assert found[made.key_id].created_at == made.created_at
    assert "admin" in {key.scope for key in found.values()}


async def use_revoke_key(client: Anyhow) -> None:
    made = await client.create_key("short-lived")
    with TroveClient(made.api_key, "alice", base_url=client.server.url) as agent:
        agent.list_dir()
        assert await client.revoke_key(made.key_id) is None
        with pytest.raises(TroveAuthError) as told:
            agent.list_dir()
    assert told.value.status_code == 401
    with pytest.raises(TroveNotFoundError):
        await client.revoke_key(made.key_id)
    assert made.key_id not in {key.key_id for key in await client.list_keys()}


async def use_from_api_key(client: Anyhow) -> None:
    made = await client.from_api_key(client.server.admin_key, base_url=client.server.url)
    again = Anyhow(made, client.server, client.namespace)
    assert await again.list_keys()
    await again.end()


async def use_create_webhook(client: Anyhow) -> None:
    made = await client.create_webhook(
        UNDOCUMENTED_PORT, events=["snapshot.created"], namespace="alice", description="d"
    )
    assert (made.url, made.events) == (UNDOCUMENTED_PORT, ["snapshot.created"])
    assert (made.namespace, made.description, made.enabled) == ("alice", "d", True)
    assert made.signing_secret
    assert (await client.create_webhook(UNDOCUMENTED_PORT)).events == ["*"]


async def use_list_webhooks(client: Anyhow) -> None:
    made = await client.create_webhook(UNDOCUMENTED_PORT)
    assert made.webhook_id in {hook.webhook_id for hook in await client.list_webhooks()}


async def use_delete_webhook(client: Anyhow) -> None:
    made = await client.create_webhook(UNDOCUMENTED_PORT)
    assert await client.delete_webhook(made.webhook_id) is None
    with pytest.raises(TroveNotFoundError):
        await client.delete_webhook(made.webhook_id)


async def use_test_webhook(client: Anyhow) -> None:
    made = await client.create_webhook(UNDOCUMENTED_PORT)
    tested = await client.test_webhook(made.webhook_id)
    assert (tested.ok, tested.status) == (False, None)
    assert tested.event_id
    assert tested.error


async def use_close(client: Anyhow) -> None:
    await client.close()


async def use_aclose(client: Anyhow) -> None:
    await client.aclose()


CLIENTS = [TroveClient, AsyncTroveClient, TroveAdminClient, AsyncTroveAdminClient]
USES = {name.removeprefix("use_"): use for name, use in globals().items() if "use_" in name[:4]}


METHODS = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in CLIENTS
    for name in vars(kind)
    if not name.startswith("_")
]


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_every_method_of_the_sdk_works(
    kind: type, method: str, server: Server, namespace: str
) -> None:
    assert method in USES, f"nobody tries {kind.__name__}.{method}"
    if kind in (TroveAdminClient, AsyncTroveAdminClient):
        client = kind(server.admin_key, server.workspace_id, base_url=server.url)
    else:
        client = kind(server.api_key, namespace, base_url=server.url)

    async def use() -> None:
        used = Anyhow(client, server, namespace)
        try:
            await USES[method](used)
        finally:
            await used.end()

    asyncio.run(use())


def test_the_sdk_has_no_other_clients() -> None:
    named = [getattr(trove_sdk, name) for name in trove_sdk.__all__ if name.endswith("Client")]
    assert set(named) == set(CLIENTS)

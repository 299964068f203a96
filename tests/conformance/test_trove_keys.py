"""Keys over HTTP: who makes them, what they open, and that they open nothing once revoked."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest
from trove_sdk import TroveAdminClient, TroveAuthError, TroveNotFoundError

from holdfast.testing.servers import Server


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    base = f"{server.url}/v1/workspaces/{server.workspace_id}"
    with httpx.Client(base_url=base, headers=headers, timeout=30) as client:
        yield client


def make(client: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = client.post("/keys", json={"name": "k", "namespace": None, "admin": False, **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


def me(server: Server, key: str) -> httpx.Response:
    return httpx.get(f"{server.url}/v1/me", headers={"Authorization": f"Bearer {key}"})


def test_a_secret_is_in_one_answer_and_nowhere_else(server: Server, admin: httpx.Client) -> None:
    made = make(admin, name="once")
    secret = made.pop("api_key")
    listed = admin.get("/keys")
    assert made["key_id"] in {key["key_id"] for key in listed.json()["keys"]}
    assert secret not in listed.text
    assert "api_key" not in listed.text
    assert secret.startswith(made["prefix"])
    kept = b"".join(path.read_bytes() for path in server.data.rglob("*") if path.is_file())
    assert secret.encode() not in kept
    assert secret not in server.log.read_text()


def test_a_key_says_what_it_opens(server: Server, admin: httpx.Client) -> None:
    for body, scope in (({"namespace": "alice"}, "workspace"), ({"admin": True}, "admin")):
        made = make(admin, **body)
        said = me(server, made["api_key"]).json()
        assert (said["workspace_id"], said["key_id"]) == (server.workspace_id, made["key_id"])
        assert (said["key_name"], said["scope"], said["namespace"]) == (
            "k",
            scope,
            body.get("namespace"),
        )


def test_a_key_of_another_admins_making_administers(server: Server, admin: httpx.Client) -> None:
    secret = make(admin, admin=True)["api_key"]
    with TroveAdminClient.from_api_key(secret, base_url=server.url) as other:
        assert other.create_key("made by it").scope == "workspace"


def test_an_admin_key_is_not_for_one_namespace(admin: httpx.Client) -> None:
    body = {"name": "k", "namespace": "alice", "admin": True}
    assert admin.post("/keys", json=body).status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": None},
        {"name": "n" * 129},
        {"name": "k", "namespace": ".."},
        {"name": "k", "namespace": ""},
        {"name": "k", "expires_in_seconds": 0},
        {"name": "k", "expires_in_seconds": 10**30},
        {"name": "k", "rate_limit": -1},
        {"name": "k", "rate_limit": 2**63},
        {"name": "k", "admin": "yes"},
        {"name": "a\0b"},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(admin: httpx.Client, body: dict[str, Any]) -> None:
    before = len(admin.get("/keys").json()["keys"])
    assert admin.post("/keys", json=body).status_code in (400, 422)
    assert len(admin.get("/keys").json()["keys"]) == before


@pytest.mark.parametrize("limit", [{"scope": "admin"}, {"addOnly": True}, {"expires_in": 1}])
def test_a_limit_that_is_not_known_is_not_passed_over(
    admin: httpx.Client, limit: dict[str, Any]
) -> None:
    before = len(admin.get("/keys").json()["keys"])
    answer = admin.post("/keys", json={"name": "k", **limit})
    assert answer.status_code == 422
    assert next(iter(limit)) in answer.text
    assert len(admin.get("/keys").json()["keys"]) == before


def test_a_key_may_have_an_end_and_a_rate(server: Server, admin: httpx.Client) -> None:
    made = make(admin, expires_in_seconds=3600, rate_limit=2)
    ends, begins = (datetime.fromisoformat(made[at]) for at in ("expires_at", "created_at"))
    assert ends - begins == timedelta(hours=1)
    statuses = [me(server, made["api_key"]).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    limited = me(server, make(admin, rate_limit=1)["api_key"])
    assert (limited.headers["X-RateLimit-Limit"], limited.headers["X-RateLimit-Remaining"]) == (
        "1",
        "0",
    )


def test_only_admins_see_keys(server: Server, admin: httpx.Client) -> None:
    for secret in (server.api_key, make(admin, namespace="alice")["api_key"]):
        with TroveAdminClient(secret, server.workspace_id, base_url=server.url) as client:
            for use in (
                client.list_keys,
                lambda client=client: client.create_key("x"),
                lambda client=client: client.revoke_key("key-x"),
            ):
                with pytest.raises(TroveAuthError) as told:
                    use()
                assert told.value.status_code == 403


def test_another_workspace_is_not_found(server: Server) -> None:
    with TroveAdminClient(server.admin_key, "ws-somebody", base_url=server.url) as client:
        for use in (
            client.list_keys,
            lambda: client.create_key("x"),
            lambda: client.revoke_key("key-x"),
        ):
            with pytest.raises(TroveNotFoundError):
                use()


@pytest.mark.parametrize("key_id", ["key-nobody", "%27%20OR%201=1", "x" * 3000])
def test_a_key_that_is_not_there_cannot_be_revoked(admin: httpx.Client, key_id: str) -> None:
    assert admin.delete(f"/keys/{key_id}").status_code == 404


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Basic eDp5", "Bearer wrong", f"Bearer {'x' * 4000}", "Bearer ÿ"],
)
def test_whoever_has_no_key_is_not_let_in(server: Server, header: str) -> None:
    headers = {"Authorization": header.encode("latin-1"), "X-Namespace": b"a"}
    answer = httpx.get(f"{server.url}/v1/files", headers=headers)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "wrong" not in answer.text


def test_running_commands_is_refused_for_keys_that_could_and_never_not_found(
    server: Server, wire: httpx.Client
) -> None:
    for path in ("/v1/exec", "/exec"):
        assert wire.post(path, json={"command": "ls", "stdin": ""}).status_code == 501
        assert wire.post(path).status_code == 422
    headers = {"Authorization": f"Bearer {server.admin_key}", "X-Namespace": "a"}
    assert wire.post("/v1/exec", json={"command": "ls"}, headers=headers).status_code == 403

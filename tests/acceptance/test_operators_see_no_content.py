"""What agents write is nowhere in what operators are told, by any route.

A word that nobody else uses is in every field that holds content. Then all that an admin's key can
read is read, events and webhooks included: the word is in none of it.
"""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import holdfast
from holdfast.testing.receivers import receiver
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

pytestmark = pytest.mark.in_memory

WORD = "zebrafish"
ADMIN = {"Authorization": f"Bearer {ADMIN_KEY}"}
AGENT = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": "alice"}


def write_everywhere(http: httpx.Client) -> dict[str, str]:
    """Puts the word wherever an agent can write something; returns the ids of what it made."""

    def do(method: str, path: str, **more: Any) -> Any:
        answer = http.request(method, path, headers=AGENT, **more)
        assert answer.is_success, (method, path, answer.text)
        return answer.json() if answer.content else None

    text, thing = f"{WORD} content", {WORD: f"{WORD} value"}
    do("PUT", "/files/a.txt", content=text.encode())
    do("POST", "/write", json={"path": "b.txt", "content": text})
    do("PUT", "/v1/store/value", json={"namespace": "n", "key": "k", "value": thing})
    body = {"agent_id": "a", "user_id": "u", "metadata": thing, "initial_state": thing}
    session = do("POST", "/v1/sessions", json=body)["id"]
    at = f"/v1/sessions/{session}"
    do("PATCH", at, json={"metadata": {**thing, f"{WORD}-more": 1}})
    for method in ("PATCH", "PUT", "POST"):
        do(method, f"{at}/state", json={"state": {**thing, method: text}, "reasoning": text})
    turn = {"input": text, "output": text, "reasoning": text, "metadata": thing}
    do("POST", f"{at}/turns", json={**turn, "state_after": {**thing, "after": text}})
    do("POST", f"{at}/rollback", json={"version": 1, "reason": text})
    memory = {"content": text, "type": "fact", "tags": [WORD], "metadata": thing}
    kept = do("POST", "/v1/memories", json={**memory, "session_id": session})["id"]
    do("PATCH", f"/v1/memories/{kept}", json={"content": f"{text} again"})
    do("POST", "/v1/memories/search", json={"query": WORD, "threshold": 0})
    do("POST", f"{at}/context", json={"query": WORD})
    gone = do("POST", "/v1/memories", json=memory)["id"]
    do("DELETE", f"/v1/memories/{gone}")
    entity = {"session_id": session, "entity_type": "t", "entity_id": "e", "attributes": thing}
    row = do("POST", "/v1/entities", json=entity)["id"]
    do("PUT", f"/v1/entities/{row}", json={"attributes": {**thing, "more": text}})
    do("DELETE", f"/v1/entities/{row}")
    own = {"action": "tool.called", "details": {**thing, "metadata": thing, "name": text}}
    trace = do("POST", "/v1/traces", json=own)["id"]
    task = do("POST", "/v1/tasks", json={"name": "t", "metadata": thing})["task_id"]
    do("POST", f"/v1/tasks/{task}/fail", json={"error": text})
    taken = do("POST", "/v1/snapshots", json={"label": "good", "reason": text})["snapshot_id"]
    do("POST", f"/v1/snapshots/{taken}/restore", json={"reason": text})
    off = do("POST", "/v1/snapshots", json={"label": "off", "reason": text})["snapshot_id"]
    do("DELETE", f"/v1/snapshots/{off}")
    do("POST", "/v1/fork", json={"name": "fork"})
    ended = do("POST", "/v1/sessions", json=body)["id"]
    do("DELETE", f"/v1/sessions/{ended}", params={"reason": text})
    return {"memory_id": gone, "row_id": row, "trace_id": trace, "snapshot_id": off}


def read_by_operators(http: httpx.Client, ids: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields whatever an admin's key is answered, by every route that reads or brings back."""
    document = http.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            brings_back = "/recover" in path or path.endswith(("/forget", "/verify", "/collect"))
            if method != "get" and not brings_back:
                continue
            place = path
            for name, value in ids.items():
                place = place.replace(f"{{{name}}}", quote(value))
            taken = {each["name"] for each in described.get("parameters", ())}
            query = {"limit": 200} if "limit" in taken else {}
            request = http.build_request(method, place, headers=ADMIN, params=query)
            answer = http.send(request, stream=True)
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                answer.close()  # What it sends are the rows of the list.
                continue
            answer.read()
            assert answer.status_code < 500, answer.text
            yield f"{method} {path} {answer.status_code}", answer.text


def test_no_answer_to_an_admins_key_holds_what_agents_wrote(tmp_path: Path, at_once: Begin) -> None:
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with (
        receiver() as there,
        running_server(tmp_path, environ=environ, begin=at_once) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=30) as http,
    ):
        ws = f"/v1/workspaces/{server.workspace_id}"
        hook = {"url": there.url}
        made = http.post(f"{ws}/webhooks", headers=ADMIN, json=hook).json()
        ids = write_everywhere(http)
        check_agents_see_it(http)
        http.put("/files/last-of-all.txt", headers=AGENT, content=b"x")
        assert WORD not in str(there.wait_until(lambda got: "last-of-all" in str(got)))
        ids |= {"workspace_id": server.workspace_id, "name": "alice"}
        ids |= {"webhook_id": made["webhook_id"]}
        seen = dict(read_by_operators(http, ids))
        succeeded = [name for name in seen if name.endswith(" 200")]
        assert len(succeeded) > 20
        assert [name for name, text in seen.items() if WORD in text] == []
        check_chain(http, ws, server, tmp_path / "audit.jsonl")


def check_agents_see_it(http: httpx.Client) -> None:
    """What is withheld from operators is shown to those whose it is."""
    traces = http.get("/v1/traces", headers=AGENT, params={"limit": 500}).json()["data"]
    told = {each["action"]: str(each["details"]) for each in reversed(traces)}
    for action in ("state.updated", "turn.added", "tool.called", "state.rolled_back"):
        assert WORD in told[action], action
    for action, name in (
        ("session.created", "initial_state"),
        ("state.updated", "state_diff"),
        ("turn.added", "input_type"),
        ("state.rolled_back", "reasoning"),
    ):
        assert any(name in e["details"] for e in traces if e["action"] == action), action
    assert all(each["context"]["request_id"] for each in traces if each["action"] != "tool.called")
    [kept, gone] = [e["details"] for e in traces if e["action"] == "memory.created"][::-1]
    assert kept["content_preview"] == f"{WORD} content again"
    assert "content_preview" not in gone, "a memory that was forgotten is in no trace"


def check_chain(http: httpx.Client, ws: str, server: Server, target: Path) -> None:
    """The chain holds, here and in the file that operators get."""
    assert http.get(f"{ws}/audit/verify", headers=ADMIN).json()["ok"]
    exported = http.get(f"{ws}/audit/export", headers=ADMIN).content
    target.write_bytes(exported)
    assert holdfast.verify_audit_file(target).is_sound
    assert b"snapshot.taken" in exported
    with holdfast.open(server.data) as vault:
        whole = target.with_suffix(".whole")
        vault.export_audit(whole)
    assert WORD in io.BytesIO(whole.read_bytes()).read().decode(), "whoever has the vault has all"

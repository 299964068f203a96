"""Earlier moments, store, sessions and upkeep over our own routes: what both doors have."""

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.testing.servers import Begin, Server, running_server

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]], at_once: Begin) -> Iterator[Server]:
    folder, environ = either
    with running_server(folder, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture(scope="module")
def vault(server: Server) -> Iterator[holdfast.Holdfast]:
    url = server.environ.get("HOLDFAST_DATABASE_URL")
    packs = None if url is None else server.data / "packs"
    with holdfast.open(url or server.data, objects=packs) as opened:
        yield opened


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


@pytest.fixture
def agent(server: Server, namespace: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": namespace}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    url = f"{server.url}/v1/workspaces/{server.workspace_id}"
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture
def inside(vault: holdfast.Holdfast, namespace: str) -> holdfast.Namespace:
    """The same namespace, through the other door."""
    return vault.namespace(namespace)


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def ask(agent: httpx.Client, where: str, **query: Any) -> Any:
    return ok(agent.get(where, params=query))


# As it was.


def test_files_are_read_as_a_snapshot_shows_them(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.files.write("a/b", "then")
    inside.files.symlink("link", "a/b")
    then = inside.snapshot()
    inside.files.delete("a", recursive=True)
    inside.files.delete("link")
    inside.files.write("link", "now")
    for at in (then.id, then.id[:-1], "@"):
        assert agent.get("/v1/files/raw", params={"path": "a/b", "at": at}).content == b"then"
        assert ask(agent, "/v1/files/stat", path="link", at=at)["target"] == "a/b"
        listed = ask(agent, "/v1/files/list", recursive=True, at=at)["files"]
        assert [file["path"] for file in listed] == ["a/b", "link"]
    assert [file["path"] for file in ask(agent, "/v1/files/list")["files"]] == ["link"]


def test_the_store_is_read_as_a_snapshot_shows_it(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.store.set_many([("n", "a", 1), ("n", "b", None), ("m/n", "c", b"bytes")])
    then = inside.snapshot()
    assert ok(agent.post("/v1/store/clear")) == {"cleared": True}
    inside.store.set("n", "z", 2)
    at = {"at": then.id}
    assert ask(agent, "/v1/store/value", namespace="n", key="a", **at)["value"] == 1
    assert ask(agent, "/v1/store/keys", namespace="n", **at)["keys"] == ["a", "b"]
    assert ask(agent, "/v1/store/namespaces", **at)["namespaces"] == ["m/n", "n"]
    assert ask(agent, "/v1/store/max_key", namespace="n", **at)["key"] == "b"
    assert ask(agent, "/v1/store/count", **at) == {"count": 3, "size_bytes": None}
    sized = ask(agent, "/v1/store/count", sizes=True, **at)
    assert sized["size_bytes"] == inside.store.history()[-1].size_bytes
    wanted = [{"namespace": "n", "key": key} for key in ("a", "b", "z")]
    got = ok(agent.post("/v1/store/batch", params=at, json={"get": wanted}))["values"]
    assert [value and value["value"] for value in got] == [1, None, None]
    assert (got[1] is None, got[2] is None) == (False, True)
    assert ask(agent, "/v1/store/count") == {"count": 1, "size_bytes": None}
    assert ask(agent, "/v1/store/max_key", namespace="nothing")["key"] is None
    body = {"set": [{"namespace": "n", "key": "k", "value": 1}]}
    assert refusal(agent.post("/v1/store/batch", params=at, json=body))[0] == 422


def test_sessions_are_read_as_a_snapshot_shows_them(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    session = inside.sessions.create("a", initial_state={"n": 1})
    inside.sessions.add_turn(session.id, "hello", "hi")
    then = inside.snapshot()
    inside.sessions.update_state(session.id, {"n": 2})
    inside.sessions.add_turn(session.id, "more", "yes")
    other = inside.sessions.create("b")
    at, place = {"at": then.id}, f"/v1/sessions/{session.id}"
    assert [each["id"] for each in ask(agent, "/v1/sessions", **at)["data"]] == [session.id]
    assert ask(agent, "/v1/sessions", agent_id="b", **at)["data"] == []
    assert ask(agent, place, **at)["state"] == {"n": 1}
    shown = ask(agent, f"{place}/state", **at)
    assert (shown["state"], shown["version"]) == ({"n": 1}, 0)
    turns = ask(agent, f"{place}/turns", **at)["data"]
    assert [(turn["input"]["content"], turn["state_after"]) for turn in turns] == [("hello", None)]
    assert refusal(agent.get(f"/v1/sessions/{other.id}", params=at))[0] == 404
    assert agent.get(f"{place}/state", params={"version": 0, **at}).status_code == 422
    late = {"created_after": "2020-01-01T00:00:00Z", **at}
    assert agent.get("/v1/sessions", params=late).status_code == 422


@pytest.mark.parametrize("at", ["snap-nothing", "", "@-99", "nul\0", "x" * 3000])
@pytest.mark.parametrize(
    "path",
    [
        *("/v1/files/stat?path=a", "/v1/files/list", "/v1/files/raw?path=a", "/v1/store/items"),
        *("/v1/store/value?namespace=n&key=k", "/v1/store/keys?namespace=n", "/v1/store/count"),
        *(
            "/v1/store/namespaces",
            "/v1/store/max_key?namespace=n",
            "/v1/sessions",
            "/v1/sessions/s",
        ),
        *("/v1/sessions/s/state", "/v1/sessions/s/turns"),
    ],
)
def test_a_moment_that_is_none_is_refused(agent: httpx.Client, path: str, at: str) -> None:
    agent.post("/v1/snapshots")
    answer = agent.get(httpx.URL(path).copy_merge_params({"at": at}))
    assert answer.status_code in (400, 404), answer.text


# The store.


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_values_come_page_by_page_in_the_order_of_their_keys(
    agent: httpx.Client, inside: holdfast.Namespace, limit: int
) -> None:
    pairs = [("a", "k"), ("a\0", "k"), ("a", "k/1"), ("a/b", "k"), ("", "k"), ("z", "")]
    inside.store.set_many([(n, k, f"{n}|{k}") for n, k in pairs])
    found: list[tuple[str, str]] = []
    while True:
        after = {}
        if found:
            after = {"starting_after_namespace": found[-1][0], "starting_after": found[-1][1]}
        page = ask(agent, "/v1/store/items", limit=limit, **after)
        assert all(i["value"] == f"{i['namespace']}|{i['key']}" for i in page["items"])
        found += [(item["namespace"], item["key"]) for item in page["items"]]
        if not page["has_more"]:
            break
    assert found == [pair for pair, _ in inside.store.items()]
    own = ask(agent, "/v1/store/items", namespace="a", limit=limit)
    assert [i["key"] for i in own["items"]] == ["k", "k/1"][:limit]
    rest = ask(agent, "/v1/store/items", namespace="a", starting_after="k")["items"]
    assert [item["key"] for item in rest] == ["k/1"]
    some = ask(agent, "/v1/store/items", namespace="a", prefix="k/")["items"]
    assert [item["key"] for item in some] == ["k/1"]
    anywhere = ask(agent, "/v1/store/items", prefix="k/")["items"]
    assert [item["namespace"] for item in anywhere] == ["a"]
    behind = {"namespace": "a", "starting_after_namespace": "z", "starting_after": "x"}
    assert ask(agent, "/v1/store/items", **behind)["items"] == []
    answer = agent.get("/v1/store/items", params={"starting_after": "k"})
    assert refusal(answer) == (422, "invalid_request")


def test_a_page_of_large_values_ends_before_memory_does(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.store.set_many([("n", f"{number}", "x" * (3 << 20)) for number in range(5)])
    first = ask(agent, "/v1/store/items", namespace="n")
    assert ([item["key"] for item in first["items"]], first["has_more"]) == (["0", "1", "2"], True)
    rest = ask(agent, "/v1/store/items", namespace="n", starting_after="2")
    assert ([item["key"] for item in rest["items"]], rest["has_more"]) == (["3", "4"], False)


@pytest.mark.parametrize(
    "value",
    [
        {1: "a", "b": [b"\0", datetime(2031, 5, 1, tzinfo=UTC)]},
        {"$bytes": "not really"},
        {"$time": 1},
        [{"$msgpack": "x"}],
        2**63,
        -(2**63),
        [float("inf"), {"a": -float("inf")}],
    ],
)
def test_values_that_json_has_no_word_for_come_and_go_as_they_are(
    agent: httpx.Client, inside: holdfast.Namespace, value: Any
) -> None:
    inside.store.set("n", "k", value)
    shown = ask(agent, "/v1/store/value", namespace="n", key="k")["value"]
    body = {"namespace": "n", "key": "again", "value": shown}
    ok(agent.put("/v1/store/value", json=body))
    assert inside.store.get("n", "again") == inside.store.get("n", "k") is not None


@pytest.mark.parametrize(
    "packed", [b"", b"\xc1", b"\x81", b"\xd4\x05x", b"\x91" * 5000, b"\xa1\xff"]
)
def test_msgpack_that_is_none_is_refused(agent: httpx.Client, packed: bytes) -> None:
    value = {"$msgpack": b64encode(packed).decode()}
    body = {"namespace": "n", "key": "k", "value": value}
    assert agent.put("/v1/store/value", json=body).status_code in (400, 422)


# The timeline.


def test_the_status_says_where_a_namespace_stands(
    agent: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    nothing = {"exists": False, "dirty": False, "entries": 0, "size_bytes": 0, "position": None}
    said = {"namespace": namespace, "directory": None}
    assert ask(agent, "/v1/status") == {**said, **nothing}
    inside.files.write("a", "12345")
    assert ask(agent, "/v1/status")["dirty"]
    taken = inside.snapshot()
    there = {"exists": True, "dirty": False, "entries": 1, "size_bytes": 5, "position": taken.id}
    assert ask(agent, "/v1/status") == {**said, **there}
    inside.delete_snapshot(taken)
    assert ask(agent, "/v1/status")["position"] is None


def test_a_long_diff_comes_page_by_page(agent: httpx.Client, inside: holdfast.Namespace) -> None:
    first = inside.snapshot()
    inside.files.write_many((f"file {number}", "x") for number in range(7))
    inside.files.write(b"no text \xff", "x")
    inside.store.set_many([("n", f"{number}", 1) for number in range(7)])
    session = inside.sessions.create("a")
    second = inside.snapshot()
    found: list[tuple[str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        query = {"from": first.id, "to": second.id, "limit": 3, **cursor}
        page = ask(agent, "/v1/diff", **query)
        found += [(change["plane"], change["name"]) for change in page["changes"]]
        assert page["truncated"] == (page["next_cursor"] is not None)
        if not page["truncated"]:
            break
        cursor = {"cursor": page["next_cursor"]}
    wanted = [(change.plane.value, change.name) for change in inside.diff(first, second)]
    assert len(found) == len(wanted) == 16
    assert [each for each in found if "no text" not in each[1]] == [
        each for each in wanted if "no text" not in each[1]
    ]
    assert found[-1] == ("sessions", session.id)
    for wrong in ("x", "files", "files.é", "moon.AAAA", "files.A", "x" * 9000):
        for place in ("/v1/diff", "/v1/diff/texts"):
            answer = agent.get(place, params={"cursor": wrong})
            assert answer.status_code in (200, 422), answer.text


def test_a_text_diff_has_as_much_around_it_as_is_asked_for(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    lines = [f"{number}\n" for number in range(40)]
    inside.files.write("a", "".join(lines))
    inside.snapshot()
    inside.files.write("a", "".join([*lines[:20], "new\n", *lines[21:]]))
    for around in (0, 3, 10):
        told = ask(agent, "/v1/diff/text", path="a", context_lines=around)["diff"]
        assert told == inside.text_diff("a", context_lines=around)
    assert agent.get("/v1/diff/text", params={"path": "a", "context_lines": -1}).status_code == 422


def test_every_change_comes_with_its_text(agent: httpx.Client, inside: holdfast.Namespace) -> None:
    first = inside.snapshot()
    inside.files.write_many((f"file {number}", f"{number}\n") for number in range(3))
    inside.files.write("binary", b"\0")
    inside.store.set("n", "k", {"a": 1})
    inside.sessions.create("a", initial_state={"n": 1})
    second = inside.snapshot()
    found: list[tuple[str, str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        query = {"from": first.id, "to": second.id, "limit": 2, "context_lines": 1, **cursor}
        page = ask(agent, "/v1/diff/texts", **query)
        found += [(d["change"]["plane"], d["change"]["name"], d["diff"]) for d in page["diffs"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    wanted = inside.text_diffs(first, second, context_lines=1)
    assert found == [(change.plane.value, change.name, text) for change, text in wanted]
    only = ask(agent, "/v1/diff/texts", **{"from": first.id, "path": "workspace/file 1"})["diffs"]
    assert [each["diff"] for each in only] == [inside.text_diff("file 1", first)]


def test_texts_of_names_that_are_no_text_are_shown(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.files.write(b"b\xff", "x\n")
    shown = ask(agent, "/v1/diff/texts")["diffs"]
    assert "b\N{REPLACEMENT CHARACTER}" in shown[0]["diff"]


def test_a_merge_lists_as_many_changes_as_are_asked_for(
    agent: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    inside.files.write("a", "1")
    inside.snapshot()
    inside.fork(f"{namespace}-fork").files.write_many((f"f{n}", "x") for n in range(5))
    merged = ok(agent.post("/v1/merge", json={"source": f"{namespace}-fork", "limit": 2}))
    assert (len(merged["changes"]), merged["truncated"]) == (2, True)
    assert merged["counts"]["files"] == {"added": 5, "removed": 0, "changed": 0}
    assert merged["counts"]["store"] == {"added": 0, "removed": 0, "changed": 0}


def test_a_merge_that_is_refused_has_merged_nothing(
    agent: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    inside.files.write("a", "1")
    inside.fork(f"{namespace}-fork").files.write("b", "2")
    refused = agent.post("/v1/merge", json={"source": f"{namespace}-fork", "limit": 0})
    assert (refused.status_code, inside.files.exists("b")) == (422, False)


def test_an_export_says_how_much_it_holds_and_an_import_where_it_comes_from(
    agent: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    inside.files.write("a", "12345")
    taken = inside.snapshot("the label")
    archive = agent.get("/v1/export", params={"snapshot": "@"})
    assert archive.headers["x-entries"] == "1"
    told = ok(agent.post("/v1/import", content=archive.content))["manifest"]
    assert (told["namespace"], told["snapshot"], told["label"]) == (
        namespace,
        taken.id,
        "the label",
    )
    assert (told["root"], told["entries"], told["content_bytes"]) == (taken.root.hex(), 1, 5)
    assert datetime.fromisoformat(told["created_at"]) == taken.created_at


# Sessions.


def test_a_session_may_have_no_term(agent: httpx.Client, inside: holdfast.Namespace) -> None:
    usual = ok(agent.post("/v1/sessions", json={"agent_id": "a"}))
    assert usual["ttl_expires_at"] is not None
    made = ok(agent.post("/v1/sessions", json={"agent_id": "a", "never_expires": True}))
    assert made["ttl_expires_at"] is None
    assert inside.sessions.get(made["id"]).expires_at is None
    both = {"agent_id": "a", "never_expires": True, "ttl_seconds": 60}
    assert agent.post("/v1/sessions", json=both).status_code == 422


def test_a_fork_says_what_it_was_forked_from(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    session = inside.sessions.create("a", initial_state={"n": 1})
    assert ask(agent, f"/v1/sessions/{session.id}")["forked_from"] is None
    body = {"version": -1, "agent_id": "b"}
    inside.sessions.update_state(session.id, {"n": 2})
    made = ok(agent.post(f"/v1/sessions/{session.id}/fork", json=body))
    assert (made["forked_from"], made["forked_version"]) == (session.id, 0)


@pytest.mark.parametrize("way", ["query", "header"])
def test_a_session_is_deleted_for_a_reason(
    agent: httpx.Client, inside: holdfast.Namespace, way: str
) -> None:
    session = inside.sessions.create("a")
    more: dict[str, Any] = {
        "query": {"params": {"reason": "über und über"}},
        "header": {"headers": {"X-Reason": "done"}},
    }[way]
    assert agent.delete(f"/v1/sessions/{session.id}", **more).status_code == 204
    [trace] = inside.traces.list(action="session.deleted")
    assert ("über und über" if way == "query" else "done") in str(trace.details)


def test_a_turn_may_come_without_states(agent: httpx.Client, inside: holdfast.Namespace) -> None:
    session = inside.sessions.create("a")
    turn = inside.sessions.add_turn(session.id, "q", "a", state_after={"n": 1})
    place = f"/v1/sessions/{session.id}/turns/{turn.id}"
    assert ask(agent, place)["state_after"] == {"n": 1}
    assert ask(agent, place, include_state=False)["state_after"] is None


# Upkeep.


def test_an_operator_forgets_what_a_policy_does_not_keep(
    agent: httpx.Client, admin: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    for number in range(4):
        inside.files.write("a", f"{number}")
        inside.snapshot(f"{number}")
    place, body = f"/namespaces/{namespace}/forget", {"policy": {"keep_last": 2}}
    planned = ok(admin.post(place, json={**body, "dry_run": True}))
    wanted = inside.forget(policy=holdfast.Policy(keep_last=2), dry_run=True)
    assert {each["snapshot_id"] for each in planned["snapshots"]} == {each.id for each in wanted}
    assert (planned["dry_run"], len(inside.timeline())) == (True, 4)
    done = ok(admin.post(place, json=body))
    assert done["snapshots"] == planned["snapshots"]
    assert len(inside.timeline()) == 4 - len(wanted)
    assert ok(admin.post(place))["snapshots"] == []
    assert agent.post(f"{admin.base_url}{place[1:]}").status_code == 403
    assert admin.post("/namespaces/nowhere/forget").status_code == 404
    assert admin.post(place, json={"policy": {"keep_last": -1}}).status_code == 400


def test_thresholds_of_health_are_the_askers_to_choose(
    agent: httpx.Client, admin: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    session = inside.sessions.create("a", initial_state={"n": 0})
    inside.sessions.update_state(session.id, {"n": 1})
    inside.sessions.rollback(session.id, 0)
    assert ask(agent, "/v1/rollbacks")["level"] == "critical"
    limits = {"elevated": 2, "warning": 3, "critical": 4, "loop": 1}
    lenient = ask(agent, "/v1/rollbacks", **limits)
    assert (lenient["level"], len(lenient["loops"])) == ("healthy", 1)
    every = ok(admin.get("/rollbacks", params=limits))["loops"]
    assert [loop["namespace"] for loop in every] == [namespace]
    for wrong in ({"elevated": 9}, {"loop": 0}, {"loop": 10**40}, {"critical": "nan"}):
        assert agent.get("/v1/rollbacks", params=wrong).status_code in (400, 422)


def test_an_operator_sees_what_happened_in_every_namespace(
    admin: httpx.Client, inside: holdfast.Namespace, namespace: str
) -> None:
    session = inside.sessions.create("a")
    found = ok(admin.get("/traces", params={"session_id": session.id}))["data"]
    assert [(each["namespace"], each["action"]) for each in found] == [
        (namespace, "session.created")
    ]
    assert ok(admin.get(f"/traces/{found[0]['id']}")) == found[0]
    assert ok(admin.get("/traces", params={"action": "key.created", "limit": 1}))["has_more"]
    assert admin.get("/traces/trace_nothing").status_code == 404


def test_a_context_has_all_of_a_memory(agent: httpx.Client, inside: holdfast.Namespace) -> None:
    session = inside.sessions.create("a", user_id="u")
    made = inside.memory.add("likes aisle seats", session_id=session.id, metadata={"m": 1})
    body = {"query": "aisle seats"}
    [found] = ok(agent.post(f"/v1/sessions/{session.id}/context", json=body))["memories"]
    assert found == {**ask(agent, f"/v1/memories/{made.id}"), "score": found["score"]}

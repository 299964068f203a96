"""Our own routes over a real server: timeline, store, namespaces, audit, moving, upkeep."""

import io
import tarfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
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


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


@pytest.fixture
def agent(server: Server, namespace: str) -> Iterator[httpx.Client]:
    with client(server, server.api_key, namespace) as http:
        yield http


@pytest.fixture
def admin(server: Server) -> Iterator[httpx.Client]:
    with client(server, server.admin_key) as http:
        http.base_url = f"{server.url}/v1/workspaces/{server.workspace_id}"
        yield http


def client(server: Server, key: str, namespace: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    if namespace is not None:
        headers["X-Namespace"] = namespace
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def write(agent: httpx.Client, path: str, content: str) -> None:
    ok(agent.post("/write", json={"path": path, "content": content}))


def put(agent: httpx.Client, key: str, value: object, namespace: str = "n") -> None:
    ok(agent.put("/v1/store/value", json={"namespace": namespace, "key": key, "value": value}))


def get(agent: httpx.Client, key: str, namespace: str = "n") -> httpx.Response:
    return agent.get("/v1/store/value", params={"namespace": namespace, "key": key})


def snap(agent: httpx.Client, label: str | None = None) -> str:
    return ok(agent.post("/v1/snapshots", json={"label": label}))["snapshot_id"]


# The timeline


def test_the_timeline_says_what_there_is_and_what_no_snapshot_holds_yet(
    agent: httpx.Client,
) -> None:
    assert ok(agent.get("/v1/timeline"))["snapshots"] == []
    ids: list[str] = []
    for number in range(3):
        write(agent, "notes.txt", f"version {number}")
        ids.append(snap(agent))
    shown = ok(agent.get("/v1/timeline", params={"limit": 2}))
    assert [s["snapshot_id"] for s in shown["snapshots"]] == ids[:0:-1]
    assert (shown["has_more"], shown["dirty"], shown["entries"]) == (True, False, 1)
    below = {"before": shown["snapshots"][-1]["number"]}
    rest = ok(agent.get("/v1/timeline", params=below))
    assert ([s["snapshot_id"] for s in rest["snapshots"]], rest["has_more"]) == (ids[:1], False)
    write(agent, "notes.txt", "more")
    assert ok(agent.get("/v1/timeline"))["dirty"]
    assert ok(agent.get("/v1/timeline", params={"before": 10**40}))["has_more"] is False


def test_what_was_taken_on_purpose_is_listed_part_by_part(agent: httpx.Client) -> None:
    first = snap(agent, "first")
    ok(agent.post(f"/v1/snapshots/{first}/restore"))
    second = snap(agent, "second")
    page = ok(agent.get("/v1/snapshots", params={"limit": 1}))
    assert [each["snapshot_id"] for each in page["snapshots"]] == [second]
    assert (page["has_more"], page["next_before"]) == (True, page["snapshots"][0]["number"])
    rest = ok(agent.get("/v1/snapshots", params={"limit": 1, "before": page["next_before"]}))
    assert [each["snapshot_id"] for each in rest["snapshots"]] == [first]
    assert (rest["has_more"], rest["next_before"]) == (False, None)


def test_a_timeline_is_searched_and_told_with_what_each_changed(agent: httpx.Client) -> None:
    for number in range(3):
        write(agent, f"src/{number}.txt", "text")
        snap(agent, f"step {number}")
    plain = ok(agent.get("/v1/timeline"))
    assert not {"changes", "task", "actor_name", "forks"} & plain["snapshots"][0].keys()
    assert "total" not in plain
    asked = {"with": "changes,task,actor", "limit": "2"}
    page = ok(agent.get("/v1/timeline", params=asked))
    assert (page["total"], page["has_more"], page["next_before"]) == (3, True, 2)
    newest = page["snapshots"][0]
    assert newest["changes"]["files"] == {"added": 1, "removed": 0, "changed": 0}
    assert (newest["forks"], "task" in newest, bool(newest["actor_name"])) == ([], False, True)
    found = ok(agent.get("/v1/timeline", params={"q": "STEP 1", "path": "src/1.txt"}))
    assert [each["label"] for each in found["snapshots"]] == ["step 1"]
    assert (found["searched_to"], found["next_before"]) == (1, None)
    for wrong in (
        {"with": "all"},
        {"kind": "other"},
        {"pinned": "perhaps"},
        {"since": "yesterday"},
        {"q": "x" * 257},
        {"path": "../x"},
        {"task_status": "x"},
    ):
        assert agent.get("/v1/timeline", params=wrong).status_code in (400, 422), wrong
    cut = ok(agent.get("/v1/diff", params={"from": "@-2", "to": "@", "limit": 1, "counts": True}))
    assert (len(cut["changes"]), cut["truncated"]) == (1, True)
    assert cut["counts"]["files"] == {"added": 2, "removed": 0, "changed": 0}
    beside = ok(agent.get("/v1/diff/folders", params={"from": "@-2", "to": "@"}))
    assert beside["folders"] == [{"path": "src", "added": 2, "removed": 0, "changed": 0}]


def test_a_history_says_what_happened_to_one_thing(agent: httpx.Client) -> None:
    write(agent, "notes.txt", "one")
    first = snap(agent)
    write(agent, "notes.txt", "three")
    second = snap(agent)
    write(agent, "notes.txt", "")
    told = ok(agent.get("/v1/history", params={"name": "notes.txt"}))
    assert (told["name"], told["searched_to"]) == ({"plane": "files", "name": "notes.txt"}, 1)
    seen = [s["snapshot"] and s["snapshot"]["snapshot_id"] for s in told["steps"]]
    assert seen == [None, second, first]
    assert [s["change"] for s in told["steps"]] == ["changed", "changed", "added"]
    assert [s["old_bytes"] for s in told["steps"]] == [5, 3, None]
    assert (told["steps"][0]["previous"], told["next_before"]) == (second, None)
    page = ok(agent.get("/v1/history", params={"name": "notes.txt", "limit": 2}))
    rest = {"name": "notes.txt", "before": page["next_before"]}
    assert page["steps"] + ok(agent.get("/v1/history", params=rest))["steps"] == told["steps"]
    value = {"plane": "store", "namespace": "n", "key": "a/b"}
    assert ok(agent.get("/v1/history", params=value))["steps"] == []
    for query in ({}, {"name": "../x"}, {"plane": "nothing", "name": "x"}, {"name_b64": "?"}):
        assert agent.get("/v1/history", params=query).status_code == 400


def test_a_diff_says_what_changed_between_two_moments(agent: httpx.Client) -> None:
    write(agent, "notes.txt", "one\n")
    put(agent, "k", 1)
    first = snap(agent)
    write(agent, "notes.txt", "two\n")
    write(agent, ".envrc", "export A=1\n")
    found = ok(agent.get("/v1/diff", params={"from": first}))
    assert (found["old"], found["new"], found["truncated"]) == (first, None, False)
    assert {(c["plane"], c["name"], c["change"]) for c in found["changes"]} == {
        ("files", "notes.txt", "changed"),
        ("files", ".envrc", "added"),
    }
    assert [c["is_executable_config"] for c in found["changes"] if c["name"] == ".envrc"] == [True]
    second = snap(agent)
    back = ok(agent.get("/v1/diff", params={"from": second, "to": first, "limit": 1}))
    assert (len(back["changes"]), back["truncated"]) == (1, True)
    only = {"from": first, "to": second, "path": "workspace/notes.txt"}
    assert [c["name"] for c in ok(agent.get("/v1/diff", params=only))["changes"]] == ["notes.txt"]
    assert ok(agent.get("/v1/diff", params={"from": first, "plane": "store"}))["changes"] == []
    text = ok(agent.get("/v1/diff/text", params={"path": "notes.txt", "from": first}))
    assert "-one\n+two\n" in text["diff"]
    nowhere = agent.get("/v1/diff/text", params={"path": "nope", "from": first})
    assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "path_not_found")


def test_what_a_dry_run_lists_is_sent_back_as_names(agent: httpx.Client) -> None:
    for path in ("x[1].txt", "x1.txt", "workspace/y"):
        write(agent, path, "one")
    put(agent, "m/k", 1, "n")
    put(agent, "k", 1, "n/m")
    first = snap(agent)
    for path in ("x[1].txt", "x1.txt", "workspace/y"):
        write(agent, path, "two")
    put(agent, "m/k", 2, "n")
    put(agent, "k", 2, "n/m")
    route = f"/v1/snapshots/{first}/restore"
    seen = ok(agent.post(route, json={"dry_run": True}))["changes"]
    assert len(seen) == 5
    for change in seen:
        done = ok(agent.post(route, json={"names": [change]}))
        assert done["changes"] == [change]
    ok(agent.post("/v1/undo"))
    left = ok(agent.post(route, json={"except": seen[:4], "dry_run": True}))
    assert left["changes"] == seen[4:]
    assert left["counts"]["store"] == {"added": 0, "removed": 0, "changed": 1}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"names": []}, (400, "invalid_value")),
        ({"names": [{"plane": "moon", "name": "a"}]}, (400, "invalid_value")),
        ({"names": [{"plane": "files"}]}, (400, "invalid_path")),
        ({"names": [{"plane": "files", "name": "../a"}]}, (400, "invalid_path")),
        ({"names": [{"plane": "files", "name_b64": "/w=="}]}, (404, "name_not_found")),
        ({"names": [{"plane": "files", "name_b64": "?"}]}, (400, "invalid_path")),
        ({"names": [{"plane": "store", "name": "a/b/c"}]}, (400, "invalid_value")),
        ({"names": [{"plane": "files", "name": "a"}], "planes": ["store"]}, (400, "invalid_value")),
        ({"names": [{"name": "a"}]}, (422, "invalid_request")),
        ({"names": "a"}, (422, "invalid_request")),
        ({"except": [{"plane": "files", "name": 1}]}, (422, "invalid_request")),
        ({"names": [{"plane": "sessions", "name": "a\nb"}]}, (404, "name_not_found")),
        (
            {"names": [{"plane": "files", "name": f"{n}"} for n in range(10_001)]},
            (400, "invalid_value"),
        ),
    ],
)
def test_names_that_cannot_be_meant_are_refused(
    agent: httpx.Client, body: dict[str, Any], expected: tuple[int, str]
) -> None:
    write(agent, "a", "one")
    first = snap(agent)
    for dry_run in (True, False):
        answer = agent.post(f"/v1/snapshots/{first}/restore", json={**body, "dry_run": dry_run})
        assert refusal(answer) == expected
    assert len(ok(agent.get("/v1/timeline"))["snapshots"]) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"plane": "moon"}, (400, "invalid_value")),
        ({"from": "snap-nothing"}, (404, "snapshot_not_found")),
        ({"plane": "store", "path": "a"}, (400, "invalid_value")),
        ({"path": "../../etc"}, (400, "invalid_path")),
        ({"limit": "0"}, (422, "invalid_request")),
    ],
)
def test_a_diff_that_makes_no_sense_is_refused(
    agent: httpx.Client, query: dict[str, str], expected: tuple[int, str]
) -> None:
    write(agent, "notes.txt", "one")
    assert refusal(agent.get("/v1/diff", params=query)) == expected


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("POST", "/v1/undo", {"dryrun": True}, "dryrun"),
        ("POST", "/v1/undo", {"dry_run": "true"}, "dry_run"),
        ("POST", "/v1/undo?dry_run=true", {}, "dry_run"),
        ("POST", "/v1/store/clear", {"namespace": "other"}, "namespace"),
        ("POST", "/v1/store/batch", {"delete": [{"namespace": "n", "key": "k", "dry": 1}]}, "dry"),
        (
            "POST",
            "/v1/store/batch",
            {"set": [{"namespace": "n", "key": "k", "value": 1, "if": "absent"}]},
            "if",
        ),
        ("POST", "/v1/snapshots", {"pin": "true"}, "pin"),
        ("POST", "/v1/snapshots", {"expires_in_seconds": "5"}, "expires_in_seconds"),
        ("DELETE", "/v1/store/value?namespace=n&key=k&if=x", None, "if"),
        ("GET", "/v1/timeline?colour=x", None, "colour"),
    ],
)
def test_what_a_request_says_and_no_route_takes_is_refused_by_its_name(
    agent: httpx.Client, method: str, path: str, body: object, named: str
) -> None:
    put(agent, "k", "old")
    snap(agent)
    put(agent, "k", "new")
    answer = agent.request(method, path, json=body)
    assert refusal(answer) == (422, "invalid_request")
    assert named in answer.json()["error"]["message"]
    assert ok(get(agent, "k"))["value"] == "new"
    assert len(ok(agent.get("/v1/timeline", params={"limit": "5"}))["snapshots"]) == 1


def test_clients_of_others_may_say_what_nobody_knows(agent: httpx.Client) -> None:
    made = agent.post("/v1/sessions", json={"agent_id": "a", "ttl_seconds": "60", "colour": "red"})
    session = ok(made)["id"]
    assert ok(agent.get(f"/v1/sessions/{session}", params={"colour": "red"}))["id"] == session


def test_undo_and_redo_go_back_and_forth(agent: httpx.Client) -> None:
    put(agent, "k", "old")
    snap(agent)
    put(agent, "k", "new")
    operation = snap(agent)
    undone = ok(agent.post("/v1/undo"))
    assert (undone["verified"], undone["changed"]["store"]) == (True, 1)
    assert ok(get(agent, "k"))["value"] == "old"
    ok(agent.post("/v1/redo"))
    assert ok(get(agent, "k"))["value"] == "new"
    put(agent, "other", 1)
    ok(agent.post("/v1/undo", json={"operation": operation}))
    assert ok(get(agent, "k"))["value"] == "old"
    assert ok(get(agent, "other"))["value"] == 1
    assert agent.post("/v1/undo", json={"operation": "snap-nothing"}).status_code == 404


def test_a_namespace_that_is_not_there_has_nothing_to_undo(agent: httpx.Client) -> None:
    for verb in ("undo", "redo"):
        assert agent.post(f"/v1/{verb}").status_code in (404, 409)


def test_what_a_fork_has_changed_is_merged(
    agent: httpx.Client, server: Server, namespace: str
) -> None:
    put(agent, "k", "old")
    first = snap(agent)
    put(agent, "k", "mine")
    made = ok(agent.post("/v1/fork", json={"name": f"{namespace}-fork", "at": first}))
    assert (made["namespace"], made["forked_from"]) == (f"{namespace}-fork", namespace)
    with client(server, server.api_key, f"{namespace}-fork") as fork:
        assert ok(get(fork, "k"))["value"] == "old"
        put(fork, "k", "theirs")
        put(fork, "new", 1)
        snap(fork)
    source = {"source": f"{namespace}-fork"}
    refused = agent.post("/v1/merge", json=source)
    assert refusal(refused) == (409, "merge_conflict")
    assert refused.json()["error"]["conflicts"][0]["plane"] == "store"
    assert agent.post("/v1/merge", json={**source, "prefer": "nobody"}).status_code == 422
    merged = ok(agent.post("/v1/merge", json={**source, "prefer": "theirs"}))
    assert merged["snapshot"]["kind"] == "merge"
    assert (ok(get(agent, "k"))["value"], ok(get(agent, "new"))["value"]) == ("theirs", 1)
    taken = agent.post("/v1/fork", json={"name": f"{namespace}-fork"})
    assert taken.status_code == 409


def test_a_key_for_one_namespace_forks_and_merges_nowhere_else(
    agent: httpx.Client, admin: httpx.Client, server: Server, namespace: str
) -> None:
    put(agent, "k", 1)
    snap(agent)
    ok(agent.post("/v1/fork", json={"name": f"{namespace}-fork"}))
    locked = ok(admin.post("/keys", json={"name": "locked", "namespace": namespace}))["api_key"]
    with client(server, locked) as own:
        assert own.post("/v1/fork", json={"name": f"{namespace}-mine"}).status_code == 403
        assert own.post("/v1/merge", json={"source": f"{namespace}-fork"}).status_code == 403
        assert own.get("/v1/timeline", headers={"X-Namespace": "other"}).status_code == 403
        shown = ok(own.get("/v1/timeline", params={"with": "task"}))
        # What was forked is told to who reaches it.
        assert (shown["namespace"], shown["snapshots"][0]["forks"]) == (namespace, [])
    (told,) = ok(agent.get("/v1/timeline", params={"with": "task"}))["snapshots"]
    assert told["forks"] == [f"{namespace}-fork"]


def test_files_are_read_as_they_were(agent: httpx.Client) -> None:
    write(agent, "docs/notes.txt", "old")
    then = snap(agent)
    write(agent, "docs/notes.txt", "new")
    place = f"/v1/snapshots/{then}/files"
    listed = ok(agent.get(place, params={"recursive": True}))
    assert [entry["path"] for entry in listed["entries"]] == [
        "workspace/docs",
        "workspace/docs/notes.txt",
    ]
    read = ok(agent.get(f"{place}/content", params={"path": "workspace/docs/notes.txt"}))
    assert read["content"] == "old"
    assert agent.get(f"{place}/content", params={"path": "nothing"}).status_code == 404
    assert agent.get("/v1/snapshots/snap-nothing/files").status_code == 404
    for wrong in (f"{place}?recursvie=true", f"{place}/content?path=docs/notes.txt&at=now"):
        assert agent.get(wrong).status_code == 422, "what nobody takes is refused"
    whose = {"in": agent.headers["X-Namespace"]}
    assert ok(agent.get(place, params=whose))["path"] == "workspace/"


# The store


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "x", {"a": [True, None]}],
        2**63,
        "\0 and ☃",
        {"$bytes": "AP8="},
        {"list": [{"$time": "2031-05-01T00:00:00.000000Z"}]},
    ],
)
def test_a_value_comes_back_as_it_was_put(agent: httpx.Client, value: object) -> None:
    put(agent, "a/b c?&%2F", value, namespace="x\0/y")
    assert ok(get(agent, "a/b c?&%2F", namespace="x\0/y"))["value"] == value


def test_a_value_of_bytes_is_bytes_inside(server: Server, namespace: str) -> None:
    with client(server, server.api_key, namespace) as agent:
        put(agent, "k", {"$bytes": "AP8="})
        exported = agent.get("/v1/export").content
    assert b"\xc4\x02\x00\xff" in exported


@pytest.mark.parametrize(
    "value", [{"$bytes": "?"}, {"$time": "now"}, {"$time": "0001-01-01T00:00:00+23:00"}, 2**70]
)
def test_a_value_that_is_none_is_refused(agent: httpx.Client, value: object) -> None:
    body = {"namespace": "n", "key": "k", "value": value}
    assert agent.put("/v1/store/value", json=body).status_code in (400, 422)
    assert get(agent, "k").status_code == 404


def test_a_value_that_is_nested_too_deeply_is_refused(agent: httpx.Client) -> None:
    for depth in (300, 700):
        body = f'{{"namespace": "n", "key": "k", "value": {"[" * depth}{"]" * depth}}}'
        answer = agent.put("/v1/store/value", content=body)
        assert answer.status_code in (400, 422)


def test_a_value_is_deleted_once(agent: httpx.Client) -> None:
    put(agent, "k", 1)
    place = {"namespace": "n", "key": "k"}
    assert ok(agent.delete("/v1/store/value", params=place)) == {"deleted": True}
    assert ok(agent.delete("/v1/store/value", params=place)) == {"deleted": False}
    assert refusal(get(agent, "k")) == (404, "value_not_found")


def test_keys_are_listed_a_page_at_a_time(agent: httpx.Client) -> None:
    for key in ("a/1", "a/2", "a/3", "b", "ä"):
        put(agent, key, 1)
    put(agent, "z", 1, namespace="other")
    query: dict[str, str | int] = {"namespace": "n", "limit": 2}
    found: list[str] = []
    while True:
        page = ok(agent.get("/v1/store/keys", params=query))
        found += page["keys"]
        if not page["has_more"]:
            break
        query["starting_after"] = page["keys"][-1]
    assert found == ["a/1", "a/2", "a/3", "b", "ä"]
    some = {"namespace": "n", "prefix": "a/", "starting_after": "a/1"}
    assert ok(agent.get("/v1/store/keys", params=some))["keys"] == ["a/2", "a/3"]
    early = {"namespace": "n", "prefix": "b", "starting_after": "a"}
    assert ok(agent.get("/v1/store/keys", params=early))["keys"] == ["b"]
    assert ok(agent.get("/v1/store/namespaces"))["namespaces"] == ["n", "other"]


def test_a_batch_puts_deletes_and_reads(agent: httpx.Client) -> None:
    put(agent, "old", 1)
    batch = {
        "set": [{"namespace": "n", "key": key, "value": None} for key in ("a", "b")],
        "delete": [{"namespace": "n", "key": key} for key in ("old", "never")],
        "get": [{"namespace": "n", "key": key} for key in ("a", "old", "b")],
    }
    done = ok(agent.post("/v1/store/batch", json=batch))
    assert (done["set"], done["deleted"]) == (2, 1)
    # A null that was put is a value; what is not there is none.
    assert [value is None for value in done["values"]] == [False, True, False]
    broken = {"set": [*batch["set"], {"namespace": "n", "key": "c", "value": 2**70}]}
    ok(agent.delete("/v1/store/value", params={"namespace": "n", "key": "a"}))
    assert agent.post("/v1/store/batch", json=broken).status_code == 400
    assert get(agent, "a").status_code == 404
    much = {"get": [{"namespace": "n", "key": "a"}] * 10_001}
    assert agent.post("/v1/store/batch", json=much).status_code == 422


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("batch", {"put": [{"namespace": "n", "key": "k", "data": "no base64!"}]}),
        ("batch", {"put": [{"namespace": "n", "key": "k", "data": "wQ=="}]}),  # Of no value.
        ("batch", {"put": [{"namespace": "n", "key": "k", "data": "1AUA"}]}),  # An extension.
        ("batch", {"put": [{"namespace": "n", "key": "k", "data": "kw=="}]}),  # Cut off.
        ("batch", {"expected": [{"namespace": "n", "key": "k", "expected": 7}]}),
        ("append", {"namespace": "n", "values": "text"}),
        ("append", {"namespace": "n", "values": [1] * 10_001}),
        ("append", {"namespace": "n", "values": [{"$msgpack": "wQ=="}]}),
        ("append", {"namespace": "n" * 5000, "values": [1]}),
        ("pop", {"prefix": "p"}),
    ],
)
def test_what_cannot_be_put_is_refused(agent: httpx.Client, route: str, body: Any) -> None:
    assert agent.post(f"/v1/store/{route}", json=body).status_code in (400, 422)
    assert ok(agent.get("/v1/store/count"))["count"] == 0


def test_what_is_not_as_expected_is_a_conflict(agent: httpx.Client) -> None:
    put(agent, "k", 1)
    found = get(agent, "k").json()
    body = {"namespace": "n", "key": "k", "value": 2, "expected": "absent"}
    refused = agent.put("/v1/store/value", json=body)
    assert refusal(refused) == (409, "not_as_expected")
    assert refused.json()["error"]["values"]["actual"] == found["tag"]
    ok(agent.put("/v1/store/value", json={**body, "expected": found["tag"]}))
    query = {"path": "a.txt", "expected": "absent"}
    made = ok(agent.put("/v1/files/raw", params=query, content=b"a"))
    refused = agent.put("/v1/files/raw", params=query, content=b"b")
    assert refusal(refused) == (409, "not_as_expected")
    tag = agent.get("/v1/files/raw", params={"path": "a.txt"}).headers["etag"]
    assert tag == f'"{made["tag"]}"'
    snapshot = snap(agent)
    batch = {"expected": [{"namespace": "n", "key": "k", "expected": "absent"}]}
    answer = agent.post("/v1/store/batch", params={"at": snapshot}, json=batch)
    assert answer.status_code in (400, 422)


# Namespaces, as operators see them


def test_a_namespace_is_deleted_and_recovered(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    put(agent, "k", 1)
    snap(agent)
    shown = ok(admin.get(f"/namespaces/{namespace}"))
    assert (shown["entries"], shown["dirty"], shown["quota_bytes"]) == (1, False, None)
    before = ok(admin.get("/namespaces", params={"starting_after": namespace[:-1], "limit": 1}))
    assert len(before["namespaces"]) == 1
    assert admin.delete(f"/namespaces/{namespace}").status_code == 204
    assert admin.get(f"/namespaces/{namespace}").status_code == 404
    assert admin.delete(f"/namespaces/{namespace}").status_code == 404
    assert get(agent, "k").status_code == 404
    gone = ok(admin.get("/deleted-namespaces"))["deleted"]
    assert namespace in [each["namespace"] for each in gone]
    put(agent, "k", "another life")
    assert admin.post(f"/namespaces/{namespace}/recover").status_code == 409
    again = {"as_name": f"{namespace}-back", "number": gone[0]["number"]}
    back = ok(admin.post(f"/namespaces/{namespace}/recover", json=again))
    assert (back["namespace"], back["entries"]) == (f"{namespace}-back", 1)


def test_an_admin_erases_a_namespace_for_good(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    put(agent, "k", "v")
    asked = {"namespace": namespace, "confirm": namespace}
    assert admin.post("/erasures").status_code == 422
    assert admin.post("/erasures", json={**asked, "confirm": "another"}).status_code == 422
    assert agent.post("/v1/workspaces/me/erasures", json=asked).status_code == 403
    assert get(agent, "k").status_code == 200
    done = ok(admin.post("/erasures", json=asked))
    assert (done["what"], done["namespace"], done["removed"]["entries"]) == (
        "namespace",
        namespace,
        1,
    )
    assert get(agent, "k").status_code == 404
    assert done in ok(admin.get("/erasures"))["erasures"]
    assert admin.post("/erasures", json=asked).status_code == 404


def test_an_admin_erases_a_session_and_a_user_for_good(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    for session_id, user_id in (("ses-1", "ann"), ("ses-2", "bob")):
        asked = {"agent_id": "helper", "session_id": session_id, "user_id": user_id}
        ok(agent.post("/v1/sessions", json=asked))
    of_session = {"namespace": namespace, "session_id": "ses-1", "confirm": "ses-1"}
    refused: list[dict[str, object]] = [
        {**of_session, "confirm": namespace},
        {**of_session, "number": 1},
        {"session_id": "ses-1", "confirm": "ses-1"},
        {"user_id": "bob", "namespace": namespace, "confirm": "bob"},
        {"confirm": ""},
    ]
    for body in refused:
        assert admin.post("/erasures", json=body).status_code == 422, body
    assert agent.post("/v1/workspaces/me/erasures", json=of_session).status_code == 403
    done = ok(admin.post("/erasures", json=of_session))
    assert (done["what"], done["session_id"], done["removed"]["sessions"]) == (
        "session",
        "ses-1",
        1,
    )
    assert agent.get("/v1/sessions/ses-1").status_code == 404
    assert agent.get("/v1/sessions/ses-2").status_code == 200
    done = ok(admin.post("/erasures", json={"user_id": "bob", "confirm": "bob"}))
    assert (done["what"], done["user_id"], done["namespace"]) == ("user", "bob", None)
    assert agent.get("/v1/sessions/ses-2").status_code == 404
    assert admin.post("/erasures", json=of_session).status_code == 404


def test_a_name_with_a_slash_stands_in_the_header(server: Server, admin: httpx.Client) -> None:
    named = {"X-Namespace": "team/alice"}
    with client(server, server.api_key, "team/alice") as agent:
        put(agent, "k", 1)
    assert ok(admin.get("/namespaces/-", headers=named))["namespace"] == "team/alice"
    wanted = {"quota_bytes": 1000}
    assert ok(admin.put("/namespaces/-/quota", json=wanted, headers=named))["quota_bytes"] == 1000
    assert admin.get("/namespaces/-").status_code == 404
    # Without the stand-in, the path says what is meant.
    assert admin.get("/namespaces/nobody", headers=named).status_code == 404


def test_a_snapshot_that_an_agent_deleted_is_recovered(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    put(agent, "k", 1)
    deleted = snap(agent, "precious")
    put(agent, "k", 2)
    snap(agent)
    ok(agent.delete(f"/v1/snapshots/{deleted}"))
    assert agent.get(f"/v1/snapshots/{deleted}").status_code == 404
    found = ok(admin.get(f"/namespaces/{namespace}/deleted-snapshots"))["snapshots"]
    assert [snapshot["snapshot_id"] for snapshot in found] == [deleted]
    place = f"/namespaces/{namespace}/snapshots/{deleted}/recover"
    assert ok(admin.post(place))["label"] == "precious"
    assert ok(admin.post(place))["snapshot_id"] == deleted
    assert ok(agent.get(f"/v1/snapshots/{deleted}"))["label"] == "precious"
    elsewhere = f"/namespaces/{namespace}-other/snapshots/{deleted}/recover"
    assert admin.post(elsewhere).status_code == 404
    ok(agent.post("/v1/fork", json={"name": f"{namespace}-other"}))
    assert admin.post(elsewhere).status_code == 404


def test_retention_is_the_operators_to_set(
    agent: httpx.Client, admin: httpx.Client, server: Server, namespace: str
) -> None:
    for number in range(5):
        put(agent, "k", number)
        snap(agent)
    place = f"/namespaces/{namespace}/retention"
    unset = {"keep_last": 0, "keep_daily": 0, "keep_weekly": 0, "keep_traces_days": 0}
    assert ok(admin.get(place)) == unset
    wanted = {**unset, "keep_last": 2, "keep_traces_days": 90}
    assert ok(admin.put(place, json=wanted)) == wanted
    ok(admin.post("/collect"))
    assert len(ok(agent.get("/v1/timeline"))["snapshots"]) == 2
    for absurd in (-1, 10**30):
        assert admin.put(place, json={"keep_last": absurd}).status_code == 400
    assert admin.put("/namespaces/nobody/retention", json=wanted).status_code == 404
    own = f"/v1/workspaces/{server.workspace_id}{place}"
    assert agent.put(own, json=wanted).status_code == 403
    for nothing in (b"", b"null"):
        assert refusal(admin.put(place, content=nothing)) == (422, "invalid_request")
    assert ok(admin.get(place)) == wanted


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/v1/memories/m"),
        ("PUT", "/v1/memories/m"),
        ("PATCH", "/v1/memory/m"),
        ("POST", "/v1/schedules"),
        ("PATCH", "/v1/schedules/s"),
        ("PATCH", "/v1/sessions/s"),
        ("PATCH", "/v1/sessions/s/state"),
        ("PUT", "/v1/sessions/s/state"),
        ("POST", "/v1/sessions/s/state"),
        ("POST", "/v1/sessions/s/state/rollback"),
        ("POST", "/v1/sessions/s/rollback"),
    ],
)
def test_what_changes_something_needs_a_body(agent: httpx.Client, method: str, path: str) -> None:
    without = agent.request(method, path)
    assert refusal(without) == (422, "invalid_request")
    assert without.json()["error"]["message"] == "the request needs a JSON body"
    assert refusal(agent.request(method, path, content=b"null")) == (422, "invalid_request")


def test_a_webhook_is_changed_by_a_body(admin: httpx.Client) -> None:
    assert refusal(admin.patch("/webhooks/w")) == (422, "invalid_request")


def test_what_means_something_by_itself_needs_no_body(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    put(agent, "k", 1)
    for nothing in (b"", b"null"):
        assert ok(agent.post("/v1/snapshots", content=nothing))["label"] is None
        ok(agent.post("/v1/snapshots/latest/restore", content=nothing))
        put(agent, "k", nothing.decode())
        ok(agent.post("/v1/undo", content=nothing))
        ok(agent.post("/v1/redo", content=nothing))
        made = ok(agent.post("/v1/sessions", json={"agent_id": "a"}))
        ok(agent.post(f"/v1/sessions/{made['id']}/fork", content=nothing))
        assert admin.delete(f"/namespaces/{namespace}").status_code == 204
        ok(admin.post(f"/namespaces/{namespace}/recover", content=nothing))


def test_what_was_the_newest_snapshot_is_told_by_its_id(agent: httpx.Client) -> None:
    put(agent, "k", 1)
    newest = snap(agent)
    gone = ok(agent.delete("/v1/snapshots/latest"))
    assert gone == {"snapshot_id": newest, "deleted": True}
    assert refusal(agent.delete("/v1/snapshots/latest"))[0] == 404
    assert refusal(agent.delete(f"/v1/snapshots/{newest[:12]}"))[0] == 404


def test_a_refusal_names_the_part_of_the_query(agent: httpx.Client, admin: httpx.Client) -> None:
    for who, path, name in (
        (agent, "/v1/sessions", "created_after"),
        (agent, "/v1/sessions", "created_before"),
        (admin, "/events", "since"),
    ):
        refused = who.get(path, params={name: "soon"})
        assert refused.status_code == 400
        assert refused.json()["error"]["message"].startswith(f"{name} is an instant such as")
    unfit = agent.get("/v1/sessions", params={"metadata": "[1]"})
    assert unfit.status_code == 422
    assert unfit.json()["error"]["param"] == "metadata"
    assert unfit.json()["error"]["message"] == "metadata is a JSON object"
    assert unfit.json()["detail"][0]["loc"] == ["query", "metadata"]


def test_a_quota_is_kept_to(agent: httpx.Client, admin: httpx.Client, namespace: str) -> None:
    put(agent, "k", "x" * 100)
    place = f"/namespaces/{namespace}/quota"
    limited = ok(admin.put(place, json={"quota_bytes": 200}))
    assert (limited["quota_bytes"], limited["used_bytes"]) == (200, 102)
    body = {"namespace": "n", "key": "more", "value": "x" * 200}
    assert refusal(agent.put("/v1/store/value", json=body)) == (413, "quota_exceeded")
    assert ok(admin.put(place, json={}))["quota_bytes"] is None
    ok(agent.put("/v1/store/value", json=body))
    assert admin.put(place, json={"quota_bytes": -1}).status_code == 422
    assert admin.put("/namespaces/nobody/quota", json={}).status_code == 404
    whole = ok(admin.put("/quota", json={"quota_bytes": 10**12}))
    assert whole["quota_bytes"] == ok(admin.get("/quota"))["quota_bytes"] == 10**12
    ok(admin.put("/quota", json={"quota_bytes": None}))


def test_another_workspace_is_not_there(
    server: Server, admin: httpx.Client, agent: httpx.Client
) -> None:
    for path in ("namespaces", "quota", "audit/verify", "audit/export", "rollbacks"):
        assert admin.get(f"{server.url}/v1/workspaces/ws-another/{path}").status_code == 404
        own = f"/v1/workspaces/{server.workspace_id}/{path}"
        assert agent.get(own).status_code == 403


# Traces, and how often agents go back


def test_an_export_of_the_traces_is_verified_without_the_server(
    agent: httpx.Client, admin: httpx.Client, tmp_path: Path
) -> None:
    put(agent, "k", 1)
    snap(agent)
    report = ok(admin.get("/audit/verify"))
    assert report["ok"]
    assert report["problems"] == []
    snap(agent)
    assert ok(admin.get("/audit/verify", params={"anchor": report["anchor"]}))["ok"]
    assert admin.get("/audit/verify", params={"anchor": "nonsense"}).status_code == 400
    target = tmp_path / "audit.jsonl"
    with admin.stream("GET", "/audit/export") as answer:
        assert answer.status_code == 200
        target.write_bytes(answer.read())
    checked = holdfast.verify_audit_file(target, anchor=report["anchor"])
    assert (checked.is_sound, checked.checked > report["checked"]) == (True, True)
    target.write_bytes(target.read_bytes().replace(b"snapshot.taken", b"snapshot.pinned", 1))
    assert not holdfast.verify_audit_file(target).is_sound


def test_the_rollback_rate_says_who_turns_in_circles(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    assert ok(agent.get("/v1/rollbacks"))["level"] == "healthy"
    session = ok(agent.post("/v1/sessions", json={"agent_id": "a", "initial_state": {"n": 0}}))
    place = f"/v1/sessions/{session['id']}"
    for number in range(6):
        ok(agent.patch(f"{place}/state", json={"state": {"n": number + 1}}))
        ok(agent.post(f"{place}/rollback", json={"version": 1}))
    rate = ok(agent.get("/v1/rollbacks"))
    assert (rate["rollbacks"], rate["sessions"]) == (6, 1)
    assert [loop["session_id"] for loop in rate["loops"]] == [session["id"]]
    everybody = ok(admin.get("/rollbacks", params={"window_seconds": 3600}))
    assert everybody["rollbacks"] >= 6
    assert namespace in [loop["namespace"] for loop in everybody["loops"]]
    for seconds in (0, 10**20):
        wanted = {"window_seconds": seconds}
        assert agent.get("/v1/rollbacks", params=wanted).status_code == 422


# Moving, collecting, verifying


def test_a_namespace_moves_out_and_in(agent: httpx.Client, server: Server, namespace: str) -> None:
    write(agent, "notes.txt", "old")
    put(agent, "k", 1)
    then = snap(agent)
    write(agent, "notes.txt", "new")
    exports = {at: agent.get("/v1/export", params=at and {"snapshot": at}) for at in ("", then)}
    for answer in exports.values():
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-tar")
    with client(server, server.api_key, f"{namespace}-copy") as copy:
        for at, content in (("", "new"), (then, "old")):
            done = ok(copy.post("/v1/import", content=exports[at].content))
            assert (done["verified"], done["snapshot"]["kind"]) == (True, "import")
            path = {"path": "workspace/notes.txt"}
            assert ok(copy.get("/v1/files/content", params=path))["content"] == content
            assert ok(get(copy, "k"))["value"] == 1
        ok(copy.post("/v1/undo"))
        assert ok(copy.get("/v1/files/content", params=path))["content"] == "new"
        refused = copy.post("/v1/import", content=exports[""].content[:700])
        assert refusal(refused) == (400, "unsafe_archive")
        assert ok(copy.get("/v1/files/content", params=path))["content"] == "new"


def test_files_alone_move_out_and_in(agent: httpx.Client, server: Server, namespace: str) -> None:
    write(agent, "notes.txt", "old")
    put(agent, "k", 1)
    only_files = {"files": True}
    exported = agent.get("/v1/export", params=only_files)
    assert (exported.headers["content-type"], exported.headers["x-entries"]) == (
        "application/x-tar",
        "1",
    )
    with tarfile.open(fileobj=io.BytesIO(exported.content)) as tar:
        assert tar.getnames() == ["./notes.txt"]
    with client(server, server.api_key, f"{namespace}-copy") as copy:
        put(copy, "k", 2)
        done = ok(copy.post("/v1/import", params=only_files, content=exported.content))
        assert (done["verified"], done["entries"], done["content_bytes"]) == (True, 1, 3)
        assert done["snapshot"]["kind"] == "import"
        assert ok(get(copy, "k"))["value"] == 2
        for params in ({}, only_files):
            refused = copy.post("/v1/import", params=params, content=exported.content[:700])
            assert refusal(refused) == (400, "unsafe_archive")


def test_what_is_not_there_cannot_be_exported(agent: httpx.Client) -> None:
    assert refusal(agent.get("/v1/export")) == (404, "namespace_not_found")
    put(agent, "k", 1)
    missing = agent.get("/v1/export", params={"snapshot": "snap-nothing"})
    assert refusal(missing) == (404, "snapshot_not_found")


def test_collecting_gives_bytes_back_and_verifying_finds_nothing_wrong(
    agent: httpx.Client, admin: httpx.Client, namespace: str
) -> None:
    for number in range(3):
        write(agent, "large.bin", f"{number}" * 300_000)
        snap(agent)
    ok(admin.put(f"/namespaces/{namespace}/retention", json={"keep_last": 1}))
    done = ok(admin.post("/collect"))
    assert done["bytes_freed"] == done["bytes_before"] - done["bytes_after"]
    assert (done["objects_deleted"] > 0, done["damaged"]) == (True, [])
    found = ok(admin.post("/verify"))
    assert (found["ok"], found["faults"]) == (True, [])


def test_damage_is_told_and_named(tmp_path: Path, at_once: Begin) -> None:
    with running_server(tmp_path, begin=at_once) as server:
        with client(server, server.api_key, "alice") as agent:
            # Too much, and not to be compressed: it is in a pack and not in the catalog.
            put(agent, "k", Random(7).randbytes(300_000).hex())
            damaged = snap(agent)
        for pack in (server.data / "packs").rglob("*"):
            if pack.is_file():
                data = bytearray(pack.read_bytes())
                data[len(data) // 2] ^= 0xFF
                pack.write_bytes(data)
        with client(server, server.admin_key) as admin:
            found = ok(admin.post(f"/v1/workspaces/{server.workspace_id}/verify"))
    assert not found["ok"]
    assert any(damaged in fault["snapshots"] for fault in found["faults"])


def test_an_archive_of_a_later_format_is_the_clients_to_change(
    agent: httpx.Client, server: Server
) -> None:
    told = b'{"format": 999, "namespace": "x"}'
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("holdfast.json")
        member.size = len(told)
        tar.addfile(member, io.BytesIO(told))
    refused = agent.post("/v1/import", content=archive.getvalue())
    assert refusal(refused) == (400, "vault_too_new")
    assert "format 999" in refused.json()["error"]["message"]
    assert "Traceback" not in server.read_log()

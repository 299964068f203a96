"""Events of a real server: the feed, the live stream, and the vendor's own command line on both."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx
import pytest

from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

PATIENCE_S = 20.0
TROVE = [sys.executable, "-c", "from trove_sdk.cli import main; main()"]
_NUMBERS = count(1)


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


def client(server: Server, key: str | None = None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key or server.admin_key}"}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30)


def write(server: Server, namespace: str, path: str) -> None:
    with client(server, server.api_key) as http:
        answer = http.post(
            "/write", json={"path": path, "content": "x"}, headers={"X-Namespace": namespace}
        )
    assert answer.status_code == 200, answer.text


def feed(server: Server, key: str | None = None, **query: Any) -> httpx.Response:
    with client(server, key) as http:
        return http.get(f"/v1/workspaces/{server.workspace_id}/events", params=query)


def paths(answer: httpx.Response) -> list[str]:
    return [event["data"]["path"] for event in answer.json()["events"]]


def new_key(server: Server, namespace: str | None) -> tuple[str, str]:
    with client(server) as http:
        made = http.post(
            f"/v1/workspaces/{server.workspace_id}/keys",
            json={"name": "k", "namespace": namespace, "admin": False},
        ).json()
    return made["key_id"], made["api_key"]


# The feed


def test_an_event_has_what_clients_read(server: Server, namespace: str) -> None:
    write(server, namespace, "notes/ü.txt")
    event = feed(server, namespace=namespace).json()["events"][0]
    assert event["id"] == event["event_id"]
    assert event["id"].startswith("evt-")
    assert event["type"] == "file.written"
    assert event["api_version"] == "2026-04-30"
    assert event["workspace_id"] == server.workspace_id
    assert event["namespace"] == namespace
    assert len(event["created_at"]) == 27
    assert event["created_at"].endswith("Z")
    assert event["data"] == {"path": "workspace/notes/ü.txt", "size_bytes": 1, "source": "write"}


def test_who_sees_what(server: Server, namespace: str) -> None:
    other = f"{namespace}-other"
    write(server, namespace, "mine")
    write(server, other, "theirs")
    _, locked = new_key(server, namespace)
    own = ["workspace/mine"]
    assert paths(feed(server, locked)) == own
    assert paths(feed(server, locked, namespace=namespace)) == own
    assert feed(server, locked, namespace=other).status_code == 403
    assert paths(feed(server, server.api_key, namespace=namespace)) == own
    refused = feed(server, server.api_key)
    assert refused.status_code == 400
    assert "namespace" in refused.json()["detail"]
    everything = feed(server, limit=200).json()["events"]
    assert {namespace, other, None} <= {event["namespace"] for event in everything}
    assert {event["namespace"] for event in feed(server, locked, limit=200).json()["events"]} == {
        namespace
    }
    with client(server, locked) as http:
        assert http.get("/v1/workspaces/ws-another/events").status_code == 404
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        assert http.get(f"/v1/workspaces/{server.workspace_id}/events").status_code == 401


def test_pages_and_what_is_no_page(server: Server, namespace: str) -> None:
    for number in range(5):
        write(server, namespace, f"{number}")
    first = feed(server, namespace=namespace, limit=3)
    cursor = first.json()["next_cursor"]
    assert cursor.isalnum()
    rest = feed(server, namespace=namespace, limit=3, cursor=cursor)
    assert paths(first) + paths(rest) == [f"workspace/{number}" for number in (4, 3, 2, 1, 0)]
    assert rest.json()["next_cursor"] is None
    assert len(paths(feed(server, namespace=namespace, limit=100_000))) == 5
    nothing = feed(server, namespace="never-used").json()
    assert nothing == {"events": [], "next_cursor": None}
    assert feed(server, limit=0).status_code == 422
    assert feed(server, limit="many").status_code in (400, 422)
    bad = [{"cursor": each} for each in ("no;cursor", "c0", "bad", "1", cursor[:-1])]
    for query in (*bad, {"since": "yesterday"}, {"since": "\0"}):
        assert feed(server, **query).status_code == 400, query
    assert feed(server, types="%,_,'", namespace="\0").status_code in (200, 400)


def test_since_takes_back_what_was_shown_and_is_strict(server: Server, namespace: str) -> None:
    for number in range(3):
        write(server, namespace, f"{number}")
    events = feed(server, namespace=namespace).json()["events"]
    since = events[1]["created_at"]
    for spelling in (since, since.replace("Z", "+00:00")):
        assert paths(feed(server, namespace=namespace, since=spelling, limit=200)) == [
            "workspace/2"
        ]
    assert paths(feed(server, namespace=namespace, since=events[0]["created_at"])) == []


# The vendor's command line


def environ(server: Server, key: str | None = None) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TROVE_")}
    return {
        **inherited,
        "TROVE_API_KEY": key or server.admin_key,
        "TROVE_WORKSPACE_ID": server.workspace_id,
        "TROVE_BASE_URL": server.url,
        "NO_PROXY": "127.0.0.1,localhost",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def command(server: Server, *arguments: str) -> Generator["SimpleQueue[str]"]:
    """Runs `trove` for as long as the block lasts, and yields what it prints, line by line."""
    process = subprocess.Popen(
        [*TROVE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environ(server),
    )
    lines = SimpleQueue[str]()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\n"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield lines
    finally:
        process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


def test_the_vendors_tail_prints_every_event_once_however_many_there_are(
    server: Server, namespace: str
) -> None:
    write(server, namespace, "before")
    since = feed(server, namespace=namespace).json()["events"][0]["created_at"]
    with client(server, server.api_key) as http:
        for number in range(230):
            http.post(
                "/write",
                json={"path": f"{number:03}", "content": "x"},
                headers={"X-Namespace": namespace},
            )
    tail = ("events", "tail", "-n", namespace, "--since", since, "--json", "--interval", "0.1")
    with command(server, *tail) as lines:
        seen = [read_event(lines)["data"]["path"] for _ in range(230)]
        write(server, namespace, "live")
        assert read_event(lines)["data"]["path"] == "workspace/live"
    assert seen == [f"workspace/{number:03}" for number in range(230)]


def read_event(lines: "SimpleQueue[str]") -> dict[str, Any]:
    while True:
        line = lines.get(timeout=PATIENCE_S)
        if line.startswith("{"):
            return json.loads(line)


def test_the_vendors_list_pages_with_the_cursor_it_is_given(server: Server, namespace: str) -> None:
    for number in range(3):
        write(server, namespace, f"{number}")

    def listed(*more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*TROVE, "events", "list", "-n", namespace, "--limit", "2", *more],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
            env=environ(server),
        )

    first = listed()
    assert "workspace/2" in first.stdout
    cursor = next(word for word in first.stderr.split() if word.startswith("c") and "0" in word)
    rest = listed("--cursor", cursor)
    assert "workspace/0" in rest.stdout
    assert "workspace/1" not in rest.stdout


# The live stream


@contextmanager
def stream(
    server: Server, path: str, *, key: str | None = None, **headers: str
) -> Generator[Iterator[str]]:
    with (
        client(server, key) as http,
        http.stream("GET", f"/v1/workspaces/{server.workspace_id}/{path}", headers=headers) as got,
    ):
        assert got.status_code == 200, got.read()
        assert got.headers["content-type"].startswith("text/event-stream")
        yield got.iter_lines()


def messages(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_a_stream_tells_what_happens_and_goes_on_where_it_was_left(
    server: Server, namespace: str
) -> None:
    _, locked = new_key(server, namespace)
    with stream(server, "events/stream", key=locked) as lines:
        told = messages(lines)
        assert next(told)["type"] == "connected"
        write(server, f"{namespace}-other", "theirs")
        write(server, namespace, "one")
        event = next(told)
        assert event["data"]["path"] == "workspace/one"
        assert event == feed(server, locked).json()["events"][0]
    write(server, namespace, "two")
    with stream(server, "events/stream", key=locked, **{"Last-Event-ID": event["id"]}) as lines:
        told = messages(lines)
        assert next(told)["type"] == "connected"
        assert next(told)["data"]["path"] == "workspace/two"
    with stream(server, "events/stream?types=snapshot.*,file.deleted", key=locked) as lines:
        told = messages(lines)
        assert next(told)["type"] == "connected"
        write(server, namespace, "three")
        with client(server, locked) as http:
            assert http.post("/v1/snapshots", json={"label": "kept"}).is_success
        assert next(told)["data"]["label"] == "kept"
    with stream(server, f"events/stream?last_event_id={event['id']}", key=locked) as lines:
        assert [next(messages(lines))["type"] for _ in range(2)][1] == "file.written"


def test_a_stream_is_refused_to_whom_the_feed_is(server: Server, namespace: str) -> None:
    _, locked = new_key(server, namespace)
    path = f"/v1/workspaces/{server.workspace_id}/webhooks/stream"
    write(server, "another", "theirs")
    theirs = feed(server, namespace="another").json()["events"][0]["id"]
    with client(server, locked) as http:
        # It cannot find out which events of others there are, either.
        assert http.get(path, headers={"Last-Event-ID": theirs}).status_code == 400
        assert http.get(path, params={"namespace": "another"}).status_code == 403
        assert http.get(path, headers={"Last-Event-ID": "evt-x"}).status_code == 400
    with client(server, server.api_key) as http:
        assert http.get(path).status_code == 400
    with client(server) as http:
        assert http.get("/v1/workspaces/ws-x/webhooks/stream").status_code == 404


def test_a_stream_ends_with_the_server_which_does_not_wait_for_it(
    tmp_path: Path, at_once: Begin
) -> None:
    with (
        running_server(tmp_path, begin=at_once) as server,
        stream(server, "events/stream") as lines,
    ):
        told = messages(lines)
        assert next(told)["type"] == "connected"
        assert server.stop() == 0
        assert list(told) == []


def test_what_one_worker_does_the_stream_of_another_tells(tmp_path: Path, at_once: Begin) -> None:
    with running_server(tmp_path, "--workers", "2", begin=at_once) as server:
        with (
            stream(server, "events/stream?namespace=alice") as one,
            stream(server, "events/stream?namespace=alice") as two,
            stream(server, "events/stream?namespace=alice") as three,
        ):
            told = [messages(lines) for lines in (one, two, three)]
            assert [next(each)["type"] for each in told] == ["connected"] * 3
            for number in range(6):
                write(server, "alice", f"{number}")
            wanted = [f"workspace/{number}" for number in range(6)]
            for each in told:
                assert [next(each)["data"]["path"] for _ in range(6)] == wanted
        assert server.stop() == 0


# Where webhooks may not lead


def test_a_webhook_leads_to_the_public_internet_or_nowhere(server: Server) -> None:
    hooks = f"/v1/workspaces/{server.workspace_id}/webhooks"
    with client(server) as http:
        for url in (
            "http://127.0.0.1:8000/",
            "http://localhost/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://2130706433/",
            "http://0x7f.1/",
            server.url,
        ):
            answer = http.post(hooks, json={"url": url})
            assert answer.status_code == 400, url
        # A name that nobody knows may yet come to life; "public" in it means nothing.
        made = http.post(hooks, json={"url": "http://public.invalid/"})
        assert made.status_code == 201
        webhook_id = made.json()["webhook_id"]
        changed = http.patch(f"{hooks}/{webhook_id}", json={"url": "http://10.0.0.1/"})
        assert changed.status_code == 400
        tried = http.post(f"{hooks}/{webhook_id}/test")
        assert tried.status_code == 200
        assert (tried.json()["ok"], tried.json()["status"]) == (False, None)
        assert "has no address" in tried.json()["error"]
        http.delete(f"{hooks}/{webhook_id}")

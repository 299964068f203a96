"""What was stored in process, without a bound, and is asked for over HTTP where others wait."""

import base64
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import holdfast
from holdfast.server.counting import MOST_VALUES
from holdfast.testing.servers import Begin, Server, most_awaited_s, running_server

MIB = 1 << 20

LISTS = [[]] * (MOST_VALUES + 1)
LINES = "\n" * (17 * MIB)
WORST_S = 0.6
"""What the server may compute while somebody waits: three times what it does."""

pytestmark = [
    pytest.mark.in_memory,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc says what it costs"),
]


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as running:
        with holdfast.open(running.data) as vault:
            agent = vault.namespace("alice")
            agent.store.set("n", "long", b"x" * (33 * MIB))
            agent.store.set("n", "many", LISTS)
            agent.store.set("n", "small", 1)
            state = {"lists": LISTS, "lines": LINES}
            agent.sessions.create("a", initial_state=state, session_id="large")
            agent.sessions.update_state("large", {"step": 1})
            agent.sessions.add_turn("large", "hello", {"content": "there", "seen": LISTS})
        yield running


@pytest.fixture
def agent(server: Server) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "alice"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def ask(server: Server, agent: httpx.Client, method: str, path: str) -> httpx.Response:
    """Returns an answer, having seen that everybody else was answered meanwhile."""
    answers = list[httpx.Response]()
    body = {"version": 0} if method == "POST" else None
    asking = threading.Thread(target=lambda: answers.append(agent.request(method, path, json=body)))
    asking.start()
    worst = most_awaited_s(server, asking.is_alive, paths=["/health/live"])
    asking.join()
    assert worst < WORST_S
    return answers[0]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/v1/store/value?namespace=n&key=long", "'long' in 'n' has 34603013 bytes"),
        ("/v1/store/value?namespace=n&key=many", f"'many' in 'n' holds more than {MOST_VALUES}"),
        ("/v1/store/items?namespace=n", "'long' in 'n'"),
        ("/v1/sessions/large/diff?from=0&to=1", "the session's state"),
    ],
)
def test_what_is_too_much_to_be_made_is_refused_and_everybody_else_is_answered(
    server: Server, agent: httpx.Client, path: str, told: str
) -> None:
    answer = ask(server, agent, "GET", path)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"].endswith("too_large")
    assert told in answer.json()["error"]["message"]
    assert "export" in answer.json()["error"]["message"]
    assert agent.get("/v1/store/value?namespace=n&key=small").json()["value"] == 1
    after = {"namespace": "n", "starting_after": "many"}
    assert [each["key"] for each in agent.get("/v1/store/items", params=after).json()["items"]] == [
        "small"
    ]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sessions/large"),
        ("GET", "/v1/sessions/large/state"),
        ("GET", "/v1/sessions/large/context"),
        ("GET", "/v1/sessions/large/turns?include_state=false"),
        ("POST", "/v1/sessions/large/state/rollback"),
    ],
)
def test_states_and_turns_of_any_size_are_sent_as_the_text_they_are(
    server: Server, agent: httpx.Client, method: str, path: str
) -> None:
    answer = ask(server, agent, method, path)
    assert answer.status_code == 200
    assert answer.content.count(b"[]") >= len(LISTS)
    if "turns" not in path:
        assert answer.content.count(b"\\n") >= len(LINES)
    assert msgspec.json.decode(answer.content, type=dict[str, msgspec.Raw])


def test_a_turn_comes_back_with_all_that_was_said(agent: httpx.Client) -> None:
    said = {"type": "text", "content": "a", "seen": [1, {"b": None}]}
    agent.post("/v1/sessions", json={"agent_id": "a", "session_id": "said"}).raise_for_status()
    turn = {"input": said, "output": "b", "metadata": {"c": [1.5]}, "state_after": {"d": "é" * 999}}
    made = agent.post("/v1/sessions/said/turns", json=turn).json()
    for each in (made, agent.get(f"/v1/sessions/said/turns/{made['id']}").json()):
        assert (each["input"], each["metadata"]) == (said, turn["metadata"])
        assert (each["output"]["content"], each["output_preview"]) == ("b", "b")
        assert each["state_after"] == turn["state_after"]


def archive(folder: Path, *, store: object = None, state: object = None, said: object = "") -> Path:
    with holdfast.open(folder / "vault") as vault:
        agent = vault.namespace("alice")
        agent.store.set("n", "k", store)
        session = agent.sessions.create("a", initial_state={"k": state})
        agent.sessions.add_turn(session.id, {"content": "", "said": said}, "")
        agent.export(folder / "archive.tar")
    return folder / "archive.tar"


@pytest.mark.parametrize("plane", ["store", "state", "said"])
def test_an_archive_with_more_values_than_a_body_may_hold_is_refused(
    tmp_path: Path, server: Server, plane: str
) -> None:
    packed = archive(tmp_path, **{plane: [7] * MOST_VALUES}).read_bytes()
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": plane}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as other:
        answer = other.post("/v1/import", content=packed)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert str(MOST_VALUES) in answer.json()["error"]["message"]
        assert other.get("/v1/snapshots").json()["snapshots"] == []
    assert not list(server.data.glob("holdfast-import-*"))


def test_what_several_parts_of_a_value_unpack_to_is_counted_together(agent: httpx.Client) -> None:
    def put(value: object) -> int:
        body = {"namespace": "parts", "key": "packed", "value": value}
        return agent.put("/v1/store/value", json=body).status_code

    many = b"\xdc" + (60_000).to_bytes(2, "big") + b"\x90" * 60_000
    part = {"$msgpack": base64.b64encode(many).decode()}
    assert put([part] * 9) == 413
    assert put([[part] * 8, *range(30_000)]) == 413
    assert put([part] * 8) == 200
    assert agent.get("/v1/store/value?namespace=parts&key=packed").status_code == 200

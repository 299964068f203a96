"""Kills a server under load: what it has acknowledged is there when it is back.

Agents write files, change states, add turns, take snapshots and go back, all at once, until the
server is killed with SIGKILL. Each agent knows what it was told and what it was doing. After a
restart everything it was told of is there, what it was doing happened as a whole or not at all,
and an event tells of it if and only if it did. `bench/soak_server_kill.py` plays more rounds.
"""

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import wiring
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

ROUNDS = 3
AGENTS = 3
"""Of each kind."""

LEAST = 4
"""Things that each agent gets done before a kill."""

PAUSE_S = 0.01

Told = tuple[str, Any]
"""An event as an agent expects it: its type, and what it was done to."""


def client(server: Server, namespace: str, key: str = API_KEY) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}", "X-Namespace": namespace}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30)


class Agent:
    """Does one thing after another in a namespace of its own, until the server is gone."""

    def __init__(self, namespace: str, chances: random.Random) -> None:
        self.namespace, self.random = namespace, chances
        self.events: list[Told] = []
        """One for each thing that was acknowledged, in order."""
        self.doing: Told | None = None
        """What was asked for and not yet answered."""
        self.snapshots: dict[str, Any] = {}
        """What was there at each snapshot that was acknowledged."""
        self.restored: set[str] = set()
        self.acknowledged = 0
        self.failure: str | None = None

    def work(self, server: Server) -> None:
        """Works until the server does not answer any more."""
        with client(server, self.namespace) as self.http:
            try:
                while self.failure is None:
                    self.act()
            except httpx.TransportError:
                pass
            except Exception as exc:  # noqa: BLE001 - told by the thread that waits for this one
                self.failure = repr(exc)

    def act(self) -> None:
        """Does the next thing."""
        raise NotImplementedError

    def check(self, events: list[Told]) -> None:
        """Looks whether everything is there, and learns what became of the last thing."""
        raise NotImplementedError

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = self.http.request(method, path, **more)
        assert answer.is_success, (method, path, answer.status_code, answer.text)
        return answer.json()

    def do(self, event: Told, method: str, path: str, **more: Any) -> Any:
        """Asks for something that an event tells of."""
        self.doing = event
        answer = self.ask(method, path, **more)
        self.doing = None
        self.events.append(event)
        self.acknowledged += 1
        return answer

    def take_snapshot(self, content: Any) -> None:
        answer = self.ask("POST", "/v1/snapshots", json={"label": f"number {self.acknowledged}"})
        self.snapshots[answer["snapshot_id"]] = content
        self.acknowledged += 1

    def settle(self, events: list[Told], *, happened: bool) -> None:
        """Compares the feed with what was acknowledged, and with what else has happened."""
        told = [event for event in events if event[0] in ("file.written", "state", "turn.added")]
        if happened and self.doing is not None:
            self.events.append(self.doing)
        self.doing = None
        assert told == self.events
        created = {what for kind, what in events if kind == "snapshot.created"}
        assert created >= set(self.snapshots)
        assert {what for kind, what in events if kind == "snapshot.restored"} >= self.restored


class Writer(Agent):
    """Writes files, takes snapshots of them, brings them back."""

    def __init__(self, namespace: str, chances: random.Random) -> None:
        super().__init__(namespace, chances)
        self.files: dict[str, bytes] = {}
        self.goal: dict[str, bytes] = {}
        """What is there if what is being done gets done."""

    def act(self) -> None:
        chance = self.random.random()
        if chance < 0.65 or not self.files:
            path = f"d/{self.random.randrange(5)}"
            data = self.random.randbytes(self.random.choice([10, 2_000, 90_000]))
            self.goal = {**self.files, path: data}
            self.do(("file.written", f"workspace/{path}"), "PUT", f"/files/{path}", content=data)
            self.files = self.goal
        elif chance < 0.85 or not self.snapshots:
            self.goal = self.files
            self.take_snapshot(self.files)
        else:
            target = self.random.choice([*self.snapshots])
            self.goal = self.snapshots[target]
            self.ask("POST", f"/v1/snapshots/{target}/restore")
            self.files = self.goal
            self.restored.add(target)
            self.acknowledged += 1

    def check(self, events: list[Told]) -> None:
        found = self.read("/v1/files", "/files/{}")
        assert found in (self.files, self.goal)
        is_write = self.doing is not None
        self.settle(events, happened=is_write and found == self.goal != self.files)
        self.files = self.goal = found
        listed = self.ask("GET", "/v1/snapshots")["snapshots"]
        kept = {each["snapshot_id"] for each in listed}
        # The list ends at 200: the newest of what was acknowledged are among them.
        assert kept >= {*[*self.snapshots][-50:]}
        for snapshot in self.random.sample([*self.snapshots], k=min(3, len(self.snapshots))):
            then = self.ask("GET", f"/v1/snapshots/{snapshot}/files?recursive=true")["entries"]
            sizes = {each["path"]: each["size_bytes"] for each in then if not each["is_dir"]}
            wanted = self.snapshots[snapshot]
            assert sizes == {f"workspace/{path}": len(data) for path, data in wanted.items()}

    def read(self, listing: str, one: str) -> dict[str, bytes]:
        """Returns what is there now, byte for byte."""
        entries = self.ask("GET", listing, params={"recursive": "true"})["entries"]
        paths = [each["path"].removeprefix("workspace/") for each in entries if not each["is_dir"]]
        return {path: self.http.get(one.format(path)).content for path in paths}


class Talker(Agent):
    """Changes the state of a session, adds to its conversation, rolls back."""

    def __init__(self, namespace: str, chances: random.Random) -> None:
        super().__init__(namespace, chances)
        self.session = ""
        self.states: list[Any] = [{}]
        """One for each version that was acknowledged."""
        self.turns: list[str] = []
        self.goal: Any = None

    def act(self) -> None:
        if not self.session:
            body = {"agent_id": "a", "session_id": f"s-{self.namespace}", "initial_state": {}}
            self.session = f"/v1/sessions/{self.ask('POST', '/v1/sessions', json=body)['id']}"
        chance = self.random.random()
        if chance < 0.5:
            change = {f"k{self.random.randrange(4)}": self.random.random()}
            self.make_version({**self.states[-1], **change}, "PATCH", "state", {"state": change})
        elif chance < 0.6:
            version = self.random.randrange(len(self.states))
            body = {"version": version}
            self.make_version(self.states[version], "POST", "state/rollback", body)
        elif chance < 0.9:
            body = {"input": "i" * self.random.randrange(500), "output": "o"}
            number = len(self.turns) + 1
            made = self.do(("turn.added", number), "POST", f"{self.session}/turns", json=body)
            self.turns.append(made["id"])
        else:
            self.take_snapshot(None)

    def make_version(self, state: Any, method: str, path: str, body: Any) -> None:
        self.goal = state
        event = ("state", len(self.states))
        made = self.do(event, method, f"{self.session}/{path}", json=body)
        assert made["state"] == state
        assert made["version"] == len(self.states)
        self.states.append(state)

    def check(self, events: list[Told]) -> None:
        if not self.session:
            return
        history = [
            version
            for page in self.pages(f"{self.session}/state/history", "since_version", "version")
            for version in page
        ]
        assert [version["version"] for version in history] == [*range(len(history))]
        states = [version["state"] for version in history]
        turns = [
            turn["id"]
            for page in self.pages(f"{self.session}/turns?order=asc", "starting_after", "id")
            for turn in page
        ]
        more = [states[len(self.states) :], turns[len(self.turns) :]]
        assert states[: len(self.states)] == self.states
        assert turns[: len(self.turns)] == self.turns
        assert not more[0] or (more[0] == [self.goal] and self.doing is not None)
        assert len(more[0]) + len(more[1]) <= (self.doing is not None)
        self.settle(events, happened=any(more))
        self.states, self.turns = states, turns

    def pages(self, path: str, cursor: str, name: str) -> Iterator[list[Any]]:
        after: dict[str, Any] = {}
        while True:
            # The parameters of a request replace those of its URL.
            bare, _, query = path.partition("?")
            given = dict(part.split("=") for part in query.split("&") if part)
            page = self.ask("GET", bare, params={**given, "limit": 100, **after})
            yield page["data"]
            if not page["has_more"]:
                return
            after = {cursor: page["data"][-1][name]}


class Soak:
    """One vault that lives through all rounds."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)
        kinds = [(Writer, "files"), (Talker, "talk")]
        self.agents = [
            kind(f"{name}-{number}", random.Random(f"{seed} {name} {number}"))
            for kind, name in kinds
            for number in range(AGENTS)
        ]
        self.events = 0

    @property
    def acknowledged(self) -> int:
        """How many changes the server has said it made."""
        return sum(agent.acknowledged for agent in self.agents)

    @property
    def snapshots(self) -> int:
        """How many snapshots it has named."""
        return sum(len(agent.snapshots) for agent in self.agents)

    def play(self) -> None:
        """Lets the agents work, kills the server at some moment, and looks at what is left."""
        threads = [
            threading.Thread(target=agent.work, args=(self.server,)) for agent in self.agents
        ]
        goals = {agent: agent.acknowledged + LEAST for agent in self.agents}
        for thread in threads:
            thread.start()
        while any(
            agent.acknowledged < goal and thread.is_alive()
            for (agent, goal), thread in zip(goals.items(), threads, strict=True)
        ):
            threads[0].join(PAUSE_S)
        threads[0].join(self.random.uniform(0, 0.5))
        self.server.kill()
        for thread in threads:
            thread.join()
        assert [agent.failure for agent in self.agents if agent.failure] == []
        self.server.start()
        self.check()

    def check(self) -> None:
        """Compares what is there with what was said."""
        feed = self.read_feed()
        for agent in self.agents:
            with client(self.server, agent.namespace) as agent.http:
                agent.check(feed.get(agent.namespace, []))
        with client(self.server, "", ADMIN_KEY) as admin:
            workspace = f"/v1/workspaces/{self.server.workspace_id}"
            audit = admin.get(f"{workspace}/audit/verify").json()
            assert audit["ok"], audit
            verified = admin.post(f"{workspace}/verify").json()
            assert verified["ok"], verified

    def read_feed(self) -> dict[str, list[Told]]:
        """Returns the events by namespace; fails if a number is missing among them."""
        url = self.server.environ.get("HOLDFAST_DATABASE_URL")
        objects = str(self.server.data / "packs") if url else None
        feed: dict[str, list[Told]] = {}
        with wiring.open_vault(url or str(self.server.data), objects=objects) as vault:
            number = 0
            while page := vault.events.page(after=number):
                for event in page:
                    number += 1
                    assert event.number == number
                    feed.setdefault(event.namespace or "", []).append(trace_of(event))
        assert number >= self.events
        self.events = number
        return feed


def trace_of(event: Any) -> Told:
    """Returns an event as an agent expects it."""
    data = httpx.Response(200, content=event.data).json()
    match event.type:
        case "file.written":
            return (event.type, data["path"])
        case "state.updated":
            return ("state", data["version"])
        case "state.rolled_back":
            return ("state", data["from_version"] + 1)
        case "turn.added":
            return (event.type, data["turn_number"])
        case _:
            return (event.type, data.get("snapshot_id"))


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path, at_once: Begin) -> Iterator[Server]:
    environ = {}
    if request.param == "postgres":
        environ["HOLDFAST_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    with running_server(tmp_path, environ=environ, begin=at_once) as running:
        yield running


def test_what_was_acknowledged_outlives_a_kill(server: Server):
    soak = Soak(server, seed=6)
    for _ in range(ROUNDS):
        soak.play()
    assert soak.acknowledged > 50
    assert soak.snapshots > 5

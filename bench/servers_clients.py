"""Clients of several servers, and what they were told: for `soak_servers.py`.

Each has a namespace of its own and does one thing after the other. What is not answered, or told
to come later, is asked again until it is answered; what was acknowledged is noted, and in the end
each says what of that is not there. `Agent` speaks HTTP, to a server of its choice, and gives each
request a name (`Idempotency-Key`). `TroveAgent` and `StateBaseAgent` are the vendors' own clients,
which give none, behind a balancer: what they ask twice may have happened twice.
"""

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
from statebase import StateBase  # pyright: ignore[reportMissingTypeStubs] - it has none
from trove_sdk import TroveClient, TroveError

import holdfast
from holdfast.testing.servers import API_KEY, Server

TRIES_S = 120.0
"""How long a client tries; the database is away for some seconds of it."""

PAUSE_S = 0.1
LATER = (409, 429, 502, 503, 504)
"""Told to come later. 409: the one that was killed may have claimed it, for some seconds."""

REUSED = 20
"""Requests on one connection: then a balancer chooses another server."""

T = TypeVar("T")


class Later(Exception):
    """There was no answer, or one that says to come later."""


@dataclass
class Seen:
    """What all clients met."""

    again: int = 0
    longest_s: float = 0.0
    answered: list[float] = field(default_factory=list[float])
    """When each was acknowledged."""
    told_later: Counter[str] = field(default_factory=Counter[str])


class Writer(ABC):
    """Somebody who writes until told to stop."""

    kind: str

    def __init__(self, number: int, urls: Callable[[], str], seen: Seen, seed: int) -> None:
        self.name, self._url, self._seen = f"{self.kind}-{number}", urls, seen
        self.draw = random.Random(f"{seed} {self.kind} {number}")
        self.numbers = itertools.count()
        self.repeated = set[str]()
        """What was asked more than once."""
        self.acknowledged = 0

    def play(self, stop: threading.Event) -> None:
        self.begin()
        while not stop.is_set():
            self.act(next(self.numbers))
            self.acknowledged += 1
            self._seen.answered.append(time.monotonic())
            stop.wait(self.draw.uniform(0, 0.05))

    def until_done(self, name: str, act: Callable[[str], T]) -> T:
        """Does something at an address until it is answered."""
        began, last = time.monotonic(), ""
        while time.monotonic() - began < TRIES_S:
            try:
                done = act(self._url())
            except Later as exc:
                last = str(exc)
            else:
                self._seen.longest_s = max(self._seen.longest_s, time.monotonic() - began)
                return done
            self.repeated.add(name)
            self._seen.again += 1
            self._seen.told_later[last[:3] if last[:3].isdigit() else "no answer"] += 1
            time.sleep(PAUSE_S)
        message = f"{self.name}: {name} was not answered: {last}"
        raise AssertionError(message)

    @abstractmethod
    def begin(self) -> None:
        """Makes what it needs."""

    @abstractmethod
    def act(self, number: int) -> None:
        """Does one thing, until it is acknowledged."""

    @abstractmethod
    def missing(self, urls: Iterator[str]) -> Iterable[str]:
        """Yields what was acknowledged and is not there, asked of one server after the other."""


class Agent(Writer):
    """Files, keys, turns and snapshots, over HTTP."""

    kind = "agent"

    def begin(self) -> None:
        self._http = httpx.Client(trust_env=False, timeout=30)
        self._files, self._keys = dict[str, str](), dict[str, int]()
        self._turns, self._snapshots = list[str](), set[str]()
        self._ask("POST", "/v1/sessions", json={"agent_id": "bot", "session_id": f"s-{self.name}"})

    def act(self, number: int) -> None:
        text = f"{self.draw.getrandbits(64):x}"
        kind = self.draw.choices(("file", "key", "turn", "snapshot"), (5, 2, 2, 1))[0]
        if kind == "file":
            content = text * self.draw.choice((1, 200, 30_000))
            self._ask("PUT", f"/files/{number}.txt", content=content.encode())
            self._files[f"{number}.txt"] = content
        elif kind == "key":
            value = {"namespace": "soak", "key": str(number), "value": number}
            self._ask("PUT", "/v1/store/value", json=value)
            self._keys[str(number)] = number
        elif kind == "turn":
            turn = {"input": text, "output": "yes"}
            self._ask("POST", f"/v1/sessions/s-{self.name}/turns", json=turn)
            self._turns.append(text)
        else:
            made = self._ask("POST", "/v1/snapshots", json={"label": f"l-{number}"})
            self._snapshots.add(made.json()["snapshot_id"])

    def missing(self, urls: Iterator[str]) -> Iterable[str]:
        headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": self.name}
        http = httpx.Client(trust_env=False, timeout=60, headers=headers)
        for path, content in self._files.items():
            if http.get(f"{next(urls)}/files/{path}").text != content:
                yield f"{self.name} {path}"
        for key, value in self._keys.items():
            answer = http.get(f"{next(urls)}/v1/store/value?namespace=soak&key={key}")
            if not answer.is_success or answer.json()["value"] != value:
                yield f"{self.name} key {key}"
        with holdfast.Client(API_KEY, url=next(urls), namespace=self.name) as client:
            turns = client.sessions.iter_turns(f"s-{self.name}")
            found = Counter(turn.input.content for turn in turns)
            named = {each.id for each in client.timeline(limit=None)}
        # They bear a name: whatever was asked again has happened once.
        yield from (f"{self.name} turn {turn}" for turn in self._turns if found[turn] != 1)
        yield from (f"{self.name} {snapshot}" for snapshot in self._snapshots - named)

    def _ask(self, method: str, path: str, **more: object) -> httpx.Response:
        name = f"{self.name}-{self.draw.getrandbits(64):x}"
        headers = {
            "Authorization": f"Bearer {API_KEY}",
            "X-Namespace": self.name,
            "Idempotency-Key": name,
        }

        def ask(url: str) -> httpx.Response:
            try:
                answer = self._http.request(method, url + path, headers=headers, **more)  # pyright: ignore[reportArgumentType] - as httpx takes it
            except httpx.TransportError as exc:
                raise Later(repr(exc)) from exc
            if answer.status_code in LATER:
                raise Later(f"{answer.status_code} {answer.text[:200]}")
            assert answer.is_success, f"{answer.status_code} {answer.text[:300]}"
            return answer

        return self.until_done(f"{method} {path}", ask)


class TroveAgent(Writer):
    """Files and snapshots, by `trove-sdk`."""

    kind = "trove"

    def begin(self) -> None:
        self._client: TroveClient | None = None
        self._left = 0
        self._files, self._snapshots = dict[str, str](), set[str]()

    def act(self, number: int) -> None:
        text = f"{self.draw.getrandbits(64):x}" * self.draw.choice((1, 200, 30_000))
        kind = self.draw.choices(("write", "upload", "snapshot"), (4, 4, 1))[0]
        path = f"{number}.txt"
        if kind == "snapshot":
            made = self._ask(f"l-{number}", lambda client: client.create_snapshot(f"l-{number}"))
            self._snapshots.add(made.snapshot_id)
            return
        if kind == "write":
            self._ask(path, lambda client: client.write(path, text))
        else:
            self._ask(path, lambda client: client.upload(path, text.encode()))
        self._files[path] = text

    def missing(self, urls: Iterator[str]) -> Iterable[str]:
        with holdfast.Client(API_KEY, url=next(urls), namespace=self.name) as own:
            named = {each.id for each in own.timeline(limit=None)}
        yield from (f"{self.name} {snapshot}" for snapshot in self._snapshots - named)
        clients = dict[str, TroveClient]()
        for path, content in self._files.items():
            url = next(urls)
            if url not in clients:
                clients[url] = TroveClient(API_KEY, self.name, base_url=url)
            if clients[url].read_bytes(path).decode() != content:
                yield f"{self.name} {path}"

    def _ask(self, name: str, act: Callable[[TroveClient], T]) -> T:
        def ask(url: str) -> T:
            if self._client is None or not self._left:
                if self._client is not None:
                    self._client.close()
                self._client, self._left = TroveClient(API_KEY, self.name, base_url=url), REUSED
            self._left -= 1
            try:
                return act(self._client)
            except httpx.TransportError as exc:
                self._left = 0
                raise Later(repr(exc)) from exc
            except TroveError as exc:
                if exc.status_code not in LATER:
                    raise
                raise Later(f"{exc.status_code} {exc}") from exc

        return self.until_done(name, ask)


class StateBaseAgent(Writer):
    """Turns, states and memories, by `statebase`."""

    kind = "statebase"

    def begin(self) -> None:
        self._client: Any = None
        self._left = 0
        self._turns, self._memories = list[str](), dict[str, str]()
        self._state = dict[str, int]()
        # Nobody else has this namespace: one that was made and not told of is passed over.
        made = self._ask("session", lambda client: client.sessions.create(agent_id="bot"))
        self._session = made.id

    def act(self, number: int) -> None:
        text = f"{self.draw.getrandbits(64):x}"
        kind = self.draw.choices(("turn", "state", "memory"), (3, 4, 2))[0]
        if kind == "turn":
            self._ask(text, lambda client: client.sessions.add_turn(self._session, text, "yes"))
            self._turns.append(text)
        elif kind == "state":
            key = f"k{number % 50}"
            update = {key: number}
            self._ask(key, lambda client: client.sessions.update_state(self._session, update))
            self._state |= update
        else:
            made = self._ask(text, lambda client: client.memory.add(f"It is {text}"))
            self._memories[made.id] = f"It is {text}"

    def missing(self, urls: Iterator[str]) -> Iterable[str]:
        with holdfast.Client(API_KEY, url=next(urls), namespace=self.name) as client:
            turns = client.sessions.iter_turns(self._session)
            found = Counter(turn.input.content for turn in turns)
        for turn in self._turns:
            if found[turn] < 1 or (found[turn] > 1 and turn not in self.repeated):
                yield f"{self.name} turn {turn}: {found[turn]} times"
        client = self._new(next(urls))
        if (state := client.sessions.get_state(self._session).state) != self._state:
            yield f"{self.name} state: {state} in place of {self._state}"
        for memory, content in self._memories.items():
            answer = client.client.get(f"{next(urls)}/v1/memories/{memory}")
            if not answer.is_success or answer.json()["content"] != content:
                yield f"{self.name} memory {memory}"
        client.close()

    def _new(self, url: str) -> Any:  # noqa: ANN401 - its maker says nothing of types
        client = StateBase(api_key=API_KEY, base_url=url)
        client.client.headers["X-Namespace"] = self.name
        return client

    def _ask(self, name: str, act: Callable[[Any], T]) -> T:
        def ask(url: str) -> T:
            if self._client is None or not self._left:
                if self._client is not None:
                    self._client.close()
                self._client, self._left = self._new(url), REUSED
            self._left -= 1
            try:
                return act(self._client)
            except httpx.TransportError as exc:
                self._left = 0
                raise Later(repr(exc)) from exc
            except httpx.HTTPStatusError as exc:
                status = exc.response.status_code
                if status not in LATER:
                    raise AssertionError(f"{status} {exc.response.text[:300]}") from exc
                raise Later(f"{status} {exc.response.text[:200]}") from exc

        return self.until_done(name, ask)


def urls_of(servers: Iterable[Server]) -> Iterator[str]:
    """Yields the addresses of servers in turn."""
    return itertools.cycle([server.url for server in servers])

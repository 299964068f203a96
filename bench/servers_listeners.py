"""Who listens to several servers, and what they heard: for `soak_servers.py`.

A follower of the live stream comes back with the id of the last event whenever it is cut off: each
event once, and in order. A webhook's receiver misses nothing; what it hears twice was on its way
when a server was killed.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, Self

import httpx
from checks import load_checks

from holdfast.testing.servers import ADMIN_KEY, Server

HEADERS = {"Authorization": f"Bearer {ADMIN_KEY}"}
PATIENCE_S = 150.0
"""For the last to come: what a server that was killed had claimed is sent a minute later."""

WANTED = ("turn.added", "snapshot.*", "memory.*")
"""What the receiver asks for: all of it would be most of what servers do here."""

SPAN_S = 5.0
"""How long before a kill a delivery may have been taken that nobody has noted."""


class Follower:
    """Follows all events, by whichever server it is led to."""

    def __init__(self, server: Server, url: str) -> None:
        self._where = f"{url}/v1/workspaces/{server.workspace_id}/events/stream"
        self._stop, self._is_connected = threading.Event(), threading.Event()
        self.ids = list[str]()
        self.cuts = 0

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        assert self._is_connected.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def wait_for(self, last: str) -> None:
        """Waits until it has heard of an event."""
        deadline = time.monotonic() + PATIENCE_S
        while last not in self.ids[-1000:] and time.monotonic() < deadline:
            time.sleep(0.1)

    def faults(self, there: list[str]) -> str:
        """Says what of the events that are there it missed, or has heard otherwise."""
        known, wanted = {*self.ids}, {*there}
        missed, repeated = wanted - known, len(self.ids) - len(known)
        heard = [each for each in self.ids if each in wanted]
        is_in_order = heard == [each for each in there if each in known]
        found = [f"{len(missed)} missed"] * bool(missed) + [f"{repeated} repeated"] * bool(repeated)
        return ", ".join(found + ["out of order"] * (not is_in_order))

    def _follow(self) -> None:
        last: str | None = None
        while not self._stop.is_set():
            headers = {**HEADERS, **({} if last is None else {"Last-Event-ID": last})}
            with (
                suppress(httpx.TransportError),
                httpx.stream(
                    "GET", self._where, headers=headers, timeout=30, trust_env=False
                ) as answer,
            ):
                for event, kind in _events(answer) if answer.is_success else ():
                    last = event or last
                    if kind != "connected":
                        self.ids.append(event)
                    self._is_connected.set()
                    if self._stop.is_set():
                        return
            self.cuts += 1
            time.sleep(0.1)


def _events(answer: httpx.Response) -> Iterator[tuple[str, str]]:
    """Yields what a stream says: the id that stands before it, and its type."""
    met = dict[str, str]()
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        met[name] = value
        if not line:
            if "data" in met:
                yield met.get("id", ""), json.loads(met["data"])["type"]
            met = {}


class Hook:
    """A webhook, and what its receiver got."""

    def __init__(self, server: Server) -> None:
        self._checks: Any = load_checks("acceptance/test_server_webhooks.py")
        self._where = f"{server.url}/v1/workspaces/{server.workspace_id}/webhooks"
        self.got = list[tuple[float, str]]()
        """When, and which event."""

    def __enter__(self) -> Self:
        self._open = self._checks.receiver(self._take)
        self._state = self._open.__enter__()
        wanted = {"url": self._state.url, "events": [*WANTED]}
        made = httpx.post(self._where, headers=HEADERS, json=wanted, trust_env=False)
        assert made.is_success, made.text
        return self

    def __exit__(self, *_: object) -> None:
        self._open.__exit__(None, None, None)

    def wait_for(self, ids: Iterable[str]) -> set[str]:
        """Waits until all of these have come; returns those that have not."""
        wanted, deadline = {*ids}, time.monotonic() + PATIENCE_S
        while True:
            missed = wanted - {event for _, event in self.got}
            if not missed or time.monotonic() > deadline:
                return missed
            time.sleep(0.2)

    def repeats(self, spans: Iterable[tuple[float, float]]) -> tuple[int, list[str]]:
        """Returns how many came again, and those that no span of time excuses."""
        first, often, spans = dict[str, float](), Counter[str](), [*spans]
        for at, event in self.got:
            first.setdefault(event, at)
            often[event] += 1
        again = [event for event, count in often.items() if count > 1]
        excused = {
            event
            for event in again
            if any(begin - SPAN_S <= first[event] <= end for begin, end in spans)
        }
        return len(again), sorted({*again} - excused)

    def _take(self, handler: BaseHTTPRequestHandler, number: int) -> None:
        self.got.append((time.monotonic(), handler.headers["webhook-id"]))
        self._checks.say(200)(handler, number)


def all_events(server: Server) -> list[tuple[str, str]]:
    """Returns all events that are there, oldest first: id and type."""
    found, cursor = list[tuple[str, str]](), None
    where = f"{server.url}/v1/workspaces/{server.workspace_id}/events"
    with httpx.Client(headers=HEADERS, trust_env=False, timeout=60) as client:
        while True:
            wanted = {"limit": "200"} | ({} if cursor is None else {"cursor": cursor})
            answer = client.get(where, params=wanted)
            assert answer.is_success, answer.text
            page = answer.json()
            found += [(event["id"], event["type"]) for event in page["events"]]
            cursor = page.get("next_cursor")
            if not cursor:
                return found[::-1]


def is_wanted(kind: str) -> bool:
    """Says whether the receiver has asked for such events."""
    return any(kind == each or kind.startswith(each.removesuffix("*")) for each in WANTED)

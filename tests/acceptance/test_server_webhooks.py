"""Webhooks of a real server and receivers that fail in every way: each event arrives, one id."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import trove_sdk
from standardwebhooks import Webhook

from holdfast.signing import is_authentic
from holdfast.testing.receivers import Got, receiver, say
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

T = TypeVar("T")

PATIENCE_S = 20.0
ENVIRON = {
    "HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1",
    "HOLDFAST_WEBHOOK_RETRIES": ",".join(["0.2"] * 5),
}
_NUMBERS = count(1)


def until(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@dataclass
class Hooks:
    """A workspace's webhooks, as an admin reaches them."""

    server: Server
    http: httpx.Client

    @property
    def path(self) -> str:
        return f"/v1/workspaces/{self.server.workspace_id}/webhooks"

    def create(self, url: str, *, namespace: str, **more: Any) -> dict[str, Any]:
        answer = self.http.post(self.path, json={"url": url, "namespace": namespace, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()

    def get(self, hook: dict[str, Any]) -> dict[str, Any]:
        return self.http.get(f"{self.path}/{hook['webhook_id']}").json()

    def log(self, hook: dict[str, Any]) -> list[dict[str, Any]]:
        answer = self.http.get(f"{self.path}/{hook['webhook_id']}/deliveries")
        assert answer.status_code == 200, answer.text
        return answer.json()["deliveries"]

    def write(self, namespace: str, path: str) -> None:
        answer = self.http.post(
            "/write",
            json={"path": path, "content": "x"},
            headers={
                "Authorization": f"Bearer {self.server.api_key}",
                "X-Namespace": namespace,
            },
        )
        assert answer.status_code == 200, answer.text


@contextmanager
def admin(server: Server) -> Generator[Hooks]:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30) as http:
        yield Hooks(server, http)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, environ=ENVIRON, begin=at_once) as started:
        yield started


@pytest.fixture
def hooks(server: Server) -> Iterator[Hooks]:
    with admin(server) as reached:
        yield reached


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return listening.getsockname()[1]


# What arrives


def test_an_event_arrives_signed_so_that_everybody_believes_it(
    hooks: Hooks, namespace: str
) -> None:
    with receiver() as there:
        hook = hooks.create(there.url, namespace=namespace, events=["file.*"])
        hooks.write(namespace, "ü.txt")
        got = there.wait_for(1)[0]
    secret = hook["signing_secret"]
    assert got.headers["Content-Type"] == "application/json"
    assert got.headers["X-Trove-Event"] == "file.written"
    assert got.headers["X-Trove-Event-Id"] == got.headers["webhook-id"] == got.event["id"]
    believed = trove_sdk.verify_webhook(
        secret=secret, body=got.body, signature_header=got.headers["X-Trove-Signature"]
    )
    assert (believed.type, believed.namespace) == ("file.written", namespace)
    assert Webhook(hook["standard_secret"]).verify(got.body, got.headers) == got.event
    assert is_authentic(secret, got.body, got.headers)
    assert not is_authentic(secret + "x", got.body, got.headers)
    shown = until(lambda: each if (each := hooks.get(hook))["last_delivery_at"] else None)
    assert (shown["last_delivery_ok"], shown["last_delivery_status"]) == (True, 200)


def test_the_secret_is_shown_once_and_what_was_rotated_is_not_used_again(
    hooks: Hooks, namespace: str
) -> None:
    with receiver() as there:
        hook = hooks.create(there.url, namespace=namespace)
        old = hook["signing_secret"]
        place = f"{hooks.path}/{hook['webhook_id']}"
        new = hooks.http.post(f"{place}/rotate").json()["signing_secret"]
        hooks.write(namespace, "a")
        got = there.wait_for(1)[0]
        assert is_authentic(new, got.body, got.headers)
        assert not is_authentic(old, got.body, got.headers)
        answers = [
            hooks.http.get(hooks.path).text,
            hooks.http.get(place).text,
            hooks.http.patch(place, json={"description": "x"}).text,
            hooks.http.get(f"{place}/deliveries").text,
            hooks.http.get(f"/v1/workspaces/{hooks.server.workspace_id}/events?limit=200").text,
            hooks.server.log.read_text("utf-8", "replace"),
        ]
        for answer in answers:
            assert old not in answer
            assert new not in answer


def test_a_test_says_what_came_of_it(hooks: Hooks, namespace: str) -> None:
    with receiver() as there:
        hook = hooks.create(there.url, namespace=namespace)
        place = f"{hooks.path}/{hook['webhook_id']}"
        fine = hooks.http.post(f"{place}/test")
        assert fine.json() == {
            "ok": True,
            "event_id": there.got[0].event["id"],
            "status": 200,
            "error": None,
        }
        assert there.got[0].event["type"] == "webhook.test"
        assert there.got[0].event["data"]["message"]
        there.answer = say(500)
        failed = hooks.http.post(f"{place}/test")
        assert failed.status_code == 200
        assert (failed.json()["ok"], failed.json()["status"]) == (False, 500)
    down = hooks.http.post(f"{place}/test").json()
    assert (down["ok"], down["status"]) == (False, None)
    assert down["error"]
    assert hooks.http.post(f"{hooks.path}/wh-nobody/test").status_code == 404
    assert hooks.http.delete(place).json() == {"webhook_id": hook["webhook_id"], "deleted": True}
    assert hooks.http.delete(place).status_code == 404


def test_an_event_is_sent_once_more_on_request(hooks: Hooks, namespace: str) -> None:
    with receiver() as there:
        hook = hooks.create(there.url, namespace=namespace)
        hooks.write(namespace, "a")
        there.wait_for(1)
        sent = until(lambda: [each for each in hooks.log(hook) if each["state"] == "delivered"])[0]
        place = f"{hooks.path}/{hook['webhook_id']}/deliveries"
        again = hooks.http.post(f"{place}/{sent['delivery_id']}/redeliver")
        assert again.json()["state"] == "pending"
        first, second = there.wait_for(2)
        assert first.body == second.body
        one = hooks.http.get(f"{place}/{sent['delivery_id']}").json()
        assert (one["body"].encode(), one["event_id"]) == (first.body, sent["event_id"])
        assert hooks.http.get(f"{place}/dlv-nobody").status_code == 404
        assert hooks.http.post(f"{place}/dlv-nobody/redeliver").status_code == 404
        assert hooks.http.get(place, params={"below": 10**30}).status_code in (200, 400)
        assert hooks.http.get(place, params={"limit": 0}).status_code == 422


# Receivers that fail


def test_a_receiver_that_is_down_gets_it_when_it_is_up(hooks: Hooks, namespace: str) -> None:
    port = free_port()
    hook = hooks.create(f"http://127.0.0.1:{port}/hook", namespace=namespace)
    hooks.write(namespace, "a")
    tried = until(lambda: [each for each in hooks.log(hook) if each["attempts"]])[0]
    assert tried["state"] == "pending"
    assert tried["error"]
    with receiver(port=port) as there:
        got = there.wait_for(1)[0]
    assert got.event["id"] == tried["event_id"]
    assert is_authentic(hook["signing_secret"], got.body, got.headers)


def test_a_receiver_that_dies_in_the_middle_of_its_answer_gets_the_same_again(
    hooks: Hooks, namespace: str
) -> None:
    def die_first(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number > 1:
            say(200)(handler, number)
            return
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nso far")
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)

    with receiver(die_first) as there:
        hook = hooks.create(there.url, namespace=namespace)
        hooks.write(namespace, "a")
        first, second = there.wait_for(2)
    assert first.body == second.body
    assert is_authentic(hook["signing_secret"], second.body, second.headers)
    until(lambda: [each for each in hooks.log(hook) if each["state"] == "delivered"])


def test_a_redirect_is_not_followed(hooks: Hooks, namespace: str) -> None:
    with receiver() as elsewhere:
        with receiver(say(307, Location=elsewhere.url)) as there:
            hook = hooks.create(there.url, namespace=namespace)
            hooks.write(namespace, "a")
            there.wait_for(2)
            tried = hooks.log(hook)[0]
        assert (tried["state"], tried["status"]) == ("pending", 307)
        assert elsewhere.got == []
    hooks.http.delete(f"{hooks.path}/{hook['webhook_id']}")


def test_a_receiver_that_hangs_keeps_nobody_waiting(hooks: Hooks, namespace: str) -> None:
    over = threading.Event()

    def hang(_handler: BaseHTTPRequestHandler, _number: int) -> None:
        over.wait(PATIENCE_S)

    with receiver(hang) as slow, receiver() as quick:
        made = [hooks.create(slow.url, namespace=namespace) for _ in range(3)]
        for number in range(4):
            hooks.write(namespace, f"{number}")
        slow.wait_for(6)  # Two of each: the others have to wait for them.
        hooks.create(quick.url, namespace=namespace)
        hooks.write(namespace, "last")
        begun = time.monotonic()
        assert quick.wait_for(1)[0].event["data"]["path"] == "workspace/last"
        assert time.monotonic() - begun < 5
        assert max(Counter(slow.ids()).values()) == 3  # One for each webhook, not two at once.
        for hook in made:
            hooks.http.delete(f"{hooks.path}/{hook['webhook_id']}")
        over.set()


def test_a_receiver_that_never_takes_it_is_told_no_more_and_why_is_shown(
    hooks: Hooks, namespace: str
) -> None:
    with receiver(say(500)) as there:
        hook = hooks.create(there.url, namespace=namespace, events=["file.*"])
        hooks.write(namespace, "a")
        off = until(lambda: each if not (each := hooks.get(hook))["enabled"] else None)
        assert off["disabled_reason"] == "6 attempts failed; the last: it answered 500"
        assert off in hooks.http.get(hooks.path).json()["webhooks"]
        assert len(set(there.ids())) == 1
        # Signed anew each time: a receiver believes what is a few minutes old at the most.
        assert len(there.got) == 6
        told = hooks.http.get(
            f"/v1/workspaces/{hooks.server.workspace_id}/events?types=webhook.disabled"
        ).json()["events"]
        assert hook["webhook_id"] in [event["data"]["webhook_id"] for event in told]
        hooks.write(namespace, "b")
        there.answer = say(200)
        place = f"{hooks.path}/{hook['webhook_id']}"
        on = hooks.http.patch(place, json={"enabled": True}).json()
        assert (on["enabled"], on["disabled_reason"]) == (True, None)
        assert there.wait_for(7)[6].event["data"]["path"] == "workspace/b"


def test_a_receiver_that_is_gone_is_believed(hooks: Hooks, namespace: str) -> None:
    with receiver(say(410)) as there:
        hook = hooks.create(there.url, namespace=namespace)
        hooks.write(namespace, "a")
        off = until(lambda: each if not (each := hooks.get(hook))["enabled"] else None)
        assert "410" in off["disabled_reason"]
        assert len(there.got) == 1


# Servers that die, and several of them


def test_what_was_committed_when_the_server_was_killed_is_delivered_by_the_next(
    tmp_path: Path, at_once: Begin
) -> None:
    # It does not deliver: so it is certain to die between the commit and the delivery.
    idle = {**ENVIRON, "HOLDFAST_WORKS": "0"}
    with receiver() as there, running_server(tmp_path, environ=idle, begin=at_once) as server:
        with admin(server) as hooks:
            hook = hooks.create(there.url, namespace="alice")
            for number in range(3):
                hooks.write("alice", f"{number}")
            told = hooks.http.get(f"/v1/workspaces/{server.workspace_id}/events").json()
        server.kill()
        assert there.got == []
        server.environ = ENVIRON
        server.start()
        got = there.wait_for(3)
        written = [each["id"] for each in told["events"] if each["type"] == "file.written"]
        assert sorted(there.ids()) == sorted(written)
        assert all(is_authentic(hook["signing_secret"], each.body, each.headers) for each in got)


def test_several_workers_deliver_each_event_once(tmp_path: Path, at_once: Begin) -> None:
    with (
        receiver() as there,
        running_server(tmp_path, "--workers", "2", environ=ENVIRON, begin=at_once) as server,
        admin(server) as hooks,
    ):
        hook = hooks.create(there.url, namespace="alice")
        for number in range(40):
            hooks.write("alice", f"{number}")
        there.wait_for(40)
        until(lambda: all(each["state"] == "delivered" for each in hooks.log(hook)))
        assert server.stop() == 0
        assert len(there.got) == len(set(there.ids())) == 40


# The vendor's command line


def test_the_vendors_listener_forwards_what_it_hears_signed(hooks: Hooks, namespace: str) -> None:
    secret = "trove-whsec-" + "x" * 32
    with receiver() as there:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from trove_sdk.cli import main; main()",
                *("webhooks", "listen", "--forward-to", there.url, "--secret", secret),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("TROVE_")},
                "TROVE_API_KEY": hooks.server.admin_key,
                "TROVE_WORKSPACE_ID": hooks.server.workspace_id,
                "TROVE_BASE_URL": hooks.server.url,
                "NO_PROXY": "127.0.0.1,localhost",
                "PYTHONUNBUFFERED": "1",
            },
        )
        try:
            # It does not say when it is connected: so it is told until it has heard.
            def heard() -> list[Got]:
                hooks.write(namespace, "line \u2028 break")
                return [each for each in there.got if each.event["namespace"] == namespace]

            got = until(heard)[0]
        finally:
            process.kill()
            process.communicate()
    believed = trove_sdk.verify_webhook(
        secret=secret, body=got.body, signature_header=got.headers["X-Trove-Signature"]
    )
    assert believed.type == "file.written"
    assert believed.data["path"] == "workspace/line \u2028 break"

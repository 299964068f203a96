"""`holdfast.verify_webhook` with deliveries that a real server made, and with what others make.

One delivery, caught by a receiver on this machine, is shown to it in every shape in which a web
framework may hand it over; then altered, delayed, and signed by somebody else.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

import holdfast
from holdfast import errors, signing
from holdfast.testing.receivers import receiver
from holdfast.testing.servers import Begin, Server, running_server

PATIENCE_S = 20.0


@dataclass(frozen=True)
class Delivery:
    """What a receiver got, and the secret that its webhook was made with."""

    body: bytes
    headers: dict[str, str]
    made: Any


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture(scope="module")
def delivery(server: Server) -> Delivery:
    with (
        receiver() as there,
        holdfast.AdminClient(server.admin_key, url=server.url) as admin,
        holdfast.Client(server.api_key, url=server.url, namespace="alice ü") as client,
    ):
        made = admin.create_webhook(there.url, ["snapshot.created"], namespace="alice ü")
        client.snapshot("after the tasks ü")
        [got] = there.wait_for(1)
        admin.delete_webhook(made.id)
    return Delivery(got.body, got.headers, made)


def test_a_delivery_is_what_it_says(delivery: Delivery) -> None:
    event = holdfast.verify_webhook(delivery.body, delivery.headers, delivery.made.secret)
    assert (event["type"], event["namespace"]) == ("snapshot.created", "alice ü")
    assert event["data"]["label"] == "after the tasks ü"
    assert event == json.loads(delivery.body)


def test_either_form_of_the_secret_will_do(delivery: Delivery) -> None:
    made = delivery.made
    assert made.secret != made.standard_secret
    for secret in (made.secret, made.standard_secret):
        assert holdfast.verify_webhook(delivery.body, delivery.headers, secret)["id"]


SHAPES: dict[str, Callable[[dict[str, str]], Mapping[str, str]]] = {
    "as it came": dict,
    "lower case": lambda headers: {name.lower(): value for name, value in headers.items()},
    "upper case": lambda headers: {name.upper(): value for name, value in headers.items()},
    "frozen": MappingProxyType,
    "of a library": httpx2.Headers,
    "only one scheme": lambda headers: {
        name: value for name, value in headers.items() if name == "X-Trove-Signature"
    },
    "only the other": lambda headers: {
        name: value for name, value in headers.items() if name.lower().startswith("webhook-")
    },
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", ["secret", "standard_secret"])
@pytest.mark.parametrize("text", [False, True], ids=["bytes", "text"])
def test_headers_and_bodies_come_as_frameworks_hand_them_over(
    delivery: Delivery, shape: str, form: str, text: bool
) -> None:
    headers = SHAPES[shape](delivery.headers)
    body = delivery.body.decode() if text else delivery.body
    secret = getattr(delivery.made, form)
    assert holdfast.verify_webhook(body, headers, secret)["type"] == "snapshot.created"


def changed(headers: dict[str, str], name: str, value: str) -> dict[str, str]:
    assert name in {each.lower() for each in headers}
    return {each: value if each.lower() == name else old for each, old in headers.items()}


def refused(body: bytes | str, headers: Mapping[str, str], secret: str) -> None:
    with pytest.raises(errors.InvalidSignature) as raised:
        holdfast.verify_webhook(body, headers, secret)
    assert secret not in str(raised.value)
    assert "400" in raised.value.hint


def signed(secret: str, body: bytes, *, now: int) -> dict[str, str]:
    """Returns headers of both schemes."""
    stamp = signing.stamp(secret, body, now=now)
    return signing.sign(secret, body, event_id="evt-1", now=now) | {"X-Trove-Signature": stamp}


SCHEMES = ["only one scheme", "only the other"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_what_was_altered_is_refused(delivery: Delivery, scheme: str) -> None:
    headers, secret = dict(SHAPES[scheme](delivery.headers)), delivery.made.secret
    again = json.dumps(json.loads(delivery.body), indent=1).encode()
    for body in (
        delivery.body.replace(b"created", b"deleted"),
        delivery.body + b" ",
        delivery.body[:-1],
        again,
        b"",
        "\ud800",
    ):
        refused(body, headers, secret)
    for name, value in headers.items():
        damaged = value.replace("1", "2") if "1" in value else value + "1"
        for other in (damaged, "", "v1,", "t=,v1=", "\udcff", "ü", value[: len(value) // 2]):
            refused(delivery.body, headers | {name: other}, secret)
        refused(delivery.body, {each: headers[each] for each in headers if each != name}, secret)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_another_secret_does_not_open_it(delivery: Delivery, scheme: str) -> None:
    headers, secret = SHAPES[scheme](delivery.headers), delivery.made.secret
    other = signing.standard_secret("another")
    for wrong in ("another", other, secret + "x", secret[:-1], secret.swapcase(), "whsec_%%%"):
        refused(delivery.body, headers, wrong)


def test_no_headers_are_no_signature(delivery: Delivery) -> None:
    refused(delivery.body, {}, delivery.made.secret)


def test_an_empty_secret_opens_nothing(delivery: Delivery) -> None:
    # Who forgot to set the variable is not at the mercy of whoever signs with nothing.
    body = b'{"type": "snapshot.created"}'
    forged = signed("", body, now=int(time.time()))
    with pytest.raises(errors.InvalidValue):
        holdfast.verify_webhook(body, forged, "")
    assert delivery.made.secret


@pytest.mark.parametrize("age_s", [301, 3600, -301])
def test_what_is_old_or_from_the_future_is_refused(delivery: Delivery, age_s: int) -> None:
    secret = delivery.made.secret
    then = int(time.time()) - age_s
    headers = signed(secret, delivery.body, now=then)
    for scheme in SCHEMES:
        assert SHAPES[scheme](headers)
        refused(delivery.body, SHAPES[scheme](headers), secret)
    found = holdfast.verify_webhook(delivery.body, headers, secret, tolerance_s=abs(age_s) + 60)
    assert found["type"] == "snapshot.created"


def test_what_is_signed_and_no_event_is_refused(delivery: Delivery) -> None:
    secret = delivery.made.secret
    for body in (b"[]", b'"text"', b"not json", b"\xff", b"1", b""):
        refused(body, signed(secret, body, now=int(time.time())), secret)


def test_libraries_of_others_agree(delivery: Delivery) -> None:
    made = delivery.made
    lower = {name.lower(): value for name, value in delivery.headers.items()}
    found = Webhook(made.standard_secret).verify(delivery.body, lower)
    assert found == holdfast.verify_webhook(delivery.body, delivery.headers, made.standard_secret)
    theirs = base64.b64decode(made.standard_secret.removeprefix("whsec_"))
    assert theirs.decode() == made.secret


def test_after_a_rotation_the_new_secret_counts(server: Server) -> None:
    with (
        receiver() as there,
        holdfast.AdminClient(server.admin_key, url=server.url) as admin,
    ):
        made = admin.webhooks.create(there.url, ["snapshot.created"], namespace="bob")
        turned = admin.webhooks.rotate(made.id)
        assert admin.webhooks.test(made.id).ok
        [got] = there.wait_for(1)
        assert holdfast.verify_webhook(got.body, got.headers, turned.secret)
        refused(got.body, got.headers, made.secret)
        admin.webhooks.delete(made.id)

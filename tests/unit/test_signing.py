"""Signatures of deliveries: ours are what others verify, and what is not ours is not believed."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
import trove_sdk
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.signing import TOLERANCE_S, is_authentic, sign, stamp, standard_secret

SECRET = "trove-whsec-0123456789abcdef"
NOW = 1767225600
BODY = (
    b'{"id":"evt-1","type":"snapshot.created","api_version":"2026-04-30","workspace_id":"ws-1",'
    b'"namespace":"alice","created_at":"2026-01-01T00:00:00.000000Z",'
    b'"data":{"snapshot_id":"snap-1","label":null,"size_bytes":512}}'
)
VECTOR = "22ca0d5f42bae8d88e8dbbf3ec183c9888a7e45f459b93631f7c171cd1f3682c"


def signed(now: int = NOW) -> dict[str, str]:
    theirs = {"X-Trove-Signature": stamp(SECRET, BODY, now=now)}
    return sign(SECRET, BODY, event_id="evt-1", now=now) | theirs


def without(headers: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key != name}


def current() -> int:
    return int(datetime.now(tz=UTC).timestamp())


def test_the_vector_of_the_contract_holds() -> None:
    assert len(BODY) == 214
    assert signed()["X-Trove-Signature"] == f"t={NOW},v1={VECTOR}"


def test_the_vendors_client_believes_it() -> None:
    header = signed(current())["X-Trove-Signature"]
    event = trove_sdk.verify_webhook(secret=SECRET, body=BODY, signature_header=header)
    assert (event.id, event.type, event.namespace) == ("evt-1", "snapshot.created", "alice")


def test_the_package_for_standard_webhooks_believes_it() -> None:
    headers = signed(current())
    verifier = Webhook(standard_secret(SECRET))
    assert verifier.verify(BODY, headers)["id"] == "evt-1"
    with pytest.raises(WebhookVerificationError):
        verifier.verify(BODY + b" ", headers)


def test_we_believe_either_scheme() -> None:
    headers = signed()
    assert is_authentic(SECRET, BODY, headers, now=NOW)
    assert is_authentic(SECRET, BODY, without(headers, "X-Trove-Signature"), now=NOW)
    assert is_authentic(SECRET, BODY, {"x-trove-signature": f" v1={VECTOR} , t={NOW}"}, now=NOW)
    assert is_authentic(SECRET, BODY, {"x-others-signature": "a=b", **headers}, now=NOW)
    two = {**headers, "webhook-signature": f"v1,AAAA v2,x {headers['webhook-signature']}"}
    assert is_authentic(SECRET, BODY, without(two, "X-Trove-Signature"), now=NOW)


@pytest.mark.parametrize("scheme", ["X-Trove-Signature", "webhook-signature"])
def test_what_is_old_or_changed_or_anothers_is_not_believed(scheme: str) -> None:
    other = "webhook-signature" if scheme == "X-Trove-Signature" else "X-Trove-Signature"
    headers = without(signed(), other)
    assert is_authentic(SECRET, BODY, headers, now=NOW + TOLERANCE_S)
    assert not is_authentic(SECRET, BODY, headers, now=NOW + TOLERANCE_S + 1)
    assert not is_authentic(SECRET, BODY, headers, now=NOW - TOLERANCE_S - 1)
    assert not is_authentic(SECRET, BODY + b" ", headers, now=NOW)
    assert not is_authentic(SECRET + "x", BODY, headers, now=NOW)
    assert not is_authentic(SECRET, BODY, {}, now=NOW)
    assert not is_authentic(SECRET, BODY, {**headers, scheme: ""}, now=NOW)


@pytest.mark.parametrize(
    "header",
    [
        "t=,v1=",
        f"t={NOW}",
        f"v1={VECTOR}",
        f"t={NOW},v1={VECTOR.upper()}",
        f"t={NOW},v1=sha256={VECTOR}",
        f"t={NOW}000,v1={VECTOR}",
        f"t={'9' * 5000},v1={VECTOR}",
        f"t={NOW},v1=ünïcode",
        f"t={''.join(chr(0xFF10 + int(digit)) for digit in str(NOW))},v1={VECTOR}",
        "t=1=2,,,=",
    ],
)
def test_odd_headers_are_not_believed_and_do_no_harm(header: str) -> None:
    assert not is_authentic(SECRET, BODY, {"X-Trove-Signature": header}, now=NOW)


def test_the_standard_form_is_the_same_secret() -> None:
    form = standard_secret(SECRET)
    assert base64.b64decode(form.removeprefix("whsec_")) == SECRET.encode()

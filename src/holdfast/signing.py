"""How deliveries of webhooks are signed, and how whoever gets one makes sure of it.

Two schemes, both HMAC-SHA256 over the exact bytes of the body and the instant of sending, keyed
with the secret as it stands: Standard Webhooks (`webhook-id`, `webhook-timestamp`,
`webhook-signature`), and a stamp, `t=…,v1=…`, in a header `…-Signature` of whatever name.
Receivers use it, too: nothing here needs a vault or a client.
"""

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from holdfast.errors import InvalidSignature, InvalidValue

TOLERANCE_S: Final = 300
"""How old a delivery may be, or how far ahead the sender's clock."""

_SIGNATURE: Final = "webhook-signature"
_STANDARD_PREFIX: Final = "whsec_"
_SECONDS: Final = re.compile("[0-9]{1,12}")


def sign(secret: str, body: bytes, *, event_id: str, now: int) -> dict[str, str]:
    """Returns the headers of a delivery that is sent at `now`, in seconds since 1970."""
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(now),
        _SIGNATURE: f"v1,{_standard(secret, body, event_id, now)}",
    }


def stamp(secret: str, body: bytes, *, now: int) -> str:
    """Returns the stamp of a delivery that is sent at `now`."""
    return f"t={now},v1={_stamped(secret, body, now)}"


def standard_secret(secret: str) -> str:
    """Returns a secret in the form that libraries for Standard Webhooks take."""
    return _STANDARD_PREFIX + base64.b64encode(secret.encode()).decode("ascii")


def is_authentic(
    secret: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    now: float | None = None,
    tolerance_s: int = TOLERANCE_S,
) -> bool:
    """Says whether a delivery was signed with this secret, and not too long ago.

    Either scheme will do.
    """
    given = {name.lower(): value for name, value in headers.items()}
    moment = time.time() if now is None else now
    # All of them, and each in the same time, whether it fits or not.
    fits = [
        hmac.compare_digest(each.encode("utf-8", "replace"), expect(int(sent)).encode())
        for sent, signatures, expect in _schemes(secret, body, given)
        if _SECONDS.fullmatch(sent) and abs(moment - int(sent)) <= tolerance_s
        for each in signatures
    ]
    return any(fits)


def _schemes(
    secret: str, body: bytes, given: Mapping[str, str]
) -> Iterator[tuple[str, list[str], Callable[[int], str]]]:
    """Yields when a delivery was sent, how it was signed, and what makes the signature then."""
    yield *_of_standard(given), partial(_standard, secret, body, given.get("webhook-id", ""))
    stamps = (
        value
        for name, value in given.items()
        if name.endswith("-signature") and name != _SIGNATURE and "v1=" in value
    )
    # One, however many somebody sends: each would be as much work as the body is long.
    if (found := next(stamps, None)) is not None:
        yield *_of_stamp(found), partial(_stamped, secret, body)


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance_s: int = TOLERANCE_S,
) -> dict[str, Any]:
    """Returns the event that a delivery holds; raises `InvalidSignature` if it is not genuine.

    `body` is what came, byte for byte: what was parsed and written again has other bytes. `secret`
    is what `create_webhook` returned, in either form.
    """
    if not secret:
        # Else whoever signs with nothing is believed by whoever forgot to set it.
        raise InvalidValue("a webhook's secret is what `create_webhook` returned, not nothing")
    data = body.encode("utf-8", "replace") if isinstance(body, str) else body
    plain = _plain_secret(secret)
    if not is_authentic(plain, data, headers, tolerance_s=tolerance_s):
        raise InvalidSignature
    try:
        event = json.loads(data)
    except ValueError as exc:
        raise InvalidSignature from exc
    if not isinstance(event, dict):
        raise InvalidSignature
    return cast("dict[str, Any]", event)


def _plain_secret(secret: str) -> str:
    """Returns a secret as it stands, also where it came in the form for other libraries."""
    if not secret.startswith(_STANDARD_PREFIX):
        return secret
    try:
        return base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True).decode()
    except ValueError:
        return secret


def _of_stamp(header: str) -> tuple[str, list[str]]:
    """Returns when it was sent, and the signature that counts: the last, as others see it."""
    pairs = [part.strip().partition("=") for part in header.split(",")]
    parts = {name: value for name, _, value in pairs}
    return parts.get("t", ""), [parts.get("v1", "")]


def _of_standard(given: Mapping[str, str]) -> tuple[str, list[str]]:
    """Returns when it was sent, and the signatures: there can be one for each secret in use."""
    versions = [part.partition(",") for part in given.get(_SIGNATURE, "").split()]
    return given.get("webhook-timestamp", ""), [sig for kind, _, sig in versions if kind == "v1"]


def _stamped(secret: str, body: bytes, now: int) -> str:
    return hmac.new(secret.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()


def _standard(secret: str, body: bytes, event_id: str, now: int) -> str:
    # The id is anybody's until the signature fits: what is no text does not fit.
    signed = f"{event_id}.{now}.".encode("utf-8", "replace") + body
    digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
    return base64.b64encode(digest).decode("ascii")

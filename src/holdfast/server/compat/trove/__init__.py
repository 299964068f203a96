"""What the client of TroveFiles (`trove-sdk`) asks for where our own routes are others.

Snapshots, keys, webhooks and events it asks for where everybody does.
"""

from dataclasses import replace
from typing import Final

from holdfast.engine.tenancy.webhooks import Parcel
from holdfast.server.compat.trove import commands, files
from holdfast.server.routes import events
from holdfast.server.routing import Route
from holdfast.server.verdicts import ADDS, Verdicts
from holdfast.server.work import delivery
from holdfast.signing import stamp

_STREAM = "/v1/workspaces/{workspace_id}/webhooks/stream"


def sign(parcel: Parcel, now: int) -> dict[str, str]:
    """Returns the headers of a delivery: those that everybody gets, and theirs.

    `trove_sdk.verify_webhook` believes them.
    """
    return {
        **delivery.sign(parcel, now),
        "X-Trove-Signature": stamp(parcel.webhook.secret, parcel.body, now=now),
        "X-Trove-Event": parcel.delivery.event_type,
        "X-Trove-Event-Id": parcel.delivery.event_id,
    }


ROUTES: list[Route] = [
    *files.ROUTES,
    *commands.ROUTES,
    # Of another topic: no two operations have one name.
    replace(events.stream, paths=[_STREAM], topic="webhooks"),
]

WITH_TEXTS: list[Route] = files.ROUTES_WITH_TEXTS
"""Those with bodies that hold a whole file."""

VERDICTS: Final[Verdicts] = {
    "PUT /files/{path}": ADDS,
    "PUT /files": ADDS,
    "POST /write": ADDS,
    "POST /delete": ADDS,
    "POST /exec": ADDS,
    "POST /v1/exec": ADDS,
}

"""What the client of TroveFiles (`trove-sdk`) asks for where our own routes are others.

Snapshots, keys, webhooks and events it asks for where everybody does.
"""

from dataclasses import replace
from typing import Final

from holdfast.server.compat.trove import commands, files
from holdfast.server.routes import events
from holdfast.server.routing import Route
from holdfast.server.verdicts import ADDS, Verdicts

_STREAM = "/v1/workspaces/{workspace_id}/webhooks/stream"

ROUTES: list[Route] = [
    *files.ROUTES,
    *commands.ROUTES,
    replace(events.stream, paths=[_STREAM]),
]

WITH_TEXTS: list[Route] = files.ROUTES_WITH_TEXTS
"""Those with bodies that hold a whole file."""

VERDICTS: Final[Verdicts] = {
    "PUT /files/{path}": ADDS,
    "PUT /files": ADDS,
    "POST /write": ADDS,
    "POST /delete": ADDS,
    "POST /exec": commands.WHAT,
    "POST /v1/exec": commands.WHAT,
}

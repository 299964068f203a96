"""Running commands, which this server does not do.

Clients take a 404 here for an older server and try another route: the answer says what it is.
"""

from typing import Any, Final

from litestar.handlers import HTTPRouteHandler

from holdfast.engine.namespace import Namespace
from holdfast.server.callers import runtime_only
from holdfast.server.problems import NotBuilt
from holdfast.server.routing import post


@post(["/v1/exec", "/exec"], guards=[runtime_only], in_thread=False)
def run(agent: Namespace, data: dict[str, Any] | None = None) -> None:
    """Would run a command; this server runs none."""
    del data
    message = f"this server runs no commands, in {agent.name!r} or elsewhere"
    raise NotBuilt(message)


ROUTES: Final[list[HTTPRouteHandler]] = [run]

"""Running commands, which this server does not do.

The client takes a 404 here for an older server and tries another route: the answer says what it is.
"""

from typing import Any, Final

from holdfast.engine.namespace import Namespace
from holdfast.server.problems import NotBuilt
from holdfast.server.routing import Route, post


@post(["/v1/exec", "/exec"], work=None)
def run(agent: Namespace, data: dict[str, Any] | None = None) -> None:
    """Would run a command; this server runs none."""
    del data
    message = f"this server runs no commands, in {agent.name!r} or elsewhere"
    raise NotBuilt(message)


WHAT: Final = "run a command"
ROUTES: Final[list[Route]] = [run]

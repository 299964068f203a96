"""The routes, a module for each topic. Each names what it has in `ROUTES`."""

from holdfast.engine.files.editing import Files
from holdfast.engine.gitbackup.door import GitBackups
from holdfast.engine.memories import Memories
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.sessions.entities import Entities
from holdfast.engine.tasks.runs import TaskRuns
from holdfast.engine.tasks.schedules import Schedules
from holdfast.server import doors
from holdfast.server.dialects import OURS, Dialect
from holdfast.server.routes import (
    audit,
    commands,
    events,
    exchange,
    files,
    info,
    namespaces,
    operators,
    raw,
    snapshots,
    store,
    upkeep,
)
from holdfast.server.routing import Route

_FILES = doors.routes_of(Files, lambda agent: agent.files)
_NUMBERS = [route for route in snapshots.ROUTES if route.topic == "audit"]
"""How sessions fare, and how many there are: for whoever has sessions."""

NAMED: list[Route] = [
    *info.ROUTES,
    *operators.KEYS,
    *(route for route in _FILES if not route.is_bulky),
    *raw.ROUTES,
    *files.ROUTES,
    *(route for route in snapshots.ROUTES if route not in _NUMBERS),
    *namespaces.ROUTES,
    *operators.ERASURES,
    *doors.routes_of(TaskRuns, lambda agent: agent.tasks),
    *doors.routes_of(Schedules, lambda agent: agent.schedules),
    *commands.ROUTES,
    *doors.routes_of(GitBackups, lambda agent: agent.git),
    *events.ROUTES,
    *exchange.ROUTES,
    *operators.WEBHOOKS,
    *audit.ROUTES,
    *upkeep.ROUTES,
]
"""Routes whose namespace is that of the header X-Namespace, or of the key."""

WITH_VALUES: list[Route] = store.ROUTES
"""The same, with bodies that hold values."""

WITH_BATCHES: list[Route] = [route for route in _FILES if route.is_bulky]
"""The same, with bodies that hold several files."""


def defaulted(dialect: Dialect = OURS) -> list[Route]:
    """Returns routes that work without naming a namespace, too: their clients know none."""
    return [
        *doors.routes_of(Sessions, lambda agent: agent.sessions, dialect=dialect),
        *doors.routes_of(Memories, lambda agent: agent.memory, dialect=dialect),
        *audit.routes(dialect),
        *doors.routes_of(Entities, lambda agent: agent.entities, dialect=dialect),
        *_NUMBERS,
    ]

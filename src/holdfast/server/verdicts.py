"""What an add-only key may ask for: a verdict for every route that changes something.

The engine itself refuses such a key whatever takes away for good (`engine/timeline/additions.py`).
Here the same is said once more of routes, so that one that nobody has thought about is refused:
what is not in the table, no add-only key opens. Routes that read are open to it as to any agent's
key, those of operators are for operators alone.
"""

from collections.abc import Mapping
from typing import Final

from holdfast.server.dialects import Dialect

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

ADDS: Final = None
"""Adds, or changes the present, which the history keeps."""

Verdicts = Mapping[str, str | None]
"""What a route does that an add-only key does not; None where it may."""

VERDICTS: Final[Verdicts] = {
    # The present: every snapshot stays as it is, and undo and restore lead back.
    "POST /v1/files/mkdir": ADDS,
    "POST /v1/files/symlink": ADDS,
    "POST /v1/files/chmod": ADDS,
    "POST /v1/files/move": ADDS,
    "POST /v1/files/delete": ADDS,
    "POST /v1/files/write_many": ADDS,
    "PUT /v1/files/raw": ADDS,
    "PUT /v1/store/value": ADDS,
    "DELETE /v1/store/value": ADDS,
    "POST /v1/store/clear": ADDS,
    "POST /v1/store/batch": ADDS,
    "POST /v1/store/append": ADDS,
    "POST /v1/store/pop": ADDS,
    "POST /v1/store/delete_prefix": ADDS,
    "POST /v1/import": ADDS,
    "POST /v1/exchange/missing": ADDS,
    "POST /v1/exchange/objects": ADDS,
    "POST /v1/exchange/commit": ADDS,
    "POST /v1/exchange/changes": ADDS,
    "POST /v1/exchange/content": ADDS,
    # The timeline, which only grows.
    "POST /v1/snapshots": ADDS,
    "POST /v1/snapshots/{snapshot_id}/restore": ADDS,
    "POST /v1/snapshots/{snapshot_id}/pin": ADDS,
    "PATCH /v1/snapshots/{snapshot_id}": "change the label of a snapshot",
    "DELETE /v1/snapshots/{snapshot_id}/pin": "unpin a snapshot",
    "DELETE /v1/snapshots/{snapshot_id}": "delete a snapshot",
    "POST /v1/undo": ADDS,
    "POST /v1/redo": ADDS,
    "POST /v1/fork": ADDS,
    "POST /v1/merge": ADDS,
    "POST /v1/tasks": ADDS,
    "POST /v1/tasks/{task_id}/complete": ADDS,
    "POST /v1/tasks/{task_id}/fail": ADDS,
    "POST /v1/schedules": "make a schedule",
    "PATCH /v1/schedules/{schedule_id}": "change a schedule",
    "DELETE /v1/schedules/{schedule_id}": "delete a schedule",
    "PUT /v1/git": "change where a copy goes",
    "PATCH /v1/git": "change when a copy is pushed",
    "DELETE /v1/git": "forget where a copy is",
    "POST /v1/git/host-key": "confirm a host key",
    "POST /v1/git/push": ADDS,
    # Sessions: every version stays.
    "POST /v1/sessions": ADDS,
    "PATCH /v1/sessions/{session_id}": ADDS,
    "DELETE /v1/sessions/{session_id}": "delete a session",
    "POST /v1/sessions/{session_id}/fork": ADDS,
    "PATCH /v1/sessions/{session_id}/state": ADDS,
    "PUT /v1/sessions/{session_id}/state": ADDS,
    "POST /v1/sessions/{session_id}/state/rollback": ADDS,
    "POST /v1/sessions/{session_id}/turns": ADDS,
    "POST /v1/sessions/{session_id}/context": ADDS,
    # Between two snapshots nothing keeps what a memory said before; entities are in none.
    "POST /v1/memories": ADDS,
    "POST /v1/memories/search": ADDS,
    "PATCH /v1/memories/{memory_id}": "change a memory",
    "DELETE /v1/memories/{memory_id}": "forget a memory",
    "POST /v1/entities": ADDS,
    "PUT /v1/entities/{row_id}": "change an entity",
    "DELETE /v1/entities/{row_id}": "forget an entity",
    "POST /v1/traces": ADDS,
    "POST /v1/commands": ADDS,
}


def verdicts_in(dialect: Dialect) -> Verdicts:
    """Returns those on routes that a dialect has for operations: the same as on their own."""
    return {
        f"{speech.method or operation.http.method} {path}": VERDICTS[
            f"{operation.http.method} {operation.http.path}"
        ]
        for operation, speeches in dialect.operations.items()
        for speech in speeches
        for path in speech.paths
        if (speech.method or operation.http.method) not in READS
    }


def verdict_on(method: str, template: str, verdicts: Verdicts) -> str | None:
    """Returns what a route does that an add-only key does not; None where it may."""
    if method in READS:
        return None
    return verdicts.get(f"{method} {template}", "do what this route is for")

"""What was asked for and is not there."""

from typing import Final

from holdfast.errors.families import NotFound, shorten

_NAMED: Final = 3
"""Names that a message repeats."""

_LISTED: Final = 100
"""Names that an error carries."""


class PathNotFound(NotFound):
    """No file, link or directory at this path."""

    code = "path_not_found"
    hint = "List the parent directory; names are case-sensitive."

    def __init__(self, path: bytes) -> None:
        super().__init__(f"there is nothing at {shorten(path) if path else 'the root'}")
        self.path = path


class NameNotFound(NotFound):
    """Entries that were named, and are neither there now nor in the snapshot."""

    code = "name_not_found"
    hint = "Names are meant to the letter, from the root; for patterns there is `paths`."

    def __init__(self, names: list[str]) -> None:
        named = ", ".join(shorten(name) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        super().__init__(f"nothing is called {named}{more}, neither now nor in the snapshot")
        self.names = names[:_LISTED]


class NamespaceNotFound(NotFound):
    """No namespace of this name in this tenant."""

    code = "namespace_not_found"
    hint = "A namespace begins to exist with its first write; list the namespaces."

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no namespace {shorten(name)}")
        self.name = name


class SnapshotNotFound(NotFound):
    """No snapshot with this id on this namespace's timeline."""

    code = "snapshot_not_found"
    hint = "Look the id up on the namespace's timeline; ids of other namespaces do not count."

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"there is no snapshot {shorten(snapshot_id)} on this timeline")
        self.snapshot_id = snapshot_id


class SnapshotExpired(NotFound):
    """The snapshot was there and its time is over."""

    code = "snapshot_expired"
    hint = "Choose a newer snapshot; pin what has to be kept."

    def __init__(self, snapshot_id: str) -> None:
        super().__init__(f"snapshot {shorten(snapshot_id)} has expired")
        self.snapshot_id = snapshot_id


class SessionNotFound(NotFound):
    """No session with this id in this namespace, or its time is over."""

    code = "session_not_found"
    hint = "List the sessions of the namespace; one past its time to live counts as gone."

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is no session {shorten(session_id)}")
        self.session_id = session_id


class VersionNotFound(NotFound):
    """A session has no version of this number."""

    code = "version_not_found"
    hint = "Look at the session's history; versions count from 0."

    def __init__(self, session_id: str, version: int) -> None:
        super().__init__(f"session {shorten(session_id)} has no version {version}")
        self.session_id, self.version = session_id, version


class TurnNotFound(NotFound):
    """No turn with this id in the conversation as it stands."""

    code = "turn_not_found"
    hint = "List the turns of the session; one that went back shows those up to there."

    def __init__(self, turn_id: str) -> None:
        super().__init__(f"there is no turn {shorten(turn_id)} in this conversation")
        self.turn_id = turn_id


class TraceNotFound(NotFound):
    """No trace with this id."""

    code = "trace_not_found"
    hint = "List the traces; a namespace shows its own, the vault those of all namespaces."

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"there is no trace {shorten(trace_id)}")
        self.trace_id = trace_id


class NoLongerKept(NotFound):
    """What was asked for is older than what is kept of its kind."""

    code = "no_longer_kept"
    hint = "Begin with the oldest that is kept; retention has let go of what was before."

    def __init__(self, what: str, *, begins: int | None) -> None:
        begin = "" if begins is None else f", which begin at number {begins}"
        super().__init__(f"it was before the {what} that are kept{begin}")
        self.begins = begins


class MemoryNotFound(NotFound):
    """No memory with this id in this namespace."""

    code = "memory_not_found"
    hint = "List the memories of the namespace; a deleted one can be recovered for a while."

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"there is no memory {shorten(memory_id)}")
        self.memory_id = memory_id


class EntityNotFound(NotFound):
    """No entity with this id in this namespace, or its session is gone."""

    code = "entity_not_found"
    hint = "List the entities of the session."

    def __init__(self, entity_id: str) -> None:
        super().__init__(f"there is no entity {shorten(entity_id)}")
        self.entity_id = entity_id


class TaskNotFound(NotFound):
    """No task with this id in this namespace."""

    code = "task_not_found"
    hint = "List the tasks of the namespace."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {shorten(task_id)}")
        self.task_id = task_id


class ScheduleNotFound(NotFound):
    """No schedule with this id in this namespace."""

    code = "schedule_not_found"
    hint = "List the schedules of the namespace."

    def __init__(self, schedule_id: str) -> None:
        super().__init__(f"there is no schedule {shorten(schedule_id)}")
        self.schedule_id = schedule_id


class KeyNotFound(NotFound):
    """No API key with this id, or it is revoked."""

    code = "key_not_found"
    hint = "List the keys of the workspace; a revoked one is not among them."

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is no key {shorten(key_id)}")
        self.key_id = key_id


class LoginNotFound(NotFound):
    """No program that waits to be signed in shows this code, or it waits no more."""

    code = "login_not_found"
    hint = "Look at the code again; one is good for ten minutes, and for one decision."

    def __init__(self, user_code: str) -> None:
        super().__init__(f"no program that waits shows the code {shorten(user_code)}")
        self.user_code = user_code


class WebhookNotFound(NotFound):
    """No webhook, or no delivery of one, with this id."""

    code = "webhook_not_found"
    hint = "List the webhooks of the workspace, and the deliveries of one."

    def __init__(self, webhook_id: str) -> None:
        super().__init__(f"there is no webhook or delivery {shorten(webhook_id)}")
        self.webhook_id = webhook_id


class NothingToUndo(NotFound):
    """There is no earlier (or later) state to go to."""

    code = "nothing_to_undo"
    hint = "Look at the timeline: `restore` brings back any snapshot on it."

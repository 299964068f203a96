"""The world moved, or disagrees: read again, then decide."""

from collections.abc import Sequence
from typing import Final, Literal

from holdfast.errors.families import Conflict, shorten

_NAMED: Final = 5
"""Conflicts that a message names; the error carries them all."""

_LISTED: Final = 100
"""Paths that an error of a choice carries, however many were chosen."""


DriftCause = Literal["refused", "lost", "unreadable", "moving", "behind"]
"""Why it is in the way: whoever asked wants none, it can be in no snapshot, we may not read it, it
is being changed, the namespace's files were."""

_DRIFT_HINTS: Final[dict[DriftCause, str]] = {
    "refused": 'Take a snapshot first; without drift="refuse" they become one by themselves.',
    "lost": "Move them elsewhere, or give them up with force=True.",
    "unreadable": "Let them be read (`chmod -R u+rwX`) and try again: then nothing is lost; or "
    "move them elsewhere, or give them up with force=True.",
    "moving": "Something else writes there: try again when it has ended.",
    "behind": "Somebody writes through the namespace: try again.",
}


class HeadMoved(Conflict):
    """Another writer advanced the namespace first."""

    code = "head_moved"
    hint = "Read the timeline again, look at what changed, and retry on top of it."

    def __init__(self, namespace: str, *, expected: str | None, actual: str | None) -> None:
        super().__init__(f"{shorten(namespace)} is at {actual}, not at {expected}")
        self.namespace, self.expected, self.actual = namespace, expected, actual


class OthersChanged(Conflict):
    """Others changed the same since a task did, and it is not taken back: nothing was changed."""

    code = "others_changed"
    hint = (
        "Look at what is there; keep_mine leaves it alone and takes the rest back; to go back all "
        "the same, restore the snapshot from before the task."
    )

    def __init__(
        self, task_id: str, *, before: str, by: Sequence[str] = (), names: Sequence[str] = ()
    ) -> None:
        who = f"others ({', '.join(map(shorten, by))})" if by else "somebody else"
        shown = ", ".join(shorten(name) for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        super().__init__(
            f"{who} changed {shown or 'the namespace'}{more} beside task {shorten(task_id)}: "
            f"nothing was taken back; what was there before the task is {before}"
        )
        self.task_id, self.before, self.by = task_id, before, [*by]
        self.names, self.count = [*names[:_LISTED]], len(names)


class StateMoved(Conflict):
    """A session's state has another version than the writer expected; nothing was written."""

    code = "state_moved"
    hint = "Read the state again, and decide on what it is now."

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"session {shorten(session_id)} is at version {actual}, not {expected}")
        self.session_id, self.expected, self.actual = session_id, expected, actual


class NotAsExpected(Conflict):
    """A value or file is not what the writer expected to find; nothing was written."""

    code = "not_as_expected"
    hint = "Read it again, and decide on what it is now."

    def __init__(self, name: str, *, expected: str, actual: str) -> None:
        super().__init__(f"{name} is {shorten(actual)}, not {shorten(expected)} as expected")
        self.name, self.expected, self.actual = name, expected, actual


class ConversationMoved(Conflict):
    """A session has another number of turns than the writer expected; nothing was written."""

    code = "conversation_moved"
    hint = "Read the turns again, and decide on what was said by now."

    def __init__(self, session_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"session {shorten(session_id)} has {actual} turns, not {expected}")
        self.session_id, self.expected, self.actual = session_id, expected, actual


class SessionExists(Conflict):
    """There is a session with this id already."""

    code = "session_exists"
    hint = "Leave the id out to get a new one, or go on with the session that is there."

    def __init__(self, session_id: str) -> None:
        super().__init__(f"there is a session {shorten(session_id)} already")
        self.session_id = session_id


class EntityExists(Conflict):
    """The session knows an entity of this type and id already."""

    code = "entity_exists"
    hint = "Change the one that is there, or give the new one another id."

    def __init__(self, entity_type: str, entity_id: str) -> None:
        shown = f"{shorten(entity_type)} {shorten(entity_id)}"
        super().__init__(f"the session knows an entity {shown} already")
        self.entity_type, self.entity_id = entity_type, entity_id


class TaskEnded(Conflict):
    """The task has ended, and not as this call would have it."""

    code = "task_ended"
    hint = "Look at the task: it says how it ended; start another one."

    def __init__(self, task_id: str, *, status: str) -> None:
        super().__init__(f"task {shorten(task_id)} has {status} already")
        self.task_id, self.status = task_id, status


class TaskRunning(Conflict):
    """The task has not ended: nobody knows yet what of a directory is its own."""

    code = "task_running"
    hint = (
        "End it first. If its process died, `tasks.fail` does, and `holdfast undo --task ID --end` "
        "in a directory."
    )

    def __init__(self, task_id: str, *, before: str) -> None:
        super().__init__(
            f"task {shorten(task_id)} has not ended; what was there before it is {before}"
        )
        self.task_id, self.before = task_id, before


class RequestReused(Conflict):
    """An Idempotency-Key that came with another request before."""

    code = "idempotency_key_reused"
    hint = "Use a new Idempotency-Key for every request; repeat one only as it was."

    def __init__(self) -> None:
        super().__init__(
            "this Idempotency-Key came with another request before: its namespace, query, content "
            "type or body was another"
        )


class RequestRunning(Conflict):
    """The same request is still being answered."""

    code = "idempotency_in_progress"
    hint = "Wait a moment, then repeat the request: it gets the same answer."

    def __init__(self) -> None:
        super().__init__("a request with this Idempotency-Key is still being answered")


class ReplyNotKept(Conflict):
    """A repeated request whose answer is not there to be given again."""

    code = "idempotency_answer_not_kept"
    hint = "It was done the first time: look at what there is, or undo it and begin anew."

    def __init__(self) -> None:
        super().__init__("this was done already; its answer holds a secret, or was too large")


class LastAdminKey(Conflict):
    """The key is the last one of its workspace that may make others."""

    code = "last_admin_key"
    hint = "Make another admin key first."

    def __init__(self, key_id: str) -> None:
        super().__init__(f"{shorten(key_id)} is the last admin key: nobody could make another one")
        self.key_id = key_id


class MergeConflict(Conflict):
    """Both sides changed the same thing differently; nothing was applied."""

    code = "merge_conflict"
    hint = "Resolve the listed keys on one side, or say which side wins with prefer=."

    def __init__(self, conflicts: list[tuple[str, bytes]]) -> None:
        shown = ", ".join(f"{plane}:{shorten(key)}" for plane, key in conflicts[:_NAMED])
        more = f" and {len(conflicts) - _NAMED} more" if len(conflicts) > _NAMED else ""
        super().__init__(f"both sides changed {shown}{more}")
        self.conflicts = conflicts


class ContentMissing(Conflict):
    """What was to be kept refers to content that is not there; nothing was changed."""

    code = "content_missing"
    hint = "Ask which of its objects are missing, send those, then try again."

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} objects that it refers to are not there")
        self.count = count


class NamespaceExists(Conflict):
    """A namespace of this name is already there."""

    code = "namespace_exists"
    hint = "Choose another name."

    def __init__(self, name: str) -> None:
        super().__init__(f"there is already a namespace {shorten(name)}")
        self.name = name


class AlreadyAttached(NamespaceExists):
    """A directory has another namespace, or a namespace another directory."""

    code = "already_attached"
    hint = "Detach it first: its history stays, and can be attached again."

    def __init__(self, path: str, *, namespace: str) -> None:
        super().__init__(namespace)
        self.args = (f"{path} is attached as namespace {shorten(namespace)}",)
        self.path = path


class PathExists(Conflict):
    """Something stands at the path that was to be made."""

    code = "path_exists"
    hint = "Delete it first, choose another path, or pass overwrite=True."

    def __init__(self, path: bytes, *, what: str = "already something") -> None:
        super().__init__(f"there is {what} at {shorten(path)}")
        self.path = path


class InTheWay(Conflict):
    """Files that were not chosen stand where something else is to be brought back."""

    code = "in_the_way"
    hint = "Choose them as well, or leave out what needs their place."

    def __init__(self, paths: list[str]) -> None:
        named = ", ".join(shorten(path) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        super().__init__(f"what was not chosen is in the way of what was: {named}{more}")
        self.paths = paths[:_LISTED]


class DriftFound(Conflict):
    """A directory holds changes that no snapshot does, and they would be lost."""

    code = "drift_found"
    hint = "Take a snapshot first, or let the restore capture them."

    def __init__(self, paths: list[str], *, reason: str, cause: DriftCause = "moving") -> None:
        named = ", ".join(shorten(path) for path in paths[:_NAMED])
        more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
        super().__init__(f"{reason}: {named}{more}")
        self.paths, self.reason, self.cause = paths, reason, cause
        self.hint = _DRIFT_HINTS[cause]


class DirectoryRefused(Conflict):
    """A directory that should not be captured: too much, not ours, or not here."""

    code = "directory_refused"
    hint = "Choose the directory that the agent works in; --force insists."

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"{shorten(path)} is not captured: {reason}")
        self.path, self.reason = path, reason


class DirectoryReplaced(Conflict):
    """Something else stands where an attached directory was; nothing of it was touched."""

    code = "directory_replaced"
    hint = (
        "Move it away, and `undo` brings the attached one back; or attach it with "
        "`namespace=`, which keeps what is in it as a snapshot before anything is replaced."
    )

    def __init__(self, path: str, *, namespace: str, found: str, now_at: str | None = None) -> None:
        where = "" if now_at is None else f", which is at {now_at} now"
        super().__init__(
            f"{path} is {found}, not the directory that is attached as namespace "
            f"{shorten(namespace)}{where}"
        )
        self.path, self.namespace, self.found, self.now_at = path, namespace, found, now_at


class Busy(Conflict):
    """Somebody else holds what this needs; it will be free again."""

    code = "busy"
    hint = "Wait for the other operation to end, then retry."

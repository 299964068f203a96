"""What events are called, and what they say.

An event says what was done to what, never what is in it: no content of a file, of a state, of a
turn or of a memory. Texts that somebody chose are cut: an event is a message, not a copy. How
events are told, numbered and listed is in `events.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.engine.journal.actions import ACTIONS, normalise, without_content
from holdfast.errors import InvalidValue, shorten
from holdfast.model.events import ERASED, LOST, REINSTATED, Occurrence
from holdfast.model.traces import Trace

Details = Mapping[str, Any]

_RENAMED: Final = {"snapshot.taken": "snapshot.created"}
_OWN_TRACE: Final = "trace.created"
"""What a trace that somebody adds is called as an event."""

_MAX_CHARS: Final = 512
"""Of a text that somebody chose: an event is a message, not a copy."""

_KNOWN: Final = frozenset(ACTIONS)
_MANY: Final = {"snapshots": "snapshot_id", "sessions": "session_id"}
"""Details that list what one operation was done to: each is told by itself."""

_WRITTEN, _DELETED = "file.written", "file.deleted"
_IDS: Final = {
    "snapshot": "snapshot_id",
    "key": "key_id",
    "memory": "memory_id",
    "webhook": "webhook_id",
    "task": "task_id",
    "schedule": "schedule_id",
    "git_backup": "git_backup_id",
}
_RAISED, _LOWERED = "rollbacks.raised", "rollbacks.lowered"
_TYPES: Final = (
    _WRITTEN,
    _DELETED,
    _RAISED,
    _LOWERED,
    _OWN_TRACE,
    LOST,
    ERASED,
    REINSTATED,
    *dict.fromkeys(_RENAMED.get(action, action) for action in ACTIONS),
)
"""What events are called."""

_TOLD_ELSEWHERE: Final = ("workspace.created", "webhook.test")
"""What other servers of the same contract tell of: clients may ask for it, and hear nothing."""


def type_of(name: str) -> str:
    """Returns the type of event that somebody means who knows it under another name."""
    action = normalise(name)
    return _RENAMED.get(action, action)


def check_types(names: Iterable[str]) -> None:
    """Raises `InvalidValue` for a type, or a `group.*`, that no event is ever of."""
    kinds = (*_TYPES, *_TOLD_ELSEWHERE)
    known = {"*", *kinds, *(f"{kind.partition('.')[0]}.*" for kind in kinds)}
    for name in names:
        if type_of(name) not in known:
            message = (
                f"no event is called {shorten(name)}: ask for *, for all of a group as in file.*, "
                f"or for {', '.join(sorted(kinds))}"
            )
            raise InvalidValue(message)


def written(path: str, *, size_bytes: int, source: str = "write") -> Occurrence:
    """Returns the event of a file that has come about, or changed."""
    return Occurrence(_WRITTEN, {"path": path, "size_bytes": size_bytes, "source": source})


def deleted(path: str, *, entries: int) -> Occurrence:
    """Returns the event of a file that has gone, or of a directory with all that was in it."""
    return Occurrence(_DELETED, {"path": path, "entries": entries})


def rate_moved(data: dict[str, Any], *, is_worse: bool) -> Occurrence:
    """Returns the event of a rollback rate that has come to another level."""
    return Occurrence(_RAISED if is_worse else _LOWERED, data)


def events_of(
    trace: Trace,
    *,
    trace_id: str,
    is_own: bool = False,
    more: Details | None = None,
    each: Mapping[str, Details] | None = None,
) -> Sequence[Occurrence]:
    """Returns the events that tell what a trace does; none for what is nobody's business.

    A trace that somebody adds (`is_own`) is told as just that, whatever it calls itself. The
    snapshot that a restore takes for safety is part of the restore, which is told. `more` is what
    they say beyond the trace, and `each` what they say of one of several, by its id.
    """
    if is_own or trace.action not in _KNOWN:
        return [Occurrence(_OWN_TRACE, _of_own(trace, trace_id))]
    if trace.resource_type == "snapshot" and trace.details.get("safety") == trace.resource_id:
        return []
    told = without_content(trace.action, trace.resource_type, trace.details)
    data = {key: _short(value) for key, value in told.items() if _is_plain(value)}
    data |= _of_resource(trace)
    if trace.session_id is not None:
        data["session_id"] = trace.session_id
        data |= {"agent_id": _short(trace.agent_id), "user_id": _short(trace.user_id)}
    data |= {"trace_id": trace_id, **(more or {})}
    kind = _RENAMED.get(trace.action, trace.action)
    for name, key in _MANY.items():
        if name in trace.details:
            known = each or {}
            return [
                Occurrence(kind, {**data, **_one(trace, key, one), **known.get(one, {})})
                for one in trace.details[name]
            ]
    return [Occurrence(kind, data)]


def says_the_same(event: Occurrence, data: Mapping[str, Any]) -> bool:
    """Says whether what was told of a trace, and may say more, is this."""
    return event.data.items() <= data.items()


def _one(trace: Trace, key: str, one: str) -> dict[str, Any]:
    """Returns what an event says of one of the things that something was done to."""
    if key != _IDS["snapshot"]:
        return {key: one}
    return {key: one, "label": _short(trace.details.get("labels", {}).get(one))}


def _of_own(trace: Trace, trace_id: str) -> dict[str, Any]:
    told = {
        "action": trace.action,
        "session_id": trace.session_id,
        "agent_id": trace.agent_id,
        "resource_type": trace.resource_type,
        "resource_id": trace.resource_id,
    }
    return {name: _short(value) for name, value in told.items()} | {"trace_id": trace_id}


def _of_resource(trace: Trace) -> dict[str, Any]:
    """Returns what it was done to; of a restore, the snapshot that was brought back."""
    kind = trace.resource_type
    if kind == "snapshot":
        target = trace.details.get("target")
        if target is not None:
            return {"snapshot_id": target, "new_snapshot_id": trace.resource_id}
        label = _short(trace.details.get("label"))
        return {"snapshot_id": trace.resource_id, "label": label}
    if kind == "namespace":
        return {"namespace": trace.resource_id}
    return {_IDS[kind]: trace.resource_id} if kind in _IDS and trace.resource_id else {}


def kinds_of(types: Iterable[str]) -> tuple[str, ...]:
    """Returns the types that somebody means who names these; none, for all of them or for `*`."""
    named = [*types]
    return () if "*" in named else tuple(kind for given in named for kind in _kinds(given))


def _kinds(given: str) -> Sequence[str]:
    """Returns the types that are meant: `group.*` is all of a group."""
    group, _, rest = given.partition(".")
    if rest != "*":
        return [type_of(given)]
    return [kind for kind in _TYPES if kind.startswith(f"{group}.")] or [given]


def _is_plain(value: object) -> bool:
    """Says whether a detail goes into an event: plain values do, states and lists do not."""
    return isinstance(value, str | int | float | None)


def _short(value: object) -> object:
    return shortened(value) if isinstance(value, str) else value


def shortened(text: str) -> str:
    """Returns as much of a text that somebody chose as an event says."""
    return text[:_MAX_CHARS]

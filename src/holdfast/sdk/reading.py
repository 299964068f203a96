"""Answers as they stand on the wire, as the values that the embedded door returns.

One function for each kind. What a number inside a vault would be (`namespace_id`) nobody outside
needs: it is 0.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, TraceId
from holdfast.model.basics import Kind, Plane, Size, SnapshotInfo, SnapshotLike, id_of
from holdfast.model.changes import Change, Changes, MergeResult, Restored, counted, tally
from holdfast.model.entities import Entity
from holdfast.model.health import Health, Level, Loop
from holdfast.model.history import Step
from holdfast.model.memories import FoundMemory, Memory
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.model.traces import TraceInfo
from holdfast.storekeys import to_store_key
from holdfast.wire.audit import RollbackRateAnswer
from holdfast.wire.changes import ChangeAnswer, Counts
from holdfast.wire.entities import EntityAnswer
from holdfast.wire.memories import FoundAnswer, MemoryAnswer
from holdfast.wire.snapshots import RestoreAnswer, SnapshotAnswer
from holdfast.wire.tasks import TaskAnswer
from holdfast.wire.timeline import MergeAnswer, StepAnswer
from holdfast.wire.traces import TraceAnswer

A = TypeVar("A")
T = TypeVar("T")

ELSEWHERE = NamespaceId(0)

_PLANES: Final = frozenset(Plane)


def reads(kind: type[A], make: Callable[[A], T]) -> Callable[[bytes], T]:
    """Returns what decodes an answer of a kind, and makes a value of it."""
    decoder = msgspec.json.Decoder(kind)
    return lambda body: make(decoder.decode(body))


def as_it_is(kind: type[A]) -> Callable[[bytes], A]:
    """Returns what decodes an answer that is a value already."""
    return msgspec.json.Decoder(kind).decode


def nothing(_body: bytes) -> None:
    """Reads an answer that says no more than that it was done."""


def whole(body: bytes) -> bytes:
    """Reads an answer that is bytes."""
    return body


def id_or_none(snapshot: SnapshotLike | None) -> str | None:
    """Returns what a snapshot is called on the wire, if there is one."""
    return None if snapshot is None else id_of(snapshot)


def texts(name: str, given: Iterable[str]) -> list[str]:
    """Returns what is given as a list; raises `InvalidValue` for one text, of which letters are."""
    if isinstance(given, str):
        message = f"{name} are a list of text, not one text"
        raise InvalidValue(message)
    return [*given]


def texts_or_none(name: str, given: Iterable[str] | None) -> list[str] | None:
    """Returns what is given as a list, if it is."""
    return None if given is None else texts(name, given)


def instant(text: str) -> datetime:
    """Returns the instant that stands on the wire."""
    return datetime.fromisoformat(text)


def instant_or_none(text: str | None) -> datetime | None:
    """Returns the instant that stands on the wire, if one does."""
    return None if text is None else instant(text)


def sent(when: datetime | None) -> str | None:
    """Returns an instant as it is sent; raises `InvalidValue` for one that may be anywhere."""
    if when is None:
        return None
    if when.utcoffset() is None:
        raise InvalidValue("an instant says in which time zone it is: datetime.now(UTC)")
    return when.isoformat()


def to_snapshot(answer: SnapshotAnswer) -> SnapshotInfo:
    """Returns a snapshot."""
    return SnapshotInfo(
        id=SnapshotId(answer.snapshot_id),
        namespace_id=ELSEWHERE,
        number=answer.number,
        kind=Kind(answer.kind),
        root=ObjectId(bytes.fromhex(answer.root)),
        parent=_snapshot_id(answer.parent),
        created_at=instant(answer.created_at),
        size=Size(answer.entries, answer.size_bytes),
        target=_snapshot_id(answer.target),
        label=answer.label,
        reason=answer.reason,
        actor=answer.actor,
        task_id=answer.task_id,
        trace_id=answer.trace_id,
        pinned=answer.pinned,
        expires_at=instant_or_none(answer.expires_at),
        detail=answer.detail,
        namespace=answer.namespace,
    )


def to_step(answer: StepAnswer) -> Step:
    """Returns something that happened."""
    return Step(
        change=answer.change,
        snapshot=None if answer.snapshot is None else to_snapshot(answer.snapshot),
        previous=_snapshot_id(answer.previous),
        gone=answer.gone,
        old_bytes=answer.old_bytes,
        new_bytes=answer.new_bytes,
        entries=answer.entries,
    )


def to_change(answer: ChangeAnswer) -> Change:
    """Returns one thing that differs; of its entries, the sizes."""
    plane, key = Plane(answer.plane), answer.name.encode("utf-8", "surrogateescape")
    if answer.name_b64 is not None:
        key = b64decode(answer.name_b64, validate=True)
    elif answer.namespace is not None and answer.key is not None:
        key = to_store_key(answer.namespace, answer.key)
    return Change(
        plane,
        key,
        answer.name if plane is Plane.STORE else key.decode("utf-8", "surrogateescape"),
        answer.change,
        old_bytes=answer.old_bytes,
        new_bytes=answer.new_bytes,
    )


def to_changes(
    answers: list[ChangeAnswer], *, truncated: bool, counts: Counts | None = None
) -> Changes:
    """Returns what differs, and how much more there is if a server has counted it."""
    # A later server may know planes that this client does not.
    items = [to_change(each) for each in answers if each.plane in _PLANES]
    if counts is None:
        return Changes(items, truncated)
    every = Counter(
        {
            (Plane(plane), word): n
            for plane, words in counts.items()
            for word, n in words.items()
            if plane in _PLANES
        }
    )
    return counted(items, every - tally(items))


def _all_changes(answer: RestoreAnswer | MergeAnswer) -> Changes:
    return to_changes(answer.changes, truncated=answer.truncated, counts=answer.counts)


def to_restored(answer: RestoreAnswer) -> Restored:
    """Returns what a restore did."""
    return Restored(
        target=SnapshotId(answer.snapshot_id),
        snapshot=None if answer.snapshot is None else to_snapshot(answer.snapshot),
        safety_id=_snapshot_id(answer.safety_snapshot_id),
        root=ObjectId(bytes.fromhex(answer.root)),
        changes=_all_changes(answer),
        files=answer.files,
        verified=answer.verified,
        dry_run=answer.dry_run,
        kept=answer.kept,
        uncovered=answer.uncovered,
        uncaptured=answer.uncaptured,
        is_partial=answer.partial or bool(answer.uncaptured),
        in_motion=answer.in_motion,
        left_alone=[Plane(plane) for plane in answer.left_alone if plane in _PLANES],
        left=answer.left,
        by_snapshots=answer.by_snapshots,
    )


def to_merged(answer: MergeAnswer) -> MergeResult:
    """Returns what a merge did."""
    return MergeResult(
        snapshot=to_snapshot(answer.snapshot),
        changes=_all_changes(answer),
    )


def to_memory(answer: MemoryAnswer) -> Memory:
    """Returns something that is remembered."""
    return Memory(
        id=answer.id,
        content=answer.content,
        type=answer.type,
        tags=tuple(answer.tags),
        metadata=answer.metadata,
        session_id=answer.session_id or None,
        user_id=answer.user_id,
        agent_id=answer.agent_id,
        is_searchable=answer.is_searchable,
        has_embedding=answer.has_embedding,
        version=answer.version,
        created_at=instant(answer.created_at),
        updated_at=instant(answer.updated_at),
    )


def to_found(answer: FoundAnswer) -> FoundMemory:
    """Returns something that is remembered, with how well it answers."""
    return FoundMemory(to_memory(answer), answer.score)


def to_entity(answer: EntityAnswer) -> Entity:
    """Returns a thing that a session knows of."""
    return Entity(
        id=answer.id,
        session_id=answer.session_id,
        entity_type=answer.entity_type,
        entity_id=answer.entity_id,
        attributes=answer.attributes,
        version=answer.version,
        created_at=instant(answer.created_at),
        updated_at=instant(answer.updated_at),
    )


def to_trace(answer: TraceAnswer) -> TraceInfo:
    """Returns one thing that happened."""
    return TraceInfo(
        id=TraceId(answer.id),
        number=answer.number,
        action=answer.action,
        created_at=instant(answer.created_at),
        namespace=answer.namespace,
        session_id=answer.session_id,
        user_id=answer.user_id,
        agent_id=answer.agent_id,
        resource_type=answer.resource_type,
        resource_id=answer.resource_id,
        actor=answer.actor,
        request_id=answer.context.request_id,
        details=answer.details,
        is_redacted=answer.is_redacted,
        hash=answer.hash,
    )


def to_task(answer: TaskAnswer) -> TaskRun:
    """Returns a task."""
    return TaskRun(
        id=answer.task_id,
        namespace_id=ELSEWHERE,
        name=answer.name,
        status=TaskStatus(answer.status),
        rolls_back=answer.rollback_on_failure,
        metadata=msgspec.json.encode(answer.metadata).decode(),
        actor=answer.actor,
        reason=answer.reason,
        before=SnapshotId(answer.before_snapshot_id),
        after=_snapshot_id(answer.snapshot_id),
        restored=_snapshot_id(answer.restored_snapshot_id),
        started_at=instant(answer.started_at),
        ended_at=instant_or_none(answer.ended_at),
    )


def to_health(answer: RollbackRateAnswer) -> Health:
    """Returns how sessions fared."""
    return Health(
        rollbacks=answer.rollbacks,
        sessions=answer.sessions,
        rate=answer.rate,
        level=Level(answer.level),
        loops=[Loop(x.namespace, x.session_id, x.version, x.rollbacks) for x in answer.loops],
    )


def items_of(answers: list[A], make: Callable[[A], T]) -> list[T]:
    """Returns a value for each answer."""
    return [make(each) for each in answers]


def _snapshot_id(text: str | None) -> SnapshotId | None:
    return None if text is None else SnapshotId(text)


Json = dict[str, Any]

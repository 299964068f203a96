"""What a commit says of its snapshot, and how that is read again.

The first line is for people; the last paragraph has one line for each thing that is known of the
snapshot, with its value as JSON, so that nothing in a label can look like another line. The bytes
depend on the snapshot alone: made again, a commit is the same commit.
"""

from datetime import UTC
from typing import Any, Final

import msgspec

from holdfast.engine.gitbackup.rules import FORMAT, Rules
from holdfast.engine.gitbackup.tokens import without_tokens
from holdfast.git.repository import Commit
from holdfast.instants import to_text
from holdfast.model.basics import SnapshotInfo

_MARK: Final = "Holdfast-"
_SUBJECT_CHARS: Final = 72
_MAX_LINES: Final = 100


class Trailers(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the snapshot that a commit was made of."""

    format: int
    snapshot: str
    number: int
    kind: str
    root: str
    rules: str = ""
    created: str = ""
    label: str | None = None
    reason: str | None = None
    task: str | None = None
    actor: str | None = None
    target: str | None = None
    partial: bool = False
    metadata: dict[str, str] | None = None


def write_message(snapshot: SnapshotInfo, rules: Rules) -> str:
    """Returns the message of a snapshot's commit."""
    task = snapshot.task.name if snapshot.task is not None else None
    known = Trailers(
        format=FORMAT,
        snapshot=snapshot.id,
        number=snapshot.number,
        kind=snapshot.kind.value,
        root=snapshot.root.hex(),
        rules=rules.digest,
        created=to_text(snapshot.created_at.astimezone(UTC)),
        label=snapshot.label,
        reason=snapshot.reason,
        task=task,
        actor=snapshot.actor,
        target=snapshot.target,
        partial=snapshot.is_partial,
        metadata=snapshot.metadata or None,
    )
    subject = snapshot.label or task or snapshot.reason or ""
    said = f"{snapshot.kind.value}: {_line(subject)}" if subject else snapshot.kind.value
    lines = [
        f"{_MARK}{name.capitalize()}: {msgspec.json.encode(value).decode()}"
        for name, value in msgspec.to_builtins(known).items()
    ]
    text = "\n".join([_cut(said), "", *lines, ""])
    # A commit goes to others: what looks like a secret does not.
    return (without_tokens(text) if rules.finds_tokens else text).replace("\0", " ")


def author_of(snapshot: SnapshotInfo) -> str:
    """Returns the author of a snapshot's commit: whoever took it, as git can write it."""
    name = snapshot.actor_name or snapshot.actor or "holdfast"
    plain = without_tokens(_line(name)).translate(dict.fromkeys(map(ord, "<>\0")))
    return plain.strip(" .,:;\"'\\")[:_SUBJECT_CHARS] or "holdfast"


def read_message(commit: Commit) -> Trailers | None:
    """Returns what a commit says of its snapshot; None if it is none of ours."""
    said = dict[str, Any]()
    for line in commit.message.rstrip("\n").split("\n")[-_MAX_LINES:]:
        name, separator, value = line.partition(": ")
        if separator and name.startswith(_MARK):
            try:
                said[name.removeprefix(_MARK).lower()] = msgspec.json.decode(value)
            except msgspec.DecodeError:
                return None
    try:
        return msgspec.convert(said, Trailers)
    except msgspec.ValidationError:
        return None


def _line(text: str) -> str:
    legible = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(legible.encode("utf-8", "replace").decode().split())


def _cut(text: str) -> str:
    return text if len(text) <= _SUBJECT_CHARS else f"{text[: _SUBJECT_CHARS - 1]}…"

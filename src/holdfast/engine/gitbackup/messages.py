"""What a commit says of its snapshot, and how that is read again.

The first line is for people; the last paragraph has one line for each thing that is known of the
snapshot, with its value as JSON, so that nothing in a label can look like another line. The bytes
depend on the snapshot alone: made again, a commit is the same commit.
"""

from datetime import UTC
from typing import Any, Final

import msgspec

from holdfast.engine.gitbackup.rules import FORMAT, Rules
from holdfast.engine.gitbackup.tokens import has_token, without_tokens
from holdfast.escaping import spaced
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
    planes: list[str] | None = None
    """What is in the commit beside files."""


def write_message(snapshot: SnapshotInfo, rules: Rules) -> str:
    """Returns the message of a snapshot's commit."""
    # A commit goes to others: what looks like a secret does not. Each text by itself, since the
    # form around them has to stay what it is.
    clean = without_tokens if rules.finds_tokens else str
    task = snapshot.task.name if snapshot.task is not None else None
    said = snapshot.label, snapshot.reason, task, snapshot.actor
    label, reason, task, actor = (None if each is None else clean(each) for each in said)
    known = Trailers(
        format=FORMAT,
        snapshot=snapshot.id,
        number=snapshot.number,
        kind=snapshot.kind.value,
        root=snapshot.root.hex(),
        rules=rules.digest,
        created=to_text(snapshot.created_at.astimezone(UTC)),
        label=label,
        reason=reason,
        task=task,
        actor=actor,
        target=snapshot.target,
        partial=snapshot.is_partial,
        metadata=_metadata(snapshot, rules) or None,
        planes=[*rules.planes] or None,
    )
    about = _line(label or task or reason or "")
    subject = f"{snapshot.kind.value}: {about}" if about else snapshot.kind.value
    lines = [
        f"{_MARK}{name.capitalize()}: {msgspec.json.encode(value).decode()}"
        for name, value in msgspec.to_builtins(known).items()
    ]
    return "\n".join([_cut(subject), "", *lines, ""])


def _metadata(snapshot: SnapshotInfo, rules: Rules) -> dict[str, str]:
    """Returns what is kept with a snapshot, without what looks like a secret beside its name."""
    if not rules.finds_tokens:
        return snapshot.metadata
    found = dict[str, str]()
    for key, value in snapshot.metadata.items():
        is_fine = not has_token([f"{key}={value}".encode("utf-8", "replace")])
        found[without_tokens(key)] = value if is_fine else "[...]"
    return found


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
    return " ".join(spaced(text).encode("utf-8", "replace").decode().split())


def _cut(text: str) -> str:
    return text if len(text) <= _SUBJECT_CHARS else f"{text[: _SUBJECT_CHARS - 1]}…"

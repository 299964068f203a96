"""What an agent can call: ten tools, and nothing that takes history away.

One more is there where commands are run. Each is a function from a subject and its arguments to an
answer. Hints say what a tool does to the present: a restore replaces files, and says so, though
everything that it replaces is kept.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from mcp_types import Tool, ToolAnnotations

from holdfast.engine.core.coverage import coverage_of
from holdfast.errors import InvalidValue
from holdfast.mcp.answers import (
    LISTED,
    LONGEST_ANSWER,
    Answer,
    answer,
    change_lines,
    listing_lines,
    restored_lines,
    safe,
    safe_content,
    size,
    snapshot_line,
    snapshot_lines,
    status_lines,
)
from holdfast.mcp.arguments import (
    MOST_BYTES,
    Arguments,
    Compare,
    Exec,
    Fork,
    List,
    Nothing,
    Page,
    Read,
    Restore,
    Take,
    Undo,
)
from holdfast.mcp.subjects import Subject
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.changes import Change
from holdfast.model.commands import Executed

COMPARED: Final = 40
"""Files whose text one answer compares."""

LARGEST_COMPARED: Final = 1 << 18
"""Bytes of a file that is compared by its text: a larger one is named with its sizes."""

LONGEST_PATTERN: Final = 512
"""Bytes of a name that would be read as a pattern: so many of them may be chosen by at once."""

_MAGIC: Final = re.compile(r"[*?\[]")
"""Characters with which a name would be read as a pattern, and choose others."""


@dataclass(frozen=True)
class Offer:
    """One tool: how it is described, and what it does."""

    tool: Tool
    arguments: type[Arguments]
    run: Callable[[Subject, Any], Answer]


def status(subject: Subject, _: Nothing) -> Answer:
    """Shows where the timeline stands and what has changed since."""
    return answer(status_lines(subject.title, subject.status(limit=LISTED)))


def timeline(subject: Subject, wanted: Page) -> Answer:
    """Lists snapshots."""
    found = subject.timeline(limit=wanted.limit, before=wanted.before)
    position = subject.position()
    lines = [snapshot_line(each, position=position) for each in found]
    if len(found) == wanted.limit:
        lines.append(f"There may be more: say before={found[-1].number}.")
    return answer(lines or ["There is no snapshot here yet: `snapshot` takes one."])


def diff(subject: Subject, wanted: Compare) -> Answer:
    """Shows what differs between two moments."""
    changes = subject.diff(wanted.old, wanted.new, paths=wanted.paths, limit=LISTED)
    lines = [f"Differs: {changes.summary()}", *change_lines(changes)]
    if wanted.names_only:
        return answer(lines)
    files = [each for each in changes if _is_file(each)]
    compared = [each for each in files if _is_comparable(each)][:COMPARED]
    if len(files) > len(compared):
        lines.append(f"Text not shown of {len(files) - len(compared)} of these: `paths` chooses.")
    if not compared:
        return answer(lines)
    keys = {each.key for each in compared}
    texts = subject.texts(wanted.old, wanted.new, paths=[_literal(each.name) for each in compared])
    text = "".join(text for change, text in texts if change.key in keys)
    content, is_escaped = safe_content(text)
    return answer([*lines, *_note_of(is_escaped=is_escaped)], content or None)


def read_file(subject: Subject, wanted: Read) -> Answer:
    """Shows a file as it was at a moment."""
    files, moment = subject.files(wanted.at)
    total = files.stat(wanted.path).size_bytes
    data = files.read(wanted.path, start=wanted.offset, length=MOST_BYTES)
    where = f"{safe(wanted.path)} {_at(moment)}, {size(total)}"
    found = _shown(data, is_begun=wanted.offset > 0)
    if found is None:
        return answer([f"{where}: it is no text (UTF-8), and is not shown."])
    content, is_escaped, used = found
    end = wanted.offset + used
    more = [f"It goes on: say offset={end}."] if end < total else []
    return answer([where, *_note_of(is_escaped=is_escaped), *more], content)


def list_files(subject: Subject, wanted: List) -> Answer:
    """Lists files as they were at a moment."""
    files, moment = subject.files(wanted.at)
    found = files.list(
        wanted.path, recursive=wanted.recursive, after=wanted.after, limit=wanted.limit
    )
    lines = [f"{safe(wanted.path) or 'All'} {_at(moment)}:", *listing_lines(found)]
    if len(found) == wanted.limit:
        lines.append("There may be more: say after= with the last path.")
    return answer(lines)


def snapshot(subject: Subject, wanted: Take) -> Answer:
    """Takes a snapshot."""
    said = wanted.metadata
    taken = subject.snapshot(wanted.label, reason=wanted.reason, metadata=said)
    return answer(snapshot_lines(taken, coverage_of(taken)))


def restore(subject: Subject, wanted: Restore) -> Answer:
    """Brings a snapshot back, or says what that would change."""
    done = subject.restore(
        wanted.snapshot,
        paths=wanted.paths,
        names=wanted.names,
        dry_run=not wanted.confirm,
        limit=LISTED,
    )
    did = "Restored" if wanted.confirm else "Restoring"
    lines = [*restored_lines(done, did=did, way_back="undo")]
    if not wanted.confirm:
        lines.append("Nothing was changed. To do it, say the same with confirm=true.")
    return answer(lines)


def undo(subject: Subject, wanted: Undo) -> Answer:
    """Takes the last change back, or what an operation or a task changed."""
    if wanted.operation is not None and wanted.task is not None:
        raise InvalidValue("say which operation, or which task: not both")
    done = subject.undo(wanted.operation, task=wanted.task, limit=LISTED)
    is_last = wanted.operation is None and wanted.task is None
    did, way_back = ("Back at", "redo") if is_last else ("Took out", "undo")
    return answer(restored_lines(done, did=did, way_back=way_back))


def redo(subject: Subject, _: Nothing) -> Answer:
    """Takes the last undo back."""
    done = subject.redo(limit=LISTED)
    return answer(restored_lines(done, did="Forward to", way_back="undo"))


def fork(subject: Subject, wanted: Fork) -> Answer:
    """Makes a new namespace with the same content."""
    subject.fork(wanted.name, at=wanted.at)
    said = f"The namespace {safe(wanted.name)!r} has the same content now, and its own timeline."
    return answer([said, "These tools stay where they are: a person can work in the new one."])


def exec_(subject: Subject, wanted: Exec) -> Answer:
    """Runs a command in the sandbox."""
    done = subject.exec(
        wanted.command,
        timeout_s=wanted.timeout_s,
        rollback_on_failure=wanted.rollback_on_failure,
    )
    lines = [f"It ended with {done.exit_code} after {done.duration_ms} ms."]
    if done.stopped is not None:
        lines = [f"It was ended: it took more {done.stopped} than a command may."]
    if done.restored is not None:
        kept = "" if done.snapshot is None else f"; {safe(done.snapshot)} has it"
        lines.append(f"What it did was taken back{kept}.")
    elif done.snapshot is not None:
        lines.append(f"What it has left is in {safe(done.snapshot)}; `undo` takes that back.")
    parts = [f"{name}:\n{text}" for name, text in _said_by(done) if text]
    content, is_escaped = safe_content("\n".join(parts))
    return answer([*lines, *_note_of(is_escaped=is_escaped)], content or None)


def _said_by(done: Executed) -> Iterator[tuple[str, str]]:
    """Yields what a command said; of much, the end, where it says what went wrong."""
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        most = LONGEST_ANSWER // 2
        yield name, text if len(text) <= most else f"…{text[-most:]}"


def _is_file(change: Change) -> bool:
    has_size = change.old_bytes is not None or change.new_bytes is not None
    return change.plane is Plane.FILES and has_size


def _is_comparable(change: Change) -> bool:
    largest = max(change.old_bytes or 0, change.new_bytes or 0)
    is_long = len(change.key) > LONGEST_PATTERN and _MAGIC.search(change.name) is not None
    return largest <= LARGEST_COMPARED and not is_long


def _literal(name: str) -> str:
    """Returns the pattern that a name alone matches: a path that has brackets is taken for one."""
    return _MAGIC.sub(r"[\g<0>]", name)


def _shown(data: bytes, *, is_begun: bool) -> tuple[str, bool, int] | None:
    """Returns bytes as text, if anything in it was escaped, and how many bytes it is.

    None if they are no text. Escaped, a text is longer: then it is of fewer bytes.
    """
    while True:
        found = _decoded(data, is_begun=is_begun)
        if found is None:
            return None
        content, is_escaped = safe_content(found[0])
        if len(content) <= LONGEST_ANSWER:
            return content, is_escaped, found[1]
        data = data[: len(data) // 2]


def _decoded(data: bytes, *, is_begun: bool) -> tuple[str, int] | None:
    """Returns bytes as text, and how many they are: a character may be cut at either end."""
    begin = 0
    if is_begun:
        # What a character goes on with: at most three bytes of it.
        while begin < min(3, len(data)) and data[begin] & 0xC0 == 0x80:  # noqa: PLR2004 - as UTF-8 marks them
            begin += 1
    for end in range(len(data), max(len(data) - 4, begin - 1), -1):
        try:
            text = data[begin:end].decode()
        except UnicodeDecodeError:
            continue
        # To show nothing of what is there would be to say the same again for ever.
        return None if "\0" in text or (data and not end) else (text, end)
    return None


def _at(moment: SnapshotInfo | None) -> str:
    return "now" if moment is None else f"at {snapshot_line(moment).strip()}"


def _note_of(*, is_escaped: bool) -> Iterator[str]:
    if is_escaped:
        yield "Control characters in it are written as \\xNN or \\uNNNN."


def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """Returns what a tool takes as JSON Schema, in one piece."""
    document = msgspec.json.schema(arguments)
    found = document["$defs"][arguments.__name__]
    return {key: value for key, value in found.items() if key not in ("title", "description")}


def _offer(
    run: Callable[[Subject, Any], Answer],
    arguments: type[Arguments],
    title: str,
    description: str,
    *,
    reads: bool = False,
    replaces: bool = False,
    repeats: bool = False,
) -> Offer:
    """Describes a tool: whether it only reads, replaces what is there, may be said again."""
    hints = ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=replaces,
        idempotent_hint=reads or repeats,
        open_world_hint=False,
    )
    tool = Tool(
        name=run.__name__.removesuffix("_"),
        title=title,
        description=description,
        input_schema=_schema_of(arguments),
        annotations=hints,
    )
    return Offer(tool, arguments, run)


_OFFERS: Final = (
    _offer(
        status,
        Nothing,
        "Status",
        "Shows which snapshot the timeline stands on, and what has changed since. Stores nothing.",
        reads=True,
    ),
    _offer(
        snapshot,
        Take,
        "Take a snapshot",
        "Keeps everything as it is now, as a point to come back to. Take one before anything "
        "risky: it costs little, and shares what did not change.",
    ),
    _offer(
        timeline,
        Page,
        "Timeline",
        "Lists snapshots, newest first: number, id, time, kind and label of each. `@` marks the "
        "one that the timeline stands on.",
        reads=True,
    ),
    _offer(
        diff,
        Compare,
        "Compare",
        "Shows what differs between two snapshots, or between one and now, with unified diffs of "
        "text files.",
        reads=True,
    ),
    _offer(
        read_file,
        Read,
        "Read a file",
        "Shows a text file as it was at a moment, up to 32 KiB at a time. It is not restored.",
        reads=True,
    ),
    _offer(
        list_files,
        List,
        "List files",
        "Lists files as they were at a moment.",
        reads=True,
    ),
    _offer(
        restore,
        Restore,
        "Restore",
        "Brings a snapshot back, all of it or some paths. Without `confirm` it only says what "
        "would change. What is there now is kept as a snapshot first, and `undo` takes it back.",
        replaces=True,
        repeats=True,
    ),
    _offer(
        undo,
        Undo,
        "Undo",
        "Takes the last change back, what is in no snapshot yet included; or only what one "
        "operation or task changed. What was there is kept, and `redo` or `undo` takes it back.",
        replaces=True,
    ),
    _offer(redo, Nothing, "Redo", "Takes the last undo back.", replaces=True),
    _offer(
        fork,
        Fork,
        "Fork",
        "Makes a new namespace with the same content, for another attempt. This one stays as it "
        "is, and so do these tools.",
    ),
)

TOOLS: Final = {offer.tool.name: offer for offer in _OFFERS}
"""Every tool, by its name."""

_EXEC: Final = _offer(
    exec_,
    Exec,
    "Run a command",
    "Runs a command of bash in a sandbox, where the files are: no network, no other files, half a "
    "minute. What it changes is kept as a snapshot, which `undo` takes back.",
    replaces=True,
)

WITH_COMMANDS: Final = {**TOOLS, _EXEC.tool.name: _EXEC}
"""The same where commands are run."""

"""What differs between two moments, over all planes, in time that follows what differs.

Maps are compared by skipping what they share. Text diffs are made on demand, for one path at a
time and with a bound on size, work and time: file content is an attacker's to choose.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from holdfast.engine.core.decoding import indented_bytes
from holdfast.engine.core.limits import check_limit
from holdfast.engine.core.linediff import Unify, unify
from holdfast.engine.core.paths import to_text
from holdfast.engine.core.wellformed import check_msgpack
from holdfast.engine.files.fitting import has_live_below
from holdfast.engine.files.reader import kind_of
from holdfast.engine.memory.plane import memory_text
from holdfast.engine.objects import content
from holdfast.engine.planes.storevalues import decode_value
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.state import StateSource
from holdfast.entries import (
    DIRECTORY_TAG,
    TWIN_TAGS,
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    Memory,
    Session,
    decode_entry,
    tag_of,
)
from holdfast.errors import TooLarge
from holdfast.ids import ObjectId
from holdfast.instants import from_us
from holdfast.model.basics import Plane, Root
from holdfast.model.changes import Change, Changes, counted, tally
from holdfast.model.files import USUAL_DIRECTORY_MODE
from holdfast.storekeys import from_store_key
from holdfast.tree import Edit, NodeSource, diff

MAX_TEXT_BYTES: Final = 1 << 20
"""Files above this are compared by size alone."""

MAX_SHOWN_BYTES: Final = 4 << 20
"""States and values are compared a line for each part, unless that takes more than this: deep in
other lists, a megabyte of numbers is a hundred of lines."""

MAX_VALUES: Final = 100_000
"""A value of the store with more parts gets no text: each would be a line of its own."""

TOO_DIFFERENT: Final = "Too different to compare line by line"

NO_METADATA: Final = "{}"

_INDENT: Final = 2

_TIME_BYTES: Final = 9
"""What a number takes in msgpack at the most."""

Maps = tuple[ObjectId, ObjectId]
"""The maps of one plane at two moments."""


def iter_changes(
    source: NodeSource, old: Root, new: Root, *, planes: Iterable[Plane] = tuple(Plane)
) -> Iterator[Change]:
    """Yields what leads from one root to another; nothing of a plane that one does not hold."""
    for plane in planes:
        if not (old.holds(plane) and new.holds(plane)):
            continue
        maps = old.plane(plane), new.plane(plane)
        yield from to_changes(source, plane, diff(source, *maps), maps)


def collect_changes(changes: Iterator[Change], *, limit: int | None, counts: bool) -> Changes:
    """Returns up to `limit` changes, and whether there were more.

    With `counts`, also how many: that takes time in proportion to all that differs. Without it,
    nothing behind the limit but one is looked at.
    """
    check_limit(limit)
    items = list(islice(changes, limit))
    if not counts:
        return Changes(items, truncated=limit is not None and next(changes, None) is not None)
    return counted(items, tally(changes))


def to_changes(
    source: NodeSource, plane: Plane, edits: Iterable[Edit], maps: Maps
) -> Iterator[Change]:
    """Yields edits between two maps as changes, but for those of times of modification alone."""
    for edit in edits:
        old, new = entries_of(source, edit, maps)
        word = find_word(old, new)
        if word is not None:
            yield Change(
                plane,
                edit.key,
                entry_name(plane, edit.key),
                word,
                old,
                new,
                None if old is None else old.size,
                None if new is None else new.size,
            )


def word_of(source: NodeSource, edit: Edit, maps: Maps) -> str | None:
    """Returns what happened to the key of an edit between two maps, as `to_changes` has it.

    For who counts: most entries need not be decoded for that.
    """
    old, new = edit.old, edit.new
    if old is not None and new is not None:
        # What ends with a time has it in the last nine bytes, but for a file of several names.
        # Where the rest of the shorter one is not how the other begins, something else differs.
        rest = min(len(old), len(new)) - _TIME_BYTES
        if rest > 0 and old[:rest] != new[:rest] and tag_of(old) not in TWIN_TAGS:
            return "changed"
    elif tag_of(old or new or b"") != DIRECTORY_TAG:
        # A directory that gets or loses its entry need not come or go.
        return "added" if old is None else "removed"
    return find_word(*entries_of(source, edit, maps))


def entries_of(source: NodeSource, edit: Edit, maps: Maps) -> tuple[Entry | None, Entry | None]:
    """Returns what an edit between two maps leads from, and to."""
    old, new = (None if data is None else decode_entry(data) for data in (edit.old, edit.new))
    return with_implied(source, edit.key, (old, new), maps)


def with_implied(
    source: NodeSource, key: bytes, entries: tuple[Entry | None, Entry | None], maps: Maps
) -> tuple[Entry | None, Entry | None]:
    """Returns what two maps have at a path, also where they have no entry of a directory there.

    It has one only if it is empty, or its mode is not the usual one: that it gets or loses its
    entry does not make it come or go.
    """
    old, new = entries
    if old is None and isinstance(new, Directory):
        old = _implied(source, maps[0], key)
    elif new is None and isinstance(old, Directory):
        new = _implied(source, maps[1], key)
    return old, new


def _implied(source: NodeSource, files: ObjectId, key: bytes) -> Directory | None:
    """Returns the directory that what lies in it tells of; None if there is none."""
    return Directory(USUAL_DIRECTORY_MODE) if is_folder_in(source, files, key) else None


def is_folder_in(source: NodeSource, files: ObjectId, key: bytes) -> bool:
    """Says whether something lies below a path."""
    return has_live_below(source, files, key, {})


def find_word(old: Entry | None, new: Entry | None) -> str | None:
    """Returns what happened to an entry; None if only its time of modification differs."""
    if old is None:
        return "added"
    if new is None:
        return "removed"
    return None if timeless(old) == timeless(new) else "changed"


def text_diff(
    source: StateSource,
    change: Change,
    *,
    context_lines: int = 3,
    is_over: Callable[[], bool] = lambda: False,
    unify: Unify = unify,
) -> str:
    """Returns a unified diff of one change, or a line that says why there is none.

    Texts that take too much work to compare, or whose reader is gone (`is_over`), get a line that
    says so and a coarse diff: what was not compared is replaced as a whole.
    """
    old, new = _text(source, change, change.old), _text(source, change, change.new)
    if old is None or new is None:
        return f"Binary or large: {_sizes(change)}\n"
    names = f"a/{change.name}", f"b/{change.name}"
    found = unify(old, new, names=names, context_lines=context_lines, is_over=is_over)
    if found.is_coarse:
        return f"{TOO_DIFFERENT}: {_sizes(change)}\n{found.text}"
    return found.text


def _sizes(change: Change) -> str:
    if change.old is None:
        return f"added, {change.new_bytes} bytes"
    if change.new is None:
        return f"removed, {change.old_bytes} bytes"
    return f"{change.old_bytes} -> {change.new_bytes} bytes"


def _text(source: StateSource, change: Change, entry: Entry | None) -> str | None:
    """Returns an entry as text to compare; None if it is not text, or too much of it."""
    match entry:
        case None:
            return ""
        case Session():
            return _session_text(source, change, entry)
        case Memory():
            return memory_text(source, change.key, entry)
        case Inline() | Blob():
            if entry.size > MAX_TEXT_BYTES:
                return None
            return _decoded(content.read(source, entry), change.plane)
        case _:
            return f"{to_text(entry.target) if isinstance(entry, Link) else kind_of(entry)}\n"


def _session_text(source: StateSource, change: Change, session: Session) -> str | None:
    """Returns what a session is, how much was said, and its state a line for each part."""
    if session.size > MAX_TEXT_BYTES:
        return None
    lines = [f"agent: {session.agent_id}"]
    if session.user_id is not None:
        lines.append(f"user: {session.user_id}")
    if session.metadata != NO_METADATA:
        lines.append(f"metadata: {session.metadata}")
    if session.expires_us is not None:
        lines.append(f"expires: {from_us(session.expires_us).isoformat()}")
    count = "1 turn" if session.turns == 1 else f"{session.turns} turns"
    is_elsewhere = len({e.branch for e in (change.old, change.new) if isinstance(e, Session)}) > 1
    # As many as before can be others than before.
    lines.append(f"{count} on {session.branch}" if is_elsewhere and session.turns else count)
    state = _indented(states.read(source, session.state))
    return None if state is None else "\n".join(lines) + "\n" + state


def _indented(value: object) -> str | None:
    """Returns a value with a line for each part; None if that is too much."""
    text = msgspec.json.encode(value, order="sorted")
    if indented_bytes(text, indent=_INDENT) > MAX_SHOWN_BYTES:
        return None
    return msgspec.json.format(text, indent=_INDENT).decode() + "\n"


def _decoded(data: bytes, plane: Plane) -> str | None:
    if plane is Plane.STORE:
        try:
            check_msgpack(data, most=MAX_VALUES)
        except TooLarge:
            return None
        return _indented(decode_value(data))
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def timeless(entry: Entry) -> Entry:
    """Returns an entry without its time of modification."""
    if isinstance(entry, Inline | Blob | Link):
        return msgspec.structs.replace(entry, mtime_ns=0)
    return entry


def is_alike(one: bytes | None, other: bytes | None) -> bool:
    """Says whether two entries differ in no more than when, or how often, they were written."""
    if one is None or other is None or one == other:
        return one == other
    return _content(one) == _content(other)


def _content(data: bytes) -> Entry:
    entry = decode_entry(data)
    if isinstance(entry, Memory):
        return msgspec.structs.replace(entry, version=0, updated_us=0)
    return timeless(entry)


def entry_name(plane: Plane, key: bytes) -> str:
    """Returns how people call an entry: its path, its id, or `namespace/key` in the store."""
    if plane is Plane.STORE:
        return "/".join(from_store_key(key))
    return to_text(key)

"""Writes the store, sessions and memories of a snapshot into its commit, if that is wanted.

As with files, only what differs between two roots is read and written, and the same rules say what
stays here: patterns match the names of values, sessions and memories, and a text in which
something looks like a secret is named as missing and not written.
"""

from contextlib import suppress
from hashlib import blake2b
from typing import Final

from holdfast.engine.archives.memoryfile import write_memory
from holdfast.engine.archives.sessionfile import write_session, write_turns
from holdfast.engine.core.decoding import check_packed, check_texts
from holdfast.engine.gitbackup.planefiles import (
    FOLDERS,
    MOST_BYTES,
    SESSION,
    Text,
    member_text,
    memory_path,
    session_folder,
    turn_path,
    value_path,
    value_text,
)
from holdfast.engine.gitbackup.rules import BY_SIZE, Rules
from holdfast.engine.gitbackup.tokens import has_token
from holdfast.engine.objects import content
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.following import session_of
from holdfast.entries import Blob, Inline, Session, decode_entry
from holdfast.errors import Damaged, TooLarge
from holdfast.git.repository import FILE, Writer
from holdfast.model.basics import Plane, Root
from holdfast.storekeys import from_store_key
from holdfast.tree import Edit, diff

_HERE: Final = b"/"
"""What the names of what stays here begin with, as no path of a file does."""


class PlanesOut:
    """The planes beside files, on their way into one stream of commits."""

    def __init__(self, handle: Handle, writer: Writer, rules: Rules, lacks: dict[str, str]) -> None:
        self._handle, self._writer, self._rules = handle, writer, rules
        self._objects, self._lacks = handle.objects, lacks

    def write(self, old: Root, new: Root) -> None:
        """Writes what differs between two roots."""
        bring = {
            Plane.STORE: self._bring_value,
            Plane.SESSIONS: self._bring_session,
            Plane.MEMORIES: self._bring_memory,
        }
        for plane in self._rules.planes:
            for edit in diff(self._objects, old.plane(plane), new.plane(plane)):
                bring[plane](edit)

    def _bring_value(self, edit: Edit) -> None:
        path = value_path(edit.key)
        label = b"/".join(part.encode() for part in from_store_key(edit.key))
        if edit.new is None:
            self._delete(path, label)
            return
        entry = decode_entry(edit.new)
        if not isinstance(entry, Inline | Blob):
            raise Damaged("an entry of the store is not a value")
        text = None
        if entry.size <= MOST_BYTES:
            packed = content.read(self._objects, entry)
            with suppress(TooLarge, RecursionError):
                check_packed(self._handle.context.limits, packed, what="a value")
                text = value_text(edit.key, packed)
        self._put(path, label, text)

    def _bring_memory(self, edit: Edit) -> None:
        path = memory_path(edit.key.decode())
        if edit.new is None:
            self._delete(path, edit.key)
            return
        # What it means to somebody's model is made of what it says, and nothing to read.
        member = write_memory(self._objects, edit.key, edit.new, has_embedding=False)
        self._put(path, edit.key, member_text(member))

    def _bring_session(self, edit: Edit) -> None:
        folder = session_folder(edit.key.decode())
        old = None if edit.old is None else session_of(edit.old)
        new = None if edit.new is None else session_of(edit.new)
        if new is None:
            self._delete(folder + b"/" + SESSION, edit.key)
        else:
            text = None
            if new.size <= MOST_BYTES:
                text = self._text_of(write_session(edit.key.decode(), new, self._objects))
            self._put(folder + b"/" + SESSION, edit.key, text)
        self._bring_turns(folder, edit.key, old, new)

    def _bring_turns(
        self, folder: bytes, label: bytes, old: Session | None, new: Session | None
    ) -> None:
        """Writes the turns that are new: what a branch has said once it says for ever."""
        before, after = (0 if each is None else each.turns for each in (old, new))
        is_same = old is not None and new is not None and old.branch == new.branch
        first = min(before, after) if is_same else 0
        for number in range(max(first, after) + 1, before + 1):
            self._delete(turn_path(folder, number), label)
        if new is None or first == after:
            return
        with self._handle.context.catalog.read() as transaction:
            lines = write_turns(transaction, self._handle.tenant_id, new, after=first)
            for number, line in enumerate(lines, start=first + 1):
                text = self._text_of(line) if len(line) <= MOST_BYTES else None
                self._put(turn_path(folder, number), label, text)

    def _text_of(self, member: bytes) -> Text | None:
        """Returns the file of what an archive has as a member; None if it holds too much."""
        with suppress(TooLarge, RecursionError):
            check_texts(self._handle.context.limits, [member], what="a session")
            return member_text(member)
        return None

    def _put(self, path: bytes, label: bytes, text: Text | None) -> None:
        """Writes a file, or notes why it stays here; None for what is too large."""
        self._forget(path, label)
        reason = self._rules.by_name(label)
        if reason is None and (text is None or len(text.data) > self._rules.file_bytes):
            reason = BY_SIZE
        if reason is None and text is not None:
            reason = self._rules.by_content([text.data, b"\n", text.words])
        if reason is None and text is not None:
            self._writer.put(path, FILE, len(text.data), [text.data])
        else:
            self._lacks[self._name(path, label)] = reason or BY_SIZE
            self._writer.delete(path)

    def _delete(self, path: bytes, label: bytes) -> None:
        self._forget(path, label)
        self._writer.delete(path)

    def _forget(self, path: bytes, label: bytes) -> None:
        """Takes a file off the list of what stays here."""
        if self._lacks:
            self._lacks.pop(self._name(path, label), None)

    def _name(self, path: bytes, label: bytes) -> str:
        """Returns a path as the list of what stays here has it, which is no secret.

        A file's name is like what it is of, and not in every letter: where that looks like a
        secret, nothing of it is said.
        """
        if self._rules.finds_tokens and has_token([label]):
            plane = next(folder for folder in FOLDERS.values() if path.startswith(folder + b"/"))
            path = plane + b"/" + blake2b(path, digest_size=16).hexdigest().encode()
        return (_HERE + path).decode()

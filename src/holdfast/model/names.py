"""What an entry is called, to the letter: how single ones are chosen.

The same on every door: a program makes one, a client sends it as it is, and a snapshot's detail
keeps it. Whether there is such an entry is the engine's to say.
"""

import os
from base64 import b64encode
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidPath, InvalidValue
from holdfast.model.marks import Shape


class Name(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a plane. Nothing in it is a pattern.

    A file or a directory, with all that is below it; one value of the store; one session; one
    memory.
    """

    plane: str
    """`files`, `store`, `sessions` or `memories`."""
    name: str | None = None
    """The path, from the root of the namespace; the id of a session or memory; in the store
    `namespace/key`, where that has one slash."""
    namespace: str | None = None
    """In the store, the namespace: with `key`, in place of a name."""
    key: str | None = None
    """In the store, the key."""
    name_b64: str | None = None
    """The bytes of a path that is not UTF-8, in base64: they count, where there is a name, too."""

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how it is sent: as it is, but for what is not UTF-8, which is bytes."""
        return Shape(cls, _sendable)

    @classmethod
    def file(cls, path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> "Name":
        """Returns the name of a file, or of a directory and all that is below it."""
        raw = os.fspath(path)
        try:
            known = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as exc:
            raise InvalidPath(repr(raw), reason="it holds half a character") from exc
        try:
            return cls("files", known.decode("utf-8"))
        except UnicodeDecodeError:
            return cls("files", name_b64=b64encode(known).decode("ascii"))

    @classmethod
    def value(cls, namespace: str, key: str) -> "Name":
        """Returns the name of one value of the store."""
        return cls("store", namespace=namespace, key=key)

    @classmethod
    def session(cls, session_id: str) -> "Name":
        """Returns the name of one session."""
        return cls("sessions", session_id)

    @classmethod
    def memory(cls, memory_id: str) -> "Name":
        """Returns the name of one memory."""
        return cls("memories", memory_id)


def _sendable(name: Name) -> Name:
    if name.plane != "files" or name.name is None:
        return name
    name_b64 = name.name_b64 or Name.file(name.name).name_b64
    return name if name_b64 is None else replace(name, name=None, name_b64=name_b64)


PathOrName = str | bytes | os.PathLike[str] | os.PathLike[bytes] | Name
"""What a single entry may be called where one is asked for: a bare path is a file's."""


def to_name(name: PathOrName) -> Name:
    """Returns what names one entry; raises `InvalidValue` for what names none."""
    if isinstance(name, Name):
        return name
    if not isinstance(name, str | bytes | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        raise InvalidValue("a holdfast.Name is asked for, such as Name.value('notes', 'todo')")
    return Name.file(name)


def check_names(kind: str, names: Sequence[Name]) -> Sequence[Name]:
    """Returns what is given as names; raises `InvalidValue` for what is something else."""
    if not all(isinstance(name, Name) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        raise InvalidValue(f"{kind} is a list of holdfast.Name, such as Name.file('a.txt')")
    return names

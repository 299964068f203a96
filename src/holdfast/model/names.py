"""What an entry is called, to the letter: how single ones are chosen.

The same on every door: a program makes one, a client sends it as it is, and a snapshot's detail
keeps it. Whether there is such an entry is the engine's to say.

Paths of files as they stand in requests and answers.

Names are bytes, and over HTTP they are text. One that is no UTF-8 is answered with what is none of
it replaced, and beside that as it is, in base64: so it can be asked for, too. Where a request would
change something it is not sent, as it would come to mean another file. The root of a namespace is
called `workspace`: a path may be said with that before it or without. Whether it is a sound one is
the engine's to say.
"""

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidPath, InvalidValue
from holdfast.jsontext import legible
from holdfast.model.marks import AS_BYTES, Shape


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
        name_b64 = to_b64(path)
        if name_b64 is not None:
            return cls("files", name_b64=name_b64)
        return cls("files", to_raw(path).decode("utf-8"))

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


def to_raw(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """Returns the bytes of a path; raises `InvalidPath` for what has none."""
    raw = os.fspath(path)
    try:
        return raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise InvalidPath(repr(raw), reason="it holds half a character") from exc


def to_b64(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> str | None:
    """Returns the bytes of a path that is not UTF-8, in base64; None for one that is."""
    if isinstance(path, str) and path.isascii():
        return None
    raw = to_raw(path)
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return b64encode(raw).decode("ascii")
    return None


def from_b64(text: str) -> str:
    """Returns a path that was sent as its bytes; raises `InvalidPath` for what is no base64."""
    try:
        return b64decode(text, validate=True).decode("utf-8", "surrogateescape")
    except ValueError as exc:
        raise InvalidPath(text, reason="it is not base64") from exc


PREFIX: Final = "workspace"

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def sent_path(path: PathLike) -> str:
    """Returns a path as it is sent; raises `InvalidPath` for one that cannot be."""
    return f"{PREFIX}/{sent_text(path)}"


def sent_text(path: PathLike) -> str:
    """Returns a path, or the target of a link, as text; raises `InvalidPath` for what is none."""
    raw = os.fspath(path)
    try:
        return raw.encode("utf-8").decode("utf-8") if isinstance(raw, str) else raw.decode("utf-8")
    except UnicodeError as exc:
        raise InvalidPath(raw, reason="a server is told paths as UTF-8") from exc


def read_path(path: str) -> str:
    """Returns the path that a request means: empty for the root."""
    bare = path.lstrip("/")
    if bare == PREFIX:
        return ""
    return bare.removeprefix(f"{PREFIX}/")


def legible_path(path: str) -> str:
    """Returns a path as it is answered where it has the prefix."""
    return f"{PREFIX}/{legible_name(path)}"


def legible_name(name: str) -> str:
    """Returns a name as it is answered; what is no UTF-8 in it is replaced."""
    return legible(name)


FilePath = Annotated[PathLike, Shape(str, sent_path, read_path), AS_BYTES]
"""A path that is asked for."""

PathText = Annotated[PathLike, Shape(str, sent_text), AS_BYTES]
"""What paths begin with, or where a link points: as it is."""

FileName = Annotated[str, Shape(str, legible_name), AS_BYTES]
"""A path that is answered."""

LinkTarget = Annotated[str | None, Shape(str | None, legible), AS_BYTES]
"""Where a link points, that is answered; None if it is none."""

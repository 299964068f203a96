"""The store, sessions and memories of a namespace as files of a commit: JSON for people to read.

There is a file for each value, session, turn and memory, so that a commit costs what has changed.
What a file is of stands in it. Its name follows from that, and is for people: a text that is no
plain name on every file system is cut short there, with its hash behind it. `docs/format.md` has
the rules.

Values are to come back to the last bit. One that JSON would bring back otherwise (with bytes in
it, instants, or keys that are no text) is there as the msgpack that the store has of it.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, cast

import msgspec

from holdfast.engine.archives.jsontext import check_json
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.wellformed import check_msgpack
from holdfast.engine.planes.storevalues import decode_value
from holdfast.errors import Invalid, TooLarge, Unencodable, UnsafeArchive
from holdfast.git.names import OWN
from holdfast.jsontext import to_json
from holdfast.model.basics import Plane
from holdfast.operations.gitbackups import PLANES
from holdfast.store.codec import encode
from holdfast.storekeys import from_store_key, to_store_key

MOST_BYTES: Final = 8 << 20
"""Of a value, state or turn: what is larger stays here. One at a time is in memory."""

FOLDERS: Final = {plane: OWN + b"/" + plane.value.encode() for plane in PLANES}
SESSION: Final = b"session.json"
_TURNS: Final = b"turns"
_TURN: Final = re.compile(rb"([0-9]{8,15})\.json")

_PLAIN: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,98}[a-z0-9_-])?")
"""Without capitals: where those do not count, two names would be one."""

_UNPLAIN: Final = re.compile(r"[^a-z0-9_]+")
_READABLE_CHARS: Final = 40
_DEEPEST: Final = 16
_SHORT_BYTES: Final = 64 << 10
_TIMES: Final = 4
"""What is nested more deeply, or long and would be several times as long, is not indented."""

NOT_SAID: Final = msgspec.Raw()


class StoreFile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What the file of a value holds: the value, or its msgpack."""

    namespace: str
    key: str
    value: msgspec.Raw = NOT_SAID
    packed: bytes | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """What a file holds, and the words in it by themselves: no escape hides what they are."""

    data: bytes
    words: bytes


# Names


def value_path(key: bytes) -> bytes:
    """Returns the path of the file of a value."""
    namespace, name = from_store_key(key)
    return b"%s/%s/%s.json" % (FOLDERS[Plane.STORE], _name(namespace), _name(name))


def session_folder(session_id: str) -> bytes:
    """Returns the path of the folder of a session."""
    return FOLDERS[Plane.SESSIONS] + b"/" + _name(session_id)


def turn_path(folder: bytes, number: int) -> bytes:
    """Returns the path of the file of a turn, in the folder of its session."""
    return b"%s/%s/%08d.json" % (folder, _TURNS, number)


def memory_path(memory_id: str) -> bytes:
    """Returns the path of the file of a memory."""
    return b"%s/%s.json" % (FOLDERS[Plane.MEMORIES], _name(memory_id))


def number_of(path: bytes) -> int | None:
    """Returns the number of the turn that a path in a session's folder is of; None for another."""
    folder, _, name = path.rpartition(b"/")
    found = _TURN.fullmatch(name)
    if found is None or folder.rpartition(b"/")[2] != _TURNS:
        return None
    number = int(found[1])
    return number if turn_path(folder.rpartition(b"/")[0], number) == path else None


def _name(text: str) -> bytes:
    if _PLAIN.fullmatch(text):
        return text.encode()
    readable = _UNPLAIN.sub("-", text.lower())[:_READABLE_CHARS].strip("-")
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{readable}+{digest}".encode()


# Texts


def value_text(key: bytes, packed: bytes) -> Text:
    """Returns the file of a value that is packed as the store does."""
    namespace, name = from_store_key(key)
    value = decode_value(packed)
    told = StoreFile(namespace=namespace, key=name, packed=packed)
    try:
        text = to_json(value)
        if encode(msgspec.json.decode(text)) == packed:
            told = StoreFile(namespace=namespace, key=name, value=msgspec.Raw(text))
    except Unencodable:
        pass  # JSON has no such value.
    return _laid_out(msgspec.json.encode(told), value)


def member_text(data: bytes) -> Text:
    """Returns the file of what an archive has as a member."""
    return _laid_out(data, msgspec.json.decode(data))


def read_value(data: bytes, limits: Limits, *, name: bytes) -> tuple[bytes, bytes]:
    """Returns the key of a value, and the value packed; raises unless the file is one of ours."""
    try:
        told = msgspec.json.decode(compact(data), type=StoreFile)
        key = to_store_key(told.namespace, told.key)
        if (told.packed is None) == (bytes(told.value) == b""):
            raise UnsafeArchive("it holds no value, or two", member=name)
        if told.packed is None:
            check_json(bytes(told.value), most=limits.decoded_values)
            packed = encode(msgspec.json.decode(told.value))
        else:
            check_msgpack(told.packed, most=limits.decoded_values)
            packed = told.packed
    except (ValueError, RecursionError, Invalid) as exc:
        raise UnsafeArchive(f"it holds no value of the store: {exc}", member=name) from exc
    if len(packed) > limits.value_bytes:
        raise TooLarge(f"a value may have {limits.value_bytes} bytes; one has more")
    return key, packed


def compact(data: bytes) -> bytes:
    """Returns JSON without what is there for people alone."""
    return msgspec.json.format(data, indent=-1)


def _laid_out(data: bytes, value: object) -> Text:
    words, deepest = _words_of(value)
    lines = 2 * sum(map(data.count, (b",", b"[", b"{")))
    spaces = lines * 2 * (deepest + 2)  # At the most.
    is_short = len(data) <= _SHORT_BYTES or spaces <= _TIMES * len(data)
    is_laid_out = is_short and deepest <= _DEEPEST
    text = msgspec.json.format(data, indent=2) if is_laid_out else compact(data)
    return Text(text + b"\n", words)


def _words_of(value: object) -> tuple[bytes, int]:
    """Returns all text in a value, and names of text beside it; and how deep the value is."""
    words, deepest, left = list[bytes](), 0, [(value, 0)]
    while left:
        part, depth = left.pop()
        deepest = max(deepest, depth)
        match part:
            case str():
                words.append(_encoded(part))
            case bytes():
                words.append(part)
            case dict():
                for key, each in cast("dict[Any, Any]", part).items():
                    left += [(key, depth + 1), (each, depth + 1)]
                    if isinstance(key, str) and isinstance(each, str):
                        words.append(_encoded(f"{key}={each}"))
            case list() | tuple():
                left += [(each, depth + 1) for each in cast("list[Any]", part)]
            case _:
                pass  # A number is no secret.
    return b"\n".join(words), deepest


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")

"""Keys of the store as a map holds them: bytes, and back; and what the log of a store is called.

Here a *namespace* is the first half of a key, chosen by the caller; the namespace of the vault
is the whole store. Keys sort by namespace, then by key, as their texts do.
"""

from hashlib import blake2b
from typing import Final

from holdfast.errors import Damaged, InvalidValue

MAX_KEY_BYTES: Final = 4095
"""As for paths: a key stays a small part of a node."""

_ESCAPED, _PLAIN = b"\0\xff", b"\0"


LOG: Final = ".log"
NEW_LOG: Final = ".new"
"""How the names of a log end, and of one that takes its place."""


def log_stem(namespace: str) -> str:
    """Returns how the name of the log begins that is kept for the store of a namespace."""
    return f"store-{blake2b(namespace.encode(), digest_size=8).hexdigest()}"


def to_store_key(namespace: str, key: str) -> bytes:
    """Returns the map key of a namespace and key; order follows namespace, then key."""
    try:
        # A NUL inside is escaped, one ends the namespace: UTF-8 never holds the byte FF, so
        # the two cannot be confused, whatever key follows.
        start = str.encode(namespace).replace(_PLAIN, _ESCAPED)
        encoded = start + _PLAIN + str.encode(key)
    except (TypeError, UnicodeEncodeError) as exc:
        raise _refusal(exc) from exc
    if len(encoded) > MAX_KEY_BYTES:
        message = f"namespace and key take {len(encoded)} bytes, {MAX_KEY_BYTES} is the most"
        raise InvalidValue(message)
    return encoded


def from_store_key(key: bytes) -> tuple[str, str]:
    """Returns the namespace and key that a map key stands for."""
    at = key.find(_PLAIN)
    while at != -1 and key[at : at + 2] == _ESCAPED:
        at = key.find(_PLAIN, at + 2)
    if at == -1:
        message = "a key of the store has no namespace"
        raise Damaged(message)
    return key[:at].replace(_ESCAPED, _PLAIN).decode(), key[at + 1 :].decode()


def namespace_start(namespace: str) -> bytes:
    """Returns what all map keys of a namespace begin with."""
    try:
        return str.encode(namespace).replace(_PLAIN, _ESCAPED) + _PLAIN
    except (TypeError, UnicodeEncodeError) as exc:
        raise _refusal(exc) from exc


def range_of(start: bytes, prefix: str | None) -> tuple[bytes, bytes]:
    """Returns from where to where the map keys are of the namespace that begins with `start`.

    With a prefix, those whose keys begin with it.
    """
    beginning = start + encode_text(prefix or "")
    # UTF-8 never holds the byte FF, so it is above whatever a key goes on with. After the keys of
    # `a` come those of `a NUL …`, whose escaped NUL begins the same way, and goes on with it.
    return beginning, beginning + b"\xff"


def encode_text(text: str) -> bytes:
    """Returns the beginning of a key as a map key has it."""
    try:
        return str.encode(text)
    except (TypeError, UnicodeEncodeError) as exc:
        raise _refusal(exc) from exc


def _refusal(exc: Exception) -> Exception:
    if isinstance(exc, UnicodeEncodeError):
        return InvalidValue("a namespace or key holds half a character")
    return TypeError("a namespace and a key are text")

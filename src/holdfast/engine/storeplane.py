"""The store plane: values by namespace and key, with the method names of the in-process store.

Here a *namespace* is the first half of a key, chosen by the caller; the namespace of the vault
is the whole store. Values are msgpack inside, so what is returned is never what was put: the
caller may change either. Every `set` is durable when it returns; `set_many` is one transaction.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from holdfast.engine import content
from holdfast.engine.files import Opened
from holdfast.engine.handle import Handle
from holdfast.engine.pending import Rows, change, change_rows
from holdfast.engine.stage import Stage
from holdfast.engine.view import View
from holdfast.entries import Blob, Inline, decode_entry, encode_entry
from holdfast.errors import Damaged, InvalidValue, TooLarge, Unencodable
from holdfast.model import Plane
from holdfast.tree import prefix_stop

MAX_KEY_BYTES = 4095
"""As for paths: a key stays a small part of a node."""

_ESCAPED, _PLAIN = b"\0\xff", b"\0"


class StoreReader:
    """The store at one moment, to read."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value for a key, or the default."""
        wanted = to_store_key(namespace, key)
        with self._opened() as view:
            data = view.get(wanted)
            return default if data is None else _value(view, data)

    def get_many(self, pairs: Iterable[tuple[str, str]]) -> list[Any]:
        """Returns the values in the order asked for; None for what is missing."""
        wanted = [to_store_key(namespace, key) for namespace, key in pairs]
        with self._opened() as view:
            found = view.get_many(sorted(set(wanted)))
            return [_value(view, found[k]) if k in found else None for k in wanted]

    def contains(self, namespace: str, key: str) -> bool:
        """Says whether there is a value for a key."""
        wanted = to_store_key(namespace, key)
        with self._opened() as view:
            return view.get(wanted) is not None

    def keys(self, namespace: str, prefix: str | None = None) -> list[str]:
        """Returns the keys of a namespace in order; with a prefix, those that begin with it."""
        start = _namespace_prefix(namespace)
        with self._opened() as view:
            found = _iter_keys(view, start, _text(prefix or ""))
            return [_decode(key[len(start) :]) for key, _ in found]

    def items(self, namespace: str, prefix: str | None = None) -> list[tuple[str, Any]]:
        """Returns keys and values of a namespace in the order of the keys."""
        start = _namespace_prefix(namespace)
        with self._opened() as view:
            found = _iter_keys(view, start, _text(prefix or ""))
            return [(_decode(key[len(start) :]), _value(view, data)) for key, data in found]

    def max_key(self, namespace: str) -> str | None:
        """Returns the greatest key of a namespace, or None."""
        return max(self.keys(namespace), default=None)

    def namespaces(self, prefix: str | None = None) -> list[str]:
        """Returns the namespaces that hold something, in order."""
        with self._opened() as view:
            return [name for name in _names(view) if name.startswith(prefix or "")]

    def __len__(self) -> int:
        with self._opened() as view:
            return view.count()

    def __contains__(self, namespace: object) -> bool:
        if not isinstance(namespace, str):
            return False
        with self._opened() as view:
            return next(_iter_keys(view, _namespace_prefix(namespace)), None) is not None


class Store(StoreReader):
    """The store at the head of a namespace, to read and to change."""

    def __init__(self, handle: Handle, opened: Opened) -> None:
        super().__init__(opened)
        self._handle = handle

    def set(self, namespace: str, key: str, value: Any) -> None:
        """Puts a value under a key."""
        self.set_many([(namespace, key, value)])

    def set_many(self, items: Iterable[tuple[str, str, Any]]) -> None:
        """Puts many values, all or none of them."""
        most = self._handle.context.limits.value_bytes
        encoded = {to_store_key(n, k): encode_value(v, max_bytes=most) for n, k, v in items}

        def prepare(stage: Stage) -> Callable[[View], Rows]:
            rows = {
                key: encode_entry(content.as_value(stage, data)) for key, data in encoded.items()
            }
            return lambda _view: rows

        if encoded:
            change(self._handle, Plane.STORE, prepare)

    def delete(self, namespace: str, key: str) -> bool:
        """Deletes a key; says whether it was there."""
        wanted, was_there = to_store_key(namespace, key), list[bool]()

        def compute(view: View) -> Rows:
            was_there[:] = [view.get(wanted) is not None]
            return {wanted: None} if was_there[0] else {}

        change_rows(self._handle, Plane.STORE, compute)
        return was_there[0]

    def clear(self) -> None:
        """Deletes every key of every namespace."""
        change_rows(
            self._handle, Plane.STORE, lambda view: dict.fromkeys(k for k, _ in view.iterate())
        )


def to_store_key(namespace: str, key: str) -> bytes:
    """Returns the map key of a namespace and key; order follows namespace, then key."""
    encoded = _namespace_prefix(namespace) + _text(key)
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
    return _decode(key[:at].replace(_ESCAPED, _PLAIN)), _decode(key[at + 1 :])


def encode_value(value: Any, *, max_bytes: int) -> bytes:
    """Returns a value as msgpack; raises `Unencodable` or `TooLarge`."""
    try:
        data = msgspec.msgpack.encode(value)
        # Some values can be written and not read: a dataclass as a key, say. Found out now, it
        # is a mistake; found out later, it would be a loss.
        msgspec.msgpack.decode(data)
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        message = f"the value cannot be stored: {exc}"
        raise Unencodable(message) from exc
    if len(data) > max_bytes:
        message = f"a value may have {max_bytes} bytes; this one has {len(data)}"
        raise TooLarge(message)
    return data


def decode_value(data: bytes) -> Any:
    """Returns the value of msgpack bytes: plain data, never an object of a named class."""
    return msgspec.msgpack.decode(data)


def _value(view: View, data: bytes) -> Any:
    entry = decode_entry(data)
    if not isinstance(entry, Inline | Blob):
        message = "an entry of the store is not a value"
        raise Damaged(message)
    return decode_value(content.read(view.objects, entry))


def _iter_keys(view: View, start: bytes, beginning: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of the namespace that `start` stands for, by the beginning of keys."""
    stop = prefix_stop(start + beginning) if beginning else _namespace_stop(start)
    return view.iterate(start + beginning, stop)


def _names(view: View) -> Iterator[str]:
    at = b""
    while (found := next(view.iterate(at), None)) is not None:
        name, _ = from_store_key(found[0])
        yield name
        at = _namespace_stop(_namespace_prefix(name))


def _namespace_prefix(namespace: str) -> bytes:
    # A NUL inside is escaped, one ends the namespace: UTF-8 never holds the byte FF, so the
    # two cannot be confused, whatever key follows.
    return _text(namespace).replace(_PLAIN, _ESCAPED) + _PLAIN


def _namespace_stop(start: bytes) -> bytes:
    # After the keys of `a` come those of `a NUL …`, whose escaped NUL begins the same way.
    return start + b"\xff"


def _text(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidValue("a namespace or key holds half a character") from exc


def _decode(data: bytes) -> str:
    return data.decode("utf-8")

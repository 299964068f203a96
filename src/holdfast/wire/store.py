"""Requests and answers about the store."""

from typing import Any

import msgspec


class ValueRequest(msgspec.Struct, kw_only=True):
    """A value to put under a key: any JSON."""

    namespace: str
    key: str
    value: Any


class KeyPlace(msgspec.Struct, kw_only=True):
    """Where a value is."""

    namespace: str
    key: str


class ValueAnswer(msgspec.Struct, kw_only=True):
    """A value. What JSON does not know comes as an object with a name that begins with `$`."""

    namespace: str
    key: str
    value: Any


class BatchRequest(msgspec.Struct, kw_only=True):
    """Values to put, all or none of them; keys to read."""

    set: list[ValueRequest] | None = None
    get: list[KeyPlace] | None = None
    delete: list[KeyPlace] | None = None


class BatchAnswer(msgspec.Struct, kw_only=True):
    """What a batch did: how many were put and deleted, and the values in the order asked for."""

    set: int
    deleted: int
    values: list[ValueAnswer | None]


class ItemsAnswer(msgspec.Struct, kw_only=True):
    """Values by namespace and key; with `has_more`, more follows the last of them."""

    items: list[ValueAnswer]
    has_more: bool


class CountAnswer(msgspec.Struct, kw_only=True):
    """How many values there are."""

    count: int
    size_bytes: int | None
    """How much they take as msgpack, if that was asked for."""

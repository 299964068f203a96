"""What the keys open that come with requests: looked up every time, and made once.

A key's row is read anew for each request, so that one that was revoked is refused at once. What is
made of a row is kept for as long as the row stays as it is.
"""

from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import Final, Generic, TypeVar

from holdfast.engine.core.context import Context
from holdfast.engine.tenancy.keys import find_bearer
from holdfast.model.basics import Tenant
from holdfast.model.keys import Key, Scope

V = TypeVar("V")

MOST_KEPT: Final = 1000


class Bearers(Generic[V]):
    """Those who came lately, and what `make` made of a tenant for each."""

    def __init__(self, context: Context, make: Callable[[Context, Tenant], V]) -> None:
        self._context, self._make = context, make
        self._kept = dict[str, tuple[tuple[Key, Tenant], V]]()
        self._guard = Lock()

    def admit(self, secret: str) -> tuple[V, Key] | None:
        """Returns what a key opens, with whoever holds it as the actor; None for none."""
        found = find_bearer(self._context, secret)
        if found is None:
            return None
        key, tenant = found
        kept = self._kept.get(key.id)
        if kept is None or kept[0] != found:
            adds_only = key.scope is Scope.ADD_ONLY
            context = replace(self._context, actor=key.id, adds_only=adds_only)
            kept = found, self._make(context, tenant)
            with self._guard:
                self._kept[key.id] = kept
                if len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        return kept[1], key

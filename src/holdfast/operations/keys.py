"""API keys: who may speak for a workspace, decided by its operators."""

from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Annotated, Final

import msgspec

from holdfast.model.keys import Key, Me, NewKey
from holdfast.operations.operation import WORKSPACE, Operation, Who

_KEYS: Final = f"{WORKSPACE}/keys"

LONGEST: Final = timedelta(days=36_500)
MOST_REQUESTS: Final = 1_000_000_000

Term = Annotated[timedelta, msgspec.Meta(gt=0, le=int(LONGEST.total_seconds()))]
_Rate = Annotated[int, msgspec.Meta(ge=1, le=MOST_REQUESTS)]


class CreateKey(
    Operation[NewKey],
    post=_KEYS,
    status=201,
    who=Who.OPERATOR,
    is_secret=True,
):
    """Makes a key; its secret is in this answer and nowhere else.

    With `namespace`, it reaches that one alone. With `admin`, it is an operator's, and opens no
    agent's data; with `add_only`, it takes nothing of the history away. `rate_limit` is requests a
    minute.
    """

    name: str
    _: KW_ONLY
    namespace: str | None = None
    admin: bool = False
    add_only: bool = False
    expires_in: Term | None = None
    rate_limit: _Rate | None = None


class ListKeys(Operation[list[Key]], get=_KEYS, who=Who.OPERATOR, under="keys"):
    """Returns the keys that are not revoked, oldest first."""


class RevokeKey(
    Operation[None],
    delete=f"{_KEYS}/{{key_id}}",
    who=Who.OPERATOR,
    done="revoked",
    repeats=("key_id",),
):
    """Ends a key: the next request with it is refused, whoever answers it.

    Raises `KeyNotFound`, and `LastAdminKey` for one without which nobody could make another.
    """

    key_id: str


class GetMe(Operation[Me], get="/v1/me", who=Who.KEY, work=None):
    """Returns whose key this is, and what it opens."""

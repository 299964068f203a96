"""API keys: who may speak for a workspace, decided by its operators.

A program that waits is signed in by a person, and an ordinary key is made for it.
"""

from dataclasses import KW_ONLY
from datetime import timedelta
from typing import Annotated, Final

import msgspec

from holdfast.model.keys import Key, Me, NewKey, WaitingLogin
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


_LOGINS: Final = f"{WORKSPACE}/logins"
MAX_CODE_CHARS: Final = 32

Code = Annotated[str, msgspec.Meta(max_length=MAX_CODE_CHARS)]
"""What a program shows; how it is written does not matter."""


class FindLogin(Operation[WaitingLogin], post=f"{_LOGINS}/find", who=Who.OPERATOR, is_reading=True):
    """Returns the program that shows this code, and waits for a person to sign it in.

    Raises `LoginNotFound` if there is none, or it waits no more.
    """

    user_code: Code


class ApproveLogin(
    Operation[WaitingLogin],
    post=f"{_LOGINS}/approve",
    who=Who.OPERATOR,
):
    """Signs the program in that shows this code: it is given a key of its own, once.

    The key is made when the program asks again, is listed and revoked as all are, and is for what
    is said here: `namespace`, `admin`, `add_only` and `expires_in` as with `create_key`.
    """

    user_code: Code
    name: str
    _: KW_ONLY
    namespace: str | None = None
    admin: bool = False
    add_only: bool = False
    expires_in: Term | None = None


class DenyLogin(Operation[None], post=f"{_LOGINS}/deny", who=Who.OPERATOR, done="denied"):
    """Refuses the program that shows this code: it is told so, and waits no more."""

    user_code: Code

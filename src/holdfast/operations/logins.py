"""Programs that wait for a person to sign them in: one decides, and an ordinary key is made."""

from dataclasses import KW_ONLY
from typing import Annotated, Final

import msgspec

from holdfast.model.keys import WaitingLogin
from holdfast.operations.keys import Term
from holdfast.operations.operation import WORKSPACE, Operation, Who

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

"""What stands on the wire beside operations and values: problems, and what an exchange says.

The server decodes and encodes them; a client can do the same from the other end. Names of fields
are those of the contracts that we keep; a field that may be missing may also be null, and means
the same then. Nothing here has behaviour.
"""

from typing import Any, Final

import msgspec

MAX_NAMED_BYTES: Final = 8 << 20
"""The longest body of a request with an Idempotency-Key: a server reads it whole, to compare it."""


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What went wrong, and what to do about it."""

    code: str
    message: str
    type: str = ""
    param: str | None = None
    suggestion: str | None = None
    request_id: str | None = None
    retry_after: int | None = None
    conflicts: list[dict[str, Any]] | None = None
    cause: str | None = None
    """The code in detail, where `code` is one that a family of clients knows instead."""
    values: dict[str, Any] | None = None
    """What the sentence is about, by name: an id, a path, a number."""


class ProblemAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The body of every answer that is not a success.

    `detail` is a sentence; on routes for sessions, memories and traces it is there only where the
    request did not fit, and then lists what did not.
    """

    detail: str | list[dict[str, Any]] | None = None
    error: Problem

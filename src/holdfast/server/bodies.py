"""JSON bodies: read with care, since anybody may have written them.

What is no UTF-8, no JSON, or more than reason allows does not fit; `counting` says how much that
is, before anything is made of it. The rest is decoded straight into what the route takes: a field
that it does not know is passed over, and nothing is built for it.
"""

from typing import Any, Final

import msgspec
from litestar import Request

from holdfast.server import counting
from holdfast.server.problems import Unfit
from holdfast.server.threads import Work, in_thread

SMALL_BYTES: Final = 64 << 10
"""Up to here a body is decoded where it is: to count it, or to find a thread, would take longer."""


class JsonRequest(Request[Any, Any, Any]):
    """A request whose body is JSON, if it is anything."""

    async def json(self) -> Any:  # noqa: ANN401 - what the route takes
        """Returns what the body says, as the route takes it; raises `Unfit` or `TooLarge`."""
        wanted = self.route_handler.parsed_data_field
        kind = Any if wanted is None else wanted.annotation
        body = await self.body()
        if len(body) <= SMALL_BYTES:
            return decode(body, kind)
        return await in_thread(decode, body, kind, work=Work.HEAVY)


def decode(body: bytes, kind: Any) -> Any:  # noqa: ANN401 - any type, and a value of it
    """Returns what a body says; raises `Unfit` or `TooLarge`."""
    counting.check(body)
    try:
        # Clients may send numbers as text: what a parameter of a URL can be, a field can.
        return msgspec.json.decode(body, type=kind, strict=False)
    except msgspec.ValidationError as exc:
        what, _, where = str(exc).partition(" - at `$.")
        raise Unfit(f"{where.rstrip('`')}: {what}" if where else what) from exc
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Unfit(f"the body cannot be read: {exc}") from exc

"""What a server and an application say to each other: ASGI, as far as it is used here."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

LIVE: Final = "holdfast.live"
"""In the scope of a request whose answer tells what happens while it is sent: it has no size, and
no time by which all of it has to be taken."""

HAS_LEFT: Final = "holdfast.has_left"
"""In the scope of a request: says whether its client is gone, also where nobody reads from it."""

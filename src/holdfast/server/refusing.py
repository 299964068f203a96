"""Refuses a key that is over its rate limit at the door, for less than an answer costs.

A key that may make no request now is neither looked up nor routed, and nothing of its body is
read. Who asks again and again is answered once in a while: however many connections it has, its
refusals take next to nothing of the one loop that answers everybody. The answer is what a route
would have said.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from litestar.types import ASGIApp, Receive, Scope, Send

from holdfast.engine.keys import hash_of
from holdfast.server.callers import MOST_KNOWN, Caller, secret_of
from holdfast.server.problems import RateLimited, refusal
from holdfast.server.rates import Rates

KNOWN_S: Final = 1.0
"""How long a key is refused without being looked up: it may have a higher limit by now."""

APART_S: Final = 0.02
"""Between two refusals of one key, beyond the first: 50 a second take 1 % of the loop."""

ROUTE: Final = "refused"
"""What stands in the log and the metrics in place of a route: none was looked for."""


@dataclass(slots=True)
class _Known:
    """A key that was over its limit."""

    caller: Caller
    until: float
    """When it is to be looked up again."""
    next_at: float
    """When it may be refused next."""


class Refusing:
    """An application that those who are over their limit do not reach."""

    def __init__(
        self,
        app: ASGIApp,
        rates: Rates,
        public: frozenset[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._rates, self._public, self._clock = app, rates, public, clock
        self._known = dict[bytes, _Known]()
        """Keys that were over their limit when they last asked, by the hash of each."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, unless it is of a key that may make none."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._known and (known := self._find(scope)) is not None:
            await self._wait(known)
            error = self._error_of(known.caller)
            if error is not None:
                await _refuse(scope, send, known.caller, error)
                return
        await self._app(scope, receive, send)
        self._note(scope)

    def _find(self, scope: Scope) -> _Known | None:
        """Returns what is known of a key that may still be over its limit."""
        secret = secret_of(scope)
        if secret is None or (scope["path"].rstrip("/") or "/") in self._public:
            return None
        known = self._known.get(hash_of(secret))
        return known if known is not None and self._clock() < known.until else None

    def _note(self, scope: Scope) -> None:
        """Notes of a key that was admitted, or refused, whether its next request would be."""
        caller = cast("Caller | None", scope["state"].get("caller"))
        if caller is None or caller.key.rate_limit is None:
            return
        name = hash_of(cast("str", secret_of(scope)))
        before = self._known.pop(name, None)
        if self._error_of(caller) is not None:
            now = self._clock()
            next_at = now if before is None else before.next_at
            self._known[name] = _Known(caller, until=now + KNOWN_S, next_at=next_at)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def _error_of(self, caller: Caller) -> RateLimited | None:
        try:
            self._rates.check(caller)
        except RateLimited as error:
            return error
        return None

    async def _wait(self, known: _Known) -> None:
        """Waits for the turn of a refusal."""
        now = self._clock()
        at = max(now, known.next_at)
        known.next_at = at + APART_S
        if at > now:
            await asyncio.sleep(at - now)


async def _refuse(scope: Scope, send: Send, caller: Caller, error: RateLimited) -> None:
    scope["state"]["caller"], scope["path_template"] = caller, ROUTE
    status, headers, body = refusal(scope, error)
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})

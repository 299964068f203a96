"""Signing programs in: those that wait ask here without a key, and operators decide.

Anybody may ask for a code, so often and no more; whoever has none of 256 random bits asks for
nothing. Who tries codes that people type has to have an operator's key, and is counted, too.
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

import msgspec

from holdfast.engine.tenancy.keys import hash_of
from holdfast.engine.tenancy.logins import DeviceLogins
from holdfast.model.keys import WAITS, WaitingLogin
from holdfast.operations.keys import ApproveLogin, DenyLogin, FindLogin
from holdfast.server.browsers import Browsers
from holdfast.server.doors import answers
from holdfast.server.pages import HOME
from holdfast.server.requests import Caller, Request
from holdfast.server.responses import Response
from holdfast.server.routing import Route, Who, post
from holdfast.server.strangers import address_of
from holdfast.server.threads import in_thread
from holdfast.server.tries import Tries
from holdfast.wire.logins import LoginPolled, LoginStarted, PollLogin, StartLogin

INTERVAL_S: Final = 2
"""How long a program waits between two questions."""

EARLY_S: Final = 1.0
"""How much sooner than that it is told to slow down."""

POLLS: Final = 120
"""Questions that an address may ask in a minute, for all programs there."""

STARTS_OF_PROXY: Final = 60
"""Codes in a minute for whoever says that it asks for others, whom it may have made up: in the
time that a code is good for, not all that may wait."""

DECISIONS: Final = 30
"""Codes that the operators of a workspace may try in a minute."""

MOST_KNOWN: Final = 10_000


def make_routes(browsers: Browsers, logins: DeviceLogins) -> list[Route]:
    """Returns the routes of a server that people sign in to."""
    return [*_of_programs(browsers, logins), *_of_operators()]


def _of_programs(browsers: Browsers, logins: DeviceLogins) -> list[Route]:
    starts, asks, pace = Tries(most_of_proxy=STARTS_OF_PROXY), Tries(POLLS, POLLS * 10), Pace()

    @post("/v1/auth/device/start", who=Who.ANYBODY, is_secret=True, claims=False)
    async def start(request: Request, data: StartLogin | None = None) -> LoginStarted | Response:
        """Begins to sign a program in: a person approves the code, and the program asks again."""
        starts.count(request)
        place = f"{browsers.address(request)}{HOME}/device"
        told = request.headers.get(b"user-agent", b"").decode("latin-1")
        client, address = (data and data.client) or told, address_of(request)
        made = await in_thread(lambda: logins.start(client=client, address=address))
        started = LoginStarted(
            device_code=made.device_code,
            user_code=made.user_code,
            verification_uri=place,
            # Behind the `#`: it is sent to no server, and stands in no log.
            verification_uri_complete=f"{place}#code={made.user_code}",
            expires_in=int(WAITS.total_seconds()),
            interval=INTERVAL_S,
        )
        return _told(started)

    @post("/v1/auth/device/poll", who=Who.ANYBODY, is_secret=True, claims=False)
    async def poll(request: Request, data: PollLogin) -> LoginPolled | Response:
        """Says what has become of a program that shall be signed in; its key, once."""
        asks.count(request)
        if pace.is_early(hash_of(data.device_code)):
            return _told(LoginPolled(status="slow_down", interval=2 * INTERVAL_S))
        found = await in_thread(logins.poll, data.device_code)
        polled = LoginPolled(
            status=found.status,
            api_key=found.api_key,
            workspace_id=found.workspace_id,
            namespace=found.namespace,
        )
        return _told(polled)

    return [start, poll]


def _told(body: LoginStarted | LoginPolled) -> Response:
    return Response(msgspec.json.encode(body), headers={"Cache-Control": "no-store"})


def _of_operators() -> list[Route]:
    tries, guard = Tries(DECISIONS, DECISIONS), Lock()

    def count(caller: Caller) -> None:
        with guard:
            tries.take(caller.vault.tenant_id)

    @answers(FindLogin)
    def find(caller: Caller, asked: FindLogin) -> WaitingLogin:
        """Returns the program that shows a code."""
        count(caller)
        return caller.vault.logins.find(asked.user_code)

    @answers(ApproveLogin)
    def approve(caller: Caller, asked: ApproveLogin) -> WaitingLogin:
        """Signs a program in."""
        count(caller)
        return caller.vault.logins.approve(**vars(asked))

    @answers(DenyLogin)
    def deny(caller: Caller, asked: DenyLogin) -> None:
        """Refuses a program."""
        count(caller)
        caller.vault.logins.deny(asked.user_code)

    return [find, approve, deny]


class Pace:
    """When each program has last asked; in each worker for itself."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._last = clock, dict[bytes, float]()

    def is_early(self, name: bytes) -> bool:
        """Says whether somebody asks again too soon, and notes that they did."""
        now, last = self._clock(), self._last.pop(name, None)
        self._last[name] = now
        if len(self._last) > MOST_KNOWN:
            del self._last[next(iter(self._last))]
        return last is not None and now - last < INTERVAL_S - EARLY_S

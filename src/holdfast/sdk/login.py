"""Signs a program in without a key: a person approves the code that it shows.

    login = Login("https://holdfast.example.com")
    begun = login.start("nightly job")
    print(begun.user_code, begun.verification_uri_complete)
    api_key = login.wait(begun)

What comes back is an ordinary key, told this once. `holdfast login` keeps it where `settings` says.
"""

import time
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from holdfast.errors import Forbidden, Incompatible, NotFound, Unavailable
from holdfast.model.keys import Me
from holdfast.operations.keys import GetMe
from holdfast.sdk.calls import Call, asking
from holdfast.sdk.lines import TIMEOUT_S, Line, checked_url
from holdfast.sdk.sending import SyncSender
from holdfast.wire.logins import LoginPolled, LoginStarted, PollLogin, StartLogin

T = TypeVar("T")

SLOWEST_S: Final = 30
"""How long is waited between two questions at the most, whatever a server says."""

LONGEST_S: Final = 3600
"""How long is asked at all, whatever a server says."""


class Login:
    """A program at a server that does not know it yet."""

    def __init__(
        self,
        url: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = checked_url(url.rstrip("/"))
        self._sleep, self._clock = sleep, clock
        self._sender = SyncSender(Line(url=self.url, headers={}, timeout_s=TIMEOUT_S))

    def start(self, client: str) -> LoginStarted:
        """Asks for a code to show; raises `Unavailable` where nobody can sign in."""
        try:
            return self._ask("/v1/auth/device/start", StartLogin(client=client), LoginStarted)
        except NotFound as exc:
            message = f"nobody can sign in to {self.url} in a browser"
            raise Unavailable(message).with_hint("Set HOLDFAST_API_KEY to a key instead.") from exc

    def wait(self, begun: LoginStarted) -> str:
        """Returns the key once a person has approved it; raises `Forbidden` if nobody does."""
        deadline = self._clock() + min(begun.expires_in, LONGEST_S)
        asked, interval = PollLogin(device_code=begun.device_code), begun.interval
        while self._clock() < deadline:
            self._sleep(min(max(interval, 1), SLOWEST_S))
            found = self._ask("/v1/auth/device/poll", asked, LoginPolled)
            if found.status == "approved" and found.api_key is not None:
                return found.api_key
            if found.status == "denied":
                raise Forbidden("it was refused in the browser")
            if found.status == "expired":
                break
            if found.status == "slow_down":
                interval = found.interval or 2 * interval
        raise Forbidden("nobody has approved it in time").with_hint("Start again.")

    def me(self, api_key: str) -> Me:
        """Returns whose key it is that came back."""
        headers = {"Authorization": f"Bearer {api_key}"}
        known = Line(url=self.url, headers=headers, timeout_s=TIMEOUT_S)
        return self._sender.speaking(known).send(asking(GetMe()))

    def close(self) -> None:
        """Lets go of the connections."""
        self._sender.close()

    def _ask(self, path: str, body: object, kind: type[T]) -> T:
        def read(answer: bytes) -> T:
            try:
                return msgspec.json.decode(answer, type=kind)
            except msgspec.MsgspecError as exc:
                raise Incompatible("the server's answer is none that is known here") from exc

        call = Call(method="POST", path=path, body=body, read=read)
        return self._sender.send(call)

"""What stands on the wire while a program is signed in that has no key yet."""

import msgspec


class StartLogin(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A program that shall be signed in."""

    client: str | None = None
    """What it is, for the person who decides; else its User-Agent."""


class LoginStarted(msgspec.Struct, kw_only=True):
    """What to show to a person, and what to ask by."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    """Where a person decides; the second has the code in it."""
    expires_in: int
    interval: int
    """Seconds until it is over, and between two questions."""


class PollLogin(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a program asks by."""

    device_code: str


class LoginPolled(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What has become of it."""

    status: str
    """`pending`, `slow_down`, `approved`, `denied` or `expired`."""
    interval: int | None = None
    """With `slow_down`: how many seconds to wait from now on."""
    api_key: str | None = None
    workspace_id: str | None = None
    namespace: str | None = None
    """With `approved`: the key, this once."""

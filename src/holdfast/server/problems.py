"""What a server refuses before an engine is asked, and the status of every error."""

from collections.abc import Iterable
from typing import Final

from holdfast.errors import (
    Busy,
    Conflict,
    Denied,
    DirectoryRefused,
    HoldfastError,
    Incompatible,
    Invalid,
    LimitExceeded,
    NotBuilt,
    NotFound,
    QuotaExceeded,
    StorageFull,
    TooLarge,
    Unavailable,
    VaultTooNew,
    shorten,
)

_STATUSES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (QuotaExceeded, 413),
    (TooLarge, 413),
    (StorageFull, 507),
    (LimitExceeded, 413),
    (NotFound, 404),
    (Denied, 403),
    (Busy, 409),
    (DirectoryRefused, 400),
    (Conflict, 409),
    (Invalid, 400),
    (Unavailable, 503),
    (NotBuilt, 501),
    (Incompatible, 500),
)
"""The first that an error is one of counts."""

FAULT: Final = 500
"""From here on it is the server's own fault."""

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    429: "rate_limit_error",
}


_A_KEY: Final = {"admin": "an admin key", "workspace": "a runtime key"}


class Refused(HoldfastError):
    """What the server itself refuses, before an engine is asked."""

    http_status = 400


class NoRoute(Refused):
    """A path that no route has."""

    code = "resource_not_found"
    http_status = 404

    def __init__(self) -> None:
        super().__init__("Not Found")


class NoMethod(Refused):
    """A path whose routes are for other methods."""

    code = "method_not_allowed"
    http_status = 405

    def __init__(self, allowed: Iterable[str]) -> None:
        super().__init__("Method Not Allowed")
        self._allowed = ", ".join(sorted(allowed))

    @property
    def headers(self) -> dict[str, str]:
        """What the answer says beside its body."""
        return {"Allow": self._allowed}


class BodyTooLarge(Refused):
    """A body that is larger than its route takes."""

    code = "payload_too_large"
    http_status = 413

    def __init__(self) -> None:
        super().__init__("Request Entity Too Large")


class BodyPacked(Refused):
    """A body that came packed, where it is taken as it comes."""

    code = "unsupported_encoding"
    hint = "Send the body as it is, without Content-Encoding."
    http_status = 415

    def __init__(self, encoding: str) -> None:
        super().__init__(f"bodies are not unpacked, and this one says to be {shorten(encoding)}")


class Unauthorized(Refused):
    """There is no key, or it opens nothing."""

    code = "authentication_failed"
    hint = "Send a key that is valid: `Authorization: Bearer KEY` or `X-API-Key: KEY`."
    http_status = 401


class Forbidden(Refused):
    """The key is valid, and not for this."""

    code = "permission_denied"
    hint = "Use a key of the scope that this needs."
    http_status = 403


class MissingKey(Refused):
    """Somebody who is signed in to the console, and not with the key that this needs."""

    code = "missing_key"
    hint = "Sign in with a key of that scope, too: the one that you have stays."
    http_status = 403

    def __init__(self, scope: str) -> None:
        super().__init__(f"you are not signed in with {_A_KEY[scope]}, which this needs")
        self.scope = scope


class UnknownHost(Refused):
    """A browser that calls this server by a name that it does not go by."""

    code = "unknown_host"
    hint = "Use a loopback name, or list this one in HOLDFAST_CONSOLE_HOSTS."
    http_status = 403

    def __init__(self, host: str) -> None:
        super().__init__(f"nobody is signed in here under the name {shorten(host)}")


class ForeignRequest(Refused):
    """A request of a browser that no page of this server makes."""

    code = "foreign_request"
    hint = "Other programs send a key: `Authorization: Bearer KEY`."
    http_status = 403

    def __init__(self) -> None:
        super().__init__("this request comes from elsewhere than this server's own console")


class UnknownWorkspace(Refused):
    """There is no such workspace, or the key is not of it."""

    code = "workspace_not_found"
    hint = "GET /v1/me says which workspace a key belongs to."
    http_status = 404

    def __init__(self, workspace_id: str) -> None:
        super().__init__(f"there is no workspace {shorten(workspace_id)}")


class MissingNamespace(Refused):
    """A request of an unlocked key that does not say which namespace it means."""

    code = "missing_namespace"
    hint = "Send the header X-Namespace (a client's namespace=), or use a key for one namespace."

    def __init__(self) -> None:
        super().__init__("the header X-Namespace is missing: it says which namespace is meant")


class Unfit(Refused):
    """A request whose parts are not what they should be."""

    code = "invalid_request"
    hint = "Change the request: the message says what is wrong with it."
    http_status = 422

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ArchiveTooNew(Refused):
    """An archive that came has a later format: it is the client's, and nothing is wrong here."""

    code = VaultTooNew.code
    hint = "Upgrade the server, or export it with the version that the server has."

    def __init__(self, error: VaultTooNew) -> None:
        super().__init__(str(error))
        self.found, self.known = error.found, error.known


class RangeUnfit(Refused):
    """A part of a file is asked for that it does not have."""

    code = "range_not_satisfiable"
    hint = "Ask for all of it, or from an offset below its size."
    http_status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes: there is nothing at that offset")


class CommandTimedOut(Refused):
    """A command that took longer than it may."""

    code = "command_timed_out"
    hint = "What it did by then is kept: `undo` takes it back. Give it less to do."
    http_status = 408


class RateLimited(Refused):
    """A key that made more requests than it may."""

    code = "rate_limit_exceeded"
    hint = "Wait for as many seconds as `retry_after` says, then go on."
    http_status = 429

    def __init__(self, *, limit: int, retry_after: int) -> None:
        super().__init__(f"this key may make {limit} requests a minute")
        self.retry_after = retry_after


class TooManySignIns(Refused):
    """An address from which too many sign-ins were tried."""

    code = "too_many_sign_ins"
    hint = "Wait for as many seconds as `retry_after` says, then try again."
    http_status = 429

    def __init__(self, *, retry_after: int) -> None:
        super().__init__("too many sign-ins were tried from this address")
        self.retry_after = retry_after


class TooManyAtOnce(Refused):
    """A tenant or a key that has as much under way as it may."""

    code = "too_many_at_once"
    hint = "Let what is under way end, or wait for as many seconds as `retry_after` says."
    http_status = 429

    def __init__(self, message: str, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AnswersNotTaken(Refused):
    """A key or a tenant whose answers wait to be taken, and leave no room for another."""

    code = "answers_not_taken"
    hint = "Take the answers that were asked for before, then ask again: changes were made."
    http_status = 503

    def __init__(self) -> None:
        super().__init__(
            "large answers to this key or its workspace wait to be taken, "
            "and there is no room for this one"
        )
        self.retry_after = 5


class AboutToStop(Refused):
    """A server that was asked to stop, and goes on for a while: nobody should be sent to it."""

    code = "about_to_stop"
    hint = "Ask another server, or this one once it is back."
    http_status = 503

    def __init__(self) -> None:
        super().__init__("the server is about to stop")
        self.retry_after = 1


def status_of(error: HoldfastError) -> int:
    """Returns the status that an error is answered with."""
    if isinstance(error, Refused):
        return error.http_status or 400
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def type_of(status: int) -> str:
    """Returns the family of what went wrong, by which clients tell whose fault it was."""
    return _TYPES.get(status, "api_error" if status >= FAULT else "invalid_request_error")

"""What a server refuses or cannot do; who has a vault of their own never meets these."""

from holdfast.errors.families import HoldfastError, Incompatible, LimitExceeded, Unavailable


class Denied(HoldfastError):
    """The key does not open this: use another."""

    code = "denied"
    hint = "Use a key that is for this."


class Unauthorized(Denied):
    """There is no key, or it opens nothing."""

    code = "authentication_failed"
    hint = "Pass api_key=, or set HOLDFAST_API_KEY; a revoked or expired key opens nothing."


class Forbidden(Denied):
    """The key is valid, and not for this."""

    code = "permission_denied"
    hint = "Agents' data needs a runtime key for the namespace, operators' work an admin key."


class AddOnly(Denied):
    """The caller may add to a history, and take nothing of it away."""

    code = "add_only"
    hint = "Use a runtime key, or ask an operator: an add-only key removes nothing for good."

    def __init__(self, what: str) -> None:
        super().__init__(f"an add-only key does not {what}")


class RateLimited(LimitExceeded):
    """The key made more requests than it may."""

    code = "rate_limit_exceeded"
    hint = "Wait for as many seconds as `retry_after` says, then go on."


class NotBuilt(Incompatible):
    """The server does not do this, or does not know it yet."""

    code = "not_implemented"
    hint = "Use a server of the same version as this client."


class Unreachable(Unavailable):
    """The server could not be reached, or the connection broke before it answered."""

    code = "unreachable"
    hint = "Check that the server runs and that the URL is its own: `holdfast serve` prints it."


class ServerFault(Unavailable):
    """The server failed; its log says why."""

    code = "internal_error"
    hint = "Retry; if it stays, give the request id to the server's operator."

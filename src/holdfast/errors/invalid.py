"""Requests that are wrong: change them. Some only a server refuses."""

from holdfast.errors.families import (
    HoldfastError,
    Incompatible,
    Invalid,
    LimitExceeded,
    Unavailable,
    shorten,
)


class InvalidPath(Invalid):
    """A path that could leave the namespace, or that no file system could hold."""

    code = "invalid_path"
    hint = "Use a relative path such as notes/todo.md, with no '..', no leading '/' and no NUL."

    def __init__(self, path: bytes | str, *, reason: str) -> None:
        super().__init__(f"{shorten(path)} is not a usable path: {reason}")
        self.path, self.reason = path, reason


class InvalidName(Invalid):
    """A tenant, namespace, label or other name that cannot be used."""

    code = "invalid_name"
    hint = "Use 1 to 128 printable characters; a namespace's name must not read like a path."

    def __init__(self, kind: str, name: str, *, reason: str) -> None:
        super().__init__(f"{shorten(name)} is not a usable {kind}: {reason}")
        self.kind, self.name, self.reason = kind, name, reason


class InvalidValue(Invalid, ValueError, TypeError):
    """An argument of another type, or out of its range."""

    code = "invalid_value"
    hint = "Pass a value of the documented type and range."
    param: str | None = None
    """What the argument is called, where that is said."""

    def __init__(self, message: str = "", *, param: str | None = None) -> None:
        super().__init__(message)
        if param is not None:
            self.param = param


class Unencodable(InvalidValue):
    """A value that cannot be stored as it is: of a wrong type, too deep, or too large."""

    code = "unencodable"
    hint = "Store plain data; the message names the place, the reference has the types."


class NotAFile(Invalid):
    """A directory or a link stands where a file was asked for."""

    code = "not_a_file"
    hint = "List the path to see what it holds, or name a file inside it."

    def __init__(self, path: bytes, *, found: str) -> None:
        super().__init__(f"{shorten(path)} is a {found}, not a file")
        self.path, self.found = path, found


class NotADirectory(Invalid):
    """A file stands where a directory is needed."""

    code = "not_a_directory"
    hint = "Delete or move the file first, or choose another path."

    def __init__(self, path: bytes, *, blocked_by: bytes) -> None:
        super().__init__(
            f"{shorten(path)} cannot be used: {shorten(blocked_by)} is not a directory"
        )
        self.path, self.blocked_by = path, blocked_by


class UnsafeArchive(Invalid):
    """An archive that tries to leave the namespace, hides something, or is not ours."""

    code = "unsafe_archive"
    hint = "Import only archives made by `export`; nothing of this one was used."

    def __init__(
        self, reason: str, *, member: bytes | str | None = None, noun: str = "archive"
    ) -> None:
        where = "" if member is None else f" (member {shorten(member)})"
        super().__init__(f"the {noun} was refused: {reason}{where}")
        self.reason, self.member = reason, member


class InvalidSettings(Invalid):
    """Somebody's settings file that cannot be added to without the risk of breaking it."""

    code = "invalid_settings"
    hint = "Nothing was changed: put the file right, or move it away, and say it again."

    def __init__(self, path: str, *, reason: str) -> None:
        super().__init__(f"{shorten(path)} is not a settings file to add to: {reason}")
        self.path, self.reason = path, reason


class InvalidSignature(Invalid):
    """A delivery that was not signed with this secret, was altered, or is too old."""

    code = "invalid_signature"
    hint = "Answer 400; check the secret, and that the body is verified before it is parsed."

    def __init__(self) -> None:
        super().__init__("the delivery is not genuine")


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

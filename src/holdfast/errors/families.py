"""The families of errors: what a caller can do next."""

from collections.abc import Sequence
from typing import ClassVar, Final, Self

_LONGEST: Final = 80
"""Characters of an attacker's text that a message repeats."""


class HoldfastError(Exception):
    """The root of every error that holdfast raises on purpose."""

    code: ClassVar[str] = "error"
    hint: str = ""
    """What to try next."""
    http_status: int | None = None
    request_id: str | None = None
    retry_after: int | None = None
    """Over HTTP alone: what was answered, the request's name in the server's log, and after how
    many seconds it is worth another try."""

    def with_hint(self, hint: str) -> Self:
        """Returns the error with another hint than all of its kind have."""
        self.hint = hint
        return self

    @property
    def __notes__(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride] - made when it is looked at
        """What stands below the message in a traceback: what to try next, and notes of others."""
        mine = [f"hint: {self.hint}"] if self.hint else []
        return [*mine, *vars(self).get("_noted", ())]

    def add_note(self, note: str, /) -> None:
        """Adds to what stands below the message."""
        vars(self).setdefault("_noted", []).append(note)


class Invalid(HoldfastError):
    """The request itself is wrong; sending it again will not help."""

    code = "invalid"
    hint = "Change the request: the message says what is wrong with it."


class NotFound(HoldfastError):
    """The caller asked for something that is not there."""

    code = "not_found"
    hint = "List what there is, then ask again."


class Conflict(HoldfastError):
    """The world moved, or disagrees: read again, then decide."""

    code = "conflict"
    hint = "Read the current state again and retry."


class LimitExceeded(HoldfastError):
    """Refused before anything was written: it would exceed a limit."""

    code = "limit_exceeded"
    hint = "Make room or raise the limit."


class Damaged(HoldfastError):
    """Stored bytes break a promise: stop, keep the evidence."""

    code = "damaged"
    hint = "Run `verify` to see all that is damaged, and `repair` to rebuild what can be rebuilt."
    paths: Sequence[str] = ()
    """Files that were to be brought back, and whose bytes are damaged, where that is known."""
    target: str | None = None
    """The snapshot that they are in."""


class Unavailable(HoldfastError):
    """A dependency does not answer: retry with backoff."""

    code = "unavailable"
    hint = "Check that the database and the object store answer, then retry."
    paths: Sequence[str] = ()
    """What could not be written in a directory, where that is known."""


class OutcomeUnknown(Unavailable):
    """The connection to the database broke during a commit, and there was no other to look."""

    code = "outcome_unknown"
    hint = "It may have happened: look before you repeat it."


class DirectoryMissing(Unavailable):
    """An attached directory was deleted, or moved where it cannot be found."""

    code = "directory_missing"
    hint = "`undo` brings it back; if it was moved, open it in its new place."

    def __init__(self, path: str, *, now_at: str | None = None) -> None:
        where = "" if now_at is None else f": it is at {now_at} now"
        super().__init__(f"the directory {path} is missing{where}")
        self.path, self.now_at = path, now_at


class Incompatible(HoldfastError):
    """This program and this vault do not fit together."""

    code = "incompatible"
    hint = "Upgrade holdfast."


class VaultTooNew(Incompatible):
    """The vault was written by a newer holdfast than this one."""

    code = "vault_too_new"
    hint = "Upgrade holdfast to the version that wrote this vault; nothing was changed."

    def __init__(self, what: str, *, found: int, known: int) -> None:
        super().__init__(f"{what} has format {found}; this holdfast knows up to {known}")
        self.found, self.known = found, known


class VaultTooOld(Incompatible):
    """The vault was written by a holdfast from which this one cannot carry on.

    It is older than `known`, or of a format after that which was never released.
    """

    code = "vault_too_old"
    hint = (
        "Export what you need with the holdfast that wrote it, and import that here; nothing was "
        "changed."
    )

    def __init__(self, what: str, *, found: int, known: int) -> None:
        never = ", which was never released" if found > known else ""
        super().__init__(f"{what} has format {found}{never}; this holdfast carries on from {known}")
        self.found, self.known = found, known


class StoreMismatch(Incompatible):
    """The packs that the catalog names are not where this process was told to look."""

    code = "store_mismatch"
    hint = (
        "Name the place that the vault's other servers use: HOLDFAST_OBJECTS_URL, or `--objects`. "
        "All of them have to see the same packs."
    )

    def __init__(self, place: str, *, reason: str) -> None:
        super().__init__(f"{place} is not where the packs of this vault are: {reason}")
        self.place, self.reason = place, reason


def shorten(text: bytes | str) -> str:
    """Returns a quoted, printable, bounded form of text that an attacker may have chosen."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    quoted = repr(text)
    return quoted if len(quoted) <= _LONGEST else f"{quoted[:60]}…{quoted[-12:]}"

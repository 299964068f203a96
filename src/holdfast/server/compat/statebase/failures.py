"""What went wrong, as StateBase's clients are told it.

They expect a list in `detail`, and only where a request did not fit; some answers they know by one
code, whatever went wrong in detail. They read an error by its fields, which are all there.
"""

from dataclasses import dataclass
from typing import Final

from msgspec import field
from msgspec.structs import asdict

from holdfast.server.failures import Failure
from holdfast.server.problems import Refused, Unfit
from holdfast.wire import Problem

TOPICS: Final = frozenset({"sessions", "memories", "memory", "traces", "entities", "dashboard"})
"""What follows `/v1/` in paths that those clients ask for."""

_CODES: Final = {400: Unfit.code, 413: "payload_too_large"}


def _null() -> None:
    """Makes the null of a field: a default that is a value is left out, and this is not."""


class WholeProblem(Problem, kw_only=True, omit_defaults=True):
    """What went wrong, with null where there is nothing to say."""

    param: str | None = field(default_factory=_null)
    docs: str | None = field(default_factory=_null)
    """Where there is more about it: no server of ours has pages of its own."""
    suggestion: str | None = field(default_factory=_null)


@dataclass(frozen=True, slots=True)
class Phrasing:
    """Says what went wrong at their paths as they know it."""

    unfit_status: int | None = None
    """What a request is answered that does not fit; None for what everybody is answered."""

    def __call__(self, failure: Failure) -> None:
        """Changes what is said at a path that is theirs."""
        if not is_theirs(failure.path):
            return
        problem, error = failure.problem, failure.error
        if failure.status in _CODES and error is not None and not isinstance(error, Refused):
            problem.cause, problem.code = problem.code, _CODES[failure.status]
        if failure.status == Unfit.http_status:
            failure.status = self.unfit_status or failure.status
        failure.problem = WholeProblem(**asdict(problem))
        failure.detail = None
        if problem.code == Unfit.code and failure.status in (400, Unfit.http_status):
            place = [failure.place, *(problem.param.split(".") if problem.param else ())]
            said = {"loc": place, "msg": problem.message, "type": "value_error"}
            failure.detail = [said]


def is_theirs(path: str) -> bool:
    """Says whether their clients ask for a path, too."""
    words = path.strip("/").split("/")
    return words[:1] == ["v1"] and len(words) > 1 and words[1] in TOPICS

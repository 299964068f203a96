"""Asks the person, where the client can: a model may say `confirm` by itself.

Through protocol 2025-11-25 the question goes out while the call waits; from 2026-07-28 on the
answer to the call is the question, and the client says the call again with what was answered. No
lock and no thread is held meanwhile, so what is there may have changed when the answer comes. The
question therefore bears a fingerprint of what was shown: a yes to something else is none.
"""

from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from holdfast.mcp.answers import bounded, restored_lines
from holdfast.mcp.arguments import Restore
from holdfast.mcp.subjects import Subject
from holdfast.model.changes import Restored

_KEY: Final = "confirm"
_FIELD: Final = "restore"
_SHOWN: Final = 30
"""Changes that a person is shown before a yes or no."""

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Bring it back?",
            "description": "What is there now is kept first, and `undo` takes it back.",
        }
    },
    "required": [_FIELD],
}


class Verdict(Enum):
    """What came of a question."""

    YES = "yes"
    NO = "no"
    NOBODY = "nobody"
    """The client has no way to ask: the call's own `confirm` has to do."""
    UNHEARD = "unheard"
    """The client says that it can ask, and the question did not get through."""
    OUTDATED = "outdated"
    """Yes, to what is not what would happen any more."""


@dataclass(frozen=True)
class Question:
    """What a person is asked, and the fingerprint of what it is about."""

    text: str
    fingerprint: str


def question_of(subject: Subject, wanted: Restore) -> Question:
    """Returns what to ask before a restore: what it would change, as things are now."""
    seen = subject.restore(
        wanted.snapshot, paths=wanted.paths, names=wanted.names, dry_run=True, limit=_SHOWN
    )
    lines = restored_lines(seen, did="An agent wants to go back. Restoring", way_back="undo")
    return Question(bounded("\n".join(lines)), _fingerprint(seen))


async def ask(
    context: ServerRequestContext[Any], params: CallToolRequestParams, question: Question
) -> Verdict | InputRequiredResult:
    """Asks the person; returns the verdict, or the question for the client to answer first."""
    if not _can_ask(context):
        return Verdict.NOBODY
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return await _ask_now(context, question)
    answered = (params.input_responses or {}).get(_KEY)
    if not isinstance(answered, ElicitResult):
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=_form(question))},
            request_state=question.fingerprint,
        )
    verdict = _verdict_of(answered)
    is_outdated = params.request_state != question.fingerprint
    return Verdict.OUTDATED if verdict is Verdict.YES and is_outdated else verdict


async def _ask_now(context: ServerRequestContext[Any], question: Question) -> Verdict:
    try:
        answered = await context.session.elicit_form(
            question.text, _SCHEMA, related_request_id=context.request_id
        )
    except (MCPError, ValidationError):
        return Verdict.UNHEARD
    return _verdict_of(answered)


def _can_ask(context: ServerRequestContext[Any]) -> bool:
    has = context.session.client_capabilities
    if has is None or has.elicitation is None:
        return False
    # Before there were two modes, to have it at all meant forms.
    return has.elicitation.form is not None or has.elicitation.url is None


def _form(question: Question) -> ElicitRequestFormParams:
    return ElicitRequestFormParams(message=question.text, requested_schema=_SCHEMA)


def _verdict_of(answered: ElicitResult) -> Verdict:
    is_yes = answered.action == "accept" and (answered.content or {}).get(_FIELD) is True
    return Verdict.YES if is_yes else Verdict.NO


def _fingerprint(seen: Restored) -> str:
    """Returns what stands for a preview: its goal, what it lists, and how many there are."""
    digest = sha256(seen.root)
    for each in seen.changes:
        sizes = f"{each.plane.value} {each.change} {each.old_bytes} {each.new_bytes} "
        digest.update(sizes.encode() + each.key + b"\0")
    digest.update(seen.changes.summary().encode())
    return digest.hexdigest()

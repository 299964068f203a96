"""The way from a request to an answer: arguments are checked, work is done in a thread.

The engine is synchronous, so each call runs in a thread of its own, a few at a time; others wait.
Whatever goes wrong is an answer that a model can read and act on, with the error's code and a hint.
An unforeseen error is logged, and nothing of it is said: it may hold what nobody should read.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    TextContent,
)

from holdfast.errors import HoldfastError
from holdfast.mcp.answers import Answer, safe
from holdfast.mcp.arguments import Arguments, Restore
from holdfast.mcp.asking import Verdict, ask, question_of
from holdfast.mcp.subjects import Subject
from holdfast.mcp.tools import TOOLS, Offer

R = TypeVar("R")

logger = logging.getLogger("holdfast.mcp")

AT_ONCE: Final = 4
"""Calls that work at the same time: a directory takes one after the other anyway."""

LONGEST_MESSAGE: Final = 1000

HINTS: Final = {
    "snapshot_not_found": "`timeline` lists the snapshots.",
    "snapshot_expired": "`timeline` lists those that are left.",
    "nothing_to_undo": "`timeline` shows where you are; `restore` goes anywhere on it.",
    "path_not_found": "`list_files` shows what there is at that moment.",
    "name_not_found": "`diff` and `list_files` show what there is.",
    "head_moved": "Somebody else was first: look at `status`, then say it again.",
    "merge_conflict": "Later changes touch the same: `restore` with `paths` brings back some.",
    "others_changed": "Others changed the same since: a person has to decide.",
    "drift_found": "Something cannot be captured and would be lost: a person has to decide.",
    "namespace_exists": "Choose another name.",
    "directory_missing": "`undo` brings it back.",
    "add_only": "These tools add to the history, and take nothing of it away.",
}
"""What to try next, where that is a tool."""

_NOT_DONE: Final = {
    Verdict.NO: "Nothing was changed: the person who was asked said no.",
    Verdict.UNHEARD: "Nothing was changed: the question did not reach anybody.",
    Verdict.OUTDATED: "Nothing was changed: things are not as they were when the person was "
    "asked. Say it again.",
}


class Calls:
    """Answers the calls of tools, for one subject."""

    def __init__(self, subject: Subject, offers: Mapping[str, Offer] = TOOLS) -> None:
        self._subject, self.offers = subject, offers
        self._room = anyio.CapacityLimiter(AT_ONCE)

    async def call(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Answers one call; raises for a tool that is not there."""
        offer = self.offers.get(params.name)
        if offer is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool {safe(params.name, most=80)!r}")
        try:
            wanted = _read(offer, params.arguments)
            if isinstance(wanted, Restore) and wanted.confirm:
                verdict = await self._ask(context, params, wanted)
                if isinstance(verdict, InputRequiredResult):
                    return verdict
                if verdict in _NOT_DONE:
                    return _result(Answer(_NOT_DONE[verdict], is_error=True))
            return _result(await self.work(lambda: offer.run(self._subject, wanted)))
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - a model gets an answer, the log the traceback
            return _result(_failure(error, offer))

    async def work(self, function: Callable[[], R]) -> R:
        """Runs a function in a thread; it is finished even if nobody waits for it any more."""
        return await anyio.to_thread.run_sync(function, limiter=self._room)

    async def _ask(
        self, context: ServerRequestContext[Any], params: CallToolRequestParams, wanted: Restore
    ) -> Verdict | InputRequiredResult:
        question = await self.work(lambda: question_of(self._subject, wanted))
        verdict = await ask(context, params, question)
        if verdict is Verdict.YES:
            now = await self.work(lambda: question_of(self._subject, wanted))
            return verdict if now == question else Verdict.OUTDATED
        return verdict


def _read(offer: Offer, given: dict[str, Any] | None) -> Arguments:
    """Returns a call's arguments; raises `ValidationError` for what does not fit."""
    return msgspec.convert(given or {}, offer.arguments)


def _result(answer: Answer) -> CallToolResult:
    texts = [answer.said] if answer.content is None else [answer.said, answer.content]
    return CallToolResult(
        content=[TextContent(type="text", text=text) for text in texts], is_error=answer.is_error
    )


def _failure(error: Exception, offer: Offer) -> Answer:
    """Returns what is said of an error."""
    tool = offer.tool.name
    if isinstance(error, msgspec.ValidationError):
        fields = ", ".join(offer.arguments.__struct_fields__) or "none"
        return _said("invalid_value", str(error), f"The arguments of `{tool}` are: {fields}.")
    if isinstance(error, HoldfastError):
        return _said(error.code, str(error), HINTS.get(error.code, error.hint))
    if isinstance(error, OSError):
        return _said("system", error.strerror or type(error).__name__, "A person has to look.")
    logger.error("the tool %s failed", tool, exc_info=error)
    return _said("unexpected", "this is a fault of holdfast", "A person has to look at the log.")


def _said(code: str, message: str, hint: str) -> Answer:
    lines = [f"{code}: {safe(message, most=LONGEST_MESSAGE)}"]
    lines += [safe(hint, most=LONGEST_MESSAGE)] if hint else []
    return Answer("\n".join(lines), is_error=True)

"""`holdfast agent log`: the prompts that a coding agent was given here, and what each changed."""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import CONFLICT, DONE, NOT_FOUND, Refused, usage
from holdfast.cli.views import changes_view, instant
from holdfast.errors import OthersChanged, SnapshotNotFound
from holdfast.escaping import escaped
from holdfast.model.changes import Changes
from holdfast.model.prompts import Prompt

EXAMPLES = """\
examples:
  holdfast agent log                     the prompts of the last conversation
  holdfast agent log --session 5d41      of the conversation whose id begins so
  holdfast agent log --all               of all conversations
  holdfast undo --prompt 3               take back what the third prompt changed
"""

LISTED: Final = 5
"""Changes of a prompt that are listed; -v lists all."""

UNDER_WAY: Final = timedelta(days=1)
"""For so long, a prompt that has not ended may be at work. One that was interrupted never ends."""

MOST_LATELY: Final = 200
"""Prompts among which those are looked for that are at work."""

_Row = tuple[Prompt, Changes | None]
"""A prompt and what it changed; None if that is no longer known."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lists what coding agents were asked to do here, newest first."
    parser.epilog = EXAMPLES
    parser.add_argument("action", choices=("log",), metavar="ACTION", help="log")
    parser.add_argument("-n", "--limit", type=int, default=20, metavar="N", help="20 by default")
    parser.add_argument("--session", metavar="ID", help="a conversation, by how its id begins")
    parser.add_argument("--all", action="store_true", help="the prompts of all conversations")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.limit < 0:
        raise usage("-n is a number of prompts", hint="0 lists all of them.")
    workspace = get_workspace(console)
    wants_all = arguments.all and arguments.session is None
    chosen = workspace.prompts.list() if wants_all else of_session(workspace, arguments.session)
    told = [(each, _changes(workspace, each)) for each in chosen[: arguments.limit or None]]
    console.answer(
        document=lambda: {
            "namespace": workspace.namespace.name,
            "prompts": [_view(prompt, changes) for prompt, changes in told],
        },
        lines=lambda: _lines(console, told),
    )
    return DONE


def of_session(workspace: "holdfast.Workspace", session: str | None) -> list[Prompt]:
    """Returns the prompts of one conversation: the last one, or whose id begins like that."""
    prompts = workspace.prompts.list(limit=1 if session is None else None)
    talks = {each.conversation for each in prompts}
    if session is not None:
        alike = {each for each in talks if each.session.startswith(session)}
        talks = {each for each in alike if each.session == session} or alike
        if len(talks) != 1:
            many = "several conversations begin" if talks else "no conversation begins"
            raise Refused(
                f"{many} with {session!r}",
                code="conversation_not_found",
                exit_code=NOT_FOUND,
                hint="`holdfast agent log --all` lists them.",
            )
    return [prompt for talk in talks for prompt in workspace.prompts.list(talk=talk)]


def find_prompt(
    workspace: "holdfast.Workspace", *, number: int, session: str | None, console: Console
) -> Prompt:
    """Returns a prompt by its number in a conversation; refuses if there is none.

    An agent that is at work means its own conversation, and cannot say so: while several are, the
    last one may be another's.
    """
    if session is None:
        _check_is_plain(workspace, console)
    prompts = of_session(workspace, session)
    found = next((each for each in prompts if each.number == number), None)
    if found is None:
        raise Refused(
            f"there is no prompt {number}",
            code="prompt_not_found",
            exit_code=NOT_FOUND,
            hint="`holdfast agent log` lists the prompts, if hooks are installed.",
        )
    return found


def _check_is_plain(workspace: "holdfast.Workspace", console: Console) -> None:
    """Refuses if somebody may mean another conversation than the last one."""
    lately = workspace.prompts.list(limit=MOST_LATELY)
    since = console.clock() - UNDER_WAY
    open_ones = [each for each in lately if each.is_open and each.task.started_at > since]
    meant = dict.fromkeys(each.conversation for each in (*lately[:1], *open_ones))
    if len(meant) > 1:
        named = ", ".join(f"{talk.agent} {shlex.quote(talk.session)}" for talk in meant)
        raise Refused(
            f"several conversations are at work here: {named}",
            code="several_conversations",
            exit_code=CONFLICT,
            hint="Name one with --session; `holdfast agent log --all` lists their prompts.",
        )


def _changes(workspace: "holdfast.Workspace", prompt: Prompt) -> Changes | None:
    try:
        return workspace.prompts.changes(prompt, limit=None)
    except (SnapshotNotFound, OthersChanged):
        return None


def _lines(console: Console, told: Sequence[_Row]) -> Iterator[str]:
    if not told:
        yield "No agent has told of a prompt yet: `holdfast hook install AGENT` lets them."
        return
    talk = None
    for prompt, changes in told:
        if prompt.conversation != talk:
            talk = prompt.conversation
            yield f"{escaped(talk.agent)}, session {escaped(talk.session)}"
        when, name = words.local(prompt.task.started_at), escaped(prompt.task.name)
        number = console.paint(f"{prompt.number:>4}", "cyan")
        yield f"{number}  {when}  {name}{' (open)' if prompt.is_open else ''}"
        if changes is None:
            yield "      what it changed is no longer known"
        elif changes:
            yield f"      {changes.summary()}"
            yield from (f"    {line}" for line in words.change_lines(console, changes, most=LISTED))
    if not console.is_quiet:
        yield "`holdfast undo --prompt N` takes back what one of them changed."


def _view(prompt: Prompt, changes: Changes | None) -> dict[str, object]:
    task = prompt.task
    return {
        "number": prompt.number,
        "agent": prompt.conversation.agent,
        "session_id": prompt.conversation.session,
        "prompt_id": prompt.id,
        "task_id": task.id,
        "name": task.name,
        "is_open": prompt.is_open,
        "started_at": instant(task.started_at),
        "ended_at": instant(task.ended_at),
        "before_id": task.before,
        "after_id": task.after,
        **({"changes": None} if changes is None else changes_view(changes)),
    }

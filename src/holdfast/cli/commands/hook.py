"""`holdfast hook`: lets coding agents tell of what they are about to do, and keeps what is there.

`install` puts commands into an agent's settings, `run` is what they run. That one exits with 0
whatever happens (`hooks/process.py`), prints nothing, and says what went wrong in a file of the
vault that `status` shows.
"""

import os
import shlex
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from holdfast.cli import thin
from holdfast.cli.attached import get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, Refused, usage
from holdfast.cli.hooks import problems, settings
from holdfast.cli.hooks.agents import AGENTS, Agent, Moment
from holdfast.cli.hooks.hearing import Event, hear
from holdfast.errors import HoldfastError
from holdfast.escaping import escaped
from holdfast.model.prompts import Conversation
from holdfast.settings import expand, holds_vault, is_url

EXAMPLES = """\
examples:
  holdfast hook install claude-code       keep what is there before each prompt and tool
  holdfast hook install codex --user      in all attached directories, not in this one alone
  holdfast hook install gemini --print    only show what would be written
  holdfast hook uninstall claude-code
  holdfast hook status                    what is installed, and what went wrong
  holdfast hook instructions              a page for the agent: how to go back

`holdfast agent log` then lists the prompts, and `holdfast undo --prompt N` takes one back.
"""

MOST_PROBLEMS = 10
NEXT = (
    "",
    "What to do next:",
    "  holdfast watch --background   lets each hook take a few milliseconds",
    "  holdfast hook instructions    prints a page that tells the agent how to go back",
    "  holdfast agent log            the prompts, with what each of them changed",
    "  holdfast undo --prompt N      take back what one of them changed",
)
UNNAMED = "(a prompt without words)"

INSTRUCTIONS = """\
# Going back with Holdfast

This directory is watched over by Holdfast: everything in it is kept before and after what you do.
Nothing that you undo is lost, and the person that you work for can bring it back.

- `holdfast status` shows what has changed since the last snapshot.
- `holdfast agent log` lists the prompts of the conversation that was given one last, with what
  each of them changed. Its line `session …` says which. If that is not yours, find yours with
  `holdfast agent log --all`, and give these commands `--session ID`.
- `holdfast undo --prompt N --dry-run` shows what taking prompt N back would change.
- `holdfast undo --prompt N` takes back what prompt N changed, and nothing else.
- `holdfast diff ID` and `holdfast restore ID --path FILE` look at, and bring back, one file of a
  snapshot that `holdfast log` lists.

Before you take anything back, show what would change, and ask. Where somebody has changed the same
since, the command exits with 4, names it, and has changed nothing: `--keep-mine` leaves that alone.
Never delete snapshots, never run `holdfast forget`, `gc`, `erase` or `detach`, and never work
around these rules with `git checkout`, `git reset` or `rm`.
"""
"""What an agent has to know to go back by itself: a page for its own rules."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Installs hooks into a coding agent's settings. The agents are: " + ", ".join(AGENTS) + "."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "action",
        choices=("install", "uninstall", "status", "instructions", "run"),
        metavar="ACTION",
        help="install, uninstall, status, instructions, or run: what agents start",
    )
    parser.add_argument("agent", nargs="?", metavar="AGENT", help="which coding agent")
    parser.add_argument("--user", action="store_true", help="in the user's own settings")
    parser.add_argument("--print", action="store_true", help="show what would be written")
    parser.add_argument("--event", metavar="NAME", default="", help=SUPPRESS)
    parser.add_argument("--input", default="", help=SUPPRESS)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    match arguments.action:
        case "install":
            return _install(arguments, console)
        case "uninstall":
            return _uninstall(arguments, console)
        case "instructions":
            console.answer(
                document=lambda: {"instructions": INSTRUCTIONS}, lines=INSTRUCTIONS.splitlines
            )
            return DONE
        case "run":
            return _run(_agent(arguments), arguments, console)
        case _:
            return _status(console)


def _agent(arguments: Namespace) -> Agent:
    found = AGENTS.get(arguments.agent or "")
    if found is None:
        message = f"`holdfast hook {arguments.action}` needs an agent"
        if arguments.agent:
            message = f"there is no agent {arguments.agent!r} here"
        raise usage(message, hint=f"It is one of {', '.join(AGENTS)}.")
    return found


# What agents start


def _run(agent: Agent, arguments: Namespace, console: Console) -> int:
    """Does what an event asks for; whatever goes wrong is noted, and the agent goes on."""
    location, what = console.location(), (agent.name, arguments.event or "an event")
    places: list[str] = []
    try:
        event = hear(agent, os.fsencode(arguments.input), event=arguments.event)
        what = (agent.name, event.name or "an event")
        if event.fault:
            problems.note(location, *what, event.fault)
        places = _places(event)
        _keep(agent, event, places, console)
    except Refused as refusal:
        # An agent at work where nothing is attached is no problem; one that is nowhere is.
        if refusal.code != "not_attached" or console.called or not places:
            problems.note(location, *what, f"{refusal.code}: {refusal}")
    except HoldfastError as error:
        problems.note(location, *what, f"{error.code}: {error}")
    except Exception as error:  # noqa: BLE001 - the agent goes on, whatever it is
        problems.note(location, *what, f"unexpected: {type(error).__name__}: {error}")
    return DONE


def _keep(agent: Agent, event: Event, places: Sequence[str], console: Console) -> None:
    if event.moment is Moment.NOTHING:
        return
    workspace = get_workspace(_console_at(places, console))
    if not event.session:
        workspace.snapshot_if_changed(reason=f"{agent.name}: {event.name or 'a hook'}")
        return
    talk, prompts = Conversation(agent.name, event.session), workspace.prompts
    match event.moment:
        case Moment.PROMPT:
            prompts.begin(talk, event.prompt or UNNAMED, id=event.prompt_id)
        case Moment.END:
            prompts.end(talk, id=event.prompt_id)
        case Moment.CLOSE:
            # What was changed since a prompt has ended, somebody else may have changed.
            last = prompts.find_last(talk)
            if last is not None and last.is_open:
                prompts.close(last)
        case _:
            reason = f"{event.moment.value} {event.tool or event.name}"
            prompts.keep(talk, reason=reason, id=event.prompt_id)


def _places(event: Event) -> list[str]:
    """Returns the directories that an event may be about, the likeliest first."""
    return [each for each in (event.directory, *event.roots) if os.path.isabs(each)]


def _console_at(places: Sequence[str], console: Console) -> Console:
    """Returns the console of the first of some directories that is attached, or is in one.

    Where settings are for all directories, some agents start hooks from anywhere.
    """
    location = console.location()
    if console.called or not holds_vault(location):
        return console
    if not places or console.vaults.find_workspace(location, console.cwd):
        return console
    *others, last = (os.path.realpath(each) for each in places)
    first = (each for each in others if console.vaults.find_workspace(location, each))
    return replace(console, cwd=next(first, last))


# Settings


def _install(arguments: Namespace, console: Console) -> int:
    agent = _agent(arguments)
    path, within = _place(agent, arguments, console)
    commands = _commands(agent, arguments, console)
    if arguments.print:
        shown = settings.with_ours(agent, commands)({})
        console.answer(
            document=lambda: {"path": path, "settings": shown},
            lines=lambda: settings.to_text(shown).splitlines(),
        )
        return DONE
    edit = settings.with_ours(agent, commands)
    with _as_one_change(arguments, console):
        is_new = settings.change(path, edit, within=within)
    console.answer(
        document=lambda: {"path": path, "changed": is_new, "events": [*commands]},
        lines=list,
    )
    if not is_new:
        console.say(f"They are in {escaped(path)} already.")
        return DONE
    console.say(f"Installed in {escaped(path)}: {', '.join(commands)}.")
    for line in (*[agent.advice] * bool(agent.advice), *NEXT):
        console.say(line)
    return DONE


@contextmanager
def _as_one_change(arguments: Namespace, console: Console) -> Generator[None]:
    """Makes what is done a change of its own on the timeline of the directory.

    Else the next `undo` would take the hooks away, as what is in no snapshot yet.
    """
    if arguments.user:
        yield
        return
    workspace = get_workspace(console)
    workspace.snapshot_if_changed(reason="before `holdfast hook install`")
    yield
    workspace.snapshot_if_changed(f"hook install {arguments.agent}")


def _uninstall(arguments: Namespace, console: Console) -> int:
    agent = _agent(arguments)
    path, within = _place(agent, arguments, console)
    is_new = settings.change(path, settings.without_ours(agent), within=within)
    said = f"Taken out of {escaped(path)}." if is_new else f"{escaped(path)} has none of ours."
    console.answer(document=lambda: {"path": path, "changed": is_new}, lines=list)
    console.say(said)
    return DONE


def _place(agent: Agent, arguments: Namespace, console: Console) -> tuple[str, str | None]:
    """Returns an agent's settings file, and the directory that it must not lead out of."""
    if arguments.user:
        return os.path.join(expand("~", console.environ), agent.personal), None
    directory = str(get_workspace(console).path)
    return os.path.join(directory, agent.local), directory


def _commands(agent: Agent, arguments: Namespace, console: Console) -> dict[str, str]:
    """Returns what each event runs: with whole paths, as an agent may be anywhere."""
    from holdfast.cli.installed import check_settled, program  # noqa: PLC0415 - slow to load

    location = console.location()
    if is_url(location):
        raise Refused(
            "only directories of a vault on this machine can have hooks",
            code="not_local",
            exit_code=NOT_FOUND,
            hint="Name another vault with --data.",
        )
    where = [] if arguments.user else ["-C", str(get_workspace(console).path)]
    words = [*program(), "hook", "run", agent.name, *where, "--data", os.path.abspath(location)]
    check_settled(words)
    return {event: shlex.join([*words, "--event", event]) for event in agent.installed}


# Looking at them


def _status(console: Console) -> int:
    directory = str(get_workspace(console).path)
    location = console.location()
    home = expand("~", console.environ)
    installed = list[Mapping[str, object]]()
    for agent in AGENTS.values():
        for path in (os.path.join(directory, agent.local), os.path.join(home, agent.personal)):
            try:
                events = settings.events_of(path, agent)
            except Refused as refusal:
                console.note(escaped(str(refusal)))
                continue
            if events:
                installed.append({"agent": agent.name, "path": path, "events": events})
    noted = problems.last(location, most=MOST_PROBLEMS)
    folder = thin.run_folder(location)
    is_watched = folder is not None and os.path.exists(
        os.path.join(folder, f"{thin.name_of(directory)}.sock")
    )
    console.answer(
        document=lambda: {"installed": installed, "watched": is_watched, "problems": noted},
        lines=lambda: _status_lines(installed, noted, is_watched=is_watched),
    )
    return DONE


def _status_lines(
    installed: Sequence[Mapping[str, object]], noted: list[str], *, is_watched: bool
) -> Iterator[str]:
    for each in installed:
        yield f"{each['agent']}  {escaped(str(each['path']))}"
    if not installed:
        yield "No hooks are installed: `holdfast hook install AGENT` does."
    elif not is_watched:
        yield "Nobody watches the directory: `holdfast watch --background` makes hooks fast."
    if noted:
        yield "What went wrong last:"
        yield from (f"  {escaped(line)}" for line in noted)

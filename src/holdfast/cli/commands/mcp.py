"""`holdfast mcp`: the undo button for agents that speak the Model Context Protocol."""

import shlex
from argparse import ArgumentParser, Namespace
from typing import Final

import holdfast
from holdfast.cli.attached import get_vault, get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, Refused, usage
from holdfast.errors import NamespaceNotFound
from holdfast.escaping import escaped
from holdfast.mcp.installing import AGENTS, NAME, Command, install, uninstall
from holdfast.mcp.places import USUAL_PORT, Place, checked_place
from holdfast.settings import DATABASE_URL, client_settings, is_url, mcp_token, runs_commands

CODEX: Final = "codex"
"""An agent that is told of us by a command of its own."""

EXAMPLES: Final = """\
examples:
  holdfast mcp install claude-code       tell an agent of this directory
  holdfast mcp uninstall claude-code
  holdfast mcp                           what the agent starts: speaks on stdin and stdout
  holdfast mcp --namespace alice         for a namespace instead of this directory
  holdfast mcp --server                  for one of a server (HOLDFAST_URL, HOLDFAST_API_KEY)
  holdfast mcp --http --port 7434        over HTTP, on this machine
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Offers snapshots and undo of one directory or namespace to an agent, as tools of the "
        "Model Context Protocol. No tool takes history away. `install` writes the entry that "
        f"starts it into an agent's settings in this project: {', '.join(AGENTS)}."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "action",
        nargs="?",
        choices=("serve", "install", "uninstall"),
        metavar="ACTION",
        default="serve",
        help="serve, install or uninstall",
    )
    parser.add_argument("agent", nargs="?", metavar="AGENT", help=f"one of {', '.join(AGENTS)}")
    parser.add_argument("--namespace", metavar="NAME", help="bind to this namespace")
    parser.add_argument(
        "--server", action="store_true", help="of the server that HOLDFAST_URL names"
    )
    parser.add_argument("--http", action="store_true", help="answer over streamable HTTP")
    parser.add_argument("--host", metavar="HOST", default="127.0.0.1", help="where to listen")
    parser.add_argument(
        "--port", metavar="PORT", type=int, default=USUAL_PORT, help=f"the port ({USUAL_PORT})"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="what else requests may call this server; may be given again",
    )
    parser.add_argument(
        "--no-token", action="store_true", help="let everybody in who reaches the port"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.action == "serve":
        if arguments.agent is not None:
            raise usage("an agent is named to `install` or `uninstall`", hint="Leave it out.")
        return _serve(arguments, console)
    agent = AGENTS.get(arguments.agent or "")
    if agent is None:
        hint = f"`holdfast mcp {arguments.action} AGENT`: {', '.join(AGENTS)}."
        if arguments.agent == CODEX:
            hint = f"Codex does that itself: `{shlex.join(_said_to_codex(arguments, console))}`."
        raise usage("name an agent whose settings are known", hint=hint)
    if arguments.http:
        raise usage("an agent starts it on its streams", hint="Leave --http out.")
    if arguments.action == "uninstall":
        path, has_changed = _uninstall(arguments, console)
        said = "Taken out of" if has_changed else "Nothing of holdfast is in"
    else:
        path, has_changed = _install(arguments, console)
        said = "Written to" if has_changed else "As it should be already in"
    console.answer(
        document=lambda: {"agent": arguments.agent, "path": path, "has_changed": has_changed},
        lines=lambda: [] if console.is_quiet else [f"{said} {escaped(path)}."],
    )
    if has_changed:
        console.say(f"{agent.title} sees it when it is started anew.")
    return DONE


def _said_to_codex(arguments: Namespace, console: Console) -> list[str]:
    """Returns what makes Codex write our entry, or take it out: its settings are in TOML."""
    if arguments.action == "uninstall":
        return [CODEX, "mcp", "remove", NAME]
    _, command = _command(arguments, console)
    variables = [f"--env={name}={value}" for name, value in command.environ.items()]
    return [CODEX, "mcp", "add", NAME, *variables, "--", command.program, *command.arguments]


def _uninstall(arguments: Namespace, console: Console) -> tuple[str, bool]:
    """Takes the entry out, here or at the top of the attached directory that this is in."""
    agent = AGENTS[arguments.agent]
    path, has_changed = uninstall(agent, console.cwd)
    if has_changed:
        return path, True
    try:
        around = str(get_workspace(console).path)
    except Refused:
        return path, False
    return (path, False) if around == console.cwd else uninstall(agent, around)


def _install(arguments: Namespace, console: Console) -> tuple[str, bool]:
    """Writes the entry; in an attached directory, as a change of its own on the timeline.

    Else the agent's first `undo` would take its own tools away, as what is in no snapshot yet.
    """
    agent = AGENTS[arguments.agent]
    from holdfast.cli.installed import check_settled  # noqa: PLC0415 - slow to load

    directory, command = _command(arguments, console)
    check_settled((command.program, *command.arguments))
    if arguments.server or arguments.namespace is not None:
        return install(agent, directory, command)
    workspace = get_workspace(console)
    workspace.snapshot_if_changed(reason="before `holdfast mcp install`")
    path, has_changed = install(agent, directory, command)
    if has_changed:
        workspace.snapshot_if_changed(f"mcp install {arguments.agent}")
    return path, has_changed


def _serve(arguments: Namespace, console: Console) -> int:
    from holdfast.mcp import binding  # noqa: PLC0415 - loads an engine

    place = _place(arguments, console) if arguments.http else None
    if arguments.server:
        settings = client_settings(console.environ)
        bound = binding.of_server(settings, arguments.namespace, note=console.note)
    elif arguments.namespace is not None:
        bound = binding.of_namespace(get_vault(console), arguments.namespace)
    else:
        path = get_workspace(console).path
        bound = binding.of_directory(console.open_vault(console.location()), path)
    # Entered before the SDK is loaded, which takes a second: who cannot be served hears it at once.
    with bound as subject:
        try:
            from holdfast.mcp import serving  # noqa: PLC0415 - an extra
            from holdfast.wiring import said  # noqa: PLC0415 - loads an engine
        except ModuleNotFoundError as exc:
            raise usage(
                f"{exc.name} is not installed", hint="This needs `pip install 'holdfast[mcp]'`."
            ) from exc
        server = serving.build(
            subject,
            version=holdfast.__version__,
            runs_commands=said(runs_commands, console.environ),
        )
        if place is None:
            if console.is_terminal:
                console.note("this is for agents to start; `holdfast mcp install AGENT` says so")
            serving.serve_streams(server)
            return DONE
        with serving.listen(place) as listening:
            url = serving.url_of(place, listening)
            console.answer(
                document=lambda: {"url": url}, lines=lambda: [f"Holdfast speaks MCP at {url}"]
            )
            console.out.flush()
            serving.serve_http(server, place, listening)
    return DONE


def _place(arguments: Namespace, console: Console) -> Place:
    return checked_place(
        host=arguments.host,
        port=arguments.port,
        names=tuple(arguments.allow_host),
        token=mcp_token(console.environ),
        is_open=arguments.no_token,
    )


def _command(arguments: Namespace, console: Console) -> tuple[str, Command]:
    """Returns the directory whose settings are meant, and what shall be started in it."""
    from holdfast.cli.installed import program as our_program  # noqa: PLC0415 - slow to load

    program, *first = our_program()
    if arguments.server:
        settings = client_settings(console.environ)
        named = arguments.namespace or settings.namespace
        options = ["--server", *([] if named is None else ["--namespace", named])]
        return console.cwd, Command(
            program=program,
            arguments=(*first, "mcp", *options),
            environ={"HOLDFAST_URL": settings.url},
            passed=("HOLDFAST_API_KEY",),
        )
    directory = console.cwd
    if arguments.namespace is not None:
        if arguments.namespace not in get_vault(console).namespaces():
            raise NamespaceNotFound(arguments.namespace)
        options = ["--namespace", arguments.namespace]
    else:
        directory = str(get_workspace(console).path)
        options = ["-C", directory]
    more, passed = _vault(console)
    return directory, Command(
        program=program, arguments=(*first, "mcp", *options, *more), environ={}, passed=passed
    )


def _vault(console: Console) -> tuple[list[str], tuple[str, ...]]:
    """Returns the options that name the vault, and the variables that do."""
    location = console.location()
    if not is_url(location):
        return ["--data", location], ()
    # There is a password in it, which does not belong into a settings file.
    if console.environ.get(DATABASE_URL) != location:
        raise usage(
            "the URL of a database is not written into settings",
            hint=f"Set {DATABASE_URL} to it, for the agent as well, and leave --data out.",
        )
    objects = console.find_objects(location)
    return [] if objects is None else ["--objects", objects], (DATABASE_URL,)

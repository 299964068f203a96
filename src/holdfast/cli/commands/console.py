"""`holdfast console`: the console in a browser, signed in, at the directory that one is in.

A server that runs on the vault anyway is asked; else one is started that answers this machine alone
and ends with the command. What signs in is in the fragment of an address, and is handed to the
browser in a file: whatever stands on a command line, everybody on the machine can read.
"""

import os
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from urllib.parse import quote

import holdfast
from holdfast.cli.attached import get_vault, get_workspace
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.cli.opening import open_link
from holdfast.escaping import escaped
from holdfast.server.config import Config
from holdfast.server.credentials import Started
from holdfast.settings import DATA, DATABASE_URL, OBJECTS_URL, holds_vault, is_url

EXAMPLES = """\
examples:
  holdfast console                 the directory that you are in, or all of the vault
  holdfast console ~/project       another attached directory
  holdfast console --no-browser    print the address, and open nothing
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Opens the console in a browser, signed in: the timeline of the attached directory, what "
        "has changed in it, and the way back, which moves the directory as `holdfast restore` "
        "does. Where no server runs on the vault, one is started for this machine alone, and ends "
        "with Ctrl-C."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "dir", nargs="?", metavar="DIRECTORY", help="an attached directory (default: this one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address alone")
    parser.add_argument("--port", metavar="PORT", type=int, help="the port to listen on (any)")


def run(arguments: Namespace, console: Console) -> int:
    """Opens it; returns the exit code."""
    try:
        from holdfast.server.announcing import find_running  # noqa: PLC0415 - an extra
        from holdfast.server.serving import make_link, serve  # noqa: PLC0415 - as above
    except ModuleNotFoundError as exc:
        raise usage(
            f"{exc.name} is not installed", hint="It needs `pip install 'holdfast[server]'`."
        ) from exc
    if arguments.dir is not None:
        place = os.path.realpath(console.resolve(arguments.dir))
        console = replace(console, cwd=place, called=console.resolve(arguments.dir))
    workspace = _find_workspace(console, is_named=arguments.dir is not None)
    screen = "" if workspace is None else f"n/{quote(workspace.namespace.name, safe='')}/timeline"
    config = _config_of(console, arguments.port)
    running = [
        each
        for each in (find_running(config) if arguments.port is None else [])
        if workspace is None or each.directories
    ]
    if running:
        vault = get_vault(console)
        link = make_link(vault, running[0].port, running[0].prefix, screen=screen)
        _tell(console, link, browses=not arguments.no_browser, stays=False)
        return DONE
    console.vaults.release()

    def tell(started: Started) -> None:
        assert started.link is not None  # noqa: S101 - there are keys by now, and it listens here
        _tell(console, started.link, browses=not arguments.no_browser, stays=True)

    serve(config, tell=tell, links=True, screen=screen)
    return DONE


def _find_workspace(console: Console, *, is_named: bool) -> "holdfast.Workspace | None":
    """Returns the attached directory that is meant; None for all of the vault."""
    location = console.location()
    if is_named:
        return get_workspace(console)  # Which says what is wrong.
    if not holds_vault(location):
        console.note(f"there is no vault yet: a new one is made, {console.location_text(location)}")
        return None
    found = console.vaults.find_workspace(location, console.cwd)
    return None if found is None else get_workspace(console)


def _config_of(console: Console, port: int | None) -> Config:
    from holdfast.server.config import configure as set_up  # noqa: PLC0415 - an extra

    location = console.location()
    # Where it is was found out, and a browser on this machine needs no certificate.
    settled = (DATA, DATABASE_URL, OBJECTS_URL, "HOLDFAST_TLS_CERTIFICATE", "HOLDFAST_TLS_KEY")
    is_database = is_url(location)
    return set_up(
        {name: value for name, value in console.environ.items() if name not in settled},
        data=console.environ.get(DATA) if is_database else location,
        database_url=location if is_database else None,
        objects_url=console.find_objects(location),
        host="127.0.0.1",
        port=port or 0,
        workers=1,
        prefix="",
        console=True,
        directories=True,
        logs_requests=False,
        works=False,  # Whoever looks around sends nothing, and collects nothing.
    )


def _tell(console: Console, link: str, *, browses: bool, stays: bool) -> None:
    is_open = browses and not console.is_json and open_link(console, link)
    first = "The console opens in your browser" if is_open else "Open the console in your browser"
    lines = [f"{first}; this signs you in once, within ten minutes:", f"  {escaped(link)}"]
    lines += ["Ctrl-C ends it."] if stays else []
    console.answer(document=lambda: {"url": link}, lines=lambda: ["\n".join(lines)])
    console.out.flush()

"""`holdfast serve`: the HTTP API over a vault."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from holdfast.cli.attached import add_config, served_place
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, usage
from holdfast.errors import InvalidValue
from holdfast.escaping import escaped
from holdfast.server.config import Config
from holdfast.server.credentials import Credentials, Started

EXAMPLES = """\
examples:
  holdfast serve                           on 127.0.0.1:7433, with the user's own vault
  holdfast serve --data ./vault --port 8000
  HOLDFAST_DATABASE_URL=postgresql://… holdfast serve --host 0.0.0.0 --workers 4
  holdfast serve --config /etc/holdfast.toml --check
"""


_KEPT = "`holdfast keys first` shows them until one is used."


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Serves the HTTP API until Ctrl-C or SIGTERM. The first start makes an admin key and a "
        "runtime key, shows them if this is a terminal, and keeps them in credentials.json beside "
        "the vault; in a database, `holdfast keys first` shows them until one is used."
    )
    parser.epilog = EXAMPLES
    parser.add_argument("--host", metavar="HOST", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", metavar="PORT", help="the port to listen on (7433)")
    parser.add_argument("--workers", metavar="N", help="how many processes answer (1)")
    add_config(parser)
    parser.add_argument(
        "--check", action="store_true", help="say what would be used, and what is wrong with it"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Serves; returns the exit code."""
    try:
        from holdfast.server.config import configure as set_up  # noqa: PLC0415 - an extra
        from holdfast.server.serving import serve  # noqa: PLC0415 - as above
    except ModuleNotFoundError as exc:
        raise usage(
            f"{exc.name} is not installed", hint="Serving needs `pip install 'holdfast[server]'`."
        ) from exc
    flags = {
        **served_place(console),
        "host": arguments.host,
        "port": arguments.port,
        "workers": arguments.workers,
    }
    config = set_up(console.environ, **flags)
    if arguments.check:
        return _check(console, config, flags)

    def tell(started: Started) -> None:
        # In one piece: whoever stops it at its first line has been told its keys.
        text = "\n".join(_lines(started, shows_keys=console.is_terminal))
        console.answer(document=lambda: _document(started), lines=lambda: [text])
        console.out.flush()

    serve(config, tell=tell, links=console.is_terminal and not console.is_json)
    return DONE


def _check(console: Console, config: Config, flags: Mapping[str, object]) -> int:
    """Shows what would be used; refuses if the server would not start with it."""
    from holdfast.server.checking import iter_faults, iter_settings  # noqa: PLC0415 - an extra

    found = list(iter_settings(config, console.environ, flags))
    document = {"settings": [each._asdict() for each in found]}
    width = max(len(each.key) for each in found)
    console.answer(
        document=lambda: document,
        lines=lambda: (
            f"{each.key:<{width}}  {escaped(each.value) or '-'}  ({escaped(each.origin)})"
            for each in found
        ),
    )
    if faults := list(iter_faults(config)):
        raise InvalidValue("; ".join(faults))
    return DONE


def _lines(started: Started, *, shows_keys: bool) -> list[str]:
    """Returns what people are told; what goes into a log has no keys in it."""
    lines = [f"Holdfast is at {started.url}"]
    if started.link is not None:
        lines += ["", "Look at it in a browser; this signs you in once, for ten minutes:"]
        lines += [f"  {started.link}", ""]
    if started.made is not None:
        made = started.made
        lines += [
            "",
            *(_keys(made) if shows_keys else ["An admin key and a runtime key were made now."]),
            _KEPT
            if made.path is None
            else f"They are kept in {escaped(str(made.path))}, readable by you alone.",
            "",
        ]
    return lines


def _keys(made: Credentials) -> list[str]:
    return [
        "These keys were made now and are shown this once:",
        f"  workspace    {escaped(made.workspace_id)}",
        f"  admin key    {escaped(made.admin_key)}",
        f"  runtime key  {escaped(made.api_key)}",
    ]


def _document(started: Started) -> dict[str, object]:
    made = started.made
    return {
        "url": started.url,
        "credentials": None if made is None or made.path is None else str(made.path),
        "workspace_id": started.workspace_id,
    }

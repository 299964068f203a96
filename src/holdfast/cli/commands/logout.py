"""`holdfast logout`: forgets the keys that `holdfast login` has kept."""

from argparse import ArgumentParser, Namespace

from holdfast.cli.commands.login import alone, read_all, write
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.escaping import escaped
from holdfast.settings import Logins, client_settings

EXAMPLES = """\
examples:
  holdfast logout                                    of the server that was signed in to last
  holdfast logout https://holdfast.example.com
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Forgets the keys of a server on this machine. They stay valid until an operator revokes "
        "them, in the console or with `holdfast keys revoke`."
    )
    parser.epilog = EXAMPLES
    parser.add_argument("url", nargs="?", metavar="URL", help="the server (default: the last one)")


def run(arguments: Namespace, console: Console) -> int:
    """Forgets them; returns the exit code."""
    url = (arguments.url or client_settings(console.environ).url).rstrip("/")
    gone = None
    if url in read_all(console.environ).servers:
        with alone(console.environ):
            kept = read_all(console.environ)
            gone = kept.servers.pop(url, None)
            current = next(iter(kept.servers), None) if kept.current == url else kept.current
            write(console.environ, Logins(current, kept.servers))
    ids = [gone[name] for name in ("key_id", "admin_key_id") if gone and name in gone]
    console.answer(document=lambda: {"url": url, "forgotten": ids}, lines=list)
    what = f"Forgot {' and '.join(ids)} of" if ids else "Nothing is kept of"
    console.say(f"{escaped(what)} {escaped(url)}.")
    return DONE

"""`holdfast demo`: an agent's bad day and its undo, or a made-up fortnight to look around in."""

import tempfile
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path

from holdfast import demo
from holdfast.cli.commands import serve
from holdfast.cli.console import Console

EXAMPLES = """\
examples:
  holdfast demo                  a minute on the terminal; every claim is checked
  holdfast demo --serve          five agents and two weeks of their work, over HTTP
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Plays how an agent wrecks its work and gets it back. With --serve, fills a vault with the "
        "made-up work of five agents and serves it until Ctrl-C. Both happen in a temporary "
        "directory, which is removed at the end."
    )
    parser.epilog = EXAMPLES
    parser.add_argument("--serve", action="store_true", help="serve a made-up story")
    parser.add_argument("--port", metavar="PORT", type=int, help="the port to listen on (7433)")


def run(arguments: Namespace, console: Console) -> int:
    """Plays, or serves; returns the exit code."""
    if not arguments.serve:
        return demo.main()
    from holdfast.story import tell  # noqa: PLC0415 - of what is only served

    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        vault = Path(folder, "vault")
        console.note("Making up two weeks of five agents, which takes some seconds.")
        tell(vault)
        # Its own vault and nobody's: settings may name another.
        environ = {
            name: value
            for name, value in console.environ.items()
            if name not in ("HOLDFAST_DATABASE_URL", "HOLDFAST_OBJECTS_URL")
        }
        asked = Namespace(host="127.0.0.1", port=arguments.port, workers=None, check=False)
        return serve.run(asked, replace(console, data=str(vault), objects=None, environ=environ))

"""`holdfast login`: signs this machine in to a server, which a person approves in a browser.

The key that comes back is kept in a file that its owner alone can read; clients find it there.
"""

import fcntl
import getpass
import json
import os
import socket
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress

from holdfast.cli.console import Console
from holdfast.cli.exits import DONE
from holdfast.cli.opening import open_address
from holdfast.errors import InvalidValue
from holdfast.escaping import escaped
from holdfast.model.keys import SCOPES, Me, Scope
from holdfast.ownfiles import create
from holdfast.sdk.login import Login
from holdfast.settings import Logins, client_settings, logins_file, read_logins

EXAMPLES = """\
examples:
  holdfast login https://holdfast.example.com
  holdfast login --no-browser      print where to approve it, and open nothing
  holdfast logout                  forget the key again
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Signs this machine in to a server: shows a code, which a person who is signed in to the "
        "server's console approves, and keeps the key that comes back where clients find it."
    )
    parser.epilog = EXAMPLES
    parser.add_argument("url", nargs="?", metavar="URL", help="the server (default: HOLDFAST_URL)")
    parser.add_argument("--no-browser", action="store_true", help="print the address alone")


def run(arguments: Namespace, console: Console) -> int:
    """Signs in; returns the exit code."""
    url = arguments.url or client_settings(console.environ).url
    read_all(console.environ)  # Before there is a key that could not be kept.
    with closing(Login(url)) as login:
        begun = login.start(_who())
        address = begun.verification_uri_complete
        is_open = not arguments.no_browser and open_address(console, address)
        where = "It opens in your browser" if is_open else "Open it in a browser"
        console.note(
            f"your code is {begun.user_code}",
            f"{where}; approve it there if the page shows the same code:",
            f"  {address}",
        )
        console.err.flush()
        api_key = login.wait(begun)
        me = login.me(api_key)
    keep(console.environ, login.url, me, api_key)
    path, scope = logins_file(console.environ), SCOPES[me.scope]
    console.answer(
        document=lambda: {
            "url": login.url,
            "workspace_id": me.workspace_id,
            "key_id": me.key_id,
            "scope": scope,
            "namespace": me.namespace,
            "kept_in": path,
        },
        lines=list,
    )
    reach = "" if me.namespace is None else f" for namespace {escaped(me.namespace)}"
    console.say(f"Signed in to {escaped(login.url)} with the {scope} key {me.key_id}{reach}.")
    console.say(f"It is kept in {escaped(path)}, readable by you alone.")
    return DONE


def read_all(environ: Mapping[str, str]) -> Logins:
    """Returns what is kept, for who writes it anew; raises `InvalidValue` if it cannot be read."""
    kept = read_logins(environ)
    if not kept.is_readable:
        path = escaped(logins_file(environ))
        raise InvalidValue(f"{path} is not yours alone, or damaged").with_hint(
            f"`chmod 600 {path}`, or remove it: keys that it holds are in nobody else's way then."
        )
    return kept


@contextmanager
def alone(environ: Mapping[str, str]) -> Generator[None]:
    """Keeps others from changing what is kept, between reading it and writing it anew."""
    path = logins_file(environ)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(f"{path}.lock", flags, 0o600)
    try:
        with suppress(OSError):  # A file system without locks: keys are kept there all the same.
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def write(environ: Mapping[str, str], kept: Logins) -> None:
    """Replaces what is kept, in one step."""
    path = logins_file(environ)
    aside = f"{path}.{os.getpid()}"
    with create(aside) as file:
        text = {"current": kept.current, "servers": kept.servers}
        file.write(json.dumps(text, indent=2).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def keep(environ: Mapping[str, str], url: str, me: Me, api_key: str) -> None:
    """Keeps a key beside what is known of its server, unless that is of another workspace."""
    with alone(environ):
        kept = read_all(environ)
        known = kept.servers.get(url, {})
        own = dict(known) if known.get("workspace_id") == me.workspace_id else {}
        own["workspace_id"] = me.workspace_id
        if me.scope is Scope.ADMIN:
            own |= {"admin_key": api_key, "admin_key_id": me.key_id}
        else:
            own.pop("namespace", None)
            own |= {"api_key": api_key, "key_id": me.key_id}
            own |= {} if me.namespace is None else {"namespace": me.namespace}
        write(environ, Logins(url, {**kept.servers, url: own}))


def _who() -> str:
    """Returns what the person who approves it reads."""
    try:
        return f"holdfast login by {getpass.getuser()} on {socket.gethostname()}"
    except (KeyError, OSError):  # A user without a name.
        return f"holdfast login on {socket.gethostname()}"

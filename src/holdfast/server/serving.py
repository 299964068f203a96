"""Runs a server until it is asked to stop.

One process by default; with more workers, a parent that keeps them alive, and that they do not
outlive. Asked to stop, a server takes no new requests, lets those that are under way finish, ends
live streams, and closes the vault.
"""

import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from ipaddress import ip_address
from pathlib import Path
from types import FrameType, ModuleType
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidValue, Unavailable
from holdfast.ownfiles import is_open
from holdfast.server.announcing import announced
from holdfast.server.app import Speaking, open_vault, start_log
from holdfast.server.checking import check_means
from holdfast.server.config import Config, to_environ
from holdfast.server.credentials import Started, make_credentials
from holdfast.server.pages import HOME
from holdfast.server.room import remove_uploads, shared_folder
from holdfast.server.routes.info import SHARED_METRICS
from holdfast.server.tls import make_context

logger = logging.getLogger("holdfast.server")

_OTHER_PLACE: Final = (
    "Choose another --port (0 takes one that is free) or --host, or stop what listens there."
)

KEEP_ALIVE_S: Final = 75
"""Longer than clients keep idle connections: theirs is the side that should close."""

BACKLOG: Final = 2048

WORKER_S: Final = 60
"""How long a worker may be busy with one thing before it is taken for dead."""


def serve(
    config: Config, *, tell: Callable[[Started], None], links: bool = False, screen: str = ""
) -> None:
    """Serves until SIGTERM or Ctrl-C; `tell` is called once it is listening.

    With `links`, also where a person is signed in to the console, at a `screen` of it: for a
    terminal, and no log. Not where others than this machine are answered: who opens it first is
    signed in.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        # Until the server has handlers of its own, and when it has stopped and raises the signal
        # once more: to be asked to stop and to do so is no failure.
        signal.signal(number, _leave)
    start_log(config)
    check_means(config)
    if config.spool is not None:
        _use_spool(config.spool)
    listening = _listen(config)
    try:
        with open_vault(config) as vault:
            made = make_credentials(vault, config)
            workspace_id = vault.tenant_id
            link = _link_to(vault, config, listening, screen) if links else None
        if config.database_url is None and is_open(config.data):
            logger.warning("others may look into %s: its files are yours alone", config.data)
        remove_uploads(config.uploads)
        os.environ.update(to_environ(config))
        with shared_folder() as folder, _announced(config, listening):
            tell(Started(_url_of(config, listening), workspace_id, made, link))
            if config.workers > 1:
                # Read when the metrics are first imported, in each worker.
                os.environ[SHARED_METRICS] = folder
            _run(config, listening)
    finally:
        listening.close()


def _use_spool(folder: Path) -> None:
    """Has everything lie there that is a file for a while, in workers, too."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        message = f"the directory {folder} cannot be made: {exc.strerror}"
        raise Unavailable(message).with_hint(
            "HOLDFAST_SPOOL names one that is written to."
        ) from exc
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def make_link(vault: Holdfast, port: int, prefix: str = "", *, screen: str = "") -> str:
    """Returns an address that signs a person in to the console of a server on this machine, once.

    It leads to a `screen` of it, as that stands in an address: `n/alice/timeline`.

    Under a name of its own, which leads to this machine as all do that end so: cookies ignore
    ports, and whatever else is served here, by an agent perhaps, is never sent this one. What
    follows the `#` is not sent to any server.
    """
    link, own = vault.sign_ins.create_link(), secrets.token_hex(4)
    place = f"{prefix.rstrip('/')}{HOME}/{screen}"
    return f"http://holdfast-{own}.localhost:{port}{place}#link={link}"


def _is_for_people_here(config: Config, listening: socket.socket) -> bool:
    """Says whether it has a console, and answers nobody but this machine, without TLS."""
    is_plain = config.tls_certificate is None
    return config.console and is_plain and ip_address(listening.getsockname()[0]).is_loopback


def _link_to(vault: Holdfast, config: Config, listening: socket.socket, screen: str) -> str | None:
    if _is_for_people_here(config, listening):
        with suppress(InvalidValue):  # There is no key that it could stand for.
            return make_link(vault, listening.getsockname()[1], config.prefix, screen=screen)
    return None


def _announced(config: Config, listening: socket.socket) -> AbstractContextManager[None]:
    if _is_for_people_here(config, listening):
        return announced(config, listening.getsockname()[1])
    return nullcontext()


def _leave(_number: int, _frame: FrameType | None, /) -> None:
    sys.exit(0)


def _run(config: Config, listening: socket.socket) -> None:
    settings = uvicorn.Config(
        "holdfast.server.app:create",
        factory=True,
        workers=config.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # Nobody asks where a request comes from.
        http=Speaking,
        ws="none",  # Whatever is installed beside us: an upgrade is asked for in vain.
        loop="holdfast.server.accepting:Loop",
        timeout_graceful_shutdown=config.grace_s,
        timeout_keep_alive=KEEP_ALIVE_S,
        backlog=BACKLOG,
        timeout_worker_healthcheck=WORKER_S,
        ssl_context_factory=None if config.tls_certificate is None else make_context,
    )
    if config.workers > 1:
        # Until a worker knows our path, its first imports would be of whatever lies where we run.
        os.environ["PYTHONSAFEPATH"] = "1"
        with _without_main():
            _Workers(settings, [listening]).run()
        return
    server = uvicorn.Server(settings)

    def stop(_number: int, _frame: FrameType | None, /) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        # Who is asked before the server has handlers of its own must not leave a loop that runs.
        signal.signal(number, stop)
    server.run(sockets=[listening])


@contextmanager
def _without_main() -> Generator[None]:
    """Lets workers begin without the script that started this process.

    Python would run it again in each of them, under another name: a script that does not ask for
    its name would serve once more, and one that an upgrade has taken away could not be run.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _Workers(Multiprocess):
    """Keeps worker processes alive; when they are to stop, nobody is let in any more."""

    def keep_subprocess_alive(self) -> None:
        """Replaces the workers that died, and says so."""
        for worker in self.processes:
            # The worker's end of the pipe is held here, too. Until it is closed, a worker that dies
            # while it is asked whether it lives leaves no end of file, and `WORKER_S` are waited.
            worker.child_conn.close()
        before = [*self.processes]
        super().keep_subprocess_alive()
        for gone, new in zip(before, self.processes, strict=True):
            if new is not gone:
                logger.error(
                    "worker %s %s: worker %s takes its place",
                    gone.pid,
                    _end_of(gone.exitcode),
                    new.pid,
                )

    def terminate_all(self) -> None:
        """Asks all workers to stop."""
        # Ours is one more way in: a connection that the kernel took would wait for nobody.
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


def _end_of(code: int | None) -> str:
    """Returns how a process ended."""
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):  # Of the system's own there are some without a name.
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def _listen(config: Config) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        listening.listen(BACKLOG)
    except (OSError, ValueError) as exc:  # What cannot be a name is no text for DNS.
        listening.close()
        reason = getattr(exc, "strerror", None) or exc
        message = f"{config.host[:80]}:{config.port} cannot be listened on: {reason}"
        raise Unavailable(message).with_hint(_OTHER_PLACE) from exc
    listening.set_inheritable(True)
    return listening


def _url_of(config: Config, listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if config.tls_certificate is None else "https"
    return f"{scheme}://{shown}:{port}{config.prefix}"

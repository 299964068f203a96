"""Plays the client in C, `_thin.c`, and the one in Python with the same servers.

A round is somebody's directory, environment and command line, and a server that says whatever it
likes, in pieces of any size: what ours says, most of that, or nonsense. Both clients do the same
with it: they ask the same, write the same and end with the same code, or leave the command to a
process of its own. The one in C may leave more to that, as long as nothing was asked for. Then the
same again with system calls that fail: it may be anything but wrong.
"""

import contextlib
import ctypes
import io
import os
import random
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from socket import AF_UNIX, SHUT_RDWR, SHUT_WR, socket

from faulty_calls import Library

from holdfast.cli import thin
from holdfast.cli.thin import __file__ as _module
from holdfast.workspace.library import library_name

CLIENT = b"1 2 3 4"
"""What the client in C is told that it is known by."""
IN_PYTHON = -1
COMMANDS = ("snapshot", "status", "log", "undo", "restore", "init", "", "-q", "show")
WORDS = (
    "-C",
    "-Cbelow",
    "--data",
    "--data=",
    "--",
    "--objects",
    "-m",
    "ü",
    "",
    "\udcff",
    "x" * 5000,
)
PATHS = (".", "..", "below", "/", "nowhere", "~", "below/../below", "below//", "")


class Thin(Library):
    """The client as a library: it lies beside its source, and is no program here."""

    def __init__(self) -> None:
        self.loaded = ctypes.CDLL(str(Path(_module).with_name(library_name("thin")[:-3])))
        self.state = self.chance = ctypes.c_uint64()
        with contextlib.suppress(ValueError):
            self.state = ctypes.c_uint64.in_dll(self.loaded, "faulty_state")
            self.chance = ctypes.c_uint64.in_dll(self.loaded, "faulty_chance")


LIBRARY = Thin()
SYSTEM = ctypes.CDLL(None)
STREAMS = [io.TextIOWrapper(io.FileIO(number, "w", closefd=False), "utf-8") for number in (1, 2)]
"""Made once: what is made for each round is not all gone after it."""
ASK = LIBRARY.function(
    "holdfast_thin_1", [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p]
)


class Server:
    """Says what it was given to say, and keeps what it was asked."""

    def __init__(self, path: Path, greeting: bytes, answer: bytes, pieces: list[int]) -> None:
        self._asked: list[bytes] = []
        self._path, self._said, self._pieces = str(path), (greeting, answer), pieces
        self._listener = socket(AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                self._say(connection, self._said[0])
                heard = self._hear(connection)
                if heard:
                    self._asked.append(heard)
                self._say(connection, self._said[1])
                connection.shutdown(SHUT_WR)

    def _say(self, connection: socket, text: bytes) -> None:
        at = 0
        for piece in self._pieces:
            connection.sendall(text[at : at + piece])
            at += piece
        connection.sendall(text[at:])

    def _hear(self, connection: socket) -> bytes:
        head = b""
        while len(head) < 4:
            part = connection.recv(4 - len(head))
            if not part:
                return b""
            head += part
        body = b""
        while len(body) < int.from_bytes(head, "big"):
            part = connection.recv(1 << 16)
            if not part:
                return b""
            body += part
        return head + body

    def take_asked(self) -> list[bytes]:
        """Returns what was asked since the last time, by whoever has gone meanwhile as well.

        Who leaves in the middle does not wait until it was heard. But whoever comes is served in
        turn: once somebody who asks nothing has been, so have all before.
        """
        with socket(AF_UNIX) as last:
            last.connect(self._path)
            last.shutdown(SHUT_WR)
            while last.recv(1 << 16):
                pass
        asked, self._asked = self._asked, []
        return asked

    def close(self) -> None:
        self._said = (b"", b"")
        self._listener.shutdown(SHUT_RDWR)  # Wakes the thread.
        self._thread.join()
        self._listener.close()


def nonsense(rng: random.Random, message: bytes) -> bytes:
    """Returns a message with something wrong in it."""
    spoilt = bytearray(message)
    for _ in range(rng.randint(1, 4)):
        if spoilt:
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    # Never a length that has to be waited for: whoever says less hangs up.
    return bytes(spoilt[: rng.randint(0, len(spoilt))] if rng.randrange(2) else spoilt)


def greeting_of(rng: random.Random, known: list[bytes]) -> bytes:
    fields = [*known, b"17", CLIENT]
    if not rng.randrange(4):
        fields[rng.randrange(len(fields))] = rng.choice((b"", b"other", b"\0" * 300))
    if not rng.randrange(8):
        fields = fields[: rng.randrange(len(fields))]
    if not rng.randrange(8):
        return nonsense(rng, thin.pack(fields))
    return thin.pack(fields)


def answer_of(rng: random.Random) -> bytes:
    said = b""
    for _ in range(rng.choice((0, 0, 1, 3))):
        said += thin.pack([b"err", rng.randbytes(rng.choice((0, 5, 3000)))])
    code = rng.choice((b"0", b"6", b"255", b"256", b"-1", b"", b"007", b"9" * 20, b"x"))
    last = rng.choice(
        (
            [b"exit", code, rng.randbytes(rng.choice((0, 5, 100_000))), b"said"],
            [b"exit", b"3", b"out", b""],
            [b"no"],
            [b"no", b"more"],
            [b"exit", b"0"],
            [b"err"],
            [],
            [b""] * rng.choice((1, 16, 17, 40)),
        )
    )
    said += thin.pack(last)
    return nonsense(rng, said) if not rng.randrange(4) else said


@contextlib.contextmanager
def caught(folder: Path) -> Generator[list[bytes]]:
    """Collects what is written to the first two descriptors."""
    texts: list[bytes] = []
    kept = [os.dup(number) for number in (1, 2)]
    files = [os.open(folder / f"caught{number}", os.O_RDWR | os.O_CREAT) for number in (1, 2)]
    try:
        for number, file in enumerate(files, start=1):
            os.dup2(file, number)
        yield texts
    finally:
        for number, (file, was) in enumerate(zip(files, kept, strict=True), start=1):
            os.dup2(was, number)
            os.close(was)
            os.lseek(file, 0, os.SEEK_SET)
            texts.append(os.read(file, 1 << 20))
            os.ftruncate(file, 0)
            os.close(file)


def ask_in_c(argv: list[str]) -> int:
    words = [b"holdfast", *map(os.fsencode, argv)]
    pointers = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    return ASK(len(words), pointers, CLIENT)


def environment(rng: random.Random, folder: Path) -> dict[str, str]:
    vault = str(folder / "vault")
    found = {"HOME": str(folder), "LC_ALL": rng.choice(("C.UTF-8", "C", "POSIX", "de_DE.utf8"))}
    found["HOLDFAST_DATA"] = rng.choice((vault, vault, vault, vault + "/", "vault", ""))
    if not rng.randrange(3):
        found["XDG_DATA_HOME"] = rng.choice((str(folder), "relative", ""))
    if not rng.randrange(4):
        name = rng.choice(("TERM", "NO_COLOR", "PWD", "TZ", "CI", "HOLDFAST_DATABASE_URL"))
        found[name] = rng.choice(("x", "", "0", "postgresql://x", "y" * 9000))
    if not rng.randrange(4):
        found["HOLDFAST_STAY"] = rng.choice(("0", "00", "1", "no", "", "999999999", "1" * 40))
    if rng.randrange(4):
        private = str(folder / "private")
        found["XDG_RUNTIME_DIR"] = rng.choice((private, private, "/", "relative", "", vault))
    if not rng.randrange(8):
        found["SUDO_UID"] = rng.choice((str(os.geteuid()), "12345", "", "x"))
    return found


def arguments(rng: random.Random) -> list[str]:
    words = [rng.choice(COMMANDS)]
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        words.insert(rng.randint(0, len(words)), rng.choice((*WORDS, *PATHS)))
    return words


@contextlib.contextmanager
def somebody(environ: dict[str, str], directory: Path) -> Generator[None]:
    """Is somebody in a directory, with an environment."""
    before, cwd, streams = os.environ, os.getcwd(), (sys.stdout, sys.stderr)
    # What C sees is put in place by hand: the system's own way never frees what it replaces.
    in_c = ctypes.c_void_p.in_dll(SYSTEM, "environ")
    was = in_c.value
    pairs = [os.fsencode(f"{name}={value}") for name, value in environ.items()]
    shown = (ctypes.c_char_p * (len(pairs) + 1))(*pairs, None)
    try:
        in_c.value = ctypes.addressof(shown)
        os.environ = environ  # noqa: B003 - what C sees has been replaced above
        os.chdir(directory)
        sys.stdout, sys.stderr = STREAMS
        yield
    finally:
        in_c.value = was
        os.environ = before  # noqa: B003 - as it was
        os.chdir(cwd)
        sys.stdout, sys.stderr = streams


def play(rng: random.Random, folder: Path) -> Counter[str]:
    """Plays one round."""
    done = Counter[str]()
    # By the same name each time: Python's own table of names would grow otherwise.
    root = Path(os.path.realpath(folder)) / "round"
    try:
        directory, vault = root / "here" / "below", root / "vault"
        directory.mkdir(parents=True)
        (vault / "run").mkdir(parents=True)
        (vault / "run").chmod(rng.choice((0o700, 0o700, 0o700, 0o755)))
        watched = rng.choice((None, root / "here", directory, root))
        known = thin.greeting_of_all(str(vault)) if watched is None else thin.greeting(str(watched))
        left = Path(thin.left_folder(str(root / "private")))
        left.mkdir(mode=0o700, parents=True)
        left.parent.chmod(0o700)
        left.chmod(rng.choice((0o700, 0o700, 0o700, 0o755)))
        socket_folder = left if watched is None else vault / "run"
        name = thin.name_of(str(vault if watched is None else watched))
        pieces = [rng.randrange(9) for _ in range(rng.choice((0, 0, 3, 20)))]
        greeting = greeting_of(rng, known)
        # Of other code, which the client in C does not know: it goes by what its own file is.
        is_foreign = known[1] not in greeting
        server = Server(socket_folder / f"{name}.sock", greeting, answer_of(rng), pieces)
        try:
            for _ in range(4):
                _compare(rng, root, directory, server, done, is_foreign=is_foreign)
        finally:
            server.close()
    finally:
        shutil.rmtree(root)
    return done


def _ask_in_python(
    argv: list[str], root: Path, server: Server
) -> tuple[int | None, list[bytes], list[bytes]]:
    with caught(root) as told:
        found = thin.try_resident(argv)
    return found, told, server.take_asked()


def _compare(
    rng: random.Random,
    root: Path,
    directory: Path,
    server: Server,
    done: Counter[str],
    *,
    is_foreign: bool,
) -> None:
    argv = arguments(rng)
    with somebody(environment(rng, root), rng.choice((directory, directory.parent))):
        with caught(root) as told:
            code = ask_in_c(argv)
        asked = server.take_asked()
        found, expected_told, expected_asked = _ask_in_python(argv, root, server)
        if found is None and asked and not expected_asked:
            # It tires of waiting for a greeting after a second, which a busy machine may take.
            found, expected_told, expected_asked = _ask_in_python(argv, root, server)
        expected = IN_PYTHON if found is None else found
        if code == IN_PYTHON and not asked and not told[0] and not told[1]:
            done["left to Python" if found is not None else "nobody's"] += 1
        elif is_foreign:
            assert found is None, argv
        else:
            assert (code, told, asked) == (expected, expected_told, expected_asked), argv
            done[f"ended with {code}"] += 1
        with caught(root), LIBRARY.faulty(rng, rng.choice((500, 5000))):
            assert IN_PYTHON <= ask_in_c(argv) <= 255
        server.take_asked()
        done["faulty"] += 1

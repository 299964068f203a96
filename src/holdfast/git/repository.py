"""A bare repository of our own: commits are put into it, and read out of one.

A commit is what was there before and what is said to differ. Whatever is written comes in one
stream, and the branch moves when all of it is there: a stream that breaks off leaves the branch
where it was, and objects that nobody names. The same commits, said again elsewhere, are the same
commits, to the last letter of their names.
"""

import subprocess
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from holdfast.errors import GitFailed
from holdfast.git.program import LONG_S, Program, check, words_of

FILE, EXECUTABLE, LINK, MODULE = b"100644", b"100755", b"120000", b"160000"
"""Modes of what a tree holds; the last is a commit of another repository."""

_GONE: Final = b"000000"
_NO_TREE: Final = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without entries, which every repository has."""

_FIELDS: Final = 5
_PIECE: Final = 1 << 16
_PLAIN: Final = frozenset(range(0x20, 0x7F)) - {0x22, 0x5C}


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its name, when and by whom, and what it says."""

    id: str
    parent: str | None
    author: str
    seconds: int
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """What differs at one path: what is there after it, and nothing if it is gone."""

    path: bytes
    mode: bytes | None
    blob: str


class Repository:
    """A repository in a folder, made when it is first used."""

    def __init__(self, program: Program, folder: Path) -> None:
        self._program, self.folder = program, folder

    def make(self) -> None:
        """Makes it, unless it is there; without hooks, for its owner alone."""
        if not (self.folder / "HEAD").exists():
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            args = ["init", "--quiet", "--bare", "--template=", "--initial-branch=main"]
            self._program.run([*args, str(self.folder)])

    def run(self, *args: str, **options: object) -> bytes:
        """Runs a command of git in it."""
        return self._program.run([*self._at, *args], **options)  # pyright: ignore[reportArgumentType] - as `run` says

    @property
    def _at(self) -> Sequence[str]:
        return (f"--git-dir={self.folder}",)

    def find(self, name: str) -> Commit | None:
        """Returns the commit that a full name stands for; None if there is none."""
        with suppress(GitFailed):
            self.run("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
            (commit,) = self._log("-1", name)
            return commit
        return None

    def has(self, commit_id: str, *, below: str) -> bool:
        """Says whether a commit is another one, or one of those before it."""
        try:
            self.run("merge-base", "--is-ancestor", commit_id, below)
        except GitFailed:
            return False
        return True

    def commits(self, name: str, *, most: int) -> list[Commit]:
        """Returns the last commits that lead to one by first parents, the first of them first."""
        return self._log("--first-parent", "--reverse", f"--max-count={most}", name)

    def _log(self, *args: str) -> list[Commit]:
        form = "--format=%H%x00%P%x00%an%x00%ct%x00%B%x00"
        out = self.run("log", "--no-show-signature", form, *args, "--", seconds=LONG_S)
        words = out.decode("utf-8", "replace").split("\0")
        found = list[Commit]()
        for at in range(0, len(words) - _FIELDS, _FIELDS):
            name, parents, author, seconds, message = words[at : at + _FIELDS]
            parent = parents.split(" ")[0] or None
            found.append(Commit(name.strip(), parent, author, int(seconds), message))
        return found

    def read(self, commit_id: str, path: bytes, *, most_bytes: int) -> bytes | None:
        """Returns a file of a commit; None if it is not there, or larger than that."""
        with self.reading() as reader:
            return reader.get(b"%s:%s" % (commit_id.encode(), path), most_bytes=most_bytes)

    def steps(self, commit: Commit, *, is_first: bool) -> Iterator[Step]:
        """Yields what differs between a commit and the one before it, or nothing at all."""
        before = commit.parent if commit.parent and not is_first else _NO_TREE
        args = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff"]
        with self._program.started([*self._at, *args, before, commit.id]) as (process, said):
            words = _iter_words(_pipes(process)[1])
            for word in words:
                _, mode, _, blob, _ = word.split(b" ")
                is_gone = mode == _GONE
                path = next(words, None)
                if path is None:
                    break  # It broke off.
                yield Step(path, None if is_gone else mode, blob.decode())
            process.wait()
            check(process, args[0], said)

    @contextmanager
    def reading(self) -> Generator["Reader"]:
        """Opens objects to read."""
        with self._program.started([*self._at, "cat-file", "--batch"]) as (process, _):
            yield Reader(process)

    @contextmanager
    def writing(self, branch: str) -> Generator["Writer"]:
        """Opens the stream that commits come in; the branch moves when the block ends well."""
        args = [*self._at, "fast-import", "--quiet", "--done", "--date-format=raw"]
        tip = self.find(f"refs/heads/{branch}")
        try:
            with self._program.started(args) as (process, said):
                writer = Writer(process, said, f"refs/heads/{branch}", goes_on=tip is not None)
                yield writer
                writer.finish()
        finally:
            # It says in them what it was given last.
            for left in self.folder.glob("fast_import_crash_*"):
                left.unlink(missing_ok=True)

    def check(self) -> str:
        """Returns what git finds wrong with what is there; nothing, if nothing."""
        with self._program.started([*self._at, "fsck", "--strict", "--no-dangling"]) as (
            process,
            said,
        ):
            out, _ = process.communicate()
            if process.returncode < 0:
                check(process, "fsck", said)
            return (out.decode("utf-8", "replace") + words_of(said)).strip()

    def tidy(self) -> None:
        """Packs what has come together, if it is much."""
        settings = {"gc.auto": "2000", "gc.autoPackLimit": "30", "gc.autoDetach": "false"}
        self.run("gc", "--auto", "--quiet", settings=settings, seconds=LONG_S, is_tethered=True)


class Reader:
    """Objects of a repository, by name."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._in, self._out = _pipes(process)

    def get(self, name: bytes, *, most_bytes: int) -> bytes | None:
        """Returns the bytes of one; None if there is none, or it is larger than that."""
        with self.opened(name) as parts:
            if parts is None or parts.size > most_bytes:
                return None
            return parts.read(parts.size)

    @contextmanager
    def opened(self, name: bytes) -> Generator["Parts | None"]:
        """Opens one to read it bit by bit; None if there is none."""
        with suppress(BrokenPipeError):
            self._in.write(name + b"\n")
            self._in.flush()
        said = self._out.readline().split()
        if not said:
            raise GitFailed("cat-file", said="it ended before it answered")
        if not said[-1].isdigit():
            yield None
            return
        parts = Parts(self._out, int(said[-1]))
        try:
            yield parts
        finally:
            parts.finish()


class Parts:
    """The bytes of an object that is being read."""

    def __init__(self, coming: IO[bytes], size: int) -> None:
        self._coming, self._left, self.size = coming, size, size

    def read(self, size: int = -1) -> bytes:
        """Returns some of what is left; nothing at the end."""
        data = self._coming.read(self._left if size < 0 else min(size, self._left))
        if not data and self._left:
            raise GitFailed("cat-file", said="it ended before the object did")
        self._left -= len(data)
        return data

    def finish(self) -> None:
        """Passes over what nobody has read, and what stands behind it."""
        while self._left:
            self.read(_PIECE)
        self._coming.read(1)


class Writer:
    """The stream that commits come in."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", said: IO[bytes], ref: str, *, goes_on: bool
    ) -> None:
        self._process, self._said, self._ref = process, said, ref.encode()
        self._in, _ = _pipes(process)
        self._goes_on = goes_on

    def begin(self, message: str, *, author: str, seconds: int) -> None:
        """Begins a commit: what differs comes next."""
        who = b"%s <holdfast@localhost> %d +0000\n" % (author.encode(), seconds)
        text = message.encode()
        self._write(b"commit %s\nauthor %scommitter %s" % (self._ref, who, who))
        self._write(b"data %d\n%s\n" % (len(text), text))
        if self._goes_on:
            self._write(b"from %s^0\n" % self._ref)
            self._goes_on = False  # The next one follows by itself.

    def clear(self) -> None:
        """Lets the commit begin without anything."""
        self._write(b"deleteall\n")

    def delete(self, path: bytes) -> None:
        """Takes a path away, with all below it, if it is there."""
        self._write(b"D %s\n" % _quoted(path))

    def put(self, path: bytes, mode: bytes, size: int, parts: Iterable[bytes]) -> None:
        """Puts a file or a link."""
        self._write(b"M %s inline %s\ndata %d\n" % (mode, _quoted(path), size))
        for part in parts:
            self._write(part)
        self._write(b"\n")

    def finish(self) -> None:
        """Ends the stream; raises `GitFailed` unless all of it has been taken in."""
        self._write(b"done\n")
        with suppress(BrokenPipeError):
            self._in.close()
        self._process.wait()
        check(self._process, "fast-import", self._said)

    def _write(self, data: bytes) -> None:
        try:
            self._in.write(data)
        except BrokenPipeError:
            self._process.wait()
            raise GitFailed("fast-import", said=words_of(self._said)) from None


def _quoted(path: bytes) -> bytes:
    """Returns a path as the stream has it: whatever is in it, it ends where it ends."""
    parts = (bytes([byte]) if byte in _PLAIN else b"\\%03o" % byte for byte in path)
    return b'"' + b"".join(parts) + b'"'


def _iter_words(coming: IO[bytes]) -> Iterator[bytes]:
    """Yields what a NUL ends."""
    left = b""
    while part := coming.read(_PIECE):
        *words, left = (left + part).split(b"\0")
        yield from words


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    """Returns what goes in, and what comes out."""
    going, coming = process.stdin, process.stdout
    if going is None or coming is None:
        raise GitFailed("start", said="it has no pipes")
    return going, coming

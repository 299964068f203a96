"""Runs git, with nothing in its environment but what is put there.

No configuration of the user or the system is read, no hook and no helper of theirs is run, nobody
is asked for a password, no transport is used but those that are named. Every run has a deadline;
what is left of one that came too late is killed, with the programs that it started. A git that is
too old to keep to all this is not run at all.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

from holdfast.errors import GitFailed, GitMissing, GitTooOld
from holdfast.escaping import spaced
from holdfast.git.hiding import Hiding

PLACES: Final = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
"""Where git and ssh are looked for: not where the environment says."""

OLDEST: Final = (2, 32)
"""The first git that reads nothing of what the user told it (`GIT_CONFIG_GLOBAL`), and our settings
in place of that."""

OLDEST_OVER_HTTPS: Final = (2, 37)
"""The first one that connects to the address that was looked at (`http.curloptResolve`)."""

SECONDS: Final = 60.0
"""For what touches no network and little data."""

LONG_S: Final = 3600.0
"""For what goes through all of a repository."""

MOST_WORDS: Final = 500
"""Characters of what git says of a failure that are repeated."""

_MOST_LOOKED_AT: Final = 1 << 16
"""Bytes at the end of what a command says in which those are looked for."""

_BOUNDED: Final = ("/bin/sh", "-c", 'ulimit -f "$1" && shift && exec "$@"', "sh")
_BLOCK_BYTES: Final = 512

_TETHER: Final = """
exec 3<&0 </dev/null
{ read -r _ <&3; kill -KILL 0; } >/dev/null 2>&1 &
exec 3<&-
"$@"
code=$?
{ kill -KILL $!; wait; } 2>/dev/null
exit $code
"""
_TETHERED: Final = ("/bin/sh", "-c", _TETHER, "sh")
"""Ends a command, and all that it started, when nobody holds the other end of its input any more:
a process that is killed can end nothing itself."""

_VERSION_CHARS: Final = 50
_VERSION: Final = re.compile(rb"git version ([0-9]{1,4})\.([0-9]{1,4})[ -~]*")

_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "advice.pushUpdateRejected": "false",
    "core.quotePath": "true",
    "gc.auto": "0",
    "protocol.allow": "never",
    "transfer.fsckObjects": "true",
    "fetch.unpackLimit": "1",  # What comes is one file, which can be bounded.
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.proxy": "",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
}
"""Beside what is in a repository of our own, which is nothing."""


class Program:
    """The git of this machine."""

    def __init__(self, home: Path) -> None:
        """Finds it; raises `GitMissing` or `GitTooOld`.

        `home` is a folder of ours that it takes for a home.
        """
        self._path, self._home = find_git(), home

    def run(
        self,
        args: Sequence[str],
        *,
        feed: bytes = b"",
        seconds: float = SECONDS,
        most_bytes: int | None = None,
        settings: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
        is_tethered: bool = False,
        hiding: Hiding | None = None,
    ) -> bytes:
        """Returns what a command prints; raises `GitFailed` with what it said if it fails.

        One that `is_tethered` reads nothing, and ends when this process does. What `hiding` hides
        is in no error.
        """
        command = next(arg for arg in args if not arg.startswith("-"))
        with self.started(
            args,
            seconds=seconds,
            most_bytes=most_bytes,
            settings=settings,
            more=more,
            is_tethered=is_tethered,
        ) as (process, said):
            if is_tethered and process.stdout is not None:
                out = process.stdout.read()
                process.wait()
            else:
                out, _ = process.communicate(feed)
            check(process, command, said, hiding)
        return out

    @contextmanager
    def started(
        self,
        args: Sequence[str],
        *,
        seconds: float = LONG_S,
        most_bytes: int | None = None,
        settings: Mapping[str, str] | None = None,
        more: Mapping[str, str] | None = None,
        is_tethered: bool = False,
    ) -> Generator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """Starts a command that is spoken to; it is over when the block is. With what it says.

        After so many `seconds` it is killed. No file that it writes is larger than `most_bytes`.
        """
        before = [] if most_bytes is None else [*_BOUNDED, str(most_bytes // _BLOCK_BYTES + 1)]
        before += _TETHERED if is_tethered else ()
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(  # noqa: S603 - git itself; what users chose is checked before
                [*before, self._path, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env=self._environment({**_SETTINGS, **(settings or {})}, more or {}),
                cwd="/",
                start_new_session=True,
            )
            late = threading.Timer(seconds, _end_all, [process])
            late.daemon = True
            late.start()
            try:
                yield process, said
            finally:
                late.cancel()
                _end(process)

    def _environment(self, settings: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
        # Settings go this way, and not as arguments: everybody on the machine can read those.
        numbered = dict[str, str]()
        for number, (key, value) in enumerate(settings.items()):
            numbered |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return {
            "PATH": PLACES,
            "HOME": str(self._home),
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_CONFIG_COUNT": str(len(settings)),
            **numbered,
            **more,
        }


def find_git(*, over_https: bool = False) -> str:
    """Returns the path of git; raises `GitMissing`, or `GitTooOld`."""
    oldest = OLDEST_OVER_HTTPS if over_https else OLDEST
    found = shutil.which("git", path=PLACES)
    if found is None:
        raise GitMissing("git")
    there = Path(found).stat()
    said = _version_of(found, (there.st_ino, there.st_size, there.st_mtime_ns))
    version = _VERSION.match(said)
    if version is None or (int(version[1]), int(version[2])) < oldest:
        text = b"of no version" if version is None else version[0].removeprefix(b"git version ")
        raise GitTooOld(text.decode("ascii")[:_VERSION_CHARS], oldest=oldest)
    return found


@lru_cache(maxsize=8)
def _version_of(path: str, _file: tuple[int, int, int]) -> bytes:
    """Returns what a program says of its version: asked once, until another is installed."""
    try:
        done = subprocess.run(  # noqa: S603 - found where programs of the system are
            [path, "version"],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={"PATH": PLACES, "LC_ALL": "C"},
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise GitFailed("version", said=type(exc).__name__) from exc
    return done.stdout


def check(
    process: "subprocess.Popen[bytes]", command: str, said: IO[bytes], hiding: Hiding | None = None
) -> None:
    """Raises `GitFailed` if a command that is over has failed."""
    # By way of a shell, too.
    if process.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        raise GitFailed(command, said="it was killed, for it took too long or too much")
    if process.returncode != 0:
        raise GitFailed(command, said=words_of(said, hiding))


def words_of(said: IO[bytes], hiding: Hiding | None = None) -> str:
    """Returns the end of what a command said of itself, as one line, without what is hidden."""
    hiding = hiding or Hiding()
    begin = max(0, said.seek(0, os.SEEK_END) - _MOST_LOOKED_AT)
    said.seek(begin)
    text = hiding.clean(said.read().decode("utf-8", "replace"))
    if begin:  # It may begin with the end of what would have been cut out.
        text = text[hiding.longest :]
    return hiding.clean(" ".join(spaced(text).split()))[-MOST_WORDS:]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a command with all that it started, if it is not over, and lets go of its pipes."""
    if process.poll() is None:
        _end_all(process)
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _end_all(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

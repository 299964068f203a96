"""Remotes: who is there, and how a copy gets there.

A name is looked up once, and what was looked at is what is connected to. Over ssh, the host has to
have the very key that somebody has confirmed, and nothing that the user or the system told ssh
counts. Nothing is ever forced.
"""

import base64
import ipaddress
import shlex
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast import ownfiles
from holdfast.addresses import in_time, is_public, resolve
from holdfast.errors import (
    GitFailed,
    GitMissing,
    HostKeyChanged,
    HostKeyUnconfirmed,
    RemoteDiverged,
)
from holdfast.git.hiding import Hiding
from holdfast.git.program import PLACES
from holdfast.git.repository import Repository
from holdfast.git.urls import HostKey, Remote, find_host_key

RESOLVE_S: Final = 5.0
SCAN_S: Final = 15.0
PUSH_S: Final = 900.0

HOST_KEYS: Final = "host-keys"
"""What asking for them is called, as commands of git are."""

_UNASKED: Final = ("could not read Username", "could not read Password")
"""What git says when it would have asked somebody: nobody is asked."""

_ANOTHER_HOST: Final = "Host key verification failed"
"""What ssh says, after advice that is for others: to take away the key that was confirmed."""

_DIVERGED: Final = ("[rejected]", "non-fast-forward", "fetch first")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a remote is shown, and what it has to show."""

    private_key: bytes | None = None
    host_key: HostKey | None = None
    login: str | None = None
    """A user, a colon, and a password."""
    certificates: Path | None = None
    """A file of those that an https remote's is signed by; None for the system's."""

    def __repr__(self) -> str:
        return "Credentials(…)"


def address_of(remote: Remote, command: str, *, allows_private: bool) -> str:
    """Returns the address that a command connects to, which was looked at; raises `GitFailed`."""
    try:
        found = in_time(lambda: resolve(remote.host, remote.port), RESOLVE_S)
    except TimeoutError:
        raise GitFailed(command, said=f"{remote.host} was not found in time") from None
    except (OSError, UnicodeError) as exc:
        raise GitFailed(command, said=f"{remote.host} has no address: {exc}") from exc
    plain = [text.partition("%")[0] for text in found]
    is_fine = allows_private or all(is_public(ipaddress.ip_address(each)) for each in plain)
    if not plain or not is_fine:
        error = GitFailed(command, said=f"{remote.host} is not at a public address")
        raise error.with_hint("HOLDFAST_ALLOW_PRIVATE_REMOTES=1 allows others.")
    return plain[0]


def scan(remote: Remote, address: str) -> list[HostKey]:
    """Returns the keys that a host shows: nobody has confirmed them yet."""
    program = shutil.which("ssh-keyscan", path=PLACES)
    if program is None:
        raise GitMissing("ssh-keyscan")
    try:
        done = subprocess.run(  # noqa: S603 - the address is one that was looked up
            [program, "-T", "10", "-p", str(remote.port), "-t", "ed25519,ecdsa,rsa", address],
            capture_output=True,
            timeout=SCAN_S,
            check=False,
            env={"PATH": PLACES, "LC_ALL": "C"},
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(HOST_KEYS, said=f"{remote.host} did not answer in time") from None
    found = list[HostKey]()
    for line in done.stdout.decode("ascii", "replace").splitlines():
        key = None if line.startswith("#") else find_host_key(line.partition(" ")[2])
        if key is not None:
            found.append(key)
    if not found:
        raise GitFailed(HOST_KEYS, said=f"{remote.host} showed no key")
    return sorted(found, key=lambda each: (each.kind != "ssh-ed25519", each.kind))


def push(
    repository: Repository,
    remote: Remote,
    shown: Credentials,
    *,
    branch: str,
    address: str,
) -> None:
    """Brings a branch to a remote; raises `RemoteDiverged` rather than take anything away there."""
    ref = f"refs/heads/{branch}"
    args = ["push", "--no-progress", "--no-verify", "--no-signed", "--", remote.url]
    try:
        _speak(repository, remote, shown, *args, f"{ref}:{ref}", address=address)
    except GitFailed as exc:
        if any(word in exc.said for word in _DIVERGED):
            raise RemoteDiverged(branch) from exc
        raise


def fetch(
    repository: Repository,
    remote: Remote,
    shown: Credentials,
    *,
    source: str,
    target: str,
    address: str,
    most_bytes: int,
) -> None:
    """Brings what a remote calls `source` here, under a name of ours, if it is not too large."""
    args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote.url]
    refs = f"{source}:{target}"
    _speak(repository, remote, shown, *args, refs, address=address, most_bytes=most_bytes)


def fetch_path(
    repository: Repository, path: Path, *, source: str, target: str, most_bytes: int
) -> None:
    """Brings what a repository on this disk calls `source` here, under a name of ours."""
    settings = {"protocol.file.allow": "always", "transfer.fsckObjects": "false"}
    args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", str(path.absolute())]
    options = {"seconds": PUSH_S, "most_bytes": most_bytes, "settings": settings}
    repository.run(*args, f"{source}:{target}", **options, is_tethered=True)


def _speak(
    repository: Repository,
    remote: Remote,
    shown: Credentials,
    *args: str,
    address: str,
    most_bytes: int | None = None,
) -> None:
    """Runs a command that speaks to a remote; nothing that it raises has what that was shown."""
    options = {"seconds": PUSH_S, "most_bytes": most_bytes, "hiding": Hiding(shown.login)}
    with _reaching(repository.folder, remote, shown, address) as (settings, more):
        try:
            repository.run(*args, **options, settings=settings, more=more, is_tethered=True)
        except GitFailed as exc:
            if any(word in exc.said for word in _UNASKED):
                # What a remote answered, where git tells of its own questions instead.
                said = "the remote did not accept the user and the password"
                raise GitFailed(exc.command, said=said) from exc
            if shown.host_key is not None and _ANOTHER_HOST in exc.said:
                raise _changed(remote, shown.host_key, address) from exc
            raise


def _changed(remote: Remote, expected: HostKey, address: str) -> HostKeyChanged:
    """Returns what is told of a host with another key, with the one that it shows by now."""
    there = list[HostKey]()
    with suppress(GitFailed, GitMissing):  # It need not answer again.
        there = scan(remote, address)
    like = [each for each in there if each.kind == expected.kind] or there
    prints = [each.fingerprint for each in like if each != expected]
    return HostKeyChanged(remote.host, expected=expected.fingerprint, shown=prints)


@contextmanager
def _reaching(
    folder: Path, remote: Remote, shown: Credentials, address: str
) -> Generator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Opens the way to a remote: settings of git, and variables for it."""
    if not remote.is_ssh:
        yield _over_https(remote, shown, address), {}
        return
    if shown.host_key is None:
        raise HostKeyUnconfirmed(f"nobody has confirmed the host key of {remote.host}")
    with TemporaryDirectory(prefix="run-", dir=folder) as place:
        command = _ssh(Path(place), shown, shown.host_key, address)
        more = {"GIT_SSH_COMMAND": shlex.join(command), "GIT_SSH_VARIANT": "ssh"}
        yield {"protocol.ssh.allow": "always"}, more


def _ssh(place: Path, shown: Credentials, host_key: HostKey, address: str) -> Sequence[str]:
    program = shutil.which("ssh", path=PLACES)
    if program is None:
        raise GitMissing("ssh")
    key, hosts = place / "key", place / "known_hosts"
    line = f"remote {host_key.line}\n".encode()
    for path, data in ((key, shown.private_key or b""), (hosts, line)):
        with ownfiles.create(path) as file:
            file.write(data)
    options = {
        "IdentityFile": _quoted(key),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": _quoted(hosts),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "VerifyHostKeyDNS": "no",
        "HostKeyAlias": "remote",
        "HostName": address,
        "BatchMode": "yes",
        "PreferredAuthentications": "publickey",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "15",
        "ServerAliveCountMax": "4",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "ControlPath": "none",
        "LogLevel": "ERROR",
    }
    said = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return [program, "-F", "/dev/null", "-a", "-x", "-T", *said]


def _quoted(path: Path) -> str:
    """Returns a path as ssh reads one: a space would end it, and a percent sign be replaced."""
    return '"' + str(path).replace("%", "%%") + '"'


def _over_https(remote: Remote, shown: Credentials, address: str) -> Mapping[str, str]:
    bare = f"[{address}]" if ":" in address else address
    settings = {
        "protocol.https.allow": "always",
        "http.curloptResolve": f"{remote.host}:{remote.port}:{bare}",
    }
    if shown.login is not None:
        text = base64.b64encode(shown.login.encode()).decode()
        settings["http.extraHeader"] = f"Authorization: Basic {text}"
    if shown.certificates is not None:
        settings["http.sslCAInfo"] = str(shown.certificates)
    return settings

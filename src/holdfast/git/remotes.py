"""Remotes: where a copy may go to, who is there, and how it gets there.

An address is one of two kinds, ssh or https, of plain parts: nothing in it can be an option, a
command, or another kind of transport. Its name is looked up once, and what was looked at is what is
connected to. Over ssh, the host has to have the very key that somebody has confirmed, and nothing
that the user or the system told ssh counts. Nothing is ever forced.
"""

import base64
import binascii
import hashlib
import ipaddress
import re
import shlex
import shutil
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from holdfast import private
from holdfast.addresses import in_time, is_public, resolve
from holdfast.errors import (
    GitFailed,
    GitMissing,
    HostKeyUnconfirmed,
    InvalidValue,
    RemoteDiverged,
    shorten,
)
from holdfast.git.program import PLACES
from holdfast.git.repository import Repository

MAX_URL_CHARS: Final = 1024
RESOLVE_S: Final = 5.0
SCAN_S: Final = 15.0
PUSH_S: Final = 900.0

_HOST: Final = r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_USER: Final = r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?"
_PORT: Final = r"(?::(?P<port>[0-9]{1,5}))?"
_PATH: Final = r"(?P<path>/(?!-)[A-Za-z0-9._~/@+%-]+)"
_URL: Final = re.compile(rf"(?P<scheme>ssh|https)://{_USER}{_HOST}{_PORT}{_PATH}")
_SHORT: Final = re.compile(rf"{_USER}{_HOST}:(?P<path>(?!-|:|//)[A-Za-z0-9._~/@+%-]+)")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_HOST_KEY: Final = re.compile(
    r"(?P<kind>ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa) "
    r"(?P<key>[A-Za-z0-9+/]{40,2000}={0,2})"
)

_ADVICE: Final = "An address is ssh://git@host/path, git@host:path or https://host/path."
_DIVERGED: Final = ("[rejected]", "non-fast-forward", "fetch first")
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Remote:
    """An address that was looked at."""

    url: str
    is_ssh: bool
    host: str
    port: int
    user: str | None


@dataclass(frozen=True, slots=True)
class HostKey:
    """A key by which a host is known."""

    kind: str
    key: str

    @property
    def fingerprint(self) -> str:
        """What people compare: as `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(base64.b64decode(self.key)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """How it is kept."""
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a remote is shown, and what it has to show."""

    private_key: bytes | None = None
    host_key: HostKey | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


def to_remote(url: str) -> Remote:
    """Returns an address that a copy can go to; raises `InvalidValue` for any other."""
    if len(url) <= MAX_URL_CHARS and ".." not in url and "//" not in url.partition("://")[2]:
        found = _URL.fullmatch(url) or _SHORT.fullmatch(url)
        if found is not None:
            parts = found.groupdict()
            is_ssh = parts.get("scheme", "ssh") == "ssh"
            port = int(parts.get("port") or (22 if is_ssh else 443))
            if not is_ssh and parts["user"]:
                raise InvalidValue("an https address holds no user: give user and password apart")
            if 0 < port <= _LAST_PORT:
                return Remote(url, is_ssh, parts["host"].strip("[]"), port, parts["user"])
    # Without the address: whoever mistakes one may have put a password into it.
    raise InvalidValue("this is no address of a git remote").with_hint(_ADVICE)


def check_branch(branch: str) -> str:
    """Returns the name of a branch; raises `InvalidValue` for what is none."""
    is_plain = len(branch) <= 200 and _BRANCH.fullmatch(branch) is not None  # noqa: PLR2004 - as hosts do
    parts = branch.split("/")
    if not is_plain or ".." in branch or any(p.endswith((".lock", ".")) for p in parts):
        message = f"{shorten(branch)} is no name of a branch: letters, digits, and _ . - / between"
        raise InvalidValue(message)
    return branch


def to_host_key(line: str) -> HostKey:
    """Returns a host key that was kept, or that somebody brings; raises `InvalidValue`."""
    found = _HOST_KEY.fullmatch(" ".join(line.split()[:2]))
    if found is not None:
        try:
            base64.b64decode(found["key"], validate=True)
        except binascii.Error:
            found = None
    if found is None:
        raise InvalidValue("a host key is its kind and its base64 text, as in known_hosts")
    return HostKey(found["kind"], found["key"])


def address_of(remote: Remote, *, allows_private: bool) -> str:
    """Returns the address to connect to, which was looked at; raises `GitFailed`."""
    try:
        found = in_time(lambda: resolve(remote.host, remote.port), RESOLVE_S)
    except TimeoutError:
        raise GitFailed("push", said=f"{remote.host} was not found in time") from None
    except (OSError, UnicodeError) as exc:
        raise GitFailed("push", said=f"{remote.host} has no address: {exc}") from exc
    plain = [text.partition("%")[0] for text in found]
    is_fine = allows_private or all(is_public(ipaddress.ip_address(each)) for each in plain)
    if not plain or not is_fine:
        error = GitFailed("push", said=f"{remote.host} is not at a public address")
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
        raise GitFailed("host-keys", said=f"{remote.host} did not answer in time") from None
    found = list[HostKey]()
    for line in done.stdout.decode("ascii", "replace").splitlines():
        _, _, rest = line.partition(" ")
        if not line.startswith("#") and _HOST_KEY.match(rest):
            found.append(to_host_key(rest))
    if not found:
        raise GitFailed("host-keys", said=f"{remote.host} showed no key")
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
    with _reaching(repository.folder, remote, shown, address) as (settings, more):
        args = ["push", "--no-progress", "--no-verify", "--no-signed", "--", remote.url]
        try:
            repository.run(*args, f"{ref}:{ref}", seconds=PUSH_S, settings=settings, more=more)
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
) -> None:
    """Brings what a remote calls `source` here, under a name of ours."""
    with _reaching(repository.folder, remote, shown, address) as (settings, more):
        args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", remote.url]
        repository.run(*args, f"{source}:{target}", seconds=PUSH_S, settings=settings, more=more)


def fetch_path(repository: Repository, path: Path, *, source: str, target: str) -> None:
    """Brings what a repository on this disk calls `source` here, under a name of ours."""
    settings = {"protocol.file.allow": "always", "transfer.fsckObjects": "false"}
    args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", str(path.absolute())]
    repository.run(*args, f"{source}:{target}", seconds=PUSH_S, settings=settings)


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
        with private.create(path) as file:
            file.write(data)
    options = {
        "IdentityFile": str(key),
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": str(hosts),
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


def _over_https(remote: Remote, shown: Credentials, address: str) -> Mapping[str, str]:
    bare = f"[{address}]" if ":" in address else address
    settings = {
        "protocol.https.allow": "always",
        "http.curloptResolve": f"{remote.host}:{remote.port}:{bare}",
    }
    if shown.password is not None:
        text = base64.b64encode(shown.password.encode()).decode()
        settings["http.extraHeader"] = f"Authorization: Basic {text}"
    return settings

"""A real ssh server on this machine's own address, for tests: with a host key, and users' keys."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final, Self

PROGRAM: Final = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/homebrew/sbin")
MISSING: Final = "there is no sshd here: install openssh-server"

_PATIENCE_S: Final = 30.0


class Sshd:
    """An ssh server for whoever runs the tests."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.port = _free_port()
        self.make_host_key()

    def url(self, path: Path) -> str:
        """Returns the address of a repository on this machine, through the server."""
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"

    def make_host_key(self) -> None:
        """Gives it another host key, when it is started next."""
        key = self._folder / "host_key"
        key.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def admit(self, *public_keys: str) -> None:
        """Lets in who has one of these keys, and nobody else."""
        (self._folder / "authorized_keys").write_text("".join(f"{key}\n" for key in public_keys))

    def start(self, *, command: str | None = None) -> None:
        """Starts it; with a `command`, that is all that anybody can run."""
        lines = [
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self._folder}/host_key",
            f"AuthorizedKeysFile {self._folder}/authorized_keys",
            f"PidFile {self._folder}/pid",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "LogLevel ERROR",
            *([f"ForceCommand {command}"] if command else []),
        ]
        config = self._folder / "config"
        config.write_text("\n".join(lines) + "\n")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # Where it goes without rights.
        assert PROGRAM is not None
        log = (self._folder / "log").open("wb")
        command_line = [PROGRAM, "-D", "-e", "-f", str(config)]
        self._process = subprocess.Popen(command_line, stderr=log, start_new_session=True)
        log.close()
        self._await()

    def stop(self) -> None:
        """Ends it, with whatever it has in hand."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _await(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, (self._folder / "log").read_text()
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("sshd does not answer")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]

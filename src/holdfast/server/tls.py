"""TLS: the certificate by which clients know a server, and the one that follows it.

Certificates are replaced while a server runs. Its files are looked at every few seconds, and new
ones count for every connection that begins from then on; what is open goes on. A certificate and
its key are two files, which nobody replaces at once: both are read into a new context, and only one
that they fit together in takes the place of the last. So there is no signal to send, and none that
is sent at the wrong moment.
"""

import logging
import os
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from holdfast.errors import InvalidValue
from holdfast.server.config import Config, configure
from holdfast.settings import process_environ
from holdfast.settingsfile import read_file

logger = logging.getLogger("holdfast.server")

LOOKS_S: Final = 5.0
"""Between two looks at the files."""

HANDSHAKE_S: Final = 10.0
"""From the first byte of a connection to the end of its handshake: none is held for long."""


def load_certificate(config: Config) -> ssl.SSLContext | None:
    """Returns what a server shows to clients; None without TLS.

    Raises `InvalidValue` if the files cannot be read, or do not fit together.
    """
    if config.tls_certificate is None:
        return None
    return _load(config.tls_certificate, config.tls_key)


def make_context(*_: object) -> ssl.SSLContext:
    """Returns what the connections of a worker begin with, as its environment says."""
    config = configure(process_environ())
    assert config.tls_certificate is not None  # noqa: S101 - nobody else asks
    return Certificates(config.tls_certificate, config.tls_key).context


class Certificates:
    """A certificate that is replaced when its files are."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self._files = (certificate, key)
        self._seen = self._look()
        self._current = self.context = _load(certificate, key)
        """What is handed to whoever listens: it sends each newcomer to the current one."""
        self.context.sni_callback = self._choose
        threading.Thread(target=self._watch, name="holdfast-tls", daemon=True).start()

    def renew(self) -> None:
        """Uses what is in the files, if that is new, and fits together."""
        seen = self._look()
        if seen == self._seen:
            return
        try:
            self._current = _load(*self._files)
        except InvalidValue as exc:
            logger.warning("the certificate in use stays as it is: %s", exc)
        else:
            logger.info("there is a new certificate")
        # Also of what does not fit: it is told once, and looked at when it has changed again.
        self._seen = seen

    def _choose(self, connection: Any, _name: str | None, _: ssl.SSLContext) -> None:  # noqa: ANN401 - as ssl has it
        connection.context = self._current

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(LOOKS_S):
            self.renew()

    def _look(self) -> tuple[object, ...]:
        return tuple(_state_of(path) for path in self._files)


def _state_of(path: Path | None) -> tuple[int, ...]:
    """Returns what changes when a file does; it may be a link that is led elsewhere."""
    try:
        found = os.stat(path) if path is not None else None  # noqa: PTH116 - follows what it should
    except OSError:
        return (-1,)
    return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _load(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        for path in (certificate, key or certificate):
            read_file(str(path))  # OpenSSL would wait for a pipe, and read whatever is large.
        # Nobody is there to be asked for a password.
        context.load_cert_chain(certificate, key, password=_refuse(key or certificate))
    except (OSError, ValueError) as exc:
        files = str(certificate) if key is None else f"{certificate} and {key}"
        message = f"HOLDFAST_TLS_CERTIFICATE: {files} cannot be used: {exc}"
        raise InvalidValue(message) from exc
    return context


def _refuse(key: Path) -> Callable[[], str]:
    def ask() -> str:
        message = f"{key} is encrypted: give one that is not, readable by the server alone"
        raise ValueError(message)

    return ask

"""A real git server over https on this machine's own address, for tests: with TLS and a password.

`git http-backend` answers, as it does behind a web server; the certificate is made when the server
is, and `certificate` is the file that clients have to know it by.
"""

import base64
import os
import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Self

from holdfast.testing.certificates import ADDRESS, make_certificate

_GIT: Final = shutil.which("git") or "git"


class _Server(ThreadingHTTPServer):
    """Speaks TLS in the thread of each connection: one that says nothing keeps nobody waiting."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__((ADDRESS, 0), handler)
        self._context, self._handler = context, handler

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as it is called
        """Answers what comes over a connection."""
        with (
            suppress(OSError),  # A client that went away, or does not know the certificate.
            self._context.wrap_socket(request, server_side=True) as wrapped,
        ):
            self._handler(wrapped, client_address, self)


class GitHttps:
    """A server for the repositories in a folder."""

    def __init__(self, folder: Path, *, root: Path, user: str, password: str) -> None:
        folder.mkdir(mode=0o700)
        self.certificate, self._key = folder / "certificate.pem", folder / "key.pem"
        self.root, self.user, self.password = root, user, password
        self.watch: Callable[[str], None] = lambda _: None
        """Is told the path of each request that shows the password, before it is answered."""
        self.refusal: bytes | None = None
        """What whoever shows the password is refused with."""
        make_certificate(self.certificate, self._key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self._key)
        self._server = _Server(context, self._handler())
        self.port = int(self._server.server_address[1])

    @property
    def authorization(self) -> str:
        """What a client has to show."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def url(self, path: Path) -> str:
        """Returns the address of a repository below the folder."""
        return f"https://{ADDRESS}:{self.port}/{path.relative_to(self.root)}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        told = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                self._answer(self._body())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called
                """Says nothing."""

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", "0")))
                parts = list[bytes]()
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def _answer(self, body: bytes) -> None:
                if self.headers.get("Authorization") != told.authorization:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="copies"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                told.watch(self.path)
                status, headers, content = told._run(self, body)
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler

    def _run(
        self, request: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        if self.refusal is not None:
            return 403, [("Content-Type", "text/plain")], self.refusal
        path, _, query = request.path.partition("?")
        environ = {
            "PATH": os.defpath,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "REMOTE_USER": self.user,
            "REQUEST_METHOD": request.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }
        command = [_GIT, "http-backend"]
        done = subprocess.run(command, input=body, capture_output=True, env=environ, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        status, headers = 200, list[tuple[str, str]]()
        for line in head.decode("latin-1").split("\r\n"):
            name, _, value = line.partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            elif name:
                headers.append((name, value))
        return status, headers, content

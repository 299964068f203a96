"""Bodies on their way in: what the disk says, and what a client that stops early has sent."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from litestar.exceptions import InternalServerException

from holdfast.errors import StorageFull, TooLarge
from holdfast.server.problems import Unfit
from holdfast.server.transfer import SPOOLED_BYTES, receive_to, received


@dataclass
class Body:
    """A request of which only the body counts."""

    pieces: list[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False

    async def stream(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.is_cut:
            raise InternalServerException


def spool(body: Body, *, max_bytes: int) -> bytes:
    async def read() -> bytes:
        async with received(cast("Any", body), max_bytes=max_bytes) as file:
            return file.read()

    return asyncio.run(read())


@pytest.mark.parametrize("sizes", [[], [0], [1], [SPOOLED_BYTES], [SPOOLED_BYTES, 1], [7] * 9])
def test_a_body_comes_out_as_it_went_in(sizes: list[int]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert spool(Body(pieces), max_bytes=sum(sizes)) == b"".join(pieces)


@pytest.mark.parametrize(
    "body", [Body([b"123", b"4"]), Body([], headers={"content-length": "4"}), Body([b"1234"])]
)
def test_a_body_that_is_too_large_is_refused(body: Body) -> None:
    with pytest.raises(TooLarge):
        spool(body, max_bytes=3)


def test_a_body_that_is_cut_off_is_no_body() -> None:
    with pytest.raises(Unfit):
        spool(Body([b"123"], is_cut=True), max_bytes=9)


def test_a_full_disk_is_called_that() -> None:
    with pytest.raises(StorageFull):
        asyncio.run(receive_to(cast("Any", Body([b"123"])), Path("/dev/full"), max_bytes=9))

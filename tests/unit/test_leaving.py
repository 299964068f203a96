"""A route that computes is told when nobody waits for it any more."""

import asyncio
from typing import Any

import pytest

from holdfast.server.stopping import watching


@pytest.mark.parametrize("why", ["left", "stopping"])
def test_a_route_hears_that_its_client_left_or_that_the_server_stops(why: str) -> None:
    async def play() -> None:
        left, is_stopping = asyncio.Event(), False

        async def receive() -> dict[str, Any]:
            if not sent:
                sent.append("body")
                return {"type": "http.request", "body": b"", "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        sent = list[str]()
        async with watching(receive, lambda: is_stopping) as is_gone:
            assert not is_gone()
            if why == "left":
                left.set()
            else:
                is_stopping = True
            for _ in range(5):
                await asyncio.sleep(0)
            assert is_gone()
        assert len(asyncio.all_tasks()) <= 2  # This one, and one that is being cancelled.

    asyncio.run(play())

"""What a command said and nobody has taken yet, once it has ended: it has to have room."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.model.commands import Executed
from holdfast.server.asgi import LIVE
from holdfast.server.problems import AnswersNotTaken
from holdfast.server.routes import commands
from holdfast.server.routes.commands import _Running  # pyright: ignore[reportPrivateUsage]

TEXT = "x" * (1 << 20)


class Taken:
    """Room of a server, which may be full."""

    def __init__(self, *, is_full: bool) -> None:
        self.is_full, self.sizes = is_full, list[int]()

    async def take_answer(self, size: int) -> None:
        self.sizes.append(size)
        if self.is_full:
            raise AnswersNotTaken


@pytest.mark.parametrize("is_full", [False, True])
def test_what_is_not_taken_has_room_or_is_let_go(
    monkeypatch: pytest.MonkeyPatch, *, is_full: bool
) -> None:
    taken, scope = Taken(is_full=is_full), dict[str, Any]()

    def run_as(*_: object, hear: Any) -> Executed:
        assert LIVE in scope
        for _ in range(3):
            hear("stdout", TEXT)
        return Executed(exit_code=0, stdout=TEXT * 3, stderr="", duration_ms=1)

    monkeypatch.setattr(commands, "run_as", run_as)

    async def use() -> list[bytes]:
        stays = asyncio.Event().wait
        request = cast("Any", SimpleNamespace(scope=scope, taken=taken, receive=stays))
        running = _Running(request, cast("Any", SimpleNamespace(name="a")), cast("Any", None))
        if is_full:
            with pytest.raises(AnswersNotTaken):
                await running.begun()
        else:
            await running.begun()
        # Nobody was there to listen; from here on it is an answer as any other.
        assert LIVE not in scope
        monkeypatch.setattr(running, "_last", lambda: b"last\n")
        return [line async for line in running.lines()]

    lines = asyncio.run(use())
    assert taken.sizes == [3 << 20]
    assert [len(line) > len(TEXT) for line in lines] == ([] if is_full else [True] * 3) + [False]

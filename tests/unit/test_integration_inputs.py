"""What frameworks hand over is looked at before anything is stored."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast.errors import InvalidValue
from holdfast.integrations.langgraph import HoldfastSaver, HoldfastStore
from holdfast.integrations.openai_agents import HoldfastSession


@pytest.mark.parametrize("name", ["", "app/acme", "a\0b"])
@pytest.mark.parametrize("kind", [HoldfastSaver, HoldfastStore])
def test_no_place_is_within_another(kind: Any, name: str, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault, pytest.raises(InvalidValue):
        kind(vault.namespace("a"), name=name)


def test_a_conversation_that_was_read_can_be_read_after_what_is_no_item(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        session = HoldfastSession("s", vault.namespace("a"))
        asyncio.run(session.add_items([{"role": "user", "content": "kept"}]))
        with pytest.raises(InvalidValue):
            asyncio.run(session.add_items(cast("Any", ["hello"])))
        assert asyncio.run(session.get_items()) == [{"role": "user", "content": "kept"}]

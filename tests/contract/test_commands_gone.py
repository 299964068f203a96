"""What a command leaves of a namespace that is gone stays gone, on both catalogs."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from holdfast import Holdfast
from holdfast.engine.commands.warm import lend
from holdfast.errors import NamespaceNotFound
from holdfast.sandbox.limits import Allowance
from holdfast.testing.clocks import Watch


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_what_ran_in_a_namespace_that_is_gone_brings_nothing_back(
    opener: Callable[..., Holdfast], *, is_made_anew: bool
) -> None:
    vault = opener()
    agent = vault.namespace("alice")
    agent.files.write("private.txt", "hers")
    handle = agent._handle  # pyright: ignore[reportPrivateUsage] - as a command has it
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
    with lend(handle, head, Allowance()) as warm:
        warm.catch_up()
        assert (warm.place.files / "private.txt").read_text() == "hers"
        vault.delete_namespace("alice")
        if is_made_anew:
            vault.namespace("alice").files.write("other.txt", "another's")
        (warm.place.files / "left.txt").write_text("by a command")
        with pytest.raises(NamespaceNotFound):
            warm.keep("what it has left")
        assert not warm.place.files.exists()
    now = vault.namespace("alice")
    assert [each.path for each in now.files.list()] == (["other.txt"] if is_made_anew else [])
    assert [*now.timeline()] == []

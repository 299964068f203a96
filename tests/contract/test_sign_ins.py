"""Who is signed in to the console, and until when: the same on both databases."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

import holdfast
from holdfast.errors import InvalidValue
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> Watch:
    return Watch()


@pytest.fixture
def vault(opener: Opener) -> holdfast.Holdfast:
    return opener()


def held(vault: holdfast.Holdfast, token: str | None) -> tuple[str | None, str | None] | None:
    """Returns the names of the keys that somebody is signed in with; None if nobody is."""
    found = None if token is None else vault.sign_ins.find(token)
    if found is None:
        return None
    names = [each and each[1].name for each in (found.runtime, found.admin)]
    return names[0], names[1]


def test_a_key_signs_in_and_a_second_one_joins_it(vault: holdfast.Holdfast) -> None:
    agent, operator = vault.keys.create("agent"), vault.keys.create("op", admin=True)
    first = vault.sign_ins.by_key(agent.api_key)
    assert held(vault, first) == ("agent", None)
    assert vault.sign_ins.by_key("holdfast-sk-none-at-all", beside=first) is None
    both = vault.sign_ins.by_key(operator.api_key, beside=first)
    assert held(vault, both) == ("agent", "op")
    assert held(vault, first) is None  # Whoever planted the first has nothing of the second.
    adds = vault.keys.create("adds", add_only=True)
    assert held(vault, vault.sign_ins.by_key(adds.api_key, beside=both)) == ("adds", "op")
    theirs = vault.tenant("other").keys.create("theirs")
    token = vault.sign_ins.by_key(theirs.api_key, beside=vault.sign_ins.by_key(agent.api_key))
    assert held(vault, token) == ("theirs", None)
    found = vault.sign_ins.find(token or "")
    assert found is not None
    assert found.runtime is not None
    assert found.runtime[0].tenant_id == vault.tenant("other").tenant_id


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_what_ends_one_of_its_keys_ends_a_sign_in(opener: Opener, clock: Watch, ends: str) -> None:
    vault, other = opener(), opener()
    vault.keys.create("op", admin=True)
    span = timedelta(hours=1)
    agent = vault.keys.create("agent", expires_in=span if ends == "expired" else None)
    second = vault.keys.create("second", admin=True)
    token = vault.sign_ins.by_key(second.api_key, beside=vault.sign_ins.by_key(agent.api_key))
    assert held(vault, token) == held(other, token) == ("agent", "second")
    if ends == "revoked":
        other.keys.revoke(agent.id)
    else:
        clock.wait(span)
    assert held(vault, token) is None


def test_it_lasts_for_as_long_as_it_is_used_and_for_a_week_at_the_most(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    secret = vault.keys.create("agent").api_key
    idle, used = (vault.sign_ins.by_key(secret) or "" for _ in range(2))
    for times in range(14):
        clock.wait(timedelta(hours=12) - SECOND)
        for is_due in (True, False):
            found = vault.sign_ins.find(used)
            assert found is not None
            due = vault.sign_ins.when_due(found.sign_in)
            assert (due is not None) == is_due
            if due is not None:
                vault.sign_ins.note({found.sign_in.token_hash: due})
        assert (held(vault, idle) is None) == (times > 0)
    clock.wait(14 * SECOND)
    assert held(vault, used) is None
    assert (vault.sign_ins.purge(), vault.sign_ins.purge()) == (2, 0)


def test_a_link_is_for_one_sign_in_within_ten_minutes(opener: Opener, clock: Watch) -> None:
    vault, other = opener(), opener()
    with pytest.raises(InvalidValue):
        vault.sign_ins.create_link()
    vault.keys.create("locked", namespace="alice")
    vault.keys.create("agent")
    vault.keys.create("op", admin=True)
    link = vault.sign_ins.create_link()
    assert held(vault, link) is None  # It is no token.
    before = vault.sign_ins.by_link(link)
    assert held(other, before) == ("agent", "op")
    assert other.sign_ins.by_link(link) is None
    assert vault.sign_ins.by_link(before or "") is None
    late = vault.sign_ins.create_link()
    clock.wait(timedelta(minutes=10))
    assert vault.sign_ins.by_link(late) is None
    early = vault.sign_ins.create_link()
    clock.wait(timedelta(minutes=10) - SECOND)
    assert held(vault, other.sign_ins.by_link(early, instead=before)) == ("agent", "op")
    assert held(vault, before) is None


def test_of_all_who_take_a_link_at_once_one_gets_it(opener: Opener) -> None:
    vault, other = opener(), opener()
    vault.keys.create("agent")
    start = Barrier(4)

    def take(which: holdfast.Holdfast, link: str) -> bool:
        start.wait()
        return which.sign_ins.by_link(link) is not None

    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            links = [vault.sign_ins.create_link()] * 4
            assert sorted(threads.map(take, (vault, other) * 2, links)) == [False] * 3 + [True]


def test_signing_out_ends_one_or_all_with_the_same_key(vault: holdfast.Holdfast) -> None:
    agent, another = vault.keys.create("agent"), vault.keys.create("another")
    first, second, third = (vault.sign_ins.by_key(agent.api_key) or "" for _ in range(3))
    others = vault.sign_ins.by_key(another.api_key) or ""
    vault.sign_ins.end(first)
    assert [held(vault, each) for each in (first, second)] == [None, ("agent", None)]
    vault.sign_ins.end(first, everywhere=True)  # Who is out ends nobody else's.
    assert held(vault, second) == ("agent", None)
    vault.sign_ins.end(second, everywhere=True)
    assert [held(vault, each) for each in (second, third)] == [None, None]
    assert held(vault, others) == ("another", None)

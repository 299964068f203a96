"""Programs that a person signs in: one code, one decision, one key; the same on both databases."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

import holdfast
from holdfast.engine.tenancy.logins import MOST_OF_ADDRESS, StartedLogin
from holdfast.errors import Busy, InvalidName, LoginNotFound
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]
SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> Watch:
    return Watch()


@pytest.fixture
def vault(opener: Opener) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def boss(vault: holdfast.Holdfast) -> holdfast.TenantVault:
    """An operator, by the key that they have."""
    vault.keys.create("other", admin=True)
    return vault.acting_as(vault.keys.create("boss", admin=True).id)


def id_of(vault: holdfast.TenantVault, name: str) -> str:
    return next(key.id for key in vault.keys.list() if key.name == name)


def begun(vault: holdfast.Holdfast, address: str = "192.0.2.7") -> StartedLogin:
    return vault.device_logins.start(client="a\x1b[31m program", address=address)


def status(vault: holdfast.Holdfast, login: StartedLogin) -> str:
    return vault.device_logins.poll(login.device_code).status


def test_what_was_approved_is_one_key_and_no_secret_is_stored(
    vault: holdfast.Holdfast, boss: holdfast.TenantVault, clock: Watch
) -> None:
    login = begun(vault)
    assert status(vault, login) == "pending"
    seen = boss.logins.find(f" {login.user_code.lower().replace('-', ' ')} ")
    assert (seen.user_code, seen.client) == (login.user_code, "a[31m program")
    assert (seen.address, seen.expires_at - seen.started_at) == ("192.0.2.7", timedelta(minutes=10))
    boss.logins.approve(
        login.user_code, "laptop", namespace="alice", add_only=True, expires_in=timedelta(days=1)
    )
    assert "laptop" not in [key.name for key in vault.keys.list()]  # Nobody has it yet.
    with pytest.raises(LoginNotFound):
        boss.logins.find(login.user_code)
    told = vault.device_logins.poll(login.device_code)
    assert (told.status, told.namespace) == ("approved", "alice")
    assert told.workspace_id == vault.tenant_id
    assert told.api_key is not None
    assert told.api_key not in repr(told)
    (made,) = [key for key in vault.keys.list() if key.name == "laptop"]
    assert (made.namespace, made.scope.value) == ("alice", "add-only")
    assert made.expires_at == clock() + timedelta(days=1)
    admitted = vault.admit(told.api_key)
    assert admitted is not None
    assert admitted[1].id == made.id
    assert status(vault, login) == "expired"
    trace = next(each for each in vault.traces.list() if each.resource_id == made.id)
    assert (trace.action, trace.actor) == ("key.created", id_of(vault, "boss"))
    vault.keys.revoke(made.id)
    assert vault.admit(told.api_key) is None


def test_a_code_is_good_for_ten_minutes_and_for_one_decision(
    vault: holdfast.Holdfast, boss: holdfast.TenantVault, clock: Watch
) -> None:
    refused, late, approved = begun(vault), begun(vault), begun(vault)
    boss.logins.deny(refused.user_code)
    with pytest.raises(LoginNotFound):
        boss.logins.approve(refused.user_code, "laptop")
    assert [status(vault, refused) for _ in range(2)] == ["denied", "expired"]
    with pytest.raises(InvalidName):
        boss.logins.approve(approved.user_code, "laptop", namespace="../etc")
    boss.logins.approve(approved.user_code, "laptop")
    clock.wait(timedelta(minutes=10) - SECOND)
    assert status(vault, late) == "pending"
    clock.wait(SECOND)
    assert [status(vault, each) for each in (late, approved)] == ["expired", "expired"]
    with pytest.raises(LoginNotFound):
        boss.logins.approve(late.user_code, "laptop")
    assert vault.device_logins.purge() == 2
    assert "laptop" not in [key.name for key in vault.keys.list()]
    for nobody in ("", "AAAA-AAAA", "x" * 32):
        with pytest.raises(LoginNotFound):
            boss.logins.find(nobody)
    assert vault.device_logins.poll("none at all").status == "expired"


def test_what_ends_the_key_that_approved_ends_the_approval(
    vault: holdfast.Holdfast, boss: holdfast.TenantVault
) -> None:
    login = begun(vault)
    boss.logins.approve(login.user_code, "laptop", admin=True)
    vault.keys.revoke(id_of(vault, "boss"))
    assert status(vault, login) == "denied"
    assert "laptop" not in [key.name for key in vault.keys.list()]


def test_of_many_who_ask_or_decide_at_once_one_does(
    opener: Opener, vault: holdfast.Holdfast, boss: holdfast.TenantVault
) -> None:
    login, others = begun(vault), [opener() for _ in range(3)]
    together, actor = Barrier(3), id_of(boss, "boss")

    def approve(number: int) -> int | None:
        together.wait()
        try:
            others[number].acting_as(actor).logins.approve(login.user_code, f"laptop {number}")
        except LoginNotFound:
            return None
        return number

    def poll(number: int) -> str | None:
        together.wait()
        return others[number].device_logins.poll(login.device_code).api_key

    with ThreadPoolExecutor(3) as pool:
        (chosen,) = [each for each in pool.map(approve, range(3)) if each is not None]
        (secret,) = [each for each in pool.map(poll, range(3)) if each is not None]
    admitted = vault.admit(secret)
    assert admitted is not None
    assert admitted[1].name == f"laptop {chosen}"
    assert [key.name for key in vault.keys.list()].count(f"laptop {chosen}") == 1


def test_codes_of_people_are_of_twenty_letters_and_differ(vault: holdfast.Holdfast) -> None:
    codes = {begun(vault, f"192.0.2.{number}").user_code for number in range(50)}
    assert len(codes) == 50
    letters = set("".join(codes)) - {"-"}
    assert letters <= set("BCDFGHJKLMNPQRSTVWXZ")
    assert {len(each) for each in codes} == {9}


def test_one_address_keeps_nobody_else_from_waiting(vault: holdfast.Holdfast) -> None:
    for _ in range(MOST_OF_ADDRESS):
        begun(vault)
    with pytest.raises(Busy):
        begun(vault)
    begun(vault, "192.0.2.8")

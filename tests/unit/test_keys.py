"""Keys in an engine: what is kept of a secret, and when it opens something."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

import holdfast
from holdfast.errors import HoldfastError, InvalidName, InvalidValue, KeyNotFound, LastAdminKey
from holdfast.model.keys import NewKey

SECRET = "a-secret-of-my-own-making"


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


def test_a_secret_opens_its_tenant_until_it_is_revoked(vault: holdfast.Holdfast) -> None:
    key = vault.keys.create("robot", namespace="alice")
    secret = key.api_key
    admitted = vault.admit(secret)
    assert admitted is not None
    assert NewKey(**asdict(admitted[1]), api_key=secret) == key
    vault.keys.revoke(key.id)
    assert vault.admit(secret) is None
    assert vault.keys.list() == []
    with pytest.raises(KeyNotFound):
        vault.keys.revoke(key.id)


def test_the_last_admin_key_stays(vault: holdfast.Holdfast) -> None:
    first = vault.keys.create("first", admin=True)
    vault.keys.create("over", admin=True, expires_in=timedelta(microseconds=1))
    vault.keys.create("agent")
    vault.tenant("other").keys.create("other", admin=True)
    with pytest.raises(LastAdminKey):
        vault.keys.revoke(first.id)
    second = vault.keys.create("second", admin=True)
    vault.keys.revoke(first.id)
    with pytest.raises(LastAdminKey):
        vault.keys.revoke(second.id)
    assert vault.admit(second.api_key) is not None


def test_two_admin_keys_that_are_revoked_at_once_leave_one(vault: holdfast.Holdfast) -> None:
    keys = [vault.keys.create(f"{n}", admin=True).id for n in range(8)]
    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(lambda key: _revoked(vault, key), keys))
    assert sorted(said) == [False] + [True] * 7
    assert len(vault.keys.list()) == 1


def _revoked(vault: holdfast.Holdfast, key_id: str) -> bool:
    try:
        vault.keys.revoke(key_id)
    except LastAdminKey:
        return False
    return True


def test_an_expired_key_opens_nothing(vault: holdfast.Holdfast) -> None:
    over = vault.keys.create("over", expires_in=timedelta(microseconds=1)).api_key
    open_ = vault.keys.create("open", expires_in=timedelta(hours=1)).api_key
    assert vault.admit(over) is None
    assert vault.admit(open_) is not None


def test_two_secrets_differ_and_say_what_they_are_for(vault: holdfast.Holdfast) -> None:
    kinds = [{"admin": True}, {}, {"add_only": True}] * 2
    made = [vault.keys.create("k", **kind).api_key for kind in kinds]
    assert len(set(made)) == 6
    for secret, begins in zip(
        made, ["holdfast-admin-", "holdfast-sk-", "holdfast-sk-"] * 2, strict=True
    ):
        assert secret.startswith(begins)


@pytest.mark.parametrize("wrong", ["", "x", SECRET[:-1], SECRET + "x", SECRET.upper(), "x" * 9999])
def test_what_is_not_the_secret_opens_nothing(vault: holdfast.Holdfast, wrong: str) -> None:
    vault.keys.adopt("mine", SECRET)
    assert vault.admit(SECRET) is not None
    assert vault.admit(wrong) is None
    assert vault.admit("\udcff half a character") is None


@pytest.mark.parametrize(
    "more",
    [
        {"expires_in": timedelta(0)},
        {"expires_in": timedelta(days=40_000)},
        {"rate_limit": 0},
        {"rate_limit": 2**63},
        {"admin": True, "namespace": "alice"},
        {"admin": True, "add_only": True},
        {"namespace": ".."},
    ],
)
def test_a_key_that_makes_no_sense_is_not_made(
    vault: holdfast.Holdfast, more: dict[str, Any]
) -> None:
    with pytest.raises((InvalidValue, InvalidName)):
        vault.keys.create("k", **more)
    assert vault.keys.list() == []


@pytest.mark.parametrize(
    "secret",
    [
        "short",
        "x" * 513,
        "with a space in the middle",
        "umlaut-äääääääääääääää",
        "line-end-line-end-line-end\n",
    ],
)
def test_a_secret_that_no_header_can_hold_is_not_adopted(
    vault: holdfast.Holdfast, secret: str
) -> None:
    with pytest.raises(InvalidValue):
        vault.keys.adopt("k", secret)
    assert vault.keys.list() == []


@pytest.mark.parametrize("name", ["", " ", "\t\n"])
def test_a_key_has_a_name(vault: holdfast.Holdfast, name: str) -> None:
    with pytest.raises(InvalidName, match="empty"):
        vault.keys.create(name)
    assert vault.keys.list() == []


def test_a_secret_is_never_two_keys(vault: holdfast.Holdfast) -> None:
    vault.keys.adopt("one", SECRET)
    with pytest.raises(HoldfastError):
        vault.keys.adopt("two", SECRET)
    assert [key.name for key in vault.keys.list()] == ["one"]


def test_no_more_of_a_secret_is_kept_than_lets_it_be_recognised(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    key, own = vault.keys.create("k"), vault.keys.adopt("own", SECRET)
    secret = key.api_key
    assert len(secret) - len(key.prefix) > 32
    assert len(own.prefix) <= len(SECRET) // 3
    vault.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert key.prefix.encode() in kept
    assert secret.encode() not in kept
    assert SECRET.encode() not in kept

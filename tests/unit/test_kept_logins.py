"""What `holdfast login` has kept, as clients find it."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.commands import login
from holdfast.cli.commands.login import read_all
from holdfast.errors import InvalidValue
from holdfast.model.keys import Me, Scope
from holdfast.settings import DEFAULT_URL, client_settings, logins_file, read_logins

HERE, THERE = "https://here.example", "https://there.example"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nowhere"}


def keep(environ: dict[str, str], kept: Any, mode: int = 0o600) -> None:
    path = Path(logins_file(environ))
    path.parent.mkdir(exist_ok=True)
    path.write_text(kept if isinstance(kept, str) else json.dumps(kept))
    path.chmod(mode)


KEPT = {
    "current": HERE,
    "servers": {
        HERE: {"api_key": "here's", "namespace": "alice"},
        THERE: {"api_key": "there's", "admin_key": "boss's"},
    },
}


def test_a_key_goes_to_its_own_server_and_to_no_other(environ: dict[str, str]) -> None:
    assert client_settings(environ) == (DEFAULT_URL, None, None, None)
    keep(environ, KEPT)
    assert client_settings(environ) == (HERE, "here's", None, "alice")
    other = client_settings({**environ, "HOLDFAST_URL": f"{THERE}/"})
    assert other[1:] == ("there's", "boss's", None)
    evil = client_settings({**environ, "HOLDFAST_URL": "https://here.example.evil"})
    assert evil[1:] == (None, None, None)
    told = {**environ, "HOLDFAST_API_KEY": "told", "HOLDFAST_NAMESPACE": "bob"}
    # Whoever has a key of another server means that one, and not the last that was signed in to.
    assert client_settings(told) == (DEFAULT_URL, "told", None, "bob")
    assert client_settings(environ, has_key=True) == (DEFAULT_URL, None, None, None)
    assert client_settings(environ, url=THERE)[:3] == (THERE, "there's", "boss's")
    assert client_settings(environ, url="https://evil.example")[1:] == (None, None, None)
    assert "here's" not in repr(read_logins(environ))


@pytest.mark.parametrize(
    ("kept", "mode"),
    [
        (KEPT, 0o644),
        (KEPT, 0o620),
        ("", 0o600),
        ("[1]", 0o600),
        ({"servers": {HERE: 1}}, 0o600),
        ({"servers": [HERE]}, 0o600),
        ({"current": HERE}, 0o600),
    ],
)
def test_what_others_may_write_or_nobody_can_read_is_nothing(
    environ: dict[str, str], kept: Any, mode: int
) -> None:
    keep(environ, kept, mode)
    assert client_settings(environ) == (DEFAULT_URL, None, None, None)
    assert not read_logins(environ).is_readable
    with pytest.raises(InvalidValue, match="not yours alone, or damaged"):
        read_all(environ)


def test_two_who_sign_in_at_once_keep_both_keys(environ: dict[str, str]) -> None:
    keep(environ, KEPT)
    me = Me(
        workspace_id="ws-1",
        key_id="key-1",
        key_name="mine",
        scope=Scope.RUNTIME,
        namespace=None,
        capabilities=[],
    )
    other = threading.Thread(target=login.keep, args=(environ, THERE, me, "new one's"))
    with login.alone(environ):
        kept = read_all(environ)
        other.start()
        other.join(timeout=0.2)
        login.write(environ, kept._replace(current="https://third.example"))
    other.join()
    now = read_all(environ)
    assert now.servers[THERE]["api_key"] == "new one's"
    assert now.servers[HERE]["api_key"] == "here's"

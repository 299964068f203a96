"""Where a request comes from: a proxy that is named is believed, and nobody else."""

import asyncio
from typing import Any

import pytest

from holdfast.errors import InvalidValue
from holdfast.server.config import configure
from holdfast.server.proxies import Behind

PROXIES = ("10.0.0.0/8", "fd00::1/128")
CLIENT = "203.0.113.9"


def seen(peer: str | None, *said: str) -> tuple[Any, list[tuple[bytes, bytes]]]:
    """Returns the client and the headers that the application is given."""
    found = list[dict[str, Any]]()

    async def app(scope: dict[str, Any], _receive: Any, _send: Any) -> None:
        found.append(scope)

    headers = [(b"host", b"x"), *((b"x-forwarded-for", each.encode("latin-1")) for each in said)]
    scope = {"type": "http", "client": peer and (peer, 1234), "headers": headers}
    asyncio.run(Behind(app, PROXIES)(scope, None, None))
    return found[0]["client"], found[0]["headers"]


@pytest.mark.parametrize(
    ("peer", "said", "expected"),
    [
        ("10.1.2.3", [CLIENT], CLIENT),
        ("::ffff:10.1.2.3", [CLIENT], CLIENT),
        ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
        ("10.1.2.3", ["2001:db8::7, [2001:db8::8]"], "2001:db8::8"),
        ("10.1.2.3", [f"{CLIENT}:4711"], CLIENT),
        ("10.1.2.3", ["[2001:db8::7]:443, 10.9.9.9:80"], "2001:db8::7"),
        ("10.1.2.3", [f"{CLIENT}:"], "10.1.2.3"),
        # What stands before the last address that is no proxy's, anybody may have written.
        ("10.1.2.3", [f"192.0.2.1, {CLIENT}, 10.9.9.9"], CLIENT),
        ("10.1.2.3", ["192.0.2.1", CLIENT], CLIENT),
        ("10.1.2.3", ["10.7.7.7"], "10.7.7.7"),
        ("10.1.2.3", ["evil, 10.9.9.9"], "10.9.9.9"),
        ("10.1.2.3", ["\x00\xff"], "10.1.2.3"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", [",".join([CLIENT, *["10.9.9.9"] * 9000])], "10.9.9.9"),
        ("192.0.2.77", ["10.1.2.3"], "192.0.2.77"),
        ("fd00::2", [CLIENT], "fd00::2"),
    ],
)
def test_a_proxy_is_believed_and_nobody_else(peer: str, said: list[str], expected: str) -> None:
    client, headers = seen(peer, *said)
    assert client == (expected, 1234)
    # And nobody who comes later looks at it again.
    assert headers == [(b"host", b"x")]


def test_a_connection_of_nobody_known_stays_so() -> None:
    assert seen(None, CLIENT)[0] is None


@pytest.mark.parametrize("given", ["10.0.0.1/8", "proxy.example", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(given: str, tmp_path) -> None:
    with pytest.raises(InvalidValue, match="HOLDFAST_PROXIES"):
        configure({"HOLDFAST_PROXIES": given}, data=str(tmp_path))

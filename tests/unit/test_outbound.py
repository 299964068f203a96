"""Requests to addresses that users chose: which are refused, and that none takes for ever."""

import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, suppress
from ipaddress import ip_address

import pytest

from holdfast.server import outbound
from holdfast.server.outbound import NotPublic, Sender, Unreachable, is_public

PUBLIC = [
    "93.184.216.34",
    "8.8.8.8",
    "2606:2800:220:1:248:1893:25c8:1946",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
]
PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::127.0.0.1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2001:0:7f00:1::",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_the_public_internet_is_reached(text: str) -> None:
    assert is_public(ip_address(text))


@pytest.mark.parametrize("text", PRIVATE)
def test_nothing_else_is(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "017700000001",
        "localhost",
        "localhost.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0",
    ],
)
def test_every_spelling_of_this_machine_is_refused(host: str) -> None:
    with pytest.raises(Unreachable) as caught:
        Sender().check(f"http://{host}:8080/hook")
    # Those that no name server knows how to read have no address at all.
    assert isinstance(caught.value, NotPublic) or "has no address" in str(caught.value)


def test_one_private_address_among_public_ones_is_enough() -> None:
    sender = Sender(resolve=lambda _host, _port: ["8.8.8.8", "10.0.0.1"])
    with pytest.raises(NotPublic):
        sender.check("https://example.com/")
    with pytest.raises(NotPublic):
        sender.post("https://example.com/", b"{}", {})


def test_a_name_without_an_address_is_not_one_that_is_refused() -> None:
    for found in (list[str], _fails):
        with pytest.raises(Unreachable) as caught:
            Sender(resolve=lambda _host, _port, found=found: found()).check("http://public.test/")
        assert not isinstance(caught.value, NotPublic)


def _fails() -> list[str]:
    raise Unreachable("the name has no address")


def test_a_name_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "RESOLVE_S", 0.05)
    asked = threading.Event()

    def resolve(_host: str, _port: int) -> list[str]:
        asked.wait(30)
        return ["8.8.8.8"]

    try:
        with pytest.raises(Unreachable, match="was not found"):
            Sender(resolve=resolve).check("http://slow.test/")
    finally:
        asked.set()


# Real connections

Talk = Callable[[socket.socket], None]


@contextmanager
def receiver(talk: Talk) -> Generator[int]:
    """Runs `talk` with whoever connects, and yields the port."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def accept() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer, suppress(OSError):
                    talk(peer)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def read_request(peer: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = peer.recv(65536)
        if not piece:
            raise ConnectionError("it hung up")
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    size = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < size:
        body += peer.recv(65536)
    return head + b"\r\n\r\n" + body


def test_a_name_that_changes_its_mind_changes_nothing() -> None:
    """The rebinding of a name: public while it is looked at, this machine when it is used."""
    answers = iter([["8.8.8.8"], ["127.0.0.1"]])
    sender = Sender(resolve=lambda _host, _port: next(answers))
    assert sender.check("http://rebound.test/") == ["8.8.8.8"]
    with pytest.raises(NotPublic):
        sender.post("http://rebound.test/", b"{}", {})


def test_the_connection_goes_where_it_was_checked_and_names_the_host() -> None:
    seen = list[bytes]()

    def talk(peer: socket.socket) -> None:
        seen.append(read_request(peer))
        peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    asked = list[str]()

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    with receiver(talk) as port:
        sender = Sender(allow_private=True, resolve=resolve)
        url = f"http://hooks.test:{port}/a?b=c"
        assert sender.post(url, b'{"a":1}', {"X-A": "b"}) == 204
    # Once: the name has no second chance.
    assert asked == ["hooks.test"]
    head, _, body = seen[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /a?b=c http/1.1"
    assert f"host: hooks.test:{port}".encode() in lines
    assert b"x-a: b" in lines
    assert body == b'{"a":1}'


def test_a_redirect_is_an_answer_and_nothing_to_follow() -> None:
    count = list[int]()

    def talk(peer: socket.socket) -> None:
        read_request(peer)
        count.append(1)
        peer.sendall(
            b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
        )

    with receiver(talk) as port:
        assert Sender(allow_private=True).post(f"http://127.0.0.1:{port}/", b"{}", {}) == 302
    assert count == [1]


def _drip(peer: socket.socket) -> None:
    read_request(peer)
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        peer.sendall(b"x")
        time.sleep(0.02)  # A receiver that is slow: this is what is tested.


def _say(answer: bytes) -> Talk:
    def talk(peer: socket.socket) -> None:
        read_request(peer)
        peer.sendall(answer)

    return talk


def _hang(peer: socket.socket) -> None:
    read_request(peer)
    peer.recv(1)


@pytest.mark.parametrize(
    "talk",
    [
        _drip,
        _hang,
        _say(b""),
        _say(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive!"),
        _say(b"SSH-2.0-OpenSSH_9.6\r\n"),
        _say(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 500_000),
        _say(b"HTTP/1.1 99999 What\r\n\r\n"),
    ],
    ids=["drips", "hangs", "hangs up", "dies mid-answer", "no http", "endless head", "no status"],
)
def test_an_answer_that_is_none_is_given_up_in_time(talk: Talk) -> None:
    with receiver(talk) as port:
        begun = time.monotonic()
        with pytest.raises(Unreachable):
            Sender(allow_private=True, total_s=0.5).post(f"http://127.0.0.1:{port}/", b"{}", {})
        assert time.monotonic() - begun < 5


def test_no_more_of_an_answer_is_read_than_is_looked_at() -> None:
    with receiver(_say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 8192)) as at:
        assert Sender(allow_private=True, total_s=2).post(f"http://127.0.0.1:{at}/", b"", {}) == 200


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with receiver(_say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as port:
        assert Sender(allow_private=True).post(f"http://127.0.0.1:{port}/", b"{}", {}) == 200


def test_nobody_listening_is_said() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(Unreachable, match="could not be told"):
        Sender(allow_private=True).post(f"http://127.0.0.1:{port}/", b"{}", {})


def test_an_address_with_https_is_not_told_in_the_clear() -> None:
    with receiver(_say(b"HTTP/1.1 200 OK\r\n\r\n")) as port, pytest.raises(Unreachable):
        Sender(allow_private=True, total_s=0.5).post(f"https://127.0.0.1:{port}/", b"{}", {})

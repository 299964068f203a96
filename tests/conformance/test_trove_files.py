"""The sharp points of files over HTTP: paths, texts, listings, and what goes wrong."""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from trove_sdk import TroveAuthError, TroveClient, TroveError, TroveNotFoundError

import holdfast
from holdfast.testing.servers import Begin, Server, running_server

MIB = 1 << 20
UPLOAD_BYTES = 3 * MIB
LINKED = "linked"
"""A namespace with what no client can make: links, and names that are no UTF-8."""


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with holdfast.open(home / "vault") as vault:
        files = vault.namespace(LINKED).files
        files.symlink("out", "/etc")
        files.symlink("passwd", "/etc/passwd")
        files.write(b"f\xe9e.txt", "latin")
        files.write(b"d\xff/inside", "x")
    environ = {"HOLDFAST_MAX_UPLOAD_BYTES": str(UPLOAD_BYTES)}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


def names_in(client: httpx.Client, path: str = "", **more: str) -> list[str]:
    answer = client.get("/v1/files", params={"path": path, **more})
    assert answer.status_code == 200, answer.text
    return [entry["path"] for entry in answer.json()["entries"]]


# Paths


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("a%20b.txt", "a b.txt"),
        ("h%C3%A9llo.txt", "héllo.txt"),
        ("a%2Fb", "a/b"),
        ("100%.txt", "100%.txt"),
        ("%41%zz%4", "A%zz%4"),
        ("%2541", "%41"),
        ("a%3Fb", "a?b"),
        ("a%23b", "a#b"),
        ("a\\b", "a\\b"),
        ("a%0Ab%09c", "a\nb\tc"),
        ("%20", " "),
        ("workspace/x", "workspace/x"),
        ("files/x", "files/x"),
        ("a+b", "a+b"),
    ],
)
def test_an_uploads_path_is_decoded_once(
    server: Server, wire: httpx.Client, sent: str, stored: str
) -> None:
    assert raw(server, wire, "PUT", f"/files/{sent}", b"here")[0] == 200
    answer = wire.get("/v1/files/content", params={"path": f"workspace/{stored}"})
    assert (answer.json()["path"], answer.json()["content"]) == (f"workspace/{stored}", "here")
    assert raw(server, wire, "GET", f"/files/{sent}") == (200, b"here")


@pytest.mark.parametrize(
    "sent",
    [
        "/files/%2e%2e/x",
        "/files/a/%2E%2E/%2e%2e/x",
        "/files/../../etc/passwd",
        "/files//x",
        "/files/%2Fetc/passwd",
        "/files/a//b",
        "/files/a/",
        "/files/./a",
        "/files/",
        "/files",
        "/files/a?b.txt",
        "/files/a%00b",
        "/files/%FF",
        "/files/%ED%A0%80",
        f"/files/{'n' * 256}",
        f"/files/{'n/' * 2048}n",
        "/%66iles/x",
        "/%66iles/files/x",
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_and_nothing_is_written(
    server: Server, wire: httpx.Client, sent: str
) -> None:
    assert raw(server, wire, "PUT", sent, b"x")[0] == 400
    assert names_in(wire, recursive="true") == []
    assert raw(server, wire, "GET", sent)[0] == 400


@pytest.mark.parametrize("path", ["", "/", "/x", "..", "../x", "a/../b", ".", "a//b", "a\0b"])
@pytest.mark.parametrize("route", ["/write", "/delete"])
def test_json_bodies_are_checked_the_same_way(wire: httpx.Client, route: str, path: str) -> None:
    wire.post("/write", json={"path": "keep/me", "content": ""})
    answer = wire.post(route, json={"path": path, "content": "x"})
    assert answer.status_code == 400
    assert isinstance(answer.json()["detail"], str)
    assert names_in(wire, recursive="true") == ["workspace/keep", "workspace/keep/me"]


def test_a_path_outside_the_files_routes_is_not_one(trove: TroveClient) -> None:
    for path, status in (("../evil", 404), ("workspace/d/../../../v1/me", 405)):
        with pytest.raises(TroveError) as told:
            trove.upload(path, b"x")
        assert told.value.status_code == status


@pytest.mark.parametrize(
    "typed", ["x", "/x", "workspace/x", "/workspace/x", "//workspace/x", "///x"]
)
def test_what_reads_takes_a_path_as_it_is_typed(trove: TroveClient, typed: str) -> None:
    trove.write("x", "root")
    trove.write("workspace/workspace/x", "deeper")
    found = trove.read_file(typed)
    assert (found.path, found.content) == ("workspace/x", "root")


def test_exactly_one_workspace_comes_off(trove: TroveClient) -> None:
    trove.write("workspace/workspace/x", "deeper")
    assert trove.read_text("workspace/workspace/x") == "deeper"
    with pytest.raises(TroveNotFoundError):
        trove.read_text("workspace/x")
    assert trove.list_dir("workspace/workspace")[0].path == "workspace/workspace/x"


@pytest.mark.parametrize("typed", ["", "/", "workspace", "workspace/", "/workspace//", "."])
def test_the_root_has_many_names(trove: TroveClient, typed: str) -> None:
    assert list(trove.list_dir(typed)) == []
    trove.write("x", "")
    assert [entry.path for entry in trove.list_dir(typed)] == ["workspace/x"]


def test_removing_the_workspace_itself_is_refused(trove: TroveClient) -> None:
    trove.write("x", "kept")
    with pytest.raises(TroveError) as told:
        trove.delete("workspace/")
    assert told.value.status_code == 400
    with pytest.raises(TroveNotFoundError):
        trove.delete("workspace")
    assert trove.read_text("x") == "kept"


def test_a_directory_may_be_deleted_by_its_name_with_a_slash(trove: TroveClient) -> None:
    trove.write("d/a", "")
    assert trove.delete("workspace/d/") == "workspace/d"
    assert list(trove.list_dir()) == []


@pytest.mark.parametrize(
    ("path", "status"), [("nowhere", 404), ("d", 400), ("d/f/g", 404), ("../x", 400), ("", 400)]
)
def test_what_is_no_file_is_not_read(
    trove: TroveClient, wire: httpx.Client, path: str, status: int
) -> None:
    trove.write("d/f", "")
    assert wire.get("/v1/files/content", params={"path": path}).status_code == status
    if path and ".." not in path:
        assert wire.get(f"/files/{path}").status_code == status


@pytest.mark.parametrize(("path", "status"), [("nowhere", 404), ("d/f", 400), ("..", 400)])
def test_what_is_no_directory_is_not_listed(trove: TroveClient, path: str, status: int) -> None:
    trove.write("d/f", "")
    with pytest.raises(TroveError) as told:
        trove.list_dir(path)
    assert told.value.status_code == status


@pytest.mark.parametrize("path", ["d", "d/f/g"])
def test_a_file_takes_no_directorys_place(trove: TroveClient, path: str) -> None:
    trove.write("d/f", "old")
    for write in (lambda: trove.write(path, "x"), lambda: trove.upload(path, b"x")):
        with pytest.raises(TroveError) as told:
            write()
        assert told.value.status_code == 400
    assert trove.read_text("d/f") == "old"


# Links, and names that are no text


def test_links_are_shown_and_never_followed(server: Server) -> None:
    with TroveClient(server.api_key, LINKED, base_url=server.url) as client:
        shown = {entry.name: entry for entry in client.list_dir(recursive=True)}
        assert not shown["out"].is_dir
        for use in (
            lambda: client.read_text("passwd"),
            lambda: client.read_bytes("passwd"),
            lambda: client.read_text("out/passwd"),
            lambda: client.list_dir("out"),
            lambda: client.write("out/evil", "x"),
            lambda: client.upload("out/evil", b"x"),
        ):
            with pytest.raises(TroveError) as told:
                use()
            assert told.value.status_code in (400, 404)
    assert not Path("/etc/evil").exists()


def test_names_that_are_no_text_are_shown_with_a_replacement(server: Server) -> None:
    with TroveClient(server.api_key, LINKED, base_url=server.url) as client:
        listed = [entry.path for entry in client.list_dir(recursive=True)]
    assert listed[:2] == ["workspace/d\ufffd", "workspace/d\ufffd/inside"]
    assert "workspace/f\ufffde.txt" in listed


# Texts


@pytest.mark.parametrize(
    "text", ["", "a\0b", "\ufeffbom\r\nline\rline\n", "\u2028 \U0001f9f7", "no end of line"]
)
def test_a_text_comes_back_as_it_was_written(trove: TroveClient, text: str) -> None:
    assert trove.write("t", text).size_bytes == len(text.encode())
    assert trove.read_text("t") == text
    assert trove.read_bytes("t") == text.encode()


def test_a_long_text_is_cut_between_two_characters(trove: TroveClient) -> None:
    trove.upload("t", b"x" + "ö".encode() * (MIB // 2))
    found = trove.read_file("t")
    assert (found.encoding, found.truncated, found.size_bytes) == ("utf-8", True, MIB + 1)
    assert found.content == "x" + "ö" * (MIB // 2 - 1)


def test_a_text_of_the_longest_length_is_whole(trove: TroveClient) -> None:
    trove.upload("t", b"x" * MIB)
    found = trove.read_file("t")
    assert (found.truncated, len(found.content or "")) == (False, MIB)


@pytest.mark.parametrize("content", [b"\xff", "ö".encode()[:1], b"\xe2\x82" + b"x" * MIB])
def test_bytes_that_are_no_text_are_called_binary(trove: TroveClient, content: bytes) -> None:
    trove.upload("b", content)
    found = trove.read_file("b")
    assert (found.encoding, found.content, found.truncated) == ("binary", None, False)
    assert trove.read("b") == content


# Listings


def test_a_listing_shows_directories_first_and_goes_into_each(trove: TroveClient) -> None:
    for path in ("b.txt", "a/z.txt", "a/c/d.txt", "a-b/x", "a.txt", "B/y", ".hidden", "a/b.txt"):
        trove.write(path, "")
    assert [e.path.removeprefix("workspace/") for e in trove.list_dir(recursive=True)] == [
        "B",
        "B/y",
        "a",
        "a/c",
        "a/c/d.txt",
        "a/b.txt",
        "a/z.txt",
        "a-b",
        "a-b/x",
        ".hidden",
        "a.txt",
        "b.txt",
    ]
    assert [e.name for e in trove.list_dir()] == ["B", "a", "a-b", ".hidden", "a.txt", "b.txt"]


def test_an_emptied_directory_is_still_listed(trove: TroveClient) -> None:
    trove.write("d/e/f", "")
    trove.delete("d/e/f")
    assert [entry.path for entry in trove.list_dir(recursive=True)] == [
        "workspace/d",
        "workspace/d/e",
    ]


def test_every_instant_has_the_same_width(trove: TroveClient) -> None:
    trove.write("d/f", "")
    for entry in trove.list_dir(recursive=True):
        assert len(entry.modified_at) == len("2026-01-01T00:00:00.000000Z")
        assert entry.modified_at.endswith("Z")


def test_a_listing_ends_after_a_thousand_entries_and_says_so(
    server: Server, namespace: str, trove: TroveClient
) -> None:
    fill(server, namespace, {f"d/f{number:04}": b"" for number in range(999)})
    assert len(trove.list_dir("d")) == 999
    deep = trove.list_dir(recursive=True)
    assert (len(deep), deep.truncated) == (1000, False)
    trove.write("z", "")
    deep = trove.list_dir(recursive=True)
    assert (len(deep), deep.truncated, deep[-1].name) == (1000, True, "f0998")


def test_the_first_thousand_are_those_that_come_first(
    server: Server, namespace: str, trove: TroveClient
) -> None:
    fill(
        server, namespace, {f"{n:04}{end}": b"" for n in range(1001) for end in ("/x", "-/x", ".")}
    )
    listed = trove.list_dir()
    assert [entry.name for entry in listed[:4]] == ["0000", "0000-", "0001", "0001-"]
    assert all(entry.is_dir for entry in listed)
    assert (len(listed), listed[-1].name, listed.truncated) == (1000, "0499-", True)


def test_a_listing_goes_twenty_levels_deep(trove: TroveClient) -> None:
    trove.write("/".join(f"d{level}" for level in range(20)), "")
    deep = trove.list_dir(recursive=True)
    assert (len(deep), deep.truncated) == (20, False)
    trove.write("/".join(f"e{level}" for level in range(21)), "")
    deep = trove.list_dir(recursive=True)
    assert (len(deep), deep.truncated, deep[-1].is_dir) == (40, True, True)


# Sizes, and what is never stored


def test_an_upload_of_the_largest_size_is_stored(trove: TroveClient) -> None:
    content = os.urandom(UPLOAD_BYTES)
    assert trove.upload("large", content).size_bytes == UPLOAD_BYTES
    assert trove.read_bytes("large") == content


def test_what_is_too_large_is_refused_and_not_stored(
    trove: TroveClient, wire: httpx.Client
) -> None:
    with pytest.raises(TroveError) as told:
        trove.upload("large", bytes(UPLOAD_BYTES + 1))
    assert told.value.status_code == 413
    with pytest.raises(TroveError) as told:
        trove.write("large", "x" * (UPLOAD_BYTES + 1))
    assert told.value.status_code == 413
    # Nothing announces how long this one is.
    pieces = (bytes(MIB) for _ in range(4))
    assert wire.put("/files/large", content=pieces).status_code == 413
    assert list(trove.list_dir()) == []
    pieces = (b"x" * MIB for _ in range(3))
    assert wire.put("/files/large", content=pieces).json()["size_bytes"] == UPLOAD_BYTES


def test_a_client_that_goes_away_has_written_nothing(
    server: Server, namespace: str, trove: TroveClient
) -> None:
    for head in ("Content-Length: 2000000", "Transfer-Encoding: chunked"):
        begin = "x" * 1000 if "Length" in head else "10\r\n0123456789abcdef\r\n"
        with closing(connect(server)) as connection:
            connection.sendall(request_head("PUT", "/files/half", server, namespace, head))
            connection.sendall(begin.encode())
    wait_for_refusals(server, times=2)
    assert list(trove.list_dir()) == []
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    ("path", "key", "status"), [("/files/x", "wrong", 401), ("/files/%2e%2e/x", None, 400)]
)
def test_an_upload_is_refused_before_its_body_is_sent(
    server: Server, namespace: str, path: str, key: str | None, status: int
) -> None:
    head = request_head("PUT", path, server, namespace, "Content-Length: 3000000", key=key)
    with closing(connect(server)) as connection:
        connection.sendall(head)
        assert connection.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


# Who may


def test_a_locked_key_reaches_its_namespace_alone(server: Server, namespace: str) -> None:
    made = httpx.post(
        f"{server.url}/v1/workspaces/{server.workspace_id}/keys",
        headers={"Authorization": f"Bearer {server.admin_key}"},
        json={"name": "locked", "namespace": namespace, "admin": False},
    ).json()
    with TroveClient(made["api_key"], namespace, base_url=server.url) as client:
        client.write("mine", "x")
    with (
        TroveClient(made["api_key"], "somebody", base_url=server.url) as client,
        pytest.raises(TroveAuthError) as told,
    ):
        client.list_dir()
    assert told.value.status_code == 403


def test_an_admin_key_opens_no_files(server: Server, namespace: str) -> None:
    with TroveClient(server.admin_key, namespace, base_url=server.url) as client:
        for use in (client.list_dir, lambda: client.write("x", ""), client.create_snapshot):
            with pytest.raises(TroveAuthError) as told:
                use()
            assert told.value.status_code == 403


@pytest.mark.parametrize("name", ["", ".", "..", "n" * 300, "a\tb"])
def test_a_namespace_that_cannot_be_one_is_refused(server: Server, name: str) -> None:
    with TroveClient(server.api_key, name, base_url=server.url) as client:
        with pytest.raises(TroveError) as told:
            client.write("x", "")
        assert told.value.status_code == 400


@pytest.mark.parametrize("name", ["a/b", "with space", "a..b", "%2e%2e"])
def test_a_namespace_with_odd_characters_is_a_namespace(server: Server, name: str) -> None:
    with TroveClient(server.api_key, name, base_url=server.url) as client:
        client.write("x", name)
        assert client.read_text("x") == name


def test_a_base_url_may_have_a_prefix_and_a_slash(tmp_path: Path, at_once: Begin) -> None:
    with running_server(tmp_path, environ={"HOLDFAST_PREFIX": "/pre"}, begin=at_once) as server:
        for url in (server.url, f"{server.url}/"):
            with TroveClient(server.api_key, "a", base_url=url) as client:
                client.upload("a%2Fb", b"x")
                assert client.read_text("a/b") == "x"
        bare = server.url.removesuffix("/pre")
        with (
            TroveClient(server.api_key, "a", base_url=bare) as client,
            pytest.raises(TroveNotFoundError),
        ):
            client.read_text("a/b")


# What the tests above use


def fill(server: Server, namespace: str, contents: dict[str, bytes]) -> None:
    """Writes many files at once, behind the server's back."""
    with holdfast.open(server.data) as vault:
        vault.namespace(namespace).files.write_many(contents.items())


def raw(
    server: Server, wire: httpx.Client, method: str, target: str, body: bytes = b""
) -> tuple[int, bytes]:
    """Sends a request whose target stands in it as it is: clients tidy theirs up."""
    namespace = wire.headers["X-Namespace"]
    head = f"Content-Length: {len(body)}\r\nConnection: close"
    with closing(connect(server)) as connection:
        connection.sendall(request_head(method, target, server, namespace, head) + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    told, _, content = answer.partition(b"\r\n\r\n")
    return int(told.split()[1]), content


def connect(server: Server) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def request_head(
    method: str, target: str, server: Server, namespace: str, head: str, *, key: str | None = None
) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {key or server.api_key}",
        f"X-Namespace: {namespace}",
        head,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def wait_for_refusals(server: Server, *, times: int) -> None:
    """Waits until so many uploads were answered like one that does not fit."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        lines = server.log.read_text().splitlines()
        told = [json.loads(line[line.index("{") :]) for line in lines if line.endswith("}")]
        if sum((each["method"], each["status"]) == ("PUT", 422) for each in told) >= times:
            return
        time.sleep(0.02)
    raise AssertionError(server.read_log())

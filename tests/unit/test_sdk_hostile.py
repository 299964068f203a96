"""What a client makes of a server that lies, of bad input, and of being cut off.

Nothing that a server says runs, changes what an error is, or leaves this without a `HoldfastError`.
"""

import asyncio
import contextlib
import gzip
import io
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import fields

import holdfast
from holdfast import errors
from holdfast.model.keys import Key, NewKey
from holdfast.model.webhooks import NewWebhook, Webhook
from holdfast.sdk.awaiting import AsyncSender, Connections
from holdfast.sdk.patience import LONGEST_PAUSE_S, longer_pause
from holdfast.sdk.sending import SyncSender
from holdfast.settings import client_settings

URL = "http://127.0.0.1:9"
KEY = "holdfast-sk-this-is-a-secret-that-nobody-sees"
FILE = b"0123456789" * 10

Handler = Callable[[httpx2.Request], httpx2.Response]


def client_of(handler: Handler, *, retries: int = 3) -> holdfast.Client:
    client = holdfast.Client(KEY, url=URL, namespace="alice", retries=retries)
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client._begin(SyncSender(client.sender.line, http=http, sleep=lambda _: None))
    return client


def answering(status: int, body: object, **headers: str) -> Handler:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: httpx2.Response(status, content=content, headers=headers)


class Torn(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx2.ReadError("the connection broke")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


# What a server says of an error.


@pytest.mark.parametrize(
    "name", ["args", "code", "hint", "with_traceback", "add_note", "__class__"]
)
@pytest.mark.parametrize("value", [5, "xy", {"a": 1}])
def test_what_an_error_carries_never_changes_what_an_error_is(name: str, value: object) -> None:
    body = {"error": {"code": "conflict", "message": "moved", "values": {name: value, "path": "p"}}}
    with pytest.raises(errors.Conflict) as caught:
        client_of(answering(409, body)).snapshot()
    assert str(caught.value) == "moved"
    assert (caught.value.code, caught.value.hint) == ("conflict", errors.Conflict.hint)
    assert caught.value.with_traceback(None) is caught.value
    assert vars(caught.value)["path"] == "p"


@pytest.mark.parametrize("value", [{"$bytes": "!"}, {"$time": "never"}, {"$msgpack": "wQ=="}])
def test_a_value_that_is_none_is_left_as_it_came(value: dict[str, str]) -> None:
    body = {"error": {"code": "conflict", "message": "moved", "values": {"path": value}}}
    with pytest.raises(errors.Conflict) as caught:
        client_of(answering(409, body)).snapshot()
    assert vars(caught.value)["path"] == value


DEEP = b'{"error":{"code":"conflict","message":"m","values":{"a":' + b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize("body", [DEEP + b"}}}", b'{"error":{"code":"\xff","message":"m"}}'])
def test_a_refusal_that_cannot_be_read_is_that_of_its_status(body: bytes) -> None:
    with pytest.raises(errors.Conflict, match="the server answered 409"):
        client_of(answering(409, body)).snapshot()


def test_what_a_server_says_gives_no_orders_to_a_terminal() -> None:
    told = {"code": "conflict", "message": "a\x1b[2J", "suggestion": "b\x1b]0;x\x07\nc"}
    for body in ({"error": told}, b"<html>\x1b[31m"):
        with pytest.raises(errors.Conflict) as caught:
            client_of(answering(409, body)).snapshot()
        assert "\x1b" not in f"{caught.value}{caught.value.hint}"


def test_an_answer_that_cannot_be_read_is_no_crash() -> None:
    for body in (b'{"snapshot_id":"\xff"}', b"[" * 5000, b""):
        with pytest.raises(errors.Incompatible):
            client_of(answering(200, body)).snapshot()
    packed = {"content-encoding": "gzip"}
    with pytest.raises(errors.Unreachable):
        client_of(answering(200, b"not packed", **packed)).snapshot()


def test_a_page_without_snapshots_is_not_the_end_of_the_list() -> None:
    asked = list[str]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.params.get("before", ""))
        left = 3 - len(asked)
        page = {"snapshots": [], "has_more": left > 0, "next_before": left or None}
        return httpx2.Response(200, json=page)

    assert client_of(answer).list_snapshots(before=9) == []
    assert asked == ["9", "2", "1"]


def test_a_list_that_goes_in_circles_ends() -> None:
    stuck = {"snapshots": [], "has_more": True, "next_before": 5}
    for ask in (lambda c: c.list_snapshots(), lambda c: list(c.snapshots.iter())):
        with pytest.raises(errors.Incompatible, match="no end"):
            ask(client_of(answering(200, stuck)))
    answer = {"events": [], "next_cursor": "again"}
    for ask in (lambda c: c.events.list(), lambda c: list(c.events.iter())):
        with pytest.raises(errors.Incompatible, match="no end"):
            ask(client_of(answering(200, answer)))


def test_an_event_without_end_is_refused() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"data:" + b"x" * (1 << 20) + b"\n"

    handler: Handler = lambda _: httpx2.Response(200, content=endless())  # noqa: E731 - short
    with pytest.raises(errors.Unreachable, match="no stream of events"):
        next(client_of(handler).events.stream())


def test_an_event_that_cannot_be_read_is_no_crash() -> None:
    with pytest.raises(errors.Incompatible, match="no event"):
        next(client_of(answering(200, b'data: {"id": 1}\n\n')).events.stream())


def test_a_server_that_sends_elsewhere_is_not_followed() -> None:
    seen: list[str] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.host)
        return httpx2.Response(307, headers={"location": "https://elsewhere.example/v1"})

    with pytest.raises(errors.Unreachable, match=r"go to 'https://elsewhere\.example") as caught:
        client_of(handle).snapshot()
    assert (seen, caught.value.http_status) == (["127.0.0.1"], 307)


# Halves of files.


def halves(second: httpx2.Response, *first: bytes) -> tuple[Handler, list[httpx2.Request]]:
    """Returns a server that breaks off after some pieces, and goes on with another answer."""
    seen: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        if len(seen) > 1:
            return second
        headers = {"etag": '"one"', "content-length": str(len(FILE))}
        return httpx2.Response(200, stream=Torn(*first), headers=headers)

    return handle, seen


def rest_of(start: int, *, tag: str = '"one"', status: int = 206) -> httpx2.Response:
    place = f"bytes {start}-{len(FILE) - 1}/{len(FILE)}"
    headers = {"etag": tag, "content-range": place}
    return httpx2.Response(status, content=FILE[start:], headers=headers)


def test_a_file_goes_on_where_it_broke_off() -> None:
    handler, seen = halves(rest_of(30), FILE[:30])
    assert b"".join(client_of(handler).files.stream("f")) == FILE
    assert (seen[1].headers["range"], seen[1].headers["if-range"]) == ("bytes=30-", '"one"')
    assert seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "second",
    [rest_of(30, tag='"two"'), rest_of(20), rest_of(30, status=200)],
    ids=["another file", "another place", "from its beginning"],
)
def test_halves_of_two_files_make_no_file(second: httpx2.Response, tmp_path: Path) -> None:
    handler, _ = halves(second, FILE[:30])
    target = tmp_path / "f"
    target.write_bytes(b"before")
    with pytest.raises(errors.Conflict, match="changed while it was being read"):
        client_of(handler).files.download("f", target)
    assert second.is_closed
    assert [each.name for each in tmp_path.iterdir()] == ["f"]
    assert target.read_bytes() == b"before"


def test_all_of_a_file_is_not_taken_for_a_part_of_it() -> None:
    client = client_of(answering(200, FILE))
    assert client.files.read("f", start=3, length=4) == FILE[3:7]
    assert client.files.read("f", start=95) == FILE[95:]
    client = client_of(answering(206, FILE[3:7]))
    assert client.files.read("f", start=3, length=4) == FILE[3:7]


def test_a_file_of_which_nothing_came_is_asked_for_once_more() -> None:
    whole = httpx2.Response(200, content=FILE, headers={"etag": '"two"'})
    handler, seen = halves(whole)
    assert b"".join(client_of(handler).files.stream("f")) == FILE
    assert "range" not in seen[1].headers


@pytest.mark.parametrize("headers", [{"etag": 'W/"one"'}, {}])
def test_what_has_no_exact_tag_is_not_pieced_together(headers: dict[str, str]) -> None:
    handler: Handler = lambda _: httpx2.Response(200, stream=Torn(FILE[:30]), headers=headers)  # noqa: E731 - short
    with pytest.raises(errors.Unreachable, match="broke after 30 bytes"):
        list(client_of(handler).files.stream("f"))


def test_progress_is_told_how_much_there_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    handler, _ = halves(rest_of(30), FILE[:30])
    client_of(handler).files.download(
        "f", tmp_path / "f", progress=lambda _, done, total: told.append((done, total))
    )
    assert told == [(30, len(FILE)), (len(FILE), len(FILE))]


def test_a_download_leaves_the_umask_alone_and_keeps_a_file_private(tmp_path: Path) -> None:
    private, plain = tmp_path / "private", tmp_path / "plain"
    private.touch(mode=0o600)
    mask = os.umask(0o027)
    try:
        for target in (private, plain):
            client_of(answering(200, FILE)).files.download("f", target)
    finally:
        assert os.umask(mask) == 0o027
    assert [oct(each.stat().st_mode & 0o777) for each in (private, plain)] == ["0o600", "0o640"]


def test_a_download_replaces_a_file_and_nothing_else(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("pipe", "nowhere", "device"):
        before = (tmp_path / name).lstat()
        with pytest.raises(errors.InvalidValue, match=name):
            client_of(answering(200, FILE)).files.download("f", tmp_path / name)
        assert os.path.samestat((tmp_path / name).lstat(), before)
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")
    client_of(answering(200, FILE)).files.download("f", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == FILE
    assert sorted(os.listdir(tmp_path)) == ["device", "file", "link", "nowhere", "pipe"]


def test_a_download_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    class Waiting(httpx2.AsyncByteStream):
        is_closed = False

        async def __aiter__(self) -> Any:
            yield FILE
            begun.set()
            await asyncio.Event().wait()

        async def aclose(self) -> None:
            self.is_closed = True

    begun, body = asyncio.Event(), Waiting()

    async def run() -> None:
        client = holdfast.AsyncClient(KEY, url=URL, namespace="alice")
        handler: Handler = lambda _: httpx2.Response(200, stream=body)  # noqa: E731 - short
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
        client._begin(AsyncSender(client.sender.line, http=http))
        download = asyncio.create_task(client.files.download("f", tmp_path / "f"))
        await begun.wait()
        download.cancel()
        with pytest.raises(asyncio.CancelledError):
            await download
        await client.close()

    asyncio.run(run())
    assert body.is_closed
    assert list(tmp_path.iterdir()) == []


# Archives, of which there is no rest to ask for.


def exported(handler: Handler, target: Any, *, is_async: bool) -> int:
    """Exports a namespace to a path or an open file, with either client."""
    if not is_async:
        return client_of(handler).export(target)

    async def run() -> int:
        client = holdfast.AsyncClient(KEY, url=URL, namespace="alice", retries=3)
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(handler))
        client._begin(AsyncSender(client.sender.line, http=http, sleep=lambda _: asyncio.sleep(0)))
        async with client:
            return await client.export(target)

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
def test_an_export_that_breaks_off_begins_again(tmp_path: Path, is_async: bool) -> None:
    archive, path = b"another and shorter", tmp_path / "a.tar"
    behind, within = io.BytesIO(b"before"), io.BytesIO(b"before" + b"-" * 40)
    for target in (path, behind, within):
        if isinstance(target, io.BytesIO):
            target.seek(len(b"before"))
        handler, seen = halves(httpx2.Response(200, content=archive), FILE[:30])
        assert exported(handler, target, is_async=is_async) == len(archive)
        assert "range" not in seen[1].headers
    assert path.read_bytes() == archive
    assert behind.getvalue() == b"before" + archive
    assert within.getvalue().endswith(b"-" * 10), "nothing is cut off that was there"


@pytest.mark.parametrize("is_async", [False, True])
def test_an_export_that_never_ends_leaves_a_file_as_it_was(tmp_path: Path, is_async: bool) -> None:
    handler: Handler = lambda _: httpx2.Response(200, stream=Torn(FILE))  # noqa: E731 - short
    opened = io.BytesIO(b"before")
    opened.seek(0, io.SEEK_END)
    for target in (tmp_path / "a.tar", opened):
        with pytest.raises(errors.Unreachable, match="broke after 100 bytes"):
            exported(handler, target, is_async=is_async)
    assert list(tmp_path.iterdir()) == []
    assert opened.getvalue() == b"before"


@pytest.mark.parametrize("is_async", [False, True])
def test_an_export_to_what_cannot_be_taken_back_is_not_repeated(is_async: bool) -> None:
    kept = io.BytesIO()
    handler, seen = halves(httpx2.Response(200, content=FILE), FILE[:30])
    with (
        gzip.GzipFile(fileobj=kept, mode="wb") as packed,
        pytest.raises(errors.Unreachable, match="broke after 30 bytes"),
    ):
        exported(handler, packed, is_async=is_async)
    assert len(seen) == 1
    assert gzip.decompress(kept.getvalue()) == FILE[:30]


# What is sent.


def bodies() -> tuple[Handler, list[httpx2.Request]]:
    seen: list[httpx2.Request] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        request.read()
        seen.append(request)
        shown = {"path": "f", "kind": "file", "size_bytes": 0, "mode": 420}
        return httpx2.Response(200, json={**shown, "modified_at": None, "target": None})

    return handle, seen


def test_a_file_that_grows_is_sent_as_long_as_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * 600_000)

    def grow(_stage: str, _done: int, _total: int) -> None:
        with log.open("ab") as file:
            file.write(b"more")

    handler, seen = bodies()
    client_of(handler).files.upload(log, "f", progress=grow)
    assert seen[0].headers["content-length"] == "600000"
    assert seen[0].content == b"x" * 600_000


def test_a_file_that_becomes_shorter_is_not_sent_as_if_it_were_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 600_000)
    cut: Callable[..., None] = lambda *_: os.truncate(path, 300_000)  # noqa: E731 - short
    with pytest.raises(errors.Conflict, match="became shorter"):
        client_of(bodies()[0]).files.upload(path, "f", progress=cut)


def test_a_file_that_does_not_say_its_size_is_sent_whole(tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(FILE))
    handler, seen = bodies()
    client = client_of(handler)
    with gzip.open(packed) as file:
        client.files.write("f", file)
    client.files.upload("/proc/self/cmdline", "f")
    assert seen[0].content == FILE
    assert b"python" in seen[1].content


@pytest.mark.parametrize("source", [io.StringIO("text"), 5, None])
def test_what_is_no_bytes_is_refused_in_words(source: Any) -> None:
    with pytest.raises(errors.InvalidValue, match="bytes"):
        client_of(bodies()[0]).files.write("f", source)


def test_paths_of_this_machine_that_are_none_are_refused() -> None:
    client = client_of(bodies()[0])
    with pytest.raises(errors.InvalidValue, match="null byte"):
        client.files.upload("a\0b", "f")
    with pytest.raises(errors.InvalidValue, match="null byte"):
        client_of(answering(200, FILE)).files.download("f", "a\0b")


def test_what_no_header_and_no_url_holds_is_refused_unsent() -> None:
    handler, seen = bodies()
    client = client_of(handler)
    with pytest.raises(errors.InvalidValue, match="Last-Event-ID"):
        next(client.events.stream(last_event_id="a\r\nX-Namespace: bob"))
    with pytest.raises(errors.InvalidValue, match="too long"):
        client.files.read("a" * 70_000)
    assert seen == []


# How a client is made, shown and closed.


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://[::1",
        "http://127.0.0.1:99999",
        "http://a b",
        "https://a\x01b",
        "http://127.0.0.1:9/?x=1",
        "http://127.0.0.1:9#x",
        "ftp://127.0.0.1",
    ],
)
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(errors.InvalidValue, match="URL"):
        holdfast.Client(KEY, url=url)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(errors.InvalidValue, match="api_key=") as caught:
        holdfast.Client(KEY, url="http://user:hunter2@127.0.0.1:9")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf")])
def test_a_timeout_is_a_number_of_seconds(timeout_s: float) -> None:
    with pytest.raises(errors.InvalidValue, match="timeout_s"):
        holdfast.Client(KEY, url=URL, timeout_s=timeout_s)


def test_secrets_are_in_nothing_that_is_printed() -> None:
    client = holdfast.Client(KEY, url=URL)
    line = client.sender.line
    key = NewKey(**{**dict.fromkeys(each.name for each in fields(Key)), "api_key": KEY})  # pyright: ignore[reportArgumentType] - shown, not used
    known = dict.fromkeys(each.name for each in fields(Webhook))
    hook = NewWebhook(**{**known, "secret": KEY})  # pyright: ignore[reportArgumentType] - as above
    environ = client_settings({"HOLDFAST_API_KEY": KEY, "HOLDFAST_ADMIN_KEY": KEY})
    for shown in (client, line, key, hook, environ):
        assert KEY not in repr(shown)
    for struct in (line, key, hook):
        assert KEY not in repr(list(struct.__rich_repr__()))


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [("missing_namespace", 400, "namespace="), ("authentication_failed", 401, "api_key=")],
)
def test_hints_say_what_to_do_in_python(code: str, status: int, word: str) -> None:
    told = {"code": code, "message": "m", "suggestion": "Send the header X."}
    with pytest.raises(errors.HoldfastError) as caught:
        client_of(answering(status, {"error": told})).size()
    assert word in caught.value.hint


def test_a_closed_client_says_so() -> None:
    client = client_of(bodies()[0])
    client.close()
    with pytest.raises(errors.Unavailable, match="closed") as caught:
        client.snapshot()
    assert "another client" in caught.value.hint


def test_pauses_never_overflow() -> None:
    assert longer_pause(10**6) == LONGEST_PAUSE_S


def test_every_event_loop_gets_connections_of_its_own() -> None:
    connections = Connections(holdfast.AsyncClient(KEY, url=URL).sender.line, None)

    async def here() -> httpx2.AsyncClient:
        return connections.here()

    async def elsewhere() -> httpx2.AsyncClient:
        first = connections.here()
        with pytest.raises(errors.InvalidValue, match="one event loop"):
            await asyncio.to_thread(asyncio.run, here())
        assert connections.here() is first
        return first

    assert asyncio.run(here()) is not asyncio.run(elsewhere())
    asyncio.run(connections.close())
    assert asyncio.run(here()).is_closed


# What is selected.


@pytest.mark.parametrize("ask", ["restore", "diff", "text_diffs"])
@pytest.mark.parametrize("paths", [[], "notes*"], ids=["none", "one instead of a list"])
def test_a_choice_that_is_none_is_not_everything(ask: str, paths: Any) -> None:
    handler, seen = bodies()
    snapshot = "snap-aaaaaaaaaaaaaaaa"
    with pytest.raises(errors.InvalidValue, match="path"):
        getattr(client_of(handler), ask)(snapshot, paths=paths)
    assert seen == []


@pytest.mark.parametrize("ask", ["restore", "diff"])
def test_no_plane_is_not_every_plane(ask: str) -> None:
    handler, seen = bodies()
    with pytest.raises(errors.InvalidValue, match="at least one plane"):
        getattr(client_of(handler), ask)("snap-aaaaaaaaaaaaaaaa", planes=[])
    assert seen == []


def test_a_file_too_large_to_go_with_others_goes_alone() -> None:
    seen: list[tuple[str, str, int]] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append((request.method, request.url.path, len(request.read())))
        shown = {"path": "f", "kind": "file", "size_bytes": 0, "mode": 420, "written": 1}
        return httpx2.Response(200, json={**shown, "modified_at": None, "target": None})

    items = [("a", "1"), ("b", b"x" * (5 << 20)), ("c", "2")]
    assert client_of(handle).files.write_many(items) == 3
    assert [each[:2] for each in seen] == [
        ("POST", "/v1/files/write_many"),
        ("PUT", "/v1/files/raw"),
        ("POST", "/v1/files/write_many"),
    ]
    assert seen[1][2] == 5 << 20
    with pytest.raises(errors.InvalidValue, match="UTF-8"):
        client_of(handle).files.write_many([("a", "\ud800")])


def test_a_text_is_no_list_of_texts() -> None:
    handler, seen = bodies()
    client, admin = client_of(handler), holdfast.AdminClient(KEY, url=URL)
    with pytest.raises(errors.InvalidValue, match="tags is a list"):
        client.memory.add("x", tags="work")
    with pytest.raises(errors.InvalidValue, match="types is a list"):
        client.events.list(types="snapshot.created")
    with pytest.raises(errors.InvalidValue, match="events is a list"):
        admin.webhooks.create("https://example.com", "snapshot.created")
    admin.close()
    assert seen == []


def test_any_of_none_is_nothing() -> None:
    client = client_of(answering(200, {"data": [], "query": "x", "has_more": False}))
    assert client.memory.list(tags=[]) == client.memory.list(types=[]) == []
    assert list(client.memory.iter(tags=[])) == client.memory.search("x", types=[]) == []


def test_every_page_of_events_is_of_the_types_asked_for() -> None:
    seen: list[str | None] = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.params.get("types"))
        return httpx2.Response(
            200, json={"events": [], "next_cursor": "2"[len(seen) - 1 :] or None}
        )

    list(client_of(handle).events.iter(types=(each for each in ["a", "b"])))
    assert seen == ["a,b", "a,b"]


# What the server keeps of a request.


def test_what_only_reads_is_repeated_and_bears_no_name() -> None:
    session = {"session_id": "s", "version": 1, "state": {}, "memories": [], "recent_turns": []}
    found = {**session, "turns": [], "values": [None], "deleted": 0}
    answer = {**found, "data": [], "query": "x", "has_more": False}
    asks: list[Callable[[holdfast.Client], Any]] = [
        lambda client: client.store.get("n", "k"),
        lambda client: client.memory.search("x"),
        lambda client: client.sessions.get_context("s"),
    ]
    for ask in asks:
        seen: list[httpx2.Request] = []

        def handle(request: httpx2.Request, seen: list[httpx2.Request] = seen) -> httpx2.Response:
            seen.append(request)
            if len(seen) == 1:
                raise httpx2.ReadError("the connection broke")
            return httpx2.Response(200, json=answer)

        with contextlib.suppress(errors.Incompatible):
            ask(client_of(handle))
        assert [request.headers.get("idempotency-key") for request in seen] == [None, None]


def test_no_name_is_not_the_namespace_that_is_called_like_none() -> None:
    # In the path stands `-`: an empty header would leave the namespace with that very name.
    with holdfast.AdminClient(KEY, url=URL) as admin:
        for ask in (admin.namespaces.delete, admin.namespaces.get, admin.namespaces.forget):
            with pytest.raises(errors.InvalidName, match="empty"):
                ask("")

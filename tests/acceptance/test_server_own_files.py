"""Files and snapshots over our own routes: what the embedded door does, a server does as well."""

import gzip
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.testing.servers import Begin, Server, running_server

_NUMBERS = count(1)
_HOSTILE = ["../up", "a/../b", "a//b", "./a", "a/.", "nul\0", "x" * 300, "a/" * 3000 + "b"]


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_MAX_UPLOAD_BYTES": str(4 << 20)}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture
def namespace() -> str:
    return f"agent-{next(_NUMBERS)}"


@pytest.fixture
def agent(server: Server, namespace: str) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": namespace}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        yield http


@pytest.fixture
def inside(server: Server, namespace: str) -> Iterator[holdfast.Namespace]:
    """The same namespace, through the other door."""
    with holdfast.open(server.data) as vault:
        yield vault.namespace(namespace)


def ok(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def do(agent: httpx.Client, what: str, **body: Any) -> Any:
    return ok(agent.post(f"/v1/files/{what}", json=body))


def put(agent: httpx.Client, path: str, data: bytes, **more: Any) -> Any:
    return ok(agent.put("/v1/files/raw", params={"path": path, **more}, content=data))


def raw(agent: httpx.Client, path: str, **more: Any) -> bytes:
    answer = agent.get("/v1/files/raw", params={"path": path, **more})
    assert answer.status_code == 200, answer.text
    return answer.content


def listed(agent: httpx.Client, **query: Any) -> list[str]:
    """Returns the paths of a whole listing, however many pages it takes."""
    paths: list[str] = []
    while True:
        after = {"starting_after": paths[-1]} if paths else {}
        page = ok(agent.get("/v1/files/list", params={**query, **after}))
        paths += [file["path"] for file in page["files"]]
        if not page["has_more"]:
            return paths
        assert page["files"]
        assert len(paths) < 1000


# Bytes.


def test_a_file_comes_back_with_its_mode_and_time(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    data = Random(1).randbytes(3 << 20)
    when = "2020-01-02T03:04:05.678901+00:00"
    made = put(agent, "workspace/deep/er.bin", data, mode=0o750, modified_at=when)
    assert made == {
        "path": "deep/er.bin",
        "kind": "file",
        "size_bytes": len(data),
        "mode": 0o750,
        "modified_at": "2020-01-02T03:04:05.678901Z",
        "target": None,
        "path_b64": None,
        "target_b64": None,
        "tag": inside.files.stat("deep/er.bin").tag,
    }
    assert raw(agent, "deep/er.bin") == inside.files.read("deep/er.bin") == data
    assert inside.files.stat("deep/er.bin").modified_at == datetime.fromisoformat(when)
    assert put(agent, "deep/er.bin", b"less")["mode"] == 0o750
    assert ok(agent.get("/v1/files/stat", params={"path": "deep/er.bin"}))["size_bytes"] == 4


def test_no_browser_runs_what_was_stored(agent: httpx.Client) -> None:
    page = b"<script>alert(1)</script>"
    agent.put("/v1/files/raw", params={"path": "page.html"}, content=page)
    stored = [
        agent.get("/v1/files/raw", params={"path": "page.html"}),
        agent.get("/files/page.html"),
        agent.get("/v1/export"),
    ]
    for answer in [*stored, agent.get("/v1/status"), agent.get("/nowhere")]:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert [answer.status_code for answer in stored] == [200, 200, 200]
    assert {answer.headers.get("Content-Disposition") for answer in stored} == {"attachment"}
    assert "Content-Disposition" not in agent.get("/v1/status").headers


def test_a_broken_download_goes_on_where_it_ended(agent: httpx.Client) -> None:
    data = Random(2).randbytes(2 << 20)
    put(agent, "large.bin", data)
    whole = agent.get("/v1/files/raw", params={"path": "large.bin"})
    assert (whole.content, whole.headers["content-length"]) == (data, str(len(data)))
    for start, stop in ((1, None), (70_001, 70_002), (len(data) - 1, None), (0, 10**15)):
        wanted = f"bytes={start}-{'' if stop is None else stop - 1}"
        headers = {"Range": wanted, "If-Range": whole.headers["etag"]}
        part = agent.get("/v1/files/raw", params={"path": "large.bin"}, headers=headers)
        assert part.content == data[start:stop], wanted
        assert part.status_code == (200 if len(part.content) == len(data) else 206)
    for start in (len(data), 2**63 - 1, "9" * 5000):
        too_far = {"Range": f"bytes={start}-"}
        answer = agent.get("/v1/files/raw", params={"path": "large.bin"}, headers=too_far)
        assert refusal(answer) == (416, "range_not_satisfiable")
    up_to = {"Range": "bytes=" + "0" * 30 + f"1-{10**30}"}
    part = agent.get("/v1/files/raw", params={"path": "large.bin"}, headers=up_to)
    assert (part.status_code, part.content) == (206, data[1:])


@pytest.mark.parametrize("encoding", ["gzip", "br", "GZIP, identity", "identity"])
def test_a_body_that_came_packed_is_not_stored_as_it_is(agent: httpx.Client, encoding: str) -> None:
    headers, there = {"Content-Encoding": encoding}, {"path": "packed"}
    for content in (gzip.compress(b"text"), iter([gzip.compress(b"text")])):
        answer = agent.put("/v1/files/raw", params=there, content=content, headers=headers)
        if encoding == "identity":
            assert answer.status_code == 200
        else:
            assert refusal(answer) == (415, "unsupported_encoding")
            assert "not unpacked" in answer.text
    cleared = agent.post("/v1/store/clear", content=b"{}", headers=headers)
    assert (cleared.status_code == 415) == (encoding != "identity")


def test_a_download_of_what_has_changed_meanwhile_begins_anew(agent: httpx.Client) -> None:
    put(agent, "file", b"the first content")
    tag = agent.get("/v1/files/raw", params={"path": "file"}).headers["etag"]
    put(agent, "file", b"another  content!")
    headers = {"Range": "bytes=4-", "If-Range": tag}
    answer = agent.get("/v1/files/raw", params={"path": "file"}, headers=headers)
    assert (answer.status_code, answer.content) == (200, b"another  content!")
    assert answer.headers["etag"] != tag


@pytest.mark.parametrize("wanted", ["bytes=-5", "lines=1-2", "bytes=1-2,4-5", "bytes=x-", "bytes="])
def test_a_range_that_is_not_understood_is_all_of_it(agent: httpx.Client, wanted: str) -> None:
    put(agent, "file", b"content")
    answer = agent.get("/v1/files/raw", params={"path": "file"}, headers={"Range": wanted})
    assert (answer.status_code, answer.content) == (200, b"content")


def test_an_upload_has_its_limit_and_leaves_nothing(agent: httpx.Client) -> None:
    too_much = b"x" * ((4 << 20) + 1)
    answer = agent.put("/v1/files/raw", params={"path": "file"}, content=too_much)
    assert refusal(answer) == (413, "too_large")
    assert listed(agent) == []


def test_many_files_are_written_together_or_not_at_all(agent: httpx.Client) -> None:
    files = [{"path": f"m/{n}", "content": b64encode(b"%d" % n).decode()} for n in range(50)]
    assert do(agent, "write_many", files=files) == {"written": 50}
    assert raw(agent, "m/49") == b"49"
    refused = [
        [*files, {"path": "../out", "content": ""}],
        [{"path": "n/1", "content": ""}, {"path": "n/1/2", "content": ""}],
        [{"path": "n/1", "content": "not base64!"}],
        [{"path": "n/1", "content": ""}] * 4097,
    ]
    for batch in refused:
        answer = agent.post("/v1/files/write_many", json={"files": batch})
        assert answer.status_code in (400, 409, 422), answer.text
    assert len(listed(agent, recursive=True)) == 50


# Directories, links, moving.


def test_everything_the_embedded_door_does_to_files_is_done(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    put(agent, "a/b.txt", b"b")
    assert do(agent, "mkdir", path="empty/dir", mode=0o700)["mode"] == 0o700
    link = do(agent, "symlink", path="link", target="../out/of/it")
    assert (link["kind"], link["target"]) == ("link", "../out/of/it")
    assert do(agent, "chmod", path="a/b.txt", mode=0o755)["mode"] == 0o755
    assert do(agent, "move", source="a", target="moved/a")["kind"] == "directory"
    assert inside.files.readlink("link") == "../out/of/it"
    assert inside.files.stat("moved/a/b.txt").mode == 0o755
    shown = [
        (info.path, info.kind, info.size_bytes, info.mode)
        for info in inside.files.list(recursive=True)
    ]
    page = ok(agent.get("/v1/files/list", params={"recursive": True}))["files"]
    assert [(f["path"], f["kind"], f["size_bytes"], f["mode"]) for f in page] == shown
    assert do(agent, "delete", path="link") == {"entries": 1}
    assert do(agent, "delete", path="moved", recursive=True) == {"entries": 1}
    assert listed(agent, recursive=True) == ["empty/dir"]


def test_a_directory_with_something_in_it_goes_only_if_that_is_meant(agent: httpx.Client) -> None:
    put(agent, "full/file", b"")
    answer = agent.post("/v1/files/delete", json={"path": "full"})
    assert refusal(answer) == (400, "not_a_file")
    assert listed(agent, recursive=True) == ["full/file"]


def test_a_move_replaces_a_file_only_if_that_is_meant(agent: httpx.Client) -> None:
    put(agent, "one", b"1")
    put(agent, "two", b"2")
    body = {"source": "one", "target": "two"}
    assert refusal(agent.post("/v1/files/move", json=body)) == (409, "path_exists")
    do(agent, "move", **body, overwrite=True)
    assert (listed(agent), raw(agent, "two")) == (["two"], b"1")


def test_a_file_that_is_called_workspace_can_be_meant(agent: httpx.Client) -> None:
    put(agent, "workspace/workspace/x", b"inner")
    put(agent, "workspace/x", b"outer")
    assert listed(agent, recursive=True) == ["workspace/x", "x"]
    assert raw(agent, "workspace/workspace/x") == b"inner"
    assert raw(agent, "x") == b"outer"


# Listing.


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
@pytest.mark.parametrize("recursive", [False, True])
def test_pages_are_what_one_listing_would_be(
    agent: httpx.Client, inside: holdfast.Namespace, limit: int, recursive: bool
) -> None:
    # Names that sort differently as keys and as paths: what lies in `a/` stands behind `a.txt`.
    names = ["a/x", "a/y/z", "a-b", "a.txt", "a", "b", "b0", "b/c", "ü/ö", "a0/q", "a./r", "a-/s"]
    for name in names:
        if name not in ("a", "b"):
            inside.files.write(name, name)
    inside.files.mkdir("b/empty")
    inside.files.mkdir("e")
    wanted = [info.path for info in inside.files.list(recursive=recursive)]
    assert listed(agent, recursive=recursive, limit=limit) == wanted
    below = [info.path for info in inside.files.list("a", recursive=recursive)]
    assert listed(agent, path="workspace/a", recursive=recursive, limit=limit) == below
    some = [info.path for info in inside.files.list(prefix="a", recursive=recursive)]
    assert listed(agent, prefix="a", recursive=recursive, limit=limit) == some
    inner = [info.path for info in inside.files.list(prefix="a/y", recursive=recursive)]
    assert listed(agent, prefix="a/y", recursive=recursive, limit=limit) == inner


def test_what_is_no_text_can_be_listed_asked_for_and_brought_back(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    names = [b"a", b"b\xfd", b"b\xfe", b"b\xff", b"c"]
    for name in names:
        inside.files.write(name, b"in " + name)
    inside.files.symlink("d", b"b\xff")
    seen, after = list[bytes](), dict[str, str]()
    while True:
        page = ok(agent.get("/v1/files/list", params={"limit": 2, **after}))
        assert len(page["files"]) == 2
        for file in page["files"]:
            raw = file["path_b64"]
            seen.append(file["path"].encode() if raw is None else b64decode(raw))
        if not page["has_more"]:
            break
        raw, path = file["path_b64"], file["path"]
        after = {"starting_after": path} if raw is None else {"starting_after_b64": raw}
    assert seen == [*names, b"d"]
    asked = {"path_b64": b64encode(b"b\xff").decode()}
    assert file["target_b64"] == asked["path_b64"]
    shown = ok(agent.get("/v1/files/stat", params=asked))
    assert (shown["path"], shown["path_b64"]) == ("b\N{REPLACEMENT CHARACTER}", asked["path_b64"])
    assert agent.get("/v1/files/raw", params=asked).content == b"in b\xff"
    first = inside.snapshot()
    for name in names:
        inside.files.write(name, "changed\n")
    diff = ok(agent.get("/v1/diff/text", params={**asked, "from": first.id}))
    assert diff["path_b64"] == asked["path_b64"]
    names_to_restore = [{"plane": "files", "name_b64": asked["path_b64"]}]
    body = {"names": names_to_restore, "dry_run": True}
    preview = ok(agent.post(f"/v1/snapshots/{first.id}/restore", json=body))
    assert [each["name_b64"] for each in preview["changes"]] == [asked["path_b64"]]
    ok(agent.post(f"/v1/snapshots/{first.id}/restore", json={"names": names_to_restore}))
    assert inside.files.read(b"b\xff") == b"in b\xff"
    assert inside.files.read(b"b\xfe") == b"changed\n"


@pytest.mark.parametrize("route", ["stat", "raw"])
def test_what_is_no_path_in_base64_is_refused(agent: httpx.Client, route: str) -> None:
    for raw, status in (("!!", 400), (b64encode(b"../\xff").decode(), 400), (None, 422)):
        query = {} if raw is None else {"path_b64": raw}
        assert agent.get(f"/v1/files/{route}", params=query).status_code == status


# Snapshots.


def test_what_a_snapshot_is_taken_with_comes_back(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    body = {"label": "l", "expires_in_seconds": 3600, "task_id": "task-1", "trace_id": "trace-1"}
    made = ok(agent.post("/v1/snapshots", json=body))
    assert (made["task_id"], made["trace_id"], made["detail"]) == ("task-1", "trace-1", {})
    kept = inside.get_snapshot(made["snapshot_id"])
    assert kept.expires_at == kept.created_at + timedelta(hours=1)
    assert datetime.fromisoformat(made["expires_at"]).astimezone(UTC) == kept.expires_at
    assert kept.actor == made["actor"] != None  # noqa: E711 - the key, whatever was sent


@pytest.mark.parametrize(
    "body",
    [
        {"expires_in_seconds": 0},
        {"expires_in_seconds": -1},
        {"expires_in_seconds": 10**40},
        {"task_id": "nul \0"},
        {"trace_id": "x" * 5000},
    ],
)
def test_a_snapshot_that_makes_no_sense_is_refused(
    agent: httpx.Client, body: dict[str, Any]
) -> None:
    answer = agent.post("/v1/snapshots", json=body)
    assert answer.status_code == 400, answer.text


def test_a_restore_says_all_that_the_embedded_one_says(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.store.set("with/slash", "and/another", 1)
    inside.files.write("a", "1")
    inside.files.write("b", "1")
    first = inside.snapshot()
    inside.store.set("with/slash", "and/another", 2)
    inside.files.write("a", "22")
    place = f"/v1/snapshots/{first.id}/restore"
    planned = inside.restore(first, dry_run=True)
    told = ok(agent.post(place, json={"dry_run": True}))
    assert told["root"] == planned.root.hex()
    assert (told["files"], told["kept"], told["files_restored"]) == (2, [], 2)
    assert [(c["plane"], c["name"], c["change"]) for c in told["changes"]] == [
        (change.plane.value, change.name, change.change) for change in planned.changes
    ]
    assert [(c["namespace"], c["key"]) for c in told["changes"]] == [
        (None, None),
        ("with/slash", "and/another"),
    ]
    some = ok(agent.post(place, json={"dry_run": True, "limit": 1}))
    assert (len(some["changes"]), some["truncated"]) == (1, True)
    part = ok(agent.post(place, json={"paths": ["a"], "limit": 0}))
    assert (part["changes"], part["files"], part["snapshot"]["detail"]) == (
        [],
        None,
        {"paths": ["a"]},
    )
    assert refusal(agent.post(place, json={"limit": -1})) == (400, "invalid_value")


def test_a_snapshot_is_found_by_whatever_means_it(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    first = inside.snapshot("first")
    inside.files.write("a", "1")
    second = inside.snapshot("second")
    for name, wanted in {
        second.id: second,
        first.id[:-1]: first,
        first.id.removeprefix("snap-")[:-1]: first,
        "latest": second,
        "@": second,
        "@-1": first,
    }.items():
        assert ok(agent.get(f"/v1/timeline/{name}"))["snapshot_id"] == wanted.id
        assert ok(agent.get("/v1/diff", params={"from": name}))["old"] == wanted.id
        fork = {"name": f"fork-{next(_NUMBERS)}", "at": name}
        assert ok(agent.post("/v1/fork", json=fork))["snapshot"]["target"] == wanted.id
    assert refusal(agent.post("/v1/snapshots", json={"expected": "@-1"}))[0] == 409
    ok(agent.post("/v1/snapshots", json={"expected": "@"}))
    for name in ("snap-", "@-9", "@x", "nothing", "%00"):
        answer = agent.get(f"/v1/timeline/{name}")
        assert answer.status_code in (400, 404, 409), (name, answer.text)


def test_a_snapshot_of_a_directory_says_what_it_covers(
    agent: httpx.Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "name\udcff").mkdir()
    (tmp_path / "name\udcff" / "node_modules").mkdir()
    with holdfast.open(server.data) as vault:
        workspace = vault.workspace(tmp_path, namespace=namespace)
        taken = workspace.snapshot()
    shown = ok(agent.get(f"/v1/snapshots/{taken.id}"))
    assert shown["detail"]["coverage"]["captured"] == taken.detail["coverage"]["captured"]
    assert ok(agent.get("/v1/timeline"))["snapshots"][0] == shown


def test_a_name_that_is_no_text_keeps_no_timeline_from_being_shown(
    agent: httpx.Client, inside: holdfast.Namespace
) -> None:
    inside.files.write(b"b\xff", "x")
    first = inside.snapshot()
    inside.files.write(b"b\xff", "y")
    inside.restore(first, paths=[b"b\xff"])
    [restored, *_] = ok(agent.get("/v1/timeline"))["snapshots"]
    assert restored["detail"] == {"paths": ["b\N{REPLACEMENT CHARACTER}"]}


# Who asks badly.


@pytest.mark.parametrize("path", _HOSTILE)
def test_a_path_that_leads_out_is_refused_everywhere(agent: httpx.Client, path: str) -> None:
    put(agent, "file", b"")
    query = {"params": {"path": f"workspace/{path}"}}
    answers = [
        agent.get("/v1/files/stat", **query),
        agent.get("/v1/files/list", **query),
        agent.get("/v1/files/raw", **query),
        agent.put("/v1/files/raw", **query, content=b"x"),
        *(
            agent.post(f"/v1/files/{what}", json={"path": f"workspace/{path}", **more})
            for what, more in (
                ("mkdir", {}),
                ("symlink", {"target": "t"}),
                ("chmod", {"mode": 0o644}),
                ("delete", {"recursive": True}),
            )
        ),
        agent.post("/v1/files/move", json={"source": "file", "target": path}),
        agent.post("/v1/files/move", json={"source": path, "target": "file"}),
    ]
    assert {refusal(answer) for answer in answers} == {(400, "invalid_path")}
    assert listed(agent) == ["file"]


@pytest.mark.parametrize("path", ["", "workspace", "workspace/"])
def test_the_root_is_no_file(agent: httpx.Client, path: str) -> None:
    put(agent, "file", b"")
    assert agent.get("/v1/files/list", params={"path": path}).status_code == 200
    for answer in (
        agent.get("/v1/files/stat", params={"path": path}),
        agent.put("/v1/files/raw", params={"path": path}, content=b"x"),
        agent.post("/v1/files/delete", json={"path": path, "recursive": True}),
    ):
        assert refusal(answer) == (400, "invalid_path")


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("mkdir", {"path": "d", "mode": 0o4755}),
        ("mkdir", {"path": "d", "mode": -1}),
        ("chmod", {"path": "file", "mode": 10**30}),
        ("symlink", {"path": "l", "target": ""}),
        ("symlink", {"path": "l", "target": "nul\0"}),
        ("move", {"source": "file", "target": "file/inside"}),
        ("write_many", {"files": [{"path": "x", "content": "=="}]}),
    ],
)
def test_what_no_file_system_does_is_refused(
    agent: httpx.Client, what: str, body: dict[str, Any]
) -> None:
    put(agent, "file", b"")
    answer = agent.post(f"/v1/files/{what}", json=body)
    assert answer.status_code in (400, 409, 422), answer.text
    for query in ({"modified_at": "yesterday"}, {"modified_at": "1e300"}, {"mode": 9**30}):
        refused = agent.put("/v1/files/raw", params={"path": "x", **query}, content=b"x")
        assert refused.status_code in (400, 422), refused.text
    assert listed(agent) == ["file"]


def test_what_is_not_there_is_not_found(agent: httpx.Client) -> None:
    for answer in (
        agent.get("/v1/files/stat", params={"path": "x"}),
        agent.get("/v1/files/raw", params={"path": "x"}),
        agent.get("/v1/files/list", params={"path": "x"}),
        agent.post("/v1/files/delete", json={"path": "x"}),
        agent.post("/v1/files/chmod", json={"path": "x", "mode": 0o644}),
        agent.post("/v1/files/move", json={"source": "x", "target": "y"}),
    ):
        assert refusal(answer) == (404, "path_not_found")
    put(agent, "file", b"")
    assert refusal(agent.get("/v1/files/stat", params={"path": "file", "at": "snap-x"})) == (
        404,
        "snapshot_not_found",
    )

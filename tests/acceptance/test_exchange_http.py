"""The routes of an exchange, asked by people who mean harm: a clear refusal, and no change."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import zstandard

import holdfast
from holdfast.engine.exchange.edits import encode_edits
from holdfast.entries import Blob, Entry, Inline, encode_entry, pack_ref
from holdfast.ids import object_id_of
from holdfast.mirror.following import ALONG_BYTES
from holdfast.model.basics import EMPTY_MAP
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server
from holdfast.tree import build
from holdfast.wire.exchange import (
    ChangesRequest,
    CommitRequest,
    ContentRequest,
    MissingAnswer,
    MissingRequest,
    decode,
    encode,
)

pytestmark = pytest.mark.in_memory

PART = b"known to nobody else " * 100
NAME = object_id_of(PART)


class World:
    """A server with two workspaces, a namespace that is full, and one that is empty."""

    def __init__(self, server: Server) -> None:
        self.server, self.poor = server, f"poor {os.urandom(4).hex()}"
        with holdfast.open(server.data) as vault:
            vault.namespace("rich").files.write("secret", PART)
            self.snapshot = vault.namespace("rich").snapshot().id
            self.locked = vault.keys.create("locked", namespace=self.poor).api_key
            self.stranger = vault.tenant("other").keys.create("stranger").api_key
        self._http = httpx.Client(base_url=server.url, trust_env=False, timeout=30)

    def close(self) -> None:
        self._http.close()

    def ask(
        self, route: str, body: bytes, *, key: str = API_KEY, namespace: str | None = None
    ) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/octet-stream"}
        headers["X-Namespace"] = namespace or self.poor
        return self._http.post(f"/v1/exchange/{route}", content=body, headers=headers)

    def head(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {API_KEY}", "X-Namespace": self.poor}
        answer = self._http.get("/v1/exchange/head", headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def is_missing(self, key: str) -> bool:
        answer = self.ask("missing", encode(MissingRequest(ids=NAME)), key=key)
        assert answer.status_code == 200, answer.text
        return decode(answer.content, MissingAnswer).ids == NAME


def commit(files: dict[bytes, Entry], **more: Any) -> bytes:
    edits = sorted((key, encode_entry(entry)) for key, entry in files.items())
    told = {"name": os.urandom(8).hex(), "base": EMPTY_MAP, "root": build(edits).root}
    return encode(CommitRequest(**(told | {"edits": encode_edits(edits)} | more)))


def packed(*parts: bytes) -> bytes:
    builder = PackBuilder()
    for part in parts:
        builder.add(object_id_of(part), part, kind=ObjectKind.CHUNK)
    return builder.finish().data


STOLEN = {b"mine": Blob(len(PART), 0, pack_ref(NAME, len(PART)), 0o644)}
FILE = {b"a": Inline(b"1", 0o644)}
UNPACKED = zstandard.ZstdCompressor().compress(bytes(17 << 20))

HARM: dict[str, tuple[str, bytes]] = {
    "no body": ("commit", b""),
    "noise": ("commit", os.urandom(1000)),
    "a bomb": ("commit", UNPACKED),
    "a bomb of names": ("missing", UNPACKED),
    "half a name": ("missing", encode(MissingRequest(ids=b"x" * 31))),
    "no pack": ("objects", os.urandom(1000)),
    "nothing for a pack": ("objects", b""),
    "half a pack": ("objects", packed(PART)[:-30]),
    "a path that leads out": ("commit", commit({b"../x": Inline(b"1", 0o644)})),
    "another root": ("commit", commit(FILE, root=b"x" * 32)),
    "a short root": ("commit", commit(FILE, root=b"x")),
    "a short base": ("commit", commit(FILE, base=b"x")),
    "a kind that nobody makes": ("commit", commit(FILE, kind="restore")),
    "no name": ("commit", commit(FILE, name="")),
    "a label that is too long": ("commit", commit(FILE, note={"label": "x" * 1000})),
    "a label with a NUL": ("commit", commit(FILE, note={"label": "x\0"})),
    "no time at all": ("commit", commit(FILE, note={"expires_in": "PT0S"})),
    "for ever and ever": ("commit", commit(FILE, note={"expires_in": f"PT{2**62}S"})),
    "a coverage that is none": ("commit", commit(FILE, coverage=b"{}")),
    "edits that are none": ("commit", commit(FILE, edits=b"\xc1")),
    "an unknown snapshot": ("changes", encode(ChangesRequest(new="snap-nowhere"))),
    "content of an unknown snapshot": (
        "content",
        encode(ContentRequest(snapshot="snap-nowhere", paths=[b"a"], ids=[NAME])),
    ),
    "another word": (
        "commit",
        zstandard.ZstdCompressor().compress(msgspec.msgpack.encode({"a": 1})),
    ),
}


@pytest.fixture
def quiet(server: Server) -> Iterator[World]:
    made = World(server)
    yield made
    made.close()


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM)
def test_what_means_harm_is_refused_and_changes_nothing(
    quiet: World, harm: tuple[str, bytes]
) -> None:
    answer = quiet.ask(*harm)
    assert answer.status_code in (400, 404, 413), answer.text
    assert quiet.head()["root"] == EMPTY_MAP.hex()
    assert quiet.head()["position"] is None


def test_a_body_beyond_the_limit_is_refused(quiet: World) -> None:
    assert quiet.ask("objects", bytes(9 << 20)).status_code == 413


def test_operators_keys_open_no_directory(quiet: World) -> None:
    for route in ("missing", "objects", "commit", "changes", "content"):
        assert quiet.ask(route, b"", key=ADMIN_KEY).status_code == 403


def test_a_key_for_one_namespace_learns_nothing_of_another(quiet: World) -> None:
    assert not quiet.is_missing(API_KEY)
    assert quiet.is_missing(quiet.locked)
    refused = quiet.ask("commit", commit(STOLEN), key=quiet.locked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "content_missing")
    assert quiet.ask("missing", b"", key=quiet.locked, namespace="rich").status_code == 403
    body = encode(ContentRequest(snapshot=quiet.snapshot, paths=[b"secret"], ids=[NAME]))
    assert quiet.ask("content", body, key=quiet.locked).status_code == 404
    assert quiet.ask("content", body, namespace="rich").status_code == 200


def test_another_workspace_learns_nothing(quiet: World) -> None:
    assert quiet.is_missing(quiet.stranger)
    refused = quiet.ask("commit", commit(STOLEN), key=quiet.stranger)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "content_missing")
    body = encode(ChangesRequest(new=quiet.snapshot))
    assert quiet.ask("changes", body, key=quiet.stranger, namespace="rich").status_code == 404


def test_a_key_for_one_namespace_pushes_and_pulls_its_directory(
    quiet: World, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "large").write_bytes(os.urandom(ALONG_BYTES * 4))
    (tree / "secret").write_bytes(PART)
    with (
        holdfast.Client(quiet.locked, url=quiet.server.url) as client,
        client.workspace(tree, cache=tmp_path / "cache") as workspace,
    ):
        told: list[tuple[str, int, int]] = []
        first = workspace.snapshot("mine", progress=lambda *each: told.append(each))
        assert ("sending", told[-1][2], told[-1][2]) == told[-1]
        os.rename(tree / "large", tree / "moved")
        workspace.snapshot()
        assert workspace.restore(first).verified
        assert not (tree / "moved").exists()
        workspace.undo()
    assert (tree / "moved").stat().st_size == ALONG_BYTES * 4


@pytest.mark.postgres
def test_a_directory_goes_to_and_fro_with_a_database_behind(
    tmp_path: Path, postgres_url: str, at_once: Begin
) -> None:
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    tree.mkdir()
    elsewhere.mkdir()
    (tree / "large").write_bytes(os.urandom(ALONG_BYTES * 20))
    (tree / "small").write_text("1")
    environ = {"HOLDFAST_DATABASE_URL": postgres_url}
    with (
        running_server(tmp_path / "server", environ=environ, begin=at_once) as server,
        holdfast.Client(server.api_key, namespace="a", url=server.url) as client,
        client.workspace(tree, cache=tmp_path / "cache") as workspace,
        client.workspace(elsewhere, cache=tmp_path / "cache-2") as other,
    ):
        first = workspace.snapshot("first")
        (tree / "small").write_text("2")
        workspace.snapshot("second")
        other.pull()
        assert (elsewhere / "large").read_bytes() == (tree / "large").read_bytes()
        assert workspace.restore(first).verified
        assert (tree / "small").read_text() == "1"
        with pytest.raises(holdfast.errors.HeadMoved):
            other.snapshot()
        assert other.pull() is not None
        assert (elsewhere / "small").read_text() == "1"

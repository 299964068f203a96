"""The sharp points of snapshots over HTTP: what is listed, brought back, refused, and by whom."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from trove_sdk import AsyncTroveClient, TroveClient, TroveError, TroveNotFoundError

from holdfast.testing.servers import Begin, Server, running_server

LARGEST = 2 << 20


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_MAX_SNAPSHOT_BYTES": str(LARGEST)}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


def get(wire: httpx.Client, path: str, **params: Any) -> Any:
    answer = wire.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(wire: httpx.Client, path: str, **body: Any) -> Any:
    answer = wire.post(path, json=body) if body else wire.post(path)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_a_snapshot_says_what_it_holds(trove: TroveClient, wire: httpx.Client) -> None:
    trove.write("a", "12345")
    taken = trove.create_snapshot("first")
    found = get(wire, f"/v1/snapshots/{taken.snapshot_id}")
    assert (found["label"], found["size_bytes"], found["kind"]) == ("first", 5, "snapshot")
    assert (found["number"], found["entries"], found["pinned"]) == (1, 1, False)
    assert found["created_at"] < found["expires_at"]
    assert found["actor"].startswith("key-")


def test_a_body_may_be_missing(wire: httpx.Client) -> None:
    assert wire.post("/v1/snapshots").status_code == 201
    taken = wire.post("/v1/snapshots", json={"label": None})
    assert taken.status_code == 201
    restored = wire.post(f"/v1/snapshots/{taken.json()['snapshot_id']}/restore")
    assert restored.status_code == 200


def test_a_label_has_128_characters_at_the_most(wire: httpx.Client) -> None:
    taken = post(wire, "/v1/snapshots", label="ü" * 128)
    assert taken["label"] == "ü" * 128
    for answer in (
        wire.post("/v1/snapshots", json={"label": "ü" * 129}),
        wire.patch(f"/v1/snapshots/{taken['snapshot_id']}", json={"label": "x" * 129}),
    ):
        assert answer.status_code == 422
        assert isinstance(answer.json()["detail"], str)
    assert len(get(wire, "/v1/snapshots")["snapshots"]) == 1


def test_a_label_can_be_changed_and_taken_away(wire: httpx.Client) -> None:
    place = f"/v1/snapshots/{post(wire, '/v1/snapshots', label='old')['snapshot_id']}"
    for label in ("new", None):
        assert wire.patch(place, json={"label": label}).json()["label"] == label
        assert get(wire, place)["label"] == label


def test_what_holds_more_than_a_snapshot_may_is_not_taken(
    trove: TroveClient, wire: httpx.Client
) -> None:
    trove.upload("large", os.urandom(LARGEST + 1))
    with pytest.raises(TroveError) as told:
        trove.create_snapshot()
    assert told.value.status_code == 413
    assert get(wire, "/v1/snapshots", all=True)["snapshots"] == []
    trove.upload("large", os.urandom(LARGEST))
    assert trove.create_snapshot().size_bytes == LARGEST


def test_what_counts_is_what_it_takes_compressed(trove: TroveClient) -> None:
    trove.upload("blank", bytes(LARGEST * 4))
    for number in range(8):
        trove.upload(f"words/{number}", f"the same words, {number} times\n".encode() * 50_000)
    held = LARGEST * 4 + 8 * 50_000 * len("the same words, 0 times\n")
    assert trove.create_snapshot().size_bytes == held, "before compression"
    trove.upload("noise/1", os.urandom(LARGEST * 3 // 4))
    assert trove.create_snapshot().size_bytes == held + LARGEST * 3 // 4
    trove.upload("noise/2", os.urandom(LARGEST // 2))
    with pytest.raises(TroveError, match="compressed") as told:
        trove.create_snapshot()
    assert told.value.status_code == 413


def test_a_restore_leaves_exactly_what_was_there(trove: TroveClient) -> None:
    trove.write("a/b", "old")
    trove.set_init("true")
    trove.write("emptied/x", "")
    trove.delete("emptied/x")
    before = sorted(entry.path for entry in trove.list_dir(recursive=True))
    taken = trove.create_snapshot()
    trove.delete("a")
    trove.write("a", "now a file")
    trove.clear_init()
    trove.delete("emptied")
    trove.write("new/x", "")
    assert trove.restore_snapshot(taken.snapshot_id) == 2, "an empty directory is no file"
    assert sorted(entry.path for entry in trove.list_dir(recursive=True)) == before
    assert (trove.read_text("a/b"), trove.get_init()) == ("old", "true")
    # Also where nothing has changed since: all of it is there again.
    assert trove.restore_snapshot(taken.snapshot_id) == 2, "an empty directory is no file"


def test_what_a_restore_replaced_can_be_had_again(trove: TroveClient, wire: httpx.Client) -> None:
    trove.write("a", "old")
    taken = trove.create_snapshot()
    trove.write("a", "precious")
    restored = post(wire, f"/v1/snapshots/{taken.snapshot_id}/restore")
    assert restored["snapshot"]["kind"] == "restore"
    assert (restored["verified"], restored["dry_run"]) == (True, False)
    assert restored["changed"]["files"] == 1
    trove.restore_snapshot(restored["safety_snapshot_id"])
    assert trove.read_text("a") == "precious"


def test_a_dry_run_changes_nothing(trove: TroveClient, wire: httpx.Client) -> None:
    trove.write("a", "old")
    trove.write("b", "same")
    place = f"/v1/snapshots/{trove.create_snapshot().snapshot_id}"
    trove.write("a", "new")
    told = post(wire, f"{place}/restore", dry_run=True)
    assert (told["files_restored"], told["changed"]["files"]) == (2, 1)
    assert (told["snapshot"], told["dry_run"]) == (None, True)
    assert trove.read_text("a") == "new"
    assert len(get(wire, "/v1/snapshots", all=True)["snapshots"]) == 1


@pytest.mark.parametrize("path", ["workspace/d", "d/", "d/*.txt"])
def test_a_part_can_be_brought_back(trove: TroveClient, wire: httpx.Client, path: str) -> None:
    for name in ("d/a.txt", "d/b.txt", "other"):
        trove.write(name, "old")
    place = f"/v1/snapshots/{trove.create_snapshot().snapshot_id}"
    for name in ("d/a.txt", "other"):
        trove.write(name, "new")
    assert post(wire, f"{place}/restore", paths=[path])["files_restored"] == 1
    assert (trove.read_text("d/a.txt"), trove.read_text("other")) == ("old", "new")


def test_another_plane_alone_brings_no_files_back(trove: TroveClient, wire: httpx.Client) -> None:
    trove.write("a", "old")
    place = f"/v1/snapshots/{trove.create_snapshot().snapshot_id}"
    trove.write("a", "new")
    assert post(wire, f"{place}/restore", planes=["store"])["files_restored"] == 0
    assert trove.read_text("a") == "new"
    assert post(wire, f"{place}/restore", planes=["files"])["files_restored"] == 1
    assert trove.read_text("a") == "old"


@pytest.mark.parametrize(
    "body",
    [
        {"planes": ["nothing"]},
        {"planes": []},
        {"paths": []},
        {"paths": ["../x"]},
        {"paths": ["x"], "planes": ["store"]},
        {"dry_run": "perhaps"},
        {"reason": "r" * 5000},
    ],
)
def test_a_restore_that_makes_no_sense_is_refused(
    trove: TroveClient, wire: httpx.Client, body: dict[str, Any]
) -> None:
    taken = trove.create_snapshot()
    answer = wire.post(f"/v1/snapshots/{taken.snapshot_id}/restore", json=body)
    assert answer.status_code in (400, 422), answer.text
    assert len(get(wire, "/v1/snapshots", all=True)["snapshots"]) == 1


def test_a_restore_may_expect_what_the_head_shows(trove: TroveClient, wire: httpx.Client) -> None:
    first, second = trove.create_snapshot(), trove.create_snapshot()
    place = f"/v1/snapshots/{first.snapshot_id}/restore"
    assert wire.post(place, json={"expected": first.snapshot_id}).status_code == 409
    assert wire.post(place, json={"expected": second.snapshot_id}).status_code == 200
    body = {"expected": second.snapshot_id}
    assert wire.post("/v1/snapshots", json=body).status_code == 409


def test_only_whole_ids_are_taken(trove: TroveClient, wire: httpx.Client) -> None:
    ids = [trove.create_snapshot().snapshot_id for _ in range(2)]
    for name in ("snap-", "snap", "@", "@-1", ids[0][:-1], ids[0].upper(), "latest ", "no%2Fid"):
        for method, path in (("GET", ""), ("POST", "/restore"), ("DELETE", ""), ("POST", "/pin")):
            answer = wire.request(method, f"/v1/snapshots/{name}{path}")
            assert answer.status_code == 404, (method, name, answer.text)
    assert get(wire, "/v1/snapshots/latest")["snapshot_id"] == ids[1]
    assert len(trove.list_snapshots()) == 2


def test_another_namespaces_snapshot_is_not_found(server: Server, trove: TroveClient) -> None:
    taken = trove.create_snapshot()
    with TroveClient(server.api_key, "somebody-else", base_url=server.url) as other:
        other.write("x", "")
        for use in (other.restore_snapshot, other.delete_snapshot):
            with pytest.raises(TroveNotFoundError):
                use(taken.snapshot_id)
    assert trove.list_snapshots() == [taken]


def test_what_was_not_taken_on_purpose_is_listed_only_if_asked_for(
    trove: TroveClient, wire: httpx.Client
) -> None:
    trove.write("a", "1")
    taken = trove.create_snapshot()
    trove.write("a", "2")
    trove.restore_snapshot(taken.snapshot_id)
    assert trove.list_snapshots() == [taken]
    kinds = [each["kind"] for each in get(wire, "/v1/snapshots", all=True)["snapshots"]]
    assert kinds == ["restore", "safety", "snapshot"]


def test_the_list_ends_at_200_and_goes_on_from_a_number(
    trove: TroveClient, wire: httpx.Client
) -> None:
    async def fill() -> None:
        ends = {"base_url": str(wire.base_url)}
        key = wire.headers["Authorization"].removeprefix("Bearer ")
        async with AsyncTroveClient(key, wire.headers["X-Namespace"], **ends) as client:
            await asyncio.gather(*(client.create_snapshot(str(n)) for n in range(203)))

    asyncio.run(fill())
    # In between lies what nobody took on purpose.
    newest = trove.list_snapshots()[0]
    trove.restore_snapshot(newest.snapshot_id)
    listed = get(wire, "/v1/snapshots")
    numbers = [each["number"] for each in listed["snapshots"]]
    assert numbers == sorted(numbers, reverse=True)
    assert (len(numbers), listed["has_more"]) == (200, True)
    rest = get(wire, "/v1/snapshots", before=numbers[-1], limit=2)
    assert (len(rest["snapshots"]), rest["has_more"]) == (2, True)
    rest = get(wire, "/v1/snapshots", before=numbers[-1], limit=3)
    assert (len(rest["snapshots"]), rest["has_more"]) == (3, False)


@pytest.mark.parametrize("params", [{"limit": 0}, {"before": 2**70}, {"limit": "x"}, {"all": "x"}])
def test_a_list_that_makes_no_sense_is_refused(wire: httpx.Client, params: dict[str, Any]) -> None:
    assert wire.get("/v1/snapshots", params=params).status_code == 422


def test_a_pin_takes_the_end_away(wire: httpx.Client) -> None:
    place = f"/v1/snapshots/{post(wire, '/v1/snapshots')['snapshot_id']}"
    pinned = post(wire, f"{place}/pin")
    assert (pinned["pinned"], pinned["expires_at"]) == (True, None)
    unpinned = wire.delete(f"{place}/pin").json()
    assert (unpinned["pinned"], unpinned["expires_at"] is None) == (False, False)


def test_a_deleted_snapshot_is_gone_for_who_deleted_it(
    trove: TroveClient, wire: httpx.Client
) -> None:
    trove.write("a", "")
    taken = trove.create_snapshot()
    trove.delete_snapshot(taken.snapshot_id)
    for method, path in (("GET", ""), ("POST", "/restore"), ("DELETE", ""), ("POST", "/pin")):
        answer = wire.request(method, f"/v1/snapshots/{taken.snapshot_id}{path}")
        assert answer.status_code == 404
    assert get(wire, "/v1/snapshots", all=True)["snapshots"] == []


def test_snapshots_at_once_are_all_taken_and_restores_at_once_leave_one_state(
    server: Server, namespace: str, trove: TroveClient
) -> None:
    trove.write("a", "0")
    taken = [trove.create_snapshot()]
    trove.write("a", "1")
    taken.append(trove.create_snapshot())

    async def race() -> None:
        async with AsyncTroveClient(server.api_key, namespace, base_url=server.url) as client:
            await asyncio.gather(
                *(client.restore_snapshot(taken[n % 2].snapshot_id) for n in range(8)),
                *(client.create_snapshot(f"s{n}") for n in range(8)),
                *(client.bootstrap() for _ in range(4)),
            )

    asyncio.run(race())
    labels = [each.label for each in trove.list_snapshots()]
    assert sorted(label for label in labels if label) == sorted(f"s{n}" for n in range(8))
    assert trove.read_text("a") in ("0", "1")

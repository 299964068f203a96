"""A client believes its server no more than a server believes its clients."""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

import holdfast
from holdfast import errors
from holdfast.engine.core.coverage import Lacking
from holdfast.engine.core.limits import Limits
from holdfast.engine.exchange.adopting import adopt
from holdfast.engine.exchange.coverage import lacking_of
from holdfast.engine.exchange.door import Exchange
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.entries import REF_BYTES, Blob, Inline, Link, encode_entry, pack_ref
from holdfast.ids import ObjectId, object_id_of
from holdfast.mirror.following import Push
from holdfast.mirror.memo import Memo, MemoFile
from holdfast.mirror.pulling import Pull, Server
from holdfast.model.basics import EMPTY_MAP, Plane
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.progress import no_progress
from holdfast.wire.exchange import ChangesBetween, CommitRequest
from holdfast.wiring import open_vault

LARGE = os.urandom(3_000_000)


class Near:
    """A server in this process, that can be made to lie."""

    def __init__(self, namespace: holdfast.Namespace) -> None:
        self._exchange = Exchange.of(namespace, is_shared=True)
        self.asked = 0

    def changes(self, old: str | None, new: str, *, after: bytes = b"") -> ChangesBetween:
        told = self._exchange.changes(old, new, after=after)
        return ChangesBetween(root=told.root, edits=list(told.edits), has_more=told.has_more)

    def content(self, snapshot: str, wants: dict[bytes, list[bytes]]) -> bytes:
        self.asked += 1
        ids = [(key, [ObjectId(name) for name in names]) for key, names in wants.items()]
        return self._exchange.content(snapshot, ids)


@pytest.fixture
def far(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with open_vault(tmp_path / "far") as vault:
        yield vault


@pytest.fixture
def here(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with open_vault(tmp_path / "here") as vault:
        yield vault


def handle_of(namespace: holdfast.Namespace) -> Handle:
    return cast("Handle", namespace._handle)


def pull(near: Any, here: holdfast.Holdfast, snapshot_id: str, known: Memo = Memo()) -> Memo:  # noqa: B008 - frozen
    """Makes a namespace here what a snapshot over there shows."""
    handle = handle_of(here.namespace("agent"))
    handle.ensure()
    pulled = Pull(cast("Server", near), handle, no_progress).pull(known, snapshot_id)
    adopt(handle, pulled.edits, base=pulled.base, root=pulled.root, note=Note(), lacking=Lacking())
    return Memo(root=pulled.root)


def test_a_snapshot_arrives_with_all_its_content(
    far: holdfast.Holdfast, here: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.exchange.door.SENT_BYTES", 500_000)
    monkeypatch.setattr("holdfast.engine.exchange.door.MAX_TOLD", 2)
    agent = far.namespace("agent")
    agent.files.write("large", LARGE)
    for number in range(10):
        agent.files.write(f"{number}", f"{number}" * 1000)
    taken, near = agent.snapshot(), Near(agent)
    pull(near, here, taken.id)
    assert here.namespace("agent").files.read("large") == LARGE
    assert len(here.namespace("agent").files.list()) == 11
    assert near.asked > len(LARGE) // 500_000
    assert here.verify().faults == []


def test_large_files_with_the_same_content_arrive_and_are_sent_once(
    far: holdfast.Holdfast, here: holdfast.Holdfast
) -> None:
    agent, half = far.namespace("agent"), os.urandom(1_500_000)
    for name in ("copy", "deep/another", "large"):
        agent.files.write(name, LARGE)
    agent.files.write("longer", LARGE + half)
    near, got = Near(agent), list[int]()
    content = near.content

    def counting(snapshot: str, wants: dict[bytes, list[bytes]]) -> bytes:
        pack = content(snapshot, wants)
        got.append(len(pack))
        return pack

    near.content = counting  # type: ignore[method-assign]
    pull(near, here, agent.snapshot().id)
    files = here.namespace("agent").files
    assert files.read("copy") == files.read("deep/another") == files.read("large") == LARGE
    assert files.read("longer") == LARGE + half
    assert sum(got) < 1.1 * len(LARGE + half)
    assert here.verify().faults == []


def test_what_arrived_is_not_asked_for_again(
    far: holdfast.Holdfast, here: holdfast.Holdfast
) -> None:
    agent = far.namespace("agent")
    agent.files.write("large", LARGE)
    taken, near = agent.snapshot(), Near(agent)
    content, asked = near.content, list[int]()

    def dying(snapshot: str, wants: dict[bytes, list[bytes]]) -> bytes:
        asked.append(sum(map(len, wants.values())))
        if len(asked) == 2:
            raise errors.Unreachable("the connection broke")
        return content(snapshot, wants)

    near.content = dying  # type: ignore[method-assign]
    with pytest.raises(errors.Unreachable):
        pull(near, here, taken.id)
    assert here.namespace("agent").timeline() == []
    here.collect()
    del asked[:]
    near.content = content  # type: ignore[method-assign]
    pull(near, here, taken.id)
    assert here.namespace("agent").files.read("large") == LARGE


def packed(*parts: bytes) -> bytes:
    builder = PackBuilder()
    for part in parts:
        builder.add(object_id_of(part), part, kind=ObjectKind.CHUNK)
    return builder.finish().data


def telling(**fields: Any) -> Callable[..., ChangesBetween]:
    told = {"root": b"x" * 32, "edits": [], "has_more": False} | fields
    return lambda *_, **__: ChangesBetween(**told)


def edit(key: bytes, entry: Any) -> list[tuple[bytes, bytes | None]]:
    return [(key, encode_entry(entry))]


LIES: dict[str, dict[str, Any]] = {
    "another root": {"changes": telling()},
    "a root that is none": {"changes": telling(root=b"x")},
    "more without an end": {"changes": telling(has_more=True)},
    "the same without an end": {
        "changes": telling(edits=edit(b"x", Inline(b"1", 0o644)), has_more=True)
    },
    "a path that leads out": {"changes": telling(edits=edit(b"../x", Inline(b"1", 0o644)))},
    "an absolute path": {"changes": telling(edits=edit(b"/etc/x", Inline(b"1", 0o644)))},
    "set-user-id": {"changes": telling(edits=edit(b"x", Inline(b"1", 0o4755)))},
    "something below a link": {
        "changes": telling(
            edits=[*edit(b"a", Link(b"/etc")), *edit(b"a/passwd", Inline(b"1", 0o644))]
        )
    },
    "other content": {"content": lambda *_: packed(b"something else entirely")},
    "no content": {"content": lambda *_: packed()},
    "noise for content": {"content": lambda *_: os.urandom(100)},
    "half a pack": {"content": lambda *_: packed(LARGE[:1000])[:-1]},
}


@pytest.mark.parametrize("lies", LIES.values(), ids=LIES)
def test_a_server_that_lies_is_found_out_and_nothing_has_changed(
    far: holdfast.Holdfast, here: holdfast.Holdfast, lies: dict[str, Any]
) -> None:
    far.namespace("agent").files.write("large", LARGE)
    taken, near = far.namespace("agent").snapshot(), Near(far.namespace("agent"))
    for name, lie in lies.items():
        setattr(near, name, lie)
    with pytest.raises((errors.Invalid, errors.Unavailable)):
        pull(near, here, taken.id)
    assert here.namespace("agent").files.list() == []
    assert here.namespace("agent").timeline() == []


@pytest.mark.parametrize(
    "detail",
    [
        {"failed": "a"},
        {"failed": [["a"]]},
        {"failed": [["a", "gone", "zz"]]},
        {"in_motion": [["a\0", "moving"]]},
        {"coverage": {"failed": [[1, 2]]}},
        {"coverage": 7},
        {"partial": "yes"},
        {"failed": [["a", "gone"]] * 10_001},
    ],
)
def test_what_a_server_says_of_what_a_snapshot_lacks_is_checked(
    far: holdfast.Holdfast, detail: dict[str, Any]
) -> None:
    taken = far.namespace("agent").snapshot()
    with pytest.raises(errors.Unavailable):
        lacking_of(structs.replace(taken, detail=detail))


def test_changes_without_an_end_are_not_waited_for(here: holdfast.Holdfast) -> None:
    class Endless:
        told = 0

        def changes(self, *_: object, **__: object) -> ChangesBetween:
            self.told += 1
            found = edit(f"{self.told:09}".encode(), Inline(b"1", 0o644))
            return ChangesBetween(root=b"x" * 32, edits=found, has_more=True)

    handle, near = handle_of(here.namespace("agent")), Endless()
    few = replace(handle.context, limits=Limits(workspace_files=10))
    with pytest.raises(errors.Unavailable):
        Pull(cast("Server", near), replace(handle, context=few), no_progress).pull(Memo(), "snap-1")
    assert near.told == 21


def test_lists_that_lead_everywhere_are_not_followed(here: holdfast.Holdfast) -> None:
    size = 7_000 * REF_BYTES
    leaf = os.urandom(size)
    inner = pack_ref(object_id_of(leaf), size) * 7_000
    outer = pack_ref(object_id_of(inner), size) * 7_000
    blob = Blob(1 << 30, 3, pack_ref(object_id_of(outer), size), 0o644)

    class Lying:
        changes = staticmethod(telling(edits=edit(b"x", blob)))

        def content(self, *_: object) -> bytes:
            return packed(outer, inner, leaf)

    with pytest.raises(errors.Unavailable):
        pull(Lying(), here, "snap-1")


def test_a_server_is_sent_only_what_was_offered(here: holdfast.Holdfast) -> None:
    class Curious:
        def missing(self, _: bytes) -> bytes:
            return object_id_of(b"a file that is none of its business")

    agent = here.namespace("agent")
    agent.files.write("large", LARGE)
    files = handle_of(agent).objects.get_root(agent.snapshot().root).plane(Plane.FILES)
    source = StagedObjects(handle_of(agent).objects)
    told = CommitRequest(name="", base=b"", root=b"")
    with pytest.raises(errors.Unavailable):
        Push(cast("Server", Curious()), source, no_progress).push(EMPTY_MAP, files, told)


def test_a_memo_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    memo = MemoFile(tmp_path)
    assert memo.load() == Memo()
    memo.note(Memo(root=b"r" * 32, pushing=(b"p" * 32,), is_following=True))
    assert MemoFile(tmp_path).load() == Memo(
        root=b"r" * 32, pushing=(b"p" * 32,), is_following=True
    )
    (tmp_path / "remote.json").write_text("{")
    assert MemoFile(tmp_path).load().root == EMPTY_MAP


def test_a_note_is_on_the_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = list[tuple[bool, bool]](), os.fsync

    def watching(fd: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        synced.append((is_folder, (tmp_path / "remote.json").exists()))
        sync(fd)

    monkeypatch.setattr(os, "fsync", watching)
    MemoFile(tmp_path).note(Memo(is_following=True))
    assert synced == [(False, False), (True, True)]
    MemoFile(tmp_path).note(Memo(), durably=False)
    assert len(synced) == 2

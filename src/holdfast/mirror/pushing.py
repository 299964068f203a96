"""Sends a server what it lacks of a directory, and lets it make a snapshot.

What changed since both sides were last the same becomes a list of edits. Chunks that these need
and that were not there before are offered by name; the server says which it lacks, and gets those
as packs. Each pack that was answered for is durable over there: whoever is interrupted asks anew,
and goes on where it stopped. Few chunks are not asked about, they go along with the commit.
"""

import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import msgspec

from holdfast.engine.exchange.edits import encode_edits
from holdfast.engine.objects import content
from holdfast.engine.objects.content import FILES, list_refs
from holdfast.engine.objects.stage import StagedObjects
from holdfast.entries import Blob, decode_entry
from holdfast.errors import ContentMissing, Unavailable
from holdfast.ids import OBJECT_ID_BYTES, ObjectId, object_id_of
from holdfast.mirror.server import Server
from holdfast.model.changes import Committed
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.progress import Progress
from holdfast.tree import Edit, diff
from holdfast.wire.exchange import CommitRequest, ListedEdits, ReceivedAnswer

ALONG_BYTES: Final = 256 << 10
"""Chunks up to here go along with the commit: asking about them would take longer."""

PACK_BYTES: Final = 4 << 20
"""Content of one pack: what a broken connection costs at the most."""

SENDERS: Final = 2
"""Packs on their way: while the server stores one, the next is made and sent."""

ASKED: Final = 50_000
"""Objects that are asked about together."""

TOLD_BYTES: Final = 1 << 20
"""Edits beyond that are sent as content, before the commit: it stays small, and can be repeated."""

_ATTEMPTS: Final = 3


class Push:
    """One state of a directory on its way to the server."""

    def __init__(self, server: Server, source: StagedObjects, progress: Progress) -> None:
        self._server, self._source, self._progress = server, source, progress
        self._made: dict[ObjectId, bytes] = {}

    def push(self, base: ObjectId, root: ObjectId, told: CommitRequest) -> Committed:
        """Sends what leads from one files map to another; raises `HeadMoved` if it is not there."""
        edits = list(diff(self._source, base, root))
        offered = _offered(self._source, edits)
        data = encode_edits((edit.key, edit.new) for edit in edits)
        told = msgspec.structs.replace(told, name=uuid.uuid4().hex, base=base, root=root)
        if len(data) > TOLD_BYTES:
            told = msgspec.structs.replace(told, listed=self._listed(data))
            offered |= {object_id: len(part) for object_id, part in self._made.items()}
        else:
            told = msgspec.structs.replace(told, edits=data)
        if told.listed is None and sum(offered.values()) <= ALONG_BYTES:
            along = msgspec.structs.replace(told, pack=self._pack(list(offered)))
            return self._server.commit(along)
        return self._commit(told, offered)

    def _commit(self, told: CommitRequest, offered: dict[ObjectId, int]) -> Committed:
        for attempt in range(_ATTEMPTS):
            self._send_missing(offered)
            try:
                return self._server.commit(told)
            except ContentMissing:
                # Collected since it was asked about: it is told so this time.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _listed(self, data: bytes) -> ListedEdits:
        """Makes content of many edits, to be sent like any other."""
        _, blob = content.store(_Collecting(self._made), data, FILES)
        if blob is None:
            raise AssertionError("so much is never kept in an entry")
        return ListedEdits(size=blob.size, depth=blob.depth, refs=blob.refs)

    def _send_missing(self, offered: dict[ObjectId, int]) -> None:
        missing: list[ObjectId] = []
        names = list(offered)
        for at in range(0, len(names), ASKED):
            missing += _split(self._server.missing(b"".join(names[at : at + ASKED])))
        if not offered.keys() >= {*missing}:
            raise Unavailable("the server asks for what was not offered to it")
        total = sum(offered[object_id] for object_id in missing)
        done, under_way = 0, deque[tuple[Future[ReceivedAnswer], int]]()
        with ThreadPoolExecutor(SENDERS, thread_name_prefix="holdfast-push") as pool:
            for group in [*_groups(missing, offered), None]:
                if group is not None:
                    size = sum(offered[object_id] for object_id in group)
                    under_way.append((pool.submit(self._server.send, self._pack(group)), size))
                while under_way and (group is None or len(under_way) > SENDERS):
                    sent, size = under_way.popleft()
                    sent.result()
                    done += size
                    self._progress("sending", done, total)

    def _pack(self, object_ids: Sequence[ObjectId]) -> bytes:
        if not object_ids:
            return b""
        builder = PackBuilder()
        stored = [object_id for object_id in object_ids if object_id not in self._made]
        found = self._source.get_many(stored) | self._made
        for object_id in object_ids:
            builder.add(object_id, found[object_id], kind=ObjectKind.CHUNK)
        return builder.finish().data


class _Collecting:
    """A sink that keeps what it is given."""

    def __init__(self, objects: dict[ObjectId, bytes]) -> None:
        self._objects = objects

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:  # noqa: ARG002 - the sink's form
        """Takes an object in, and returns its name."""
        object_id = object_id_of(data)
        self._objects[object_id] = data
        return object_id

    def spill(self) -> None:
        """Has no other room."""


def _offered(source: StagedObjects, edits: Sequence[Edit]) -> dict[ObjectId, int]:
    """Returns the objects that edits need and what they replace did not, with their sizes."""
    before = {object_id for edit in edits for object_id, _ in _objects(source, edit.old)}
    return {
        object_id: size
        for edit in edits
        for object_id, size in _objects(source, edit.new)
        if object_id not in before
    }


def _objects(source: StagedObjects, data: bytes | None) -> Iterator[tuple[ObjectId, int]]:
    entry = None if data is None else decode_entry(data)
    if isinstance(entry, Blob):
        if not entry.depth:
            yield from content.content_refs(source, entry)
            return
        # Of lists, the size does not matter much: they are a thousandth of what they list.
        sizes = dict(content.content_refs(source, entry))
        for object_id in list_refs(source, entry):
            yield object_id, sizes.get(object_id, content.VALUES.mean_bytes)


def _groups(object_ids: Sequence[ObjectId], sizes: dict[ObjectId, int]) -> Iterator[list[ObjectId]]:
    group, size = list[ObjectId](), 0
    for object_id in object_ids:
        group.append(object_id)
        size += sizes[object_id]
        if size >= PACK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _split(names: bytes) -> list[ObjectId]:
    starts = range(0, len(names), OBJECT_ID_BYTES)
    return [ObjectId(names[at : at + OBJECT_ID_BYTES]) for at in starts]

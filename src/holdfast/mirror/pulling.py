"""Fetches what a server's snapshot holds and this machine does not.

First the edits that lead there from what both sides had last, then the chunks that these need and
that are not here, by the paths that need them. What arrived is durable here at once: whoever is
interrupted asks for less the next time. The server is believed no more than a client is by it:
every entry is checked, every chunk hashed, and the map that is built has to have the root it named.

A connection that breaks in the middle, or a server that is away for a moment, is the client's own
business: every question of an exchange can be repeated.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from holdfast.engine.exchange.edits import MAX_DEPTH, check_edits
from holdfast.engine.exchange.reach import longest_list
from holdfast.engine.exchange.receiving import receive
from holdfast.engine.objects.content import content_refs
from holdfast.engine.planes.handle import Handle
from holdfast.entries import Blob, decode_entry, pack_ref, unpack_refs
from holdfast.errors import NotFound, Unavailable
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.mirror.memo import Memo
from holdfast.model.basics import EMPTY_MAP
from holdfast.progress import Progress
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Sync
from holdfast.sdk.groups.exchange import Exchange

WANTED: Final = 5_000
WANTED_BYTES: Final = 4 << 20
"""Chunks that are asked for together: what is exceeded first ends a question."""


class Server(Exchange[Sync]):
    """One namespace of a server, as a directory sees it, and what it is asked."""

    def __init__(self, agent: Agent[Sync]) -> None:
        super().__init__(agent.sender)
        self.agent = agent


@dataclass(frozen=True, slots=True)
class Pulled:
    """What leads to a server's snapshot; all content that it needs is here."""

    base: ObjectId
    root: ObjectId
    edits: Mapping[bytes, bytes | None]


class Pull:
    """One snapshot of the server's on its way here."""

    def __init__(self, server: Server, handle: Handle, progress: Progress) -> None:
        self._server, self._handle, self._progress = server, handle, progress

    def pull(self, known: Memo, snapshot_id: str) -> Pulled:
        """Returns what leads from what both sides had last to a snapshot, and fetches content."""
        pulled: Pulled | None = None
        if known.snapshot is not None:
            # It may be past its time over there: then all of the other is asked for.
            with suppress(NotFound):
                pulled = self._told(known.files, known.snapshot.id, snapshot_id)
        pulled = pulled or self._told(EMPTY_MAP, None, snapshot_id)
        self._fetch(snapshot_id, pulled.edits)
        return pulled

    def _told(self, base: ObjectId, old: str | None, new: str) -> Pulled:
        edits: list[tuple[bytes, bytes | None]] = []
        while True:
            told = self._server.changes(old, new, after=edits[-1][0] if edits else b"")
            if edits and told.edits and told.edits[0][0] <= edits[-1][0]:
                raise Unavailable("the server tells the same changes again")
            edits += told.edits
            if not told.has_more:
                break
            if not told.edits:
                raise Unavailable("the server says that there is more, and does not tell it")
            if len(edits) > 2 * self._handle.context.limits.workspace_files:
                raise Unavailable("the server tells of more changes than a directory can have")
        root = ObjectId(told.root)
        if len(root) != OBJECT_ID_BYTES:
            raise Unavailable("the server names a root that is none")
        return Pulled(base, root, check_edits(edits, self._handle.context.limits))

    def _fetch(self, snapshot_id: str, edits: Mapping[bytes, bytes | None]) -> None:
        """Fetches what the edits need and is not here: lists of chunks first, then the chunks."""
        blobs: dict[bytes, Blob] = {}
        for key, data in edits.items():
            entry = None if data is None else decode_entry(data)
            if isinstance(entry, Blob):
                blobs[key] = entry
        for _ in range(MAX_DEPTH + 2):
            wants = self._lacking(blobs)
            if not wants:
                return
            self._ask(snapshot_id, wants)
        raise Unavailable("the server does not give what its snapshot needs")

    def _lacking(self, blobs: Mapping[bytes, Blob]) -> dict[bytes, dict[ObjectId, int]]:
        """Returns by path the objects that are not here, as far as lists of them are."""
        refs = {key: dict(unpack_refs(blob.refs)) for key, blob in blobs.items()}
        wants = self._absent(refs)
        asked = {name for each in wants.values() for name in each}
        for key, blob in blobs.items():
            if not asked.isdisjoint(refs[key]):
                continue
            below = blob.refs
            for _ in range(blob.depth):
                # Lists of the level above are here by now: they say what the next one is.
                if sum(size for _, size in unpack_refs(below)) > longest_list(blob.size):
                    raise Unavailable("the server's list of chunks is longer than its file")
                upper = content_refs(self._handle.objects, Blob(blob.size, 1, below))
                found = self._absent({key: dict(upper)})
                if found:
                    # Files with the same content need the same: one of them asks for it.
                    fresh = {name: size for name, size in found[key].items() if name not in asked}
                    wants |= {key: fresh} if fresh else {}
                    asked |= fresh.keys()
                    break
                below = b"".join(pack_ref(*ref) for ref in upper)
        return wants

    def _absent(
        self, refs: Mapping[bytes, dict[ObjectId, int]]
    ) -> dict[bytes, dict[ObjectId, int]]:
        asked = list({object_id for each in refs.values() for object_id in each})
        with self._handle.context.catalog.read() as transaction:
            here = transaction.existing(self._handle.tenant_id, asked)
        found: dict[bytes, dict[ObjectId, int]] = {}
        for key, each in refs.items():
            absent = {name: size for name, size in each.items() if name not in here}
            if absent:
                found[key] = absent
                # One path is enough to ask for it.
                here |= absent.keys()
        return found

    def _ask(self, snapshot_id: str, wants: dict[bytes, dict[ObjectId, int]]) -> None:
        total = sum(size for each in wants.values() for size in each.values())
        done = 0
        while wants:
            batch = _first(wants)
            pack = self._server.content(snapshot_id, {k: list(v) for k, v in batch.items()})
            got = set(receive(self._handle, pack))
            arrived = 0
            for key in batch:
                came = wants[key].keys() & got
                arrived += len(came)
                done += sum(wants[key].pop(name) for name in came)
                if not wants[key]:
                    del wants[key]
            if not arrived:
                raise Unavailable("the server does not give what its snapshot needs")
            self._progress("receiving", done, total)


def _first(wants: Mapping[bytes, dict[ObjectId, int]]) -> dict[bytes, dict[ObjectId, int]]:
    """Returns as many as are asked for together."""
    batch: dict[bytes, dict[ObjectId, int]] = {}
    count = size = 0
    for key, each in wants.items():
        for name, length in each.items():
            if count == WANTED or size >= WANTED_BYTES:
                return batch
            batch.setdefault(key, {})[name] = length
            count, size = count + 1, size + length
    return batch

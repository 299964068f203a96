"""Directories of other machines: what they hold comes in, and goes out, as entries and chunks.

Bodies are bytes, described in `docs/reference/remote-directories.md`. A key that is for one
namespace learns of no object of another, and reaches none.
"""

from typing import Final

from holdfast.engine.exchange.adopting import Commit
from holdfast.engine.exchange.coverage import checked_detail
from holdfast.engine.exchange.door import Exchange
from holdfast.engine.exchange.receiving import split_ids
from holdfast.engine.namespace import Namespace
from holdfast.entries import Blob
from holdfast.errors import InvalidValue
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.model.basics import Kind
from holdfast.model.changes import Committed
from holdfast.server.doors import written
from holdfast.server.requests import Caller
from holdfast.server.responses import Response
from holdfast.server.routing import Options, Route, get, post
from holdfast.server.threads import Work
from holdfast.wire.exchange import (
    MEDIA_TYPE,
    ChangesBetween,
    ChangesRequest,
    CommitRequest,
    ContentRequest,
    MissingAnswer,
    MissingRequest,
    ReceivedAnswer,
    StandingAnswer,
    decode,
    encode,
)

_KINDS: Final = {"snapshot": Kind.SNAPSHOT, "safety": Kind.SAFETY}
"""What a client may make of its directory."""

_BYTES_FOR_BYTES: Final[Options] = {
    "body": MEDIA_TYPE,
    "media_type": MEDIA_TYPE,
    "work": Work.HEAVY,
}


@get("/v1/exchange/head")
def show(caller: Caller, agent: Namespace) -> StandingAnswer:
    """Returns where the namespace stands: its snapshot, and the root of its files."""
    found = _exchange(caller, agent).standing()
    return StandingAnswer(
        namespace=agent.name,
        position=found.position,
        root=found.root.hex(),
        dirty=found.is_dirty,
    )


@post("/v1/exchange/missing", **_BYTES_FOR_BYTES)
def missing(caller: Caller, agent: Namespace, body: bytes) -> Response:
    """Returns which objects would have to be sent."""
    asked = decode(body, MissingRequest)
    return _sent(encode(MissingAnswer(ids=_exchange(caller, agent).missing(asked.ids))))


@post("/v1/exchange/objects", body=MEDIA_TYPE, work=Work.HEAVY)
def receive(caller: Caller, agent: Namespace, body: bytes) -> ReceivedAnswer:
    """Stores the objects of a pack, ahead of the commit that needs them."""
    return ReceivedAnswer(objects=_exchange(caller, agent).receive(body))


@post("/v1/exchange/commit", status=201, body=MEDIA_TYPE, work=Work.HEAVY, answer=Committed)
def commit(caller: Caller, agent: Namespace, body: bytes) -> object:
    """Makes a snapshot of a directory: its files are the namespace's from now on."""
    done = _exchange(caller, agent).commit(_commit_of(decode(body, CommitRequest)))
    return written(agent, done)


@post("/v1/exchange/changes", **_BYTES_FOR_BYTES)
def changes(caller: Caller, agent: Namespace, body: bytes) -> Response:
    """Returns what leads from the files of one snapshot to those of another."""
    asked = decode(body, ChangesRequest)
    told = _exchange(caller, agent).changes(asked.old, asked.new, after=asked.after)
    answer = ChangesBetween(root=told.root, edits=list(told.edits), has_more=told.has_more)
    return _sent(encode(answer))


@post("/v1/exchange/content", **_BYTES_FOR_BYTES)
def content(caller: Caller, agent: Namespace, body: bytes) -> Response:
    """Returns a pack of objects that files of a snapshot need."""
    asked = decode(body, ContentRequest)
    wants = zip(asked.paths, map(split_ids, asked.ids), strict=False)
    return _sent(_exchange(caller, agent).content(asked.snapshot, list(wants)))


def _exchange(caller: Caller, agent: Namespace) -> Exchange:
    return Exchange.of(agent, is_shared=caller.key.namespace is None)


def _commit_of(told: CommitRequest) -> Commit:
    if told.kind not in _KINDS:
        raise InvalidValue("kind is 'snapshot' or 'safety'")
    if not 0 < len(told.name) <= 64:  # noqa: PLR2004 - said in the message
        raise InvalidValue("a commit's name has 1 to 64 characters")
    if told.seen is not None and len(told.seen) > 64:  # noqa: PLR2004 - said in the message
        raise InvalidValue("the id of a snapshot has 64 characters at the most")
    listed = told.listed
    return Commit(
        name=told.name,
        base=_root(told.base),
        root=_root(told.root),
        edits=told.edits,
        listed=None if listed is None else Blob(listed.size, listed.depth, listed.refs),
        pack=told.pack,
        seen=told.seen,
        overwrite=told.overwrite,
        aside=told.aside,
        keeps_redo=told.keeps_redo,
        kind=_KINDS[told.kind],
        note=told.note,
        detail=checked_detail(told.coverage),
    )


def _root(data: bytes) -> ObjectId:
    if len(data) != OBJECT_ID_BYTES:
        message = f"a root has {OBJECT_ID_BYTES} bytes"
        raise InvalidValue(message)
    return ObjectId(data)


def _sent(data: bytes) -> Response:
    return Response(data, media_type=MEDIA_TYPE)


ROUTES: Final[list[Route]] = [show, missing, receive, commit, changes, content]

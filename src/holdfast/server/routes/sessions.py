"""Sessions: made, found, forked, deleted."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.byturn import version_after
from holdfast.errors import SessionNotFound
from holdfast.model.sessions import Lineage, SessionInfo
from holdfast.server.moments import At, seen
from holdfast.server.paging import page_size, paged
from holdfast.server.parameters import Query
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.routes.state import REASON_HEADER
from holdfast.server.routing import Route, delete, get, patch, post
from holdfast.server.times import parse_instant, shown, shown_or_none
from holdfast.wire.sessions import (
    DiffAnswer,
    ForkRequest,
    LineageAnswer,
    SessionAnswer,
    SessionList,
    SessionPatch,
    SessionRequest,
)

LISTED, MOST_LISTED = 20, 100
MAX_TTL_S: Final = 2_592_000


@post("/v1/sessions", status=201)
def create(request: Request, agent: Namespace, data: SessionRequest) -> SessionAnswer:
    """Makes a session, with version 0 of its state."""
    made = agent.sessions.create(
        data.agent_id,
        user_id=data.user_id,
        metadata=data.metadata,
        initial_state=data.initial_state,
        ttl_seconds=_term(data, request.services.config.session_ttl_seconds),
        session_id=data.session_id,
    )
    return to_answer(agent, made)


@get("/v1/sessions")
def list_(
    agent: Namespace,
    agent_id: str | None = None,
    user_id: str | None = None,
    metadata: str | None = None,
    created_after: str | None = None,
    created_before: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
    at: At = None,
) -> SessionList:
    """Lists sessions, newest first; `starting_after` is the id of the last one seen."""
    created: dict[str, datetime] = {
        name: parse_instant(name, text)
        for name, text in (("created_after", created_after), ("created_before", created_before))
        if text is not None
    }
    if at is not None and created:
        raise Unfit("at a snapshot, sessions are not found by when they were made", param="at")
    wanted = None if metadata is None else _object("metadata", metadata)
    sessions = seen(agent, at).sessions

    def fetch(most: int) -> list[SessionInfo]:
        return sessions.list(
            agent_id=agent_id,
            user_id=user_id,
            metadata=wanted,
            starting_after=starting_after or None,
            limit=most,
            **created,
        )

    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    found, has_more = paged(fetch, size, cursor=starting_after, unknown=SessionNotFound)
    return SessionList(
        data=[to_answer(agent, each) for each in found],
        has_more=has_more,
        first_id=found[0].id if found else None,
        last_id=found[-1].id if found else None,
    )


@get("/v1/sessions/{session_id}")
def show(agent: Namespace, session_id: str, at: At = None) -> SessionAnswer:
    """Returns a session with its state."""
    return to_answer(agent, seen(agent, at).sessions.get(session_id))


@patch("/v1/sessions/{session_id}")
def update(agent: Namespace, session_id: str, data: SessionPatch) -> SessionAnswer:
    """Merges metadata, or starts a new term; the state stays as it is."""
    ttl = None if data.ttl_seconds is None else checked_ttl(data.ttl_seconds)
    changed = agent.sessions.update(session_id, metadata=data.metadata, ttl_seconds=ttl)
    return to_answer(agent, changed)


@delete("/v1/sessions/{session_id}", status=204)
def remove(request: Request, agent: Namespace, session_id: str, reason: str | None = None) -> None:
    """Takes a session away; a restore of a snapshot that holds it brings it back."""
    agent.sessions.delete(session_id, reason=reason or request.header(REASON_HEADER))


@post("/v1/sessions/{session_id}/fork", status=201)
def fork(agent: Namespace, session_id: str, data: ForkRequest | None = None) -> SessionAnswer:
    """Makes a session that goes on from a version of this one."""
    wanted, version = data or ForkRequest(), None if data is None else data.version
    if wanted.at_turn_id is not None:
        if version is not None:
            raise Unfit("send either version or at_turn_id", param="at_turn_id")
        version = version_after(agent.sessions, session_id, wanted.at_turn_id)
    made = agent.sessions.fork(
        session_id,
        version,
        agent_id=wanted.new_agent_id or wanted.agent_id,
        include_turns=bool(wanted.include_turns),
        metadata=wanted.metadata,
        ttl_seconds=None if wanted.ttl_seconds is None else checked_ttl(wanted.ttl_seconds),
    )
    return to_answer(agent, made)


@get("/v1/sessions/{session_id}/lineage")
def lineage(agent: Namespace, session_id: str) -> LineageAnswer:
    """Returns where a session comes from, and what was forked from it."""
    return _lineage(agent.sessions.lineage(session_id))


@get("/v1/sessions/{session_id}/diff")
def diff(
    agent: Namespace,
    session_id: str,
    old: Annotated[int, Query("from")],
    new: Annotated[int | None, Query("to")] = None,
) -> DiffAnswer:
    """Returns what leads from one version of the state to another; without `to`, the newest."""
    # Numbers that count back mean others as soon as somebody writes: what they mean now, counts.
    first, last = (agent.sessions.get_state(session_id, version=v).version for v in (old, new))
    found = agent.sessions.diff(session_id, first, last)
    return DiffAnswer(
        session_id=session_id,
        from_version=first,
        to_version=last,
        patch=found.patch,
        text=found.text,
    )


def to_answer(agent: Namespace, session: SessionInfo) -> SessionAnswer:
    """Returns a session as it stands on the wire."""
    return SessionAnswer(
        id=session.id,
        agent_id=session.agent_id,
        user_id=session.user_id,
        created_at=shown(session.created_at),
        updated_at=shown(session.updated_at),
        metadata=_metadata(session),
        state=session.state,
        memory_count=session.memory_count,
        turn_count=session.turn_count,
        ttl_expires_at=shown_or_none(session.expires_at),
        version=session.version,
        namespace=agent.name,
        new_session_id=session.id,
        forked_from=session.forked_from,
        forked_version=session.forked_version,
    )


def _term(data: SessionRequest, usual: int | None) -> int | None:
    """Returns how long a new session lives: as it says, for ever, or as long as is usual."""
    if data.never_expires:
        if data.ttl_seconds is not None:
            raise Unfit("send either ttl_seconds or never_expires", param="never_expires")
        return None
    return usual if data.ttl_seconds is None else checked_ttl(data.ttl_seconds)


def checked_ttl(seconds: int) -> int:
    """Returns how long something lives; raises `Unfit` for no time, or too much."""
    if not 0 < seconds <= MAX_TTL_S:
        message = f"ttl_seconds is more than 0 and at most {MAX_TTL_S}"
        raise Unfit(message, param="ttl_seconds")
    return seconds


def _metadata(session: SessionInfo) -> dict[str, Any]:
    if session.forked_from is None:
        return session.metadata
    origin = {"forked_from": session.forked_from, "forked_version": session.forked_version}
    return {**session.metadata, **origin}


def _lineage(found: Lineage) -> LineageAnswer:
    return LineageAnswer(
        session_id=found.session_id,
        forked_from=found.forked_from,
        forked_version=found.forked_version,
        ancestors=found.ancestors,
        forks=[_lineage(fork) for fork in found.forks],
    )


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        message = f"{name} is a JSON object"
        raise Unfit(message, param=name) from exc


ROUTES: Final[list[Route]] = [
    create,
    list_,
    show,
    update,
    remove,
    fork,
    lineage,
    diff,
]

"""Merges one session that two namespaces changed, each in its own way.

Three-way, by the top-level keys of its state and of its metadata: what one side changed is taken,
what both changed alike is one change. A conversation is one thing: two that went on from the same
turn are two stories, and nobody but the user knows which is the true one.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from holdfast.engine.objects.stage import Stage
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.following import session_of
from holdfast.engine.sessions.state import StateSource
from holdfast.entries import encode_entry
from holdfast.tree import Conflict

T = TypeVar("T")


class _Clash(Exception):
    """Both sides changed the same thing, and not alike."""


def merge_session(
    stage: Stage, source: StateSource, conflict: Conflict, *, max_bytes: int
) -> bytes | None:
    """Returns the entry of a session with the changes of both sides; None if they clash."""
    if conflict.base is None or conflict.ours is None or conflict.theirs is None:
        return None
    base, ours, theirs = (
        session_of(data) for data in (conflict.base, conflict.ours, conflict.theirs)
    )
    all_three = (base, ours, theirs)
    if len({each.created_us for each in all_three}) > 1:
        return None  # Not one session, but several that have had its id.
    try:
        branch, turns = _pick(*((each.branch, each.turns) for each in all_three))
        expires_us = _pick(*(each.expires_us for each in all_three))
        metadata = _pick_keys(
            *(msgspec.json.decode(each.metadata, type=dict[str, msgspec.Raw]) for each in all_three)
        )
        parts = _pick_keys(*(states.read_parts(source, each.state) for each in all_three))
    except _Clash:
        return None
    stored = states.store(stage, parts, max_bytes=max_bytes)
    return encode_entry(
        msgspec.structs.replace(
            ours,
            state=stored.entry,
            bytes=stored.bytes,
            branch=branch,
            turns=turns,
            metadata=msgspec.json.encode(metadata).decode(),
            expires_us=expires_us,
        )
    )


def _pick(base: T, ours: T, theirs: T) -> T:
    if theirs in (base, ours):
        return ours
    if ours == base:
        return theirs
    raise _Clash


def _pick_keys(
    base: Mapping[str, T], ours: Mapping[str, T], theirs: Mapping[str, T]
) -> dict[str, T]:
    picked: dict[str, T] = {}
    for key in {**ours, **theirs}:
        value = _pick(base.get(key), ours.get(key), theirs.get(key))
        if value is not None:
            picked[key] = value
    return picked

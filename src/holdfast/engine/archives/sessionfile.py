"""Sessions in an archive: the state and conversation that a snapshot shows, as JSON.

A session is one member, its conversation (where there is one) another, with a line for each turn.
Versions of its history stay behind: in another vault they would be states that nobody made there.

A branch's name means nothing elsewhere, so in the root that a manifest names each stands under
the hash of its lines: that root proves every turn, too. Read, everything is an enemy's until it is
the very text that we would have written.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from blake3 import blake3

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.archivefile import Source
from holdfast.engine.archives.jsontext import check_json
from holdfast.engine.archives.tarread import Member
from holdfast.engine.core.limits import Limits
from holdfast.engine.planes.handle import check_text
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.lifecycle import check_session_id, check_texts
from holdfast.engine.sessions.turns import TurnData, walk
from holdfast.entries import Session
from holdfast.errors import Invalid, TooLarge, UnsafeArchive
from holdfast.ids import TenantId
from holdfast.instants import LAST_US, to_us

SESSION_NAME: Final = b"sessions/%d.json"
TURNS_NAME: Final = b"sessions/%d.turns.jsonl"
"""Numbered, as values are: an id is no file name everywhere."""

MAX_REASONING_CHARS: Final = 65_536
ELSEWHERE: Final = 0
"""No namespace has this number: the versions that an imported turn names are not here."""

_OVERHEAD_BYTES: Final = 1 << 20
"""Around a state or turn, at the most: names, metadata, times."""

_CHUNK_BYTES: Final = 1 << 20
_Instant = Annotated[int, msgspec.Meta(ge=0, le=LAST_US)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class SessionMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the member of a session holds."""

    id: str
    agent_id: str
    user_id: str | None
    metadata: msgspec.Raw
    created_us: _Instant
    expires_us: _Instant | None
    turns: _Count
    state: msgspec.Raw


class TurnLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a line of a conversation holds."""

    created_us: _Instant
    session_id: str
    before: _Count
    after: _Count
    reasoning: str | None
    input: msgspec.Raw
    output: msgspec.Raw
    metadata: msgspec.Raw


class _Message(msgspec.Struct):
    """What one side of a turn has at least."""

    type: str
    content: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """The lines of a conversation: their hash, and how long they are together."""

    digest: str = ""
    bytes: int = 0


# Taking out


def write_session(session_id: str, entry: Session, source: states.StateSource) -> bytes:
    """Returns the content of a session's member."""
    return msgspec.json.encode(
        SessionMember(
            id=session_id,
            agent_id=entry.agent_id,
            user_id=entry.user_id,
            metadata=msgspec.Raw(entry.metadata.encode()),
            created_us=entry.created_us,
            expires_us=entry.expires_us,
            turns=entry.turns,
            state=msgspec.Raw(states.joined(states.read_parts(source, entry.state))),
        )
    )


def write_turns(
    transaction: Transaction, tenant_id: TenantId, entry: Session, *, after: int = 0
) -> Iterator[bytes]:
    """Yields the lines of a session's conversation `after` a number, the first turn first."""
    rows = walk(transaction, tenant_id, entry.branch, entry.turns, descending=False, after=after)
    for row in rows:
        data = msgspec.json.decode(row.data, type=TurnData)
        told = TurnLine(
            created_us=to_us(row.created_at),
            session_id=data.session_id,
            before=data.before,
            after=data.after,
            reasoning=data.reasoning,
            input=data.input,
            output=data.output,
            metadata=data.metadata,
        )
        yield msgspec.json.encode(told) + b"\n"


def measure(lines: Iterator[bytes]) -> Conversation:
    """Returns the hash and length of some lines."""
    hasher, size = blake3(), 0
    for line in lines:
        hasher.update(line)
        size += len(line)
    return Conversation(hasher.hexdigest(), size) if size else Conversation()


# Bringing in


def read_session(source: Source, member: Member, limits: Limits) -> SessionMember:
    """Returns a session of an archive; raises unless it is one, to the last byte."""
    if member.size > limits.state_bytes + _OVERHEAD_BYTES:
        raise TooLarge(f"a session's state may have {limits.state_bytes} bytes; one has more")
    return parse_session(source.read(member.at, member.size), limits, name=member.name)


def parse_session(data: bytes, limits: Limits, *, name: bytes) -> SessionMember:
    """Returns the session of a member's content; raises unless it is one, to the last byte."""
    try:
        told = msgspec.json.decode(data, type=SessionMember)
        if msgspec.json.encode(told) != data:
            raise UnsafeArchive("it is not written as we write it", member=name)
        check_session_id(told.id)
        check_texts(agent=told.agent_id, user=told.user_id)
        _check_object(told.metadata, limits)
        text, parts = bytes(told.state), parts_of(told)
        if not told.agent_id or states.joined(parts) != text:
            raise UnsafeArchive("it is not written as we write it", member=name)
        for part in parts.values():
            check_json(part, most=limits.decoded_values)
        states.check_keys(parts)
    except (ValueError, RecursionError, Invalid) as exc:
        raise UnsafeArchive(f"it holds no session: {exc}", member=name) from exc
    if len(text) > limits.state_bytes:
        raise TooLarge(f"a session's state may have {limits.state_bytes} bytes; one has more")
    return told


def parts_of(told: SessionMember) -> dict[str, bytes]:
    """Returns the text of each key of a session's state."""
    raw = msgspec.json.decode(told.state, type=dict[str, msgspec.Raw])
    return {key: bytes(text) for key, text in raw.items()}


def read_turns(source: Source, member: Member, limits: Limits) -> Iterator[tuple[bytes, TurnLine]]:
    """Yields the lines of a conversation, each with what it says; raises as `read_session`."""
    for line in _lines(source, member, limits):
        yield line, parse_turn(line, limits, name=member.name)


def parse_turn(line: bytes, limits: Limits, *, name: bytes) -> TurnLine:
    """Returns what a line of a conversation says; raises as `read_session`."""
    try:
        told = msgspec.json.decode(line, type=TurnLine)
        if msgspec.json.encode(told) + b"\n" != line:
            raise UnsafeArchive("it is not written as we write it", member=name)
        check_session_id(told.session_id)
        check_text("reasoning", told.reasoning, max_chars=MAX_REASONING_CHARS)
        for side in (told.input, told.output):
            msgspec.json.decode(side, type=_Message)
            check_json(bytes(side), most=limits.decoded_values)
        _check_object(told.metadata, limits)
    except (ValueError, RecursionError, Invalid) as exc:
        raise UnsafeArchive(f"it holds no turn: {exc}", member=name) from exc
    if len(to_row(told)) > limits.turn_bytes:
        raise TooLarge(f"a turn may have {limits.turn_bytes} bytes; one in the archive has more")
    return told


def to_row(told: TurnLine) -> bytes:
    """Returns what the row of an imported turn holds."""
    return msgspec.json.encode(
        TurnData(
            told.input,
            told.output,
            told.metadata,
            namespace_id=ELSEWHERE,
            session_id=told.session_id,
            before=told.before,
            after=told.after,
            reasoning=told.reasoning,
        )
    )


def _check_object(raw: msgspec.Raw, limits: Limits) -> None:
    msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    check_json(bytes(raw), most=limits.decoded_values)


def _lines(source: Source, member: Member, limits: Limits) -> Iterator[bytes]:
    """Yields lines with their ends; raises for one that is too long, or has no end."""
    at, end, held = member.at, member.at + member.size, list[bytes]()
    while at < end:
        chunk = source.read(at, min(_CHUNK_BYTES, end - at))
        at += len(chunk)
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            yield b"".join((*held, part, b"\n"))
            held = []
        if rest:
            held.append(rest)
        if sum(map(len, held)) > limits.turn_bytes + _OVERHEAD_BYTES:
            raise TooLarge(
                f"a turn may have {limits.turn_bytes} bytes; one in the archive has more"
            )
    if held:
        raise UnsafeArchive("its last line has no end", member=member.name)

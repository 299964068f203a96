"""Reads what an agent says of an event: JSON that nobody has checked.

It comes from a model, from whoever talks to it, or was cut off. Whatever it is, an `Event` comes
of it in bounded time: the members that matter, as text that can be shown and stored, and what was
wrong. Nothing that lies deeper is looked at.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.cli.hooks.agents import Agent, Moment

LONGEST_NAME: Final = 72
"""Characters of a prompt by which it is recognised."""

LONGEST_ID: Final = 200
MOST_ROOTS: Final = 32
"""Directories of a conversation among which an attached one is looked for."""

_LOOKED_AT: Final = 4096
"""Characters of a prompt in which its first words are looked for."""

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]', re.DOTALL)
_decode: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_decode_texts: Final = msgspec.json.Decoder(list[str]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What an agent said."""

    moment: Moment
    name: str = ""
    """What the agent calls it."""
    session: str = ""
    prompt_id: str | None = None
    prompt: str = ""
    """How the prompt begins."""
    tool: str = ""
    directory: str = ""
    """Where the agent is."""
    roots: tuple[str, ...] = ()
    """What it has open, if it says so: some of its events are about no other directory."""
    fault: str = ""
    """What is wrong with what it said; empty if nothing is."""


def hear(agent: Agent, given: bytes, *, event: str = "") -> Event:
    """Returns what an agent said; `event` is what its settings say that it is about."""
    said, roots, fault = _members(given, agent.roots)
    name = clean(said.get("hook_event_name", "") or event, most=LONGEST_ID)
    session = clean(said.get(agent.session, ""), most=LONGEST_ID)
    tool = clean(said.get("tool_name", ""), most=LONGEST_ID)
    moment = agent.moments.get(name, Moment.AFTER)
    if moment in (Moment.BEFORE, Moment.AFTER) and tool in agent.reading:
        moment = Moment.NOTHING
    return Event(
        moment=moment,
        name=name,
        session=session,
        prompt_id=clean(said.get(agent.prompt_id, ""), most=LONGEST_ID) or None,
        prompt=clean(said.get("prompt", ""), most=LONGEST_NAME),
        tool=tool,
        directory=said.get("cwd", ""),
        roots=roots,
        fault=fault or ("" if session else f"it names no {agent.session}"),
    )


def clean(text: str, *, most: int) -> str:
    """Returns text on one line, without what a terminal would obey, and not longer than that."""
    words = " ".join(text[:_LOOKED_AT].split())
    shown = "".join(each if each.isprintable() else "\ufffd" for each in words)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _members(given: bytes, roots: str) -> tuple[dict[str, str], tuple[str, ...], str]:
    """Returns the texts of an object, those of its list `roots`, and what is wrong with it."""
    try:
        said = _decode(given)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        return _salvaged(given), (), f"it is no JSON object: {exc}"
    return dict(_texts(said)), _listed(said.get(roots)), ""


def _listed(raw: msgspec.Raw | None) -> tuple[str, ...]:
    try:
        return () if raw is None else tuple(_decode_texts(raw)[:MOST_ROOTS])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ()


def _texts(said: dict[str, msgspec.Raw]) -> Iterator[tuple[str, str]]:
    for name, raw in said.items():
        text = bytes(raw)
        if text.startswith(b'"'):
            yield name, _text(text)


def _salvaged(given: bytes) -> dict[str, str]:
    """Returns the texts of an object that is cut off, or broken further down.

    Only those of the object itself: what lies deeper, somebody else may have written.
    """
    said, depth, name = dict[str, str](), 0, None
    for token in (match[0] for match in _TOKEN.finditer(given)):
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            name = None if depth == 1 else name
        elif depth == 1 and token == b",":
            name = None
        elif depth == 1 and name is None:
            name = _text(token)
        elif depth == 1 and name is not None:
            said.setdefault(name, _text(token))
    return said


def _text(token: bytes) -> str:
    try:
        return _decode_text(token)
    except (msgspec.MsgspecError, ValueError):
        return token.strip(b'"').decode("utf-8", "replace")

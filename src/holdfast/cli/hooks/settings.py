"""Puts our commands among an agent's settings, and takes them out again: nothing else changes.

1. What cannot be read exactly as it was written is refused, and the file is not touched: no JSON,
   names that occur twice, another shape than the agent's own, a file that is not in the directory.
   Of what stays, every byte does (`splicing.py`).
2. Ours are known by what they run. Whoever says it twice finds them once, as they are now.
3. The file is old or new, never a mixture: it is written beside its place and renamed into it,
   unless somebody has changed it since it was read.
"""

import json
import os
import secrets
import shlex
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn, cast

from holdfast.cli.exits import CONFLICT, Refused
from holdfast.cli.hooks.agents import Agent
from holdfast.cli.hooks.process import HOOK, RUN
from holdfast.ownfiles import sync_folder
from holdfast.splicing import turn_into

LONGEST: Final = 1 << 22
"""Bytes of a settings file that is looked at."""

TRIES: Final = 5
"""How often a file that somebody else changes at the same time is read again."""

Document = dict[str, Any]


def change(path: str, edit: Callable[[Document], Document], *, within: str | None) -> bool:
    """Changes a settings file; says whether it had to be. One that holds nothing then is removed.

    `within` is the directory that it must not lead out of, through whatever links.
    """
    place = os.path.realpath(path)
    if within is not None and os.path.commonpath((place, within)) != within:
        raise _refused(path, f"is a link to {place}, outside of {within}")
    for _ in range(TRIES):
        before = _read(path, place)
        document = {} if before is None else _parsed(path, before)
        try:
            after = _text(edit(document), before)
        except _Misshapen as exc:
            raise _refused(path, str(exc)) from exc
        except ValueError as exc:
            raise _refused(path, f"cannot be written again: {exc}") from exc
        if after == before:
            return False
        if _replace(place, before, after):
            return True
    raise _refused(path, "is being changed by somebody else", hint="Try again.")


def with_ours(agent: Agent, commands: dict[str, str]) -> Callable[[Document], Document]:
    """Returns what puts commands into an agent's settings, one for each event."""

    def edit(document: Document) -> Document:
        made: Document = _without(document, agent) or agent.fresh
        hooks: Document = {**cast("Document", made.get("hooks", {}))}
        for event, command in commands.items():
            hooks[event] = [*hooks.get(event, []), _entry(agent, event, command)]
        return {**made, "hooks": hooks}

    return edit


def without_ours(agent: Agent) -> Callable[[Document], Document]:
    """Returns what takes our commands out of an agent's settings."""

    def edit(document: Document) -> Document:
        left = _without(document, agent)
        is_bare = left != document and left == agent.fresh
        return {} if is_bare else left

    return edit


def events_of(path: str, agent: Agent) -> list[str]:
    """Returns the events for which a settings file has a command of ours."""
    before = _read(path, os.path.realpath(path))
    if before is None:
        return []
    try:
        hooks = _member(_parsed(path, before).get("hooks", {}), dict, "hooks")
        return [
            event
            for event, entries in hooks.items()
            if isinstance(entries, list)
            and any(_is_ours(e, agent) for e in _commands(cast("list[Any]", entries), agent))
        ]
    except _Misshapen as exc:
        raise _refused(path, str(exc)) from exc


def to_text(document: Document) -> str:
    """Returns settings as they are written where there are none."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _entry(agent: Agent, event: str, command: str) -> Document:
    made: Document = {"command": command, "timeout": agent.timeout}
    tools = agent.installed[event]
    matching: Document = {} if tools is None else {"matcher": tools}
    if agent.is_flat:
        return {**made, **matching}
    waits: Document = {"async": True} if event in agent.later else {}
    return {**matching, "hooks": [{"type": "command", **made, **waits}]}


def _without(document: Document, agent: Agent) -> Document:
    """Returns settings without our commands, nor what held nothing else."""
    hooks = _member(document.get("hooks", {}), dict, "hooks")
    left: Document = {}
    for event, entries in hooks.items():
        kept = _entries_without(_member(entries, list, event), agent)
        if kept or not entries:
            left[event] = kept
    if left == hooks:
        return document
    rest = {name: value for name, value in document.items() if name != "hooks"}
    return {**document, "hooks": left} if left else rest


def _entries_without(entries: list[Any], agent: Agent) -> list[Any]:
    if agent.is_flat:
        return [each for each in entries if not _is_ours(each, agent)]
    kept: list[Any] = []
    for group in entries:
        commands = _commands([group], agent)
        others = [each for each in commands if not _is_ours(each, agent)]
        if len(others) == len(commands):
            kept.append(group)
        elif others:
            kept.append({**group, "hooks": others})
    return kept


def _commands(entries: list[Any], agent: Agent) -> list[Any]:
    """Returns the commands of an event, out of their groups if there are such."""
    if agent.is_flat:
        return entries
    found: list[Any] = []
    for group in entries:
        if isinstance(group, dict):
            hooks = cast("Document", group).get("hooks")
            found += cast("list[Any]", hooks) if isinstance(hooks, list) else []
    return found


def _is_ours(entry: object, agent: Agent) -> bool:
    """Says whether an entry runs what we have put there."""
    command = cast("Document", entry).get("command") if isinstance(entry, dict) else None
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    is_holdfast = any(os.path.basename(word).startswith("holdfast") for word in words[:4])
    runs = zip(words, words[1:], words[2:], strict=False)
    return is_holdfast and (HOOK, RUN, agent.name) in runs


class _Misshapen(Exception):
    """What stands there is not what the agent's settings look like."""


def _member(value: object, kind: type, name: str) -> Any:  # noqa: ANN401 - of that kind
    if not isinstance(value, kind):
        word = "object" if kind is dict else "list"
        message = f"has another shape than the agent's own: {name!r} is no {word}"
        raise _Misshapen(message)
    return value


# The file


def _read(path: str, place: str) -> bytes | None:
    """Returns what a file holds; None if it is not there."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _refused(path, f"cannot be read: {exc.strerror}") from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused(path, "is no file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(LONGEST + 1)
    if len(data) > LONGEST:
        raise _refused(path, f"has more than {LONGEST:,} bytes")
    return data


def _parsed(path: str, data: bytes) -> Document:
    def unique(pairs: list[tuple[str, Any]]) -> Document:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a name occurs twice in one object")
        return found

    def unusual(text: str) -> NoReturn:
        message = f"{text} is no number of JSON"
        raise ValueError(message)

    try:
        document = json.loads(
            data.decode("utf-8"), object_pairs_hook=unique, parse_constant=unusual
        )
    except (ValueError, RecursionError) as exc:
        raise _refused(path, f"is no JSON: {exc}") from exc
    if not isinstance(document, dict):
        raise _refused(path, "is no JSON object")
    return cast("Document", document)


def _text(document: Document, before: bytes | None) -> bytes | None:
    """Returns settings as text, of which what did not change stays as it was; None for none."""
    if not document:
        return None if before is None or before.strip() != b"{}" else before
    if before is None:
        return to_text(document).encode()
    return turn_into(before.decode("utf-8"), document).encode()


def _replace(place: str, before: bytes | None, after: bytes | None) -> bool:
    """Puts a file in place of another; False if that one is no longer as it was read."""
    folder = os.path.dirname(place)
    if after is None:
        return _remove(place, before)
    os.makedirs(folder, exist_ok=True)
    beside = os.path.join(folder, f".{os.path.basename(place)}.{secrets.token_hex(8)}")
    mode = 0o600 if before is None else stat.S_IMODE(os.stat(place).st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if _read(place, place) != before:
            return False
        os.replace(beside, place)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
    sync_folder(folder)
    return True


def _remove(place: str, before: bytes | None) -> bool:
    if _read(place, place) != before:
        return False
    with suppress(FileNotFoundError):
        os.unlink(place)
        sync_folder(os.path.dirname(place))
    with suppress(OSError):  # Something else is in it.
        os.rmdir(os.path.dirname(place))
    return True


def _refused(path: str, why: str, *, hint: str = "") -> Refused:
    return Refused(
        f"{path} {why}; it was left as it is",
        code="settings_refused",
        exit_code=CONFLICT,
        hint=hint or "Put it right, or add by hand what `holdfast hook install --print` shows.",
    )

"""Tells coding agents of us: writes our entry into their settings, and takes it out again.

A settings file is read, changed in one place (`splicing`), written beside itself and put in its
place with one rename: whoever reads it sees the old file or the new one. One that is no JSON, is a
link, or was changed meanwhile is left as it is. Programs and directories are named by absolute
paths, since an agent starts us wherever it likes; keys are never written, only the variable that
has one.
"""

import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from holdfast.errors import Conflict, InvalidSettings
from holdfast.ownfiles import sync_folder
from holdfast.splicing import find, put, take_out

NAME: Final = "holdfast"
"""What our entry is called."""

_PROGRAM_WORDS: Final = 4
"""In as many words is said what is started: the program, or Python and our module."""

_LARGEST: Final = 4 << 20
_USUAL_MODE: Final = 0o644


@dataclass(frozen=True)
class Agent:
    """Where a coding agent looks for servers in a project, and how it writes a variable."""

    title: str
    path: str
    section: str
    variable: str
    """How its settings refer to a variable of the environment."""
    has_type: bool
    """Whether an entry says that it speaks over standard streams."""


AGENTS: Final = {
    "claude-code": Agent("Claude Code", ".mcp.json", "mcpServers", "${%s}", has_type=True),
    "cursor": Agent("Cursor", ".cursor/mcp.json", "mcpServers", "${env:%s}", has_type=False),
    "gemini": Agent("Gemini CLI", ".gemini/settings.json", "mcpServers", "$%s", has_type=False),
    "vscode": Agent("VS Code", ".vscode/mcp.json", "servers", "${env:%s}", has_type=True),
}
"""The agents whose settings we know, by the name that people type."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """What an agent starts."""

    program: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    """Variables with their values."""
    passed: tuple[str, ...] = ()
    """Variables that hold secrets: the agent is told to pass them on, and not their values."""


def install(agent: Agent, directory: str, command: Command) -> tuple[str, bool]:
    """Writes our entry into the settings of a project; returns the file, and if it changed."""

    def change(text: str) -> str:
        if _is_others(agent, text):
            message = f"its {NAME!r} starts something else, and is not ours: rename that first"
            raise ValueError(message)
        return put(text, section=agent.section, name=NAME, value=_entry(agent, command))

    return _edit(agent, directory, change)


def uninstall(agent: Agent, directory: str) -> tuple[str, bool]:
    """Takes our entry out of the settings of a project; returns the file, and if it changed.

    A file in which there was nothing else goes, as it came.
    """

    def change(text: str) -> str:
        if _is_others(agent, text):
            return text
        left = take_out(text, section=agent.section, name=NAME)
        return "" if left != text and json.loads(left) == {agent.section: {}} else left

    return _edit(agent, directory, change)


def _entry(agent: Agent, command: Command) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "stdio"} if agent.has_type else {}
    made |= {"command": command.program, "args": [*command.arguments]}
    referred = {name: agent.variable % name for name in command.passed}
    if command.environ or referred:
        made["env"] = {**command.environ, **referred}
    return made


def _is_others(agent: Agent, text: str) -> bool:
    """Says whether somebody's own entry has our name: ours are known by what they start."""
    entry = find(text, section=agent.section, name=NAME)
    if not isinstance(entry, dict):
        return entry is not None
    members = cast("dict[str, Any]", entry)
    arguments = members.get("args")
    followed_by = cast("list[Any]", arguments) if isinstance(arguments, list) else []
    words = [str(word) for word in (members.get("command"), *followed_by)]
    programs = [os.path.basename(word) for word in words[:_PROGRAM_WORDS]]
    return not ("mcp" in words and any(name.startswith(NAME) for name in programs))


def _edit(agent: Agent, directory: str, change: Callable[[str], str]) -> tuple[str, bool]:
    path = os.path.join(os.path.realpath(directory), agent.path)
    if os.path.realpath(path) != path:
        raise InvalidSettings(path, reason="a link leads elsewhere")
    old = _read(path)
    try:
        new = change("" if old is None else old.decode()).encode()
    except UnicodeDecodeError as exc:
        raise InvalidSettings(path, reason="it is no UTF-8") from exc
    except ValueError as exc:
        raise InvalidSettings(path, reason=str(exc)) from exc
    if new == (old or b""):
        return path, False
    if not new:
        _remove(path, old, is_in_folder=bool(os.path.dirname(agent.path)))
        return path, True
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _replace(path, old, new)
    return path, True


def _read(path: str) -> bytes | None:
    """Returns what a file holds; None if there is none."""
    try:
        # A pipe in its place would keep us waiting for whoever made it.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise InvalidSettings(path, reason=f"it cannot be read: {exc.strerror}") from exc
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InvalidSettings(path, reason="it is no file")
    with os.fdopen(fd, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidSettings(path, reason="it is larger than 4 MiB")
    return data


def _replace(path: str, old: bytes | None, new: bytes) -> None:
    """Puts a new file in the place of the old one, unless that has changed since."""
    folder = os.path.dirname(path)
    fd, beside = tempfile.mkstemp(prefix=".holdfast-", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(new)
            file.flush()
            os.fchmod(fd, _mode_of(path))
            os.fsync(fd)
        _check_still(path, old)
        os.rename(beside, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)
    sync_folder(folder)


def _remove(path: str, old: bytes | None, *, is_in_folder: bool) -> None:
    """Removes a file, unless it has changed since; a folder of its own, too, if that is empty."""
    folder = os.path.dirname(path)
    _check_still(path, old)
    os.unlink(path)
    sync_folder(folder)
    if is_in_folder:
        with suppress(OSError):
            os.rmdir(folder)


def _check_still(path: str, old: bytes | None) -> None:
    if _read(path) != old:
        raise Conflict(f"{path} was changed by somebody else just now").with_hint(
            "Nothing was written: say it again."
        )


def _mode_of(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return _USUAL_MODE

"""The commands: one module each, loaded when it is the one that was typed.

A module has two functions. `configure(parser)` adds what the command understands; `run(
arguments, console)` does it and returns the exit code. What stands here is only their names,
in the order in which a newcomer meets them, with the line that `holdfast --help` shows.
"""

import os
from typing import Final

GROUPS: Final[dict[str, dict[str, str]]] = {
    "Begin": {
        "init": "attach a directory and take its first snapshot",
        "status": "show what has changed since the last snapshot",
        "demo": "play an agent's bad day, or serve a made-up fortnight",
    },
    "Keep": {
        "snapshot": "keep the directory as it is now",
        "run": "run a command between two snapshots",
        "exec": "run a command in the sandbox, on a copy of the files",
        "watch": "take a snapshot whenever the directory falls quiet",
        "hook": "let a coding agent tell of what it is about to do",
    },
    "Look": {
        "log": "list the snapshots",
        "show": "show one snapshot and what it changed",
        "diff": "show what differs between two moments",
        "agent": "list a coding agent's prompts and what each changed",
        "grep": "search in files at a moment",
        "console": "look, and go back, in a browser",
    },
    "Go back": {
        "undo": "take the last change back",
        "redo": "take the last undo back",
        "restore": "bring a snapshot back, whole or in part",
    },
    "Branch": {
        "fork": "make a second timeline that goes on from here",
        "switch": "let the directory show another namespace",
        "merge": "bring in what a fork has changed",
        "namespaces": "list the namespaces of the vault",
    },
    "Look after": {
        "pin": "keep a snapshot until it is unpinned",
        "unpin": "let a snapshot expire again",
        "forget": "take old snapshots off the timeline",
        "gc": "give back the bytes that nothing needs any more",
        "verify": "hash everything again and name what is damaged",
        "repair": "rebuild what is damaged, and name what is lost",
        "du": "show what takes the space",
        "doctor": "check that everything is in order",
        "workspaces": "list the attached directories",
        "detach": "let go of a directory; its history stays",
    },
    "Move": {
        "export": "write a snapshot to a tar file",
        "import": "bring an exported file into the directory",
        "backup": "make a second copy of the whole vault",
        "git": "keep a copy of a namespace in a git repository",
        "reinstate": "make a vault of a backup",
        "erase": "remove a namespace, a session or a user for good",
    },
    "Serve": {
        "serve": "answer over HTTP",
        "keys": "make, list and revoke API keys",
        "migrate": "bring a vault's tables up to this version",
        "login": "sign this machine in to a server",
        "logout": "forget a server's keys on this machine",
        "mcp": "give an agent the undo button, over MCP",
    },
    "Other": {
        "help": "show how a command is used",
        "completion": "let a shell complete commands and options",
        "version": "print the version",
    },
}

COMMANDS: Final = {name: line for group in GROUPS.values() for name, line in group.items()}
"""Every command, with what it does."""

_ELSEWHERE: Final = {
    "import": "holdfast.cli.commands.import_",  # a word of the language
    "watch": "holdfast.cli.watch",
}


def module_of(name: str) -> str:
    """Returns the module that a command lives in."""
    return _ELSEWHERE.get(name, f"holdfast.cli.commands.{name}")


def is_there(name: str) -> bool:
    """Says whether this installation has a command: not every one has a watcher."""
    if name != "watch":
        return name in COMMANDS
    return os.path.exists(os.path.join(os.path.dirname(os.path.dirname(__file__)), "watch.py"))

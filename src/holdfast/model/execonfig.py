"""Which files make programs run something, merely by being there.

A restored or forked tree may carry configuration that an agent, or an attacker, has planted:
git hooks, tasks of an editor, tool servers of an agent. Such changes are marked wherever changes
are shown, so that a person looks before anything runs. Marking is all that happens: what was
captured comes back as it was.
"""

from itertools import pairwise
from typing import Final

_FOLDERS: Final = frozenset(
    {
        b".claude",
        b".codex",
        b".cursor",
        b".devcontainer",
        b".direnv",
        b".gemini",
        b".githooks",
        b".husky",
        b".idea",
    }
)
"""Everything in a folder of such a name, at any depth."""

_NAMES: Final = frozenset(
    {
        b".mcp.json",
        b"mcp.json",
        b".envrc",
        b".pre-commit-config.yaml",
        b".gitattributes",
        b".gitmodules",
        b".npmrc",
        b".yarnrc",
        b".yarnrc.yml",
        b".pnpmfile.cjs",
        b".pypirc",
        b".bashrc",
        b".bash_profile",
        b".profile",
        b".zshrc",
        b".zshenv",
        b"sitecustomize.py",
        b"usercustomize.py",
        b"CLAUDE.md",
        b"AGENTS.md",
        b".cursorrules",
        b".windsurfrules",
    }
)

_PAIRS: Final = frozenset(
    {
        (b".vscode", b"tasks.json"),
        (b".vscode", b"launch.json"),
        (b".vscode", b"settings.json"),
        (b".vscode", b"extensions.json"),
        (b".vscode", b"mcp.json"),
        (b".git", b"config"),
        (b".git", b"config.worktree"),
        (b".github", b"copilot-instructions.md"),
    }
)
"""A file of that name straight in a folder of that name."""

_BELOW: Final = frozenset({(b".git", b"hooks"), (b".github", b"workflows")})
"""Everything in the second folder, which lies in the first."""


def is_executable_config(key: bytes) -> bool:
    """Says whether programs run what the file at this path says, without being asked to."""
    # As file systems that ignore case would find it.
    *folders, name = key.split(b"/")
    lower = [folder.lower() for folder in folders]
    if name in _NAMES or name.lower() in _NAMES or not _FOLDERS.isdisjoint(lower):
        return True
    if lower and (lower[-1], name.lower()) in _PAIRS:
        return True
    pairs = set(pairwise(lower))
    # The hooks of a submodule: `.git/modules/NAME/hooks`, and its configuration.
    is_inside_git = b".git" in lower
    if is_inside_git and (b"hooks" in lower or name.lower() == b"config"):
        return True
    return not _BELOW.isdisjoint(pairs)

"""How each coding agent calls its hooks: where they are set, which there are, what they say.

Facts of other makers' programs, and nothing else; who wants to support one more adds it here.
Tools that only read are left out by matchers, so that no process is started for them. A tool that
nobody here has heard of may change something.
"""

import enum
from dataclasses import dataclass, field
from typing import Final

TIMEOUT_S: Final = 30
"""How long an agent waits for a hook of ours, which ends by itself before that."""

USUAL_TIMEOUT_MS: Final = TIMEOUT_S * 1000


class Moment(enum.Enum):
    """What has happened, whatever an agent calls it."""

    PROMPT = "before a prompt"
    BEFORE = "before"
    AFTER = "after"
    END = "after a prompt"
    CLOSE = "after a conversation"
    NOTHING = ""
    """Nothing that changes files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One coding agent."""

    name: str
    moments: dict[str, Moment]
    """What its events mean."""
    installed: dict[str, str | None]
    """The events that are asked for, with the tools that they are about: a pattern of its own."""
    local: str
    """Its settings for one directory, of one user where it has such."""
    personal: str
    """Its settings for all directories of a user, from home."""
    session: str = "session_id"
    prompt_id: str = "prompt_id"
    roots: str = ""
    """Where it says which directories it has open, if it does: not every event has a `cwd`."""
    answer: str = ""
    """What it wants to read from a hook that has nothing to say."""
    is_flat: bool = False
    """Whether commands stand straight under their event, without a group."""
    timeout: int = TIMEOUT_S
    later: frozenset[str] = frozenset()
    """Events for whose hooks it need not wait."""
    reading: frozenset[str] = frozenset()
    """Tools that change nothing."""
    advice: str = ""
    """What else its user has to do."""
    fresh: dict[str, object] = field(default_factory=dict[str, object])
    """What its settings begin with where there are none."""


_CLAUDE_LIKE: Final = {
    "SessionStart": Moment.NOTHING,
    "UserPromptSubmit": Moment.PROMPT,
    "PreToolUse": Moment.BEFORE,
    "PermissionRequest": Moment.BEFORE,
    "PostToolUse": Moment.AFTER,
    "PostToolUseFailure": Moment.AFTER,
    "SubagentStop": Moment.AFTER,
    "Stop": Moment.END,
    "StopFailure": Moment.END,
    "Interrupt": Moment.END,
    "SessionEnd": Moment.CLOSE,
}

_CLAUDE_TOOLS: Final = "Bash|PowerShell|Write|Edit|MultiEdit|NotebookEdit|mcp__.*"
_CLAUDE_READING: Final = frozenset(
    {"Read", "Glob", "Grep", "LS", "WebFetch", "WebSearch", "TodoWrite", "NotebookRead"}
)

CLAUDE_CODE: Final = Agent(
    name="claude-code",
    moments=_CLAUDE_LIKE,
    installed={
        "UserPromptSubmit": None,
        "PreToolUse": _CLAUDE_TOOLS,
        "PostToolUse": _CLAUDE_TOOLS,
        "Stop": None,
        "SessionEnd": None,
    },
    local=".claude/settings.local.json",
    personal=".claude/settings.json",
    later=frozenset({"PostToolUse"}),
    reading=_CLAUDE_READING,
    advice="A conversation that runs already takes them up when it is started again.",
)

_CODEX_TOOLS: Final = "Bash|apply_patch|Edit|Write|mcp__.*"

CODEX: Final = Agent(
    name="codex",
    moments=_CLAUDE_LIKE,
    installed={
        "UserPromptSubmit": None,
        "PreToolUse": _CODEX_TOOLS,
        "PostToolUse": _CODEX_TOOLS,
        "Stop": None,
    },
    local=".codex/hooks.json",
    personal=".codex/hooks.json",
    prompt_id="turn_id",
    reading=_CLAUDE_READING,
    advice="Codex runs them once you have trusted them: `/hooks` in Codex asks.",
)

_GEMINI_TOOLS: Final = "run_shell_command|write_file|replace|discovered_tool_.*|mcp_.*"

GEMINI: Final = Agent(
    name="gemini",
    moments={
        "SessionStart": Moment.NOTHING,
        "BeforeAgent": Moment.PROMPT,
        "BeforeModel": Moment.NOTHING,
        "AfterModel": Moment.NOTHING,
        "BeforeToolSelection": Moment.NOTHING,
        "BeforeTool": Moment.BEFORE,
        "AfterTool": Moment.AFTER,
        "AfterAgent": Moment.END,
        "SessionEnd": Moment.CLOSE,
    },
    installed={
        "BeforeAgent": None,
        "BeforeTool": _GEMINI_TOOLS,
        "AfterTool": _GEMINI_TOOLS,
        "AfterAgent": None,
        "SessionEnd": None,
    },
    local=".gemini/settings.json",
    personal=".gemini/settings.json",
    prompt_id="",
    answer="{}",
    timeout=USUAL_TIMEOUT_MS,
    reading=frozenset({"read_file", "read_many_files", "list_directory", "glob", "grep_search"}),
)

CURSOR: Final = Agent(
    name="cursor",
    moments={
        "sessionStart": Moment.NOTHING,
        "beforeReadFile": Moment.NOTHING,
        "beforeSubmitPrompt": Moment.PROMPT,
        "preToolUse": Moment.BEFORE,
        "beforeShellExecution": Moment.BEFORE,
        "beforeMCPExecution": Moment.BEFORE,
        "postToolUse": Moment.AFTER,
        "afterShellExecution": Moment.AFTER,
        "afterMCPExecution": Moment.AFTER,
        "afterFileEdit": Moment.AFTER,
        "stop": Moment.END,
        "sessionEnd": Moment.CLOSE,
    },
    installed={
        "beforeSubmitPrompt": None,
        "preToolUse": "Shell|Write|Delete|MCP:.*",
        "beforeShellExecution": None,
        "beforeMCPExecution": None,
        "afterShellExecution": None,
        "afterMCPExecution": None,
        "afterFileEdit": None,
        # Of what the three before say nothing.
        "postToolUse": "Delete",
        "stop": None,
    },
    local=".cursor/hooks.json",
    personal=".cursor/hooks.json",
    session="conversation_id",
    prompt_id="generation_id",
    roots="workspace_roots",
    is_flat=True,
    reading=frozenset({"Read", "Grep", "Glob", "LS"}),
    fresh={"version": 1},
)

AGENTS: Final = {agent.name: agent for agent in (CLAUDE_CODE, CODEX, GEMINI, CURSOR)}

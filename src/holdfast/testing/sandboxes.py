"""A sandbox for tests: where there is none, those that need one are skipped, and say why."""

from functools import cache

from holdfast.errors import SandboxUnavailable
from holdfast.sandbox.probing import Sandbox


@cache
def why_none() -> str | None:
    """Returns why commands cannot be run here; None if they can."""
    try:
        Sandbox().check()
    except SandboxUnavailable as exc:
        return f"no sandbox: {exc}"
    return None

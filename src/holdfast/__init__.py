"""Holdfast: an undo button for AI agents.

    import holdfast

    hf = holdfast.open("~/.holdfast")
    agent = hf.namespace("alice")
    agent.files.write("notes.md", "first thoughts")
    before = agent.snapshot("before the risky step")
    agent.files.delete("notes.md")
    agent.restore(before)

The names here are all that is public; every error is in `holdfast.errors`.
"""

from holdfast.engine.limits import Limits
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.retention import Policy
from holdfast.engine.vault import Holdfast, TenantVault
from holdfast.errors import HoldfastError
from holdfast.model import Kind, Plane, Snapshot
from holdfast.wiring import open_vault as open  # noqa: A004 - holdfast.open reads like open

__all__ = [
    "Holdfast",
    "HoldfastError",
    "Kind",
    "Limits",
    "Moment",
    "Namespace",
    "Plane",
    "Policy",
    "Snapshot",
    "TenantVault",
    "open",
]

"""Holdfast: an undo button for AI agents.

    import holdfast

    hf = holdfast.open("~/.holdfast")
    agent = hf.namespace("alice")
    agent.files.write("notes.md", "first thoughts")
    before = agent.snapshot("before the risky step")
    agent.files.delete("notes.md")
    agent.restore(before)

The names here are all that is public; every error is in `holdfast.errors`.

They are looked up when they are first used: `import holdfast` alone costs nothing, which is
what lets the command line answer before an engine would be loaded. `__init__.pyi` beside this
file tells type checkers the same table; `tests/unit/test_cli_lazy_names.py` compares the two.
"""

_HOMES = {
    "Attachment": "holdfast.engine.attachments",
    "AuditProblem": "holdfast.engine.audit",
    "AuditReport": "holdfast.engine.audit",
    "Change": "holdfast.engine.diff",
    "Changes": "holdfast.engine.diff",
    "Collected": "holdfast.engine.collect",
    "Coverage": "holdfast.engine.coverage",
    "DurableStore": "holdfast.durable",
    "Embedder": "holdfast.engine.embedding",
    "FileInfo": "holdfast.engine.files",
    "FoundMemory": "holdfast.model_memories",
    "Health": "holdfast.engine.health",
    "Holdfast": "holdfast.engine.vault",
    "HoldfastError": "holdfast.errors",
    "Imported": "holdfast.engine.archives.imported",
    "Kind": "holdfast.model",
    "Level": "holdfast.engine.health",
    "Limits": "holdfast.engine.limits",
    "Lineage": "holdfast.model_sessions",
    "Loop": "holdfast.engine.health",
    "Memory": "holdfast.model_memories",
    "MergeResult": "holdfast.engine.merge",
    "Moment": "holdfast.engine.namespace",
    "Namespace": "holdfast.engine.namespace",
    "Omission": "holdfast.engine.coverage",
    "Plane": "holdfast.model",
    "Policy": "holdfast.engine.retention",
    "Restored": "holdfast.engine.restore",
    "SessionContext": "holdfast.model_sessions",
    "SessionInfo": "holdfast.model_sessions",
    "Sessions": "holdfast.engine.sessions.door",
    "Snapshot": "holdfast.store",
    "SnapshotInfo": "holdfast.model",
    "State": "holdfast.model_sessions",
    "StateDiff": "holdfast.model_sessions",
    "Status": "holdfast.engine.workspace",
    "Store": "holdfast.store",
    "Task": "holdfast.engine.tasks",
    "TenantVault": "holdfast.engine.vault",
    "Thresholds": "holdfast.engine.health",
    "TraceInfo": "holdfast.model_traces",
    "Turn": "holdfast.model_sessions",
    "Verified": "holdfast.engine.verify",
    "Version": "holdfast.model_sessions",
    "VersionKind": "holdfast.model_sessions",
    "Workspace": "holdfast.engine.workspace",
    "dumps": "holdfast.store",
    "loads": "holdfast.store",
    "open": "holdfast.wiring",
    "verify_audit_file": "holdfast.engine.audit",
}
"""Where each public name lives."""

_NAMED_ELSEWHERE = {"open": "open_vault"}
"""What is called differently at home: `holdfast.open` reads like `open`."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the stub lists them


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - a module here would be a public name

    if name == "errors":
        return import_module("holdfast.errors")
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'holdfast' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=None)
    value = getattr(import_module(home), _NAMED_ELSEWHERE.get(name, name))
    globals()[name] = value  # Found without us from now on.
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "errors"})

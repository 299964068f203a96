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
    "AdminClient": "holdfast.sdk.admin",
    "AsyncAdminClient": "holdfast.sdk.admin",
    "AsyncClient": "holdfast.sdk.client",
    "AsyncRemoteWorkspace": "holdfast.mirror",
    "Attachment": "holdfast.engine.attachments",
    "AuditProblem": "holdfast.model_upkeep",
    "AuditReport": "holdfast.model_upkeep",
    "BackedUp": "holdfast.model_upkeep",
    "Certificate": "holdfast.model_erasures",
    "Change": "holdfast.model_changes",
    "Changes": "holdfast.model_changes",
    "Client": "holdfast.sdk.client",
    "Collected": "holdfast.model_upkeep",
    "Coverage": "holdfast.engine.coverage",
    "Delivery": "holdfast.sdk.values",
    "DurableStore": "holdfast.durable",
    "Embedder": "holdfast.engine.embedding",
    "Entity": "holdfast.model_entities",
    "Event": "holdfast.sdk.values",
    "FileInfo": "holdfast.model_files",
    "FoundMemory": "holdfast.model_memories",
    "Health": "holdfast.model_health",
    "History": "holdfast.model_history",
    "Holdfast": "holdfast.engine.vault",
    "HoldfastError": "holdfast.errors",
    "Imported": "holdfast.engine.archives.imported",
    "Key": "holdfast.sdk.values",
    "Kind": "holdfast.model",
    "Level": "holdfast.model_health",
    "Limits": "holdfast.engine.limits",
    "Lineage": "holdfast.model_sessions",
    "Loop": "holdfast.model_health",
    "Memory": "holdfast.model_memories",
    "Lost": "holdfast.model_upkeep",
    "MergeResult": "holdfast.model_changes",
    "Moment": "holdfast.engine.namespace",
    "Name": "holdfast.model_names",
    "Namespace": "holdfast.engine.namespace",
    "NamespaceInfo": "holdfast.sdk.values",
    "NewKey": "holdfast.sdk.values",
    "NewWebhook": "holdfast.sdk.values",
    "Omission": "holdfast.engine.coverage",
    "Plane": "holdfast.model",
    "Policy": "holdfast.model_upkeep",
    "Quota": "holdfast.sdk.values",
    "Reinstated": "holdfast.model_upkeep",
    "RemoteWorkspace": "holdfast.mirror",
    "Repaired": "holdfast.model_upkeep",
    "Restored": "holdfast.model_changes",
    "Schedule": "holdfast.model_tasks",
    "SessionContext": "holdfast.model_sessions",
    "SessionInfo": "holdfast.model_sessions",
    "Sessions": "holdfast.engine.sessions.door",
    "Size": "holdfast.model",
    "Snapshot": "holdfast.store",
    "SnapshotInfo": "holdfast.model",
    "State": "holdfast.model_sessions",
    "StateDiff": "holdfast.model_sessions",
    "Status": "holdfast.engine.glance",
    "Step": "holdfast.model_history",
    "Store": "holdfast.store",
    "Task": "holdfast.engine.tasks",
    "TaskRun": "holdfast.model_tasks",
    "TenantVault": "holdfast.engine.vault",
    "Thresholds": "holdfast.model_health",
    "Timeline": "holdfast.model",
    "Totals": "holdfast.model_entities",
    "TraceInfo": "holdfast.model_traces",
    "Turn": "holdfast.model_sessions",
    "Verified": "holdfast.model_upkeep",
    "Version": "holdfast.model_sessions",
    "VersionKind": "holdfast.model_sessions",
    "Webhook": "holdfast.sdk.values",
    "Workspace": "holdfast.engine.workspace",
    "dumps": "holdfast.store",
    "loads": "holdfast.store",
    "open": "holdfast.wiring",
    "reinstate": "holdfast.reinstating",
    "verify_audit_file": "holdfast.engine.auditfile",
    "verify_webhook": "holdfast.signing",
}
"""Where each public name lives."""

_NAMED_ELSEWHERE = {"open": "open_vault"}
"""What is called differently at home: `holdfast.open` reads like `open`."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the stub lists them


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - a module here would be a public name

    if name == "errors":
        return import_module("holdfast.errors")
    if name == "__version__":
        return import_module("importlib.metadata").version("holdfast")
    home = _HOMES.get(name)
    if home is None:
        message = f"module 'holdfast' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=None)
    value = getattr(import_module(home), _NAMED_ELSEWHERE.get(name, name))
    globals()[name] = value  # Found without us from now on.
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "errors"})

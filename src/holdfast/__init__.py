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
    "ABSENT": "holdfast.model.values",
    "AdminClient": "holdfast.sdk.admin",
    "AsyncAdminClient": "holdfast.sdk.admin",
    "AsyncClient": "holdfast.sdk.client",
    "AsyncRemoteWorkspace": "holdfast.mirror",
    "Agreed": "holdfast.engine.directory.agreeing",
    "Attachment": "holdfast.engine.directory.attachments",
    "AuditProblem": "holdfast.model.upkeep",
    "AuditReport": "holdfast.model.upkeep",
    "BackedUp": "holdfast.model.upkeep",
    "Certificate": "holdfast.model.erasures",
    "Change": "holdfast.model.changes",
    "Changes": "holdfast.model.changes",
    "Client": "holdfast.sdk.client",
    "Collected": "holdfast.model.upkeep",
    "Coverage": "holdfast.engine.core.coverage",
    "Delivery": "holdfast.model.webhooks",
    "DurableStore": "holdfast.durable",
    "Embedder": "holdfast.engine.core.embedding",
    "Entity": "holdfast.model.entities",
    "Event": "holdfast.model.events",
    "Executed": "holdfast.model.commands",
    "FileInfo": "holdfast.model.files",
    "Finding": "holdfast.model.files",
    "Findings": "holdfast.model.files",
    "MemoryMatch": "holdfast.model.memories",
    "GitBackup": "holdfast.model.gitbackups",
    "GitHostKey": "holdfast.model.gitbackups",
    "GitImported": "holdfast.model.gitbackups",
    "Health": "holdfast.model.traces",
    "History": "holdfast.model.changes",
    "Holdfast": "holdfast.engine.vault",
    "HoldfastError": "holdfast.errors",
    "Imported": "holdfast.model.archives",
    "ImportedFiles": "holdfast.model.archives",
    "Key": "holdfast.model.keys",
    "Kind": "holdfast.model.basics",
    "LatestSnapshot": "holdfast.model.overviews",
    "Level": "holdfast.model.traces",
    "Limits": "holdfast.engine.core.limits",
    "Lineage": "holdfast.model.sessions",
    "Loop": "holdfast.model.traces",
    "Memory": "holdfast.model.memories",
    "Lost": "holdfast.model.upkeep",
    "MergeResult": "holdfast.model.changes",
    "Merged": "holdfast.model.changes",
    "Moment": "holdfast.engine.namespace",
    "Name": "holdfast.model.names",
    "Namespace": "holdfast.engine.namespace",
    "NamespaceInfo": "holdfast.model.upkeep",
    "NamespaceOverview": "holdfast.model.overviews",
    "NewKey": "holdfast.model.keys",
    "NewWebhook": "holdfast.model.webhooks",
    "Omission": "holdfast.engine.core.coverage",
    "Patch": "holdfast.model.changes",
    "Plane": "holdfast.model.basics",
    "Policy": "holdfast.model.upkeep",
    "Quota": "holdfast.model.upkeep",
    "Reinstated": "holdfast.model.upkeep",
    "RemoteWorkspace": "holdfast.mirror",
    "Repaired": "holdfast.model.upkeep",
    "Restored": "holdfast.model.changes",
    "RollbackBucket": "holdfast.model.overviews",
    "RollbackSeries": "holdfast.model.overviews",
    "RunningTask": "holdfast.model.overviews",
    "Schedule": "holdfast.model.tasks",
    "SentDelivery": "holdfast.model.webhooks",
    "SessionContext": "holdfast.model.sessions",
    "SessionInfo": "holdfast.model.sessions",
    "Sessions": "holdfast.engine.sessions.door",
    "Size": "holdfast.model.basics",
    "Snapshot": "holdfast.store",
    "SnapshotInfo": "holdfast.model.basics",
    "State": "holdfast.model.sessions",
    "StateDiff": "holdfast.model.sessions",
    "Status": "holdfast.engine.directory.present",
    "Step": "holdfast.model.changes",
    "StorageDay": "holdfast.model.overviews",
    "Store": "holdfast.store",
    "StoreValue": "holdfast.model.values",
    "Task": "holdfast.engine.tasks.contexts",
    "TaskRun": "holdfast.model.tasks",
    "TenantVault": "holdfast.engine.tenant",
    "Thresholds": "holdfast.model.traces",
    "Timeline": "holdfast.model.basics",
    "Totals": "holdfast.model.entities",
    "TraceInfo": "holdfast.model.traces",
    "Turn": "holdfast.model.sessions",
    "Verified": "holdfast.model.upkeep",
    "Version": "holdfast.model.sessions",
    "VersionKind": "holdfast.model.sessions",
    "Webhook": "holdfast.model.webhooks",
    "Workspace": "holdfast.engine.workspace",
    "dumps": "holdfast.store",
    "loads": "holdfast.store",
    "open": "holdfast.wiring",
    "reinstate": "holdfast.reinstating",
    "verify_audit_file": "holdfast.engine.audit.export",
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

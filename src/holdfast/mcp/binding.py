"""Binds a server to what it acts on: once, when it is started.

A vault is opened for somebody who only adds. A directory that a namespace is attached to is always
reached through: what is done to the namespace alone would not reach the files in it.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from os import PathLike
from typing import Final, cast

from holdfast.engine.namespace import Namespace
from holdfast.engine.tenant import TenantVault
from holdfast.errors import DirectoryMissing, Forbidden, NamespaceNotFound, Unavailable
from holdfast.mcp.subjects import OfDirectory, OfNamespace, Subject
from holdfast.model.keys import Scope
from holdfast.sdk.client import Client
from holdfast.settings import ClientSettings

ACTOR: Final = "mcp"
"""Who a timeline says it was."""

_LOOKS_S: Final = 5.0
"""How long a server has to say whose key it is: an agent waits for us meanwhile."""


@contextmanager
def of_directory(vault: TenantVault, path: str | PathLike[str]) -> Generator[Subject]:
    """Opens the attached directory at a path."""
    workspace = vault.adding_only().acting_as(ACTOR).find_workspace(path)
    if workspace is None:
        raise DirectoryMissing(str(path))
    with workspace:
        name = workspace.namespace.name
        title = f"the directory {workspace.path} (namespace {name})"
        yield OfDirectory(workspace, vault=vault, title=title)


@contextmanager
def of_namespace(vault: TenantVault, name: str) -> Generator[Subject]:
    """Opens a namespace of a vault, through the directory that it is attached to if it is."""
    attached = [each.path for each in vault.workspaces() if each.namespace == name]
    if attached:
        with of_directory(vault, attached[0]) as subject:
            yield subject
        return
    if name not in vault.namespaces():
        raise NamespaceNotFound(name)
    agent = vault.adding_only().acting_as(ACTOR).namespace(name)
    yield OfNamespace(agent, title=f"the namespace {name}")


@contextmanager
def of_server(
    settings: ClientSettings, name: str | None, *, note: Callable[[str], None]
) -> Generator[Subject]:
    """Opens a namespace of a server; `note` is told if the key may do more than it should."""
    asked = settings.namespace if name is None else name
    with Client(settings.api_key, namespace=asked, url=settings.url) as client:
        locked = _check_key(settings, asked, note)
        # Both doors have the same names for all that is used of them here.
        agent = cast("Namespace", client)
        title = f"the namespace {asked or locked or 'default'} on {settings.url}"
        yield OfNamespace(agent, title=title)


def _check_key(
    settings: ClientSettings, name: str | None, note: Callable[[str], None]
) -> str | None:
    """Says what is wrong with a key; returns the namespace that it is locked to."""
    try:
        with Client(
            settings.api_key, namespace=name, url=settings.url, timeout_s=_LOOKS_S, retries=0
        ) as client:
            me = client.me()
    except Unavailable as exc:
        # It may come up later: until then every tool says so.
        note(f"{settings.url} does not answer yet: {exc}")
        return None
    if me.scope is Scope.ADMIN:
        raise Forbidden("an operator's key opens no agent's data").with_hint(
            "Set HOLDFAST_API_KEY to a key of `holdfast keys create NAME --add-only`."
        )
    if me.scope is not Scope.ADD_ONLY:
        note(
            "this key can take history away, and whoever reads this process's environment has it; "
            "`holdfast keys create NAME --add-only --namespace NAME` makes one that only adds"
        )
    return me.namespace

"""Keys, where a server says more than a vault: what does not fit together, and whose a key is."""

from typing import Final

from holdfast.engine.tenancy.keys import Keys
from holdfast.model.keys import Me, NewKey
from holdfast.operations.keys import CreateKey, GetMe
from holdfast.server.doors import answers, routes_of
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route


@answers(CreateKey)
def create(caller: Caller, wanted: CreateKey) -> NewKey:
    """Makes a key of one kind."""
    if wanted.admin and wanted.add_only:
        raise Unfit("a key is an admin's or adds only, not both", param="add_only")
    return caller.vault.keys.create(**vars(wanted))


@answers(GetMe)
def me(caller: Caller, _: GetMe) -> Me:
    """Says whose key this is, and what it opens."""
    key = caller.key
    return Me(
        workspace_id=caller.vault.tenant_id,
        key_id=key.id,
        key_name=key.name,
        scope=key.scope,
        namespace=key.namespace,
        capabilities=["files", "snapshots", "sessions", "store", "events", "webhooks"],
    )


ROUTES: Final[list[Route]] = [
    *routes_of(Keys, lambda caller: caller.vault.keys, without=[CreateKey]),
    create,
    me,
]

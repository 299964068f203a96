"""API keys of a workspace: made, listed, revoked, by its admins alone."""

from datetime import timedelta
from typing import Any, Final

from holdfast.model.keys import KeyInfo, Scope
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, delete, get, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.keys import KeyAnswer, KeyList, KeyRequest, NewKeyAnswer, RevokedAnswer

_KEYS: Final = "/v1/workspaces/{workspace_id}/keys"

SHOWN: Final = {Scope.ADMIN: "admin", Scope.RUNTIME: "workspace", Scope.ADD_ONLY: "add-only"}
"""What a scope is called on the wire."""


@post(_KEYS, status=201, who=Who.OPERATOR, is_secret=True)
def create(caller: Caller, workspace_id: str, data: KeyRequest) -> NewKeyAnswer:
    """Makes a key; its secret is in this answer and nowhere else."""
    seconds = data.expires_in_seconds
    key, secret = caller.vault.keys.create(
        data.name,
        scope=_scope_of(data),
        namespace=data.namespace,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        rate_limit=data.rate_limit,
    )
    return NewKeyAnswer(**fields_of(key), api_key=secret)


@get(_KEYS, who=Who.OPERATOR)
def list_(caller: Caller, workspace_id: str) -> KeyList:
    """Lists the keys that are not revoked, oldest first."""
    return KeyList(keys=[KeyAnswer(**fields_of(key)) for key in caller.vault.keys.list()])


@delete(f"{_KEYS}/{{key_id}}", who=Who.OPERATOR)
def revoke(caller: Caller, workspace_id: str, key_id: str) -> RevokedAnswer:
    """Revokes a key: the next request with it is refused, whoever answers it."""
    return RevokedAnswer(key_id=caller.vault.keys.revoke(key_id).id, revoked=True)


def _scope_of(data: KeyRequest) -> Scope:
    if data.admin and data.add_only:
        raise Unfit("a key is an admin's or adds only, not both", param="add_only")
    if data.admin:
        return Scope.ADMIN
    return Scope.ADD_ONLY if data.add_only else Scope.RUNTIME


def fields_of(key: KeyInfo) -> dict[str, Any]:
    """Returns a key's fields as they stand on the wire."""
    return {
        "key_id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scope": SHOWN[key.scope],
        "namespace": key.namespace,
        "created_at": shown(key.created_at),
        "expires_at": shown_or_none(key.expires_at),
        "last_used_at": shown_or_none(key.last_used_at),
        "rate_limit": key.rate_limit,
        "requests": key.requests,
    }


ROUTES: Final[list[Route]] = [create, list_, revoke]

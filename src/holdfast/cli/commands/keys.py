"""`holdfast keys`: makes, lists and revokes the API keys of a server's vault.

It opens the vault itself, whether or not a server runs on it: who can read the vault needs no
key. This is how a tenant comes to its first key, and an operator who lost all of them to a new one.
"""

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import add_config, served_place
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, Refused, usage
from holdfast.engine.core.tenants import DEFAULT_TENANT
from holdfast.escaping import escaped
from holdfast.model.keys import Key
from holdfast.server.config import configure as set_up
from holdfast.settings import holds_vault

EXAMPLES = """\
examples:
  holdfast keys                                    list them
  holdfast keys create agent-7 --namespace alice   a runtime key for one namespace
  holdfast keys create agent-7 --add-only          one that takes no history away
  holdfast keys create ops --admin                 an operator's key
  holdfast keys create ops --admin --tenant acme   the first key of another tenant
  holdfast keys revoke key-k3v7…
  holdfast keys first                              those of a server's first start
"""


_NEEDS = {
    "create": ("a name", "`holdfast keys create NAME` makes one for an agent."),
    "revoke": ("an id", "`holdfast keys list` has the ids."),
}


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Makes, lists and revokes API keys. A key is shown once, when it is made. The vault is "
        "the one that `holdfast serve` would serve."
    )
    parser.epilog = EXAMPLES
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "create", "revoke", "first"),
        metavar="ACTION",
        default="list",
        help="list, create, revoke, or first: those that a server made, until one is used",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="a name, or the id to revoke")
    parser.add_argument("--tenant", metavar="NAME", default=DEFAULT_TENANT, help="whose keys")
    parser.add_argument("--admin", action="store_true", help="make an operator's key")
    parser.add_argument(
        "--add-only", action="store_true", help="make a key that takes nothing of a history away"
    )
    parser.add_argument("--namespace", metavar="NAME", help="the only namespace that it reaches")
    parser.add_argument("--expires-in", metavar="DAYS", type=int, help="when it ends")
    parser.add_argument("--rate-limit", metavar="N", type=int, help="requests a minute")
    add_config(parser)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    if arguments.action in _NEEDS and not arguments.name:
        what, hint = _NEEDS[arguments.action]
        raise usage(f"`holdfast keys {arguments.action}` needs {what}", hint=hint)
    with _opened(console, may_make=arguments.action == "create") as vault:
        if arguments.action in ("list", "first") and arguments.tenant not in vault.tenants():
            made = f"`holdfast keys create NAME --admin --tenant {shlex.quote(arguments.tenant)}`"
            message = f"there is no tenant {arguments.tenant!r}"
            raise usage(message, hint=f"{made} makes it, with its first key.")
        tenant = vault.tenant(arguments.tenant)
        match arguments.action:
            case "create":
                _create(tenant, arguments, console)
            case "revoke":
                _revoke(tenant, arguments, console)
            case "first":
                _first(tenant, console)
            case _:
                _list(tenant, console)
    return DONE


def _create(tenant: "holdfast.TenantVault", arguments: Namespace, console: Console) -> None:
    days = arguments.expires_in
    if arguments.admin and arguments.add_only:
        raise usage("--admin and --add-only do not go together", hint="Choose one of them.")
    key = tenant.keys.create(
        arguments.name,
        admin=arguments.admin,
        add_only=arguments.add_only,
        namespace=arguments.namespace,
        expires_in=None if days is None else timedelta(days=days),
        rate_limit=arguments.rate_limit,
    )
    document = {**_document(key), "workspace_id": tenant.tenant_id, "api_key": key.api_key}
    lines = [
        f"workspace  {escaped(tenant.tenant_id)}",
        f"key id     {escaped(key.id)}",
        key.api_key,
    ]
    console.answer(document=lambda: document, lines=lambda: lines)
    console.say("It is shown this once: only its hash is kept.")


def _first(tenant: "holdfast.TenantVault", console: Console) -> None:
    keys = tenant.keys.first()
    document = {
        "workspace_id": tenant.tenant_id,
        "keys": [{**_document(key), "api_key": key.api_key} for key in keys],
    }
    lines = [f"{key.scope.value}  {escaped(key.api_key)}" for key in keys]
    console.answer(document=lambda: document, lines=lambda: lines)
    if not keys:
        console.say("There are none: they were used, or given to the server, or it made a file.")


def _revoke(tenant: "holdfast.TenantVault", arguments: Namespace, console: Console) -> None:
    key = next((each for each in tenant.keys.list() if each.id == arguments.name), None)
    tenant.keys.revoke(arguments.name)
    assert key is not None  # noqa: S101 - else there was nothing to revoke
    console.answer(document=lambda: _document(key), lines=list)
    console.say(f"Revoked {escaped(key.id)} ({escaped(key.name)}).")


def _list(tenant: "holdfast.TenantVault", console: Console) -> None:
    keys = tenant.keys.list()
    document = {"workspace_id": tenant.tenant_id, "keys": [_document(key) for key in keys]}
    console.answer(document=lambda: document, lines=lambda: _lines(keys, console))
    if not keys:
        console.say("There are no keys yet; `holdfast serve` makes the first two.")


def _lines(keys: list[Key], console: Console) -> Iterator[str]:
    for key in keys:
        used = (
            "never used"
            if key.last_used_at is None
            else words.ago(key.last_used_at, console.clock())
        )
        reach = "" if key.namespace is None else f" for {escaped(key.namespace)}"
        yield f"{escaped(key.id)}  {key.scope.value}{reach}  {escaped(key.name)}  {used}"


def _document(key: Key) -> dict[str, object]:
    return {
        "key_id": key.id,
        "name": key.name,
        "prefix": key.prefix,
        "scope": key.scope.value,
        "namespace": key.namespace,
        "rate_limit": key.rate_limit,
        "created_at": key.created_at.isoformat(),
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
        "last_used_at": None if key.last_used_at is None else key.last_used_at.isoformat(),
    }


@contextmanager
def _opened(console: Console, *, may_make: bool) -> Generator["holdfast.Holdfast"]:
    config = set_up(console.environ, **served_place(console))
    if not (may_make or holds_vault(config.location)):
        raise Refused(
            f"there is no vault at {console.location_text(config.location)}",
            code="no_vault",
            exit_code=NOT_FOUND,
            hint="`holdfast serve` makes one, and so does `holdfast keys create NAME`.",
        )
    with holdfast.open(config.location, objects=config.objects) as vault:
        yield vault

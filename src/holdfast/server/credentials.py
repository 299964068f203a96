"""The first start: a tenant needs a key to admit anybody, and somebody has to be told it.

Keys are made once, when a vault has none. Beside a vault in a directory they are kept in
`credentials.json`, readable by its owner alone, so that scripts and the person at the terminal find
them again. Servers of a vault in a database need no disk: there the catalog has what nobody has
been given, until it is first used.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.engine.vault import Holdfast
from holdfast.errors import HoldfastError
from holdfast.model.keys import Scope
from holdfast.server.config import Config

FILE_NAME: Final = "credentials.json"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a first start made."""

    path: Path | None
    """The file that has them; None if the catalog does, until one of them is used."""
    workspace_id: str
    admin_key: str = field(repr=False)
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Started:
    """A server that is about to answer."""

    url: str
    workspace_id: str
    made: Credentials | None
    """The keys, if this was the first start."""
    link: str | None = field(default=None, repr=False)
    """Where a person is signed in to the console, once."""


def make_credentials(vault: Holdfast, config: Config) -> Credentials | None:
    """Makes the keys of a vault that has none yet; None for one that has some, or was given both.

    Of those that were given to a server of a database nobody has to be told.
    """
    if config.database_url is None:
        return _make_in_file(vault, config)
    if vault.keys.list():
        return None
    made = _new(vault, config, path=None)
    shows_later = {made.admin_key, made.api_key} - {config.admin_key, config.api_key}
    is_first = vault.keys.create_first(
        admin=made.admin_key, runtime=made.api_key, shows_later=shows_later
    )
    # If not, another server of the same vault was: it tells them.
    return made if is_first and shows_later else None


def _make_in_file(vault: Holdfast, config: Config) -> Credentials | None:
    """Makes them, and a file that has them.

    The file is on disk before the keys are made, and gets its name after: whatever happens
    between, a later start finds keys that somebody was told, or none.
    """
    path = config.data / FILE_NAME
    # Of its own: another server of the same vault may be starting at the same moment.
    aside = path.with_suffix(f".{os.getpid()}.new")
    if vault.keys.list():
        found = _found_aside(vault, path)
        _clear_aside(vault, path)
        return found
    config.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = _new(vault, config, path=path)
    try:
        _write(aside, made)
        _sync(config.data)
        is_first = vault.keys.create_first(admin=made.admin_key, runtime=made.api_key)
    except (OSError, HoldfastError):
        # Whether they were made is for the vault to say; if it cannot, a later start asks again.
        with suppress(OSError, HoldfastError):
            if not vault.keys.list():
                aside.unlink()
        raise
    if is_first:
        with suppress(FileNotFoundError):  # Another start has found it, and named it.
            aside.replace(path)
        _sync(config.data)
    _clear_aside(vault, path)
    return made if is_first else None


def _new(vault: Holdfast, config: Config, *, path: Path | None) -> Credentials:
    return Credentials(
        path,
        vault.tenant_id,
        config.admin_key or vault.keys.new_secret(Scope.ADMIN),
        config.api_key or vault.keys.new_secret(Scope.RUNTIME),
    )


def _found_aside(vault: Holdfast, path: Path) -> Credentials | None:
    """Returns the keys of a start that died before it could tell them; None if none did."""
    for aside in path.parent.glob(f"{path.stem}.*.new"):
        try:
            made = _read_aside(aside, path)
        except OSError:
            continue
        is_made = made is not None and vault.admit(made.admin_key) is not None
        if is_made and not path.exists():
            with suppress(FileNotFoundError):  # Another start has found it, and named it.
                aside.replace(path)
            return made
    return None


def _read_aside(aside: Path, path: Path) -> Credentials | None:
    """Returns the keys that a start has written down; None for what is not whole."""
    data = aside.read_bytes()
    try:
        told = json.loads(data)
        return Credentials(path, told["workspace_id"], told["admin_key"], told["api_key"])
    except (ValueError, KeyError, TypeError):
        return None


def _clear_aside(vault: Holdfast, path: Path) -> None:
    """Removes what starts have left that made no keys: there are keys, and these are none.

    Who is about to make some finds that another was first, and misses nothing.
    """
    for aside in path.parent.glob(f"{path.stem}.*.new"):
        # What cannot be read now may be the only place that has a key.
        with suppress(OSError):
            made = _read_aside(aside, path)
            if made is None or vault.admit(made.admin_key) is None:
                aside.unlink()


def _write(path: Path, made: Credentials) -> None:
    body = {
        "workspace_id": made.workspace_id,
        "admin_key": made.admin_key,
        "api_key": made.api_key,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(body, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Waits until the names in a directory are on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

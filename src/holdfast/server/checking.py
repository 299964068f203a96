"""Says what a server would be set up with, and what would keep it from starting on this machine.

Nothing is made and nobody else is asked: neither the database nor a bucket, which `holdfast migrate
--check` does. Secrets are withheld, wherever they came from.
"""

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

from holdfast import settings
from holdfast.blobs.port import BUCKET_SCHEMES
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.sandbox.probing import Sandbox
from holdfast.server.config import Config, to_environ
from holdfast.server.tls import load_certificate
from holdfast.server.variables import ADMIN_KEY, API_KEY, DATA, ELSEWHERE, VARIABLES
from holdfast.settingsfile import SECRETS, key_of, read_file, settle

WITHHELD: Final = "…"
OPTION, ENVIRONMENT, USUAL = "option", "environment", "usual"


class Setting(NamedTuple):
    """One setting of a server."""

    name: str
    """The variable."""
    key: str
    """What a file calls it."""
    value: str
    """What would be used, as the variable has it; empty for nothing."""
    origin: str
    """A file, or `option`, `environment` or `usual`."""


def iter_settings(
    config: Config, environ: Mapping[str, str], flags: Mapping[str, object]
) -> Iterator[Setting]:
    """Yields all settings, in the order of their table, and from where each is."""
    settled = settle(environ)
    given = {name for name, value in flags.items() if value is not None}
    fields = {each.name: each.field for each in VARIABLES} | {DATA: "data"}
    secret = {each.name for each in VARIABLES if each.is_secret}
    used = to_environ(config)
    used |= {ADMIN_KEY: config.admin_key or "", API_KEY: config.api_key or ""}
    for name in (DATA, *(each.name for each in VARIABLES), *settings.EXEC.values()):
        text = used[name]
        shown = WITHHELD if text and name in secret else settings.without_password(text)
        if fields.get(name) in given:
            origin = OPTION
        elif name in settled.origins:
            origin = settled.origins[name]
        else:
            origin = ENVIRONMENT if settled.get(name) else USUAL
        yield Setting(name, key_of(name), shown, origin)
    for name, origin in settled.origins.items():
        if name not in used:
            # What is read elsewhere. Libraries have secrets under names that we do not know.
            is_plain = name in ELSEWHERE and name not in SECRETS
            yield Setting(name, key_of(name), settled[name] if is_plain else WITHHELD, origin)


def check_means(config: Config) -> None:
    """Raises what keeps a server from starting whose files or whose sandbox cannot be used.

    Said where somebody looks, and not when an agent first asks for it.
    """
    for check in _CHECKS:
        check(config)


def _check_sandbox(config: Config) -> None:
    if config.commands.is_on:
        Sandbox(config.data, cgroup=config.commands.cgroup).check()


def _check_git_certificates(config: Config) -> None:
    try:
        if config.git_certificates is not None:
            read_file(config.git_certificates)
    except ValueError as exc:
        message = f"{settings.GIT_CERTIFICATES}: {exc}"
        raise InvalidValue(message) from exc


_CHECKS: Final = (load_certificate, _check_sandbox, _check_git_certificates)


def iter_faults(config: Config) -> Iterator[str]:
    """Yields what would keep the server from starting, as far as this machine shows it."""
    for check in _CHECKS:
        try:
            check(config)
        except HoldfastError as exc:
            yield str(exc)
    if config.database_url is not None and find_spec("psycopg") is None:
        yield "PostgreSQL needs `pip install 'holdfast[postgres]'`"
    objects = config.objects or ""
    if objects.startswith(BUCKET_SCHEMES):
        if find_spec("obstore") is None:
            yield "a bucket needs `pip install 'holdfast[s3]'`"
        else:
            yield from _not_a_bucket(objects)
    elif settings.is_url(objects):
        yield f"{settings.OBJECTS_URL} is a directory, s3://…, gs://… or az://…"
    else:
        yield from _not_writable(Path(objects) if objects else config.data)
    if config.spool is not None:
        yield from _not_writable(config.spool)


def _not_a_bucket(url: str) -> Iterator[str]:
    """Says so, if a URL names no bucket, or more than one."""
    from holdfast.blobs.buckets import Address  # noqa: PLC0415 - by those who have one

    try:
        Address.of(url)
    except HoldfastError as exc:
        yield f"{settings.OBJECTS_URL}: {exc}"


def _not_writable(folder: Path) -> Iterator[str]:
    """Says so, if a directory is none that could be written to, nor made."""
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        yield f"{folder} cannot be made: {place} is no directory"
    elif not os.access(place, os.W_OK | os.X_OK):
        yield f"{folder} cannot be written to"

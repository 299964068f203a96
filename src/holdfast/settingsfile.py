"""Settings that stand in files: those of a TOML file, and secrets that have a file each.

`HOLDFAST_CONFIG` names the TOML file. A setting is called there as its variable is, without
`HOLDFAST_` and in small letters; variables that are read by libraries stand by their own names
under `[environment]`. `NAME_FILE` names a file with nothing in it but the secret `NAME`.

What is found becomes part of the environment, so that whoever reads settings knows nothing of
files. What stands in the environment itself goes before what stands in the TOML file. Whatever is
wrong is named, all of it at once.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

CONFIG: Final = "HOLDFAST_CONFIG"

BACKUP_KEY: Final = "HOLDFAST_BACKUP_KEY"
"""What backups are encrypted with."""

SECRETS: Final = (
    "HOLDFAST_DATABASE_URL",
    "HOLDFAST_ADMIN_KEY",
    "HOLDFAST_API_KEY",
    "HOLDFAST_SECRETS_KEY",
    BACKUP_KEY,
    "HOLDFAST_MCP_TOKEN",
    "PGPASSWORD",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_KEY",
)
"""Variables whose text may be in a file of its own, which `NAME_FILE` names.

No others: `AWS_WEB_IDENTITY_TOKEN_FILE`, for one, is a library's own.
"""

_OURS: Final = "HOLDFAST_"
_OF_A_FILE: Final = "_FILE"
_LIBRARIES: Final = "environment"
_MOST_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"[a-z][a-z0-9_]*")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9_]*")


class Settled(dict[str, str]):
    """An environment with what files say in it."""

    given: Mapping[str, str]
    """The environment as it was without them."""
    origins: dict[str, str]
    """Which file said it, for each variable of which a file did."""
    problems: list[str]
    """What is wrong with the files."""


def settle(environ: Mapping[str, str], *, secrets: Iterable[str] | None = None) -> Settled:
    """Returns an environment with what the files say that it names; nothing is raised.

    With `secrets`, these alone are looked for, and no TOML file: for who is no server.
    """
    if isinstance(environ, Settled):
        return environ
    settled = Settled(environ)
    settled.given, settled.origins, settled.problems = dict(environ), {}, []
    if secrets is None:
        _add_settings(settled)
    for name in SECRETS if secrets is None else secrets:
        path = settled.pop(name + _OF_A_FILE, None)
        settled.origins.pop(name + _OF_A_FILE, None)
        if path == "":
            # No file is named, where one was to be: whoever refuses an empty secret refuses that.
            settled.setdefault(name, "")
        elif path and settled.get(name):
            settled.problems.append(f"{name} and {name}{_OF_A_FILE} are both set: leave one out")
        elif path:
            try:
                settled[name] = _read_secret(path)
                settled.origins[name] = path
            except ValueError as exc:
                settled.problems.append(f"{name}{_OF_A_FILE}: {exc}")
    return settled


def backup_key(environ: Mapping[str, str]) -> str | None:
    """Returns what backups are encrypted with; `ValueError` if that is empty or cannot be read.

    A command that was to print the key and failed would send everything in plain.
    """
    settled = settle(environ, secrets=[BACKUP_KEY])
    if settled.problems:
        raise ValueError(settled.problems[0])
    key = settled.get(BACKUP_KEY)
    if key is None:
        return None
    # As of a file: a line that ends there is no part of the key.
    key = key.strip()
    if not key:
        message = f"{BACKUP_KEY}, or {BACKUP_KEY}{_OF_A_FILE}, is empty"
        raise ValueError(f"{message}: whoever wants a plain backup sets none")
    return key


def adopt(environ: Settled) -> None:
    """Makes what files said part of this process's environment, for libraries and workers."""
    for name in (CONFIG, *(name + _OF_A_FILE for name in SECRETS)):
        os.environ.pop(name, None)
    os.environ.update({name: environ[name] for name in environ.origins})


def as_given(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns an environment without what files said: for programs that are none of ours.

    What somebody has put into a file is for us, and an agent's command would only have to print it.
    """
    return environ.given if isinstance(environ, Settled) else environ


def key_of(name: str) -> str:
    """Returns what a variable is called in a TOML file."""
    return name.removeprefix(_OURS).lower() if name.startswith(_OURS) else name


def _add_settings(settled: Settled) -> None:
    path = settled.pop(CONFIG, "")
    if not path:
        return
    try:
        found = _read_toml(path)
    except ValueError as exc:
        settled.problems.append(str(exc))
        return
    # Whoever is asked last would decide between a secret and a file that has it.
    own = {name for name, text in settled.items() if text}
    for name, value in found:
        if own.isdisjoint({name, name + _OF_A_FILE, name.removesuffix(_OF_A_FILE)}):
            try:
                settled[name] = _text_of(value)
                settled.origins[name] = path
            except ValueError as exc:
                settled.problems.append(f"{path}: {key_of(name)} {exc}")


def _read_toml(path: str) -> list[tuple[str, Any]]:
    """Returns the variables that a file is about, with what it says of them."""
    import tomllib  # noqa: PLC0415 - for those alone who have such a file

    try:
        document = tomllib.loads(_read(path))
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        message = f"{path} is no TOML: {exc}"
        raise ValueError(message) from exc
    read: object = document.pop(_LIBRARIES, {})
    if not isinstance(read, dict):
        message = f"{path}: [{_LIBRARIES}] is a table of variables"
        raise ValueError(message)  # noqa: TRY004 - a setting that is wrong, and no argument
    libraries = cast("dict[str, Any]", read)  # TOML has no other keys.
    wrong = [key for key in document if not _KEY.fullmatch(key)]
    wrong += [key for key in libraries if not _NAME.fullmatch(key) or key.startswith(_OURS)]
    if wrong:
        message = f"{path}: {', '.join(map(repr, wrong))} cannot be the name of a setting there"
        raise ValueError(message)
    ours = {_OURS + key.upper(): value for key, value in document.items()}
    return [*ours.items(), *libraries.items()]


def _text_of(value: object) -> str:
    """Returns a value as a variable has it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str | int | float):
        text = str(value)
    elif isinstance(value, list):
        items = cast("list[object]", value)  # Whatever stands there.
        parts = [_text_of(each) for each in items if not isinstance(each, list)]
        if len(parts) != len(items) or any("," in part for part in parts):
            raise ValueError("is a list of names or numbers, without commas in them")
        text = ",".join(parts)
    else:
        raise ValueError("is text, a number, true, false, or a list of these")  # noqa: TRY004 - as above
    if "\0" in text:
        raise ValueError("has a NUL in it")
    return text


def _read_secret(path: str) -> str:
    text = _read(path).strip()
    if not text or "\0" in text:
        message = f"{path} holds no secret"
        raise ValueError(message)
    return text


def _read(path: str) -> str:
    """Returns the text of a file; raises `ValueError` as `read_file` does."""
    try:
        return read_file(path).decode()
    except UnicodeDecodeError as exc:
        message = f"{path!r} is no text in UTF-8"
        raise ValueError(message) from exc


def read_file(path: str) -> bytes:
    """Returns what is in a file that a setting names; raises `ValueError` if it cannot be that.

    What only looks like a file is none, as a pipe, for which everybody would wait; nor is what is
    larger than any setting, secret or certificate, and would fill the memory.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            mode = os.fstat(descriptor).st_mode
            data = os.read(descriptor, _MOST_BYTES + 1) if stat.S_ISREG(mode) else None
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as exc:
        message = f"{path!r} cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise ValueError(message) from exc
    if data is None:
        kind = "a pipe, which might never end" if stat.S_ISFIFO(mode) else "no file"
        message = f"{path!r} is {kind}: name a file"
        raise ValueError(message)
    if len(data) > _MOST_BYTES:
        message = f"{path!r} has more than {_MOST_BYTES} bytes"
        raise ValueError(message)
    return data

"""Puts an engine together: the only place that knows which adapters there are."""

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from holdfast.blobs.disk import DiskBlobStore
from holdfast.blobs.places import Place
from holdfast.blobs.port import BUCKET_SCHEMES, BlobStore
from holdfast.blobs.scattered import iter_scattered
from holdfast.catalog.port import Catalog
from holdfast.catalog.sqlite import SqliteCatalog, find_applied
from holdfast.catalog.sqlite_driver import bind_as_they_are
from holdfast.catalog.sqlite_packs import iter_inline_packs
from holdfast.catalog.tables import missing_migrations, needed_format, newest_format
from holdfast.engine.backups.folders import open_folder
from holdfast.engine.backups.sealing import SealedPlace
from holdfast.engine.core.context import Clock, Context, system_clock
from holdfast.engine.core.embedding import Embedder, EmbedFunction
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.linediff import Unify, unify
from holdfast.engine.objects.stores import Mark, mark_store
from holdfast.engine.planes.commanding import Commands
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    CatalogLost,
    Incompatible,
    InvalidValue,
    StorageReadOnly,
    Unavailable,
)
from holdfast.ids import IdMaker
from holdfast.model.upkeep import Formats, Unfinished
from holdfast.settings import (
    DatabaseSettings,
    ExecSettings,
    cache_settings,
    database_settings,
    exec_settings,
    has_lost_catalog,
    has_packs,
    is_url,
    process_environ,
    without_password,
)
from holdfast.settingsfile import backup_key

T = TypeVar("T")

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


_NEARLY_BUCKETS: Final = tuple(scheme.removesuffix("/") for scheme in BUCKET_SCHEMES)

_IN_A_DATABASE: Final = (
    "If its catalog is in a database, name that: HOLDFAST_DATABASE_URL, or `--data postgresql://…` "
    "with `--objects`."
)


def own_process() -> None:
    """Lets adapters change what holds for a whole process, since nobody else uses it."""
    bind_as_they_are()


def open_vault(
    location: str | os.PathLike[str],
    *,
    objects: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    clock: Clock = system_clock,
    ids: IdMaker | None = None,
    embed: Embedder | EmbedFunction | None = None,
    hands_texts: bool = False,
    unify: Unify = unify,
    commands: ExecSettings | None = None,
    database: DatabaseSettings | None = None,
    secrets_key: str | None = None,
    private_remotes: bool = True,
    git_certificates: str | os.PathLike[str] | None = None,
) -> Holdfast:
    """Opens the vault in a directory, or in a PostgreSQL database with its packs elsewhere.

    `objects` is a directory for packs, or a bucket, of which parts are kept where the environment
    says.
    With `embed`, memories are found by their meaning, too. With `hands_texts`, the parts of states
    and turns are JSON text (`msgspec.Raw`), for somebody who sends them on. `unify` compares texts.
    Whether commands are run, and what they may take, says `commands`, and how a database is used
    `database`; else the environment does.
    Secrets of others are encrypted with `secrets_key`; git remotes may be at `private_remotes`, and
    those over https are known by `git_certificates`, a file, in place of the system's.
    """
    told = commands or said(exec_settings)
    text = os.fspath(location)
    folder = None if text.startswith(POSTGRES_SCHEMES) else _to_folder(text)
    if folder is not None and has_lost_catalog(str(folder)):
        # Before anything is made there: a lost catalog is not a new vault.
        lost = CatalogLost(f"the vault in {folder}", has_packs=has_packs(str(folder)))
        if not (folder / "locks").exists():
            # A server with a database has packs there, and nothing else of a vault.
            lost.hint = f"{_IN_A_DATABASE} {lost.hint}"
        raise lost
    if objects is None:
        objects, is_apart = _packs_in(folder), False
    else:
        objects, is_apart = os.fspath(objects), True
    blobs, packs = open_blobs(objects)
    catalog = (
        _open_postgres(text, ids, database) if folder is None else SqliteCatalog(folder, ids=ids)
    )
    folders = (*(() if folder is None else (folder,)), *packs)
    context = Context.of(
        catalog,
        blobs,
        clock=clock,
        ids=ids,
        limits=limits,
        state=_state_of(folder),
        folders=folders,
        embedder=embed if isinstance(embed, Embedder) or embed is None else Embedder(embed),
        hands_texts=hands_texts,
        unify=unify,
        salvage=find_packs,
        open_place=partial(open_place, packs=objects),
        commands=_commands(told, folders),
        secrets_key=secrets_key,
        private_remotes=private_remotes,
        # Git is started elsewhere.
        git_certificates=None if git_certificates is None else Path(git_certificates).absolute(),
    )
    store = without_password(os.fspath(objects))
    return Holdfast(context, store=store, is_apart=is_apart)


def open_unfinished(
    url: str, *, objects: str | os.PathLike[str], unfinished: Unfinished
) -> Holdfast:
    """Opens a vault in a database that is being made of a backup, for who makes it."""
    blobs, packs = open_blobs(objects)
    catalog = _open_postgres(url, unfinished=unfinished)
    context = Context.of(catalog, blobs, state=_state_of(None), folders=packs)
    return Holdfast(context, store=without_password(os.fspath(objects)), is_apart=True)


def find_formats(location: str | os.PathLike[str]) -> Formats:
    """Says of which format the catalog of a vault is; changes nothing."""
    text = os.fspath(location)
    if text.startswith(POSTGRES_SCHEMES):
        kind, applied = "postgres", load_postgres().find_applied(text)
    else:
        kind, applied = "sqlite", find_applied(Path(text).expanduser())
    missing = missing_migrations(kind, applied=applied)
    found = max((number for number, _ in applied), default=0)
    return Formats(
        format=found,
        newest=newest_format(),
        missing=[each.name for each in missing],
        is_beside=all(needed_format(each.number, each.name) <= found for each in missing),
    )


def check_store(place: str | os.PathLike[str]) -> None:
    """Asks the bucket that packs are in for next to nothing; raises if it does not answer."""
    if os.fspath(place).startswith(BUCKET_SCHEMES):
        open_blobs(place)[0].find_mark()


def begin_store(
    location: str | os.PathLike[str],
    packs: str | os.PathLike[str],
    *,
    mark: Mark,
    chores: Mapping[str, datetime],
    is_apart: bool,
) -> None:
    """Says whose packs a place has, which have just been put there, and tells the catalog."""
    with closing(SqliteCatalog(_to_folder(os.fspath(location)))) as catalog:
        with catalog.write() as transaction:
            for name, done_at in chores.items():
                transaction.set_chore(name, done_at=done_at)
        mark_store(
            catalog, open_blobs(packs)[0], vault=mark.vault, now=mark.since, is_apart=is_apart
        )


def open_blobs(place: str | os.PathLike[str]) -> tuple[BlobStore, tuple[Path, ...]]:
    """Returns the blobs in a directory or a bucket, and the directories that are theirs."""
    if not os.fspath(place).startswith(BUCKET_SCHEMES):
        folder = _to_folder(place)
        return DiskBlobStore(folder), (folder,)
    blobs = _load_bucket("bucket").open_bucket(os.fspath(place))
    cache = said(cache_settings)
    if cache is None:
        return blobs, ()
    from holdfast.blobs.cached import CachedBlobStore  # noqa: PLC0415 - as above

    # What is kept of a vault is never captured into one.
    return CachedBlobStore(blobs, cache.folder, max_bytes=cache.max_bytes), (Path(cache.folder),)


def open_place(
    place: str, /, *, key: str | None = None, packs: str | os.PathLike[str] | None = None
) -> Place:
    """Returns where a backup is or shall be: a directory or a bucket, encrypted if there is a key.

    The key is this one, or the environment's. `packs` is where those of the vault are.
    """
    if key is None:
        key = said(backup_key)
    if not place.startswith(BUCKET_SCHEMES):
        if is_no_folder(place):
            raise InvalidValue(
                f"a backup is in a directory, s3://, gs:// or az://, not {without_password(place)}"
            )
        return open_folder(place, key=key)
    at = None if packs is None else os.fspath(packs)
    beside = at if at is not None and at.startswith(BUCKET_SCHEMES) else None
    opened = _load_bucket("bucketplace").open_place(place, packs=beside)
    return opened if key is None else SealedPlace(opened, key)


def is_no_folder(place: str) -> bool:
    """Says whether a place is written as a URL: with one slash, of a bucket that is misspelt."""
    return is_url(place) or place.startswith(_NEARLY_BUCKETS)


def are_nested(one: str, other: str) -> bool:
    """Says whether of two places, directories or buckets, one is the other or inside of it."""
    if one.startswith(BUCKET_SCHEMES) and other.startswith(BUCKET_SCHEMES):
        address = _load_bucket("buckets").Address
        return address.of(one).overlaps(address.of(other))
    if is_url(one) or is_url(other):
        return False
    mine, theirs = (Path(os.path.realpath(Path(each).expanduser())) for each in (one, other))
    return mine.is_relative_to(theirs) or theirs.is_relative_to(mine)


def holds_objects(place: str) -> bool:
    """Says whether anything is below the prefix of a bucket, whoever has put it there."""
    bucket = _load_bucket("buckets").Address.of(place).open()
    # The prefix itself is what some tools put where they make a folder.
    return any(key for key, _ in bucket.iter_keys())


def _load_bucket(name: str) -> ModuleType:
    """Returns a module that speaks to buckets; raises `Incompatible` if that is not installed."""
    try:
        # Needed by those alone who have a bucket: `pip install holdfast[s3]`.
        return import_module(f"holdfast.blobs.{name}")
    except ModuleNotFoundError as exc:
        raise Incompatible("a bucket needs `pip install 'holdfast[s3]'`") from exc


def said(read: Callable[[Mapping[str, str]], T], environ: Mapping[str, str] | None = None) -> T:
    """Returns what the environment says; raises `InvalidValue` for what makes no sense."""
    try:
        return read(process_environ() if environ is None else environ)
    except ValueError as exc:
        raise InvalidValue(str(exc)) from exc


def _commands(told: ExecSettings, private: Sequence[Path]) -> Commands | None:
    if not told.is_on:
        return None
    # Few vaults run commands, and nobody else has to load what it takes.
    from holdfast.engine.commands.running import SandboxedCommands  # noqa: PLC0415 - see above
    from holdfast.sandbox.limits import Allowance  # noqa: PLC0415 - see above
    from holdfast.sandbox.probing import Sandbox  # noqa: PLC0415 - see above

    allowance = Allowance(
        seconds=min(Allowance().seconds, told.seconds),
        memory_bytes=told.memory_bytes,
        processes=told.processes,
        disk_bytes=told.disk_bytes,
    )
    return SandboxedCommands(
        Sandbox(*private, cgroup=told.cgroup),
        allowance=allowance,
        longest_s=told.seconds,
        has_network=told.has_network,
    )


def find_packs(place: Path) -> Iterator[tuple[str, bytes]]:
    """Yields every pack in a place, however deep, and those inside catalogs that lie there."""
    yield from iter_scattered(place)
    yield from iter_inline_packs(place)


def _to_folder(location: str | os.PathLike[str]) -> Path:
    """Returns a directory that is there; raises for what names something else."""
    text = os.fspath(location)
    if "://" in text:
        scheme = text.partition("://")[0]
        message = (
            f"{scheme}:// is not known: give a directory, or postgresql:// for the catalog, and "
            "s3://, gs:// or az:// for packs"
        )
        raise InvalidValue(message)
    folder = Path(text).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as exc:
        message = f"the directory {folder} cannot be made: {exc.strerror}"
        kind = StorageReadOnly if exc.errno == errno.EROFS else Unavailable
        raise kind(message) from exc
    return folder


def _state_of(folder: Path | None) -> Path:
    """Returns where it is kept what is known of directories: on the machine that they are on."""
    return (folder or Path.home() / ".local/state/holdfast") / "workspaces"


def _packs_in(folder: Path | None) -> Path:
    if folder is None:
        missing = InvalidValue("a vault in a database needs objects=, a place for its packs")
        raise missing.with_hint(
            "`--objects PLACE` or HOLDFAST_OBJECTS_URL names it to commands, and HOLDFAST_DATA, if "
            "HOLDFAST_DATABASE_URL names the database, the directory that it is in."
        )
    return folder / "packs"


def _open_postgres(
    url: str,
    ids: IdMaker | None = None,
    told: DatabaseSettings | None = None,
    *,
    unfinished: Unfinished | None = None,
) -> Catalog:
    used = told or said(database_settings)
    return load_postgres().PostgresCatalog(
        url,
        ids=ids,
        max_connections=used.connections,
        wait_s=used.wait_s,
        prepares=used.prepares,
        unfinished=unfinished,
    )


def load_postgres(name: str = "postgres") -> ModuleType:
    """Returns a module of PostgreSQL's adapter; raises `Incompatible` if it is not installed."""
    try:
        # Needed by those alone who have a database: `pip install holdfast[postgres]`.
        return import_module(f"holdfast.catalog.{name}")
    except ModuleNotFoundError as exc:
        message = "PostgreSQL needs `pip install 'holdfast[postgres]'`"
        raise Incompatible(message) from exc

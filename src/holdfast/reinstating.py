"""Makes a vault of a backup: in an empty place, proven before it has its name.

1. Every file of the backup is checked against its manifest: of one in a bucket that it is there,
   and its bytes on their way. What is incomplete or altered is refused.
2. Packs and rows are put beside the place they are meant for. A database gets its rows when the
   packs are in their place, in one transaction.
3. Every object is hashed, and every head and snapshot of every tenant followed to its last chunk.
4. Only then is the new vault where it was asked for. If anything fails, what was made is removed.
"""

import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.blobs.port import BUCKET_SCHEMES, BlobStore
from holdfast.engine.backups import files
from holdfast.engine.backups.reading import Backup
from holdfast.engine.erasing.door import Erasures
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    BackupDamaged,
    Damaged,
    HoldfastError,
    Incompatible,
    InvalidValue,
    PathExists,
)
from holdfast.errors.system import translated
from holdfast.model.erasures import Certificate, Erased
from holdfast.model.upkeep import Reinstated
from holdfast.progress import Progress, no_progress
from holdfast.settings import CATALOG_NAME
from holdfast.wiring import (
    POSTGRES_SCHEMES,
    begin_store,
    load_postgres,
    open_blobs,
    open_place,
    open_vault,
    store_of_database,
)

_PLACES: Final = {
    "postgres": "Name a database: `holdfast reinstate BACKUP postgresql://… --objects PACKS`; "
    "from Python, reinstate(backup, url, objects=…).",
    "sqlite": "Name a directory that is new or empty: `holdfast reinstate BACKUP NEWDIR`.",
}
"""Where rows of each kind go back to."""


def reinstate(
    backup: str | os.PathLike[str],
    location: str | os.PathLike[str],
    *,
    objects: str | os.PathLike[str] | None = None,
    erased: Sequence[str | os.PathLike[str]] = (),
    key: str | None = None,
    progress: Progress = no_progress,
) -> Reinstated:
    """Makes a vault of a backup, in a directory or database that holds nothing yet.

    The backup is in a directory, or a bucket (`s3://BUCKET/PREFIX`, `gs://…`, `az://…`). If it is
    encrypted, its key is this one, or the environment's (`HOLDFAST_BACKUP_KEY`).
    `erased` are certificates of erasures: what they name is erased from the new vault, too,
    before it is where it was asked for.

    Raises `BackupDamaged` for a backup that is incomplete or altered, `BackupLocked` without its
    key, `PathExists` for a place that is not empty, `Incompatible` for rows of another kind of
    database.
    """
    text = os.fspath(location)
    is_database = text.startswith(POSTGRES_SCHEMES)
    if is_database and objects is None:
        raise InvalidValue("a vault in a database needs objects=, a place for its packs")
    certificates = {os.fspath(each): _read_certificate(Path(each).expanduser()) for each in erased}
    source = Backup(open_place(os.fspath(backup), key=key))
    kind = "postgres" if is_database else "sqlite"
    if source.manifest.catalog.kind != kind:
        message = f"the backup is of a vault in {source.manifest.catalog.kind}, not in {kind}"
        raise Incompatible(message).with_hint(_PLACES[source.manifest.catalog.kind])
    if is_database:
        load_postgres().check_no_catalog(text)
    else:
        _check_empty(Path(text).expanduser())
    packs = None if objects is None else _place_of(objects)
    source.check(progress=progress)
    make = _make_in_database if is_database else _make_in_folder
    return make(source, text, packs, certificates, progress)


def _place_of(objects: str | os.PathLike[str]) -> Path | str:
    """Returns where packs go: a folder, or a bucket; raises `PathExists` if that is not empty."""
    text = os.fspath(objects)
    if not text.startswith(BUCKET_SCHEMES):
        folder = Path(objects).expanduser()
        _check_empty(folder)
        return folder
    blobs, _ = open_blobs(text)
    if blobs.find_mark() is not None or next(blobs.iter_names(), None) is not None:
        raise PathExists(text.encode())
    return text


def _make_in_folder(
    source: Backup,
    location: str,
    objects: Path | str | None,
    erased: Mapping[str, Certificate],
    progress: Progress,
) -> Reinstated:
    with ExitStack() as stack:
        folder, publish = stack.enter_context(_prepared(Path(location).expanduser()))
        packs, publish_packs = folder / "packs", _nothing
        if objects is not None:
            packs, publish_packs = stack.enter_context(_prepared_packs(objects))
        _put_packs(source, packs, progress)
        for file, data in source.beside():
            files.put(folder / file.path, [data])
        source.copy_rows(folder / CATALOG_NAME)
        begin_store(folder, packs, vault=source.manifest.vault, is_apart=objects is not None)
        with open_vault(folder, objects=objects and packs) as vault:
            # The file is a copy, indexes and all: what is read from here on is found by new ones.
            vault.rebuild_indexes()
            outcomes = _erase_again(vault, erased)
            done = msgspec.structs.replace(_prove(vault, source, location, progress), **outcomes)
            _begin_eras(vault)
        publish_packs()
        publish()
    return done


def _make_in_database(
    source: Backup,
    location: str,
    objects: Path | str | None,
    erased: Mapping[str, Certificate],
    progress: Progress,
) -> Reinstated:
    postgres = load_postgres()
    assert objects is not None  # noqa: S101 - checked above
    with (
        source.rows() as rows,
        _prepared_packs(objects) as (packs, publish),
        ExitStack() as on_failure,
    ):
        _put_packs(source, packs, progress)
        # Bytes first, name last: rows without their packs would be damage.
        publish()
        migrations = source.manifest.catalog.migrations
        store = store_of_database(objects, vault=source.manifest.vault)
        postgres.load_catalog(location, rows, migrations=migrations, store=store)
        on_failure.callback(postgres.drop_catalog, location)
        with open_vault(location, objects=objects) as vault:
            outcomes = _erase_again(vault, erased)
            done = msgspec.structs.replace(_prove(vault, source, location, progress), **outcomes)
            _begin_eras(vault)
        on_failure.pop_all()
    return done


def _put_packs(source: Backup, place: Path | str, progress: Progress) -> None:
    blobs, _ = open_blobs(place)
    for file, data in source.packs(progress=progress):
        blobs.put(file.name, data)


def _read_certificate(path: Path) -> Certificate:
    with translated(path):
        data = path.read_bytes()
    try:
        return msgspec.json.decode(data, type=Certificate)
    except msgspec.DecodeError as exc:
        raise InvalidValue(f"{path} is not the certificate of an erasure") from exc


def _erase_again(vault: Holdfast, erased: Mapping[str, Certificate]) -> dict[str, tuple[str, ...]]:
    """Erases what was erased since the backup was made; says what became of each certificate."""
    tenants = {each.tenant_id: each for each in map(vault.tenant, vault.tenants())}
    outcomes = dict[str, tuple[str, ...]]()
    for name, certificate in erased.items():
        tenant = tenants.get(certificate.tenant_id)
        found = "unmatched" if tenant is None else _erase_one(tenant.erasures, certificate)
        outcomes[found] = (*outcomes.get(found, ()), name)
    return outcomes


def _erase_one(erasures: Erasures, certificate: Certificate) -> str:
    if any(each.erasure_id == certificate.erasure_id for each in erasures.list()):
        return "erased_before"
    done = erasures.again(certificate)
    if done is None:
        return "unmatched"
    # A user is looked for everywhere, whether there is anything of theirs or not.
    found = any(done.removed.values()) or done.redacted_rows or done.rewritten_snapshots
    return "erased" if found or certificate.what is not Erased.USER else "unmatched"


def _begin_eras(vault: Holdfast) -> None:
    """Lets events go on behind all that anybody can have seen since the backup was made."""
    for name in vault.tenants():
        with suppress(Damaged):  # Whose events do not end where they should has to repair them.
            vault.tenant(name).events.begin_era()


def _prove(vault: Holdfast, source: Backup, location: str, progress: Progress) -> Reinstated:
    """Raises `BackupDamaged` unless every head and snapshot of every tenant is whole.

    What was known to be lost when the backup was made still is.
    """
    tenants = vault.tenants()
    packs = objects = total = 0
    lost = list[str]()
    for name in tenants:
        found = vault.tenant(name).verify(progress=progress)
        lost += [f"{each.what}: {each.reason}" for each in found.faults]
        if found.faults and not found.is_noted:
            first = next(each for each in found.faults if not each.is_noted)
            raise BackupDamaged(first.what, reason=first.reason)
        packs, objects, total = packs + found.packs, objects + found.objects, total + found.bytes
    return Reinstated(
        location=location,
        made_at=source.manifest.made_at,
        tenants=len(tenants),
        namespaces=source.manifest.namespaces,
        snapshots=source.manifest.snapshots,
        packs=packs,
        objects=objects,
        bytes=total,
        damage=tuple(lost),
    )


@contextmanager
def _prepared_packs(place: Path | str) -> Generator[tuple[Path | str, Callable[[], None]]]:
    """Lends a place for packs; in a bucket it is the place itself, which is emptied on failure."""
    if isinstance(place, Path):
        with _prepared(place) as prepared:
            yield prepared
        return
    blobs, _ = open_blobs(place)
    with ExitStack() as on_failure:
        on_failure.callback(_empty, blobs)
        yield place, _nothing
        on_failure.pop_all()


def _empty(blobs: BlobStore) -> None:
    """Removes all packs, as far as that can be done; what says whose they are stays."""
    with suppress(HoldfastError):
        if blobs.find_mark() is not None:
            return  # Somebody has begun here meanwhile, and these are their packs.
        for name, _ in [*blobs.iter_names()]:
            blobs.delete(name)


@contextmanager
def _prepared(place: Path) -> Generator[tuple[Path, Callable[[], None]]]:
    """Lends a directory beside a place, and what puts it there.

    If anything fails it goes, wherever it is by then.
    """
    place = place.absolute()
    beside = place.with_name(f".{place.name}.{os.urandom(4).hex()}.reinstating")
    with translated(beside):
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.mkdir(mode=0o700)

    with ExitStack() as on_failure:
        on_failure.callback(shutil.rmtree, beside, ignore_errors=True)

        def publish() -> None:
            with translated(place):
                # Over an empty directory, or nothing: anything else makes it fail.
                beside.rename(place)
                on_failure.callback(shutil.rmtree, place, ignore_errors=True)
                files.sync(place.parent)

        yield beside, publish
        on_failure.pop_all()


def _check_empty(place: Path) -> None:
    with translated(place):
        if place.is_dir() and not any(place.iterdir()):
            return
        if os.path.lexists(place):
            raise PathExists(os.fsencode(place))


def _nothing() -> None:
    """Has nothing to put anywhere."""

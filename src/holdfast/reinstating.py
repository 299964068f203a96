"""Makes a vault of a backup: in an empty place, proven before it has its name.

1. Nothing is where the vault is meant to be, nor is that in the backup, or around it. Every file
   of the backup is checked against its manifest: of one in a bucket that it is there, and its bytes
   on their way. What is incomplete or altered is refused.
2. Packs and rows are put beside the place they are meant for. A database is marked first, so that
   nobody opens what is there; it gets its rows when the packs are in their place.
3. What certificates name is erased. Every object is hashed, and every head and snapshot of every
   tenant followed to its last chunk.
4. Only then is the new vault where it was asked for: the directory gets its name, the database
   loses its mark. If anything fails, what was made is removed.

Killed at any point, a directory has nothing by its name. What is marked in a database was never
open to anybody, and whoever brings a backup back there next clears it.
"""

import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from holdfast.blobs.port import BUCKET_SCHEMES, MARK
from holdfast.engine.audit import notes as damagenotes
from holdfast.engine.backups import files
from holdfast.engine.backups.copies import chores_of
from holdfast.engine.backups.making import count_kept
from holdfast.engine.backups.manifest import Manifest
from holdfast.engine.backups.reading import Backup
from holdfast.engine.core.context import Context, system_clock
from holdfast.engine.erasing.door import Erasures
from holdfast.engine.objects.stores import CHORE, Mark, encode_mark
from holdfast.engine.upkeep.orphans import WHAT as ROWS_OF_NOBODY
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
from holdfast.model.upkeep import Fault, Reinstated, Unfinished
from holdfast.operations.checks import check_of
from holdfast.progress import Progress, no_progress
from holdfast.settings import CATALOG_NAME, without_password
from holdfast.settingsfile import read_file
from holdfast.wiring import (
    POSTGRES_SCHEMES,
    are_nested,
    begin_store,
    holds_objects,
    is_no_folder,
    load_postgres,
    open_blobs,
    open_place,
    open_unfinished,
    open_vault,
)

_A_PLACE: Final = str | os.PathLike[str]

_VAULT: Final = "a vault, or the packs of one,"
_OTHER: Final = "already something that is no vault"

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
    key, `PathExists` for a place that is not empty, or is in the backup or around it,
    `Incompatible` for rows of another kind of database.
    """
    for name, kind, value in (
        ("backup", _A_PLACE, backup),
        ("location", _A_PLACE, location),
        ("objects", _A_PLACE | None, objects),
        ("erased", Sequence[_A_PLACE], erased),
        ("key", str | None, key),
    ):
        check_of(kind)(name, value)
    text = os.fspath(location)
    is_database = text.startswith(POSTGRES_SCHEMES)
    if is_database and objects is None:
        raise InvalidValue("a vault in a database needs objects=, a place for its packs")
    if not is_database and is_no_folder(text):
        message = f"a vault is in a directory, or postgresql://, not {without_password(text)}"
        raise InvalidValue(message).with_hint("Its packs can be in a bucket: `--objects s3://…`.")
    packs = None if objects is None else _absolute(objects)
    certificates = {os.fspath(each): _read_certificate(Path(each).expanduser()) for each in erased}
    source = Backup(open_place(os.fspath(backup), key=key))
    kind = "postgres" if is_database else "sqlite"
    if source.manifest.catalog.kind != kind:
        message = f"the backup is of a vault in {source.manifest.catalog.kind}, not in {kind}"
        raise Incompatible(message).with_hint(_PLACES[source.manifest.catalog.kind])
    for place in (packs, None if is_database else text):
        if place is not None and are_nested(os.fspath(place), os.fspath(backup)):
            hint = "Name a place that is new or empty, and neither in the backup nor around it."
            raise _taken(os.fspath(backup), "the backup itself").with_hint(hint)
    mark = Mark(source.manifest.vault, system_clock())
    making = _Making(source, text, packs, mark, certificates, progress)
    # While something is erased again, rows are written and packs as well.
    where = f"the database, or the place of {packs}," if is_database else f"the disk of {text}"
    with _room_in(where):
        return making.in_database() if is_database else making.in_folder()


def _absolute(objects: str | os.PathLike[str]) -> Path | str:
    """Returns where packs go: a folder, or a bucket."""
    text = os.fspath(objects)
    if text.startswith(BUCKET_SCHEMES):
        return text
    if is_no_folder(text):
        message = f"packs are in a directory, s3://, gs:// or az://, not {without_password(text)}"
        raise InvalidValue(message)
    return Path(text).expanduser().absolute()


def _room_in(where: str) -> AbstractContextManager[None]:
    """Names what is full; within another of these, that one names it."""
    hint = "Free space where it shall be, rows or packs, then repeat it: nothing was made."
    return files.room_in(where, what="the backup", hint=hint)


@dataclass(frozen=True)
class _Making:
    """A vault on its way."""

    source: Backup
    location: str
    objects: Path | str | None
    """Where the packs go, if that is not beside the catalog."""
    mark: Mark
    """What is said there from when they are."""
    erased: Mapping[str, Certificate]
    progress: Progress

    @property
    def _chores(self) -> dict[str, datetime]:
        return chores_of(self.source.manifest, now=self.mark.since)

    def in_folder(self) -> Reinstated:
        """Makes it in a directory, which has its name when all is done."""
        place = Path(self.location).expanduser()
        _check_empty(place)
        if self.objects is not None:
            _check_empty(self.objects)
        self.source.check(progress=self.progress)
        with ExitStack() as stack:
            folder, publish = stack.enter_context(_prepared(place))
            packs, publish_packs = folder / "packs", _nothing
            if self.objects is not None:
                prepared = _prepared_packs(self.objects, self.mark)
                packs, publish_packs = stack.enter_context(prepared)
            self._put_packs(packs)
            for file, data in self.source.beside():
                files.put(folder / file.path, [data])
            self.source.copy_rows(folder / CATALOG_NAME)
            is_apart = self.objects is not None
            begin_store(folder, packs, mark=self.mark, chores=self._chores, is_apart=is_apart)
            with open_vault(folder, objects=self.objects and packs) as vault:
                # The file is a copy, indexes and all: what is read from here on is found by new
                # ones.
                vault.rebuild_indexes()
                done = self._prove(vault)
            publish_packs()
            publish()
        return done

    def in_database(self) -> Reinstated:
        """Makes it in a database, marked so that nobody else opens it before all is done."""
        objects = self.objects
        assert objects is not None  # noqa: S101 - checked above
        reinstating = load_postgres("postgres_reinstating")
        ours = Unfinished(_place_of(objects), encode_mark(self.mark).decode())
        with reinstating.reserved(self.location) as found, ExitStack() as on_failure:
            left = _packs_left(found, self.source.name)
            is_here = left is not None and _place_of(left[0]) == _place_of(objects)
            if not is_here:
                _check_empty(objects)
            self.source.check(progress=self.progress)
            if left is not None:
                # Wherever they are: nothing names them any more once the mark is another.
                _remove_packs(*left)
            if is_here:
                _check_empty(objects)
            on_failure.callback(self._give_up, ours)
            reinstating.begin(self.location, ours)
            # Bytes first, name last: rows without their packs would be damage.
            self._place_packs(objects)
            with self.source.rows() as rows, _room_in("the database"):
                migrations = self.source.manifest.catalog.migrations
                chores = {**self._chores, CHORE: self.mark.since}
                reinstating.load_catalog(
                    self.location, rows, ours, migrations=migrations, chores=chores
                )
            with open_unfinished(self.location, objects=objects, unfinished=ours) as vault:
                done = self._prove(vault)
            reinstating.finish(self.location, ours)
            on_failure.pop_all()
        return done

    def _place_packs(self, objects: Path | str) -> None:
        """Puts the packs where nothing is yet, and has the place say whose they are."""
        disk = f"the disk of {objects}" if isinstance(objects, Path) else _place_of(objects)
        with _room_in(disk), _prepared_packs(objects, self.mark) as (packs, publish):
            self._put_packs(packs)
            open_blobs(packs)[0].put_mark(encode_mark(self.mark))
            publish()

    def _put_packs(self, place: Path | str) -> None:
        blobs, _ = open_blobs(place)
        for file, data in self.source.packs(progress=self.progress):
            blobs.put(file.name, data)

    def _prove(self, vault: Holdfast) -> Reinstated:
        """Erases what has to be, and proves all the rest."""
        outcomes = _erase_again(vault, self.erased)
        proven = _prove(vault, self.source, self.location, self.progress)
        _begin_eras(vault)
        return msgspec.structs.replace(proven, **outcomes)

    def _give_up(self, ours: Unfinished) -> None:
        """Removes what was made; what cannot be stays marked, and is cleared by who comes next."""
        assert self.objects is not None  # noqa: S101 - as above
        with suppress(HoldfastError):
            # Rows first: packs of a vault that is finished after all are never removed.
            if load_postgres("postgres_reinstating").give_up(self.location, ours):
                _remove_packs(self.objects, self.mark)


def _place_of(objects: Path | str) -> str:
    """Returns how a place of packs is called in a database."""
    return without_password(os.fspath(objects))


def _packs_left(found: Unfinished | None, backup: str) -> tuple[Path | str, Mark] | None:
    """Returns where one that was killed has put packs, and under which mark; None for nowhere."""
    if found is None:
        return None
    try:
        place, mark = _absolute(found.place), msgspec.json.decode(found.said, type=Mark)
    except (InvalidValue, msgspec.DecodeError):
        return None  # Another version's: nothing is removed that is not known to be ours.
    is_ours = not are_nested(found.place, backup) and _is_of(mark, place)
    return (place, mark) if is_ours else None


def _is_of(mark: Mark, objects: Path | str) -> bool:
    """Says whether what is in a place was put there under a mark, and by nobody else."""
    if isinstance(objects, Path):
        # It got its name with all that is in it.
        return files.read_if_there(objects / MARK) == encode_mark(mark)
    return open_blobs(objects)[0].find_mark() in (None, encode_mark(mark))


def _remove_packs(objects: Path | str, mark: Mark) -> None:
    """Removes what was put in a place under a mark, and the mark last; leaves another's."""
    if not _is_of(mark, objects):
        return
    if isinstance(objects, Path):
        # Away at once: killed meanwhile, nothing is where it was.
        away = _beside(objects)
        with translated(objects):
            objects.rename(away)
        shutil.rmtree(away, ignore_errors=True)
        return
    blobs, _ = open_blobs(objects)
    for name, _ in [*blobs.iter_names()]:
        if name.startswith(f"pack-{mark.vault}-"):
            blobs.delete(name)
    blobs.remove_mark(encode_mark(mark))


def _read_certificate(path: Path) -> Certificate:
    try:
        data = read_file(os.fspath(path))
    except ValueError as exc:
        raise InvalidValue(f"the certificate {exc}") from exc
    try:
        return msgspec.json.decode(data, type=Certificate)
    except msgspec.DecodeError as exc:
        raise InvalidValue(f"{path} is not the certificate of an erasure: {exc}") from exc


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

    What was known to be lost when the backup was made still is. Where bytes are missing now that
    were damaged then, other words are said of the same: these are noted, too.
    """
    context = vault._context  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nobody else counts what was deleted, or notes
    tenants = [vault.tenant(name) for name in vault.tenants()]
    packs = objects = total = 0
    lost = list[str]()
    for tenant in tenants:
        found = tenant.verify(progress=progress)
        lost += [f"{each.what}: {each.reason}" for each in found.faults]
        for fault in found.faults:
            if not fault.is_noted and not _is_known(fault, source.manifest):
                raise BackupDamaged(fault.what, reason=fault.reason)
        if found.faults and not found.is_noted:
            known = [each for each in found.faults if each.what != ROWS_OF_NOBODY]
            _note(context, tenant.tenant_id, known)
        packs, objects, total = packs + found.packs, objects + found.objects, total + found.bytes
    with context.catalog.read() as transaction:
        # Some of what the manifest counts was erased again.
        kept = count_kept(transaction, [tenant.id for tenant in transaction.iter_tenants()])
    return Reinstated(
        location=location,
        made_at=source.manifest.made_at,
        tenants=len(tenants),
        namespaces=kept[0],
        snapshots=kept[1],
        packs=packs,
        objects=objects,
        bytes=total,
        damage=tuple(lost),
    )


def _is_known(fault: Fault, manifest: Manifest) -> bool:
    """Says whether a manifest has a sentence for what is damaged, whatever is said of it now.

    Rows of nobody were copied by early versions, unseen, and harm nobody: `repair` lets them go.
    """
    said = f"{fault.what}: "
    return fault.what == ROWS_OF_NOBODY or any(each.startswith(said) for each in manifest.lost)


def _note(context: Context, public_id: str, faults: Sequence[Fault]) -> None:
    with context.catalog.write() as transaction:
        (tenant,) = (each for each in transaction.iter_tenants() if each.public_id == public_id)
        damagenotes.note(transaction, context, tenant.id, faults)


@contextmanager
def _prepared_packs(
    place: Path | str, mark: Mark
) -> Generator[tuple[Path | str, Callable[[], None]]]:
    """Lends a place for packs; in a bucket it is the place itself, which is emptied on failure."""
    if isinstance(place, Path):
        with _prepared(place) as prepared:
            yield prepared
        return
    with ExitStack() as on_failure:
        on_failure.callback(_empty, place, mark)
        yield place, _nothing
        on_failure.pop_all()


def _empty(place: str, mark: Mark) -> None:
    """Empties a bucket as far as that can be done, unless somebody else has begun there."""
    with suppress(HoldfastError):
        _remove_packs(place, mark)


@contextmanager
def _prepared(place: Path) -> Generator[tuple[Path, Callable[[], None]]]:
    """Lends a directory beside a place, and what puts it there.

    If anything fails it goes, wherever it is by then.
    """
    place = place.absolute()
    beside = _beside(place)
    files.make_folder(beside.parent)
    with translated(beside):
        beside.mkdir(mode=0o700)

    with ExitStack() as on_failure:
        on_failure.callback(shutil.rmtree, beside, ignore_errors=True)

        def publish() -> None:
            with translated(place):
                try:
                    # Over an empty directory, or nothing: anything else makes it fail.
                    beside.rename(place)
                except OSError:
                    _check_empty(place)  # Somebody else was there first.
                    raise
                on_failure.callback(shutil.rmtree, place, ignore_errors=True)
                files.sync(place.parent)

        yield beside, publish
        on_failure.pop_all()


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{os.urandom(4).hex()}.reinstating")


def _check_empty(place: Path | str) -> None:
    """Raises `PathExists` if there is anything in a directory, or below a prefix of a bucket."""
    if not isinstance(place, Path):
        has_vault = open_blobs(place)[0].find_mark() is not None
        if has_vault or holds_objects(place):
            raise _taken(place, _VAULT if has_vault else _OTHER)
        return
    with translated(place):
        if place.is_dir() and not any(place.iterdir()):
            if not place.is_symlink():
                return
            hint = f"Name the directory that it leads to: {os.path.realpath(place)}"
            raise _taken(str(place), "a link").with_hint(hint)
        if os.path.lexists(place):
            has_vault = any((place / name).is_file() for name in (CATALOG_NAME, MARK))
            raise _taken(str(place), _VAULT if has_vault else _OTHER)


def _taken(place: str, what: str) -> PathExists:
    return PathExists(os.fsencode(without_password(place)), what=what).with_hint(
        "Name a place that is new or empty: a backup is never brought back over anything."
    )


def _nothing() -> None:
    """Has nothing to put anywhere."""

"""Makes a backup of a vault, beside whoever writes to it and collects it.

1. All of it is of the moment of one read transaction, which is begun anew while there is something
   to be read that lies in a bucket: that is done in between (`holdfast.fetching`).
2. Every pack that the moment names is read, every object in it hashed, and the pack copied unless
   the same bytes are there already: packs are written once, so a second backup into the same place
   copies what is new. The lock of retired packs is held: none of them goes meanwhile. One that is
   damaged is copied as it is, for a vault in which that is known: most of it can still be read.
3. Every head and snapshot is followed to its last chunk, as `verify` does. A vault that is damaged
   is not backed up over a backup that is whole. Then the rows are copied.
4. The manifest takes the place of the one before, and what only that one named goes.

Killed at any point, the backup that was there is there; what is left over goes with the next one.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import msgspec

from holdfast.blobs.places import Place, in_pieces, plain_folder
from holdfast.catalog.packs import PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.notes import JOURNAL
from holdfast.engine.backups import files
from holdfast.engine.backups.copies import find_copy, is_before, note
from holdfast.engine.backups.manifest import (
    MANIFEST_NAME,
    PACKS,
    BesideFile,
    CatalogFile,
    Manifest,
    PackFile,
    hash_of,
)
from holdfast.engine.backups.reading import read_manifest
from holdfast.engine.backups.sealing import is_sealed
from holdfast.engine.core.context import Context
from holdfast.engine.objects import retired as retiring
from holdfast.engine.upkeep.examining import ROOM_BYTES, Examination, find_index_faults
from holdfast.errors import BackupDamaged, BackupLocked, Busy, Damaged, PathExists
from holdfast.errors.system import translated
from holdfast.fetching import Away, anew
from holdfast.ids import TenantId
from holdfast.model.upkeep import BackedUp, Fault
from holdfast.progress import Progress, no_progress

ROUNDS: Final = 3
"""Times it is tried again because the log of an open store was begun anew meanwhile."""

_SPOOL: Final = "holdfast-rows-"
_SPOOL_AGE: Final = timedelta(days=1)
"""A folder for rows is empty for a moment; one that has been for so long is nobody's."""

_PARTED: Final = (
    "Name another place. If this is the copy that goes on, and the other has ended, "
    "`holdfast backup --replace PLACE`, or replace=True, puts its backup in the place of that one."
)

_OURS: Final = re.compile(
    r"((catalog|beside)-[0-9a-f]{16}|backup\.json)(-journal|\.[0-9a-f]{16}\.tmp)?"
)
"""The names that a backup makes in its directory, for a moment or to stay."""


def back_up(
    context: Context, place: Place, *, replace: bool = False, progress: Progress = no_progress
) -> BackedUp:
    """Makes a backup in a place, or brings the one that is there up to date.

    Waits half a minute at the most while bytes are given back. Raises `Busy` while another is
    made; `PathExists` if the place holds something else, and unless it is to `replace` that also
    for what another copy of this vault has made there since; `BackupLocked` if what is there has
    another key, or none; `Damaged` if the vault is, which leaves the backup before as it was.
    """
    with place.locked(), retiring.keeping(context) as lease:
        # Behind the lock: what another backup has changed there meanwhile is seen.
        there = _check_place(context, place, replace=replace)
        before = there.manifest
        if loss := context.catalog.find_loss():
            # The backup before may hold what is missing here.
            raise _damaged([Fault("catalog", str(loss))])
        if faults := find_index_faults(context):
            # They are copied as they are, and nothing would be found in the copy either.
            raise _damaged(faults)
        making = _Making(context, place, there, progress)
        manifest = making.run().sealed()
        _check_over(before, making.lost, place)
        # Who has taken the lock over may have made one of their own here.
        lease.check()
        place.publish(MANIFEST_NAME, manifest.encode(), over=there.data)
        note(manifest, context, over=before)
        # What came since is somebody else's, where nobody can be kept out.
        left = {*(there.sizes if place.is_remote else place.sizes()), *making.paths}
        for path in left - manifest.paths:
            place.remove(path)
    return BackedUp(
        path=place.name,
        made_at=manifest.made_at,
        namespaces=manifest.namespaces,
        snapshots=manifest.snapshots,
        packs=len(manifest.packs),
        packs_copied=making.copied,
        bytes=manifest.size_bytes,
        is_first=before is None,
        is_encrypted=place.is_sealed,
        is_beside=place.is_beside,
        damage=manifest.lost,
    )


def count_kept(transaction: Transaction, tenants: Sequence[TenantId]) -> tuple[int, int]:
    """Returns how many namespaces and snapshots these have, those that were deleted included."""
    namespaces = sum(len(transaction.sort_heads(each)) for each in tenants)
    return namespaces, sum(len(transaction.sort_snapshots(each)) for each in tenants)


@dataclass(frozen=True)
class _There:
    """What is in a place before a backup is made there."""

    sizes: dict[str, int]
    data: bytes | None = None
    """The manifest, as it is there."""
    manifest: Manifest | None = None


def _check_place(context: Context, place: Place, *, replace: bool) -> _There:
    """Raises unless a place is empty, or holds a backup of this vault, or half of one."""
    if place.folder is not None:
        for inner in map(_real, (place.folder, place.folder / PACKS)):
            for folder in map(_real, context.folders):
                if inner.is_relative_to(folder) or folder.is_relative_to(inner):
                    raise _taken(str(folder), "this vault itself")
    sizes = place.sizes()
    # One that cannot be read is not overwritten: it may be all that somebody has.
    found = read_manifest(place)
    if found is not None and found[1].vault != context.vault:
        raise _taken(place.name, "a backup of another vault")
    if found is not None and not replace and not is_before(found[1], context):
        raise _taken(place.name, _of_another(found[1])).with_hint(_PARTED)
    named = set[str]() if found is None else found[1].paths
    for path in {*sizes} - named:
        if not _is_ours(context, path):
            raise _taken(f"{place.name}/{path}", "something that is of no backup of this vault")
    if found is None:
        _check_open(place, sizes)
        return _There(sizes)
    return _There(sizes, *found)


def _of_another(manifest: Manifest) -> str:
    """Returns what is said of a backup that another copy of this vault has made."""
    at, which = manifest.made_at, "the vault that this one is a copy of"
    if (since := manifest.copied_at) is not None:
        which = f"a copy of this vault that was brought back at {since.isoformat(' ', 'seconds')}"
    return f"a backup of {at.isoformat(' ', 'seconds')} by {which},"


def _taken(where: str, what: str) -> PathExists:
    return PathExists(os.fsencode(where), what=what).with_hint(
        "Name a place that is new, empty, or a backup of this vault."
    )


def _check_open(place: Place, sizes: dict[str, int]) -> None:
    """Raises `BackupLocked` if an encrypted backup has lost its manifest, and no key was given.

    Whoever can delete that could have all that follows sent in plain.
    """
    for path in () if place.is_sealed else sorted(sizes)[:1]:
        pieces = place.read(path)
        if pieces is not None and is_sealed(next(iter(pieces), b"")):
            raise BackupLocked(f"what is in {place.name} is encrypted, and no key was given")


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_ours(context: Context, path: str) -> bool:
    """Says whether a backup of this vault has files of such a path: only those may go."""
    folder, _, name = path.rpartition("/")
    if not folder:
        return _OURS.fullmatch(name) is not None
    return folder.startswith(f"{PACKS}/") and context.owns_pack(name)


class _Rows(NamedTuple):
    """The copy of all rows, and what it is called in the place."""

    name: str
    file: BinaryIO


@dataclass(frozen=True)
class _Moment:
    """What a backup is of."""

    packs: frozenset[str]
    rows: _Rows
    namespaces: int
    snapshots: int
    migrations: int


class _Making:
    """One backup on its way."""

    def __init__(self, context: Context, place: Place, there: _There, progress: Progress) -> None:
        self._context, self._place, self._there = context, place, there
        self._progress = progress
        before = there.manifest
        self._named = {} if before is None else {file.name: file for file in before.packs}
        self._files = dict[str, PackFile]()
        self.copied = 0
        self.lost = list[Fault]()
        """What is known to be damaged, and to stay so."""

    @property
    def paths(self) -> set[str]:
        """Every pack that was seen to be in the place, by its path."""
        return {file.path for file in self._files.values()}

    def run(self) -> Manifest:
        with ExitStack() as stack:
            examinations = dict[TenantId, Examination]()

            def examination(tenant_id: TenantId) -> Examination:
                """Returns what is known of a tenant so far."""
                if tenant_id not in examinations:
                    examinations[tenant_id] = stack.enter_context(
                        Examination(
                            self._context,
                            tenant_id,
                            keep=self._copy_pack,
                            keeps_apart=self._place.is_remote,
                            progress=self._progress,
                        )
                    )
                return examinations[tenant_id]

            for _ in range(ROUNDS):
                logs = _Logs(self._context.folders, stack)
                look = partial(self._look, logs, examination, stack)
                moment = anew(look, room_bytes=ROOM_BYTES)
                if moment is not None:
                    return self._manifest(moment, self._send_rows(moment), logs)
        raise Busy("the log of an open store is begun anew again and again")

    def _look(
        self, logs: "_Logs", examination: Callable[[TenantId], Examination], stack: ExitStack
    ) -> _Moment | None:
        """Examines all at one moment, and copies its rows; None if a log was begun anew before.

        The copy is open for as long as the stack is. Raises `Away` for what has to come from a
        bucket first, of all tenants at once.
        """
        with self._context.catalog.read() as transaction:
            # The first question fixes the moment: before the logs are looked at again.
            tenants = [tenant.id for tenant in transaction.iter_tenants()]
            if not logs.are_same():
                return None
            away, packs, self.lost = list[Away](), set[str](), list[Fault]()
            for tenant_id in tenants:
                try:
                    packs |= self._examine(transaction, examination(tenant_id))
                except Away as exc:
                    away.append(exc)
            if away:
                raise Away(lambda: sum(each.fetch() for each in away))
            return _Moment(
                frozenset(packs),
                self._copy_rows(transaction, stack),
                *count_kept(transaction, tenants),
                migrations=transaction.count_migrations(),
            )

    def _examine(self, transaction: Transaction, examination: Examination) -> set[str]:
        """Returns the names of a tenant's packs, all of which are in the place by then."""
        found = examination.look(transaction)
        if not found.ok and not found.is_noted:
            raise _damaged([each for each in found.faults if not each.is_noted])
        self.lost += found.faults
        return {pack.name for pack in examination.packs}

    def _copy_pack(self, pack: PackRow, data: bytes, is_sound: bool) -> None:  # noqa: FBT001 - as `Keep` has it
        """Copies a pack that lies in the blob store."""
        if pack.is_inline or pack.name in self._files:
            return
        file = PackFile(pack.name, len(data), hash_of(data))
        if is_sound:
            self._copy(file, data)
        else:
            self._copy_damaged(file, data)

    def _copy_damaged(self, file: PackFile, data: bytes) -> None:
        """Copies a pack that is not what was written: most of what it holds can still be read.

        Not over what the backup before has of it: that was as it is, or better.
        """
        before = self._named.get(file.name)
        if before is not None and self._holds(before):
            self._files[file.name] = before
        else:
            self._copy(file, data)

    def _copy(self, file: PackFile, data: bytes) -> None:
        if not self._holds(file):
            if not self._place.copy_pack(file.name, file.path, size=file.size):
                self._place.write(file.path, in_pieces(data), size=file.size)
            self.copied += 1
        self._files[file.name] = file

    def _holds(self, file: PackFile) -> bool:
        """Says whether a pack is in the place already.

        What is on a disk is read, as it may have rotted. What is in a bucket is not read again if
        the backup before has named it, and it is as long as it was.
        """
        if self._place.is_remote:
            if self._there.sizes.get(file.path) != file.size:
                return False
            if self._named.get(file.name) == file:
                return True
        try:
            pieces = self._place.read(file.path)
            return pieces is not None and files.measure(pieces) == (file.size, file.hash)
        except (BackupDamaged, BackupLocked):
            return False

    def _copy_rows(self, transaction: Transaction, stack: ExitStack) -> _Rows:
        """Copies the rows to where they shall be, or to a file that they are sent from.

        That one loses its name before anything is in it: whoever is killed leaves nothing that
        could be read, where it was to be encrypted.
        """
        from tempfile import TemporaryDirectory, gettempdir  # noqa: PLC0415 - by who makes backups

        place, name = plain_folder(self._place), f"catalog-{os.urandom(8).hex()}"
        room = files.room_for_rows(place)
        with room, translated(place or gettempdir()), ExitStack() as naming:
            folder = place
            if folder is None:
                self._clear(Path(gettempdir()))
                # Over NFS, a file that is open keeps its folder.
                made = TemporaryDirectory(prefix=_SPOOL, ignore_cleanup_errors=True)
                folder = Path(naming.enter_context(made))
            path = folder / name
            # Before the rows: nobody else opens it while they are written.
            files.begin(path)
            if place is None:
                naming.callback(path.unlink)
            file = stack.enter_context(path.open("rb"))
            transaction.dump(str(path), opened=naming.close)
        return _Rows(name, file)

    def _clear(self, folder: Path) -> None:
        """Removes what those have left who were killed before the rows: it is empty by then."""
        before = (self._context.clock() - _SPOOL_AGE).timestamp()
        for left in folder.glob(f"{_SPOOL}*"):
            with suppress(OSError):  # Somebody else's, or not empty: it stays.
                if left.lstat().st_mtime < before:
                    left.rmdir()

    def _send_rows(self, moment: _Moment) -> CatalogFile:
        (name, file), folder = moment.rows, plain_folder(self._place)
        size, digest = files.measure(files.read_open(file, name))
        if folder is not None:
            with files.room_for_rows(folder), translated(folder / name):
                os.fsync(file.fileno())
                files.sync(folder)
        else:
            self._place.write(name, files.read_open(file, name), size=size)
        return CatalogFile(
            kind=self._context.catalog.kind,
            migrations=moment.migrations,
            file=name,
            size=size,
            hash=digest,
        )

    def _copy_beside(self, logs: "_Logs") -> Iterator[BesideFile]:
        """Copies the logs of stores, and which directories belong to which namespaces."""
        for path, data in (*logs.read(), *self._attachments()):
            # Under a name of its own: the backup before has to stay whole until this one is.
            file = f"beside-{os.urandom(8).hex()}"
            self._place.write(file, in_pieces(data), size=len(data))
            yield BesideFile(path, file, len(data), hash_of(data))

    def _attachments(self) -> Iterator[tuple[str, bytes]]:
        state = self._context.state
        if state is None or state.parent not in self._context.folders or not state.is_dir():
            return
        for folder in sorted(state.iterdir()):
            data = files.read_if_there(folder / "attachment.json")
            if data is not None:
                yield f"workspaces/{folder.name}/attachment.json", data

    def _manifest(self, moment: _Moment, catalog: CatalogFile, logs: "_Logs") -> Manifest:
        packs = [file for name, file in self._files.items() if name in moment.packs]
        return Manifest(
            vault=self._context.vault,
            made_at=self._context.clock(),
            namespaces=moment.namespaces,
            snapshots=moment.snapshots,
            catalog=catalog,
            packs=sorted(packs, key=lambda file: file.name),
            beside=[*self._copy_beside(logs)],
            damage=[f"{each.what}: {each.reason}" for each in self.lost] or msgspec.UNSET,
            reinstated_at=find_copy(self._context) or msgspec.UNSET,
        )


class _Logs:
    """The logs of stores that are, or were, open: what they hold is not in the rows yet.

    Opened before the moment of the backup and read after it: a log is only ever added to, so it
    then holds what the rows lack. One that was begun anew in between does not.
    """

    def __init__(self, folders: tuple[Path, ...], stack: ExitStack) -> None:
        self._paths = sorted(path for folder in folders for path in folder.glob("store-*.log"))
        with translated("the logs of stores"):
            self._files = [stack.enter_context(path.open("rb")) for path in self._paths]

    def are_same(self) -> bool:
        """Says whether none of them was begun anew since they were opened."""
        try:
            return all(
                os.path.samestat(os.fstat(file.fileno()), path.stat())
                for file, path in zip(self._files, self._paths, strict=True)
            )
        except FileNotFoundError:
            return False

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yields each with its name."""
        for file, path in zip(self._files, self._paths, strict=True):
            with translated(path):
                yield path.name, file.read()


def _check_over(before: Manifest | None, lost: list[Fault], place: Place) -> None:
    """Raises `Damaged` if what is lost may be in the backup that this one takes the place of.

    A row of the journal is not worth that: it can be read nowhere else, and hides nothing.
    """
    if before is None or before.lost or all(each.what.startswith(JOURNAL) for each in lost):
        return
    message = f"the backup in {place.name} may hold what this vault has lost: {lost[0].what}"
    there, how = (
        ("VAULT", f"`holdfast reinstate {place.name} VAULT`, then ")
        if plain_folder(place) is None
        else (place.name, "")
    )
    raise Damaged(message).with_hint(
        f"{how}`holdfast repair --from {there}` brings back what it holds; a backup of the vault "
        "as it is goes to another place."
    )


def _damaged(faults: list[Fault]) -> Damaged:
    first = faults[0]
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    message = f"the vault is damaged, and was not backed up: {first.what}: {first.reason}{more}"
    error = Damaged(message)
    if first.hint:
        error.hint = first.hint
    return error

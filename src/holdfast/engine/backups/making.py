"""Makes a backup of a vault, beside whoever writes to it and collects it.

1. One read transaction: all that follows is of its moment. The rows are copied out of it.
2. Every pack that it names is read, every object in it hashed, and the pack copied unless the
   same bytes are there already: packs are written once, so a second backup into the same
   directory copies what is new. The lock of retired packs is held: none of them goes meanwhile.
3. Every head and snapshot is followed to its last chunk, as `verify` does. A vault that is damaged
   is not backed up over a backup that is whole.
4. The manifest takes the place of the one before, and what only that one named goes.

Killed at any point, the backup that was there is there; what is left over goes with the next one.
"""

import os
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from holdfast.catalog.packs import PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.notes import JOURNAL
from holdfast.engine.backups import files
from holdfast.engine.backups.manifest import (
    BACKUP_FORMAT,
    MANIFEST_NAME,
    PACKS,
    WHOLE_FORMAT,
    BesideFile,
    CatalogFile,
    Manifest,
    PackFile,
    decode_manifest,
    hash_of,
)
from holdfast.engine.core.context import Context
from holdfast.engine.objects import retired as retiring
from holdfast.engine.upkeep.verify import examine, find_index_faults
from holdfast.errors import Busy, Damaged, PathExists
from holdfast.ids import TenantId
from holdfast.model.upkeep import BackedUp, Fault
from holdfast.progress import Progress, no_progress

ROUNDS: Final = 3
"""Times it is tried again because the log of an open store was begun anew meanwhile."""

_OURS: Final = re.compile(
    r"((catalog|beside)-[0-9a-f]{16}|backup\.json)(-journal|\.[0-9a-f]{16}\.tmp)?"
)
"""The names that a backup makes in its directory, for a moment or to stay."""


def back_up(context: Context, target: Path, *, progress: Progress = no_progress) -> BackedUp:
    """Makes a backup in a directory, or brings the one that is there up to date.

    Waits half a minute at the most while bytes are given back. Raises `Busy` while another is
    made; `PathExists` if the directory holds something else; `Damaged` if the vault is, which
    leaves the backup before as it was.
    """
    target = target.absolute()
    with files.locked_folder(target):
        before = _check_target(context, target)
        if loss := context.catalog.find_loss():
            # The backup before may hold what is missing here.
            raise _damaged([Fault("catalog", str(loss))])
        if faults := find_index_faults(context):
            # They are copied as they are, and nothing would be found in the copy either.
            raise _damaged(faults)
        with retiring.keeping(context):
            made = _Making(context, target).run(progress)
        _check_over(before, made.lost, target)
        files.put(target / MANIFEST_NAME, made.manifest.encode())
        for path in {*files.all_files(target)} - made.manifest.paths:
            files.remove(target / path)
    manifest = made.manifest
    return BackedUp(
        path=str(target),
        made_at=manifest.made_at,
        namespaces=manifest.namespaces,
        snapshots=manifest.snapshots,
        packs=len(manifest.packs),
        packs_copied=made.copied,
        bytes=manifest.size_bytes,
        is_first=before is None,
        damage=manifest.lost,
    )


def _check_target(context: Context, target: Path) -> Manifest | None:
    """Raises unless a directory is empty, or holds a backup of this vault, or half of one."""
    for place in map(_real, (target, target / PACKS)):
        for folder in map(_real, context.folders):
            if place.is_relative_to(folder) or folder.is_relative_to(place):
                raise PathExists(os.fsencode(folder))
    found = files.read_if_there(target / MANIFEST_NAME)
    # One that cannot be read is not overwritten: it may be all that somebody has.
    before = None if found is None else decode_manifest(found)
    if before is not None and before.vault != context.vault:
        raise PathExists(os.fsencode(target))
    known = set[str]() if before is None else before.paths
    for path in {*files.all_files(target)} - known:
        if not _is_ours(context, path):
            raise PathExists(os.fsencode(target / path))
    return before


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_ours(context: Context, path: str) -> bool:
    """Says whether a backup of this vault has files of such a path: only those may go."""
    folder, _, name = path.rpartition("/")
    if not folder:
        return _OURS.fullmatch(name) is not None
    return folder.startswith(f"{PACKS}/") and context.owns_pack(name)


class _Making:
    """One backup on its way."""

    def __init__(self, context: Context, target: Path) -> None:
        self._context = context
        self._target = target
        self._packs: list[PackFile] = []
        self.copied = 0
        self.lost: list[Fault] = []
        """What is known to be damaged, and to stay so."""

    def run(self, progress: Progress) -> "_Making":
        for _ in range(ROUNDS):
            with self._logs() as logs, self._context.catalog.read() as transaction:
                # The first question fixes the moment: before the logs are looked at again.
                tenants = [tenant.id for tenant in transaction.iter_tenants()]
                if not logs.are_same():
                    continue
                catalog = self._copy_rows(transaction)
                beside = [*self._copy_beside(logs)]
                for tenant_id in tenants:
                    self._copy_packs(transaction, tenant_id, progress)
                self.manifest = self._manifest(transaction, tenants, catalog, beside)
                return self
        raise Busy("the log of an open store is begun anew again and again")

    def _copy_rows(self, transaction: Transaction) -> CatalogFile:
        path = self._target / f"catalog-{os.urandom(8).hex()}"
        with files.translated(path):
            # Before the rows: nobody else opens it while they are written.
            files.begin(path)
            transaction.dump(str(path))
            files.sync(path)
            files.sync(self._target)
        size, digest = files.measure(path)
        return CatalogFile(
            kind=self._context.catalog.kind,
            migrations=transaction.count_migrations(),
            file=path.name,
            size=size,
            hash=digest,
        )

    def _copy_packs(
        self, transaction: Transaction, tenant_id: TenantId, progress: Progress
    ) -> None:
        found = examine(
            self._context, transaction, tenant_id, keep=self._copy_pack, progress=progress
        )
        if not found.ok and not found.is_noted:
            raise _damaged([each for each in found.faults if not each.is_noted])
        self.lost += found.faults

    def _copy_pack(self, pack: PackRow, data: bytes) -> None:
        """Copies a pack that was found sound."""
        if pack.is_inline:
            return
        file = PackFile(pack.name, len(data), hash_of(data))
        path = self._target / file.path
        if files.read_if_there(path) != data:
            files.put(path, data)
            self.copied += 1
        self._packs.append(file)

    def _copy_beside(self, logs: "_Logs") -> Iterator[BesideFile]:
        """Copies the logs of stores, and which directories belong to which namespaces."""
        for path, data in (*logs.read(), *self._attachments()):
            # Under a name of its own: the backup before has to stay whole until this one is.
            file = f"beside-{os.urandom(8).hex()}"
            files.put(self._target / file, data)
            yield BesideFile(path, file, len(data), hash_of(data))

    def _attachments(self) -> Iterator[tuple[str, bytes]]:
        state = self._context.state
        if state is None or state.parent not in self._context.folders or not state.is_dir():
            return
        for folder in sorted(state.iterdir()):
            data = files.read_if_there(folder / "attachment.json")
            if data is not None:
                yield f"workspaces/{folder.name}/attachment.json", data

    @contextmanager
    def _logs(self) -> Generator["_Logs"]:
        with ExitStack() as stack:
            yield _Logs(self._context.folders, stack)

    def _manifest(
        self,
        transaction: Transaction,
        tenants: list[TenantId],
        catalog: CatalogFile,
        beside: list[BesideFile],
    ) -> Manifest:
        return Manifest(
            vault=self._context.vault,
            made_at=self._context.clock(),
            namespaces=sum(len(transaction.sort_heads(each)) for each in tenants),
            snapshots=sum(len(transaction.sort_snapshots(each)) for each in tenants),
            catalog=catalog,
            packs=sorted(self._packs, key=lambda file: file.name),
            beside=beside,
            format=BACKUP_FORMAT if self.lost else WHOLE_FORMAT,
            damage=[f"{each.what}: {each.reason}" for each in self.lost] or msgspec.UNSET,
        )


class _Logs:
    """The logs of stores that are, or were, open: what they hold is not in the rows yet.

    Opened before the moment of the backup and read after it: a log is only ever added to, so it
    then holds what the rows lack. One that was begun anew in between does not.
    """

    def __init__(self, folders: tuple[Path, ...], stack: ExitStack) -> None:
        self._paths = sorted(path for folder in folders for path in folder.glob("store-*.log"))
        with files.translated("the logs of stores"):
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
            with files.translated(path):
                yield path.name, file.read()


def _check_over(before: Manifest | None, lost: list[Fault], target: Path) -> None:
    """Raises `Damaged` if what is lost may be in the backup that this one takes the place of.

    A row of the journal is not worth that: it can be read nowhere else, and hides nothing.
    """
    if before is None or before.lost or all(each.what.startswith(JOURNAL) for each in lost):
        return
    message = f"the backup in {target} may hold what this vault has lost: {lost[0].what}"
    raise Damaged(message).with_hint(
        f"`holdfast repair --from {target}` brings back what it holds; a backup of the vault as "
        "it is goes to another directory."
    )


def _damaged(faults: list[Fault]) -> Damaged:
    first = faults[0]
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    message = f"the vault is damaged, and was not backed up: {first.what}: {first.reason}{more}"
    return Damaged(message)

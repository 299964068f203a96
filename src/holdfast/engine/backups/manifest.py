"""What a backup says of itself: written last, so that without it there is no backup.

Every file is named with its size and hash. The seal is the hash of all the rest: a manifest that
was changed, by a bad disk or a kind hand, is none.
"""

import re
from datetime import datetime
from typing import Annotated, Final

import msgspec
from blake3 import blake3

from holdfast.errors import BackupDamaged, VaultTooNew

BACKUP_FORMAT: Final = 3
"""What a backup has of a vault that was itself made of one."""

_DAMAGED_FORMAT: Final = 2
"""What one has that carries damage, and nothing later."""

_FIRST_FORMAT: Final = 1
"""What one has with nothing of all this: older versions read it, too."""

MANIFEST_NAME: Final = "backup.json"
PACKS: Final = "packs"

MAX_MANIFEST_BYTES: Final = 1 << 30
"""Five million packs of 32 MB each."""

_FORMAT: Final = re.compile(rb'\s*\{\s*"format"\s*:\s*([0-9]{1,9})\s*,')

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Kind = Annotated[str, msgspec.Meta(pattern=r"^(sqlite|postgres)\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
_Hash = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
_PackName = Annotated[str, msgspec.Meta(pattern=r"^pack-[a-z0-9-]{1,58}\Z")]
_Beside = Annotated[
    str,
    # What a vault keeps beside its catalog. Nothing else is ever written to a path of a backup.
    msgspec.Meta(
        pattern=r"^(store-[0-9a-f]{16}\.log|workspaces/[a-z0-9-]{1,90}/attachment\.json)\Z"
    ),
]


class CatalogFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows."""

    kind: _Kind
    """In what they were, which is what can take them: `sqlite` or `postgres`."""
    migrations: _Count
    file: Annotated[str, msgspec.Meta(pattern=r"^catalog-[0-9a-f]{16}\Z")]
    size: _Count
    hash: _Hash


class PackFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pack, under `packs`."""

    name: _PackName
    size: _Count
    hash: _Hash

    @property
    def path(self) -> str:
        """Where it lies in the backup: as a vault has its packs."""
        return f"{PACKS}/{self.name[-2:]}/{self.name}.pack"


class BesideFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that lies beside a catalog: the log of a store, or what a directory belongs to."""

    path: _Beside
    """Where it lies in a vault."""
    file: Annotated[str, msgspec.Meta(pattern=r"^beside-[0-9a-f]{16}\Z")]
    size: _Count
    hash: _Hash


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is in a backup."""

    format: int = _FIRST_FORMAT
    vault: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]{1,64}\Z")]
    made_at: _Moment
    namespaces: _Count
    snapshots: _Count
    catalog: CatalogFile
    packs: list[PackFile]
    beside: list[BesideFile]
    damage: list[str] | msgspec.UnsetType = msgspec.UNSET
    """What was known to be lost when it was made; from format 2 on."""
    reinstated_at: _Moment | msgspec.UnsetType = msgspec.UNSET
    """When the vault was made of a backup, if it was; of format 3."""
    seal: str = ""

    @property
    def copied_at(self) -> datetime | None:
        """When the vault was made of a backup; None if it is the first of its name."""
        return None if isinstance(self.reinstated_at, msgspec.UnsetType) else self.reinstated_at

    @property
    def lost(self) -> tuple[str, ...]:
        """What was known to be lost when it was made."""
        return () if isinstance(self.damage, msgspec.UnsetType) else tuple(self.damage)

    @property
    def size_bytes(self) -> int:
        """How many bytes the files have together."""
        files = [self.catalog.size, *(f.size for f in self.packs), *(f.size for f in self.beside)]
        return sum(files)

    @property
    def paths(self) -> set[str]:
        """Every file of the backup, by its path."""
        files = {self.catalog.file, *(f.path for f in self.packs), *(f.file for f in self.beside)}
        return files | {MANIFEST_NAME}

    def sealed(self) -> "Manifest":
        """Returns the same, of the oldest format that has room for it, and with its seal."""
        made = msgspec.structs.replace(self, format=self._format)
        return msgspec.structs.replace(made, seal=_seal(made))

    def encode(self) -> bytes:
        """Returns the manifest as JSON, sealed."""
        return msgspec.json.format(msgspec.json.encode(self.sealed()), indent=1) + b"\n"

    @property
    def _format(self) -> int:
        if self.copied_at is not None:
            return BACKUP_FORMAT
        return _DAMAGED_FORMAT if self.lost else _FIRST_FORMAT


def hash_of(data: bytes) -> str:
    """Returns the hash of a file's bytes, as a manifest has it."""
    return blake3(data).hexdigest()


def decode_manifest(data: bytes) -> Manifest:
    """Returns the manifest; raises `VaultTooNew` for a later format, else `BackupDamaged`."""
    found = _FORMAT.match(data)
    if found and int(found[1]) > BACKUP_FORMAT:
        raise VaultTooNew("the backup", found=int(found[1]), known=BACKUP_FORMAT)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except ValueError as exc:
        raise BackupDamaged(MANIFEST_NAME, reason=f"it cannot be read: {exc}") from exc
    if not found or manifest.encode() != data:
        raise BackupDamaged(MANIFEST_NAME, reason="it is not as it was written")
    return manifest


def _seal(manifest: Manifest) -> str:
    return hash_of(msgspec.json.encode(msgspec.structs.replace(manifest, seal="")))

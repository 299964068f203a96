"""Stored bytes that break a promise: stop, keep the evidence."""

from holdfast.errors.families import Damaged, shorten


class BackupDamaged(Damaged):
    """A backup is not whole, or not as it was written."""

    code = "backup_damaged"
    hint = "Nothing of it was used: bring back an older backup, or put the missing files back."

    def __init__(self, what: str, *, reason: str) -> None:
        super().__init__(f"{what} of the backup: {reason}")
        self.what, self.reason = what, reason


class CatalogLost(Damaged):
    """The catalog's file is gone, or empty, and it was not new."""

    code = "catalog_lost"
    hint = (
        "Make a vault of a backup, `holdfast reinstate BACKUP NEWDIR`, or bring back a copy of the "
        "vault: what a snapshot is, the catalog alone knows. Keep the packs, if there are any; "
        "see 'Check and repair'."
    )

    def __init__(self, what: str, *, has_packs: bool) -> None:
        # Without packs, what was stored was small, or nothing: the catalog itself held it.
        left = ": what it named is still there" if has_packs else ", and no packs lie beside it"
        super().__init__(f"the catalog of {what} is lost{left}")
        self.what = what


class ObjectDamaged(Damaged):
    """The bytes found do not hash to the object's name."""

    code = "object_damaged"

    def __init__(self, object_id: bytes, *, where: str) -> None:
        super().__init__(f"object {object_id.hex()[:16]} in {where} does not hash to its name")
        self.object_id, self.where = object_id, where


class ObjectMissing(Damaged):
    """A map names an object that no pack holds."""

    code = "object_missing"

    def __init__(self, object_id: bytes) -> None:
        super().__init__(f"object {object_id.hex()[:16]} is named but not stored")
        self.object_id = object_id


class PackDamaged(Damaged):
    """A pack's own index, or one of its blocks, cannot be read."""

    code = "pack_damaged"

    def __init__(self, pack: str, *, reason: str) -> None:
        super().__init__(f"pack {pack} is damaged: {reason}")
        self.pack, self.reason = pack, reason


class PackMissing(Damaged):
    """The catalog names a pack that is not in the blob store."""

    code = "pack_missing"

    def __init__(self, pack: str) -> None:
        super().__init__(f"pack {pack} is named in the catalog but not in the blob store")
        self.pack = pack


class RowDamaged(Damaged):
    """A row of the catalog is not what was written."""

    code = "row_damaged"

    def __init__(self, what: str, *, name: str) -> None:
        super().__init__(f"the catalog's row of {what} {shorten(name)} is not what was written")
        self.what, self.name = what, name


class PendingDamaged(RowDamaged):
    """What was written since the last snapshot is not what was written."""

    code = "pending_damaged"
    hint = (
        "Write it once more; or `repair` lets go of it, and what the last snapshot has is there "
        "again. A session or a memory it has from the row of that."
    )

    def __init__(self, plane: str, *, key: bytes) -> None:
        if not isinstance(key, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - so it is read
            key = str(key).encode("utf-8", "replace")
        # A key of the store is two texts with a NUL between them.
        name = key.replace(b"\0", b"/").decode("utf-8", "backslashreplace")
        super().__init__(f"{plane}, pending:", name=name)
        self.plane, self.key = plane, key

"""What is known of a directory since it was last looked at, and how it is kept.

It stands with the stat index, in the bytes that the index keeps for its caller: the map that holds
what was read, the rules by which it was scanned, and what a row cannot say: what is left out, and
what was in motion.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.engine.core.coverage import Omissions
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP
from holdfast.workspace.drafts import Identity
from holdfast.workspace.statindex import Folder, StatIndex


class _Meta(msgspec.Struct, array_like=True, frozen=True):
    """What is kept with the index."""

    root: bytes
    rules: bytes
    omitted: Omissions
    moving: Mapping[bytes, str] = {}
    lost: tuple[str, ...] = ()
    former: bytes = b""
    earlier: tuple[bytes, ...] = ()
    agreed: bytes = b""
    namespace: int = 0
    based: bytes = b""
    snapshot: str = ""
    missed: Mapping[Identity, bytes] = {}


class LastLook(msgspec.Struct, frozen=True):
    """What is known of a directory: its files' states, and the map that holds them."""

    index: StatIndex
    root: ObjectId
    rules: bytes
    """Stands for the rules by which it was scanned."""
    omitted: Omissions
    moving: Mapping[bytes, str] = {}
    """Files that were in motion when they were last read, with the reason."""
    lost: tuple[str, ...] = ()
    """Packs that were lost when all was read: what lay in them was stored anew, as far as it was
    here."""
    former: bytes = b""
    """The map that the index stood for before it was forgotten."""
    earlier: tuple[bytes, ...] = ()
    """Rules that a restore has taken away, and that hold on the way back until a snapshot is taken:
    what they exclude is nobody's change."""
    met: bytes = b""
    """The namespace's files when the directory last took in what was done to them; empty if that
    is what the directory was."""
    namespace: int = 0
    """Whose files those were; 0 if that is not known."""
    based: bytes = b""
    """The map that the directory was when both last agreed, where somebody else has captured it
    since this look; empty if it is the one that the index stands for."""
    snapshot: str = ""
    """The snapshot with which the directory was last captured, or led, as far as is known here."""
    missed: Mapping[Identity, bytes] = {}
    """What was there and was not captured since it moved, with the path at which it was last seen:
    no row knows it, and it is looked for until a look is left alone."""

    @property
    def base(self) -> ObjectId:
        """What the directory was when both last agreed."""
        if self.based:
            return ObjectId(self.based)
        return self.root if len(self.index) or not self.former else ObjectId(self.former)

    @property
    def agreed(self) -> ObjectId:
        """What the namespace's files were then."""
        return ObjectId(self.met) if self.met else self.base

    @classmethod
    def of(cls, index: StatIndex | None) -> "LastLook":
        """Returns what an index stands for; nothing, if there is none that can be read."""
        if index is None or not index.meta:
            return cls(StatIndex.empty(), EMPTY_MAP, b"", {})
        try:
            meta = msgspec.msgpack.decode(index.meta, type=_Meta)
        except msgspec.DecodeError:
            return cls(StatIndex.empty(), EMPTY_MAP, b"", {})
        return cls(
            index,
            ObjectId(meta.root),
            meta.rules,
            meta.omitted,
            meta.moving,
            meta.lost,
            meta.former,
            meta.earlier,
            meta.agreed,
            meta.namespace,
            meta.based,
            meta.snapshot,
            meta.missed,
        )

    def forgotten(self, lost: Sequence[str] | None = None) -> "LastLook":
        """Returns what makes the next look read every byte, as if nothing were known.

        `lost` are packs that are lost, where somebody looked.
        """
        former = self.based or (self.former if self.root == EMPTY_MAP else self.root)
        return self._emptied(
            lost=self.lost if lost is None else tuple(lost),
            former=former,
            met=self.met,
            namespace=self.namespace,
        )

    @classmethod
    def standing_on(cls, files: ObjectId, namespace: int) -> "LastLook":
        """Returns what counts a directory as these files of a namespace, changed by hand since."""
        nothing = msgspec.structs.replace(cls.of(None), namespace=namespace)
        return nothing.believing(files.hex(), files.hex())

    def believing(self, base: str, agreed: str, namespace: int | None = None) -> "LastLook":
        """Returns the same, of which the directory and its namespace's files were these maps."""
        return self._emptied(
            lost=self.lost,
            former=bytes.fromhex(base),
            met=bytes.fromhex(agreed),
            namespace=self.namespace if namespace is None else namespace,
        )

    def _emptied(
        self, *, lost: tuple[str, ...], former: bytes, met: bytes, namespace: int
    ) -> "LastLook":
        """Returns what is left of it where no file's state is known."""
        nothing = LastLook(
            StatIndex.empty(),
            EMPTY_MAP,
            b"",
            {},
            lost=lost,
            former=former,
            earlier=self.earlier,
            met=met,
            namespace=namespace,
            snapshot=self.snapshot,
        )
        return _written(nothing)

    def replacing(
        self,
        folders: Mapping[bytes, Folder | None],
        *,
        root: ObjectId,
        rules: bytes,
        omitted: Omissions,
        moving: Mapping[bytes, str],
        earlier: tuple[bytes, ...],
        met: bytes = b"",
        namespace: int | None = None,
        based: bytes = b"",
        snapshot: str | None = None,
        missed: Mapping[Identity, bytes] | None = None,
    ) -> "LastLook":
        """Returns the same with some folders, and what they stand for, changed."""
        now = msgspec.structs.replace(
            self,
            root=root,
            rules=rules,
            omitted=omitted,
            moving=moving,
            earlier=earlier,
            met=met,
            namespace=self.namespace if namespace is None else namespace,
            based=based,
            snapshot=self.snapshot if snapshot is None else snapshot,
            missed=self.missed if missed is None else missed,
        )
        if not folders and now == self:
            return self
        return _written(msgspec.structs.replace(now, former=b""), folders)

    def standing_at(
        self, snapshot: str, *, files: ObjectId | None = None, namespace: int | None = None
    ) -> "LastLook":
        """Returns the same, once the directory was captured with that snapshot, or led to it.

        `files` is what it held then, if that is another map than both sides agree on here: what
        the index says of the directory's files stays true of the map that it stands for.
        """
        is_here = files is None or (self.base, self.agreed) == (files, files)
        based, met = (self.based, self.met) if is_here else (files, b"")
        now = msgspec.structs.replace(
            self,
            met=met,
            namespace=self.namespace if namespace is None else namespace,
            based=based,
            snapshot=snapshot,
        )
        return _written(now)


def _written(look: LastLook, folders: Mapping[bytes, Folder | None] | None = None) -> LastLook:
    """Returns the same, with some folders changed, where the index keeps all of it."""
    meta = _Meta(
        look.root,
        look.rules,
        {path: found for path, found in look.omitted.items() if found},
        look.moving,
        look.lost,
        look.former,
        look.earlier,
        look.met,
        look.namespace,
        look.based,
        look.snapshot,
        look.missed,
    )
    index = look.index.replacing(folders or {}, meta=msgspec.msgpack.encode(meta))
    return msgspec.structs.replace(look, index=index)

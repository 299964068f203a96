"""New objects on their way into the vault: bytes first, name last.

Objects are collected, those that the tenant already has are left out, and the rest becomes
packs. A small batch is one pack inside the catalog, written in the very transaction that
names it. A larger one goes to the blob store before: announced in the catalog (so that the
collector knows what an interrupted writer leaves behind), put, and only then named.

    with Stage(context, tenant_id) as stage:
        ...                                 # add objects
        stage.seal()                        # all bytes are on disk, none is named
        with context.work() as transaction:
            stage.record(transaction)       # named, if the transaction commits

A batch is used once. Where it ends with an error, or was never recorded, the packs that it
announced are withdrawn again, also if that is only found out when a request has its answer.
`planes/unit.py` begins anew if `record` finds that this has to be.

A batch that outgrows memory spills: full packs are compressed and written by threads of their
own while the caller reads on. What they did is known when `seal` returns, or raises. A batch
that is `only_shown`, and never stored, spills what the vault lacks to a file without a name.
Wherever its objects went, `source` reads them.
"""

from collections import ChainMap, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Final, Self, cast

import msgspec

from holdfast.blobs.port import BlobStore
from holdfast.catalog.packs import Located
from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import check_free, check_room, check_tenant
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.spilling import Fresh, Scratch, Spill
from holdfast.engine.objects.trust import BATCH, find_unsound
from holdfast.ids import ObjectId, PackId, PackName, TenantId, object_id_of
from holdfast.model.basics import Placement, Root
from holdfast.packs import PACK_TARGET_BYTES, ObjectKind, Pack, pack_all
from holdfast.tree import Node, decode_node

_SMALL_BYTES: Final = 16 << 10
"""What takes 0.1 ms to compress, and less to look for beside the head than by itself."""

SPILLERS: Final = 2
"""Threads that compress and write packs, and packs in their hands: 64 MB of plain bytes more."""


class Withdrawn(Exception):
    """Something that was relied on is not as it was: start again, from an empty batch on.

    Never leaves the engine: after a few attempts the caller is told `Busy`.
    """

    def __init__(self, message: str, *, batch: "Stage | None" = None) -> None:
        super().__init__(message)
        self.batch = batch
        """The one that has to be made again, if it is one in particular."""


class _Announced(msgspec.Struct, frozen=True):
    """A pack whose bytes are in the blob store and whose objects are not yet named."""

    pack_id: PackId
    name: PackName
    placements: Sequence[Placement]


class Stage:
    """One batch of new objects of one tenant."""

    def __init__(
        self,
        context: Context,
        tenant_id: TenantId,
        *,
        only_shown: bool = False,
        counts: bool = True,
    ) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self.counts = counts
        """Whether a full quota refuses it: not, where it takes the place of what counts already."""
        if not only_shown:
            context.begin_anew()  # Other threads may have to announce packs.
        self._scratch = Scratch() if only_shown else None
        self._start()

    def _start(self) -> None:
        self._held: Fresh = {}
        """What is in memory, to be read."""
        self._fresh: Fresh = {}
        """What of that is neither in a pack nor known to be in the vault yet."""
        self._fresh_bytes = 0
        self._settled: set[ObjectId] = set()
        self._reused: list[ObjectId] = []
        self._renewed: set[ObjectId] = set()
        self._joined: tuple[int, int | None] | None = None
        self._announced: list[_Announced] = []
        self._placed: dict[ObjectId, Located] = {}
        self._inline: list[Pack] = []
        self._is_asked = self._is_recorded = False
        self._spilling: deque[Spill] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self._end_spills()
        if self._scratch is not None:
            self._scratch.close()
        if kind is None and self._is_recorded:
            if self._announced:
                self._context.if_undone(self._withdraw)
        # A process that dies cannot tidy up, and a test that plays dead must not either.
        elif kind is None or issubclass(kind, Exception):
            self._withdraw()

    def begin_again(self) -> None:
        """Makes ready for the same work in another transaction, as the one before was undone.

        Packs that were put in the blob store stay there, to be named by that one; unless it was
        relied on what the transaction had locked.
        """
        if self._joined is not None or not self._announced:
            self._end_spills()
            self._withdraw()
            self._start()
        self._is_asked = self._is_recorded = False

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        """Takes an object in, and returns its name."""
        object_id = object_id_of(data)
        self._add(object_id, data, kind)
        return object_id

    def renew(self, object_id: ObjectId, data: bytes, kind: ObjectKind) -> None:
        """Takes an object in that is to be stored anew, whatever is there of it."""
        self._renewed.add(object_id)
        self._add(object_id, data, kind)

    def add_nodes(self, nodes: dict[ObjectId, bytes]) -> None:
        """Takes new map nodes in."""
        for object_id, data in nodes.items():
            self._add(object_id, data, ObjectKind.NODE)

    def reuse(self, object_ids: Iterable[ObjectId]) -> None:
        """Refers to objects that are there already: `record` sees to it that they stay."""
        self._reused += object_ids

    def holds(self, object_id: ObjectId) -> bool:
        """Says whether an object was taken in: it is there once what is staged is."""
        return object_id in self._held or object_id in self._settled

    def spill(self) -> None:
        """Moves what is held in memory elsewhere once that would fill a pack."""
        if self._fresh_bytes < PACK_TARGET_BYTES:
            return
        if len(self._spilling) == SPILLERS:
            self._join()
        taken = self._fresh
        missing = self._take_missing()
        self._let_go(taken.keys() - missing.keys())
        if self._scratch is not None:
            self._scratch.put(missing)
            self._let_go(missing)
        else:
            self._spilling.append(Spill(missing, self._announce))

    @property
    def is_empty(self) -> bool:
        """Says whether there is nothing to be stored or named."""
        return not (self._fresh or self._reused or self.has_spilled or self._inline)

    @property
    def has_spilled(self) -> bool:
        """Says whether part of the batch is no longer in memory."""
        return bool(self._spilling or self._announced or (self._scratch and self._scratch.places))

    def pour_into(self, other: "Stage") -> None:
        """Hands what is held in memory to another batch as well."""
        for object_id, (data, kind) in self._fresh.items():
            other._add(object_id, data, kind)  # noqa: SLF001 - of the same class

    def source(self, objects: "Objects | StagedObjects") -> "StagedObjects":
        """Returns objects to read that include this batch before it is stored."""
        return StagedObjects(objects, held=self._held, stage=self)

    @property
    def has_settled(self) -> bool:
        """Whether there are objects of the batch that are no longer in memory."""
        return bool(self._settled)

    def read(self, object_ids: Iterable[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns those objects of the batch that are no longer in memory."""
        gone = [i for i in object_ids if i in self._settled]
        if not gone:
            return {}
        found = {} if self._scratch is None else self._scratch.read(gone)
        objects = Objects(self._context, self._tenant_id)
        found |= {i: objects.read(self._placed[i]) for i in gone if i in self._placed}
        # Asked anew: they may have come into the vault after a caller's transaction began.
        return found | objects.get_many([i for i in gone if i not in found])

    def seal(self, transaction: Transaction | None = None) -> None:
        """Puts on disk all that must be there before `record`.

        Inside a write transaction everything goes into the catalog: no second transaction
        could announce a pack meanwhile.
        """
        while self._spilling:
            self._join()
        missing = self._take_missing(transaction)
        for pack in pack_all(missing):
            if transaction is not None or len(pack.data) <= self._context.limits.inline_bytes:
                self._inline.append(pack)
            else:
                self._announce(pack)

    @property
    def is_small(self) -> bool:
        """Whether it may be sealed in the transaction that names it: nobody waits long for that."""
        most = min(_SMALL_BYTES, self._context.limits.inline_bytes)
        return self._fresh_bytes <= most and not self._spilling

    def join_ahead(self, transaction: Transaction) -> bool:
        """Asks what `seal` and `record` will ask in it, if they will name something."""
        self._is_asked = bool(self._fresh or self._inline or self._announced or self._reused)
        if self._is_asked:
            transaction.ahead(Transaction.join_tenant, self._tenant_id)
        if self._fresh:
            # Behind the epoch: from there on, the collector takes nothing that is found.
            transaction.ahead(Transaction.stamps_of, self._tenant_id, list(self._fresh))
        return self._is_asked

    def record(self, transaction: Transaction) -> tuple[int, int | None] | None:
        """Names the batch; raises `Withdrawn` if the collector got in between.

        Returns the epoch and the tenant's quota, if it had to ask for them.
        """
        tenant_id, self._is_recorded = self._tenant_id, True
        if not (self._inline or self._announced or self._reused):
            return self._joined
        epoch, quota = self._joined or transaction.join_tenant(tenant_id)
        if self._reused:
            reused = list(dict.fromkeys(self._reused))
            touched = transaction.touch_objects(tenant_id, reused, epoch=epoch)
            if touched != len(reused):
                message = "an object was collected while it was to be used again"
                raise Withdrawn(message, batch=self)
        for inline in self._inline:
            size = len(inline.data)
            check_free(size, limits=self._context.limits, places=self._places)
            if self.counts:
                check_tenant(transaction, tenant_id, needed_bytes=size, quota=quota)
            name, now = self._context.new_pack_name(), self._context.clock()
            transaction.add_inline_pack(
                tenant_id, name, inline.data, plain_bytes=inline.plain_bytes, now=now
            )
            self._name(transaction, name, inline.placements, epoch)
        for pack in self._announced:
            if not transaction.finish_pack(pack.pack_id):
                raise Withdrawn("a pack was collected before it was named", batch=self)
            self._name(transaction, pack.pack_id, pack.placements, epoch)
        return epoch, quota

    def _add(self, object_id: ObjectId, data: bytes, kind: ObjectKind) -> None:
        if object_id not in self._fresh and object_id not in self._settled:
            self._held[object_id] = self._fresh[object_id] = (data, kind)
            self._fresh_bytes += len(data)

    def _join(self) -> None:
        """Waits for the oldest packs under way; what is in them leaves the memory."""
        spill = self._spilling.popleft()
        spill.join()
        self._let_go(spill.objects)

    def _let_go(self, object_ids: Iterable[ObjectId]) -> None:
        for object_id in object_ids:
            self._held.pop(object_id, None)

    def _take_missing(self, transaction: Transaction | None = None) -> Fresh:
        fresh, self._fresh, self._fresh_bytes = self._fresh, {}, 0
        if not fresh:
            return fresh
        if transaction is not None:
            known = self._join_tenant(transaction, fresh)
        else:
            with self._context.catalog.ask() as asking:
                known = asking.existing(self._tenant_id, list(fresh))
            known -= self._find_unsound(fresh, known)
            self._reused += known
        self._settled |= fresh.keys()
        return {key: value for key, value in fresh.items() if key not in known}

    def _join_tenant(self, transaction: Transaction, fresh: Fresh) -> set[ObjectId]:
        """Returns which objects are there; those that need it are left to be touched.

        In the transaction that will name them, one that has the epoch's stamp is safe.
        """
        if not self._is_asked:
            transaction.ahead(Transaction.join_tenant, self._tenant_id)
        stamps = transaction.stamps_of(self._tenant_id, list(fresh))
        self._joined = transaction.join_tenant(self._tenant_id)
        known = stamps.keys() - self._find_unsound(fresh, stamps.keys(), transaction)
        self._reused += [name for name in known if stamps[name] < self._joined[0]]
        return known

    def _find_unsound(
        self, fresh: Fresh, known: Collection[ObjectId], transaction: Transaction | None = None
    ) -> set[ObjectId]:
        """Returns which objects have to be stored anew although they have a name."""
        context, unsound = self._context, set[ObjectId]()
        renewed = self._renewed.intersection(known)
        compared = [object_id for object_id in known if object_id not in renewed]
        for at in range(0, len(compared), BATCH):
            held = {object_id: fresh[object_id][0] for object_id in compared[at : at + BATCH]}
            located = self._locate(held, transaction)
            if transaction is not None and context.blobs.is_remote:
                # Nobody waits for a bucket while others wait for this: a few more bytes beside the
                # rows are compared with the next time.
                away = {i for i in held if i in located and located[i].block is None}
                renewed |= away
                held = {i: data for i, data in held.items() if i not in away}
            unsound |= find_unsound(context, located, held)
        if unsound:
            import logging  # noqa: PLC0415 - needed by few, and no small thing to load

            # A sentence: where nobody reads a log, it stands on a terminal as it is.
            logging.getLogger(__name__).warning(
                "%d %s stored anew; `holdfast verify` says what else is damaged.",
                len(unsound),
                "object whose stored copy was damaged was"
                if len(unsound) == 1
                else "objects whose stored copies were damaged were",
            )
        self._renewed |= renewed | unsound
        return renewed | unsound

    def _locate(
        self, object_ids: Iterable[ObjectId], transaction: Transaction | None
    ) -> dict[ObjectId, Located]:
        if transaction is not None:
            return transaction.locate(self._tenant_id, list(object_ids))
        # Compared when it has ended: of a bucket it is requests.
        with self._context.catalog.ask() as asking:
            return asking.locate(self._tenant_id, list(object_ids))

    def _name(
        self,
        transaction: Transaction,
        pack: PackId | PackName,
        placements: Sequence[Placement],
        epoch: int,
    ) -> None:
        """Says where objects are; a copy that went bad is no longer looked for where it was."""
        renewed = [place for place in placements if place.object_id in self._renewed]
        others = placements
        if renewed:
            pack = pack if isinstance(pack, int) else transaction.get_pack_id(pack)
            transaction.relocate_objects(self._tenant_id, pack, renewed, epoch=epoch)
            others = [place for place in placements if place.object_id not in self._renewed]
        transaction.add_objects(self._tenant_id, pack, others, epoch=epoch)

    def _announce(self, pack: Pack) -> None:
        context = self._context
        name, writer = context.new_pack_name(), context.catalog.writer
        with context.catalog.write() as transaction:
            self._check_room(transaction, len(pack.data))
            pack_id = transaction.begin_pack(
                self._tenant_id,
                name,
                writer=writer,
                size_bytes=len(pack.data),
                plain_bytes=pack.plain_bytes,
                now=context.clock(),
            )
        self._announced.append(_Announced(pack_id, name, pack.placements))
        context.blobs.put(name, pack.data)
        for place in pack.placements:
            self._placed[place.object_id] = Located(place, pack_id, name, None)

    def _end_spills(self) -> None:
        while self._spilling:
            self._spilling.popleft().end()

    def _withdraw(self) -> None:
        for pack in self._announced:
            with self._context.catalog.write() as transaction:
                is_ours = transaction.withdraw_pack(pack.pack_id)
            if is_ours:
                self._context.blobs.delete(pack.name)

    def _check_room(self, transaction: Transaction, needed_bytes: int) -> None:
        check_room(
            transaction,
            self._tenant_id,
            needed_bytes=needed_bytes,
            limits=self._context.limits,
            places=self._places,
            counts=self.counts,
        )

    @property
    def _places(self) -> tuple[Catalog | BlobStore, ...]:
        return self._context.catalog, self._context.blobs


class StagedObjects:
    """Objects to read: those of a batch that is not stored yet, then those of another or stored."""

    def __init__(
        self,
        objects: "Objects | StagedObjects",
        *,
        held: Mapping[ObjectId, tuple[bytes, ObjectKind]] = MappingProxyType({}),
        stage: Stage | None = None,
    ) -> None:
        self._objects = objects
        self._held = held
        self._stage = stage

    @property
    def is_bound(self) -> bool:
        """Says whether they belong to a transaction, and so to its thread."""
        return self._objects.is_bound

    def unbound(self) -> "StagedObjects":
        """Returns the same objects, without the transaction that they were looked up in."""
        return StagedObjects(self._objects.unbound(), held=self._held, stage=self._stage)

    def ahead(self, object_ids: Sequence[ObjectId]) -> "StagedObjects":
        """Returns the same objects, of which these will be read soon, in this order."""
        stored = [i for i in object_ids if i not in self._held]
        return StagedObjects(self._objects.ahead(stored), held=self._held, stage=self._stage)

    def with_nodes(self, nodes: dict[ObjectId, bytes]) -> "StagedObjects":
        """Returns the same objects, and these nodes."""
        more = {object_id: (data, ObjectKind.NODE) for object_id, data in nodes.items()}
        # Looked up in both, not copied: the batch goes on.
        both = ChainMap(more, cast("dict[ObjectId, tuple[bytes, ObjectKind]]", self._held))
        return StagedObjects(self._objects, held=both, stage=self._stage)

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        """Returns map nodes in the order asked for."""
        mine = self._mine(ids)
        if not mine:
            return self._objects.get_nodes(ids)
        stored = [i for i in ids if i not in mine]
        nodes = dict(zip(stored, self._objects.get_nodes(stored), strict=True)) if stored else {}
        return [nodes[i] if i in nodes else decode_node(mine[i]) for i in ids]

    def get_root(self, root_id: ObjectId) -> Root:
        """Returns the roots of all planes that one root names."""
        mine = self._mine([root_id])
        return Root.decode(mine[root_id]) if mine else self._objects.get_root(root_id)

    def get_many(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns the bytes of each object."""
        mine = self._mine(object_ids)
        return mine | self._objects.get_many([i for i in object_ids if i not in mine])

    def check_stored(self, object_ids: Sequence[ObjectId]) -> None:
        """Raises for an object that nobody could read from where it is stored."""
        mine = self._mine(object_ids)
        self._objects.check_stored([i for i in object_ids if i not in mine])

    def _mine(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        """Returns those that are of the batch, wherever they went."""
        held, stage = self._held, self._stage
        found = {i: held[i][0] for i in object_ids if i in held} if held else {}
        if stage is None or not stage.has_settled or len(found) == len(object_ids):
            return found
        return found | stage.read(i for i in object_ids if i not in found)
